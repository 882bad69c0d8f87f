//! What a datagram service sends: gathered for one socket, until the turn is flushed.

use corelane_seam::{Address, Arrival, Datagrams, Segment, Trains};
use std::collections::VecDeque;
use std::net::IpAddr;

/// What a datagram service sends from one socket. Replies to one peer leave as trains, even when the requests came singly.
///
/// Refused and counted (`datagrams_refused`) are: more than 128 datagrams at once, one of over 65,507 bytes (65,527 over IPv6),
/// more than may wait (`datagrams_waiting_max`), and, from a socket with a peer, anything for somebody else.
pub struct Replies {
    pub(crate) trains: Trains,
    /// The only peer.
    peer: Option<Address>,
    /// The most datagrams that may wait.
    most: usize,
    waiting: usize,
    /// Of sends that have ended, and whose memory the system still reads: datagrams of each, the oldest first, at least one, and of all of them. They count as if they waited.
    unreleased: VecDeque<usize>,
    held: usize,
    /// Some were refused that will have room when memory is released.
    is_short: bool,
    /// Bytes that wait, and those of them that lie where they arrived.
    bytes: usize,
    forwarded: usize,
    /// Datagrams that were refused, and calls that were because too many waited, until they are counted.
    pub(crate) refused: usize,
    pub(crate) bound_hits: usize,
}

/// What waited at a socket, on its way out.
pub(crate) struct Gathered {
    pub(crate) trains: Trains,
    pub(crate) bytes: usize,
    pub(crate) forwarded: usize,
}

impl Replies {
    pub(crate) fn new(peer: Option<Address>, most: usize) -> Self {
        let (trains, unreleased) = (Trains::new(), VecDeque::new());
        Self {
            trains,
            peer,
            most,
            waiting: 0,
            unreleased,
            held: 0,
            is_short: false,
            bytes: 0,
            forwarded: 0,
            refused: 0,
            bound_hits: 0,
        }
    }

    /// Sends an arrival back as it came, without copying.
    pub fn echo(&mut self, batch: &Datagrams, arrival: &Arrival) {
        let payload = batch.share(arrival);
        let bytes = payload.len();
        let size = arrival.datagram_bytes as usize;
        if self
            .add(&arrival.peer, bytes, size, |trains| trains.add(&arrival.peer, arrival.asked, arrival.interface, payload, size))
        {
            self.forwarded += bytes;
        }
    }

    /// Answers an arrival, from the address that it was sent to, with datagrams of `datagram_bytes` each; the last may be shorter.
    pub fn reply(&mut self, arrival: &Arrival, payload: impl Into<Segment>, datagram_bytes: usize) {
        let payload = payload.into();
        self.add(&arrival.peer, payload.len(), datagram_bytes, |trains| {
            trains.add(&arrival.peer, arrival.asked, arrival.interface, payload, datagram_bytes)
        });
    }

    /// Sends one datagram to anybody; `source` is one of this machine's addresses, or none for the socket's own. Returns false
    /// if it is refused.
    pub fn send(&mut self, peer: impl Into<Address>, source: Option<IpAddr>, payload: impl Into<Segment>) -> bool {
        let payload = payload.into();
        let bytes = payload.len();
        self.send_train(peer, source, payload, bytes)
    }

    /// [`Replies::send`] of several datagrams of `datagram_bytes` each; the last may be shorter.
    pub fn send_train(
        &mut self,
        peer: impl Into<Address>,
        source: Option<IpAddr>,
        payload: impl Into<Segment>,
        datagram_bytes: usize,
    ) -> bool {
        let (peer, payload) = (&peer.into(), payload.into());
        self.add(peer, payload.len(), datagram_bytes, |trains| trains.add(peer, source, 0, payload, datagram_bytes))
    }

    /// [`Replies::send`] of a datagram that joins no train: it leaves in the same call as the others, and travels by itself.
    pub fn send_single(&mut self, peer: impl Into<Address>, source: Option<IpAddr>, payload: impl Into<Segment>) -> bool {
        let (peer, payload) = (&peer.into(), payload.into());
        let bytes = payload.len();
        self.add(peer, bytes, bytes, |trains| trains.add_single(peer, source, 0, payload))
    }

    fn add(&mut self, peer: &Address, bytes: usize, size: usize, add: impl FnOnce(&mut Trains) -> bool) -> bool {
        let datagrams = bytes.div_ceil(size.clamp(1, bytes.max(1))).max(1);
        let is_for_peer = self.peer.as_ref().is_none_or(|only| is_same(only, peer));
        let has_room = self.waiting + self.held + datagrams <= self.most;
        self.bound_hits += usize::from(!has_room);
        self.is_short |= !has_room && self.waiting + datagrams <= self.most;
        if is_for_peer && has_room && add(&mut self.trains) {
            self.waiting += datagrams;
            assert!(self.waiting + self.held <= self.most, "no more datagrams wait than may");
            self.bytes += bytes;
            return true;
        }
        self.refused += datagrams;
        false
    }

