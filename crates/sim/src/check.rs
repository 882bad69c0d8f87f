//! The books: what was asked of the drivers against what they handed over. Kept where operations and completions
//! cross the contract, so a bug of the driver's inside shows here.

use crate::kind::Kind;
use corelane_seam::{Completion, Fault, FileSends, Handle, Op, Outcome, Socket, mix};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

/// Violations remembered; the first one is the one to look at.
const VIOLATIONS_MAX: usize = 64;

/// An operation's number in the books and its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Booked {
    pub(crate) number: u64,
    pub(crate) handle: Handle,
}

/// A breach of the contract between a lane and its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// The driver never completed an operation, or the run ended too early.
    NeverEnded {
        /// The lane.
        lane: usize,
        /// The operation's handle.
        handle: Handle,
        /// Its kind.
        operation: &'static str,
    },
    /// The driver completed an operation that had ended.
    EndedTwice {
        /// The lane.
        lane: usize,
        /// The handle of the second completion.
        handle: Handle,
    },
    /// The driver returned another handle than it was given.
    WrongHandle {
        /// The lane.
        lane: usize,
        /// The handle given with the operation.
        expected: Handle,
        /// The one in the completion.
        got: Handle,
    },
    /// The driver answered with an outcome that does not belong to the operation.
    WrongOutcome {
        /// The lane.
        lane: usize,
        /// The operation's handle.
        handle: Handle,
        /// Its kind.
        operation: &'static str,
    },
    /// The driver reported a socket closed before an operation on it had ended or its memory was released.
    ClosedEarly {
        /// The lane.
        lane: usize,
        /// The handle of that operation.
        handle: Handle,
    },
    /// The lane never closed a socket, or was never told of it.
    NeverClosed {
        /// The lane.
        lane: usize,
        /// The socket.
        socket: Socket,
    },
    /// A lane left descriptors open: sockets, what the test opened in its table, or files, which close with the driver at the latest.
    DescriptorsLeft {
        /// The lane.
        lane: usize,
        /// How many.
        open: usize,
    },
    /// The driver promised a release that did not come, or the run ended too early.
    NeverReleased {
        /// The lane.
        lane: usize,
        /// The operation's handle.
        handle: Handle,
    },
    /// The driver released memory that was not in its hands.
    ReleasedTwice {
        /// The lane.
        lane: usize,
        /// The handle in the completion.
        handle: Handle,
    },
    /// The driver released a send's memory before that of an earlier one of its socket.
    ReleasedOutOfOrder {
        /// The lane.
        lane: usize,
        /// The handle in the completion.
        handle: Handle,
    },
    /// The lane wrote to memory before its release.
    MemoryChanged {
        /// The lane.
        lane: usize,
        /// The handle of the send whose memory it was.
        handle: Handle,
    },
    /// The lane or the driver still holds leases.
    MemoryLeaked {
        /// The lane.
        lane: usize,
        /// Bytes in leases.
        bytes: usize,
    },
    /// The lane sent a part of a file that is far: it would have waited for who serves that.
    FarFileSent {
        /// The lane.
        lane: usize,
    },
    /// A lane left ports open.
    PortsLeft {
        /// The lane.
        lane: usize,
        /// How many.
        open: usize,
    },
    /// The lane still has bytes in pipes.
    PipesLeft {
        /// The lane.
        lane: usize,
        /// How many pipes hold some.
        held: usize,
    },
    /// The lane sent bytes of a pipe that had left before.
    PipedTwice {
        /// The lane.
        lane: usize,
    },
    /// A port declared a frame's memory released while the interface read it.
    FrameReleasedEarly {
        /// The interface.
        interface: usize,
    },
    /// A frame's memory was written before its release.
    FrameChanged {
        /// The interface.
        interface: usize,
    },
    /// A port handed a frame over that the lane had.
    FrameTwice {
        /// The interface.
        interface: usize,
        /// The frame's number.
        index: u32,
    },
    /// A port did not hand over what its queue had taken in.
    FramesLost {
        /// The interface.
        interface: usize,
        /// The queue.
        queue: usize,
        /// Frames that the queue took in.
        taken_in: u64,
        /// Frames that the port handed over.
        handed_over: u64,
    },
    /// A connection was detached, and nobody has adopted or closed it.
    NeverAdopted {
        /// How many there are.
        connections: usize,
    },
    /// The driver slept through its doorbell.
    DoorbellLost {
        /// The lane.
        lane: usize,
    },
    /// The driver reported other bytes than it moved.
    BytesDiffer {
        /// The lane at whose end it shows; none if it shows inside the network.
        lane: Option<usize>,
        /// Bytes that were to be there.
        expected: u64,
        /// Bytes that were there; if the number is the same, their values differ.
        got: u64,
    },
    /// The lane pushed an operation while one of that kind was under way on the socket.
    SecondOperation {
        /// The lane.
        lane: usize,
        /// The handle of the second one.
        handle: Handle,
        /// Its kind.
        operation: &'static str,
    },
    /// The lane pushed an operation that can be cancelled by its handle, while that handle named another one.
    SecondName {
        /// The lane.
        lane: usize,
        /// The handle of both.
        handle: Handle,
        /// The kind of the second one.
        operation: &'static str,
    },
}

