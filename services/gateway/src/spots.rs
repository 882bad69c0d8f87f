//! Where the parts of a gateway stand in its file.

use corelane::lanes::gateway::At;

/// The byte at which each part begins.
#[derive(Debug, Default)]
pub struct Spots {
    pub ports: Vec<PortSpot>,
    pub polling: Vec<usize>,
    pub routes: Vec<usize>,
    pub nat: usize,
    pub outside: Vec<usize>,
    pub externals: Vec<usize>,
    pub forwards: Vec<usize>,
}

/// A port's.
#[derive(Debug, Default)]
pub struct PortSpot {
    pub at: usize,
    /// In the order of the port's interfaces.
    pub interfaces: Vec<InterfaceSpot>,
}

/// An interface's.
#[derive(Debug, Default)]
pub struct InterfaceSpot {
    pub at: usize,
    pub addresses: Vec<usize>,
    pub proxies: Vec<usize>,
}

impl Spots {
    /// Where a part begins; of one that the file does not name, the nearest around it.
    pub fn of(&self, at: At) -> usize {
        let port = |port: usize| self.ports.get(port);
        let interface = |number: usize, place: usize| port(number)?.interfaces.get(place);
        let found = match at {
            At::Port(number) => port(number).map(|spot| spot.at),
            At::Interface(number, place) => interface(number, place).map(|spot| spot.at),
            At::Address(number, place, which) => interface(number, place).and_then(|spot| spot.addresses.get(which)).copied(),
            At::Proxy(number, place, which) => interface(number, place).and_then(|spot| spot.proxies.get(which)).copied(),
            At::Route(which) => self.routes.get(which).copied(),
            At::Polling(which) => self.polling.get(which).copied(),
            At::Nat => Some(self.nat),
            At::Outside(which) => self.outside.get(which).copied(),
            At::External(which) => Some(self.externals.get(which).copied().unwrap_or(self.nat)),
            At::Forward(which) => self.forwards.get(which).copied(),
            _ => None,
        };
        found.unwrap_or(0)
    }
}
