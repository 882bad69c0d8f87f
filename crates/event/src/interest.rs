//! One interest: what was registered, and what has come since.

use corelane_os::events::polling::Readiness;
use corelane_seam::slab::Key;

use crate::record::{Change, Event, Filter, Flags, Manner, notes};

/// What of an interest's flags is kept, and told with its events.
const KEPT: Flags =
    Flags::ONESHOT.union(Flags::CLEAR).union(Flags::RECEIPT).union(Flags::DISPATCH).union(Flags::FLAG1).union(Flags::DROP);

/// Interest in one filter of one ident.
pub struct Interest {
    pub ident: u64,
    pub filter: Filter,
    pub flags: Flags,
    /// As last given with ADD.
    pub notes: u32,
    /// As last given with ADD.
    pub data: i64,
    pub cookie: u64,
    pub ext: [u64; 4],
    /// Told of no more until it is enabled.
    pub disabled: bool,
    /// Told whatever its origin says (FORCEONESHOT, [`Queue::mark`](crate::Queue::mark)).
    pub forced: bool,
    pub manner: Manner,
    /// Told in the call that waits on for more: not again before its end.
    pub held: bool,
    /// By which call it was told last.
    pub told_in: u64,
    /// When its origin is asked again, where nothing tells of it.
    pub again: Option<u64>,
    pub source: Source,
}

/// Where an interest's activity comes from, and what of it was not told yet.
pub enum Source {
    /// An origin with a descriptor.
    Descriptor(Key),
    /// A file, and its changes, in notes.
    File(Key, u32),
    /// A process: what it has done, in notes; for a child that is followed its parent; what it has ended with, as far as it was heard.
    Process {
        origin: Key,
        came: u32,
        parent: u32,
        status: Option<i32>,
    },
    Timer(Timing),
    /// The signal's count when last told.
    Signal(u64),
    User(Trigger),
    /// What was posted.
    Posted(Option<(u32, i64)>),
    /// Nothing more: its origin has ended, which is to be told.
    Ended,
    /// How an operation, or a list of them, was over.
    Submitted(Option<Told>),
}

/// A timer's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// When it goes off next, or went off first since it was told; nanoseconds of its clock.
    pub due: u64,
    /// Nanoseconds between two expirations; 0 for an instant.
    pub period: u64,
    /// By the wall clock.
    pub wall: bool,
    /// Went off, and was not told.
    pub fired: bool,
}

/// A user event's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trigger {
    /// The program's 24 bits.
    pub bits: u32,
    pub data: i64,
    pub on: bool,
}

/// What an origin says of itself now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub notes: u32,
    pub data: i64,
    pub flags: Flags,
}

impl Interest {
    pub fn new(change: &Change, source: Source) -> Self {
        Self {
            ident: change.ident,
            filter: change.filter,
            flags: change.flags & KEPT,
            notes: change.notes,
            data: change.data,
            cookie: change.cookie,
            ext: change.ext,
            disabled: change.flags.contains(Flags::DISABLE),
            forced: false,
            manner: Manner::empty(),
            held: false,
            told_in: 0,
            again: None,
            source,
        }
    }

    /// Whether it may be told at all.
    pub fn is_heard(&self) -> bool {
        !self.disabled && !self.held
    }

    /// The descriptor's origin, if it has one.
    pub fn origin(&self) -> Option<Key> {
        match self.source {
            Source::Descriptor(origin) | Source::File(origin, _) | Source::Process { origin, .. } => Some(origin),
            _ => None,
        }
    }

    /// What the set is to tell of its descriptor.
    pub fn needs(&self) -> Readiness {
        match self.filter {
            Filter::Read => Readiness::IN | Readiness::RDHUP,
            Filter::Write => Readiness::OUT,
            Filter::Process | Filter::ProcessDescriptor => Readiness::IN,
            Filter::Except if self.notes & notes::OOB != 0 => Readiness::PRI,
            Filter::Ready => needs_of(self.notes),
            Filter::Poll => Readiness::from_bits_truncate(self.notes) & POLLED,
            // Nothing tells that a buffer is drained; files are not in the set.
            _ => Readiness::empty(),
        }
    }

    /// Whether readiness `what` is of interest.
    pub fn concerns(&self, what: Readiness) -> bool {
        let end = Readiness::ERR | Readiness::HUP;
        !matches!(self.filter, Filter::Vnode | Filter::Empty) && what.intersects(self.needs() | end)
    }

    /// From how many bytes on it is active.
    pub fn low_water(&self) -> i64 {
        let has_mark = matches!(self.filter, Filter::Read | Filter::Write) && self.notes & notes::LOWAT != 0;
        if has_mark { self.data } else { 1 }
    }

    /// As an event.
    pub fn event(&self, told: Told) -> Event {
        Event {
            ident: self.ident,
            filter: self.filter,
            flags: self.flags | told.flags,
            notes: told.notes,
            data: told.data,
            cookie: self.cookie,
            ext: self.ext,
        }
    }

    /// Whether what does not come from a descriptor has come and was not told, or may have: what other queues have read of signals is known to who
    /// asks alone.
    pub fn is_pending(&self) -> bool {
        match &self.source {
            Source::Descriptor(_) => false,
            Source::Signal(_) | Source::Ended => true,
            Source::File(_, came) | Source::Process { came, .. } => *came != 0,
            Source::Timer(timing) => timing.fired,
            Source::User(trigger) => trigger.on,
            Source::Posted(posted) => posted.is_some(),
            Source::Submitted(ended) => ended.is_some(),
        }
    }

