//! What waits for other fragments of its datagram, and where it lies meanwhile.

mod shelf;
mod split;

pub(crate) use split::split;

use crate::settings::{Error, Settings, V6_BYTES_LEAST};
use corelane_isr::reassembly::{Admission, Datagram, FragmentCounts, Limits, Reason, Reassembly};
use corelane_seam::{Frame, FrameMemory, Instant};
use corelane_wire::packet::{ethernet, fragment, ipv6};
use shelf::Shelf;

/// Bytes of the longest datagram with its network's header, and those in front of a fragment's data.
const DATAGRAM_BYTES_MAX: usize = 65_535;
const HEAD_OF_PART: usize = ipv6::Header::BYTES + fragment::Header::BYTES;

/// The fragments of a lane.
pub(crate) struct Fragments {
    table: Reassembly<Frame>,
    shelf: Shelf,
    /// Pieces of the datagram that was put together last.
    pieces: Vec<Frame>,
}

/// What became of a fragment.
pub(crate) enum Taken {
    /// It waits, or is told of by its count.
    Held,
    /// The last of its datagram: its frames are to be drained.
    Whole(Datagram),
    /// It can be part of none.
    Refused(Reason, Frame),
    /// No frame was free for it to wait in.
    NoRoom,
}

impl Fragments {
    /// Beside ports with such memory, of which the longest packet has so many bytes with its link's header.
    pub fn new(settings: &Settings, memory: &FrameMemory, frame_bytes_max: usize) -> Result<Self, Error> {
        let each = settings.fragments_each.unwrap_or_else(|| fragments_each(frame_bytes_max, memory));
        let limits = Limits::for_lane(memory.frame_bytes()).with_fragments_each(each);
        let shelf = Shelf::new(&limits, memory).map_err(|why| Error::Memory { why: why.to_string() })?;
        Ok(Self { table: Reassembly::new(limits, settings.secret), shelf, pieces: Vec::new() })
    }

    /// Whether any has ever come: then it matters in which order the datagrams of a flow run.
    pub fn have_come(&self) -> bool {
        self.table.counts().fragments > 0
    }

    /// What was counted, and how many wait.
    pub fn counts(&self) -> (&FragmentCounts, usize) {
        (self.table.counts(), self.table.waiting().1)
    }

    /// A fragment that came by that interface, or the part of one that lies in one frame.
    pub fn take(&mut self, interface: usize, part: Frame, arrived: Instant) -> Taken {
        assert!(self.pieces.is_empty(), "all pieces of a datagram are its own");
        let Some(fragment) = self.shelf.keep(part, self.table.waiting().1) else { return Taken::NoRoom };
        // There are fewer (`INTERFACES_MAX`).
        let link = interface as u16;
        match self.table.arrive(arrived, link, fragment, &mut self.pieces) {
            Admission::Whole(datagram) => Taken::Whole(datagram),
            Admission::Dropped(reason, fragment) => Taken::Refused(reason, fragment),
            Admission::Held | Admission::NoFragment(_) => Taken::Held,
        }
    }

    /// The frames of the datagram that has just become whole, the first with its header.
    pub fn pieces(&mut self) -> impl Iterator<Item = Frame> {
        self.pieces.drain(..)
    }

    /// When the next datagram is given up.
    pub fn due(&self) -> Option<u64> {
        self.table.due().map(Instant::nanoseconds)
    }

    /// Gives up datagrams that did not come together in time; `first` is told the first fragment of each that has it.
    pub fn expire(&mut self, now: u64, mut first: impl FnMut(&Frame)) {
        self.table.expire(Instant::from_nanoseconds(now), |frame| first(&frame));
    }
}

/// Fragments of one datagram that wait: as many as the longest that there is comes in, over this interface or a link of IPv6 before it.
fn fragments_each(packet_bytes: usize, memory: &FrameMemory) -> usize {
    let link = ethernet::Header::BYTES;
    // Each has the network's header, that of a fragment of IPv6, and a multiple of eight bytes.
    let data = ((packet_bytes - link).min(V6_BYTES_LEAST) - HEAD_OF_PART) & !7;
    let small = DATAGRAM_BYTES_MAX.div_ceil(data);
    // One that is just longer than a frame waits as two.
    let room = memory.frame_bytes() - Frame::HEADROOM;
    let large = if packet_bytes > room { 2 * DATAGRAM_BYTES_MAX.div_ceil(room - link - HEAD_OF_PART) } else { 0 };
    small.max(large)
}
