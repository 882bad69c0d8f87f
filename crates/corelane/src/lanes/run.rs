//! A program of lanes at work, as its user sees it: what is known of it, what it can be told, and its end.

use crate::error::Error;
use crate::lanes::asked::ControlSocket;
use crate::lanes::drained::Drained;
use crate::lanes::driver::DriverKind;
use crate::lanes::ending::Waiter;
use crate::lanes::live::LiveLimits;
use crate::lanes::live_gateway::LiveGateway;
use crate::lanes::live_services::LiveServices;
use crate::lanes::moves::Moves;
use crate::lanes::others::Others;
use crate::lanes::outside::Outside;
use crate::lanes::place::{Names, Place};
use crate::lanes::receiving::UserFraction;
use crate::lanes::stalls::Stalls;
use crate::lanes::take_over::{Passage, Taken};
use corelane_drivers::{Crossing, EventBell};
use corelane_lane::{Control, Order};
use corelane_os::aside::Aside;
use corelane_os::report;
use corelane_os::runner::LaneThread;
use corelane_os::signals::Signals;
use corelane_seam::{Address, Record, Unix};
use corelane_steer::{LanePlan, Steered, Topology};
use corelane_svc::Exchange;
use corelane_watch::{Declaration, Page};
use std::any::Any;
use std::cell::Cell;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, PoisonError};

/// Lanes that run. Dropping it ends them at once.
pub struct Running {
    pub(super) places: Vec<Place>,
    pub(super) planned: (Topology, LanePlan),
    pub(super) cpus: Vec<Option<usize>>,
    pub(super) driver: DriverKind,
    pub(super) steered: Arc<Steered>,
    pub(super) notes: Vec<Record>,
    pub(super) page: Page,
    pub(super) control: Arc<Control>,
    pub(super) exchange: Exchange,
    pub(super) outside: Outside,
    pub(super) limits: LiveLimits,
    pub(super) services: LiveServices,
    pub(super) moves: Moves,
    pub(super) threads: Vec<LaneThread<()>>,
    /// The lanes' doorbells, kept so that they are closed in the descriptor table in which they were opened.
    pub(super) bells: Vec<Arc<EventBell>>,
    /// By which connections go from one lane's table to another's, kept for the same reason.
    pub(super) crossing: Arc<Crossing>,
    pub(super) waiter: Waiter,
    pub(super) socket: Option<ControlSocket>,
    /// The Unix sockets that lanes share; their names go with them.
    pub(super) names: Names,
    /// By which lanes send their sockets to the process that takes over.
    pub(super) passage: Arc<Passage>,
    /// The watch for turns that take too long.
    pub(super) stalls: Option<Stalls>,
    /// How the kernel receives beside the lanes, if it is told.
    pub(super) receiving: Option<UserFraction>,
    /// The gateway that lanes are, if they are one.
    pub(super) gateway: Option<LiveGateway>,
    /// Its ports, in words.
    pub(super) ports: Vec<String>,
    /// The parts of services outside of the lanes: dropped after these have ended.
    pub(super) beside: Vec<Box<dyn Any + Send>>,
    /// The process that this one takes over from, until it is decided which of them serves; dropped before that, that one serves on.
    pub(super) taken: Option<Taken>,
    /// The same behind that, kept to its end.
    pub(super) taken_over: Option<Taken>,
    /// Listeners that were handed over and are no service's, until somebody takes them.
    pub(super) listeners: Vec<(SocketAddr, OwnedFd)>,
    /// Listeners that are no service's.
    pub(super) others: Others,
    /// The counters of services' own.
    pub(super) counted: Vec<(String, &'static [Declaration])>,
}

impl Running {
    /// The user fraction beside the kernel's receiving, for those who show or change it; none where no interface is received so.
    #[cfg(feature = "packets")]
    pub fn user_fraction(&self) -> Option<UserFraction> {
        self.receiving.clone()
    }

    /// Where to compute beside these lanes, such as what is read anew while they serve: it takes none of them its time where there is a CPU without a lane, and little where there
    /// is none.
    #[must_use]
    pub fn aside(&self) -> Aside {
        Aside::of(self.cpus.iter().copied().flatten())
    }

    /// Each port of a gateway in words, with what it has there; nothing where lanes are none.
    pub fn ports(&self) -> &[String] {
        &self.ports
    }

    /// The gateway that lanes are, for those who have its file read again; none where they are none.
    #[cfg(feature = "packets")]
    pub fn gateway(&self) -> Option<LiveGateway> {
        self.gateway.clone()
    }

    /// Says by `announce` that this process serves, where it says so (a line on standard output, a word to a service manager), and has the process that is
    /// taken over, if there is one, stop accepting behind that. Call this once no other step of the start can fail any more; giving up rights is such a step.
    /// [`Running::run_until_told`] and [`Running::wait`] call it, with nothing to say, if you have not.
    ///
    /// The other process waits at most 60 seconds for `announce`. If that fails, takes longer, or never comes back, the other process serves on.
    ///
    /// # Errors
    /// What `announce` says, and [`Error::Setting`] where the other process serves on: then drop this, which leaves everything to the other.
    pub fn announce<E: From<Error>>(&mut self, announce: impl FnOnce(&Self) -> Result<(), E>) -> Result<(), E> {
        // Those that nobody has taken would keep who connects waiting for ever.
        self.listeners.clear();
        let Some(mut taken) = self.taken.take() else { return announce(self) };
        self.page.note(&format!("taken over from process {}", taken.process()));
        if let Err(error) = taken.decide(|| announce(self)) {
            self.taken = Some(taken);
            return Err(error);
        }
        let names: Vec<Unix> = self.places.iter().filter_map(|place| place.address.unix().cloned()).collect();
        taken.own(&self.names, &names);
        self.taken_over = Some(taken);
        Ok(())
    }

