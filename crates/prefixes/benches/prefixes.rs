//! What a table of a million prefixes costs: `cargo bench -p corelane-prefixes`. A number behind `--` is another seed.
//!
//! The tables are drawn from the seed, with the Internet's shares of each length (as published reports on its routing table have them, in rounded parts of a
//! hundred); half of the prefixes follow right behind the one before, as networks are handed out. A destination is an address in a prefix of the table.
//! `apart` is the time of look-ups that do not wait for each other, as those of packets in a batch; in `chained` each address depends on the answer before.

#![allow(clippy::unwrap_used)] // a benchmark that cannot go on stops

use corelane_prefixes::{Address, Prefix, Prefixes};
use corelane_seam::Random;
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;

const PREFIXES: usize = 1_000_000;
const DESTINATIONS: usize = 10_000;
const LOOKUPS: usize = 4_000_000;
const CHANGES: usize = 400_000;
const ROUNDS: usize = 5;

/// Length, and parts of a hundred.
const V4_LENGTHS: &[(u8, u64)] =
    &[(24, 60), (23, 10), (22, 11), (21, 5), (20, 4), (19, 3), (18, 2), (17, 1), (16, 2), (14, 1), (12, 1)];
const V6_LENGTHS: &[(u8, u64)] = &[
    (48, 47),
    (32, 13),
    (44, 10),
    (40, 9),
    (46, 4),
    (36, 4),
    (47, 3),
    (42, 2),
    (33, 2),
    (29, 2),
    (45, 1),
    (38, 1),
    (34, 1),
    (28, 1),
];

/// Where the registries have allocated: the first twelve bits.
const V6_BLOCKS: [u128; 8] = [0x200, 0x240, 0x240, 0x260, 0x280, 0x2a0, 0x2a0, 0x2c0];

fn main() {
    let seed = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(1);
    println!("seed {seed}");
    let mut few = Prefixes::<Ipv4Addr>::new();
    for (value, text) in ["0.0.0.0/0", "10.0.0.0/8", "192.168.7.0/24"].iter().enumerate() {
        few.insert(text.parse().unwrap(), value as u32).unwrap();
    }
    println!("IPv4, 3 prefixes: {} bytes", few.memory_bytes());
    find(&few, "3 prefixes, 10,000 destinations", &hosts(&few, &mut Random::new(seed), DESTINATIONS, v4_host));
    measure("IPv4", &mut Random::new(seed), v4, v4_host);
    measure("IPv6", &mut Random::new(seed), v6, v6_host);
    measure("IPv6 in clusters", &mut Random::new(seed), v6_in_clusters, v6_host);
}

fn measure<A: Address>(
    family: &str,
    random: &mut Random,
    mut draw: impl FnMut(&mut Random, Option<Prefix<A>>) -> Prefix<A>,
    host: fn(&mut Random, &Prefix<A>) -> A,
) {
    let (mut table, mut before) = (Prefixes::new(), None);
    let mut drawn = Vec::new();
    while drawn.len() < PREFIXES {
        let prefix = draw(random, before.filter(|_| drawn.len() % 2 == 1));
        before = Some(prefix);
        if table.insert(prefix, drawn.len() as u32).unwrap().is_none() {
            drawn.push(prefix);
        }
    }
    let per = table.memory_bytes() as f64 / PREFIXES as f64;
    println!("{family}, {} prefixes: {:.1} MiB, {per:.1} bytes each", table.len(), table.memory_bytes() as f64 / 1_048_576.0);
    find(&table, "10,000 destinations", &hosts(&table, random, DESTINATIONS, host));
    find(&table, "1,000,000 destinations", &hosts(&table, random, PREFIXES, host));
    change(&mut table, random, &drawn);
    table.insert(Prefix::around(drawn[0].address(), 0).unwrap(), 7).unwrap();
    short(&mut table);
    let copied = Instant::now();
    black_box(table.clone());
    println!("  a copy of the whole: {:.1} ms", copied.elapsed().as_secs_f64() * 1e3);
}

/// Addresses in random prefixes of the table, in a random order.
fn hosts<A: Address>(table: &Prefixes<A>, random: &mut Random, many: usize, host: fn(&mut Random, &Prefix<A>) -> A) -> Vec<A> {
    let prefixes: Vec<_> = table.iter().map(|(prefix, _)| prefix).collect();
    let draw = |_| {
        let prefix = &prefixes[random.index(prefixes.len())];
        host(random, prefix)
    };
    (0..many).map(draw).collect()
}

/// The median of the rounds.
fn median(mut round: impl FnMut() -> f64) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| round()).collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

fn find<A: Address>(table: &Prefixes<A>, what: &str, addresses: &[A]) {
    let mut random = Random::new(addresses.len() as u64);
    let order: Vec<u32> = (0..LOOKUPS).map(|_| random.index(addresses.len()) as u32).collect();
    let nanoseconds = |start: Instant| start.elapsed().as_nanos() as f64 / LOOKUPS as f64;
    let none = black_box(0);
    // What the loop costs without a look-up is taken off: reading destinations that do not fit into caches is not the table's.
    let round = |chained: bool, is_empty: bool| {
        let (start, mut last) = (Instant::now(), 0);
        for at in &order {
            let link = if chained { last & none } else { 0 };
            let address = addresses[(at ^ link) as usize];
            last = if is_empty { black_box(address.six_at(1)) as u32 } else { table.find(address).map_or(0, |(_, value)| value) };
            if !chained {
                black_box(last);
            }
        }
        black_box(last);
        nanoseconds(start)
    };
    let [apart, chained] = [false, true].map(|chained| median(|| round(chained, false)));
    let [apart_loop, chained_loop] = [false, true].map(|chained| median(|| round(chained, true)));
    println!(
        "  look-up, {what}: {:.1} ns apart (loop {apart_loop:.1}), {:.1} ns chained (loop {chained_loop:.1})",
        apart - apart_loop,
        chained - chained_loop
    );
}

