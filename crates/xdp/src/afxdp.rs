//! AF_XDP (`Documentation/networking/af_xdp.rst`): frames of chosen packets go past the kernel's stack into memory of ours, and from there.
//!
//! ```text
//! open(name, ours, queues) -> program at the interface, one XdpQueue a queue -> to its lane -> port(memory, ring) -> XdpPort
//! received:  free frame -> fill ring -> kernel copies a packet into it -> ring of received ones -> the work
//! sent:      frame -> ring of those to be sent -> a call has the kernel send it -> completion ring -> released
//! ```
//!
//! The kernel hands a packet only to a socket of the queue that it came on. Where the card's driver can, and runs the program itself, the card reads and
//! writes frames without a copy (zero-copy); elsewhere the kernel copies, so it works on every interface. [`PortFacts::kind`] says which. The whole
//! region is pinned, and counts against what the process may lock, unless that has CAP_IPC_LOCK: [`frames_max`] says how many frames fit.
//!
//! ```text
//!                    copied                                     zero-copy
//! frames to receive  as many as the ring holds                  half of all at most, for the card takes them out of the ring in advance
//! no frame left      packets are dropped until some are lent    the card stops looking (need-wakeup): a call has it look again
//! sent               released when the call has ended           released when the card says so; it is asked after 0.05 ms, and ever more rarely
//! the end            all frames are ours again                  when the card has let go of the queue, which it is asked for, 0.2 s at most;
//!                                                               if it has not, those that it had stay lent
//! ```
//!
//! A packet that is longer than a frame has room for lies in several, 17 at the most and half of the ring (Linux 6.6); those are copied, for cards
//! differ in how many pieces they know. The program sees the first of them.
//!
//! What lies in the ring when the interface goes down leaves when that is up again.
//!
//! A packet's checksum is what nobody knows, and its time that of the lane's look. What the card says beside its bytes is known where the driver tells a
//! program of it (Linux 6.8): a packet whose VLAN tag the card has taken out is the kernel's, and the hash by which the card chose the queue is a fact of the frame.
//!
//! **A trap.** Between virtual interfaces of one machine (veth) the kernel leaves checksums out, and AF_XDP does not tell: what the machine itself
//! sends has the sum of its pseudo-header there. By the interface's driver it is known whether that may be ([`PortFacts::leaves_sums`]).
//!
//! The program is gone with the last of those that hold it, the queues and their ports, and with the process, however it ends; from
//! then on the kernel has its packets again. It stays while one queue has a port; a queue without one leaves its packets to the kernel.

use crate::attaching::{self, Attached, Attachment};
use crate::card;
use crate::errors::Error;
use crate::fast::{FastPath, Learner};
use crate::hearing::Hearing;
use crate::link::{Interface, TAG_BYTES, Watch};
use crate::ours::Ours;
use crate::outgoing::{PIECES_MAX, pieces, settle};
use crate::outlook::Outlook;
use crate::polling::{self, Polling, Receiver};
use crate::posted::Posted;
use crate::socket::{HEADROOM, Socket, Wanted, is_passing};
use crate::words::Words;
use corelane_os::rights::locked_bytes_max;
use corelane_os::{clock, errno};
use corelane_seam::{
    FRAME_BYTES_LEAST, FRAMES_MAX, Fault, Frame, FrameMemory, Lost, Offload, Port, PortFacts, PortKind, PortState, Taken, Worked,
};
use corelane_select::bpf::XdpMode;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

pub use crate::attaching::{QUEUES_MAX, probe};
pub use crate::socket::Drops;

/// Bytes of the largest chunk: a page.
const CHUNK_BYTES_MAX: usize = 4096;
/// Entries of a ring at the most.
pub const RING_MAX: usize = 1 << 15;
/// Frames that one call has the kernel send (`XDP_MAX_TX_SKB_BUDGET`), at the least.
const SENT_BY_CALL: u32 = 32;
/// When the kernel is asked again to send what it would not, in nanoseconds.
const AGAIN: u64 = 50_000;
/// How rarely a card is asked for what it has not said that it has sent, at most, in nanoseconds.
const AGAIN_MAX: u64 = 10_000_000;
/// When a card is asked again whether it has let go of a queue, and how long, in nanoseconds.
const ENDS_AGAIN: u64 = 2_000_000;
const ENDS_MAX: u64 = 200_000_000;
/// More of a packet follows with the next entry (`XDP_PKT_CONTD`).
const CONTINUES: u32 = 1;

