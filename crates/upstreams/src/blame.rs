//! Whose fault it is that no connection came about.

use crate::one::Failure;
use crate::reach::Reach;
use corelane::service::{Ending, Fault, Reason};

/// What a connection that was not opened says of its upstream, by the fault of that. None where this side lacks something: that is no fault of the upstream, and would be so with the next one.
pub fn failure_to_connect(fault: Option<Fault>) -> Option<Failure> {
    use Reason::{AddressInUse, AddressUnknown, Busy, Cancelled, NoDescriptor, NoMemory, Permission, TimedOut};
    match fault.map(|fault| fault.reason) {
        Some(NoDescriptor | NoMemory | AddressInUse | AddressUnknown | Permission | Busy) => None,
        Some(Cancelled | TimedOut) => Some(Failure::Timeout),
        _ => Some(Failure::Connect),
    }
}

/// What a connection that was ended before it was open says of its upstream: with TLS it may have come about, and its handshake not. `refused` is what a transform had to say of the upstream, `is_awaited`
/// whether somebody still waits for it. None where it is this side's end.
pub fn failure_to_agree(ending: Ending, reach: Option<&Reach>, refused: bool, is_awaited: bool) -> Option<Failure> {
    match ending {
        Ending::Aborted if refused => Some(Failure::Connect),
        // Its handshake has not ended in time.
        Ending::Aborted if is_awaited && reach.is_some_and(Reach::is_secured) => Some(Failure::Timeout),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_this_side_is_no_fault_of_an_upstream() {
        let of = |reason| failure_to_connect(Some(Fault::of(reason)));
        for own in [Reason::NoDescriptor, Reason::NoMemory, Reason::AddressInUse, Reason::Permission] {
            assert_eq!(of(own), None, "{own:?}");
        }
        assert_eq!((of(Reason::Refused), of(Reason::Unreachable)), (Some(Failure::Connect), Some(Failure::Connect)));
        assert_eq!((of(Reason::TimedOut), failure_to_connect(None)), (Some(Failure::Timeout), Some(Failure::Connect)));
    }
}
