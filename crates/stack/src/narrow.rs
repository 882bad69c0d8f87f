//! Ways on which packets must be shorter than the interface takes them: what routers have told (RFC 8201, RFC 1191).
//!
//! A router is believed of what was sent, as far as that can be known: the packet that it quotes is longer than what it says fits, has left from an address of ours, and is
//! a datagram of a socket that is there, or an answer to an echo. So nobody who does not know a socket and its peer cuts the packets of others.

use crate::fault;
use crate::path::Path;
use crate::quoted::{Quoted, quoted};
use corelane_wire::packet::{EtherType, ethernet};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Destinations that are remembered at most.
pub const NARROW_MAX: usize = 256;
/// Nanoseconds for which a router's word is kept (RFC 8201, section 4; RFC 1191, section 6.3).
const KEPT: u64 = 600 * 1_000_000_000;
/// Bytes of the longest packet that each link carries (RFC 8200, section 5), and of one that each host takes (RFC 791, section 3.1).
const V6_LEAST: usize = 1280;
const V4_LEAST: usize = 576;

/// What a router has told, for all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Both ends of what was sent; of an echo's answer without ports.
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// Bytes of the longest packet that passes.
    pub most: usize,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Narrow {
    /// Bytes of the longest packet, and until when that is believed.
    by: BTreeMap<IpAddr, (usize, u64)>,
}

impl Narrow {
    /// Bytes of the longest packet on the way to an address, if it is known to be narrow.
    pub fn most(&self, now: u64, to: IpAddr) -> Option<usize> {
        if self.by.is_empty() {
            return None;
        }
        self.by.get(&to).filter(|(_, until)| *until > now).map(|(most, _)| *most)
    }

    /// Notes what fits. A word that allows more than an earlier one says nothing: it may be older.
    fn learn(&mut self, now: u64, to: IpAddr, most: usize) {
        if self.most(now, to).is_some_and(|known| known < most) {
            return;
        }
        if self.by.len() >= NARROW_MAX && !self.by.contains_key(&to) {
            let oldest = self.by.iter().min_by_key(|(_, (_, until))| *until).map(|(to, _)| *to);
            oldest.map(|oldest| self.by.remove(&oldest));
        }
        self.by.insert(to, (most, now + KEPT));
        assert!(self.by.len() <= NARROW_MAX, "the table is bounded");
    }
}

impl Path {
    /// Bytes of the longest packet to an address, with its link-layer header.
    pub fn most_to(&self, to: IpAddr) -> usize {
        let link = ethernet::Header::BYTES;
        self.narrow.most(self.now, to).map_or(self.packet_bytes, |most| (most + link).min(self.packet_bytes))
    }

    /// A router says that a packet is too big, of which `bytes` fit; 0 where it does not know how many.
    pub fn too_big(&mut self, protocol: EtherType, packet: &[u8], bytes: usize) {
        let Some(Quoted { local, peer, length, is_echo }) = quoted(protocol, packet) else { return };
        let least = if local.is_ipv4() { V4_LEAST } else { V6_LEAST };
        // Of IPv6 what is below the least is no word at all (RFC 8201, section 4); of IPv4 every host takes the least.
        let most = if local.is_ipv4() { bytes.max(least) } else { bytes };
        let fits = most + ethernet::Header::BYTES < self.packet_bytes;
        if most < least || length <= most || !fits || !self.routes.is_own(local.ip()) {
            return;
        }
        let told = Told { local, peer, most };
        self.learn_way(told, is_echo);
        // The socket may be another lane's: a card brings what has no flow to one of them.
        if self.is_shared() && self.bounds.words.take(self.now) {
            self.told.push(told);
        }
    }

    /// Takes a router's word of what a socket here has sent, or anybody of an echo's answer.
    pub fn learn_way(&mut self, told: Told, is_echo: bool) {
        let Told { local, peer, most } = told;
        if is_echo || self.sockets.find(local, peer).is_some() {
            self.counts.ways_narrowed += 1;
            self.is_untold = true;
            self.narrow.learn(self.now, peer.ip(), most);
        }
    }

    /// Somebody says that what was sent did not arrive; the socket that it came from hears so.
    pub fn refused(&mut self, protocol: EtherType, packet: &[u8], is_port: bool) {
        let Some(Quoted { local, peer, is_echo: false, .. }) = quoted(protocol, packet) else { return };
        if self.routes.is_own(local.ip()) {
            self.sockets.tell(local, peer, if is_port { fault::REFUSED } else { fault::UNREACHABLE });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn what_was_told_is_kept_ten_minutes_and_the_least_counts() {
        let mut narrow = Narrow::default();
        assert_eq!(narrow.most(0, to(1)), None);
        narrow.learn(0, to(1), 1400);
        narrow.learn(1, to(1), 1300);
        narrow.learn(2, to(1), 1450);
        assert_eq!((narrow.most(KEPT, to(1)), narrow.most(KEPT + 1, to(1)), narrow.most(3, to(2))), (Some(1300), None, None));
        narrow.learn(KEPT + 1, to(1), 1450);
        assert_eq!(narrow.most(KEPT + 2, to(1)), Some(1450), "a wider way is found when the time is over");
    }

    #[test]
    fn the_oldest_words_go() {
        let mut narrow = Narrow::default();
        (0..3000).for_each(|number| narrow.learn(number.into(), to(number), 1280));
        assert_eq!(narrow.by.len(), NARROW_MAX);
        assert_eq!((narrow.most(3000, to(0)), narrow.most(3000, to(2999))), (None, Some(1280)));
    }
}
