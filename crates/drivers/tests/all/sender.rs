//! A driver that sends a stream of which each byte follows from its place, out of memory that is written as soon as it is released; and who reads and checks it.

use corelane_drivers::{EpollDriver, Probes, UringDriver};
use corelane_os::memory_file::MemoryFile;
use corelane_os::sealed_file;
use corelane_seam::{
    Address, Arena, Chain, Completion, Driver, Handle, Listen, Op, Outcome, Socket, StreamOp, StreamOptions, StreamOutcome,
    Tuning, Wait,
};
use rustix::net::{RecvFlags, recv};
use std::os::fd::{AsFd, OwnedFd};

/// A driver's memory: little, so that what is released is written at once.
pub const MEMORY: usize = 4 << 20;
/// Bytes of one send.
pub const SEND: usize = 256 << 10;
/// Bytes of a block of it.
pub const BLOCK: usize = 64 << 10;
/// How much a reader takes at once.
const READ: usize = 192 << 10;
/// What stands in memory that was released.
pub const WRITTEN: u8 = 0xee;

/// What stands at a place of the stream.
fn word_at(place: u64) -> [u8; 8] {
    (place / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()
}

/// Writes what stands from a place on, which is a multiple of 8.
pub fn write(place: u64, bytes: &mut [u8]) {
    for (number, word) in bytes.chunks_mut(8).enumerate() {
        word.copy_from_slice(&word_at(place + 8 * number as u64)[..word.len()]);
    }
}

/// At an address of this machine.
pub fn at(address: &str) -> Listen {
    let address = address.parse().unwrap();
    Listen { address, backlog: 8, share_port: false, v6_only: false, stream: StreamOptions::default() }
}

/// Sends of a driver, and what became of their memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub sends: u64,
    /// Bytes that were sent.
    pub bytes: u64,
    /// Those of them whose memory stayed the kernel's behind the end of their send.
    pub kept_bytes: u64,
    /// Sends whose memory stayed so, and those of them whose memory came back.
    pub kept: u64,
    pub released: u64,
}

/// A driver with a connection.
pub struct Sender<D> {
    pub driver: D,
    pub socket: Socket,
    pub tally: Tally,
    arena: Arena,
    /// What the last send has left over.
    rest: Chain,
    is_sending: bool,
}

impl<D: Driver> Sender<D> {
    /// Listens, and takes the connection of whom `join` has come there.
    pub fn joined<T>(mut driver: D, arena: Arena, listen: &Listen, join: impl FnOnce(Address) -> T) -> (Self, T) {
        let listener = driver.listen(listen).unwrap();
        let peer = join(driver.local_address(listener).unwrap());
        driver.push(Handle::new(1, 0, 0), StreamOp::Accept { listener }.into());
        let mut completions = Vec::new();
        while completions.is_empty() {
            driver.collect(Wait::Forever, 64, &mut completions);
        }
        let Outcome::Stream(StreamOutcome::Accepted { socket, .. }) = completions[0].outcome else { panic!("{completions:?}") };
        (Self { driver, socket, tally: Tally::default(), arena, rest: Chain::new(), is_sending: false }, peer)
    }

    /// Sends what `make` makes for each place until so many bytes are sent, as long as there is memory; says whether something has ended meanwhile.
    pub fn step(&mut self, bytes: u64, make: &mut impl FnMut(&Arena, u64) -> Option<Chain>, wait: Wait) -> bool {
        if !self.is_sending && self.rest.is_empty() && self.tally.bytes < bytes {
            self.rest = make(&self.arena, self.tally.bytes).unwrap_or_default();
        }
        if !self.is_sending && !self.rest.is_empty() {
            let chain = std::mem::take(&mut self.rest);
            self.driver.push(Handle::new(2, 0, 0), StreamOp::Send { socket: self.socket, chain }.into());
            self.is_sending = true;
        }
        self.collect(wait)
    }

    /// A moment, for who has something else to do.
    pub fn soon(&self) -> Wait {
        Wait::Until(self.driver.now() + 100_000)
    }

