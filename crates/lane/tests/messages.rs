//! A message between lanes is not allocated once the lanes are warm: counted by an allocator around the system's, for the whole
//! process. So this is one test in a program of its own, on a driver that does nothing.
#![cfg(not(loom))]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod idle;

use corelane_lane::{Channels, Control, Kit, Lane, LaneSettings, Mesh, Turn, Work, Works};
use corelane_seam::Completion;
use idle::Idle;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Sends so many numbers a turn to the other lane, and counts what comes from there.
struct Counting {
    mesh: Mesh<[u64; 6]>,
    sent: u64,
    received: u64,
}

impl Work for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn meshes(&mut self, each: &mut dyn FnMut(&mut dyn Channels)) {
        each(&mut self.mesh);
    }

    fn complete(&mut self, _: &mut Kit, _: Completion) {}

    fn serve(&mut self, kit: &mut Kit) {
        for _ in 0..8 {
            self.mesh.send(kit, 1 - kit.lane(), [self.sent; 6]).unwrap();
            self.sent += 1;
        }
    }

    fn take_messages(&mut self, _: &mut Kit, at_most: usize) -> usize {
        let Self { mesh, received, .. } = self;
        mesh.take(at_most, |_, message| {
            assert_eq!(message, Some([*received; 6]), "in order and once");
            *received += 1;
        })
    }

    fn flush(&mut self, _: &mut Kit) {}

    fn has_work(&self) -> bool {
        true
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn drain(&mut self, _: &mut Kit, _: &mut dyn corelane_seam::Driver) {}
}

fn lanes() -> Vec<Lane<Idle>> {
    let settings = LaneSettings::new().memory_bytes(4 << 20);
    let control = Control::new(2);
    let mut meshes = Mesh::between(&control, settings.channel_messages).into_iter();
    idle::lanes(&control, settings, |_, _| Works::of(Counting { mesh: meshes.next().unwrap(), sent: 0, received: 0 }))
}

#[test]
fn a_message_allocates_nothing() {
    let mut lanes = lanes();
    let mut turn = |count: usize| {
        for _ in 0..count {
            lanes.iter_mut().for_each(|lane| assert_ne!(lane.turn(), Turn::Ended));
        }
    };
    // The first turns make the storage for the messages of one.
    turn(10);
    // The thread that began this test may still be about its own business: it is over before the last of these.
    let windows: [_; 3] = std::array::from_fn(|_| {
        let region = Region::new(GLOBAL);
        turn(1_000);
        let change = region.change();
        (change.allocations, change.reallocations)
    });
    let received: u64 = lanes.iter().map(|lane| lane.work::<Counting>().unwrap().received).sum();
    assert!(received > 3 * 2 * 8 * 1_000, "{received}");
    assert_eq!(windows.iter().min(), Some(&(0, 0)), "{windows:?}");
}
