//! Whether packets can come and go at an interface, and what was lost there.

use corelane_seam::{Lost, PortState};

/// Whether packets can come and go.
#[derive(Debug)]
pub(crate) struct Condition {
    /// This lane tells the operator.
    pub is_first: bool,
    /// Both words together, and what was said of it to the operator.
    pub state: PortState,
    pub told: PortState,
    /// As errors say it, and as the port says it; and whether the port is open.
    pub of_errors: PortState,
    pub of_port: PortState,
    pub is_open: bool,
    pub lost: Lost,
    /// The addresses are to be introduced from now on: who listens is to be told first.
    pub has_come_up: bool,
    /// Something of it has changed since somebody asked.
    pub is_new: bool,
}

impl Condition {
    pub fn new(is_first: bool) -> Self {
        let up = PortState::Up;
        let (has_come_up, is_new, is_open) = (false, false, false);
        Self { is_first, state: up, told: up, of_errors: up, of_port: up, is_open, lost: Lost::default(), has_come_up, is_new }
    }
}
