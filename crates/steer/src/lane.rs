//! A lane's part: its sockets enter the groups of their addresses.

use crate::attach::Attached;
use crate::steered::Steered;
use corelane_machine::network::ports_to_choose;
use corelane_seam::{Driver, Socket};
use corelane_select::detach;
use corelane_svc::{Error, Flows, MakeSocket, Selected, Selection, Services, TransportAddress, discard};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// One lane's access to what is attached.
pub(crate) struct LaneSelection {
    pub(crate) steered: Arc<Steered>,
    pub(crate) lane: usize,
    /// The CPU that the lane is bound to.
    pub(crate) cpu: Option<usize>,
}

impl Steered {
    /// Gives a lane its part: to be called on its own thread, before it listens. `cpu` is the one that it is bound to.
    #[doc(hidden)] // Whoever runs lanes calls it, and no program.
    pub fn equip(self: &Arc<Self>, services: &mut Services, lane: usize, cpu: Option<usize>) {
        services.set_flows(Flows::new(self.hasher.clone(), self.table()));
        if let (Some(_), Ok(ports)) = (&self.attached, ports_to_choose()) {
            services.set_ports(ports);
        }
        if self.attached.is_some() || self.detaches {
            services.set_selection(Box::new(LaneSelection { steered: self.clone(), lane, cpu }));
        }
    }
}

impl LaneSelection {
    fn attached(&self) -> Option<&Attached> {
        self.steered.attached.as_ref()
    }
}

fn failed(at: TransportAddress, error: &corelane_select::Error) -> Error {
    let is_shared = matches!(error, corelane_select::Error::GroupShared { .. });
    Error::Steering { address: at.address, why: error.to_string().into(), is_shared }
}

impl Selection for LaneSelection {
    fn open(&mut self, at: TransportAddress, driver: &mut dyn Driver, make: &mut MakeSocket<'_>) -> Result<Socket, Error> {
        let failed = |error| failed(at, &error);
        let Some(attached) = self.attached() else {
            let socket = make(driver)?;
            driver.descriptor(socket).map_or(Ok(false), detach).map_err(failed)?;
            return Ok(socket);
        };
        let Some(group) = attached.find(at) else {
            let socket = make(driver)?;
            assert!(driver.descriptor(socket).is_none(), "a lane's place is one of the server's, unless it is over frames");
            return Ok(socket);
        };
        let mut entry = group.entry(self.lane).map_err(failed)?;
        let socket = make(driver)?;
        let registered = match driver.descriptor(socket) {
            Some(descriptor) if attached.takes_over => entry.register_beside(descriptor),
            Some(descriptor) => entry.register(descriptor),
            None => Ok(()),
        };
        registered.map_err(|error| {
            discard(driver, socket);
            failed(error)
        })?;
        Ok(socket)
    }

    fn refresh(&mut self, at: TransportAddress, socket: BorrowedFd<'_>) -> Result<(), Error> {
        // reason: `Steered` tells lanes so only where something is attached.
        let attached = self.attached().expect("what is put into force is attached");
        attached.group(at).refresh(socket).map_err(|error| failed(at, &error))
    }

    fn strayed(&mut self) {
        self.steered.mend(self.lane);
    }

    fn mend(&mut self, at: TransportAddress, socket: BorrowedFd<'_>) -> Result<(), Error> {
        // reason: `Steered` tells lanes so only where something is attached.
        let group = self.attached().expect("what is mended was attached").group(at);
        let failed = |error| failed(at, &error);
        // As long as others have sockets there, theirs may be the program that is to choose.
        if group.strangers(socket).map_err(failed)?.is_empty() { group.refresh(socket).map_err(failed) } else { Ok(()) }
    }

    fn leave(&mut self, at: TransportAddress) {
        if let Some(attached) = self.attached() {
            attached.find(at).into_iter().for_each(|group| group.leave(self.lane));
        }
    }

    fn counts(&self) -> Option<Selected> {
        let counts = self.attached()?.selector.lane_counts(self.lane).ok()??;
        let off_cpu = self.cpu.map_or(0, |cpu| counts.selected_off(cpu));
        Some(Selected { selections: counts.selected(), off_cpu, migrations: counts.migrations })
    }
}
