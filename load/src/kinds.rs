//! What can become of a request that is not answered rightly.

use corelane::service::{Fault, Reason};
use std::collections::BTreeMap;
use std::fmt;

/// Why a request failed, or a connection could not be had. The names are those of the reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    /// TLS did not come to be, or broke: a certificate that proves nothing, a name that is not in it, no protocol in common.
    Tls,
    /// Anything else.
    Other,
    /// What only the workload can tell.
    Own(&'static OwnKind),
}

/// A kind that one workload declares in its entry: a request that failed as its answer says.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OwnKind {
    /// Its place among the workload's.
    pub place: usize,
    /// The name in reports.
    pub name: &'static str,
    /// What happened, as the end of a line of help.
    pub meaning: &'static str,
}

/// How many kinds all workloads have.
pub const KINDS: usize = 15;

/// Most kinds of a workload's own.
pub const OWN_KINDS_MAX: usize = 16;

impl Kind {
    /// The kinds that all workloads have, in the order of the reports.
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
        Kind::Tls,
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
            Self::Tls => "tls",
            Self::Other => "other",
            Self::Own(own) => own.name,
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Own(own) => KINDS + own.place,
            // reason: each_kind_has_its_own_count_and_name compares the list with the kinds.
            other => Self::ALL.iter().position(|&kind| kind == other).expect("it is in the list"),
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

/// Whether an error of this kind, by its name in reports, left a request without its answer. Duplicates and changes of order did not.
pub fn is_failure(kind: &str) -> bool {
    Kind::ALL.iter().find(|known| known.name() == kind).is_none_or(|known| known.is_failure())
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each kind was met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Errors([u64; KINDS + OWN_KINDS_MAX]);

impl Errors {
    /// Counts `count` more of a kind.
    pub fn add(&mut self, kind: Kind, count: u64) {
        self.0[kind.index()] += count;
    }

    /// How many of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.0[kind.index()]
    }

    /// Counts all that another has counted.
    pub fn merge(&mut self, other: &Errors) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// All that failed.
    pub fn failures(&self) -> u64 {
        let known: u64 = Kind::ALL.iter().filter(|kind| kind.is_failure()).map(|&kind| self.of(kind)).sum();
        known + self.0[KINDS..].iter().sum::<u64>()
    }

    /// By name, every kind present: those that all workloads have, and `own`.
    pub fn by_name(&self, own: &[Kind]) -> BTreeMap<String, u64> {
        Kind::ALL.iter().chain(own).map(|&kind| (kind.name().to_owned(), self.of(kind))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_count_and_name() {
        const OWN: [Kind; 2] =
            [Kind::Own(&OwnKind { place: 0, name: "a", meaning: "" }), Kind::Own(&OwnKind { place: 1, name: "b", meaning: "" })];
        let mut errors = Errors::default();
        for (count, &kind) in Kind::ALL.iter().chain(&OWN).enumerate() {
            assert_eq!(kind.index(), count);
            errors.add(kind, count as u64 + 1);
        }
        let names = errors.by_name(&OWN);
        assert_eq!(names.len(), KINDS + OWN.len());
        assert_eq!((names["client_timeout"], names["b"]), (1, 17));
        let all: u64 = names.values().sum();
        assert_eq!(errors.failures(), all - errors.of(Kind::Duplicate) - errors.of(Kind::Reordered));
        assert_eq!(errors.by_name(&[]).len(), KINDS);
    }
}
