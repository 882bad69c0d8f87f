//! What a lane knows of one direction of a pair, and what it may do when, so that no byte changes its place.
//!
//! ```text
//!            the program redirects                            the lane has the direction
//! quiet ---------------------------------> a piece passes -> it receives -> it gives, once all redirected bytes have been given
//!   ^                                                                             |
//!   \-- all that has passed was received and given: it says so (`done`) --<-------/
//! ```

use crate::words::{Counted, Say};
use corelane_os::progress::Progress;
use std::sync::atomic::{Ordering, fence};

/// Bytes that are redirected in one direction and that the peer has not taken, at the most.
const UNTAKEN_MAX: u64 = 128 << 10;
/// What fits into any send buffer.
const UNTAKEN_LEAST: u64 = 4 << 10;
/// What a piece may take of a send buffer beside its bytes, at the most; and pieces that are redirected and not known to be taken, at the least.
const PIECE_BYTES: u64 = 2 << 10;
const PIECES_LEAST: u64 = 2;
/// So often is asked how much has come in all, and so often without letting others run before.
const TRIES: usize = 256;
const TRIES_AT_ONCE: usize = 8;

/// How far the connection has come at which a direction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// So far.
    Known(Progress),
    /// Nobody can tell just now.
    Unknown,
    /// It is broken off: what was redirected is lost, as what waits in a send buffer.
    Broken,
}

/// What a direction asks of the system.
pub trait Kernel {
    /// What is counted of the direction.
    fn counted(&self) -> Counted;
    /// Says this to the program.
    fn say(&self, say: Say);
    /// How far the connection has come at which the direction ends.
    fn given(&self) -> Given;
    /// Bytes that the connection has taken in at which it begins, each once, and the end as one; none where nobody can tell.
    fn arrived(&self) -> Option<u64>;
    /// Lets others run for a moment, who may hold what is asked for back.
    fn pause(&self);
    /// Bytes that this connection takes to send at once, with what the system needs beside them: its send buffer.
    fn send_buffer(&self) -> u64;
}

/// One direction, as its lane knows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direction {
    /// Bytes that the lane has received of those that passed to it, and those that it has given to the other connection.
    received: u64,
    done: u64,
    /// Bytes that the other connection had been given when the direction began.
    before: u64,
    /// Whether all that was redirected was given to the other connection: as long as the lane has something, nothing more is redirected.
    is_clear: bool,
    /// Behind so many bytes the other connection has had all pieces that were redirected, when it last was clear; and what was said of pieces.
    behind: u64,
    until_pieces: u64,
    is_entered: bool,
    has_begun: bool,
    /// What had arrived when it was entered, less what was held of that; and whether the first piece is known to have followed on it.
    start: u64,
    is_sure: bool,
    /// Nothing is redirected any more.
    has_stopped: bool,
    /// What was redirected, as far as anybody has looked.
    pub redirected: u64,
}

impl Direction {
    /// The connection is entered at which it begins: what was held before counts as received. So much had arrived when last nothing of it was left to receive.
    pub fn enter(&mut self, held: u64, arrived: u64) {
        (self.received, self.start, self.is_entered) = (held, arrived.wrapping_sub(held), true);
    }

    /// Both of the pair are entered, and nothing was given to the other connection since: the program may redirect later, once it is [sure](Direction::is_right) what came first, and the lane
    /// has given what it has held since before. Does nothing where nobody can tell how far the other connection has come.
    pub fn begin(&mut self, kernel: &impl Kernel) {
        let Given::Known(progress) = kernel.given() else { return };
        assert!(self.is_entered && self.done == 0, "nothing leaves before a direction begins");
        (self.before, self.has_begun) = (progress.given, true);
        kernel.say(Say::default());
    }

    /// The lane has received so many bytes.
    pub fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// Whether bytes that the lane has just received are what the peer has sent. The system hands a piece to the program whole, and its head may have come before. The program takes that off, but for
    /// the first piece, of which it does not know what came before: then all that it has seen is more than has arrived, by the same number of bytes ever after. Bytes of which that cannot be told
    /// in so many tries, or because the system tells nothing, are not right: nobody may get bytes that may be wrong.
    pub fn is_right(&mut self, kernel: &impl Kernel) -> bool {
        if !self.is_entered {
            return true;
        }
        let mut counted = kernel.counted();
        for tries in 0..TRIES {
            if counted.is_spoiled != 0 || self.is_sure {
                break;
            }
            if tries >= TRIES_AT_ONCE {
                kernel.pause();
            }
            let Some(arrived) = kernel.arrived() else { return false };
            let arrived = arrived.wrapping_sub(self.start);
            // Pieces are counted under the connection's lock, which this takes too. So what was seen before is no more than was seen when that had arrived, and what was seen after no less.
            let before = std::mem::replace(&mut counted, kernel.counted());
            self.is_sure = seen(counted) == arrived;
            if seen(before) > arrived {
                break;
            }
        }
        self.is_sure && counted.is_spoiled == 0
    }

