//! Nanoseconds per hash of each form of the Toeplitz hash: `cargo bench -p corelane-rss`.
//!
//! A round hashes 512 tuples with each form, one after the other; the ratio is the median of the rounds' ratios to the
//! table, so what slows the whole machine for a while hardly shows. `vectors` is what a batch would be without tables:
//! each input bit in turn, for sixteen tuples side by side. It stands here to be measured on other machines.
//!
//! Measured and left out, on a machine with 48 KiB of first-level cache, against 2.0 ns for a table look-up of IPv4:
//! digits of 10 and 12 bits instead of bytes (fewer look-ups, but 1.4 instead of 1.0 ns for the remote half: the tables
//! leave the cache, and cutting digits costs more than loading bytes), one table of shifted products with unaligned
//! loads (2.1 ns; 8 instead of 6 ns for IPv6), finding out which bytes a batch has in common (0.4 ns more than being
//! told), column by column over the batch (5 ns), bit slices with 16 sums of four planes (9 to 13 ns, and 6 ns with
//! wider vectors), vectors of table look-ups (twice as slow as single ones where the compiler takes gather instructions).

use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::time::Instant;

use corelane_rss::{FlowId, Key, Toeplitz, bitwise};
use corelane_seam::Random;

const BATCH: usize = 64;
const TUPLES: usize = 8 * BATCH;
const ROUNDS: usize = 2_000;
const WIDE: usize = 16;

/// A form of the hash, which hashes all tuples.
type Form<'a> = (&'static str, Box<dyn FnMut(&mut [FlowId; TUPLES]) + 'a>);

fn main() {
    let toeplitz = Toeplitz::new(&Key::MICROSOFT);
    let windows: Vec<u32> = (0..36 * 8).map(|bit| Key::MICROSOFT.window(bit)).collect();
    let mut random = Random::new(7);
    let mut word = || random.bits();

    let local = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 443);
    let remotes: [SocketAddrV4; TUPLES] = std::array::from_fn(|_| SocketAddrV4::new((word() as u32).into(), word() as u16));
    let inputs = remotes.map(|remote| {
        let [a, b, c, d] = remote.ip().octets();
        let [e, f] = remote.port().to_be_bytes();
        [a, b, c, d, 10, 0, 0, 1, e, f, 1, 0xbb]
    });
    let batch = |flows: &mut [FlowId; TUPLES]| {
        for (remotes, flows) in black_box(&remotes).chunks(BATCH).zip(flows.chunks_mut(BATCH)) {
            toeplitz.batch_v4(local, remotes, flows);
        }
    };
    compare("IPv4", &inputs, &toeplitz, &windows, Box::new(batch));

    let local = SocketAddrV6::new(Ipv6Addr::LOCALHOST, 443, 0, 0);
    let remotes: [SocketAddrV6; TUPLES] = std::array::from_fn(|_| {
        let address = u128::from(word()) << 64 | u128::from(word());
        SocketAddrV6::new(address.into(), word() as u16, 0, 0)
    });
    let inputs = remotes.map(|remote| {
        let mut input = [0; 36];
        input[..16].copy_from_slice(&remote.ip().octets());
        input[16..32].copy_from_slice(&local.ip().octets());
        input[32..34].copy_from_slice(&remote.port().to_be_bytes());
        input[34..].copy_from_slice(&local.port().to_be_bytes());
        input
    });
    let batch = |flows: &mut [FlowId; TUPLES]| {
        for (remotes, flows) in black_box(&remotes).chunks(BATCH).zip(flows.chunks_mut(BATCH)) {
            toeplitz.batch_v6(&local, remotes, flows);
        }
    };
    compare("IPv6", &inputs, &toeplitz, &windows, Box::new(batch));
}

type All<'a> = Box<dyn FnMut(&mut [FlowId; TUPLES]) + 'a>;

fn compare<const N: usize>(family: &str, inputs: &[[u8; N]; TUPLES], toeplitz: &Toeplitz, windows: &[u32], batch: All<'_>) {
    let each = |hash: fn(&Toeplitz, &[u8; N]) -> FlowId| {
        move |flows: &mut [FlowId; TUPLES]| {
            for (input, flow) in black_box(inputs).iter().zip(flows) {
                *flow = hash(toeplitz, input);
            }
        }
    };
    let wide = |flows: &mut [FlowId; TUPLES]| {
        for (inputs, flows) in black_box(inputs).chunks_exact(WIDE).zip(flows.chunks_exact_mut(WIDE)) {
            vectors(windows, inputs, flows);
        }
    };
    let mut forms: Vec<Form<'_>> = vec![
        ("table", Box::new(each(|toeplitz, input| toeplitz.hash(input)))),
        ("bitwise", Box::new(each(|toeplitz, input| bitwise(toeplitz.key(), input)))),
        ("vectors", Box::new(wide)),
        ("batch of 64", batch),
    ];
    let rounds = measure(&mut forms);
    println!("{family}: nanoseconds per hash, {ROUNDS} rounds of {TUPLES} hashes");
    for (at, (name, _)) in forms.iter().enumerate() {
        let of = |value: &dyn Fn(&Vec<f64>) -> f64| sorted(rounds.iter().map(value).collect());
        let (times, speeds) = (of(&|round| round[at]), of(&|round| round[0] / round[at]));
        let (least, median, ratio) = (times[0], times[ROUNDS / 2], speeds[ROUNDS / 2]);
        println!("  {name:<12} least {least:6.2}  median {median:6.2}  {ratio:5.2} times as fast as the table");
    }
}

/// Nanoseconds per hash of each form in each round.
fn measure(forms: &mut [Form<'_>]) -> Vec<Vec<f64>> {
    let mut expected = [FlowId::default(); TUPLES];
    (forms[0].1)(&mut expected);
    let round = |_| {
        let time = |form: &mut Form<'_>| {
            let mut flows = [FlowId::default(); TUPLES];
            let start = Instant::now();
            (form.1)(black_box(&mut flows));
            let took = start.elapsed();
            assert!(flows == expected, "{} differs", form.0);
            took.as_nanos() as f64 / TUPLES as f64
        };
        forms.iter_mut().map(time).collect()
    };
    (0..ROUNDS).map(round).collect()
}

fn vectors<const N: usize>(windows: &[u32], inputs: &[[u8; N]], flows: &mut [FlowId]) {
    let mut hashes = [0; WIDE];
    for (group, windows) in windows.chunks_exact(32).take(N / 4).enumerate() {
        let at = 4 * group;
        let mut words = [0; WIDE];
        for (word, input) in words.iter_mut().zip(inputs) {
            *word = u32::from_be_bytes([input[at], input[at + 1], input[at + 2], input[at + 3]]);
        }
        for (bit, window) in windows.iter().enumerate() {
            for (hash, word) in hashes.iter_mut().zip(&words) {
                *hash ^= window & ((word << bit) as i32 >> 31) as u32;
            }
        }
    }
    for (flow, hash) in flows.iter_mut().zip(hashes) {
        *flow = FlowId(hash);
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}
