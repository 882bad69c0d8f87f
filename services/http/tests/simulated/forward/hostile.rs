//! The table of hostile heads, sent through: the server behind sees exactly the requests that this one has taken for such, each well-formed, or nothing.

use super::forwarding;
use super::odd::{BookRef, Odd};
use crate::simulated::rig::{MS, RigPlan, patient};
use crate::table::{rows, taken};
use corelane::testing::{Faults, World};

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
            let meant: Vec<_> = taken(&sent).into_iter().map(|meant| (meant.method, meant.content)).collect();
            assert_eq!(requests, meant, "{what}");
            // Content that was refused in its middle is never to be taken for whole.
            seen.halves.clear();
        }
    }
    rig.close(&mut crate::simulated::rig::Nobody);
}
