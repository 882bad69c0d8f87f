//! A direction against a kernel that redirects late, passes late, acknowledges late, has seldom room, and hands out bytes again that came before: whatever it does, bytes keep their order and come
//! once, few are under way, and the end comes last.
#![allow(clippy::unwrap_used)]

use corelane_bridge::{Counted, Direction, Given, Kernel, Progress, Say};
use corelane_seam::Random;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

const SEEDS: u64 = 400;
const BYTES: u64 = 60_000;
const SEND_BUFFER: u64 = 16 << 10;
/// What had arrived when the connection was entered.
const ARRIVED: u64 = 5_000;

/// One direction: bytes are their places in the stream, `from..to`.
#[derive(Default)]
struct Model {
    said: Cell<Say>,
    counted: Cell<Counted>,
    sent: Cell<u64>,
    /// So many bytes there are in all, of which so many were there when the direction began.
    total: u64,
    held: u64,
    /// So many bytes the next piece has that came before; whether the program fails to take them off; and the place of the first piece that it let through with them.
    again: Cell<u64>,
    fails: bool,
    wrong: Cell<Option<u64>>,
    /// Pieces that come while the lane asks what has arrived.
    coming: Cell<u64>,
    /// So often in a row a piece comes right behind that; and whether the system tells nothing of it.
    flood: Cell<u64>,
    is_mute: bool,
    /// Redirected, and not with the other connection yet.
    backlog: RefCell<VecDeque<(u64, u64)>>,
    /// Where the redirected pieces end.
    ends: RefCell<Vec<u64>>,
    /// Passed: still behind the kernel's thread, and those that can be received.
    late: RefCell<VecDeque<(u64, u64)>>,
    ingress: RefCell<VecDeque<(u64, u64)>>,
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

    fn arrived(&self) -> Option<u64> {
        let coming = self.coming.get();
        self.coming.set(coming / 2);
        let comes = |now: bool| _ = now.then(|| self.receive(10, false));
        comes(coming % 4 == 1);
        let arrived = ARRIVED + self.sent.get() - self.held + u64::from(self.counted.get().ends);
        comes(coming % 4 > 1 || self.flood.get() > 0);
        self.flood.set(self.flood.get().saturating_sub(1));
        (!self.is_mute).then_some(arrived)
    }

    fn pause(&self) {}

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
    /// What the program does with a piece. The end comes with the last of them.
    fn receive(&self, bytes: u64, is_late: bool) -> bool {
        let from = self.sent.get();
        let piece = (from, self.total.min(from + bytes));
        if piece.0 == piece.1 {
            return false;
        }
        self.sent.set(piece.1);
        let (mut counted, said, mut bytes) = (self.counted.get(), self.said.get(), piece.1 - piece.0);
        let again = self.again.take();
        if again > 0 && (counted.is_placed == 0 || self.fails) {
            self.wrong.set(self.wrong.get().or(Some(from)));
            // Of the first piece it does not know.
            counted.is_spoiled |= counted.is_placed;
            bytes += again;
        }
        (counted.is_placed, counted.ends) = (1, u32::from(piece.1 == self.total));
        let is_bounded = counted.redirected + bytes <= said.until && counted.pieces < said.until_pieces;
        let redirects = counted.is_spoiled == 0 && counted.passed == said.done && is_bounded;
        if redirects {
            assert_eq!(self.wrong.get(), None, "nothing is redirected behind a piece that is wrong");
            (counted.redirected, counted.pieces) = (counted.redirected + bytes, counted.pieces + 1);
            self.ends.borrow_mut().push(piece.1);
            self.backlog.borrow_mut().push_back(piece);
        } else {
            counted.passed += bytes;
            if counted.rung <= said.heard {
                counted.rung = said.heard + 1;
            }
            let mut late = self.late.borrow_mut();
            let is_behind = is_late || !late.is_empty();
            if is_behind { late.push_back(piece) } else { self.ingress.borrow_mut().push_back(piece) }
        }
        self.counted.set(counted);
        redirects
    }

    fn give(&mut self, (from, to): (u64, u64)) {
        assert_eq!(from, self.given, "each byte comes in its place");
        self.given = to;
    }

    /// What the kernel's thread does at a time.
    fn work(&mut self) {
        if let Some(piece) = self.backlog.get_mut().pop_front() {
            self.give(piece);
        }
        let late = self.late.get_mut().pop_front();
        self.ingress.get_mut().extend(late);
    }

    /// Bytes that were redirected and that the peer has not taken.
    fn untaken(&self) -> u64 {
        self.given - self.taken + self.backlog.borrow().iter().map(|(from, to)| to - from).sum::<u64>()
    }
}

/// What became of one.
enum End {
    /// All bytes came to the other connection: so many were redirected, and so often was the direction given back.
    Whole { redirected: u64, rests: u64 },
    /// A piece was wrong.
    BrokenOff,
}

fn begun(random: &mut Random) -> (Model, Direction) {
    let (mut model, mut direction) = (Model::default(), Direction::default());
    // Some bytes were held when it began, or so many that they fill the send buffer by themselves.
    let held = [0, 300, SEND_BUFFER][random.below(3) as usize];
    (model.held, model.fails) = (held, random.below(8) == 0);
    model.total = if random.below(8) == 0 { held + 1 + random.below(500) } else { BYTES };
    model.flood.set(if random.below(8) == 0 { 65 + random.below(128) } else { 0 });
    model.sent.set(held);
    model.again.set(if random.below(8) == 0 { 1 + random.below(500) } else { 0 });
    model.counted.set(Counted { passed: held, ..Counted::default() });
    model.lane.extend((held > 0).then_some((0, held)));
    direction.enter(held, ARRIVED);
    direction.begin(&model);
    (model, direction)
}

