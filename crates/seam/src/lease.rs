//! A lane's memory and the right to use a part of it.
//!
//! Holds a marked cell: a lease reads and writes the arena's bytes through a pointer.
#![allow(unsafe_code)]

use crate::buddy::{Buddy, LEASE_BYTES_MAX, UNIT};
use crate::error::Error;
use crate::instant::Instant;
use crate::ledger::{Holder, Ledger, Role, TaskHolder};
use crate::ordered::OrderedSet;
use crate::parcel::{Abroad, AbroadCounts, AbroadLimits, Homeland, Parcel, ParcelHome, ParcelRefused, Return};
use crate::payer::Payer;
use crate::region::{Region, RegionMemory};
use crate::share::Share;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::rc::Rc;

/// Bytes of the largest arena: 64 GiB.
pub const ARENA_BYTES_MAX: usize = 64 << 30;
/// The alignment of an arena, in bytes: that of a huge page.
const ALIGNMENT: usize = 2 << 20;

/// A lane's memory: one aligned region from which leases of 256 B to 4 MiB are taken.
///
/// The region is reserved at once and committed by the operating system as it is touched; create it on the
/// lane's own thread after pinning, so that it lies on that CPU's node. It may be made by others ([`Arena::of`]). Cloning gives another name of the same arena.
#[derive(Clone)]
pub struct Arena(Rc<Inner>);

struct Inner {
    /// Taken out when the arena ends, and only then.
    region: ManuallyDrop<Region>,
    memory: RefCell<Memory>,
    /// The memory that is with other lanes, if any may have some.
    abroad: RefCell<Option<Abroad<Kept>>>,
}

/// A block whose parcel is with another lane: one of its references.
struct Kept {
    unit: u32,
    order: u8,
}

/// Which parts of the region are free, and who pays for the others.
struct Memory {
    buddy: Buddy,
    ledger: Ledger,
    /// The call that refuses beside the rule, in simulations.
    refuses: Option<Refuses>,
}

/// Whether what would be lent is refused all the same.
type Refuses = Box<dyn FnMut() -> bool>;

impl Memory {
    /// Takes a block of `order`, charged to `payer`.
    fn take(&mut self, order: usize, payer: Payer) -> Option<u32> {
        let unit = self.buddy.take(order)?;
        self.buddy.set_payer(unit, payer);
        self.ledger.charge(payer, 1 << order);
        Some(unit)
    }

    /// Gives one reference to a block back.
    fn release(&mut self, unit: u32, order: u8) {
        if self.buddy.references(unit) == 1 {
            let payer = self.buddy.payer(unit);
            self.ledger.discharge(payer, 1 << order);
        }
        self.buddy.release(unit);
    }

    /// Asks for a block of `order` for the current payer, by the rule and by what is free; a refusal is noted.
    fn ask(&mut self, order: usize) -> bool {
        let bytes = UNIT << order;
        if bytes > self.ledger.lend_max() && self.ledger.current() != Payer::LANE {
            self.ledger.note_final();
            return false;
        }
        let may = self.ledger.lends(self.ledger.current(), bytes, self.buddy.bytes_used(), UNIT) && self.buddy.find(order);
        let lends = may && !self.refuses();
        if !lends {
            self.ledger.note_refusal(bytes);
        }
        lends
    }

    /// Whether the current payer is refused what the rule would lend it.
    fn refuses(&mut self) -> bool {
        let Some(refuses) = &mut self.refuses else { return false };
        !self.ledger.is_sum(self.ledger.current()) && refuses()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: the region is taken once, here. Every lease holds the `Rc`, so none is left on this lane.
        let region = unsafe { ManuallyDrop::take(&mut self.region) };
        if let Some(abroad) = self.abroad.take() {
            abroad.end(region);
        }
    }
}

impl Homeland for Inner {
    fn come_home(&self, right: Return) -> Result<(), Return> {
        let mut abroad = self.abroad.borrow_mut();
        let Some(abroad) = abroad.as_mut() else { return Err(right) };
        let kept = abroad.come_home(right)?;
        self.memory.borrow_mut().release(kept.unit, kept.order);
        Ok(())
    }

