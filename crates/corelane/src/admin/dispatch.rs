//! When packets are handled on the lanes of a running process (`--packet`), changed through its control socket: what FreeBSD has as `net.isr.dispatch`
//! and as the queue limits of its protocols. With the feature `packets`.
//!
//! Each change is put in force on all lanes, and no flow is reordered by it ([`corelane_isr::dispatch`]).

use crate::admin::control::PACKETS as SUBJECT;
use crate::admin::control_client::{self, ControlError};
use corelane_isr::dispatch::{Dispatch, LIMIT_MAX, Number, Refused};
use corelane_isr::polling;
use corelane_stack::{PROTOCOLS, Policy};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// How long a change is waited for: longer than the process itself waits for its lanes.
const PATIENCE: Duration = Duration::from_secs(30);

/// The word for the policy of all in the place of a protocol's own.
const DEFAULT: &str = "default";

/// A change. Written as the process is told, and read again: `packets dispatch hybrid`, `packets dispatch ip deferred` (or `default`),
/// `packets limit ip 512`, `packets clear ip`, `packets polling user_frac=30`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// When handlers run, for protocols that do not say otherwise.
    Dispatch(Dispatch),
    /// When those of one protocol run; none: as those of all.
    DispatchOf(Number, Option<Dispatch>),
    /// Packets that each queue of a protocol holds.
    Limit(Number, usize),
    /// A protocol's counts of drops are 0 again.
    ClearDrops(Number),
    /// The part of the lanes' time that packets may take ([`polling`](crate::admin::polling)).
    Polling(polling::Change),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dispatch(dispatch) => write!(f, "{SUBJECT} dispatch {dispatch}"),
            Self::DispatchOf(number, Some(dispatch)) => write!(f, "{SUBJECT} dispatch {} {dispatch}", name(*number)),
            Self::DispatchOf(number, None) => write!(f, "{SUBJECT} dispatch {} {DEFAULT}", name(*number)),
            Self::Limit(number, limit) => write!(f, "{SUBJECT} limit {} {limit}", name(*number)),
            Self::ClearDrops(number) => write!(f, "{SUBJECT} clear {}", name(*number)),
            Self::Polling(change) => write!(f, "{SUBJECT} polling {change}"),
        }
    }
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split(' ').collect::<Vec<_>>()[..] {
            [SUBJECT, "dispatch", DEFAULT] => {
                Err(format!("{DEFAULT} is a protocol's: that of all is direct, hybrid or deferred"))
            }
            [SUBJECT, "dispatch", all] => policy(all).map(Self::Dispatch),
            [SUBJECT, "dispatch", protocol, DEFAULT] => number(protocol).map(|number| Self::DispatchOf(number, None)),
            [SUBJECT, "dispatch", protocol, own] => {
                let own = policy(own).map_err(|why| format!("{why}, or {DEFAULT}"));
                Ok(Self::DispatchOf(number(protocol)?, Some(own?)))
            }
            [SUBJECT, "limit", protocol, packets] => Ok(Self::Limit(number(protocol)?, limit(packets)?)),
            [SUBJECT, "clear", protocol] => number(protocol).map(Self::ClearDrops),
            [SUBJECT, "polling", change] => {
                change.parse().map(Self::Polling).map_err(|why: polling::ChangeError| why.to_string())
            }
            _ => Err(format!(
                "there is no such command: write {SUBJECT} dispatch [PROTOCOL] POLICY, {SUBJECT} limit PROTOCOL PACKETS, {SUBJECT} clear PROTOCOL or {SUBJECT} polling KNOB=VALUE"
            )),
        }
    }
}

/// A change as the lanes are told it, or one that is looked at first.
pub(crate) enum Asked {
    Policy(Policy),
    Polling(polling::Change),
}

impl From<Change> for Asked {
    fn from(change: Change) -> Self {
        Self::Policy(match change {
            Change::Dispatch(dispatch) => Policy::Dispatch(dispatch),
            Change::DispatchOf(number, dispatch) => Policy::DispatchOf(number, dispatch),
            Change::Limit(number, limit) => Policy::Limit(number, limit),
            Change::ClearDrops(number) => Policy::ClearDrops(number),
            Change::Polling(change) => return Self::Polling(change),
        })
    }
}

