//! The program's own listeners, beside its services', as a running program has and gives them.

use crate::lanes::others::covers;
use crate::lanes::run::Running;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

impl Running {
    /// The listeners for `at` that were handed over, by a service manager or by the process that is taken over, and are no service's. Each is given once. They
    /// do not block. [`Lanes::listens_also`](crate::Lanes::listens_also) has named the address before.
    pub fn listeners(&mut self, at: SocketAddr) -> Vec<TcpListener> {
        let is_for = |(handed, _): &mut (SocketAddr, OwnedFd)| covers(at, *handed);
        self.listeners.extract_if(.., is_for).map(|(_, socket)| socket.into()).collect()
    }

    /// Has this listener go to the process that takes over; it is no service's. `left` is called then: accept nobody from it any more, and close it. At most 64.
    ///
    /// # Errors
    /// What the system says; too many.
    pub fn hand_over_listener(&self, listener: &TcpListener, left: impl Fn() + Send + 'static) -> io::Result<()> {
        self.others.add(listener, Box::new(left))
    }
}
