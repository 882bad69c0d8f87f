//! The service: pairs of connections.

use crate::counters::ProxyCounter;
use crate::ends::{Client, End, Server, Stage, Told};
use crate::header::header;
use crate::live::live;
use crate::log::{LaneLog, ProxyLog, Why, stream_ended};
use crate::routes::Routes;
use corelane::admin::reports::Level;
use corelane::service::{ConnectionId, Ending, Notes, Outcome};
use corelane::{Address, Input, Next, Output, Peer, StreamService};
use corelane_upstreams::entry::Behind;
use corelane_upstreams::{
    Caller, Checked, Failure, Tended, Tending, Tried, Upstream, client_key, failure_to_agree, failure_to_connect,
};
use corelane_wire::hello::{self, Step};
use corelane_wire::proxy::{HEADER_BYTES_MAX, Version, write};
use std::{fmt, mem};

type Cx<'a> = corelane::Cx<'a, Notes<Told>>;

/// The token of its alarm, and of its calls on helper threads.
const TENDING: u64 = 0;

/// Clients that wait until the first names are resolved; one more is turned away.
const EARLY_MAX: usize = 1_024;

/// A receive of fewer bytes brings little, and behind so many of those in a row it is taken that more such follow.
const LITTLE_BYTES: usize = 16 << 10;
const LITTLES_LEAST: u32 = 8;

/// Passes bytes on, on one lane.
#[derive(Debug)]
pub struct Proxy {
    tended: Tended,
    /// The PROXY header that upstreams get.
    header: Option<Version>,
    /// By which clients that speak TLS are told apart, if they are.
    routes: Routes,
    /// Those before, as long as one of the groups now has no upstream yet.
    routes_before: Option<Routes>,
    log: Option<LaneLog<ConnectionId>>,
    /// Clients that have come before any name was resolved.
    early: Vec<(ConnectionId, u32)>,
    early_max: usize,
    /// The kernel is to pass on bytes of pairs that say little at a time.
    in_kernel: bool,
}

impl Proxy {
    /// To these upstreams, on this lane.
    pub fn new(behind: &Behind, lane: usize) -> Self {
        let tended = Tended::new(behind, lane, Tending::new(TENDING, TENDING));
        Self {
            tended,
            header: None,
            routes: Routes::default(),
            routes_before: None,
            log: None,
            early: Vec::new(),
            early_max: EARLY_MAX,
            in_kernel: false,
        }
    }

    /// Has each upstream told by a PROXY header whose connection it gets.
    pub fn header(mut self, version: Version) -> Self {
        let mut memory = [0; HEADER_BYTES_MAX];
        let bytes = write(version, None, &mut memory);
        self.tended.upstreams.set_preface(&memory[..bytes]);
        Self { header: Some(version), ..self }
    }

    /// Gives each client upstreams of the group of the name that it asks for in TLS, which is not opened for that.
    pub fn routes(self, routes: Routes) -> Self {
        Self { routes, ..self }
    }

    /// Logs each client at its end. To be called on the lane that serves, as all that makes a service.
    pub fn log(self, log: &ProxyLog) -> Self {
        Self { log: Some(log.lane()), ..self }
    }

    /// How many clients may wait until the first names are resolved; one more is turned away. 1,024 by default.
    pub fn early_max(self, clients: usize) -> Self {
        Self { early_max: clients, ..self }
    }

    /// Has the kernel pass on bytes by itself between a client and its upstream that say little at a time (a sockmap), where the lane has a bridge for that
    /// ([`DriverSettings::bridged_pairs_max`](corelane::lanes::DriverSettings::bridged_pairs_max)).
    pub fn in_kernel(self, in_kernel: bool) -> Self {
        Self { in_kernel, ..self }
    }

    /// Has names resolved by something else than the system.
    pub fn resolving(mut self, resolve: fn(&str, u16) -> Result<Vec<Address>, String>) -> Self {
        self.tended.tending.resolve = resolve;
        self
    }

