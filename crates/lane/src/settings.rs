//! A lane's settings, and what a work may take of a turn.

use corelane_seam::builders;
use std::time::Duration;

/// A lane's settings. Each bound has a counter of the same name's root in the lane's page row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneSettings {
    /// Completions that one turn takes at the most, for each work that has no budget of its own. Default 256.
    pub turn_completions: usize,
    /// Timers, tasks, and messages of each other lane that one turn works off, as above. Default 256.
    pub turn_other: usize,
    /// How long a lane goes on looking for work before it sleeps. Default zero.
    pub spin: Duration,
    /// Bytes of the lane's memory. Default 64 MiB; reserved, and committed as it is used.
    pub memory_bytes: usize,
    /// Tasks that may exist at once. Default 65,536.
    pub tasks_max: usize,
    /// Messages that may wait in one channel. Default 1,024.
    pub channel_messages: usize,
}

impl LaneSettings {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            turn_completions: 256,
            turn_other: 256,
            spin: Duration::ZERO,
            memory_bytes: 64 << 20,
            tasks_max: 65_536,
            channel_messages: 1024,
        }
    }
}

builders!(LaneSettings {
    turn_completions: usize,
    turn_other: usize,
    spin: Duration,
    memory_bytes: usize,
    tasks_max: usize,
    channel_messages: usize,
});

impl Default for LaneSettings {
    fn default() -> Self {
        Self::new()
    }
}

/// What one work of several may take of a turn. What is more waits for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Completions.
    pub completions: usize,
    /// Timers, and messages of each other lane.
    pub other: usize,
}

impl Budget {
    /// What a work has that was given none of its own.
    pub(crate) fn of(settings: &LaneSettings) -> Self {
        Self { completions: settings.turn_completions, other: settings.turn_other }
    }
}
