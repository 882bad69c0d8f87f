//! Who takes part, and with which buffers.

use std::fmt;

use corelane_seam::Tuning;

use super::load::Carrier;

/// Who takes part in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrant {
    /// Corelane with the driver that was asked for.
    Corelane,
    /// Corelane with the driver that `auto` does not choose.
    OtherDriver,
    /// Another build of Corelane, with the driver that was asked for.
    Beside,
    /// Corelane that spins for so many microseconds before it sleeps.
    Spinning(u32),
    /// Corelane's echo service with messages of a size of its own, whatever the cell asks for.
    Echo,
    /// Corelane's echo service, by an async fn.
    Async,
    /// hyper's hello on Corelane's lanes.
    Hyper,
    /// One of `bench/peers`.
    Peer(Peer),
    /// The same, whose connections have buffers as large as Corelane's blocks.
    WithOurBlock(Peer),
}

/// The servers of `bench/peers`, and those that come as packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The plain epoll loop.
    Epoll,
    /// recvfrom/sendto.
    Udp,
    /// epoll, recvfrom/sendto.
    UdpEpoll,
    /// recvmmsg/sendmmsg.
    UdpBatch,
    /// UDP_GRO and UDP_SEGMENT.
    UdpGro,
    /// hyper's hello on tokio, current_thread.
    Hyper,
    /// tokio, current_thread.
    Tokio,
    /// compio.
    Compio,
    /// glommio.
    Glommio,
    /// monoio.
    Monoio,
    /// libtirpc's server loop.
    Libtirpc,
    /// nfs-ganesha.
    Ganesha,
    /// nginx.
    Nginx,
    /// h2o.
    H2o,
    /// lighttpd.
    Lighttpd,
    /// HAProxy.
    Haproxy,
    /// Envoy.
    Envoy,
    /// evserver of `crates/kqueue`.
    Evserver(ServerSystem),
}

/// The system of events that evserver waits at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerSystem {
    /// kqueue(2) of this project.
    Kqueue,
    /// epoll(7).
    Epoll,
    /// poll(2).
    Poll,
    /// Polls by io_uring(7).
    Uring,
}

impl ServerSystem {
    /// What evserver calls it.
    pub fn name(self) -> &'static str {
        match self {
            ServerSystem::Kqueue => "kqueue",
            ServerSystem::Epoll => "epoll",
            ServerSystem::Poll => "poll",
            ServerSystem::Uring => "uring",
        }
    }
}

/// A peer that cannot take part, and why.
pub struct Absence {
    /// Who.
    pub peer: Peer,
    /// The missing program, and how to get it.
    pub why: String,
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.peer, self.why)
    }
}

/// The peers among which the best framework is looked for, with either buffer.
pub const FRAMEWORKS: [Peer; 4] = [Peer::Tokio, Peer::Compio, Peer::Glommio, Peer::Monoio];

/// The peers among which the best loop of datagrams is looked for.
pub const LOOPS: [Peer; 4] = [Peer::Udp, Peer::UdpEpoll, Peer::UdpBatch, Peer::UdpGro];

/// The peers among which the best web server is looked for.
pub const WEB_SERVERS: [Peer; 3] = [Peer::Nginx, Peer::H2o, Peer::Lighttpd];

/// The peers among which the best proxy is looked for.
pub const PROXIES: [Peer; 2] = [Peer::Haproxy, Peer::Nginx];

/// A runtime's connection, as their documents show it.
const CONNECTION_BYTES: usize = 16 << 10;

/// The one buffer of a plain loop, and the most that one train can hold.
const HOT_BYTES: usize = 64 << 10;

/// A datagram of a batch: more than any cell sends, and 64 of them stay in the second-level cache.
const BATCHED_BYTES: usize = 2 << 10;

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Each {
    /// All that the server receives.
    Server,
    /// One connection.
    Connection,
    /// One receive; it goes back when it was sent.
    Receive,
    /// One datagram of a batch.
    Datagram,
}

