//! What sockets are bound to, whose they are, and which of several gets what is sent.

use super::unix::is_unix;
use corelane_seam::{Socket, mix};
use std::net::{IpAddr, SocketAddr};

/// Who has a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A lane's driver.
    Lane(usize, Socket),
    /// The test's own peer.
    Peer(usize),
    /// A connection that its end does not know yet: opening, or waiting to be accepted.
    Waiting,
    /// A connection that its lane's driver has detached, and none has adopted yet.
    Detached,
    /// Closed at this end.
    Gone,
}

/// What a listening or datagram socket is bound to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) host: usize,
    pub(crate) address: SocketAddr,
    pub(crate) share: bool,
    pub(crate) v6_only: bool,
}

impl Binding {
    /// How well it fits what is sent to `to` on `host`; none if not at all.
    fn fit(&self, host: usize, to: SocketAddr) -> Option<u8> {
        let is_other = is_unix(self.address.ip()) != is_unix(to.ip());
        if self.host != host || self.address.port() != to.port() || is_other {
            return None;
        }
        match (self.address.ip(), to.ip()) {
            (bound, asked) if bound == asked => Some(2),
            (IpAddr::V6(bound), IpAddr::V4(_)) if bound.is_unspecified() && !self.v6_only => Some(0),
            (bound, asked) if bound.is_unspecified() && bound.is_ipv4() == asked.is_ipv4() => Some(1),
            _ => None,
        }
    }

    /// Whether the two cannot be there at once.
    pub(super) fn conflicts(&self, other: &Binding) -> bool {
        self.host == other.host
            && self.address.port() == other.address.port()
            && !(self.share && other.share)
            && (self.fit(other.host, other.address).is_some() || other.fit(self.host, self.address).is_some())
    }
}

/// Picks among the sockets that are bound to where `to` leads: the most specific ones, and among those that share the
/// port the one that the flow's hash names.
pub(crate) fn find<'a>(
    places: impl Iterator<Item = (u64, &'a Binding)>,
    host: usize,
    from: SocketAddr,
    to: SocketAddr,
) -> Option<u64> {
    let fits: Vec<_> = places.filter_map(|(name, place)| Some((place.fit(host, to)?, name))).collect();
    let best = fits.iter().map(|fit| fit.0).max()?;
    let group: Vec<_> = fits.into_iter().filter(|fit| fit.0 == best).map(|fit| fit.1).collect();
    group.get(spread(from, to, group.len())).copied()
}

/// Which of `members` sockets that share a port gets the flow. The one place that decides it.
fn spread(from: SocketAddr, to: SocketAddr, members: usize) -> usize {
    (mix(word(from) ^ mix(word(to))) % members.max(1) as u64) as usize
}

fn word(address: SocketAddr) -> u64 {
    let ip = match address.ip() {
        IpAddr::V4(ip) => u32::from(ip) as u64,
        IpAddr::V6(ip) => mix(ip.to_bits() as u64) ^ (ip.to_bits() >> 64) as u64,
    };
    mix(ip) ^ address.port() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(address: &str) -> Binding {
        Binding { host: 0, address: address.parse().unwrap(), share: false, v6_only: false }
    }

    fn found(places: &[Binding], to: &str) -> Option<u64> {
        let named = places.iter().enumerate().map(|(index, place)| (index as u64, place));
        find(named, 0, "192.0.2.1:5".parse().unwrap(), to.parse().unwrap())
    }

    #[test]
    fn the_most_specific_place_wins() {
        let places = [place("[::]:80"), place("0.0.0.0:80"), place("10.0.0.1:80")];
        assert_eq!(found(&places, "10.0.0.1:80"), Some(2));
        assert_eq!(found(&places, "10.0.0.2:80"), Some(1));
        assert_eq!(found(&places, "[fd00::1]:80"), Some(0));
        assert_eq!(found(&places[..1], "10.0.0.2:80"), Some(0));
        assert_eq!(found(&[Binding { v6_only: true, ..places[0] }], "10.0.0.2:80"), None);
        assert_eq!(found(&places, "10.0.0.1:81"), None);
    }

    #[test]
    fn flows_spread_over_sockets_that_share_a_port() {
        let to = "10.0.0.1:80".parse().unwrap();
        let mut counts = [0; 4];
        (1..=400u16).for_each(|port| counts[spread(SocketAddr::new("192.0.2.1".parse().unwrap(), port), to, 4)] += 1);
        assert!(counts.iter().all(|&count| count > 60), "{counts:?}");
    }
}
