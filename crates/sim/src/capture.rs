//! Capture: what passes a port, as a pcapng stream (PCAP Next Generation, draft-ietf-opsawg-pcapng).
//!
//! Nothing is written to a file here, for a lane never waits for one: the stream gathers in bounded memory, and who captures takes it away.

use crate::passing::of_inner;
use corelane_seam::{Fault, Frame, FrameMemory, Lost, Offload, Port, PortFacts, PortState, Taken, Worked};
use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

/// A section header block (draft section 4.1): type, length, byte-order magic, version 1.0, section of unknown length.
const SECTION: [u32; 7] = [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28];
/// An interface description block (section 4.2) for Ethernet (LINKTYPE 1), frames of any length; its times are nanoseconds (`if_tsresol` 9).
const INTERFACE: [u32; 8] = [1, 32, 1, 0, 1 << 16 | 9, 9, 0, 32];
/// An enhanced packet block (section 4.3).
const PACKET: u32 = 6;
/// Bytes of such a block beside the packet, and the option that says which way it went (`epb_flags`).
const PACKET_BYTES: usize = 32 + 12;
/// The most bytes that a capture keeps until they are taken.
pub const CAPTURE_BYTES_MAX: usize = 64 << 20;

/// Which way a frame went, as `epb_flags` says it.
#[derive(Clone, Copy)]
enum Direction {
    In = 1,
    Out = 2,
}

struct Stream {
    bytes: Vec<u8>,
    most: usize,
    missed: u64,
}

impl Stream {
    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.bytes.extend(word.to_le_bytes()));
    }

    /// One packet, in as many frames as it lies in.
    fn packet(&mut self, direction: Direction, time: u64, packet: &[Frame]) {
        let whole: usize = packet.iter().map(|frame| frame.len()).sum();
        let padding = whole.next_multiple_of(4) - whole;
        let length = PACKET_BYTES + whole + padding;
        if self.bytes.len() + length > self.most {
            self.missed += 1;
            return;
        }
        let bytes = whole as u32;
        self.words(&[PACKET, length as u32, 0, (time >> 32) as u32, time as u32, bytes, bytes]);
        packet.iter().for_each(|frame| self.bytes.extend_from_slice(frame));
        self.bytes.extend_from_slice(&[0; 3][..padding]);
        self.words(&[4 << 16 | 2, direction as u32, 0, length as u32]);
    }
}

/// The capture of a [`CapturedPort`]. Cloning gives another name of the same.
#[derive(Clone)]
pub struct Capture(Rc<RefCell<Stream>>);

impl Capture {
    /// The next piece of the stream, which goes on where the last one ended; the first begins it.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut().bytes)
    }

    /// Frames that were not captured, because nobody had taken what came before.
    pub fn missed(&self) -> u64 {
        self.0.borrow().missed
    }
}

impl std::fmt::Debug for Capture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Capture({} bytes, {} missed)", self.0.borrow().bytes.len(), self.missed())
    }
}

/// Captures what arrives, with its time if the source said it, and what is sent, whether the interface takes it or not.
#[derive(Debug)]
pub struct CapturedPort<P: Port> {
    inner: P,
    capture: Capture,
    /// Frames at the front of the next send that were captured when they were offered first.
    offered: usize,
}

impl<P: Port> CapturedPort<P> {
    /// Around `inner`; keeps at most `most` bytes that were not taken, and no more than [`CAPTURE_BYTES_MAX`].
    pub fn new(inner: P, most: usize) -> (Self, Capture) {
        let mut stream = Stream { bytes: Vec::new(), most: most.min(CAPTURE_BYTES_MAX), missed: 0 };
        stream.words(&SECTION);
        stream.words(&INTERFACE);
        let capture = Capture(Rc::new(RefCell::new(stream)));
        (Self { inner, capture: capture.clone(), offered: 0 }, capture)
    }
}

impl<P: Port> Port for CapturedPort<P> {
    of_inner!(and when);

    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        let before = into.len();
        let result = self.inner.receive(now, at_most, into);
        let mut stream = self.capture.0.borrow_mut();
        for packet in Frame::packets(&into[before..]) {
            let time = if packet[0].facts.time == 0 { now } else { packet[0].facts.time };
            stream.packet(Direction::In, time, packet);
        }
        result
    }

    fn send(&mut self, now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        let mut stream = self.capture.0.borrow_mut();
        Frame::packets(&frames[self.offered..]).for_each(|packet| stream.packet(Direction::Out, now, packet));
        drop(stream);
        let result = self.inner.send(now, frames);
        // A driver offers again what was not taken, and nothing before that; after a fault it offers nothing again.
        self.offered = if result.is_ok() { frames.len() } else { 0 };
        result
    }
}
