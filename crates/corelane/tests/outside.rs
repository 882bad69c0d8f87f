//! The world outside speaks to services on lanes: each question has one outcome, and whoever is gone says so.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

use corelane::service::{Asks, Call, Origin, Silence};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, StreamService};

type Talk = Asks<u64, (usize, u64)>;

/// Says on which lane it was asked, and the next number.
struct Successor;

impl StreamService for Successor {
    type Talk = Talk;
    type Session = ();

    fn open(&mut self, _: &mut Cx<'_, Talk>, _: &Peer) {}

    fn receive(&mut self, _: &mut Cx<'_, Talk>, (): &mut (), _: &mut Input, _: &mut Output) -> Next {
        Next::Close
    }

    fn asked(&mut self, cx: &mut Cx<'_, Talk>, from: Origin, question: u64, call: Call<Talk>) {
        assert_eq!(from, Origin::Outside);
        let lane = cx.lane();
        cx.reply(call, (lane, question + 1));
    }
}

#[test]
fn threads_ask_services_and_drain_the_lanes() {
    let running = Lanes::per_core().lanes(2).client(|_| Successor).named("next").start().unwrap();
    let outside = running.outside();
    let service = outside.service::<Talk>("next").unwrap();
    assert!(outside.service::<Talk>("other").is_err() && outside.service::<Asks<u8, u8>>("next").is_err());
    let asker = service.clone();
    let thread = std::thread::spawn(move || {
        for number in 0..200 {
            let lane = number as usize % 2;
            assert_eq!(asker.ask(lane, number).unwrap().wait(), Ok((lane, number + 1)));
        }
    });
    thread.join().unwrap();
    outside.drain();
    running.wait().unwrap();
    let gone = service.ask(0, 7).unwrap_err();
    assert_eq!((gone.why, gone.word), (Silence::Gone, 7));
}
