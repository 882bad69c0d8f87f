//! Ways on which packets must be shorter than the interface takes them: what routers have told (RFC 8201, RFC 1191).
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

/// Destinations that are remembered at most.
pub const NARROW_MAX: usize = 256;
/// Those that one router has told of, at most: one that tells of more takes the place of its own oldest words.
const NARROW_EACH: usize = NARROW_MAX / 2;
/// Peers to whom long answers to echoes went last, of whom a router's word is believed.
const ECHOED_MAX: usize = 64;
/// Nanoseconds for which a router's word is kept (RFC 8201, section 4; RFC 1191, section 6.3).
const KEPT: u64 = 600 * 1_000_000_000;

/// A router's word, for all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WayNews {
    pub router: IpAddr,
    /// Both ends of what was sent; of an echo's answer without ports.
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub is_echo: bool,
    /// Bytes of the longest packet that passes.
    pub most: usize,
}

/// What is known of a way.
#[derive(Clone, Copy, Debug)]
struct PathMtu {
    /// Bytes of the longest packet, until when that is believed, and by whose word.
    most: usize,
    until: u64,
    router: IpAddr,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Narrow {
    by: BTreeMap<IpAddr, PathMtu>,
    echoed: VecDeque<IpAddr>,
}

impl Narrow {
    /// Bytes of the longest packet on the way to an address, if it is known to be narrow.
    pub fn most(&self, now: u64, to: IpAddr) -> Option<usize> {
        if self.by.is_empty() {
            return None;
        }
        self.by.get(&to).filter(|way| way.until > now).map(|way| way.most)
    }

    /// Notes what fits. A word that allows more than an earlier one says nothing: it may be older.
    pub fn learn(&mut self, now: u64, to: IpAddr, most: usize, router: IpAddr) {
        if self.most(now, to).is_some_and(|known| known < most) {
            return;
        }
        if !self.by.contains_key(&to) {
            self.make_room(router);
        }
        self.by.insert(to, PathMtu { most, until: now + KEPT, router });
        assert!(self.by.len() <= NARROW_MAX, "the table is bounded");
    }

    /// The oldest word goes: of that router, if it has told of so many.
    fn make_room(&mut self, router: IpAddr) {
        let is_his = |way: &PathMtu| way.router == router;
        let is_greedy = self.by.values().filter(|way| is_his(way)).count() >= NARROW_EACH;
        if is_greedy || self.by.len() >= NARROW_MAX {
            let ways = self.by.iter().filter(|(_, way)| !is_greedy || is_his(way));
            let oldest = ways.min_by_key(|(_, way)| way.until).map(|(to, _)| *to);
            oldest.map(|oldest| self.by.remove(&oldest));
        }
    }

    /// Notes that a long answer to an echo goes to that peer.
    pub fn note_echo(&mut self, to: IpAddr) {
        if self.has_echoed(to) {
            return;
        }
        if self.echoed.len() >= ECHOED_MAX {
            self.echoed.pop_front();
        }
        self.echoed.push_back(to);
    }

    /// Whether one went there of late.
    pub fn has_echoed(&self, to: IpAddr) -> bool {
        self.echoed.contains(&to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    const ROUTER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    #[test]
    fn what_was_told_is_kept_ten_minutes_and_the_least_counts() {
        let mut narrow = Narrow::default();
        assert_eq!(narrow.most(0, to(1)), None);
        narrow.learn(0, to(1), 1400, ROUTER);
        narrow.learn(1, to(1), 1300, ROUTER);
        narrow.learn(2, to(1), 1450, ROUTER);
        assert_eq!((narrow.most(KEPT, to(1)), narrow.most(KEPT + 1, to(1)), narrow.most(3, to(2))), (Some(1300), None, None));
        narrow.learn(KEPT + 1, to(1), 1450, ROUTER);
        assert_eq!(narrow.most(KEPT + 2, to(1)), Some(1450), "a wider way is found when the time is over");
    }

    /// A flood of words from one pushes out those of nobody else.
    #[test]
    fn one_router_narrows_half_of_what_may_be_at_the_most() {
        let mut narrow = Narrow::default();
        (0..100).for_each(|number| narrow.learn(0, to(number), 1280, to(9000 + number)));
        (1000..4000).for_each(|number| narrow.learn(number.into(), to(number), 1280, ROUTER));
        assert_eq!(narrow.by.len(), 100 + NARROW_EACH);
        assert!((0..100).all(|number| narrow.most(4000, to(number)) == Some(1280)), "of others none has gone");
        assert_eq!((narrow.most(4000, to(1000)), narrow.most(4000, to(3999))), (None, Some(1280)));
    }

    #[test]
    fn those_who_were_sent_long_echoes_are_remembered_for_a_while() {
        let mut narrow = Narrow::default();
        (0..200).for_each(|number| (0..3).for_each(|_| narrow.note_echo(to(number))));
        let remembered = (0..200).filter(|number| narrow.has_echoed(to(*number))).collect::<Vec<_>>();
        assert_eq!(remembered, (200 - ECHOED_MAX as u32..200).collect::<Vec<_>>());
    }

    #[test]
    fn the_oldest_words_go() {
        let mut narrow = Narrow::default();
        (0..3000).for_each(|number| narrow.learn(number.into(), to(number), 1280, to(9000 + number)));
        assert_eq!(narrow.by.len(), NARROW_MAX);
        assert_eq!((narrow.most(3000, to(0)), narrow.most(3000, to(2999))), (None, Some(1280)));
    }
}
