//! One answer for each request, whatever its application says behind it; and the last one before another process serves says that it is.

use super::rig::{MS, Peer, Rig, RigPlan, Status, patient};
use corelane::service::{ConnectionId, Refused};
use corelane::testing::{Faults, Nobody, World};
use corelane::{Cx, Silent};
use corelane_http::http1::Status as Code;
use corelane_http::{Application, Exchange, First, Goes, Handled, Held, Http, Parts, Produced, Reply, Request};
use std::cell::Cell;
use std::rc::Rc;

/// `/said` answers, and then fails. `/both` answers, and wants the content as well. `/begun` begins an answer, and fails. `/hold` is held, `/wait` an exchange, until `/release`. `/parts` comes in parts.
#[derive(Default)]
struct Odd {
    held: Vec<Held>,
    waiting: Vec<ConnectionId>,
    is_released: bool,
}

struct Waits;

impl Exchange<Odd> for Waits {
    fn go_on(&mut self, odd: &mut Odd, cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        if odd.is_released {
            return reply.text("waited");
        }
        odd.waiting.push(cx.id());
        Ok(Goes::Wait)
    }

    fn produce(&mut self, _odd: &mut Odd, _cx: &mut Cx<'_>, _parts: &mut Parts<'_>) -> Produced {
        unreachable!("it is answered whole")
    }
}

struct InParts;

impl Exchange<Odd> for InParts {
    fn go_on(&mut self, _odd: &mut Odd, _cx: &mut Cx<'_>, _reply: Reply<'_>) -> Result<Goes, Refused> {
        unreachable!("its answer has begun")
    }

    fn produce(&mut self, _odd: &mut Odd, _cx: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        // Refused memory, it is asked again.
        let _ = parts.write(b"parts");
        Produced::More
    }
}

impl Application for Odd {
    type Talk = Silent;

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        match request.path() {
            "/said" => reply.text::<Handled<Self>>("said").and(Err(Refused::Memory)),
            "/both" => reply.text::<Handled<Self>>("both").map(|_| Handled::Collect(100)),
            "/begun" => reply.answer(Code::OK).begin(None).and(Err(Refused::Memory)),
            "/hold" => {
                let (held, handled) = reply.hold(0, None)?;
                self.held.push(held);
                Ok(handled)
            }
            "/wait" => Ok((Waits, First::Wait).into()),
            "/parts" => Ok((InParts, First::Produce(reply.answer(Code::OK).begin(Some(5))?)).into()),
            "/release" => {
                self.is_released = true;
                self.held.drain(..).try_for_each(|held| held.answer(cx, Code::OK).bytes::<()>(b"held"))?;
                self.waiting.drain(..).for_each(|id| cx.resume(id));
                reply.text("released")
            }
            _ => reply.text("other"),
        }
    }
}

fn rig() -> Rig {
    Rig::serving(&World::new(1, Faults::none()), &RigPlan::lanes(1), patient(), |_| Http::new(Odd::default()))
}

fn get(paths: &[&str]) -> String {
    paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).collect()
}

fn client(rig: &mut Rig, number: usize, paths: &[&str]) -> Peer {
    let peer = rig.connect(number);
    rig.wait(MS);
    peer.send(get(paths).as_bytes());
    rig.wait(5 * MS);
    peer
}

#[test]
fn who_has_answered_has_answered_once_whatever_it_says_behind_that() {
    let mut rig = rig();
    let peer = client(&mut rig, 1, &["/said", "/both", "/said", "/other"]);
    let heard = String::from_utf8(peer.read(usize::MAX)).unwrap();
    assert_eq!((heard.matches("HTTP/1.1 200 OK").count(), heard.matches("HTTP/1.1 ").count()), (4, 4), "{heard}");
    assert!(heard.ends_with("other"), "{heard}");
    let broken = client(&mut rig, 2, &["/begun", "/other"]);
    let heard = String::from_utf8(broken.read(usize::MAX)).unwrap();
    assert!(heard.matches("HTTP/1.1 ").count() <= 1, "{heard}");
    assert!(matches!(broken.status(), Status::Failed(_)), "{:?}", broken.status());
    assert_eq!(rig.named("answers_cut_short"), 1);
    peer.close();
    rig.wait(5 * MS);
    rig.close(&mut Nobody);
}

#[test]
fn an_answer_that_is_awaited_as_another_process_takes_over_says_that_it_is_the_last() {
    let mut rig = rig();
    let asked = [&["/hold"][..], &["/wait"], &["/hold", "/hold"]];
    let [held, waits, two] = [0, 1, 2].map(|number| client(&mut rig, 1 + number, asked[number]));
    rig.hand_over();
    rig.wait(10 * MS);
    let release = client(&mut rig, 9, &["/release"]);
    let heard = [held, waits, two, release].map(|peer| {
        let heard = String::from_utf8(peer.read(usize::MAX)).unwrap();
        peer.close();
        heard
    });
    let says = |heard: &str| heard.matches("Connection: close").count();
    assert_eq!((says(&heard[0]), says(&heard[1])), (1, 1), "{heard:?}");
    assert!(heard[0].ends_with("held") && heard[1].ends_with("waited"), "{heard:?}");
    assert_eq!((says(&heard[2]), heard[2].matches("held").count()), (0, 2), "the first of two is not the last: {heard:?}");
    rig.wait(5 * MS);
    rig.close(&mut Nobody);
}

/// Its head was put together before another process took over.
#[test]
fn an_answer_that_waits_for_memory_as_another_process_takes_over_says_that_it_is_the_last() {
    let old = "GET /other HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    for asked in [get(&["/other"]), old.into(), get(&["/parts"]), get(&["/other", "/other"])] {
        let mut rig = rig();
        let is_refused = Rc::new(Cell::new(false));
        let refuses = is_refused.clone();
        rig.arenas[0].refuse_when(move || refuses.get());
        let peer = rig.connect(1);
        rig.wait(MS);
        is_refused.set(true);
        assert_eq!(peer.send(asked.as_bytes()), asked.len());
        rig.wait(5 * MS);
        assert_eq!(rig.named("answers_kept"), 1, "{asked}");
        rig.hand_over();
        rig.wait(5 * MS);
        is_refused.set(false);
        rig.wait(1_000 * MS);
        let heard = String::from_utf8(peer.read(usize::MAX)).unwrap();
        let (lines, content) = heard.rsplit_once("\r\n\r\n").unwrap();
        let says = lines.matches("\r\nConnection: close").count();
        assert!(says == 1 && !lines.contains("keep-alive"), "{asked}{heard}");
        assert!(content == "other" || content == "parts", "{asked}{heard}");
        peer.close();
        rig.wait(5 * MS);
        rig.close(&mut Nobody);
    }
}