    fn find_lost(&self) {
        if let Some(abroad) = self.abroad.borrow_mut().as_mut() {
            abroad.find(|kept| self.memory.borrow_mut().release(kept.unit, kept.order));
        }
    }

    fn counts(&self, now: Instant) -> AbroadCounts {
        self.abroad.borrow().as_ref().map_or(AbroadCounts::default(), |abroad| abroad.counts(now))
    }
}

impl Arena {
    /// Reserves `bytes`, rounded up to a multiple of 4 MiB; at least 4 MiB and at most 64 GiB.
    ///
    /// # Errors
    /// [`Error::ArenaSize`] outside those limits, [`Error::ArenaRefused`] if the system does not give the memory.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        let most = ARENA_BYTES_MAX;
        if bytes == 0 || bytes > most {
            return Err(Error::ArenaSize { got: bytes, most });
        }
        Ok(Self::on(Region::untouched(bytes.next_multiple_of(LEASE_BYTES_MAX), ALIGNMENT)?))
    }

    /// An arena in memory that somebody else has made, of which the bytes are a multiple of 4 MiB, and the beginning one of 2 MiB. The memory lasts until the last lease,
    /// and the last parcel that is away, are dropped.
    ///
    /// # Errors
    /// [`Error::ArenaSize`] as of [`Arena::new`], [`Error::ArenaRegion`] for another length or beginning.
    pub fn of(memory: impl RegionMemory) -> Result<Self, Error> {
        let (base, bytes, most) = (memory.base(), memory.bytes(), ARENA_BYTES_MAX);
        if bytes == 0 || bytes > most {
            return Err(Error::ArenaSize { got: bytes, most });
        }
        if !bytes.is_multiple_of(LEASE_BYTES_MAX) || !base.addr().get().is_multiple_of(ALIGNMENT) {
            return Err(Error::ArenaRegion { bytes, address: base.addr().get() });
        }
        Ok(Self::on(Region::of(Box::new(memory))))
    }

    /// [`Arena::new`] in memory that `make` makes, of the bytes that it is told; it may have none.
    ///
    /// # Errors
    /// As of [`Arena::new`].
    pub fn made<M: RegionMemory>(bytes: usize, make: impl FnOnce(usize) -> Option<M>) -> Result<Self, Error> {
        let most = ARENA_BYTES_MAX;
        if bytes == 0 || bytes > most {
            return Err(Error::ArenaSize { got: bytes, most });
        }
        let bytes = bytes.next_multiple_of(LEASE_BYTES_MAX);
        Self::of(make(bytes).ok_or(Error::ArenaRefused { bytes })?)
    }

    fn on(region: Region) -> Self {
        let bytes = region.bytes();
        // reason: the largest arena has 2^28 units.
        let units = u32::try_from(bytes / UNIT).expect("an arena's units are counted in four bytes");
        let region = ManuallyDrop::new(region);
        let memory = RefCell::new(Memory { buddy: Buddy::new(units), ledger: Ledger::new(bytes), refuses: None });
        Self(Rc::new(Inner { region, memory, abroad: RefCell::new(None) }))
    }

    /// Lets leases and shared bytes of this arena travel to other lanes as [parcels](crate::parcel), which come home to `post`. `lane` is
    /// the number of the lane that the arena is of.
    ///
    /// # Panics
    /// If it was done before.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn open_abroad(&self, lane: u16, limits: AbroadLimits, post: &ParcelHome) {
        let before = self.0.abroad.replace(Some(Abroad::new(lane, self.limit(), limits)));
        assert!(before.is_none(), "an arena is opened to other lanes once");
        post.serve(self.0.clone());
    }

    /// Has the arena refuse, as if it were used up, what it would lend whenever `refuses` says so: for simulations. Sums, as the lane itself is one, are lent what they ask for.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn refuse_when(&self, refuses: impl FnMut() -> bool + 'static) {
        self.0.memory.borrow_mut().refuses = Some(Box::new(refuses));
    }

    /// An empty lease with room for at least `capacity` bytes (the next power of two from 256 B), charged to whoever pays now: in a call of a service its
    /// connection, or the service. None when the arena does not lend it that now, or never ([`Arena::lend_max`]); what is refused for now is noted, and
    /// whoever was refused it is called again when it would be lent.
    pub fn lease(&self, capacity: usize) -> Option<Lease> {
        let mut memory = self.0.memory.borrow_mut();
        let Some(order) = Buddy::order_of(capacity) else {
            memory.ledger.note_final();
            return None;
        };
        if !memory.ask(order) {
            return None;
        }
        let payer = memory.ledger.current();
        let unit = memory.take(order, payer)?;
        Some(Lease { block: Block { arena: self.clone(), unit, order: order as u8 }, length: 0 })
    }

    /// [`Arena::lease`], for who can do without: a refusal is not noted, so nobody is called again for it.
    pub fn lease_or_none(&self, capacity: usize) -> Option<Lease> {
        let mut memory = self.0.memory.borrow_mut();
        let (order, payer, used) = (Buddy::order_of(capacity)?, memory.ledger.current(), memory.buddy.bytes_used());
        let may = memory.ledger.lends(payer, UNIT << order, used, UNIT) && memory.buddy.find(order) && !memory.refuses();
        let unit = if may { memory.take(order, payer) } else { None }?;
        Some(Lease { block: Block { arena: self.clone(), unit, order: order as u8 }, length: 0 })
    }

    /// [`Arena::lease`] of `most` bytes, or of less if the arena does not lend so much now, and at least of `least`.
    pub fn lease_upto(&self, most: usize, least: usize) -> Option<Lease> {
        let mut bytes = most;
        while bytes / 2 >= least && !self.would_lend(self.payer(), bytes) {
            bytes /= 2;
        }
        self.lease(bytes)
    }

    /// A lease of the lane's own, for what has arrived from nobody knows whom yet: of `most` bytes while there is plenty, of less where
    /// only the reserve is left or the arena is in pieces, and at least `least`. None when not even that is free beside what is kept for
    /// answers, an eighth of the reserve.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn lease_to_receive(&self, most: usize, least: usize) -> Option<Lease> {
        let mut memory = self.0.memory.borrow_mut();
        let free = self.limit() - memory.buddy.bytes_used();
        let mut order = Buddy::order_of(if free > memory.ledger.reserve() { most } else { least.min(most) })?;
        let least = Buddy::order_of(least.min(most))?;
        let for_receives = free.saturating_sub(memory.ledger.answers());
        while order > least && ((UNIT << order) > for_receives || !memory.buddy.find(order)) {
            order -= 1;
        }
        if (UNIT << order) > for_receives {
            return None;
        }
        let unit = memory.take(order, Payer::LANE)?;
        Some(Lease { block: Block { arena: self.clone(), unit, order: order as u8 }, length: 0 })
    }

    /// A lease that holds a copy of `bytes`, under the rules of [`Arena::lease`].
    pub fn copy_of(&self, bytes: &[u8]) -> Option<Lease> {
        let mut lease = self.lease(bytes.len())?;
        lease.append(bytes);
        Some(lease)
    }

    /// Whether a block for `capacity` bytes is free now, whoever asks.
    pub fn has(&self, capacity: usize) -> bool {
        Buddy::order_of(capacity).is_some_and(|order| self.0.memory.borrow_mut().buddy.find(order))
    }

    /// Asks whether [`Arena::lease`] of `capacity` would succeed now; if not, that is noted as a refusal is.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn ask(&self, capacity: usize) -> bool {
        let mut memory = self.0.memory.borrow_mut();
        match Buddy::order_of(capacity) {
            Some(order) => memory.ask(order),
            None => {
                memory.ledger.note_final();
                false
            }
        }
    }

    /// Asks whether leases of `bytes` in all would be lent now, in whatever pieces; if not, that is noted as the refusal of as much of it as is
    /// ever lent at once.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn ask_in_pieces(&self, bytes: usize) -> bool {
        let mut memory = self.0.memory.borrow_mut();
        let (payer, used) = (memory.ledger.current(), memory.buddy.bytes_used());
        let lends = memory.ledger.lends(payer, bytes, used, UNIT) && !memory.refuses();
        if !lends {
            let noted = bytes.min(memory.ledger.lend_max());
            memory.ledger.note_refusal(noted);
        }
        lends
    }

    /// Whether `payer` could be lent `capacity` bytes now. Nothing is noted.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn would_lend(&self, payer: Payer, capacity: usize) -> bool {
        let mut memory = self.0.memory.borrow_mut();
        let used = memory.buddy.bytes_used();
        Buddy::order_of(capacity)
            .is_some_and(|order| memory.ledger.lends(payer, UNIT << order, used, UNIT) && memory.buddy.find(order))
    }

    /// Whether so many bytes would be lent to `payer` now, in however many pieces: no block is looked for.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn would_lend_in_pieces(&self, payer: Payer, bytes: usize) -> bool {
        let memory = self.0.memory.borrow();
        memory.ledger.lends(payer, bytes, memory.buddy.bytes_used(), UNIT)
    }

    /// [`Arena::lend_max`] of an arena that is made with `bytes`.
    pub fn lend_max_of(bytes: usize) -> usize {
        Ledger::new(bytes.clamp(1, ARENA_BYTES_MAX).next_multiple_of(LEASE_BYTES_MAX)).lend_max()
    }

    /// The most bytes of one lease that any payer but the lane can ever be lent: the largest block, and no more than the arena has
    /// beside its reserve.
    pub fn lend_max(&self) -> usize {
        self.0.memory.borrow().ledger.lend_max()
    }

    /// Opens an account under another one: a work under the lane, a service or a peer under its work, what a service keeps under the
    /// service, a connection under its peer.
    ///
    /// # Panics
    /// If they do not stand in this order.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn open_payer(&self, under: Payer, role: Role) -> Payer {
        self.0.memory.borrow_mut().ledger.open(under, role)
    }

    /// Closes an account: its name is void with the last block charged to it, which stays charged to those above it.
    ///
    /// # Panics
    /// If it was closed before, or is the current one.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn close_payer(&self, payer: Payer) {
        self.0.memory.borrow_mut().ledger.close(payer);
    }

    /// Closes an account and all below it, of which the caller knows none any more: a work that broke. The memory that they still hold goes on
    /// being counted above.
    ///
    /// # Panics
    /// If the current payer is one of them, or the lane is meant.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn abandon_payer(&self, payer: Payer) {
        self.0.memory.borrow_mut().ledger.abandon(payer);
    }

    /// Has `payer` pay for the leases that are taken from now on, and forgets what was refused before; returns who paid so far.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn pay_as(&self, payer: Payer) -> Payer {
        self.0.memory.borrow_mut().ledger.pay_as(payer)
    }

    /// Ends what [`Arena::pay_as`] began: `before` pays again. Returns what was refused meanwhile.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn pay_no_longer(&self, before: Payer) -> usize {
        let mut memory = self.0.memory.borrow_mut();
        let refusal = memory.ledger.take_refusal();
        memory.ledger.pay_as(before);
        refusal
    }

    /// Whether less is free than the reserve, or no block of `bytes`.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn is_short(&self, bytes: usize) -> bool {
        let mut memory = self.0.memory.borrow_mut();
        let free = self.limit() - memory.buddy.bytes_used();
        free < memory.ledger.reserve() || !Buddy::order_of(bytes).is_some_and(|order| memory.buddy.find(order))
    }

    /// The payer now.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn payer(&self) -> Payer {
        self.0.memory.borrow().ledger.current()
    }

    /// The account of the peer whose connection pays now, or of whoever pays.
    pub fn peer_payer(&self) -> Payer {
        let memory = self.0.memory.borrow();
        memory.ledger.peer_of(memory.ledger.current())
    }

    /// Lets the current payer hold more than it leaves, until another one pays: so that of many who wait for the rest of what they
    /// have begun, one can come to its end.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn grant(&self) {
        self.0.memory.borrow_mut().ledger.grant();
    }

    /// Bytes that a payer holds, with all below it.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn held(&self, payer: Payer) -> usize {
        self.0.memory.borrow().ledger.units(payer) as usize * UNIT
    }

    /// The connections that hold memory, in no order.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn holders(&self) -> Vec<Holder> {
        self.0.memory.borrow().ledger.holders(UNIT).collect()
    }

    /// Sets how many tasks the lane may have. They are counted with those who pay for memory, because they belong to the same peers.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn set_tasks_max(&self, tasks: u32) {
        self.0.memory.borrow_mut().ledger.set_tasks_max(tasks);
    }

    /// How many tasks there are, and may be.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn tasks(&self) -> Share {
        self.0.memory.borrow().ledger.tasks()
    }

    /// Counts one more task of `payer`, and of all above it. False if its peer may have no more ([`Share::admits`]), or there are as many as may be; a
    /// connection with few tasks has one more even where its peer may not, as long as half of the reserve is left.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn take_task(&self, payer: Payer) -> bool {
        self.0.memory.borrow_mut().ledger.take_task(payer)
    }

    /// A task of `payer` has ended. The account stays as long as it has tasks, even if it was closed.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn give_task_back(&self, payer: Payer) {
        self.0.memory.borrow_mut().ledger.give_task_back(payer);
    }

    /// Whether a connection with few tasks has found that its peer has its share of them.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn is_crowded(&self) -> bool {
        self.0.memory.borrow().ledger.is_crowded()
    }

    /// The peers of which that is so, since the last call of this.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn take_crowded(&self) -> OrderedSet<Payer> {
        self.0.memory.borrow_mut().ledger.take_crowded()
    }

    /// The connections that have tasks, in no order.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn task_holders(&self) -> Vec<TaskHolder> {
        self.0.memory.borrow().ledger.task_holders().collect()
    }

    /// Bytes of the largest block that was refused for now since the last call of this; 0 if none was. A wish that can never be met is not told.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn take_refusal(&self) -> usize {
        self.0.memory.borrow_mut().ledger.take_refusal()
    }

    /// How often a block was given back, or charged to another payer: as long as that stays the same, who was refused would be again.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn given_back(&self) -> u64 {
        self.0.memory.borrow().ledger.given_back()
    }

    /// How often a lease was refused.
    pub fn refused(&self) -> u64 {
        self.0.memory.borrow().ledger.refused()
    }

    /// Bytes that are free.
    pub fn free(&self) -> usize {
        self.limit() - self.used()
    }

    /// Bytes that are kept for small requests: a quarter of the arena.
    pub fn reserve(&self) -> usize {
        self.0.memory.borrow().ledger.reserve()
    }

    /// Bytes that a peer may hold however little is free: a 128th of the reserve, and at least 32 KiB.
    pub fn small(&self) -> usize {
        self.0.memory.borrow().ledger.small()
    }

    /// Bytes of the whole region: the limit of the lane's memory.
    pub fn limit(&self) -> usize {
        self.0.region.bytes()
    }

    /// Bytes in leases now, counted by their blocks.
    pub fn used(&self) -> usize {
        self.0.memory.borrow().buddy.bytes_used()
    }

    /// The most bytes that were in leases at once.
    pub fn peak(&self) -> usize {
        self.0.memory.borrow().buddy.bytes_peak()
    }

    /// The region as address and length, for a driver that registers it with the kernel.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn region(&self) -> (NonNull<u8>, usize) {
        (self.0.region.base(), self.0.region.bytes())
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arena({} of {} bytes used)", self.used(), self.limit())
    }
}

