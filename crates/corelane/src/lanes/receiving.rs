//! The kernel's receiving of interfaces, kept to what the user fraction leaves it. Without the feature `packets`, `without::receiving` stands in its place.

use crate::admin::messages::Degraded;
use crate::error::Error;
use crate::lanes::frames::Wires;
use corelane_os::report;
use corelane_seam::{Level, Record};
use corelane_watch::{LaneCounter, LaneRow, Page};
use corelane_xdp::{LaneThread, ReceiveThreads, Told, USER_FRACTION, USER_FRACTION_MAX, check_receiving, receive_setting};
use std::path::PathBuf;
use std::sync::Arc;

/// The wish for the kernel's receiving.
#[derive(Clone)]
pub(crate) struct Asked {
    /// The interfaces.
    interfaces: Vec<Box<str>>,
    /// The lanes' part of their CPUs, in per cent.
    pub(crate) user_fraction: u8,
}

impl Default for Asked {
    fn default() -> Self {
        Self { interfaces: Vec::new(), user_fraction: USER_FRACTION }
    }
}

impl Asked {
    /// Asks for one more; once is enough.
    pub(crate) fn interface(&mut self, name: &str) {
        if !self.interfaces.iter().any(|known| **known == *name) {
            self.interfaces.push(name.into());
        }
    }

    /// The user fraction, in per cent.
    pub(crate) fn user_fraction(&self) -> u8 {
        self.user_fraction
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.interfaces.is_empty()
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.interfaces.iter().map(|name| receive_setting(name).into()).collect()
    }
}

/// The user fraction of running lanes beside the kernel's receiving ([`Lanes::receive_threads`](crate::Lanes::receive_threads)): shown and changed from any thread.
#[derive(Clone, Debug)]
pub struct UserFraction(Arc<ReceiveThreads>);

impl UserFraction {
    /// The part in force, in per cent.
    pub fn get(&self) -> u8 {
        self.0.user_fraction()
    }

    /// Puts another one in force, 0 to 99 per cent. Returns what the operator should know.
    ///
    /// # Errors
    /// [`Error::Setting`]: one that is greater, and what stands in the way at an interface; at the others it is in force then.
    pub fn set(&self, per_cent: u8) -> Result<Vec<Record>, Error> {
        check_fraction(per_cent)?;
        let told = self.0.set(per_cent).map_err(refused)?;
        Ok(told.iter().map(record).collect())
    }

    /// Has interfaces received as they were before.
    pub(crate) fn end(&self) {
        self.0.end();
    }
}

/// Looks whether what was set can be meant.
pub(crate) fn check(asked: &Asked, wires: &Wires) -> Result<(), Error> {
    check_fraction(asked.user_fraction)?;
    let is_polled = |name: &str| wires.polled().any(|polled| polled == name);
    match asked.interfaces.iter().find(|name| is_polled(name)) {
        None => Ok(()),
        Some(name) => {
            let why = format!("lanes take the packets of {name} in by themselves (poll of --packet): leave out one of the two");
            Err(Error::Setting { name: "receive-threads", why })
        }
    }
}

fn check_fraction(per_cent: u8) -> Result<(), Error> {
    if per_cent <= USER_FRACTION_MAX {
        return Ok(());
    }
    Err(Error::Setting {
        name: "user-frac",
        why: format!("{per_cent} is no user fraction: use 0 to {USER_FRACTION_MAX} per cent"),
    })
}

/// Looks whether the interfaces can be governed, and changes nothing.
pub(crate) fn check_interfaces(asked: &Asked) -> Result<(), Error> {
    asked.interfaces.iter().try_for_each(|name| check_receiving(name).map_err(refused))
}

/// Has the interfaces received beside these lanes, if any are named; and what the operator should know. With `waits`, another process may have them until it ends. The page says
/// how long threads ran beside each lane.
pub(crate) fn start(
    asked: &Asked,
    cpus: &[Option<usize>],
    threads: &[u32],
    page: &Page,
    waits: bool,
) -> Result<Option<(UserFraction, Vec<Record>)>, Error> {
    if asked.is_nothing() {
        return Ok(None);
    }
    let bound = cpus.iter().zip(threads).filter_map(|(cpu, thread)| Some(LaneThread { cpu: (*cpu)?, thread: *thread }));
    let bound: Vec<LaneThread> = bound.collect();
    assert!(bound.len() == threads.len(), "each lane that was planned is bound");
    let rows = (0..bound.len()).map(|lane| page.lane(lane)).collect::<Result<Vec<LaneRow>, _>>()?;
    let spent = move |spent: &[u64], user_fraction: u8| {
        for (row, nanoseconds) in rows.iter().zip(spent) {
            row.set(LaneCounter::ReceivingNanoseconds, *nanoseconds);
            row.set(LaneCounter::ReceivingUserFrac, user_fraction.into());
        }
    };
    let started = ReceiveThreads::start(&asked.interfaces, bound, asked.user_fraction, waits, tell, spent);
    let (threads, told) = started.map_err(refused)?;
    Ok(Some((UserFraction(Arc::new(threads)), told.iter().map(record).collect())))
}

fn refused(why: corelane_xdp::Error) -> Error {
    Error::Setting { name: "receive-threads", why: why.to_string() }
}

/// Has the operator told of what comes later.
fn tell(told: Told) {
    match code_of(&told) {
        Some(code) => code.say(told),
        None => report::line(record(&told)),
    }
}

fn record(told: &Told) -> Record {
    code_of(told).map_or_else(|| Record::new(Level::Info, told.to_string()), |code| code.note(told))
}

/// The code of what is told, unless all is in order.
fn code_of(told: &Told) -> Option<Degraded> {
    match told {
        Told::Attached { .. } => Some(Degraded::ReceiveProgram),
        Told::Missed { .. } | Told::RealTime => Some(Degraded::ReceiveShare),
        Told::Lost { .. } | Told::Kept { .. } => Some(Degraded::ReceiveThreads),
        _ => None,
    }
}
