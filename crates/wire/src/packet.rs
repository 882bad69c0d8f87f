//! Packets as they lie on the wire: Ethernet with VLAN tags, ARP, IPv4, IPv6 with its extension headers, ICMP and ICMPv6 with neighbour
//! discovery and listener discovery, UDP, TCP, GRE, VXLAN, DHCP; IP in IP and 6in4 are an IP header behind another.
//!
//! Each format is one file, with two things: a **view** over bytes, whose lengths are checked once, when it is made, so that asking it cannot
//! fail, and a **value** (`Header` or `Message`), which can only be legal and writes itself (`emit`). A value that was written and read again
//! is the same. Headers are written from the outside in, into an [`xdr::Writer`](crate::xdr::Writer) over the front of a frame: each is told
//! the length of what it carries, or shown it where a checksum covers it.
//!
//! ```text
//! port (frame) --Packet::of_frame--> Packet { link, network, transport } --flow()--> isr, rss: hash, lane
//!                                        |                  |--fragment()--> isr: reassembly
//!                                        |--inner()--> the packet in a tunnel: hashed again, on the lane that received it
//! stack (reply) --Header::emit, innermost data first in the frame--> port
//! ```
//!
//! Nothing here allocates, and nothing is looked at twice: a view may be handed on. Whether a checksum is right is asked apart
//! (`is_checksum_right`), for a card may have said so already ([`checksum`] has it whole, in part, and after a change).
//!
//! ```
//! use corelane_wire::packet::{Ports, Packet, checksum::Addresses, ethernet::Mac, ethernet, ipv4, udp, EtherType, IpProtocol};
//! use corelane_wire::xdr::Writer;
//! # use corelane_wire::Error;
//!
//! let ip = ipv4::Header {
//!     traffic: Default::default(), identification: 1, fragment: Default::default(), hops: 64, protocol: IpProtocol::UDP,
//!     source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), options: Default::default(),
//! };
//! let (data, mut memory) = (b"hello", [0; 64]);
//! let mut frame = Writer::new(&mut memory);
//! ethernet::Header { destination: Mac::BROADCAST, source: Mac([2, 0, 0, 0, 0, 1]), protocol: EtherType::IPV4 }.emit(&mut frame)?;
//! ip.emit(udp::Header::BYTES + data.len(), &mut frame)?;
//! udp::Header { source: 7, destination: 9 }.emit(&ip.addresses(), data, &mut frame)?;
//! frame.put(data)?;
//! let packet = Packet::of_frame(frame.written())?;
//! assert_eq!(packet.flow().map(|flow| flow.ports), Some(Ports::Both(7, 9)));
//! # Ok::<(), Error>(())
//! ```

pub mod arp;
mod bytes;
pub mod checksum;
pub mod dhcp;
pub mod dhcpv6;
mod dissect;
pub mod ethernet;
pub mod extension;
pub mod fragment;
pub mod gre;
pub mod icmp;
pub mod icmpv6;
pub mod ipv4;
pub mod ipv6;
pub mod mld;
pub mod neighbour;
mod options;
mod protocol;
pub mod tcp;
mod traffic;
pub mod udp;
pub mod vlan;
pub mod vxlan;

pub use dissect::{Flow, FragmentFacts, Link, Network, Packet, Ports, TAGS_MAX, TUNNELS_MAX, Tunnel, UpperLayer};
pub use options::{OPTIONS_BYTES_MAX, OptionView, OptionViews, Options};
pub use protocol::{EtherType, IpProtocol};
pub use traffic::{Ecn, Traffic};
