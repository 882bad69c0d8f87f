//! Bytes that leave memory which is lent and written anew as soon as it is released, to peers that read late. None is wrong, whether memory is released at once, late, when
//! the receiver has read its pages, or never. 100 GB in all:
//!
//! ```text
//! CORELANE_SIMULATED_BYTES=100000000000 cargo test --package corelane-svc --test simulated rewritten::what -- --nocapture
//! ```
//!
//! A run of 100 GB (some four minutes) has found none.

use crate::rig::{MS, Nobody, Rig, RigPlan, patient};
use corelane_sim::{Faults, Peer, Planted, Random, World};
use corelane_svc::{Cx, Input, Next, Output, Peer as Client, Silent, StreamService};
use corelane_watch::ServiceCounter as C;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How many bytes are sent at least.
const AMOUNT: &str = "CORELANE_SIMULATED_BYTES";
/// Seeds that are played where nothing is said.
const SEEDS: u64 = 6;
/// Bytes of a piece: a block of the lane's memory.
const PIECE: usize = 64 << 10;
const CLIENTS: usize = 6;
const ROUNDS: usize = 60;

/// The word that stands at a place of each stream.
fn word_at(place: u64) -> [u8; 8] {
    (place / 8 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

/// Sends without end; each piece is a new lease.
struct Writer;

impl Writer {
    fn write(cx: &mut Cx<'_>, place: &mut u64, output: &mut Output) -> Next {
        output.notify_drained();
        // Without memory it is told again once there is some.
        let Ok(mut lease) = cx.lease(PIECE) else { return Next::Continue };
        let bytes = PIECE.min(lease.capacity());
        for (number, word) in lease.spare()[..bytes].chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&word_at(*place + 8 * number as u64));
        }
        lease.advance(bytes / 8 * 8);
        *place += lease.len() as u64;
        output.push(lease.share());
        Next::Continue
    }
}

impl StreamService for Writer {
    type Talk = Silent;
    /// The place of the next byte.
    type Session = u64;

    fn open(&mut self, _: &mut Cx<'_>, _: &Client) -> u64 {
        0
    }

    fn receive(&mut self, cx: &mut Cx<'_>, place: &mut u64, input: &mut Input, output: &mut Output) -> Next {
        input.skip(input.len());
        Self::write(cx, place, output)
    }

    fn drained(&mut self, cx: &mut Cx<'_>, place: &mut u64, output: &mut Output) -> Next {
        Self::write(cx, place, output)
    }
}

/// A reader of such a stream.
struct Reader {
    peer: Peer,
    read: u64,
}

impl Reader {
    /// Reads so many bytes at the most, and looks at each.
    fn read(&mut self, most: usize) {
        let bytes = self.peer.read(most);
        let mut left = &bytes[..];
        while !left.is_empty() {
            let skip = (self.read % 8) as usize;
            let word = word_at(self.read);
            let count = left.len().min(8 - skip);
            assert!(left[..count] == word[skip..][..count], "a wrong byte at {}", self.read);
            (left, self.read) = (&left[count..], self.read + count as u64);
        }
    }
}

fn faults(random: &mut Random) -> Faults {
    let mut chance = |most| random.below(most) as u16;
    Faults {
        late_release: chance(500),
        shared_pages: chance(500),
        never_release: chance(500),
        short_write: chance(200),
        late_completion: chance(100),
        ..Faults::none()
    }
}

/// Some more come, and ask for their streams.
fn join(rig: &mut Rig, readers: &mut Vec<Reader>) {
    let first = readers.len();
    readers.extend((first..first + CLIENTS).map(|number| Reader { peer: rig.connect(number), read: 0 }));
    rig.wait(MS);
    readers[first..].iter().for_each(|reader| assert_eq!(reader.peer.send(b"!"), 1));
}

/// Plays one seed; returns how many bytes were read, and sent.
fn run(seed: u64, bug: Option<Planted>) -> (u64, u64) {
    let mut random = Random::new(seed);
    let world = World::new(seed, faults(&mut random));
    bug.into_iter().for_each(|bug| world.plant(bug));
    let mut rig = Rig::serving(&world, &RigPlan::lanes(1).memory(4 << 20), patient(), |_| Writer);
    let mut readers = Vec::new();
    for round in 0..ROUNDS {
        if round % (ROUNDS / 2) == 0 {
            // Memory of those that leave is released late, or never, and others are lent what is free.
            readers.iter().for_each(|reader: &Reader| reader.peer.reset());
            join(&mut rig, &mut readers);
        }
        rig.wait(MS);
        // Some read nothing for long.
        readers.iter_mut().for_each(|reader| reader.read(random.below(3) as usize * 200_000));
    }
    let sent = rig.count(C::BytesOut);
    readers.iter().for_each(|reader| reader.peer.reset());
    rig.begin_drain();
    rig.until_ended(&mut Nobody);
    assert!(rig.has_ended(), "a lane waits for ever");
    world.check().unwrap();
    (readers.iter().map(|reader| reader.read).sum(), sent)
}

#[test]
fn what_is_read_late_is_what_was_sent_whenever_memory_is_released() {
    let wanted = std::env::var(AMOUNT).map_or(0, |bytes| bytes.parse().unwrap());
    let (mut read, mut sent, mut seeds) = (0, 0, 0);
    let mut play = |seed| {
        let (more_read, more_sent) = run(seed, None);
        (read, sent, seeds) = (read + more_read, sent + more_sent, seeds + 1);
        sent
    };
    crate::for_seeds(SEEDS, |seed| {
        play(seed);
    });
    let mut more = SEEDS..;
    while let Some(seed) = more.next().filter(|_| wanted > 0) {
        match catch_unwind(AssertUnwindSafe(|| play(seed))) {
            Ok(sent) if sent >= wanted => break,
            Ok(_) => {}
            Err(_) => panic!("CORELANE_SEED={seed} shows this again"),
        }
    }
    println!("{seeds} seeds sent {sent} bytes, of which {read} were read");
    assert!(read > sent / 2 && sent > seeds * (4 << 20), "{sent} bytes of {seeds} seeds, {read} read");
}

#[test]
fn a_driver_that_releases_too_early_is_caught() {
    for bug in [Planted::EarlyRelease, Planted::ReleaseAtAcknowledgement] {
        let is_caught = |seed| catch_unwind(AssertUnwindSafe(|| run(seed, Some(bug)))).is_err();
        assert!((0..SEEDS).any(is_caught), "nobody noticed {bug:?}");
    }
}