impl fmt::Display for Violation {
    #[expect(clippy::too_many_lines, reason = "each breach has words of its own")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeverEnded { lane, handle, operation } => {
                write!(
                    f,
                    "lane {lane}: {operation} {handle:?} never ended: the driver lost it, or the run stopped before it was stopped"
                )
            }
            Self::EndedTwice { lane, handle } => write!(f, "lane {lane}: the driver ended {handle:?} twice"),
            Self::WrongHandle { lane, expected, got } => {
                write!(f, "lane {lane}: the driver returned handle {got:?}, expected {expected:?}")
            }
            Self::WrongOutcome { lane, handle, operation } => {
                write!(f, "lane {lane}: the driver ended {operation} {handle:?} with the outcome of another operation")
            }
            Self::ClosedEarly { lane, handle } => {
                write!(f, "lane {lane}: the driver closed a socket before {handle:?} had ended and released its memory")
            }
            Self::NeverClosed { lane, socket } => {
                write!(f, "lane {lane}: the lane left socket {}.{} open: push Close", socket.index, socket.generation)
            }
            Self::DescriptorsLeft { lane, open } => {
                write!(f, "lane {lane}: {open} descriptors are still open, expected 0: push Close or CloseFile")
            }
            Self::NeverReleased { lane, handle } => {
                write!(f, "lane {lane}: the driver never released the memory of {handle:?}, or the run stopped too early")
            }
            Self::ReleasedOutOfOrder { lane, handle } => {
                write!(f, "lane {lane}: the driver released memory of {handle:?} before that of an earlier send")
            }
            Self::ReleasedTwice { lane, handle } => {
                write!(f, "lane {lane}: the driver released memory of {handle:?} that it did not hold")
            }
            Self::MemoryChanged { lane, handle } => {
                write!(f, "lane {lane}: the lane wrote to memory of {handle:?} before its release")
            }
            Self::MemoryLeaked { lane, bytes } => write!(f, "lane {lane}: {bytes} bytes are still in leases, expected 0"),
            Self::FarFileSent { lane } => write!(f, "lane {lane} sent a part of a far file: read it first"),
            Self::PortsLeft { lane, open } => write!(f, "lane {lane} left {open} ports open"),
            Self::PipesLeft { lane, held } => write!(f, "lane {lane}: {held} pipes still hold bytes, expected 0"),
            Self::PipedTwice { lane } => write!(f, "lane {lane} sent bytes of a pipe again that had left"),
            Self::FrameReleasedEarly { interface } => {
                write!(f, "interface {interface}: a frame's memory was declared released while it was read")
            }
            Self::FrameChanged { interface } => {
                write!(f, "interface {interface}: a frame's memory was written before its release")
            }
            Self::FrameTwice { interface, index } => write!(f, "interface {interface}: frame {index} was handed over twice"),
            Self::FramesLost { interface, queue, taken_in, handed_over } => {
                write!(f, "interface {interface}, queue {queue}: {taken_in} frames taken in, {handed_over} handed over")
            }
            Self::NeverAdopted { connections } => {
                write!(f, "{connections} connections are detached from their drivers: adopt or drop them")
            }
            Self::DoorbellLost { lane } => write!(f, "lane {lane}: the driver slept through its doorbell"),
            Self::BytesDiffer { lane, expected, got } => {
                let place = lane.map_or("the network".to_string(), |lane| format!("lane {lane}"));
                write!(f, "{place}: the driver moved other bytes than it reported: expected {expected}, got {got}")?;
                if expected == got { f.write_str(", of other values") } else { Ok(()) }
            }
            Self::SecondOperation { lane, handle, operation } => {
                write!(f, "lane {lane}: the lane pushed {operation} {handle:?} on a socket that has one under way")
            }
            Self::SecondName { lane, handle, operation } => {
                write!(
                    f,
                    "lane {lane}: the lane pushed {operation} {handle:?} while that handle named another connect, poll or watch"
                )
            }
        }
    }
}