impl Entrant {
    /// Whether it is the project's own server.
    pub fn is_corelane(self) -> bool {
        self.peer().is_none()
    }

    /// The peer, whatever its buffers.
    pub fn peer(self) -> Option<Peer> {
        match self {
            Entrant::Peer(peer) | Entrant::WithOurBlock(peer) => Some(peer),
            _ => None,
        }
    }

    /// Whether the best framework may be this one.
    pub fn is_framework(self) -> bool {
        self.peer().is_some_and(|peer| FRAMEWORKS.contains(&peer))
    }

    /// Whether the best loop may be this one.
    pub fn is_loop(self) -> bool {
        self.peer().is_some_and(|peer| LOOPS.contains(&peer))
    }

    /// Whether the best proxy may be this one.
    pub fn is_proxy(self) -> bool {
        self.peer().is_some_and(|peer| PROXIES.contains(&peer))
    }

    /// Whether the best web server may be this one.
    pub fn is_web_server(self) -> bool {
        self.peer().is_some_and(|peer| WEB_SERVERS.contains(&peer))
    }

    /// Bytes of a buffer of a peer, as it is told; `None` for one that chooses by itself, and for Corelane.
    pub fn buffer_bytes(self, transport: Carrier) -> Option<usize> {
        match self {
            Entrant::WithOurBlock(_) => Some(our_block(transport)),
            Entrant::Peer(peer) => peer.buffer(transport).map(|(bytes, _)| bytes),
            _ => None,
        }
    }

    /// What it receives into, for the tables: bytes, and what each such buffer is for.
    pub fn buffer(self, transport: Carrier) -> String {
        let (bytes, each) = match self {
            Entrant::WithOurBlock(_) => (our_block(transport), Each::Connection),
            Entrant::Peer(peer) => match peer.buffer(transport) {
                Some(buffer) => buffer,
                None => return "its own".to_owned(),
            },
            _ => (our_block(transport), Each::Receive),
        };
        format!("{}K{each}", bytes >> 10)
    }
}

/// Bytes of the block that one receive of a lane is given.
fn our_block(transport: Carrier) -> usize {
    let tuning = Tuning::default();
    match transport {
        Carrier::Tcp | Carrier::Tls => tuning.receive_bytes,
        Carrier::UdpSingles | Carrier::UdpTrains => tuning.datagram_bytes,
    }
}

impl Peer {
    /// The name of its program.
    pub fn program(self) -> &'static str {
        match self {
            Peer::Epoll => "peer-epoll",
            Peer::Udp => "peer-udp",
            Peer::UdpEpoll => "peer-udp-epoll",
            Peer::UdpBatch => "peer-udp-batch",
            Peer::UdpGro => "peer-udp-gro",
            Peer::Hyper => "peer-hyper",
            Peer::Tokio => "peer-tokio",
            Peer::Compio => "peer-compio",
            Peer::Glommio => "peer-glommio",
            Peer::Monoio => "peer-monoio",
            Peer::Libtirpc => "peer-libtirpc",
            Peer::Ganesha => "ganesha.nfsd",
            Peer::Nginx => "nginx",
            Peer::H2o => "h2o",
            Peer::Lighttpd => "lighttpd",
            Peer::Haproxy => "haproxy",
            Peer::Envoy => "envoy",
            Peer::Evserver(_) => "peer-evserver",
        }
    }

    /// What it asks the operating system through.
    pub fn driver(self) -> &'static str {
        match self {
            Peer::Epoll
            | Peer::Hyper
            | Peer::Tokio
            | Peer::Ganesha
            | Peer::UdpEpoll
            | Peer::Nginx
            | Peer::H2o
            | Peer::Lighttpd
            | Peer::Haproxy
            | Peer::Envoy => "epoll",
            Peer::Udp | Peer::UdpBatch | Peer::UdpGro => "blocking",
            Peer::Libtirpc => "poll",
            Peer::Evserver(system) => system.name(),
            Peer::Compio | Peer::Glommio | Peer::Monoio => "uring",
        }
    }

    /// What it is told to receive into; `None` if it has a choice of its own.
    fn buffer(self, transport: Carrier) -> Option<(usize, Each)> {
        match self {
            Peer::Ganesha
            | Peer::Hyper
            | Peer::Nginx
            | Peer::H2o
            | Peer::Lighttpd
            | Peer::Haproxy
            | Peer::Envoy
            | Peer::Evserver(_) => None,
            Peer::Libtirpc => Some((CONNECTION_BYTES, Each::Connection)),
            Peer::UdpBatch => Some((BATCHED_BYTES, Each::Datagram)),
            _ if FRAMEWORKS.contains(&self) && transport == Carrier::Tcp => Some((CONNECTION_BYTES, Each::Connection)),
            _ => Some((HOT_BYTES, Each::Server)),
        }
    }
}

