//! Connections by `async fn`, on simulated lanes: suites from seeds with all faults, and what each call promises, by hand.

use crate::aio_parts::{self, gentle, run, served};
use crate::examples::async_echo;
use corelane::aio::{self, Connection, Either, Error, Lane, select};
use corelane::service::{Address, Asks, Ending, Input, Limits, OpenOptions, Random, Reason, ServiceCounter};
use corelane::testing::{Faults, MS, Nobody, Peer, Rig, RigPlan, S, Scene, Status, World, at, patient};
use corelane_watch::LaneCounter;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

const MILLISECOND: Duration = Duration::from_millis(1);

/// Clients that say much and little, read slowly, and finish before they have heard all.
fn talkers(scene: &mut Scene, port: u16) {
    for client in 0..20_usize {
        let length = 1 + scene.random().below(40_000);
        let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + client as u64) as u8).collect();
        let script = scene.connect(port);
        if client % 3 == 0 {
            script.read_slowly(1 + client * 97);
        }
        script.say(&bytes);
        if client % 2 == 0 {
            script.finish();
        }
        script.hear(&bytes);
        if client % 2 == 1 {
            script.pause(MILLISECOND).say("end").hear("end").finish();
        }
    }
}

fn was_reset(peer: &Peer) -> bool {
    matches!(peer.status(), Status::Failed(fault) if fault.reason == Reason::Reset)
}

#[test]
fn an_echo_is_an_echo() {
    run(100, Faults::all, |scene| {
        scene.serve(7, |_lane| aio::each(async_echo::echo));
        talkers(scene, 7);
    });
}

/// Waits for bytes with little patience: what it waits for and how long differs, and what it gives up is asked for again.
async fn fickle(lane: Lane, connection: Connection) -> aio::Result<()> {
    let mut rolls = Random::new(lane.number() as u64);
    loop {
        let wanted = 1 + rolls.index(300);
        match select(connection.fill(wanted), lane.sleep(Duration::from_micros(rolls.index(1500) as u64))).await {
            Either::First(enough) => {
                let enough = enough?;
                let taken = connection.input(|input| input.take_shared(input.first().len()));
                match taken {
                    Some(taken) => connection.send(taken).await?,
                    None if enough => {}
                    None => return Ok(()),
                }
            }
            Either::Second(()) => assert!(connection.input(|input| input.len()) < wanted || rolls.index(2) < 2),
        }
    }
}

#[test]
fn a_read_that_is_given_up_loses_nothing() {
    run(75, Faults::all, |scene| {
        scene.serve(7, |_lane| aio::each(fickle));
        talkers(scene, 7);
    });
}

/// Writes what has come as copies, and gives each write up soon; goes on where it had come to.
async fn impatient(lane: Lane, connection: Connection) -> aio::Result<()> {
    while connection.fill(1).await? {
        let bytes = connection.input(|input: &mut Input| {
            let bytes = input.first().to_vec();
            input.skip(bytes.len());
            bytes
        });
        let mut done = 0;
        while done < bytes.len() {
            let mut write = connection.write(&bytes[done..]);
            if let Either::First(outcome) = select(&mut write, lane.sleep(MILLISECOND)).await {
                outcome?;
            }
            done += write.written();
        }
    }
    connection.flush().await
}

#[test]
fn a_write_that_is_given_up_says_how_far_it_has_come() {
    run(75, Faults::all, |scene| {
        // So little that writes wait for room, and for memory.
        scene.limits(patient().output_high(4096));
        scene.memory(1 << 20);
        scene.serve(7, |_lane| aio::each(impatient));
        talkers(scene, 7);
    });
}

/// Passes everything on to port 8, and back.
async fn proxy(lane: Lane, client: Connection) -> aio::Result<()> {
    let server = lane.connect(at(8)).await?;
    let (mut said, mut heard) = (0, 0);
    let mut has_finished = false;
    while !has_finished || heard < said {
        let question = async { if has_finished { std::future::pending().await } else { client.read().await } };
        match select(question, server.read()).await {
            Either::First(bytes) => match bytes? {
                Some(bytes) => {
                    said += bytes.len();
                    server.send_all(bytes).await?;
                }
                None => has_finished = true,
            },
            Either::Second(bytes) => {
                let Some(bytes) = bytes? else { break };
                heard += bytes.len();
                client.send_all(bytes).await?;
            }
        }
    }
    Ok(())
}

