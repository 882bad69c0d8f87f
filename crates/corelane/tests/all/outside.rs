//! The world outside speaks to services on lanes: each question has one outcome, and whoever is gone says so.
#![forbid(unsafe_code)]

use corelane::aio::{self, Lane};
use corelane::service::{Asks, Call, Origin, Says, Silence};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, StreamService};
use corelane_watch::Reader;
use std::sync::mpsc;

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

corelane::counters! {
    /// What the ears count.
    enum Heard {
        Messages "messages_heard" Counter "messages" "Messages that were heard.";
    }
}

#[test]
fn asynchronous_services_hear_what_threads_say_and_count_it() {
    let (heard, hears) = mpsc::channel();
    let running = Lanes::per_core()
        .lanes(2)
        .client(move |_| {
            let heard = heard.clone();
            let idle = aio::main(async |_: Lane<Says<u64>>| std::future::pending::<()>().await);
            idle.counting::<Heard>().hearing(async move |lane, from, number| {
                assert_eq!(from, Origin::Outside);
                lane.later(|cx| cx.count(Heard::Messages, 1));
                heard.send((lane.number(), number)).unwrap();
            })
        })
        .named("ears")
        .client(|_| aio::main(async |_: Lane<Says<u64>>| std::future::pending::<()>().await))
        .named("deaf")
        .start()
        .unwrap();
    let outside = running.outside();
    let (ears, deaf) = (outside.service::<Says<u64>>("ears").unwrap(), outside.service::<Says<u64>>("deaf").unwrap());
    for number in 0..200 {
        ears.send(number as usize % 2, number).unwrap();
        assert_eq!(hears.recv().unwrap(), (number as usize % 2, number));
    }
    (0..3).for_each(|number| deaf.send(0, number).unwrap());
    let reader = Reader::of(running.counters()).unwrap();
    outside.drain();
    running.wait().unwrap();
    let services = reader.snapshot(0).services;
    let value = |service: usize, name: &str| services[service].values.all().find(|value| value.name == name).unwrap().value;
    assert_eq!((value(0, "messages_heard"), value(0, "messages_dropped"), value(1, "messages_dropped")), (200, 0, 3));
}

#[test]
fn who_speaks_faster_than_a_lane_hears_waits_for_room() {
    let (go_on, goes_on) = mpsc::channel::<()>();
    let gate = std::sync::Arc::new(std::sync::Mutex::new(goes_on));
    let running = Lanes::per_core()
        .lanes(1)
        .client(move |_| {
            let gate = gate.clone();
            let idle = aio::main(async |_: Lane<Says<u64>>| std::future::pending::<()>().await);
            // The first message holds the lane.
            idle.hearing(async move |_, _, number| {
                if number == 0 {
                    gate.lock().unwrap().recv().unwrap();
                }
            })
        })
        .named("ears")
        .start()
        .unwrap();
    let outside = running.outside();
    let ears = outside.service::<Says<u64>>("ears").unwrap();
    let refused = (0..).find_map(|number| ears.send(0, number).err()).unwrap();
    assert_eq!(refused.why, Silence::Full);
    let error: Box<dyn std::error::Error> = refused.into();
    assert!(error.to_string().contains("slower than who speaks"), "{error}");
    let waiting = std::thread::spawn({
        let ears = ears.clone();
        move || {
            ears.room(0).wait();
            ears.send(0, 1)
        }
    });
    go_on.send(()).unwrap();
    waiting.join().unwrap().unwrap();
    outside.drain();
    running.wait().unwrap();
    ears.room(0).wait();
    assert_eq!(ears.send(0, 1).unwrap_err().why, Silence::Gone);
}
