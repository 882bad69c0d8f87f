//! What leaves: a draft, by its way, to a neighbour of an interface, who is asked for if he is not known.
//!
//! [`Outward`] is the owners that this takes, borrowed together for a round, so that whoever answers a packet is handed one thing.

mod limiter;

use crate::draft::{Draft, Ends};
pub(crate) use limiter::{Bounds, CappedLimiter, Limiter};

use crate::counts::{Drop, Tally};
use crate::interface::{Resolved, Word, addressed, group_mac, solicited};
use crate::interfaces::Interfaces;
use crate::judging::{Judging, OwnPacket};
use crate::packet::{ALL_NODES, Ip, tuple};
use crate::routes::{Routes, Way, WayNews, is_of_link};
use crate::settings::Advertised;
use crate::trunk::Trunk;
use corelane_rss::FlowHasher;
use corelane_seam::{Frame, FrameHash, Offload};
use corelane_wire::packet::arp::{self, Operation};
use corelane_wire::packet::checksum::{Addresses, Sum};
use corelane_wire::packet::ethernet::{self, Mac};
use corelane_wire::packet::icmpv6;
use corelane_wire::packet::neighbour::{AdvertisementFlags, Choice, Message, Options, Prefix, Router};
use corelane_wire::packet::{EtherType, IpProtocol};
use corelane_wire::xdr::Writer;
use std::collections::VecDeque;
use std::iter::once;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// Nobody's link address, in a question.
pub(crate) const UNKNOWN: Mac = Mac([0; 6]);
/// Bytes of an option with a link address.
const OPTION_BYTES: usize = 8;
/// Networks that a router says are on its link at most, and bytes of an option with one.
const PREFIXES_MAX: usize = 8;
const PREFIX_BYTES: usize = 32;
/// Bytes of the longest message of neighbour discovery: what a router says of itself.
const MESSAGE_BYTES: usize = 24 + 2 * OPTION_BYTES + PREFIXES_MAX * PREFIX_BYTES;

/// What packets are written with.
#[derive(Debug)]
pub(crate) struct Pen {
    draft: Draft,
    /// Names the next packet that is sent, and how far a lane's names lie apart.
    identification: u32,
    step: u32,
    hasher: Arc<FlowHasher>,
    /// Frames that the stack sends to itself, each with the interface whose address it is for.
    looped: VecDeque<(usize, Frame)>,
    /// Frames that have waited, on their way to be sent.
    freed: Vec<Frame>,
}

impl Pen {
    /// Of lane `lane.0` of so many.
    pub fn new(hasher: Arc<FlowHasher>, lane: (usize, usize), secret: u128) -> Self {
        let step = lanes_step(lane.1);
        let identification = (secret >> 64) as u32 & !(step - 1) | lane.0 as u32;
        Self { draft: Draft::default(), identification, step, hasher, looped: VecDeque::new(), freed: Vec::new() }
    }

    /// Whether the stack has sent something to itself.
    pub fn has_looped(&self) -> bool {
        !self.looped.is_empty()
    }

    /// Frames that the stack has sent to itself.
    pub fn looped(&self) -> usize {
        self.looped.len()
    }

    /// The first of them, and its interface.
    pub fn take_looped(&mut self) -> Option<(usize, Frame)> {
        self.looped.pop_front()
    }
}

/// How far a lane's names of packets lie apart, so that no other lane gives the same while 16 bits go round (RFC 6864, section 4.3).
const fn lanes_step(lanes: usize) -> u32 {
    (lanes as u32).next_power_of_two()
}

/// Who says what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// We do: rules judge it.
    Stack,
    /// Rules do, by a reset: they do not judge what they say themselves.
    Rules,
}

/// What is to be told to the other lanes.
#[derive(Debug, Default)]
pub(crate) struct Words {
    /// What was heard of neighbours.
    pub news: Vec<Word>,
    /// Words of routers of ways.
    pub told: Vec<WayNews>,
}

/// The owners that it takes to send, for a round.
pub(crate) struct Outward<'a> {
    pub now: u64,
    /// Other lanes serve the stack's addresses as well.
    pub is_shared: bool,
    pub routes: &'a mut Routes,
    pub interfaces: &'a mut Interfaces,
    pub trunks: &'a mut [Trunk],
    pub pen: &'a mut Pen,
    pub bounds: &'a mut Bounds,
    pub judging: &'a mut Judging,
    pub tally: &'a mut Tally,
    pub words: &'a mut Words,
}