#[test]
fn a_proxy_opens_connections_and_passes_everything_on() {
    run(60, gentle, |scene| {
        scene.memory(8 << 20);
        scene.serve(7, |_lane| aio::each(proxy));
        scene.serve(8, |_lane| aio::each(async_echo::echo));
        talkers(scene, 7);
    });
}

/// Answers each line when some time has passed, by way of another lane or of a helper thread.
async fn roundabout(lane: Lane<Asks<Vec<u8>, Vec<u8>>>, connection: Connection) -> aio::Result<()> {
    let mut rolls = Random::new(lane.number() as u64);
    let mut wanted = 1;
    while connection.fill(wanted).await? {
        let line = connection.input(|input| {
            let length = input.position(b'\n')? + 1;
            Some(input.take_shared(length)?.to_vec())
        });
        let Some(line) = line else {
            wanted = connection.input(|input| input.len()) + 1;
            continue;
        };
        wanted = 1;
        let answer = match rolls.index(3) {
            0 => lane.ask(rolls.index(lane.lanes()), line).await?,
            1 => lane.offload(move || line).await?,
            _ => {
                lane.sleep(Duration::from_millis(rolls.index(4) as u64)).await;
                line
            }
        };
        connection.write(&answer).await?;
    }
    Ok(())
}

#[test]
fn a_task_asks_other_lanes_offloads_and_sleeps() {
    run(60, Faults::all, |scene| {
        scene.limits(patient().asks_max(3));
        scene.serve(7, |_lane| aio::each(roundabout).answering(async |_lane, question| question));
        for client in 0..12 {
            let script = scene.connect(7);
            for line in 0..10 {
                let line = format!("line {line} of {client}\n");
                script.say(&line);
                if client % 2 == 0 {
                    script.hear(&line);
                }
            }
            script.finish();
            if client % 2 == 1 {
                for line in 0..10 {
                    script.hear(format!("line {line} of {client}\n"));
                }
            }
        }
    });
}

#[test]
fn clients_on_lanes_open_connections_themselves() {
    run(50, gentle, |scene| {
        scene.serve(7, |_lane| aio::each(async_echo::echo));
        let heard = Rc::new(Cell::new(0));
        let count = heard.clone();
        scene.client(move |_lane| {
            let count = count.clone();
            aio::main(async move |lane: Lane| {
                // The network breaks connections off: until one holds.
                for _ in 0..200 {
                    let Ok(connection) = lane.connect(at(7)).await else { continue };
                    if connection.write(b"hello").await.is_ok() && connection.fill(5).await == Ok(true) {
                        assert_eq!(connection.input(|input| input.take_shared(5)).as_deref(), Some(&b"hello"[..]));
                        count.set(count.get() + 1);
                        return;
                    }
                }
            })
        });
        scene.connect(7).say("x").hear("x").pause(Duration::from_secs(1)).finish();
        scene.check(move |_| match heard.get() {
            2 => Ok(()),
            heard => Err(format!("{heard} of two lanes heard an answer")),
        });
    });
}

#[test]
fn drains_and_the_ends_of_clients_leave_nothing_behind() {
    run(75, gentle, |scene| {
        let after = scene.random().below(30);
        scene.drain_after(Duration::from_millis(after));
        scene.serve(7, |_lane| aio::each(fickle));
        scene.serve(8, |_lane| aio::each(async_echo::echo));
        scene.serve(9, |_lane| aio::each(proxy));
        for port in [7, 8, 9] {
            talkers(scene, port);
        }
        for client in 0..9 {
            let script = scene.connect(7 + client % 3);
            script.say("hello").hear("hello");
            if client % 2 == 0 { script.close() } else { script.reset() }
        }
    });
}

