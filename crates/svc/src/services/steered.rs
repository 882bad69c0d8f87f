//! A lane does what whoever steers it says: it takes new tables, leaves its addresses and comes back.

use crate::places::TransportAddress;
use crate::places::outgoing::Outgoing;
use crate::places::steering::{Command, Operate, Reply, Selection, Steer, Visit, descriptor_of};
use crate::services::Services;
use crate::words::class;
use crate::words::error::Error;
use crate::words::flows::Flows;
use corelane_lane::Kit;
use corelane_seam::{Driver, Handle, nanoseconds};
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

impl Services {
    /// Has flows told by `flows`: what comes for another lane is counted as a stray from then on.
    pub fn set_flows(&mut self, flows: Flows) {
        self.served.table.flows = Some(flows);
    }

    /// Has outgoing connections come home from now on: their ports are chosen among `ports`, which are in order, so that what comes back
    /// belongs to this lane.
    pub fn set_ports(&mut self, ports: Vec<RangeInclusive<u16>>) {
        self.served.table.choose_ports(Outgoing::new(ports));
    }

    /// Has sockets registered with `selection` from now on: to be called before the first one is opened.
    pub fn set_selection(&mut self, selection: Box<dyn Selection>) {
        self.steering.selection = Some(selection);
    }

    pub(crate) fn steer(&mut self, kit: &mut Kit, driver: &mut dyn Driver, Steer { command, reply }: Steer) {
        match command {
            Command::Table(table) => reply(match &mut self.served.table.flows {
                Some(flows) => {
                    flows.set_table(table);
                    Ok(())
                }
                None => Err(Error::NoFlows),
            }),
            Command::Refresh => reply(self.at_each_place(driver, |selection, at, socket| selection.refresh(at, socket))),
            Command::Mend => reply(self.at_each_place(driver, |selection, at, socket| selection.mend(at, socket))),
            Command::Leave => self.leave(kit, reply),
            Command::Enter => reply(self.enter(driver)),
            Command::Limits(limits) => {
                assert!(limits.len() == self.served.table.services.len(), "each service has its limits");
                for (state, limits) in self.served.table.services.iter_mut().zip(limits.iter()) {
                    state.limits = state.limits.live_as(limits);
                }
                reply(Ok(()));
            }
            Command::Show(visit) => reply(self.show(driver, visit)),
            Command::Move(which) => reply(self.send_away(kit, driver, which)),
            Command::Arrive(packed) => self.arrive(kit, driver, packed),
            Command::Operate(Operate { service, words, answer }) => {
                let mut said = None;
                self.served.service_call(kit, service, |face, site| said = face.operate(site, &words));
                answer(said);
                reply(Ok(()));
            }
            Command::HandOver => self.leave_behind(kit, driver, reply),
        }
    }

    fn at_each_place(
        &mut self,
        driver: &mut dyn Driver,
        call: impl FnMut(&mut dyn Selection, TransportAddress, BorrowedFd<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.steering.at_each_place(driver, self.served.table.open_places(), call)
    }

    /// Begins to leave: as a drain does with what the lane is served at, and with nothing else.
    fn leave(&mut self, kit: &mut Kit, reply: Reply) {
        if self.steering.is_leaving() || self.served.table.is_draining() {
            return reply(Err(Error::Draining));
        }
        self.steering.begin_to_leave(reply, kit.now());
        self.served.table.listeners.begin_to_settle(kit.now());
        self.served.table.sockets.drain_served(&self.served.table.services, kit);
        self.leave_timer(kit);
    }

    fn show(&self, driver: &dyn Driver, mut visit: Visit) -> Result<(), Error> {
        if self.steering.is_leaving() || self.served.table.is_draining() {
            return Err(Error::Draining);
        }
        self.served.table.open_places().try_for_each(|(at, socket)| visit(at, descriptor_of(driver, at, socket)?))
    }

    /// Leaves for good. The sockets stay where they are registered, for they are the other process's now.
    fn leave_behind(&mut self, kit: &mut Kit, driver: &mut dyn Driver, reply: Reply) {
        self.steering.selection = None;
        for socket in self.served.table.served_sockets() {
            driver.leave_behind(socket);
        }
        self.served.table.hand_over();
        for index in self.served.table.connections.indices().collect::<Vec<_>>() {
            self.served.tell_handed_over(kit, index);
        }
        self.leave(kit, reply);
    }

    pub(crate) fn leave_timer(&mut self, kit: &mut Kit) {
        if !self.steering.is_leaving() || self.served.table.is_draining() {
            return self.steering.note_left(self.served.table.is_served());
        }
        self.served.table.close_settled(kit, false);
        self.close_owing_nothing(kit);
        self.steering.note_left(self.served.table.is_served());
        if self.steering.is_leaving() {
            kit.start_timer(kit.now() + crate::services::drain::LOOK, Handle::new(class::LEAVE, 0, 0));
        }
    }

    /// Closes the datagram sockets that the lane was served at and from which nothing is to be answered; all, when its time is up.
    fn close_owing_nothing(&mut self, kit: &mut Kit) {
        // reason: asked by the caller.
        let since = self.steering.leaving_since().expect("only a lane that is leaving closes so");
        for (service, socket) in self.served.table.sockets.served() {
            let is_late = kit.now() >= since.saturating_add(nanoseconds(self.served.table.limits(service).drain_limit));
            if is_late || !(self.served.table.requests.are_due_to(service) || self.served.owes(kit, service)) {
                self.served.table.sockets.close_quiet(&self.served.table.services, socket);
            }
        }
    }

    fn enter(&mut self, driver: &mut dyn Driver) -> Result<(), Error> {
        if self.steering.is_leaving() || self.served.table.is_draining() {
            return Err(Error::Draining);
        }
        for index in self.served.table.listeners.without_socket() {
            // The port was chosen as it was opened first.
            self.open_listener(driver, index)?;
        }
        for index in 0..self.served.table.sockets.bound().len() {
            if self.served.table.sockets.bound()[index].socket.is_none() {
                self.open_bound(driver, index)?;
            }
        }
        Ok(())
    }
}