/// Frames of `frame_bytes` that `ports` ports can have each, by what the calling thread may lock, if `beside` bytes a port are locked for something
/// else, and nothing more of its user's.
pub fn frames_max(frame_bytes: usize, beside: usize, ports: usize) -> usize {
    assert!(frame_bytes > 0 && ports > 0, "there is something to divide");
    let frames = (locked_bytes_max() / ports as u64).saturating_sub(beside as u64) / frame_bytes as u64;
    usize::try_from(frames).unwrap_or(FRAMES_MAX).min(FRAMES_MAX)
}

/// One queue of an interface, not yet a port: it can go to its lane's thread.
#[derive(Debug)]
pub struct XdpQueue {
    attachment: Arc<Attachment>,
    name: Box<str>,
    queue: u32,
    /// Whose packets the lane takes in by itself; none if the kernel does.
    receiver: Option<Receiver>,
    /// Of the first: what is said to all of the link.
    words: Option<Words>,
    /// The fast path, and the place of this port there.
    fast: Option<(Arc<FastPath>, u16)>,
}

/// Gives the interface a program that lets the ports of its first `queues` queues have what is `ours`. Where the interface's driver runs no programs, the kernel does,
/// which costs more. Call it before lanes take descriptor tables of their own.
///
/// # Errors
/// [`Error::ProgramThere`] if the interface has a program, [`Error::AddressTaken`] if the kernel has an address of ours, [`Error::AddressServed`] if another process has, [`Error::Forbidden`] and [`Error::Program`] without CAP_NET_ADMIN and CAP_BPF,
/// [`Error::NoQueue`], [`Error::NoSendQueue`], and others.
pub fn open(name: &str, ours: &Ours, queues: usize) -> Result<Vec<XdpQueue>, Error> {
    ours.check()?;
    if queues == 0 || queues > QUEUES_MAX {
        return Err(Error::Range { what: "queues of an interface", got: queues, most: QUEUES_MAX });
    }
    let interface = Interface::find(name)?;
    attaching::check(&interface, queues)?;
    let attachment = Arc::new(Attachment::new(ours, interface.clone(), card::functions(&interface), queues)?);
    // Those who are given addresses speak and listen on the link for them.
    let mut words = matches!(ours, Ours::Addresses(_)).then(|| Words::hear(&interface)).transpose()?;
    let queue = |queue| XdpQueue {
        attachment: attachment.clone(),
        name: name.into(),
        queue,
        receiver: None,
        words: words.take(),
        fast: None,
    };
    Ok((0..queues as u32).map(queue).collect())
}

/// Has the lanes that get these queues take packets in by themselves as long as they come: the kernel's receiving runs in their own calls, and under a
/// flood nothing takes their CPU from them. They do so where packets come in numbers; where then one comes after a lane has found none, and within 0.5
/// milliseconds, it waits for their end.
/// So it is again after the interface was set down and up, from its first packet on.
///
/// # Errors
/// [`Error::Absent`] before Linux 6.13, without io_uring, and where the kernel does not tell which queue is received by what;
/// [`Error::Forbidden`] without CAP_NET_ADMIN; [`Error::Refused`]. Then the kernel receives as before.
pub fn poll<'a>(queues: impl IntoIterator<Item = &'a mut XdpQueue>) -> Result<(), Error> {
    let queues: Vec<_> = queues.into_iter().collect();
    let Some(first) = queues.first() else { return Ok(()) };
    let refused = |call: &'static str, name: &str, error: &std::io::Error| match errno::of(error) {
        libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOENT => Error::Absent {
            what: "busy polling of its queues",
            remedy: "use Linux 6.13, and a driver with a queue for each lane",
        },
        number => Error::of(call, number, name),
    };
    let name = first.name.clone();
    let interface = Interface::find(&name)?;
    polling::probe().map_err(|error| refused("io_uring_setup", &name, &error))?;
    let receivers = Receiver::of_queues(interface.link.interface, queues.len());
    let receivers = receivers.map_err(|error| refused("netlink NAPI_GET", &name, &error))?;
    for queue in queues {
        let absent = || Error::NoQueue { name: name.clone(), queue: queue.queue, remedy: None };
        let receiver = receivers.get(queue.queue as usize).copied().ok_or_else(absent)?;
        receiver.defer().map_err(|error| refused("netlink NAPI_SET", &name, &error))?;
        queue.receiver = Some(receiver);
    }
    Ok(())
}