#[test]
fn a_task_that_panics_takes_its_connection_with_it_and_nothing_else() {
    let handle = async |_lane: Lane, connection: Connection| -> aio::Result<()> {
        while let Some(bytes) = connection.read().await? {
            let first = bytes.front().and_then(|segment| segment.bytes()).map(|bytes| bytes[0]);
            assert_ne!(first, Some(b'!'), "as it was told");
            connection.send_all(bytes).await?;
        }
        Ok(())
    };
    let (_world, mut rig) = served(patient(), move || aio::each(handle));
    let [victim, other] = [rig.connect(0), rig.connect(1)];
    rig.wait(MS);
    assert_eq!(rig.ask(&victim, "a"), "a");
    assert_eq!(rig.ask(&victim, "!"), "");
    assert!(was_reset(&victim), "{:?}", victim.status());
    assert_eq!((rig.ask(&other, "b"), rig.count(ServiceCounter::Panics)), ("b".to_owned(), 1));
    assert_eq!((rig.count(ServiceCounter::EndingsAborted), rig.lane_count(LaneCounter::TasksPanicked)), (1, 1));
    rig.close(&mut Nobody);
}

#[test]
fn who_does_not_read_is_not_read_for() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| {
            lane.sleep(Duration::from_secs(1)).await;
            let mut sum = 0;
            while let Ok(Some(bytes)) = connection.read().await {
                sum += bytes.len();
            }
            let _ = connection.write(format!("{sum}").as_bytes()).await;
        })
    });
    let peer = rig.connect(0);
    let said = aio_parts::fill(&mut rig, &peer, 100);
    assert!(said < 1 << 20, "{said} bytes were taken of who is not read from");
    assert!(rig.lane_count(LaneCounter::MemoryUsed) <= 256 << 10, "{}", rig.lane_count(LaneCounter::MemoryUsed));
    rig.wait(S);
    peer.finish();
    assert_eq!(rig.hear(&peer), said.to_string(), "all that was taken is there when it reads");
    rig.close(&mut Nobody);
}

/// Both directions of a connection have their own back-pressure: a peer that reads nothing until it has said all is heard to its end.
#[test]
fn one_task_reads_on_while_another_waits_to_write() {
    let (heard, written) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let counts = (heard.clone(), written.clone());
    let (_world, mut rig) = served(patient().output_high(128 << 10), move || {
        let (heard, written) = counts.clone();
        aio::each(async move |lane: Lane, connection: Connection| {
            let (connection, says) = (Rc::new(connection), written.clone());
            let writer = connection.clone();
            lane.spawn(async move {
                while says.get() < 2 << 20 {
                    writer.write(&[7; 1 << 10]).await.unwrap();
                    says.set(says.get() + (1 << 10));
                }
            })?;
            while let Some(bytes) = connection.read().await? {
                heard.set(heard.get() + bytes.len());
            }
            aio::Result::Ok(())
        })
    });
    let peer = rig.connect(0);
    rig.wait(S);
    assert!(written.get() < 1 << 20, "the writer waits: {} bytes", written.get());
    let said = aio_parts::fill(&mut rig, &peer, 100);
    rig.wait(S);
    assert!(said > 4 << 20 && heard.get() == said, "{} of {said} bytes were heard", heard.get());
    let mut read = 0;
    while read < 2 << 20 {
        let bytes = peer.read(usize::MAX).len();
        assert!(bytes > 0, "the writer goes on: {read} bytes");
        read += bytes;
        rig.wait(S);
    }
    peer.finish();
    rig.wait(S);
    rig.close(&mut Nobody);
}

#[test]
fn a_write_waits_for_who_does_not_read() {
    let written = Rc::new(Cell::new(0));
    let count = written.clone();
    let (_world, mut rig) = served(patient().output_high(128 << 10), move || {
        let count = count.clone();
        aio::each(async move |_lane: Lane, connection: Connection| {
            while connection.write(&[7; 1000]).await.is_ok() {
                count.set(count.get() + 1000);
            }
        })
    });
    let peer = rig.connect(0);
    rig.wait(S);
    let waiting = written.get();
    rig.wait(S);
    assert!(waiting > 0 && waiting == written.get() && waiting < 1 << 20, "{waiting} and {} bytes", written.get());
    let read = peer.read(usize::MAX).len();
    rig.wait(S);
    assert!(read > 0 && written.get() > waiting, "it goes on when there is room");
    peer.reset();
    rig.wait(S);
    assert_eq!(rig.count(ServiceCounter::EndingsError), 1);
    rig.close(&mut Nobody);
}

