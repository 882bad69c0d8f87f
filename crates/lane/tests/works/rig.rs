//! Lanes with works in a simulated world.

use corelane_lane::{Control, Kit, Lane, LaneSettings, Order, Turn as LaneTurn, Works};
use corelane_seam::{Arena, Record, Tuning};
use corelane_sim::{Faults, SimDriver, Turn, World};
use corelane_watch::{Description, LaneCounter, LaneName, Page, Reader};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A millisecond, in nanoseconds.
pub const MS: u64 = 1_000_000;
/// Steps after which a world is said never to come to rest.
const STEPS_MAX: usize = 2_000_000;
/// The token of the alarm that ends a span of time.
const SPAN_IS_OVER: u64 = u64::MAX;

/// The lanes' host, at a port.
pub fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], port))
}

/// A client's host.
pub fn client(number: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + number], 0))
}

pub struct Rig {
    pub world: World,
    pub control: Arc<Control>,
    pub page: Page,
    pub reports: Rc<RefCell<Vec<Record>>>,
    lanes: Vec<Option<Lane<SimDriver>>>,
    arenas: Vec<Arena>,
}

impl Rig {
    /// Lanes with the works that `works` makes for each; it gets the lane's number and driver.
    pub fn new(
        world: World,
        control: Arc<Control>,
        settings: LaneSettings,
        mut works: impl FnMut(usize, &mut SimDriver) -> Works,
    ) -> Self {
        let page = Page::heap(&Description {
            program: "simulation".into(),
            lanes: (0..control.lanes()).map(|_| LaneName::default()).collect(),
            ..Description::default()
        });
        let (page, reports) = (page.unwrap(), Rc::new(RefCell::new(Vec::new())));
        let mut rig = Self { world, control, page, reports, lanes: Vec::new(), arenas: Vec::new() };
        for number in 0..rig.control.lanes() {
            let arena = Arena::new(settings.memory_bytes).unwrap();
            let mut driver = rig.world.driver(arena.clone(), Tuning::default());
            let works = works(number, &mut driver);
            let lines = rig.reports.clone();
            let report = Box::new(move |record| lines.borrow_mut().push(record));
            let kit = Kit::new(number, &rig.control, arena.clone(), rig.page.lane(number).unwrap(), &settings, report);
            rig.lanes.push(Some(Lane::new(driver, works, kit, rig.control.clone(), settings)));
            rig.arenas.push(arena);
        }
        rig
    }

    /// A world of its own, with one lane.
    pub fn one(works: impl FnMut(usize, &mut SimDriver) -> Works) -> Self {
        Self::new(World::new(1, Faults::none()), Control::new(1), settings(), works)
    }

    pub fn lane(&self, number: usize) -> Option<&Lane<SimDriver>> {
        self.lanes[number].as_ref()
    }

    pub fn arena(&self, lane: usize) -> &Arena {
        &self.arenas[lane]
    }

    pub fn count(&self, counter: LaneCounter) -> u64 {
        Reader::of(&self.page).unwrap().snapshot(0).total.get(counter)
    }

    /// One step of the world; none if nobody has anything to do.
    fn step(&mut self) -> Option<Turn> {
        let turn = self.world.step()?;
        if let Turn::Lane(number) = turn
            && let Some(lane) = self.lanes[number].as_mut()
            && lane.turn() == LaneTurn::Ended
        {
            self.lanes[number] = None;
        }
        Some(turn)
    }

    /// Lets a span of time pass.
    pub fn pass(&mut self, nanoseconds: u64) {
        self.world.alarm(self.world.now() + Duration::from_nanos(nanoseconds), SPAN_IS_OVER);
        while !matches!(self.step(), Some(Turn::Alarm(SPAN_IS_OVER))) {}
    }

    /// Lets everybody run until something has happened.
    pub fn until(&mut self, mut is_over: impl FnMut() -> bool) {
        for _ in 0..STEPS_MAX {
            if is_over() {
                return;
            }
            assert!(self.step().is_some(), "everybody waits for ever");
        }
        panic!("it never happens");
    }

    pub fn has_ended(&self) -> bool {
        self.lanes.iter().all(Option::is_none)
    }

    /// Gives an order, and lets everybody run until all lanes have ended.
    pub fn until_ended(&mut self, order: Order) {
        self.end(order);
        for arena in &self.arenas {
            assert_eq!(arena.used(), 0, "memory of an ended lane is in use");
        }
    }

    /// The same, where memory may be on its way home still.
    pub fn end(&mut self, order: Order) {
        self.control.give(order);
        for _ in 0..STEPS_MAX {
            if self.has_ended() || self.step().is_none() {
                break;
            }
        }
        assert!(self.has_ended(), "lanes do not end");
    }
}

/// What lanes of these tests have: little of everything.
pub fn settings() -> LaneSettings {
    LaneSettings::new().memory_bytes(4 << 20).channel_messages(2).turn_completions(4).turn_other(2)
}
