//! Limits that change while lanes serve.

use crate::lanes::builder::Served;
use corelane_lane::Tell;
use corelane_svc::{Command, Limits, Steer};
use std::sync::Arc;

/// Changes limits of the services, from any thread. Clones change the same.
#[derive(Clone)]
pub struct LiveLimits {
    tell: Tell<Steer>,
    lanes: usize,
    /// The services by number: name, and the limits that they began with.
    services: Arc<[(String, Limits)]>,
}

impl LiveLimits {
    pub(crate) fn new(tell: Tell<Steer>, lanes: usize, served: &[Served]) -> Self {
        let services = served.iter().map(|served| (served.name.clone(), served.limits)).collect();
        Self { tell, lanes, services }
    }

    /// Gives each service, by its name, the limits that `of` makes of those that it began with; of these the ones in [`Limits::LIVE`] count.
    /// Lanes take them with their next turn; one that has ended takes none.
    pub fn change(&self, of: impl Fn(&str, Limits) -> Limits) {
        let limits: Arc<[Limits]> = self.services.iter().map(|(name, began)| of(name, *began)).collect();
        assert!(limits.len() == self.services.len(), "each service has its limits");
        for lane in 0..self.lanes {
            let command = Command::Limits(limits.clone());
            // A lane that has ended, or has thousands of words to hear, goes on as it is.
            let _ = self.tell.tell(lane, Steer { command, reply: Box::new(drop) });
        }
    }
}
