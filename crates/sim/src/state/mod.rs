//! All that there is in a world, what may happen in it, and its chance.

mod lanes;

pub(crate) use lanes::entry;

use crate::check::{Booked, Ledger};
use crate::clock::Clock;
use crate::faults::{FaultCounts, FaultKind, Faults, Planted};
use crate::files::Files;
use crate::lane::{FileWork, Lane, Stop};
use crate::log::{Detail, Log, Site};
use crate::net::datagrams::Packet;
use crate::net::detached::Detachments;
use crate::net::peers::PeerState;
use crate::net::{Network, Owner};
use crate::wire::Wire;
use corelane_seam::{Fault, OffloadWork, Random, Socket};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

/// What happens at a time.
pub(crate) enum Event {
    Syn {
        attempt: u64,
    },
    Opened {
        attempt: u64,
    },
    AttemptFails {
        attempt: u64,
        fault: Fault,
    },
    Arrival {
        stream: u64,
        side: usize,
    },
    Packet {
        host: usize,
        packet: Packet,
    },
    /// The sender of a datagram hears that nobody is bound where it went.
    NobodyThere {
        host: usize,
        from: SocketAddr,
        to: SocketAddr,
    },
    /// A late completion may be handed over: the lane has a reason to wake.
    Due,
    Bell {
        lane: usize,
    },
    /// Memory that was refused may be there now.
    Memory {
        lane: usize,
        socket: Socket,
    },
    /// A lane's descriptor table is filled by others no more.
    TableHasRoom {
        lane: usize,
    },
    /// A fragmented arena is whole again.
    Mended {
        lane: usize,
    },
    /// A late stop or cancel takes effect.
    Stop {
        lane: usize,
        stop: Stop,
    },
    /// The system reads the memory of a send no longer.
    Release {
        lane: usize,
        number: u64,
    },
    /// It still reads memory of what was sent on a socket that was closed long ago.
    Withhold {
        lane: usize,
        socket: Socket,
    },
    File {
        lane: usize,
        asked: Booked,
        work: FileWork,
    },
    /// What happened in a watched directory is told.
    Told {
        lane: usize,
        number: u64,
    },
    Offload {
        lane: usize,
        asked: Booked,
        work: OffloadWork,
    },
    Alarm {
        token: u64,
    },
    /// The interface has read the next packet of a queue.
    FrameLeaves {
        card: usize,
        queue: usize,
        epoch: u32,
    },
    /// The interface reads the memory of a packet that has left no longer, which lies in so many frames.
    FrameRead {
        card: usize,
        queue: usize,
        epoch: u32,
        frames: u64,
    },
    /// A frame reaches an interface.
    Frame {
        card: usize,
        bytes: Vec<u8>,
    },
    CardUp {
        card: usize,
    },
}

/// News for the test.
pub(crate) enum Notice {
    Peer(usize),
    Incoming(usize),
    Alarm(u64),
}

/// A simulated network of hosts with one virtual clock. Everything in it follows from the seed and from what the lanes
/// and the test do, so a run can be repeated. Cloning gives another name of the same world; it stays on its thread.
#[derive(Clone)]
pub struct World(pub(crate) Rc<RefCell<State>>);

pub(crate) struct State {
    pub(crate) clock: Clock<Event>,
    pub(crate) random: Random,
    pub(crate) faults: Faults,
    pub(crate) counts: FaultCounts,
    pub(crate) planted: Option<Planted>,
    pub(crate) planted_count: u64,
    /// What is sent is read for as long as this lasts.
    pub(crate) keeps_sends: bool,
    /// Sends whose pages the receiver has: their lanes and numbers, in order, by the connection and the end that sent them.
    pub(crate) shared: BTreeMap<(u64, usize), VecDeque<(usize, u64)>>,
    pub(crate) log: Log,
    pub(crate) ledger: Ledger,
    pub(crate) net: Network,
    pub(crate) wire: Wire,
    pub(crate) files: Files,
    /// How long the disk takes, in nanoseconds; 0 if nothing has to come from there.
    pub(crate) disk_delay: u64,
    /// How long each call on a file takes where somebody else serves them, in nanoseconds.
    pub(crate) far_delay: Option<u64>,
    /// Nothing is read from the disk, and nothing written.
    pub(crate) disk_is_broken: bool,
    pub(crate) lanes: Vec<Lane>,
    /// Connections that no driver has, and which of them were dropped, on whatever thread.
    pub(crate) detached: Detachments,
    pub(crate) peers: Vec<PeerState>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) turns: u64,
}

impl State {
    /// Whether a fault happens now; counts it if so.
    pub(crate) fn strikes(&mut self, kind: FaultKind) -> bool {
        let strikes = self.draw(kind);
        if strikes {
            self.count(kind);
        }
        strikes
    }

    /// Draws whether chance wants a fault now, which is to be counted if it can happen.
    pub(crate) fn draw(&mut self, kind: FaultKind) -> bool {
        self.random.below(1_000) < self.faults.chance(kind) as u64
    }

    pub(crate) fn count(&mut self, kind: FaultKind) {
        self.counts.count(kind);
        self.log.note(self.clock.now(), Site::World, kind.name(), Detail::Nothing);
    }

    /// Whether the planted bug strikes at this opportunity.
    pub(crate) fn plants(&mut self, bug: Planted) -> bool {
        let strikes = self.planted == Some(bug) && self.random.below(16) == 0;
        self.planted_count += strikes as u64;
        strikes
    }

    /// Nanoseconds that a packet travels.
    pub(crate) fn latency(&mut self) -> u64 {
        2_000 + self.random.below(100_000)
    }

    /// Gives a peer a turn, unless it has one coming.
    pub(crate) fn notify(&mut self, peer: usize) {
        if !std::mem::replace(&mut self.peers[peer].notified, true) {
            self.notices.push(Notice::Peer(peer));
        }
    }

    /// Makes the peer that answers at end 1 of a new connection.
    pub(crate) fn meet_peer(&mut self, stream: u64) {
        let entry = self.net.held(stream);
        let id = self.peers.len();
        entry.ends[1].owner = Owner::Peer(id);
        let mut peer = PeerState::new(entry.addresses[1], entry.addresses[0]);
        peer.open(stream, 1);
        self.peers.push(peer);
        self.notices.push(Notice::Incoming(id));
    }
}
