//! The public simulator finds the bugs of services, of each kind that it looks for, and says how to see them again.

#[path = "../../examples/lengths.rs"]
#[allow(dead_code, reason = "its main is the example's")]
mod lengths;

use corelane::lanes::LaneSettings;
use corelane::service::{Order, Passage, Progress, Shared, Ticket, Transform, TransformError};
use corelane::testing::{Failure, Family, FaultKind, Faults, Scene, simulate};
use corelane::{Cx, DatagramService, Datagrams, Input, Next, Output, Peer, Replies, Silent, StreamService};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// A service over connections that does what a test says.
struct Does<F>(F);

impl<F: FnMut(&mut Cx, &mut Input, &mut Output) -> Next + 'static> StreamService for Does<F> {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        (self.0)(cx, input, output)
    }
}

/// Sends back what came.
fn echo(input: &mut Input, output: &mut Output) -> Next {
    output.forward(input.take_all());
    Next::Continue
}

/// What is found of a service over connections without any fault, whose client says hello and is to hear it.
fn found<F: FnMut(&mut Cx, &mut Input, &mut Output) -> Next + 'static>(make: impl Fn() -> F + Clone + 'static) -> Failure {
    let scene = |scene: &mut Scene| {
        let make = make.clone();
        scene.serve(7, move |_lane| Does(make()));
        scene.connect(7).say("hello").hear("hello");
    };
    simulate(20, |_| Faults::none(), scene).expect_err("the service has a bug")
}

/// Takes what has come for whole lines, as the service of the module's documentation.
fn hasty(_: &mut Cx, input: &mut Input, output: &mut Output) -> Next {
    let bytes = input.len();
    let Some(text) = input.contiguous(bytes) else { return Next::Continue };
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        if writeln!(output, "{}", line.len()).is_err() {
            return Next::Abort;
        }
    }
    input.skip(bytes);
    Next::Continue
}

fn five_clients<S: StreamService>(scene: &mut Scene, build: impl Fn(usize) -> S + 'static) {
    scene.serve(7, build);
    for _ in 0..5 {
        scene.connect(7).say("one\nthree\n").hear("4\n6\n");
    }
}

#[test]
fn the_manual_shows_what_is_printed() {
    let failure = simulate(100, Faults::all, |scene| five_clients(scene, |_| Does(hasty))).expect_err("lines come in pieces");
    let printed: String = failure.to_string().lines().map(|line| format!("//! {line}\n")).collect();
    let manual = include_str!("../../src/testing.rs");
    assert!(manual.contains(&format!("//! ```text\n{printed}//! ```\n")), "the manual is to show this:\n{printed}");
}

/// A service that has itself called again in each call never rests: the simulator says so instead of going on for ever.
#[test]
fn a_service_that_resumes_itself_in_each_call_is_told_of() {
    let failure = found(|| {
        |cx: &mut Cx, input: &mut Input, _: &mut Output| {
            if !input.is_empty() {
                cx.resume(cx.id());
            }
            Next::Continue
        }
    });
    let words = failure.to_string();
    assert!(words.contains("though nobody said anything") && words.contains("Cx::resume"), "{words}");
}

#[test]
fn the_mended_service_passes_under_every_fault() {
    let summary = simulate(300, Faults::all, |scene| five_clients(scene, |_| lengths::Lengths)).unwrap();
    let of_datagrams_or_files = |kind: FaultKind| kind.name().contains("datagram") || kind.name().contains("file");
    for kind in FaultKind::ALL {
        // Nothing is closed while the system still reads what was sent, and nothing is passed on unseen.
        let is_rare =
            matches!(kind, FaultKind::CancelRace | FaultKind::NeverRelease | FaultKind::RefusedPipe | FaultKind::RefusedBridge);
        let happens_here = !of_datagrams_or_files(kind) && !is_rare;
        println!("{:>24} {}", kind.name(), summary.faults.of(kind));
        assert!(summary.faults.of(kind) > 0 || !happens_here, "{}", kind.name());
    }
    assert!(summary.operations > 0 && summary.to_string().starts_with(&format!("{} runs", summary.runs)));
}

