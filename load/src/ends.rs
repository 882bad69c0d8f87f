//! What a lane of a run is given: where it reports to, and what can end it.

use crate::course::{Course, Event};
use crate::plan::Plan;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

/// Where the lanes of a run report to, and what can end it.
#[derive(Clone)]
pub struct Ends {
    pub(crate) plan: Arc<Plan>,
    pub(crate) events: Sender<Event>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Ends {
    /// The part of one lane.
    pub fn course(&self, lane: usize) -> Course {
        Course::new(self.plan.clone(), lane, self.events.clone(), self.stop.clone())
    }

    /// The run's plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }
}
