//! Steering at work: the table that is in force, and the lanes that are there.

use crate::attach::{Attached, Attachment};
use crate::choice::Settings;
use crate::error::Error;
use crate::following::follow;
use crate::in_force::InForce;
use crate::server::Server;
use crate::telling::Telling;
use corelane_lane::Tell;
use corelane_rss::{FlowHasher, Table};
use corelane_svc::{Command, Steer};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A program of lanes whose flows are told apart, and steered where the machine lets us. Made once, for all lanes; any thread may use
/// it, but not a service on a lane: each change waits for all lanes. One is made at a time, and is in force when its call returns.
pub struct Steered {
    pub(crate) attached: Option<Attached>,
    pub(crate) detaches: bool,
    pub(crate) hasher: Arc<FlowHasher>,
    pub(crate) tell: Telling,
    in_force: InForce,
    note: Option<String>,
    state: Mutex<TableInForce>,
}

type OnTable = Box<dyn FnMut(&Table) + Send>;

struct TableInForce {
    table: Table,
    /// Of each lane, whether it is served.
    present: Vec<bool>,
    /// Who is told of each table that comes into force.
    told: Option<OnTable>,
}

impl Steered {
    /// Makes what `settings` ask for, with a table that is even over the lanes. To be called on the thread that makes the lanes, before
    /// the first is made: what it opens must be in their descriptor tables.
    ///
    /// # Errors
    /// [`Error::Table`] with more lanes than buckets; [`Error::Refused`] if a means that was asked for by name is refused.
    #[doc(hidden)] // Whoever runs lanes calls it, and no program.
    pub fn new(settings: &Settings, server: &Server, tell: Tell<Steer>) -> Result<Arc<Self>, Error> {
        // Clients have lanes without number, and nothing is to be chosen for them.
        let is_client = server.places.is_empty() && !server.over_frames;
        let table = settings.table(if is_client { 1 } else { server.lanes })?;
        let hasher = Arc::new(FlowHasher::new(&settings.key, settings.types));
        let Attachment { in_force, attached, detaches, note } = Attachment::new(settings, server, &hasher, &table)?;
        assert!(
            attached.is_some() == matches!(in_force, InForce::Program | InForce::Classic),
            "a table is in force by what is attached"
        );
        assert!(!(detaches && attached.is_some()), "what others attached is taken away where nothing of ours takes its place");
        let state = Mutex::new(TableInForce { table, present: vec![true; server.lanes], told: None });
        let tell = Telling(tell);
        Ok(Arc::new(Self { attached, detaches, hasher, tell, in_force, note, state }))
    }

    /// With what is attached already.
    pub(crate) fn in_force_already(
        attached: Option<Attached>,
        hasher: FlowHasher,
        table: Table,
        (in_force, lanes): (InForce, usize),
        tell: Tell<Steer>,
    ) -> Arc<Self> {
        let state = Mutex::new(TableInForce { table, present: vec![true; lanes], told: None });
        let tell = Telling(tell);
        Arc::new(Self { attached, detaches: false, hasher: Arc::new(hasher), tell, in_force, note: None, state })
    }

    /// What chooses the lanes.
    pub fn in_force(&self) -> InForce {
        self.in_force
    }

    /// What had to be done without, why, and the remedy.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// The hash of all flows.
    pub fn hasher(&self) -> &FlowHasher {
        &self.hasher
    }

    /// The table in force; where no table is, the one by which strays are told.
    pub fn table(&self) -> Table {
        self.lock().table.clone()
    }

    /// Has `told` called with the table as it is, and with each that comes into force from then on, in their order. It must not call this.
    pub fn on_table(&self, mut told: impl FnMut(&Table) + Send + 'static) {
        let mut state = self.lock();
        told(&state.table);
        state.told = Some(Box::new(told));
    }

    /// Of each lane, whether it is served: false once it has left, until it comes back.
    pub fn present(&self) -> Vec<bool> {
        self.lock().present.clone()
    }

    /// Puts a table into force: first in the kernel, for all that begins from then on, then in each lane's copy. Then idle connections follow their buckets, those whose services pack
    /// their sessions ([`StreamService::pack`](corelane_svc::StreamService::pack)); all others stay where they are, and are counted (`moves_refused`).
    ///
    /// # Errors
    /// [`Error::NotSteered`]; [`Error::LaneAway`] for buckets of a lane that has left; [`Error::Refused`] for a table of another size,
    /// or with lanes that there are not; [`Error::LaneSilent`] and [`Error::LaneEnded`], with the table in force in the kernel.
    pub fn rewrite(&self, table: &Table) -> Result<(), Error> {
        let mut state = self.lock();
        match table.owners().find(|lane| state.present.get(*lane) == Some(&false)) {
            Some(lane) => Err(Error::LaneAway { lane }),
            None => self.put_and_follow(&mut state, table),
        }
    }

