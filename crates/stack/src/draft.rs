//! A packet that is being written: its data first, then the headers in front of them, in as many frames as it takes, and as many fragments.

use corelane_seam::{Frame, FrameHash, FrameMemory};
use corelane_wire::packet::checksum::{self, Sum};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The headers of the packet before, if that was not cut.
    last: Option<Heads>,
}

/// Headers of link and network as they were written: those of the next packet between the same ends differ in its length and its name alone.
#[derive(Debug)]
struct Heads {
    ends: Ends,
    bytes: [u8; HEADS_BYTES],
}

/// Bytes of the longest headers of a packet that is not cut.
const HEADS_BYTES: usize = ethernet::Header::BYTES + ipv6::Header::BYTES;
/// Where they say what changes (RFC 791, section 3.1; RFC 8200, section 3).
const V4_LENGTH: usize = 16;
const V4_NAME: usize = 18;
const V4_CHECKSUM: usize = 24;
const V6_LENGTH: usize = 18;

impl Heads {
    /// Whether they are of the same ends.
    fn are_of(&self, ends: &Ends) -> bool {
        Ends { identification: ends.identification, ..self.ends } == *ends
    }

    /// Changes them for a packet with so many bytes behind them.
    fn change(&mut self, length: u16, identification: u32) {
        if self.ends.source.is_ipv6() {
            self.bytes[V6_LENGTH..V6_LENGTH + 2].copy_from_slice(&length.to_be_bytes());
            return;
        }
        let word = |at: usize| u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]);
        let before = Sum::ZERO.and_word(word(V4_LENGTH)).and_word(word(V4_NAME));
        let (length, name) = (length + ipv4::Header::BYTES as u16, identification as u16);
        let checksum = checksum::replaced(word(V4_CHECKSUM), before, Sum::ZERO.and_word(length).and_word(name));
        for (at, word) in [(V4_LENGTH, length), (V4_NAME, name), (V4_CHECKSUM, checksum)] {
            self.bytes[at..at + 2].copy_from_slice(&word.to_be_bytes());
        }
    }
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

    /// In how many frames so many bytes lie.
    fn frames(&self, length: usize) -> usize {
        // Most lie in one, and a division costs more than all the rest.
        if length <= self.part { 1 } else { length.div_ceil(self.part) }
    }
}

impl Draft {
    /// Begins a packet with `length` bytes behind the network's header. One of more than `most` bytes is cut into fragments, each in a frame of its own; another
    /// lies in as many frames as it takes. False if not as many are free.
    pub fn begin(&mut self, memory: &FrameMemory, is_v6: bool, length: usize, most: usize) -> bool {
        assert!(self.frames.is_empty() && length > 0, "one packet is written after the other");
        let cut = Cut::of(memory, is_v6, length, most);
        let (frames, Cut { is_cut, front, part }) = (cut.frames(length), cut);
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
        Cut::of(memory, is_v6, length, most).frames(length)
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
            let is_one = self.frames.len() == 1;
            let (number, at) = if is_one { (0, self.filled) } else { (self.filled / self.part, self.filled % self.part) };
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

    /// The first bytes of data, with all of a transport's header.
    pub fn head(&self) -> &[u8] {
        &self.frames[0][self.front..]
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

    /// Writes the headers, but for the link address of who gets it, and hands out the frames. Their storage comes back by [`Draft::give_back`].
    pub fn end(&mut self, ends: &Ends) -> Vec<Frame> {
        assert_eq!(self.filled, self.length, "a packet is sent when it is whole");
        let mut frames = std::mem::take(&mut self.frames);
        if !self.is_cut {
            self.write_heads(&mut frames[0][..self.front], ends);
            return frames;
        }
        for (number, frame) in frames.iter_mut().enumerate() {
            let start = number * self.part;
            let (length, more) = (self.part.min(self.length - start), start + self.part < self.length);
            write_head(&mut frame[..self.front], ends, start, length, more);
        }
        frames
    }

    /// The storage of frames that were handed out.
    pub fn give_back(&mut self, frames: Vec<Frame>) {
        assert!(frames.is_empty() && self.frames.is_empty(), "storage is given back empty, before the next packet is begun");
        self.frames = frames;
    }

    /// Writes the headers of a packet that is not cut.
    fn write_heads(&mut self, front: &mut [u8], ends: &Ends) {
        assert!(ipv4::Header::BYTES + self.length <= usize::from(u16::MAX), "a packet is no longer than its header can say");
        let length = self.length as u16;
        if let Some(last) = self.last.as_mut().filter(|last| last.are_of(ends)) {
            last.change(length, ends.identification);
            return front.copy_from_slice(&last.bytes[..front.len()]);
        }
        write_head(front, ends, 0, self.length, false);
        let mut bytes = [0; HEADS_BYTES];
        bytes[..front.len()].copy_from_slice(front);
        self.last = Some(Heads { ends: *ends, bytes });
    }
}

fn write_head(front: &mut [u8], ends: &Ends, start: usize, length: usize, more: bool) {
    let written = head(front, ends, start, length, more);
    assert!(written.is_ok(), "headers that are made for it fit: {written:?}");
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet as it is sent, by a draft that may have written others before.
    fn written(draft: &mut Draft, memory: &FrameMemory, ends: &Ends, data: &[u8]) -> Vec<Vec<u8>> {
        assert!(draft.begin(memory, ends.source.is_ipv6(), data.len(), 1514));
        draft.put(data);
        let mut frames = draft.end(ends);
        let bytes = frames.drain(..).map(|frame| frame.to_vec()).collect();
        draft.give_back(frames);
        bytes
    }

    fn ends(source: &str, destination: &str, identification: u32) -> Ends {
        let [source, destination] = [source, destination].map(|address| address.parse().unwrap());
        let from = Mac([2, 0, 0, 0, 0, 7]);
        Ends { source, destination, protocol: IpProtocol::UDP, identification, from, is_of_link: false }
    }

    /// Whatever was sent before, to the same or to others, headers are those of a draft that has sent nothing.
    #[test]
    fn headers_that_are_used_again_are_as_new_ones() {
        let memory = FrameMemory::new(16, 2048).unwrap();
        let (v4, v6) = ("10.0.0.1", "2001:db8::1");
        let pairs = [(v4, "10.0.0.9"), (v4, "10.0.0.8"), (v6, "2001:db8::9"), (v6, "2001:db8::8")];
        let lengths = [8, 8, 518, 1480, 9, 3000, 8, 518];
        let (mut draft, mut number) = (Draft::default(), 0xfffe_u32);
        for round in 0..200_u32 {
            let (source, destination) = pairs[(round as usize / 3) % pairs.len()];
            number = number.wrapping_add(1 + 7919 * (round % 5));
            let mut ends = ends(source, destination, number);
            ends.is_of_link = round.is_multiple_of(11);
            let data = vec![round as u8; lengths[round as usize % lengths.len()]];
            let fresh = written(&mut Draft::default(), &memory, &ends, &data);
            assert_eq!(written(&mut draft, &memory, &ends, &data), fresh, "round {round}: {ends:?}, {} bytes", data.len());
        }
    }
}
