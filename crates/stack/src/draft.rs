//! A packet that is being written: its data first, then the headers in front of them, in as many frames as it takes, and as many fragments.

use corelane_seam::{Frame, FrameHash, FrameMemory};
use corelane_wire::packet::checksum::Sum;
use corelane_wire::packet::ethernet::{self, Mac};
use corelane_wire::packet::fragment;
use corelane_wire::packet::ipv4::{self, Offset};
use corelane_wire::packet::ipv6;
use corelane_wire::packet::{EtherType, IpProtocol};
use corelane_wire::xdr::Writer;
use std::net::IpAddr;

/// Routers that a packet may pass.
const HOPS: u8 = 64;
/// The hop limit by which neighbours know that a message is of the link (RFC 4861, section 7.1.1).
const HOPS_OF_LINK: u8 = 255;

/// What the headers say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub source: IpAddr,
    pub destination: IpAddr,
    pub protocol: IpProtocol,
    /// Names the packet, if it has to be cut.
    pub identification: u32,
    pub from: Mac,
    /// No router may pass it on.
    pub is_of_link: bool,
}

/// The draft. Its storage is used again.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    frames: Vec<Frame>,
    /// Bytes in front of the data in each frame, or in the first alone of a packet that is not cut.
    front: usize,
    /// Its frames are fragments.
    is_cut: bool,
    /// Bytes of data in each frame but the last.
    part: usize,
    /// Bytes of data that it is made for, and those that are there.
    length: usize,
    filled: usize,
    /// Their sum.
    pub sum: Sum,
}

/// Bytes of the headers of link and network.
pub(crate) fn front(is_v6: bool, is_cut: bool) -> usize {
    let network = match (is_v6, is_cut) {
        (false, _) => ipv4::Header::BYTES,
        (true, false) => ipv6::Header::BYTES,
        (true, true) => ipv6::Header::BYTES + fragment::Header::BYTES,
    };
    ethernet::Header::BYTES + network
}

/// How a packet is laid into frames.
struct Cut {
    is_cut: bool,
    front: usize,
    /// Bytes of data in each frame but the last.
    part: usize,
}

impl Cut {
    fn of(memory: &FrameMemory, is_v6: bool, length: usize, most: usize) -> Self {
        let room = memory.frame_bytes() - Frame::HEADROOM;
        let is_cut = front(is_v6, false) + length > most;
        let front = front(is_v6, is_cut);
        let part = if is_cut { (room.min(most) - front) & !7 } else { length.min(room - front) };
        assert!(part > 0, "a frame holds more than headers");
        Self { is_cut, front, part }
    }
}

impl Draft {
    /// Begins a packet with `length` bytes behind the network's header. One of more than `most` bytes is cut into fragments, each in a frame of its own; another
    /// lies in as many frames as it takes. False if not as many are free.
    pub fn begin(&mut self, memory: &FrameMemory, is_v6: bool, length: usize, most: usize) -> bool {
        assert!(self.frames.is_empty() && length > 0, "one packet is written after the other");
        let Cut { is_cut, front, part } = Cut::of(memory, is_v6, length, most);
        let frames = length.div_ceil(part);
        if memory.counts().free < frames {
            return false;
        }
        self.frames.extend(std::iter::from_fn(|| memory.frame()).take(frames));
        assert_eq!(self.frames.len(), frames, "a frame that is free is to be had");
        (self.is_cut, self.front, self.part, self.length, self.filled, self.sum) = (is_cut, front, part, length, 0, Sum::ZERO);
        for number in 0..frames {
            let bytes = self.front_of(number) + part.min(length - number * part);
            self.frames[number].set_length(bytes);
            self.frames[number].facts.continues = !is_cut && number + 1 < frames;
        }
        true
    }

    /// Bytes in front of the data in that frame.
    fn front_of(&self, number: usize) -> usize {
        if self.is_cut || number == 0 { self.front } else { 0 }
    }

