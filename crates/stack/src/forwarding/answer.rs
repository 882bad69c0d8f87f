//! What the sender of a packet hears that rules keep back.

use crate::icmp::errors::Wrong;
use corelane_rules::{Decision, Facts, Family, Part, Reject, Transport};

/// The highest codes of what cannot be reached: of ICMP, and of ICMP for IPv6.
const CODE_MAX: u8 = 15;
const CODE_MAX_V6: u8 = 8;

/// What he hears.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    Nothing,
    Error(Wrong),
    Reset,
}

/// What comes of a decision about a packet: none if it goes on. A sender hears what is of the packet's kind, and has a code of its family.
pub(super) fn answer(decision: Decision, facts: &Facts) -> Option<Answer> {
    let reject = match decision {
        Decision::Allow => return None,
        Decision::Deny => return Some(Answer::Nothing),
        Decision::Reject(reject) => reject,
    };
    Some(match (reject, facts.family) {
        (Reject::Unreachable(code), Family::V4) if code <= CODE_MAX => Answer::Error(Wrong::Refused { code }),
        (Reject::Unreachable6(code), Family::V6) if code <= CODE_MAX_V6 => Answer::Error(Wrong::Refused { code }),
        (Reject::Reset, _) if matches!(facts.transport, Transport::Tcp(..)) && facts.part == Part::Whole => Answer::Reset,
        _ => Answer::Nothing,
    })
}
