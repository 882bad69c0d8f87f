//! Listeners of the program that are no service's, such as that of its metrics: they are handed over as lanes' sockets are.
//!
//! ```text
//! service manager, or the process that is taken over --Running::listeners--> whoever listens beside the lanes --Running::hand_over_listener--> the next process
//! ```

use crate::lanes::builder::Lanes;
use corelane_os::handed::Handed;
use corelane_os::sockets;
use corelane_rss::Transport;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Listeners of a process at the most, beside its lanes'.
pub(crate) const LISTENERS_MAX: usize = 64;

/// A listener, and what is called when another process has taken it over.
struct Own {
    at: SocketAddr,
    socket: OwnedFd,
    left: Box<dyn Fn() + Send>,
}

/// The listeners of this process that are no service's.
#[derive(Clone, Default)]
pub(crate) struct Others(Arc<Mutex<Vec<Own>>>);

impl Others {
    /// One more.
    pub(crate) fn add(&self, listener: &TcpListener, left: Box<dyn Fn() + Send>) -> io::Result<()> {
        let own = Own { at: listener.local_addr()?, socket: listener.try_clone()?.into(), left };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == LISTENERS_MAX {
            return Err(io::Error::other(format!("more than {LISTENERS_MAX} listeners beside the lanes")));
        }
        all.push(own);
        Ok(())
    }

    /// Shows each.
    pub(crate) fn each<E>(&self, mut show: impl FnMut(SocketAddr, BorrowedFd<'_>) -> Result<(), E>) -> Result<(), E> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().try_for_each(|own| show(own.at, own.socket.as_fd()))
    }

    /// They are another process's now.
    pub(crate) fn leave(&self) {
        for own in std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            (own.left)();
        }
    }
}

/// Whether who is to listen at `at` listens at a socket that was handed over for `handed`. A service manager may keep IPv4 and IPv6 apart (`BindIPv6Only=` of
/// systemd.socket(5)), so `[::]` means `0.0.0.0`, too.
pub(crate) fn covers(at: SocketAddr, handed: SocketAddr) -> bool {
    let means_both = at.ip().is_unspecified() && at.is_ipv6() && handed.ip() == IpAddr::from([0, 0, 0, 0]);
    at == handed || means_both && at.port() == handed.port()
}

/// Whether the program itself listens at a socket that was handed over.
pub(crate) fn is_for_program(lanes: &Lanes, handed: &Handed) -> bool {
    let at = handed.address.inet();
    handed.transport == Transport::Tcp && at.is_some_and(|at| lanes.listens_also.iter().any(|own| covers(*own, at)))
}

/// Those that a service manager has handed over for the program itself.
pub(crate) fn of_manager(lanes: &Lanes) -> io::Result<Vec<(SocketAddr, OwnedFd)>> {
    let mut all = Vec::new();
    for handed in lanes.handed.iter().filter(|handed| is_for_program(lanes, handed)) {
        let own = sockets::duplicate(handed.number()).map_err(|fault| io::Error::from_raw_os_error(fault.number))?;
        all.extend(handed.address.inet().map(|at| (at, own)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_all_addresses_means_those_of_ipv4_too() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        assert!(covers(at("[::]:9"), at("0.0.0.0:9")) && covers(at("[::]:9"), at("[::]:9")));
        assert!(covers(at("127.0.0.1:9"), at("127.0.0.1:9")));
        for (named, handed) in
            [("0.0.0.0:9", "[::]:9"), ("[::]:9", "0.0.0.0:8"), ("[::]:9", "127.0.0.1:9"), ("[::1]:9", "0.0.0.0:9")]
        {
            assert!(!covers(at(named), at(handed)), "{named} {handed}");
        }
    }

    #[test]
    fn who_is_left_is_told_once() {
        let (others, told) = (Others::default(), Arc::new(Mutex::new(0)));
        let count = told.clone();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        others.add(&listener, Box::new(move || *count.lock().unwrap() += 1)).unwrap();
        let mut shown = Vec::new();
        let show = |at, _: BorrowedFd<'_>| {
            shown.push(at);
            Ok::<_, ()>(())
        };
        others.each(show).unwrap();
        assert_eq!(shown, [listener.local_addr().unwrap()]);
        others.leave();
        others.leave();
        assert_eq!(*told.lock().unwrap(), 1);
    }
}
