//! Whatever is dropped, and wherever: nothing is lost, nothing is done twice, and nothing is left behind.

use crate::aio_parts::{gentle, run};
use crate::examples::async_echo;
use corelane::aio::{self, Connection, Error, Lane};
use corelane::service::{Asks, OpenOptions, Random, ServiceCounter};
use corelane::testing::{Faults, MS, Nobody, Rig, RigPlan, Scene, World, at, for_seeds, patient};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

type Asking = Asks<Vec<u8>, Vec<u8>>;

/// What a future gives within so many polls; else it is dropped behind the last of them.
async fn cut<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Pending if left == 0 => Poll::Ready(None),
            outcome => outcome.map(Some),
        }
    })
    .await
}

/// Tries again and again what is dropped after a few polls, until it comes to its end once.
async fn tried<R>(rolls: &mut Random, lane: &Lane<Asking>, attempt: impl AsyncFn() -> R) -> R {
    for patience in 1.. {
        if let Some(output) = cut(1 + rolls.index(patience), attempt()).await {
            return output;
        }
        lane.sleep(Duration::from_micros(rolls.index(300) as u64)).await;
    }
    unreachable!("patience grows")
}

/// Asks the echo at port 8, over a connection of its own.
async fn by_connection(lane: &Lane<Asking>, line: &[u8]) -> aio::Result<Vec<u8>> {
    let other = lane.connect(at(8)).await?;
    other.write(line).await?;
    other.finish();
    let mut heard = Vec::new();
    while other.fill(1).await? {
        other.input(|input| {
            heard.extend_from_slice(input.first());
            input.skip(input.first().len());
        });
    }
    if heard.len() == line.len() { Ok(heard) } else { Err(Error::Panicked) }
}

async fn by_file(lane: &Lane<Asking>) -> aio::Result<()> {
    let (directory, _) = lane.open("/srv", OpenOptions::new().read(true).directory(true)).await?;
    drop(lane.open_beneath(&directory, "file", OpenOptions::new().read(true)).await?);
    Ok(())
}

/// The same line, by the way that its first byte says.
async fn by_some_way(lane: &Lane<Asking>, line: &[u8]) -> aio::Result<Vec<u8>> {
    match line[0] {
        b'a' => lane.ask(line.len() % lane.lanes(), line.to_vec()).await,
        b'o' => {
            let own = line.to_vec();
            lane.offload(move || own).await
        }
        b'c' => by_connection(lane, line).await,
        b'f' => by_file(lane).await.map(|()| line.to_vec()),
        b's' => {
            lane.sleep(Duration::from_millis(line.len() as u64 % 5)).await;
            Ok(line.to_vec())
        }
        _ => Ok(lane.within(Duration::from_secs(1), async { line.to_vec() }).await.unwrap_or_default()),
    }
}

/// Reads a line; dropped anywhere, it has taken all of it or nothing.
async fn read_line(connection: &Connection) -> aio::Result<Option<Vec<u8>>> {
    let mut wanted = 1;
    while connection.fill(wanted).await? {
        let line = connection.input(|input| {
            let length = input.position(b'\n')? + 1;
            input.take_shared(length).map(|line| line.to_vec())
        });
        if line.is_some() {
            return Ok(line);
        }
        wanted = connection.input(|input| input.len()) + 1;
    }
    Ok(None)
}

/// Writes a line, though each of its writes is dropped early.
async fn write_line(lane: &Lane<Asking>, rolls: &mut Random, connection: &Connection, line: &[u8]) -> aio::Result<()> {
    let mut written = 0;
    while written < line.len() {
        let mut write = connection.write(&line[written..]);
        if let Some(outcome) = cut(1 + rolls.index(3), &mut write).await {
            outcome?;
        }
        written += write.written();
        drop(write);
        if let Some(outcome) = cut(rolls.index(2), connection.room()).await {
            outcome?;
        }
        lane.sleep(Duration::from_micros(rolls.index(50) as u64)).await;
    }
    match cut(rolls.index(3), connection.flush()).await {
        Some(outcome) => outcome,
        None => Ok(()),
    }
}

