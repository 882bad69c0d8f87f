//! Tells rpcbind (RFC 1833) where programs are served, and that they no longer are.
//!
//! Version 4 of rpcbind is told; one that has only version 2, the port mapper, is told what it can know: IPv4. Calls are made from a lane of their
//! own, to port 111 of loopback, from which alone rpcbind takes such words.

pub use crate::telling::{Registered, RegistrationError};

use crate::errand::carry_out;
use crate::keeping::Keeper;
use crate::telling::{Deed, Telling};
use corelane_wire::rpcbind::PORT;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// What rpcbind knows, until this is dropped. One that was started anew meanwhile has forgotten it, and is told once more within ten seconds.
pub struct Registration {
    /// What it was told, or is to be told.
    entries: Vec<Registered>,
    /// Whether it was told by [`Registration::register`].
    is_told: bool,
    rpcbind: SocketAddr,
    keeper: Option<Keeper>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration").field("entries", &self.entries).field("rpcbind", &self.rpcbind).finish_non_exhaustive()
    }
}

impl Registration {
    /// Tells the rpcbind of this machine of all entries, or of none. Waits for its answers, some seconds at the most. What is at `[::]` is
    /// told for IPv4 too, because such sockets are reached by both.
    ///
    /// # Errors
    /// [`RegistrationError`]; what was registered by then is unregistered again.
    pub fn register(entries: &[Registered]) -> Result<Self, RegistrationError> {
        let rpcbind = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT);
        let mut registration = Self { entries: Vec::new(), is_told: true, rpcbind, keeper: None };
        let told = registration.tell(Deed::Set, entries.iter().flat_map(|&entry| both(entry)).collect())?;
        let failure = told.failure();
        registration.entries = told.done;
        if let Some(failure) = failure {
            return Err(failure);
        }
        registration.keeper = Some(Keeper::begin(&registration.entries, rpcbind, true).map_err(RegistrationError::Lane)?);
        Ok(registration)
    }

    /// Tells the rpcbind of this machine of all entries as soon as one answers, and says so then.
    ///
    /// # Errors
    /// [`RegistrationError::Lane`].
    pub fn later(entries: &[Registered]) -> Result<Self, RegistrationError> {
        let rpcbind = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT);
        let entries: Vec<Registered> = entries.iter().flat_map(|&entry| both(entry)).collect();
        let keeper = Keeper::begin(&entries, rpcbind, false).map_err(RegistrationError::Lane)?;
        Ok(Self { entries, is_told: false, rpcbind, keeper: Some(keeper) })
    }

    /// What rpcbind was told.
    pub fn entries(&self) -> &[Registered] {
        &self.entries
    }

    fn tell(&self, deed: Deed, entries: Vec<Registered>) -> Result<Telling, RegistrationError> {
        carry_out(Telling::new(deed, entries), self.rpcbind).map_err(RegistrationError::Lane)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        let was_told_later = self.keeper.take().is_some_and(Keeper::end);
        if (self.is_told || was_told_later) && !entries.is_empty() {
            // An rpcbind that has ended, or was told by others meanwhile, knows nothing of them any more.
            let _ = self.tell(Deed::Unset, entries);
        }
    }
}

/// An entry, and the one that goes with it.
fn both(entry: Registered) -> impl Iterator<Item = Registered> {
    let is_any = entry.address.is_ipv6() && entry.address.ip().is_unspecified();
    let v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), entry.address.port());
    [entry].into_iter().chain(is_any.then_some(Registered { address: v4, ..entry }))
}
