//! A packet leaves by its way: in the frames that it lies in, in others, or cut.

use super::cut;
use crate::counts::Drop;
use crate::icmp::errors::{self, Wrong};
use crate::interfaces::Interfaces;
use crate::outward::Outward;
use crate::packet::{Ip, Packet};
use crate::routes::Way;
use crate::translation::Translation;
use corelane_seam::{Frame, FrameMemory};
use corelane_wire::packet::ethernet::{self, Mac};
use corelane_wire::packet::{EtherType, Packet as Walk};
use std::iter::once;

/// Bytes that a frame needs in front of its packet: a header of the link and two tags.
const FRONT_BYTES: usize = ethernet::Header::BYTES + 8;
/// The part of a port's frames of which so many may wait to be sent: what is forwarded beyond is dropped.
const OUTGOING_PART: usize = 4;

/// Bytes of the longest packet of IP that leaves by an interface.
pub(super) fn mtu(interfaces: &Interfaces, interface: usize) -> usize {
    interfaces[interface].packet_bytes() - ethernet::Header::BYTES
}

/// Sends a packet by its way: in the frames that it lies in, or in fragments.
pub(super) fn leave(out: &mut Outward<'_>, packet: &mut Packet, ip: &Ip, way: Way, mtu: usize) -> Result<(), Drop> {
    let (at, length) = (&out.interfaces[way.interface], ip.head + ip.length);
    let (memory, mac, trunk) = (at.memory(), at.mac(), &out.trunks[at.port()]);
    let room = (memory.frames() / OUTGOING_PART).saturating_sub(trunk.outgoing());
    let protocol = if ip.source.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    let mut frames = if length > mtu {
        cut::cut(memory, packet, ip, mtu).ok_or(Drop::Frames)?
    } else if packet.rest.len() < trunk.pieces_max() && fits(memory, packet) {
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
pub(crate) fn tell_lost(out: &mut Outward<'_>, translation: Option<&mut Translation>, frame: &Frame) {
    let packet = frame.get(ethernet::Header::BYTES..).unwrap_or_default();
    let protocol = if packet.first().is_some_and(|first| first >> 4 == 6) { EtherType::IPV6 } else { EtherType::IPV4 };
    let missing = if frame.facts.continues { usize::from(u16::MAX) } else { 0 };
    let ip = Walk::of_network_front(protocol, packet, missing).ok().and_then(|walk| Ip::of(&walk, false));
    let Some(ip) = ip else { return };
    match translation {
        None if out.routes.is_own(ip.source) => {}
        None => errors::tell_sender(out, packet, &ip, Wrong::Host),
        // What was said of who is translated finds him by his session, as another router's word would.
        Some(translation) if out.routes.is_own(ip.source) && !translation.is_external(ip.source) => {}
        Some(translation) => match translation.as_sent(out.now, packet, &ip) {
            Some(known) => errors::tell_sender(out, known.packet(), &known.ip, Wrong::Host),
            None => errors::tell_sender(out, packet, &ip, Wrong::Host),
        },
    }
}
