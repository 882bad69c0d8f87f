//! The owner of what translates addresses, and which interfaces are outside.

use crate::packet::{Ip, Packet};
use crate::routes::Routes;
use crate::settings::{Error, NatSettings, Settings};
use corelane_nat::{Counts, Nat, Verdict};
use corelane_rss::FlowId;
use corelane_seam::Frame;
use corelane_wire::packet::vlan::Tag;
use corelane_wire::packet::{IpProtocol, Link, ethernet, ipv4};
use std::net::{IpAddr, Ipv4Addr};

/// Where a header of IPv4 has what differs from translation to translation, and what an error begins with.
const LENGTH: usize = 2;
const HOPS: usize = 8;
const PROTOCOL: usize = 9;
const SOURCE: usize = 12;
const DESTINATION: usize = 16;
/// Bytes in front of what an error quotes, and of that, at most (RFC 1812, section 4.3.2.3).
const ERROR_HEADS: usize = ipv4::Header::BYTES + 8;
const QUOTED_MAX: usize = 548;
/// A host cannot be reached: any error would do.
const UNREACHABLE: [u8; 2] = [3, 1];
/// Sessions that are looked at for their age at once, where no packets do it.
const STEPS: usize = 1024;

/// The translation of a lane.
#[derive(Debug)]
pub(crate) struct Translation {
    nat: Nat,
    /// Whether each interface is outside, by its number.
    outside: Vec<bool>,
}

/// A packet as its sender knows it, cut to what an error quotes.
pub(crate) struct Known {
    bytes: [u8; ERROR_HEADS + QUOTED_MAX],
    length: usize,
    pub ip: Ip,
}

impl Known {
    /// What there is of it, from the header of the network on.
    pub fn packet(&self) -> &[u8] {
        &self.bytes[ERROR_HEADS..self.length]
    }
}

impl Translation {
    /// As the settings want it; none if they want none.
    pub fn new(settings: &Settings) -> Result<Option<Self>, Error> {
        let Some(NatSettings { interfaces, settings: of_nat }) = &settings.nat else { return Ok(None) };
        let mut outside = vec![false; settings.interfaces.len()];
        for interface in interfaces {
            *outside.get_mut(*interface).ok_or(Error::NoInterface { interface: *interface })? = true;
        }
        let (lane, lanes) = settings.lane;
        let words = words_of(settings.secret);
        let nat = Nat::new(&of_nat.clone().for_lane(lane, lanes), settings.hasher.clone(), words);
        nat.map(|nat| Some(Self { nat, outside })).map_err(|why| Error::Nat { why })
    }

    /// What was translated.
    pub const fn counts(&self) -> Counts {
        self.nat.counts()
    }

    /// Sessions, and external ports that are given out.
    pub fn in_use(&self) -> (usize, usize) {
        (self.nat.sessions(), self.nat.ports())
    }

    /// Ends sessions whose time is over, some of them.
    pub fn expire(&mut self, now: u64) {
        self.nat.expire(now, STEPS);
    }

    /// Whether an interface is outside.
    pub fn is_outside(&self, interface: usize) -> bool {
        self.outside[interface]
    }

    /// Whether inside hosts appear with that address.
    pub fn is_external(&self, address: IpAddr) -> bool {
        matches!(address, IpAddr::V4(address) if self.nat.is_external(address))
    }

    /// Whether a fragment that came by that interface is of a datagram that is to be translated: only the whole has ports.
    pub fn wants_whole(&self, routes: &Routes, ip: &Ip) -> bool {
        let leaves_by = || routes.way(ip.destination).map(|way| way.interface);
        ip.source.is_ipv4() && (self.is_external(ip.destination) || leaves_by().is_some_and(|by| self.is_outside(by)))
    }

    /// The flow that an error is about, by which the lane is found that has its session; none of another packet.
    pub fn flow_of_error(&self, packet: &Packet, ip: &Ip) -> Option<FlowId> {
        let is_whole = ip.protocol == IpProtocol::ICMP && !ip.is_part;
        is_whole.then(|| self.nat.flow_of_error(&packet.first, missing(packet))).flatten()
    }

