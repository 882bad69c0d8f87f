//! The PROXY header that an upstream is sent before all else, so that it knows its client.

use corelane::service::Peer;
use corelane_wire::proxy::{HEADER_BYTES_MAX, Version, write};
use std::net::SocketAddr;

/// The header for a client, in front of `memory`; returns its length. A client over a Unix socket is not told: its upstream could do nothing with a name here.
pub(crate) fn header(version: Version, client: &Peer, memory: &mut [u8; HEADER_BYTES_MAX]) -> usize {
    let ends = client.address.inet().zip(client.local.inet());
    write(version, ends.map(|(source, destination): (SocketAddr, SocketAddr)| (source, destination)), memory)
}