    /// Follows a change of the upstreams; whether there are some to follow.
    fn change(&mut self, cx: &mut Cx<'_>, options: &str) -> bool {
        let Some((routes, targets)) = live(options, &self.routes) else { return false };
        let follows = self.tended.retarget(cx, &targets);
        if follows {
            let before = mem::replace(&mut self.routes, routes);
            self.routes_before.get_or_insert(before);
            self.forget_routes_before();
        }
        self.tend(cx);
        // Some may have an address already.
        self.serve_early(cx);
        follows
    }

    fn forget_routes_before(&mut self) {
        self.routes_before.take_if(|_| !self.tended.upstreams.awaits_groups());
    }

    /// The group for who asks for this name; none where nobody serves it. Until the group has an upstream, the one that it was before is asked.
    fn group(&self, name: Option<&str>) -> Option<u32> {
        let knows = |group: &u32| self.tended.upstreams.knows(*group);
        let now = self.routes.group(name)?;
        let before = self.routes_before.as_ref().filter(|_| !knows(&now)).and_then(|before| before.group(name));
        before.filter(knows).or(Some(now))
    }

    /// Does what the upstreams want done.
    fn tend(&mut self, cx: &mut Cx<'_>) {
        self.tended.tend(cx, End::Check);
        self.note_rotation(cx);
    }

    fn note_rotation(&self, cx: &mut Cx<'_>) {
        let (in_rotation, all) = self.tended.upstreams.in_rotation(cx.now());
        cx.set_gauge(ProxyCounter::UpstreamsInRotation, in_rotation as u64);
        cx.set_gauge(ProxyCounter::Upstreams, all as u64);
    }

    /// Begins a connection to an upstream that this client has not tried.
    ///
    /// # Errors
    /// Why there is none: no upstream, or no place on the lane.
    fn connect(
        &mut self,
        cx: &mut Cx<'_>,
        (client, group): (ConnectionId, u32),
        mut tried: Tried,
    ) -> Result<(ConnectionId, Upstream), Why> {
        let caller = cx.peer_address(client).map(|from| Caller { key: self.tended.key(from), client: client_key(from) });
        let caller = caller.filter(|_| !tried.is_full()).ok_or(Why::NoUpstream)?;
        let since = cx.now();
        let upstream = self.tended.upstreams.begin_in(group, since, caller, &tried);
        let upstream = upstream.ok_or_else(|| self.why_nobody(group, caller, tried))?;
        // reason: it is in use.
        let reach = self.tended.upstreams.reach(upstream).expect("an upstream that was taken is there");
        let is_secured = reach.is_secured();
        let mut memory = [0; HEADER_BYTES_MAX];
        // Who reads a header before TLS reads it before the handshake.
        let bytes =
            self.header.filter(|_| is_secured).zip(cx.peer(client)).map(|(version, peer)| header(version, &peer, &mut memory));
        let reach = reach.preface(&memory[..bytes.unwrap_or(0)]);
        tried.add(upstream);
        let asker = caller.client;
        let session = End::Server(Server { client, asker, upstream, group, tried, since, stage: Stage::Connecting, littles: 0 });
        match reach.dial(cx, session) {
            Ok(server) => {
                // Already now, so that the end of a client that has nothing to say is kept for its upstream. TLS that does not come about would take the client with it.
                if !is_secured {
                    cx.pair_unseen(client, server);
                }
                // The client takes what comes on it, or does not.
                cx.charge_to(server, client);
                Ok((server, upstream))
            }
            Err(error) => {
                cx.report_kind("connect", Level::Warn, format_args!("no connection to an upstream: {error}"));
                self.tended.upstreams.end(upstream, asker);
                Err(Why::Full)
            }
        }
    }

    /// Why there is no upstream for a client that has tried these.
    fn why_nobody(&self, group: u32, caller: Caller, tried: Tried) -> Why {
        let is_full = tried.count() == 0 && self.tended.upstreams.is_full(group, caller.client);
        if is_full { Why::UpstreamFull } else { Why::NoUpstream }
    }

