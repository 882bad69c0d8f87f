//! The table of hostile heads, sent through: the server behind sees exactly the requests that this one has taken for such, each well-formed, or nothing.

use super::forwarding;
use super::odd::{BookRef, Odd};
use crate::simulated::rig::{MS, RigPlan, patient};
use corelane::testing::{Faults, World};
use corelane_http::http1::{Body, Limits, Part, Requests, Scratch, Step};

/// What is sent, and its name.
fn rows() -> Vec<(String, Vec<u8>)> {
    let table = include_str!("../../../../../crates/wire/tests/data/http1-heads.tsv");
    let cells = |line: &str| line.split('\t').map(str::to_owned).collect::<Vec<_>>();
    let lines = table.lines().filter(|line| !line.starts_with('#')).skip(1).map(cells);
    lines.map(|cells| (cells[1].clone(), unescaped(&repeated(&cells[2])))).collect()
}

/// `{a*3}` as `aaa`.
fn repeated(text: &str) -> String {
    let Some((before, rest)) = text.split_once('{') else { return text.to_owned() };
    let (inside, after) = rest.split_once('}').unwrap();
    let (what, count) = inside.rsplit_once('*').unwrap();
    before.to_owned() + &what.repeat(count.parse().unwrap()) + &repeated(after)
}

fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let (byte, length) = match after.as_bytes()[0] {
            b'r' => (b'\r', 1),
            b'n' => (b'\n', 1),
            b't' => (b'\t', 1),
            _ => (u8::from_str_radix(&after[1..3], 16).unwrap(), 3),
        };
        bytes.push(byte);
        rest = &after[length..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// The contents of the requests that `bytes` come to, without one whose content is not whole.
fn taken(mut bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let (mut all, mut reader) = (Vec::new(), Requests::new(Limits::default()));
    loop {
        let mut scratch = Scratch::new();
        let (head, length, is_taken) = match reader.next(bytes, &mut scratch) {
            Ok(Step::Request { head, bytes }) => {
                (head, bytes, !matches!(head.method.name(), "CONNECT" | "TRACE") && !head.target.is_https)
            }
            Ok(Step::Refused { head, bytes, .. }) => (head, bytes, false),
            Ok(Step::More(0)) | Err(_) => return all,
            Ok(Step::More(drop)) => {
                bytes = &bytes[drop..];
                continue;
            }
        };
        let (method, persists) = (head.method.name().to_owned(), head.persists);
        let Ok(mut body) = Body::new(head.framing, 1 << 30) else { return all };
        bytes = &bytes[length..];
        let mut content = Vec::new();
        loop {
            match body.next(bytes) {
                Ok(Part::Data(range)) => {
                    content.extend_from_slice(&bytes[range.clone()]);
                    bytes = &bytes[range.end..];
                }
                Ok(Part::Trailers(range)) => bytes = &bytes[range.end..],
                Ok(Part::End(drop)) => {
                    bytes = &bytes[drop..];
                    break;
                }
                Ok(Part::More(_)) | Err(_) => return all,
            }
        }
        if is_taken {
            all.push((method, content));
        }
        if !persists {
            return all;
        }
    }
}

#[test]
fn the_server_behind_sees_well_formed_requests_or_nothing() {
    let (rows, book) = (rows(), BookRef::default());
    assert!(rows.len() > 200);
    let world = World::new(1, Faults::none());
    let plan = RigPlan::lanes(1);
    let mut rig = forwarding(&world, &plan, (patient(), patient()), |forward| forward.kept(0), |_| Odd::new(book.clone(), 1));
    // Empty lines are counted as far as they come together, and are no request in any case.
    for (what, sent) in rows.into_iter().filter(|(what, _)| what != "five empty lines before") {
        for cut in [sent.len(), sent.len() / 2, 1] {
            let peer = rig.connect(1);
            rig.wait(MS);
            let mut rest = &sent[..];
            while !rest.is_empty() && peer.status() == crate::simulated::rig::Status::Open {
                // Whoever is sent byte by byte is sent so at the end alone: heads are long.
                let piece = if cut == 1 {
                    rest.len().min(if rest.len() > 100 { rest.len() - 100 } else { 1 })
                } else {
                    rest.len().min(cut)
                };
                let took = peer.send(&rest[..piece]);
                rest = &rest[took..];
                rig.wait(MS / 4);
            }
            rig.wait(20 * MS);
            peer.reset();
            rig.wait(5 * MS);
            let mut seen = book.borrow_mut();
            let requests: Vec<_> = seen.requests.drain(..).map(|seen| (seen.method, seen.content)).collect();
            assert_eq!(requests, taken(&sent), "{what}");
            // Content that was refused in its middle is never to be taken for whole.
            seen.halves.clear();
        }
    }
    rig.close(&mut crate::simulated::rig::Nobody);
}