/// Has packets that come by these queues of an interface go the fast path, as far as that has rules and lanes tell it ways. Call it before lanes take descriptor tables of their own.
///
/// # Errors
/// [`Error::Range`] if it has too many ports, and what the system says.
pub fn offload<'a>(queues: impl IntoIterator<Item = &'a mut XdpQueue>, fast: &Arc<FastPath>) -> Result<(), Error> {
    let mut place = None;
    for queue in queues {
        let joined = place.map_or_else(|| fast.join(&queue.attachment), Ok)?;
        place = Some(joined);
        queue.fast = Some((fast.clone(), joined));
    }
    Ok(())
}

impl XdpQueue {
    /// The port, which receives into `memory` with rings of `ring` frames, a power of two. It is made on its lane's thread, in the
    /// interface's network namespace. A queue that was just closed is waited for, 0.2 seconds at the most.
    ///
    /// # Errors
    /// [`Error::LockedMemory`] if the region cannot be locked, [`Error::FrameShort`] if a packet may be longer than its frames have room for (one,
    /// if the MTU was raised after [`open`] or Linux is older than 5.18), [`Error::Absent`] if it may be longer than one before Linux 6.6,
    /// [`Error::Busy`] if somebody has the queue, [`Error::Range`] for frames of more than 4 KiB or another ring, and others.
    pub fn port(mut self, memory: FrameMemory, ring: usize) -> Result<XdpPort, Error> {
        let watch = Watch::of(&self.name)?;
        let interface = watch.interface();
        if memory.frame_bytes() > CHUNK_BYTES_MAX {
            return Err(Error::Range { what: "bytes of a frame", got: memory.frame_bytes(), most: CHUNK_BYTES_MAX });
        }
        if !ring.is_power_of_two() || ring > RING_MAX {
            return Err(Error::Range { what: "frames of a ring (a power of two)", got: ring, most: RING_MAX });
        }
        let (needed, room) = (interface.frame_bytes_max() + TAG_BYTES, memory.frame_bytes() - HEADROOM);
        let (least, in_pieces) = (pieces(needed, room), needed > room);
        let pieces_max =
            if in_pieces && self.attachment.attached.has_pieces { PIECES_MAX.min(ring / 2).min(memory.frames() / 2) } else { 1 };
        if least > pieces_max {
            return Err(Error::FrameShort { name: self.name, needed, got: room * pieces_max });
        }
        let wanted = Wanted { zero_copy: self.mode() == XdpMode::Native && !in_pieces, pieces: in_pieces, waits: true };
        let socket = Socket::open(interface, self.queue, &memory, ring as u32, wanted)?;
        let leaves_sums = self.attachment.leaves_sums;
        let polling = self.receiver.map(Polling::new).transpose();
        let polling = polling.map_err(|number| Error::of("io_uring_register", number, &self.name))?;
        let (lent, is_zero_copy) = (vec![Lent::No; memory.frames()], socket.is_zero_copy);
        let hearing = Hearing::of(&watch, self.words.take());
        let hearing = hearing.map_err(|error| Error::of("epoll_ctl", errno::of(&error), &self.name))?;
        let outlook = (self.queue == 0).then(Outlook::new);
        let learner = self.fast.take().map(|(fast, place)| Rc::new(Learner::new(fast, place, self.queue)));
        let mut port = XdpPort {
            learner,
            socket: Some(socket),
            queue: self,
            watch,
            hearing,
            outlook,
            memory,
            lent,
            receiving: 0,
            posted: Posted::ALL,
            least,
            pieces_max,
            counts: PortCounts::default(),
            asks_again_at: None,
            pause: AGAIN,
            polling,
            worked: Worked::default(),
            is_zero_copy,
            leaves_sums,
            ends_until: None,
        };
        port.give(0);
        port.enter()?;
        Ok(port)
    }

    /// Its number, from 0.
    pub fn queue(&self) -> u32 {
        self.queue
    }

    /// Whether packets of a VLAN whose tag the card takes out are the kernel's; otherwise they cannot be told from others.
    pub fn tells_tags(&self) -> bool {
        self.attachment.tells()
    }

