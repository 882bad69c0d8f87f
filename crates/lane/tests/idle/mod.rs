//! Lanes on a driver that does nothing.

use corelane_lane::{Control, Kit, Lane, LaneSettings, Works};
use corelane_seam::{
    Arena, Bell, Bind, Completion, Driver, DriverCounters, Fault, Handle, Listen, Op, Reason, Record, Socket, Wait,
};
use corelane_watch::{Description, LaneName, Page};
use std::sync::Arc;

struct Silent;

impl Bell for Silent {
    fn ring(&self) {}
}

/// Has no sockets, and a clock that shows how often it was asked.
pub struct Idle(u64);

impl Driver for Idle {
    fn name(&self) -> &'static str {
        "idle"
    }

    fn now(&self) -> u64 {
        self.0
    }

    fn time_of_day(&self) -> u64 {
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

    fn unsent_bytes(&self, _: Socket) -> Option<usize> {
        None
    }

    fn broken(&self, _: Socket, _: bool) -> Option<Fault> {
        None
    }

    fn dropped(&self, _: Socket) -> Option<u32> {
        None
    }

    fn push(&mut self, _: Handle, _: Op) {}

    fn abandon(&mut self, _: u8) {}

    fn rest(&mut self, _: u64, _: &mut Vec<Completion>) -> u64 {
        unreachable!("no part of the CPU is kept for others")
    }

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

/// As many lanes as `control` is for, each with the works that `equip` makes for its number and memory.
pub fn lanes(control: &Arc<Control>, settings: LaneSettings, mut equip: impl FnMut(usize, &Arena) -> Works) -> Vec<Lane<Idle>> {
    let lanes = (0..control.lanes()).map(|_| LaneName::default()).collect();
    let page = Page::heap(&Description { program: "test".into(), lanes, ..Description::default() }).unwrap();
    let lane = |number| {
        let (arena, row) = (Arena::new(settings.memory_bytes).unwrap(), page.lane(number).unwrap());
        let works = equip(number, &arena);
        let kit = Kit::new(number, control, arena, row, &settings, Box::new(|_: Record| {}));
        Lane::new(Idle(1), works, kit, control.clone(), settings)
    };
    (0..control.lanes()).map(lane).collect()
}
