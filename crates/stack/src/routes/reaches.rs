//! Where prefixes lead. A million prefixes lead to a few routers, so each of these is there once, with a number.

use super::way::Way;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Where a prefix leads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// To neighbours at an interface, from that address of ours.
    Near { source: IpAddr, interface: usize },
    /// By one of these routers.
    By(Vec<Way>),
}

/// All of them, by their numbers, with how many prefixes lead there. One without any has a number that is free.
#[derive(Debug, Default)]
pub(super) struct Reaches {
    all: Vec<(Reach, usize)>,
    free: Vec<u32>,
    numbers: BTreeMap<Reach, u32>,
}

impl Reaches {
    /// That of a number.
    pub fn get(&self, number: u32) -> &Reach {
        &self.all[number as usize].0
    }

    /// One more prefix leads there; the number.
    pub fn take(&mut self, reach: Reach) -> u32 {
        let Self { all, free, numbers } = self;
        let number = *numbers.entry(reach).or_insert_with_key(|reach| match free.pop() {
            Some(number) => {
                all[number as usize].0 = reach.clone();
                number
            }
            None => {
                all.push((reach.clone(), 0));
                all.len() as u32 - 1
            }
        });
        all[number as usize].1 += 1;
        number
    }

    /// One prefix fewer leads to that of a number.
    pub fn give(&mut self, number: u32) {
        let (reach, prefixes) = &mut self.all[number as usize];
        assert!(*prefixes > 0, "a prefix is counted where it leads");
        *prefixes -= 1;
        if *prefixes == 0 {
            self.numbers.remove(reach);
            self.free.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_there_once_and_numbers_are_used_again() {
        let mut reaches = Reaches::default();
        let near = |interface| Reach::Near { source: [10, 0, 0, 1].into(), interface };
        for round in 0..50 {
            let numbers: Vec<_> = (0..20).map(|one| reaches.take(near(round * 7 + one % 10))).collect();
            for (one, number) in numbers.iter().enumerate() {
                assert_eq!(*reaches.get(*number), near(round * 7 + one % 10));
            }
            assert_eq!(numbers[..10], numbers[10..], "the same have one number");
            numbers.into_iter().for_each(|number| reaches.give(number));
            assert!(reaches.numbers.is_empty() && reaches.all.len() == 10, "{} numbers", reaches.all.len());
        }
    }
}
