//! Forwarding: packets that are for somebody else go on, where the settings say so of the interface that they came by.
//!
//! ```text
//! martians, options --judge in--> reverse path --> route (its group by the flow) --> hops --> length --judge out--> sums, one hop less --> cut? --> neighbour, tags, port
//! ```
//!
//! Off by default. A packet is changed where it lies, and leaves in the frame that it came in; a port with other memory copies it. Fragments go on as they came. What is looked
//! at comes from this packet alone, so nothing is kept of a flow, and its packets stay on its lane and in order.
//!
//! No redirect is sent (RFC 1812, section 5.2.7.2): whoever takes the longer way is served all the same. Options that ask for a record are passed on as they are.

mod change;
mod cut;
mod judging;
mod martians;

use crate::counts::Drop;
use crate::icmp::errors::{self, Wrong};
use crate::icmp::options;
use crate::interfaces::Interfaces;
use crate::outward::Outward;
use crate::packet::{HEADER_BYTES_V6, Ip, Packet, chain_of};
use crate::routes::Way;
use crate::settings::{MssClamp, ReversePath, Settings};
use corelane_rules::{Direction, Facts, RuleSet};
use corelane_seam::{Frame, FrameMemory};
use corelane_wire::packet::ethernet::{self, Mac};
use corelane_wire::packet::{EtherType, IpProtocol, Packet as Walk, ipv4};
use judging::{Answer, Judging, interface};
use std::iter::once;
use std::sync::Arc;

/// Bytes of the header of TCP without options.
const TCP_BYTES: usize = 20;
/// Bytes that a frame needs in front of its packet: a header of the link and two tags.
const FRONT_BYTES: usize = ethernet::Header::BYTES + 8;
/// The part of a port's frames of which so many may wait to be sent: what is forwarded beyond is dropped.
const OUTGOING_PART: usize = 4;
/// An odd number that mixes a flow's hash, so that which of several ways it takes has nothing to do with its lane.
const MIXER: u32 = 0x9e37_79b9;

/// What was forwarded at one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Packets that came by it and went on, and their bytes without the link's headers.
    pub packets_in: u64,
    /// See there.
    pub bytes_in: u64,
    /// Packets that left by it, and their bytes.
    pub packets_out: u64,
    /// See there.
    pub bytes_out: u64,
}

/// What is set of an interface.
#[derive(Clone, Copy, Debug)]
struct Role {
    reverse_path: ReversePath,
    mss: MssClamp,
}

/// The owner of what forwarding needs.
#[derive(Debug)]
pub(crate) struct Forwarding {
    roles: Vec<Role>,
    traffic: Vec<Traffic>,
    judging: Judging,
    /// Packets are forwarded at one of the interfaces, or judged.
    is_on: bool,
    secret: u32,
}

impl Forwarding {
    pub fn new(settings: &Settings) -> Self {
        let role = |one: &crate::settings::InterfaceSettings| Role { reverse_path: one.reverse_path, mss: one.mss };
        Self {
            roles: settings.interfaces.iter().map(role).collect(),
            traffic: vec![Traffic::default(); settings.interfaces.len()],
            judging: Judging::new(settings),
            is_on: settings.rules.is_some() || settings.interfaces.iter().any(|one| one.forwards),
            secret: settings.secret as u32,
        }
    }

    /// These rules are in force from now on.
    pub fn set_rules(&mut self, rules: Arc<RuleSet>) {
        self.judging.set_rules(rules);
        self.is_on = true;
    }

    /// The rules, and what packets leave behind of them.
    pub const fn judging(&self) -> &Judging {
        &self.judging
    }

    /// The same, to be told something.
    pub const fn judging_mut(&mut self) -> &mut Judging {
        &mut self.judging
    }

    /// Whether packets are forwarded or judged at all.
    pub const fn is_on(&self) -> bool {
        self.is_on
    }

    /// What was forwarded at each interface.
    pub fn all_traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// What was forwarded at an interface.
    pub fn traffic(&self, interface: usize) -> Option<Traffic> {
        self.traffic.get(interface).copied()
    }
}

/// Judges a packet that has come in; what rules have seen of it, if there are any.
///
/// # Errors
/// It goes no further.
pub(crate) fn judge_in(out: &mut Outward<'_>, own: &mut Forwarding, packet: &Packet, ip: &Ip) -> Result<Option<Facts>, Drop> {
    let Some(facts) = own.judging.facts(out.routes, packet, ip) else { return Ok(None) };
    judge(out, own, &facts, (packet, ip)).map(|()| Some(facts))
}

