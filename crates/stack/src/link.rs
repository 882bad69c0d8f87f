//! The link: who has which address, asked and answered, and the last header of what is sent.

use crate::counts::Drop;
use crate::draft::Ends;
use crate::neighbours::{Kind, Resolved, Word};
use crate::packet::{ALL_NODES, Ip};
use crate::path::Path;
use corelane_seam::Frame;
use corelane_wire::packet::arp::{self, Operation};
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::ethernet::{self, Mac};
use corelane_wire::packet::icmpv6;
use corelane_wire::packet::neighbour::{AdvertisementFlags, Choice, Message, Options};
use corelane_wire::packet::{EtherType, IpProtocol};
use corelane_wire::xdr::Writer;
use std::iter::once;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Nobody's link address, in a question.
const UNKNOWN: Mac = Mac([0; 6]);
/// Bytes of an option with a link address.
const OPTION_BYTES: usize = 8;
/// Bytes of a message of neighbour discovery with one option.
const MESSAGE_BYTES: usize = 24 + OPTION_BYTES;

impl Path {
    /// Sends a packet, in as many frames as it lies in, to the neighbour that has `hop`.
    pub fn send_by(&mut self, hop: IpAddr, packet: impl ExactSizeIterator<Item = Frame>) {
        if self.routes.is_own(hop) {
            let mac = self.mac;
            self.looped.extend(addressed(mac, packet).map(|mut frame| {
                // What the stack sends to itself has met no wire.
                frame.facts.checksum = corelane_seam::Checksum::Good;
                frame
            }));
            return;
        }
        let asks = match self.neighbours.resolve(self.now, hop, packet) {
            Resolved::There(mac, packet, asks) => {
                self.send_to(mac, packet);
                asks
            }
            Resolved::Waits(asks, pushed_out) => {
                self.counts.drop_many(Drop::Neighbour, pushed_out);
                asks
            }
        };
        if asks {
            self.ask(hop);
        }
    }

    /// Sends a packet to a station of the link.
    pub fn send_to(&mut self, mac: Mac, packet: impl ExactSizeIterator<Item = Frame>) {
        self.counts.frames_out += packet.len() as u64;
        self.outgoing.extend(addressed(mac, packet));
    }

    /// Asks all who could have it for the address of a neighbour, within the bound of such questions; what waits for the answer is asked for again.
    pub fn ask(&mut self, ip: IpAddr) {
        match self.bounds.questions.take(self.now) {
            true => self.ask_at(ip, None),
            false => self.counts.questions_limited += 1,
        }
    }

    /// Asks for the address of a neighbour: the station that is thought to have it, or all who could.
    fn ask_at(&mut self, ip: IpAddr, station: Option<Mac>) {
        // reason: only to whom there is a way, frames are sent.
        let way = self.routes.way(ip).expect("who is asked for is a neighbour");
        self.counts.questions_asked += 1;
        match (way.source, ip) {
            (IpAddr::V4(sender), IpAddr::V4(target)) => {
                let (operation, sender_mac) = (Operation::Request, self.mac);
                self.say(
                    station.unwrap_or(Mac::BROADCAST),
                    &arp::Message { operation, sender_mac, sender, target_mac: UNKNOWN, target },
                );
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                let option = option(&Choice::Source(self.mac));
                let message = Message::Solicitation { target, options: options(&option) };
                match station {
                    Some(mac) => self.discover(Some(mac), source, target, &message),
                    None => self.discover(Some(group_mac(solicited(target))), source, solicited(target), &message),
                }
            }
            _ => unreachable!("a way is of one family"),
        }
    }

    /// A message of ARP.
    pub fn arp(&mut self, bytes: &[u8]) {
        let Ok(message) = arp::Message::parse(bytes) else { return self.counts.drop(Drop::Malformed) };
        let (sender, target) = (IpAddr::V4(message.sender), IpAddr::V4(message.target));
        if self.routes.is_own(sender) {
            return self.claimed(sender, message.sender_mac);
        }
        let answers = message.operation == Operation::Reply && self.routes.is_own(target);
        self.heard(sender, message.sender_mac, answers);
        if message.operation == Operation::Request && self.routes.is_own(target) {
            self.counts.questions_answered += 1;
            if !message.sender.is_unspecified() {
                self.meet(sender, message.sender_mac);
            }
            let reply = arp::Message {
                operation: Operation::Reply,
                sender_mac: self.mac,
                sender: message.target,
                target_mac: message.sender_mac,
                target: message.sender,
            };
            self.say(message.sender_mac, &reply);
        }
    }

