//! How much of the lane's time packets may take: asked before they are received and handled, and told how long that took.
//!
//! ```text
//! collect begins -> what passed since the last one ended was others' -> may packets come? -> receive, handle
//! collect ends   -> from its begin, or from when packets woke the lane, it was the network's
//! ```

use corelane_isr::polling::timed::{Shares, Timed};
use corelane_seam::Wait;

/// The controller of a lane, and when it was asked last.
#[derive(Debug)]
pub(crate) struct Polling {
    timed: Timed,
    /// When the last collect ended.
    left_at: Option<u64>,
    /// When this collect began, or the lane woke in it.
    began: u64,
    /// The last collect brought packets, so there may be more.
    has_demand: bool,
}

impl Polling {
    /// One that holds packets to these shares; none: to no share.
    pub fn new(shares: Option<Shares>) -> Self {
        let unheld = Shares { user_frac: 0, burst_max: u32::MAX, each_burst: u32::MAX, other_programs: false };
        Self { timed: Timed::new(shares.unwrap_or(unheld)), left_at: None, began: 0, has_demand: false }
    }

    /// The controller, to be asked what it has counted.
    pub fn timed(&self) -> &Timed {
        &self.timed
    }

    /// Other shares hold from now on.
    pub fn set(&mut self, shares: Shares) {
        self.timed.set(shares);
        self.left_at = None;
    }

    /// A collect begins that may wait so.
    pub fn begin(&mut self, now: u64, wait: Wait) {
        self.began = now;
        if self.timed.is_idle() {
            return;
        }
        if let Some(left_at) = self.left_at.replace(now) {
            // Of a lane that slept nobody wanted the time.
            self.timed.others_took(now.saturating_sub(left_at), self.has_demand && wait == Wait::No);
        }
        if wait != Wait::No {
            self.timed.nobody_wants();
        }
    }

    /// Packets woke the lane, at this time.
    pub fn woke(&mut self, now: u64) {
        self.began = self.began.max(now);
    }

    /// How long the driver may wait, if it may wait for so long without this.
    pub fn wait(&self, wait: Wait) -> Wait {
        let Some(until) = self.timed.held_for().map(|held| self.began + held) else { return wait };
        match wait {
            Wait::No => Wait::No,
            Wait::Until(time) => Wait::Until(time.min(until)),
            Wait::Forever => Wait::Until(until),
        }
    }

    /// Frames that a port may bring now.
    pub fn frames(&self) -> usize {
        self.timed.frames()
    }

    /// Whether packets are held, for it is others' time.
    pub fn is_held(&self) -> bool {
        self.timed.frames() == 0
    }

    /// Whether the time is to be told at the end of a collect that has handled so many packets.
    pub fn asks_for_time(&self, packets: usize) -> bool {
        packets > 0 && !self.timed.is_idle()
    }

    /// A collect ends that has handled so many packets; the time if it was asked for.
    pub fn end(&mut self, now: Option<u64>, packets: usize) {
        self.has_demand = packets > 0;
        if let Some(now) = now {
            self.timed.network_took(now.saturating_sub(self.began), packets as u64);
            self.left_at = Some(now);
        }
    }

    /// Whether packets that may have come are to be looked for before tasks run.
    pub fn is_network_first(&self) -> bool {
        self.has_demand && self.timed.is_network_first()
    }
}