#[test]
fn a_failure_is_the_same_each_time_and_names_its_seed() {
    let [first, second] = [0, 1]
        .map(|_| simulate(100, Faults::all, |scene| five_clients(scene, |_| Does(hasty))).expect_err("it has a bug").to_string());
    assert_eq!(first, second);
    assert!(first.ends_with(" shows this again"), "{first}");
}

#[test]
fn wrong_bytes_are_found() {
    let failure = found(|| {
        |_: &mut Cx, input: &mut Input, output: &mut Output| {
            let bytes = input.len();
            output.write(&vec![b'?'; bytes]).unwrap();
            input.skip(bytes);
            Next::Continue
        }
    });
    assert!(failure.wrong.contains("where \"hello\" was due"), "{failure}");
}

#[test]
fn bytes_too_many_are_found() {
    let failure = found(|| {
        |_: &mut Cx, input: &mut Input, output: &mut Output| {
            echo(input, output);
            output.write(b"and more").unwrap();
            Next::Continue
        }
    });
    assert!(failure.wrong.contains("and more"), "{failure}");
}

#[test]
fn an_answer_that_never_comes_is_found() {
    let failure = found(|| {
        let mut held = Vec::<Ticket>::new();
        move |_: &mut Cx, input: &mut Input, output: &mut Output| {
            held.extend(output.hold(Order::Kept));
            input.skip(input.len());
            Next::Continue
        }
    });
    assert_eq!(failure.wrong, "client 0 waits to hear \"hello\", and nobody will ever do anything again");
}

#[test]
fn an_end_that_comes_too_early_is_found() {
    let failure = found(|| {
        |_: &mut Cx, input: &mut Input, _: &mut Output| {
            input.skip(input.len());
            Next::Close
        }
    });
    assert!(failure.wrong.starts_with("client 0 saw the end of the connection where \"hello\" was due"), "{failure}");
}

#[test]
fn a_connection_that_the_service_aborts_is_found() {
    let failure = found(|| |_: &mut Cx, _: &mut Input, _: &mut Output| Next::Abort);
    assert!(failure.wrong.contains("was cut off (Reset)"), "{failure}");
}

#[test]
fn a_panic_is_found_with_its_words() {
    let failure = found(|| |_: &mut Cx, _: &mut Input, _: &mut Output| panic!("hello is no command"));
    assert!(failure.to_string().contains("operator: ") && failure.to_string().contains("panic"), "{failure}");
}

#[test]
fn a_ticket_that_is_dropped_is_found() {
    let failure = found(|| {
        |_: &mut Cx, input: &mut Input, output: &mut Output| {
            echo(input, output);
            drop(output.hold(Order::Any));
            Next::Continue
        }
    });
    assert!(failure.wrong.contains("dropped a ticket") || failure.wrong.contains("client 0"), "{failure}");
}

#[test]
fn memory_that_outlives_its_lane_is_found() {
    let kept: Rc<RefCell<Vec<Shared>>> = Rc::default();
    let scene = |scene: &mut Scene| {
        let kept = kept.clone();
        scene.serve(7, move |_lane| {
            let kept = kept.clone();
            Does(move |cx: &mut Cx, input: &mut Input, output: &mut Output| {
                kept.borrow_mut().push(cx.lease(100).unwrap().share());
                echo(input, output)
            })
        });
        scene.connect(7).say("hello").hear("hello");
    };
    let failure = simulate(5, |_| Faults::none(), scene).expect_err("it holds memory");
    assert!(failure.wrong.contains("holds") && failure.wrong.contains("bytes of its memory"), "{failure}");
}

#[test]
fn what_a_test_itself_looks_for_is_found() {
    let scene = |scene: &mut Scene| {
        scene.serve(7, |_lane| Does(|_: &mut Cx, input: &mut Input, output: &mut Output| echo(input, output)));
        scene.connect(7).say("hello").hear("hello");
        scene.check(|rig| match rig.named("requests") {
            1 => Ok(()),
            other => Err(format!("{other} requests were counted, of 1")),
        });
    };
    let failure = simulate(5, |_| Faults::none(), scene).expect_err("it counts none");
    assert_eq!(failure.wrong, "0 requests were counted, of 1");
}

/// Gives each question back with the next number: what is asked twice has two answers.
#[derive(Default)]
struct Numbers {
    next: u32,
    remembers: bool,
    given: Vec<(Vec<u8>, u32)>,
}

