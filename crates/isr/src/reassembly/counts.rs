//! What is counted.

/// Why a fragment, or a datagram with all of its fragments, was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// A header is cut short or contradicts itself.
    Header,
    /// Others are to follow, and it has no data, or not a multiple of eight bytes; or it is the last and has none.
    TooSmall,
    /// The datagram would be longer than 65,535 bytes.
    TooLong,
    /// Its transport's header is not in the first fragment as a whole (RFC 7112; RFC 1858, RFC 3128 for TCP).
    Headless,
    /// It ends behind the last fragment, or is another last one.
    End,
    /// It is there already, byte for byte.
    Duplicate,
    /// It overlaps others: of IPv4, they cover it whole; of IPv6, its datagram ends by that (RFC 5722).
    Overlap,
    /// Some of the datagram's fragments understand congestion notification and some do not (RFC 3168, section 5.3).
    Congestion,
    /// Its datagram has more fragments than may wait.
    Each,
    /// The bucket is full: the oldest datagram of it went.
    Bucket,
    /// There are as many datagrams as may wait: the oldest went.
    Datagrams,
    /// There are as many fragments as may wait: the oldest datagram went.
    Fragments,
    /// The memory for fragments is used up: the oldest datagram went.
    Bytes,
    /// Reassembly is turned off.
    Off,
}

/// What has been counted since the table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FragmentCounts {
    /// Fragments that arrived.
    pub fragments: u64,
    /// Fragments that were dropped, for whatever reason.
    pub dropped: u64,
    /// Datagrams that were completed.
    pub reassembled: u64,
    /// Fragments of which these datagrams were made.
    pub joined: u64,
    /// Datagrams that expired.
    pub timed_out: u64,
    /// Datagrams and pieces that were walked past to find where fragments belong: what they cost, beside themselves.
    pub looked: u64,
    /// Fragments of IPv4 that were cut because others overlapped them.
    pub cut: u64,
    /// Fragments of IPv4 that went because a later one covers them.
    pub covered: u64,
    reasons: [u64; 14],
}

impl FragmentCounts {
    /// How often something was dropped for that reason: a fragment where it is the fragment's fault, a datagram where it is the room's.
    #[must_use]
    pub const fn of(&self, reason: Reason) -> u64 {
        self.reasons[reason as usize]
    }

    pub(super) const fn of_mut(&mut self, reason: Reason) -> &mut u64 {
        &mut self.reasons[reason as usize]
    }
}
