//! Tables beside a plain sorted list, and what is refused.

#![allow(clippy::unwrap_used)] // all of this is tests

use corelane_prefixes::{Address, Error, Prefix, Prefixes};
use corelane_seam::Random;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Prefixes in their order, and how many there are of each length.
struct Model<A> {
    sorted: BTreeMap<Prefix<A>, u32>,
    lengths: [usize; 129],
}

impl<A: Address> Model<A> {
    fn insert(&mut self, prefix: Prefix<A>, value: u32) -> Option<u32> {
        let before = self.sorted.insert(prefix, value);
        self.lengths[usize::from(prefix.length())] += usize::from(before.is_none());
        before
    }

    fn remove(&mut self, prefix: &Prefix<A>) -> Option<u32> {
        let before = self.sorted.remove(prefix);
        self.lengths[usize::from(prefix.length())] -= usize::from(before.is_some());
        before
    }

    fn find(&self, address: A) -> Option<(u8, u32)> {
        let lengths = (0..=A::BITS).rev().filter(|length| self.lengths[usize::from(*length)] > 0);
        let of = |length| Prefix::around(address, length).ok();
        lengths.filter_map(of).find_map(|prefix| self.sorted.get(&prefix).map(|value| (prefix.length(), *value)))
    }
}

/// Plays `steps` changes and look-ups on a table of at most `most` prefixes, which has `reached` of them at some time, and few at others. `draw` gives addresses that begin alike often enough to lie in each other's prefixes; the table fills and empties in turns.
fn play<A: Address>(seed: u64, steps: u32, bounds: (usize, usize), draw: impl Fn(&mut Random) -> A) {
    play_lengths(seed, steps, bounds, |random| (draw(random), random.below(u64::from(A::BITS) + 1) as u8));
}

/// The same with lengths that are drawn too.
fn play_lengths<A: Address>(seed: u64, steps: u32, (most, reached): (usize, usize), draw: impl Fn(&mut Random) -> (A, u8)) {
    let mut random = Random::new(seed);
    let (mut table, mut model) = (Prefixes::with_bound(most), Model { sorted: BTreeMap::new(), lengths: [0; 129] });
    let (mut fullest, mut emptied) = (0, 0);
    for step in 0..steps {
        let (address, length) = draw(&mut random);
        let prefix = Prefix::around(address, length).unwrap();
        let is_filling = (step / (steps / 8)).is_multiple_of(2);
        match random.below(8) {
            0..=2 if is_filling && model.sorted.len() < most => {
                assert_eq!(table.insert(prefix, step).unwrap(), model.insert(prefix, step), "{prefix}");
            }
            0..=2 => {
                // Whatever comes next in the order goes, or what was drawn, which mostly is not there.
                let next = model.sorted.range(prefix..).next().map_or(prefix, |(next, _)| *next);
                assert_eq!(table.remove(&next), model.remove(&next), "{next}");
            }
            3 => assert_eq!(table.get(&prefix), model.sorted.get(&prefix).copied(), "{prefix}"),
            4 => assert_eq!(table.remove(&prefix), model.remove(&prefix), "{prefix}"),
            _ => assert_eq!(table.find(address), model.find(address), "{address}"),
        }
        assert_eq!(table.len(), model.sorted.len());
        fullest = fullest.max(table.len());
        emptied += usize::from(table.is_empty() && !is_filling);
        if step % (steps / 16) == 0 {
            assert!(table.iter().eq(model.sorted.iter().map(|(prefix, value)| (*prefix, *value))), "the order is kept");
        }
    }
    assert!(fullest >= reached && emptied > 0, "{fullest} prefixes, {emptied} times none");
    for prefix in std::mem::take(&mut model.sorted).keys() {
        table.remove(prefix).unwrap();
    }
    assert!(table.is_empty() && table.iter().next().is_none() && table.find(draw(&mut random).0).is_none());
}

