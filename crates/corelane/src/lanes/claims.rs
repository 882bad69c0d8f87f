//! Where services are to listen, found free before any lane does.

use crate::error::Error;
use crate::lanes::builder::{Lanes, Served};
use crate::lanes::handed;
use crate::lanes::others::covers;
use crate::lanes::place::Place;
use crate::lanes::take_over::Taken;
use crate::lanes::url::Url;
use corelane_os::claim::{Claim, claim};
use corelane_os::named::NamedSocket;
use corelane_os::owners;
use corelane_rss::Transport;
use corelane_seam::{Address, Fault, Reason, Unix};
use corelane_select::holders::holders;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The sockets that claiming has opened.
#[derive(Default)]
struct Opened {
    named: Vec<NamedSocket>,
    /// Ports that the system has chosen: held until all are, or two services could have one.
    chosen: Vec<Claim>,
}

/// Every address of every service, found free before any lane listens; and what was handed over is used.
pub(crate) fn claim_places(lanes: &Lanes, taken: &mut Option<Taken>) -> Result<(Vec<Place>, Vec<NamedSocket>), Error> {
    let (mut places, mut opened) = (Vec::new(), Opened::default());
    for (served, service) in lanes.services.iter().enumerate() {
        let Some(url) = &service.url else { continue };
        for address in url.resolve()? {
            refuse_twice(&places, &service.name, url.transport(), &address)?;
            places.push(claim_place(lanes, (served, url), address, (&mut opened, taken))?);
        }
    }
    claim_other_halves(lanes, &mut places, &mut opened, taken)?;
    handed::check_used(lanes, &places)?;
    Ok((places, opened.named))
}

/// A service manager may keep IPv4 and IPv6 apart: a service at `[::]` is served at the socket for `0.0.0.0`, too, unless another service is.
fn claim_other_halves(
    lanes: &Lanes,
    places: &mut Vec<Place>,
    opened: &mut Opened,
    taken: &mut Option<Taken>,
) -> Result<(), Error> {
    for index in 0..places.len() {
        let Place { served, ref url, transport, ref address, named: Some(_), .. } = places[index] else { continue };
        let half = address.inet().filter(|at| covers(*at, (Ipv4Addr::UNSPECIFIED, at.port()).into()));
        let Some(half) = half.map(|at| Address::from(SocketAddr::from((Ipv4Addr::UNSPECIFIED, at.port())))) else { continue };
        let is_handed = lanes.handed.iter().any(|socket| socket.transport == transport && socket.address == half)
            || taken.as_ref().is_some_and(|taken| taken.has_shared(transport, &half));
        let is_served = places.iter().any(|place| place.transport == transport && place.address == half);
        if is_handed && !is_served {
            let place = claim_place(lanes, (served, &url.clone()), half, (opened, taken))?;
            places.push(place);
        }
    }
    Ok(())
}

/// One address of a service: its socket is there already, or is made now, or can be made by each lane.
fn claim_place(
    lanes: &Lanes,
    (served, url): (usize, &Url),
    address: Address,
    (opened, taken): (&mut Opened, &mut Option<Taken>),
) -> Result<Place, Error> {
    let (service, transport) = (&lanes.services[served], url.transport());
    let at = |url: Url, address: Address, (named, outlives): (Option<i32>, bool)| Place {
        service: service.name.clone(),
        url,
        address,
        transport,
        served,
        named,
        outlives,
    };
    if let Some(socket) = lanes.handed.iter().find(|socket| socket.transport == transport && socket.address == address) {
        return Ok(at(url.at(&address), address, (Some(socket.number()), true)));
    }
    if let Some((socket, outlives)) = taken.as_mut().and_then(|taken| taken.shared(transport, &address)) {
        // A service manager's has the backlog of its unit.
        if transport == Transport::Tcp && !outlives {
            let failed = |fault| Error::Listen { url: url.to_string(), fault, holder: None };
            socket.set_backlog(service.limits.backlog).map_err(failed)?;
        }
        let number = socket.number();
        opened.named.push(socket);
        return Ok(at(url.at(&address), address, (Some(number), outlives)));
    }
    if taken.as_ref().is_some_and(|taken| taken.has(transport, &address)) {
        return Ok(at(url.at(&address), address, (None, false)));
    }
    if let Address::Unix(name) = &address {
        let socket = take_name(lanes, service, url, name)?;
        let number = socket.number();
        opened.named.push(socket);
        return Ok(at(url.clone(), address, (Some(number), false)));
    }
    if let Some(device) = address.ip().and_then(|ip| lanes.wires.device_of(ip)) {
        refuse_on_frames(device, url, transport, &address)?;
        return Ok(at(url.at(&address), address, (None, false)));
    }
    let claimed = claim(transport, &address, lanes.v6_only, lanes.join);
    let claim = claimed.map_err(|fault| refused_at(&lanes.holders, &url.at(&address), &address, fault))?;
    let is_chosen = address.port() == 0;
    let address = claim.address.clone();
    opened.chosen.extend(is_chosen.then_some(claim));
    Ok(at(url.at(&address), address, (None, false)))
}

