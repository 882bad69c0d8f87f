//! The external ports of a lane: which are given out, and to which end of an inside host.

use crate::session::Class;
use crate::settings::{Mapping, Settings};
use corelane_rss::{FlowHasher, FlowId, Outgoing, Protocol, Tuple, Way};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

/// Ports that are looked at for one session, at most.
const TRIES: u32 = 1024;
/// Ports of one inside end that are looked at for another of its flows, at most.
const SHARED_TRIES: usize = 8;

/// An inside end, and an external port that stands for it.
type Binding = (Class, u32, u16, u8, u16);

/// A port is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub class: Class,
    pub inside: u32,
    pub inside_port: u16,
    pub remote: Ipv4Addr,
    pub remote_port: u16,
    /// By chance: where the search begins.
    pub chance: u64,
}

/// A port was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub external: u8,
    pub port: u16,
    /// Whether answers come to the lane by their hash.
    pub is_home: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    externals: Vec<Ipv4Addr>,
    /// The same in order, each with its number.
    numbers: Vec<(Ipv4Addr, u8)>,
    /// The first port of all lanes, the lane's own first, and how many each lane has: an even number.
    all_first: u16,
    first: u16,
    each: u16,
    lanes: usize,
    mapping: Mapping,
    /// A bit for each external address, class and own port.
    taken: Vec<u64>,
    /// How many sessions each has.
    bindings: BTreeMap<Binding, u32>,
}

impl Pool {
    pub fn new(settings: &Settings) -> Self {
        let (lane, lanes) = settings.lane;
        let each = settings.ports.clone().count() / lanes / 2 * 2;
        let mut numbers: Vec<(Ipv4Addr, u8)> = settings.externals.iter().copied().zip(0..=u8::MAX).collect();
        numbers.sort_unstable();
        let words = settings.externals.len() * Class::COUNT * each.div_ceil(64);
        Self {
            externals: settings.externals.clone(),
            numbers,
            all_first: *settings.ports.start(),
            first: settings.ports.start() + (lane * each) as u16,
            // reason: there are 65,535 ports from 1 on, and each is an even number.
            each: each as u16,
            lanes,
            mapping: settings.mapping,
            taken: vec![0; words],
            bindings: BTreeMap::new(),
        }
    }

    pub fn external(&self, number: u8) -> Ipv4Addr {
        self.externals[usize::from(number)]
    }

    /// The number of an external address.
    pub fn number_of(&self, address: Ipv4Addr) -> Option<u8> {
        self.numbers.binary_search_by_key(&address, |(external, _)| *external).ok().map(|at| self.numbers[at].1)
    }

    /// The lane whose port that is.
    pub fn owner(&self, port: u16) -> Option<usize> {
        let lane = usize::from(port.checked_sub(self.all_first)? / self.each);
        (lane < self.lanes).then_some(lane)
    }

    /// Whether an external end with a port of this lane's is given to an inside host.
    pub fn is_given(&self, class: Class, (address, port): (Ipv4Addr, u16)) -> bool {
        let is_own = port.checked_sub(self.first).is_some_and(|at| at < self.each);
        self.number_of(address).is_some_and(|external| is_own && self.is_taken(class, external, port))
    }

    fn is_taken(&self, class: Class, external: u8, port: u16) -> bool {
        let (word, bit) = self.place(class, external, port);
        self.taken[word] & bit != 0
    }

    /// Finds a port, and notes that a session has it. `is_home` says of a flow whether it comes to this lane, `is_free` of a port whether nothing else has it.
    pub fn take(
        &mut self,
        wish: &Wish,
        hasher: &FlowHasher,
        is_home: impl Fn(FlowId) -> bool,
        is_free: impl Fn(Ipv4Addr, u16) -> bool,
    ) -> Option<Grant> {
        let grant = self.shared(wish, hasher, &is_home, &is_free).or_else(|| self.fresh(wish, hasher, &is_home, &is_free))?;
        let (word, bit) = self.place(wish.class, grant.external, grant.port);
        self.taken[word] |= bit;
        *self.bindings.entry((wish.class, wish.inside, wish.inside_port, grant.external, grant.port)).or_default() += 1;
        Some(grant)
    }

    /// A session gives its port back.
    pub fn give(&mut self, class: Class, inside: (u32, u16), external: u8, port: u16) {
        let binding = (class, inside.0, inside.1, external, port);
        let sessions = self.bindings.get_mut(&binding);
        assert!(sessions.is_some(), "a session's port is its inside end's");
        let is_last = sessions.is_none_or(|sessions| {
            *sessions -= 1;
            *sessions == 0
        });
        if is_last {
            self.bindings.remove(&binding);
            let (word, bit) = self.place(class, external, port);
            self.taken[word] &= !bit;
        }
    }

    /// How many ports are given out.
    pub fn taken(&self) -> usize {
        self.bindings.len()
    }

    fn place(&self, class: Class, external: u8, port: u16) -> (usize, u64) {
        let (row, at) = (usize::from(external) * Class::COUNT + class as usize, usize::from(port - self.first));
        (row * usize::from(self.each).div_ceil(64) + at / 64, 1 << (at % 64))
    }