/// Judges a packet of which that is seen; its sender hears what he is to.
fn judge(out: &mut Outward<'_>, own: &mut Forwarding, facts: &Facts, (packet, ip): (&Packet, &Ip)) -> Result<(), Drop> {
    let Err(answer) = own.judging.judge(out.now, facts) else { return Ok(()) };
    match answer {
        Answer::Nothing => {}
        Answer::Error(wrong) => errors::tell_sender(out, &packet.first, ip, wrong),
        Answer::Reset => errors::no_such_connection(out, packet, ip),
    }
    Err(Drop::Judged)
}

/// Sends a packet on that is for somebody else; `draw` is asked for its flow's hash where there are several ways. What is left of it has no frames, if it went.
///
/// # Errors
/// Why it goes no further; its sender has heard, where he is to.
pub(crate) fn pass(
    out: &mut Outward<'_>,
    own: &mut Forwarding,
    packet: &mut Packet,
    ip: &Ip,
    draw: impl FnOnce(&Packet) -> u32,
) -> Result<(), Drop> {
    let came_by = packet.interface;
    is_sound(out, packet, ip)?;
    let facts = judge_in(out, own, packet, ip)?;
    let reverse = own.roles[came_by].reverse_path;
    if reverse != ReversePath::Off && !out.routes.is_expected(ip.source, came_by, reverse == ReversePath::Strict) {
        return Err(Drop::ReversePath);
    }
    let secret = own.secret;
    let way = out.routes.way_of_flow(ip.destination, || (draw(packet) ^ secret).wrapping_mul(MIXER));
    let Some(way) = way else {
        errors::tell_sender(out, &packet.first, ip, Wrong::Network);
        return Err(Drop::NoRoute);
    };
    if change::hops(packet, ip) <= 1 {
        errors::tell_sender(out, &packet.first, ip, Wrong::Hops);
        return Err(Drop::Hops);
    }
    let (length, mtu) = (ip.head + ip.length, mtu(out.interfaces, way.interface));
    if length > mtu && (ip.source.is_ipv6() || cut::is_kept_whole(packet)) {
        errors::tell_sender(out, &packet.first, ip, Wrong::TooBig { most: mtu });
        return Err(Drop::TooBig);
    }
    if let Some(facts) = facts {
        let facts = Facts { direction: Direction::Out, transmit: interface(way.interface), ..facts };
        judge(out, own, &facts, (packet, ip))?;
    }
    change_for(out, own, packet, ip, way.interface)?;
    leave(out, packet, ip, way, mtu)?;
    own.traffic[came_by].packets_in += 1;
    own.traffic[came_by].bytes_in += length as u64;
    own.traffic[way.interface].packets_out += 1;
    own.traffic[way.interface].bytes_out += length as u64;
    Ok(())
}

/// Bytes of the longest packet of IP that leaves by an interface.
fn mtu(interfaces: &Interfaces, interface: usize) -> usize {
    interfaces[interface].packet_bytes() - ethernet::Header::BYTES
}

/// Whether a packet may be forwarded at all: its addresses are of hosts, and no route of the sender's is in it (RFC 7126, section 4.3; RFC 5095).
fn is_sound(out: &mut Outward<'_>, packet: &Packet, ip: &Ip) -> Result<(), Drop> {
    let is_ours = out.routes.is_own(ip.source) || out.routes.is_broadcast(ip.source);
    if is_ours || out.routes.is_broadcast(ip.destination) || !martians::may_pass(ip.source, ip.destination) {
        return Err(Drop::Martian);
    }
    if ip.source.is_ipv6() {
        let has_route = ip.head > HEADER_BYTES_V6 && chain_of(&packet.first).is_none_or(|chain| chain.has_route());
        return if has_route { Err(Drop::SourceRoute) } else { Ok(()) };
    }
    if ip.head == ipv4::Header::BYTES {
        return Ok(());
    }
    match options::look(packet.first.get(..ip.head).unwrap_or_default()) {
        None => Ok(()),
        Some(options::Unfit::Wrong { at }) => {
            errors::tell_sender(out, &packet.first, ip, Wrong::Option { at });
            Err(Drop::Malformed)
        }
        Some(options::Unfit::Route | options::Unfit::RouteEnded) => {
            errors::tell_sender(out, &packet.first, ip, Wrong::Route);
            Err(Drop::SourceRoute)
        }
    }
}

