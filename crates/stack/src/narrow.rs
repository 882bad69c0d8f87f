//! Ways on which packets must be shorter than the interface takes them: what routers have told (RFC 8201, RFC 1191).
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Destinations that are remembered at most.
pub const NARROW_MAX: usize = 256;
/// Nanoseconds for which a router's word is kept (RFC 8201, section 4; RFC 1191, section 6.3).
const KEPT: u64 = 600 * 1_000_000_000;

/// A router's word, for all lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Both ends of what was sent; of an echo's answer without ports.
    pub local: SocketAddr,
    pub peer: SocketAddr,
    /// Bytes of the longest packet that passes.
    pub most: usize,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Narrow {
    /// Bytes of the longest packet, and until when that is believed.
    by: BTreeMap<IpAddr, (usize, u64)>,
}

impl Narrow {
    /// Bytes of the longest packet on the way to an address, if it is known to be narrow.
    pub fn most(&self, now: u64, to: IpAddr) -> Option<usize> {
        if self.by.is_empty() {
            return None;
        }
        self.by.get(&to).filter(|(_, until)| *until > now).map(|(most, _)| *most)
    }

    /// Notes what fits. A word that allows more than an earlier one says nothing: it may be older.
    pub fn learn(&mut self, now: u64, to: IpAddr, most: usize) {
        if self.most(now, to).is_some_and(|known| known < most) {
            return;
        }
        if self.by.len() >= NARROW_MAX && !self.by.contains_key(&to) {
            let oldest = self.by.iter().min_by_key(|(_, (_, until))| *until).map(|(to, _)| *to);
            oldest.map(|oldest| self.by.remove(&oldest));
        }
        self.by.insert(to, (most, now + KEPT));
        assert!(self.by.len() <= NARROW_MAX, "the table is bounded");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(number: u32) -> IpAddr {
        std::net::Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn what_was_told_is_kept_ten_minutes_and_the_least_counts() {
        let mut narrow = Narrow::default();
        assert_eq!(narrow.most(0, to(1)), None);
        narrow.learn(0, to(1), 1400);
        narrow.learn(1, to(1), 1300);
        narrow.learn(2, to(1), 1450);
        assert_eq!((narrow.most(KEPT, to(1)), narrow.most(KEPT + 1, to(1)), narrow.most(3, to(2))), (Some(1300), None, None));
        narrow.learn(KEPT + 1, to(1), 1450);
        assert_eq!(narrow.most(KEPT + 2, to(1)), Some(1450), "a wider way is found when the time is over");
    }

    #[test]
    fn the_oldest_words_go() {
        let mut narrow = Narrow::default();
        (0..3000).for_each(|number| narrow.learn(number.into(), to(number), 1280));
        assert_eq!(narrow.by.len(), NARROW_MAX);
        assert_eq!((narrow.most(3000, to(0)), narrow.most(3000, to(2999))), (None, Some(1280)));
    }
}
