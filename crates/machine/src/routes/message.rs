//! Routes as rtnetlink(7) tells them (`linux/rtnetlink.h`).

use corelane_os::netlink::{Attributes, half, word};
use std::io;
use std::net::IpAddr;

/// `struct rtmsg`, and `struct rtnexthop`.
pub(super) const ROUTE_BYTES: usize = 12;
const HOP_BYTES: usize = 8;
/// A route that leads to hosts (`RTN_UNICAST`); one that was made for a single destination (`RTM_F_CLONED`); a hop that is not there now (`RTNH_F_DEAD`).
const UNICAST: u8 = 1;
const CLONED: u32 = 0x200;
const DEAD: u8 = 1;
/// What is put around a route's packets. A router of another family stands in an attribute of its own (`RTA_VIA`).
const ENCAPSULATION: u16 = 22;

/// A prefix: its first address, and its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Prefix {
    pub address: IpAddr,
    pub bits: u8,
}

/// A router, and the number of the interface that it is reached by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub router: IpAddr,
    pub interface: u32,
}

/// A route of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableRoute {
    pub table: u32,
    pub prefix: Prefix,
    /// Of several routes of a prefix, that with the least is taken.
    pub metric: u32,
    /// None where it leads to no router of its family: to a link, to nobody, into a tunnel.
    pub hops: Vec<Hop>,
}

/// Reads a route; none for what is no route of a table's, or of packets of one kind of traffic only.
///
/// # Errors
/// `InvalidData` for what is cut or contradicts itself.
pub(super) fn read(body: &[u8]) -> io::Result<Option<TableRoute>> {
    let attributes = Attributes::behind(body, ROUTE_BYTES)?;
    let head: [u8; ROUTE_BYTES] = *body.first_chunk().ok_or_else(malformed)?;
    let [family, bits, source_bits, tos, table, _, _, kind, ..] = head;
    let is_of_all = source_bits == 0 && tos == 0 && word(&head, 8).is_some_and(|flags| flags & CLONED == 0);
    let (most, nobody): (u8, IpAddr) = match i32::from(family) {
        libc::AF_INET => (32, IpAddr::from([0; 4])),
        libc::AF_INET6 => (128, IpAddr::from([0; 16])),
        _ => return Ok(None),
    };
    if !is_of_all {
        return Ok(None);
    }
    let destination = attributes.get(libc::RTA_DST).map_or(Some(nobody), address);
    let address = destination.filter(|found| found.is_ipv4() == nobody.is_ipv4() && bits <= most).ok_or_else(malformed)?;
    let hops = if kind == UNICAST { hops(&attributes, address)? } else { Vec::new() };
    Ok(Some(TableRoute {
        table: attributes.number(libc::RTA_TABLE).unwrap_or(table.into()),
        prefix: Prefix { address, bits },
        metric: attributes.number(libc::RTA_PRIORITY).unwrap_or(0),
        hops,
    }))
}

