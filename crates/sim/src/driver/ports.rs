//! The ports of a lane's driver: carries out what is asked of them, outside of the world's state, which they themselves look at.

use crate::check::Booked;
use crate::kind::entered_as;
use crate::lane::Undelivered;
use crate::state::{World, entry};
use corelane_seam::{Attention, Completion, FrameOp, Handle, Op, Outcome, Port, PortEnd, PortId, PortTable};

/// In the simulation everything is looked at.
const ALL: Attention = Attention { receive: true, send: true };

/// What a driver has of ports.
#[derive(Default)]
pub(super) struct Ports {
    asked: Vec<(Booked, FrameOp)>,
    open: PortTable<Booked>,
    /// Those that are closed, whose interface is not done with their memory.
    ending: Vec<(Booked, PortId, Box<dyn Port>)>,
    abandoned: u16,
    /// Ends that the world is to be told of.
    ended: Vec<PortEnd<Booked>>,
}

impl Ports {
    pub(super) fn push(&mut self, asked: Booked, op: FrameOp) {
        self.asked.push((asked, op));
    }

    pub(super) fn abandon(&mut self, work: u8) {
        self.abandoned |= 1 << work;
    }

    /// Drives them, and tells the world how it went.
    pub(super) fn drive(&mut self, world: &World, lane: usize) {
        for port in self.take_abandoned() {
            let op = FrameOp::Close { port };
            let number = world.0.borrow_mut().ledger.enter(lane, Handle::NOBODY, &Op::Frame(FrameOp::Close { port }));
            self.push(Booked { number, handle: Handle::NOBODY }, op);
        }
        let now = world.0.borrow().clock.now();
        self.advance(now);
        let has_more = self.has_more();
        let state = &mut *world.0.borrow_mut();
        let own = &mut state.lanes[lane];
        own.port_news = has_more;
        own.port_wakes_at = self.wakes_at();
        own.ports_open = self.open.len() + self.ending.len();
        for PortEnd { asked, port, outcome, released } in self.ended.drain(..) {
            let entry = entry(asked, port.map(entered_as), outcome);
            let completion = Completion { released, ..entry.completion };
            state.enqueue(lane, Undelivered { completion, ..entry });
        }
    }

    /// Does what can be done now.
    fn advance(&mut self, now: u64) {
        let Self { open, ending, ended, .. } = self;
        for (asked, op) in self.asked.drain(..) {
            let work = asked.handle.work();
            match op {
                FrameOp::Open(port) => drop(open.take_up(work, asked, port, ended)),
                op => open.begin(now, work, asked, op, ended),
            }
        }
        let ids: Vec<_> = open.ids().collect();
        for port in ids {
            open.attend(now, port, ALL, ended);
            ending.extend(open.take_closed(port).map(|(asked, closed)| (asked, port, closed)));
        }
        for (asked, port, _) in ending.extract_if(.., |(.., port)| port.end(now)) {
            ended.push(PortEnd { asked, port: Some(port), outcome: Outcome::Closed, released: true });
        }
    }

    /// The earliest time at which one of them wants to be asked again.
    fn wakes_at(&self) -> Option<u64> {
        self.open.wakes_at().into_iter().chain(self.ending.iter().filter_map(|(.., port)| port.wakes_at())).min()
    }

    /// Ports of works that have left, to be closed.
    fn take_abandoned(&mut self) -> Vec<PortId> {
        let works = std::mem::take(&mut self.abandoned);
        self.open.of_works(|work| works >> work & 1 == 1)
    }

    /// Whether a receive found nothing though there is more: what lay ready was lost on its way.
    fn has_more(&self) -> bool {
        self.open.ids().any(|port| self.open.can_receive(port))
    }
}
