//! The program with its maps, and the connections on which it decides.

use crate::program::{Maps, assembled};
use crate::words::{Counted, Say};
use corelane_os::sockets;
use corelane_seam::{Fault, Reason};
use corelane_select::Error;
use corelane_select::bpf::{Hash, HashKind, Map, MapKind, Program, ProgramKind, Told};
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Pairs of connections, the program that decides for them, and what it and the lane tell each other. All of it ends with the process, however that ends.
#[derive(Debug)]
pub struct Bridge {
    connections: Map,
    directions: Hash,
    said: Map,
    counted: Map,
    bells: Told,
    _program: Program,
}

const COUNTED_BYTES: usize = size_of::<Counted>();
const SAY_BYTES: usize = size_of::<Say>();

impl Bridge {
    /// For so many pairs. Needs CAP_BPF and CAP_NET_ADMIN, and Linux 6.16.
    ///
    /// # Errors
    /// Why the system does not make it.
    pub fn new(pairs: usize) -> Result<Self, Error> {
        assert!(pairs > 0 && pairs <= 1 << 20, "a bridge has room, and bounded");
        let directions_max = 2 * pairs;
        let connections = Map::new(MapKind::Connections, 4, directions_max, "corelane_pairs")?;
        let directions = Hash::new(HashKind::Plain, (8, 4), directions_max, "corelane_ways")?;
        let said = Map::new(MapKind::Array, SAY_BYTES, directions_max, "corelane_said")?;
        let counted = Map::new(MapKind::Array, COUNTED_BYTES, directions_max, "corelane_counts")?;
        let bells = Told::new(directions_max, "corelane_bells")?;
        let maps = Maps {
            connections: connections.as_fd(),
            directions: directions.as_fd(),
            said: said.as_fd(),
            counted: counted.as_fd(),
            bells: bells.as_fd(),
        };
        let program = Program::load(ProgramKind::StreamVerdict, &assembled(&maps), "corelane_bridge")?;
        program.decide_for(&connections).map_err(|fault| Error::Refused { call: "BPF_PROG_ATTACH", fault })?;
        Ok(Self { connections, directions, said, counted, bells, _program: program })
    }

    /// Has the program decide on what a connection over TCP receives: it is where this direction begins, and where the one ends whose number differs in the lowest bit. Until the lane
    /// [says](Bridge::say) more, all goes to the lane. It stays so until the connection is closed: whoever takes it out loses what has come for the lane.
    ///
    /// Nothing of what it has received may be read in part. Bytes that were received before, and not given to the other, count as passed to the lane.
    ///
    /// # Errors
    /// What the system says; `Unsupported` of one that is not TCP, and of one with kernel TLS.
    pub fn enter(&self, direction: u32, connection: BorrowedFd<'_>, held: u64) -> Result<(), Fault> {
        if sockets::tcp_state(connection).is_none() {
            return Err(Fault::of(Reason::Unsupported));
        }
        let cookie = sockets::cookie(connection)?.to_ne_bytes();
        let mut counts = [0; COUNTED_BYTES];
        counts[offset_of!(Counted, passed)..][..8].copy_from_slice(&held.to_ne_bytes());
        self.counted.update(direction as usize, &counts)?;
        self.said.update(direction as usize, &[0; SAY_BYTES])?;
        self.directions.update(&cookie, &direction.to_ne_bytes())?;
        let number = connection.as_raw_fd().to_ne_bytes();
        self.connections.update(direction as usize, &number).inspect_err(|_| _ = self.directions.delete(&cookie))
    }

    /// The connection is to be closed: the program knows nothing of it any more.
    pub fn leave(&self, connection: BorrowedFd<'_>) {
        let cookie = sockets::cookie(connection).map(u64::to_ne_bytes);
        // One that is not there has left.
        let _ = cookie.and_then(|cookie| self.directions.delete(&cookie));
    }

    /// What is counted of a direction.
    pub fn counted(&self, direction: u32) -> Counted {
        // reason: arrays have a value for each of their numbers.
        let found = self.counted.lookup(direction as usize).expect("a direction of a bridge has its counts");
        let count = |at: usize| found[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let word = |at: usize| found[at..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        Counted {
            redirected: count(offset_of!(Counted, redirected)),
            passed: count(offset_of!(Counted, passed)),
            rung: count(offset_of!(Counted, rung)),
            pieces: count(offset_of!(Counted, pieces)),
            next: word(offset_of!(Counted, next)),
            is_placed: word(offset_of!(Counted, is_placed)),
            ends: word(offset_of!(Counted, ends)),
            is_spoiled: word(offset_of!(Counted, is_spoiled)),
        }
    }

    /// Says this of a direction.
    pub fn say(&self, direction: u32, say: Say) {
        let mut value = [0; SAY_BYTES];
        for (place, number) in value.chunks_exact_mut(8).zip([say.done, say.until, say.heard, say.until_pieces]) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        let said = self.said.update(direction as usize, &value);
        assert!(said.is_ok(), "a direction of a bridge has its place");
    }

    /// The next direction of which bytes went to the lane, which had heard of all before. What [`Bridge::bells`] names is readable while there are some.
    pub fn heard(&mut self) -> Option<u32> {
        self.bells.take().and_then(|direction| u32::try_from(direction).ok())
    }

    /// What is readable while directions are told of.
    pub fn bells(&self) -> BorrowedFd<'_> {
        self.bells.as_fd()
    }
}
