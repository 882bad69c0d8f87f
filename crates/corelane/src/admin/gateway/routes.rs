//! The routes of a gateway, as all lanes have them: read, listed, and changed whole or not at all.

use super::words::{RouteRow, RoutesChanged};
use corelane_stack::{ROUTES_MAX, Route, RouteChange, WAYS_MAX};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A route; those of one network stand together, and networks within another behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    destination: IpAddr,
    bits: u8,
    router: IpAddr,
    interface: Option<usize>,
}

/// One change, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Add(Route),
    /// By that router, or by all.
    Delete {
        destination: IpAddr,
        bits: u8,
        router: Option<IpAddr>,
    },
}

/// A change that was made: what lanes are to be told, and how it is undone.
#[derive(Debug)]
pub(super) struct Done {
    pub orders: Vec<RouteChange>,
    pub counted: RoutesChanged,
    /// Each with whether it was put in.
    log: Vec<(Entry, bool)>,
}

impl Done {
    /// Nothing so far.
    pub(super) fn new() -> Self {
        let counted = RoutesChanged { added: 0, known: 0, deleted: 0, routes: 0, is_in_force: false };
        Self { orders: Vec::new(), counted, log: Vec::new() }
    }
}

/// All routes, without the networks of the gateway's own addresses.
#[derive(Debug, Default)]
pub(super) struct Routes {
    entries: BTreeSet<Entry>,
    version: u64,
}

/// The network of an address, if its family has so many bits.
fn network(address: IpAddr, bits: u8) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => {
            let behind = 32_u32.checked_sub(bits.into())?;
            Some(IpAddr::V4((address.to_bits() & u32::MAX.checked_shl(behind).unwrap_or(0)).into()))
        }
        IpAddr::V6(address) => {
            let behind = 128_u32.checked_sub(bits.into())?;
            Some(IpAddr::V6((address.to_bits() & u128::MAX.checked_shl(behind).unwrap_or(0)).into()))
        }
    }
}

/// Reads a network such as `10.0.0.0/8`, an address alone, or `default`, which is IPv4's.
pub(super) fn prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let wrong = || format!("{:?} is no network: write one such as 10.0.0.0/8, 2001:db8::/32 or default", beginning(text));
    if text == "default" {
        return Ok((IpAddr::from([0; 4]), 0));
    }
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
    match network(address, bits) {
        Some(network) if network == address => Ok((address, bits)),
        Some(network) => Err(format!("{text} has bits set behind its prefix: write {network}/{bits}")),
        None => Err(format!("{text}: the family of this address has {most} bits")),
    }
}

/// The part of a text that a message repeats because it is wrong.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(48)]
}

impl Change {
    /// Reads `add PREFIX via ROUTER [interface NAME]` or `delete PREFIX [via ROUTER]`.
    pub(super) fn read(text: &str, interfaces: &[String]) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let router = |text: &str| {
            text.parse().map_err(|_| format!("{:?} is no router: write its address, behind the word via", beginning(text)))
        };
        match words[..] {
            ["add", network, "via", by] => Self::add(network, router(by)?, None),
            ["add", network, "via", by, "interface", name] => {
                let found = interfaces.iter().position(|known| known == name);
                let none =
                    || format!("the gateway has no interface {:?}: `corelane gateway interfaces` shows them", beginning(name));
                Self::add(network, router(by)?, Some(found.ok_or_else(none)?))
            }
            ["delete", network] => prefix(network).map(|(destination, bits)| Self::Delete { destination, bits, router: None }),
            ["delete", network, "via", by] => {
                let ((destination, bits), router) = (prefix(network)?, Some(router(by)?));
                Ok(Self::Delete { destination, bits, router })
            }
            _ => Err(format!(
                "{:?} is no route: write PREFIX via ROUTER, and interface NAME where the router's address does not tell it",
                beginning(text.split_once(' ').map_or(text, |(_, rest)| rest))
            )),
        }
    }

    fn add(network: &str, router: IpAddr, interface: Option<usize>) -> Result<Self, String> {
        let (destination, bits) = prefix(network)?;
        // The default alone does not say of which family it is.
        let destination = match router {
            IpAddr::V6(_) if network == "default" => IpAddr::from([0; 16]),
            _ => destination,
        };
        Ok(Self::Add(Route { destination, bits, router, interface }))
    }
}

