//! The service: pairs of connections.

use crate::counters::ProxyCounter;
use crate::ends::{Client, End, Server, Stage, Told};
use crate::header::header;
use crate::live::live;
use corelane::admin::reports::Level;
use corelane::service::{ConnectionId, Ending, Fault, Notes, Outcome};
use corelane::{Address, Input, Next, Output, Peer, StreamService};
use corelane_upstreams::entry::Behind;
use corelane_upstreams::{Asked, Failure, Tending, Tried, Upstream, Upstreams, failure_to_connect, found, tend};
use corelane_wire::proxy::{HEADER_BYTES_MAX, Version};

type Cx<'a> = corelane::Cx<'a, Notes<Told>>;

/// The token of its alarm, and of its calls on helper threads.
const TENDING: u64 = 0;

/// Clients that wait until the first names are resolved; one more is turned away.
const EARLY_MAX: usize = 1_024;

/// Passes bytes on, on one lane.
#[derive(Debug)]
pub struct Proxy {
    upstreams: Upstreams,
    key: fn(&Address) -> u64,
    /// The PROXY header that upstreams get.
    header: Option<Version>,
    tending: Tending,
    /// Clients that have come before any name was resolved.
    early: Vec<ConnectionId>,
    /// Checks that are under way.
    checks: Vec<ConnectionId>,
    is_draining: bool,
}

impl Proxy {
    /// To these upstreams, on this lane.
    pub fn new(behind: &Behind, lane: usize) -> Self {
        let upstreams = Upstreams::new(&behind.targets, behind.settings, lane);
        let tending = Tending::new(TENDING, TENDING);
        Self { upstreams, key: behind.key, header: None, tending, early: Vec::new(), checks: Vec::new(), is_draining: false }
    }

    /// Has each upstream told by a PROXY header whose connection it gets.
    pub fn header(self, version: Version) -> Self {
        Self { header: Some(version), ..self }
    }

    /// Has names resolved by something else than the system.
    pub fn resolving(self, resolve: fn(&str, u16) -> Result<Vec<Address>, String>) -> Self {
        Self { tending: Tending { resolve, ..self.tending }, ..self }
    }

    /// Follows a change of the upstreams; whether there are some to follow.
    fn change(&mut self, cx: &mut Cx<'_>, options: &str) -> bool {
        let Some(targets) = live(options) else { return false };
        self.upstreams.retarget(&targets, cx.now());
        self.tend(cx);
        true
    }

    /// Does what the upstreams want done.
    fn tend(&mut self, cx: &mut Cx<'_>) {
        if !self.is_draining {
            let begun = tend(cx, &mut self.upstreams, self.tending, End::Check);
            self.checks.extend(begun);
        }
        self.note_rotation(cx);
    }

    fn note_rotation(&self, cx: &mut Cx<'_>) {
        let (in_rotation, all) = self.upstreams.in_rotation(cx.now());
        cx.set_gauge(ProxyCounter::UpstreamsInRotation, in_rotation as u64);
        cx.set_gauge(ProxyCounter::Upstreams, all as u64);
    }

    /// Begins a connection to an upstream that this client has not tried. None if there is none, or the lane has no place.
    fn connect(&mut self, cx: &mut Cx<'_>, client: ConnectionId, mut tried: Tried) -> Option<(ConnectionId, Upstream)> {
        let key = cx.peer_address(client).map(self.key)?;
        if tried.is_full() {
            return None;
        }
        let since = cx.now();
        let upstream = self.upstreams.begin(since, key, &tried)?;
        // reason: it is in use.
        let address = self.upstreams.address(upstream).expect("an upstream that was taken is there").clone();
        tried.add(upstream);
        let session = End::Server(Server { client, upstream, tried, since, stage: Stage::Connecting });
        match cx.connect(address, session) {
            Ok(server) => {
                // Already now, so that the end of a client that has nothing to say is kept for its upstream.
                cx.pair(client, server);
                Some((server, upstream))
            }
            Err(error) => {
                cx.report_kind("connect", Level::Warn, format_args!("no connection to an upstream: {error}"));
                self.upstreams.end(upstream);
                None
            }
        }
    }

