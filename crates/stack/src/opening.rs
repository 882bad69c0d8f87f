//! Tunnels: what arrives in one is opened on the lane that received it, and placed again by the flow of the packet within.
//!
//! ```text
//! ether: tunnel_of? stays on this lane --ip--> transport --open--> look at the inner headers --ip_direct, or ip for a fragment--> its bucket's lane
//! ```
//!
//! Only what the settings name is opened, from the peers that they name, and only for the stack's addresses, outside and within. Nothing within a tunnel
//! speaks for the link: no neighbour is believed or answered there. Answers go by the routes, not through a tunnel.
//! A packet that was opened is shorter than before, and says in how many tunnels it was: loops and nests end.

use crate::counts::Drop;
use crate::headers::{Looker, Recognized};
use crate::packet::{Ip, Packet, Spare};
use crate::peers::Opened;
use crate::tunnels::Tunnel;
use corelane_seam::{Checksum, Frame, FrameMemory};
use corelane_wire::packet::{EtherType, IpProtocol, Packet as Walk, TUNNELS_MAX, gre, udp, vxlan};

/// What stands behind a tunnel's header.
enum Carried {
    Frame,
    Packet(EtherType),
}

/// The tunnel that a packet came in, if it is one that is opened.
pub(crate) fn tunnel_of(opened: &Opened, packet: &Packet, ip: &Ip) -> Option<Tunnel> {
    let tunnel = match ip.protocol {
        IpProtocol::GRE => Tunnel::Gre,
        IpProtocol::IPV4 => Tunnel::IpInIp,
        IpProtocol::IPV6 => Tunnel::Ipv6InIp,
        IpProtocol::UDP if opened.has(Tunnel::Vxlan) && is_for_vxlan(packet, ip) => Tunnel::Vxlan,
        _ => return None,
    };
    Some(tunnel).filter(|tunnel| opened.has(*tunnel) && !ip.is_part)
}

/// Takes what a packet of a tunnel carries out of it, into a frame of its own that begins with the inner network's header; the packet is done with.
///
/// # Errors
/// Why it goes no further.
pub(crate) fn open(
    opened: &Opened,
    tunnel: Tunnel,
    (mut packet, ip): (Packet, &Ip),
    mut looker: Looker<'_>,
    spare: &mut Spare,
) -> Result<(Frame, Ip), Drop> {
    let contents = if usize::from(ip.tunnels) >= TUNNELS_MAX {
        Err(Drop::Nest)
    } else if !opened.lets(tunnel, ip.source) {
        Err(Drop::NotOurs)
    } else {
        contents(&mut packet, ip, looker.memory())
    };
    spare.put(packet);
    let mut frame = contents?;
    let (head, carried) = header(tunnel, &frame, ip)?;
    frame.skip(head);
    let (inner, at, length) = match look_within(&mut looker, &frame, &carried) {
        Recognized::Ip { ip, at, length } => (ip, at, length),
        Recognized::Not(why) => return Err(why),
        // Nobody behind a tunnel is a neighbour.
        Recognized::Arp { .. } => return Err(Drop::NotOurs),
    };
    frame.skip(at);
    frame.set_length(length);
    Ok((frame, Ip { tunnels: ip.tunnels + 1, ..inner }))
}

/// What a packet carries, in one frame, of which the source has told nothing. A datagram that was put together is copied, if a frame holds it.
fn contents(packet: &mut Packet, ip: &Ip, memory: &FrameMemory) -> Result<Frame, Drop> {
    let mut frame = if packet.rest.is_empty() {
        let mut frame = std::mem::take(&mut packet.first);
        frame.skip(ip.head);
        frame.set_length(ip.length);
        frame
    } else {
        let mut frame = memory.frame().ok_or(Drop::Frames)?;
        let fits = ip.length <= frame.room();
        packet.transport(ip).filter(|_| fits).for_each(|piece| frame.append(piece));
        if fits { frame } else { return Err(Drop::Pieces) }
    };
    assert!(frame.len() == ip.length, "all that a packet carries lies in one frame");
    frame.facts.hash = None;
    frame.facts.checksum = Checksum::Unknown;
    Ok(frame)
}

fn look_within(looker: &mut Looker<'_>, frame: &Frame, carried: &Carried) -> Recognized {
    match carried {
        Carried::Frame => looker.look(frame, 0),
        Carried::Packet(protocol) => match Walk::of_network(*protocol, frame) {
            Ok(walk) => looker.look_at_network(&walk, false),
            Err(_) => Recognized::Not(Drop::Malformed),
        },
    }
}

fn is_for_vxlan(packet: &Packet, ip: &Ip) -> bool {
    let head = packet.transport(ip).next().and_then(|first| first.first_chunk::<4>());
    head.is_some_and(|[_, _, port @ ..]| u16::from_be_bytes(*port) == vxlan::PORT)
}

/// Bytes of the tunnel's headers at the front of what a packet carries, and what stands behind them.
fn header(tunnel: Tunnel, bytes: &[u8], ip: &Ip) -> Result<(usize, Carried), Drop> {
    match tunnel {
        Tunnel::IpInIp => Ok((0, Carried::Packet(EtherType::IPV4))),
        Tunnel::Ipv6InIp => Ok((0, Carried::Packet(EtherType::IPV6))),
        Tunnel::Gre => {
            let view = gre::View::new(bytes).map_err(|_| Drop::Malformed)?;
            if !view.is_checksum_right() {
                return Err(Drop::Checksum);
            }
            let carried = match view.header().protocol {
                EtherType::ETHERNET => Carried::Frame,
                protocol => Carried::Packet(protocol),
            };
            Ok((view.header().header_bytes(), carried))
        }
        Tunnel::Vxlan => {
            let datagram = udp::View::new(bytes).map_err(|_| Drop::Malformed)?;
            if datagram.has_checksum() && !ip.is_good && !datagram.is_checksum_right(&ip.addresses()) {
                return Err(Drop::Checksum);
            }
            vxlan::View::new(datagram.payload()).map_err(|_| Drop::Malformed)?;
            Ok((udp::Header::BYTES + vxlan::Header::BYTES, Carried::Frame))
        }
    }
}
