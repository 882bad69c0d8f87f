//! Ports whose calls copy each frame: a tap and a packet socket. What is copied is released at once.

use crate::errors::Error;
use crate::link::{DOWN, GONE, TAG_BYTES, Watch};
use crate::outgoing;
use corelane_os::errno::{self, would_block};
use corelane_seam::{Fault, Frame, FrameMemory, Link, Port, PortFacts, Taken};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

/// What one call brought.
pub enum Received {
    /// A packet of so many bytes.
    Packet {
        /// Its bytes.
        length: usize,
    },
    /// A packet longer than the frame; it is lost.
    TooLong,
    /// One of no interest.
    Nothing,
}

/// The calls of one kind.
pub trait Calls: fmt::Debug {
    /// Errors that say that the interface is down.
    const DOWN: &[i32];
    /// Errors that say that it is gone.
    const GONE: &[i32];

    /// What becomes readable and writable.
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Receives one packet into the frame, whose data is all of its room; notes what is known of the packet in its facts.
    ///
    /// # Errors
    /// The system's number; `EAGAIN` if there is none.
    fn receive(&mut self, frame: &mut Frame) -> Result<Received, i32>;

    /// Sends one packet.
    ///
    /// # Errors
    /// The system's number; `EAGAIN` if there is no room, `EINVAL` and `EMSGSIZE` for what is never taken.
    fn send(&mut self, frame: &Frame) -> Result<(), i32>;
}

/// A port of such calls.
#[derive(Debug)]
pub struct CopyingPort<C: Calls> {
    calls: C,
    link: Link,
    queue: u32,
    watch: Watch,
    memory: FrameMemory,
    has_more: bool,
    taken: u64,
    too_long: u64,
}

impl<C: Calls> CopyingPort<C> {
    /// A port of the watched interface, with a link-layer address of its own.
    ///
    /// # Errors
    /// [`Error::FrameShort`] if a packet may be longer than a frame.
    pub(crate) fn new(calls: C, link: Link, queue: u32, watch: Watch, memory: FrameMemory) -> Result<Self, Error> {
        let interface = watch.interface();
        let (needed, got) = (interface.frame_bytes_max() + TAG_BYTES, memory.frame_bytes() - Frame::HEADROOM);
        if needed > got {
            return Err(Error::FrameShort { name: interface.name.clone(), needed, got });
        }
        Ok(Self { calls, link, queue, watch, memory, has_more: true, taken: 0, too_long: 0 })
    }

    /// Packets that were lost because they are longer than a frame: the interface's MTU was raised.
    pub fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Receives the next packet; false if there is none, or no frame for it.
    fn receive_one(&mut self, now: u64, into: &mut Vec<Frame>) -> Result<bool, Fault> {
        let Some(mut frame) = self.memory.frame() else { return Ok(false) };
        frame.set_length(frame.room());
        match self.calls.receive(&mut frame) {
            Ok(Received::Packet { length }) => {
                frame.set_length(length);
                frame.facts.time = now;
                into.push(frame);
            }
            Ok(Received::TooLong) => self.too_long += 1,
            Ok(Received::Nothing) | Err(libc::EINTR) => {}
            Err(number) if would_block(number) => {
                self.has_more = false;
                return Ok(false);
            }
            Err(number) => return Err(self.told(number)),
        }
        Ok(true)
    }

    /// What the number says of the interface. That it is down may be over by now, so it is told once; the news say whether it lasts.
    fn told(&mut self, number: i32) -> Fault {
        match number {
            number if C::DOWN.contains(&number) => DOWN,
            number if C::GONE.contains(&number) => {
                self.watch.note_gone();
                GONE
            }
            number => errno::fault(number),
        }
    }

    /// Sends frames in order; returns how many were worked off, and why no more.
    fn send_each(&mut self, frames: &mut [Frame], counts: &mut Taken) -> (usize, Option<Fault>) {
        let most = self.watch.interface().frame_bytes_max() + TAG_BYTES;
        for (index, frame) in frames.iter_mut().enumerate() {
            let sent = if outgoing::settle(frame, most) { self.calls.send(frame) } else { Err(libc::EINVAL) };
            match sent {
                Ok(()) => counts.taken += 1,
                Err(libc::EINVAL | libc::EMSGSIZE) => counts.refused += 1,
                Err(number) if would_block(number) || number == libc::EINTR => return (index, None),
                Err(number) => return (index, Some(self.told(number))),
            }
        }
        (frames.len(), None)
    }
}

impl<C: Calls> Port for CopyingPort<C> {
    fn facts(&self) -> PortFacts {
        PortFacts { link: self.link, queue: self.queue, frame_bytes_max: self.watch.interface().frame_bytes_max() }
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.calls.descriptor())
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        Some(self.watch.as_fd())
    }

    fn take_news(&mut self) {
        self.watch.take();
    }

    fn has_more(&self) -> bool {
        self.has_more || self.watch.fault().is_some()
    }

    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        self.has_more = true;
        let first = into.len();
        while into.len() - first < at_most && self.receive_one(now, into)? {}
        match if into.len() == first { self.watch.fault_now() } else { None } {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    fn send(&mut self, _now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        if let Some(fault) = self.watch.fault_now() {
            return Err(fault);
        }
        let mut counts = Taken::default();
        let (done, fault) = self.send_each(frames, &mut counts);
        frames.drain(..done);
        self.taken += counts.taken;
        match fault.filter(|_| done == 0) {
            Some(fault) => Err(fault),
            None => Ok(counts),
        }
    }

    /// The call has copied it.
    fn released(&mut self, _now: u64) -> u64 {
        self.taken
    }
}
