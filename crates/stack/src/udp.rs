//! UDP (RFC 768) in and out.

use crate::counts::Drop;
use crate::draft::Draft;
use crate::fault;
use crate::packet::{Ip, Packet};
use crate::path::{Leaving, Path};
use crate::sockets::{HEAD, Sending};
use corelane_rss::{Outgoing, Protocol, Way as Direction};
use corelane_seam::slab::Key;
use corelane_seam::{Bind, Completion, Fault, Segment, Socket, Train, datagram_bytes_max};
use corelane_wire::packet::IpProtocol;
use std::net::{IpAddr, SocketAddr};

/// Ports that are given to whoever asks for none (RFC 6335, section 6). Of a socket that has no peer each lane has its own, told by the
/// remainder.
const EPHEMERAL: std::ops::RangeInclusive<u16> = 49_152..=65_535;

/// Why no more of a send leaves now.
enum Stop {
    /// Frames are used up.
    Blocked,
    /// This datagram never will.
    Refused(Fault),
}

impl Path {
    /// A datagram.
    pub fn udp(&mut self, mut packet: Packet, mut ip: Ip) {
        self.counts.datagrams_arrived += 1;
        let Some(head) = packet.transport(&ip).next().and_then(|first| first.first_chunk::<HEAD>().copied()) else {
            return self.damaged(packet, Drop::Malformed);
        };
        let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let length = usize::from(word(4));
        if length < HEAD || length > ip.length {
            return self.damaged(packet, Drop::Malformed);
        }
        ip.length = length;
        // Without a checksum only IPv4 has any (RFC 8200, section 8.1).
        let has_none = word(6) == 0;
        if (has_none && ip.source.is_ipv6()) || (!has_none && !self.is_right(&packet, &ip, word(6))) {
            return self.damaged(packet, Drop::Checksum);
        }
        packet.ip = Some(ip);
        let (from, to) = (SocketAddr::new(ip.source, word(0)), SocketAddr::new(ip.destination, word(2)));
        self.give(packet, ip, from, to);
    }

    fn damaged(&mut self, packet: Packet, why: Drop) {
        self.counts.datagrams_damaged += 1;
        self.counts.drop(why);
        self.done(packet);
    }

    /// Gives a datagram to its socket.
    fn give(&mut self, packet: Packet, ip: Ip, from: SocketAddr, to: SocketAddr) {
        if let Some(socket) = self.sockets.find(to, from) {
            match self.sockets.put(socket, from, packet) {
                Ok(()) => self.counts.datagrams_in += 1,
                Err(packet) => {
                    self.counts.drop(Drop::Full);
                    self.done(packet);
                }
            }
            return;
        }
        if let Some(lane) = self.lane_of_port(to.port()) {
            self.counts.strays += 1;
            return self.leaving.push(Leaving { to: lane, number: None, packet });
        }
        self.counts.drop(Drop::Port);
        self.no_such_port(&packet, &ip);
        self.done(packet);
    }

    /// The other lane that alone may have a socket at a port, if there is one.
    fn lane_of_port(&self, port: u16) -> Option<usize> {
        let lane = usize::from(port) % self.lane.1;
        (EPHEMERAL.contains(&port) && lane != self.lane.0).then_some(lane)
    }

    /// Makes a socket at an address of ours, or one that reaches its peer by us.
    ///
    /// # Errors
    /// `AddressInUse`, and `AddressUnknown` or `Unreachable` where there is no such address, or no way to the peer.
    pub fn bind(&mut self, bind: &Bind, local: SocketAddr) -> Result<Socket, Fault> {
        let peer = match &bind.peer {
            None => None,
            Some(peer) => {
                let peer = peer.clone().canonical().inet().ok_or(fault::FAMILY)?;
                Some(SocketAddr::new(peer.ip(), peer.port()))
            }
        };
        if let Some(peer) = peer {
            if peer.ip().is_ipv4() != local.ip().is_ipv4() {
                return Err(fault::FAMILY);
            }
            self.routes.way(peer.ip()).ok_or(fault::NO_WAY)?;
        }
        let local = match local.port() {
            0 => self.free_port(local.ip(), peer).ok_or(fault::IN_USE)?,
            _ if !self.sockets.is_free(local, peer) => return Err(fault::IN_USE),
            _ => local,
        };
        Ok(self.sockets.add(local, peer, bind.receive_buffer_bytes))
    }

    /// A port that nobody has, and whose datagrams come to this lane.
    fn free_port(&mut self, ip: IpAddr, peer: Option<SocketAddr>) -> Option<SocketAddr> {
        let is_free = |port: &u16| self.sockets.is_unused(SocketAddr::new(ip, *port));
        let (lane, lanes) = self.lane;
        // Behind the one that was given last, so that none is used again at once.
        let first = self.port_given.max(*EPHEMERAL.start());
        let behind = |port: &u16| *port > first;
        let ports = EPHEMERAL.filter(behind).chain(EPHEMERAL.filter(|port| *port <= first));
        let own = |port: &u16| lanes == 1 || usize::from(*port) % lanes == lane;
        let port = match peer {
            Some(peer) if lanes > 1 => {
                let flow = Outgoing { local: ip, peer, protocol: Protocol::UDP, way: Direction::Home };
                let found = || flow.ports(&self.hasher, EPHEMERAL, |flow| self.lane_of(flow) == lane).ok();
                let free =
                    |wanted: &dyn Fn(&u16) -> bool| found()?.map(|(port, _)| port).find(|port| wanted(port) && is_free(port));
                free(&behind).or_else(|| free(&|_| true))
            }
            _ => ports.filter(own).find(is_free),
        };
        let port = port?;
        self.port_given = port;
        Some(SocketAddr::new(ip, port))
    }

