//! A lane under steering: its sockets are registered as they open, it takes new tables, and it leaves its addresses and comes back.

use crate::class;
use crate::error::Error;
use crate::flows::Flows;
use crate::limits::SECOND;
use crate::outgoing::Outgoing;
use crate::places::Place;
use crate::services::Services;
use corelane_lane::Kit;
use corelane_rss::Table;
use corelane_seam::{Driver, Handle, Op, Socket, nanoseconds};
use corelane_watch::{LaneCounter, ServiceCounter};
use std::ops::RangeInclusive;
use std::os::fd::BorrowedFd;

/// Where a lane's sockets are registered, so that its flows find them: the one thing that is known here of how that is done.
/// Called on the lane's own thread.
pub trait Selection {
    /// Has `make` make the lane's socket at an address, and registers it. Other lanes are held off meanwhile.
    ///
    /// # Errors
    /// What `make` says; [`Error::Steering`]. No socket is left then.
    fn open(&mut self, at: Place, driver: &mut dyn Driver, make: &mut MakeSocket<'_>) -> Result<Socket, Error>;

    /// Puts the present table into force where that needs a socket of the address: `socket` is the lane's.
    ///
    /// # Errors
    /// [`Error::Steering`].
    fn refresh(&mut self, at: Place, socket: BorrowedFd<'_>) -> Result<(), Error>;

    /// Flows of other lanes came to this one since the last look at the counts. Whoever steers may then have the lane told to
    /// [`Command::Mend`].
    fn strayed(&mut self);

    /// Puts the selection into force again where somebody else's took its place and is gone. `socket` is the lane's.
    ///
    /// # Errors
    /// [`Error::Steering`].
    fn mend(&mut self, at: Place, socket: BorrowedFd<'_>) -> Result<(), Error>;

    /// The lane's socket at the address is closed.
    fn leave(&mut self, at: Place);

    /// What was selected for this lane so far; none where nobody counts.
    fn counts(&self) -> Option<Selected>;
}

/// Makes a socket.
pub type MakeSocket<'a> = dyn FnMut(&mut dyn Driver) -> Result<Socket, Error> + 'a;

/// What was selected for a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// New connections and datagrams.
    pub selections: u64,
    /// Those that were received on another CPU than the lane's own.
    pub off_cpu: u64,
    /// Connections that moved here because the listener that had them closed.
    pub migrations: u64,
}

/// What a lane is told by whoever steers ([`Tell::tell`](corelane_lane::Tell::tell)).
pub struct Steer {
    /// What it is to do.
    pub command: Command,
    /// Whom it tells when that is done. Dropped without a call if the lane has ended.
    pub reply: Reply,
}

/// What a lane is to do.
pub enum Command {
    /// Go by this table from now on, when it tells strays.
    Table(Table),
    /// Put the kernel's present table into force ([`Selection::refresh`]).
    Refresh,
    /// Put the selection into force again where somebody else's took its place and is gone ([`Selection::mend`]).
    Mend,
    /// Accept or receive what waits, then close what the services are served at. Connections live on until they end.
    Leave,
    /// Serve at all addresses again.
    Enter,
}

/// Is told how it went.
pub type Reply = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// How soon after something came the counts of the selection are read: so often at the most, and not at all while nothing comes.
const READ_COUNTS: u64 = SECOND;

impl Services {
    /// Has flows told by `flows`: what comes for another lane is counted as a stray from then on.
    pub fn set_flows(&mut self, flows: Flows) {
        self.table.flows = Some(flows);
    }

    /// Has outgoing connections come home from now on: their ports are chosen among `ports`, which are in order, so that what comes back
    /// belongs to this lane.
    pub fn set_ports(&mut self, ports: Vec<RangeInclusive<u16>>) {
        self.table.outgoing = Some(Outgoing::new(ports));
    }

    /// Has sockets registered with `selection` from now on: to be called before the first one is opened.
    pub fn set_selection(&mut self, selection: Box<dyn Selection>) {
        self.selection = Some(selection);
    }

    pub(crate) fn steer(&mut self, kit: &mut Kit, driver: &mut dyn Driver, Steer { command, reply }: Steer) {
        match command {
            Command::Table(table) => {
                if let Some(flows) = &mut self.table.flows {
                    flows.set_table(table);
                }
                reply(Ok(()));
            }
            Command::Refresh => reply(self.at_each_place(driver, |selection, at, socket| selection.refresh(at, socket))),
            Command::Mend => reply(self.at_each_place(driver, |selection, at, socket| selection.mend(at, socket))),
            Command::Leave => self.leave(kit, reply),
            Command::Enter => reply(self.enter(driver)),
        }
    }

    /// Makes a socket, and has it registered where flows are steered.
    pub(crate) fn open_socket(
        &mut self,
        driver: &mut dyn Driver,
        at: Option<Place>,
        mut make: impl FnMut(&mut dyn Driver) -> Result<Socket, Error>,
    ) -> Result<Socket, Error> {
        match self.selection.as_mut().zip(at) {
            Some((selection, at)) => selection.open(at, driver, &mut make),
            None => make(driver),
        }
    }

    fn at_each_place(
        &mut self,
        driver: &mut dyn Driver,
        mut call: impl FnMut(&mut dyn Selection, Place, BorrowedFd<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let open: Vec<_> = self.table.open_places().collect();
        let Some(selection) = self.selection.as_deref_mut() else { return Ok(()) };
        open.into_iter().try_for_each(|(place, socket)| match driver.descriptor(socket) {
            Some(descriptor) => call(selection, place, descriptor),
            None => Ok(()),
        })
    }

    /// Begins to leave: as a drain does with what the lane is served at, and with nothing else.
    fn leave(&mut self, kit: &mut Kit, reply: Reply) {
        if self.leaving.is_some() || self.table.draining {
            return reply(Err(Error::Draining));
        }
        (self.leaving, self.leaving_since) = (Some(reply), kit.now());
        for listener in &mut self.table.listeners {
            listener.begin_to_settle(kit.now());
        }
        self.table.sockets.drain_served(&self.table.services, kit);
        self.leave_timer(kit);
    }

    pub(crate) fn leave_timer(&mut self, kit: &mut Kit) {
        if self.leaving.is_none() || self.table.draining {
            return self.note_left();
        }
        self.close_settled(kit, false);
        self.close_owing_nothing(kit);
        self.note_left();
        if self.leaving.is_some() {
            kit.start_timer(kit.now() + crate::drain::LOOK, Handle::new(class::LEAVE, 0, 0));
        }
    }

    /// Closes the datagram sockets that the lane was served at and from which nothing is to be answered; all, when its time is up.
    fn close_owing_nothing(&mut self, kit: &mut Kit) {
        for (service, socket) in self.table.sockets.served() {
            let is_late = kit.now() >= self.leaving_since.saturating_add(nanoseconds(self.table.limits(service).drain_limit));
            if is_late || !(self.table.requests.are_due_to(service) || self.owes(kit, service)) {
                self.table.sockets.close_quiet(&self.table.services, socket);
            }
        }
    }

    /// Tells whoever waits for it that the lane has left.
    pub(crate) fn note_left(&mut self) {
        if self.leaving.is_some()
            && self.table.open_places().next().is_none()
            && let Some(reply) = self.leaving.take()
        {
            reply(Ok(()));
        }
    }

    /// A socket that the lane was served at is closed.
    pub(crate) fn place_closed(&mut self, at: Option<Place>) {
        if let Some((selection, at)) = self.selection.as_mut().zip(at) {
            selection.leave(at);
        }
        self.note_left();
    }

    fn enter(&mut self, driver: &mut dyn Driver) -> Result<(), Error> {
        if self.leaving.is_some() || self.table.draining {
            return Err(Error::Draining);
        }
        for index in 0..self.table.listeners.len() {
            if self.table.listeners[index].socket.is_none() {
                self.open_listener(driver, index)?;
            }
        }
        for index in 0..self.table.sockets.bound().len() {
            if self.table.sockets.bound()[index].socket.is_none() {
                self.open_bound(driver, index)?;
            }
        }
        Ok(())
    }

    /// Something came that was selected for this lane: soon the counts are to be read.
    pub(crate) fn note_selection(&mut self, kit: &mut Kit) {
        if self.selection.is_some() && !self.counts_are_due {
            self.counts_are_due = true;
            kit.start_timer(kit.now() + READ_COUNTS, Handle::new(class::COUNTS, 0, 0));
        }
    }

    fn look_for_strays(&mut self) {
        let strays = self.table.services.iter().map(|service| service.row.get(ServiceCounter::Strays)).sum();
        if std::mem::replace(&mut self.strays_seen, strays) < strays
            && let Some(selection) = &mut self.selection
        {
            selection.strayed();
        }
    }

    /// Copies to the page what the selection has counted.
    pub(crate) fn read_counts(&mut self, kit: &mut Kit) {
        self.counts_are_due = false;
        self.look_for_strays();
        if let Some(counts) = self.selection.as_ref().and_then(|selection| selection.counts()) {
            kit.row.set(LaneCounter::Selections, counts.selections);
            kit.row.set(LaneCounter::SelectionsOffCpu, counts.off_cpu);
            kit.row.set(LaneCounter::Migrations, counts.migrations);
        }
    }
}

/// Closes a socket that could not be registered.
pub fn discard(driver: &mut dyn Driver, socket: Socket) {
    driver.push(Handle::NOBODY, Op::Close { socket, reset: false });
}
