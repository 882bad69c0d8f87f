//! What the world keeps for each lane: its sockets, its operations, and whether it sleeps.

pub(crate) mod bell;
pub(crate) mod descriptors;
pub(crate) mod pipes;
pub(crate) mod sockets;

use crate::check::{Booked, Tally, Violation};
use bell::SimBell;
use corelane_seam::slab::Slab;
use corelane_seam::{
    Arena, Chain, Completion, DriverCounters, FileSends, Interest, Lease, Op, OpenOptions, Outcome, Segment, Shared, Socket,
    Tuning,
};
use descriptors::Descriptors;
use pipes::InUse;
use sockets::Sockets;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Whether a lane wants to run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// It goes on by itself.
    Awake,
    /// It waits in its driver, until this time if there is one.
    Asleep(Option<u64>),
    /// Its driver was dropped.
    Gone,
}

/// What a lane cannot go on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Its driver panics.
    Broken,
    /// It never comes back from its turn.
    Stuck,
}

/// A completion that waits to be handed over.
pub(crate) struct Undelivered {
    pub(crate) number: u64,
    pub(crate) socket: Option<Socket>,
    /// Whether it must stay behind everything of its socket.
    pub(crate) is_barrier: bool,
    /// Not before this time.
    pub(crate) due: u64,
    /// Bytes that a receive into a lease added.
    pub(crate) added: usize,
    pub(crate) completion: Completion,
}

impl Undelivered {
    /// Whether it must stay behind `earlier`.
    pub(crate) fn follows(&self, earlier: &Undelivered) -> bool {
        let is_release = |entry: &Self| matches!(entry.completion.outcome, Outcome::Released);
        let is_in_order = self.is_barrier || is_release(self) && is_release(earlier);
        self.number == earlier.number || (is_in_order && self.socket == earlier.socket)
    }
}

/// Memory of a send that is not released yet.
pub(crate) struct Held {
    pub(crate) asked: Booked,
    pub(crate) socket: Socket,
    pub(crate) chain: Chain,
    pub(crate) tally: Tally,
    /// The system reads it no longer, and still reads something that was sent before.
    pub(crate) is_read: bool,
    /// The receiver has its pages: where its bytes stand in the stream of this end of this connection.
    pub(crate) shared: Option<SharedPages>,
    /// The system reads it for ever.
    pub(crate) is_never: bool,
}

/// Where the bytes of a send stand whose pages the receiver has.
#[derive(Clone)]
pub(crate) struct SharedPages {
    pub(crate) stream: u64,
    pub(crate) side: usize,
    pub(crate) places: Range<u64>,
}

impl Held {
    pub(crate) fn new(asked: Booked, socket: Socket, chain: Chain) -> Self {
        Self { asked, socket, tally: memory_tally(&chain), chain, is_read: false, shared: None, is_never: false }
    }

    /// The same, which keeps no file open.
    pub(crate) fn without_files(mut self) -> Self {
        let mut memory = Chain::new();
        self.chain.segments().filter(|segment| segment.bytes().is_some()).for_each(|segment| memory.push(segment.clone()));
        self.chain = memory;
        self
    }

    pub(crate) fn is_unchanged(&self) -> bool {
        memory_tally(&self.chain) == self.tally
    }
}

fn memory_tally(chain: &Chain) -> Tally {
    let mut tally = Tally::default();
    chain.segments().filter_map(Segment::bytes).for_each(|bytes| tally.add(bytes));
    tally
}

/// Which operation to stop: its number, and its socket if it has one.
#[derive(Clone, Copy)]
pub(crate) struct Stop {
    pub(crate) number: u64,
    pub(crate) socket: Option<Socket>,
}

/// Work on a file that was submitted.
pub(crate) enum FileWork {
    /// Beneath the directory with these contents, if there is one.
    Open {
        beneath: Option<usize>,
        path: PathBuf,
        options: OpenOptions,
    },
    Read {
        content: usize,
        offset: u64,
        lease: Lease,
        until: usize,
    },
    Write {
        content: usize,
        offset: u64,
        bytes: Shared,
    },
    Sync,
    Close,
    Warm {
        content: usize,
        offset: u64,
        length: u64,
        was_cold: bool,
    },
    List {
        content: usize,
        most: usize,
    },
}

