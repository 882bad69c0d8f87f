//! What a gateway does with a packet, step by step: it is judged, translated, and sent on if it is for somebody else.

use super::answer::{Answer, answer};
use super::leaving::{leave, mtu};
use super::{Forwarding, change, cut, martians, offload};
use crate::counts::Drop;
use crate::icmp::errors::{self, Wrong};
use crate::icmp::options;
use crate::judging::interface;
use crate::outward::{Outward, Speaker};
use crate::packet::{HEADER_BYTES_V6, Ip, Packet, chain_of};
use crate::placing::Placing;
use crate::routes::{Routes, Way};
use crate::settings::{MssClamp, ReversePath};
use crate::sockets::Sockets;
use crate::translation::Translation;
use corelane_isr::reassembly;
use corelane_nat::Verdict;
use corelane_rules::{Direction, Facts};
use corelane_wire::packet::{EtherType, IpProtocol, Packet as Walk, ipv4};
use std::cell::Cell;
use std::net::SocketAddr;

/// Bytes of the header of TCP without options.
const TCP_BYTES: usize = 20;
/// An odd number that mixes a flow's hash, so that which of several ways it takes has nothing to do with its lane.
const MIXER: u32 = 0x9e37_79b9;

/// What comes next of a packet that goes further.
pub(crate) enum Next {
    /// It is for us: a transport has it.
    Ours,
    /// It has left; its storage has no frames.
    Left,
    /// It is for an external port of that lane's.
    Elsewhere(usize),
}

/// All that it takes.
pub(crate) struct Passing<'r, 'o> {
    pub out: &'r mut Outward<'o>,
    pub own: &'r mut Forwarding,
    pub translation: Option<&'r mut Translation>,
    pub placing: &'r Placing,
    pub sockets: &'r Sockets,
}

/// How far a packet is.
struct Progress {
    /// As it came, and as it is now.
    came: Ip,
    ip: Ip,
    /// What rules have seen of it when it came.
    facts: Option<Facts>,
    /// Its destination is another than it was.
    is_translated: bool,
}

impl Passing<'_, '_> {
    /// A packet that has come.
    ///
    /// # Errors
    /// Why it goes no further; its sender has heard, where he is to.
    pub fn come(&mut self, packet: &mut Packet, came: &Ip) -> Result<Next, Drop> {
        let mut progress = Progress { came: *came, ip: *came, facts: None, is_translated: false };
        if came.passes && !came.is_brought {
            self.check(packet, &progress)?;
        }
        // What keeps a link going is no matter of rules: whoever denies all still has neighbours, of either family.
        let is_judged = !came.is_brought && (came.passes || !packet.is_of_link(came));
        progress.facts = if is_judged { self.judge_in(packet, came)? } else { None };
        let verdict = self.translate_in(packet, &mut progress.ip)?;
        progress.is_translated = verdict == Verdict::Translated;
        let is_checked = came.passes || came.is_brought || came.is_own_word;
        if matches!(verdict, Verdict::Translated | Verdict::Elsewhere(_)) && !is_checked {
            self.check(packet, &progress)?;
        }
        match verdict {
            Verdict::Untouched if !came.passes => return Ok(Next::Ours),
            // An external address that is not our own is nobody else's: sent on, it would come back, and begin a session for a stranger.
            Verdict::Untouched if self.is_external(came) => {
                if self.is_from_inside(packet, came) {
                    self.tell(packet, &progress, Wrong::Host);
                }
                return Err(Drop::Translation);
            }
            Verdict::Untouched => {}
            Verdict::Translated => progress.ip.passes = true,
            // A socket of ours may have the port, too.
            Verdict::Elsewhere(_) if self.has_socket(packet, came) => return Ok(Next::Ours),
            // Once is enough.
            Verdict::Elsewhere(lane) if !came.is_brought => {
                packet.ip = Some(Ip { is_brought: true, ..progress.ip });
                return Ok(Next::Elsewhere(lane));
            }
            Verdict::Elsewhere(_) | Verdict::Refused(_) => return Err(Drop::Translation),
        }
        self.pass(packet, &progress).map(|()| Next::Left)
    }

