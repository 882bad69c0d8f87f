//! What the relays of both families need: how often they may speak, and how they hear and say a message.

use crate::counts::Drop;
use crate::outward::{CappedLimiter, Limiter, Outward};
use crate::packet::{Ip, Packet};
use crate::udp;
use corelane_wire::packet::IpProtocol;
use std::net::SocketAddr;

/// Bytes of the longest name of an interface.
pub(super) const NAME_BYTES_MAX: usize = 64;
/// Requests of one interface, whoever asks: so many a second and at once. Of these all clients have so many in common, and each share of clients so many for itself.
const REQUESTS: (u64, u64) = (500, 250);
const IN_COMMON: (u64, u64) = (250, 125);
const OF_A_CLIENT: (u64, u64) = (5, 5);
/// Answers of servers to one interface.
const REPLIES: (u64, u64) = (2000, 1000);

/// How often an interface relays.
#[derive(Debug)]
pub(super) struct Bounds {
    pub requests: CappedLimiter,
    pub replies: Limiter,
}

impl Bounds {
    /// Those of one interface; `secret` is nobody else's.
    pub fn new(secret: u128) -> Self {
        let limiter = |(per_second, at_once)| Limiter::new(per_second, at_once);
        let requests = CappedLimiter::new(secret, limiter(REQUESTS), limiter(IN_COMMON), || limiter(OF_A_CLIENT));
        Self { requests, replies: limiter(REPLIES) }
    }
}

/// The message that a datagram carries, if it has room in `memory`.
pub(super) fn message<'m>(packet: &Packet, ip: &Ip, memory: &'m mut [u8]) -> Option<&'m [u8]> {
    let (mut skip, mut length) = (udp::HEAD, 0);
    for piece in packet.transport(ip) {
        let some = piece.len().min(skip);
        skip -= some;
        let piece = &piece[some..];
        memory.get_mut(length..length + piece.len())?.copy_from_slice(piece);
        length += piece.len();
    }
    Some(&memory[..length])
}

/// Sends a request from one port of servers to another's of each. It counts as relayed once, if it leaves for any; where it does not, the reason is counted.
pub(super) fn send_to_servers(
    out: &mut Outward<'_>,
    from: SocketAddr,
    servers: impl Iterator<Item = SocketAddr>,
    message: &[u8],
) {
    let sent = servers.filter(|to| send_to_server(out, from, *to, message)).count();
    out.tally.relay_requests += u64::from(sent > 0);
}

fn send_to_server(out: &mut Outward<'_>, from: SocketAddr, to: SocketAddr, message: &[u8]) -> bool {
    let Some(way) = out.routes.way(to.ip()) else {
        out.tally.drop(Drop::NoRoute);
        return false;
    };
    begin(out, way.interface, from, to, message) && out.send_draft((way.interface, way.hop), from.ip(), to.ip(), IpProtocol::UDP)
}

/// Writes a datagram into the draft; false if frames are used up, which is counted.
pub(super) fn begin(out: &mut Outward<'_>, interface: usize, from: SocketAddr, to: SocketAddr, message: &[u8]) -> bool {
    let length = udp::HEAD + message.len();
    if !out.begin(interface, to.is_ipv6(), length, out.most_to(interface, to.ip())) {
        out.tally.drop(Drop::Frames);
        return false;
    }
    udp::put_head(out, from, to, length);
    out.draft().put(message);
    udp::seal(out, from, to, length);
    true
}
