//! Packet sockets (packet(7)): the fallback, where an interface can have no program of ours.
//!
//! Each socket gets a copy of what comes; the kernel goes on having it as well. So it answers for what it takes to be its own: an address of ours
//! must not be one of its addresses. Several sockets of one interface share what comes by the queue that it came on.
//!
//! What comes lies in a ring that the kernel shares with us (`arrivals`), and is copied into a frame; what leaves is sent by a call each.
//!
//! The kernel says when a packet came, by the wall clock. That is told by the lane's clock, as far apart as the two are when the ring is looked at: so it is wrong
//! by as much as the wall clock was set in between, which is moments, and never later than the look.
//!
//! What a peer on this machine sends as a train of datagrams (`UDP_SEGMENT`), and nobody has cut, is too long, and counted as that.

use crate::arrivals::Arrivals;
use crate::claims::Claims;
use crate::copying::{Calls, CopyingPort, Received, places};
use crate::errors::Error;
use crate::groups::Groups;
use crate::link::{Interface, TAG_BYTES, Watch};
use crate::ours::Ours;
use corelane_os::clock;
use corelane_os::errno::checked;
use corelane_seam::{Checksum, Frame, FrameMemory, PortKind, VlanTag};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Sockets of one interface at the most (`PACKET_FANOUT_MAX` of the oldest kernels).
pub const QUEUES_MAX: usize = 256;
/// A socket is not told of what this machine sends (kernel 4.20).
const IGNORE_OUTGOING: i32 = 23;

/// One socket of an interface, not yet a port: it can go to its lane's thread.
#[derive(Debug)]
pub struct PacketQueue {
    calls: PacketCalls,
    name: Box<str>,
    queue: u32,
}

/// Opens so many sockets at the interface, which share what comes.
///
/// # Errors
/// [`Error::Forbidden`] without CAP_NET_RAW, [`Error::NoInterface`], and others.
pub fn open(name: &str, queues: usize) -> Result<Vec<PacketQueue>, Error> {
    if queues == 0 || queues > QUEUES_MAX {
        return Err(Error::Range { what: "sockets of an interface", got: queues, most: QUEUES_MAX });
    }
    let interface = Interface::find(name)?;
    let mut opened = Vec::with_capacity(queues);
    // A group that the kernel gives a number that nobody has, with the first of them.
    let mut group = None;
    for queue in 0..queues as u32 {
        let refused = |call| move |number| Error::of(call, number, name);
        let descriptor = create().map_err(refused("socket AF_PACKET"))?;
        let arrivals = Arrivals::new(&descriptor, interface.frame_bytes_max() + TAG_BYTES).map_err(refused("PACKET_RX_RING"))?;
        bind(&descriptor, interface.link.interface).map_err(refused("bind AF_PACKET"))?;
        if queues > 1 {
            group = Some(join(&descriptor, group).map_err(refused("PACKET_FANOUT"))?);
        }
        opened.push(PacketQueue { calls: PacketCalls::new(descriptor, arrivals), name: name.into(), queue });
    }
    Ok(opened)
}

/// A packet socket that hears nothing until it is bound, and never what this machine sends.
pub(crate) fn create() -> Result<OwnedFd, i32> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // Without a protocol nothing arrives before it is bound. SAFETY: the call takes no memory.
    let number = checked(unsafe { libc::socket(libc::AF_PACKET, kind, 0) } as isize)?;
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number as i32) };
    set(&descriptor, IGNORE_OUTGOING, 1)?;
    Ok(descriptor)
}

/// Claims the addresses of ours at the interface, and has it let through what asks for those of IPv6, as long as one of the sockets is there.
///
/// # Errors
/// [`Error::AddressServed`] if another process has one of them, and those of [`open`].
pub fn take_addresses(queues: &mut [PacketQueue], ours: &Ours) -> Result<(), Error> {
    let Some(first) = queues.first() else { return Ok(()) };
    let interface = Interface::find(&first.name)?;
    let held = Arc::new((Claims::take(&interface, ours)?, Groups::join(&interface, ours)?));
    queues.iter_mut().for_each(|queue| queue.calls.held = Some(held.clone()));
    Ok(())
}

