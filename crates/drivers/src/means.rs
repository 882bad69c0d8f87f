//! How a large send leaves: the choice between copying it and not, as plain values that know no socket.
//!
//! A network of peers has a *way*. What notices say of sends on it decides, for the connection that it was said of and for its network:
//!
//! ```text
//! shut --its time has come: one send asks--> shut, asked --notice: read--> open
//!                                               \--notice: copied, or none--> shut, for RETRY again
//! open --COPIED_IN_A_ROW notices: copied--> shut
//! ```
//!
//! A send that is to ask, and finds its socket full, has not asked.

use corelane_seam::{Address, mix, nanoseconds};
use std::net::IpAddr;
use std::time::Duration;

/// How long the kernel is not asked again after it has copied anyway, or has not said yet.
pub(crate) const RETRY: Duration = Duration::from_mins(10);

/// Notices of copies, with none of another kind between, that shut an open way. Each shuts its own connection at once.
const COPIED_IN_A_ROW: u8 = 8;

/// Networks whose ways are known at once.
const PLACES: usize = 256;

/// How a send leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// The kernel reads it from where it lies, and gives notice when it has.
    Uncopied,
    /// The kernel copies it, for a reason.
    Copied(Why),
}

/// Why a large send is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its socket has no other sends.
    Refused,
    /// The lane is short of memory, which an uncopied send would keep; or much of it is withheld.
    Short,
    /// The kernel was seen to copy here all the same, or was asked and has not said yet.
    Seen,
}

/// What is asked of a choice, beside what ways know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances {
    pub(crate) is_refused: bool,
    pub(crate) is_short: bool,
    /// Whatever was seen before, it goes uncopied.
    pub(crate) always: bool,
}

/// What is known of a network of peers.
#[derive(Clone, Copy, Default)]
struct Way {
    is_open: bool,
    /// Notices of copies since one of another kind.
    copied: u8,
    /// When one send may ask again, if it is shut.
    asks_at: u64,
}

/// What a connection knows beside its way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Own {
    place: u8,
    /// It was copied anyway: until then it does not ask.
    shut_until: u64,
}

impl Own {
    /// Of a connection with this peer.
    pub(crate) fn of(peer: &Address) -> Self {
        Self { place: peer.inet().map_or(0, |peer| place_of(peer.ip())), shut_until: 0 }
    }
}

/// The ways of a lane. They take memory with the first large send.
#[derive(Default)]
pub(crate) struct Ways(Vec<Way>);

impl Ways {
    /// How a large send leaves. `now` is looked at only where time matters.
    pub(crate) fn choose(&mut self, own: &Own, asked: Circumstances, now: impl FnOnce() -> u64) -> Means {
        if asked.is_refused {
            return Means::Copied(Why::Refused);
        }
        if asked.always {
            return Means::Uncopied;
        }
        if asked.is_short {
            return Means::Copied(Why::Short);
        }
        let way = self.way(own.place);
        if way.is_open && own.shut_until == 0 {
            return Means::Uncopied;
        }
        let now = now();
        if own.shut_until > now || (!way.is_open && way.asks_at > now) {
            return Means::Copied(Why::Seen);
        }
        if !way.is_open {
            // Others wait for what is said of this one.
            way.asks_at = now.saturating_add(nanoseconds(RETRY));
        }
        Means::Uncopied
    }

    /// An uncopied send of this connection has found its socket full, so no notice of it will come: the next one asks, if this one was to ask.
    pub(crate) fn take_back(&mut self, own: &Own) {
        self.way(own.place).asks_at = 0;
    }

    /// A notice has come of an uncopied send of this connection.
    pub(crate) fn note(&mut self, own: &mut Own, was_copied: bool, now: impl FnOnce() -> u64) {
        let way = self.way(own.place);
        if !was_copied {
            (way.is_open, way.copied, own.shut_until) = (true, 0, 0);
            return;
        }
        let again = now().saturating_add(nanoseconds(RETRY));
        own.shut_until = again;
        way.copied = way.copied.saturating_add(1);
        if !way.is_open || way.copied >= COPIED_IN_A_ROW {
            (way.is_open, way.copied, way.asks_at) = (false, 0, again);
        }
    }

    fn way(&mut self, place: u8) -> &mut Way {
        if self.0.is_empty() {
            self.0.resize(PLACES, Way::default());
        }
        &mut self.0[usize::from(place)]
    }
}

