//! How much of the lane's time packets may take: asked before they are received and handled, and told how long that took.
//!
//! ```text
//! collect begins -> what passed since the last one ended was others' -> may packets come, and how many? -> receive, handle
//! collect ends   -> from its begin, or from when packets woke the lane, it was the network's
//! ```
//!
//! FreeBSD's controller has its ticks here: the driver waits for the next one at most, and goes round within a collect as long as the controller says so.

use corelane_isr::polling::{Controller as Kind, Knob, Knobs, Original, Settings, Timed, TimedCounts, Variables};
use corelane_seam::Wait;

/// Ticks that are made up for, at most: with more than a hundred pending the controller has stalled, and forgets them.
const TICKS_LATE: u64 = 128;
/// Nanoseconds from one time that the variables are shown to the next.
const SHOWN_AGAIN: u64 = 100_000_000;

/// The controller of a lane, and when it was asked last.
#[derive(Debug)]
pub(crate) struct Polling {
    settings: Option<Settings>,
    controller: Controller,
    /// When the last collect ended, and when this one began, or the lane woke in it.
    left_at: Option<u64>,
    began: u64,
    /// The last collect brought packets, so there may be more.
    has_demand: bool,
    /// Nanoseconds that packets took.
    network: u64,
}

#[derive(Debug)]
enum Controller {
    /// Packets have the time that they take.
    None,
    Timed(Timed),
    Original(Box<Ticking>),
}

/// FreeBSD's controller and its clock.
#[derive(Debug)]
struct Ticking {
    original: Original,
    /// When the next tick is due, in nanoseconds, and how far apart they are.
    due: u64,
    each: u64,
    /// A poll is scheduled, or has been made and not ended; and frames that each port may bring in it.
    is_scheduled: bool,
    is_polling: bool,
    frames: usize,
    /// The lane has nothing to do, and polls.
    is_idle: bool,
    /// When its variables were shown last.
    shown_at: u64,
}

/// What is seen of polling from outside.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PollingNow {
    /// What is set; none where nothing is.
    pub settings: Option<Settings>,
    /// The controller's variables; by the clock only its burst.
    pub variables: Variables,
    /// Nanoseconds that packets took.
    pub network: u64,
    pub timed: TimedCounts,
}

impl Polling {
    /// One that has told nobody anything; none: packets have the time that they take.
    pub fn new(settings: Option<Settings>) -> Self {
        let controller = settings.map_or(Controller::None, |settings| Controller::of(&settings));
        Self { settings, controller, left_at: None, began: 0, has_demand: false, network: 0 }
    }

    /// From now on this is set; returns whether it was not already. What a controller has found out stays as long as there is the same one.
    pub fn follow(&mut self, settings: Option<Settings>) -> bool {
        if self.settings == settings {
            return false;
        }
        match (&mut self.controller, settings) {
            (Controller::Timed(timed), Some(Settings { controller: Kind::Timed, knobs, other_programs, .. })) => {
                timed.set(knobs, other_programs);
            }
            (Controller::Original(ticking), Some(Settings { controller: Kind::Original, hz, knobs, .. }))
                if hz == ticking.original.hz() =>
            {
                ticking.set(knobs);
            }
            _ => self.controller = settings.map_or(Controller::None, |settings| Controller::of(&settings)),
        }
        (self.settings, self.left_at) = (settings, None);
        true
    }

    /// What is seen of it.
    pub fn now(&self) -> PollingNow {
        let (variables, timed) = match &self.controller {
            Controller::None => Default::default(),
            Controller::Timed(timed) => (Variables { burst: timed.burst(), ..Variables::default() }, timed.counts()),
            Controller::Original(ticking) => (ticking.original.variables(), TimedCounts::default()),
        };
        PollingNow { settings: self.settings, variables, network: self.network, timed }
    }

    /// A collect begins that may wait so.
    pub fn begin(&mut self, now: u64, wait: Wait) {
        self.began = now;
        match &mut self.controller {
            Controller::None => {}
            Controller::Timed(timed) => {
                if let Some(left_at) = self.left_at.replace(now) {
                    // Of a lane that sleeps nobody wants the time.
                    timed.others_took(now.saturating_sub(left_at), self.has_demand && wait == Wait::No);
                }
                if wait != Wait::No {
                    timed.nobody_wants();
                }
            }
            Controller::Original(ticking) => ticking.begin(now, wait),
        }
    }

    /// Packets woke the lane, at this time.
    pub fn woke(&mut self, now: u64) {
        self.began = self.began.max(now);
    }