    /// Whether the lane has received all that passed to it: only then does an end of the stream lie behind all bytes.
    pub fn has_all(&self, kernel: &impl Kernel) -> bool {
        !self.is_entered || self.received >= kernel.counted().passed
    }

    /// Whether the lane may give bytes to the other connection, end it, or close it: all that was redirected was given to it before. To be asked only where the program redirects
    /// nothing, since the lane has bytes of this direction, or its end.
    pub fn is_clear(&mut self, kernel: &impl Kernel) -> bool {
        if self.is_clear || !self.has_begun {
            return true;
        }
        let counted = kernel.counted();
        self.redirected = counted.redirected;
        self.is_clear = match kernel.given() {
            Given::Broken => true,
            Given::Unknown => false,
            Given::Known(_) if counted.redirected == 0 => true,
            Given::Known(progress) => progress.given.wrapping_sub(self.before) == counted.redirected + self.done,
        };
        // What the lane gives next comes behind them.
        self.behind = counted.redirected + self.done;
        self.is_clear
    }

    /// The lane has given so many bytes to the other connection. If there were others among them than those that it has received, nothing is redirected any more, for the counts
    /// do not tell any longer who is first: true then, and the lane is to be told of all that comes.
    pub fn gave(&mut self, bytes: usize, kernel: &impl Kernel) -> bool {
        self.done += bytes as u64;
        let is_strange = self.done > self.received && self.has_begun;
        is_strange && self.stop(kernel)
    }

    /// Nothing is to be redirected any more: before the other connection gets its end, or something of the lane's own. True the first time: the lane is to be told of all that comes then.
    pub fn stop(&mut self, kernel: &impl Kernel) -> bool {
        let is_first = self.has_begun && !self.has_stopped;
        if is_first {
            self.has_stopped = true;
            kernel.say(Say { heard: kernel.counted().rung, ..Say::default() });
        }
        is_first
    }

    /// Gives the direction back to the program if the lane has nothing of it: true then. Once nobody is told of each piece any more, [`Direction::is_quiet`] is to be asked.
    pub fn rest(&mut self, kernel: &impl Kernel) -> bool {
        if self.done != self.received || !self.has_begun || self.has_stopped || !self.is_sure {
            return false;
        }
        let counted = kernel.counted();
        self.redirected = counted.redirected;
        let Given::Known(progress) = kernel.given() else { return false };
        if counted.passed != self.done {
            return false;
        }
        // The lane's own bytes are among those that were taken, and among those that were not: none is redirected while these alone fill the bound.
        let taken = progress.taken.saturating_sub(self.before);
        let until = (taken + bound(kernel)).saturating_sub(self.done);
        // How many pieces were taken is told by nobody: only whether all of them were.
        let behind = if self.is_clear { self.behind } else { counted.redirected + self.done };
        if taken >= behind {
            self.until_pieces = counted.pieces + (kernel.send_buffer() / PIECE_BYTES).max(PIECES_LEAST);
        }
        kernel.say(Say { done: self.done, until, heard: counted.rung, until_pieces: self.until_pieces });
        self.is_clear = false;
        true
    }

    /// Whether still nothing has passed to the lane: else it has the direction again, of which it may not be told.
    pub fn is_quiet(&self, kernel: &impl Kernel) -> bool {
        // What was said before is seen before this looks, as the program counts before it looks at what was said. Else both could miss the other, and nobody would tell.
        fence(Ordering::SeqCst);
        kernel.counted().passed == self.done
    }

    /// Notes how much was redirected.
    pub fn look(&mut self, kernel: &impl Kernel) {
        if self.has_begun {
            self.redirected = kernel.counted().redirected;
        }
    }
}

/// All that the program has seen of a direction, with what was held at its start; the end as one.
fn seen(counted: Counted) -> u64 {
    counted.redirected + counted.passed + u64::from(counted.ends)
}

/// Bytes that fit into the send buffer at once, so that what is redirected never waits for its peer outside of it: what passes to the lane on the other connection would wait behind.
fn bound(kernel: &impl Kernel) -> u64 {
    (kernel.send_buffer() / 2).clamp(UNTAKEN_LEAST, UNTAKEN_MAX)
}