    /// Whether nothing more may wait before memory is released.
    pub(crate) fn is_held(&self) -> bool {
        self.held >= self.most
    }

    /// A send of so many datagrams has ended, and the system still reads its memory.
    pub(crate) fn hold(&mut self, datagrams: usize) {
        // Each has its entry, also one that was refused whole.
        self.unreleased.push_back(datagrams.max(1));
        self.held += datagrams.max(1);
    }

    /// The oldest of those sends is released. Returns whether there is room where there was none, or too little for what was to be sent.
    pub(crate) fn release(&mut self) -> bool {
        let was_held = self.is_held();
        // reason: the driver says so once for each.
        self.held -= self.unreleased.pop_front().expect("what is released was sent");
        assert!(self.held >= self.unreleased.len(), "each send holds a datagram");
        std::mem::take(&mut self.is_short) || was_held && !self.is_held()
    }

    /// Takes what waits, and leaves empty storage.
    pub(crate) fn take(&mut self, mut storage: Trains) -> Gathered {
        storage.grow_like(&self.trains);
        self.waiting = 0;
        let trains = std::mem::replace(&mut self.trains, storage);
        Gathered { trains, bytes: std::mem::take(&mut self.bytes), forwarded: std::mem::take(&mut self.forwarded) }
    }
}

/// Whether what is for `peer` goes to `only`: one address may be spelled in two ways, and only some know the user behind a Unix name.
fn is_same(only: &Address, peer: &Address) -> bool {
    match (only, peer) {
        (Address::Ip(only), Address::Ip(peer)) => (only.ip(), only.port()) == (peer.ip().to_canonical(), peer.port()),
        (Address::Unix(only), Address::Unix(peer)) => only.name() == peer.name(),
        (only, peer) => only == peer,
    }
}

/// Whether what has come from `peer` is of somebody else than a socket's `only` peer. The system, which passes over such, has bound the socket before it has connected it, and keeps what came in between.
/// A Unix socket has one name for those who look for it, and perhaps another as it says its own.
pub(super) fn is_strange(only: &Address, peer: &Address) -> bool {
    only.ip().is_some() && !is_same(only, peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn what_may_not_wait_is_refused_and_counted() {
        let mut replies = Replies::new(None, 3);
        let to = address("192.0.2.1:9");
        let sent = [&b"one"[..], b"two", b"six"].map(|text| replies.send(&to, None, text));
        assert_eq!(sent, [true; 3]);
        assert!(!replies.send_single(&to, None, &b"four"[..]));
        assert_eq!((replies.refused, replies.bound_hits), (1, 1));
        let gathered = replies.take(Trains::new());
        assert_eq!((gathered.trains.trains().len(), gathered.bytes), (1, 9));
        assert!(replies.send(&to, None, &b""[..]), "there is room again");
        assert!(!replies.send(&to, None, &[0; 65_508][..]));
        assert_eq!((replies.refused, replies.bound_hits), (2, 1));
    }

    #[test]
    fn what_is_not_released_counts_as_if_it_waited() {
        let mut replies = Replies::new(None, 3);
        let to = address("192.0.2.1:9");
        let send = |replies: &mut Replies| replies.send(&to, None, &b"x"[..]);
        assert!(send(&mut replies) && send(&mut replies));
        replies.take(Trains::new());
        replies.hold(2);
        replies.hold(0);
        assert!(replies.is_held() && !send(&mut replies));
        assert_eq!((replies.refused, replies.bound_hits), (1, 1));
        assert!(replies.release(), "there is room again");
        assert!(!replies.is_held() && send(&mut replies) && send(&mut replies) && !send(&mut replies));
        assert!(replies.release(), "it was too short");
        assert!(send(&mut replies) && !send(&mut replies), "and is at its bound by what waits");
        replies.take(Trains::new());
        (0..3).for_each(|_| replies.hold(1));
        assert_eq!([(); 3].map(|()| replies.release()), [true, false, false], "once");
    }

    #[test]
    fn what_comes_from_elsewhere_is_strange_to_a_socket_with_a_peer() {
        let from = ["192.0.2.1:9", "[::ffff:192.0.2.1]:9", "192.0.2.1:10", "192.0.2.2:9"].map(address);
        let of = |only: &str| from.each_ref().map(|from| is_strange(&address(only), from));
        assert_eq!(of("192.0.2.1:9"), [false, false, true, true]);
        assert_eq!(of("unix:/x"), [false; 4]);
    }

    #[test]
    fn with_a_peer_nothing_goes_elsewhere() {
        let mut replies = Replies::new(Some(address("192.0.2.1:9")), 10);
        let to = ["192.0.2.1:9", "[::ffff:192.0.2.1]:9", "192.0.2.1:10", "192.0.2.2:9"];
        assert_eq!(to.map(|to| replies.send(address(to), None, &b"x"[..])), [true, true, false, false]);
        assert_eq!((replies.refused, replies.bound_hits), (2, 0));
    }
}