    /// Frames that a packet of that length takes.
    pub fn frames(memory: &FrameMemory, is_v6: bool, length: usize, most: usize) -> usize {
        length.div_ceil(Cut::of(memory, is_v6, length, most).part)
    }

    /// Bytes of the longest packet that always fits into so many frames, the headers of link and network among them.
    pub fn bytes_max(memory: &FrameMemory, frames: usize) -> usize {
        let (room, front) = (memory.frame_bytes() - Frame::HEADROOM, front(true, false));
        front + frames * (room - front)
    }

    /// Adds data behind those that are there.
    pub fn put(&mut self, mut bytes: &[u8]) {
        assert!(self.filled + bytes.len() <= self.length, "a packet takes what it was made for");
        self.sum = self.sum.and(bytes);
        while !bytes.is_empty() {
            let (number, at) = (self.filled / self.part, self.filled % self.part);
            let some = bytes.len().min(self.part - at);
            let start = self.front_of(number) + at;
            self.frames[number][start..start + some].copy_from_slice(&bytes[..some]);
            self.filled += some;
            bytes = &bytes[some..];
        }
    }

    /// Bytes of data that it is made for.
    pub fn length(&self) -> usize {
        self.length
    }

    /// In how many frames it lies.
    pub fn pieces(&self) -> usize {
        self.frames.len()
    }

    /// Whether these are fragments.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Gives it up: its frames are free again.
    pub fn abandon(&mut self) {
        self.frames.clear();
    }

    /// Says of which flow its frames are.
    pub fn set_hash(&mut self, hash: Option<FrameHash>) {
        self.frames.iter_mut().for_each(|frame| frame.facts.hash = hash);
    }

    /// Writes a checksum at that place of the data, which was 0 until then.
    pub fn patch(&mut self, at: usize, checksum: u16) {
        let at = self.front + at;
        self.frames[0][at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Writes the headers, but for the link address of who gets it, and hands out the frames.
    pub fn end(&mut self, ends: &Ends) -> impl ExactSizeIterator<Item = Frame> {
        assert_eq!(self.filled, self.length, "a packet is sent when it is whole");
        let (front, length) = (self.front, self.length);
        let part = if self.is_cut { self.part } else { length };
        for (number, frame) in self.frames.iter_mut().take(length.div_ceil(part)).enumerate() {
            let start = number * part;
            let more = start + part < length;
            let written = head(&mut frame[..front], ends, start, part.min(length - start), more);
            assert!(written.is_ok(), "headers that are made for it fit: {written:?}");
        }
        self.frames.drain(..)
    }
}

/// Writes the headers of the piece that begins at `start`.
fn head(front: &mut [u8], ends: &Ends, start: usize, length: usize, more: bool) -> Result<(), corelane_wire::Error> {
    let to = &mut Writer::new(front);
    let (hops, is_cut) = (if ends.is_of_link { HOPS_OF_LINK } else { HOPS }, more || start > 0);
    let nobody = Mac([0; 6]);
    let protocol = if ends.source.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    ethernet::Header { destination: nobody, source: ends.from, protocol }.emit(to)?;
    match (ends.source, ends.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let fragment = ipv4::Fragment { offset: Offset::new(start)?, more, keep_whole: false };
            let (identification, protocol) = (ends.identification as u16, ends.protocol);
            let (traffic, options) = Default::default();
            ipv4::Header { traffic, identification, fragment, hops, protocol, source, destination, options }.emit(length, to)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let next = if is_cut { IpProtocol::FRAGMENT } else { ends.protocol };
            let before = if is_cut { fragment::Header::BYTES } else { 0 };
            let (traffic, label) = Default::default();
            ipv6::Header { traffic, label, next, hops, source, destination }.emit(before + length, to)?;
            let identification = ends.identification;
            let fragment = fragment::Header { next: ends.protocol, offset: Offset::new(start)?, more, identification };
            if is_cut { fragment.emit(to) } else { Ok(()) }
        }
        _ => unreachable!("both ends of a packet are of one family"),
    }
}