/// Few first bytes, and few bits that differ behind them.
fn near_v4(random: &mut Random) -> Ipv4Addr {
    Ipv4Addr::from_bits((random.bits() & random.bits() & 0x83ff_ffff) as u32)
}

fn near_v6(random: &mut Random) -> Ipv6Addr {
    let bits = u128::from(random.bits() & random.bits()) << 64 | u128::from(random.bits() & random.bits());
    Ipv6Addr::from_bits(0x2001 << 112 | bits & (u128::MAX >> 14))
}

/// A small table has no shortcuts, a large one gets them and loses them again.
#[test]
fn a_table_is_as_a_sorted_list_is() {
    for seed in 0..20 {
        play(seed, 10_000, (300, 300), near_v4);
        play(seed, 10_000, (300, 300), near_v6);
    }
    play(100, 400_000, (30_000, 9_000), near_v4);
    play(101, 400_000, (30_000, 9_000), near_v6);
}

/// Networks with one prefix, with some, and with more than a group may have; few prefixes are longer than one's may be.
#[test]
fn a_table_of_groups_is_as_a_sorted_list_is() {
    let draw = |random: &mut Random| {
        let network = random.below(70) * random.below(70);
        let length = if random.below(500) == 0 { 60 + random.below(69) } else { 26 + random.below(36) };
        let behind = u128::from(random.bits() & random.bits()) << 36;
        let address = Ipv6Addr::from_bits(0x2001 << 112 | u128::from(network) << 100 | behind & (u128::MAX >> 28));
        (address, length as u8)
    };
    play_lengths(102, 400_000, (30_000, 9_000), draw);
}

/// Addresses of the whole space, so that prefixes share no more than their first bits.
#[test]
fn a_table_of_strangers_is_as_a_sorted_list_is() {
    play(7, 200_000, (8_000, 5_000), |random| Ipv4Addr::from_bits(random.bits() as u32));
    play(8, 200_000, (8_000, 5_000), |random| Ipv6Addr::from_bits(u128::from(random.bits()) << 64 | u128::from(random.bits())));
}

fn v4(text: &str) -> Prefix<Ipv4Addr> {
    text.parse().unwrap()
}

#[test]
fn the_first_and_the_last_lengths_are_as_others() {
    let mut table = Prefixes::new();
    assert_eq!(table.find(Ipv4Addr::BROADCAST), None);
    for (value, text) in ["0.0.0.0/0", "128.0.0.0/1", "255.255.255.254/31", "255.255.255.255", "0.0.0.0/32"].iter().enumerate() {
        assert_eq!(table.insert(v4(text), value as u32), Ok(None));
    }
    assert_eq!(table.find(Ipv4Addr::BROADCAST), Some((32, 3)));
    assert_eq!(table.find(Ipv4Addr::from_bits(!1)), Some((31, 2)));
    assert_eq!(table.find(Ipv4Addr::from_bits(!2)), Some((1, 1)));
    assert_eq!(table.find(Ipv4Addr::from_bits(0)), Some((32, 4)));
    assert_eq!(table.find(Ipv4Addr::from_bits(1)), Some((0, 0)));
    assert_eq!(table.remove(&v4("0.0.0.0/0")), Some(0));
    assert_eq!(table.find(Ipv4Addr::from_bits(1)), None);
    assert_eq!(table.insert(v4("255.255.255.255"), 9), Ok(Some(3)));
    let mut table = Prefixes::new();
    let v6 = |text: &str| text.parse::<Prefix<Ipv6Addr>>().unwrap();
    for (value, text) in ["::/0", "::1", "::/127", "8000::/1", "2001:db8::/48"].iter().enumerate() {
        assert_eq!(table.insert(v6(text), value as u32), Ok(None));
    }
    let find = |text: &str| table.find(text.parse().unwrap());
    assert_eq!((find("::1"), find("::"), find("::2")), (Some((128, 1)), Some((127, 2)), Some((0, 0))));
    assert_eq!((find("ffff::"), find("2001:db8::7"), find("2001:db8:1::")), (Some((1, 3)), Some((48, 4)), Some((0, 0))));
    let texts = table.iter().map(|(prefix, _)| prefix.to_string()).collect::<Vec<_>>();
    assert_eq!(texts, ["::/0", "::/127", "::1/128", "2001:db8::/48", "8000::/1"]);
}