    /// Gives a client to its first upstream; where names are still to be resolved, later.
    fn begin(&mut self, cx: &mut Cx<'_>, client: ConnectionId, group: u32) -> Option<(ConnectionId, Upstream)> {
        match self.connect(cx, (client, group), Tried::default()) {
            Ok(server) => return Some(server),
            Err(_) if self.tended.upstreams.awaits_names(group) => {
                if self.early.len() < self.early_max {
                    self.early.push((client, group));
                } else {
                    self.turn_away(cx, client, Why::Waiting);
                }
            }
            Err(why) => self.turn_away(cx, client, why),
        }
        None
    }

    /// A name is resolved, or is not: those who have waited for that go on.
    fn serve_early(&mut self, cx: &mut Cx<'_>) {
        for (client, group) in std::mem::take(&mut self.early) {
            // It may have left.
            if cx.peer_address(client).is_none() {
                continue;
            }
            if let Some(server) = self.begin(cx, client, group) {
                cx.notify(client, Told { server, is_joined: false });
            }
        }
    }

    /// No upstream takes the client. It is broken off: an end in order would look like an answer.
    fn turn_away(&mut self, cx: &mut Cx<'_>, client: ConnectionId, why: Why) {
        let (in_rotation, all) = self.tended.upstreams.in_rotation(cx.now());
        cx.count(ProxyCounter::ClientsTurnedAway, 1);
        let words = format_args!(
            "no upstream took a client's connection, which was broken off ({}); {in_rotation} of {all} upstreams are in rotation: see `corelane proxy show`",
            why.word()
        );
        cx.report_kind("turned away", Level::Warn, words);
        self.break_off(cx, client, why);
    }

    /// Breaks a client off, and has the log say why.
    fn break_off(&mut self, cx: &mut Cx<'_>, client: ConnectionId, why: Why) {
        self.log.iter_mut().for_each(|log| log.break_off(client, why));
        cx.abort(client);
    }

    /// A client is broken off for what it asks for.
    fn refuse(&mut self, cx: &mut Cx<'_>, client: ConnectionId, (why, words): (Why, impl fmt::Display)) {
        cx.count(ProxyCounter::ClientsTurnedAway, 1);
        let words = format_args!("a client was broken off, as {words}: see sni= and to=");
        cx.report_kind("turned away by name", Level::Warn, words);
        self.break_off(cx, client, why);
    }

    /// Looks for the name that a client asks for, in what it has said so far; what is not whole must come within `read_limit`.
    fn hear(&mut self, cx: &mut Cx<'_>, client: &mut Client, input: &mut Input) -> Next {
        if !self.routes.tell_apart() {
            return self.belong(cx, client, None);
        }
        let (own, bytes) = (cx.id(), input.len().min(hello::BYTES_MAX));
        let is_finished = input.is_finished();
        let mut memory = [0; hello::NAME_BYTES_MAX];
        // Without memory for it to lie together it is looked at again.
        let Some(said) = input.contiguous(bytes) else { return Next::More };
        let name = match hello::server_name(said, &mut memory) {
            Ok(Step::More) if !is_finished => return Next::More,
            Ok(Step::More) => {
                self.refuse(cx, own, (Why::NoHello, "it has ended before it said whom it asks for"));
                return Next::Abort;
            }
            Ok(Step::Name(name)) => Some(name),
            Ok(Step::NoName) => None,
            Err(fault) => {
                self.refuse(cx, own, (Why::NoHello, fault));
                return Next::Abort;
            }
        };
        self.belong(cx, client, name)
    }

    /// Gives a client to upstreams of the name that it asks for.
    fn belong(&mut self, cx: &mut Cx<'_>, client: &mut Client, name: Option<&str>) -> Next {
        let own = cx.id();
        let Some(group) = self.group(name) else {
            let words = format_args!("nobody serves {:?}, the name that it asks for", name.unwrap_or_default());
            self.refuse(cx, own, (Why::UnknownName, words));
            return Next::Abort;
        };
        client.group = Some(group);
        client.server = self.begin(cx, own, group);
        Next::Wait
    }

