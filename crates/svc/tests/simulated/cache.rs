//! A cache with values of up to a MiB: they are received straight into the lease that is kept, and sent from there, also
//! when they are evicted meanwhile.

use crate::echo::pattern;
use crate::for_seeds;
use crate::rig::Talker;
use crate::rig::{Family, Rig, RigPlan, patient};
use corelane_seam::Shared;
use corelane_sim::{Faults, Random, Report, World};
use corelane_svc::{Cx, Input, Next, Output, Peer, Silent, StreamService};
use corelane_watch::ServiceCounter as C;
use std::collections::VecDeque;

/// Values that a lane keeps: few, so that they are evicted while they are sent.
const VALUES_MAX: usize = 3;

#[derive(Default)]
struct Cache {
    /// Oldest first.
    values: VecDeque<(String, Shared)>,
}

/// The key of the value that is being received, and its length.
type Session = Option<(String, usize)>;

impl Cache {
    fn keep(&mut self, key: String, value: Shared) {
        self.values.retain(|(other, _)| *other != key);
        self.values.push_back((key, value));
        if self.values.len() > VALUES_MAX {
            self.values.pop_front();
        }
    }

    /// Carries out a command; the lease to fill if it is a `set`. None if it must wait.
    fn command(&mut self, cx: &mut Cx<'_>, session: &mut Session, output: &mut Output, line: &str) -> Option<Next> {
        let mut words = line.split_whitespace();
        let (verb, key) = (words.next().unwrap(), words.next().unwrap());
        if verb == "set" {
            let until = words.next().unwrap().parse().unwrap();
            let lease = cx.lease(until).ok()?;
            *session = Some((key.to_string(), until));
            return Some(Next::Fill { lease, until });
        }
        match self.values.iter().find(|(other, _)| other == key) {
            Some((_, value)) => {
                let head = format!("value {}\n", value.len());
                if output.write(head.as_bytes()).is_err() {
                    return None;
                }
                output.push(value.clone());
            }
            None if output.write(b"none\n").is_err() => return None,
            None => {}
        }
        Some(Next::Continue)
    }
}

impl StreamService for Cache {
    type Talk = Silent;
    type Session = Session;

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) -> Session {
        None
    }

    fn receive(&mut self, cx: &mut Cx<'_>, session: &mut Session, input: &mut Input, output: &mut Output) -> Next {
        if let Some(lease) = input.filled() {
            let (key, bytes) = session.take().unwrap();
            if lease.len() < bytes {
                return Next::Continue;
            }
            self.keep(key, lease.share());
            output.push(&b"stored\n"[..]);
        }
        while let Some(end) = input.position(b'\n') {
            if !output.ask_room() {
                break;
            }
            let Some(line) = input.contiguous(end + 1) else { break };
            let line = String::from_utf8(line.to_vec()).unwrap();
            match self.command(cx, session, output, &line) {
                None => break,
                Some(Next::Continue) => input.skip(end + 1),
                Some(fill) => {
                    input.skip(end + 1);
                    return fill;
                }
            }
        }
        Next::Continue
    }
}

/// A value tells its key's number and its own seed, and the rest follows from that.
fn value(key: u8, seed: u8, bytes: usize) -> Vec<u8> {
    let mut value = vec![key, seed];
    value.extend(pattern(u64::from(seed) << 8 | u64::from(key), bytes));
    value
}

/// A client's commands and, of each, the key that it gets; none for a `set`.
fn commands(seed: u64, value_bytes: usize) -> (Vec<u8>, Vec<Option<u8>>) {
    let mut random = Random::new(seed);
    let (mut text, mut keys) = (Vec::new(), Vec::new());
    for _ in 0..12 {
        let key = random.below(6) as u8;
        if random.below(3) > 0 {
            text.extend(format!("get {key}\n").bytes());
            keys.push(Some(key));
        } else {
            let value = value(key, random.below(256) as u8, random.below(value_bytes as u64) as usize);
            text.extend(format!("set {key} {}\n", value.len()).bytes());
            text.extend(value);
            keys.push(None);
        }
    }
    (text, keys)
}

