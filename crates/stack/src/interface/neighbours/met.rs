//! Who has asked for an address of ours and was not sent anything since: the oldest go first, of one station its own. Nothing is looked through for one that comes.

use corelane_wire::packet::ethernet::Mac;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The part of the table that one station may fill.
const STATION_PART: usize = 8;

/// Askers in the order of their asking.
type Order = BTreeSet<(u64, IpAddr)>;

/// The table.
#[derive(Debug)]
pub(super) struct Met {
    by: BTreeMap<IpAddr, (Mac, u64)>,
    order: Order,
    of_station: BTreeMap<[u8; 6], Order>,
    most: usize,
    each: usize,
    /// The number that was given last.
    last: u64,
}

impl Met {
    /// For so many at most.
    pub fn new(most: usize) -> Self {
        let (by, order, of_station) = Default::default();
        Self { by, order, of_station, most, each: (most / STATION_PART).max(1), last: 0 }
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.by.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.by.is_empty()
    }

    /// The station of an asker.
    #[cfg(test)]
    pub fn get(&self, ip: IpAddr) -> Option<Mac> {
        self.by.get(&ip).map(|(mac, _)| *mac)
    }

    /// One more has asked; he keeps his place if he has before.
    pub fn add(&mut self, ip: IpAddr, mac: Mac) {
        let place = match self.remove(ip) {
            Some((_, place)) => place,
            None => {
                self.last += 1;
                self.last
            }
        };
        self.by.insert(ip, (mac, place));
        self.order.insert((place, ip));
        let station = self.of_station.entry(mac.0).or_default();
        station.insert((place, ip));
        let pushed_out = match station.len() > self.each {
            true => station.first().copied(),
            false => self.order.first().copied().filter(|_| self.by.len() > self.most),
        };
        if let Some((_, ip)) = pushed_out {
            self.remove(ip);
        }
        assert!(self.by.len() == self.order.len() && self.by.len() <= self.most, "who has asked is remembered in order");
    }

    /// Takes one out: his station, and his place.
    pub fn remove(&mut self, ip: IpAddr) -> Option<(Mac, u64)> {
        let (mac, place) = self.by.remove(&ip)?;
        let was_there = self.order.remove(&(place, ip));
        // reason: each is at both.
        let station = self.of_station.get_mut(&mac.0).expect("who has asked is among those of his station");
        assert!(was_there && station.remove(&(place, ip)), "who has asked has a place in each order");
        if station.is_empty() {
            self.of_station.remove(&mac.0);
        }
        Some((mac, place))
    }
}