impl std::error::Error for Violation {}

struct Underway {
    lane: usize,
    handle: Handle,
    kind: Kind,
    socket: Option<Socket>,
}

impl Underway {
    /// Whether both are asked of the same socket.
    fn is_of_socket(&self, other: &Self) -> bool {
        self.socket.is_some() && (self.lane, self.socket) == (other.lane, other.socket)
    }
}

/// What the books know of a socket.
#[derive(Default)]
struct OnSocket {
    /// Which directions are taken, a bit each.
    busy: u8,
    /// How many operations have not ended, or have not released their memory.
    left: u32,
}

/// Hashes names that the world has given itself: nobody has chosen them to collide.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Table<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

/// Operations by their number.
#[derive(Default)]
struct Numbered(Table<u64, Underway>);

impl Numbered {
    /// The earliest of those that are wanted.
    fn first(&self, wanted: impl Fn(&Underway) -> bool) -> Option<&Underway> {
        let found = self.0.iter().filter(|(_, underway)| wanted(underway));
        found.min_by_key(|(number, _)| **number).map(|(_, underway)| underway)
    }
}

/// All operations of a world that have not ended, by their number.
pub(crate) struct Ledger {
    pushed: u64,
    underway: Numbered,
    unreleased: Numbered,
    sockets: Table<(usize, Socket), OnSocket>,
    /// Whose handles name what can be cancelled.
    cancellable: BTreeSet<(usize, Handle)>,
    violations: Vec<Violation>,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            pushed: 0,
            underway: Numbered::default(),
            unreleased: Numbered::default(),
            sockets: Table::default(),
            cancellable: BTreeSet::new(),
            violations: Vec::new(),
        }
    }

    /// How many operations were pushed.
    pub(crate) fn pushed(&self) -> u64 {
        self.pushed
    }

    pub(crate) fn blame(&mut self, violation: Violation) {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(violation);
        }
    }

    /// Enters an operation; returns its number.
    pub(crate) fn enter(&mut self, lane: usize, handle: Handle, op: &Op) -> u64 {
        self.pushed += 1;
        if let Some((kind, socket)) = Kind::of(op) {
            if let Some(socket) = socket
                && !self.take(lane, socket, direction_bit(kind, handle))
            {
                self.blame(Violation::SecondOperation { lane, handle, operation: kind.name() });
            }
            if kind.is_cancellable() && !self.cancellable.insert((lane, handle)) {
                self.blame(Violation::SecondName { lane, handle, operation: kind.name() });
            }
            self.underway.0.insert(self.pushed, Underway { lane, handle, kind, socket });
        }
        self.pushed
    }

    /// Counts an operation on a socket; returns whether its direction, which has this bit, was free.
    fn take(&mut self, lane: usize, socket: Socket, bit: u8) -> bool {
        let on_socket = self.sockets.entry((lane, socket)).or_default();
        on_socket.left += 1;
        let was_free = on_socket.busy & bit == 0;
        on_socket.busy |= bit;
        was_free
    }

    /// Changes what is known of a socket, and forgets it when nothing is left there.
    fn change(&mut self, lane: usize, socket: Option<Socket>, change: impl FnOnce(&mut OnSocket)) {
        let Some(socket) = socket else { return };
        let Entry::Occupied(mut entry) = self.sockets.entry((lane, socket)) else { return };
        change(entry.get_mut());
        if entry.get().left == 0 && entry.get().busy == 0 {
            entry.remove();
        }
    }

    /// Enters what a driver says of operation `number`.
    pub(crate) fn settle(&mut self, lane: usize, number: u64, completion: &Completion) {
        let got = completion.handle;
        if matches!(completion.outcome, Outcome::Released) {
            let Some(released) = self.unreleased.0.remove(&number) else {
                return self.blame(Violation::ReleasedTwice { lane, handle: got });
            };
            self.change(released.lane, released.socket, |on_socket| on_socket.left -= 1);
            let is_before = |(&other, underway): (&u64, &Underway)| other < number && underway.is_of_socket(&released);
            if self.unreleased.0.iter().any(is_before) {
                self.blame(Violation::ReleasedOutOfOrder { lane, handle: got });
            }
            return self.compare_handles(lane, released.handle, got);
        }
        let Some(underway) = self.underway.0.get(&number) else {
            return self.blame(Violation::EndedTwice { lane, handle: got });
        };
        let (expected, kind) = (underway.handle, underway.kind);
        self.compare_handles(lane, expected, got);
        if !kind.fits(&completion.outcome) {
            self.blame(Violation::WrongOutcome { lane, handle: expected, operation: kind.name() });
        }
        if !completion.more {
            self.end(number, completion);
        }
    }

    fn compare_handles(&mut self, lane: usize, expected: Handle, got: Handle) {
        if expected != got {
            self.blame(Violation::WrongHandle { lane, expected, got });
        }
    }

    fn end(&mut self, number: u64, completion: &Completion) {
        // reason: whoever ends an operation has just looked at it.
        let ended = self.underway.0.remove(&number).expect("an operation that ends was under way");
        let (mut others, bit) = (0, direction_bit(ended.kind, ended.handle));
        self.change(ended.lane, ended.socket, |on_socket| {
            on_socket.busy &= !bit;
            on_socket.left -= u32::from(completion.released);
            others = on_socket.left - u32::from(!completion.released);
        });
        if ended.kind.is_cancellable() {
            self.cancellable.remove(&(ended.lane, ended.handle));
        }
        if matches!(completion.outcome, Outcome::Closed) && (others > 0 || ended.socket.is_none()) {
            let same = |other: &Underway| other.lane == ended.lane && other.socket == ended.socket;
            if let Some(other) = self.underway.first(same).or_else(|| self.unreleased.first(same)) {
                let violation = Violation::ClosedEarly { lane: other.lane, handle: other.handle };
                self.blame(violation);
            }
        }
        if !completion.released {
            self.unreleased.0.insert(number, ended);
        }
    }

    /// Operation `number` ends without a completion: its connection is detached.
    pub(crate) fn forget(&mut self, lane: usize, number: u64) {
        let handle = self.underway.0.get(&number).map(|underway| underway.handle);
        match handle {
            Some(handle) => self.end(number, &Completion::failed(handle, Fault::CANCELLED)),
            None => self.blame(Violation::EndedTwice { lane, handle: Handle::NOBODY }),
        }
    }

    /// Whether so many operations of a socket have not ended, or have not released their memory.
    pub(crate) fn has_left(&self, lane: usize, socket: Socket, count: u32) -> bool {
        self.sockets.get(&(lane, socket)).map_or(0, |on_socket| on_socket.left) == count
    }

    /// The driver has waited for long enough for the memory of operation `number`, and keeps it: no release comes.
    pub(crate) fn withhold(&mut self, number: u64) {
        let Some(Underway { lane, socket, .. }) = self.unreleased.0.remove(&number) else { return };
        self.change(lane, socket, |on_socket| on_socket.left -= 1);
    }

    /// The first breach, or one that shows because the run is over.
    pub(crate) fn verdict(&self) -> Result<(), Violation> {
        if let Some(&violation) = self.violations.first() {
            return Err(violation);
        }
        if let Some(Underway { lane, handle, kind, .. }) = self.underway.first(|_| true) {
            return Err(Violation::NeverEnded { lane: *lane, handle: *handle, operation: kind.name() });
        }
        match self.unreleased.first(|_| true) {
            Some(&Underway { lane, handle, .. }) => Err(Violation::NeverReleased { lane, handle }),
            None => Ok(()),
        }
    }

    /// The operations of a lane that is gone, and had so many descriptors open, end with it. That is a breach unless there were none, or
    /// the lane could not help it.
    pub(crate) fn abandon(&mut self, lane: usize, open: usize, is_excused: bool) {
        // Nobody waits for the close of a file behind a send that was broken off, or for those of a work that has left.
        let is_nobodys = |underway: &Underway| underway.handle == Handle::NOBODY;
        let is_awaited = |underway: &Underway| !is_step(underway.handle) && !is_nobodys(underway);
        let left = self.underway.first(|underway| underway.lane == lane && is_awaited(underway));
        if let Some(&Underway { handle, kind, .. }) = left.filter(|_| !is_excused) {
            self.blame(Violation::NeverEnded { lane, handle, operation: kind.name() });
        }
        let closing = self.underway.0.values().filter(|underway| underway.lane == lane && is_nobodys(underway)).count();
        if open > closing && !is_excused {
            self.blame(Violation::DescriptorsLeft { lane, open });
        }
        self.underway.0.retain(|_, underway| underway.lane != lane);
        self.cancellable.retain(|&(of, _)| of != lane);
        self.unreleased.0.retain(|_, underway| underway.lane != lane);
        self.sockets.retain(|&(of, _), _| of != lane);
    }
}