#[test]
fn a_drain_answers_who_is_at_work_and_ends_who_waits() {
    let told = Rc::new(Cell::new(0));
    let count = told.clone();
    let (_world, mut rig) = served(patient(), move || {
        let count = count.clone();
        aio::each(async move |lane: Lane, connection: Connection| -> aio::Result<()> {
            let (observer, count) = (lane.clone(), count.clone());
            lane.spawn(async move {
                observer.draining().await;
                count.set(count.get() + 1);
            })?;
            while let Some(bytes) = connection.read().await? {
                lane.sleep(Duration::from_millis(500)).await;
                connection.send_all(bytes).await?;
            }
            Ok(())
        })
    });
    let [busy, idle] = [rig.connect(0), rig.connect(1)];
    rig.wait(MS);
    busy.send(b"asked before");
    rig.wait(50 * MS);
    assert_eq!(told.get(), 0);
    rig.begin_drain();
    rig.wait(50 * MS);
    assert_eq!((told.get(), idle.status(), busy.status()), (2, Status::Ended, Status::Open));
    rig.wait(S);
    assert_eq!(busy.read(100), b"asked before");
    assert_eq!(busy.status(), Status::Ended);
    rig.close(&mut Nobody);
    assert_eq!(rig.count(ServiceCounter::EndingsClosing), 2);
}

#[test]
fn who_may_hold_one_ticket_is_at_work_while_it_writes() {
    let (_world, mut rig) = served(patient().requests_in_flight_max(1), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            connection.fill(1).await?;
            for part in ["one ", "two ", "three"] {
                connection.write(part.as_bytes()).await?;
                lane.sleep(Duration::from_millis(500)).await;
            }
            Ok(())
        })
    });
    let peer = rig.connect(0);
    rig.wait(MS);
    peer.send(b"asked");
    rig.wait(50 * MS);
    rig.begin_drain();
    rig.wait(2 * S);
    assert_eq!((peer.read(100).as_slice(), peer.status()), (&b"one two three"[..], Status::Ended));
    rig.close(&mut Nobody);
}

#[test]
fn who_outlives_a_drain_reads_on_until_it_is_content() {
    let (_world, mut rig) = served(patient(), || {
        aio::each(async |_lane: Lane, connection: Connection| -> aio::Result<()> {
            connection.outlive_drain(true);
            while let Some(bytes) = connection.read().await? {
                let is_last = bytes.front().and_then(|segment| segment.bytes()) == Some(b"last");
                connection.send_all(bytes).await?;
                if is_last {
                    break;
                }
            }
            Ok(())
        })
    });
    let [stays, leaves] = [rig.connect(0), rig.connect(1)];
    rig.wait(MS);
    assert_eq!((rig.ask(&stays, "one"), rig.ask(&leaves, "one")), ("one".to_owned(), "one".to_owned()));
    rig.begin_drain();
    rig.wait(100 * MS);
    assert_eq!((rig.ask(&stays, "two"), rig.ask(&leaves, "last")), ("two".to_owned(), "last".to_owned()));
    assert_eq!((stays.status(), leaves.status()), (Status::Open, Status::Ended));
    assert_eq!(rig.ask(&stays, "last"), "last");
    rig.close(&mut Nobody);
    assert_eq!(rig.count(ServiceCounter::EndingsCompleted), 2);
}