/// The hops of a route, those that are of use.
fn hops(attributes: &Attributes<'_>, destination: IpAddr) -> io::Result<Vec<Hop>> {
    let Some(mut several) = attributes.get(libc::RTA_MULTIPATH) else {
        let interface = attributes.number(libc::RTA_OIF);
        return Ok(interface.and_then(|interface| hop(attributes, interface, destination)).into_iter().collect());
    };
    let mut found = Vec::new();
    while !several.is_empty() {
        let length = usize::from(half(several, 0).ok_or_else(malformed)?);
        let one = several.get(..length).filter(|one| one.len() >= HOP_BYTES).ok_or_else(malformed)?;
        if one[2] & DEAD == 0 {
            let interface = word(one, 4).ok_or_else(malformed)?;
            found.extend(hop(&Attributes::behind(one, HOP_BYTES)?, interface, destination));
        }
        several = several.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(found)
}

/// A hop, if it is a router of the destination's family and packets go to it as they are.
fn hop(attributes: &Attributes<'_>, interface: u32, destination: IpAddr) -> Option<Hop> {
    let is_plain = attributes.get(ENCAPSULATION).is_none();
    let router = attributes.get(libc::RTA_GATEWAY).and_then(address)?;
    (is_plain && router.is_ipv4() == destination.is_ipv4()).then_some(Hop { router, interface })
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => bytes.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes)),
        16 => bytes.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes)),
        _ => None,
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "netlink: what the kernel tells of a route is none")
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [((4 + value.len()) as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn number(kind: u16, value: u32) -> Vec<u8> {
        attribute(kind, &value.to_ne_bytes())
    }

    fn body(head: [u8; 8], flags: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
        [&head[..], &flags.to_ne_bytes(), &attributes.concat()].concat()
    }

    /// Of table 100, to a network of 24 bits.
    fn head(family: i32, kind: u8) -> [u8; 8] {
        [family as u8, 24, 0, 0, 100, 0, 0, kind]
    }

    fn one_hop(flags: u8, interface: u32, attributes: &[Vec<u8>]) -> Vec<u8> {
        let inner = attributes.concat();
        [&((HOP_BYTES + inner.len()) as u16).to_ne_bytes()[..], &[flags, 0], &interface.to_ne_bytes(), &inner].concat()
    }

    const DESTINATION: [u8; 4] = [10, 9, 8, 0];
    const ROUTER: [u8; 4] = [10, 0, 0, 9];

    fn v4(more: &[Vec<u8>]) -> Vec<u8> {
        let all = [&[attribute(libc::RTA_DST, &DESTINATION)][..], more].concat();
        body(head(libc::AF_INET, UNICAST), 0, &all)
    }

    fn hops_of(body: &[u8]) -> Vec<Hop> {
        read(body).unwrap().unwrap().hops
    }

    #[test]
    fn a_route_has_its_prefix_table_metric_and_router() {
        let more = [number(libc::RTA_OIF, 7), attribute(libc::RTA_GATEWAY, &ROUTER), number(libc::RTA_PRIORITY, 30)];
        let hop = Hop { router: ROUTER.into(), interface: 7 };
        let told =
            TableRoute { table: 100, prefix: Prefix { address: DESTINATION.into(), bits: 24 }, metric: 30, hops: vec![hop] };
        assert_eq!(read(&v4(&more)).unwrap(), Some(told.clone()));
        let wide = [&more[..], &[number(libc::RTA_TABLE, 100_000)]].concat();
        assert_eq!(read(&v4(&wide)).unwrap(), Some(TableRoute { table: 100_000, ..told.clone() }));
        // The default route has no destination.
        let all = body([libc::AF_INET6 as u8, 0, 0, 0, 100, 0, 0, UNICAST], 0, &[]);
        let prefix = Prefix { address: IpAddr::from([0; 16]), bits: 0 };
        assert_eq!(read(&all).unwrap(), Some(TableRoute { prefix, metric: 0, hops: Vec::new(), ..told }));
    }

    #[test]
    fn several_hops_are_told_without_those_that_are_of_no_use() {
        let router = |last: u8| attribute(libc::RTA_GATEWAY, &[10, 0, 0, last]);
        let several = [
            one_hop(0, 7, &[router(1)]),
            one_hop(DEAD, 7, &[router(2)]),
            one_hop(16, 8, &[router(3)]),
            one_hop(0, 8, &[]),
            one_hop(0, 8, &[router(4), attribute(ENCAPSULATION, &[])]),
            one_hop(0, 8, &[attribute(libc::RTA_VIA, &[0; 18])]),
            one_hop(0, 8, &[attribute(libc::RTA_GATEWAY, &[0; 16])]),
        ];
        let found = hops_of(&v4(&[attribute(libc::RTA_MULTIPATH, &several.concat())]));
        let hop = |last, interface| Hop { router: [10, 0, 0, last].into(), interface };
        assert_eq!(found, [hop(1, 7), hop(3, 8)]);
        // Each begins at a multiple of four, wherever the one before it ends.
        let mut odd = one_hop(0, 7, &[router(1), vec![5, 0, 99, 0, 7]]);
        odd.resize(odd.len().next_multiple_of(4), 0);
        let found = hops_of(&v4(&[attribute(libc::RTA_MULTIPATH, &[odd, one_hop(0, 8, &[router(2)])].concat())]));
        assert_eq!(found, [hop(1, 7), hop(2, 8)]);
        for cut in 1..HOP_BYTES {
            assert!(read(&v4(&[attribute(libc::RTA_MULTIPATH, &several[0][..cut])])).is_err(), "{cut}");
        }
        assert!(read(&v4(&[attribute(libc::RTA_MULTIPATH, &[0; 8])])).is_err(), "a length of 0 would go on for ever");
    }

    #[test]
    fn what_leads_to_no_router_has_no_hops_and_what_is_for_some_packets_is_none() {
        let ways = [number(libc::RTA_OIF, 7), attribute(libc::RTA_GATEWAY, &ROUTER)];
        let destination = attribute(libc::RTA_DST, &DESTINATION);
        let all = [&[destination][..], &ways].concat();
        for kind in [2, 6, 7, 8] {
            assert_eq!(hops_of(&body(head(libc::AF_INET, kind), 0, &all)), [], "{kind}");
        }
        assert_eq!(hops_of(&v4(&ways[..1])), [], "to a link");
        assert_eq!(read(&body(head(libc::AF_INET, UNICAST), CLONED, &all)).unwrap(), None);
        for (at, value) in [(2, 24), (3, 8), (0, 99)] {
            let mut head = head(libc::AF_INET, UNICAST);
            head[at] = value;
            assert_eq!(read(&body(head, 0, &all)).unwrap(), None, "{at}");
        }
        let mut long = head(libc::AF_INET, UNICAST);
        long[1] = 33;
        assert!(read(&body(long, 0, &all)).is_err(), "IPv4 has no 33 bits");
        assert!(read(&body(head(libc::AF_INET6, UNICAST), 0, &all)).is_err(), "another family");
        assert!((0..ROUTE_BYTES).all(|length| read(&all.concat()[..length.min(11)]).is_err()));
    }
}
