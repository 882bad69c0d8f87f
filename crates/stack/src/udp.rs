//! UDP (RFC 768) in and out.

use crate::counts::Drop;
use crate::draft::Draft;
use crate::fault;
use crate::headers::has_right_sum;
use crate::outward::Outward;
use crate::packet::{Ip, Packet};
use crate::routes::Way;
pub(crate) use crate::sockets::HEAD;
use crate::sockets::{Sending, Sockets};
use corelane_seam::slab::Key;
use corelane_seam::{Completion, Fault, Segment, Train, datagram_bytes_max};
use corelane_wire::packet::IpProtocol;
use corelane_wire::packet::checksum::Addresses;
use std::net::{IpAddr, SocketAddr};

/// Why no more of a send leaves now.
enum Stop {
    /// Frames are used up.
    Blocked,
    /// This datagram never will.
    Refused(Fault),
}

/// Looks at a datagram, and cuts its packet to it: between whom it goes.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn look(out: &mut Outward<'_>, packet: &mut Packet, mut ip: Ip) -> Result<(SocketAddr, SocketAddr), Drop> {
    let head = packet.transport(&ip).next().and_then(|first| first.first_chunk::<HEAD>().copied()).ok_or(Drop::Malformed)?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let length = usize::from(word(4));
    if length < HEAD || length > ip.length {
        return Err(Drop::Malformed);
    }
    ip.length = length;
    // Without a checksum only IPv4 has any (RFC 8200, section 8.1).
    let is_right = match word(6) {
        0 => ip.source.is_ipv4(),
        stands => has_right_sum(packet, &ip, stands, out.leaves_sums(packet.interface), out.tally),
    };
    if !is_right {
        return Err(Drop::Checksum);
    }
    packet.ip = Some(ip);
    Ok((SocketAddr::new(ip.source, word(0)), SocketAddr::new(ip.destination, word(2))))
}

/// Sends on what a socket is sending; its end, if there is nothing left to do.
pub(crate) fn send_on(out: &mut Outward<'_>, sockets: &mut Sockets, key: Key) -> Option<Completion> {
    let (local, peer, mut sending) = sockets.take_send(key)?;
    while let Some(train) = sending.trains.trains().get(sending.train).cloned() {
        match send_train(out, &mut sending, &train, local, peer) {
            Ok(()) => {}
            Err(Stop::Refused(fault)) => {
                let whole = train.datagram_bytes.max(1) as usize;
                sending.refused += (train.datagrams() - sending.done / whole) as u32;
                sending.fault = Some(fault);
            }
            Err(Stop::Blocked) => {
                sockets.block(key, sending);
                return None;
            }
        }
        (sending.train, sending.done) = (sending.train + 1, 0);
    }
    let fault = sockets.take_fault(key);
    Some(sending.end(fault))
}

/// Sends what is left of a train.
fn send_train(
    out: &mut Outward<'_>,
    sending: &mut Sending,
    train: &Train,
    local: SocketAddr,
    peer: Option<SocketAddr>,
) -> Result<(), Stop> {
    let (source, to, way) = ends_of(out, train, local, peer).map_err(Stop::Refused)?;
    let (whole, most) = (train.datagram_bytes as usize, out.most_to(way.interface, to.ip()));
    let is_v6 = to.is_ipv6();
    if whole > datagram_bytes_max(&to.into()) {
        return Err(Stop::Refused(fault::TOO_LARGE));
    }
    let memory = out.interfaces[way.interface].memory();
    if Draft::frames(memory, is_v6, HEAD + whole, most) > memory.frames() / 2 {
        return Err(Stop::Refused(fault::NO_FRAMES));
    }
    let Sending { trains, done, datagrams, .. } = sending;
    let mut pieces = Pieces::of(trains.segments(train), *done);
    loop {
        let bytes = whole.min(train.bytes as usize - *done);
        if !out.begin(way.interface, is_v6, HEAD + bytes, most) {
            return Err(Stop::Blocked);
        }
        let from = SocketAddr::new(source, local.port());
        datagram(out, (from, to), way, bytes, &mut pieces).ok_or(Stop::Refused(fault::NOT_IN_MEMORY))?;
        (*done, *datagrams) = (*done + bytes, *datagrams + 1);
        if *done >= train.bytes as usize {
            return Ok(());
        }
    }
}

/// From where and to where a train goes, and by which way.
fn ends_of(
    out: &Outward<'_>,
    train: &Train,
    local: SocketAddr,
    peer: Option<SocketAddr>,
) -> Result<(IpAddr, SocketAddr, Way), Fault> {
    let named = || train.peer.clone().canonical().inet().map(|to| SocketAddr::new(to.ip(), to.port()));
    let to = peer.or_else(named).ok_or(fault::FAMILY)?;
    let source = train.source.map_or(local.ip(), |source| source.to_canonical());
    if !out.routes.is_own(source) || source.is_ipv4() != to.is_ipv4() || to.port() == 0 {
        return Err(fault::NO_ADDRESS);
    }
    let way = out.routes.way(to.ip()).ok_or(fault::NO_WAY)?;
    Ok((source, to, way))
}

/// Writes and sends one datagram into the draft that was begun for it; none if its bytes are not in memory.
fn datagram<'a>(
    out: &mut Outward<'_>,
    (from, to): (SocketAddr, SocketAddr),
    way: Way,
    bytes: usize,
    pieces: &mut Pieces<'a, impl Iterator<Item = &'a Segment>>,
) -> Option<()> {
    let length = HEAD + bytes;
    put_head(out, from, to, length);
    let draft = out.draft();
    let mut left = bytes;
    while left > 0 {
        let Some(piece) = pieces.next(left) else {
            draft.abandon();
            return None;
        };
        draft.put(piece);
        left -= piece.len();
    }
    seal(out, from, to, length);
    let has_left = out.send_draft((way.interface, way.hop), from.ip(), to.ip(), IpProtocol::UDP);
    out.tally.datagrams_out += u64::from(has_left);
    Some(())
}

/// Writes the header of a datagram of so many bytes into the draft that was begun for it.
pub(crate) fn put_head(out: &mut Outward<'_>, from: SocketAddr, to: SocketAddr, length: usize) {
    let [a, b] = from.port().to_be_bytes();
    let [c, d] = to.port().to_be_bytes();
    let [e, f] = (length as u16).to_be_bytes();
    out.draft().put(&[a, b, c, d, e, f, 0, 0]);
}

/// Writes the checksum of a datagram whose bytes are all in the draft, and says of which flow its fragments are.
pub(crate) fn seal(out: &mut Outward<'_>, from: SocketAddr, to: SocketAddr, length: usize) {
    let addresses = match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
        _ => unreachable!("both ends of a datagram are of one family"),
    };
    let pseudo = addresses.pseudo(IpProtocol::UDP, length).unwrap_or_default();
    let draft = out.draft();
    draft.patch(6, pseudo.plus(draft.sum).checksum_of_udp());
    out.mark_fragments(from, to, IpProtocol::UDP);
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
