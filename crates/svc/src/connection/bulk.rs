//! How a connection is received from whose bytes its service passes on unseen: what is small into the lane's memory, and bulk into pipes of the system's.
//!
//! ```text
//! leased --a receive of BULK_BYTES or more--> filling --another--> piped
//!    \---------<----------a smaller one---------/ \------<--one below PIPED_BYTES_LEAST--/
//! ```
//!
//! A message that is passed on by two splices costs more than its copy, so one large receive alone changes nothing, and small ones change back. The thresholds lie apart, so a stream
//! of one size keeps its way.

/// A receive of so many bytes is one of bulk.
const BULK_BYTES: usize = 32 << 10;
/// One that brings fewer into a pipe is not.
const PIPED_BYTES_LEAST: usize = 16 << 10;
/// Room in the other's output for which a pipe is not worth while.
const ROOM_LEAST: usize = 16 << 10;

/// What is known of the size of what comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Bulk {
    /// Its service looks at its bytes.
    #[default]
    Seen,
    Leased,
    /// The last receive brought much.
    Filling,
    Piped,
}

impl Bulk {
    /// What it is for one of a new pair.
    pub(super) fn of(is_unseen: bool) -> Self {
        if is_unseen { Self::Leased } else { Self::Seen }
    }

    pub(super) fn is_unseen(self) -> bool {
        self != Self::Seen
    }

    /// A receive has brought so many bytes into memory.
    pub(super) fn received(&mut self, bytes: usize) {
        *self = match self {
            Self::Seen => Self::Seen,
            _ if bytes < BULK_BYTES => Self::Leased,
            Self::Leased => Self::Filling,
            Self::Filling | Self::Piped => Self::Piped,
        };
    }

    /// A receive has brought so many bytes into a pipe.
    pub(super) fn received_piped(&mut self, bytes: usize) {
        assert!(self.is_unseen(), "bytes that are looked at come into memory");
        if bytes < PIPED_BYTES_LEAST {
            *self = Self::Leased;
        }
    }

    /// How many bytes the next receive brings into a pipe at the most, if it is to, where the other's output has so much room.
    pub(super) fn most(self, room: usize) -> Option<usize> {
        (self == Self::Piped && room >= ROOM_LEAST).then_some(room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_large_receives_begin_it_and_a_small_one_ends_it() {
        let mut bulk = Bulk::of(true);
        for (bytes, then) in
            [(60_000, Bulk::Filling), (100, Bulk::Leased), (60_000, Bulk::Filling), (40_000, Bulk::Piped), (60_000, Bulk::Piped)]
        {
            bulk.received(bytes);
            assert_eq!(bulk, then);
        }
        assert_eq!((bulk.most(200_000), bulk.most(1)), (Some(200_000), None));
        bulk.received_piped(200_000);
        bulk.received_piped(20_000);
        assert_eq!(bulk, Bulk::Piped);
        bulk.received_piped(2_000);
        assert_eq!((bulk, bulk.most(200_000)), (Bulk::Leased, None));
        let mut seen = Bulk::of(false);
        (0..9).for_each(|_| seen.received(60_000));
        assert_eq!((seen, seen.most(200_000)), (Bulk::Seen, None));
    }
}
