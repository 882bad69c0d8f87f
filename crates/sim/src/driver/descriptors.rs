//! How a lane's descriptors are opened and closed while it runs.

use crate::faults::{FaultKind, Planted};
use crate::state::{Event, State};
use corelane_seam::{Fault, Interest, Reason, Socket};

/// The fault of an operation on a void name (EBADF).
pub(super) const BAD_DESCRIPTOR: Fault = Fault { reason: Reason::Other, number: 9 };

impl State {
    /// Opens a descriptor for a lane that runs; others may fill its table just then.
    pub(crate) fn open_descriptor(&mut self, lane: usize) -> Result<i32, Fault> {
        if self.strikes(FaultKind::FilledTable) {
            let delay = self.random.delay();
            self.lanes[lane].descriptors.is_filled = true;
            self.clock.after(delay, Event::TableHasRoom { lane });
        }
        self.lanes[lane].descriptors.open()
    }

    /// Makes something of a descriptor that was opened; where that fails it is closed.
    pub(crate) fn with_descriptor<T>(
        &mut self,
        lane: usize,
        opened: Result<i32, Fault>,
        make: impl FnOnce(&mut Self, i32) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let number = opened?;
        make(self, number).inspect_err(|_| self.lanes[lane].descriptors.close(number))
    }

    /// Closes what stands behind the name of a socket; the name itself is good until the lane has been told.
    pub(super) fn close_descriptor_of(&mut self, lane: usize, socket: Socket) {
        let Some(number) = self.lanes[lane].sockets.get(socket).and_then(|place| place.descriptor.take()) else { return };
        if self.plants(Planted::LeakedDescriptor) {
            self.lanes[lane].foreign.insert(number, Interest::default());
        } else {
            self.lanes[lane].descriptors.close(number);
        }
    }
}