/// Whether a driver has made the handle, for a step of an operation that sends a file.
fn is_step(handle: Handle) -> bool {
    FileSends::<Booked>::is_step(handle)
}

/// The bit of the direction that an operation takes. The steps of one that sends a file take none beside its own.
fn direction_bit(kind: Kind, handle: Handle) -> u8 {
    kind.direction().filter(|_| !is_step(handle)).map_or(0, |direction| 1 << direction)
}

/// A count of bytes with sums over their values and places: equal tallies mean equal bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) bytes: u64,
    /// Of whole blocks: one sum for each place of a word in them, because all bytes of a run pass here several times, and a
    /// processor works on several sums at once.
    sums: [u64; WORDS],
    /// The bytes of the block that has begun.
    begun: [u8; BLOCK],
}

const WORDS: usize = 4;
const BLOCK: usize = WORDS * size_of::<u64>();

impl Tally {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let filled = self.bytes as usize % BLOCK;
        let (first, rest) = bytes.split_at(bytes.len().min((BLOCK - filled) % BLOCK));
        self.begin(first);
        let (blocks, last) = rest.as_chunks::<BLOCK>();
        let mut sums = self.sums;
        blocks.iter().for_each(|block| join(&mut sums, block));
        self.sums = sums;
        self.bytes += (blocks.len() * BLOCK) as u64;
        self.begin(last);
    }

    /// Adds bytes that end no later than the block that has begun.
    fn begin(&mut self, bytes: &[u8]) {
        let filled = self.bytes as usize % BLOCK;
        self.begun[filled..][..bytes.len()].copy_from_slice(bytes);
        self.bytes += bytes.len() as u64;
        if !bytes.is_empty() && (self.bytes as usize).is_multiple_of(BLOCK) {
            join(&mut self.sums, &self.begun);
            self.begun = [0; BLOCK];
        }
    }
}

