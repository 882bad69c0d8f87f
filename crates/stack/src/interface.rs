//! An interface: what is the stack's own at one link, and what is known of who else is there.

mod advertiser;
mod listeners;
mod neighbours;
mod presence;
mod told;

pub(crate) use listeners::Listeners;
pub use neighbours::{ASKED_MAX, KNOWN_MAX, MET_MAX, WAITING_MAX};
pub(crate) use neighbours::{Resolved, Word, WordKind};
pub(crate) use presence::Say;

use crate::settings::{Advertised, Error, FRAME_BYTES_LEAST, InterfaceSettings, Network, V6_BYTES_LEAST};
use crate::trunk::{Tags, Trunk};
use advertiser::Advertiser;
use corelane_seam::{Frame, FrameMemory, Record};
use corelane_wire::packet::dhcpv6::RELAYS_AND_SERVERS;
use corelane_wire::packet::ethernet::{self, Mac};
use neighbours::Neighbours;
use presence::Presence;
use std::net::{IpAddr, Ipv6Addr};

/// Seconds between two advertisements of a router (RFC 4861, section 6.2.1: MaxRtrAdvInterval).
const ADVERTISES_EACH: std::ops::RangeInclusive<u16> = 4..=1800;
/// Bytes of a second tag: ports take packets that are longer than their MTU by one tag, and no more.
const SECOND_TAG_BYTES: usize = 4;

/// An interface, by one port of the lane's: all of what comes without tags, or a VLAN of it.
#[derive(Debug)]
pub(crate) struct Interface {
    name: Box<str>,
    /// The number of its port, and its tags there.
    port: usize,
    tags: Tags,
    addresses: Vec<IpAddr>,
    networks: Box<[Network]>,
    /// Networks of others for which it answers, and whether it forwards.
    proxies: Vec<Network>,
    forwards: bool,
    /// It hears what clients of DHCP ask all of the link.
    relays: (bool, bool),
    /// Its port's frames.
    memory: FrameMemory,
    mac: Mac,
    /// Bytes of the longest packet that is to be sent, if that is less than the link carries; of the longest that the link carries, and of the longest that is sent, with their
    /// link-layer header and without tags.
    bytes_max: Option<usize>,
    link_bytes: usize,
    packet_bytes: usize,
    /// With the lane that speaks for it.
    presence: Option<Presence>,
    listeners: Listeners,
    /// What it says of itself as a router, and when.
    router: Option<(Advertised, Advertiser)>,
    neighbours: Neighbours,
    /// What the operator is to hear.
    records: Vec<Record>,
    /// The addresses are to be introduced from now on: who listens is to be told first.
    has_come_up: bool,
    /// Something of it has changed since somebody asked.
    is_new: bool,
}

/// What may be asked of an interface at its creation beside its own settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speaker {
    /// This lane introduces the addresses, and tells the operator what becomes of them.
    pub introduces: bool,
    /// Nobody else's to know.
    pub secret: u128,
}

impl Interface {
    /// At that port, of which so many interfaces are.
    ///
    /// # Errors
    /// [`Error::Frames`] where it takes no packets that are long enough for the addresses.
    pub fn new(settings: &InterfaceSettings, speaker: Speaker, trunk: &Trunk, among: usize) -> Result<Self, Error> {
        let addresses: Vec<_> = settings.networks.iter().map(|network| network.address).collect();
        let (memory, line) = (trunk.memory().clone(), trunk.line());
        let (known, met) = settings.neighbours_max.map_or((KNOWN_MAX, MET_MAX), |most| (most.max(1), most.max(1)));
        let mut made = Self {
            name: settings.name.clone(),
            port: settings.port,
            tags: settings.tags,
            presence: speaker.introduces.then(|| Presence::new(addresses.iter().copied())),
            listeners: Listeners::new(speaker.secret as u64),
            router: settings.advertises.map(|said| {
                let every = speaker.introduces.then_some(said.interval);
                (said, Advertiser::new(every, speaker.secret as u64))
            }),
            neighbours: Neighbours::new(memory.frames(), among, trunk.waiting().clone(), (known, met)),
            addresses,
            networks: settings.networks.clone().into(),
            proxies: settings.proxies.clone(),
            forwards: settings.forwards,
            relays: (settings.relay.iter().any(IpAddr::is_ipv4), settings.relay.iter().any(IpAddr::is_ipv6)),
            memory,
            mac: line.mac,
            bytes_max: settings.mtu.map(|mtu| mtu + ethernet::Header::BYTES),
            link_bytes: line.link_bytes,
            packet_bytes: line.packet_bytes,
            records: Vec::new(),
            has_come_up: false,
            is_new: false,
        };
        (made.link_bytes, made.packet_bytes) = (made.carried(line.link_bytes), made.carried(line.packet_bytes));
        let has_address_of_link = made.own_v6().any(|own| own.is_unicast_link_local());
        if settings.advertises.is_some_and(|said| !has_address_of_link || !ADVERTISES_EACH.contains(&said.interval)) {
            return Err(Error::Advertises { interface: made.name });
        }
        let has_v6 = made.own_v6().next().is_some();
        let least = if has_v6 { V6_BYTES_LEAST + ethernet::Header::BYTES } else { FRAME_BYTES_LEAST };
        if made.packet_bytes < least {
            return Err(Error::Frames { interface: settings.device().into(), got: made.link_bytes, least });
        }
        Ok(made)
    }

