//! Tells rpcbind (RFC 1833) where programs are served, and that they no longer are.
//!
//! Version 4 of rpcbind is told; one that has only version 2, the port mapper, is told what it can know: IPv4. Calls are made from a lane of their
//! own, to port 111 of loopback, from which alone rpcbind takes such words.

use crate::client::CallError;
use crate::errand::{Script, carry_out};
use crate::keeping::Keeper;
use corelane::lanes::Transport;
use corelane_wire::rpc::{Auth, CallHead};
use corelane_wire::rpcbind::{
    Mapping, Owner, PORT, PROGRAM, PROTOCOL_TCP, PROTOCOL_UDP, PortRequest, Service, ServiceRequest, address,
};
use corelane_wire::xdr::{Decode, Encode, Reader, Writer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Versions of rpcbind that are told.
const RPCBIND: u32 = 4;
pub(crate) const PORT_MAPPER: u32 = 2;

/// A version of a program that is served somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Number of the program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// How it is asked.
    pub transport: Transport,
    /// Where, with its port.
    pub address: SocketAddr,
}

/// Why rpcbind does not know what it was to be told, or did not say what it was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The lane for the calls could not be had: the system is at fault.
    Lane(corelane::Error),
    /// A call has failed. Where nobody listens, rpcbind does not run: start it.
    Call {
        /// Who was asked.
        rpcbind: SocketAddr,
        /// What became of the call.
        error: CallError,
    },
    /// Rpcbind refuses, because the program and version are registered at another place already: end that service, or remove what an ended
    /// one has left (`rpcinfo -d`).
    Refused(Registered),
}

impl fmt::Display for RegistrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lane(error) => write!(f, "no lane could be had for the call of rpcbind: {error}"),
            Self::Call { rpcbind, error: CallError::Refused } => write!(f, "rpcbind does not run at {rpcbind}; start it"),
            Self::Call { rpcbind, error } => write!(f, "the call of rpcbind at {rpcbind} has failed: {error}"),
            Self::Refused(Registered { program, version, .. }) => write!(
                f,
                "rpcbind refuses program {program} version {version}: it is registered elsewhere; end that service, or remove what it \
                 has left with rpcinfo -d {program} {version}"
            ),
        }
    }
}

impl std::error::Error for RegistrationError {}

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

/// What is done, with its procedure in all versions (RFC 1833 sections 2.1 and 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Set = 1,
    Unset = 2,
}

/// What is told to rpcbind, entry by entry.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    deed: Deed,
    left: Vec<Registered>,
    done: Vec<Registered>,
    /// The version of rpcbind that is told.
    version: u32,
    /// Why it was not told of all.
    failed: Option<Failure>,
}

#[derive(Clone, Copy, Debug)]
enum Failure {
    Call(CallError),
    Refused(Registered),
}

impl Failure {
    fn error(self, rpcbind: SocketAddr) -> RegistrationError {
        match self {
            Self::Call(error) => RegistrationError::Call { rpcbind, error },
            Self::Refused(entry) => RegistrationError::Refused(entry),
        }
    }
}

impl Telling {
    pub fn new(deed: Deed, entries: Vec<Registered>) -> Self {
        Self { deed, left: entries, done: Vec::new(), version: RPCBIND, failed: None }
    }

    /// Whether there is no more to be told.
    pub fn is_over(&self) -> bool {
        self.failed.is_some() || self.left.is_empty()
    }

    /// Of how many it was told.
    pub fn count(&self) -> usize {
        self.done.len()
    }

    /// Why it was not told of all, if it was not.
    pub fn failure(&self) -> Option<RegistrationError> {
        self.failed.map(|failure| failure.error(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT)))
    }
}

impl Script for Telling {
    type Arguments = Words;

    fn next(&self) -> Option<(CallHead<'static>, Words)> {
        let entry = self.left.last().filter(|_| self.failed.is_none())?;
        let words = Words { deed: self.deed, entry: *entry, version: self.version };
        Some((head(self.version, self.deed as u32), words))
    }

    fn answer(&mut self, results: Result<&[u8], CallError>) {
        let is_done = match results.map(|bytes| bool::decode(&mut Reader::new(bytes))) {
            Ok(Ok(is_done)) => is_done,
            Ok(Err(error)) => return self.failed = Some(Failure::Call(CallError::Unreadable(error))),
            Err(CallError::ProgramMismatch { .. } | CallError::ProcedureUnavailable) if self.version == RPCBIND => {
                // A port mapper knows nothing of IPv6.
                self.left.retain(|entry| entry.address.is_ipv4());
                return self.version = PORT_MAPPER;
            }
            Err(error) => return self.failed = Some(Failure::Call(error)),
        };
        // reason: a call is of the last one that is left, and only its outcome takes that away.
        let entry = self.left.pop().expect("who is answered has called for one that is left");
        match is_done || self.deed == Deed::Unset {
            true => self.done.push(entry),
            false => self.failed = Some(Failure::Refused(entry)),
        }
    }
}

/// The arguments of one call.
pub(crate) struct Words {
    deed: Deed,
    entry: Registered,
    version: u32,
}

impl Encode for Words {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), corelane_wire::Error> {
        let Registered { program, version, transport, address } = self.entry;
        if self.version == PORT_MAPPER {
            let mapping = Mapping { program, version, protocol: protocol(transport), port: address.port().into() };
            return match self.deed {
                Deed::Set => PortRequest::Set(mapping).encode(to),
                Deed::Unset => PortRequest::Unset { program, version }.encode(to),
            };
        }
        let mut memory = [0; address::BYTES_MAX];
        let netid = address::netid(address, transport == Transport::Tcp);
        let address = address::write(address, &mut memory)?;
        let service = Service { program, version, netid, address, owner: Owner::default() };
        match self.deed {
            Deed::Set => ServiceRequest::Set(service).encode(to),
            Deed::Unset => ServiceRequest::Unset(service).encode(to),
        }
    }
}

/// The head of a call of rpcbind.
pub(crate) fn head(version: u32, procedure: u32) -> CallHead<'static> {
    CallHead { xid: 0, program: PROGRAM, version, procedure, credential: Auth::NONE, verifier: Auth::NONE }
}

/// The number of a transport in version 2.
pub(crate) fn protocol(transport: Transport) -> u32 {
    if transport == Transport::Tcp { PROTOCOL_TCP } else { PROTOCOL_UDP }
}
