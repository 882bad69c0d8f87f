//! The pipes of a lane: bytes on their way from one connection to another that the lane cannot look at.

use corelane_seam::{Chain, Piped, Segment};
use std::cell::Cell;
use std::rc::Rc;

/// How many of a lane's pipes hold bytes.
pub(crate) type InUse = Rc<Cell<usize>>;

/// A pipe with the bytes that were brought into it.
pub(crate) struct SimPipe {
    bytes: Vec<u8>,
    /// How many of them have left, or were skipped.
    taken: Cell<usize>,
    in_use: InUse,
}

impl SimPipe {
    /// All of these bytes, in a pipe of the lane that counts them there.
    pub(crate) fn piped(bytes: Vec<u8>, in_use: &InUse) -> Piped {
        in_use.set(in_use.get() + 1);
        let length = bytes.len();
        Piped::new(Rc::new(Self { bytes, taken: Cell::new(0), in_use: in_use.clone() }), length)
    }
}

impl Drop for SimPipe {
    fn drop(&mut self) {
        self.in_use.set(self.in_use.get() - 1);
    }
}

fn pipe_of(piped: &Piped) -> &SimPipe {
    // reason: a program has one kind of driver.
    piped.pipe().expect("bytes in a pipe are sent by a driver of the kind that has them")
}

/// The bytes that a view shows.
pub(crate) fn shown(piped: &Piped) -> &[u8] {
    &pipe_of(piped).bytes[piped.start()..][..piped.len()]
}

/// The first `bytes` of a chain have left: those in pipes are there no more. False if some of them had left before.
pub(crate) fn leave(sent: &Chain, bytes: usize) -> bool {
    let (mut left, mut are_new) = (bytes, true);
    for segment in sent.segments() {
        let part = segment.len().min(left);
        left -= part;
        if let Segment::Piped(piped) = segment {
            let taken = &pipe_of(piped).taken;
            are_new &= part == 0 || taken.get() <= piped.start();
            taken.set(taken.get().max(piped.start() + part));
        }
    }
    are_new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_a_pipe_leave_once() {
        let in_use = InUse::default();
        let piped = SimPipe::piped(b"abcdef".to_vec(), &in_use);
        let mut chain = Chain::new();
        chain.push(piped.clone());
        let again = chain.clone();
        assert!(leave(&chain, 2));
        chain.skip(2);
        assert!(matches!(chain.front(), Some(Segment::Piped(rest)) if shown(rest) == b"cdef"));
        assert!(leave(&chain, 4) && !leave(&again, 1), "what has left is not there");
        assert_eq!(in_use.get(), 1);
        drop((piped, chain, again));
        assert_eq!(in_use.get(), 0);
    }
}
