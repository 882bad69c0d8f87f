//! A lane's driver with one port, stepped by the test.

use corelane_drivers::{EpollDriver, UringDriver, probe_uring};
use corelane_seam::{
    Arena, Completion, Driver, Fault, Frame, FrameMemory, FrameOp, FrameOutcome, Handle, Outcome, Port, PortFacts, PortId,
    Tuning, Wait,
};

pub const FRAMES: usize = 512;
pub const FRAME_BYTES: usize = 2048;
/// Bytes that a frame has room for.
pub const ROOM: usize = FRAME_BYTES - Frame::HEADROOM;
/// Collects without a completion after which a test has failed: 10 seconds of waiting.
const IDLE_MAX: usize = 1000;
const PAUSE: u64 = 10_000_000;

pub fn memory() -> FrameMemory {
    FrameMemory::new(FRAMES, FRAME_BYTES).unwrap()
}

/// Which driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Epoll,
    Uring,
}

impl By {
    /// Why this machine does not have it, if it does not.
    pub fn lacking(self) -> Option<String> {
        match self {
            Self::Epoll => None,
            Self::Uring => probe_uring().err().map(|error| error.to_string()),
        }
    }

    fn driver(self) -> Box<dyn Driver> {
        let (arena, tuning) = (Arena::new(1).unwrap(), Tuning::default());
        match self {
            Self::Epoll => Box::new(EpollDriver::new(arena, tuning, Default::default()).unwrap()),
            Self::Uring => Box::new(UringDriver::new(arena, tuning, Default::default()).unwrap()),
        }
    }
}

pub struct Node {
    pub driver: Box<dyn Driver>,
    pub memory: FrameMemory,
    pub port: PortId,
    pub facts: PortFacts,
    completions: Vec<Completion>,
    next: u32,
}

impl Node {
    /// Opens a port that receives into `memory`.
    pub fn new(port: impl Port + 'static, memory: FrameMemory) -> Self {
        Self::by(By::Epoll, port, memory)
    }

    /// The same of one whose kind is not known.
    pub fn of_box(port: Box<dyn Port>, memory: FrameMemory) -> Self {
        Self::open(By::Epoll, port, memory)
    }

    /// The same on this kind of driver.
    pub fn by(by: By, port: impl Port + 'static, memory: FrameMemory) -> Self {
        Self::open(by, Box::new(port), memory)
    }

    fn open(by: By, port: Box<dyn Port>, memory: FrameMemory) -> Self {
        let mut driver = by.driver();
        let opening = Handle::new(1, 0, 0);
        driver.push(opening, FrameOp::Open(port).into());
        let mut completions = Vec::new();
        driver.collect(Wait::No, 64, &mut completions);
        match completions.pop().unwrap().outcome {
            Outcome::Frame(FrameOutcome::Opened { port, facts }) => Self { driver, memory, port, facts, completions, next: 0 },
            other => panic!("not opened: {other:?}"),
        }
    }

    pub fn push(&mut self, op: FrameOp) -> Handle {
        self.next += 1;
        let handle = Handle::new(1, self.next, 0);
        self.driver.push(handle, op.into());
        handle
    }

    /// The outcome of an operation, whenever it comes.
    pub fn end(&mut self, handle: Handle) -> Outcome {
        for _ in 0..IDLE_MAX {
            if let Some(index) = self.completions.iter().position(|completion| completion.handle == handle) {
                return self.completions.remove(index).outcome;
            }
            self.collect(PAUSE);
        }
        panic!("{handle:?} never ends")
    }

    /// Collects once, waiting for so long at the most.
    pub fn collect(&mut self, pause: u64) {
        let wait = Wait::Until(self.driver.now() + pause);
        self.driver.collect(wait, 64, &mut self.completions);
    }

    /// Collects for a millisecond, and once behind it, however late that is: what was learnt in front of it is in force then.
    pub fn settle(&mut self) {
        let end = self.driver.now() + 1_000_000;
        while self.driver.now() < end {
            self.collect(1_000_000);
        }
        self.collect(0);
    }

    pub fn receive(&mut self) -> Handle {
        self.push(FrameOp::Receive { port: self.port, at_most: 64, into: Vec::new() })
    }

    pub fn arrived(&mut self, handle: Handle) -> Result<Vec<Frame>, Fault> {
        match self.end(handle) {
            Outcome::Frame(FrameOutcome::Arrived { frames, fault: None }) => Ok(frames),
            Outcome::Frame(FrameOutcome::Arrived { fault: Some(fault), .. }) => Err(fault),
            other => panic!("not arrived: {other:?}"),
        }
    }

    /// Receives until so many frames have come.
    pub fn frames(&mut self, count: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        while frames.len() < count {
            let receive = self.receive();
            frames.extend(self.arrived(receive).unwrap());
        }
        frames
    }

    /// What has arrived by now, and nothing that comes later.
    pub fn waiting(&mut self) -> Vec<Frame> {
        let receive = self.receive();
        self.collect(0);
        self.push(FrameOp::StopReceive { port: self.port });
        match self.end(receive) {
            Outcome::Frame(FrameOutcome::Arrived { frames, .. }) => frames,
            other => panic!("not arrived: {other:?}"),
        }
    }

    /// Receives until so many packets have come whole, in however many frames.
    pub fn packets(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while packets.len() < count {
            let frames = self.frames(1);
            assert!(frames.last().is_some_and(|last| !last.facts.continues), "a batch ends with a packet");
            packets.extend(Frame::packets(&frames).map(|packet| {
                assert!(packet.len() <= self.facts.pieces_max, "{} pieces", packet.len());
                packet.iter().flat_map(|frame| frame.to_vec()).collect()
            }));
        }
        packets
    }

    /// A packet in as many frames as it takes, of which none has more than `most` bytes.
    pub fn pieces(&self, bytes: &[u8], most: usize) -> Vec<Frame> {
        let pieces = bytes.chunks(most).map(|piece| {
            let mut frame = self.memory.frame().unwrap();
            frame.append(piece);
            frame.facts.continues = true;
            frame
        });
        let mut pieces: Vec<_> = pieces.collect();
        pieces.last_mut().unwrap().facts.continues = false;
        pieces
    }

    /// Sends packets; returns how many frames were taken.
    pub fn send(&mut self, packets: &[Vec<u8>]) -> Result<u64, Fault> {
        let room = self.memory.frame_bytes() - Frame::HEADROOM;
        let frames = packets.iter().flat_map(|bytes| self.pieces(bytes, room)).collect();
        self.send_frames(frames).map(|(taken, _)| taken)
    }

    /// Sends frames; returns how many were taken, and how many refused.
    pub fn send_frames(&mut self, frames: Vec<Frame>) -> Result<(u64, u64), Fault> {
        let handle = self.push(FrameOp::Send { port: self.port, frames });
        match self.end(handle) {
            Outcome::Frame(FrameOutcome::Departed { taken, refused, fault: None, .. }) => Ok((taken, refused)),
            Outcome::Frame(FrameOutcome::Departed { fault: Some(fault), .. }) => Err(fault),
            other => panic!("not sent: {other:?}"),
        }
    }

    /// Closes the port: then all of its frames are free.
    pub fn close(mut self) {
        let handle = self.push(FrameOp::Close { port: self.port });
        assert!(matches!(self.end(handle), Outcome::Closed));
        self.completions.clear();
        assert_eq!(self.memory.counts().free, self.memory.frames());
    }
}