    /// Checks a packet as it came, and tells its sender what is wrong with it, as he knows it.
    fn check(&mut self, packet: &Packet, progress: &Progress) -> Result<(), Drop> {
        let Err((why, wrong)) = check(self.out.routes, packet, &progress.came) else { return Ok(()) };
        wrong.into_iter().for_each(|wrong| self.tell(packet, progress, wrong));
        Err(why)
    }

    fn judge_in(&mut self, packet: &Packet, ip: &Ip) -> Result<Option<Facts>, Drop> {
        let Some(facts) = self.out.judging.facts(self.out.routes, packet, ip) else { return Ok(None) };
        let Some(answer) = answer(self.out.judging.judge(self.out.now, &facts), &facts) else { return Ok(Some(facts)) };
        match answer {
            Answer::Nothing => {}
            Answer::Error(wrong) => errors::tell_sender(self.out, &packet.first, ip, wrong),
            Answer::Reset => errors::reset(self.out, (packet, ip), (&packet.first, ip), Speaker::Rules),
        }
        Err(Drop::Judged)
    }

    /// Judges a packet that is about to leave by that interface, as it is before its source is translated.
    fn judge_out(&mut self, packet: &Packet, progress: &Progress, leaves_by: usize) -> Result<(), Drop> {
        let facts = match progress.facts.filter(|_| !progress.is_translated) {
            Some(facts) => facts,
            None => match self.out.judging.facts(self.out.routes, packet, &progress.ip) {
                Some(facts) => facts,
                None => return Ok(()),
            },
        };
        let facts = Facts { direction: Direction::Out, transmit: interface(leaves_by), ..facts };
        let Some(answer) = answer(self.out.judging.judge(self.out.now, &facts), &facts) else { return Ok(()) };
        match answer {
            Answer::Nothing => {}
            Answer::Error(wrong) => self.tell(packet, progress, wrong),
            Answer::Reset => self.reset(packet, progress),
        }
        Err(Drop::Judged)
    }

    /// Translates a packet that is for an external address: what comes from outside, and what an inside host sends there (RFC 4787, REQ-9).
    fn translate_in(&mut self, packet: &mut Packet, ip: &mut Ip) -> Result<Verdict, Drop> {
        let Some(translation) = &mut self.translation else { return Ok(Verdict::Untouched) };
        let interface = packet.interface;
        if ip.is_part || !self.out.interfaces[interface].forwards() || !translation.is_external(ip.destination) {
            return Ok(Verdict::Untouched);
        }
        if !change::finish_sum(packet, ip, self.out.leaves_sums(interface)) {
            return Err(Drop::Malformed);
        }
        // Whether what comes from outside is for a socket is known when it is of no session; an inside host's may begin one.
        let from_inside = self.is_from_inside(packet, ip);
        if from_inside && self.has_socket(packet, ip) {
            return Ok(Verdict::Untouched);
        }
        let Some(translation) = &mut self.translation else { return Ok(Verdict::Untouched) };
        let placing = self.placing;
        Ok(translation.come(self.out.now, packet, ip, from_inside, |flow| placing.lane_of(flow) == placing.lane()))
    }

    /// Whether an inside interface has brought a packet, and neither another lane nor the stack itself.
    fn is_from_inside(&self, packet: &Packet, ip: &Ip) -> bool {
        let is_outside = self.translation.as_ref().is_some_and(|translation| translation.is_outside(packet.interface));
        !(ip.is_brought || ip.is_own_word || is_outside)
    }

    /// Whether a packet is for an address with which inside hosts appear.
    fn is_external(&self, ip: &Ip) -> bool {
        self.translation.as_ref().is_some_and(|translation| translation.is_external(ip.destination))
    }

    /// Whether a socket of ours gets a datagram.
    fn has_socket(&self, packet: &Packet, ip: &Ip) -> bool {
        let head = packet.transport(ip).next().and_then(|first| first.first_chunk::<4>());
        let Some([a, b, c, d]) = head.filter(|_| ip.protocol == IpProtocol::UDP && !ip.passes) else { return false };
        let end = |address, port| SocketAddr::new(address, u16::from_be_bytes(port));
        self.sockets.find(end(ip.destination, [*c, *d]), end(ip.source, [*a, *b])).is_some()
    }

