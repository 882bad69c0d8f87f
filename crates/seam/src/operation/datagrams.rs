//! What datagram sockets are made with.

use crate::address::Address;

/// A datagram socket to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// Address and port; port 0 lets the system choose.
    pub address: Address,
    /// The only peer, if there is one (connect(2), udp(7)): nobody else's datagrams arrive, all that is sent goes there,
    /// whatever the trains name, and what the network says of it is reported: `Refused` where nobody is bound.
    pub peer: Option<Address>,
    /// As in [`Listen`](super::Listen).
    pub share_port: bool,
    /// As in [`Listen`](super::Listen).
    pub v6_only: bool,
    /// Bytes of the kernel's receive buffer; 0 leaves the default (net.core.rmem_default).
    pub receive_buffer_bytes: u32,
    /// Bytes of the kernel's send buffer; 0 leaves the default (net.core.wmem_default).
    pub send_buffer_bytes: u32,
}
