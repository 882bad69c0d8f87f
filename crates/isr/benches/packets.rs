//! What a packet costs under each policy of dispatch, and a fragment until its datagram is whole: prints nanoseconds, and asserts no time.
//!
//! `cargo bench -p corelane-isr --bench packets`; under `valgrind --tool=callgrind` the instructions are exact.

use corelane_isr::dispatch::{Dispatch, Facts, Isr, Number, PacketStep, Registration};
use corelane_isr::reassembly::{Admission, Limits, Reassembly};
use corelane_seam::{Frame, FrameMemory, Instant};
use std::hint::black_box;
use std::time::Instant as Clock;

/// Packets that arrive together.
const TRAIN: usize = 64;
/// Trains of each measurement, and datagrams.
const ROUNDS: usize = 20_000;
/// Bytes of data in each fragment.
const DATA: usize = 1_480;

fn nanoseconds(each: usize, mut work: impl FnMut()) -> f64 {
    let mut time = || {
        let started = Clock::now();
        (0..ROUNDS).for_each(|_| work());
        started.elapsed().as_nanos() as f64 / (ROUNDS * each) as f64
    };
    // The least of some rounds: what other programs on the machine cost is not ours.
    (0..5).map(|_| time()).fold(f64::INFINITY, f64::min)
}

/// A train through one lane's workstreams: placed, and run at once or when all have arrived.
fn train(isr: &mut Isr<u64>) {
    let run = |isr: &mut Isr<u64>, step| {
        if let PacketStep::Run(run) = step {
            black_box(run.packet);
            isr.finished(run.mark);
        }
    };
    for packet in 0..TRAIN as u64 {
        let step = isr.arrive(Number::IP, packet, Facts { flow: Some(packet as u32), source: 0 });
        run(isr, step);
    }
    while let Some(step) = isr.next_step() {
        run(isr, step);
    }
}

/// A fragment of IPv4: the `number`-th of `count`.
fn fragment(memory: &FrameMemory, name: u16, number: usize, count: usize) -> Frame {
    // reason: there are more frames than fragments that wait.
    let mut frame = memory.frame().expect("a free frame");
    let more = if number + 1 < count { 0x2000 } else { 0 };
    let place = ((number * DATA / 8) as u16 | more).to_be_bytes();
    let [length, name] = [(20 + DATA) as u16, name].map(u16::to_be_bytes);
    frame.append(&[0x45, 0, length[0], length[1], name[0], name[1], place[0], place[1], 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.set_length(20 + DATA);
    frame
}

fn datagram(memory: &FrameMemory, table: &mut Reassembly<Frame>, pieces: &mut Vec<Frame>, name: u16, count: usize) {
    let mut whole = 0;
    for number in 0..count {
        let outcome = table.arrive(Instant::from_nanoseconds(0), 0, fragment(memory, name, number, count), pieces);
        whole += usize::from(matches!(outcome, Admission::Whole(_)));
    }
    assert_eq!((whole, pieces.len()), (1, count), "a datagram is whole with its last fragment");
    pieces.clear();
}

fn main() {
    for (name, dispatch) in [("direct", Dispatch::Direct), ("hybrid", Dispatch::Hybrid), ("deferred", Dispatch::Deferred)] {
        let mut isr = Isr::new(0, 1, dispatch);
        isr.register(Registration::new("ip", Number::IP)).expect("nothing is registered");
        println!("dispatch, {name}: {:.1} ns a packet", nanoseconds(TRAIN, || train(&mut isr)));
    }
    let memory = FrameMemory::new(1024, 2048).expect("memory for the frames");
    for count in [2, 6, 16] {
        let (mut pieces, mut name) = (Vec::new(), 0_u16);
        let mut table = Reassembly::new(Limits::for_frames(32 * 512, 2048), 1);
        let cost = nanoseconds(count, || {
            name = name.wrapping_add(1);
            datagram(&memory, &mut table, &mut pieces, name, count);
        });
        println!("reassembly of {count} fragments: {cost:.1} ns a fragment");
    }
}
