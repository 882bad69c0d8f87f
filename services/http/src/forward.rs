//! Requests that other servers answer: each is sent on, and its answer sent back, both as they come.
//!
//! ```text
//! client --Forwarded (an exchange)--> Hub: a way --> Link (an outgoing connection) --> upstream
//!                                                    pieces of the answer wait in the way; each wakes the other by Cx::resume
//! ```

mod check;
mod dated;
mod exchange;
mod fault;
mod head;
mod hub;
mod link;
mod sending;
mod up;
mod way;

use crate::application::{Application, First, Handled};
use crate::session::Session;
use crate::within::Within;
use crate::{Reply, Request};
use corelane::service::{Outcome, Refused};
use corelane::{Address, Cx, Silent};
use corelane_upstreams::entry::Behind;
use corelane_upstreams::{Targets, Upstreams};
use corelane_wire::http1::{Method, Status};
use exchange::Forwarded;
use fault::{Fault, explain};
use head::Asker;
use hub::{Hub, HubRef, KEPT, TENDING, TIMEOUT};
use sending::{begin, resolved, tend};
use std::time::Duration;

/// Sends requests on to other servers, and their answers back.
///
/// ```no_run
/// use corelane::Lanes;
/// use corelane_http::{Forward, Http};
/// use corelane_upstreams::{Settings, address_key, entry::Behind};
/// use std::time::Duration;
///
/// let behind = Behind { targets: "127.0.0.1:3000,127.0.0.1:3001".parse()?, settings: Settings::new(), key: address_key };
/// let forward = move |lane| Http::new(Forward::new(&behind, lane).timeout(Duration::from_secs(20)));
/// Lanes::per_core().serve("tcp://[::]:8080", forward)?.run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A head is written anew from what was parsed. Fields of one connection end here, and so do those by which a client says where it comes from: Forwarded, X-Forwarded-For, -Host and -Proto say
/// what this server knows. Connections to upstreams are kept, and used again after an answer of which nothing is unclear.
pub struct Forward {
    hub: HubRef,
}

impl Forward {
    /// How long an upstream may take for the head of an answer, and be silent behind it: 60 s.
    pub const TIMEOUT: Duration = TIMEOUT;
    /// Idle connections that are kept to each upstream on each lane: 256.
    pub const KEPT: usize = KEPT;

    /// Sends requests on to these servers, on lane number `lane`.
    pub fn new(behind: &Behind, lane: usize) -> Self {
        Self { hub: Hub::new(behind, lane, Session::<Self>::within()) }
    }

    /// Where its tokens begin, for one within [`Hosts`](crate::Hosts): by default at 0.
    pub fn tokens(self, begin: u64) -> Self {
        self.hub.borrow_mut().begin_tokens(begin);
        self
    }

    /// How long an upstream may take until the head of its answer is whole, however often a part of it comes. It may be silent for as long behind the head.
    /// Then the client is told 504 (Gateway Timeout), or its answer is broken off. `answer_limit` is to be longer.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.hub.borrow_mut().timeout = timeout;
        self
    }

    /// Lets a request go, with what is under way to its upstream, whose client finishes its side before it is answered: so does one that closes its connection. One that finishes and hears
    /// on is not answered then. By default it is, and only a client that breaks off is noticed.
    pub fn abort_on_close(self, aborts: bool) -> Self {
        self.hub.borrow_mut().aborts_on_close = aborts;
        self
    }

    /// Has names resolved by something else than the system.
    pub fn resolving(self, resolve: fn(&str, u16) -> Result<Vec<Address>, String>) -> Self {
        self.hub.borrow_mut().tended.tending.resolve = resolve;
        self
    }

    /// Says which site it is of: upstreams are shown as `SITE/UPSTREAM` then.
    pub fn of_site(self, site: &str) -> Self {
        self.hub.borrow_mut().tended.upstreams.name_site(site);
        self
    }

    /// How many idle connections are kept to each upstream on each lane; with 0 each request has its own.
    pub fn kept(self, connections: usize) -> Self {
        self.hub.borrow_mut().kept_max = connections;
        self
    }
}

impl Forward {
    /// Begins a request, within whatever application it stands: its exchange takes none.
    pub(crate) fn pass_on<A: Application<Talk = Silent>>(
        &mut self,
        cx: &mut Cx<'_>,
        request: &Request<'_>,
        mut reply: Reply<'_>,
    ) -> Result<Handled<A>, Refused> {
        // It would show a script what it may not see (RFC 9110 section 9.3.8).
        if request.method() == Method::Trace {
            return reply
                .answer(Status::METHOD_NOT_ALLOWED)
                .field("Allow", "GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH")
                .explained();
        }
        let Some(peer) = cx.peer(cx.id()) else { return Err(Refused::Memory) };
        let (address, is_secured) = (peer.address.clone(), peer.learned.is_some());
        let asker = Asker { address: address.ip().map(|ip| ip.to_canonical()), is_secured };
        let begun = begin(&self.hub, cx, request.head, (&address, asker));
        let mut hub = self.hub.borrow_mut();
        reply.passed(begun.ok().and_then(|way| hub.name_of(way)), begun.err().map(Fault::word));
        drop(hub);
        match begun {
            Ok(way) => Ok((Forwarded::new(self.hub.clone(), way), First::Relay).into()),
            Err(Fault::Memory) => Err(Refused::Memory),
            Err(fault) => explain(cx, fault, reply),
        }
    }
}

impl Application for Forward {
    type Talk = Silent;

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        self.pass_on(cx, request, reply)
    }

    fn started(&mut self, cx: &mut Cx<'_>) {
        tend(&self.hub, cx);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, token: u64) {
        let begin = self.hub.borrow().tokens;
        match token - begin {
            TENDING => tend(&self.hub, cx),
            _ => self.hub.borrow_mut().look_for_silent(cx),
        }
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        resolved(&self.hub, cx, token, outcome);
    }

    fn stand_within(&mut self, within: Within<Silent>) {
        self.hub.borrow_mut().within = within;
    }

    fn drain_began(&mut self, cx: &mut Cx<'_>) {
        self.hub.borrow_mut().drain(cx);
    }

    fn upstreams(&mut self, see: &mut dyn FnMut(&mut Upstreams)) {
        see(&mut self.hub.borrow_mut().tended.upstreams);
    }

    fn upstreams_changed(&mut self, cx: &mut Cx<'_>) {
        self.hub.borrow_mut().close_unserved(cx);
    }

    fn can_retarget(&mut self, targets: Option<&Targets>) -> bool {
        targets.is_some_and(|targets| self.hub.borrow().tended.upstreams.can_retarget(targets))
    }

    fn retarget(&mut self, cx: &mut Cx<'_>, targets: Option<&Targets>) -> bool {
        let Some(targets) = targets else { return false };
        let follows = self.hub.borrow_mut().tended.retarget(cx, targets);
        tend(&self.hub, cx);
        follows
    }
}
