//! An interface: what is the stack's own at one link, and what is known of who else is there.

mod arrivals;
mod condition;
mod listeners;
mod neighbours;
mod presence;
mod told;

pub(crate) use listeners::{Listeners, groups_of};
pub use neighbours::{ASKED_MAX, KNOWN_MAX, MET_MAX, WAITING_MAX};
pub(crate) use neighbours::{Resolved, Word, WordKind};
pub(crate) use presence::Say;

use crate::draft::Draft;
use crate::settings::{Error, FRAME_BYTES_LEAST, InterfaceSettings, V6_BYTES_LEAST};
use arrivals::Arrivals;
use condition::Condition;
use corelane_seam::{Frame, FrameMemory, Lost, PortFacts, PortKind, Record};
use corelane_wire::packet::ethernet::{self, Mac};
use neighbours::Neighbours;
use presence::Presence;
use std::net::{IpAddr, Ipv6Addr};

/// An interface, by one port of the lane's.
#[derive(Debug)]
pub(crate) struct Interface {
    name: Box<str>,
    addresses: Vec<IpAddr>,
    /// Its port's frames.
    memory: FrameMemory,
    mac: Mac,
    /// Bytes of the longest packet that the link carries, and of the longest that is sent, with their link-layer header; and frames that one may lie in.
    link_bytes: usize,
    packet_bytes: usize,
    pieces_max: usize,
    kind: PortKind,
    /// Senders on the same machine may leave checksums out.
    leaves_sums: bool,
    condition: Condition,
    /// With the lane that speaks for it.
    presence: Option<Presence>,
    listeners: Listeners,
    neighbours: Neighbours,
    arrivals: Arrivals,
    /// Frames to be sent.
    outgoing: Vec<Frame>,
    /// What the operator is to hear beside the port's state.
    records: Vec<Record>,
}

/// What may be asked of an interface at its creation beside its own settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speaker {
    /// This lane introduces the addresses, and tells the operator what becomes of them.
    pub introduces: bool,
    /// This lane tells the operator of the port's state.
    pub is_first: bool,
    /// Nobody else's to know.
    pub secret: u128,
}

impl Interface {
    /// At a port that says these facts, and has that memory.
    ///
    /// # Errors
    /// [`Error::Frames`] where it takes no packets that are long enough for the addresses.
    pub fn new(settings: &InterfaceSettings, speaker: Speaker, facts: &PortFacts, memory: FrameMemory) -> Result<Self, Error> {
        let addresses: Vec<_> = settings.networks.iter().map(|network| network.address).collect();
        let packet_bytes = facts.frame_bytes_max.min(Draft::bytes_max(&memory, facts.pieces_max));
        let has_v6 = addresses.iter().any(IpAddr::is_ipv6);
        let least = if has_v6 { V6_BYTES_LEAST + ethernet::Header::BYTES } else { FRAME_BYTES_LEAST };
        if packet_bytes < least {
            return Err(Error::Frames { interface: settings.name.clone(), got: facts.frame_bytes_max, least });
        }
        Ok(Self {
            name: settings.name.clone(),
            presence: speaker.introduces.then(|| Presence::new(addresses.iter().copied())),
            listeners: Listeners::new(speaker.secret as u64),
            neighbours: Neighbours::new(memory.frames()),
            arrivals: Arrivals::new(facts.pieces_max),
            condition: Condition::new(speaker.is_first),
            addresses,
            memory,
            mac: Mac(facts.link.mac),
            link_bytes: facts.frame_bytes_max,
            packet_bytes,
            pieces_max: facts.pieces_max,
            kind: facts.kind,
            leaves_sums: facts.leaves_sums,
            outgoing: Vec::new(),
            records: Vec::new(),
        })
    }

    /// Its link address.
    pub const fn mac(&self) -> Mac {
        self.mac
    }

    /// Its port's frames.
    pub const fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    /// Bytes of the longest packet that is sent, with its link-layer header.
    pub const fn packet_bytes(&self) -> usize {
        self.packet_bytes
    }

    /// How its packets come.
    pub const fn kind(&self) -> PortKind {
        self.kind
    }

    /// Whether senders on the same machine may leave checksums out.
    pub const fn leaves_sums(&self) -> bool {
        self.leaves_sums
    }

    /// What was lost at its port.
    pub const fn lost(&self) -> &Lost {
        &self.condition.lost
    }

    /// Whether an address is the stack's own at this link.
    pub fn has(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// The own addresses of IPv6 at this link.
    pub fn own_v6(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.addresses.iter().filter_map(|address| match address {
            IpAddr::V6(address) => Some(*address),
            IpAddr::V4(_) => None,
        })
    }

    /// Whether an address is a group in which one of ours is listened for.
    pub fn is_solicited(&self, to: Ipv6Addr) -> bool {
        self.own_v6().any(|own| solicited(own) == to)
    }

    /// Who else is on the link.
    pub const fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// The same, for what was heard or is to be sent.
    pub const fn neighbours_mut(&mut self) -> &mut Neighbours {
        &mut self.neighbours
    }

    /// Who asks for groups of ours.
    pub const fn listeners_mut(&mut self) -> &mut Listeners {
        &mut self.listeners
    }

    /// How frames become packets.
    pub const fn arrivals_mut(&mut self) -> &mut Arrivals {
        &mut self.arrivals
    }

    /// Sends a packet, in as many frames as it lies in, to a station of the link; returns how many these are.
    pub fn put_out(&mut self, mac: Mac, packet: impl ExactSizeIterator<Item = Frame>) -> u64 {
        let frames = packet.len() as u64;
        self.outgoing.extend(addressed(mac, packet));
        frames
    }

    /// Somebody says that he has an address of the link's: what waited for him leaves. Returns how many frames these are, and the link address at which another
    /// is to be asked whether he still has it.
    pub fn heard(&mut self, now: u64, ip: IpAddr, mac: Mac, answers: bool) -> (u64, Option<Mac>) {
        let before = self.outgoing.len();
        let owner = self.neighbours.heard(now, ip, mac, answers, &mut self.outgoing);
        ((self.outgoing.len() - before) as u64, owner)
    }

    /// Whether frames wait to be handed to the port.
    pub fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Frames to be sent, for which other storage is given.
    pub fn take_outgoing(&mut self, storage: Vec<Frame>) -> Vec<Frame> {
        assert!(storage.is_empty(), "storage is given empty");
        std::mem::replace(&mut self.outgoing, storage)
    }

    /// Frames to be sent are free again: nothing leaves any more.
    pub fn drop_outgoing(&mut self) {
        self.outgoing.clear();
    }

    /// When the clock alone gives something to do.
    pub fn due(&self) -> Option<u64> {
        let spoken = self.presence.as_ref().and_then(Presence::due);
        self.neighbours.due().into_iter().chain(spoken).chain(self.listeners.due()).min()
    }
}

/// The frames of a packet, of which the first is told for which station it is.
pub(crate) fn addressed(mac: Mac, packet: impl Iterator<Item = Frame>) -> impl Iterator<Item = Frame> {
    packet.enumerate().map(move |(index, mut frame)| {
        if index == 0 {
            frame[..6].copy_from_slice(&mac.0);
        }
        frame
    })
}

/// The link address of a group (RFC 2464, section 7).
pub(crate) const fn group_mac(group: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = group.octets();
    Mac([0x33, 0x33, a, b, c, d])
}

/// The group in which whoever has an address listens (RFC 4291, section 2.7.1).
pub(crate) fn solicited(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(a), u16::from_be_bytes([b, c]))
}
