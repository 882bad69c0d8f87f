//! After the first datagrams, reassembly and dispatch allocate nothing.

use corelane_isr::dispatch::{Dispatch, Facts, Isr, Number, PacketStep, Registration};
use corelane_isr::reassembly::{Admission, Limits, Reassembly};
use corelane_seam::{Frame, FrameMemory, Instant};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Half of a datagram of IPv4 with 16 bytes of data.
fn half(memory: &FrameMemory, name: u8, second: bool) -> Frame {
    let place: [u8; 2] = if second { [0, 1] } else { [0x20, 0] };
    let mut frame = memory.frame().expect("there are more frames than wait");
    frame.append(&[0x45, 0, 0, 28, 0, name, place[0], place[1], 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.append(&[7; 8]);
    frame
}

/// A hundred datagrams, of which one in ten is never completed; how many were whole.
fn datagrams(memory: &FrameMemory, table: &mut Reassembly<Frame>, isr: &mut Isr<Frame>, pieces: &mut Vec<Frame>) -> usize {
    let mut whole = 0;
    for name in 0..100 {
        table.arrive(Instant::from_nanoseconds(0), 0, half(memory, name, false), pieces);
        if name % 10 != 0
            && matches!(table.arrive(Instant::from_nanoseconds(0), 0, half(memory, name, true), pieces), Admission::Whole(_))
        {
            whole += 1;
            let first = pieces.swap_remove(0);
            drop(isr.arrive(Number::IP_DIRECT, first, Facts::default()));
            pieces.clear();
        }
    }
    while let Some(step) = isr.next_step() {
        if let PacketStep::Run(run) = step {
            drop(run.packet);
            isr.finished(run.mark);
        }
    }
    table.expire(Instant::NEVER, drop);
    whole
}

// One test in this program, so that no other thread allocates meanwhile.
#[test]
fn nothing_is_allocated_after_warm_up() {
    let memory = FrameMemory::new(1024, 2048).expect("there is memory for the test");
    let mut table = Reassembly::new(Limits::for_frames(32 * 512, 2048), 1);
    let mut isr = Isr::new(0, 1, Dispatch::Deferred);
    isr.register(Registration::new("ip_direct", Number::IP_DIRECT)).expect("nothing is registered");
    let mut pieces = Vec::new();
    assert_eq!(datagrams(&memory, &mut table, &mut isr, &mut pieces), 90);
    // The thread that began this test may still be about its own business: it is over before the last of these.
    let windows: [_; 3] = std::array::from_fn(|_| {
        let region = Region::new(ALLOCATOR);
        assert_eq!(datagrams(&memory, &mut table, &mut isr, &mut pieces), 90);
        region.change().allocations
    });
    assert_eq!(windows.iter().min(), Some(&0), "{windows:?}");
}