    /// An upstream has failed a client.
    fn failed(&mut self, cx: &mut Cx<'_>, upstream: Upstream, failure: Failure, asker: Option<u64>) {
        let Some(ejected) = self.tended.upstreams.failed(upstream, cx.now(), failure, asker) else { return };
        cx.count(ProxyCounter::Ejections, 1);
        let address = self.tended.upstreams.address(upstream).map(Address::to_string).unwrap_or_default();
        let name = self.tended.upstreams.name(upstream).unwrap_or_default();
        let words = format_args!(
            "upstream {name} at {address} is left out for {:?}: {} failures in a row, the last one {failure:?}",
            ejected.lasts, ejected.failures
        );
        cx.report_kind("ejected", Level::Warn, words);
        self.note_rotation(cx);
    }

    /// A check of an upstream has ended.
    fn checked(&mut self, cx: &mut Cx<'_>, upstream: Upstream, is_well: Option<bool>) {
        self.tended.checked(cx, upstream, is_well);
        self.tend(cx);
    }

    /// Whether TLS is spoken to it.
    fn is_secured(&self, upstream: Upstream) -> bool {
        self.tended.upstreams.reach(upstream).is_some_and(|reach| reach.is_secured())
    }

    /// A check that is not of a client begins with a header that says so, where upstreams expect one.
    fn introduce(&self, upstream: Upstream, output: &mut Output) -> bool {
        let mut memory = [0; HEADER_BYTES_MAX];
        self.header.filter(|_| !self.is_secured(upstream)).is_none_or(|version| {
            let bytes = write(version, None, &mut memory);
            output.write(&memory[..bytes]).is_ok()
        })
    }

    fn go_on_checking(&mut self, cx: &mut Cx<'_>, session: &mut End, found: Checked) -> Next {
        let (End::Check(probe), Some(is_well)) = (&*session, found.is_well()) else { return Next::Continue };
        let upstream = probe.upstream();
        *session = End::Checked;
        self.checked(cx, upstream, is_well);
        // One that is well is left in order.
        if is_well == Some(true) { Next::Close } else { Next::Abort }
    }

    /// The connection to an upstream was not opened: another one is tried.
    fn retry(&mut self, cx: &mut Cx<'_>, server: &Server, ending: Ending, failure: Option<Failure>) {
        if let Some(failure) = failure {
            self.failed(cx, server.upstream, failure, None);
        }
        let is_waiting = cx.peer_address(server.client).is_some();
        let next = failure.ok_or(Why::Full).and_then(|_| self.connect(cx, (server.client, server.group), server.tried));
        match next {
            Ok(next) => {
                self.tended.upstreams.retried(server.upstream);
                cx.count(ProxyCounter::Retries, 1);
                cx.notify(server.client, Told { server: next, is_joined: false });
            }
            Err(why) if is_waiting => {
                let last = failure.filter(|_| why == Why::NoUpstream).map(|failure| match failure {
                    Failure::Connect if self.is_secured(server.upstream) && ending != Ending::Error => Why::NoTls,
                    failure => Why::Failed(failure),
                });
                self.turn_away(cx, server.client, last.unwrap_or(why));
            }
            Err(_) => {}
        }
    }

    /// What is wrong with an upstream with which no TLS came about, which the operator is told; none where it is this side that has ended it.
    fn disagreed(&mut self, cx: &mut Cx<'_>, server: &Server, ending: Ending) -> Option<Failure> {
        let (own, is_awaited) = (cx.id(), cx.peer_address(server.client).is_some());
        let refused = cx.peer(own).and_then(|peer| peer.learned?.refused.clone());
        let reach = self.tended.upstreams.reach(server.upstream);
        let failure = failure_to_agree(ending, reach.as_ref(), refused.is_some(), is_awaited)?;
        let name = self.tended.upstreams.name(server.upstream).unwrap_or_default();
        let why = refused.unwrap_or_else(|| "it has not ended its handshake in time".to_owned());
        cx.report_kind("untrusted", Level::Warn, format_args!("no TLS with upstream {name}: {why}"));
        Some(failure)
    }

