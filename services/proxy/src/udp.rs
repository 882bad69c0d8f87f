//! Datagrams: a session is a client's address and port, with an upstream and a socket of its own to that.
//!
//! ```text
//! client --the socket of the service--> session (begins with an upstream) --its socket, connected--> upstream
//!        <--from the address that it has asked--                         <--------------------------
//! ```

mod counters;
mod sessions;

pub use counters::UdpCounter;

use crate::live::live;
use crate::log::{Ended, LaneLog, ProxyLog, Why};
use crate::routes::Routes;
use corelane::admin::reports::Level;
use corelane::service::{Arrival, Declaration, Fault, Outcome, OwnCounter, Reason, ServiceError, SocketId, TRAIN_DATAGRAMS_MAX};
use corelane::{Address, Cx, DatagramService, Datagrams, Replies, Silent};
use corelane_upstreams::entry::Behind;
use corelane_upstreams::{
    Caller, Failure, Listing, Source, Target, Tended, Tending, Tried, Upstream, client_key, failure_to_connect,
};
use sessions::{Room, Session, Sessions, Towards};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// The tokens of its alarms: for names, for idle sessions, and for the end of what a drain waits for. Calls on helper threads have the first.
const TENDING: u64 = 0;
const IDLE: u64 = 1;
const AWAITED: u64 = 2;

/// How long a drain waits for answers that are owed. A protocol may have none, and nobody here knows.
const AWAITED_FOR: Duration = Duration::from_secs(2);

/// Of the sockets that the service may have, so many are no session's: those it is served at, and those that are being closed.
const SPARE: u32 = 8;

/// What a session may pass in a turn, as a part of what may wait at a socket: the answers of all sessions leave by one.
const BURST: u32 = 8;

/// Why a session ends.
#[derive(Clone, Copy)]
enum End {
    /// Nothing has come for it.
    Idle,
    /// Another one has its place.
    MadeRoom,
    /// Its upstream cannot be reached.
    Failed(Failure),
    /// This side has no socket for it.
    NoSocket,
}

impl End {
    /// As the log has it. Senders that are forged and that nobody answers push each other out as fast as they come: that is counted, and fills no disk.
    fn words(self, is_answered: bool) -> Option<Ended> {
        match self {
            Self::Idle => Some(("closed", "idle")),
            Self::MadeRoom => is_answered.then_some(("closed", "made-room")),
            Self::Failed(failure) => Some(("cut", Why::Failed(failure).word())),
            Self::NoSocket => None,
        }
    }
}

/// Passes datagrams on, on one lane.
#[derive(Debug)]
pub struct UdpProxy {
    /// Upstreams over UDP are not asked whether they are well.
    tended: Tended,
    idle: Duration,
    sessions: Sessions,
    log: Option<LaneLog<u32>>,
    /// Sessions whose upstream owes an answer.
    awaited: u32,
    is_alarmed: bool,
    has_waited: bool,
}

impl UdpProxy {
    /// How long a session may be idle unless it is told otherwise.
    pub const IDLE: Duration = Duration::from_secs(30);

    /// To these upstreams, on this lane.
    pub fn new(behind: &Behind, lane: usize) -> Self {
        Self {
            tended: Tended::new(behind, lane, Tending { list, ..Tending::new(TENDING, TENDING) }),
            idle: Self::IDLE,
            sessions: Sessions::new(0, 0),
            log: None,
            awaited: 0,
            is_alarmed: false,
            has_waited: false,
        }
    }

    /// Ends a session for which nothing has come for so long.
    pub fn idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    /// Logs each session at its end.
    pub fn log(self, log: &ProxyLog) -> Self {
        Self { log: Some(log.lane()), ..self }
    }

    /// Has names resolved by something else than the system.
    pub fn resolving(mut self, resolve: fn(&str, u16) -> Result<Vec<Address>, String>) -> Self {
        self.tended.tending.resolve = resolve;
        self
    }

    fn tend(&mut self, cx: &mut Cx<'_>) {
        self.tended.tend(cx, |_| ());
        self.note_rotation(cx);
    }

    fn note_rotation(&self, cx: &mut Cx<'_>) {
        let (in_rotation, all) = self.tended.upstreams.in_rotation(cx.now());
        cx.set_gauge(UdpCounter::UpstreamsInRotation, in_rotation as u64);
        cx.set_gauge(UdpCounter::Upstreams, all as u64);
    }