/// A directory that is watched.
pub(crate) struct Watching {
    pub(crate) asked: Booked,
    pub(crate) content: usize,
    /// Something has happened there, and word of it is on its way.
    pub(crate) is_told: bool,
}

/// An open file.
#[derive(Clone, Copy)]
pub(crate) struct OpenFile {
    pub(crate) content: usize,
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Somebody else serves it, and answers when he likes.
    pub(crate) is_far: bool,
    /// Its number in the lane's descriptor table.
    pub(crate) descriptor: i32,
}

pub(crate) struct Lane {
    pub(crate) host: usize,
    pub(crate) arena: Arena,
    pub(crate) tuning: Tuning,
    pub(crate) counters: DriverCounters,
    pub(crate) sleep: Sleep,
    /// It was woken since it slept: its next collect comes back, with or without anything.
    pub(crate) is_woken: bool,
    pub(crate) trouble: Option<Trouble>,
    pub(crate) bell: Arc<SimBell>,
    /// Whether a ring is to be noticed.
    pub(crate) bell_rang: bool,
    /// Rings on their way.
    pub(crate) bells_late: u32,
    /// Rings before the last collect: the lane has seen what they announced.
    pub(crate) rings_seen: u64,
    pub(crate) submitted: Vec<(Booked, Op)>,
    /// Works that have left since the last collect, a bit each.
    pub(crate) abandoned: u16,
    pub(crate) sockets: Sockets,
    /// Sockets on which something can go on.
    pub(crate) ready: Vec<Socket>,
    /// Sockets that wait for memory of the lane.
    pub(crate) starving: Vec<Socket>,
    /// How often the lane had been given memory back when these were tried last.
    pub(crate) starved_at: u64,
    pub(crate) completed: VecDeque<Undelivered>,
    pub(crate) held: BTreeMap<u64, Held>,
    /// Memory of sends that the system read for too long.
    pub(crate) withheld: Vec<Held>,
    pub(crate) polls: Vec<(Booked, i32, Interest)>,
    pub(crate) watches: Vec<Watching>,
    pub(crate) files: Slab<OpenFile>,
    /// Files that are sent by their paths.
    pub(crate) file_sends: FileSends<Booked>,
    pub(crate) descriptors: Descriptors,
    /// What the descriptors of others in this table are ready for.
    pub(crate) foreign: BTreeMap<i32, Interest>,
    /// Offloaded calls that wait or run.
    pub(crate) offloaded: usize,
    /// Something has happened at a port.
    pub(crate) port_news: bool,
    /// When a port wants to be asked in any case.
    pub(crate) port_wakes_at: Option<u64>,
    /// Ports that the driver has.
    pub(crate) ports_open: usize,
    /// How many of its pipes hold bytes.
    pub(crate) pipes: InUse,
    /// What is taken out of the lane's memory for some time.
    pub(crate) taken_out: Vec<Lease>,
    /// What a planted bug never gives back.
    pub(crate) leaked: Vec<Shared>,
}

impl Lane {
    pub(crate) fn new(host: usize, arena: Arena, tuning: Tuning) -> Self {
        Self {
            host,
            arena,
            tuning,
            counters: DriverCounters::default(),
            sleep: Sleep::Awake,
            is_woken: false,
            trouble: None,
            bell: Arc::default(),
            bell_rang: false,
            bells_late: 0,
            rings_seen: 0,
            submitted: Vec::new(),
            abandoned: 0,
            sockets: Sockets::default(),
            ready: Vec::new(),
            starving: Vec::new(),
            starved_at: 0,
            completed: VecDeque::new(),
            held: BTreeMap::new(),
            withheld: Vec::new(),
            polls: Vec::new(),
            watches: Vec::new(),
            files: Slab::new(),
            file_sends: FileSends::default(),
            descriptors: Descriptors::default(),
            foreign: BTreeMap::new(),
            offloaded: 0,
            port_news: false,
            port_wakes_at: None,
            ports_open: 0,
            pipes: InUse::default(),
            taken_out: Vec::new(),
            leaked: Vec::new(),
        }
    }

