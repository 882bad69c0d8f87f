//! Where a program is, as rpcbind says it.

use crate::client::CallError;
use crate::errand::{Script, carry_out};
use crate::telling::{RegistrationError, head, protocol};
use corelane::lanes::Transport;
use corelane_wire::rpc::CallHead;
use corelane_wire::rpcbind::{Owner, PORT, PortRequest, Service, ServiceRequest, UniversalAddress, address};
use corelane_wire::xdr::{Decode, Encode, Reader, Writer};
use std::net::{IpAddr, SocketAddr};

/// The version of rpcbind that is asked first, and the one that speaks of ports alone (RFC 1833 sections 2 and 3).
const FIRST: u32 = 4;
const PORT_MAPPER: u32 = 2;

/// The procedure of all versions (RFC 1833 sections 2.1 and 3.1): RPCBPROC_GETADDR, PMAPPROC_GETPORT.
const GET: u32 = 3;

/// What an answer to a look-up says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// Make [`Lookup::call`] again: the next older version of rpcbind is to be asked.
    AskAgain,
    /// Here it is.
    At(SocketAddr),
    /// It is not registered.
    Nowhere,
    /// It cannot be known.
    Failed(CallError),
}

/// A look-up as a value: what to ask rpcbind, and what its answer means. Version 4 is asked, then 3, then the port mapper, which knows IPv4 only.
///
/// Make the call with a client to rpcbind at port [`PORT`], hand its results back, and call again as long as it says so.
#[derive(Clone, Copy, Debug)]
pub struct Lookup {
    program: u32,
    version: u32,
    transport: Transport,
    rpcbind: SocketAddr,
    asks: u32,
}

impl Lookup {
    /// Where `version` of `program` is, on the machine of `rpcbind`.
    pub fn new(program: u32, version: u32, transport: Transport, rpcbind: SocketAddr) -> Self {
        Self { program, version, transport, rpcbind, asks: FIRST }
    }

    /// What to call, and with which arguments.
    pub fn call(&self) -> (CallHead<'static>, impl Encode + use<>) {
        self.question()
    }

    fn question(&self) -> (CallHead<'static>, Question) {
        (head(self.asks, GET), Question(*self))
    }

    /// Takes the results of that call.
    pub fn answer(&mut self, results: Result<&[u8], CallError>) -> Whereabouts {
        let bytes = match results {
            Ok(bytes) => bytes,
            Err(CallError::ProgramMismatch { .. } | CallError::ProcedureUnavailable) if self.may_ask_again() => {
                self.asks -= 1;
                return Whereabouts::AskAgain;
            }
            Err(error) => return Whereabouts::Failed(error),
        };
        self.read(bytes).unwrap_or_else(|error| Whereabouts::Failed(CallError::Unreadable(error)))
    }

    fn may_ask_again(&self) -> bool {
        self.asks > PORT_MAPPER + u32::from(self.rpcbind.is_ipv6())
    }

    fn read(&self, results: &[u8]) -> Result<Whereabouts, corelane_wire::Error> {
        let mut reader = Reader::new(results);
        if self.asks == PORT_MAPPER {
            let port = u16::try_from(reader.u32()?).map_err(|_| corelane_wire::Error::Malformed { what: "port" })?;
            let found = Whereabouts::At(SocketAddr::new(self.rpcbind.ip(), port));
            return Ok(if port == 0 { Whereabouts::Nowhere } else { found });
        }
        let text = UniversalAddress::decode(&mut reader)?;
        if text.as_str().is_empty() {
            return Ok(Whereabouts::Nowhere);
        }
        let mut at = address::parse(text)?;
        if at.ip().is_unspecified() {
            at.set_ip(self.rpcbind.ip());
        }
        Ok(Whereabouts::At(at))
    }
}

/// The arguments of a look-up.
struct Question(Lookup);

impl Encode for Question {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), corelane_wire::Error> {
        let Lookup { program, version, transport, rpcbind, asks } = self.0;
        if asks == PORT_MAPPER {
            return PortRequest::GetPort { program, version, protocol: protocol(transport) }.encode(to);
        }
        let mut memory = [0; address::BYTES_MAX];
        let netid = address::netid(rpcbind, transport == Transport::Tcp);
        let address = address::write(rpcbind, &mut memory)?;
        ServiceRequest::GetAddress(Service { program, version, netid, address, owner: Owner::default() }).encode(to)
    }
}

/// A look-up as an errand.
#[derive(Clone)]
struct Asking {
    lookup: Lookup,
    found: Whereabouts,
}

impl Script for Asking {
    type Arguments = Question;

    fn next(&self) -> Option<(CallHead<'static>, Question)> {
        (self.found == Whereabouts::AskAgain).then(|| self.lookup.question())
    }

    fn answer(&mut self, results: Result<&[u8], CallError>) {
        self.found = self.lookup.answer(results);
    }
}

/// Asks the rpcbind of `host` where a program is, and waits for the answer, some seconds at the most. From a lane, which must not wait,
/// use [`Lookup`].
///
/// # Errors
/// [`RegistrationError::Lane`], [`RegistrationError::Call`].
pub fn lookup(program: u32, version: u32, transport: Transport, host: IpAddr) -> Result<Option<SocketAddr>, RegistrationError> {
    let rpcbind = SocketAddr::new(host, PORT);
    let asking = Asking { lookup: Lookup::new(program, version, transport, rpcbind), found: Whereabouts::AskAgain };
    match carry_out(asking, rpcbind).map_err(RegistrationError::Lane)?.found {
        Whereabouts::At(at) => Ok(Some(at)),
        Whereabouts::Nowhere | Whereabouts::AskAgain => Ok(None),
        Whereabouts::Failed(error) => Err(RegistrationError::Call { rpcbind, error }),
    }
}