/// Prefixes go and come back, at random.
fn change<A: Address>(table: &mut Prefixes<A>, random: &mut Random, drawn: &[Prefix<A>]) {
    let mut each = Vec::with_capacity(CHANGES);
    let start = Instant::now();
    for _ in 0..CHANGES / 2 {
        let prefix = drawn[random.index(drawn.len())];
        let before = Instant::now();
        let value = table.remove(&prefix).unwrap();
        let between = Instant::now();
        table.insert(prefix, value).unwrap();
        each.extend([(between - before).as_nanos() as u64, between.elapsed().as_nanos() as u64]);
    }
    let second = CHANGES as f64 / start.elapsed().as_secs_f64();
    each.sort_unstable();
    let at = |part: f64| each[((each.len() - 1) as f64 * part) as usize] as f64 / 1e3;
    println!(
        "  changes: {:.0} in a second; one takes {:.2} us, one of a thousand {:.1}, one of 100,000 {:.1}, the longest {:.1}",
        second,
        at(0.5),
        at(0.999),
        at(0.999_99),
        at(1.0)
    );
}

/// The widest prefixes, which cover all others.
fn short<A: Address>(table: &mut Prefixes<A>) {
    for length in [0, 8] {
        let prefix = Prefix::around(A::zero().with_six(1, 42), length).unwrap();
        let mut each: Vec<u128> = (0..1_000)
            .map(|_| {
                let start = Instant::now();
                table.insert(prefix, 1).unwrap();
                table.remove(&prefix).unwrap();
                start.elapsed().as_nanos() / 2
            })
            .collect();
        each.sort_unstable();
        println!("  a change of /{length}: {} ns, the longest {}", each[500], each[999]);
    }
}

fn drawn_length(random: &mut Random, lengths: &[(u8, u64)]) -> u8 {
    let mut left = random.below(100);
    let at = lengths.iter().find(|(_, parts)| {
        let is_here = left < *parts;
        left = left.saturating_sub(*parts);
        is_here
    });
    at.map_or(24, |(length, _)| *length)
}

/// Unicast of the Internet: 1 to 223 in front.
fn v4(random: &mut Random, before: Option<Prefix<Ipv4Addr>>) -> Prefix<Ipv4Addr> {
    let address = match before {
        Some(before) => before.address().to_bits().wrapping_add(1 << (32 - before.length())),
        None => ((1 + random.below(223)) as u32) << 24 | random.bits() as u32 >> 8,
    };
    Prefix::around(Ipv4Addr::from_bits(address), drawn_length(random, V4_LENGTHS)).unwrap()
}

fn v4_host(random: &mut Random, prefix: &Prefix<Ipv4Addr>) -> Ipv4Addr {
    let hosts = u32::MAX.checked_shr(prefix.length().into()).unwrap_or(0);
    Ipv4Addr::from_bits(prefix.address().to_bits() | random.bits() as u32 & hosts)
}

/// Blocks of the registries; within each, networks of 32 bits, sixteen in a hundred of which are in use.
fn v6(random: &mut Random, before: Option<Prefix<Ipv6Addr>>) -> Prefix<Ipv6Addr> {
    let address = match before {
        Some(before) => before.address().to_bits().wrapping_add(1 << (128 - before.length())),
        None => {
            let block = V6_BLOCKS[random.index(V6_BLOCKS.len())] << 116;
            let network = u128::from(random.below(1 << 20) / 6 * 6) << 96;
            block | network | u128::from(random.below(1 << 16)) << 80
        }
    };
    Prefix::around(Ipv6Addr::from_bits(address), drawn_length(random, V6_LENGTHS)).unwrap()
}

/// The same lengths in 150,000 networks of 32 bits. A few of them have most prefixes, as the Internet's have: half of all have more than eight in their network, a
/// fifth more than sixty-four.
fn v6_in_clusters(random: &mut Random, before: Option<Prefix<Ipv6Addr>>) -> Prefix<Ipv6Addr> {
    let drawn = v6(random, before);
    let length = drawn.length();
    if before.is_some() {
        return drawn;
    }
    let network = (random.unit().powi(3) * 150_000.0) as u128;
    let block = V6_BLOCKS[network as usize % V6_BLOCKS.len()] << 116;
    let address = block | (network / 8 * 48) << 96 | drawn.address().to_bits() & (0xffff << 80);
    Prefix::around(Ipv6Addr::from_bits(address), length).unwrap()
}

fn v6_host(random: &mut Random, prefix: &Prefix<Ipv6Addr>) -> Ipv6Addr {
    let hosts = u128::MAX.checked_shr(prefix.length().into()).unwrap_or(0);
    Ipv6Addr::from_bits(prefix.address().to_bits() | u128::from(random.bits()) << 40 & hosts)
}