impl DatagramService for Numbers {
    type Talk = Silent;
    fn receive(&mut self, cx: &mut Cx, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            for question in batch.each(arrival) {
                let given = self.given.iter().find(|(other, _)| self.remembers && other == question);
                let number = given.map_or(self.next, |(_, number)| *number);
                if number == self.next {
                    self.next += 1;
                    self.given.push((question.to_vec(), number));
                }
                let answer = [question, number.to_string().as_bytes()].concat();
                // Without memory it is lost, as a datagram may be, and asked for again.
                let Some(bytes) = cx.arena().copy_of(&answer) else { continue };
                replies.send(arrival.peer.clone(), arrival.asked, bytes.share());
            }
        }
    }
}

fn three_questions(scene: &mut Scene, remembers: bool) {
    scene.lanes(1);
    scene.serve_datagrams(9, move |_lane| Numbers { remembers, ..Numbers::default() });
    scene.datagrams(9).ask("a", "a0").ask("b", "b1").ask("c", "c2");
}

#[test]
fn a_bug_that_needs_a_fault_is_told_with_that_fault_alone() {
    let faults = |_| Faults { datagram_duplicate: 200, datagram_reorder: 100, short_read: 100, ..Faults::none() };
    let failure = simulate(100, faults, |scene| three_questions(scene, false)).expect_err("a datagram comes twice");
    assert!(failure.wrong.starts_with("client 0 heard \""), "{failure}");
    assert_eq!(failure.faults, [(FaultKind::DatagramDuplicate, 200)], "{failure}");
    simulate(100, Faults::all, |scene| three_questions(scene, true)).unwrap();
}

#[test]
fn clients_may_be_slow_leave_and_break_off() {
    let text: String = (0..200).map(|line| format!("line {line}\n")).collect();
    let lengths: String = (0..200).map(|line| format!("{}\n", format!("line {line}\n").len())).collect();
    let scene = |scene: &mut Scene| {
        scene.serve(7, |_lane| lengths::Lengths);
        scene.connect(7).read_slowly(7).say(&text).hear(&lengths);
        scene.connect(7).say("one\n").hear("4\n").pause(Duration::from_millis(300)).say("three\n").finish().hear("6\n");
        scene.connect(7).say("one\n").hear("4\n").close();
        scene.connect(7).say("one\n").reset();
        scene.connect(7).say("no end");
    };
    simulate(50, |_| Faults::none(), scene).unwrap();
    simulate(100, Faults::all, scene).unwrap();
}

#[test]
fn a_drain_while_clients_are_at_work_is_no_failure_of_theirs() {
    let scene = |scene: &mut Scene| {
        let after = Duration::from_micros(scene.random().below(2_000));
        five_clients(scene, |_| lengths::Lengths);
        scene.drain_after(after);
    };
    simulate(100, |_| Faults::none(), scene).unwrap();
    simulate(100, Faults::all, scene).unwrap();
}

#[test]
fn files_and_other_settings_belong_to_the_scene() {
    let scene = |scene: &mut Scene| {
        assert!(LaneSettings::new() != LaneSettings::new().memory_bytes(2 << 20));
        scene.memory(2 << 20);
        scene.lanes(3);
        scene.world().write_file("/motd", b"hello");
        scene.serve(7, |_lane| lengths::Lengths);
        scene.connect(7).say("one\n").hear("4\n");
        scene.check(|rig| match rig.world.read_file("/motd") {
            Some(bytes) if bytes == b"hello" && rig.snapshot().lanes.len() == 3 => Ok(()),
            other => Err(format!("{other:?}")),
        });
    };
    simulate(10, Faults::all, scene).unwrap();
}

/// Every byte that passes is turned over, both ways.
struct TurnedOver;

impl Transform for TurnedOver {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        passage.open();
        let Passage { received, input, output, wire, arena, .. } = passage;
        for (from, to) in [(received, input), (output, wire)].into_iter().filter(|(from, _)| !from.is_empty()) {
            let mut bytes = vec![0; from.len()];
            from.copy_to(&mut bytes);
            let turned: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
            let Some(mut lease) = arena.lease(turned.len()) else { return Ok(Progress::Idle) };
            lease.append(&turned);
            from.skip(turned.len());
            to.push(lease.share());
        }
        Ok(Progress::Idle)
    }
}