impl Routes {
    /// These, as far as they are of different networks, routers or interfaces.
    pub(super) fn of(routes: Vec<Route>) -> Self {
        Self { entries: routes.iter().filter_map(Entry::of).collect(), version: 1 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Differs after each change.
    pub(super) const fn version(&self) -> u64 {
        self.version
    }

    /// Those to networks within that one, in order.
    pub(super) fn within(&self, within: Option<(IpAddr, u8)>, interfaces: &[String]) -> impl Iterator<Item = RouteRow> {
        let first = within.map(|(destination, bits)| Entry::first(destination, bits));
        let from = first.map_or_else(|| self.entries.range(..), |first| self.entries.range(first..));
        let is_in =
            move |entry: &&Entry| within.is_none_or(|(destination, bits)| network(entry.destination, bits) == Some(destination));
        from.take_while(is_in).map(|entry| entry.row(interfaces))
    }

    /// The routes to exactly that network.
    pub(super) fn ways_to(&self, destination: IpAddr, bits: u8) -> impl Iterator<Item = Route> {
        let first = network(destination, bits).unwrap_or(destination);
        self.of_network(first, bits).map(Entry::route)
    }

    /// Carries out changes, each with its line, all of them or none.
    pub(super) fn change(&mut self, changes: &[(usize, Change)]) -> Result<Done, String> {
        let mut done = Done::new();
        for (line, change) in changes {
            if let Err(why) = self.change_one(change, &mut done) {
                self.undo(done);
                return Err(at_line(*line, why));
            }
        }
        self.note(&done);
        done.counted.routes = self.len();
        Ok(done)
    }

    pub(super) fn change_one(&mut self, change: &Change, done: &mut Done) -> Result<(), String> {
        match *change {
            Change::Add(route) => {
                let Some(entry) = Entry::of(&route) else { return Err("its family has fewer bits".to_owned()) };
                if self.entries.contains(&entry) {
                    done.counted.known += 1;
                    return Ok(());
                }
                let ways = self.of_network(entry.destination, entry.bits).count();
                if ways >= WAYS_MAX {
                    return Err(format!("{} has {WAYS_MAX} routes already: delete one first", entry.prefix()));
                }
                if self.len() >= ROUTES_MAX {
                    return Err(format!("there are {ROUTES_MAX} routes already: delete some first"));
                }
                self.put(entry, done);
                done.counted.added += 1;
                done.orders.push(RouteChange::Add(route));
            }
            Change::Delete { destination, bits, router } => {
                let gone: Vec<Entry> = self
                    .of_network(destination, bits)
                    .filter(|one| router.is_none_or(|router| router == one.router))
                    .copied()
                    .collect();
                if gone.is_empty() {
                    let via = router.map_or(String::new(), |router| format!(" via {router}"));
                    return Err(format!("there is no route {destination}/{bits}{via}: `corelane gateway route show` has all"));
                }
                let routers: BTreeSet<IpAddr> = gone.iter().map(|entry| entry.router).collect();
                done.counted.deleted += gone.len();
                gone.into_iter().for_each(|entry| self.take(entry, done));
                done.orders.extend(routers.into_iter().map(|router| RouteChange::Delete { destination, bits, router }));
            }
        }
        Ok(())
    }

    /// These changes were made.
    pub(super) fn note(&mut self, done: &Done) {
        self.version += u64::from(!done.log.is_empty());
    }

    /// As before these changes, which were the last.
    pub(super) fn undo(&mut self, done: Done) {
        for (entry, was_put) in done.log.into_iter().rev() {
            let is_done = if was_put { self.entries.remove(&entry) } else { self.entries.insert(entry) };
            assert!(is_done, "what is undone was done last");
        }
    }

    /// The steps from these routes to others. A network that is in both has a way all the time, unless a router's interface changes or there is no room for both; `beside` are
    /// ways that lanes have as well.
    pub(super) fn changes_to(&self, others: &Self, beside: &Self) -> Vec<RouteChange> {
        let (mut first, mut adds, mut last) = (Vec::new(), Vec::new(), Vec::new());
        let mut networks: BTreeSet<(IpAddr, u8)> = BTreeSet::new();
        networks.extend(self.entries.symmetric_difference(&others.entries).map(|entry| (entry.destination, entry.bits)));
        for (destination, bits) in networks {
            let (ours, theirs): (BTreeSet<_>, BTreeSet<_>) =
                (self.of_network(destination, bits).collect(), others.of_network(destination, bits).collect());
            let followed = beside.of_network(destination, bits).count();
            let has_room = ours.union(&theirs).count() + followed <= WAYS_MAX;
            let gone: BTreeSet<IpAddr> = ours.difference(&theirs).map(|entry| entry.router).collect();
            // A deletion takes all ways by its router.
            let goes_first = |router: &IpAddr| !has_room || theirs.iter().any(|entry| entry.router == *router);
            let (early, late): (Vec<_>, Vec<_>) = gone.into_iter().partition(goes_first);
            let is_new = |entry: &&&Entry| !ours.contains(**entry) || early.contains(&entry.router);
            adds.extend(theirs.iter().filter(is_new).map(|entry| RouteChange::Add(entry.route())));
            let delete = |router| RouteChange::Delete { destination, bits, router };
            first.extend(early.into_iter().map(delete));
            last.extend(late.into_iter().map(delete));
        }
        first.into_iter().chain(adds).chain(last).collect()
    }

    /// Others take the place of these.
    pub(super) fn succeed(&mut self, others: Self) {
        (self.entries, self.version) = (others.entries, self.version + 1);
    }

    fn of_network(&self, destination: IpAddr, bits: u8) -> impl Iterator<Item = &Entry> {
        let from = self.entries.range(Entry::first(destination, bits)..);
        from.take_while(move |entry| (entry.destination, entry.bits) == (destination, bits))
    }

    fn put(&mut self, entry: Entry, done: &mut Done) {
        let is_new = self.entries.insert(entry);
        assert!(is_new, "a route is put in once");
        done.log.push((entry, true));
    }

    fn take(&mut self, entry: Entry, done: &mut Done) {
        let was_there = self.entries.remove(&entry);
        assert!(was_there, "a route is taken out that was found");
        done.log.push((entry, false));
    }
}

/// The fault, with the line of the file if there is one.
pub(super) fn at_line(line: usize, why: String) -> String {
    if line == 0 { why } else { format!("line {line}: {why}") }
}

impl Entry {
    fn of(route: &Route) -> Option<Self> {
        let Route { destination, bits, router, interface } = *route;
        Some(Self { destination: network(destination, bits)?, bits, router, interface })
    }

    /// A key that sorts before all routes of a network.
    const fn first(destination: IpAddr, bits: u8) -> Self {
        let least = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        Self { destination, bits, router: least, interface: None }
    }

    const fn route(&self) -> Route {
        let Self { destination, bits, router, interface } = *self;
        Route { destination, bits, router, interface }
    }

    fn prefix(&self) -> String {
        format!("{}/{}", self.destination, self.bits)
    }

    fn row(&self, interfaces: &[String]) -> RouteRow {
        let interface = self.interface.and_then(|number| interfaces.get(number)).cloned();
        RouteRow { prefix: self.prefix(), router: self.router, interface, is_followed: false }
    }
}