/// Adds a block: with one of the two given, no two others lead to the same sums.
fn join(sums: &mut [u64; WORDS], block: &[u8; BLOCK]) {
    let (words, _) = block.as_chunks::<{ size_of::<u64>() }>();
    for (sum, &word) in sums.iter_mut().zip(words) {
        *sum = (sum.rotate_left(23) ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::{Fault, FileOutcome, StreamOp, StreamOutcome};

    const HANDLE: Handle = Handle::new(1, 2, 3);
    const SOCKET: Socket = Socket { index: 4, generation: 5 };

    fn books(completions: impl IntoIterator<Item = Completion>) -> Result<(), Violation> {
        let mut ledger = Ledger::new();
        let number = ledger.enter(0, HANDLE, &Op::Stream(StreamOp::Receive { socket: SOCKET }));
        completions.into_iter().for_each(|completion| ledger.settle(0, number, &completion));
        ledger.verdict()
    }

    #[test]
    fn one_ending_balances_and_none_or_two_do_not() {
        let end = || Completion::last(HANDLE, Outcome::Stream(StreamOutcome::EndOfStream));
        assert_eq!(books([end()]), Ok(()));
        assert_eq!(books([]), Err(Violation::NeverEnded { lane: 0, handle: HANDLE, operation: "receive" }));
        assert_eq!(books([end(), end()]), Err(Violation::EndedTwice { lane: 0, handle: HANDLE }));
    }

    #[test]
    fn a_wrong_handle_or_outcome_is_a_breach() {
        let got = Handle::new(1, 2, 2);
        let stale = Completion::failed(got, Fault::CANCELLED);
        assert_eq!(books([stale]), Err(Violation::WrongHandle { lane: 0, expected: HANDLE, got }));
        let other = Completion::last(HANDLE, Outcome::File(FileOutcome::Done));
        assert_eq!(books([other]), Err(Violation::WrongOutcome { lane: 0, handle: HANDLE, operation: "receive" }));
    }

    #[test]
    fn memory_must_be_released_once() {
        let unreleased =
            || Completion { released: false, ..Completion::last(HANDLE, Outcome::Stream(StreamOutcome::EndOfStream)) };
        let released = || Completion::last(HANDLE, Outcome::Released);
        assert_eq!(books([unreleased()]), Err(Violation::NeverReleased { lane: 0, handle: HANDLE }));
        assert_eq!(books([unreleased(), released()]), Ok(()));
        let mut ledger = Ledger::new();
        let [first, second] = [0, 1].map(|_| {
            let number = ledger.enter(0, HANDLE, &Op::Stream(StreamOp::Receive { socket: SOCKET }));
            ledger.settle(0, number, &unreleased());
            number
        });
        for number in [second, first] {
            ledger.settle(0, number, &released());
        }
        assert_eq!(ledger.verdict(), Err(Violation::ReleasedOutOfOrder { lane: 0, handle: HANDLE }));
        let twice = [unreleased(), released(), released()];
        assert_eq!(books(twice), Err(Violation::ReleasedTwice { lane: 0, handle: HANDLE }));
    }

    #[test]
    fn a_socket_closes_behind_its_operations_and_takes_one_of_a_direction() {
        let mut ledger = Ledger::new();
        ledger.enter(0, HANDLE, &Op::Stream(StreamOp::Receive { socket: SOCKET }));
        let close = ledger.enter(0, HANDLE, &Op::Close { socket: SOCKET, reset: false });
        ledger.settle(0, close, &Completion::last(HANDLE, Outcome::Closed));
        assert_eq!(ledger.verdict(), Err(Violation::ClosedEarly { lane: 0, handle: HANDLE }));
        let mut ledger = Ledger::new();
        for _ in 0..2 {
            ledger.enter(0, HANDLE, &Op::Stream(StreamOp::Receive { socket: SOCKET }));
        }
        assert_eq!(ledger.verdict(), Err(Violation::SecondOperation { lane: 0, handle: HANDLE, operation: "receive" }));
    }

    #[test]
    fn tallies_tell_values_and_places_apart() {
        let tally = |parts: &[&[u8]]| {
            let mut tally = Tally::default();
            parts.iter().for_each(|part| tally.add(part));
            tally
        };
        assert_eq!(tally(&[b"ab", b"c"]), tally(&[b"abc"]));
        let whole: Vec<u8> = (1..=70).collect();
        for (first, second) in (0..=70).flat_map(|first| (first..=70).map(move |second| (first, second))) {
            assert_eq!(tally(&[&whole[..first], &whole[first..second], &whole[second..]]), tally(&[&whole]));
        }
        for place in 0..70 {
            let mut changed = whole.clone();
            changed[place] ^= 0x80;
            assert_ne!(tally(&[&changed]), tally(&[&whole]));
        }
        assert_ne!(tally(&[b"abc"]), tally(&[b"abc\0"]));
        assert_ne!(tally(&[b"acb"]), tally(&[b"abc"]));
        assert_ne!(tally(&[b"abd"]), tally(&[b"abc"]));
    }
}
