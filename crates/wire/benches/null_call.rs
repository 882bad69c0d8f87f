//! What a NULL call costs to read and to answer: prints nanoseconds, and asserts nothing.
//!
//! `cargo bench -p corelane-wire`; under `valgrind --tool=callgrind` the instructions are exact.

use corelane_wire::rpc::{Call, Program, RecordLimits, Records, Step, success_head, write_record};
use corelane_wire::xdr::Writer;
use std::hint::black_box;
use std::time::Instant;

const NFS: Program = Program { number: 100_003, low: 3, high: 3 };
const CALLS: usize = 64;
const ROUNDS: usize = 50_000;

/// The call of `tests/data/onc-rpc.tsv`.
fn call() -> Vec<u8> {
    let words = [0x8000_0028_u32, 0x1122_3344, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[inline(never)]
fn parse(message: &[u8]) -> u32 {
    Call::parse(message).map_or(0, |call| call.xid ^ call.procedure)
}

/// Answers all calls in `input` with one output, as a lane does with what arrived together.
#[inline(never)]
fn serve(input: &[u8], memory: &mut [u8]) -> usize {
    let mut records = Records::new(RecordLimits { bytes: 1 << 20, fragments: 64 });
    let mut output = Writer::new(memory);
    let mut rest = input;
    while let Ok(Step::Record(range)) = records.next(rest) {
        let Ok(call) = Call::parse(&rest[range.clone()]) else { break };
        if NFS.admit(&call).is_err() || write_record(&mut output, 0, |to| to.put(&success_head(call.xid))).is_err() {
            break;
        }
        rest = &rest[range.end..];
    }
    output.len()
}

fn nanoseconds(each: usize, mut work: impl FnMut()) -> f64 {
    let time = |work: &mut dyn FnMut()| {
        let started = Instant::now();
        (0..ROUNDS).for_each(|_| work());
        started.elapsed().as_nanos() as f64 / (ROUNDS * each) as f64
    };
    // The least of some rounds: what other programs on the machine cost is not ours.
    (0..7).map(|_| time(&mut work)).fold(f64::INFINITY, f64::min)
}

fn main() {
    let one = call();
    let message = &one[4..];
    println!("parse a NULL call: {:.1} ns", nanoseconds(1, || _ = black_box(parse(black_box(message)))));
    let input = one.repeat(CALLS);
    let mut memory = [0; 28 * CALLS];
    assert_eq!(serve(&input, &mut memory), memory.len());
    let serve = nanoseconds(CALLS, || _ = black_box(serve(black_box(&input), &mut memory)));
    println!("find, parse, admit and answer it, {CALLS} at once: {serve:.1} ns each");
}