    fn collect(&mut self, wait: Wait) -> bool {
        let mut completions: Vec<Completion> = Vec::new();
        self.driver.collect(wait, 64, &mut completions);
        let has_ended = !completions.is_empty();
        for Completion { outcome, released, .. } in completions {
            match outcome {
                Outcome::Released => self.tally.released += 1,
                Outcome::Stream(StreamOutcome::Sent { bytes, rest, fault: None }) => {
                    self.tally.sends += 1;
                    self.tally.bytes += bytes as u64;
                    self.tally.kept += u64::from(!released);
                    self.tally.kept_bytes += if released { 0 } else { bytes as u64 };
                    (self.rest, self.is_sending) = (rest, false);
                }
                other => panic!("{other:?}"),
            }
        }
        // What was released is written: who still has its pages reads this.
        if has_ended {
            let mut free: Vec<_> = std::iter::from_fn(|| self.arena.lease_or_none(BLOCK)).collect();
            free.iter_mut().for_each(|lease| lease.spare().fill(WRITTEN));
        }
        has_ended
    }

    /// Waits until all memory is released.
    pub fn settle(&mut self) {
        while self.tally.released < self.tally.kept {
            self.collect(Wait::Forever);
        }
    }

    /// Ends the connection behind what was sent.
    pub fn close(mut self) {
        self.settle();
        self.driver.push(Handle::new(3, 0, 0), Op::Close { socket: self.socket, reset: false });
        let mut completions: Vec<Completion> = Vec::new();
        while !completions.iter().any(|end| matches!(end.outcome, Outcome::Closed)) {
            self.driver.collect(Wait::Forever, 64, &mut completions);
        }
    }
}

/// Memory of a driver, and where it can be written past all leases.
pub fn memory() -> (Arena, OwnedFd) {
    let (region, file) = MemoryFile::new(MEMORY).unwrap();
    (Arena::of(region).unwrap(), file)
}

/// The next send, in blocks of the lane's memory.
pub fn blocks(arena: &Arena, place: u64) -> Option<Chain> {
    let mut chain = Chain::new();
    for number in 0..SEND / BLOCK {
        let mut lease = arena.lease_or_none(BLOCK)?;
        write(place + (number * BLOCK) as u64, lease.spare());
        lease.advance(BLOCK);
        chain.push(lease.share());
    }
    Some(chain)
}

/// The next send, in sealed memory that is new each time.
pub fn sealed(_: &Arena, place: u64) -> Option<Chain> {
    let (mut bytes, mut chain) = (vec![0; SEND], Chain::new());
    write(place, &mut bytes);
    chain.push(sealed_file::seal(&[&bytes]).unwrap());
    Some(chain)
}

pub fn with_epoll(arena: Arena, tuning: Tuning) -> EpollDriver {
    EpollDriver::new(arena, tuning, Probes::default()).unwrap()
}

pub fn with_uring(arena: Arena, tuning: Tuning) -> UringDriver {
    UringDriver::new(arena, tuning, Probes::default()).unwrap()
}

/// Reads the stream, and looks at each byte.
pub struct Reader {
    socket: OwnedFd,
    room: Vec<u8>,
    expected: Vec<u8>,
    pub read: u64,
    /// Something was read that was not sent.
    pub is_corrupt: bool,
}

impl Reader {
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, room: vec![0; READ], expected: vec![0; READ + 8], read: 0, is_corrupt: false }
    }

    /// Takes a little of what has come; says how much, if there is something or the end.
    pub fn take(&mut self, flags: RecvFlags) -> Option<usize> {
        let (count, _) = recv(self.socket.as_fd(), &mut self.room[..], flags).ok()?;
        let before = (self.read % 8) as usize;
        write(self.read - before as u64, &mut self.expected[..before + count]);
        self.is_corrupt |= self.room[..count] != self.expected[before..before + count];
        self.read += count as u64;
        Some(count)
    }
}
