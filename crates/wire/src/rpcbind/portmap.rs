//! Version 2: the port mapper (RFC 1833 section 3).

use super::{DUMP, ENTRIES_MAX, GET, SET, UNSET};
use crate::Error;
use crate::rpc::{Call, NULL, Refusal};
use crate::xdr::{Encode, List, Writer, xdr_struct};

/// `prot` for TCP (RFC 1833 section 3.1).
pub const PROTOCOL_TCP: u32 = 6;
/// `prot` for UDP (RFC 1833 section 3.1).
pub const PROTOCOL_UDP: u32 = 17;

/// What a dump returns (RFC 1833 section 3.1, `pmaplist`).
pub type Mappings<'a> = List<'a, Mapping, ENTRIES_MAX>;

xdr_struct! {
    /// A program at a port (RFC 1833 section 3.1, `mapping`).
    Mapping {
        /// Program.
        program: u32,
        /// Its version.
        version: u32,
        /// [`PROTOCOL_TCP`], [`PROTOCOL_UDP`], or another protocol's number.
        protocol: u32,
        /// Port. More than 16 bits is no port, but can be said, and is what a set refuses with false.
        port: u32,
    }
}

/// A call of version 2. Fields of `mapping` that a procedure ignores are written as zeros and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRequest {
    /// Does nothing. Result: void.
    Null,
    /// Registers. Result: `bool`, whether that was done.
    Set(Mapping),
    /// Unregisters, whatever the protocol and port. Result: `bool`, whether that was done.
    Unset {
        /// Program.
        program: u32,
        /// Its version.
        version: u32,
    },
    /// Asks for a port. Result: `u32`, 0 where nothing is registered.
    GetPort {
        /// Program.
        program: u32,
        /// Its version.
        version: u32,
        /// Protocol.
        protocol: u32,
    },
    /// Asks for all. Result: [`Mappings`].
    Dump,
}

impl PortRequest {
    /// Reads a call of this program and version.
    ///
    /// # Errors
    /// `PROC_UNAVAIL` or `GARBAGE_ARGS` is owed.
    pub fn parse(call: &Call<'_>) -> Result<Self, Refusal> {
        let mapping = || call.arguments::<Mapping>();
        match call.procedure {
            NULL => Ok(Self::Null),
            SET => mapping().map(Self::Set),
            UNSET => mapping().map(|Mapping { program, version, .. }| Self::Unset { program, version }),
            GET => mapping().map(|Mapping { program, version, protocol, .. }| Self::GetPort { program, version, protocol }),
            DUMP => Ok(Self::Dump),
            _ => Err(call.procedure_unavailable()),
        }
    }

    /// Number of the procedure.
    pub const fn procedure(&self) -> u32 {
        match self {
            Self::Null => NULL,
            Self::Set(_) => SET,
            Self::Unset { .. } => UNSET,
            Self::GetPort { .. } => GET,
            Self::Dump => DUMP,
        }
    }
}

/// The arguments.
impl Encode for PortRequest {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        match *self {
            Self::Null | Self::Dump => Ok(()),
            Self::Set(mapping) => mapping.encode(to),
            Self::Unset { program, version } => Mapping { program, version, protocol: 0, port: 0 }.encode(to),
            Self::GetPort { program, version, protocol } => Mapping { program, version, protocol, port: 0 }.encode(to),
        }
    }
}