/// One counted reference to a block.
struct Block {
    arena: Arena,
    unit: u32,
    order: u8,
}

impl Block {
    fn capacity(&self) -> usize {
        UNIT << self.order
    }

    fn payer(&self) -> Payer {
        self.arena.0.memory.borrow().buddy.payer(self.unit)
    }

    /// Charges the block to `payer`, whoever paid so far; returns the bytes that it holds then.
    fn charge(&self, payer: Payer) -> usize {
        let mut memory = self.arena.0.memory.borrow_mut();
        let before = memory.buddy.payer(self.unit);
        if before != payer {
            memory.ledger.recharge(before, payer, 1 << self.order);
            memory.buddy.set_payer(self.unit, payer);
        }
        memory.ledger.units(payer) as usize * UNIT
    }

    fn start(&self) -> NonNull<u8> {
        // The buddy gave `unit` from within the region.
        self.arena.0.region.at(self.unit as usize * UNIT)
    }

    /// Makes a parcel of `length` bytes from `start`; the block stays in use until it is back.
    fn parcel(&self, start: usize, length: usize, exclusive: bool, to: usize, now: Instant) -> Result<Parcel, ParcelRefused> {
        assert!(start + length <= self.capacity(), "a parcel lies within its block");
        // reason: lanes are at most 256.
        let to = u16::try_from(to).expect("a lane's number fits");
        let mut abroad = self.arena.0.abroad.borrow_mut();
        let abroad = abroad.as_mut().ok_or(ParcelRefused::Closed)?;
        abroad.ask_to_leave(self.capacity(), to, now)?;
        self.arena.0.memory.borrow_mut().buddy.retain(self.unit);
        let right = abroad.leave(Kept { unit: self.unit, order: self.order }, self.capacity(), to, now);
        let at = self.arena.0.region.at(self.unit as usize * UNIT + start.min(self.capacity() - 1));
        Ok(Parcel::new(right, at, length, exclusive))
    }
}