    /// Why the kernel runs the program and not the interface's driver, in words with what helps; none if the driver does.
    pub fn obstacle(&self) -> Option<&str> {
        self.attachment.attached.obstacle.as_deref()
    }

    /// Whether the interface's driver runs the program, or the kernel behind it.
    pub fn mode(&self) -> XdpMode {
        self.attachment.attached.mode
    }
}

/// What the kernel has a frame for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lent {
    No,
    ToReceive,
    ToSend,
}

#[derive(Debug, Default)]
struct PortCounts {
    taken: u64,
    released: u64,
    too_long: u64,
    /// What the kernel has dropped, as far as it was asked.
    drops: Drops,
    /// Packets that it found too long, likewise.
    kernel_too_long: u64,
    /// Packets that it took to be sent, and the interface did not.
    send_lost: u64,
    /// Frames that nobody was at the other end for.
    unheard: u64,
}

/// One queue of an interface, as a port.
#[derive(Debug)]
pub struct XdpPort {
    /// Where lanes tell of ways, with a fast path.
    learner: Option<Rc<Learner>>,
    /// None at the end.
    socket: Option<Socket>,
    queue: XdpQueue,
    watch: Watch,
    /// What is said to all of the link.
    hearing: Hearing,
    /// Of the first: who looks what nobody tells.
    outlook: Option<Outlook>,
    memory: FrameMemory,
    /// By the frame's number.
    lent: Vec<Lent>,
    /// Frames that are lent to be received into.
    receiving: usize,
    posted: Posted,
    /// Frames that the longest packet takes, and those that any may.
    least: usize,
    pieces_max: usize,
    counts: PortCounts,
    /// When the kernel is to be asked again for what it has not done, and how long after that once more.
    asks_again_at: Option<u64>,
    pause: u64,
    /// None if the kernel takes packets in; and nanoseconds that looks took, and sending where the lane looks.
    polling: Option<Polling>,
    worked: Worked,
    is_zero_copy: bool,
    /// A sender on this machine may leave checksums out.
    leaves_sums: bool,
    /// Until when the card is asked whether it has let go; none before the end.
    ends_until: Option<u64>,
}

impl XdpPort {
    /// What the kernel has dropped at this queue for want of frames or room.
    ///
    /// # Errors
    /// What the system says.
    pub fn drops(&self) -> Result<Drops, Fault> {
        self.socket().drops().map_err(errno::fault)
    }

    /// Packets that were lost because they came in more pieces than a packet may, or than a receive was for.
    pub fn too_long(&self) -> u64 {
        self.counts.too_long
    }