/// Has it hear all of an interface.
pub(crate) fn bind(descriptor: &OwnedFd, interface: u32) -> Result<(), i32> {
    // SAFETY: plain numbers, for which zeros are good.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface as i32;
    let length = size_of::<libc::sockaddr_ll>() as u32;
    // SAFETY: the address is readable, and of that length.
    checked(unsafe { libc::bind(descriptor.as_raw_fd(), (&raw const address).cast(), length) } as isize).map(drop)
}

/// Joins the group, or a new one; returns its number.
fn join(descriptor: &OwnedFd, group: Option<u16>) -> Result<u16, i32> {
    let how = libc::PACKET_FANOUT_QM | if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
    let argument = u32::from(group.unwrap_or(0)) | how << 16;
    set(descriptor, libc::PACKET_FANOUT, argument.cast_signed())?;
    let (mut seen, mut length) = (0_u32, size_of::<u32>() as u32);
    let number = descriptor.as_raw_fd();
    // SAFETY: the value is writable, and of that length.
    let got = unsafe { libc::getsockopt(number, libc::SOL_PACKET, libc::PACKET_FANOUT, (&raw mut seen).cast(), &raw mut length) };
    checked(got as isize).map(|_| seen as u16)
}

fn set(descriptor: &OwnedFd, option: i32, value: i32) -> Result<(), i32> {
    let (number, length) = (descriptor.as_raw_fd(), size_of::<i32>() as u32);
    // SAFETY: the value is readable, and of that length.
    checked(unsafe { libc::setsockopt(number, libc::SOL_PACKET, option, (&raw const value).cast(), length) } as isize).map(drop)
}

impl PacketQueue {
    /// The port, which receives into `memory`. It is made on its lane's thread, in the interface's network namespace.
    ///
    /// # Errors
    /// [`Error::FrameShort`] if a packet may be longer than 17 frames; others if the interface is gone.
    pub fn port(self, memory: FrameMemory) -> Result<PacketPort, Error> {
        let watch = Watch::of(&self.name)?;
        CopyingPort::new(self.calls, false, self.queue, watch, memory)
    }

    /// Its number, from 0.
    pub fn queue(&self) -> u32 {
        self.queue
    }
}

/// One packet socket, as a port.
pub type PacketPort = CopyingPort<PacketCalls>;

/// A packet socket and its ring.
#[derive(Debug)]
pub struct PacketCalls {
    descriptor: OwnedFd,
    arrivals: Arrivals,
    /// What the ports of one interface have together.
    held: Option<Arc<(Claims, Option<Groups>)>>,
    clocks: Clocks,
    /// Packets that the interface's own queue had no room for.
    send_lost: u64,
}

impl PacketCalls {
    fn new(descriptor: OwnedFd, arrivals: Arrivals) -> Self {
        Self { descriptor, arrivals, held: None, clocks: Clocks::default(), send_lost: 0 }
    }
}

/// How the wall clock, by which the kernel says when a packet came, stands to the lane's.
#[derive(Debug, Default)]
struct Clocks {
    seen: Option<Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// By so much the wall clock is ahead.
    ahead: u64,
    /// What came before was not waiting until now: the wall clock was set.
    earliest: u64,
    /// Packets for which this still holds.
    packets: u32,
}

/// Packets whose times are told by one look at both clocks.
const LOOK_HOLDS: u32 = 64;
/// How long a packet waits in the ring at the most, in nanoseconds.
const WAITS_MAX: u64 = 1_000_000_000;

impl Clocks {
    /// When that was by the lane's clock, in nanoseconds; 0 if it cannot be told.
    fn time_of(&mut self, stamp: u64) -> u64 {
        let seen = self.seen.take().unwrap_or_else(Self::look);
        self.seen = Some(Seen { packets: seen.packets - 1, ..seen }).filter(|seen| seen.packets > 0);
        stamp.checked_sub(seen.ahead).filter(|time| *time >= seen.earliest).unwrap_or(0)
    }

    /// Looks at both. What comes between makes packets seem to have come later, and nothing later than now.
    fn look() -> Seen {
        let (wall, now) = (clock::wall_clock(), clock::now());
        Seen { ahead: wall.saturating_sub(now), earliest: now.saturating_sub(WAITS_MAX).max(1), packets: LOOK_HOLDS }
    }