#[test]
fn a_scene_plays_what_stands_behind_a_transform() {
    simulate(50, Faults::all, |scene| {
        scene.serve_behind(
            7,
            |_lane| |_, _: &_| Some(Box::new(TurnedOver) as Box<dyn Transform>),
            |_lane| Does(|_: &mut Cx, input: &mut Input, output: &mut Output| echo(input, output)),
        );
        let turned: Vec<u8> = b"hello".iter().map(|byte| !byte).collect();
        scene.connect(7).say(&turned).hear(&turned);
    })
    .unwrap();
}

#[test]
fn a_service_may_open_connections_behind_a_transform() {
    struct Asks(Rc<RefCell<Vec<u8>>>);
    impl StreamService for Asks {
        type Talk = Silent;
        type Session = ();
        fn started(&mut self, cx: &mut Cx) {
            if cx.lane() == 0 {
                cx.connect(corelane::testing::at(7), ()).unwrap();
            }
        }
        fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}
        fn connected(&mut self, _cx: &mut Cx, _session: &mut (), output: &mut Output) -> Next {
            output.write(b"hello").unwrap();
            Next::Continue
        }
        fn receive(&mut self, _cx: &mut Cx, _session: &mut (), input: &mut Input, _output: &mut Output) -> Next {
            let bytes = input.len();
            let heard = input.contiguous(bytes).unwrap().to_vec();
            input.skip(bytes);
            self.0.borrow_mut().extend(heard);
            if self.0.borrow().len() < 5 { Next::Continue } else { Next::Close }
        }
    }
    simulate(
        20,
        |_| Faults::none(),
        |scene| {
            let heard = Rc::new(RefCell::new(Vec::new()));
            let make = || |_, _: &_| Some(Box::new(TurnedOver) as Box<dyn Transform>);
            scene.serve_behind(
                7,
                move |_| make(),
                |_| Does(|_: &mut Cx, input: &mut Input, output: &mut Output| echo(input, output)),
            );
            let told = heard.clone();
            scene.client_behind(move |_| make(), move |_| Asks(told.clone()));
            scene.drain_after(Duration::from_secs(1));
            scene.check(move |_| if *heard.borrow() == b"hello" { Ok(()) } else { Err(format!("{heard:?}")) });
        },
    )
    .unwrap();
}

#[test]
fn a_scene_is_played_at_unix_names_if_it_says_so() {
    for family in [Family::Path, Family::Hidden] {
        let peers = Rc::new(RefCell::new(Vec::new()));
        let seen = peers.clone();
        simulate(20, Faults::all, |scene| {
            scene.family(family);
            let seen = seen.clone();
            scene.serve(7, move |_| {
                let seen = seen.clone();
                Does(move |cx: &mut Cx, input: &mut Input, output: &mut Output| {
                    seen.borrow_mut().extend(cx.peer(cx.id()).map(|peer| peer.local.unix().is_some()));
                    echo(input, output)
                })
            });
            scene.serve_datagrams(8, |_| Numbers { next: 0, remembers: true, given: Vec::new() });
            scene.connect(7).say("hello").hear("hello");
            scene.datagrams(8).ask("a", "a0");
        })
        .unwrap();
        assert!(!peers.borrow().is_empty() && peers.borrow().iter().all(|is_unix| *is_unix), "{family:?}");
    }
}

#[test]
fn a_scene_sets_lanes_and_their_drivers() {
    const RECEIVE_BYTES: usize = 4096;
    let scene = |scene: &mut Scene| {
        scene.settings(|settings| settings.memory_bytes(8 << 20));
        scene.tuning(|tuning| tuning.receive_bytes(RECEIVE_BYTES));
        scene.serve(7, |_| {
            Does(|cx: &mut Cx, input: &mut Input, output: &mut Output| {
                assert!(cx.arena().limit() > 4 << 20, "the lane has more than a scene's usual memory");
                assert!(input.first().len() <= RECEIVE_BYTES, "its driver receives no more at once");
                echo(input, output)
            })
        });
        let text = vec![b'x'; 60_000];
        scene.connect(7).say(&text).hear(&text);
    };
    simulate(20, |_| Faults::none(), scene).unwrap();
}
