//! Internet protocols over frames, behind the driver's contract.
//!
//! [`Stack`] wraps the driver of a lane and has a port for each of its interfaces: one queue of it. Datagram sockets at its addresses are its own, whatever else is
//! asked goes to the driver below; so services run on it as they are, and the lane sleeps in one place.
//!
//! ```text
//! below.collect --frames--> ether --ip--> fragment? held, put together, placed again by the whole's flow (ip_direct)
//!                                 `-arp          `-> transport -> udp: queue of the socket -> one batch -> completion
//!                                                              -> icmp, icmpv6: answered, or told to the socket
//! push(Send) -> draft: data, checksum, headers, fragments -> route -> neighbour -> frames -> below.push
//! Packets (a work beside it) <--frames as parcels, and how many were handled--> the Packets of other lanes
//! ```
//!
//! Every arrow of a packet that arrives is a dispatch of [`corelane_isr`]: `ether` and `arp` run at once, `ip`, `ip6`, `ip_direct` and `ip6_direct` on
//! the lane of their flow's bucket, by the policy that is set. Fragments stay where they arrived until they are whole, for their flow is not known.
//!
//! | what | bound |
//! | --- | --- |
//! | neighbours that are known, asked for, have asked | [`KNOWN_MAX`], [`ASKED_MAX`], [`MET_MAX`]; frames that wait for one [`WAITING_MAX`], for all of a port's interfaces an eighth of its frames, and for each its part of another |
//! | datagrams that wait for a socket | the receive buffer that it was bound with, by whole frames; all sockets half of the port's frames |
//! | fragments | [`corelane_isr::reassembly::Limits::for_lane`]: 4 MiB of the lane's own, into which they are copied once a 32nd part of the port's frames waits; one that lies in several frames waits as several; of one datagram as many as the longest needs, or [`Settings::fragments_each`]; each interface has an equal part, where others want theirs |
//! | frames of a packet | those that the port takes for one ([`corelane_seam::PortFacts::pieces_max`]) |
//! | packets queued for a lane, by protocol | 256 each (`ip`, `ip6`, ..) |
//! | ICMP errors and resets of TCP; echoes | 1,000 a second and 50 at once; 10,000 and 500; and of each peer alone, in 256 shares, 10 and 5; 20 and 20 |
//! | ways that are narrower than the interface | [`NARROW_MAX`], half of them by the word of one router, for ten minutes |
//! | peers of long answers to echoes, whose ways may be narrow | the last 64 |
//! | questions for neighbours to all of a link | 250 a second and 100 at once of all lanes, each of which has its part |
//! | interfaces; own addresses and routes; routes of one prefix | [`INTERFACES_MAX`]; [`ROUTES_MAX`]; [`WAYS_MAX`] |
//! | frames that were forwarded and wait for their port | a quarter of its frames |
//! | announcements against who claims an address; answers to queries for listeners | one in 10 seconds; one at a time |
//! | messages of DHCP that an interface relays | of each family: requests: 500 a second and 250 at once, of which 250 and 125 in common, and of each share of clients 5 and 5; answers: 2,000 and 1,000; of 1,472 bytes, of IPv6 of 2,300; [`RELAY_SERVERS_MAX`] servers |
//! | tunnels within tunnels | four; each kind is opened only for the peers that the settings name ([`Tunnel`]) |
//! | channels of a lane | [`CHANNELS_MAX`]; packets in each its ring |
//! | frames of a send | those that are free: a send that finds none waits, and goes on when frames come back |
//!
//! **Who answers.** The stack answers ARP, neighbour discovery and echoes for its addresses, and for no other. So the kernel must not have them: whoever
//! opens the port sees to that.
//!
//! **Shares of a turn.** A turn handles as many packets as the budget of [`Packets`] has completions (`corelane_lane::Budget`), whether they come or were
//! queued: what is more waits in the port, which is asked for no more meanwhile, and other works of the lane have their turns. So
//! [`help`](corelane_isr::dispatch::Isr::help), for dispatchers without such turns, is not called. A
//! protocol has one queue a lane here, and none a bucket ([`bucket`](corelane_isr::dispatch::Registration::bucket)): what one flow may fill is bounded
//! by its socket.
//!
//! **When something breaks.** Packets are handled within the driver's calls, which a lane does not survive a panic in. So the stack has a fence of its
//! own around them: behind it the path does nothing any more, the port is closed, sends are refused, and [`Packets`] leaves the lane, which says why
//! (CL-0025). What else the lane serves goes on. The same comes of a panic in [`Packets`] itself.
//!
//! **Sockets and lanes.** Each lane has its own socket for an address that a service is bound to, and gets the flows of its buckets. A socket with a peer
//! and without a port gets a port whose answers come to its lane. One without either gets a port of its lane's own (by the remainder of its number): what
//! comes for it elsewhere is brought there, and counted as a stray.
//!
//! **The link is believed alone.** Words of neighbours count only from the link itself, whole, and in no tunnel. A neighbour who is known keeps his address
//! while he answers: whoever else claims it gets it after 0.2 seconds of his silence (`interface/neighbours`). Nothing is taken from an address of ours.
//!
//! **Presence.** One lane of a program introduces the addresses to the link where its interface comes up, and hears who else has one (`interface/presence`); whichever lane
//! hears a query for listeners answers it (`reports`). What of the interface changes each lane follows (`interface/told`).
//!
//! **Several interfaces.** Each has addresses and neighbours, and a port of its own ([`Settings::and_interface`]) or a VLAN of one ([`Settings::and_vlan`]); a route names the
//! interface of its router. An address is answered for at its own link alone, and what is for it is taken from any.
//!
//! **Forwarding** is off, but for packets that come by interfaces whose settings say so ([`InterfaceSettings::forwards`]): `headers` marks them, and `forwarding` sends them on.
//! Packets meet the rules that there are ([`Settings::with_rules`], [`Policy::Rules`]): those for us when they have come, those that are forwarded then and before they leave, and what
//! the stack itself sends before it leaves. What keeps a link going meets none: ARP, neighbour discovery, words about listeners.
//!
//! **Neighbours and lanes.** Each lane has a table of its own; what has no flow, as answers of ARP, arrives on one of them, which tells the others.
//!
//! **Time.** What waits for time to pass (fragments, questions for neighbours) is kept behind the driver's face, also where no work of the stack stands beside
//! it: its earliest time bounds how long the driver below may wait, as the first timer of the lane's wheel does. A lane that sleeps wakes for it, once.
//!
//! **Addresses are named**: the wildcard address is the driver's below, but for a socket whose peer is reached by a network of the stack's.
//!
//! What comes, and where it has its place:
//!
//! ```text
//! TCP        round: IpProtocol::TCP => self.tcp(packet, ip)               sockets by hash of their four parts; a machine without input or output
//!            Driver::listen, StreamOp::Connect at own addresses           that is handed segments and says what to send; its timers in Net::due
//! ```
//!
//! Router advertisements that are heard, groups that services join, and IPv6 link-local addresses that nobody has given are not there.
#![forbid(unsafe_code)]

