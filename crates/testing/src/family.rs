//! Which addresses a run is played at: those of the network, or Unix names.

use corelane_seam::{Address, Unix};
use corelane_sim::{Random, World};
use std::net::SocketAddr;

/// The port of the service under test.
pub(crate) const PORT: u16 = 7;

/// The port of clients over datagrams.
const ASKER_PORT: u16 = 4000;

/// Where the service under test listens.
pub fn address() -> SocketAddr {
    at(PORT)
}

/// The host of the lanes, at another port.
pub fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

/// A client's host.
pub fn client(number: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + (number % 200) as u8], 0))
}

/// Kinds of address that one and the same run may be played at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4, over a network that may lose, double and break.
    #[default]
    Inet,
    /// Unix sockets at paths.
    Path,
    /// Unix sockets at abstract names.
    Hidden,
}

impl Family {
    /// The family of a seed: every fourth or so is played at Unix names, by halves of each kind.
    pub fn of(seed: u64) -> Self {
        match Random::new(seed ^ 0x756e_6978).below(8) {
            0 => Self::Path,
            1 => Self::Hidden,
            _ => Self::Inet,
        }
    }

    /// Whether it is one of Unix names.
    pub fn is_unix(self) -> bool {
        self != Self::Inet
    }

    /// Where the lanes' service of this port is.
    pub fn at(self, port: u16) -> Address {
        self.name(&format!("/run/{port}")).map_or_else(|| at(port).into(), Address::from)
    }

    /// Whether an address is that of this port's service, whoever's process it is.
    pub fn is_at(self, address: &Address, port: u16) -> bool {
        let place = self.at(port);
        match (place.unix(), address.unix()) {
            (Some(place), Some(unix)) => place.name() == unix.name(),
            _ => place == *address,
        }
    }

    /// [`Family::at`] for the test's own peers: to connect to, to send to, or to listen there.
    pub fn way(self, world: &World, port: u16) -> SocketAddr {
        self.at(port).unix().map_or_else(|| at(port), |unix| world.named(unix))
    }

    /// Client `number` of the test's own, to connect from: over Unix sockets one without a name, of a user of its own.
    pub fn client(self, world: &World, number: usize) -> SocketAddr {
        match self {
            Self::Inet => client(number),
            Self::Path | Self::Hidden => world.named(&Unix::UNNAMED.of_user(2_000 + number as u32)),
        }
    }

    /// Client `number` of the test's own over datagrams: it has a name, to be answered at.
    pub fn asker(self, world: &World, number: usize) -> SocketAddr {
        let name = self.name(&format!("/run/client-{number}"));
        let inet = || SocketAddr::new(client(number).ip(), ASKER_PORT);
        name.map_or_else(inet, |unix| world.named(&unix.of_user(2_000 + number as u32)))
    }

    /// A socket's own address that says nothing but the family: the system chooses.
    pub fn any(self) -> Address {
        match self {
            Self::Inet => Address::from(SocketAddr::from(([0; 4], 0))),
            Self::Path | Self::Hidden => Unix::UNNAMED.into(),
        }
    }

    fn name(self, name: &str) -> Option<Unix> {
        match self {
            Self::Inet => None,
            Self::Path => Some(Unix::path(name.as_bytes())),
            Self::Hidden => Some(Unix::hidden(name.as_bytes())),
        }
        .map(|unix| unix.unwrap_or_else(|error| panic!("{name}: {error}")))
    }
}
