//! Groups of the link that are listened for: in which others ask for our addresses of IPv6 (RFC 4291, section 2.7.1). Switches that carry groups to listeners alone are
//! told of them, and routers that ask (MLD: RFC 2710, RFC 3810).
//!
//! No group of IPv4 is listened for but that of all systems, of which nobody is told (RFC 3376, section 5): so nothing is said by IGMP.

use crate::counts::Drop;
use crate::link::{group_mac, solicited};
use crate::packet::{Ip, Packet};
use crate::path::Path;
use crate::presence::Answer;
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::ethernet;
use corelane_wire::packet::mld::{self, Query, ROUTER_ALERT, ROUTERS};
use corelane_wire::packet::{EtherType, IpProtocol, ipv6};
use corelane_wire::xdr::Writer;
use std::iter::once;
use std::net::{IpAddr, Ipv6Addr};

/// Groups that one report names at the most: it is then within what each link of IPv6 carries.
const GROUPS_EACH: usize = 32;
/// Nanoseconds of a millisecond.
const MILLISECOND: u64 = 1_000_000;

/// A moment within the time in which to answer, so that not all of a link speak at once; some of that time is left for the way.
fn moment(now: u64, query: &Query, draw: u64) -> u64 {
    now + draw % (u64::from(query.delay) * MILLISECOND * 3 / 4).max(1)
}

impl Path {
    /// Hears a query for listeners; false if the message is another. It is answered later, by this lane: a query comes to one. Only who is of the link may ask,
    /// by a packet that has passed no router (RFC 3810, section 6.2).
    pub fn hear_query(&mut self, packet: &Packet, ip: &Ip, message: &[u8]) -> bool {
        if !message.first().is_some_and(|kind| Query::is_kind(*kind)) {
            return false;
        }
        let is_of_link = matches!(ip.source, IpAddr::V6(source) if source.is_unicast_link_local());
        let head = &packet.first;
        let is_alert = head.get(7) == Some(&1) && head.get(6) == Some(&IpProtocol::HOP_BY_HOP.0);
        if !(is_of_link && is_alert && ip.tunnels == 0 && !ip.was_cut) {
            self.counts.drop(Drop::NotOurs);
            return true;
        }
        match Query::parse(message) {
            Err(_) => self.counts.drop(Drop::Malformed),
            Ok(query) if query.group.is_unspecified() || self.is_solicited(query.group) => self.answer_later(&query),
            Ok(_) => {}
        }
        true
    }

    fn answer_later(&mut self, query: &Query) {
        self.drawn = self.drawn.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let due = moment(self.now, query, self.drawn >> 16);
        // One that is to be given earlier answers this as well.
        let is_earlier = self.answer.is_none_or(|answer| due < answer.due);
        if is_earlier {
            self.answer = Some(Answer { due, is_v1: query.is_v1 });
        }
    }

    /// Answers what was asked, if it is time.
    pub fn answer_query(&mut self) {
        let Some(answer) = self.answer.take_if(|answer| answer.due <= self.now) else { return };
        match answer.is_v1 {
            true => self.groups().into_iter().for_each(|group| self.report_v1(group)),
            false => self.report_groups(false),
        }
    }

    /// The groups, each once.
    fn groups(&self) -> Vec<Ipv6Addr> {
        let mut groups: Vec<_> = self.routes.own_v6().map(solicited).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Says that the groups are listened for: it is new, or an answer.
    pub fn report_groups(&mut self, is_new: bool) {
        for groups in self.groups().chunks(GROUPS_EACH) {
            self.say_of_groups(ROUTERS, mld::report_bytes(groups.len()), |addresses, to| {
                mld::emit_report(groups, is_new, addresses, to)
            });
        }
    }

    fn report_v1(&mut self, group: Ipv6Addr) {
        self.say_of_groups(group, mld::report_bytes(0) + size_of::<Ipv6Addr>(), |addresses, to| {
            mld::emit_report_v1(group, addresses, to)
        });
    }

    /// Sends a report of so many bytes to a group.
    fn say_of_groups(
        &mut self,
        destination: Ipv6Addr,
        length: usize,
        report: impl FnOnce(&Addresses, &mut Writer<'_>) -> Result<(), corelane_wire::Error>,
    ) {
        let Some(mut frame) = self.memory.frame() else { return self.counts.drop(Drop::Frames) };
        frame.set_length(ethernet::Header::BYTES + ipv6::Header::BYTES + ROUTER_ALERT.len() + length);
        let writer = &mut Writer::new(&mut frame);
        // One who has no address of the link says so (RFC 3810, section 5.2.13).
        let source = self.routes.own_v6().find(Ipv6Addr::is_unicast_link_local).unwrap_or(Ipv6Addr::UNSPECIFIED);
        let (traffic, label) = Default::default();
        let (next, hops) = (IpProtocol::HOP_BY_HOP, 1);
        let to = group_mac(destination);
        let written = ethernet::Header { destination: to, source: self.mac, protocol: EtherType::IPV6 }
            .emit(writer)
            .and_then(|()| {
                ipv6::Header { traffic, label, next, hops, source, destination }.emit(ROUTER_ALERT.len() + length, writer)
            })
            .and_then(|()| writer.put(&ROUTER_ALERT))
            .and_then(|()| report(&Addresses::V6 { source, destination }, writer));
        assert!(written.is_ok() && writer.room() == 0, "a frame holds a report: {written:?}");
        self.counts.reports_sent += 1;
        self.send_to(to, once(frame));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_given_within_its_time() {
        let query = |delay| Query { group: Ipv6Addr::UNSPECIFIED, delay, is_v1: false };
        for draw in (0..10_000).map(|number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            assert!((5..5 + 1000 * MILLISECOND).contains(&moment(5, &query(1000), draw)));
            assert_eq!(moment(5, &query(0), draw), 5);
        }
    }
}