    /// Each service's own counters, by the service's name.
    pub fn counted(&self) -> &[(String, &'static [Declaration])] {
        &self.counted
    }

    /// Notes what else the program has to do without, for [`Running::notes`] and its page.
    pub fn note(&mut self, note: Record) {
        self.page.note(&note.to_string());
        self.notes.push(note);
    }

    /// Has this called at each SIGHUP, by [`Running::run_until_told`], after log files were told to open anew. It must return soon: nothing else of the
    /// program's end is heard meanwhile.
    pub fn at_hangup(&mut self, call: impl Fn() + Send + 'static) {
        self.waiter.at_hangup(vec![Box::new(call)]);
    }

    /// Has this called once, before the lanes are told to end: by a signal, or because one has broken. As soon as of [`Running::at_hangup`].
    pub fn at_end(&mut self, call: impl Fn() + Send + 'static) {
        self.waiter.at_end(Box::new(call));
    }

    /// Where the services listen.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The address of the first place.
    ///
    /// # Panics
    /// If nothing listens: there are only clients.
    pub fn address(&self) -> &Address {
        &self.places[0].address
    }

    /// The CPU of each lane; none for a lane that is not bound.
    pub fn cpus(&self) -> &[Option<usize>] {
        &self.cpus
    }

    /// The machine as it was found, and the lanes on it.
    pub fn plan(&self) -> (&Topology, &LanePlan) {
        (&self.planned.0, &self.planned.1)
    }

    /// The thread of each lane, by the number that the system knows it by while it runs (gettid(2)).
    pub fn threads(&self) -> Vec<u32> {
        self.threads.iter().map(|thread| thread.id).collect()
    }

    /// The driver in use.
    pub fn driver(&self) -> DriverKind {
        self.driver
    }

    /// The steering of flows to the lanes: the table, and lanes that leave and come back. It outlives this, for other threads.
    pub fn steered(&self) -> &Arc<Steered> {
        &self.steered
    }

    /// All that the program has to do without, why, and the remedy.
    pub fn notes(&self) -> &[Record] {
        &self.notes
    }

    /// The file of the counter page, unless it could not be made.
    pub fn page(&self) -> Option<&Path> {
        self.page.path()
    }

    /// The counter page itself.
    pub fn counters(&self) -> &Page {
        &self.page
    }

    /// Speaks to the lanes and their services from other threads.
    pub fn outside(&self) -> Outside {
        self.outside.clone()
    }

    /// Changes limits of the services from other threads.
    pub fn limits(&self) -> LiveLimits {
        self.limits.clone()
    }

    /// Asks services what an operator asks of them, from other threads.
    pub fn services(&self) -> LiveServices {
        self.services.clone()
    }

    /// Moves idle connections from lane to lane, from other threads.
    pub fn moves(&self) -> Moves {
        self.moves.clone()
    }

    /// Has the lanes refuse new connections, answer what was asked, and end.
    pub fn drain(&self) {
        self.control.give(Order::Drain);
    }

    /// Has the lanes end at once.
    pub fn stop(&self) {
        self.control.give(Order::Stop);
    }

    /// Waits until all lanes have ended. If one breaks, the others are drained and stopped within seconds.
    ///
    /// # Errors
    /// [`Error::LanePanicked`], or what the system says of waiting.
    pub fn wait(mut self) -> Result<(), Error> {
        self.end(None, |_| {})
    }

    /// Serves until a signal: the first SIGTERM or SIGINT drains, the second ends at once. At SIGHUP log files are opened anew; a line says so, and that
    /// other files are read again by themselves when they change, and serving goes on. If a lane breaks, the others are drained and stopped within seconds. Returns how connections ended
    /// from the first signal on.
    ///
    /// # Errors
    /// As [`Running::wait`], and [`Error::LanesHang`] if lanes have not ended 5 seconds after the second signal.
    pub fn run_until_told(mut self, signals: Signals) -> Result<Drained, Error> {
        let before = Cell::new(None);
        self.end(Some(&signals), |page| before.set(before.get().or_else(|| Some(Drained::counts(page)))))?;
        Ok(before.get().map_or(Drained::default(), |before| Drained::between(before, Drained::counts(&self.page))))
    }

    /// Waits for the end of the lanes, and has what they said last come out. `note` is called before each order.
    fn end(&mut self, signals: Option<&Signals>, note: impl Fn(&Page)) -> Result<(), Error> {
        self.announce(|_| Ok::<_, Error>(()))?;
        let ended = self.waiter.wait(signals, || note(&self.page));
        match ended {
            // They may never end.
            Err(Error::LanePanicked { left_behind: 1.., .. } | Error::LanesHang { .. }) => self.threads.clear(),
            _ => self.join(),
        }
        report::flush(report::PATIENCE);
        ended
    }

    fn join(&mut self) {
        for thread in self.threads.drain(..) {
            // It has told of its end itself.
            let _ = thread.handle.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match self.taken.is_some() {
            // These sockets are still the other process's, which serves on: to refuse here would be to refuse there.
            true if self.steered.hand_over().is_ok() => self.drain(),
            _ => self.stop(),
        }
        self.stalls = None;
        self.join();
        // Up to their end it was for them.
        if let Some(receiving) = self.receiving.take() {
            receiving.end();
        }
        // Only now nobody accepts any more.
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
