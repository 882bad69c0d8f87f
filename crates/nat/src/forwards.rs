//! Ports that lead inside. They need no sessions: each way follows from the other, on every lane, so that no flood fills anything.

use crate::session::Class;
use crate::settings::{Error, Forward};
use corelane_rss::Transport;
use std::net::Ipv4Addr;

/// One side of a forward, and where it leads: the first of its ports there.
#[derive(Clone, Copy, Debug)]
struct Side {
    class: Class,
    address: Ipv4Addr,
    first: u16,
    last: u16,
    to: (Ipv4Addr, u16),
}

/// Forwards by both of their sides, each in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forwards {
    outside: Vec<Side>,
    inside: Vec<Side>,
}

impl Forwards {
    pub fn new(forwards: &[Forward]) -> Result<Self, Error> {
        let outside = |forward: &Forward| Side {
            class: class(forward.transport),
            address: forward.external,
            first: *forward.ports.start(),
            last: *forward.ports.end(),
            to: (forward.inside, forward.inside_port),
        };
        let inside = |forward: &Forward| Side {
            class: class(forward.transport),
            address: forward.inside,
            first: *forward.inside_ports().start(),
            last: *forward.inside_ports().end(),
            to: (forward.external, *forward.ports.start()),
        };
        Ok(Self { outside: ordered(forwards, outside)?, inside: ordered(forwards, inside)? })
    }

    pub const fn is_empty(&self) -> bool {
        self.outside.is_empty()
    }

    /// The inside end that an external one leads to.
    pub fn inside(&self, class: Class, external: (Ipv4Addr, u16)) -> Option<(Ipv4Addr, u16)> {
        find(&self.outside, class, external)
    }

    /// The external end that leads to an inside one.
    pub fn outside(&self, class: Class, inside: (Ipv4Addr, u16)) -> Option<(Ipv4Addr, u16)> {
        find(&self.inside, class, inside)
    }
}

const fn class(transport: Transport) -> Class {
    match transport {
        Transport::Tcp => Class::Tcp,
        Transport::Udp => Class::Udp,
    }
}

fn ordered(forwards: &[Forward], side: impl Fn(&Forward) -> Side) -> Result<Vec<Side>, Error> {
    let mut sides: Vec<(Side, &Forward)> = forwards.iter().map(|forward| (side(forward), forward)).collect();
    sides.sort_by_key(|(side, _)| (side.class, side.address, side.first));
    let overlap = sides.windows(2).find(|pair| {
        let (one, next) = (pair[0].0, pair[1].0);
        (one.class, one.address) == (next.class, next.address) && one.last >= next.first
    });
    match overlap {
        Some(pair) => Err(Error::Overlap { one: Box::new(pair[0].1.clone()), other: Box::new(pair[1].1.clone()) }),
        None => Ok(sides.into_iter().map(|(side, _)| side).collect()),
    }
}

fn find(sides: &[Side], class: Class, (address, port): (Ipv4Addr, u16)) -> Option<(Ipv4Addr, u16)> {
    let behind = sides.partition_point(|side| (side.class, side.address, side.first) <= (class, address, port));
    let side = sides.get(behind.checked_sub(1)?)?;
    let is_in = (side.class, side.address) == (class, address) && port <= side.last;
    is_in.then(|| (side.to.0, side.to.1 + (port - side.first)))
}
