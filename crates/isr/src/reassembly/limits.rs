//! How much may wait.

use super::table::BUCKETS;
use std::time::Duration;

/// The most datagrams that wait by default.
const DATAGRAMS_MAX: usize = 51_200;
/// A part of the frames that fragments may take by default.
const FRAMES_PART: usize = 32;

/// How much may wait, and how long. [`usize::MAX`] is no limit; 0 fragments or 0 datagrams turn reassembly off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Fragments of all datagrams.
    pub fragments: usize,
    /// Datagrams. A bucket of the table holds the 512th part of it, one at least.
    pub datagrams: usize,
    /// Fragments of one datagram that may wait: with one more than these it must be complete.
    pub fragments_each: usize,
    /// Bytes of memory that fragments keep in use, whole frames.
    pub bytes: usize,
    /// How long a datagram of IPv4 waits for what is missing, from its first fragment on: by default 30 seconds, as the original has it. RFC 1122 (section 3.3.2)
    /// recommends 60 to 120; but its names come again after 65,536 packets, which takes a fast peer less than a second, and the longer a datagram waits, the more likely it is
    /// completed by another's fragments (RFC 4963, section 3).
    pub keep: Duration,
    /// The same of IPv6, whose names have 32 bits: by default 60 seconds (RFC 8200, section 4.5).
    pub keep_v6: Duration,
}

impl Limits {
    /// The limits for a lane whose ports have so many `frames` of `frame_bytes`: a 32nd part of them, at most 51,200 datagrams, 16 fragments
    /// each, 30 seconds of IPv4 and 60 of IPv6.
    #[must_use]
    pub const fn for_frames(frames: usize, frame_bytes: usize) -> Self {
        let fragments = frames / FRAMES_PART;
        let datagrams = if fragments < DATAGRAMS_MAX { fragments } else { DATAGRAMS_MAX };
        let bytes = fragments.saturating_mul(frame_bytes);
        let (keep, keep_v6) = (Duration::from_secs(30), Duration::from_secs(60));
        Self { fragments, datagrams, fragments_each: 16, bytes, keep, keep_v6 }
    }

    /// The limits for a lane that keeps what waits in memory of its own, frames of `frame_bytes`: [`Limits::LANE_BYTES`], as many datagrams as
    /// these are frames, and the rest as for frames.
    #[must_use]
    pub const fn for_lane(frame_bytes: usize) -> Self {
        let (frames, least) = (Self::LANE_BYTES / frame_bytes, 64);
        Self::for_frames(if frames < least { least } else { frames } * FRAMES_PART, frame_bytes)
    }

    /// Bytes of memory that a lane has for fragments: those that Linux gives all of a namespace (`ipfrag_high_thresh`).
    pub const LANE_BYTES: usize = 4 << 20;

    /// With so many fragments of all datagrams.
    #[must_use]
    pub const fn with_fragments(self, fragments: usize) -> Self {
        Self { fragments, ..self }
    }

    /// With so many datagrams.
    #[must_use]
    pub const fn with_datagrams(self, datagrams: usize) -> Self {
        Self { datagrams, ..self }
    }

    /// With so many fragments of one datagram.
    #[must_use]
    pub const fn with_fragments_each(self, fragments_each: usize) -> Self {
        Self { fragments_each, ..self }
    }

    /// With so many bytes of memory.
    #[must_use]
    pub const fn with_bytes(self, bytes: usize) -> Self {
        Self { bytes, ..self }
    }

    /// Whether nothing may wait.
    #[must_use]
    pub const fn are_off(&self) -> bool {
        self.fragments == 0 || self.datagrams == 0
    }

    /// Datagrams of one bucket.
    #[must_use]
    pub const fn each_bucket(&self) -> usize {
        let share = self.datagrams / (BUCKETS / 2);
        if share == 0 { 1 } else { share }
    }
}
