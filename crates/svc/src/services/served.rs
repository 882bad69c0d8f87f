//! The code of a lane's services, and the table that it works on: what the end of an operation, a timer or a notice of theirs needs, and no more. How
//! connections come, and how the lane is steered and drained, stands above it ([`Services`](crate::Services)), and is called by none of this.

use crate::pending::requests::{Ended, Submitter};
use crate::service::face::Face;
use crate::table::LaneTable;
use corelane_lane::{Fenced, Kit};
use corelane_seam::{Completion, Handle, OffloadResult, Outcome};
use corelane_watch::LaneCounter;
use std::sync::atomic::Ordering;

/// The code of all services of one lane, and the table of what they have.
pub(crate) struct Served {
    pub(crate) faces: Vec<Face>,
    pub(crate) table: LaneTable,
    /// The services that talk, by number.
    pub(crate) talking: Vec<u16>,
}

impl Served {
    /// No service yet; at most `connections_max` connections in all.
    pub(crate) fn new(connections_max: u32) -> Self {
        Self { faces: Vec::new(), table: LaneTable::new(connections_max), talking: Vec::new() }
    }

    pub(crate) fn request_completed(&mut self, kit: &mut Kit, handle: Handle, completion: Completion) {
        if !completion.more && matches!(completion.outcome, Outcome::Released) {
            return;
        }
        let requests = &mut self.table.requests;
        let told = match completion.more {
            true => requests.told(handle, completion.outcome),
            false => requests.end(kit, handle, completion.outcome),
        };
        let Some(Ended { service, asker, outcome }) = told else {
            return kit.row.add(LaneCounter::CompletionsStale, 1);
        };
        let token = match asker {
            Submitter::Service(token) => token,
            // It may have gone meanwhile.
            Submitter::Output(id) => return self.table.found(id).map_or((), |mut found| found.fetched(kit, outcome)),
        };
        self.table.tell_bursts(kit, service);
        let outcome = unfence(outcome);
        self.service_call(kit, service, |face, cx| face.completed(cx, token, outcome));
    }

    /// Calls the services whose alarms have come, and tells the lane when the next one comes.
    pub(crate) fn ring_alarms(&mut self, kit: &mut Kit) {
        if kit.now() >= kit.alarm {
            for service in 0..self.faces.len() as u16 {
                self.ring_alarms_of(kit, service);
            }
        }
        kit.alarm = self.table.services.iter().map(|state| state.alarms.first()).min().unwrap_or(u64::MAX);
    }

    fn ring_alarms_of(&mut self, kit: &mut Kit, service: u16) {
        self.table.services[service as usize].alarms.come(kit.now());
        while let Some(token) = self.table.services[service as usize].alarms.next_due() {
            self.service_call(kit, service, |face, cx| face.alarm(cx, token));
        }
    }
}

impl LaneTable {
    /// Counts and reports the panics that the lane did not see.
    pub(crate) fn tell_bursts(&mut self, kit: &mut Kit, service: u16) {
        let bursts = &self.services[service as usize].bursts;
        if bursts.load(Ordering::Relaxed) == 0 {
            return;
        }
        for _ in 0..bursts.swap(0, Ordering::Relaxed) {
            self.report_panic(kit, service, None, "what was offloaded, or said to another lane, panicked as it was dropped");
        }
    }
}

/// An offloaded call's value leaves the fence that [`Cx::offload`](crate::Cx::offload) put around it.
fn unfence(outcome: Outcome) -> Outcome {
    let Outcome::Offloaded(OffloadResult(value)) = outcome else { return outcome };
    // reason: no other call is offloaded by this layer.
    Outcome::Offloaded(value.downcast::<Fenced<OffloadResult>>().expect("an offloaded value comes fenced").into_inner())
}