/// Has the process whose page is at `page` change how it dispatches packets. Once this returns it is in force on all lanes, and the page says so.
///
/// # Errors
/// Every [`ControlError`]; [`ControlError::Refused`] has the words of the process.
pub fn change(page: &Path, change: Change) -> Result<(), ControlError> {
    control_client::ask(page, &change.to_string(), PATIENCE).map(drop)
}

/// The user fraction of threads that receive beside the lanes of a process (`receive_threads`), in per cent; none where there are none.
///
/// # Errors
/// As [`change`].
pub fn polled(page: &Path) -> Result<Option<u32>, ControlError> {
    Ok(control_client::ask(page, POLLED, PATIENCE)?.parse().ok())
}

/// The words that ask for it.
pub(crate) const POLLED: &str = "packets polling";

fn name(number: Number) -> &'static str {
    let found = PROTOCOLS.iter().find(|(_, known)| *known == number);
    // A number that no lane has is refused by its name.
    found.map_or("?", |(name, _)| name)
}

fn number(protocol: &str) -> Result<Number, String> {
    let found = PROTOCOLS.iter().find(|(name, _)| *name == protocol);
    let names = || PROTOCOLS.map(|(name, _)| name).join(", ");
    found
        .map(|(_, number)| *number)
        .ok_or_else(|| format!("there is no protocol {:?}: name one of {}", beginning(protocol), names()))
}

fn policy(text: &str) -> Result<Dispatch, String> {
    text.parse().map_err(|none| format!("{:?}: {none}", beginning(text)))
}

fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().map_err(|_| format!("{:?} is no number of packets: write 0 to {LIMIT_MAX}", beginning(text)))?;
    if limit > LIMIT_MAX { Err(Refused::Limit { got: limit }.to_string()) } else { Ok(limit) }
}

/// The part of a text that a message repeats because it is wrong.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(32)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::control::is_of_packets;

    #[test]
    fn changes_are_read_as_they_are_written() {
        let mut changes = vec![Change::Dispatch(Dispatch::Hybrid)];
        for (_, number) in PROTOCOLS {
            changes.extend([
                Change::DispatchOf(number, Some(Dispatch::Direct)),
                Change::DispatchOf(number, None),
                Change::Limit(number, LIMIT_MAX),
                Change::ClearDrops(number),
            ]);
        }
        for change in changes {
            let written = change.to_string();
            assert_eq!(written.parse(), Ok(change));
            assert!(is_of_packets(&written) && !written.contains('?'), "{written}");
        }
        assert!(!is_of_packets("packetss dispatch direct") && !is_of_packets("table"));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let long = "é".repeat(8_000);
        for (request, words) in [
            ("packets", "there is no such command: write packets dispatch"),
            ("packets dispatch", "there is no such command"),
            ("packets dispatch ", "\"\": a policy of dispatch is direct, hybrid or deferred"),
            ("packets dispatch default", "default is a protocol's: that of all is direct, hybrid or deferred"),
            ("packets dispatch Hybrid", "\"Hybrid\": a policy"),
            ("packets dispatch ip foo", "\"foo\": a policy of dispatch is direct, hybrid or deferred, or default"),
            (
                "packets dispatch ipx hybrid",
                "there is no protocol \"ipx\": name one of ip, arp, ether, ip6, ip_direct, ip6_direct",
            ),
            ("packets dispatch ip hybrid now", "there is no such command"),
            ("packets limit ip 10241", "a queue holds 10240 packets at most, not 10241"),
            ("packets limit ip -1", "\"-1\" is no number of packets: write 0 to 10240"),
            ("packets limit rtsock 5", "there is no protocol \"rtsock\""),
            ("packets clear", "there is no such command"),
            (&format!("packets clear {long}"), "there is no protocol"),
            (&format!("packets limit ip {long}"), "is no number of packets"),
        ] {
            let why = request.parse::<Change>().unwrap_err();
            assert!(why.contains(words) && why.len() < 300, "{request}: {why}");
        }
    }
}