/// Where the way of a peer's network is kept: IPv4 peers by /24, IPv6 ones by /64.
fn place_of(peer: IpAddr) -> u8 {
    let network = match peer.to_canonical() {
        IpAddr::V4(address) => u64::from(u32::from(address) >> 8),
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
    };
    mix(network) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::Random;

    const FREE: Circumstances = Circumstances { is_refused: false, is_short: false, always: false };
    const SEEN: Means = Means::Copied(Why::Seen);
    const LATER: u64 = RETRY.as_nanos() as u64;

    fn own(peer: &str) -> Own {
        Own::of(&peer.parse::<Address>().unwrap())
    }

    fn never() -> u64 {
        panic!("time does not matter here")
    }

    #[test]
    fn what_was_copied_anyway_is_copied_at_once_and_asked_for_much_later() {
        let (mut ways, mut one) = (Ways::default(), own("10.0.0.1:7"));
        assert_eq!(ways.choose(&one, FREE, || 5), Means::Uncopied);
        assert_eq!(ways.choose(&one, FREE, || 6), SEEN, "one asks, the others wait for what is said");
        ways.note(&mut one, true, || 7);
        let two = own("10.0.0.200:9");
        for other in [&one, &two] {
            assert_eq!(ways.choose(other, FREE, || 6 + LATER), SEEN);
        }
        assert_eq!(ways.choose(&own("10.0.1.1:7"), FREE, || 8), Means::Uncopied, "another network");
        assert_eq!(ways.choose(&two, FREE, || 7 + LATER), Means::Uncopied);
        assert_eq!(ways.choose(&one, FREE, || 7 + LATER), SEEN);
    }

    #[test]
    fn what_could_not_ask_leaves_it_to_the_next() {
        let (mut ways, one, mut two) = (Ways::default(), own("10.0.0.1:7"), own("10.0.0.2:7"));
        for _ in 0..2 {
            assert_eq!(ways.choose(&one, FREE, || 5), Means::Uncopied);
            ways.take_back(&one);
        }
        assert_eq!((ways.choose(&two, FREE, || 6), ways.choose(&one, FREE, || 7)), (Means::Uncopied, SEEN));
        ways.note(&mut two, false, never);
        ways.take_back(&one);
        assert_eq!(ways.choose(&one, FREE, never), Means::Uncopied, "an open way stays open");
    }

    #[test]
    fn a_way_that_reads_is_open_to_all_until_it_copies_again_and_again() {
        let (mut ways, mut one, mut two) = (Ways::default(), own("[fd00::1]:7"), own("[fd00::2]:7"));
        assert_eq!(ways.choose(&one, FREE, || 1), Means::Uncopied);
        ways.note(&mut one, false, never);
        assert!([&one, &two].iter().all(|own| ways.choose(own, FREE, never) == Means::Uncopied));
        for number in 1..COPIED_IN_A_ROW {
            ways.note(&mut two, true, || 10);
            assert_eq!((ways.choose(&two, FREE, || 10), ways.choose(&one, FREE, never)), (SEEN, Means::Uncopied), "{number}");
        }
        ways.note(&mut one, false, never);
        (1..COPIED_IN_A_ROW).for_each(|_| ways.note(&mut two, true, || 11));
        assert_eq!(ways.choose(&one, FREE, never), Means::Uncopied, "one that was read counts for it");
        ways.note(&mut two, true, || 12);
        assert_eq!(ways.choose(&one, FREE, || 12), SEEN);
        assert_eq!(ways.choose(&one, FREE, || 12 + LATER), Means::Uncopied);
        ways.note(&mut one, false, never);
        assert_eq!(ways.choose(&two, FREE, || 11 + LATER), SEEN, "its own time has not come");
        assert_eq!(ways.choose(&two, FREE, || 12 + LATER), Means::Uncopied);
        ways.note(&mut two, false, never);
        assert_eq!(ways.choose(&two, FREE, never), Means::Uncopied);
    }

    #[test]
    fn what_cannot_be_and_what_there_is_no_memory_for_is_copied_for_that_reason() {
        let (mut ways, one) = (Ways::default(), own("unix:@name"));
        let refused = Circumstances { is_refused: true, is_short: true, always: true };
        assert_eq!(ways.choose(&one, refused, never), Means::Copied(Why::Refused));
        let short = Circumstances { is_short: true, ..FREE };
        assert_eq!(ways.choose(&one, short, never), Means::Copied(Why::Short));
        assert_eq!(ways.choose(&one, Circumstances { always: true, ..short }, never), Means::Uncopied);
        assert_eq!(ways.choose(&one, FREE, || 1), Means::Uncopied, "none of them counts as asked");
    }

    #[test]
    fn mapped_addresses_are_those_of_ipv4() {
        assert_eq!(own("[::ffff:10.0.0.1]:7").place, own("10.0.0.9:8").place);
        let places: std::collections::BTreeSet<_> = (0..64).map(|net| own(&format!("10.0.{net}.1:7")).place).collect();
        assert!(places.len() > 40, "networks seldom share a place");
    }

    /// Whatever notices say of copies, or do not: one send asks in any RETRY.
    #[test]
    fn a_shut_way_is_asked_once_in_a_while() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut ways, mut connections) = (Ways::default(), [own("10.0.0.1:7"); 4]);
            let (mut now, mut asked) = (1, Vec::new());
            for _ in 0..300 {
                now += random.below(LATER / 3);
                let number = random.below(4) as usize;
                if ways.choose(&connections[number], FREE, || now) == Means::Uncopied {
                    asked.push(now);
                    if number > 1 {
                        ways.note(&mut connections[number], true, || now);
                    }
                }
            }
            assert!(asked.len() > 3 && asked.windows(2).all(|pair| pair[1] - pair[0] >= LATER), "seed {seed}");
        }
    }
}
