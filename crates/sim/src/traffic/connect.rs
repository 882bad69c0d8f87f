//! How connections begin: attempts, listeners with their backlog, and who gets the connection.

use crate::faults::FaultKind;
use crate::log::{Detail, Site};
use crate::net::connect::{Attempt, Opener};
use crate::net::pipe::{Pipe, buffer_bytes};
use crate::net::streams::{End, Stream};
use crate::net::unix::is_unix;
use crate::net::{FULL, OUTSIDE, Owner, REFUSED, TIMED_OUT, UNREACHABLE, destination, find};
use crate::state::{Event, State};
use corelane_seam::{Fault, Outcome, StreamOptions, StreamOutcome};
use std::net::SocketAddr;

/// How often an unanswered attempt is repeated, after 1, 2, 4, ... seconds (tcp_syn_retries, tcp(7)).
const RETRIES: u32 = 6;
const SECOND: u64 = 1_000_000_000;

impl State {
    /// Starts to open a connection; returns the attempt's name and local address.
    pub(crate) fn start_attempt(
        &mut self,
        opener: Opener,
        host: usize,
        from: Option<SocketAddr>,
        to: SocketAddr,
        options: StreamOptions,
    ) -> Result<(u64, SocketAddr), Fault> {
        let to = destination(to);
        let local = self.net.take_local(host, from, to)?;
        let name = self.net.name();
        self.net.attempts.insert(name, Attempt { opener, host, local, to, options, retries: 0, stream: None });
        let latency = self.latency();
        self.clock.after(latency, Event::Syn { attempt: name });
        Ok((name, local))
    }

    /// An attempt reaches the other host.
    pub(crate) fn syn(&mut self, name: u64) {
        // It may have been given up while it was on its way; so below.
        let Some(attempt) = self.net.attempts.get(&name) else { return };
        let host = self.net.host_of(attempt.host, attempt.to.ip());
        let places = self.net.listeners.iter().map(|(&name, listener)| (name, &listener.place));
        let Some(port) = find(places, host, attempt.local, attempt.to) else {
            let is_known = host != OUTSIDE || self.net.knows_outside(attempt.to.ip());
            let fault = match is_known {
                _ if is_unix(attempt.to.ip()) => self.net.nobody_at(attempt.to),
                true => REFUSED,
                false => UNREACHABLE,
            };
            let latency = self.latency();
            return self.clock.after(latency, Event::AttemptFails { attempt: name, fault });
        };
        let listener = &self.net.listeners[&port];
        let is_full = listener.queue.len() >= listener.backlog;
        match (listener.refuses_new, is_full) {
            (false, false) => self.open_stream(name, port),
            (true, _) if is_unix(attempt.to.ip()) => self.fail_attempt(name, REFUSED),
            (false, true) if is_unix(attempt.to.ip()) => self.fail_attempt(name, FULL),
            _ => self.retry(name),
        }
    }

    fn retry(&mut self, name: u64) {
        // reason: it has just been looked at.
        let attempt = self.net.attempts.get_mut(&name).expect("an attempt that has arrived is there");
        attempt.retries += 1;
        if attempt.retries > RETRIES {
            return self.fail_attempt(name, TIMED_OUT);
        }
        self.clock.after(SECOND << (attempt.retries - 1), Event::Syn { attempt: name });
    }

