//! What errno(3) values mean to a lane.

use corelane_seam::{Fault, Reason};

/// The error number of this thread's last failed call.
pub fn last() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// The number of an error that came through the standard library.
pub fn of(error: &std::io::Error) -> i32 {
    // The standard library refuses some calls itself, with an error that has no number.
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

/// What a raw call returned: a count, or for -1 the number of its error.
pub fn checked(answer: isize) -> Result<usize, i32> {
    usize::try_from(answer).map_err(|_| {
        assert!(answer == -1, "a call fails with -1, and says why in errno");
        last()
    })
}

/// Repeats a call while a signal interrupts it (signal(7)).
pub fn uninterrupted(mut call: impl FnMut() -> isize) -> Result<usize, i32> {
    loop {
        match checked(call()) {
            Err(libc::EINTR) => {}
            answer => return answer,
        }
    }
}

/// Whether the call would have had to wait.
pub fn would_block(number: i32) -> bool {
    // EWOULDBLOCK is the same number on Linux.
    number == libc::EAGAIN
}

/// Whether the number may report what the network said of an earlier packet (ip(7), icmp(7)), and not of this call.
pub fn is_from_network(number: i32) -> bool {
    matches!(
        number,
        libc::ECONNREFUSED
            | libc::EHOSTDOWN
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::ENETUNREACH
            | libc::ENONET
            | libc::ENOPROTOOPT
            | libc::EOPNOTSUPP
            | libc::EPROTO
    )
}

/// What an error number means.
pub fn fault(number: i32) -> Fault {
    assert!(number > 0, "an error has a number, and {number} is none");
    let reason = match number {
        libc::ECANCELED => Reason::Cancelled,
        libc::EMFILE | libc::ENFILE => Reason::NoDescriptor,
        libc::ENOMEM | libc::ENOBUFS => Reason::NoMemory,
        libc::ECONNREFUSED => Reason::Refused,
        libc::ECONNRESET | libc::EPIPE | libc::ECONNABORTED => Reason::Reset,
        libc::ETIMEDOUT => Reason::TimedOut,
        libc::EADDRINUSE => Reason::AddressInUse,
        libc::EADDRNOTAVAIL => Reason::AddressUnknown,
        libc::EACCES | libc::EPERM => Reason::Permission,
        libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN | libc::EHOSTDOWN => Reason::Unreachable,
        libc::EMSGSIZE => Reason::TooLarge,
        libc::ENOENT | libc::ENOTDIR => Reason::NotFound,
        libc::EXDEV | libc::ELOOP => Reason::Outside,
        libc::ENOSYS | libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT => Reason::Unsupported,
        libc::EAGAIN => Reason::Busy,
        _ => Reason::Other,
    };
    Fault { reason, number }
}

/// What an error of a library's call means.
pub fn fault_of(error: rustix::io::Errno) -> Fault {
    fault(error.raw_os_error())
}

/// That the system refused `call`, in words, with the remedy where there is one.
pub fn refusal(call: &str, fault: Fault) -> String {
    let remedy = match fault.reason {
        Reason::Permission | Reason::Unsupported => {
            ": let the container's seccomp profile, or what else guards the process, allow it"
        }
        Reason::NoMemory => ": give the process, or its container, more memory",
        _ => "",
    };
    format!("the system refused {call}: {fault}{remedy}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_brings_its_number() {
        // SAFETY: closing a number that cannot be open touches no memory.
        let answer = uninterrupted(|| unsafe { libc::close(-1) } as isize);
        assert_eq!(answer, Err(libc::EBADF));
        assert_eq!(fault(libc::EBADF), Fault { reason: Reason::Other, number: libc::EBADF });
        assert_eq!(fault(libc::EPIPE).reason, Reason::Reset);
    }

    #[test]
    fn an_interrupted_call_is_repeated() {
        let mut calls = 0;
        let answer = uninterrupted(|| {
            calls += 1;
            if calls < 3 {
                // SAFETY: errno of this thread is always a valid place.
                unsafe { *libc::__errno_location() = libc::EINTR };
                return -1;
            }
            7
        });
        assert_eq!((answer, calls), (Ok(7), 3));
    }
}