impl Outward<'_> {
    /// Bytes of the longest packet to an address by that interface, with its link-layer header.
    pub fn most_to(&self, interface: usize, to: IpAddr) -> usize {
        let (link, most) = (ethernet::Header::BYTES, self.interfaces[interface].packet_bytes());
        self.routes.narrow().most(self.now, to).map_or(most, |narrow| (narrow + link).min(most))
    }

    /// The draft that was begun.
    pub const fn draft(&mut self) -> &mut Draft {
        &mut self.pen.draft
    }

    /// Begins a draft of so many bytes behind the network's header, at most so long in one piece; false if frames are used up.
    pub fn begin(&mut self, interface: usize, is_v6: bool, length: usize, most: usize) -> bool {
        self.pen.draft.begin(self.interfaces[interface].memory(), is_v6, length, most)
    }

    /// Begins an answer of so many bytes; false if frames are used up, which is counted.
    pub fn begin_answer(&mut self, ip: &Ip, length: usize) -> bool {
        // Where there is no way it is dropped when it is whole.
        let interface = self.way_back(ip.source).map_or(self.tally.at(), |way| way.interface);
        let has_begun = self.begin(interface, ip.source.is_ipv6(), length, self.most_to(interface, ip.source));
        if !has_begun {
            self.tally.unsent_at(interface, Drop::Frames, 1);
        }
        has_begun
    }

    /// Sends the draft back to where a packet came from; false if it does not leave.
    pub fn answer(&mut self, ip: &Ip, protocol: IpProtocol, sums: bool, speaker: Speaker) -> bool {
        let (source, destination) = (ip.destination, ip.source);
        self.mark_fragments(SocketAddr::new(source, 0), SocketAddr::new(destination, 0), protocol);
        let back = Ip { source, destination, protocol, ..*ip };
        if sums {
            let pseudo = match protocol {
                IpProtocol::ICMPV6 => back.addresses().pseudo(protocol, self.pen.draft.length()).unwrap_or_default(),
                _ => Sum::ZERO,
            };
            let checksum = pseudo.plus(self.pen.draft.sum).checksum();
            self.pen.draft.patch(2, checksum);
        }
        match self.way_back(destination) {
            Some(way) if speaker == Speaker::Rules => {
                self.put_draft((way.interface, way.hop), source, destination, protocol);
                true
            }
            Some(way) => self.send_draft((way.interface, way.hop), source, destination, protocol),
            None => {
                self.tally.unsent_at(self.tally.at(), Drop::Neighbour, self.pen.draft.pieces() as u64);
                self.pen.draft.abandon();
                false
            }
        }
    }

    /// The way back to where a packet came from: of the link's own addresses, by the interface that it came to.
    pub fn way_back(&self, to: IpAddr) -> Option<Way> {
        if is_of_link(to) { self.routes.beside(self.tally.at(), to) } else { self.routes.way(to) }
    }

    /// Whether senders on the machine of that interface may leave checksums out.
    pub fn leaves_sums(&self, interface: usize) -> bool {
        self.trunks[self.interfaces[interface].port()].leaves_sums()
    }

    /// Says of which flow the fragments of a draft are that is cut: a card that sends by hash does not see their ports.
    pub fn mark_fragments(&mut self, from: SocketAddr, to: SocketAddr, protocol: IpProtocol) {
        let Pen { draft, hasher, .. } = &mut *self.pen;
        if draft.is_cut() {
            let hashed = tuple(from, to, protocol).and_then(|tuple| hasher.transmit(&tuple));
            draft.set_hash(hashed.map(|hashed| FrameHash { flow: hashed.flow, hash_type: hashed.hash_type }));
        }
    }

    /// Sends the draft by that interface and neighbour, if rules let it out; false if they do not. What goes to ourselves leaves by no interface: it is judged when it comes.
    pub fn send_draft(&mut self, by: (usize, IpAddr), source: IpAddr, destination: IpAddr, protocol: IpProtocol) -> bool {
        let has_left = self.routes.is_own(by.1) || self.is_let_out(by.0, source, destination, protocol);
        if has_left {
            self.put_draft(by, source, destination, protocol);
        }
        has_left
    }

    /// Whether rules let the draft out by an interface. One that they keep back is given up in silence.
    fn is_let_out(&mut self, interface: usize, source: IpAddr, destination: IpAddr, protocol: IpProtocol) -> bool {
        let draft = &self.pen.draft;
        let own = OwnPacket { interface, source, destination, protocol, head: draft.head(), length: draft.length() };
        let is_let_out = self.judging.lets_out(self.now, self.routes, &own);
        if !is_let_out {
            self.tally.drop_at(interface, Drop::Judged);
            self.pen.draft.abandon();
        }
        is_let_out
    }

    /// Sends the draft by that interface and neighbour, whatever rules say.
    fn put_draft(&mut self, by: (usize, IpAddr), source: IpAddr, destination: IpAddr, protocol: IpProtocol) {
        let (interface, hop) = by;
        let (is_cut, mut frames) = self.end_draft(interface, (source, destination), protocol);
        if is_cut {
            for fragment in frames.drain(..) {
                let _station = self.send_by(interface, hop, once(fragment));
            }
        } else {
            let _station = self.send_by(interface, hop, frames.drain(..));
        }
        self.pen.draft.give_back(frames);
    }

    /// Sends the draft to a station of an interface's link, whoever has the address, if rules let it out; false if they do not.
    pub fn send_draft_to(&mut self, interface: usize, station: Mac, ends: (IpAddr, IpAddr), protocol: IpProtocol) -> bool {
        if !self.is_let_out(interface, ends.0, ends.1, protocol) {
            return false;
        }
        let (is_cut, mut frames) = self.end_draft(interface, ends, protocol);
        match is_cut {
            true => frames.drain(..).for_each(|fragment| self.send_to(interface, station, once(fragment))),
            false => self.send_to(interface, station, frames.drain(..)),
        }
        self.pen.draft.give_back(frames);
        true
    }

    /// The frames of the draft, and whether each is a fragment.
    fn end_draft(&mut self, interface: usize, ends: (IpAddr, IpAddr), protocol: IpProtocol) -> (bool, Vec<Frame>) {
        let Pen { draft, identification, step, .. } = &mut *self.pen;
        if draft.is_cut() {
            self.tally.fragments_out += draft.pieces() as u64;
        }
        *identification = identification.wrapping_add(*step);
        let (identification, from, (source, destination)) = (*identification, self.interfaces[interface].mac(), ends);
        (draft.is_cut(), draft.end(&Ends { source, destination, protocol, identification, from, is_of_link: false }))
    }

    /// Sends a packet, in as many frames as it lies in, to the neighbour at an interface that has `hop`. Returns the station, if it was heard lately.
    pub fn send_by(&mut self, interface: usize, hop: IpAddr, packet: impl ExactSizeIterator<Item = Frame>) -> Option<Mac> {
        if self.routes.is_own(hop) {
            let mac = self.interfaces[interface].mac();
            self.pen.looped.extend(addressed(mac, packet).map(|mut frame| {
                // What the stack sends to itself has met no wire.
                frame.facts.checksum = corelane_seam::Checksum::Good;
                (interface, frame)
            }));
            return None;
        }
        let (station, asks) = match self.interfaces[interface].neighbours_mut().resolve(self.now, hop, packet) {
            Resolved::There(mac, packet, asks) => {
                self.send_to(interface, mac, packet);
                (Some(mac), asks)
            }
            Resolved::Waits(asks, pushed_out) => {
                self.tally.unsent_at(interface, Drop::Neighbour, pushed_out);
                (None, asks)
            }
        };
        self.note_moves(interface);
        if asks {
            self.ask(interface, hop);
        }
        station.filter(|_| !asks)
    }

    /// Where a neighbour has another link address, no fast path sends him anything at the one before.
    fn note_moves(&mut self, interface: usize) {
        if self.interfaces[interface].neighbours_mut().take_moved(self.now) {
            self.trunks.iter().filter_map(Trunk::offload).for_each(Offload::unlearn);
        }
    }

    /// Sends a packet to a station of the link.
    pub fn send_to(&mut self, interface: usize, mac: Mac, packet: impl ExactSizeIterator<Item = Frame>) {
        let at = &self.interfaces[interface];
        self.tally.frames_out += self.trunks[at.port()].put_out(mac, at.tags(), packet);
    }

    /// Somebody says that he has an address of a link's: what waited for him leaves. Returns the link address at which another is to be asked whether he still has it.
    pub fn heard(&mut self, interface: usize, ip: IpAddr, mac: Mac, answers: bool) -> Option<Mac> {
        let Self { interfaces, trunks, pen, tally, now, .. } = self;
        let at = &mut interfaces[interface];
        let owner = at.heard(*now, ip, mac, answers, &mut pen.freed);
        if !pen.freed.is_empty() {
            tally.frames_out += trunks[at.port()].put_out_all(at.tags(), &mut pen.freed);
        }
        self.note_moves(interface);
        owner
    }

    /// Asks all who could have it for the address of a neighbour, within the bound of such questions; what waits for the answer is asked for again.
    pub fn ask(&mut self, interface: usize, ip: IpAddr) {
        match self.bounds.questions[interface].take(self.now) {
            true => self.ask_at(interface, ip, None),
            false => self.tally.questions_limited += 1,
        }
    }

    /// Asks for the address of a neighbour: the station that is thought to have it, or all who could.
    pub fn ask_at(&mut self, interface: usize, ip: IpAddr, station: Option<Mac>) {
        // reason: only to whom there is a way, frames are sent.
        let way = self.routes.beside(interface, ip).expect("who is asked for is a neighbour");
        self.tally.questions_asked += 1;
        let mac = self.interfaces[interface].mac();
        match (way.source, ip) {
            (IpAddr::V4(sender), IpAddr::V4(target)) => {
                let operation = Operation::Request;
                let message = arp::Message { operation, sender_mac: mac, sender, target_mac: UNKNOWN, target };
                self.say(interface, station.unwrap_or(Mac::BROADCAST), &message);
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                let option = option(&Choice::Source(mac));
                let message = Message::Solicitation { target, options: options(&option) };
                match station {
                    Some(mac) => self.discover(interface, Some(mac), (source, target), &message),
                    None => {
                        let group = solicited(target);
                        self.discover(interface, Some(group_mac(group)), (source, group), &message);
                    }
                }
            }
            _ => unreachable!("a way is of one family"),
        }
    }

    /// Says that an address is ours: to who asked, or to all if he has no address (RFC 4861, section 7.2.4). Without a link address of his, he is looked
    /// for as for anything else that is sent to him.
    pub fn advertise(&mut self, interface: usize, target: Ipv6Addr, asker: Ipv6Addr, mac: Option<Mac>) {
        self.tally.questions_answered += 1;
        let at = &self.interfaces[interface];
        let (to, mac, is_solicited) = match asker.is_unspecified() {
            false => (asker, mac, true),
            true => (ALL_NODES, Some(group_mac(ALL_NODES)), false),
        };
        // RFC 4861, sections 7.2.4 and 7.2.8.
        let (is_router, replaces) = (at.forwards(), at.has(target.into()));
        let flags = AdvertisementFlags { is_router, is_solicited, replaces };
        let option = option(&Choice::Target(at.mac()));
        let message = Message::Advertisement { target, flags, options: options(&option) };
        // Of somebody else's address we speak from our own.
        let source = if replaces { Some(target) } else { at.own_v6().next() };
        source.into_iter().for_each(|source| self.discover(interface, mac, (source, to), &message));
    }

    /// Says to all of a link that a router is here, and which networks of ours are (RFC 4861, section 6.2.3).
    pub fn advertise_router(&mut self, interface: usize, said: Advertised) {
        let at = &self.interfaces[interface];
        let Some(source) = at.own_v6().find(Ipv6Addr::is_unicast_link_local) else { return };
        let Advertised { lifetime, valid, preferred, .. } = said;
        let (mac, mtu) = (at.mac(), at.packet_bytes() - ethernet::Header::BYTES);
        let prefixes = at.networks().iter().filter_map(|network| match network.address {
            IpAddr::V6(own) if !own.is_unicast_link_local() => {
                let hosts = u128::MAX.checked_shr(network.bits.into()).unwrap_or(0);
                let prefix = Ipv6Addr::from_bits(own.to_bits() & !hosts);
                let (bits, is_on_link, is_autonomous) = (network.bits, true, network.bits == 64);
                Some(Choice::Prefix(Prefix { bits, is_on_link, is_autonomous, valid, preferred, prefix }))
            }
            _ => None,
        });
        let mut bytes = [0; 2 * OPTION_BYTES + PREFIXES_MAX * PREFIX_BYTES];
        let mut writer = Writer::new(&mut bytes);
        let each = [Choice::Source(mac), Choice::Most(mtu as u32)].into_iter().chain(prefixes.take(PREFIXES_MAX));
        let written = each.map(|choice| choice.emit(&mut writer)).all(|written| written.is_ok());
        assert!(written, "so many options have room");
        let length = writer.len();
        let options = Options::new(&bytes[..length]).unwrap_or_default();
        // Clients ask servers where they hear that there are some.
        let is_managed = at.relays(false);
        let router = Router { hops: 64, is_managed, has_others: false, lifetime, reachable: 0, again: 0 };
        let message = Message::RouterAdvertisement(router, options);
        self.discover(interface, Some(group_mac(ALL_NODES)), (source, ALL_NODES), &message);
    }

    /// Asks whether somebody else has an address of ours: without having it, so that nobody believes anything (RFC 5227, section 2.1.1; RFC 4862, section 5.4.2).
    pub fn probe(&mut self, interface: usize, ip: IpAddr) {
        self.tally.probes_sent += 1;
        match ip {
            IpAddr::V4(target) => self.ask_all(interface, Ipv4Addr::UNSPECIFIED, target),
            IpAddr::V6(target) => {
                let message = Message::Solicitation { target, options: Options::default() };
                let group = solicited(target);
                self.discover(interface, Some(group_mac(group)), (Ipv6Addr::UNSPECIFIED, group), &message);
            }
        }
    }

    /// Says to all of the link that an address is ours (RFC 5227, section 2.3; RFC 4861, section 7.2.6).
    pub fn announce(&mut self, interface: usize, ip: IpAddr) {
        self.tally.announcements_sent += 1;
        match ip {
            IpAddr::V4(target) => self.ask_all(interface, target, target),
            IpAddr::V6(target) => {
                let is_router = self.interfaces[interface].forwards();
                let flags = AdvertisementFlags { is_router, is_solicited: false, replaces: true };
                let option = option(&Choice::Target(self.interfaces[interface].mac()));
                let message = Message::Advertisement { target, flags, options: options(&option) };
                self.discover(interface, Some(group_mac(ALL_NODES)), (target, ALL_NODES), &message);
            }
        }
    }

    fn ask_all(&mut self, interface: usize, sender: Ipv4Addr, target: Ipv4Addr) {
        let (operation, sender_mac) = (Operation::Request, self.interfaces[interface].mac());
        let message = arp::Message { operation, sender_mac, sender, target_mac: UNKNOWN, target };
        self.say(interface, Mac::BROADCAST, &message);
    }

    /// Sends a message of ARP.
    pub fn say(&mut self, interface: usize, to: Mac, message: &arp::Message) {
        let at = &self.interfaces[interface];
        let Some(mut frame) = at.memory().frame() else { return self.tally.unsent_at(interface, Drop::Frames, 1) };
        frame.set_length(ethernet::Header::BYTES + arp::Message::BYTES);
        let writer = &mut Writer::new(&mut frame);
        let header = ethernet::Header { destination: to, source: at.mac(), protocol: EtherType::ARP };
        let written = header.emit(writer).and_then(|()| message.emit(writer));
        assert!(written.is_ok(), "a frame holds a message of ARP");
        self.send_to(interface, to, once(frame));
    }

    /// Sends a message of neighbour discovery to a station; if none, to that which has the destination.
    fn discover(&mut self, interface: usize, to: Option<Mac>, ends: (Ipv6Addr, Ipv6Addr), message: &Message<'_>) {
        let (source, destination) = ends;
        let mut bytes = [0; MESSAGE_BYTES];
        let mut writer = Writer::new(&mut bytes);
        let written = icmpv6::Message::Neighbour(*message).emit(&Addresses::V6 { source, destination }, &mut writer);
        assert!(written.is_ok(), "a message of neighbour discovery has so many bytes");
        let bytes = writer.written();
        let (most, from) = (self.interfaces[interface].packet_bytes(), self.interfaces[interface].mac());
        if !self.begin(interface, true, bytes.len(), most) {
            return self.tally.unsent_at(interface, Drop::Frames, 1);
        }
        self.pen.draft.put(bytes);
        let (source, destination) = (source.into(), destination.into());
        let ends = Ends { source, destination, protocol: IpProtocol::ICMPV6, identification: 0, from, is_of_link: true };
        let mut frames = self.pen.draft.end(&ends);
        match to {
            Some(mac) => self.send_to(interface, mac, frames.drain(..)),
            None if self.routes.beside(interface, destination).is_some() => {
                let _station = self.send_by(interface, destination, frames.drain(..));
            }
            None => self.tally.unsent_at(interface, Drop::Neighbour, 1),
        }
        // Where nobody gets it, its frames are free again.
        frames.clear();
        self.pen.draft.give_back(frames);
    }
}

/// An option as it lies in a message.
fn option(choice: &Choice<'_>) -> [u8; OPTION_BYTES] {
    let mut bytes = [0; OPTION_BYTES];
    let written = choice.emit(&mut Writer::new(&mut bytes));
    assert!(written.is_ok(), "a link address takes eight bytes");
    bytes
}

/// A list of that option.
fn options(option: &[u8; OPTION_BYTES]) -> Options<'_> {
    let options = Options::new(option);
    assert!(options.is_ok(), "what was written is a list");
    options.unwrap_or_default()
}