#[test]
fn a_file_is_sent_by_its_path_and_no_other_is() {
    let (world, mut rig) = served(patient(), || {
        aio::each(async |lane: Lane, connection: Connection| -> aio::Result<()> {
            let (directory, _) = lane.open("/srv", OpenOptions::new().read(true).directory(true)).await?;
            for name in ["there", "../secret", "missing"] {
                match lane.send_file(&connection, &directory, name).await {
                    Ok(facts) => connection.write(format!("={}\n", facts.length).as_bytes()).await?,
                    Err(Error::Failed(fault)) => {
                        assert!(matches!(fault.reason, Reason::Outside | Reason::NotFound), "{fault}");
                        connection.write(b"no\n").await?;
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        })
    });
    world.write_file("/srv/there", b"bytes");
    world.write_file("/secret", b"secret");
    let peer = rig.connect(0);
    assert_eq!(rig.hear(&peer), "bytes=5\nno\nno\n");
    rig.close(&mut Nobody);
}

/// Sends /srv/large, and says how that ended.
async fn send_large(lane: Lane, connection: Connection) -> aio::Result<()> {
    let (directory, _) = lane.open("/srv", OpenOptions::new().read(true).directory(true)).await?;
    match lane.send_file(&connection, &directory, "large").await {
        Ok(facts) => connection.write(format!("={}\n", facts.length).as_bytes()).await,
        Err(Error::Failed(_)) => connection.write(b"no\n").await,
        Err(error) => Err(error),
    }
}

#[test]
fn a_file_is_brought_from_the_disk_before_it_is_sent() {
    const LENGTH: usize = 2_500_000;
    let (world, mut rig) = served(patient(), || aio::each(send_large));
    world.write_file("/srv/large", &[b'x'; LENGTH]);
    world.slow_disk(50 * MS);
    let peer = rig.connect(0);
    let mut heard = String::new();
    // How much had come whenever nothing more came.
    let mut pauses = BTreeSet::new();
    for _ in 0..500 {
        let piece = rig.hear(&peer);
        if piece.is_empty() {
            pauses.insert(heard.len());
        }
        heard += &piece;
    }
    assert!(
        [0, 1 << 20, 2 << 20].iter().all(|window| pauses.contains(window)),
        "before each window the disk is awaited: {pauses:?}"
    );
    assert!(heard.trim_start_matches('x') == format!("={LENGTH}\n") && heard.len() == LENGTH + "=2500000\n".len());
    world.break_disk(true);
    let peer = rig.connect(1);
    rig.wait(100 * MS);
    assert_eq!(rig.hear(&peer), "no\n", "nothing is sent of what cannot be read");
    rig.close(&mut Nobody);
}

#[test]
fn a_connection_that_cannot_be_opened_or_is_given_up_is_told_and_forgotten() {
    let seen: Rc<RefCell<Vec<String>>> = Rc::default();
    let log = seen.clone();
    let world = World::new(1, Faults::none());
    let plan = RigPlan::lanes(1);
    let mut rig = Rig::new(&world, &plan, |roster| {
        let log = log.clone();
        let start = async move |lane: Lane| {
            let nobody: Address = "203.0.113.9:9".parse().unwrap();
            let refused = lane.connect(at(99)).await;
            log.borrow_mut().push(matches!(refused, Err(Error::Failed(_))).to_string());
            let given_up = lane.within(MILLISECOND, lane.connect(nobody)).await;
            log.borrow_mut().push(given_up.is_none_or(|outcome| outcome.is_err()).to_string());
        };
        roster.client(patient(), aio::main(start));
    });
    rig.wait(20 * S);
    assert_eq!((seen.borrow().as_slice(), rig.connections()), (&["true".to_owned(), "true".to_owned()][..], 0));
    rig.close(&mut Nobody);
}

#[test]
fn more_than_a_record_may_have_is_not_waited_for() {
    let (_world, mut rig) = served(patient().record_max(1000), || {
        aio::each(async |_lane: Lane, connection: Connection| {
            let refused = connection.fill(1001).await;
            assert_eq!(refused, Err(Error::TooLong { record_max: 1000 }));
            connection.write(b"too long").await
        })
    });
    let peer = rig.connect(0);
    assert_eq!(rig.hear(&peer), "too long");
    rig.close(&mut Nobody);
}

#[test]
fn who_reads_a_connection_that_has_ended_is_told_how() {
    let seen: Rc<RefCell<Vec<aio::Result<bool>>>> = Rc::default();
    let log = seen.clone();
    let (_world, mut rig) = served(patient(), move || {
        let log = log.clone();
        aio::each(async move |_lane: Lane, connection: Connection| {
            let outcome = connection.fill(10).await;
            let is_over = connection.write(b"x").await.is_err();
            log.borrow_mut().push(outcome);
            log.borrow_mut().push(Ok(is_over));
        })
    });
    let [finishes, breaks] = [rig.connect(0), rig.connect(1)];
    rig.wait(MS);
    finishes.send(b"few");
    finishes.finish();
    rig.wait(MS);
    breaks.reset();
    rig.wait(MS);
    let seen = seen.take();
    assert_eq!(seen[..2], [Ok(false), Ok(false)], "who has finished can still be written to");
    assert!(matches!(seen[2], Err(Error::Ended { ending: Ending::Error, fault: Some(_) })), "{:?}", seen[2]);
    assert_eq!(seen[3], Ok(true));
    rig.close(&mut Nobody);
}

#[test]
fn connections_that_nobody_accepts_any_more_are_closed() {
    let (_world, mut rig) = served(patient(), || aio::main(async |lane: Lane| drop(lane.accept().await)));
    let [first, second] = [rig.connect(0), rig.connect(1)];
    rig.wait(10 * MS);
    assert_eq!((first.status(), second.status()), (Status::Ended, Status::Ended));
    assert_eq!(rig.count(ServiceCounter::Panics), 0);
    rig.close(&mut Nobody);
}

/// Serves one client after the other.
async fn serves_in_turn(lane: Lane) {
    loop {
        let connection = lane.accept().await;
        let _ = async_echo::echo(lane.clone(), connection).await;
    }
}

#[test]
fn several_tasks_accept_each_its_own() {
    let (_world, mut rig) = served(patient(), || {
        aio::main(async |lane: Lane| {
            for _ in 0..2 {
                lane.spawn(serves_in_turn(lane.clone())).unwrap();
            }
            serves_in_turn(lane).await;
        })
    });
    rig.wait(MS);
    for _ in 0..3 {
        let peers: Vec<_> = (0..4).map(|number| rig.connect(number)).collect();
        rig.wait(MS);
        let heard: Vec<String> = peers.iter().map(|peer| rig.ask(peer, "hello")).collect();
        assert_eq!(heard.iter().filter(|heard| *heard == "hello").count(), 3, "as many as there are tasks: {heard:?}");
        peers.iter().for_each(Peer::close);
        rig.wait(10 * MS);
        assert_eq!(rig.connections(), 0, "and the fourth as soon as one is free");
    }
    rig.close(&mut Nobody);
}

/// Waits for a connection, and when it is woken for one wants it no more.
async fn gives_up(lane: Lane) {
    let mut accepting = Some(lane.accept());
    let mut was_polled = false;
    poll_fn(|context| {
        if std::mem::replace(&mut was_polled, true) {
            accepting = None;
            return Poll::Ready(());
        }
        accepting.as_mut().map_or(Poll::Ready(()), |accepting| Pin::new(accepting).poll(context).map(drop))
    })
    .await;
}

#[test]
fn a_connection_whose_taker_gives_up_is_the_next_ones() {
    let (_world, mut rig) = served(patient(), || {
        aio::main(async |lane: Lane| {
            for _ in 0..3 {
                lane.spawn(gives_up(lane.clone())).unwrap();
            }
            lane.sleep(MILLISECOND).await;
            serves_in_turn(lane).await;
        })
    });
    rig.wait(10 * MS);
    let peer = rig.connect(0);
    rig.wait(MS);
    assert_eq!(rig.ask(&peer, "hello"), "hello");
    peer.close();
    rig.wait(MS);
    rig.close(&mut Nobody);
}

#[test]
fn a_lane_that_breaks_takes_its_tasks_with_it() {
    let (_world, mut rig) = served(patient(), || aio::each(async_echo::echo));
    let peer = rig.connect(0);
    rig.wait(MS);
    assert_eq!(rig.ask(&peer, "hello"), "hello");
    let lane = rig.lane_of_first_connection().unwrap();
    rig.break_lane(lane);
    assert!(rig.holds_nothing() || !rig.has_ended());
}

#[test]
fn limits_of_a_connection_hold_for_tasks() {
    let limits = Limits::new().idle_limit(Duration::from_secs(5)).answer_limit(Duration::from_secs(20));
    let (_world, mut rig) = served(limits, || {
        aio::each(async |lane: Lane, connection: Connection| {
            while let Ok(Some(_)) = connection.read().await {
                lane.sleep(Duration::from_secs(3600)).await;
            }
        })
    });
    let [idle, stuck] = [rig.connect(0), rig.connect(1)];
    rig.wait(MS);
    stuck.send(b"never answered");
    rig.wait(10 * S);
    assert_eq!((idle.status(), stuck.status()), (Status::Ended, Status::Open));
    rig.wait(15 * S);
    assert_eq!((was_reset(&stuck), rig.count(ServiceCounter::AnswerLimitHits)), (true, 1));
    rig.close(&mut Nobody);
}
