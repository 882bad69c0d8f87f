//! The log: a line for each client at its end, and for each session over UDP.
//!
//! ```text
//! 192.0.2.1:50412 [Thu, 01 Jan 2026 00:00:01 GMT] 10.0.0.2:80 96 5177 0.348123 cut upstream
//! client           its end                        upstream    to from seconds  how why
//! ```
//!
//! A thread writes it ([`corelane::service::journal`]), so no lane waits for a disk. What it cannot keep is lost, and said.

use corelane::admin::reports::{Level, Record};
use corelane::service::Ending;
use corelane::service::entry::Beside;
use corelane::service::journal::{Journal, Lines};
use corelane::{Address, Cx, Instant, Lanes, Talk};
use corelane_upstreams::Failure;
use corelane_wire::http1::Date;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

/// Where the clients of a program are logged. A clone is the same one.
#[derive(Clone)]
pub struct ProxyLog(Journal);

impl std::fmt::Debug for ProxyLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProxyLog").finish_non_exhaustive()
    }
}

impl ProxyLog {
    /// Adds to the file of this name ([`Journal::open`]).
    ///
    /// # Errors
    /// What the system says of opening it.
    pub fn open(path: impl Into<PathBuf>) -> std::io::Result<Self> {
        Journal::open(path).map(Self)
    }

    /// Has a thread write it as long as the lanes run, and at their end all that they said; opens the file anew at SIGUSR1 and at SIGHUP.
    pub fn beside(self, lanes: Lanes) -> Lanes {
        lanes.beside(move || {
            let journal = self.0.clone();
            match self.0.write() {
                Ok(writing) => Beside::default().keep(writing).at_rotation(move || journal.reopen()),
                Err(error) => {
                    let words = format!("nothing is logged: the log, or a thread that writes it, could not be had: {error}");
                    Beside::default().note(Record::new(Level::Warn, words))
                }
            }
        })
    }

    pub(crate) fn lane<K>(&self) -> LaneLog<K> {
        LaneLog { lines: self.0.lines(), clients: BTreeMap::new(), line: Vec::new() }
    }
}

/// Why a client is broken off: a word of a fixed set, nothing that anybody has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// None is there that takes clients.
    NoUpstream,
    /// Those that are there have as many clients as they may have, or as this one may have there.
    UpstreamFull,
    /// As many as may wait already for names to be resolved.
    Waiting,
    /// Those that were tried have failed, the last one so.
    Failed(Failure),
    /// TLS did not come about.
    NoTls,
    /// The lane has no place, descriptor or memory for a connection to an upstream.
    Full,
    /// Nobody serves the name that it asks for.
    UnknownName,
    /// What it has said first is no TLS that asks for a name, or is not whole.
    NoHello,
    /// Its upstream has broken off.
    Upstream,
    /// The connection to its upstream has come to a limit.
    UpstreamLimit,
}

impl Why {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::NoUpstream => "no-upstream",
            Self::UpstreamFull => "upstream-full",
            Self::Waiting => "waiting",
            Self::Failed(Failure::Timeout) => "connect-timeout",
            Self::Failed(_) => "unreachable",
            Self::NoTls => "no-tls",
            Self::Full => "full",
            Self::UnknownName => "unknown-name",
            Self::NoHello => "no-hello",
            Self::Upstream => "upstream",
            Self::UpstreamLimit => "upstream-limit",
        }
    }
}

/// A client that has not ended.
struct Logged {
    address: String,
    began: Instant,
    /// Where its bytes go; none before it has an upstream.
    upstream: Option<String>,
    to: u64,
    from: u64,
    /// Why it is broken off, as soon as that is known.
    why: Option<Why>,
}

/// How a client has ended, and why, each in a word.
pub(crate) type Ended = (&'static str, &'static str);

/// One lane's part of the log, of clients by their names there.
pub(crate) struct LaneLog<K> {
    lines: Lines,
    clients: BTreeMap<K, Logged>,
    line: Vec<u8>,
}

impl<K> std::fmt::Debug for LaneLog<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneLog").field("clients", &self.clients.len()).finish_non_exhaustive()
    }
}