    /// The next packet is looked at another time.
    fn forget(&mut self) {
        self.seen = None;
    }
}

impl Calls for PacketCalls {
    const KIND: PortKind = PortKind::Packet;
    const DOWN: &[i32] = &[libc::ENETDOWN];
    const GONE: &[i32] = &[libc::ENXIO, libc::ENODEV];

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    fn receive(&mut self, frames: &mut [Frame]) -> Result<Received, i32> {
        let Some(arrival) = self.arrivals.next() else {
            self.clocks.forget();
            return Err(libc::EAGAIN);
        };
        let room: usize = frames.iter().map(|frame| frame.len()).sum();
        let Some(bytes) = arrival.bytes().filter(|bytes| bytes.len() <= room) else { return Ok(Received::TooLong) };
        let mut rest = bytes;
        for frame in frames.iter_mut() {
            let (piece, behind) = rest.split_at(rest.len().min(frame.len()));
            frame[..piece.len()].copy_from_slice(piece);
            rest = behind;
        }
        let header = arrival.header();
        note(&mut frames[0], header);
        frames[0].facts.time = self.clocks.time_of(u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec));
        Ok(Received::Packet { length: bytes.len() })
    }

    fn send(&mut self, packet: &[Frame]) -> Result<(), i32> {
        let (mut places, count) = places(packet);
        // SAFETY: plain numbers and pointers, for which zeros are good.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (places.as_mut_ptr(), count);
        // SAFETY: the places are readable, and stay for the call.
        let sent = unsafe { libc::sendmsg(self.descriptor.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
        match checked(sent) {
            Ok(_) => Ok(()),
            // The interface's own queue is full: as on a card, the frame is lost there.
            Err(libc::ENOBUFS) => {
                self.send_lost += 1;
                Ok(())
            }
            Err(number) => Err(number),
        }
    }

    /// The kernel counts what the ring had no room for from one question to the next.
    fn overflowed(&mut self) -> Result<u64, i32> {
        let mut seen = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let (number, mut length) = (self.descriptor.as_raw_fd(), size_of::<libc::tpacket_stats>() as u32);
        let (option, place) = (libc::PACKET_STATISTICS, (&raw mut seen).cast());
        // SAFETY: the value is writable, of that length, and numbers only.
        let got = unsafe { libc::getsockopt(number, libc::SOL_PACKET, option, place, &raw mut length) };
        checked(got as isize).map(|_| u64::from(seen.tp_drops))
    }

    fn send_lost(&self) -> u64 {
        self.send_lost
    }
}

fn note(frame: &mut Frame, data: &libc::tpacket2_hdr) {
    let has = |flag: u32| data.tp_status & flag != 0;
    if has(libc::TP_STATUS_CSUM_VALID) || has(libc::TP_STATUS_CSUMNOTREADY) {
        // What has not left this machine's memory yet needs no sum.
        frame.facts.checksum = Checksum::Good;
    }
    if has(libc::TP_STATUS_VLAN_VALID) {
        let protocol = if has(libc::TP_STATUS_VLAN_TPID_VALID) { data.tp_vlan_tpid } else { libc::ETH_P_8021Q as u16 };
        frame.facts.vlan = Some(VlanTag { protocol, control: data.tp_vlan_tci });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_told_by_the_lanes_clock() {
        let mut clocks = Clocks { seen: Some(Seen { ahead: 1000, earliest: 50, packets: 4 }) };
        // As it was; before the ring was looked at for the first time; before the machine began; and another look.
        assert_eq!([1060, 1049, 999].map(|stamp| clocks.time_of(stamp)), [60, 0, 0]);
        assert_eq!((clocks.time_of(1050), clocks.seen.is_none()), (50, true));
        let before = clock::now();
        let time = clocks.time_of(clock::wall_clock());
        assert!(time > 0 && time.abs_diff(before) < WAITS_MAX, "{time}, {before}");
        assert_eq!(clocks.seen.unwrap().packets, LOOK_HOLDS - 1);
        clocks.forget();
        assert!(clocks.seen.is_none());
    }
}
