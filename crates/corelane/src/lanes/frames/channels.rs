//! Channels of other processes: opened on all packet lanes for as long as the process that asked has its connection.
//!
//! Each is a ring of a lane's own. A channel that leads to another lane (`Target::Lane`) can be opened by nobody outside: it is of the stack's
//! interface alone, for programs that make their stacks themselves.

use super::insisting::Insisting;
use corelane_channel::{Offers, Opens, ring};
use corelane_lane::Tell;
use corelane_stack::{CHANNELS_MAX, Filter, Policy, Target};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Packets in each ring: 2 MiB.
const PACKETS: usize = 1024;

struct Channels {
    tell: Tell<Policy>,
    closing: Insisting,
    lanes: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// Each channel's filter, and on how many lanes it was opened.
    filters: BTreeMap<u64, (Filter, usize)>,
    /// The number that was given last.
    last: u64,
}

/// Offers the packets of so many lanes to other processes, at a socket.
pub(crate) fn offer(path: &Path, tell: Tell<Policy>, lanes: usize) -> io::Result<Offers> {
    let closing = Insisting::new(tell.clone(), lanes);
    Offers::open(path, Channels { tell, closing, lanes, open: Mutex::default() })
}

impl Channels {
    fn lock(&self) -> MutexGuard<'_, Open> {
        // A state that a panic left behind is whole: nothing is changed in two steps.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for a filter that no other channel has.
    fn enter(&self, filter: Filter) -> Result<u64, String> {
        let mut open = self.lock();
        if open.filters.len() >= CHANNELS_MAX {
            return Err(format!("{CHANNELS_MAX} channels are open: close one"));
        }
        if open.filters.values().any(|(known, _)| *known == filter) {
            return Err("another process has these packets: end it, or filter otherwise".to_owned());
        }
        open.last += 1;
        let number = open.last;
        open.filters.insert(number, (filter, 0));
        Ok(number)
    }

    /// A ring for each lane, of which that lane becomes the producer; their files.
    fn rings(&self, number: u64, filter: Filter) -> Result<Vec<OwnedFd>, String> {
        let ring_of = |lane| {
            let (memory, file) = ring(PACKETS).map_err(|error| format!("no memory for a ring: {error}"))?;
            let told = self.tell.tell(lane, Policy::OpenChannel(number, filter, Target::Ring(memory)));
            told.map_err(|unheard| format!("lane {lane} has not taken the order ({:?}): ask again", unheard.why))?;
            self.lock().filters.entry(number).and_modify(|(_, lanes)| *lanes += 1);
            Ok(file)
        };
        (0..self.lanes).map(ring_of).collect()
    }
}

impl Opens for Channels {
    fn open(&self, request: &str) -> Result<(u64, Vec<OwnedFd>), String> {
        let filter: Filter = request.parse().map_err(|none: corelane_stack::NoFilter| none.to_string())?;
        let number = self.enter(filter)?;
        let rings = self.rings(number, filter).inspect_err(|_| self.close(number))?;
        Ok((number, rings))
    }

    fn close(&self, number: u64) {
        let had = self.lock().filters.remove(&number);
        assert!(had.is_some(), "a channel is closed once");
        let lanes = had.map_or(0, |(_, lanes)| lanes);
        (0..lanes).for_each(|lane| self.closing.order(lane, Policy::CloseChannel(number)));
    }
}
