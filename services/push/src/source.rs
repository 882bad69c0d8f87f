//! What is pushed: a region of the lane's memory, or a file.

use crate::begin::{Begin, PushCx};
use crate::windows::{Window, Windows};
use corelane::service::{
    ConnectionId, File, FileOutcome, FilePart, LEASE_BYTES_MAX, Level, OpenOptions, Outcome, Sealed, Segment, Shared, sealed_file,
};
use corelane_wire::pattern::{self, PAGE, PERIOD};
use std::path::PathBuf;

/// The operation that opens a file. Those that bring parts of it have numbers from 1 on.
pub(crate) const OPENING: u64 = 0;

pub(crate) enum Source {
    /// The lane has not begun. It is to be sealed memory, or the lane's.
    NotYet { sealed: bool },
    /// The stream's first bytes, from whose first period on each piece begins.
    Region(Shared),
    /// The same in memory that nobody can write to any more.
    Sealed(Sealed),
    /// The same where the lane has lent no memory: of the program's own.
    Program,
    /// A file is being opened, and these connections wait for it.
    Opening { path: PathBuf, waiting: Vec<ConnectionId> },
    /// A file with so many bytes.
    Open { file: File, length: u64, windows: Windows },
    /// There is nothing to send.
    Nothing,
}

/// Bytes out of which each piece of `size` bytes is one slice.
fn whole_bytes(size: usize) -> usize {
    // Pieces of whole pages begin at pages.
    let last_start = if size.is_multiple_of(PAGE) { PERIOD - PAGE } else { PERIOD - 1 };
    (last_start + size).max(PERIOD + 1)
}

/// The same, as far as the lane lends that much at once.
fn region_bytes(size: usize) -> usize {
    whole_bytes(size).min(LEASE_BYTES_MAX)
}

impl Source {
    /// Makes what there is to be made when the lane begins.
    pub fn begin(&mut self, cx: &mut PushCx<'_>, size: usize) {
        match self {
            Self::NotYet { sealed: true } => *self = Self::sealed(cx, size),
            Self::NotYet { sealed: false } => *self = Self::region(cx, size),
            Self::Opening { path, .. } => cx.open_file(path.clone(), OpenOptions::new().read(true), OPENING),
            Self::Region(_) | Self::Sealed(_) | Self::Program | Self::Open { .. } | Self::Nothing => {
                unreachable!("a lane begins once")
            }
        }
    }

    fn sealed(cx: &mut PushCx<'_>, size: usize) -> Self {
        let mut bytes = vec![0; whole_bytes(size)];
        pattern::fill(0, &mut bytes);
        match sealed_file::seal(&[&bytes]) {
            Ok(sealed) => Self::Sealed(sealed),
            Err(error) => {
                let words = format_args!(
                    "what is pushed cannot be sealed ({error}), so it is sent from the lane's memory: remedy: allow memfd_create(2), raise the limit of descriptors, or say memory=lane"
                );
                cx.report(Level::Warn, words);
                Self::region(cx, size)
            }
        }
    }

    fn region(cx: &mut PushCx<'_>, size: usize) -> Self {
        let wanted = region_bytes(size);
        let lease = cx.lease(wanted).or_else(|_| cx.lease(region_bytes(PAGE)));
        let Ok(mut lease) = lease else {
            cx.report(
                Level::Warn,
                "the lane lends no memory for what is pushed, so it is sent from the program's own, and always copied: remedy: --memory",
            );
            return Self::Program;
        };
        let bytes = wanted.min(lease.capacity());
        pattern::fill(0, &mut lease.spare()[..bytes]);
        lease.advance(bytes);
        Self::Region(lease.share())
    }

    /// A connection is open: it is told to begin, at once or when there is something to send.
    pub fn admit(&mut self, cx: &mut PushCx<'_>) {
        match self {
            Self::Opening { waiting, .. } => waiting.push(cx.id()),
            _ => cx.notify(cx.id(), self.first()),
        }
    }

