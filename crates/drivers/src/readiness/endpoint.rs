//! An endpoint: one descriptor, as the driver knows it.

use super::source::Copies;
use crate::datagrams::SocketKind;
use corelane_seam::{BATCH_MAX, Handle, Interest};
use std::os::fd::OwnedFd;

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndpointKind {
    Listener,
    /// A stream socket whose connect is under way, with the handle of `Endpoint::receive_handle`.
    Connecting,
    Stream,
    Datagrams(SocketKind),
    /// A copy of a descriptor that the driver does not own, waited for with the handle of `Endpoint::receive_handle`.
    Polled(Interest),
    /// What tells of watched directories.
    Notices,
    /// A copy of a port's descriptor.
    Port,
    /// A copy of the one that tells other news of a port.
    PortNews,
}

/// A number below 2^24 in three bytes, so that an endpoint stays small. As an index of the driver's table of what it holds that is enough: an operation each way of each descriptor
/// is the most that there is, and a process has fewer descriptors by far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct U24([u8; 3]);

impl U24 {
    pub(super) fn of(number: u32) -> Self {
        let [one, two, three, above] = number.to_le_bytes();
        assert!(above == 0, "fewer than 2^24 operations are under way, and bytes asked for at once");
        Self([one, two, three])
    }

    pub(super) fn get(self) -> u32 {
        let [one, two, three] = self.0;
        u32::from_le_bytes([one, two, three, 0])
    }
}

/// The receive under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiving {
    Nothing,
    Connections,
    Bytes,
    /// Into a pipe, at most so many bytes.
    Piped(U24),
    /// Into the lease at this index of the driver's table.
    BytesInto(U24),
    /// Into the batch at this index of the driver's table.
    Datagrams(U24),
}

/// The send under way: one that found the socket full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    Nothing,
    /// The chain at this index of the driver's table.
    Bytes(U24),
    /// The departure at this index of the driver's table.
    Datagrams(U24),
}

/// In which list an endpoint stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    Nowhere,
    /// It has a receive under way, and something to receive has just come.
    Ready,
    /// The same, but a receive has left something.
    Rest,
    /// It has something to receive, but there was no memory.
    Starved,
}

/// What the kernel may have to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readable {
    /// Nothing.
    Nothing,
    /// Something that has come since the socket was found empty: an edge was seen, or it was just accepted.
    News,
    /// What a receive has left that it filled.
    Rest,
}

pub(super) const BELL_EDGES: i32 = IN | libc::EPOLLET;

pub(super) const IN: i32 = libc::EPOLLIN;
pub(super) const OUT: i32 = libc::EPOLLOUT;
pub(super) const BROKEN: i32 = libc::EPOLLERR | libc::EPOLLHUP;
/// After these a short receive does not show that a socket is empty: the end, an error, or what lies behind urgent data
/// (tcp(7)) makes no edge of its own.
pub(super) const EXHAUST: i32 = BROKEN | libc::EPOLLRDHUP | libc::EPOLLPRI;

/// What an endpoint is registered for. A datagram socket is watched for room only after a send found it full: the kernel tells
/// of room after everything that has left, which would wake the lane once more for each answer.
pub(super) fn edges(endpoint: &Endpoint) -> i32 {
    match endpoint.kind {
        EndpointKind::Listener if endpoint.is_lent => IN | libc::EPOLLET | libc::EPOLLEXCLUSIVE,
        EndpointKind::Listener | EndpointKind::Notices | EndpointKind::PortNews => IN | libc::EPOLLET,
        EndpointKind::Datagrams(_) | EndpointKind::Port if endpoint.awaits_room => IN | OUT | libc::EPOLLET,
        EndpointKind::Datagrams(_) | EndpointKind::Port => IN | libc::EPOLLET,
        EndpointKind::Connecting | EndpointKind::Stream => IN | OUT | libc::EPOLLRDHUP | libc::EPOLLPRI | libc::EPOLLET,
        EndpointKind::Polled(interest) => {
            let read = if interest.read { IN | libc::EPOLLRDHUP } else { 0 };
            read | if interest.write { OUT } else { 0 }
        }
    }
}

/// In place of a neighbour, where there is none.
pub(super) const NO_NEIGHBOUR: u32 = u32::MAX;

/// A descriptor. There is one for each idle connection, so it must stay small: see the test.
pub(super) struct Endpoint {
    pub(super) descriptor: OwnedFd,
    pub(super) kind: EndpointKind,
    pub(super) readable: Readable,
    /// An edge told of an end, an error or urgent data: a short receive does not show that the socket is empty.
    pub(super) exhaust: bool,
    /// The source reports its edges. An accepted connection is used before it is watched: its first bytes are mostly there, and one that is
    /// answered and closed then never costs the source anything.
    pub(super) is_watched: bool,
    /// Of a datagram socket: it is watched for room as well, because a send found it full.
    pub(super) awaits_room: bool,
    /// It is a duplicate of a socket that other lanes have as well.
    pub(super) is_lent: bool,
    /// Another process has it as well, and goes on with it.
    pub(super) outlives: bool,
    /// Of a listener that lanes share: this lane waits among them to be told of a connection (see `listeners`).
    pub(super) is_armed: bool,
    /// Of a datagram socket: about how many arrivals a receive brings.
    arrivals: u8,
    pub(super) listed: Listed,
    pub(super) receiving: Receiving,
    pub(super) sending: Sending,
    /// Of the receive under way; else of the last one, or of what made the socket: so it names the work that has it.
    pub(super) receive_handle: Handle,
    pub(super) send_handle: Handle,
    /// Its neighbours in the list in which it stands.
    pub(super) previous: u32,
    pub(super) next: u32,
}

