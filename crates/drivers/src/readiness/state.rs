//! What a driver knows, and what each kind of operation does with it: its descriptors, what it holds for them, and the lists in which
//! they wait.

use super::endpoint::{BELL_EDGES, Endpoint, EndpointKind, Listed, NO_NEIGHBOUR, Readable, Receiving, edges};
use super::kept::{KeptSends, Parted};
use super::opened::Ports;
use super::source::{BELL, ReadinessSource};
use super::watched::Watches;
use crate::bell::EventBell;
use crate::crossing::Crossing;
use crate::datagrams::{DatagramCalls, Departure};
use crate::errors::Error;
use crate::means::Ways;
use crate::needed_calls::probe_socket_calls;
use crate::offload::{Ended, Helpers};
use crate::open_file::OpenFile;
use crate::pipes::Pipes;
use crate::probes::Probes;
use corelane_os::sockets;
use corelane_seam::ordered::Ordered;
use corelane_seam::slab::{Key, Slab};
use corelane_seam::{
    Address, Arena, Chain, Completion, DatagramOutcome, Datagrams, DriverCounters, Fault, FileSends, Handle, Lease, Op, Outcome,
    Shared, Socket, StreamOutcome, Tuning,
};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Completions after which the kernel is asked for events although there is still work: what arrives meanwhile (other
/// connections, the end of a blocked send) waits that long at the most.
pub(super) const LOOK_EVERY: usize = 64;

/// So many to whom something has just come are served for one who has left something.
const READY_EACH: u32 = 4;

/// A call under way.
pub(super) struct Call {
    pub(super) handle: Handle,
    pub(super) memory: Memory,
}

/// The memory that is used meanwhile. It stays here until the call has ended.
pub(super) enum Memory {
    None,
    Read(Lease),
    Written(Shared),
}

/// What a receive or a send that waits holds on to.
pub(super) enum Held {
    Lease { lease: Lease, until: usize },
    Batch(Datagrams),
    Chain(Chain),
    Departure(Departure),
}

/// What one collect may still hand out.
pub(super) struct Budget {
    pub(super) completions: usize,
    /// Bytes of receive blocks.
    pub(super) cycle_bytes: usize,
}

impl Budget {
    pub(super) fn is_spent(&self) -> bool {
        self.completions == 0 || self.cycle_bytes == 0
    }
}

/// A socket that was made before the driver, for an address.
#[derive(Clone, Copy)]
pub(super) struct Loan {
    /// By which the lane's table of descriptors knows it.
    pub(super) number: i32,
    /// Another process has it as well, and goes on with it.
    pub(super) outlives: bool,
}

/// A list of endpoints, first in, first out, linked through their table.
pub(super) struct List {
    listed: Listed,
    first: u32,
    last: u32,
}

impl List {
    pub(super) fn new(listed: Listed) -> Self {
        assert!(listed != Listed::Nowhere);
        Self { listed, first: NO_NEIGHBOUR, last: NO_NEIGHBOUR }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first == NO_NEIGHBOUR
    }

    pub(super) fn push(&mut self, endpoints: &mut Slab<Endpoint>, key: Key) {
        let last = self.last;
        let endpoint = endpoints.at_mut(key.index);
        assert!(endpoint.listed == Listed::Nowhere, "an endpoint stands in one list at most");
        endpoint.listed = self.listed;
        (endpoint.previous, endpoint.next) = (last, NO_NEIGHBOUR);
        match last {
            NO_NEIGHBOUR => self.first = key.index,
            last => {
                let before = endpoints.at_mut(last);
                assert!(before.next == NO_NEIGHBOUR && before.listed == self.listed, "the last of a list has nobody behind it");
                before.next = key.index;
            }
        }
        self.last = key.index;
    }

    pub(super) fn pop(&mut self, endpoints: &mut Slab<Endpoint>) -> Option<Key> {
        if self.is_empty() {
            return None;
        }
        let key = endpoints.key_at(self.first);
        self.remove(endpoints, key);
        Some(key)
    }

    pub(super) fn remove(&mut self, endpoints: &mut Slab<Endpoint>, key: Key) {
        let endpoint = endpoints.at_mut(key.index);
        assert!(endpoint.listed == self.listed, "an endpoint is removed from the list in which it stands");
        endpoint.listed = Listed::Nowhere;
        let (previous, next) = (endpoint.previous, endpoint.next);
        assert!((previous == NO_NEIGHBOUR) == (self.first == key.index), "only the first of a list has nobody before it");
        assert!((next == NO_NEIGHBOUR) == (self.last == key.index), "only the last of a list has nobody behind it");
        match previous {
            NO_NEIGHBOUR => self.first = next,
            previous => endpoints.at_mut(previous).next = next,
        }
        match next {
            NO_NEIGHBOUR => self.last = previous,
            next => endpoints.at_mut(next).previous = previous,
        }
    }
}

/// A driver that waits until its descriptors are ready and then uses them. Lives on its lane's thread.
pub struct ReadinessDriver<S: ReadinessSource> {
    pub(super) arena: Arena,
    pub(super) tuning: Tuning,
    pub(super) probes: Probes,
    pub(super) source: S,
    pub(super) bell: Arc<EventBell>,
    /// By which connections leave for other drivers of the program, and come; none where they stay.
    pub(super) crossing: Option<Arc<Crossing>>,
    pub(super) endpoints: Slab<Endpoint>,
    pub(super) held: Slab<Held>,
    pub(super) ready: List,
    pub(super) rest: List,
    /// How many of `ready` were served since the last of `rest`.
    pub(super) ready_served: u32,
    pub(super) starved: List,
    /// The largest block that one of them needs at the least.
    pub(super) starved_bytes: usize,
    /// Connects and polls under way, to be cancelled by handle.
    pub(super) cancellable: Ordered<Handle, Key>,
    /// Listeners of which each connection has the same local address, and that address.
    pub(super) local: Ordered<u32, Address>,
    /// Sockets that were made before, by their addresses.
    pub(super) lent: Vec<(Address, Loan)>,
    /// Sockets that another process made and that are the lane's own, until they are asked for.
    pub(super) given: Vec<(Address, OwnedFd)>,
    /// Listeners that lanes share, to be armed with the next collect.
    pub(super) to_arm: Vec<Key>,
    pub(super) datagram_calls: Option<Box<DatagramCalls>>,
    pub(super) files: Slab<Arc<OpenFile>>,
    pub(super) watches: Watches,
    pub(super) ports: Ports,
    pub(super) pipes: Pipes,
    pub(super) helpers: Helpers,
    pub(super) calls: Slab<Call>,
    pub(super) ended: Vec<Ended>,
    /// Sockets whose close was submitted: their data at the source, and whom to tell once they are closed.
    pub(super) closing: Vec<(u64, Handle)>,
    /// What connections keep that have sent without a copy, by their keys.
    pub(super) kept: Ordered<Key, KeptSends>,
    /// What was seen of uncopied sends, by their peers' networks.
    pub(super) ways: Ways,
    /// Sockets whose close was submitted, and whose sends the kernel still reads.
    pub(super) parted: Vec<Parted>,
    pub(super) pushed: Vec<(Handle, Op)>,
    /// Files that are sent by their paths.
    pub(super) file_sends: FileSends<Handle>,
    /// Works that have left the lane since the last collect, a bit each.
    pub(super) abandoned: u16,
    /// Completions since the kernel was last asked for events.
    pub(super) since_look: usize,
    pub(super) counters: DriverCounters,
}

impl<S: ReadinessSource> ReadinessDriver<S> {
    /// A driver on `source` that receives into `arena` and is woken by `bell`. `probes` says what works; the tuning was checked.
    ///
    /// # Errors
    /// [`Error::Refused`] if the system does not watch the bell.
    pub(crate) fn on(mut source: S, arena: Arena, tuning: Tuning, probes: Probes, bell: Arc<EventBell>) -> Result<Self, Error> {
        probe_socket_calls()?;
        let refused = |fault| Error::Refused { call: "epoll_ctl", fault };
        source.watch(bell.as_fd(), BELL_EDGES, BELL).map_err(refused)?;
        Ok(Self {
            arena,
            tuning,
            probes,
            source,
            helpers: Helpers::new(bell.clone(), tuning.offload_max, tuning.offload_threads),
            bell,
            crossing: None,
            endpoints: Slab::roomy(),
            held: Slab::new(),
            ready: List::new(Listed::Ready),
            rest: List::new(Listed::Rest),
            ready_served: 0,
            starved: List::new(Listed::Starved),
            starved_bytes: 0,
            cancellable: Ordered::default(),
            local: Ordered::default(),
            lent: Vec::new(),
            given: Vec::new(),
            to_arm: Vec::new(),
            datagram_calls: None,
            files: Slab::new(),
            watches: Watches::default(),
            ports: Ports::default(),
            pipes: Pipes::default(),
            calls: Slab::new(),
            ended: Vec::new(),
            closing: Vec::new(),
            kept: Ordered::default(),
            ways: Ways::default(),
            parted: Vec::new(),
            pushed: Vec::new(),
            file_sends: FileSends::default(),
            abandoned: 0,
            since_look: 0,
            counters: DriverCounters::default(),
        })
    }

    /// The same driver, whose connections can go to the others that have this crossing, and come from them.
    #[must_use]
    pub fn joined(mut self, crossing: Arc<Crossing>) -> Self {
        self.crossing = Some(crossing);
        self
    }

    /// What this driver uses of the kernel.
    pub fn probes(&self) -> Probes {
        self.probes
    }

    /// Takes a descriptor into the table and has its edges reported.
    pub(super) fn enter(&mut self, descriptor: OwnedFd, kind: EndpointKind) -> Result<Key, Fault> {
        let key = self.endpoints.insert(Endpoint::new(descriptor, kind));
        self.watch(key).map(|()| key).inspect_err(|_| drop(self.endpoints.remove(key)))
    }

    /// Has the edges of an endpoint reported, unless they are; what is so already is reported at once.
    pub(super) fn watch(&mut self, key: Key) -> Result<(), Fault> {
        let endpoint = self.endpoints.at_mut(key.index);
        if !endpoint.is_watched {
            self.counters.calls_work += 1;
            self.source.watch(endpoint.descriptor.as_fd(), edges(endpoint), key.bits())?;
            endpoint.is_watched = true;
        }
        Ok(())
    }

    /// If a socket was lent for this address: a duplicate of it, and whether the lent socket outlives this process.
    pub(super) fn borrowed(&self, address: &Address) -> Result<Option<(OwnedFd, bool)>, Fault> {
        let duplicate = |loan: &Loan| Ok((sockets::duplicate(loan.number)?, loan.outlives));
        self.lent.iter().find(|(known, _)| known == address).map(|(_, loan)| loan).map(duplicate).transpose()
    }

    /// The socket that was given for this address, one that listens or one for datagrams.
    pub(super) fn given(&mut self, address: &Address, listens: bool) -> Option<OwnedFd> {
        let fits = |(at, socket): &(Address, OwnedFd)| at == address && sockets::listens(socket.as_fd()) == listens;
        let place = self.given.iter().position(fits)?;
        Some(self.given.swap_remove(place).1)
    }

    /// Puts an endpoint on a list of those that are served if it has a receive under way and something to receive.
    pub(super) fn queue(&mut self, key: Key) {
        let endpoint = self.endpoints.at_mut(key.index);
        if endpoint.receiving != Receiving::Nothing && endpoint.listed == Listed::Nowhere {
            match endpoint.readable {
                Readable::Nothing => {}
                Readable::News => self.ready.push(&mut self.endpoints, key),
                Readable::Rest => self.rest.push(&mut self.endpoints, key),
            }
        }
    }

    /// Whether somebody is to be served.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.rest.is_empty()
    }

    /// Who is served next. Those who have little to say do not wait for all of what others have: so each who has left something waits behind those to whom something
    /// has just come, but for one in [`READY_EACH`] ("new" and "old" flows: RFC 8290, section 4.2).
    pub(super) fn next_ready(&mut self) -> Option<Key> {
        let is_turn_of_rest = self.ready.is_empty() || self.ready_served >= READY_EACH;
        if is_turn_of_rest && let Some(key) = self.rest.pop(&mut self.endpoints) {
            self.ready_served = 0;
            return Some(key);
        }
        self.ready_served = self.ready_served.saturating_add(1);
        self.ready.pop(&mut self.endpoints)
    }

    pub(super) fn leave_list(&mut self, key: Key) {
        match self.endpoints.at_mut(key.index).listed {
            Listed::Nowhere => {}
            Listed::Ready => self.ready.remove(&mut self.endpoints, key),
            Listed::Rest => self.rest.remove(&mut self.endpoints, key),
            Listed::Starved => self.starved.remove(&mut self.endpoints, key),
        }
    }

    /// Has an endpoint wait until the arena has a block of `bytes`.
    pub(super) fn starve(&mut self, key: Key, bytes: usize) {
        if self.starved.is_empty() {
            self.counters.receives_starved += 1;
        }
        self.starved_bytes = self.starved_bytes.max(bytes);
        self.starved.push(&mut self.endpoints, key);
    }

    pub(super) fn begin_receive(&mut self, handle: Handle, key: Key, receiving: Receiving) -> Option<Outcome> {
        let Some(endpoint) = self.endpoints.get_mut(key) else { return Some(Outcome::Failed(Fault::CANCELLED)) };
        let fits = match receiving {
            Receiving::Connections => endpoint.kind == EndpointKind::Listener,
            Receiving::Bytes | Receiving::Piped(_) | Receiving::BytesInto(_) => endpoint.kind == EndpointKind::Stream,
            Receiving::Datagrams(_) => matches!(endpoint.kind, EndpointKind::Datagrams(_)),
            Receiving::Nothing => false,
        };
        assert!(fits, "{receiving:?} cannot be received from a {:?}", endpoint.kind);
        assert!(endpoint.receiving == Receiving::Nothing, "a socket has at most one receive under way");
        endpoint.receiving = receiving;
        endpoint.receive_handle = handle;
        let is_told = endpoint.is_watched || endpoint.is_readable() || endpoint.is_shared_listener();
        if !is_told && let Err(fault) = self.watch(key) {
            self.endpoints.at_mut(key.index).receiving = Receiving::Nothing;
            return self.given_up(receiving, fault);
        }
        self.queue(key);
        None
    }

    pub(super) fn end_receive(&mut self, key: Key, outcome: Outcome, completions: &mut Vec<Completion>) {
        let endpoint = self.endpoints.at_mut(key.index);
        assert!(endpoint.receiving != Receiving::Nothing, "a receive ends once");
        assert!(endpoint.listed == Listed::Nowhere, "whoever is served stands in no list");
        endpoint.receiving = Receiving::Nothing;
        completions.push(Completion::last(endpoint.receive_handle, outcome));
    }

    /// Ends the receive under way, if there is one, for this reason.
    pub(super) fn end_receive_with(&mut self, key: Key, fault: Fault, completions: &mut Vec<Completion>) {
        // What is closed receives nothing any more.
        let Some(endpoint) = self.endpoints.get_mut(key) else { return };
        let receiving = std::mem::replace(&mut endpoint.receiving, Receiving::Nothing);
        let handle = endpoint.receive_handle;
        let Some(outcome) = self.given_up(receiving, fault) else { return };
        self.leave_list(key);
        assert!(self.endpoints.at_mut(key.index).listed == Listed::Nowhere);
        completions.push(Completion::last(handle, outcome));
    }

    /// Closes a descriptor; through the source, if that has ever heard of it.
    pub(super) fn release(&mut self, key: Key, endpoint: Endpoint) {
        let copies = endpoint.copies();
        match endpoint.is_watched || endpoint.is_shared_listener() {
            true => self.source.close(key.bits(), endpoint.descriptor, copies),
            false => drop(endpoint.descriptor),
        }
    }

    /// What a receive that ends for this reason comes to, with what it holds; none if there is none.
    fn given_up(&mut self, receiving: Receiving, fault: Fault) -> Option<Outcome> {
        Some(match receiving {
            Receiving::Nothing => return None,
            Receiving::Connections | Receiving::Bytes | Receiving::Piped(_) => Outcome::Failed(fault),
            Receiving::BytesInto(held) => {
                Outcome::Stream(StreamOutcome::Filled { lease: self.held_lease(held.get()).0, fault: Some(fault) })
            }
            Receiving::Datagrams(held) => {
                Outcome::Datagram(DatagramOutcome::Arrived { batch: self.held_batch(held.get()), fault: Some(fault) })
            }
        })
    }

    /// Has a full socket's room reported.
    ///
    /// # Errors
    /// Why the system does not report it.
    pub(super) fn await_room(&mut self, key: Key) -> Result<(), Fault> {
        let endpoint = self.endpoints.at_mut(key.index);
        if std::mem::replace(&mut endpoint.awaits_room, true) {
            return Ok(());
        }
        self.counters.calls_work += 1;
        self.source.change(endpoint.descriptor.as_fd(), edges(endpoint), key.bits())
    }

    /// Takes back [`ReadinessDriver::await_room`], with the first report that nobody waited for: whoever fills a socket
    /// time after time is not to pay for each.
    pub(super) fn await_no_room(&mut self, key: Key) {
        let endpoint = self.endpoints.at_mut(key.index);
        if std::mem::replace(&mut endpoint.awaits_room, false) {
            self.counters.calls_work += 1;
            // Where this fails, there are reports that mean nothing.
            let _ = self.source.change(endpoint.descriptor.as_fd(), edges(endpoint), key.bits());
        }
    }

    pub(super) fn make_cancellable(&mut self, handle: Handle, key: Key) {
        let other = self.cancellable.insert(handle, key);
        assert!(other.is_none(), "one handle names one connect or poll at a time");
    }

    pub(super) fn hold(&mut self, held: Held) -> u32 {
        self.held.insert(held).index
    }

    pub(super) fn held_lease(&mut self, index: u32) -> (Lease, usize) {
        match self.held.remove_at(index) {
            Held::Lease { lease, until } => (lease, until),
            _ => unreachable!("a receive into a lease holds one"),
        }
    }

    pub(super) fn held_batch(&mut self, index: u32) -> Datagrams {
        match self.held.remove_at(index) {
            Held::Batch(batch) => batch,
            _ => unreachable!("a receive of datagrams holds a batch"),
        }
    }

    pub(super) fn held_chain(&mut self, index: u32) -> Chain {
        match self.held.remove_at(index) {
            Held::Chain(chain) => chain,
            _ => unreachable!("a send that waits holds a chain"),
        }
    }

    pub(super) fn held_departure(&mut self, index: u32) -> Departure {
        match self.held.remove_at(index) {
            Held::Departure(departure) => departure,
            _ => unreachable!("a send of datagrams that waits holds a departure"),
        }
    }

    pub(super) fn socket(&self, socket: Socket) -> Option<&Endpoint> {
        self.endpoints.get(socket.into())
    }

    pub(super) fn address_of(&self, socket: Socket) -> Result<Address, Fault> {
        let endpoint = self.socket(socket).ok_or(Fault::CANCELLED)?;
        sockets::local_address(endpoint.descriptor.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_keep_their_order_when_members_leave() {
        let mut table = Slab::new();
        let null = std::fs::File::open("/dev/null").unwrap();
        let mut enter = |_| table.insert(Endpoint::new(null.try_clone().unwrap().into(), EndpointKind::Stream));
        let keys = [0, 1, 2, 3].map(&mut enter);
        let mut list = List::new(Listed::Ready);
        keys.iter().for_each(|&key| list.push(&mut table, key));
        list.remove(&mut table, keys[0]);
        list.remove(&mut table, keys[2]);
        list.push(&mut table, keys[0]);
        list.remove(&mut table, keys[0]);
        list.push(&mut table, keys[2]);
        let order: Vec<_> = std::iter::from_fn(|| list.pop(&mut table)).collect();
        assert_eq!(order, [keys[1], keys[3], keys[2]]);
        assert!(list.is_empty());
    }
}