    /// The session of an arrival's client, which begins if there is none. None where it cannot; that is counted.
    fn session_of(&mut self, cx: &mut Cx<'_>, arrival: &Arrival) -> Option<u32> {
        let key = (cx.socket(), arrival.peer.clone(), arrival.asked);
        if let Some(known) = self.sessions.of_client(&key) {
            return Some(known);
        }
        if self.tended.is_draining() {
            cx.count(UdpCounter::SessionsRefused, arrival.datagrams());
            return None;
        }
        let asker = client_key(&arrival.peer);
        let oldest = match self.sessions.room(asker, cx.now()) {
            Room::There => None,
            Room::Behind(oldest) => Some(oldest),
            Room::None => {
                self.refuse(cx, arrival, "all of its places are taken: see datagram_sockets_max and connections_per_peer_max");
                return None;
            }
        };
        let upstream = self.choose(cx, arrival, asker)?;
        // Nobody makes room for one that no upstream serves.
        if let Some(oldest) = oldest {
            cx.count(UdpCounter::SessionsMadeRoom, 1);
            self.end(cx, oldest, End::MadeRoom);
        }
        self.begin(cx, arrival, asker, upstream)
    }

    fn refuse(&self, cx: &mut Cx<'_>, arrival: &Arrival, why: &str) {
        cx.count(UdpCounter::SessionsRefused, arrival.datagrams());
        cx.report_kind("session refused", Level::Warn, format_args!("no session for a client of the proxy: {why}"));
    }

    /// The upstream of a new session. None where none serves; that is counted.
    fn choose(&mut self, cx: &mut Cx<'_>, arrival: &Arrival, client: u64) -> Option<Upstream> {
        let caller = Caller { key: self.tended.key(&arrival.peer), client };
        let upstream = self.tended.upstreams.begin(cx.now(), caller, &Tried::default());
        if upstream.is_none() {
            cx.count(UdpCounter::ClientsTurnedAway, arrival.datagrams());
            let (in_rotation, all) = self.tended.upstreams.in_rotation(cx.now());
            let words = format_args!(
                "no upstream serves, so a client's datagrams were dropped; {in_rotation} of {all} upstreams are in rotation: see `corelane proxy show`"
            );
            cx.report_kind("turned away", Level::Warn, words);
        }
        upstream
    }

    fn begin(&mut self, cx: &mut Cx<'_>, arrival: &Arrival, asker: u64, upstream: Upstream) -> Option<u32> {
        let (now, served) = (cx.now(), cx.socket());
        let to = self.address(upstream);
        match cx.open_datagrams(any_for(&to), Some(to)) {
            Ok(socket) => {
                cx.count(UdpCounter::SessionsBegun, 1);
                let session = Session::new((arrival.clone(), served, asker), (upstream, socket), now);
                let index = self.sessions.add(session);
                if let (Some(log), Some(address)) = (&mut self.log, self.tended.upstreams.address(upstream)) {
                    log.begin(index, &arrival.peer, now);
                    log.join(index, address);
                }
                cx.set_gauge(UdpCounter::Sessions, self.sessions.count().into());
                self.alarm_idle(cx);
                Some(index)
            }
            Err(error) => {
                self.tended.upstreams.end(upstream, asker);
                match error {
                    ServiceError::Draining => cx.count(UdpCounter::SessionsRefused, arrival.datagrams()),
                    error => self.refuse(cx, arrival, &error.to_string()),
                }
                None
            }
        }
    }

    /// Where an upstream is, as its socket names it.
    fn address(&self, upstream: Upstream) -> Address {
        // reason: a session holds it.
        let address = self.tended.upstreams.address(upstream).expect("an upstream that was taken is there").clone();
        match address.inet() {
            Some(inet) if inet.ip().to_canonical().is_unspecified() => {
                let here: IpAddr = if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
                SocketAddr::new(here, inet.port()).into()
            }
            _ => address,
        }
    }

    /// Datagrams of clients.
    fn pass_to_upstreams(&mut self, cx: &mut Cx<'_>, batch: &Datagrams) {
        let (now, most) = (cx.now(), burst_max(cx));
        for arrival in batch.arrivals() {
            let datagrams = arrival.datagrams();
            cx.count_requests(datagrams);
            let Some(index) = self.session_of(cx, arrival) else { continue };
            self.sessions.touch(index, now, Towards::Upstream);
            let session = self.sessions.get(index);
            let (socket, upstream) = (session.socket, session.upstream);
            if !session.may_pass(now, Towards::Upstream, datagrams, most) {
                cx.count(UdpCounter::BurstsCut, datagrams);
                continue;
            }
            let to = self.address(upstream);
            let Some(replies) = cx.datagrams(socket) else { continue };
            // What its socket does not take is counted there.
            if !replies.send_train(to, None, batch.share(arrival), arrival.datagram_bytes as usize) {
                continue;
            }
            let session = self.sessions.get(index);
            session.asked_at.get_or_insert(now);
            self.awaited += u32::from(session.owed == 0);
            session.owed = session.owed.saturating_add(datagrams as u32);
            self.tended.upstreams.note_bytes(upstream, arrival.bytes(), 0);
            if let Some(log) = &mut self.log {
                log.note(index, arrival.bytes(), 0);
            }
            cx.count(UdpCounter::ToUpstreams, datagrams);
        }
    }