impl Clone for Block {
    fn clone(&self) -> Self {
        self.arena.0.memory.borrow_mut().buddy.retain(self.unit);
        Self { arena: self.arena.clone(), unit: self.unit, order: self.order }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.arena.0.memory.borrow_mut().release(self.unit, self.order);
    }
}

/// The exclusive right to a block of the arena: its first `len()` bytes hold data, the rest up to `capacity()` is
/// room. Dropping it gives the block back. A driver may keep it while the kernel writes into it; nobody else can.
pub struct Lease {
    block: Block,
    length: usize,
}

impl Lease {
    /// Bytes that fit.
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Bytes that still fit behind the data.
    pub fn room(&self) -> usize {
        self.capacity() - self.length
    }

    /// Appends `bytes`.
    ///
    /// # Panics
    /// If they do not fit: check [`Lease::room`] first.
    pub fn append(&mut self, bytes: &[u8]) {
        self.spare()[..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    /// The room behind the data; whatever lies there was written earlier by this lane.
    pub fn spare(&mut self) -> &mut [u8] {
        let (start, length, capacity) = (self.block.start(), self.length, self.capacity());
        // SAFETY: the block is exclusive to this lease, zeroed at creation, and `length` is at most its capacity.
        unsafe { std::slice::from_raw_parts_mut(start.add(length).as_ptr(), capacity - length) }
    }

    /// Declares that `bytes` of the room now hold data.
    ///
    /// # Panics
    /// If that is more than the room.
    pub fn advance(&mut self, bytes: usize) {
        assert!(bytes <= self.room(), "{bytes} bytes declared, {} fit", self.room());
        self.length += bytes;
    }

    /// Forgets all data behind the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Has `payer` pay for the whole block from now on, whether the arena would lend it to them or not; returns the bytes that it holds
    /// then.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn charge(&self, payer: Payer) -> usize {
        self.block.charge(payer)
    }

    /// Makes a parcel of the data, for lane `to`; `now` is the time of this turn. It may be written there.
    ///
    /// # Errors
    /// The lease comes back, with why it may not travel.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn parcel(self, to: usize, now: Instant) -> Result<Parcel, (Self, ParcelRefused)> {
        match self.block.parcel(0, self.length, true, to, now) {
            Ok(parcel) => Ok(parcel),
            Err(refused) => Err((self, refused)),
        }
    }