    /// Gives a client to its first upstream; where names are still to be resolved, later.
    fn begin(&mut self, cx: &mut Cx<'_>, client: ConnectionId) -> Option<(ConnectionId, Upstream)> {
        let server = self.connect(cx, client, Tried::default());
        if server.is_none() && self.upstreams.awaits_names() && self.early.len() < EARLY_MAX {
            self.early.push(client);
        } else if server.is_none() {
            self.turn_away(cx, client);
        }
        server
    }

    /// A name is resolved, or is not: those who have waited for that go on.
    fn serve_early(&mut self, cx: &mut Cx<'_>) {
        for client in std::mem::take(&mut self.early) {
            // It may have left.
            if cx.peer_address(client).is_none() {
                continue;
            }
            if let Some(server) = self.begin(cx, client) {
                cx.notify(client, Told { server, is_joined: false });
            }
        }
    }

    /// No upstream takes the client. It is broken off: an end in order would look like an answer.
    fn turn_away(&mut self, cx: &mut Cx<'_>, client: ConnectionId) {
        let (in_rotation, all) = self.upstreams.in_rotation(cx.now());
        cx.count(ProxyCounter::ClientsTurnedAway, 1);
        let words = format_args!(
            "no upstream took a client's connection, which was broken off; {in_rotation} of {all} upstreams are in rotation: see `corelane proxy show`"
        );
        cx.report_kind("turned away", Level::Warn, words);
        cx.abort(client);
    }

    /// An upstream has failed a client.
    fn failed(&mut self, cx: &mut Cx<'_>, upstream: Upstream, failure: Failure) {
        let Some(ejected) = self.upstreams.failed(upstream, cx.now(), failure) else { return };
        cx.count(ProxyCounter::Ejections, 1);
        let address = self.upstreams.address(upstream).map(Address::to_string).unwrap_or_default();
        let name = self.upstreams.name(upstream).unwrap_or_default();
        let words = format_args!(
            "upstream {name} at {address} is left out for {:?}: {} failures in a row, the last one {failure:?}",
            ejected.lasts, ejected.failures
        );
        cx.report_kind("ejected", Level::Warn, words);
        self.note_rotation(cx);
    }

    /// A check of an upstream has ended.
    fn checked(&mut self, cx: &mut Cx<'_>, upstream: Upstream, is_well: Option<bool>) {
        let own = cx.id();
        self.checks.retain(|check| *check != own);
        let name = self.upstreams.name(upstream).unwrap_or_default().to_owned();
        match self.upstreams.checked(upstream, cx.now(), is_well) {
            Some(true) => cx.report(Level::Info, format_args!("upstream {name} is up: its checks succeed")),
            Some(false) => cx.report(Level::Warn, format_args!("upstream {name} is down: it takes no connection")),
            None => {}
        }
        self.tend(cx);
    }

    /// The connection to an upstream was not opened: another one is tried.
    fn retry(&mut self, cx: &mut Cx<'_>, server: &Server, fault: Option<Fault>) {
        let failure = failure_to_connect(fault);
        if let Some(failure) = failure {
            self.failed(cx, server.upstream, failure);
        }
        let is_waiting = cx.peer_address(server.client).is_some();
        match failure.and_then(|_| self.connect(cx, server.client, server.tried)) {
            Some(next) => {
                self.upstreams.retried(server.upstream);
                cx.count(ProxyCounter::Retries, 1);
                cx.notify(server.client, Told { server: next, is_joined: false });
            }
            None if is_waiting => self.turn_away(cx, server.client),
            None => {}
        }
    }

    /// The end of a connection to an upstream, or of an attempt.
    fn server_closed(&mut self, cx: &mut Cx<'_>, server: &Server, ending: Ending) {
        match server.stage {
            Stage::Connecting if ending == Ending::Error => self.retry(cx, server, cx.fault()),
            Stage::Connecting => cx.abort(server.client),
            stage => {
                self.upstreams.disconnected(server.upstream);
                if stage == Stage::Silent && ending == Ending::Error {
                    self.failed(cx, server.upstream, Failure::Reset);
                }
                if is_cut(ending) {
                    cx.abort(server.client);
                }
            }
        }
        self.upstreams.end(server.upstream);
    }

