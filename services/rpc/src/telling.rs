//! What rpcbind is told, call by call: as version 4 takes it, or the port mapper.

use crate::client::CallError;
use crate::errand::Script;
use corelane::lanes::Transport;
use corelane_wire::rpc::{Auth, CallHead};
use corelane_wire::rpcbind::{
    Mapping, Owner, PORT, PROGRAM, PROTOCOL_TCP, PROTOCOL_UDP, PortRequest, Service, ServiceRequest, address,
};
use corelane_wire::xdr::{Decode, Encode, Reader, Writer};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

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
    pub done: Vec<Registered>,
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
