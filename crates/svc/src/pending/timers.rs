//! The timers of services: each belongs to a connection, which has a bounded number of them and takes them with it.

use crate::words::class;
use crate::words::names::ConnectionId;
use corelane_lane::{Kit, TimerId};
use corelane_seam::Handle;
use corelane_seam::slab::{HandleSlab, Key};

/// Names a timer of a connection ([`Cx::start_timer`](crate::Cx::start_timer)); void once it has come or was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timer {
    index: u32,
    generation: u32,
}

impl Timer {
    /// The one that a handle of its class names.
    pub(crate) fn of(handle: Handle) -> Self {
        Self { index: handle.index(), generation: handle.generation() }
    }
}

/// No timer.
const NONE: u32 = u32::MAX;

/// A timer that a service started.
struct ServiceTimer {
    connection: ConnectionId,
    token: u64,
    id: Option<TimerId>,
    /// Its neighbours among the timers of its connection.
    before: u32,
    after: u32,
}

/// A connection's timers.
#[derive(Clone, Copy)]
pub(crate) struct TimerList {
    first: u32,
    length: u32,
}

impl TimerList {
    pub(crate) const EMPTY: Self = Self { first: NONE, length: 0 };

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn len(&self) -> u32 {
        self.length
    }
}

/// The timers of a lane's services.
pub(crate) struct Timers {
    running: HandleSlab<ServiceTimer>,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self { running: HandleSlab::new() }
    }

    /// Starts a timer of a connection, of which the list of its timers is given.
    pub(crate) fn start(
        &mut self,
        kit: &mut Kit,
        (connection, list): (ConnectionId, &mut TimerList),
        deadline: u64,
        token: u64,
    ) -> Timer {
        let after = list.first;
        let Key { index, generation } = self.running.insert(ServiceTimer { connection, token, id: None, before: NONE, after });
        *list = TimerList { first: index, length: list.length + 1 };
        assert!((after == NONE) == (list.length == 1), "a list has a first timer if it has any");
        if after != NONE {
            let before = std::mem::replace(&mut self.linked(after).before, index);
            assert_eq!(before, NONE, "before the first timer there is none");
        }
        assert!(self.running.len() as u32 >= list.length, "the timers of one are among those of all");
        let id = kit.start_timer(deadline, Handle::new(class::TIMER, index, generation));
        self.linked(index).id = Some(id);
        Timer { index, generation }
    }

    /// Whose timer it is. None once it has come or was stopped.
    pub(crate) fn owner(&self, timer: Timer) -> Option<ConnectionId> {
        self.running.get(Key::new(timer.index, timer.generation)).map(|timer| timer.connection)
    }

    /// A timer has come: takes it from the list of its connection, and returns the token under which its service knows it.
    pub(crate) fn come(&mut self, timer: Timer, list: &mut TimerList) -> u64 {
        self.unlink(timer.index, list).token
    }

    /// Stops a timer that is in the list of its connection.
    pub(crate) fn stop(&mut self, kit: &mut Kit, timer: Timer, list: &mut TimerList) {
        self.end(kit, timer.index, list);
    }

    /// Ends all timers of a list.
    pub(crate) fn end_all(&mut self, kit: &mut Kit, list: &mut TimerList) {
        while list.first != NONE {
            self.end(kit, list.first, list);
        }
        assert!(list.is_empty(), "a list without a first timer has {} more", list.length);
    }

    fn end(&mut self, kit: &mut Kit, index: u32, list: &mut TimerList) {
        // reason: given when it was started.
        kit.stop_timer(self.unlink(index, list).id.expect("a timer that runs is the lane's as well"));
    }

    fn unlink(&mut self, index: u32, list: &mut TimerList) -> ServiceTimer {
        // Who calls this has it from a list, or has just seen it.
        let timer = self.running.remove_at(index);
        assert!(list.length > 0, "a timer is in the list of its connection");
        list.length -= 1;
        match timer.before {
            NONE => {
                assert!(list.first == index, "a timer without one before it is the first");
                list.first = timer.after;
            }
            before => self.linked(before).after = timer.after,
        }
        if timer.after != NONE {
            self.linked(timer.after).before = timer.before;
        }
        timer
    }

    fn linked(&mut self, index: u32) -> &mut ServiceTimer {
        self.running.at_mut(index)
    }
}