    /// Of memory everything may be handed over, of a file nothing before it was asked for; where there is nothing, that shows at once.
    fn first(&self) -> Begin {
        Begin { warm: if matches!(self, Self::Open { .. }) { 0 } else { u64::MAX } }
    }

    /// Asks for a part of the file from this position of a stream on, for the connection that is called for. It is [told](Begin) when a send of that waits for no disk.
    pub fn warm(&mut self, cx: &mut PushCx<'_>, position: u64, size: usize) {
        let Self::Open { file, length, windows } = self else { return };
        let window = Window::at(position, size as u64, *length);
        windows.ask(cx, file, (cx.id(), window));
    }

    /// A part is there, or cannot be read.
    pub fn warmed(&mut self, cx: &mut PushCx<'_>, token: u64, outcome: &Outcome) {
        let Self::Open { file, windows, .. } = self else { unreachable!("parts are those of a file that is open") };
        windows.take(cx, file, token, outcome);
    }

    /// A connection has ended.
    pub fn forget(&mut self, id: ConnectionId) {
        match self {
            Self::Opening { waiting, .. } => waiting.retain(|waits| *waits != id),
            Self::Open { windows, .. } => windows.forget(id),
            Self::NotYet { .. } | Self::Region(_) | Self::Sealed(_) | Self::Program | Self::Nothing => {}
        }
    }

    /// The file is open, or what is wrong with it.
    pub fn opened(&mut self, cx: &mut PushCx<'_>, outcome: Outcome) -> Option<String> {
        let Self::Opening { path, waiting } = std::mem::replace(self, Self::Nothing) else {
            unreachable!("only the opening of a file completes")
        };
        let why = match outcome {
            Outcome::File(FileOutcome::Opened { file, facts }) if facts.length > 0 => {
                *self = Self::Open { file, length: facts.length, windows: Windows::default() };
                None
            }
            Outcome::Failed(fault) => Some(format!("{} cannot be pushed: {fault}", path.display())),
            _ => Some(format!("{} cannot be pushed: it is empty", path.display())),
        };
        waiting.into_iter().for_each(|id| cx.notify(id, self.first()));
        why
    }

    /// What stands at this position of a stream: at most so many bytes, and one at least.
    pub fn segment(&self, position: u64, most: u64) -> Option<Segment> {
        let bounded = usize::try_from(most).unwrap_or(usize::MAX);
        match self {
            Self::Region(region) => {
                let start = pattern::place(position);
                Some(region.slice(start..start + bounded.min(region.len() - start)).into())
            }
            Self::Sealed(sealed) => {
                let start = pattern::place(position);
                Some(sealed.slice(start..start + bounded.min(sealed.len() - start)).into())
            }
            Self::Program => Some(pattern::piece(position, bounded).into()),
            Self::Open { file, length, .. } => {
                let offset = position % length;
                Some(FilePart { file: file.clone(), offset, length: most.min(length - offset) }.into())
            }
            Self::NotYet { .. } | Self::Opening { .. } | Self::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_holds_each_piece_in_one_slice_where_a_lease_can() {
        assert_eq!(region_bytes(16 << 10), 64 << 10, "sixteen pages for pieces of four");
        for size in [1, 64, PAGE, 5_000, 16 << 10, 64 << 10, (1 << 20) + 1, 2 << 20] {
            let step = if size % PAGE == 0 { PAGE } else { 1 };
            let last = (0..PERIOD).step_by(step).next_back().unwrap();
            assert!(last + size <= region_bytes(size), "{size}");
        }
        assert_eq!((region_bytes(4 << 20), whole_bytes(4 << 20)), (LEASE_BYTES_MAX, LEASE_BYTES_MAX + PERIOD - PAGE));
        assert!(region_bytes(1) > PERIOD, "each place of a period has a byte behind it");
    }
}
