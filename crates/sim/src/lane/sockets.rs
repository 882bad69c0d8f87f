//! A lane's sockets, by index and generation.

use crate::check::{Booked, Tally};
use corelane_seam::slab::Slab;
use corelane_seam::{Chain, Datagrams, Lease, Socket};

/// A receive that is under way.
pub(crate) struct Receiving {
    pub(crate) asked: Booked,
    pub(crate) into: Target,
}

/// Where the bytes of a receive go.
pub(crate) enum Target {
    /// Into memory that the driver takes.
    Block,
    /// Into a pipe, at most so many.
    Pipe(usize),
    /// Into a lease, until it holds so many.
    Lease(Lease, usize),
}

/// A lane's end of a connection.
pub(crate) struct StreamSocket {
    pub(crate) stream: u64,
    pub(crate) side: usize,
    pub(crate) receive: Option<Receiving>,
    pub(crate) send: Option<(Booked, Chain)>,
    /// Bytes that the lane was told were sent, and bytes that it was given.
    pub(crate) claimed: u64,
    pub(crate) given: Tally,
    /// What its two pipes say to that, as of closing.
    pub(crate) moved: Option<(u64, Tally)>,
    pub(crate) bridged: Option<Bridged>,
}

impl StreamSocket {
    /// The system has passed these bytes on.
    pub(crate) fn passed_on(&mut self, bytes: &[u8]) {
        self.given.add(bytes);
        self.bridged.iter_mut().for_each(|bridged| bridged.unseen += bytes.len() as u64);
    }
}

/// The system passes bytes on from a connection by itself, and knows this of it.
pub(crate) struct Bridged {
    /// Where they go.
    pub(crate) other: Socket,
    /// Bytes that the lane has received of it and not sent to the other.
    pub(crate) held: u64,
    /// Bytes that were passed on since the lane was told last.
    pub(crate) unseen: u64,
}

pub(crate) enum Body {
    Listener { port: u64, accept: Option<Booked> },
    Stream(StreamSocket),
    Datagram { port: u64, receive: Option<(Booked, Datagrams)> },
}

pub(crate) struct OwnSocket {
    pub(crate) body: Body,
    /// Its number in the lane's descriptor table, until that is closed.
    pub(crate) descriptor: Option<i32>,
    /// The work of the lane that has it; 0 for nobody.
    pub(crate) work: u8,
    /// Its close operation, once that has begun.
    pub(crate) closing: Option<Booked>,
    /// Sends whose memory is not released yet.
    pub(crate) holds: u32,
    /// Whether it stands in the lane's ready list.
    pub(crate) is_ready: bool,
}

#[derive(Default)]
pub(crate) struct Sockets(Slab<OwnSocket>);

impl Sockets {
    /// Adds a socket of the work of this number.
    pub(crate) fn add(&mut self, work: u8, body: Body, descriptor: i32) -> Socket {
        let descriptor = Some(descriptor);
        self.0.insert(OwnSocket { body, descriptor, work, closing: None, holds: 0, is_ready: false }).into()
    }

    /// The socket, also while it is being closed.
    pub(crate) fn get(&mut self, socket: Socket) -> Option<&mut OwnSocket> {
        self.0.get_mut(socket.into())
    }

    /// The socket's body, unless it is being closed.
    pub(crate) fn open(&mut self, socket: Socket) -> Option<&mut Body> {
        self.get(socket).filter(|slot| slot.closing.is_none()).map(|slot| &mut slot.body)
    }

    /// The connection, unless it is being closed.
    pub(crate) fn stream(&mut self, socket: Socket) -> Option<&mut StreamSocket> {
        if let Body::Stream(stream) = self.open(socket)? { Some(stream) } else { None }
    }

    /// As [`Sockets::open`], to look at.
    pub(crate) fn peek(&self, socket: Socket) -> Option<&Body> {
        let place = self.0.get(socket.into())?;
        place.closing.is_none().then_some(&place.body)
    }

    pub(crate) fn remove(&mut self, socket: Socket) -> Option<OwnSocket> {
        self.0.remove(socket.into())
    }

    /// The sockets of works that `wanted` names, which are not being closed.
    pub(crate) fn of_works(&self, wanted: impl Fn(u8) -> bool) -> Vec<Socket> {
        let open = self.0.iter().filter(|(_, place)| place.closing.is_none() && wanted(place.work));
        open.map(|(key, _)| key.into()).collect()
    }

    /// Any socket that there is.
    pub(crate) fn first(&self) -> Option<Socket> {
        self.0.keys().next().map(Socket::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_void_once_its_socket_is_gone() {
        let mut sockets = Sockets::default();
        let body = |port| Body::Listener { port, accept: None };
        let first = sockets.add(0, body(1), 3);
        assert!(sockets.remove(first).is_some() && sockets.remove(first).is_none());
        let second = sockets.add(0, body(2), 3);
        assert_eq!(second.index, first.index);
        assert!(sockets.get(first).is_none() && sockets.peek(second).is_some());
        assert_eq!(sockets.first(), Some(second));
    }

    #[test]
    fn a_closing_socket_takes_no_operation() {
        let mut sockets = Sockets::default();
        let socket = sockets.add(0, Body::Listener { port: 1, accept: None }, 3);
        sockets.get(socket).unwrap().closing = Some(Booked { number: 1, handle: corelane_seam::Handle::new(0, 0, 0) });
        assert!(sockets.open(socket).is_none() && sockets.peek(socket).is_none() && sockets.get(socket).is_some());
    }
}