    /// Forgets what was told (CLEAR).
    pub fn clear(&mut self) {
        match &mut self.source {
            Source::File(_, came) | Source::Process { came, .. } => *came = 0,
            // What the program has put there stays.
            Source::User(trigger) => trigger.on = false,
            Source::Posted(posted) => *posted = None,
            // A period counts from what was told on; an instant comes once.
            Source::Timer(timing) => timing.fired = false,
            // A signal counts from what was told on; a descriptor has its state itself; an operation, and an origin, ends once.
            Source::Signal(_) | Source::Descriptor(_) | Source::Submitted(_) | Source::Ended => {}
        }
    }
}

/// What poll(2) can be asked for.
const POLLED: Readiness = Readiness::IN
    .union(Readiness::PRI)
    .union(Readiness::OUT)
    .union(Readiness::RDNORM)
    .union(Readiness::RDBAND)
    .union(Readiness::WRNORM)
    .union(Readiness::WRBAND)
    .union(Readiness::RDHUP);

/// What notes of [`Filter::Ready`] stand for.
fn needs_of(asked: u32) -> Readiness {
    let receives = asked & (notes::RECV | notes::ACCEPT) != 0;
    let receiving = if receives { Readiness::IN | Readiness::RDHUP } else { Readiness::empty() };
    let sending = if asked & notes::SEND != 0 { Readiness::OUT } else { Readiness::empty() };
    receiving | sending
}

impl Trigger {
    /// Takes what a change says (kqueue(2), EVFILT_USER).
    pub fn touch(&mut self, change: &Change) {
        let given = change.notes & notes::FLAGS_MASK;
        match change.notes & notes::CONTROL_MASK {
            notes::AND => self.bits &= given,
            notes::OR => self.bits |= given,
            notes::COPY => self.bits = given,
            _ => {}
        }
        self.data = change.data;
        self.on |= change.notes & notes::TRIGGER != 0;
    }
}

impl Timing {
    /// What a change asks for; none if it can never be.
    pub fn of(change: &Change, now: impl Fn(bool) -> u64) -> Option<Self> {
        let unit: u64 = match change.notes & !notes::ABSTIME {
            0 | notes::MSECONDS => 1_000_000,
            notes::SECONDS => 1_000_000_000,
            notes::USECONDS => 1_000,
            notes::NSECONDS => 1,
            _ => return None,
        };
        let given = u64::try_from(change.data).ok()?;
        let wall = change.notes & notes::ABSTIME != 0;
        if wall {
            return Some(Self { due: given.saturating_mul(unit), period: 0, wall, fired: false });
        }
        let period = given.max(1).saturating_mul(unit);
        Some(Self { due: now(false).saturating_add(period), period, wall, fired: false })
    }

    /// Expirations up to `now`, of one that went off.
    pub fn expirations(&self, now: u64) -> u64 {
        assert!(self.fired, "only what went off is counted");
        now.saturating_sub(self.due).checked_div(self.period).map_or(1, |missed| missed + 1)
    }

    /// Counts on from `expirations` that were told.
    pub fn next(&mut self, expirations: u64) {
        assert!(expirations > 0, "one that went off has expired");
        self.fired = false;
        self.due = self.due.saturating_add(self.period.saturating_mul(expirations));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_counts_what_was_not_told() {
        let change = Change { data: 10, ..Change::add(1, Filter::Timer) };
        let mut timing = Timing::of(&change, |_| 5).expect("ten milliseconds");
        assert_eq!((timing.due, timing.period), (10_000_005, 10_000_000));
        timing.fired = true;
        assert_eq!(timing.expirations(10_000_005), 1);
        assert_eq!(timing.expirations(30_000_004), 2);
        timing.next(2);
        assert_eq!((timing.due, timing.fired), (30_000_005, false));
    }

    #[test]
    fn a_timers_unit_is_one_and_its_time_not_negative() {
        let of = |notes, data| Timing::of(&Change { notes, data, ..Change::add(1, Filter::Timer) }, |_| 0);
        assert_eq!(of(notes::SECONDS, i64::MAX).map(|timing| timing.period), Some(u64::MAX));
        assert_eq!(of(notes::USECONDS, 0).map(|timing| timing.period), Some(1_000));
        assert_eq!((of(0, -1), of(notes::SECONDS | notes::USECONDS, 1)), (None, None));
        assert_eq!(of(0x100, 1), None, "no unit, and no instant");
        let instant = of(notes::ABSTIME | notes::NSECONDS, 7).expect("an instant");
        assert_eq!((instant.due, instant.period, instant.wall), (7, 0, true));
    }

    #[test]
    fn a_user_event_takes_bits_by_the_operation_asked_for() {
        let mut trigger = Trigger::default();
        let mut touch = |notes| {
            trigger.touch(&Change { notes, ..Change::add(1, Filter::User) });
            (trigger.bits, trigger.on)
        };
        assert_eq!(touch(notes::COPY | 0xff_00ff), (0xff_00ff, false));
        assert_eq!(touch(notes::AND | 0x0f), (0x0f, false));
        assert_eq!(touch(notes::OR | 0x30), (0x3f, false));
        assert_eq!(touch(notes::NOP | notes::TRIGGER | 0xff), (0x3f, true));
    }
}