    /// Gives up the right to write and makes the data shareable within the lane.
    pub fn share(self) -> Shared {
        let length = self.length as u32;
        Shared { block: self.block, start: 0, length }
    }
}

impl Deref for Lease {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the first `length` bytes of the block are initialised, and no one else may write them.
        unsafe { std::slice::from_raw_parts(self.block.start().as_ptr(), self.length) }
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.block.start().as_ptr(), self.length) }
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lease({} of {} bytes)", self.length, self.capacity())
    }
}

/// A counted, immutable view of a block's data; cloning adds a reference, within the lane only.
#[derive(Clone)]
pub struct Shared {
    block: Block,
    start: u32,
    length: u32,
}

impl Shared {
    /// Bytes of the block that this view keeps from being used: what limits are charged.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn charged(&self) -> usize {
        self.block.capacity()
    }

    /// As [`Lease::charge`].
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn charge(&self, payer: Payer) -> usize {
        self.block.charge(payer)
    }

    /// Makes a parcel of the data, for lane `to`; `now` is the time of this turn. This view, and others, stay.
    ///
    /// # Errors
    /// Why it may not travel.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn parcel(&self, to: usize, now: Instant) -> Result<Parcel, ParcelRefused> {
        self.block.parcel(self.start as usize, self.len(), false, to, now)
    }

    /// A copy of the data in fitting memory, at the same payer's cost; none if there is no such block.
    pub fn fitted(&self) -> Option<Shared> {
        let arena = &self.block.arena;
        let order = Buddy::order_of(self.len())?;
        let payer = self.block.payer();
        let unit = arena.0.memory.borrow_mut().take(order, payer)?;
        let mut lease = Lease { block: Block { arena: arena.clone(), unit, order: order as u8 }, length: 0 };
        lease.append(self);
        Some(lease.share())
    }

    /// A view of a part.
    ///
    /// # Panics
    /// If the range is not within the data.
    pub fn slice(&self, range: Range<usize>) -> Shared {
        assert!(range.start <= range.end && range.end <= self.length as usize);
        let length = (range.end - range.start) as u32;
        Shared { block: self.block.clone(), start: self.start + range.start as u32, length }
    }

    /// Splits off and returns the first `bytes`; `self` keeps the rest.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn split_to(&mut self, bytes: usize) -> Shared {
        let front = self.slice(0..bytes);
        self.skip(bytes);
        front
    }

    /// Drops the first `bytes` from the view.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn skip(&mut self, bytes: usize) {
        assert!(bytes <= self.length as usize);
        self.start += bytes as u32;
        self.length -= bytes as u32;
    }

    /// Drops all but the first `bytes` from the view.
    pub fn truncate(&mut self, bytes: usize) {
        self.length = self.length.min(bytes as u32);
    }

    /// Whether the data uses under a quarter of a block of more than the smallest size: such a view is worth copying
    /// to fitting memory before it outlives its turn.
    pub fn is_sparse(&self) -> bool {
        self.charged() > UNIT && (self.length as usize) < self.charged() / 4
    }

    /// Whether this is the only view of its block.
    pub fn is_only(&self) -> bool {
        self.block.arena.0.memory.borrow().buddy.references(self.block.unit) == 1
    }

    /// The system still reads these bytes, and nobody knows for how long: nobody writes to them again. Returns the bytes of the block if they are used again all the same,
    /// because it was given new pages; else it stays away, and 0 is returned. The former takes a block of whole pages, of which this is the only view.
    #[doc(hidden)] // A lane or a driver calls it, and no program.
    pub fn withhold(self) -> usize {
        let (start, bytes) = (self.block.unit as usize * UNIT, self.block.capacity());
        // SAFETY: the block is within the region. This is its only view, so nobody else of this program reads it; and whoever takes it next finds zeros, or what lay there, as in any block.
        let is_renewed = self.is_only() && unsafe { self.block.arena.0.region.renew(start..start + bytes) };
        if is_renewed {
            return bytes;
        }
        std::mem::forget(self);
        0
    }

    /// The arena that the bytes lie in.
    pub fn arena(&self) -> &Arena {
        &self.block.arena
    }
}

impl Deref for Shared {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the view lies within data that was initialised before sharing; nobody writes a shared block.
        unsafe {
            let start = self.block.start().add(self.start as usize);
            std::slice::from_raw_parts(start.as_ptr(), self.length as usize)
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({} bytes of {})", self.length, self.charged())
    }
}

#[cfg(test)]
mod tests;
