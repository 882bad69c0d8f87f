//! Ways that a lane has learnt, for a port's fast path (flow offload).

use crate::frame::VlanTag;
use std::fmt;
use std::net::IpAddr;

/// One side of a way: an interface as a lane numbers them, and how frames look on its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSide {
    /// The interface by its number in the rules (`corelane_rules::Interface`): a VLAN is one of its own.
    pub interface: u16,
    /// The tags of its frames, the outer one first; the second only behind a first.
    pub tags: [Option<VlanTag>; 2],
    /// To which station of the link.
    pub destination: [u8; 6],
    /// Packets that open connections (TCP with SYN) are not the fast path's: a lane lowers what they say of the longest segment.
    pub hands_over_opening: bool,
}

/// How whole packets go on, in two halves that hold each for itself. Packets from the source may come as `comes` says, wherever they go. Packets to the destination leave as
/// `leaves` says, wherever they come from. So a packet between two addresses needs no lane once both halves are known, be it of different ways.
///
/// The lane that tells it answers for this: routes, neighbours, the reverse path and martians have been looked at; no translation of addresses, and no choice among several routers, has to do
/// with the halves. Rules are not part of it: they are asked for each packet. Nor is that the two addresses differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearntWay {
    /// From where.
    pub source: IpAddr,
    /// To where; of the same family.
    pub destination: IpAddr,
    /// How frames come.
    pub comes: LinkSide,
    /// How they leave.
    pub leaves: LinkSide,
    /// Whose frames they are then.
    pub leaves_from: [u8; 6],
    /// The interface of the system that they leave by (netdevice(7)).
    pub device: u32,
    /// Bytes of the longest packet that leaves uncut, from the IP header on.
    pub mtu: u16,
    /// Until when it holds, in nanoseconds of the driver's clock. Then a packet comes to the lane again, which looks whether the neighbour is there.
    pub until: u64,
}

/// Where a lane tells a port's fast path of ways: packets that go them need no lane from then on. It belongs to the port's lane.
pub trait Offload: fmt::Debug {
    /// Packets may go this way from now on, as soon as none that came before waits for the lane. False if they will not: the fast path is full, or has no program
    /// now, or does not know the interface; packets come to the lane as before then, and the way may be told again.
    fn learn(&self, now: u64, way: &LearntWay) -> bool;

    /// All ways that lanes have told so far are void: routes, neighbours or addresses have changed. Each lane says so that has changed something.
    fn unlearn(&self);
}