/// Takes the next answer off; false if it is cut off.
fn take_answer(got: &mut &[u8], key: Option<u8>) -> bool {
    let Some(end) = got.iter().position(|&byte| byte == b'\n') else { return false };
    let head = String::from_utf8(got[..end].to_vec()).unwrap();
    let rest = &got[end + 1..];
    let length = head.strip_prefix("value ").map_or(0, |length| length.parse().unwrap());
    match key {
        None => assert_eq!(head, "stored"),
        Some(_) => assert!(head == "none" || length > 0, "{head}"),
    }
    let Some((bytes, rest)) = rest.split_at_checked(length) else { return false };
    if let Some(key) = key.filter(|_| length > 0) {
        assert!(bytes == value(key, bytes[1], length - 2), "a wrong value");
    }
    *got = rest;
    true
}

fn judge(keys: &[Option<u8>], talker: &Talker) {
    let mut got = talker.got.as_slice();
    for &key in keys {
        if !take_answer(&mut got, key) {
            return assert!(!talker.is_complete(), "an answer is missing");
        }
    }
    assert!(got.is_empty());
}

pub fn run(seed: u64, faults: Faults, value_bytes: usize) -> Report {
    let world = World::new(seed, faults);
    let mut rig =
        Rig::serving(&world, &RigPlan::lanes(2).memory(128 << 20).family(Family::of(seed)), patient(), |_| Cache::default());
    let plans: Vec<_> = (0..6).map(|number| commands(seed * 100 + number, value_bytes)).collect();
    let talker = |number: usize| Talker::new(rig.connect(number), seed, plans[number].0.clone());
    let mut talkers: Vec<Talker> = (0..6).map(talker).collect();
    talkers[0].read_most = 1 + value_bytes / 10;
    assert!(rig.play(&mut talkers), "clients wait for ever");
    let (copied, received) = (rig.count(C::BytesCopied), rig.count(C::BytesIn));
    rig.drain(&mut talkers);
    world.check().unwrap();
    for (talker, (_, keys)) in talkers.iter().zip(&plans) {
        judge(keys, talker);
        assert!(talker.is_complete() || faults != Faults::none());
    }
    if faults == Faults::none() && value_bytes >= 1 << 20 {
        assert!(copied < received / 4, "{copied} of {received} bytes were copied: values go straight into their leases");
    }
    world.report()
}

#[test]
fn small_values_come_back_as_they_were_set() {
    for_seeds(100, |seed| {
        run(seed, Faults::none(), 2_000);
    });
}

#[test]
fn values_come_back_under_every_fault() {
    for_seeds(100, |seed| {
        run(seed, Faults::all(seed), 40_000);
    });
}

#[test]
fn large_values_are_received_in_place_and_outlive_their_eviction() {
    for_seeds(2, |seed| {
        run(seed, Faults::none(), 1 << 20);
    });
}

/// Takes a lease to fill, is refused more beside it, and goes on with what it has.
struct Modest;

impl StreamService for Modest {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        if input.filled().is_some() {
            output.push(&b"filled"[..]);
            return Next::Close;
        }
        let lease = cx.lease(1_000).unwrap();
        let more: Vec<_> = std::iter::from_fn(|| cx.lease(1 << 20).ok()).collect();
        assert!(!more.is_empty(), "it was refused when it had some");
        Next::Fill { lease, until: 1_000 }
    }
}

#[test]
fn who_was_refused_more_and_fills_what_it_has_is_not_kept_waiting() {
    let world = World::new(1, Faults::none());
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1), patient(), |_| Modest);
    let mut talkers = vec![Talker::new(rig.connect(1), 1, vec![7; 1_000])];
    talkers[0].piece_most = 100;
    assert!(rig.play(&mut talkers), "it waits for ever");
    assert_eq!(talkers[0].got, b"filled");
    rig.close(&mut talkers);
}
