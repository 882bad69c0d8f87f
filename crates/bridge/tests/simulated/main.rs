//! A direction against a kernel that redirects late, passes late, acknowledges late and has seldom room: whatever it does, bytes keep their order, few are under way, and the end comes last.
#![allow(clippy::unwrap_used)]

use corelane_bridge::{Counted, Direction, Given, Kernel, Progress, Say};
use corelane_seam::Random;
use std::cell::Cell;
use std::collections::VecDeque;

const SEEDS: u64 = 400;
const BYTES: u64 = 60_000;
const SEND_BUFFER: u64 = 16 << 10;

/// One direction: bytes are their places in the stream, `from..to`.
#[derive(Default)]
struct Model {
    said: Cell<Say>,
    counted: Cell<Counted>,
    sent: u64,
    /// Redirected, and not with the other connection yet.
    backlog: VecDeque<(u64, u64)>,
    /// Passed: still behind the kernel's thread, and those that can be received.
    late: VecDeque<(u64, u64)>,
    ingress: VecDeque<(u64, u64)>,
    lane: VecDeque<(u64, u64)>,
    /// What the other connection was given, and what its peer has taken of that.
    given: u64,
    taken: u64,
    is_unknown: bool,
}

impl Kernel for Model {
    fn counted(&self) -> Counted {
        self.counted.get()
    }

    fn say(&self, say: Say) {
        self.said.set(say);
    }

    fn given(&self) -> Given {
        // The connection had been given a thousand bytes of others before.
        let progress = Progress { given: 1_000 + self.given, taken: 1_000 + self.taken };
        if self.is_unknown { Given::Unknown } else { Given::Known(progress) }
    }

    fn send_buffer(&self) -> u64 {
        SEND_BUFFER
    }
}

impl Model {
    /// What the program does with a piece.
    fn receive(&mut self, bytes: u64, is_late: bool) -> bool {
        let piece = (self.sent, self.sent + bytes);
        self.sent += bytes;
        let (mut counted, said) = (self.counted.get(), self.said.get());
        let redirects = counted.passed == said.done && counted.redirected + bytes <= said.until;
        if redirects {
            counted.redirected += bytes;
            self.backlog.push_back(piece);
        } else {
            counted.passed += bytes;
            if counted.rung <= said.heard {
                counted.rung = said.heard + 1;
            }
            let is_behind = is_late || !self.late.is_empty();
            if is_behind { self.late.push_back(piece) } else { self.ingress.push_back(piece) }
        }
        self.counted.set(counted);
        redirects
    }

    fn give(&mut self, (from, to): (u64, u64)) {
        assert_eq!(from, self.given, "each byte comes in its place");
        self.given = to;
    }

    /// Bytes that were redirected and that the peer has not taken.
    fn untaken(&self) -> u64 {
        self.given - self.taken + self.backlog.iter().map(|(from, to)| to - from).sum::<u64>()
    }
}

/// Plays one; returns how many bytes were redirected, and how often the direction was given back.
fn play(seed: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let (mut model, mut direction, mut rests) = (Model::default(), Direction::default(), 0);
    // Some bytes were held when it began, or so many that they fill the send buffer by themselves.
    let held = [0, 300, SEND_BUFFER][random.below(3) as usize];
    model.sent = held;
    model.counted.set(Counted { passed: held, ..Counted::default() });
    model.lane.extend((held > 0).then_some((0, held)));
    direction.enter(held);
    direction.begin(&model);
    // Some senders wait for what they have sent to arrive.
    let (mut has_ended, paces) = (false, random.below(2) == 0);
    for _ in 0..2_000_000 {
        model.is_unknown = random.below(10) == 0;
        match random.below(7) {
            0 | 1 if model.sent < BYTES && !(paces && model.given < model.sent) => {
                let most = if random.below(4) == 0 { 5_000 } else { 64 };
                let bytes = 1 + random.below(most);
                if model.receive(bytes, random.below(3) == 0) {
                    assert!(model.untaken() <= SEND_BUFFER / 2, "seed {seed}: {} bytes are under way", model.untaken());
                }
            }
            2 => {
                if let Some(piece) = model.backlog.pop_front() {
                    model.give(piece);
                }
                model.ingress.extend(model.late.pop_front());
            }
            3 => model.taken += random.below(model.given - model.taken + 1),
            4 => {
                if let Some(piece) = model.ingress.pop_front() {
                    direction.received((piece.1 - piece.0) as usize);
                    model.lane.push_back(piece);
                } else if direction.rest(&model) {
                    rests += 1;
                }
                has_ended = model.sent >= BYTES && model.lane.is_empty() && direction.has_all(&model);
            }
            _ => {
                let Some((from, to)) = model.lane.pop_front() else { continue };
                if !direction.is_clear(&model) {
                    model.lane.push_front((from, to));
                    continue;
                }
                // A send may be short.
                let until = from + 1 + random.below(to - from);
                model.give((from, until));
                direction.gave((until - from) as usize, &model);
                if until < to {
                    model.lane.push_front((until, to));
                }
            }
        }
        if has_ended && direction.is_clear(&model) {
            assert_eq!(model.given, model.sent, "seed {seed}: an end comes behind all bytes");
            return (model.counted.get().redirected, rests);
        }
    }
    panic!("seed {seed}: it does not come to its end: {} of {} bytes given, {direction:?}", model.given, model.sent);
}

#[test]
fn bytes_keep_their_order_and_the_end_comes_last() {
    let (mut redirected, mut rests) = (0, 0);
    for seed in 0..SEEDS {
        let (bytes, times) = play(seed);
        redirected += bytes;
        rests += times;
    }
    println!("{redirected} of {} bytes were redirected, given back {rests} times", SEEDS * BYTES);
    assert!(redirected > SEEDS * BYTES / 5 && redirected < SEEDS * BYTES && rests > SEEDS);
}

/// A service that sends bytes of its own breaks what was agreed: then nothing is redirected any more, and its lane goes on.
#[test]
fn bytes_of_others_end_the_redirecting() {
    let (mut model, mut direction) = (Model::default(), Direction::default());
    direction.enter(0);
    direction.begin(&model);
    assert!(model.receive(100, false));
    let piece = model.backlog.pop_front().unwrap();
    model.give(piece);
    assert!(direction.is_clear(&model));
    direction.gave(10, &model);
    assert!(!model.receive(100, false) && !direction.rest(&model) && !model.receive(100, false));
}