    /// A port that stands for the inside end already and brings these answers home as well.
    fn shared(
        &self,
        wish: &Wish,
        hasher: &FlowHasher,
        is_home: impl Fn(FlowId) -> bool,
        is_free: impl Fn(Ipv4Addr, u16) -> bool,
    ) -> Option<Grant> {
        if self.mapping == Mapping::Dependent {
            return None;
        }
        let of_end =
            (wish.class, wish.inside, wish.inside_port, 0, 0)..=(wish.class, wish.inside, wish.inside_port, u8::MAX, u16::MAX);
        let mut ports = self.bindings.range(of_end).take(SHARED_TRIES).map(|(binding, _)| (binding.3, binding.4));
        ports.find_map(|(external, port)| {
            let answer = answer(wish, self.external(external), port)?;
            let hashed = hasher.tuple(&answer).filter(|hashed| hashed.hash_type.takes_ports());
            let brings_home = hashed.is_none_or(|hashed| is_home(hashed.flow));
            (brings_home && is_free(self.external(external), port)).then_some(Grant { external, port, is_home: hashed.is_some() })
        })
    }

    /// A port that is free: at the address that the inside host keeps to, else at the next one.
    fn fresh(
        &self,
        wish: &Wish,
        hasher: &FlowHasher,
        is_home: impl Fn(FlowId) -> bool,
        is_free: impl Fn(Ipv4Addr, u16) -> bool,
    ) -> Option<Grant> {
        let count = self.externals.len();
        let preferred = (wish.inside.wrapping_mul(0x9e37_79b9) >> 16) as usize % count;
        let mut externals = (0..count).map(|step| ((preferred + step) % count) as u8);
        externals.find_map(|external| {
            let address = self.external(external);
            let is_free = |port: u16| !self.is_taken(wish.class, external, port) && is_free(address, port);
            self.at_home(wish, external, hasher, &is_home, is_free).or_else(|| self.anywhere(wish, external, is_free))
        })
    }

    /// A free port with which answers come home, with the parity of the inside port where there is one (RFC 4787, section 4.2.2).
    fn at_home(
        &self,
        wish: &Wish,
        external: u8,
        hasher: &FlowHasher,
        is_home: impl Fn(FlowId) -> bool,
        is_free: impl Fn(u16) -> bool,
    ) -> Option<Grant> {
        let hashed = hasher.tuple(&answer(wish, self.external(external), 0)?)?;
        if !hashed.hash_type.takes_ports() {
            return None;
        }
        let (local, peer) = (self.external(external).into(), SocketAddr::new(wish.remote.into(), wish.remote_port));
        let flow = Outgoing { local, peer, protocol: Protocol(wish.class.protocol()), way: Way::Home };
        let find = |is_alike: &dyn Fn(u16) -> bool| {
            let mut ranges = self.ranges(wish).into_iter().flatten();
            ranges.find_map(|(first, last)| {
                let mut ports = flow.ports(hasher, first..=last, &is_home).ok()?;
                ports.find(|(port, _)| is_alike(*port) && is_free(*port)).map(|(port, _)| port)
            })
        };
        let port = find(&|port| port % 2 == wish.inside_port % 2).or_else(|| find(&|_| true))?;
        Some(Grant { external, port, is_home: true })
    }

    /// Any free port: answers are handed over to this lane, whose port that is.
    fn anywhere(&self, wish: &Wish, external: u8, is_free: impl Fn(u16) -> bool) -> Option<Grant> {
        let mut ranges = self.ranges(wish).into_iter().flatten();
        let port = ranges.find_map(|(first, last)| (first..=last).find(|port| is_free(*port)))?;
        Some(Grant { external, port, is_home: false })
    }

    /// Own ports, [`TRIES`] at most: the inside port itself, if it is one, then from a place by chance on, and from the first.
    fn ranges(&self, wish: &Wish) -> [Option<(u16, u16)>; 3] {
        let (each, tries) = (u32::from(self.each), TRIES.min(self.each.into()));
        let start = (((wish.chance >> 32) * u64::from(each)) >> 32) as u32;
        let same =
            wish.inside_port.checked_sub(self.first).filter(|at| *at < self.each).map(|_| (wish.inside_port, wish.inside_port));
        let until = (start + tries).min(each);
        let rest = tries - (until - start);
        let port = |at: u32| self.first + at as u16;
        [same, Some((port(start), port(until - 1))), (rest > 0).then(|| (port(0), port(rest - 1)))]
    }
}

/// An answer as it comes from outside.
fn answer(wish: &Wish, external: Ipv4Addr, port: u16) -> Option<Tuple> {
    let remote = SocketAddr::new(wish.remote.into(), wish.remote_port);
    Tuple::new(remote, SocketAddr::new(external.into(), port), Protocol(wish.class.protocol())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rss::{HashTypes, Key};
    use std::cell::Cell;

    /// Where nearly all ports are taken, the search for one ends: in three passes of so many ports and the inside port itself.
    #[test]
    fn a_search_for_a_port_is_bounded() {
        let settings = Settings::new(Ipv4Addr::new(192, 0, 2, 1));
        let (mut pool, hasher) = (Pool::new(&settings), FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL));
        for chance in [0, u64::MAX / 2, u64::MAX] {
            let (inside, remote) = (0x0a00_0005, Ipv4Addr::new(198, 51, 100, 1));
            let wish = Wish { class: Class::Udp, inside, inside_port: 4000, remote, remote_port: 53, chance };
            let tried = Cell::new(0);
            let is_free = |_, port| {
                assert!(settings.ports.contains(&port));
                tried.set(tried.get() + 1);
                false
            };
            assert_eq!(pool.take(&wish, &hasher, |_| true, is_free), None);
            assert!((1_024..=3 * 1_025).contains(&tried.get()), "{} from {chance}", tried.get());
        }
        assert_eq!(pool.taken(), 0);
    }
}
