//! Whether packets can come and go at a port, and what was lost there.

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
    /// Something of it has changed since somebody asked.
    pub is_new: bool,
}

impl Condition {
    pub fn new(is_first: bool) -> Self {
        let up = PortState::Up;
        let (is_new, is_open) = (false, false);
        Self { is_first, state: up, told: up, of_errors: up, of_port: up, is_open, lost: Lost::default(), is_new }
    }
}
