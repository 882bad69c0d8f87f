//! Writing piece by piece what leaves whole or not at all.

use crate::words::error::Refused;
use corelane_seam::{Arena, Chain, Lease};

/// Bytes of the lease into which small writes are gathered.
pub(crate) const GATHER_BYTES: usize = 16 << 10;
/// Bytes of one lease of a long write, and the fewest that one is taken with.
const PIECE_BYTES: usize = 64 << 10;
const PIECE_BYTES_LEAST: usize = 4 << 10;

/// Bytes that were written into leases of its own.
pub(crate) struct Pieces {
    arena: Arena,
    full: Chain,
    last: Option<Lease>,
}

impl Pieces {
    pub(crate) fn new(arena: Arena, last: Option<Lease>) -> Self {
        Self { arena, full: Chain::new(), last }
    }

    /// Copies `bytes` behind the others: all of them, or none.
    pub(crate) fn put(&mut self, mut bytes: &[u8]) -> Result<(), Refused> {
        if let Some(lease) = self.last.as_mut().filter(|lease| lease.room() >= bytes.len()) {
            lease.append(bytes);
            return Ok(());
        }
        if bytes.len() > PIECE_BYTES {
            self.ask(bytes.len())?;
        }
        let mut taken = Self::new(self.arena.clone(), None);
        while !bytes.is_empty() {
            // As blocks are, so that half of it is one as well.
            let most = bytes.len().clamp(GATHER_BYTES, PIECE_BYTES).next_power_of_two();
            let lease = self.arena.lease_upto(most, bytes.len().min(PIECE_BYTES_LEAST));
            let mut lease = lease.ok_or(Refused::Memory)?;
            let (piece, rest) = bytes.split_at(bytes.len().min(lease.room()));
            lease.append(piece);
            (taken.last, bytes) = (taken.push_last(Some(lease)), rest);
        }
        self.push_last(None);
        self.full.append(&mut taken.full);
        self.last = taken.last;
        Ok(())
    }

    /// Asks for so many bytes in all, in whatever pieces. A refusal is noted for the whole amount, which is what the service waits for, and not for the
    /// size of one piece.
    fn ask(&self, bytes: usize) -> Result<(), Refused> {
        let most = self.arena.limit() - self.arena.reserve();
        match bytes <= most {
            false => Err(Refused::TooLarge { most }),
            true if self.arena.ask_in_pieces(bytes) => Ok(()),
            true => Err(Refused::Memory),
        }
    }

    /// Puts the lease that was written last behind the full ones; returns the next.
    fn push_last(&mut self, next: Option<Lease>) -> Option<Lease> {
        if let Some(lease) = self.last.take().filter(|lease| !lease.is_empty()) {
            self.full.push(lease.share());
        }
        next
    }

    /// All that was written, but for what the last lease holds, which may gather more.
    pub(crate) fn into_parts(self) -> (Chain, Option<Lease>) {
        (self.full, self.last)
    }

    fn into_chain(mut self) -> Chain {
        self.push_last(None);
        self.full
    }
}

/// Writes an answer piece by piece ([`Cx::writer`](crate::Cx::writer), [`Cx::answer_writer`](crate::Cx::answer_writer)): with
/// [`Writer::put`], `write!` or as [`std::io::Write`]. The first refusal is kept, and nothing is written after it.
pub struct Writer {
    pieces: Pieces,
    refused: Option<Refused>,
}

impl Writer {
    /// Writes into memory of `arena`, and into this lease first.
    pub fn new(arena: Arena, into: Option<Lease>) -> Self {
        Self { pieces: Pieces::new(arena, into), refused: None }
    }

    /// Copies `bytes` behind what was written before.
    ///
    /// # Errors
    /// [`Refused`], as [`Output::write`](crate::Output::write): this, or what was refused before.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        first_refusal(&mut self.refused, || self.pieces.put(bytes))
    }

    /// The bytes that were written, to be sent or answered.
    ///
    /// # Errors
    /// The first refusal; what was written is dropped then.
    pub fn finish(self) -> Result<Chain, Refused> {
        self.refused.map_or_else(|| Ok(self.pieces.into_chain()), Err)
    }
}

pub(crate) fn first_refusal(refused: &mut Option<Refused>, put: impl FnOnce() -> Result<(), Refused>) -> Result<(), Refused> {
    match refused {
        Some(refused) => Err(*refused),
        None => put().inspect_err(|error| *refused = Some(*error)),
    }
}

/// The traits of the standard library for a type that has `put`.
macro_rules! writes {
    ($type:ty) => {
        impl std::fmt::Write for $type {
            fn write_str(&mut self, text: &str) -> std::fmt::Result {
                self.put(text.as_bytes()).map_err(|_| std::fmt::Error)
            }
        }

        impl std::io::Write for $type {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                let no_memory = |refused| std::io::Error::new(std::io::ErrorKind::OutOfMemory, refused);
                self.put(bytes).map(|()| bytes.len()).map_err(no_memory)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    };
}

writes!(Writer);
pub(crate) use writes;
