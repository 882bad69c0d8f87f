//! Unix names in the simulated network (unix(7)). Inside, each has an address that no host has, so that connections and datagrams travel as all
//! others do; but they stay on their host, and nothing of theirs is lost on the way.
//!
//! A path outlives its socket: nobody is there then, and whoever connects is refused, until somebody binds it again. That the path is in the way of
//! a real bind is for those who make sockets before lanes (`NamedSocket` of `os`), of whom there are none here.

use super::binding::Owner;
use super::errno::{IN_USE, INVALID, NO_FAMILY, NOT_FOUND, REFUSED};
use super::network::Network;
use super::unix::{Name, is_nameless, is_unix, nameless_address, number, numbered_address, user_of};
use corelane_seam::{Address, Fault, Unix};
use std::net::{IpAddr, SocketAddr};

/// Whose processes lanes are.
const LANES_USER: u32 = 1000;

impl Network {
    /// How an address is known inside: on this host, if it is a Unix name.
    pub(crate) fn inward(&mut self, host: usize, address: &Address) -> Result<SocketAddr, Fault> {
        match address {
            Address::Ip(address) => Ok(*address),
            Address::Unix(unix) if unix.name().is_empty() => Ok(self.nameless(LANES_USER)),
            Address::Unix(unix) => Ok(self.known(host, unix)),
            Address::Link(_) => Err(NO_FAMILY),
        }
    }

    /// The same of an address to be bound to: without a name the system chooses one (autobind, unix(7)).
    pub(crate) fn inward_to_bind(&mut self, host: usize, address: &Address) -> Result<SocketAddr, Fault> {
        let Some([]) = address.unix().map(Unix::name) else { return self.inward(host, address) };
        let hidden = Unix::hidden(format!("{:05x}", self.names.len()).as_bytes());
        Ok(self.known(host, &hidden.map_err(|_| INVALID)?))
    }

    fn known(&mut self, host: usize, unix: &Unix) -> SocketAddr {
        assert!(!unix.name().is_empty(), "only names are known by number");
        let known = self.names.iter().position(|known| known.host == host && known.unix.name() == unix.name());
        let number = known.unwrap_or_else(|| {
            let mut unix = unix.clone();
            unix.user = None;
            self.names.push(Name { host, unix, user: LANES_USER, was_bound: false });
            self.names.len() - 1
        });
        numbered_address(number)
    }

    /// A socket without a name, of a process of `user`.
    fn nameless(&mut self, user: u32) -> SocketAddr {
        nameless_address(user, self.name())
    }

    /// How the socket of a peer of the test is known, on the first host; it is of that user.
    pub(crate) fn of_peer(&mut self, unix: &Unix) -> SocketAddr {
        let user = unix.user.unwrap_or(LANES_USER);
        if unix.name().is_empty() {
            return self.nameless(user);
        }
        let address = self.known(0, unix);
        if let (Some(number), Some(user)) = (number(address.ip()), unix.user) {
            self.names[number].user = user;
        }
        address
    }

    /// What a socket is told of its own address.
    pub(crate) fn own(&self, address: SocketAddr) -> Address {
        match number(address.ip()) {
            Some(number) => self.names[number].unix.clone().into(),
            None if is_unix(address.ip()) => Unix::UNNAMED.into(),
            None => address.into(),
        }
    }

    /// What a socket is told of its peer: over Unix sockets with its user.
    pub(crate) fn peer(&self, address: SocketAddr) -> Address {
        match number(address.ip()).map(|number| &self.names[number]) {
            Some(name) => name.unix.clone().of_user(name.user).into(),
            None if is_unix(address.ip()) => Unix::UNNAMED.of_user(user_of(address.ip())).into(),
            None => address.into(),
        }
    }

    /// The host of a name, if it is one.
    pub(super) fn host_of_name(&self, ip: IpAddr) -> Option<usize> {
        number(ip).map(|number| self.names[number].host)
    }

    /// Somebody has bound an address; a path lies in the file system from then on. Lanes are all of one user.
    pub(crate) fn note_bound(&mut self, address: SocketAddr, owner: Owner) {
        let Some(number) = number(address.ip()) else { return };
        let name = &mut self.names[number];
        name.was_bound = true;
        if matches!(owner, Owner::Lane(..)) {
            name.user = LANES_USER;
        }
    }

    /// Checks that a path is not held by a socket of the other kind, streams or datagrams: a file is one socket's. Of abstract names each kind has its own.
    pub(super) fn check_file(&self, address: SocketAddr, is_stream: bool) -> Result<(), Fault> {
        let is_path = number(address.ip()).is_some_and(|number| self.names[number].unix.as_path().is_some());
        let is_held = match is_stream {
            true => self.ports.values().any(|port| port.place.address == address),
            false => self.listeners.values().any(|listener| listener.place.address == address),
        };
        if is_path && is_held { Err(IN_USE) } else { Ok(()) }
    }

    /// Our end of a connection over Unix sockets: one without a name, if none is asked for.
    pub(super) fn take_unix_end(&mut self, from: Option<SocketAddr>, to: SocketAddr) -> Result<SocketAddr, Fault> {
        match from {
            _ if !is_unix(to.ip()) || is_nameless(to.ip()) => Err(INVALID),
            None => Ok(self.nameless(LANES_USER)),
            Some(from) if is_nameless(from.ip()) => Ok(from),
            Some(from) if !is_unix(from.ip()) => Err(INVALID),
            Some(from) if self.tuples.insert((from, to)) => {
                self.note_bound(from, Owner::Waiting);
                Ok(from)
            }
            Some(_) => Err(IN_USE),
        }
    }

    /// Why nobody is to be reached at a Unix name.
    pub(crate) fn nobody_at(&self, address: SocketAddr) -> Fault {
        let name = number(address.ip()).map(|number| &self.names[number]);
        if name.is_some_and(|name| name.unix.as_path().is_some() && !name.was_bound) { NOT_FOUND } else { REFUSED }
    }
}