    /// Whether the card itself reads and writes frames, and nobody copies.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    fn socket(&self) -> &Socket {
        // reason: it is taken out when the port ends.
        self.socket.as_ref().expect("a port has its socket")
    }

    fn socket_mut(&mut self) -> &mut Socket {
        // reason: as above.
        self.socket.as_mut().expect("a port has its socket")
    }

    /// Lets the program find the socket.
    fn enter(&self) -> Result<(), Error> {
        assert!(
            (self.queue.queue as usize) < QUEUES_MAX && self.lent.len() == self.memory.frames(),
            "a port of a queue, with all of its frames"
        );
        let number = self.socket().as_fd().as_raw_fd().unsigned_abs();
        let entered = self.queue.attachment.sockets.update(self.queue.queue as usize, &number.to_ne_bytes());
        entered.map_err(|fault| Error::of("BPF_MAP_UPDATE_ELEM", fault.number, &self.queue.name))
    }

    /// How many frames more may be lent to be received into. A card takes them in advance, and leaves none to send from if it may.
    fn lendable(&self) -> usize {
        let frames = self.memory.frames();
        if self.is_zero_copy() {
            return (frames / 2).max(1).saturating_sub(self.receiving);
        }
        let ready = self.socket().fill.untaken() as usize;
        self.posted.most(frames).saturating_sub(ready).min(frames - self.receiving)
    }

    /// Lends free frames to be received into.
    fn give(&mut self, now: u64) {
        let was_empty = self.socket().fill.untaken() == 0;
        let (before, room) = (self.receiving, self.lendable().min(self.socket().fill.room() as usize));
        while self.receiving - before < room {
            let Some(mut frame) = self.memory.frame() else { break };
            if self.queue.attachment.notes() {
                card::clear(&mut frame);
            }
            let (index, _) = self.lend(frame, Lent::ToReceive);
            self.receiving += 1;
            let chunk = u64::from(index) * self.memory.frame_bytes() as u64;
            self.socket_mut().fill.put(chunk);
        }
        assert!(self.receiving <= self.memory.frames(), "no more frames are lent to be received into than there are");
        self.socket_mut().fill.publish();
        if self.is_zero_copy() && self.receiving > before {
            self.tell_of_frames(now, was_empty);
        }
    }

    /// Has a card that found no frames look again.
    fn tell_of_frames(&mut self, now: u64, was_empty: bool) {
        // What was published is seen by who sets the flag from now on.
        fence(Ordering::SeqCst);
        if self.socket().fill.needs_call() {
            self.socket().wake_receiving();
        } else if was_empty {
            // It may have looked just before, and not have said so yet.
            self.asks_again_at.get_or_insert(now + AGAIN);
        }
    }

    fn lend(&mut self, frame: Frame, to: Lent) -> (u32, usize) {
        // reason: whoever calls has looked whose frame it is.
        let (index, start) = self.memory.lend(frame).expect("a frame of the port's memory");
        let place = &mut self.lent[index as usize];
        assert!(*place == Lent::No, "frame {index} is lent twice");
        *place = to;
        (index, start)
    }

    /// Has the kernel receive, where that is the lane's to say, until there is a batch or no more.
    fn look(&mut self) {
        if self.watch.take_has_come_up()
            && let Some(polling) = &mut self.polling
        {
            // What goes wrong leaves receiving to the kernel.
            let _left = polling.renew(self.watch.interface().link.interface, self.queue.queue as usize);
        }
        let (Some(polling), Some(socket)) = (&mut self.polling, &self.socket) else { return };
        let seen = || self.queue.attachment.seen.get(self.queue.queue as usize);
        let (first, mut may_come) = (seen(), polling.goes_on());
        let (mut last, begun) = (first, if may_come { clock::now() } else { 0 });
        let most = polling.pressure().most(self.receiving as u64);
        // Where the kernel runs the program, on several CPUs, its count may be behind at times.
        while may_come && u64::from(socket.received.ready()) < most && last.saturating_sub(first) < most {
            polling.look(socket.as_fd());
            let before = std::mem::replace(&mut last, seen());
            may_come = polling::has_left_some(last.saturating_sub(before));
        }
        self.worked.looked += if begun > 0 { clock::now() - begun } else { 0 };
    }

    /// The frame that the kernel names with this address, and where in it. Nothing can be done with frames of which the kernel has others than we know, so
    /// that is not gone on from.
    fn returned(&mut self, address: u64, was: Lent) -> (u32, usize) {
        // Frames are as long as a power of two, and a division costs more than the rest.
        let bytes = self.memory.frame_bytes() as u64;
        let (index, start) = (address >> bytes.trailing_zeros(), (address & (bytes - 1)) as usize);
        let lent = self.lent.get_mut(index as usize).map(|lent| std::mem::replace(lent, Lent::No));
        assert!(lent == Some(was), "the kernel gives frame {index} back as one {was:?}, which is {lent:?}");
        if was == Lent::ToReceive {
            assert!(self.receiving > 0, "frame {index} was lent and not counted");
            self.receiving -= 1;
        }
        (index as u32, start)
    }

    /// How many frames the next packet that has come lies in; none if none has come whole.
    fn next_pieces(&self) -> Option<usize> {
        let received = &self.socket().received;
        let mut pieces = 0;
        loop {
            let piece = received.peek(pieces)?;
            pieces += 1;
            if piece.options & CONTINUES == 0 {
                return Some(pieces as usize);
            }
        }
    }

    /// Whether frames are to be lent before even one packet can come.
    fn is_starved(&self) -> bool {
        self.receiving < self.least && self.lendable() > 0 && self.memory.counts().free > 0
    }

    fn take_received(&mut self, now: u64) -> Frame {
        // reason: whoever calls has seen it in the ring.
        let packet = self.socket_mut().received.take().expect("a piece that was seen");
        let (index, start) = self.returned(packet.addr, Lent::ToReceive);
        // Elsewhere no mark was cleared.
        let noted = if self.queue.attachment.notes() && start == HEADROOM { card::NOTE_BYTES } else { 0 };
        let frame = self.memory.take_back(index, start - noted, noted + packet.len as usize);
        // reason: it stood in the table of those that are lent, and the kernel writes into one frame.
        let mut frame = frame.expect("a packet lies in a frame that was lent");
        if noted > 0 {
            frame.facts.hash = card::hash(&frame[..noted]);
            frame.skip(noted);
        }
        frame.facts.time = now;
        frame.facts.continues = packet.options & CONTINUES != 0;
        frame
    }

    /// Moves the next packet behind the frames in `into`, which may become so many; false if there is none, or it comes with the next batch.
    fn take_packet(&mut self, now: u64, first: usize, at_most: usize, into: &mut Vec<Frame>) -> bool {
        let Some(pieces) = self.next_pieces() else { return false };
        let is_lost = pieces > self.pieces_max.min(at_most);
        if !is_lost && pieces > at_most - (into.len() - first) {
            return false;
        }
        self.counts.too_long += u64::from(is_lost);
        for number in 1..=pieces {
            let frame = self.take_received(now);
            assert!(frame.facts.continues == (number < pieces), "piece {number} of {pieces} ends the packet or does not");
            if !is_lost {
                into.push(frame);
            }
        }
        assert!(into.len() - first <= at_most, "a receive brings no more than it is for");
        true
    }

    /// Takes back what the kernel has sent.
    fn reap(&mut self) {
        while let Some(address) = self.socket_mut().completion.take() {
            let (index, _) = self.returned(address, Lent::ToSend);
            self.sent(index);
        }
    }

    fn sent(&mut self, index: u32) {
        // reason: it stood in the table of those that are lent.
        drop(self.memory.take_back(index, 0, 0).expect("a frame that was lent to be sent"));
        self.counts.released += 1;
        assert!(self.counts.released <= self.counts.taken, "no more is released than was taken");
    }

    /// The frame as one of this port's memory: one of another region is copied.
    fn own(&self, frame: Frame) -> Frame {
        if self.memory.has(&frame) {
            return frame;
        }
        // reason: whoever calls has counted the free ones, and each has room for the longest packet.
        let mut copy = self.memory.frame().expect("a free frame for the copy");
        copy.append(&frame);
        copy.facts.continues = frame.facts.continues;
        copy
    }

    /// How many of the frames can be worked off now: there are places in the ring, and frames for copies, for each whole packet that is not refused,
    /// whose frames are empty.
    fn acceptable(&self, frames: &[Frame]) -> usize {
        let (mut places, mut copies) = (self.socket().sending.room() as usize, self.memory.counts().free);
        let mut count = 0;
        for packet in Frame::packets(frames) {
            let is_refused = packet[0].is_empty();
            let copied = packet.iter().filter(|frame| !self.memory.has(frame)).count();
            let needed = if is_refused { (0, 0) } else { (packet.len(), copied) };
            if needed.0 > places || needed.1 > copies {
                break;
            }
            (places, copies, count) = (places - needed.0, copies - needed.1, count + packet.len());
        }
        count
    }

    /// Puts frames into the ring, from the front.
    fn put(&mut self, frames: &mut Vec<Frame>) -> Taken {
        let most = self.watch.interface().frame_bytes_max() + TAG_BYTES;
        for packet in Frame::packets_mut(frames) {
            if !settle(packet, most, self.pieces_max) {
                packet.iter_mut().for_each(|frame| frame.set_length(0));
            }
        }
        let (mut counts, acceptable) = (Taken::default(), self.acceptable(frames));
        for frame in frames.drain(..acceptable) {
            if frame.is_empty() {
                counts.refused += 1;
            } else {
                let frame = self.own(frame);
                self.put_one(frame);
                counts.taken += 1;
            }
        }
        assert!(counts.taken + counts.refused == acceptable as u64, "each frame is taken or refused");
        self.socket_mut().sending.publish();
        counts
    }

    fn put_one(&mut self, frame: Frame) {
        let (len, options) = (frame.len() as u32, if frame.facts.continues { CONTINUES } else { 0 });
        let (index, start) = self.lend(frame, Lent::ToSend);
        let addr = u64::from(index) * self.memory.frame_bytes() as u64 + start as u64;
        self.socket_mut().sending.put(libc::xdp_desc { addr, len, options });
        self.counts.taken += 1;
        self.pause = AGAIN;
    }

    /// Has the kernel send what is in the ring; where the card does, a call only sets that going.
    fn kick(&mut self, now: u64) {
        self.asks_again_at = None;
        let is_zero_copy = self.is_zero_copy();
        let mut calls_left = if is_zero_copy { 1 } else { 2 + self.socket().sending.untaken() / SENT_BY_CALL };
        while self.socket().sending.untaken() > 0 && self.socket().sending.needs_call() && calls_left > 0 {
            calls_left -= 1;
            match self.socket().kick() {
                Ok(()) => {}
                // A card says so as well of a queue that it is setting up again.
                Err(libc::ENXIO) if !is_zero_copy => return self.watch.note_gone(),
                Err(number) if is_passing(number) => {
                    // Where the kernel copies, it says so of a packet that the interface has dropped; of one that waits it says otherwise.
                    self.counts.send_lost += u64::from(number == libc::EBUSY && !is_zero_copy);
                    self.reap();
                }
                Err(_) => break,
            }
        }
        let is_kept = is_zero_copy && self.counts.released < self.counts.taken;
        if is_kept || self.socket().sending.untaken() > 0 {
            self.asks_again_at = Some(now + self.pause);
        }
    }

    /// Asks again for what was not done when it was asked for: to send, to look for frames, to say what was sent.
    fn ask_again(&mut self, now: u64) {
        if self.is_zero_copy() {
            self.pause = (2 * self.pause).min(AGAIN_MAX);
            if self.socket().fill.needs_call() {
                self.socket().wake_receiving();
            }
            if self.socket().sending.untaken() == 0 && self.counts.released < self.counts.taken {
                // What goes wrong is that it is down, which is told otherwise.
                let _down = self.socket().kick();
            }
        }
        self.kick(now);
    }

    /// Takes back whatever was lent.
    fn take_all_back(&mut self) {
        let lent = std::mem::take(&mut self.lent);
        for (index, _) in lent.iter().enumerate().filter(|(_, lent)| **lent != Lent::No) {
            // reason: it stood in the table of those that are lent.
            drop(self.memory.take_back(index as u32, 0, 0).expect("a frame that was lent"));
        }
    }

    /// Whether the card has let go of the queue, and so of all frames: the kernel takes it from the card only some time after the socket is closed.
    fn is_let_go(&self) -> bool {
        let Ok(memory) = FrameMemory::new(2, FRAME_BYTES_LEAST) else { return false };
        let next = Socket::open(self.watch.interface(), self.queue.queue, &memory, 2, Wanted::LEAST);
        matches!(next, Ok(_) | Err(Error::NoInterface { .. }))
    }
}

