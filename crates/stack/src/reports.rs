//! Groups of the link that are listened for: in which others ask for our addresses of IPv6 (RFC 4291, section 2.7.1). Switches that carry groups to listeners alone are
//! told of them, and routers that ask (MLD: RFC 2710, RFC 3810).
//!
//! No group of IPv4 is listened for but that of all systems, of which nobody is told (RFC 3376, section 5): so nothing is said by IGMP.

use crate::counts::Drop;
use crate::interface::group_mac;
use crate::outward::Outward;
use crate::packet::{Ip, Packet};
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::ethernet;
use corelane_wire::packet::mld::{self, Query, ROUTER_ALERT, ROUTERS};
use corelane_wire::packet::{EtherType, IpProtocol, ipv6};
use corelane_wire::xdr::Writer;
use std::iter::once;
use std::net::{IpAddr, Ipv6Addr};

/// Groups that one report names at the most: it is then within what each link of IPv6 carries.
const GROUPS_EACH: usize = 32;

/// Hears a query for listeners; false if the message is another. It is answered later, by this lane: a query comes to one. Only who is of the link may ask,
/// by a packet that has passed no router (RFC 3810, section 6.2).
pub(crate) fn hear_query(out: &mut Outward<'_>, packet: &Packet, ip: &Ip, message: &[u8]) -> bool {
    if !message.first().is_some_and(|kind| Query::is_kind(*kind)) {
        return false;
    }
    let is_of_link = matches!(ip.source, IpAddr::V6(source) if source.is_unicast_link_local());
    let head = &packet.first;
    let is_alert = head.get(7) == Some(&1) && head.get(6) == Some(&IpProtocol::HOP_BY_HOP.0);
    if !(is_of_link && is_alert && ip.tunnels == 0 && !ip.was_cut) {
        out.tally.drop(Drop::NotOurs);
        return true;
    }
    let (now, interface) = (out.now, &mut out.interfaces[packet.interface]);
    match Query::parse(message) {
        Err(_) => out.tally.drop(Drop::Malformed),
        Ok(query) if query.group.is_unspecified() || interface.listens_in(query.group) => {
            interface.listeners_mut().hear(now, &query);
        }
        Ok(_) => {}
    }
    true
}

/// Answers what was asked at an interface, if it is time.
pub(crate) fn answer_query(out: &mut Outward<'_>, interface: usize) {
    let Some(answer) = out.interfaces[interface].listeners_mut().take(out.now) else { return };
    match answer.is_v1 {
        true => out.interfaces[interface].groups().into_iter().for_each(|group| report_v1(out, interface, group)),
        false => report_groups(out, interface, false),
    }
}

/// Says that the groups are listened for: it is new, or an answer.
pub(crate) fn report_groups(out: &mut Outward<'_>, interface: usize, is_new: bool) {
    for groups in out.interfaces[interface].groups().chunks(GROUPS_EACH) {
        say_of_groups(out, interface, ROUTERS, mld::report_bytes(groups.len()), |addresses, to| {
            mld::emit_report(groups, is_new, addresses, to)
        });
    }
}

fn report_v1(out: &mut Outward<'_>, interface: usize, group: Ipv6Addr) {
    say_of_groups(out, interface, group, mld::report_bytes(0) + size_of::<Ipv6Addr>(), |addresses, to| {
        mld::emit_report_v1(group, addresses, to)
    });
}

/// Sends a report of so many bytes to a group.
fn say_of_groups(
    out: &mut Outward<'_>,
    interface: usize,
    destination: Ipv6Addr,
    length: usize,
    report: impl FnOnce(&Addresses, &mut Writer<'_>) -> Result<(), corelane_wire::Error>,
) {
    let at = &out.interfaces[interface];
    let Some(mut frame) = at.memory().frame() else { return out.tally.unsent_at(interface, Drop::Frames, 1) };
    frame.set_length(ethernet::Header::BYTES + ipv6::Header::BYTES + ROUTER_ALERT.len() + length);
    let writer = &mut Writer::new(&mut frame);
    // One who has no address of the link says so (RFC 3810, section 5.2.13).
    let source = at.own_v6().find(Ipv6Addr::is_unicast_link_local).unwrap_or(Ipv6Addr::UNSPECIFIED);
    let (traffic, label) = Default::default();
    let (next, hops) = (IpProtocol::HOP_BY_HOP, 1);
    let to = group_mac(destination);
    let written = ethernet::Header { destination: to, source: at.mac(), protocol: EtherType::IPV6 }
        .emit(writer)
        .and_then(|()| ipv6::Header { traffic, label, next, hops, source, destination }.emit(ROUTER_ALERT.len() + length, writer))
        .and_then(|()| writer.put(&ROUTER_ALERT))
        .and_then(|()| report(&Addresses::V6 { source, destination }, writer));
    assert!(written.is_ok() && writer.room() == 0, "a frame holds a report: {written:?}");
    out.tally.reports_sent += 1;
    out.send_to(interface, to, once(frame));
}