    /// The end of a connection to an upstream, or of an attempt.
    fn server_closed(&mut self, cx: &mut Cx<'_>, server: &Server, ending: Ending) {
        match server.stage {
            Stage::Connecting if ending == Ending::Error => {
                let failure = failure_to_connect(cx.fault());
                self.retry(cx, server, ending, failure);
            }
            Stage::Connecting => match self.disagreed(cx, server, ending) {
                Some(failure) => self.retry(cx, server, ending, Some(failure)),
                None => self.break_off(cx, server.client, Why::UpstreamLimit),
            },
            stage => {
                self.tended.upstreams.disconnected(server.upstream);
                if stage == Stage::Silent && ending == Ending::Error {
                    self.failed(cx, server.upstream, Failure::Reset, Some(server.asker));
                }
                if is_cut(ending) {
                    let why = if ending == Ending::Error { Why::Upstream } else { Why::UpstreamLimit };
                    self.break_off(cx, server.client, why);
                }
            }
        }
        self.tended.upstreams.end(server.upstream, server.asker);
    }

    /// An upstream has taken a client's connection.
    fn join(&mut self, cx: &mut Cx<'_>, server: &mut Server, output: &mut Output) -> Next {
        let own = cx.id();
        self.tended.upstreams.connected(server.upstream);
        server.stage = Stage::Silent;
        let Some(peer) = cx.peer(server.client) else { return Next::Abort };
        let is_secured = self.is_secured(server.upstream);
        if let Some(version) = self.header.filter(|_| !is_secured) {
            let mut memory = [0; HEADER_BYTES_MAX];
            let bytes = header(version, &peer, &mut memory);
            if output.write(&memory[..bytes]).is_err() {
                return Next::Abort;
            }
        }
        if is_secured {
            cx.pair(server.client, own);
        }
        if let (Some(log), Some(address)) = (&mut self.log, self.tended.upstreams.address(server.upstream)) {
            log.join(server.client, address);
        }
        cx.notify(server.client, Told { server: (own, server.upstream), is_joined: true });
        cx.resume(server.client);
        Next::Continue
    }

    /// Bytes of the one for the other; how many.
    fn pass(cx: &mut Cx<'_>, to: ConnectionId, input: &mut Input) -> Option<usize> {
        let bytes = input.len() + input.unseen() as usize;
        if bytes > 0 {
            let output = cx.connection(to)?;
            output.forward(input.take_all());
            output.note_active();
        }
        Some(bytes)
    }

    /// So many bytes have come from an upstream: whether the pair says little at a time, and for how long it has. It is found so again and again, more and more seldom.
    fn says_little(server: &mut Server, bytes: usize) -> bool {
        server.littles = if bytes < LITTLE_BYTES { server.littles.saturating_add(1) } else { 0 };
        server.littles >= LITTLES_LEAST && server.littles.is_power_of_two()
    }
}

/// Whether an end is none of an orderly stream.
fn is_cut(ending: Ending) -> bool {
    matches!(ending, Ending::Error | Ending::Aborted)
}

impl StreamService for Proxy {
    type Talk = Notes<Told>;
    type Session = End;

    const COUNTERS: &'static [corelane::service::Declaration] = <ProxyCounter as corelane::service::OwnCounter>::DECLARED;

    fn started(&mut self, cx: &mut Cx<'_>) {
        self.tend(cx);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _token: u64) {
        self.tend(cx);
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        self.tended.completed(cx, token, outcome);
        self.forget_routes_before();
        self.serve_early(cx);
        self.tend(cx);
    }

    fn open(&mut self, cx: &mut Cx<'_>, peer: &Peer) -> End {
        let client = cx.id();
        if let Some(log) = &mut self.log {
            log.begin(client, &peer.address, cx.now());
        }
        let group = match &peer.learned {
            _ if !self.routes.tell_apart() => self.group(None),
            // TLS that ends here has told it already.
            Some(learned) => self.group(learned.server_name.as_deref()),
            None => {
                // It has `read_limit` to say whom it asks for, from now on.
                cx.resume(client);
                return End::Client(Client { group: None, server: None, is_joined: false });
            }
        };
        let server = group.and_then(|group| self.begin(cx, client, group));
        if group.is_none() {
            self.refuse(cx, client, (Why::UnknownName, "nobody serves the name that it asks for"));
        }
        End::Client(Client { group, server, is_joined: false })
    }