/// Echoes lines, and drops every future that it waits for again and again, wherever that stands.
async fn fickle(lane: Lane<Asking>, connection: Connection) -> aio::Result<()> {
    let mut rolls = Random::new(lane.number() as u64);
    while let Some(line) = tried(&mut rolls, &lane, async || read_line(&connection).await).await? {
        let answer = loop {
            // A connection to others may be broken off.
            if let Ok(answer) = tried(&mut rolls, &lane, async || by_some_way(&lane, &line).await).await {
                break answer;
            }
        };
        write_line(&lane, &mut rolls, &connection, &answer).await?;
    }
    connection.finish();
    Ok(())
}

fn clients(scene: &mut Scene) {
    for client in 0..10 {
        let script = scene.connect(7);
        for (number, way) in "aocfst".chars().cycle().skip(client % 6).take(8).enumerate() {
            let line = format!("{way} {}\n", "x".repeat(number * client * 31));
            script.say(&line).hear(&line);
        }
        script.finish();
    }
}

#[test]
fn every_future_may_be_dropped_wherever_it_stands() {
    run(60, gentle, |scene| {
        scene.memory(2 << 20);
        scene.limits(patient().asks_max(3).output_high(4096));
        scene.world().write_file("/srv/file", b"bytes");
        scene.serve(7, |_lane| aio::each(fickle).answering(async |_lane, question| question));
        scene.serve(8, |_lane| aio::each(async_echo::echo));
        clients(scene);
        // Directories and files are open only as long as somebody holds them.
        let world = scene.world().clone();
        scene.check(move |_| match world.open_files() {
            0 => Ok(()),
            files => Err(format!("{files} files are open")),
        });
    });
}

/// All that a task can wait for, one after the other.
async fn everything(lane: &Lane<Asking>, connection: &Connection) -> aio::Result<()> {
    while let Some(line) = read_line(connection).await? {
        for way in *b"aocfst" {
            let line = [&[way], &line[..]].concat();
            let answer = by_some_way(lane, &line).await?;
            connection.write(&answer).await?;
            connection.send(connection.lease(100).map_err(|_| Error::Panicked)?.share()).await?;
        }
        connection.write(&[7; 200_000]).await?;
        connection.flush().await?;
    }
    connection.finish();
    lane.draining().await;
    Ok(())
}

/// One run: the task of each connection is dropped after another number of polls, wherever it is then.
fn dropped_after(polls: usize, seed: u64, faults: Faults) {
    let world = World::new(seed, faults);
    world.write_file("/srv/file", b"bytes");
    let mut rig = Rig::new(&world, &RigPlan::lanes(2).memory(4 << 20), |roster| {
        let handle = async move |lane: Lane<Asking>, connection: Connection| {
            let _ = cut(polls + lane.number(), everything(&lane, &connection)).await;
        };
        let serve = aio::each(handle).answering(async |lane, question| {
            lane.sleep(Duration::from_millis(1)).await;
            question
        });
        roster.serve(at(7), patient(), serve);
        roster.serve(at(8), patient(), aio::each(async_echo::echo));
    });
    let peers: Vec<_> = (0..4).map(|number| rig.connect(number)).collect();
    for _ in 0..20 {
        for (number, peer) in peers.iter().enumerate() {
            peer.send(b"line\n");
            drop(peer.read(1 << (10 + number)));
        }
        rig.wait(MS);
    }
    peers.iter().for_each(|peer| peer.finish());
    rig.wait(50 * MS);
    peers.iter().for_each(|peer| peer.close());
    // Lanes that have ended hold no memory, no descriptor, and no operation is left behind.
    rig.close(&mut Nobody);
    assert_eq!(world.open_files(), 0, "files are open");
    for service in 0..2 {
        let counters = [ServiceCounter::Panics, ServiceCounter::TicketsDropped, ServiceCounter::ConnectionsOpen];
        assert_eq!(counters.map(|counter| rig.count_of(service, counter)), [0; 3], "after {polls} polls");
    }
}

#[test]
fn a_task_that_is_dropped_wherever_it_stands_leaves_nothing_behind() {
    for polls in 0..60 {
        dropped_after(polls, 1, Faults::none());
    }
    for_seeds(60, |seed| dropped_after(seed as usize % 40, seed, gentle(seed)));
}