    /// Datagrams of the upstream of a session.
    fn pass_to_client(&mut self, cx: &mut Cx<'_>, index: u32, batch: &Datagrams) {
        let (now, most) = (cx.now(), burst_max(cx));
        // All lanes may have agreed that nothing is left.
        if self.tended.is_draining() && !self.owes() {
            return;
        }
        let session = self.sessions.get(index);
        let (served, upstream, owed) = (session.served, session.upstream, session.owed);
        let count = batch.arrivals().iter().map(Arrival::datagrams).sum::<usize>();
        self.sessions.touch(index, now, Towards::Client);
        let session = self.sessions.get(index);
        session.is_answered = true;
        session.owed = owed.saturating_sub(count as u32);
        self.awaited -= u32::from(owed > 0 && session.owed == 0);
        if let Some(asked_at) = session.asked_at.take() {
            self.tended.upstreams.answered(upstream, now, now - asked_at);
        }
        for arrival in batch.arrivals() {
            let datagrams = arrival.datagrams();
            let session = self.sessions.get(index);
            if !session.may_pass(now, Towards::Client, datagrams, most) {
                cx.count(UdpCounter::BurstsCut, datagrams);
                continue;
            }
            // The lane may be served there no more.
            let Some(replies) = cx.datagrams(served) else { return };
            replies.reply(&session.client, batch.share(arrival), arrival.datagram_bytes as usize);
            self.tended.upstreams.note_bytes(upstream, 0, arrival.bytes());
            if let Some(log) = &mut self.log {
                log.note(index, 0, arrival.bytes());
            }
            cx.count(UdpCounter::ToClients, datagrams);
        }
    }

    /// Ends a session; its socket closes when all has left.
    fn end(&mut self, cx: &mut Cx<'_>, index: u32, why: End) {
        let session = self.sessions.remove(index);
        if let Some(log) = &mut self.log {
            match why.words(session.is_answered) {
                Some(words) => log.end(cx, index, |_, _| words),
                None => log.forget(index),
            }
        }
        cx.close_datagrams(session.socket);
        self.awaited -= u32::from(session.owed > 0);
        if session.is_open {
            self.tended.upstreams.disconnected(session.upstream);
        }
        self.tended.upstreams.end(session.upstream, session.asker);
        cx.set_gauge(UdpCounter::Sessions, self.sessions.count().into());
    }

    /// The upstream of a session cannot be reached; `client` is whose bytes may have caused that. The session ends, so its client's next datagram is for another one, if there is one in rotation.
    fn failed(&mut self, cx: &mut Cx<'_>, index: u32, failure: Option<Failure>, client: Option<u64>) {
        cx.count(UdpCounter::SessionsFailed, 1);
        let upstream = self.sessions.get(index).upstream;
        let ejected = failure.and_then(|failure| self.tended.upstreams.failed(upstream, cx.now(), failure, client));
        if let Some(ejected) = ejected {
            cx.count(UdpCounter::Ejections, 1);
            let name = self.tended.upstreams.name(upstream).unwrap_or_default();
            let words = format_args!(
                "upstream {name} is left out for {:?}: {} failures in a row, the last one a datagram that nobody took",
                ejected.lasts, ejected.failures
            );
            cx.report_kind("ejected", Level::Warn, words);
        }
        self.end(cx, index, failure.map_or(End::NoSocket, End::Failed));
        self.note_rotation(cx);
    }

    /// Ends those that are idle for too long.
    fn end_idle(&mut self, cx: &mut Cx<'_>) {
        self.is_alarmed = false;
        while let Some((_, index)) = self.sessions.oldest().filter(|(since, _)| *since + self.idle <= cx.now()) {
            cx.count(UdpCounter::SessionsIdle, 1);
            self.end(cx, index, End::Idle);
        }
        self.alarm_idle(cx);
    }

    /// Has itself called when the next one may be idle for too long: at most eight times in that time.
    fn alarm_idle(&mut self, cx: &mut Cx<'_>) {
        if self.is_alarmed {
            return;
        }
        let Some((since, _)) = self.sessions.oldest() else { return };
        let due = (since + self.idle).max(cx.now() + self.idle / 8);
        self.is_alarmed = cx.start_alarm(due, IDLE).is_ok();
    }

    /// Follows a change of the upstreams; whether there are some to follow.
    fn change(&mut self, cx: &mut Cx<'_>, options: &str) -> bool {
        let found = live(options, &Routes::default()).map(|(_, targets)| targets);
        let Some(targets) = found.filter(|targets| unfit(targets.all()).is_none()) else { return false };
        let follows = self.tended.retarget(cx, &targets);
        self.tend(cx);
        follows
    }
}

