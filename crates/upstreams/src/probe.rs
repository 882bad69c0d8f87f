//! Checks that are under way: what each asks its upstream, and until when.

use crate::table::Upstreams;
use crate::tried::Upstream;
use corelane::service::{ConnectionId, Input, Talk};
use corelane::{Cx, Instant, Output};
use corelane_wire::http1::{Answer, Limits, Responses, Scratch, Status};

/// The most bytes of the head of an answer to a check.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// A check of an upstream, which is a connection of its own: whether it takes that, and answers in time if it is asked something.
#[derive(Debug)]
pub struct Probe {
    upstream: Upstream,
    /// When it has failed.
    until: Instant,
    /// The request that it sends; none where the connection says enough.
    request: Option<String>,
    reader: Responses,
}

/// How a check stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Its upstream is waited for.
    Waits,
    /// Its upstream is well, or not.
    Knows(bool),
    /// Nothing is known of its upstream: this side lacks something.
    Unknown,
}

impl Checked {
    /// For [`Upstreams::checked`]; none while it waits.
    pub fn is_well(self) -> Option<Option<bool>> {
        match self {
            Self::Waits => None,
            Self::Knows(is_well) => Some(Some(is_well)),
            Self::Unknown => Some(None),
        }
    }
}

impl Probe {
    /// One that begins now; none where upstreams are not checked.
    pub(crate) fn of(upstreams: &Upstreams, upstream: Upstream, now: Instant) -> Option<Self> {
        let (check, name) = (upstreams.check()?, upstreams.name(upstream)?);
        let host = if name.contains("unix:") { "localhost" } else { name.trim_start_matches("tls://") };
        let request = check.path.as_ref().map(|path| {
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: corelane-check\r\nConnection: close\r\n\r\n")
        });
        let reader = Responses::new(Limits { head_bytes: HEAD_BYTES_MAX, ..Limits::default() });
        Some(Self { upstream, until: now + check.within, request, reader })
    }

    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Which upstream it is of.
    pub fn upstream(&self) -> Upstream {
        self.upstream
    }

    /// Whether it asks anything, once it is connected.
    pub fn asks(&self) -> bool {
        self.request.is_some()
    }

    /// Whether its time is over.
    pub fn is_late(&self, now: Instant) -> bool {
        self.until <= now
    }

    /// It is connected: asks, if it does.
    pub fn opened(&mut self, output: &mut Output) -> Checked {
        match &self.request {
            None => Checked::Knows(true),
            Some(request) if output.write(request.as_bytes()).is_ok() => Checked::Waits,
            Some(_) => Checked::Unknown,
        }
    }

    /// Bytes of the answer have come: well is one of 2xx and 3xx.
    pub fn received(&mut self, input: &mut Input) -> Checked {
        loop {
            let bytes = input.len().min(HEAD_BYTES_MAX);
            let is_over = input.is_finished() || input.len() > HEAD_BYTES_MAX;
            // Without memory for it to lie together it is looked at again.
            let Some(said) = input.contiguous(bytes) else { return Checked::Waits };
            let mut scratch = Scratch::new();
            let taken = match self.reader.next(said, &mut scratch) {
                Ok(Answer::Response { head, bytes })
                    if head.status.is_interim() && head.status != Status::SWITCHING_PROTOCOLS =>
                {
                    bytes
                }
                Ok(Answer::Response { head, .. }) => return Checked::Knows((200..400).contains(&head.status.code())),
                Ok(Answer::More) if !is_over => return Checked::Waits,
                Ok(Answer::More) | Err(_) => return Checked::Knows(false),
            };
            input.skip(taken);
        }
    }
}

/// The connections of checks that are under way, on one lane.
#[derive(Debug, Default)]
pub(crate) struct Checks(Vec<(ConnectionId, Instant)>);

impl Checks {
    pub(crate) fn begin(&mut self, check: ConnectionId, until: Instant) {
        self.0.push((check, until));
    }

    /// One has ended.
    pub(crate) fn end(&mut self, check: ConnectionId) {
        self.0.retain(|(known, _)| *known != check);
    }

    /// Breaks off those whose time is over: so one that hangs takes no other's place for long.
    pub(crate) fn end_late<T: Talk>(&mut self, cx: &mut Cx<'_, T>) {
        let now = cx.now();
        self.0.iter().filter(|(_, until)| *until <= now).for_each(|(check, _)| cx.abort(*check));
    }

    /// Breaks off all: for a drain, which waits for those that are not open yet.
    pub(crate) fn end_all<T: Talk>(&mut self, cx: &mut Cx<'_, T>) {
        self.0.drain(..).for_each(|(check, _)| cx.abort(check));
    }

    /// When something is to be done next: for a check that is late, or for the table.
    pub(crate) fn next_due(&self, upstreams: &Upstreams, now: Instant) -> Instant {
        // One that was broken off just now ends in its own time.
        let late = self.0.iter().map(|(_, until)| *until).filter(|until| *until > now).min();
        late.map_or(upstreams.next_due(), |late| late.min(upstreams.next_due()))
    }
}