    /// Sockets that wait for memory are tried again when some was given back since: else they would be refused as before.
    pub(crate) fn feed_starving(&mut self) {
        let given_back = self.arena.given_back();
        if std::mem::replace(&mut self.starved_at, given_back) != given_back {
            self.ready.append(&mut self.starving);
        }
        self.counters.receives_starved += self.starving.len() as u64;
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.sleep == Sleep::Gone
    }

    pub(crate) fn is_asleep(&self) -> bool {
        matches!(self.sleep, Sleep::Asleep(_)) && self.trouble != Some(Trouble::Stuck)
    }

    /// Whether it has a reason to run.
    pub(crate) fn is_runnable(&self, now: u64) -> bool {
        match self.sleep {
            _ if self.trouble == Some(Trouble::Stuck) => false,
            Sleep::Awake => true,
            Sleep::Gone => false,
            Sleep::Asleep(until) => {
                until.is_some_and(|until| until <= now)
                    || self.bell_rang
                    || self.port_news
                    || self.port_wakes_at.is_some_and(|time| time <= now)
                    || !self.ready.is_empty()
                    || (0..self.completed.len()).any(|index| self.is_due(index, now))
            }
        }
    }

    /// When it wants to wake in any case.
    pub(crate) fn wake_up(&self) -> Option<u64> {
        match self.sleep {
            Sleep::Asleep(until) if self.trouble != Some(Trouble::Stuck) => until.into_iter().chain(self.port_wakes_at).min(),
            _ => None,
        }
    }

    /// Whether the completion at `index` may be handed over.
    pub(crate) fn is_due(&self, index: usize, now: u64) -> bool {
        let entry = &self.completed[index];
        entry.due <= now && !self.completed.range(..index).any(|earlier| entry.follows(earlier))
    }

    /// What is wrong with the lane at the end of a run.
    pub(crate) fn verdict(&self, lane: usize) -> Result<(), Violation> {
        if let Some(socket) = self.sockets.first() {
            return Err(Violation::NeverClosed { lane, socket });
        }
        if !self.bell.is_rung() && !self.bell_rang && self.bells_late == 0 && self.bell.rings() > self.rings_seen {
            return Err(Violation::DoorbellLost { lane });
        }
        if self.ports_open > 0 {
            return Err(Violation::PortsLeft { lane, open: self.ports_open });
        }
        if self.descriptors.count() > 0 {
            return Err(Violation::DescriptorsLeft { lane, open: self.descriptors.count() });
        }
        if self.pipes.get() > 0 {
            return Err(Violation::PipesLeft { lane, held: self.pipes.get() });
        }
        if let Some(held) = self.withheld.iter().find(|held| !held.is_unchanged()) {
            return Err(Violation::MemoryChanged { lane, handle: held.asked.handle });
        }
        // Chains that are withheld may share blocks.
        let withheld: usize = self.withheld.iter().map(|held| held.chain.charged()).sum();
        match self.arena.used() - self.taken_out.iter().map(Lease::capacity).sum::<usize>() {
            bytes if bytes <= withheld => Ok(()),
            bytes => Err(Violation::MemoryLeaked { lane, bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::Handle;

    #[test]
    fn memory_that_was_written_before_its_release_is_noticed() {
        let asked = Booked { number: 1, handle: Handle::new(0, 0, 0) };
        let mut chain = Chain::new();
        chain.push(&b"abc"[..]);
        let mut held = Held::new(asked, Socket { index: 0, generation: 0 }, chain);
        assert!(held.is_unchanged());
        held.chain.clear();
        held.chain.push(&b"abd"[..]);
        assert!(!held.is_unchanged());
    }
}
