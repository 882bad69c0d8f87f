//! A lane waits at an event queue, and a queue for lanes.
#![forbid(unsafe_code)]

#[allow(dead_code)] // its main
#[path = "../../examples/watching.rs"]
mod watching;

use corelane::Lanes;
use corelane::aio::{self, Lane};
use corelane::lanes::DriverChoice;
use corelane_event::{Change, Event, Events, Happening, Queue};
use std::collections::BTreeSet;
use std::fs::File;
use std::sync::mpsc;
use std::time::Duration;

/// After this a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_lane_waits_at_a_queue_on_each_driver() {
    for driver in [DriverChoice::Epoll, DriverChoice::Auto] {
        let folder = std::env::temp_dir().join(format!("corelane-queues-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (tell, told) = mpsc::channel();
        let start = {
            let folder = folder.clone();
            move |_| {
                let (folder, tell) = (folder.clone(), tell.clone());
                aio::main(async move |lane: Lane| {
                    let directory = File::open(folder).unwrap();
                    tell.send(None).unwrap();
                    watching::watch(&lane, &directory, |name| tell.send(Some(name)).unwrap()).await.unwrap();
                })
            }
        };
        let running = Lanes::per_core().lanes(1).driver(driver).client(start).start().unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), None);
        // The first that is seen says that it watches.
        let mut number = 0;
        let first = loop {
            number += 1;
            std::fs::write(folder.join(format!("early-{number}")), b"").unwrap();
            assert!(number < 1000, "the lane is told");
            if let Ok(name) = told.recv_timeout(Duration::from_millis(10)) {
                break name.unwrap();
            }
        };
        assert!(first.to_string_lossy().starts_with("early-"));
        for name in ["a", "b"] {
            std::fs::write(folder.join(name), b"").unwrap();
            let is_it = |told: &Option<std::ffi::OsString>| told.as_ref().is_some_and(|told| told == name);
            assert!(std::iter::from_fn(|| told.recv_timeout(PATIENCE).ok()).any(|told| is_it(&told)));
        }
        running.drain();
        running.wait().unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// Lanes have descriptor tables of their own: the poster is made before them.
#[test]
fn a_queue_hears_of_lanes() {
    let queue = Events::new().unwrap();
    (0..2).for_each(|lane| queue.change(&Change::user(lane)).unwrap());
    let poster = queue.poster().unwrap();
    let start = move |_| {
        let mut poster = poster.clone();
        aio::main(async move |lane: Lane| poster.trigger(lane.number() as u64, 40 + lane.number() as i64).unwrap())
    };
    let running = Lanes::per_core().lanes(2).own_descriptors(true).client(start).start().unwrap();
    let mut lanes = BTreeSet::new();
    while lanes.len() < 2 {
        lanes.extend(next(&queue));
    }
    assert_eq!(lanes, BTreeSet::from([(0, 40), (1, 41)]));
    running.drain();
    running.wait().unwrap();
}

/// User events that are told, waiting for them.
fn next(queue: &Queue) -> Vec<(u64, i64)> {
    let mut events = [Event::BLANK; 4];
    let told = queue.take(&mut events, 1, Some(PATIENCE)).unwrap();
    assert!(told > 0, "lanes say something");
    let of = |event: &Event| match event.happening() {
        Happening::User { user, data, .. } => (user, data),
        other => panic!("{other:?}"),
    };
    events[..told].iter().map(of).collect()
}