    /// Has what frames that have come need of memory in the cache, before the first of them is handled.
    pub fn look_ahead<'f>(&self, frames: impl Iterator<Item = &'f Frame>) {
        self.nat.look_ahead(frames.filter_map(|frame| packet_of(frame)));
    }

    /// Translates a packet that has come and is for an external address; `from_inside` says that an inside interface has brought it, and not another lane.
    pub fn come(
        &mut self,
        now: u64,
        packet: &mut Packet,
        ip: &mut Ip,
        from_inside: bool,
        is_home: impl Fn(FlowId) -> bool,
    ) -> Verdict {
        let missing = missing(packet);
        let mut verdict = match from_inside {
            true => self.nat.outgoing_front(now, &mut packet.first, missing, is_home),
            false => self.nat.incoming_front(now, &mut packet.first, missing),
        };
        read_ends(packet, ip);
        // Of an error from inside, about a packet that another inside host has sent to an external address, both ends are translated, one after the other.
        if from_inside && verdict == Verdict::Translated && self.is_external(ip.destination) {
            verdict = self.nat.incoming_front(now, &mut packet.first, missing);
            read_ends(packet, ip);
        }
        verdict
    }

    /// Translates a packet that leaves by an outside interface.
    pub fn leave(&mut self, now: u64, packet: &mut Packet, ip: &mut Ip, is_home: impl Fn(FlowId) -> bool) -> Verdict {
        let missing = missing(packet);
        let verdict = self.nat.outgoing_front(now, &mut packet.first, missing, is_home);
        read_ends(packet, ip);
        verdict
    }

    /// A packet whose destination was translated when it came, as its sender knows it. None if it is of no flow any more. An error about it is translated as an inside
    /// host's would be.
    pub fn as_sent(&mut self, now: u64, packet: &[u8], ip: &Ip) -> Option<Known> {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (ip.source, ip.destination) else { return None };
        let quoted = &packet[..packet.len().min(QUOTED_MAX)];
        let length = ERROR_HEADS + quoted.len();
        let mut bytes = [0; ERROR_HEADS + QUOTED_MAX];
        bytes[0] = 0x45;
        bytes[LENGTH..LENGTH + 2].copy_from_slice(&(length as u16).to_be_bytes());
        (bytes[HOPS], bytes[PROTOCOL]) = (u8::MAX, IpProtocol::ICMP.0);
        bytes[SOURCE..DESTINATION].copy_from_slice(&destination.octets());
        bytes[DESTINATION..DESTINATION + 4].copy_from_slice(&source.octets());
        bytes[ipv4::Header::BYTES..][..2].copy_from_slice(&UNREACHABLE);
        bytes[ERROR_HEADS..length].copy_from_slice(quoted);
        let verdict = self.nat.outgoing(now, &mut bytes[..length], |_| true);
        let external = address_at(&bytes[ERROR_HEADS..], DESTINATION);
        (verdict == Verdict::Translated).then_some(Known { bytes, length, ip: Ip { destination: external.into(), ..*ip } })
    }
}

/// The packet behind a frame's header and tags; none where these are not whole.
fn packet_of(frame: &[u8]) -> Option<&[u8]> {
    let link = Link::of_frame(frame).ok()?;
    frame.get(ethernet::Header::BYTES + link.tags * Tag::BYTES..)
}

/// Bytes of a packet behind its first frame.
fn missing(packet: &Packet) -> usize {
    packet.rest.iter().map(|frame| frame.len()).sum()
}

/// Reads the addresses of a packet again.
fn read_ends(packet: &Packet, ip: &mut Ip) {
    ip.source = address_at(&packet.first, SOURCE).into();
    ip.destination = address_at(&packet.first, DESTINATION).into();
}

/// The address at a place in a header that was looked at.
fn address_at(packet: &[u8], at: usize) -> Ipv4Addr {
    let bytes = packet.get(at..).and_then(|rest| rest.first_chunk::<4>());
    bytes.copied().map_or(Ipv4Addr::UNSPECIFIED, Ipv4Addr::from)
}

/// Words from a secret, of which none tells another to who does not know the secret's half (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014).
fn words_of(secret: u128) -> impl FnMut() -> u64 {
    let (mut state, step) = (secret as u64, (secret >> 64) as u64 | 1);
    move || {
        state = state.wrapping_add(step);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_stands_behind_the_tags_of_its_frame() {
        let (addresses, packet) = ([2; 12], [0x45, 0, 0, 20]);
        let tag = |kind: [u8; 2], number: u8| [kind[0], kind[1], 0, number];
        let (one, two) = (tag([0x81, 0], 7), tag([0x88, 0xa8], 9));
        for tags in [vec![], vec![one], vec![two, one]] {
            let frame = [&addresses[..], tags.as_flattened(), &[8, 0], &packet].concat();
            assert_eq!(packet_of(&frame), Some(&packet[..]), "{} tags", tags.len());
            assert_eq!(packet_of(&frame[..frame.len() - 5]), None, "{} tags, and half a type", tags.len());
        }
    }

    /// Both halves of a secret matter.
    #[test]
    fn each_secret_has_words_of_its_own() {
        let words = |secret: u128| {
            let mut next = words_of(secret);
            [(); 4].map(|()| next())
        };
        let one = words(1 << 70 | 7);
        assert!((1..4).all(|at| !one[..at].contains(&one[at])), "{one:x?}");
        assert_eq!(words(1 << 70 | 7), one);
        for other in [1 << 70 | 8, 3 << 70 | 7, 0] {
            assert!(words(other).iter().all(|word| !one.contains(word)), "{other:x}");
        }
    }
}
