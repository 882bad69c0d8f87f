//! The lane's kit: what its work may use, and where it leaves what it wants done.

use crate::control::Control;
use crate::mesh::{Mesh, Message};
use crate::report::{Report, Throttle};
use crate::tasks::Tasks;
use crate::wheel::{TimerId, Wheel};
use corelane_seam::{Arena, Driver, Handle, Op, Socket};
use corelane_watch::{LaneCounter, LaneRow};
use std::sync::Arc;

/// A lane's settings. Each bound has a counter of the same name's root in the lane's page row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// Completions that one turn takes at the most: the budget. Default 256.
    pub turn_completions: usize,
    /// Timers, tasks, and messages of each other lane that one turn works off. Default 256.
    pub turn_other: usize,
    /// Nanoseconds that a lane goes on looking for work before it sleeps. Default 0.
    pub spin_nanoseconds: u64,
    /// Bytes of the lane's memory. Default 64 MiB; reserved, and committed as it is used.
    pub memory_bytes: usize,
    /// Tasks that may exist at once. Default 65,536.
    pub tasks_max: usize,
    /// Messages that may wait in one channel. Default 1,024.
    pub channel_messages: usize,
}

impl Default for LaneSettings {
    fn default() -> Self {
        Self {
            turn_completions: 256,
            turn_other: 256,
            spin_nanoseconds: 0,
            memory_bytes: 64 << 20,
            tasks_max: 65_536,
            channel_messages: 1024,
        }
    }
}

/// Timers fire at multiples of this, in nanoseconds.
pub const TIMER_RESOLUTION: u64 = 1_000_000;

/// What the work of a lane may use: memory, clock, timers, tasks, messages, and the outbox for operations.
pub struct Kit {
    /// The lane's memory.
    pub arena: Arena,
    /// The lane's tasks.
    pub tasks: Tasks,
    /// The lane's row of counters.
    pub row: LaneRow,
    /// The time, in nanoseconds, at which the work wants a turn even if nothing happens until then; `u64::MAX` if it does not. To the
    /// clock's own resolution, unlike timers.
    pub alarm: u64,
    pub(crate) wheel: Wheel<Handle>,
    pub(crate) mesh: Mesh,
    pub(crate) now: u64,
    outbox: Vec<(Handle, Op)>,
    /// Connections whose side is to be finished behind the outbox.
    finished: Vec<Socket>,
    /// Storage for the messages of one turn.
    pub(crate) arrived: Vec<(usize, Message)>,
    report: Box<dyn Report>,
    throttle: Throttle,
    pub(crate) offload_max: usize,
    lane: usize,
    lanes: usize,
}

impl Kit {
    /// The kit of lane `lane`. `report` takes each line that an operator should see.
    pub fn new(
        lane: usize,
        control: &Arc<Control>,
        mesh: Mesh,
        arena: Arena,
        row: LaneRow,
        settings: &LaneSettings,
        report: Box<dyn Report>,
    ) -> Self {
        let bell = control.bell(lane).clone();
        Self {
            arena,
            tasks: Tasks::new(settings.tasks_max, bell),
            row,
            alarm: u64::MAX,
            wheel: Wheel::new(TIMER_RESOLUTION, 0),
            mesh,
            now: 0,
            outbox: Vec::with_capacity(settings.turn_completions),
            finished: Vec::new(),
            arrived: Vec::new(),
            report,
            throttle: Throttle::default(),
            offload_max: 0,
            lane,
            lanes: control.lanes(),
        }
    }

    /// This lane's number, from 0.
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// How many lanes the program has.
    pub fn lanes(&self) -> usize {
        self.lanes
    }

    /// The clock as this turn read it: nanoseconds of the driver's monotonic clock.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// How many offloaded calls may be under way at once.
    pub fn offload_max(&self) -> usize {
        self.offload_max
    }

    /// Submits an operation at the end of this turn, together with all others.
    pub fn submit(&mut self, handle: Handle, op: Op) {
        self.outbox.push((handle, op));
    }

    /// Ends our side of a connection at the end of this turn, after the operations submitted before.
    pub fn finish(&mut self, socket: Socket) {
        self.finished.push(socket);
    }

    /// Starts a timer that comes back as `handle` at `deadline` (nanoseconds) or up to a millisecond after it.
    pub fn start_timer(&mut self, deadline: u64, handle: Handle) -> TimerId {
        self.wheel.insert(self.now, deadline, handle)
    }

    /// Stops a timer; one that has fired already is left alone.
    pub fn stop_timer(&mut self, timer: TimerId) {
        self.wheel.cancel(timer);
    }

    /// Sends a message to another lane; it arrives in that lane's next turn.
    ///
    /// # Errors
    /// The message comes back, and is counted, if the channel is full or there is no such lane.
    pub fn send(&mut self, to: usize, message: Message) -> Result<(), Message> {
        let sent = self.mesh.send(to, message);
        let counter = if sent.is_ok() { LaneCounter::MessagesSent } else { LaneCounter::MessagesRefused };
        self.row.add(counter, 1);
        sent
    }

    /// Tells the operator something, as one line.
    pub fn report(&mut self, line: &str) {
        self.report.line(line);
    }

    /// Tells the operator what others may cause as often as they like: a line of each kind at most once a second, with how many were
    /// left out. There are few kinds, each with a name in the source.
    pub fn report_kind(&mut self, kind: &'static str, line: &str) {
        if self.throttle.passes(kind, self.now) {
            self.report.line(line);
        }
    }

    /// When something that was left out is to be told; `u64::MAX` if nothing was.
    pub(crate) fn left_out_due(&self) -> u64 {
        self.throttle.due()
    }

    /// Tells how much was left out, of the kinds whose second is over.
    pub(crate) fn tell_left_out(&mut self, now: u64) {
        while let Some((kind, count)) = self.throttle.take(now) {
            self.report.line(&format!("lane {}: {count} more lines on {kind} were left out", self.lane));
        }
    }

    /// Lines that were not told after all.
    pub(crate) fn lines_dropped(&self) -> u64 {
        self.report.dropped()
    }

    /// Hands the outbox to the driver; answers whether there was anything.
    pub(crate) fn hand_over(&mut self, driver: &mut impl Driver) -> bool {
        let any = !(self.outbox.is_empty() && self.finished.is_empty());
        driver.push_all(&mut self.outbox);
        for socket in self.finished.drain(..) {
            driver.finish(socket);
        }
        any
    }
}
