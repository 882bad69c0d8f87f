//! What can become of a request that is not answered rightly.

use corelane::{Fault, Reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Why a request failed, or a connection could not be had. The names are those of the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The generator waited as long as it was told to, and gave up.
    ClientTimeout,
    /// The system gave up: the peer did not answer (ETIMEDOUT).
    SocketTimeout,
    /// The peer refused the connection or the datagram (ECONNREFUSED).
    Refused,
    /// The peer broke the connection off (ECONNRESET, EPIPE).
    Reset,
    /// The peer closed the connection before it had answered.
    Closed,
    /// This process has no descriptor left (EMFILE, ENFILE).
    NoDescriptor,
    /// There is no address or port left to connect from (EADDRNOTAVAIL, EADDRINUSE).
    NoAddress,
    /// The lane's table of connections is full.
    TableFull,
    /// Something else came back than what was to come.
    Mismatch,
    /// There is no way to the peer (ENETUNREACH, EHOSTUNREACH).
    Unreachable,
    /// A datagram that was not answered in time.
    Lost,
    /// A datagram that was answered more than once.
    Duplicate,
    /// A datagram that was answered after one that was sent later. It counts as answered, too.
    Reordered,
    /// An RPC call whose program, version or procedure the server does not have (RFC 5531 section 9: PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL).
    RpcUnavailable,
    /// An RPC call that the server did not accept: its version of RPC, or who calls (RFC 5531 section 9: MSG_DENIED).
    RpcDenied,
    /// An RPC call that the server could not read, or not carry out (RFC 5531 section 9: GARBAGE_ARGS, SYSTEM_ERR).
    RpcFailed,
    /// Anything else.
    Other,
}

/// How many kinds there are.
pub const KINDS: usize = 17;

impl Kind {
    /// All kinds, in the order of the reports.
    pub const ALL: [Kind; KINDS] = [
        Kind::ClientTimeout,
        Kind::SocketTimeout,
        Kind::Refused,
        Kind::Reset,
        Kind::Closed,
        Kind::NoDescriptor,
        Kind::NoAddress,
        Kind::TableFull,
        Kind::Mismatch,
        Kind::Unreachable,
        Kind::Lost,
        Kind::Duplicate,
        Kind::Reordered,
        Kind::RpcUnavailable,
        Kind::RpcDenied,
        Kind::RpcFailed,
        Kind::Other,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClientTimeout => "client_timeout",
            Self::SocketTimeout => "socket_timeout",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::NoDescriptor => "no_descriptor",
            Self::NoAddress => "no_address",
            Self::TableFull => "table_full",
            Self::Mismatch => "mismatch",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Duplicate => "duplicate",
            Self::Reordered => "reordered",
            Self::RpcUnavailable => "rpc_unavailable",
            Self::RpcDenied => "rpc_denied",
            Self::RpcFailed => "rpc_failed",
            Self::Other => "other",
        }
    }

    /// Whether a request went without its answer. Duplicates and changes of order are reported, but nothing failed.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Duplicate | Self::Reordered)
    }

    /// The kind of a socket's fault.
    pub fn of(fault: Fault) -> Self {
        match fault.reason {
            Reason::TimedOut => Self::SocketTimeout,
            Reason::Cancelled => Self::ClientTimeout,
            Reason::Refused => Self::Refused,
            Reason::Reset => Self::Reset,
            Reason::NoDescriptor => Self::NoDescriptor,
            Reason::AddressUnknown | Reason::AddressInUse => Self::NoAddress,
            Reason::Unreachable => Self::Unreachable,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each kind was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors([u64; KINDS]);

impl Errors {
    /// Counts `count` more of a kind.
    pub fn add(&mut self, kind: Kind, count: u64) {
        self.0[kind as usize] += count;
    }

    /// How many of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// Counts all that another has counted.
    pub fn merge(&mut self, other: &Errors) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// All that failed.
    pub fn failures(&self) -> u64 {
        Kind::ALL.iter().filter(|kind| kind.is_failure()).map(|&kind| self.of(kind)).sum()
    }

    /// By name, every kind present.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        Kind::ALL.iter().map(|&kind| (kind.name().to_owned(), self.of(kind))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_count_and_name() {
        let mut errors = Errors::default();
        for (count, &kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(kind as usize, count);
            errors.add(kind, count as u64 + 1);
        }
        let names = errors.by_name();
        assert_eq!(names.len(), KINDS);
        assert_eq!(names["client_timeout"], 1);
        let all: u64 = names.values().sum();
        assert_eq!(errors.failures(), all - errors.of(Kind::Duplicate) - errors.of(Kind::Reordered));
    }
}