/// Changes what a router changes in a packet that leaves by that interface.
fn change_for(out: &Outward<'_>, own: &Forwarding, packet: &mut Packet, ip: &Ip, leaves_by: usize) -> Result<(), Drop> {
    if !change::finish_sum(packet, ip, out.leaves_sums(packet.interface)) {
        return Err(Drop::Malformed);
    }
    if ip.protocol == IpProtocol::TCP && !ip.is_part {
        let heads = TCP_BYTES + if ip.source.is_ipv4() { ipv4::Header::BYTES } else { HEADER_BYTES_V6 };
        let most = |interface: usize| match own.roles[interface].mss {
            MssClamp::Off => None,
            MssClamp::ToMtu => Some(mtu(out.interfaces, interface).saturating_sub(heads).min(u16::MAX.into()) as u16),
            MssClamp::To(most) => Some(most),
        };
        let most = most(packet.interface).into_iter().chain(most(leaves_by)).min();
        most.into_iter().for_each(|most| change::clamp_mss(packet, ip, most));
    }
    change::take_hop(packet, ip);
    Ok(())
}

/// Sends a packet by its way: in the frames that it lies in, or in fragments.
fn leave(out: &mut Outward<'_>, packet: &mut Packet, ip: &Ip, way: Way, mtu: usize) -> Result<(), Drop> {
    let (at, length) = (&out.interfaces[way.interface], ip.head + ip.length);
    let (memory, mac, trunk) = (at.memory(), at.mac(), &out.trunks[at.port()]);
    let room = (memory.frames() / OUTGOING_PART).saturating_sub(trunk.outgoing());
    let protocol = if ip.source.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    let mut frames = if length > mtu {
        cut::cut(memory, packet, ip, mtu).ok_or(Drop::Frames)?
    } else if fits(memory, packet) {
        with_front(packet, length)
    } else {
        cut::relaid(memory, packet, length).ok_or(Drop::Frames)?
    };
    if length <= mtu && frames.len() > trunk.pieces_max() {
        return Err(Drop::Pieces);
    }
    if frames.len() > room {
        return Err(Drop::Outgoing);
    }
    out.tally.forwarded += 1;
    if length > mtu {
        out.tally.fragments_out += frames.len() as u64;
        for mut fragment in frames.drain(..) {
            head(&mut fragment[..ethernet::Header::BYTES], mac, protocol);
            out.send_by(way.interface, way.hop, once(fragment));
        }
    } else {
        head(&mut frames[0][..ethernet::Header::BYTES], mac, protocol);
        out.send_by(way.interface, way.hop, frames.drain(..));
    }
    // The storage is the packet's again.
    if packet.rest.capacity() == 0 {
        packet.rest = frames;
    }
    Ok(())
}

/// Whether a packet can leave in the frames that it lies in: what lies in other memory is copied by the port, frame by frame.
fn fits(memory: &FrameMemory, packet: &Packet) -> bool {
    let room = memory.frame_bytes() - Frame::HEADROOM;
    let first = memory.has(&packet.first) || packet.first.len() + FRONT_BYTES <= room;
    let fits = |frame: &Frame| memory.has(frame) || frame.len() <= room;
    packet.first.headroom() >= FRONT_BYTES && first && packet.rest.iter().all(fits)
}

/// The frames of a packet, cut to so many bytes, with room for a header of the link and without what their source said of one.
fn with_front(packet: &mut Packet, length: usize) -> Vec<Frame> {
    let mut frames = std::mem::take(&mut packet.rest);
    frames.insert(0, std::mem::take(&mut packet.first));
    let mut left = length;
    frames.retain_mut(|frame| {
        let some = frame.len().min(left);
        frame.set_length(some);
        left -= some;
        frame.facts.vlan = None;
        frame.facts.continues = left > 0;
        some > 0
    });
    frames[0].prepend(&[0; ethernet::Header::BYTES]);
    frames
}

/// Writes a header of the link, of which the destination is told later.
fn head(bytes: &mut [u8], source: Mac, protocol: EtherType) {
    bytes[6..12].copy_from_slice(&source.0);
    bytes[12..].copy_from_slice(&protocol.number().to_be_bytes());
}

/// A packet has waited for a neighbour who did not answer, and is dropped: its sender hears so, if he is not we (RFC 1812, section 4.3.3.1; RFC 4861, section 7.2.2).
pub(crate) fn tell_lost(out: &mut Outward<'_>, frame: &Frame) {
    let packet = frame.get(ethernet::Header::BYTES..).unwrap_or_default();
    let protocol = if packet.first().is_some_and(|first| first >> 4 == 6) { EtherType::IPV6 } else { EtherType::IPV4 };
    let missing = if frame.facts.continues { usize::from(u16::MAX) } else { 0 };
    let ip = Walk::of_network_front(protocol, packet, missing).ok().and_then(|walk| Ip::of(&walk, false));
    if let Some(ip) = ip.filter(|ip| !out.routes.is_own(ip.source)) {
        errors::tell_sender(out, packet, &ip, Wrong::Host);
    }
}
