//! Who has asked for an address of ours and was not sent anything since. Half of the table is for those who asked first: none that comes later pushes them out, and when one of
//! them is sent something, or goes, the first of the others takes his place. Of these the oldest goes first, and of one station always its own. So forged senders flush no more
//! than half. Nothing is looked through for one that comes.

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
    /// Those who asked first, half of all at the most; and those who came behind them, none while there is room among the first.
    first: Order,
    later: Order,
    of_station: BTreeMap<[u8; 6], Order>,
    most: usize,
    each: usize,
    /// The number that was given last.
    last: u64,
}

impl Met {
    /// For so many at most.
    pub fn new(most: usize) -> Self {
        let (by, first, later, of_station) = Default::default();
        Self { by, first, later, of_station, most, each: (most / STATION_PART).max(1), last: 0 }
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
        let place = match self.by.get(&ip).copied() {
            Some((before, place)) => {
                self.leave_station(before, place, ip);
                place
            }
            None => {
                self.last += 1;
                let order = if self.first.len() < self.most / 2 { &mut self.first } else { &mut self.later };
                order.insert((self.last, ip));
                self.last
            }
        };
        self.by.insert(ip, (mac, place));
        let station = self.of_station.entry(mac.0).or_default();
        station.insert((place, ip));
        let pushed_out = match station.len() > self.each {
            true => station.first().copied(),
            false => self.later.first().copied().filter(|_| self.by.len() > self.most),
        };
        if let Some((_, ip)) = pushed_out {
            self.remove(ip);
        }
        let count = self.first.len() + self.later.len();
        assert!(self.by.len() == count && count <= self.most, "who has asked is remembered in order");
    }

    /// Takes one out: his station, and his place.
    pub fn remove(&mut self, ip: IpAddr) -> Option<(Mac, u64)> {
        let (mac, place) = self.by.remove(&ip)?;
        let was_first = self.first.remove(&(place, ip));
        assert!(was_first || self.later.remove(&(place, ip)), "who has asked has a place");
        if was_first {
            self.first.extend(self.later.pop_first());
        }
        self.leave_station(mac, place, ip);
        Some((mac, place))
    }

    /// One is no longer among those of that station.
    fn leave_station(&mut self, mac: Mac, place: u64, ip: IpAddr) {
        // reason: each is among those of his.
        let station = self.of_station.get_mut(&mac.0).expect("who has asked is among those of his station");
        assert!(station.remove(&(place, ip)), "who has asked has a place at his station");
        if station.is_empty() {
            self.of_station.remove(&mac.0);
        }
    }
}
