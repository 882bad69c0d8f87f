//! Requests whose content is on its way: clients that break off or are slow, and servers that read none of it. And answers in crumbs, for a client that reads none.

use super::strange::Case;
use super::{BEHIND, FOR_EVER, behind_at};
use crate::simulated::rig::{MS, Nobody, Peer, Rig, RigPlan, S, Status, address, at, patient};
use corelane::admin::watch::{LaneCounter, ServiceCounter};
use corelane::service::{Ending, Input, Output};
use corelane::testing::{Faults, World};
use corelane::{Cx, Next, Peer as From, Silent, StreamService};
use corelane_http::{Forward, Http};
use std::cell::Cell;
use std::rc::Rc;

/// Its server must neither take the half for the whole, nor wait for the rest.
#[test]
fn a_client_that_leaves_amid_its_content_takes_the_way_to_its_server_along() {
    let mut case = Case::new(1, |forward| forward);
    for framed in ["Content-Length: 20\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"] {
        for leaves in [Peer::reset, Peer::close, Peer::finish] {
            let peer = case.rig.connect(1);
            case.rig.wait(MS);
            let sent = format!("PUT /whole/1 HTTP/1.1\r\nHost: a\r\n{framed}");
            assert_eq!(peer.send(sent.as_bytes()), sent.len());
            case.rig.wait(20 * MS);
            assert_eq!(case.rig.connections(), 3, "a client, a link, and its other end");
            leaves(&peer);
            case.rig.wait(20 * MS);
            peer.close();
            case.rig.wait(20 * MS);
            assert_eq!((case.rig.connections(), case.seen().len()), (0, 0), "{framed}");
            let halves = std::mem::take(&mut case.book.borrow_mut().halves);
            let [(half, ending)] = &halves[..] else { panic!("{halves:?}") };
            assert!(half.ends_with(framed.split_at(framed.find("\r\n\r\n").unwrap()).1.as_bytes()), "{half:?}");
            assert_eq!(*ending, Ending::Error, "it is told so by a reset: {framed}");
        }
    }
    case.close();
}

#[test]
fn a_slow_client_is_no_fault_of_its_server() {
    let begun = |framed: &str| format!("PUT /whole/1 HTTP/1.1\r\nHost: a\r\n{framed}");
    let halves = [("Content-Length: 4\r\n\r\n", "half"), ("Content-Length: 8\r\n\r\nhalf", "half")];
    // As long as it may be slow, it is answered in the end.
    let mut case = Case::new(2, |forward| forward.timeout(2 * S));
    for (first, second) in halves {
        let peer = case.rig.connect(1);
        case.rig.wait(MS);
        peer.send(begun(first).as_bytes());
        case.rig.wait(9 * S);
        assert!(peer.read(usize::MAX).is_empty() && peer.status() == Status::Open, "{first}");
        peer.send(second.as_bytes());
        assert!(case.hear(&peer).starts_with("HTTP/1.1 200 "), "{first}");
        peer.close();
        case.rig.wait(5 * MS);
    }
    case.close();
    // Where it is too slow, it is told that it is at fault itself.
    let mut case = Case::with(2, patient().read_limit(5 * S), |forward| forward.timeout(2 * S));
    for (first, _) in halves {
        let peer = case.rig.connect(1);
        case.rig.wait(MS);
        peer.send(begun(first).as_bytes());
        case.rig.wait(9 * S);
        let told = case.hear(&peer);
        assert!(
            told.starts_with("HTTP/1.1 408 ") && told.ends_with("content of the request did not come whole in time\n"),
            "{told}"
        );
        assert_eq!(case.rig.named("forwards_timed_out"), 0);
        peer.close();
        case.rig.wait(5 * MS);
    }
    case.close();
}

/// Sends until nothing more is taken; returns how many bytes were.
fn fill(case: &mut Case, peer: &Peer) -> usize {
    let (piece, mut sent, mut stands) = (vec![b'x'; 64 << 10], 0, 0);
    while stands < 20 && sent < 20_000_000 {
        let took = peer.send(&piece);
        (sent, stands) = (sent + took, if took == 0 { stands + 1 } else { 0 });
        case.rig.wait(MS);
    }
    sent
}

