//! The network's words of packets that were sent: that one did not arrive, or must be shorter.
//!
//! A router is believed of what was sent, as far as that can be known (RFC 8201, section 5.2; RFC 5927, section 7.2): the packet that it quotes is longer than what it says fits,
//! has left from an address of ours, and is a datagram of a socket that is there, to a port that can be, or an answer to an echo of somebody who was sent a long one of
//! late. One router narrows half of the ways that may be narrow, at the most. So nobody who does not know a socket cuts the packets of others.

use crate::fault;
use crate::narrow::Told;
use crate::path::Path;
use crate::quoted::{Quoted, quoted};
use corelane_wire::packet::{EtherType, ethernet};
use std::net::IpAddr;

/// Bytes of the longest packet that each link carries (RFC 8200, section 5), and of one that each host takes (RFC 791, section 3.1).
const V6_LEAST: usize = 1280;
const V4_LEAST: usize = 576;

impl Path {
    /// Bytes of the longest packet to an address, with its link-layer header.
    pub fn most_to(&self, to: IpAddr) -> usize {
        let link = ethernet::Header::BYTES;
        self.narrow.most(self.now, to).map_or(self.packet_bytes, |most| (most + link).min(self.packet_bytes))
    }

    /// A router says that a packet is too big, of which `bytes` fit; 0 where it does not know how many.
    pub fn too_big(&mut self, router: IpAddr, protocol: EtherType, packet: &[u8], bytes: usize) {
        let Some(Quoted { local, peer, length, is_echo }) = quoted(protocol, packet) else { return };
        let least = if local.is_ipv4() { V4_LEAST } else { V6_LEAST };
        // Of IPv6 what is below the least is no word at all (RFC 8201, section 4); of IPv4 every host takes the least.
        let most = if local.is_ipv4() { bytes.max(least) } else { bytes };
        let fits = most + ethernet::Header::BYTES < self.packet_bytes;
        if most < least || length <= most || !fits || !self.routes.is_own(local.ip()) {
            return;
        }
        let told = Told { router, local, peer, is_echo, most };
        self.learn_way(told);
        // The socket may be another lane's: a card brings what has no flow to one of them.
        if self.is_shared() && self.bounds.words.take(self.now) {
            self.told.push(told);
        }
    }

    /// Takes a router's word of what a socket here has sent, or of an echo's answer that went from here.
    pub fn learn_way(&mut self, told: Told) {
        let Told { router, local, peer, is_echo, most } = told;
        let was_sent = match is_echo {
            true => self.narrow.has_echoed(peer.ip()),
            false => peer.port() != 0 && self.sockets.find(local, peer).is_some(),
        };
        if was_sent {
            self.counts.ways_narrowed += 1;
            self.is_untold = true;
            self.narrow.learn(self.now, peer.ip(), most, router);
        }
    }

    /// Notes an echo's answer of so many bytes, with the network's header: of a short one no router says that it is too big.
    pub fn note_echo(&mut self, to: IpAddr, bytes: usize) {
        if bytes > if to.is_ipv4() { V4_LEAST } else { V6_LEAST } {
            self.narrow.note_echo(to);
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