    /// Bytes of the longest packet of this interface's, where the port has one of so many.
    fn carried(&self, bytes: usize) -> usize {
        let second = if matches!(self.tags, Tags::Two(..)) { SECOND_TAG_BYTES } else { 0 };
        bytes.saturating_sub(second).min(self.bytes_max.unwrap_or(usize::MAX)).max(FRAME_BYTES_LEAST.min(bytes))
    }

    /// The number of its port.
    pub const fn port(&self) -> usize {
        self.port
    }

    /// The tags of its frames.
    pub const fn tags(&self) -> Tags {
        self.tags
    }

    /// Whether what comes by it and is for somebody else goes on.
    pub const fn forwards(&self) -> bool {
        self.forwards
    }

    /// Whether it hears what clients of DHCP ask all of the link, of IPv4 or of IPv6.
    pub const fn relays(&self, is_v4: bool) -> bool {
        if is_v4 { self.relays.0 } else { self.relays.1 }
    }

    /// Somebody asks for routers.
    pub fn hear_solicitation(&mut self, now: u64) {
        if let Some((_, advertiser)) = &mut self.router {
            advertiser.hear(now);
        }
    }

    /// What it is to say now of itself as a router.
    pub fn take_advertisement(&mut self, now: u64) -> Option<Advertised> {
        let (said, advertiser) = self.router.as_mut()?;
        advertiser.take(now).then_some(*said)
    }

    /// The networks of its own addresses.
    pub fn networks(&self) -> &[Network] {
        &self.networks
    }

    /// Whether it answers for an address of others, if a route leads there.
    pub fn is_proxy_for(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.holds(address))
    }

    /// Its link address.
    pub const fn mac(&self) -> Mac {
        self.mac
    }

    /// Its port's frames.
    pub const fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    /// Bytes of the longest packet that is sent, with its link-layer header and without tags.
    pub const fn packet_bytes(&self) -> usize {
        self.packet_bytes
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

    /// Whether an address is a group in which one of ours is listened for, or one of others for whom it answers.
    pub fn is_solicited(&self, to: Ipv6Addr) -> bool {
        let is_of_others = || is_solicited_group(to) && self.proxies.iter().any(|network| network.address.is_ipv6());
        self.own_v6().any(|own| solicited(own) == to) || is_of_others()
    }

    /// Whether a group is one that is listened for here.
    pub fn listens_in(&self, group: Ipv6Addr) -> bool {
        self.is_solicited(group) || self.relays(false) && group == RELAYS_AND_SERVERS
    }

    /// The groups that are listened for here, each once: those of its addresses, and that of relays.
    pub fn groups(&self) -> Vec<Ipv6Addr> {
        let of_relays = self.relays(false).then_some(RELAYS_AND_SERVERS);
        let mut groups: Vec<_> = self.own_v6().map(solicited).chain(of_relays).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
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

    /// Somebody says that he has an address of the link's: what waited for him is appended to `freed`, with his address. Returns the link address at which another is to be
    /// asked whether he still has it.
    pub fn heard(&mut self, now: u64, ip: IpAddr, mac: Mac, answers: bool, freed: &mut Vec<Frame>) -> Option<Mac> {
        self.neighbours.heard(now, ip, mac, answers, freed)
    }

    /// When the clock alone gives something to do.
    pub fn due(&self) -> Option<u64> {
        let spoken = self.presence.as_ref().and_then(Presence::due);
        let advertised = self.router.as_ref().and_then(|(_, advertiser)| advertiser.due());
        self.neighbours.due().into_iter().chain(spoken).chain(self.listeners.due()).chain(advertised).min()
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

/// Whether a group is one of those ([`solicited`]).
fn is_solicited_group(group: Ipv6Addr) -> bool {
    matches!(group.segments(), [0xff02, 0, 0, 0, 0, 1, 0xff00..=0xffff, _])
}
