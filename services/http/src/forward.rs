//! Requests that other servers answer: each is sent on, and its answer sent back, both as they come.
//!
//! ```text
//! client --Forwarded (an exchange)--> Hub: a way --> Upstream (an outgoing connection) --> server
//!                                                         pieces of the answer wait in the way; each wakes the other by Cx::resume
//! ```

mod exchange;
mod fault;
mod head;
mod hub;
mod places;
mod upstream;
mod way;

use crate::application::{Application, First, Handled};
use crate::outgoing::Dial;
use crate::{Http, Reply, Request};
use corelane::service::{Address, Refused};
use corelane::{Cx, Silent};
use corelane_wire::http1::{Method, Status};
use exchange::Forwarded;
use fault::{Fault, explain};
use head::Asker;
use hub::{Hub, HubRef};
use std::time::Duration;

/// Sends requests on to other servers, and their answers back.
///
/// ```no_run
/// use corelane::Lanes;
/// use corelane_http::{Forward, Http};
/// use std::time::Duration;
///
/// let to = ["127.0.0.1:3000".parse()?];
/// let forward = move |_lane| Http::new(Forward::new(&to).timeout(Duration::from_secs(20)));
/// Lanes::per_core().serve("tcp://[::]:8080", forward)?.run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A head is written anew from what was parsed. Fields of one connection end here, and those by which a client says where it comes from: Forwarded, X-Forwarded-For, -Host and -Proto say what this
/// server knows. Connections to the servers are kept, and used again after an answer of which nothing is unclear.
pub struct Forward {
    hub: HubRef,
}

impl Forward {
    /// How long an upstream may be silent that owes something: 60 s.
    pub const TIMEOUT: Duration = Duration::from_secs(60);
    /// Idle connections that are kept to each upstream on each lane: 32.
    pub const KEPT: usize = 32;

    /// Sends requests on to these servers in turn, of which there is one at least. One that refuses a connection is left out for a while.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(to: &[Address]) -> Self {
        assert!(!to.is_empty(), "requests are sent on to one server at least");
        Self { hub: Hub::new(to, Http::<Self>::dial) }
    }

    /// How long a server that owes an answer, or the rest of one, may be silent. Then the client is told 504 (Gateway Timeout), or its answer is broken off.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.hub.borrow_mut().timeout = timeout;
        self
    }

    /// How many idle connections are kept to each server on each lane; with 0 each request has its own.
    pub fn kept(self, connections: usize) -> Self {
        self.hub.borrow_mut().kept_max = connections;
        self
    }

    /// Has it stand within another application, which opens its connections, with tokens from this one on.
    pub(crate) fn within(self, dial: Dial<Silent>, tokens: u64) -> Self {
        let mut hub = self.hub.borrow_mut();
        (hub.dial, hub.alarm) = (dial, tokens);
        drop(hub);
        self
    }
}

impl Application for Forward {
    type Talk = Silent;

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        // It would show a script what it may not see (RFC 9110 section 9.3.8).
        if request.method() == Method::Trace {
            return reply.answer(Status::METHOD_NOT_ALLOWED).field("Allow", "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH").explained();
        }
        let peer = cx.peer(cx.id());
        let asker = Asker {
            address: peer.and_then(|peer| peer.address.ip()).map(|ip| ip.to_canonical()),
            is_secured: peer.is_some_and(|peer| peer.learned.is_some()),
        };
        match hub::begin(&self.hub, cx, request.head, asker) {
            Ok(way) => Ok((Forwarded::new(self.hub.clone(), way), First::Relay).into()),
            Err(Fault::Memory) => Err(Refused::Memory),
            Err(fault) => explain(cx, fault, reply),
        }
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, token: u64) {
        self.hub.borrow_mut().alarm(cx, token);
    }

    fn drain_began(&mut self, cx: &mut Cx<'_>) {
        self.hub.borrow_mut().drain(cx);
    }
}