/// What cannot be spoken to by datagrams here, and why.
pub(crate) fn unfit(targets: &[Target]) -> Option<String> {
    let names = targets.iter().map(Target::name);
    let mut unfit = names.filter_map(|name| match name {
        name if name.starts_with("tls://") => Some(format!("{name}: datagrams are not passed on by TLS: write HOST:PORT")),
        name if name.starts_with("unix:") => Some(format!("{name}: datagrams are passed on by UDP alone: write HOST:PORT")),
        _ => None,
    });
    unfit.next()
}

/// Asks a source, which may name no other upstreams either.
fn list(source: &Source, known: Option<u64>, is_tls: bool) -> Listing {
    let listing = Listing::of(source, known, is_tls);
    match listing.targets.as_ref().ok().and_then(|targets| unfit(targets.as_deref()?)) {
        Some(why) => Listing { targets: Err(format!("{source}: {why}")), ..listing },
        None => listing,
    }
}

/// How many datagrams a session may pass in a turn: those of a train at the least, for it is passed on whole.
fn burst_max(cx: &Cx<'_>) -> u32 {
    let waiting = cx.limits().datagrams_waiting_max;
    (waiting / BURST).max(TRAIN_DATAGRAMS_MAX as u32)
}

/// Any address of the same family, at a port that the system chooses.
fn any_for(peer: &Address) -> SocketAddr {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(any, 0)
}

impl DatagramService for UdpProxy {
    type Talk = Silent;

    const COUNTERS: &'static [Declaration] = UdpCounter::DECLARED;

    /// One for each session.
    const OPENS_SOCKETS: bool = true;

    fn started(&mut self, cx: &mut Cx<'_>) {
        let sockets = cx.limits().datagram_sockets_max;
        let most = sockets - sockets.div_ceil(SPARE).min(sockets);
        self.sessions = Sessions::new(most, cx.limits().connections_per_peer_max);
        self.tend(cx);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, token: u64) {
        match token {
            IDLE => self.end_idle(cx),
            AWAITED => self.has_waited = true,
            _ => self.tend(cx),
        }
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        self.tended.completed(cx, token, outcome);
        self.tend(cx);
    }

    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, _replies: &mut Replies) {
        match self.sessions.of_socket(cx.socket()) {
            Some(index) => self.pass_to_client(cx, index, batch),
            None => self.pass_to_upstreams(cx, batch),
        }
    }

    fn opened(&mut self, cx: &mut Cx<'_>, socket: SocketId, outcome: Result<Address, Fault>) {
        let Some(index) = self.sessions.of_socket(socket) else { return };
        match outcome {
            Ok(_) => {
                let session = self.sessions.get(index);
                session.is_open = true;
                self.tended.upstreams.connected(session.upstream);
            }
            Err(fault) => {
                let words = format_args!("no socket for a session of the proxy: {fault}");
                cx.report_kind("session socket", Level::Warn, words);
                let failure = failure_to_connect(Some(fault));
                self.failed(cx, index, failure, None);
                // This side lacks ports or descriptors, though there are places: one that nobody has shown to be wanted gives back its own.
                if let Some(oldest) = self.sessions.oldest_unproved().filter(|_| failure.is_none()) {
                    cx.count(UdpCounter::SessionsMadeRoom, 1);
                    self.end(cx, oldest, End::MadeRoom);
                }
            }
        }
    }

    fn fault(&mut self, cx: &mut Cx<'_>, socket: SocketId, fault: Fault) {
        // What a client's machine says comes at the service's own socket: it is no upstream's fault.
        let Some(index) = self.sessions.of_socket(socket) else { return };
        let client = match fault.reason {
            Reason::Refused => None,
            // Something on the way may refuse what this client says.
            Reason::Unreachable => Some(self.sessions.get(index).asker),
            _ => return,
        };
        self.failed(cx, index, Some(Failure::Connect), client);
    }

    /// Answers that are owed leave before the sockets close.
    fn owes(&self) -> bool {
        self.tended.is_draining() && !self.has_waited && self.awaited > 0
    }

    /// Sessions that are left have their lines.
    fn ending(&mut self, cx: &mut Cx<'_>) {
        if let Some(log) = &mut self.log {
            log.end_all(cx, ("closed", "drain"));
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

    fn drain_began(&mut self, cx: &mut Cx<'_>) {
        self.tended.drain(cx);
        cx.stop_alarm(IDLE);
        // Where there is no place for an alarm, nothing is waited for.
        self.has_waited = cx.start_alarm(cx.now() + AWAITED_FOR, AWAITED).is_err();
    }
}