/// The lane receives a piece: whether that is right.
fn received(seed: u64, model: &mut Model, direction: &mut Direction, piece: (u64, u64)) -> bool {
    direction.received((piece.1 - piece.0) as usize);
    let is_right = direction.is_right(model);
    match model.wrong.get() {
        Some(wrong) => assert!(!is_right || piece.0 < wrong, "seed {seed}: {piece:?} has bytes that came before"),
        None => assert!(is_right, "seed {seed}: {piece:?} is as it should be"),
    }
    model.lane.push_back(piece);
    is_right
}

fn play(seed: u64) -> End {
    let mut random = Random::new(seed);
    let (mut model, mut direction) = begun(&mut random);
    let mut rests = 0;
    // Some senders wait for what they have sent to arrive.
    let (mut has_ended, paces) = (false, random.below(2) == 0);
    for _ in 0..2_000_000 {
        model.is_unknown = random.below(10) == 0;
        model.coming.set(random.below(64));
        match random.below(7) {
            0 | 1 if model.sent.get() < model.total && !(paces && model.given < model.sent.get()) => {
                if model.sent.get() > model.held && random.below(20) == 0 {
                    model.again.set(1 + random.below(500));
                }
                let most = if random.below(4) == 0 { 5_000 } else { 64 };
                let bytes = 1 + random.below(most);
                if model.receive(bytes, random.below(3) == 0) {
                    assert!(model.untaken() <= SEND_BUFFER / 2, "seed {seed}: {} bytes are under way", model.untaken());
                    let pieces = model.ends.get_mut().iter().rev().take_while(|end| **end > model.taken).count();
                    assert!(pieces as u64 <= SEND_BUFFER >> 11, "seed {seed}: {pieces} pieces are under way");
                }
            }
            2 => model.work(),
            3 => model.taken += random.below(model.given - model.taken + 1),
            4 => {
                let piece = model.ingress.get_mut().pop_front();
                if let Some(piece) = piece {
                    if !received(seed, &mut model, &mut direction, piece) {
                        return End::BrokenOff;
                    }
                } else if direction.rest(&model) {
                    rests += 1;
                }
                has_ended = model.sent.get() >= model.total && model.lane.is_empty() && direction.has_all(&model);
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
            assert_eq!(model.given, model.total, "seed {seed}: an end comes behind all bytes");
            return End::Whole { redirected: model.counted.get().redirected, rests };
        }
    }
    panic!("seed {seed}: it does not come to its end: {} of {} bytes given, {direction:?}", model.given, model.total);
}

#[test]
fn bytes_keep_their_order_and_the_end_comes_last() {
    let (mut bytes, mut times, mut broken) = (0, 0, 0);
    for seed in 0..SEEDS {
        match play(seed) {
            End::Whole { redirected, rests } => (bytes, times) = (bytes + redirected, times + rests),
            End::BrokenOff => broken += 1,
        }
    }
    let most = (SEEDS - broken) * BYTES;
    println!("{bytes} of {most} bytes were redirected, given back {times} times; {broken} were broken off");
    assert!(bytes > most / 10 && bytes < most && times > SEEDS);
    assert!(broken > SEEDS / 10 && broken < SEEDS / 2);
}

/// Where it stays open whether the first piece is right nobody gets it, and where it is open for long alone all is well.
#[test]
fn bytes_of_which_nobody_can_be_sure_are_not_right() {
    for (flood, is_mute, is_right) in [(0, false, true), (200, false, true), (1_000, false, false), (0, true, false)] {
        let (mut model, mut direction) = (Model { is_mute, total: BYTES, ..Model::default() }, Direction::default());
        direction.enter(0, ARRIVED);
        direction.begin(&model);
        model.flood.set(flood);
        assert!(!model.receive(100, false), "the first piece is the lane's");
        model.ingress.get_mut().pop_front();
        direction.received(100);
        assert_eq!(direction.is_right(&model), is_right, "{flood} {is_mute}");
    }
}

/// A service that sends bytes of its own breaks what was agreed: then nothing is redirected any more, and its lane goes on.
#[test]
fn bytes_of_others_end_the_redirecting() {
    let (mut model, mut direction) = (Model::default(), Direction::default());
    model.total = BYTES;
    direction.enter(0, ARRIVED);
    direction.begin(&model);
    assert!(!model.receive(100, false), "the first piece is the lane's");
    let piece = model.ingress.get_mut().pop_front().unwrap();
    assert!(received(0, &mut model, &mut direction, piece) && direction.is_clear(&model));
    model.give(piece);
    direction.gave(100, &model);
    assert!(direction.rest(&model) && model.receive(100, false));
    let piece = model.backlog.get_mut().pop_front().unwrap();
    model.give(piece);
    assert!(direction.is_clear(&model));
    direction.gave(10, &model);
    assert!(!model.receive(100, false) && !direction.rest(&model) && !model.receive(100, false));
}