#[test]
fn a_server_that_reads_nothing_stops_its_client() {
    let mut case = Case::with(3, patient().send_limit(10 * S), |forward| forward.timeout(FOR_EVER));
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    peer.send(b"PUT /deaf/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 90000000\r\n\r\n");
    let sent = fill(&mut case, &peer);
    let held = case.rig.lane_count(LaneCounter::MemoryUsed);
    assert!(sent < 4_000_000 && held < 1 << 20, "{sent} bytes were taken, and {held} are held");
    peer.reset();
    // Nobody is read from, so nobody is heard to leave: the system is asked of the client, and then of the link at its other end.
    case.rig.wait(5 * S);
    assert_eq!((case.rig.connections(), case.rig.lane_count(LaneCounter::MemoryUsed)), (0, 0));
    assert_eq!(case.rig.count(ServiceCounter::SendLimitHits), 0);
    case.close();
}

#[test]
fn a_server_that_reads_nothing_is_late() {
    let mut case = Case::with(3, patient().send_limit(10 * S), |forward| forward.timeout(FOR_EVER));
    let peer = case.rig.connect(1);
    case.rig.wait(MS);
    peer.send(b"PUT /deaf/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 90000000\r\n\r\n");
    fill(&mut case, &peer);
    case.rig.wait(15 * S);
    let told = case.hear(&peer);
    assert!(told.starts_with("HTTP/1.1 504 ") && told.ends_with("does not answer in time\n"), "{told}");
    assert_eq!(["forwards_timed_out", "forwards_refused"].map(|counter| case.rig.named(counter)), [1, 0]);
    peer.reset();
    case.rig.wait(5 * S);
    case.close();
}

/// Answers with chunks of a byte each, without end, and counts them.
struct Crumbs(Rc<Cell<usize>>);

const CRUMBS: usize = 1_000;

impl StreamService for Crumbs {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _: &mut Cx<'_>, _: &From) {}

    fn receive(&mut self, _: &mut Cx<'_>, (): &mut (), input: &mut Input, output: &mut Output) -> Next {
        input.skip(usize::MAX);
        output.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        output.notify_drained();
        Next::Continue
    }

    fn drained(&mut self, _: &mut Cx<'_>, (): &mut (), output: &mut Output) -> Next {
        output.write(&b"1\r\nx\r\n".repeat(CRUMBS)).unwrap();
        output.notify_drained();
        self.0.set(self.0.get() + CRUMBS);
        Next::Continue
    }
}

/// Each crumb is a piece, and may keep a block of memory that is many times as long.
#[test]
fn crumbs_for_a_client_that_reads_nothing_stop_their_server() {
    let (world, count) = (World::new(4, Faults::none()), Rc::new(Cell::new(0)));
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        roster.serve(address(), patient(), Http::new(Forward::new(&behind_at(BEHIND), roster.lane()).timeout(FOR_EVER)));
        roster.serve(at(BEHIND), patient(), Crumbs(count.clone()));
    });
    let peer = rig.connect(1);
    rig.wait(MS);
    peer.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    rig.wait(2 * S);
    let said = count.get();
    rig.wait(2 * S);
    assert_eq!(count.get(), said, "all stands still");
    // What waits is what has room in outputs, inputs and the network.
    assert!((CRUMBS..120_000).contains(&said), "{said} crumbs were taken for a client that reads none");
    let heard = peer.read(usize::MAX);
    rig.wait(20 * MS);
    assert!(heard.starts_with(b"HTTP/1.1 200 OK\r\n") && count.get() > said, "it goes on where some is read");
    peer.reset();
    rig.wait(5 * MS);
    assert_eq!((rig.connections(), rig.lane_count(LaneCounter::MemoryUsed)), (0, 0));
    rig.close(&mut Nobody);
}