#[test]
fn what_is_no_prefix_is_refused_with_words() {
    let error = |text: &str| text.parse::<Prefix<Ipv4Addr>>().unwrap_err();
    let host = error("10.0.0.1/24");
    assert_eq!(host.to_string(), "10.0.0.1/24 is a host in a network: the network is 10.0.0.0/24");
    assert_eq!(error("10.0.0.0/33"), Error::Length { got: 33, most: 32 });
    for text in ["", "/", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/-1", "10.0.0.0/8/8", "10.0.0/8", "2001:db8::/32", "10.0.0.0/256"]
    {
        assert_eq!(error(text), Error::Text { got: text.into() });
    }
    assert!(matches!(error(&"9".repeat(1000)), Error::Text { got } if got.len() == 64));
    assert_eq!(Prefix::new(Ipv6Addr::UNSPECIFIED, 129), Err(Error::Length { got: 129, most: 128 }));
    assert!(matches!(Prefix::new(Ipv6Addr::LOCALHOST, 127), Err(Error::HostBits { length: 127, .. })));
    assert_eq!(Prefix::around(Ipv4Addr::new(10, 9, 8, 7), 12), Ok(v4("10.0.0.0/12")));
    assert!(v4("10.0.0.0/12").holds(Ipv4Addr::new(10, 15, 0, 1)) && !v4("10.0.0.0/12").holds(Ipv4Addr::new(10, 16, 0, 1)));
}

#[test]
fn a_full_table_takes_new_values_and_no_new_prefixes() {
    let mut table = Prefixes::with_bound(2);
    assert_eq!((table.insert(v4("10.0.0.0/8"), 1), table.insert(v4("11.0.0.0/8"), 2)), (Ok(None), Ok(None)));
    assert_eq!(table.insert(v4("12.0.0.0/8"), 3), Err(Error::Full { most: 2 }));
    assert_eq!((table.insert(v4("11.0.0.0/8"), 4), table.len(), table.bound()), (Ok(Some(2)), 2, 2));
    assert_eq!((table.find(Ipv4Addr::new(12, 0, 0, 1)), table.find(Ipv4Addr::new(11, 0, 0, 1))), (None, Some((8, 4))));
    table.remove(&v4("10.0.0.0/8"));
    assert_eq!(table.insert(v4("12.0.0.0/8"), 3), Ok(None));
}

/// Few prefixes take little memory, and what was removed is used again.
#[test]
fn memory_follows_the_prefixes() {
    let mut table = Prefixes::new();
    assert!(table.memory_bytes() < 512, "{}", table.memory_bytes());
    for text in ["0.0.0.0/0", "10.0.0.0/8", "192.168.7.0/24"] {
        table.insert(v4(text), 1).unwrap();
    }
    assert!(table.memory_bytes() < 32 << 10, "{}", table.memory_bytes());
    let of = |round: u32, number: u32| Prefix::around(Ipv4Addr::from_bits(round << 28 | number << 8), 24).unwrap();
    let mut most = 0;
    for round in 0..10 {
        (0..20_000).for_each(|number| drop(table.insert(of(round, number), number)));
        most = if round == 0 { table.memory_bytes() } else { most };
        assert!(table.memory_bytes() <= most + (64 << 10), "round {round}: {} and {most}", table.memory_bytes());
        (0..20_000).for_each(|number| assert_eq!(table.remove(&of(round, number)), Some(number)));
    }
    assert!(most < 40 * 20_000, "{most}");
    assert!(table.memory_bytes() <= most - (32 << 10), "{}: few prefixes need no shortcuts", table.memory_bytes());
}
