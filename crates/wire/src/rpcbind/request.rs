//! Versions 3 and 4: rpcbind (RFC 1833 section 2).

use super::{DUMP, ENTRIES_MAX, GET, SET, UNSET};
use crate::Error;
use crate::rpc::{Call, NULL, Refusal};
use crate::xdr::{Encode, List, Text, Writer, xdr_struct};

/// Name of a kind of transport: `tcp`, `udp6`, `local` (RFC 1833 section 2.1, `r_netid`). The RFC bounds none of these texts.
pub type NetId<'a> = Text<'a, 32>;
/// Where a service is: an address and port as text, or the path of a local socket, 108 bytes at most (unix(7)).
pub type UniversalAddress<'a> = Text<'a, 128>;
/// Who registered a service.
pub type Owner<'a> = Text<'a, 255>;

/// What a dump returns (RFC 1833 section 2.1, `rpcblist`).
pub type Services<'a> = List<'a, Service<'a>, ENTRIES_MAX>;

xdr_struct! {
    /// A program at an address (RFC 1833 section 2.1, `rpcb`).
    Service<'a> {
        /// Program.
        program: u32,
        /// Its version.
        version: u32,
        /// Kind of transport.
        netid: NetId<'a>,
        /// Where it is.
        address: UniversalAddress<'a>,
        /// Who registered it.
        owner: Owner<'a>,
    }
}

/// A call of version 3 or 4, which do not differ in these procedures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceRequest<'a> {
    /// Does nothing. Result: void.
    Null,
    /// Registers. Result: `bool`, whether that was done.
    Set(Service<'a>),
    /// Unregisters; an empty netid means all transports, the address is ignored. Result: `bool`, whether that was done.
    Unset(Service<'a>),
    /// Asks for an address; which of netid, address and owner are looked at differs by version (RFC 1833 sections 2.2.1 and
    /// 2.2.2). Result: [`UniversalAddress`], empty where nothing is registered.
    GetAddress(Service<'a>),
    /// Asks for all. Result: [`Services`].
    Dump,
}

impl<'a> ServiceRequest<'a> {
    /// Reads a call of this program and versions.
    ///
    /// # Errors
    /// `PROC_UNAVAIL` or `GARBAGE_ARGS` is owed.
    pub fn parse(call: &Call<'a>) -> Result<Self, Refusal> {
        match call.procedure {
            NULL => Ok(Self::Null),
            SET => call.arguments().map(Self::Set),
            UNSET => call.arguments().map(Self::Unset),
            GET => call.arguments().map(Self::GetAddress),
            DUMP => Ok(Self::Dump),
            _ => Err(call.procedure_unavailable()),
        }
    }

    /// Number of the procedure.
    pub const fn procedure(&self) -> u32 {
        match self {
            Self::Null => NULL,
            Self::Set(_) => SET,
            Self::Unset(_) => UNSET,
            Self::GetAddress(_) => GET,
            Self::Dump => DUMP,
        }
    }
}

/// The arguments.
impl Encode for ServiceRequest<'_> {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        match self {
            Self::Null | Self::Dump => Ok(()),
            Self::Set(service) | Self::Unset(service) | Self::GetAddress(service) => service.encode(to),
        }
    }
}
