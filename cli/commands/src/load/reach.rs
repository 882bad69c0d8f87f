//! Which address of a name is loaded: the first that answers, in the system's order (getaddrinfo(3)). A load goes to one of them, and the report says to which.

use crate::exit::Late;
use anyhow::Result;
use corelane::Address;
use corelane::lanes::Transport;
use corelane_load::place::Destination;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// How long a host that is reached by datagrams has for saying that nobody is there; silence is no refusal.
const SILENCE: Duration = Duration::from_millis(100);

/// How long programs of other styles try an address.
pub const CONNECT: Duration = Duration::from_secs(5);

/// The same place at the first of its addresses that takes a connection, within `patience` each; or, for datagrams, that does not refuse one. Only addresses of the
/// sources' family are tried. A place with one address is taken as it is.
///
/// # Errors
/// None answers: what each said.
pub fn reached(mut place: Destination, sources: &[IpAddr], patience: Duration) -> Result<Destination> {
    let fits = |address: &SocketAddr| sources.first().is_none_or(|source| source.is_ipv4() == address.is_ipv4());
    let addresses: Vec<SocketAddr> = place.addresses.iter().filter_map(Address::inet).filter(fits).collect();
    if addresses.len() < 2 {
        place.address = addresses.first().map_or(place.address, |address| (*address).into());
        return Ok(place);
    }
    let mut refusals = Vec::new();
    for address in addresses {
        match reach(place.transport, address, patience) {
            Ok(()) => {
                place.url = format!("{} ({})", place.url, address.ip());
                place.address = address.into();
                return Ok(place);
            }
            Err(error) => refusals.push(format!("{}: {error}", address.ip())),
        }
    }
    Err(Late::of(&format!("{}: none of its addresses answers", place.url), refusals.join("; ")).into())
}

fn reach(transport: Transport, address: SocketAddr, patience: Duration) -> io::Result<()> {
    if transport == Transport::Tcp {
        return TcpStream::connect_timeout(&address, patience).map(drop);
    }
    let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(address)?;
    socket.set_read_timeout(Some(SILENCE))?;
    socket.send(&[])?;
    match socket.recv(&mut [0]) {
        Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Err(error),
        _ => Ok(()),
    }
}