    /// Has a lane leave without losing a connection: its buckets go to the others, it accepts what waits for it, and closes what it is
    /// served at. Its idle connections follow their buckets, as after [`Steered::rewrite`]; all others live on until they end. Returns when nothing more comes to it.
    ///
    /// With a classic program, a handshake that takes longer than 50 milliseconds may be lost, unless `net.ipv4.tcp_migrate_req` is 1.
    ///
    /// # Errors
    /// [`Error::LaneAway`]; [`Error::Table`] for the last lane, and one that there is not; those of [`Steered::rewrite`].
    pub fn leave(&self, lane: usize) -> Result<(), Error> {
        let mut state = self.lock();
        self.check_present(&state, lane, true)?;
        let table = state.table.without(lane)?;
        assert!(state.present[lane] && table.owned(lane).next().is_none(), "nothing new comes to who leaves");
        self.put(&mut state, &table)?;
        state.present[lane] = false;
        self.tell.all(&[lane], || Command::Leave)?;
        // The kernel has moved another socket into the place of the one that closed.
        self.refresh(&state)?;
        // What it accepted last goes, too.
        follow(&self.tell, &state.table, state.present.len(), &state.table.owners().collect::<Vec<_>>())
    }

    /// Has a lane that left come back: it opens what it is served at, and gets its share of the buckets.
    ///
    /// # Errors
    /// [`Error::LanePresent`]; [`Error::Lane`] if it cannot open its sockets, and then it stays away; those of [`Steered::rewrite`].
    pub fn enter(&self, lane: usize) -> Result<(), Error> {
        let mut state = self.lock();
        self.check_present(&state, lane, false)?;
        let table = state.table.with(lane)?;
        if let Err(error) = self.tell.all(&[lane], || Command::Enter) {
            // What it has opened is closed again; if it cannot even do that, the first reason says more.
            let _ = self.tell.all(&[lane], || Command::Leave);
            return Err(error);
        }
        assert!(!state.present[lane] && state.table.owned(lane).next().is_none(), "nothing came to who was away");
        state.present[lane] = true;
        self.put_and_follow(&mut state, &table)
    }

    fn check_present(&self, state: &TableInForce, lane: usize, expected: bool) -> Result<(), Error> {
        match (&self.attached, self.in_force) {
            (Some(_), _) => {}
            (None, InForce::Frames) => return Err(Error::OverFrames),
            (None, in_force) => return Err(Error::NotSteered { in_force }),
        }
        match state.present.get(lane) {
            None => {
                let most = state.present.len() - 1;
                Err(Error::Refused(corelane_select::Error::LaneRange { got: lane, most }))
            }
            Some(false) if expected => Err(Error::LaneAway { lane }),
            Some(true) if !expected => Err(Error::LanePresent { lane }),
            Some(_) => Ok(()),
        }
    }

    /// Connections follow the table only to lanes that it gives buckets to: all others have what is theirs.
    fn put_and_follow(&self, state: &mut TableInForce, table: &Table) -> Result<(), Error> {
        let before = state.table.clone();
        self.put(state, table)?;
        let gained = |lane: &usize| table.owned(*lane).any(|bucket| before.lane(bucket) != *lane);
        match self.attached {
            Some(_) => follow(&self.tell, table, state.present.len(), &table.owners().filter(gained).collect::<Vec<_>>()),
            // No connection comes over frames.
            None => Ok(()),
        }
    }

    fn put(&self, state: &mut TableInForce, table: &Table) -> Result<(), Error> {
        let written = match (&self.attached, self.in_force) {
            (Some(attached), _) => {
                let written = attached.selector.rewrite(table);
                // A refusal may come after some buckets.
                state.table = attached.selector.table();
                written
            }
            (None, InForce::Frames) => {
                check(table, &state.table, state.present.len())?;
                state.table = table.clone();
                Ok(())
            }
            (None, in_force) => return Err(Error::NotSteered { in_force }),
        };
        let TableInForce { table: in_force, told, .. } = state;
        told.iter_mut().for_each(|told| told(in_force));
        written?;
        assert!(state.table == *table, "what the kernel was given is what lanes are told");
        self.refresh(state)?;
        let all: Vec<usize> = (0..state.present.len()).collect();
        self.tell.all(&all, || Command::Table(state.table.clone()))
    }

    /// Has one of the lanes that are there put the table into force where that takes a socket.
    fn refresh(&self, state: &TableInForce) -> Result<(), Error> {
        match state.present.iter().position(|present| *present) {
            Some(lane) if self.in_force == InForce::Classic => self.tell.all(&[lane], || Command::Refresh),
            _ => Ok(()),
        }
    }

    /// Has a lane to which flows of others come look whether what was attached is still there. Waits for nothing: lanes call this.
    pub(crate) fn mend(&self, lane: usize) {
        if self.attached.is_some() {
            // Where it cannot be mended, strays go on being counted.
            self.tell.say(lane, Command::Mend);
        }
    }

    fn lock(&self) -> MutexGuard<'_, TableInForce> {
        // What a panic left behind is whole: the table is replaced in one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a table that cannot take the place of another one.
fn check(table: &Table, present: &Table, lanes: usize) -> Result<(), corelane_select::Error> {
    let (got, expected) = (table.buckets().count(), present.buckets().count());
    match table.owners().find(|lane| *lane >= lanes) {
        Some(got) => Err(corelane_select::Error::LaneRange { got, most: lanes - 1 }),
        None if got != expected => Err(corelane_select::Error::BucketCount { got, expected }),
        None => Ok(()),
    }
}
