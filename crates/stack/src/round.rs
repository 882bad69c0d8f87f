//! What becomes of a packet on its lane, step by step: the handlers of the other files look at it, and return what comes next.
//!
//! Every step is a dispatch of [`corelane_isr`], which says on which lane it runs, and when.

use crate::beside::Heard;
use crate::channels::{Channels, Sink};
use crate::counts::Drop;
use crate::discovery;
use crate::forwarding::{Forwarding, Next, Passing};
use crate::fragments::{Fragments, Taken, split};
use crate::headers::{Looker, Recognized};
use crate::icmp::{self, errors};
use crate::opening;
use crate::outward::Outward;
use crate::packet::{Ip, Packet, Spare};
use crate::peers::Opened;
use crate::placing::{Leaving, Placing};
use crate::relay::Relay;
use crate::sockets::{Ports, Sockets};
use crate::translation::Translation;
use crate::tunnels::Tunnel;
use crate::udp;
use corelane_isr::dispatch::{Number, PacketStep, Run};
use corelane_isr::reassembly::Datagram;
use corelane_rss::FlowId;
use corelane_seam::{Frame, Instant};
use corelane_wire::packet::IpProtocol;

/// Packets that a handler has passed on and are run behind it at most.
const PASSED_ON_EACH: usize = 256;

/// All that a packet may meet, for a part of a turn.
pub(crate) struct Round<'a> {
    out: Outward<'a>,
    sockets: &'a mut Sockets,
    ports: &'a Ports,
    fragments: &'a mut Fragments,
    tunnels: &'a Opened,
    forwarding: &'a mut Forwarding,
    translation: Option<&'a mut Translation>,
    relay: &'a mut Relay,
    placing: &'a mut Placing,
    channels: &'a mut Channels,
    spare: &'a mut Spare,
    /// What is looked at now was sent by the stack itself.
    is_own_word: bool,
}

impl<'a> Round<'a> {
    pub fn new(
        out: Outward<'a>,
        sockets: &'a mut Sockets,
        ports: &'a Ports,
        fragments: &'a mut Fragments,
        (tunnels, forwarding): (&'a Opened, &'a mut Forwarding),
        (translation, relay): (Option<&'a mut Translation>, &'a mut Relay),
        (placing, channels, spare): (&'a mut Placing, &'a mut Channels, &'a mut Spare),
    ) -> Self {
        let is_own_word = false;
        Self { out, sockets, ports, fragments, tunnels, forwarding, translation, relay, placing, channels, spare, is_own_word }
    }

    /// Frames that have come and are handled next: what all of them need of the translation's memory is fetched at once.
    pub fn look_ahead<'f>(&self, frames: impl Iterator<Item = &'f Frame>) {
        if let Some(translation) = &self.translation {
            translation.look_ahead(frames);
        }
    }

    /// A frame of a port's: a packet, or the next part of one. Its tags say at which interface, once they are looked at; until then it is at that without tags.
    pub fn frame(&mut self, port: usize, frame: Frame) {
        let interface = self.out.trunks[port].interfaces()[0];
        self.frame_at(port, interface, frame);
    }

    fn frame_at(&mut self, port: usize, interface: usize, frame: Frame) {
        self.out.tally.frames_in += 1;
        match self.out.trunks[port].join(self.out.now, interface, frame, self.spare) {
            Ok(packet) => packet.into_iter().for_each(|packet| self.arrive(Number::ETHER, packet)),
            Err(why) => self.out.tally.drop_at(interface, why),
        }
    }

    /// A batch of a port has ended. A packet does not go on in the next.
    pub fn end_batch(&mut self, port: usize) {
        if self.out.trunks[port].end_batch(self.spare) {
            self.out.tally.drop_at(self.out.trunks[port].interfaces()[0], Drop::Pieces);
        }
    }