impl Port for XdpPort {
    fn facts(&self) -> PortFacts {
        let interface = self.watch.interface();
        PortFacts {
            link: interface.link,
            queue: self.queue.queue,
            frame_bytes_max: interface.frame_bytes_max(),
            pieces_max: self.pieces_max,
            kind: if self.is_zero_copy() { PortKind::XdpZeroCopy } else { PortKind::XdpCopied },
            leaves_sums: self.leaves_sums,
        }
    }

    fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket().as_fd())
    }

    fn news(&self) -> Option<BorrowedFd<'_>> {
        Some(self.hearing.descriptor().unwrap_or_else(|| self.watch.as_fd()))
    }

    fn take_news(&mut self) {
        self.watch.take();
        if let Some(learner) = &self.learner {
            learner.note_length(self.watch.interface().frame_bytes_max());
        }
        self.hearing.hear(&self.memory);
    }

    fn state(&self) -> PortState {
        match self.watch.state() {
            PortState::Up => self.outlook.as_ref().map_or(PortState::Up, Outlook::seen),
            state => state,
        }
    }

    fn has_more(&self) -> bool {
        let may_come = self.polling.as_ref().is_some_and(Polling::goes_on);
        self.next_pieces().is_some() || may_come || self.is_starved() || self.watch.fault().is_some() || self.hearing.has_heard()
    }

    fn wakes_at(&self) -> Option<u64> {
        if self.ends_until.is_some() {
            return self.asks_again_at;
        }
        let looks_at = self.outlook.as_ref().map(Outlook::wakes_at);
        // A card has as many as it may from the beginning.
        let posts_at = self.posted.wakes_at().filter(|_| !self.is_zero_copy());
        let polls_at = self.polling.as_ref().and_then(Polling::wakes_at);
        self.asks_again_at
            .into_iter()
            .chain(looks_at)
            .chain(posts_at)
            .chain(polls_at)
            .chain(self.learner.as_ref().and_then(|learner| learner.wakes_at()))
            .min()
            .filter(|_| self.watch.fault().is_none())
    }

    fn receive(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) -> Result<(), Fault> {
        let first = into.len();
        self.hearing.hand_over(now, at_most, into);
        self.look();
        let waiting = self.socket().received.ready() as usize;
        while into.len() - first < at_most && self.take_packet(now, first, at_most, into) {}
        self.posted.waits(now, waiting);
        self.give(now);
        let seen = self.queue.attachment.seen.get(self.queue.queue as usize);
        if let Some(polling) = &mut self.polling {
            polling.came(now, seen, into.len() - first);
        }
        match if into.len() == first { self.watch.fault_now() } else { None } {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    fn send(&mut self, now: u64, frames: &mut Vec<Frame>) -> Result<Taken, Fault> {
        if let Some(fault) = self.watch.fault_now() {
            return Err(fault);
        }
        self.reap();
        if self.watch.state() == PortState::NoCarrier {
            // The kernel would take them, and tell nobody that it drops them.
            let refused = frames.drain(..).count() as u64;
            self.counts.unheard += refused;
            return Ok(Taken { taken: 0, refused });
        }
        // A lane that leaves others their time by the clock pays for what it sends, too.
        let begun = self.polling.is_some().then(clock::now);
        let counts = self.put(frames);
        self.kick(now);
        self.worked.sent += begun.map_or(0, |begun| clock::now() - begun);
        Ok(counts)
    }

    /// Drivers ask for this whenever they attend to the port.
    fn released(&mut self, now: u64) -> u64 {
        self.learner.iter().for_each(|learner| learner.settle(now, self.socket().received.ready() > 0));
        let Attachment { attached: Attached { link, .. }, queues, .. } = &*self.queue.attachment;
        self.outlook.iter_mut().for_each(|outlook| outlook.look(now, link, &self.queue.name, *queues));
        self.polling.iter_mut().for_each(|polling| polling.pressure().attended(now));
        self.reap();
        // What the interface still has stays lent until it is up again, or this ends; nobody waits for that.
        if self.watch.fault().is_some() {
            return self.counts.taken;
        }
        if self.asks_again_at.is_some_and(|time| time <= now) {
            self.ask_again(now);
        }
        if self.posted.wakes_at().is_some_and(|time| time <= now) {
            self.posted.waits(now, 0);
            self.give(now);
        }
        self.counts.released
    }

    fn worked(&self) -> Worked {
        self.worked
    }

    fn offload(&self) -> Option<Rc<dyn Offload>> {
        self.learner.clone().map(|learner| learner as Rc<dyn Offload>)
    }

    /// Where the kernel copies, what found no frame is among what it has dropped, and the others are longer than a frame. A card drops what finds no
    /// frame by itself, and says so at the interface (`ethtool -S`): then it is only told how often that was.
    fn lost(&mut self) -> Lost {
        if let Some(Ok(drops)) = self.socket.as_ref().map(Socket::drops) {
            self.counts.drops = drops;
        }
        let Drops { dropped, ring_full, no_frame, invalid } = self.counts.drops;
        let kernel_too_long = dropped.saturating_sub(no_frame);
        self.counts.kernel_too_long = self.counts.kernel_too_long.max(kernel_too_long);
        let too_long = self.counts.too_long + self.counts.kernel_too_long;
        let send_lost = self.counts.send_lost + invalid + self.counts.unheard;
        Lost { no_frame: no_frame + self.hearing.lost(), ring_full, too_long, send_lost }
    }

    fn end(&mut self, now: u64) -> bool {
        drop(self.polling.take());
        // It is out of the map when it closes, and the kernel touches no frame any more.
        drop(self.socket.take());
        let until = *self.ends_until.get_or_insert(now + ENDS_MAX);
        if !self.is_zero_copy || self.is_let_go() {
            self.take_all_back();
        } else if now < until {
            self.asks_again_at = Some(now + ENDS_AGAIN);
            return false;
        }
        true
    }
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        // A card that still has frames keeps them: nobody waits for it here.
        if self.ends_until.is_none() {
            self.end(0);
        }
    }
}

#[cfg(test)]
mod tests;