    /// Sends a packet on.
    fn pass(&mut self, packet: &mut Packet, progress: &Progress) -> Result<(), Drop> {
        let (ip, came_by) = (&progress.ip, packet.interface);
        self.check_reverse(packet, progress)?;
        let (secret, placing) = (self.own.secret, self.placing);
        // Where one of several ways is drawn, the next flow may go another.
        let is_drawn = Cell::new(false);
        let draw = || {
            is_drawn.set(true);
            (placing.hash_of(packet, ip) ^ secret).wrapping_mul(MIXER)
        };
        let Some(way) = self.out.routes.way_of_flow(ip.destination, draw) else {
            self.tell(packet, progress, Wrong::Network);
            return Err(Drop::NoRoute);
        };
        if change::hops(packet, ip) <= 1 {
            self.tell(packet, progress, Wrong::Hops);
            return Err(Drop::Hops);
        }
        let (length, mtu) = (ip.head + ip.length, mtu(self.out.interfaces, way.interface));
        // What was put together here may be cut again: the whole does not say who wanted to keep what.
        if length > mtu && (ip.source.is_ipv6() || cut::is_kept_whole(packet)) {
            self.tell(packet, progress, Wrong::TooBig { most: mtu });
            return Err(Drop::TooBig);
        }
        self.judge_out(packet, progress, way.interface)?;
        // Our own words, and what another lane has brought, go on only where they were translated.
        let depends_on_more = is_drawn.get() || progress.is_translated || self.is_translated_by(ip, &way);
        let ip = self.change_for(packet, progress, &way)?;
        let station = leave(self.out, packet, &ip, way, mtu)?;
        self.own.count(came_by, way.interface, length);
        if let Some(station) = station.filter(|_| !depends_on_more) {
            let clamps = [came_by, way.interface].map(|at| self.own.roles[at].mss != MssClamp::Off);
            offload::tell(self.out, &ip, (came_by, &way), mtu, station, clamps);
        }
        Ok(())
    }

    /// Whether the translation has to do with what goes such a way. What is for an external address has been translated by now, or has gone no further.
    fn is_translated_by(&self, ip: &Ip, way: &Way) -> bool {
        ip.source.is_ipv4() && self.translation.as_ref().is_some_and(|translation| translation.is_outside(way.interface))
    }

    /// Whether the sender is one from whom packets may come by the interface. What another lane has brought from inside has our address by now.
    fn check_reverse(&self, packet: &Packet, progress: &Progress) -> Result<(), Drop> {
        let (from, reverse) = (progress.came.source, self.own.roles[packet.interface].reverse_path);
        let is_any =
            reverse == ReversePath::Off || progress.came.is_own_word || progress.came.is_brought && self.out.routes.is_own(from);
        match is_any || self.out.routes.is_expected(from, packet.interface, reverse == ReversePath::Strict) {
            true => Ok(()),
            false => Err(Drop::ReversePath),
        }
    }

    /// Changes what a router changes in a packet that leaves so; what it is then.
    fn change_for(&mut self, packet: &mut Packet, progress: &Progress, way: &Way) -> Result<Ip, Drop> {
        let ip = progress.ip;
        if !change::finish_sum(packet, &ip, self.out.leaves_sums(packet.interface)) {
            return Err(Drop::Malformed);
        }
        if ip.protocol == IpProtocol::TCP && !ip.is_part {
            let heads = TCP_BYTES + if ip.source.is_ipv4() { ipv4::Header::BYTES } else { HEADER_BYTES_V6 };
            let most = |interface: usize| match self.own.roles[interface].mss {
                MssClamp::Off => None,
                MssClamp::ToMtu => Some(mtu(self.out.interfaces, interface).saturating_sub(heads).min(u16::MAX.into()) as u16),
                MssClamp::To(most) => Some(most),
            };
            let most = most(packet.interface).into_iter().chain(most(way.interface)).min();
            most.into_iter().for_each(|most| change::clamp_mss(packet, &ip, most));
        }
        let ip = if progress.is_translated { ip } else { self.translate_out(packet, ip, way.interface)? };
        change::take_hop(packet, &ip);
        Ok(ip)
    }

