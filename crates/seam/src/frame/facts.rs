//! Facts that the source of a frame told of it. A source that does not know tells nothing; whoever needs a fact computes it.

use corelane_rss::{FlowId, HashType};

/// The hash of a frame's flow, as the card or its driver computed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHash {
    /// The flow id.
    pub flow: FlowId,
    /// Which fields it was computed from.
    pub hash_type: HashType,
}

/// The state of a frame's checksums (those of the transport, and of the IPv4 header).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing: they are in the frame, and nobody has looked. In a frame to be sent: they are right as they are.
    #[default]
    Unknown,
    /// They are right, or the frame came from where none was needed.
    Good,
    /// The transport's is not computed: the sum of the bytes from `start` to the end belongs at `start + offset`, which holds the sum of the
    /// pseudo header (virtio 1.2 section 5.1.6.2; `CHECKSUM_PARTIAL` of Linux).
    Partial {
        /// Where the sum begins, in bytes from the frame's beginning.
        start: u16,
        /// Where it belongs, in bytes from there.
        offset: u16,
    },
}

/// A VLAN tag that the card has taken out of the frame, or is to put into it (IEEE 802.1Q).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// Which tag: 0x8100, or 0x88a8 for the outer one of two.
    pub protocol: u16,
    /// Priority, drop eligibility and number, 16 bits.
    pub control: u16,
}

/// All that a source may say of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameFacts {
    /// The flow's hash.
    pub hash: Option<FrameHash>,
    /// When it arrived, in nanoseconds of the driver's clock; 0 if not known.
    pub time: u64,
    /// Its checksums.
    pub checksum: Checksum,
    /// The tag that is not in the frame.
    pub vlan: Option<VlanTag>,
    /// The packet goes on in the next frame of its batch.
    pub continues: bool,
}
