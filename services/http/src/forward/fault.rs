//! What an upstream did wrong, and what the client is told of it.

use crate::counters::HttpCounter;
use crate::{Answered, Reply};
use corelane::service::Refused;
use corelane::{Cx, Silent};
use corelane_upstreams::Failure;
use corelane_wire::http1::{Refusal, Status};

/// Why there is no answer, or no whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// No upstream is there.
    Nobody,
    /// Those that are there have as many requests under way as they may have, or as this client may have there.
    Crowded,
    /// It could not be connected to.
    Unreachable,
    /// The same, and it has said nothing in the time that connecting may take.
    Unheard,
    /// It has not shown by TLS who it is.
    Untrusted,
    /// Its connection, which was used before, has ended before the first byte of the answer.
    Stale,
    /// Its connection has ended before the answer was whole.
    Lost,
    /// This side has ended its connection, for want of something.
    Cut,
    /// Its answer is none of HTTP/1.1.
    Malformed,
    /// Its answer may be one, and passes a bound.
    Oversized,
    /// It has not ended the head of its answer in time, or was silent for too long behind it; or it has taken nothing of the request for too long.
    Silent,
    /// The lane has as many connections as may be.
    Full,
    /// The lane has no memory for the request.
    Memory,
}

impl Fault {
    /// What an answer is refused for.
    pub fn of_answer(refusal: Refusal) -> Self {
        match refusal {
            Refusal::HeadTooLong | Refusal::TooManyFields | Refusal::ExtensionsTooLong => Self::Oversized,
            _ => Self::Malformed,
        }
    }

    fn status(self) -> Status {
        match self {
            Self::Nobody | Self::Crowded | Self::Cut | Self::Full | Self::Memory => Status::SERVICE_UNAVAILABLE,
            Self::Unreachable | Self::Untrusted | Self::Stale | Self::Lost | Self::Malformed | Self::Oversized => {
                Status::BAD_GATEWAY
            }
            Self::Unheard | Self::Silent => Status::GATEWAY_TIMEOUT,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Crowded => "the servers behind this one have as many requests under way as they may have",
            Self::Nobody => "none of the servers behind this one can be reached",
            Self::Unreachable => "the server behind this one refuses connections",
            Self::Unheard => "the server behind this one does not take connections in time",
            Self::Untrusted => "no TLS came about with the server behind this one",
            Self::Stale | Self::Lost => "the server behind this one has ended its connection before it answered",
            Self::Cut => "this server has ended its connection to the one behind it, for want of room",
            Self::Malformed => "what the server behind this one has answered is no HTTP/1.1",
            Self::Oversized => {
                "the answer of the server behind this one passes a bound: its head, interim answers, chunk extensions or trailers"
            }
            Self::Silent => "the server behind this one does not answer in time",
            Self::Full => "this server has as many connections as it may have",
            Self::Memory => "this server has no memory for the request",
        }
    }

    /// Its word in the log.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nobody => "no-upstream",
            Self::Crowded => "upstream-full",
            Self::Unreachable => "unreachable",
            Self::Unheard => "connect-timeout",
            Self::Untrusted => "no-tls",
            Self::Stale | Self::Lost => "lost",
            Self::Cut => "limit",
            Self::Malformed => "malformed",
            Self::Oversized => "too-large",
            Self::Silent => "silent",
            Self::Full => "full",
            Self::Memory => "no-memory",
        }
    }

    /// What it says of the upstream; nothing where that is not at fault.
    pub fn failure(self) -> Option<Failure> {
        match self {
            Self::Nobody | Self::Crowded | Self::Stale | Self::Cut | Self::Full | Self::Memory => None,
            Self::Unreachable | Self::Untrusted => Some(Failure::Connect),
            Self::Unheard | Self::Silent => Some(Failure::Timeout),
            Self::Lost => Some(Failure::Reset),
            Self::Malformed | Self::Oversized => Some(Failure::Answer),
        }
    }

    fn counter(self) -> HttpCounter {
        match self {
            Self::Nobody | Self::Crowded | Self::Cut | Self::Full | Self::Memory => HttpCounter::ForwardsRefused,
            Self::Unreachable | Self::Untrusted | Self::Stale | Self::Lost | Self::Malformed | Self::Oversized => {
                HttpCounter::ForwardsFailed
            }
            Self::Unheard | Self::Silent => HttpCounter::ForwardsTimedOut,
        }
    }
}

/// Counts it.
pub(super) fn count(cx: &mut Cx<'_, Silent>, fault: Fault) {
    cx.count(fault.counter(), 1);
}

/// Tells the client.
///
/// # Errors
/// As for [`Answer::bytes`](crate::Answer::bytes).
pub(super) fn explain<H: From<Answered>>(cx: &mut Cx<'_, Silent>, fault: Fault, reply: Reply<'_>) -> Result<H, Refused> {
    count(cx, fault);
    let status = fault.status();
    let text = format!("{} {}\n{}\n", status.code(), status.phrase(), fault.words());
    reply.answer(status).media("text/plain; charset=utf-8").bytes(text.as_bytes())
}