impl Endpoint {
    pub(super) fn new(descriptor: OwnedFd, kind: EndpointKind) -> Self {
        Self {
            descriptor,
            kind,
            readable: Readable::Nothing,
            exhaust: false,
            is_watched: false,
            awaits_room: false,
            is_lent: false,
            outlives: false,
            is_armed: false,
            arrivals: 1,
            listed: Listed::Nowhere,
            receiving: Receiving::Nothing,
            sending: Sending::Nothing,
            receive_handle: Handle::NOBODY,
            send_handle: Handle::NOBODY,
            previous: NO_NEIGHBOUR,
            next: NO_NEIGHBOUR,
        }
    }

    /// Whether others hold its descriptor open when it closes here.
    pub(super) fn copies(&self) -> Copies {
        match self.kind {
            _ if self.is_shared_listener() => Copies::Lanes,
            EndpointKind::Polled(_) | EndpointKind::Port | EndpointKind::PortNews => Copies::Others,
            _ if self.is_lent || self.outlives => Copies::Others,
            _ => Copies::None,
        }
    }

    /// Whether it is a listener from which other lanes accept, too.
    pub(super) fn is_shared_listener(&self) -> bool {
        self.is_lent && self.kind == EndpointKind::Listener
    }

    /// Whether the kernel may have something to receive.
    pub(super) fn is_readable(&self) -> bool {
        self.readable != Readable::Nothing
    }

    /// Notes that something has come.
    pub(super) fn mark_news(&mut self) {
        if self.readable == Readable::Nothing {
            self.readable = Readable::News;
        }
    }

    /// Notes that a receive was filled, and may have left something.
    pub(super) fn mark_rest(&mut self) {
        self.readable = Readable::Rest;
    }

    /// Notes that the socket was found empty.
    pub(super) fn mark_empty(&mut self) {
        self.readable = Readable::Nothing;
        self.exhaust = false;
    }

    /// Notes how many arrivals a receive brought. What is expected grows at once and shrinks slowly.
    pub(super) fn brought(&mut self, arrivals: usize) {
        let fewer = self.arrivals - self.arrivals / 4 - u8::from(self.arrivals > 1);
        self.arrivals = fewer.max(arrivals.min(BATCH_MAX) as u8);
        assert!(self.arrivals >= 1 && self.arrivals as usize <= BATCH_MAX);
    }

    /// For how many arrivals the next receive is to have room: one that is not filled shows that the socket is empty.
    pub(super) fn arrivals_expected(&self) -> usize {
        2 * self.arrivals as usize
    }

    /// Notes that a receive brought less than it had room for.
    pub(super) fn mark_short(&mut self) {
        self.readable = if self.exhaust { Readable::News } else { Readable::Nothing };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::slab::Slab;

    fn endpoint() -> Endpoint {
        Endpoint::new(std::fs::File::open("/dev/null").unwrap().into(), EndpointKind::Stream)
    }

    #[test]
    fn an_idle_connection_costs_at_most_64_bytes() {
        const { assert!(Slab::<Endpoint>::ENTRY_BYTES <= 64) };
    }

    #[test]
    fn what_is_expected_grows_at_once_and_shrinks_slowly() {
        let mut endpoint = endpoint();
        let mut expected = |arrivals| {
            endpoint.brought(arrivals);
            endpoint.arrivals_expected()
        };
        assert_eq!([1, 2, 4, 8].map(&mut expected), [2, 4, 8, 16]);
        assert_eq!([1, 1, 1, 1, 1, 1, 1].map(&mut expected), [10, 6, 4, 2, 2, 2, 2]);
        assert_eq!(expected(1000), 128);
    }

    #[test]
    fn a_short_receive_means_empty_unless_an_end_was_seen() {
        let mut endpoint = endpoint();
        for (exhaust, left) in [(false, false), (true, true)] {
            (endpoint.readable, endpoint.exhaust) = (Readable::News, exhaust);
            endpoint.mark_short();
            assert_eq!(endpoint.is_readable(), left);
        }
        endpoint.mark_empty();
        assert!(!endpoint.is_readable() && !endpoint.exhaust);
    }

    #[test]
    fn what_is_left_is_no_news_until_the_socket_was_empty() {
        let mut endpoint = endpoint();
        endpoint.mark_rest();
        endpoint.mark_news();
        assert_eq!(endpoint.readable, Readable::Rest);
        endpoint.mark_empty();
        endpoint.mark_news();
        assert_eq!(endpoint.readable, Readable::News);
    }
}
