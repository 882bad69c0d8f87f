//! A message between lanes is not allocated once the lanes are warm: counted by an allocator around the system's, for the whole
//! process. So this is one test in a program of its own, on a driver that does nothing.
#![cfg(not(loom))]
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

use corelane_lane::{Channels, Control, Kit, Lane, LaneSettings, Mesh, Turn, Work, Works};
use corelane_seam::{Arena, Bell, Bind, Completion, Driver, DriverCounters, Fault, Handle, Listen, Op, Reason, Socket, Wait};
use corelane_watch::{Description, LaneName, Page};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::sync::Arc;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

struct Silent;

impl Bell for Silent {
    fn ring(&self) {}
}

/// Has no sockets, and a clock that shows how often it was asked.
struct Idle(u64);

impl Driver for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn now(&self) -> u64 {
        self.0
    }

    fn listen(&mut self, _: &Listen) -> Result<Socket, Fault> {
        Err(Fault::of(Reason::Unsupported))
    }

    fn bind(&mut self, _: &Bind) -> Result<Socket, Fault> {
        Err(Fault::of(Reason::Unsupported))
    }

    fn local_address(&self, _: Socket) -> Result<corelane_seam::Address, Fault> {
        Err(Fault::of(Reason::Unsupported))
    }

    fn refuse_new(&mut self, _: Socket) {}

    fn finish(&mut self, _: Socket) {}

    fn readable_bytes(&self, _: Socket) -> usize {
        0
    }

    fn dropped(&self, _: Socket) -> Option<u32> {
        None
    }

    fn push(&mut self, _: Handle, _: Op) {}

    fn abandon(&mut self, _: u8) {}

    fn collect(&mut self, _: Wait, _: usize, _: &mut Vec<Completion>) {
        self.0 += 1_000;
    }

    fn offload_max(&self) -> usize {
        0
    }

    fn bell(&self) -> Arc<dyn Bell> {
        Arc::new(Silent)
    }

    fn counters(&self) -> DriverCounters {
        DriverCounters::default()
    }
}

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
    let control = Control::new(2);
    let lanes = (0..2).map(|_| LaneName::default()).collect();
    let page = Page::heap(&Description { program: "test".into(), lanes, ..Description::default() }).unwrap();
    let settings = LaneSettings::new().memory_bytes(4 << 20);
    let lane = |(number, mesh)| {
        let (arena, row) = (Arena::new(settings.memory_bytes).unwrap(), page.lane(number).unwrap());
        let kit = Kit::new(number, &control, arena, row, &settings, Box::new(|_: &str| {}));
        let works = Works::of(Counting { mesh, sent: 0, received: 0 });
        Lane::new(Idle(1), works, kit, control.clone(), settings)
    };
    Mesh::between(&control, settings.channel_messages).into_iter().enumerate().map(lane).collect()
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
    let region = Region::new(GLOBAL);
    turn(1_000);
    let change = region.change();
    let received: u64 = lanes.iter().map(|lane| lane.work::<Counting>().unwrap().received).sum();
    assert!(received > 2 * 8 * 1_000, "{received}");
    assert_eq!((change.allocations, change.reallocations), (0, 0));
}