    /// What other lanes have said.
    pub fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Stray(packet) => {
                // reason: only a transport's packets are strays.
                let ip = packet.ip.expect("a stray has its headers looked at");
                self.out.tally.look_at(packet.interface);
                match ip.is_brought {
                    true => self.gateway(packet, ip),
                    false => self.transport(packet, ip),
                }
            }
            Heard::Neighbour(word) => discovery::learn(&mut self.out, word),
            Heard::Way(told) => icmp::learn_way(&mut self.out, self.sockets, told),
        }
    }

    /// Runs what is queued, and what the stack has sent to itself; at most so much. Returns how many packets that were.
    pub fn run(&mut self, at_most: usize) -> usize {
        let mut ran = 0;
        while ran < at_most {
            let Some(step) = self.placing.next_step() else { break };
            ran += 1;
            self.carry_out(step);
        }
        self.is_own_word = true;
        for _ in 0..self.out.pen.looped().min(at_most - ran) {
            ran += 1;
            while let Some((interface, frame)) = self.out.pen.take_looped() {
                let port = self.out.interfaces[interface].port();
                self.frame_at(port, interface, frame);
                if !self.out.trunks[port].has_begun() {
                    break;
                }
            }
        }
        self.is_own_word = false;
        ran
    }

    /// The round is over: consumers are shown what was put into their channels.
    pub fn end(self) {
        self.channels.publish();
    }

    /// Gives up datagrams that did not come together in time, and tells their senders.
    pub fn expire_fragments(&mut self) {
        let Self { fragments, out, .. } = self;
        fragments.expire(out.now, |first| errors::took_too_long(out, first));
    }

    /// A packet of a protocol, from the port or from a handler.
    fn arrive(&mut self, number: Number, packet: Packet) {
        let step = self.placing.arrive(number, packet);
        self.carry_out(step);
    }

    /// Does a step, and what its handler has passed on, as far as a turn's bound.
    fn carry_out(&mut self, step: PacketStep<Packet>) {
        self.carry_one(step);
        for _ in 0..PASSED_ON_EACH {
            let Some(step) = self.placing.next_passed_on() else { break };
            self.carry_one(step);
        }
    }

    fn carry_one(&mut self, step: PacketStep<Packet>) {
        self.out.tally.note();
        match step {
            PacketStep::Run(Run { number, packet, placed, mark }) => {
                self.handle(number, packet);
                self.placing.has_run(Run { number, packet: (), placed, mark });
            }
            PacketStep::Queued | PacketStep::Parked | PacketStep::Drained(_) => {}
            PacketStep::Elsewhere { lane, number, packet, placed } => {
                self.out.tally.crossed += 1;
                self.placing.leave(Leaving { to: lane, number: Some((number, placed)), packet });
            }
            PacketStep::Dropped(packet) => self.drop(Drop::Queue, packet),
            PacketStep::Unregistered(packet) => self.drop(Drop::Protocol, packet),
        }
    }

    /// A packet goes no further.
    fn drop(&mut self, why: Drop, packet: Packet) {
        self.out.tally.drop_at(packet.interface, why);
        self.spare.put(packet);
    }

    fn handle(&mut self, number: Number, packet: Packet) {
        self.out.tally.look_at(packet.interface);
        match (number, packet.ip) {
            (Number::ETHER, _) => self.ether(packet),
            (Number::ARP, _) => {
                discovery::arp(&mut self.out, packet.interface, &packet.first);
                self.spare.put(packet);
            }
            (Number::IP | Number::IP6, Some(ip)) if ip.is_part && self.wants_whole(&ip) => self.fragment(packet, ip),
            (_, Some(ip)) if self.forwarding.is_on() => self.gateway(packet, ip),
            (_, Some(ip)) => self.transport(packet, ip),
            (_, None) => unreachable!("an IP packet has its header looked at before it is placed"),
        }
    }

    fn looker(&self, interface: usize) -> Looker<'_> {
        let Outward { interfaces, trunks, routes, .. } = &self.out;
        Looker { at: interface, interfaces, trunks, routes, is_own_word: self.is_own_word, is_in_tunnel: false }
    }

    /// Looks at the headers of link and network, once for all who come later. They are in the first frame.
    fn ether(&mut self, mut packet: Packet) {
        let missing = packet.rest.iter().map(|frame| frame.len()).sum();
        let mut looker = self.looker(packet.interface);
        let found = looker.look(&packet.first, missing);
        packet.interface = looker.at;
        match found {
            Recognized::Arp { at } => {
                packet.first.skip(at);
                self.arrive(Number::ARP, packet);
            }
            Recognized::Ip { ip, at, length } => {
                packet.first.skip(at);
                packet.first.set_length(length);
                packet.ip = Some(ip);
                // What a tunnel carries has a flow of its own.
                packet.flow = match opening::tunnel_of(self.tunnels, &packet, &ip).filter(|_| !ip.passes) {
                    Some(_) => None,
                    None => self.flow(&packet, &ip),
                };
                self.arrive(if ip.source.is_ipv4() { Number::IP } else { Number::IP6 }, packet);
            }
            Recognized::Not(why) => self.drop(why, packet),
        }
    }

    /// The flow id of a packet: of an error that goes on, that of the flow which it is about, where the lane that has its session is to see it.
    fn flow(&self, packet: &Packet, ip: &Ip) -> Option<FlowId> {
        let translation = self.translation.as_ref().filter(|_| ip.passes && self.placing.is_shared());
        match translation.and_then(|translation| translation.flow_of_error(packet, ip)) {
            Some(flow) => Some(flow),
            None if packet.rest.is_empty() => self.placing.flow(&packet.first, ip.is_part, self.fragments.have_come()),
            None if ip.is_part => None,
            None => self.placing.flow_of(packet, ip),
        }
    }

    /// A fragment: held until the others are there. One that lies in several frames is held as several.
    fn fragment(&mut self, mut packet: Packet, ip: Ip) {
        let (interface, arrived) = (packet.interface, Instant::from_nanoseconds(packet.arrived));
        if !split(&mut packet, &ip) {
            return self.drop(Drop::Pieces, packet);
        }
        let (first, mut rest) = (std::mem::take(&mut packet.first), std::mem::take(&mut packet.rest));
        for part in std::iter::once(first).chain(rest.drain(..)).filter(|part| !part.is_empty()) {
            match self.fragments.take(interface, part, arrived) {
                Taken::Held => {}
                Taken::Whole(datagram) => self.whole(&datagram, interface, &ip),
                Taken::Refused(reason, fragment) => errors::no_such_fragment(&mut self.out, reason, &fragment, &ip),
                Taken::NoRoom => self.out.tally.drop_at(interface, Drop::Frames),
            }
        }
        packet.rest = rest;
        self.spare.put(packet);
    }

    /// A datagram that was put together: its flow is known now, and with it its lane.
    fn whole(&mut self, datagram: &Datagram, interface: usize, before: &Ip) {
        let mut others = self.fragments.pieces();
        let Some(first) = others.next() else { unreachable!("a datagram has a first piece") };
        let mut packet = self.spare.take(first, interface, datagram.arrived.nanoseconds());
        packet.rest.extend(others);
        packet.ip = Ip::of_whole(datagram, &packet.first, before);
        let Some(ip) = packet.ip else { return self.drop(Drop::Malformed, packet) };
        let is_in_tunnel = opening::tunnel_of(self.tunnels, &packet, &ip).is_some();
        packet.flow = self.flow(&packet, &ip).filter(|_| !is_in_tunnel);
        self.arrive(if ip.source.is_ipv4() { Number::IP_DIRECT } else { Number::IP6_DIRECT }, packet);
    }

    /// Opens a tunnel: the packet within goes on by its own flow.
    fn open(&mut self, tunnel: Tunnel, packet: Packet, ip: &Ip) {
        let (interface, arrived) = (packet.interface, packet.arrived);
        let Self { out, tunnels, spare, .. } = self;
        let (interfaces, trunks, routes) = (&*out.interfaces, &*out.trunks, &*out.routes);
        let looker = Looker { at: interface, interfaces, trunks, routes, is_own_word: ip.is_own_word, is_in_tunnel: true };
        let inner = opening::open(tunnels, tunnel, (packet, ip), looker, spare);
        let counts = &mut self.out.tally.tunnels[tunnel as usize];
        match inner {
            Err(why) => {
                counts.dropped += 1;
                self.out.tally.drop_at(interface, why);
            }
            Ok((frame, inner)) => {
                counts.opened += 1;
                let flow = self.placing.flow(&frame, inner.is_part, self.fragments.have_come());
                let number = match (inner.is_part, inner.source.is_ipv4()) {
                    (true, true) => Number::IP,
                    (true, false) => Number::IP6,
                    (false, true) => Number::IP_DIRECT,
                    (false, false) => Number::IP6_DIRECT,
                };
                let mut packet = self.spare.take(frame, interface, arrived);
                (packet.ip, packet.flow) = (Some(inner), flow);
                self.arrive(number, packet);
            }
        }
    }

    /// Puts a packet into its channel; one that has none comes back.
    fn channel(&mut self, packet: Packet, ip: &Ip) -> Option<Packet> {
        match self.channels.find(&packet, ip) {
            Some(Sink::Ring(producer)) => {
                let head = packet.first.get(..ip.head).unwrap_or_default();
                let is_put = producer.put(std::iter::once(head).chain(packet.transport(ip)));
                match is_put {
                    true => self.out.tally.channelled += 1,
                    false => self.out.tally.drop(Drop::Channel),
                }
                self.spare.put(packet);
                None
            }
            Some(Sink::Lane(lane)) if *lane != self.placing.lane() => {
                let to = *lane;
                self.out.tally.channelled += 1;
                self.placing.leave(Leaving { to, number: None, packet });
                None
            }
            Some(Sink::Lane(_)) | None => Some(packet),
        }
    }

    /// Whether a fragment waits for the others: it is for us, or is to be translated.
    fn wants_whole(&self, ip: &Ip) -> bool {
        !ip.passes || self.translation.as_ref().is_some_and(|translation| translation.wants_whole(self.out.routes, ip))
    }

    /// What a gateway does first: a packet is judged and translated, and goes on to who it is for.
    fn gateway(&mut self, mut packet: Packet, ip: Ip) {
        if ip.passes {
            self.placing.note_run(&packet, self.fragments.have_come());
        }
        let Self { out, forwarding, translation, placing, sockets, .. } = self;
        let translation = translation.as_deref_mut();
        let next = Passing { out, own: forwarding, translation, placing, sockets }.come(&mut packet, &ip);
        match next {
            Ok(Next::Left) => self.spare.put(packet),
            Ok(Next::Ours) => self.transport(packet, ip),
            Ok(Next::Elsewhere(to)) => self.placing.leave(Leaving { to, number: None, packet }),
            Err(why) => self.drop(why, packet),
        }
    }

    /// Hands a packet to its transport. The place of TCP: sockets by hash of their four parts, timers of the lane's wheel, and for each connection
    /// a machine that is handed segments and says what is to be sent.
    fn transport(&mut self, packet: Packet, ip: Ip) {
        // What was put together by another lane runs here, too.
        self.placing.note_run(&packet, self.fragments.have_come());
        if !errors::is_known(&mut self.out, &packet, &ip) {
            return self.drop(Drop::Protocol, packet);
        }
        if let Some(tunnel) = opening::tunnel_of(self.tunnels, &packet, &ip) {
            return self.open(tunnel, packet, &ip);
        }
        // Without neighbour discovery, and where a switch asks who listens, nobody on the link would reach the lane any more: no filter takes these away.
        let packet = if packet.is_discovery(&ip) || packet.is_of_link(&ip) { Some(packet) } else { self.channel(packet, &ip) };
        let Some(packet) = packet else { return };
        let Self { out, sockets, .. } = self;
        match ip.protocol {
            IpProtocol::UDP => return self.udp(packet, ip),
            IpProtocol::ICMP if ip.source.is_ipv4() => icmp::icmp(out, sockets, &packet, &ip),
            IpProtocol::ICMPV6 if ip.source.is_ipv6() => icmp::icmpv6(out, sockets, &packet, &ip),
            protocol => {
                out.tally.drop(Drop::Protocol);
                match protocol {
                    IpProtocol::TCP => errors::no_such_connection(out, &packet, &ip),
                    _ if is_silent(&ip) => {}
                    _ => errors::no_such_protocol(out, &packet, &ip),
                }
            }
        }
        self.spare.put(packet);
    }

    /// Gives a datagram to its socket.
    fn udp(&mut self, mut packet: Packet, ip: Ip) {
        if self.relay.takes(&packet, &ip) {
            return match self.relay.hear(&mut self.out, &mut packet, ip) {
                Ok(()) => self.spare.put(packet),
                Err(why) => self.drop(why, packet),
            };
        }
        self.out.tally.datagrams_arrived += 1;
        let (from, to) = match udp::look(&mut self.out, &mut packet, ip) {
            Ok(ends) => ends,
            Err(why) => {
                self.out.tally.datagrams_damaged += 1;
                return self.drop(why, packet);
            }
        };
        if let Some(socket) = self.sockets.find(to, from) {
            return match self.sockets.put(socket, from, packet) {
                Ok(()) => self.out.tally.datagrams_in += 1,
                Err(packet) => self.drop(Drop::Full, packet),
            };
        }
        if let Some(lane) = self.ports.lane_of(to.port()) {
            self.out.tally.strays += 1;
            // A gateway's lane that has brought it here has found that it is ours: nobody looks at that again.
            packet.ip = packet.ip.map(|ip| Ip { is_brought: false, ..ip });
            return self.placing.leave(Leaving { to: lane, number: None, packet });
        }
        let ip = packet.ip.unwrap_or(ip);
        errors::no_such_port(&mut self.out, &packet, &ip);
        self.drop(Drop::Port, packet);
    }
}

/// Whether nobody is told that a protocol is not here: of IPv6, nothing follows (RFC 8200, section 4.7); of IPv4, IGMP asks a host that has joined no group
/// for nothing (RFC 1112, appendix I).
fn is_silent(ip: &Ip) -> bool {
    match ip.protocol {
        IpProtocol::NONE => ip.source.is_ipv6(),
        IpProtocol::IGMP => ip.source.is_ipv4(),
        _ => false,
    }
}