mod beside;
mod channels;
mod counts;
mod discovery;
mod draft;
mod driver;
mod fault;
mod forwarding;
mod fragments;
mod gate;
mod gauges;
mod headers;
mod icmp;
mod interface;
mod interfaces;
mod judging;
mod net;
mod opening;
mod orders;
mod outward;
mod packet;
mod peers;
mod placing;
mod polling;
mod published;
mod relay;
mod reports;
mod round;
mod routes;
mod settings;
mod sockets;
mod translation;
mod trunk;
mod tunnels;
mod udp;
mod view;
mod work;

pub use channels::{CHANNELS_MAX, ChannelRefused, Filter, FilterEnd, NoFilter, Target};
pub use counts::{Drop, Losses, PacketCounts};
pub use driver::Stack;
pub use forwarding::Traffic;
pub use interface::{ASKED_MAX, KNOWN_MAX, MET_MAX, WAITING_MAX};
pub use placing::PROTOCOLS;
pub use published::{LanePolling, polling_of, port_states_of, ports_of, report_of};
pub use relay::check_relay;
pub use routes::{NARROW_MAX, check_addresses, check_own};
pub use settings::{
    Advertised, Error, INTERFACES_MAX, InterfaceSettings, MssClamp, NatSettings, Network, RELAY_SERVERS_MAX, ROUTES_MAX,
    ReversePath, Route, RouteChange, Settings, WAYS_MAX,
};
pub use trunk::{NoTags, Tags};
pub use tunnels::{Tunnel, TunnelCounts};
pub use view::{Look, View};
pub use work::{Crossing, Lookout, Packets, Policy, Sight};