    /// The listener `port` answers an attempt: the connection exists.
    fn open_stream(&mut self, attempt: u64, port: u64) {
        let name = self.net.name();
        let (attempts, listeners) = (&mut self.net.attempts, &mut self.net.listeners);
        // reason: it has just been looked at.
        let attempt_entry = attempts.get_mut(&attempt).expect("an attempt that has arrived is there");
        // reason: so has this.
        let listener = listeners.get_mut(&port).expect("it has arrived at a listener");
        attempt_entry.stream = Some(name);
        let (near, far) = (attempt_entry.options, listener.options);
        let pipe = |from: StreamOptions, to: StreamOptions| {
            Pipe::new(buffer_bytes(from.send_buffer_bytes), buffer_bytes(to.receive_buffer_bytes))
        };
        let stream = Stream {
            ends: [End::new(Owner::Waiting), End::new(Owner::Waiting)],
            addresses: [attempt_entry.local, attempt_entry.to],
            pipes: [pipe(near, far), pipe(far, near)],
        };
        self.net.streams.insert(name, stream);
        let owner = listener.owner;
        if let Owner::Lane(lane, socket) = owner {
            listener.queue.push_back(name);
            self.wake_socket(lane, socket);
        } else {
            self.meet_peer(name);
        }
        self.log.note(self.clock.now(), Site::Stream(name, 1), "begins at", Detail::Amount(port));
        let latency = self.latency();
        self.clock.after(latency, Event::Opened { attempt });
    }

    /// The answer reaches who opened the connection.
    pub(crate) fn opened(&mut self, name: u64) {
        // It may have been given up, and what came of it reset.
        let Some(Attempt { opener, stream, .. }) = self.net.attempts.remove(&name) else { return };
        // reason: only a listener answers, and that makes one.
        let stream = stream.expect("an attempt that was answered has its connection");
        let [local, peer] = self.net.held(stream).addresses;
        let (own, other) = (self.net.own(local), self.net.peer(peer));
        match opener {
            Opener::Peer(id) => {
                self.net.held(stream).ends[0].owner = Owner::Peer(id);
                self.peers[id].open(stream, 0);
                self.notify(id);
            }
            Opener::Lane(lane, asked, descriptor) => {
                let socket = self.take_stream(lane, asked.handle.work(), (stream, 0), descriptor);
                self.complete(lane, asked, None, Outcome::Stream(StreamOutcome::Connected { socket, peer: other, local: own }));
            }
        }
    }

    /// Forgets an attempt; what has come of it is reset.
    pub(crate) fn drop_attempt(&mut self, name: u64) -> Option<Opener> {
        let attempt = self.net.attempts.remove(&name)?;
        match attempt.stream {
            Some(stream) => self.leave(stream, 0, true),
            None => self.net.give_back(attempt.local, attempt.to),
        }
        if let Opener::Lane(lane, _, descriptor) = attempt.opener {
            self.lanes[lane].descriptors.close(descriptor);
        }
        Some(attempt.opener)
    }

    pub(crate) fn fail_attempt(&mut self, name: u64, fault: Fault) {
        let Some(opener) = self.drop_attempt(name) else { return };
        match opener {
            Opener::Peer(id) => {
                self.peers[id].fail(fault);
                self.notify(id);
            }
            Opener::Lane(lane, asked, _) => self.complete(lane, asked, None, Outcome::Failed(fault)),
        }
    }

    /// Lets a listener take no more; all lanes share that of a Unix name, and no filter is needed for it.
    pub(crate) fn refuse_new(&mut self, port: u64) {
        let Some(address) = self.net.listeners.get(&port).map(|listener| listener.place.address) else { return };
        let is_shared = is_unix(address.ip());
        let refuses = is_shared || !self.strikes(FaultKind::UnfilteredListener);
        for (&name, listener) in &mut self.net.listeners {
            if name == port || (is_shared && listener.place.address == address) {
                listener.refuses_new = refuses;
            }
        }
    }

    /// Closes a listening socket; connections that nobody accepted are reset, unless another lane has the same socket.
    pub(crate) fn close_listener(&mut self, port: u64) {
        let Some(listener) = self.net.listeners.remove(&port) else { return };
        match self.net.listeners.values_mut().find(|other| other.is_same_socket(&listener)) {
            Some(heir) => {
                heir.queue.extend(listener.queue);
                let Owner::Lane(lane, socket) = heir.owner else { unreachable!("a peer of the test shares nothing") };
                self.wake_socket(lane, socket);
            }
            None => listener.queue.into_iter().for_each(|stream| self.leave(stream, 1, true)),
        }
    }
}