impl fmt::Display for Entrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Entrant::Corelane => f.write_str("corelane"),
            Entrant::OtherDriver => f.write_str("corelane, other driver"),
            Entrant::Beside => f.write_str("corelane, the build beside"),
            Entrant::Spinning(us) => write!(f, "corelane --spin {us}"),
            Entrant::Echo => f.write_str("corelane echo"),
            Entrant::Async => f.write_str("corelane, async"),
            Entrant::Hyper => f.write_str("hyper on corelane"),
            Entrant::Peer(peer) => peer.fmt(f),
            Entrant::WithOurBlock(peer) => write!(f, "{peer}, our block"),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::Ganesha => f.write_str("nfs-ganesha"),
            Peer::Hyper => f.write_str("hyper on tokio"),
            Peer::Evserver(system) => write!(f, "evserver {}", system.name()),
            peer => f.write_str(peer.program().trim_start_matches("peer-")),
        }
    }
}

impl fmt::Display for Each {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Each::Server => "",
            Each::Connection => "/conn",
            Each::Receive => "/receive",
            Each::Datagram => "/datagram",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stated_is_what_a_peer_is_told() {
        for (peer, transport, bytes, stated) in [
            (Peer::Tokio, Carrier::Tcp, 16 << 10, "16K/conn"),
            (Peer::Tokio, Carrier::UdpSingles, 64 << 10, "64K"),
            (Peer::Epoll, Carrier::Tcp, 64 << 10, "64K"),
            (Peer::UdpBatch, Carrier::UdpTrains, 2 << 10, "2K/datagram"),
            (Peer::Libtirpc, Carrier::Tcp, 16 << 10, "16K/conn"),
        ] {
            let entrant = Entrant::Peer(peer);
            assert_eq!(entrant.buffer_bytes(transport), Some(bytes), "{entrant}");
            assert_eq!(entrant.buffer(transport), stated, "{entrant}");
        }
        let ganesha = Entrant::Peer(Peer::Ganesha);
        assert_eq!((ganesha.buffer_bytes(Carrier::Tcp), ganesha.buffer(Carrier::Tcp).as_str()), (None, "its own"));
    }

    #[test]
    fn our_block_is_the_lanes() {
        let block = Tuning::default().receive_bytes;
        for peer in FRAMEWORKS {
            assert_eq!(Entrant::WithOurBlock(peer).buffer_bytes(Carrier::Tcp), Some(block));
        }
        assert_eq!(Entrant::Corelane.buffer(Carrier::Tcp), format!("{}K/receive", block >> 10));
        assert_eq!(Entrant::Corelane.buffer_bytes(Carrier::Tcp), None, "it is told nothing");
    }

    #[test]
    fn a_peer_with_our_block_is_told_apart_and_no_server_of_ours() {
        let block = Entrant::WithOurBlock(Peer::Monoio);
        assert_eq!(block.to_string(), "monoio, our block");
        assert!(block.is_framework() && !block.is_loop() && !block.is_corelane());
        assert!(Entrant::Peer(Peer::UdpBatch).is_loop() && !Entrant::Peer(Peer::Epoll).is_loop());
        assert!(Entrant::Beside.is_corelane());
    }
}