    /// How long the driver may wait, if it may wait for so long without this.
    pub fn wait(&self, wait: Wait) -> Wait {
        let until = match &self.controller {
            Controller::None => None,
            Controller::Timed(timed) => timed.held_for().map(|held| self.began + held),
            Controller::Original(ticking) if ticking.is_polling || ticking.is_idle => return Wait::No,
            Controller::Original(ticking) => Some(ticking.due),
        };
        match (wait, until) {
            (Wait::Until(time), Some(until)) => Wait::Until(time.min(until)),
            (Wait::Forever, Some(until)) => Wait::Until(until),
            (wait, _) => wait,
        }
    }

    /// Frames that a port may bring now.
    pub fn frames(&self) -> usize {
        match &self.controller {
            Controller::None => usize::MAX,
            Controller::Timed(timed) => timed.frames(),
            Controller::Original(ticking) => ticking.frames,
        }
    }

    /// Whether packets are held, for it is others' time.
    pub fn is_held(&self) -> bool {
        self.frames() == 0
    }

    /// Whether the time is to be told at the end of a collect that has handled so many packets.
    pub fn asks_for_time(&self, packets: usize) -> bool {
        match &self.controller {
            Controller::None => false,
            Controller::Timed(timed) => packets > 0 && !timed.is_idle(),
            Controller::Original(ticking) => ticking.is_polling || packets > 0,
        }
    }

    /// A collect ends that has handled so many packets, and left some or not; the time if it was asked for. Returns whether it is to go round again.
    pub fn end(&mut self, now: Option<u64>, packets: usize, are_left: bool) -> bool {
        self.has_demand = packets > 0;
        let Some(now) = now else { return false };
        self.left_at = Some(now);
        let took = now.saturating_sub(self.began);
        match &mut self.controller {
            Controller::None => false,
            Controller::Timed(timed) => {
                self.network += timed.network_took(took, packets as u64);
                false
            }
            Controller::Original(ticking) => {
                self.network += took;
                ticking.end(now, are_left)
            }
        }
    }

    /// Whether what is seen of it is to be shown though no packet came.
    pub fn is_to_show(&mut self) -> bool {
        match &mut self.controller {
            Controller::Original(ticking) => ticking.is_to_show(self.began),
            _ => false,
        }
    }

    /// Whether packets that may have come are to be looked for before tasks run.
    pub fn is_network_first(&self) -> bool {
        matches!(&self.controller, Controller::Timed(timed) if self.has_demand && timed.is_network_first())
    }
}

impl Controller {
    fn of(settings: &Settings) -> Self {
        let Settings { controller, hz, knobs, other_programs } = *settings;
        match controller {
            Kind::Timed => Self::Timed(Timed::new(knobs, other_programs)),
            Kind::Original => {
                // reason: settings are changed only to what is in range.
                let mut original = Original::new(hz, knobs).expect("settings in their ranges");
                // reason: it has none yet.
                original.register(0).expect("the first handler finds room");
                let each = 1_000_000_000 / u64::from(hz);
                Self::Original(Box::new(Ticking {
                    original,
                    due: 0,
                    each,
                    is_scheduled: false,
                    is_polling: false,
                    frames: 0,
                    is_idle: false,
                    shown_at: 0,
                }))
            }
        }
    }
}

impl Ticking {
    /// Sets the knobs; the bound comes before what it bounds.
    fn set(&mut self, knobs: Knobs) {
        for knob in Knob::ALL {
            let set = self.original.set(knob, knobs.get(knob).into());
            assert!(set.is_ok(), "settings are changed only to what is in range: {set:?}");
        }
    }

    /// Whether its variables are to be shown again, which they are ten times a second.
    fn is_to_show(&mut self, now: u64) -> bool {
        let is_due = now >= self.shown_at + SHOWN_AGAIN;
        if is_due {
            self.shown_at = now;
        }
        is_due
    }

    /// The ticks that are due, and the poll that comes of them.
    fn begin(&mut self, now: u64, wait: Wait) {
        // The first tick is now; a lane that was stopped makes up for some.
        let least = if self.due == 0 { now } else { now.saturating_sub(TICKS_LATE * self.each) };
        self.due = self.due.max(least);
        while self.due <= now {
            self.is_scheduled |= self.original.tick(self.due / 1_000);
            self.due += self.each;
        }
        if self.is_polling {
            return;
        }
        self.is_idle = false;
        let chunk = match std::mem::take(&mut self.is_scheduled) {
            true => {
                self.is_polling = true;
                Some(self.original.poll(now / 1_000))
            }
            // A lane that would sleep has nothing else to do.
            false => self.original.idle_poll().filter(|_| wait != Wait::No).inspect(|_| self.is_idle = true),
        };
        self.frames = chunk.map_or(0, |chunk| chunk.frames as usize);
    }

    /// What came is handled, but for what is left; returns whether there is a chunk more.
    fn end(&mut self, now: u64, are_left: bool) -> bool {
        if are_left || !std::mem::take(&mut self.is_polling) {
            return false;
        }
        self.frames = 0;
        self.is_scheduled |= self.original.end(now / 1_000);
        self.is_scheduled
    }
}