    /// Sends on what a socket is sending; its end, if there is nothing left to do.
    pub fn send_on(&mut self, key: Key) -> Option<Completion> {
        let (local, peer, mut sending) = {
            let socket = self.sockets.get_mut(key)?;
            (socket.local, socket.peer, socket.send.take()?)
        };
        while let Some(train) = sending.trains.trains().get(sending.train).cloned() {
            match self.send_train(&mut sending, &train, local, peer) {
                Ok(()) => {}
                Err(Stop::Refused(fault)) => {
                    let whole = train.datagram_bytes.max(1) as usize;
                    sending.refused += (train.datagrams() - sending.done / whole) as u32;
                    sending.fault = Some(fault);
                }
                Err(Stop::Blocked) => {
                    self.sockets.blocked.push_back(key);
                    self.sockets.get_mut(key)?.send = Some(sending);
                    return None;
                }
            }
            (sending.train, sending.done) = (sending.train + 1, 0);
        }
        let fault = self.sockets.take_fault(key);
        Some(sending.end(fault))
    }

    /// Sends what is left of a train.
    fn send_train(
        &mut self,
        sending: &mut Sending,
        train: &Train,
        local: SocketAddr,
        peer: Option<SocketAddr>,
    ) -> Result<(), Stop> {
        let (source, to, hop) = self.ends_of(train, local, peer).map_err(Stop::Refused)?;
        let (whole, most) = (train.datagram_bytes as usize, self.most_to(to.ip()));
        let is_v6 = to.is_ipv6();
        if whole > datagram_bytes_max(&to.into()) {
            return Err(Stop::Refused(fault::TOO_LARGE));
        }
        if Draft::frames(&self.memory, is_v6, HEAD + whole, most) > self.memory.frames() / 2 {
            return Err(Stop::Refused(fault::NO_FRAMES));
        }
        let Sending { trains, done, datagrams, .. } = sending;
        let mut pieces = Pieces::of(trains.segments(train), *done);
        loop {
            let bytes = whole.min(train.bytes as usize - *done);
            if !self.draft.begin(&self.memory, is_v6, HEAD + bytes, most) {
                return Err(Stop::Blocked);
            }
            self.datagram(SocketAddr::new(source, local.port()), to, hop, bytes, &mut pieces)
                .ok_or(Stop::Refused(fault::NOT_IN_MEMORY))?;
            (*done, *datagrams) = (*done + bytes, *datagrams + 1);
            if *done >= train.bytes as usize {
                return Ok(());
            }
        }
    }

    /// From where and to where a train goes, and by which neighbour.
    fn ends_of(&self, train: &Train, local: SocketAddr, peer: Option<SocketAddr>) -> Result<(IpAddr, SocketAddr, IpAddr), Fault> {
        let named = || train.peer.clone().canonical().inet().map(|to| SocketAddr::new(to.ip(), to.port()));
        let to = peer.or_else(named).ok_or(fault::FAMILY)?;
        let source = train.source.map_or(local.ip(), |source| source.to_canonical());
        if !self.routes.is_own(source) || source.is_ipv4() != to.is_ipv4() || to.port() == 0 {
            return Err(fault::NO_ADDRESS);
        }
        let way = self.routes.way(to.ip()).ok_or(fault::NO_WAY)?;
        Ok((source, to, way.hop))
    }

    /// Writes and sends one datagram into the draft that was begun for it; none if its bytes are not in memory.
    fn datagram<'a>(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        hop: IpAddr,
        bytes: usize,
        pieces: &mut Pieces<'a, impl Iterator<Item = &'a Segment>>,
    ) -> Option<()> {
        let length = HEAD + bytes;
        let [a, b] = from.port().to_be_bytes();
        let [c, d] = to.port().to_be_bytes();
        let [e, f] = (length as u16).to_be_bytes();
        self.draft.put(&[a, b, c, d, e, f, 0, 0]);
        let mut left = bytes;
        while left > 0 {
            let Some(piece) = pieces.next(left) else {
                self.draft.abandon();
                return None;
            };
            self.draft.put(piece);
            left -= piece.len();
        }
        let ip = Ip {
            was_cut: false,
            source: from.ip(),
            destination: to.ip(),
            protocol: IpProtocol::UDP,
            head: 0,
            length,
            is_part: false,
            is_good: true,
            tunnels: 0,
        };
        let pseudo = ip.addresses().pseudo(IpProtocol::UDP, length).unwrap_or_default();
        self.draft.patch(6, pseudo.plus(self.draft.sum).checksum_of_udp());
        self.counts.datagrams_out += 1;
        self.is_untold = true;
        self.mark_fragments(from, to, IpProtocol::UDP);
        self.send_draft_by(hop, from.ip(), to.ip(), IpProtocol::UDP);
        Some(())
    }
}

/// The bytes of a train, piece by piece.
struct Pieces<'a, I> {
    segments: I,
    rest: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a Segment>> Pieces<'a, I> {
    /// All but the first `skip` bytes.
    fn of(segments: I, mut skip: usize) -> Self {
        let mut pieces = Self { segments, rest: &[] };
        while skip > 0 {
            // reason: what is skipped was sent, so it is in memory.
            let skipped = pieces.next(skip).expect("a train has what was sent of it");
            skip -= skipped.len();
        }
        pieces
    }

    /// The next bytes, at most so many; none where there are no more in memory.
    fn next(&mut self, most: usize) -> Option<&'a [u8]> {
        while self.rest.is_empty() {
            self.rest = self.segments.next()?.bytes()?;
        }
        let (piece, rest) = self.rest.split_at(most.min(self.rest.len()));
        self.rest = rest;
        Some(piece)
    }
}