    /// An upstream has taken a client's connection.
    fn join(&mut self, cx: &mut Cx<'_>, server: &mut Server, output: &mut Output) -> Next {
        let own = cx.id();
        self.upstreams.connected(server.upstream);
        server.stage = Stage::Silent;
        let Some(peer) = cx.peer(server.client) else { return Next::Abort };
        if let Some(version) = self.header {
            let mut memory = [0; HEADER_BYTES_MAX];
            let bytes = header(version, &peer, &mut memory);
            if output.write(&memory[..bytes]).is_err() {
                return Next::Abort;
            }
        }
        cx.notify(server.client, Told { server: (own, server.upstream), is_joined: true });
        cx.resume(server.client);
        Next::Continue
    }

    /// Bytes of the one for the other; how many.
    fn pass(cx: &mut Cx<'_>, to: ConnectionId, input: &mut Input) -> Option<usize> {
        let bytes = input.len();
        if bytes > 0 {
            let output = cx.connection(to)?;
            output.forward(input.take_all());
            output.note_active();
        }
        Some(bytes)
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
        self.upstreams.start(cx.now());
        self.tend(cx);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _token: u64) {
        self.tend(cx);
    }

    fn completed(&mut self, cx: &mut Cx<'_>, _token: u64, outcome: Outcome) {
        let found = found(outcome);
        if let Err(why) = &found {
            cx.report_kind("resolve", Level::Warn, format_args!("a name of an upstream is not resolved: {why}"));
        }
        self.upstreams.resolved(cx.now(), found);
        self.serve_early(cx);
        self.tend(cx);
    }

    fn open(&mut self, cx: &mut Cx<'_>, _peer: &Peer) -> End {
        let client = cx.id();
        let server = self.begin(cx, client);
        End::Client(Client { server, is_joined: false })
    }

    fn connected(&mut self, cx: &mut Cx<'_>, session: &mut End, output: &mut Output) -> Next {
        match session {
            End::Server(server) => self.join(cx, server, output),
            End::Check(upstream) => {
                let upstream = *upstream;
                *session = End::Checked;
                self.checked(cx, upstream, Some(true));
                Next::Abort
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
            End::Client(Client { server: Some((server, upstream)), is_joined: true }) => {
                let Some(bytes) = Self::pass(cx, *server, input) else { return Next::Abort };
                self.upstreams.note_bytes(*upstream, bytes, 0);
                Next::Continue
            }
            // An end without bytes is the pair's, whichever upstream it gets.
            End::Client(_) if input.is_empty() => Next::Continue,
            // What has come waits, and nothing more is read, until there is an upstream for it.
            End::Client(_) => Next::Wait,
            End::Server(server) => {
                if server.stage == Stage::Silent && !input.is_empty() {
                    server.stage = Stage::Answered;
                    self.upstreams.answered(server.upstream, cx.now(), cx.now() - server.since);
                }
                let Some(bytes) = Self::pass(cx, server.client, input) else { return Next::Abort };
                self.upstreams.note_bytes(server.upstream, 0, bytes);
                Next::Continue
            }
            End::Check(_) | End::Checked => Next::Abort,
        }
    }

    fn closed(&mut self, cx: &mut Cx<'_>, session: End, ending: Ending) {
        match session {
            End::Client(Client { server: Some((server, _)), is_joined }) if !is_joined || is_cut(ending) => cx.abort(server),
            End::Client(_) | End::Checked => {}
            End::Server(server) => self.server_closed(cx, &server, ending),
            End::Check(upstream) => {
                let has_failed = ending == Ending::Error && failure_to_connect(cx.fault()).is_some();
                self.checked(cx, upstream, has_failed.then_some(false));
            }
        }
    }

    fn operate(&mut self, cx: &mut Cx<'_>, words: &str) -> Option<String> {
        if let Some(options) = words.strip_prefix("options ") {
            return Some(self.change(cx, options).to_string());
        }
        let mut asked = Asked::read(words, cx.now())?;
        asked.of(&mut self.upstreams);
        self.note_rotation(cx);
        Some(asked.answer())
    }

    /// A pair goes on until one of both ends it, or `drain_limit` is over: who of both speaks next is not known here.
    fn ends_itself(&self, session: &End) -> bool {
        matches!(session, End::Client(_))
    }

    fn drain_began(&mut self, cx: &mut Cx<'_>) {
        self.is_draining = true;
        cx.stop_alarm(TENDING);
        self.checks.iter().for_each(|check| cx.abort(*check));
    }
}