    fn connected(&mut self, cx: &mut Cx<'_>, session: &mut End, output: &mut Output) -> Next {
        match session {
            End::Server(server) => self.join(cx, server, output),
            End::Check(probe) => {
                let found = if probe.asks() && !self.introduce(probe.upstream(), output) {
                    Checked::Unknown
                } else {
                    probe.opened(output)
                };
                self.go_on_checking(cx, session, found)
            }
            End::Client(_) | End::Checked => Next::Abort,
        }
    }

    fn message(&mut self, _cx: &mut Cx<'_>, session: &mut End, _output: &mut Output, told: Told) -> Next {
        if let End::Client(client) = session {
            (client.server, client.is_joined) = (Some(told.server), told.is_joined);
        }
        Next::Continue
    }

    fn receive(&mut self, cx: &mut Cx<'_>, session: &mut End, input: &mut Input, _output: &mut Output) -> Next {
        match session {
            End::Client(Client { server: Some((server, upstream)), is_joined: true, .. }) => {
                let Some(bytes) = Self::pass(cx, *server, input) else { return Next::Abort };
                self.tended.upstreams.note_bytes(*upstream, bytes, 0);
                let own = cx.id();
                self.log.iter_mut().for_each(|log| log.note(own, bytes, 0));
                Next::Continue
            }
            End::Client(client @ Client { group: None, .. }) => self.hear(cx, client, input),
            // An end without bytes is the pair's, whichever upstream it gets.
            End::Client(_) if input.is_empty() => Next::Continue,
            // What has come waits, and nothing more is read, until there is an upstream for it.
            End::Client(_) => Next::Wait,
            End::Server(server) => {
                if server.stage == Stage::Silent && !input.is_empty() {
                    server.stage = Stage::Answered;
                    self.tended.upstreams.answered(server.upstream, cx.now(), cx.now() - server.since);
                }
                if self.in_kernel && !input.is_empty() && Self::says_little(server, input.len()) {
                    let own = cx.id();
                    cx.bridge(server.client, own);
                }
                let Some(bytes) = Self::pass(cx, server.client, input) else { return Next::Abort };
                self.tended.upstreams.note_bytes(server.upstream, 0, bytes);
                self.log.iter_mut().for_each(|log| log.note(server.client, 0, bytes));
                Next::Continue
            }
            End::Check(probe) => {
                let found = probe.received(input);
                self.go_on_checking(cx, session, found)
            }
            End::Checked => Next::Abort,
        }
    }

    fn closed(&mut self, cx: &mut Cx<'_>, session: End, ending: Ending) {
        if let (End::Client(_), Some(log)) = (&session, &mut self.log) {
            let own = cx.id();
            let is_draining = self.tended.is_draining();
            log.end(cx, own, |has_upstream, why| stream_ended(has_upstream, why, ending, is_draining));
        }
        match session {
            End::Client(Client { server: Some((server, _)), is_joined, .. }) if !is_joined || is_cut(ending) => cx.abort(server),
            End::Client(Client { server: None, .. }) => {
                let own = cx.id();
                self.early.retain(|(early, _)| *early != own);
            }
            End::Client(_) | End::Checked => {}
            End::Server(server) => self.server_closed(cx, &server, ending),
            End::Check(probe) => {
                let upstream = probe.upstream();
                let has_failed = match ending {
                    Ending::Error => failure_to_connect(cx.fault()).is_some(),
                    // Those that are broken off as a drain begins say nothing.
                    _ if self.tended.is_draining() => false,
                    _ => probe.is_late(cx.now()) || self.is_secured(upstream),
                };
                self.checked(cx, upstream, has_failed.then_some(false));
            }
        }
    }

    fn operate(&mut self, cx: &mut Cx<'_>, words: &str) -> Option<String> {
        if let Some(options) = words.strip_prefix("options ") {
            return Some(self.change(cx, options).to_string());
        }
        let answer = self.tended.operate(cx, words)?;
        self.note_rotation(cx);
        Some(answer)
    }

    /// A pair goes on until one of both ends it, or `drain_limit` is over: who of both speaks next is not known here.
    fn ends_itself(&self, session: &End) -> bool {
        matches!(session, End::Client(_))
    }

    fn drain_began(&mut self, cx: &mut Cx<'_>) {
        self.tended.drain(cx);
    }
}