impl<K: Ord + Copy> LaneLog<K> {
    /// A client has come.
    pub fn begin(&mut self, client: K, address: &Address, now: Instant) {
        let logged = Logged { address: address.to_string(), began: now, upstream: None, to: 0, from: 0, why: None };
        self.clients.insert(client, logged);
    }

    /// It has an upstream.
    pub fn join(&mut self, client: K, upstream: &Address) {
        if let Some(logged) = self.clients.get_mut(&client) {
            logged.upstream = Some(upstream.to_string());
        }
    }

    /// It is broken off, for this; what was known first stays.
    pub fn break_off(&mut self, client: K, why: Why) {
        if let Some(logged) = self.clients.get_mut(&client) {
            logged.why.get_or_insert(why);
        }
    }

    /// So many bytes have passed.
    pub fn note(&mut self, client: K, to: usize, from: usize) {
        if let Some(logged) = self.clients.get_mut(&client) {
            (logged.to, logged.from) = (logged.to + to as u64, logged.from + from as u64);
        }
    }

    /// It has ended, and has no line.
    pub fn forget(&mut self, client: K) {
        self.clients.remove(&client);
    }

    /// All that are left have ended so.
    pub fn end_all(&mut self, cx: &mut Cx<'_, impl Talk>, ended: Ended) {
        while let Some(&client) = self.clients.keys().next() {
            self.end(cx, client, |_, _| ended);
        }
    }

    /// It has ended: how and why is told from whether it had an upstream, and why it was broken off.
    pub fn end(&mut self, cx: &mut Cx<'_, impl Talk>, client: K, ended: impl FnOnce(bool, Option<Why>) -> Ended) {
        let Some(logged) = self.clients.remove(&client) else { return };
        let (took, day) = (cx.now() - logged.began, cx.time_of_day().as_secs());
        let date = Date::from_unix_seconds(i64::try_from(day).unwrap_or(i64::MAX)).text();
        let Logged { address, upstream, to, from, why, .. } = &logged;
        let (how, word) = ended(upstream.is_some(), *why);
        self.line.clear();
        let written = writeln!(
            self.line,
            "{address} [{}] {} {to} {from} {}.{:06} {how} {word}",
            String::from_utf8_lossy(&date),
            upstream.as_deref().unwrap_or("-"),
            took.as_secs(),
            took.subsec_micros(),
        );
        assert!(written.is_ok(), "memory takes what is written to it");
        let is_kept = self.lines.push(&self.line);
        let lost = self.lines.take_lost() + u64::from(!is_kept);
        if lost > 0 {
            cx.report_kind("log", Level::Warn, format_args!("{lost} lines of the log are lost: its disk is full or slow"));
        }
        self.lines.ring();
    }
}

/// How the connection of a client has ended, and why.
pub(crate) fn stream_ended(has_upstream: bool, why: Option<Why>, ending: Ending, is_draining: bool) -> Ended {
    (how(has_upstream, ending), word(why, ending, is_draining))
}

/// Why it has ended so, in a word.
fn word(why: Option<Why>, ending: Ending, is_draining: bool) -> &'static str {
    match (ending, why) {
        (Ending::Aborted, Some(why)) => why.word(),
        (Ending::Aborted | Ending::Closing, _) if is_draining => "drain",
        // Its own: it was slow for too long, say, or the lane had no memory for it.
        (Ending::Aborted, None) => "limit",
        (Ending::Closing, _) => "idle",
        (Ending::Completed | Ending::EndOfStream | Ending::Error, _) => "-",
    }
}

/// The end of a client, in a word.
fn how(has_upstream: bool, ending: Ending) -> &'static str {
    match (has_upstream, ending) {
        (false, Ending::Aborted) => "turned-away",
        (false, _) => "left",
        (true, Ending::Completed | Ending::EndOfStream) => "end",
        // Idle for too long, or the lane drains.
        (true, Ending::Closing) => "closed",
        (true, Ending::Error) => "reset",
        // By its upstream, or at a limit.
        (true, Ending::Aborted) => "cut",
    }
}