    /// Translates the source of a packet that leaves by an outside interface; what it is then. No address of an inside host leaves.
    fn translate_out(&mut self, packet: &mut Packet, mut ip: Ip, leaves_by: usize) -> Result<Ip, Drop> {
        let Some(translation) = self.translation.as_mut().filter(|one| one.is_outside(leaves_by) && ip.source.is_ipv4()) else {
            return Ok(ip);
        };
        let placing = self.placing;
        match translation.leave(self.out.now, packet, &mut ip, |flow| placing.lane_of(flow) == placing.lane()) {
            Verdict::Translated => Ok(ip),
            Verdict::Untouched if translation.is_external(ip.source) => Ok(ip),
            _ => Err(Drop::Translation),
        }
    }

    /// Tells the sender of a packet what is wrong with it, as he knows it.
    fn tell(&mut self, packet: &Packet, progress: &Progress, wrong: Wrong) {
        let Progress { came, ip, is_translated, .. } = progress;
        let Some(translation) = self.translation.as_mut().filter(|_| *is_translated) else {
            return errors::tell_sender(self.out, &packet.first, came, wrong);
        };
        if let Some(known) = translation.as_sent(self.out.now, &packet.first, ip) {
            errors::tell_sender(self.out, known.packet(), &Ip { passes: came.passes, ..known.ip }, wrong);
        }
    }

    /// Resets the connection of a packet, in the name of whom its sender means.
    fn reset(&mut self, packet: &Packet, progress: &Progress) {
        let Progress { ip, is_translated, .. } = progress;
        match self.translation.as_mut().filter(|_| *is_translated) {
            None => errors::reset(self.out, (packet, ip), (&packet.first, ip), Speaker::Rules),
            Some(translation) => {
                let known = translation.as_sent(self.out.now, &packet.first, ip);
                let known = known.as_ref().map(|known| (known.packet(), &known.ip));
                known.into_iter().for_each(|known| errors::reset(self.out, (packet, ip), known, Speaker::Rules));
            }
        }
    }
}

/// Whether a packet may be forwarded, as it came: its addresses are of hosts, a fragment hides nothing from rules (RFC 1858, RFC 3128, RFC 7112), and no route of the sender's is in
/// it (RFC 7126, section 4.3; RFC 5095). If not, why, and what its sender hears.
fn check(routes: &Routes, packet: &Packet, ip: &Ip) -> Result<(), (Drop, Option<Wrong>)> {
    let is_ours = routes.is_own(ip.source) || routes.is_broadcast(ip.source);
    if is_ours || routes.is_broadcast(ip.destination) || !martians::may_pass(ip.source, ip.destination) {
        return Err((Drop::Martian, None));
    }
    if ip.is_part && !is_fit(packet, ip) {
        return Err((Drop::Malformed, None));
    }
    if ip.source.is_ipv6() {
        return if ip.head > HEADER_BYTES_V6 && has_route(packet, ip) { Err((Drop::SourceRoute, None)) } else { Ok(()) };
    }
    if ip.head == ipv4::Header::BYTES {
        return Ok(());
    }
    match options::look(packet.first.get(..ip.head).unwrap_or_default()) {
        None => Ok(()),
        Some(options::Unfit::Wrong { at }) => Err((Drop::Malformed, Some(Wrong::Option { at }))),
        Some(options::Unfit::Route | options::Unfit::RouteEnded) => Err((Drop::SourceRoute, Some(Wrong::Route))),
    }
}

/// Whether a fragment can be part of a datagram. A fragment of a fragment is nothing that a sender makes.
fn is_fit(packet: &Packet, ip: &Ip) -> bool {
    let kind = if ip.source.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    let missing = (ip.head + ip.length).saturating_sub(packet.first.len());
    let is_nested = packet.chain_behind(ip).is_some_and(|chain| chain.is_part());
    let walk = Walk::of_network_front(kind, &packet.first, missing);
    !is_nested && walk.is_ok_and(|walk| reassembly::unfit(&walk, missing).is_none())
}

/// Whether a route of the sender's is among the extension headers of a packet of IPv6: of a first fragment, also among those that are cut with the data.
fn has_route(packet: &Packet, ip: &Ip) -> bool {
    let is_before = chain_of(&packet.first).is_none_or(|chain| chain.has_route());
    is_before || packet.chain_behind(ip).is_some_and(|chain| chain.has_route())
}
