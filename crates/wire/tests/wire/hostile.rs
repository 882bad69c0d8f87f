//! Hostile bytes: every truncation and every changed byte of every seed, and seeded mutations without end.
//!
//! A parser that reads past the bytes panics, and so fails here; none can allocate, as `allocation.rs` shows.

use crate::parsers::{self, Parser};
use crate::seeds;
use std::time::{Duration, Instant};

/// Mutations of each parser without [`SECONDS`].
const ROUNDS: u64 = 10_000;
/// Environment variable: for how many seconds to mutate each parser's seeds.
const SECONDS: &str = "CORELANE_MUTATION_SECONDS";

fn each(mut with: impl FnMut(Parser, &str, &[Vec<u8>])) {
    let seeds = seeds::by_target();
    for (name, parser) in parsers::ALL {
        with(*parser, name, &seeds[*name]);
    }
}

#[test]
fn every_seed() {
    each(|parser, _, seeds| seeds.iter().for_each(|seed| parser(seed)));
}

#[test]
fn every_truncation_of_every_seed() {
    each(|parser, _, seeds| {
        for seed in seeds {
            (0..seed.len()).for_each(|length| parser(&seed[..length]));
        }
    });
}

#[test]
fn every_changed_byte_of_every_seed() {
    each(|parser, _, seeds| {
        for seed in seeds {
            let mut bytes = seed.clone();
            for at in 0..bytes.len() {
                for change in 1..=255 {
                    bytes[at] = seed[at] ^ change;
                    parser(&bytes);
                }
                bytes[at] = seed[at];
            }
        }
    });
}

#[test]
fn seeded_mutations() {
    let seconds = std::env::var(SECONDS).ok().map(|text| Duration::from_secs(text.parse().unwrap()));
    each(|parser, name, seeds| {
        let started = Instant::now();
        let goes_on = |round| seconds.map_or(round < ROUNDS, |seconds| round % 1024 != 0 || started.elapsed() < seconds);
        let mut round = 0;
        while goes_on(round) {
            let input = Input { name, round, bytes: Random::new(round.wrapping_mul(0x9e37_79b9_7f4a_7c15)).mutated(seeds) };
            parser(&input.bytes);
            round += 1;
        }
        println!("{name}: {round} mutations");
    });
}

/// Prints itself if the parser panics.
struct Input<'a> {
    name: &'a str,
    round: u64,
    bytes: Vec<u8>,
}

impl Drop for Input<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            println!("{}, round {}: {hex}", self.name, self.round);
        }
    }
}

/// Numbers where lengths, counts, discriminants and marks change their meaning.
const EDGES: [u32; 20] =
    [0, 1, 2, 3, 4, 5, 8, 16, 17, 64, 65, 255, 256, 400, 401, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_fffc, u32::MAX];

/// Draws what the tests here try.
pub struct Random(corelane_seam::Random);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(corelane_seam::Random::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.bits()
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0.index(bound)
    }

    fn mutated(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(5) {
            let other = &seeds[self.below(seeds.len())];
            self.mutate(&mut bytes, other);
        }
        bytes
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(bytes.len() + 1);
        match self.below(6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, self.next() as u8),
            2 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            3 => self.put_edge(bytes),
            4 => bytes.splice(at.., other[self.below(other.len())..].iter().copied()).for_each(drop),
            5 if bytes.len() < 4096 => bytes.extend_from_within(at..),
            _ => {}
        }
    }

    /// Writes a telling number over an aligned word.
    fn put_edge(&mut self, bytes: &mut [u8]) {
        let edge = EDGES[self.below(EDGES.len())].to_be_bytes();
        let (words, _) = bytes.as_chunks_mut::<4>();
        let index = self.below(words.len());
        if let Some(word) = words.get_mut(index) {
            *word = edge;
        }
    }
}