    /// A message of neighbour discovery, whose packet has come from the link itself.
    pub fn neighbour(&mut self, message: &Message<'_>, ip: &Ip) {
        let (IpAddr::V6(source), IpAddr::V6(to)) = (ip.source, ip.destination) else {
            unreachable!("neighbour discovery is of IPv6")
        };
        if !is_valid(message, source, to) {
            return self.counts.drop(Drop::Malformed);
        }
        let mac = |options: &Options<'_>| {
            options.iter().find_map(|choice| match choice {
                Choice::Source(mac) | Choice::Target(mac) => Some(mac),
                _ => None,
            })
        };
        match message {
            Message::Solicitation { target, options } if self.routes.is_own((*target).into()) => {
                if let Some(mac) = mac(options).filter(|_| !source.is_unspecified()) {
                    self.heard(source.into(), mac, false);
                    self.meet(source.into(), mac);
                }
                self.advertise(*target, source, mac(options));
            }
            Message::Advertisement { target, flags, options } => {
                let target = IpAddr::V6(*target);
                if self.routes.is_own(target) {
                    self.claimed(target, mac(options).unwrap_or(UNKNOWN));
                } else if let Some(mac) = mac(options) {
                    self.heard(target, mac, flags.is_solicited);
                } else if flags.is_solicited {
                    self.confirmed(target);
                }
            }
            _ => {}
        }
    }

    /// Says that an address is ours: to who asked, or to all if he has no address (RFC 4861, section 7.2.4). Without a link address of his, he is looked
    /// for as for anything else that is sent to him.
    fn advertise(&mut self, target: Ipv6Addr, asker: Ipv6Addr, mac: Option<Mac>) {
        self.counts.questions_answered += 1;
        let (to, mac, is_solicited) = match asker.is_unspecified() {
            false => (asker, mac, true),
            true => (ALL_NODES, Some(group_mac(ALL_NODES)), false),
        };
        let flags = AdvertisementFlags { is_router: false, is_solicited, replaces: true };
        let option = option(&Choice::Target(self.mac));
        self.discover(mac, target, to, &Message::Advertisement { target, flags, options: options(&option) });
    }

    /// Somebody has asked for an address of ours.
    fn meet(&mut self, ip: IpAddr, mac: Mac) {
        self.neighbours.meet(ip, mac);
        self.spread(Word { ip, mac, kind: Kind::Asks });
    }

    /// Somebody says that he has an address of ours. What we have said ourselves, and a switch has brought back, is no claim.
    fn claimed(&mut self, ip: IpAddr, mac: Mac) {
        if mac == self.mac {
            return;
        }
        self.counts.conflicts += 1;
        self.contested(ip, mac);
        self.spread(Word { ip, mac, kind: Kind::Claims });
    }

    /// Asks whether somebody else has an address of ours: without having it, so that nobody believes anything (RFC 5227, section 2.1.1; RFC 4862, section 5.4.2).
    pub fn probe(&mut self, ip: IpAddr) {
        self.counts.probes_sent += 1;
        match ip {
            IpAddr::V4(target) => {
                let (operation, sender) = (Operation::Request, Ipv4Addr::UNSPECIFIED);
                let message = arp::Message { operation, sender_mac: self.mac, sender, target_mac: UNKNOWN, target };
                self.say(Mac::BROADCAST, &message);
            }
            IpAddr::V6(target) => {
                let message = Message::Solicitation { target, options: Options::default() };
                let group = solicited(target);
                self.discover(Some(group_mac(group)), Ipv6Addr::UNSPECIFIED, group, &message);
            }
        }
    }

    /// Says to all of the link that an address is ours (RFC 5227, section 2.3; RFC 4861, section 7.2.6).
    pub fn announce(&mut self, ip: IpAddr) {
        self.counts.announcements_sent += 1;
        match ip {
            IpAddr::V4(target) => {
                let (operation, sender) = (Operation::Request, target);
                let message = arp::Message { operation, sender_mac: self.mac, sender, target_mac: UNKNOWN, target };
                self.say(Mac::BROADCAST, &message);
            }
            IpAddr::V6(target) => {
                let flags = AdvertisementFlags { is_router: false, is_solicited: false, replaces: true };
                let option = option(&Choice::Target(self.mac));
                let message = Message::Advertisement { target, flags, options: options(&option) };
                self.discover(Some(group_mac(ALL_NODES)), target, ALL_NODES, &message);
            }
        }
    }

    /// Somebody says that he has an address.
    fn heard(&mut self, ip: IpAddr, mac: Mac, answers: bool) {
        self.hears(ip, mac, answers);
        self.spread(Word { ip, mac, kind: if answers { Kind::Answers } else { Kind::Claims } });
    }

    /// Somebody who was asked at his link address has answered without saying it (RFC 4861, section 7.2.4).
    fn confirmed(&mut self, ip: IpAddr) {
        self.neighbours.confirmed(self.now, ip);
        self.spread(Word { ip, mac: UNKNOWN, kind: Kind::Confirms });
    }

    /// Other lanes are to hear it: a card brings what has no flow to one of them alone. Words that nobody has asked for cannot use up the bound of answers.
    fn spread(&mut self, word: Word) {
        if !self.is_shared() {
            return;
        }
        let is_answer = matches!(word.kind, Kind::Answers | Kind::Confirms);
        let bound = if is_answer { &mut self.bounds.answers } else { &mut self.bounds.words };
        if bound.take(self.now) {
            self.news.push(word);
        }
    }

    /// What another lane has heard.
    pub fn learn(&mut self, word: Word) {
        match word.kind {
            _ if self.routes.is_own(word.ip) => self.contested(word.ip, word.mac),
            Kind::Asks => self.neighbours.meet(word.ip, word.mac),
            Kind::Claims => self.hears(word.ip, word.mac, false),
            Kind::Answers => self.hears(word.ip, word.mac, true),
            Kind::Confirms => self.neighbours.confirmed(self.now, word.ip),
        }
    }

    fn hears(&mut self, ip: IpAddr, mac: Mac, answers: bool) {
        let before = self.outgoing.len();
        let owner = self.neighbours.heard(self.now, ip, mac, answers, &mut self.outgoing);
        self.counts.frames_out += (self.outgoing.len() - before) as u64;
        if let Some(owner) = owner {
            self.ask_at(ip, Some(owner));
        }
    }

    /// Sends a message of ARP.
    fn say(&mut self, to: Mac, message: &arp::Message) {
        let Some(mut frame) = self.memory.frame() else { return self.counts.drop(Drop::Frames) };
        frame.set_length(ethernet::Header::BYTES + arp::Message::BYTES);
        let writer = &mut Writer::new(&mut frame);
        let header = ethernet::Header { destination: to, source: self.mac, protocol: EtherType::ARP };
        let written = header.emit(writer).and_then(|()| message.emit(writer));
        assert!(written.is_ok(), "a frame holds a message of ARP");
        self.send_to(to, once(frame));
    }

    /// Sends a message of neighbour discovery to a station; if none, to that which has the destination.
    fn discover(&mut self, to: Option<Mac>, source: Ipv6Addr, destination: Ipv6Addr, message: &Message<'_>) {
        let mut bytes = [0; MESSAGE_BYTES];
        let mut writer = Writer::new(&mut bytes);
        let written = icmpv6::Message::Neighbour(*message).emit(&Addresses::V6 { source, destination }, &mut writer);
        assert!(written.is_ok(), "a message with one option at the most has so many bytes");
        let bytes = writer.written();
        if !self.draft.begin(&self.memory, true, bytes.len(), self.packet_bytes) {
            return self.counts.drop(Drop::Frames);
        }
        self.draft.put(bytes);
        let (source, destination) = (source.into(), destination.into());
        let ends =
            Ends { source, destination, protocol: IpProtocol::ICMPV6, identification: 0, from: self.mac, is_of_link: true };
        let mut frames = self.draft.end(&ends);
        match to {
            Some(mac) => self.send_to(mac, frames.drain(..)),
            None if self.routes.way(destination).is_some_and(|way| way.hop == destination) => {
                self.send_by(destination, frames.drain(..));
            }
            None => self.counts.drop(Drop::Neighbour),
        }
        self.draft.give_back(frames);
    }

    /// Whether an address is a group in which one of ours is listened for.
    pub fn is_solicited(&self, to: Ipv6Addr) -> bool {
        self.routes.own_v6().any(|own| solicited(own) == to)
    }
}

/// The frames of a packet, of which the first is told for which station it is.
fn addressed(mac: Mac, packet: impl Iterator<Item = Frame>) -> impl Iterator<Item = Frame> {
    packet.enumerate().map(move |(index, mut frame)| {
        if index == 0 {
            frame[..6].copy_from_slice(&mac.0);
        }
        frame
    })
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

/// Whether a message may say what it says (RFC 4861, sections 7.1.1 and 7.1.2).
fn is_valid(message: &Message<'_>, source: Ipv6Addr, to: Ipv6Addr) -> bool {
    match message {
        Message::Solicitation { target, options } => {
            let has_source = options.iter().any(|choice| matches!(choice, Choice::Source(_)));
            !target.is_multicast() && (!source.is_unspecified() || (to == solicited(*target) && !has_source))
        }
        Message::Advertisement { target, flags, .. } => !(target.is_multicast() || to.is_multicast() && flags.is_solicited),
        _ => true,
    }
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