/// That the system does not let us listen there, and who has the port: as it was found before, or now.
pub(crate) fn refused_at(known: &[(Address, String)], url: &Url, address: &Address, fault: Fault) -> Error {
    let before = || known.iter().find(|(at, _)| at == address).map(|(_, holder)| holder.clone());
    let taken = address.inet().filter(|_| fault.reason == Reason::AddressInUse);
    let holder = taken.and_then(|address| before().or_else(|| holder(url.transport(), address)));
    Error::Listen { url: url.to_string(), fault, holder }
}

impl Lanes {
    /// Looks which processes have the ports that are to be served, so that the start can name them if it is refused there. For a program that confines itself before it
    /// starts, and may not look at others any more then. A program that shares ports, or takes them over, has nothing to look for.
    pub fn with_holders(mut self) -> Self {
        if !self.join && self.take_over.is_none() && self.handed.is_empty() {
            self.holders = holders_of(&self);
        }
        self
    }
}

/// Each address that is to be served and has a holder, with that.
fn holders_of(lanes: &Lanes) -> Vec<(Address, String)> {
    let urls = lanes.services.iter().filter_map(|service| service.url.as_ref());
    let places = urls.flat_map(|url| url.resolve().unwrap_or_default().into_iter().map(|address| (url.transport(), address)));
    places.filter_map(|(transport, address)| Some((address.clone(), holder(transport, address.inet()?)?))).collect()
}

/// Whether the URL's first address can be listened on now; false for a Unix socket's.
pub fn can_listen(url: &str) -> bool {
    let address = |url: &Url| url.resolve().ok()?.into_iter().find(|address| address.ip().is_some());
    let url: Option<Url> = url.parse().ok();
    url.as_ref()
        .and_then(|url| Some((url.transport(), address(url)?)))
        .is_some_and(|(transport, address)| claim(transport, &address, false, false).is_ok())
}

/// Which process serves at an address, or at all addresses of its port, as far as this user may know: such as `process 7 (nginx)`.
pub fn holder(transport: Transport, address: SocketAddr) -> Option<String> {
    let port = address.port();
    let places = [address.ip(), IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)];
    let found = places.into_iter().filter(|_| port != 0).filter_map(|ip| holders(transport, SocketAddr::new(ip, port)).ok());
    found.flatten().find_map(|holder| owners::of_socket(holder.inode)).map(|owner| owner.to_string())
}

/// Refuses places that cannot be served over an interface's frames.
fn refuse_on_frames(device: &str, url: &Url, transport: Transport, address: &Address) -> Result<(), Error> {
    let refused = |why: String| Err(Error::Setting { name: "packet", why });
    if transport == Transport::Tcp {
        return refused(format!(
            "{url}: over the frames of {device} there is UDP so far: serve connections at an address of the kernel's"
        ));
    }
    if address.port() == 0 {
        return refused(format!("{url}: each lane would choose another port: name one"));
    }
    Ok(())
}

/// Makes the socket of a Unix name, before the lanes, which share it.
fn take_name(lanes: &Lanes, service: &Served, url: &Url, name: &Unix) -> Result<NamedSocket, Error> {
    if lanes.join {
        let why = "a Unix name has one socket, which no two processes share: leave out --join, or serve at a port".to_owned();
        return Err(Error::Name { url: url.to_string(), why });
    }
    let made = NamedSocket::new(url.transport(), name, url.mode(), service.limits.backlog);
    made.map_err(|error| Error::Name { url: url.to_string(), why: error.to_string() })
}

/// One address serves one service: the kernel would share it among two by chance.
fn refuse_twice(places: &[Place], service: &str, transport: Transport, address: &Address) -> Result<(), Error> {
    let same = |place: &&Place| is_same((place.transport, &place.address), (transport, address));
    places.iter().find(same).map_or(Ok(()), |place| Err(both_at(&place.service, service, &place.url)))
}

/// The same before any address is taken or looked up, as far as it is written: of ports that the system chooses, nothing is known.
pub(crate) fn refuse_written_twice(services: &[Served]) -> Result<(), Error> {
    let mut known: Vec<(&Served, &Url, Address)> = Vec::new();
    for service in services {
        let Some(url) = &service.url else { continue };
        let Some(address) = url.written().filter(|address| address.unix().is_some() || address.port() != 0) else { continue };
        let same = |(_, other, at): &&(&Served, &Url, Address)| is_same((other.transport(), at), (url.transport(), &address));
        if let Some((first, ..)) = known.iter().find(same) {
            return Err(both_at(&first.name, &service.name, url));
        }
        known.push((service, url, address));
    }
    Ok(())
}

/// Whether two sockets cannot be told apart. A Unix name has one, for connections or for datagrams.
fn is_same(one: (Transport, &Address), other: (Transport, &Address)) -> bool {
    one.1 == other.1 && (one.0 == other.0 || one.1.unix().is_some())
}

fn both_at(first: &str, second: &str, url: &Url) -> Error {
    let why = format!("{first} and {second} are both to be served at {url}: name different ports");
    Error::Setting { name: "services", why }
}
