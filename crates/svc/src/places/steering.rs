//! How a lane is steered: what registers its sockets as they open, what it is told, and where it stands on its way out.

use crate::connection::packed::{Journey, Packed};
use crate::limits::{Limits, SECOND};
use crate::places::TransportAddress;
use crate::state::ServiceState;
use crate::words::class;
use crate::words::error::Error;
use crate::words::names::Peer;
use crate::words::stays::Stays;
use corelane_lane::{Ear, Kit, Tell};
use corelane_rss::Table;
use corelane_seam::{Driver, Handle, Op, Socket};
use corelane_watch::{LaneCounter, ServiceCounter};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Registers a lane's sockets, so that its flows find them. Nothing else is known here of how that is done.
/// Called on the lane's own thread.
pub trait Selection {
    /// Makes the lane's socket at an address with `make`, and registers it. Other lanes wait meanwhile.
    ///
    /// # Errors
    /// That of `make`, or [`Error::Steering`]. Then no socket is left.
    fn open(&mut self, at: TransportAddress, driver: &mut dyn Driver, make: &mut MakeSocket<'_>) -> Result<Socket, Error>;

    /// Puts the present table into force, where that needs a socket of the address; `socket` is the lane's.
    ///
    /// # Errors
    /// [`Error::Steering`].
    fn refresh(&mut self, at: TransportAddress, socket: BorrowedFd<'_>) -> Result<(), Error>;

    /// Flows of other lanes came to this one since the last look at the counts. The steering side may then have the lane told to
    /// [`Command::Mend`].
    fn strayed(&mut self);

    /// Puts the selection into force again after another one had replaced it and is gone. `socket` is the lane's.
    ///
    /// # Errors
    /// [`Error::Steering`].
    fn mend(&mut self, at: TransportAddress, socket: BorrowedFd<'_>) -> Result<(), Error>;

    /// The lane's socket at the address is closed.
    fn leave(&mut self, at: TransportAddress);

    /// The flows selected for this lane so far; none where nobody counts.
    fn counts(&self) -> Option<Selected>;
}

/// Makes a socket.
pub type MakeSocket<'a> = dyn FnMut(&mut dyn Driver) -> Result<Socket, Error> + 'a;

/// The flows selected for a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// New connections and datagrams.
    pub selections: u64,
    /// Those received on a CPU that is not the lane's own.
    pub off_cpu: u64,
    /// Connections that moved here because their listener closed.
    pub migrations: u64,
}

/// A word to a lane from the side that steers ([`Tell::tell`](corelane_lane::Tell::tell)).
pub struct Steer {
    /// Its order.
    pub command: Command,
    /// Whom it tells when that is done. Dropped without a call if the lane has ended.
    pub reply: Reply,
}

/// An order to a lane.
pub enum Command {
    /// Judge strays by this table from now on.
    Table(Table),
    /// Put the kernel's present table into force ([`Selection::refresh`]).
    Refresh,
    /// Put the selection into force again after another one had replaced it and is gone ([`Selection::mend`]).
    Mend,
    /// Accept or receive what waits, then close the sockets at which services are served. Connections live on until they end.
    Leave,
    /// Serve at all addresses again.
    Enter,
    /// Have the limits of time of these, one for each service in its order, from now on ([`Limits::LIVE`]).
    Limits(Arc<[Limits]>),
    /// Show each socket at which services are served and flows come.
    Show(Visit),
    /// Send idle connections to another lane, as many as may be on their way at once.
    Move(Move),
    /// Serve a connection that has left another lane, or was to, and comes back.
    Arrive(Box<Packed>),
    /// Ask a service what an operator asks of it.
    Operate(Operate),
    /// Another process has all these sockets as well: leave them to it. Connections that were accepted live on, and nobody is refused.
    HandOver,
}

/// What an operator asks of a service on this lane ([`StreamService::operate`](crate::StreamService::operate)).
pub struct Operate {
    /// The service's number.
    pub service: u16,
    /// The operator's words.
    pub words: Arc<str>,
    /// Is told the answer, on the lane; none where the service knows no such words.
    pub answer: Answered,
}

/// Is told what a service has answered to an operator.
pub type Answered = Box<dyn FnOnce(Option<String>) + Send>;

/// Which connections go to another lane. Both are called on the lane that they are on, for each connection at the most once.
pub struct Move {
    /// The lane that they go to.
    pub to: usize,
    /// Whether a connection with these two ends is to go.
    pub choose: Choose,
    /// Is told of each that was chosen and stays, and why. One that is `Busy` may go later. After one of which the system says that as many are on their way as may be, none is asked.
    pub stays: Stay,
}

/// Whether a connection with these two ends is to go.
pub type Choose = Box<dyn FnMut(&Peer) -> bool + Send>;

/// Is told of a connection that stays.
pub type Stay = Box<dyn FnMut(&Peer, Stays) + Send>;

/// Is shown a lane's sockets, on the lane's own thread: their numbers mean nothing elsewhere.
pub type Visit = Box<dyn FnMut(TransportAddress, BorrowedFd<'_>) -> Result<(), Error> + Send>;

/// Is told how it went.
pub type Reply = Box<dyn FnOnce(Result<(), Error>) + Send>;

/// How soon after something came the selection's counts are read. So they are never read more often, nor while nothing comes.
const READ_COUNTS: u64 = SECOND;

/// The state of steering that a lane knows.
#[derive(Default)]
pub(crate) struct Steering {
    /// Where sockets are registered as they open; none where the kernel chooses by itself.
    pub(crate) selection: Option<Box<dyn Selection>>,
    /// Where whoever steers is heard; none where nobody does.
    pub(crate) ear: Option<Ear<Steer>>,
    /// How this lane speaks to others about that; none where nobody does.
    pub(crate) line: Option<Tell<Steer>>,
    /// The lane is leaving: whom that is told, and since when.
    leaving: Option<(Reply, u64)>,
    /// A timer runs at whose end the counts of the selection are read.
    counts_are_due: bool,
    /// Strays when the counts were last read.
    strays_seen: u64,
    /// Counts connections of this lane that are on their way to another one: each has a copy.
    under_way: Arc<()>,
}

impl Steering {
    /// Makes a socket, and has it registered where flows are steered.
    pub(crate) fn open_socket(
        &mut self,
        driver: &mut dyn Driver,
        at: Option<TransportAddress>,
        mut make: impl FnMut(&mut dyn Driver) -> Result<Socket, Error>,
    ) -> Result<Socket, Error> {
        match self.selection.as_mut().zip(at) {
            Some((selection, at)) => selection.open(at, driver, &mut make),
            None => make(driver),
        }
    }

    /// Calls the selection for each socket at which the lane is served.
    pub(crate) fn at_each_place(
        &mut self,
        driver: &mut dyn Driver,
        mut open: impl Iterator<Item = (TransportAddress, Socket)>,
        mut call: impl FnMut(&mut dyn Selection, TransportAddress, BorrowedFd<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(selection) = self.selection.as_deref_mut() else { return Ok(()) };
        // A service over frames, or simulated, has no socket of the system's: the system chooses nothing there, and its packets follow the table
        // by themselves.
        open.try_for_each(|(place, socket)| driver.descriptor(socket).map_or(Ok(()), |found| call(selection, place, found)))
    }

    /// One more connection of this lane, of the number `from`, is on its way to another.
    pub(crate) fn begin_journey(&self, from: usize) -> Journey {
        // reason: who tells a connection to go speaks by this line.
        let line = self.line.as_ref().expect("a lane that is told to send connections has a line");
        Journey::begin(&self.under_way, line.bell(from))
    }

    /// Sends a connection to another lane.
    ///
    /// # Errors
    /// It comes back: nobody is there, or too much waits there to be heard.
    pub(crate) fn send(&self, to: usize, packed: Box<Packed>) -> Result<(), Box<Packed>> {
        let Some(line) = &self.line else { return Err(packed) };
        let word = Steer { command: Command::Arrive(packed), reply: Box::new(|_| ()) };
        line.tell(to, word).map_err(|unheard| match unheard.word.command {
            Command::Arrive(packed) => packed,
            _ => unreachable!("what is refused comes back"),
        })
    }

    /// Whether none of this lane's connections is on its way.
    pub(crate) fn has_none_under_way(&self) -> bool {
        Arc::strong_count(&self.under_way) == 1
    }

    /// Whether the lane is leaving.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Since when it is.
    pub(crate) fn leaving_since(&self) -> Option<u64> {
        self.leaving.as_ref().map(|&(_, since)| since)
    }

    /// The lane begins to leave.
    pub(crate) fn begin_to_leave(&mut self, reply: Reply, now: u64) {
        assert!(self.leaving.is_none(), "a lane that is leaving is told so, and not to leave again");
        self.leaving = Some((reply, now));
    }

    /// Tells whoever waits for it that the lane has left, if it was leaving, and is served nowhere any more.
    pub(crate) fn note_left(&mut self, is_served: bool) {
        if let Some((reply, _)) = self.leaving.take_if(|_| !is_served) {
            reply(Ok(()));
        }
    }

    /// A socket that the lane was served at is closed; there is another one, or none.
    pub(crate) fn place_closed(&mut self, at: Option<TransportAddress>, is_served: bool) {
        if let Some((selection, at)) = self.selection.as_mut().zip(at) {
            selection.leave(at);
        }
        self.note_left(is_served);
    }

    /// Something came that was selected for this lane: soon the counts are to be read.
    pub(crate) fn note_selection(&mut self, kit: &mut Kit) {
        if self.selection.is_some() && !self.counts_are_due {
            self.counts_are_due = true;
            kit.start_timer(kit.now() + READ_COUNTS, Handle::new(class::COUNTS, 0, 0));
        }
    }

    fn look_for_strays(&mut self, states: &[ServiceState]) {
        let strays = states.iter().map(|service| service.row.get(ServiceCounter::Strays)).sum();
        if std::mem::replace(&mut self.strays_seen, strays) < strays
            && let Some(selection) = &mut self.selection
        {
            selection.strayed();
        }
    }

    /// Copies to the page what the selection has counted.
    pub(crate) fn read_counts(&mut self, kit: &mut Kit, states: &[ServiceState]) {
        self.counts_are_due = false;
        self.look_for_strays(states);
        if let Some(counts) = self.selection.as_ref().and_then(|selection| selection.counts()) {
            kit.row.set(LaneCounter::Selections, counts.selections);
            kit.row.set(LaneCounter::SelectionsOffCpu, counts.off_cpu);
            kit.row.set(LaneCounter::Migrations, counts.migrations);
        }
    }
}

/// The descriptor of a socket at which the lane is served.
///
/// # Errors
/// [`Error::Steering`] where it has none.
pub(crate) fn descriptor_of(driver: &dyn Driver, at: TransportAddress, socket: Socket) -> Result<BorrowedFd<'_>, Error> {
    let why = "the lane's socket there has no descriptor of the system's, as over frames (--packet) and in simulations";
    driver.descriptor(socket).ok_or_else(|| Error::Steering { address: at.address, why: why.into(), is_shared: false })
}

/// Closes a socket that could not be registered.
pub fn discard(driver: &mut dyn Driver, socket: Socket) {
    driver.push(Handle::NOBODY, Op::Close { socket, reset: false });
}
