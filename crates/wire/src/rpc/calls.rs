//! The calls of a client that are under way: their numbers, how long they are waited for, and when they are sent again.
//!
//! A value without input or output, for any clock that counts up. [`Xids`] is the part that gives numbers, for those who keep their own
//! account of what is under way; [`Calls`] keeps it.

use super::due::Due;
use std::time::Duration;

/// Most calls that one [`Calls`] keeps.
pub const CALLS_MAX: u32 = 1 << 20;

/// Places for each call that may be under way: so a number whose place is still taken is rare, and passed over.
const PLACES_PER_CALL: usize = 2;

/// The numbers of a caller's calls, one after the other from `first` on, and back to which call of all a number belongs.
///
/// RFC 5531 section 9 asks of a transaction identifier only that it tells the calls apart that are under way. Callers should begin with
/// numbers that differ from those of earlier runs, because servers may take a call with the same number from the same address and port
/// for the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xids {
    first: u32,
}

impl Xids {
    /// Numbers that begin with `first`.
    pub const fn new(first: u32) -> Self {
        Self { first }
    }

    /// The number of the call that is the `count`th of all, from 0.
    #[inline]
    pub const fn of(self, count: u64) -> u32 {
        self.first.wrapping_add(count as u32)
    }

    /// Which call bears the number, where `made` were made: the last of these that does. None if none of them ever did.
    #[inline]
    pub const fn call(self, xid: u32, made: u64) -> Option<u64> {
        let behind = self.of(made).wrapping_sub(xid).wrapping_sub(1);
        made.checked_sub(1 + behind as u64)
    }
}

/// How long a call is waited for, and when it is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// From its first sending until it is given up.
    pub timeout: Duration,
    /// From its first sending to its second, then twice that, four times that and so on, up to `again_max` between two
    /// (RFC 8085 section 3.1.1 asks for such a back-off). [`Duration::MAX`] never sends again: a stream does that by itself.
    pub again: Duration,
    /// The longest time between two sendings.
    pub again_max: Duration,
}

impl Patience {
    /// Over a stream: nothing is sent twice.
    pub const fn stream(timeout: Duration) -> Self {
        Self { timeout, again: Duration::MAX, again_max: Duration::MAX }
    }

    /// When a call whose first sending was at `begun` and that waited for `waited` before its last one is due next.
    fn next(&self, begun: u64, now: u64, waited: u64) -> u64 {
        now.saturating_add(waited).min(begun.saturating_add(nanoseconds(self.timeout)))
    }
}

/// A duration in the clock's unit.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What has become of all calls. A call that is under way is in none of `answered`, `given_up` and `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Calls begun.
    pub begun: u64,
    /// Calls that were not begun because as many were under way as may be.
    pub refused: u64,
    /// Sendings beyond the first one of a call.
    pub again: u64,
    /// Calls answered.
    pub answered: u64,
    /// Calls given up after their time.
    pub given_up: u64,
    /// Calls taken back ([`Calls::take_back`], [`Calls::drop_all`]).
    pub dropped: u64,
    /// Replies to calls that were answered, given up or dropped before: duplicates, and what came too late.
    pub stale: u64,
    /// Replies to calls that were never made.
    pub unknown: u64,
}

/// A call under way.
#[derive(Debug)]
struct UnderWay<T> {
    /// Which of all it is.
    count: u64,
    call: T,
    patience: Patience,
    begun: u64,
    /// The time between its last sending and the next one.
    wait: u64,
    /// When something is to be done about it.
    due: u64,
}

/// What is due.
#[derive(Debug, PartialEq, Eq)]
pub enum Overdue<'c, T> {
    /// This call is to be sent again, with the same number.
    Again(u32, &'c mut T),
    /// This call is given up.
    GivenUp(u32, T),
}

/// The calls under way of one connection or socket, each with a value of the caller's: what to send again, whom to tell. Times are nanoseconds of
/// the caller's clock.
///
/// Replies are matched by their number in constant time; the next time at which something is due costs the logarithm of how many are
/// under way. All memory is allocated when it is made.
///
/// ```
/// use corelane_wire::rpc::{Calls, Overdue, Patience};
///
/// let [timeout, again, again_max] = [1_000, 100, 400].map(std::time::Duration::from_nanos);
/// let patience = Patience { timeout, again, again_max };
/// let mut calls = Calls::new(16, 7);
/// let xid = calls.begin(0, patience, "hello")?;
/// assert_eq!(calls.next_due(), Some(100));
/// assert_eq!(calls.overdue(100), Some(Overdue::Again(xid, &mut "hello")));
/// assert_eq!(calls.next_due(), Some(300));
/// assert_eq!(calls.answered(xid), Some("hello"));
/// assert_eq!((calls.answered(xid), calls.counts().stale), (None, 1));
/// # Ok::<(), &str>(())
/// ```
#[derive(Debug)]
pub struct Calls<T> {
    limit: usize,
    under_way: usize,
    xids: Xids,
    /// How many numbers were given out or passed over.
    made: u64,
    /// Each call has the place that the low bits of its count name.
    places: Box<[Option<UnderWay<T>>]>,
    due: Due,
    counts: CallCounts,
}

impl<T> Calls<T> {
    /// Room for `limit` calls at once, from 1 to [`CALLS_MAX`] (what is beyond is cut to these). Their numbers begin with `first`.
    pub fn new(limit: u32, first: u32) -> Self {
        let limit = limit.clamp(1, CALLS_MAX) as usize;
        let places = (limit * PLACES_PER_CALL).next_power_of_two();
        Self {
            limit,
            under_way: 0,
            xids: Xids::new(first),
            made: 0,
            places: (0..places).map(|_| None).collect(),
            due: Due::new(places),
            counts: CallCounts::default(),
        }
    }

    /// Notes a call that is sent at `now`, and gives its number.
    ///
    /// # Errors
    /// The call, if as many are under way as may be: wait for a reply, or for one to be given up.
    #[inline]
    pub fn begin(&mut self, now: u64, patience: Patience, call: T) -> Result<u32, T> {
        if self.under_way == self.limit {
            self.counts.refused += 1;
            return Err(call);
        }
        while self.places[self.place(self.made)].is_some() {
            self.made += 1;
        }
        let (count, wait) = (self.made, nanoseconds(patience.again));
        let (place, due) = (self.place(count), patience.next(now, now, wait));
        self.places[place] = Some(UnderWay { count, call, patience, begun: now, wait, due });
        self.due.add(place, due);
        (self.made, self.under_way, self.counts.begun) = (count + 1, self.under_way + 1, self.counts.begun + 1);
        Ok(self.xids.of(count))
    }

    fn place(&self, count: u64) -> usize {
        count as usize & (self.places.len() - 1)
    }

    /// The place of the call under way with this number.
    fn find(&self, xid: u32) -> Option<usize> {
        let count = self.xids.call(xid, self.made)?;
        let place = self.place(count);
        self.places[place].as_ref().filter(|entry| entry.count == count).map(|_| place)
    }

    fn take(&mut self, place: usize) -> Option<UnderWay<T>> {
        let entry = self.places[place].take()?;
        self.due.remove(place);
        self.under_way -= 1;
        Some(entry)
    }

    /// The call under way with this number: to put its bytes there once the number is known.
    #[inline]
    pub fn get_mut(&mut self, xid: u32) -> Option<&mut T> {
        self.find(xid).and_then(|place| self.places[place].as_mut()).map(|entry| &mut entry.call)
    }

    /// Takes the call that a reply with this number answers. None if it answers none: that is counted, and the reply to be dropped.
    #[inline]
    pub fn answered(&mut self, xid: u32) -> Option<T> {
        if let Some(entry) = self.find(xid).and_then(|place| self.take(place)) {
            self.counts.answered += 1;
            return Some(entry.call);
        }
        let was_made = self.xids.call(xid, self.made).is_some();
        *if was_made { &mut self.counts.stale } else { &mut self.counts.unknown } += 1;
        None
    }

    /// When something is due next, if anything ever is.
    pub fn next_due(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| due).filter(|&due| due < u64::MAX)
    }

    /// What is due at `now`, the earliest first: to be asked until there is nothing more. A call that is to be sent again counts as sent at
    /// `now`, so one call is never due twice at one time.
    pub fn overdue(&mut self, now: u64) -> Option<Overdue<'_, T>> {
        let (_, place) = self.due.first().filter(|&(due, _)| due <= now && due < u64::MAX)?;
        let ends = self.places[place].as_ref().map(|entry| entry.begun.saturating_add(nanoseconds(entry.patience.timeout)))?;
        if ends <= now {
            let entry = self.take(place)?;
            self.counts.given_up += 1;
            return Some(Overdue::GivenUp(self.xids.of(entry.count), entry.call));
        }
        let entry = self.places[place].as_mut()?;
        entry.wait = entry.wait.max(1).saturating_mul(2).min(nanoseconds(entry.patience.again_max).max(1));
        entry.due = entry.patience.next(entry.begun, now, entry.wait);
        self.due.change(place, entry.due);
        self.counts.again += 1;
        Some(Overdue::Again(self.xids.of(entry.count), &mut entry.call))
    }

    /// Takes a call back: it could not be sent, or nobody wants its reply. A reply to it is stale from now on.
    pub fn take_back(&mut self, xid: u32) -> Option<T> {
        let entry = self.find(xid).and_then(|place| self.take(place))?;
        self.counts.dropped += 1;
        Some(entry.call)
    }

    /// Takes all calls back, in no order: their connection is lost. Replies to them are stale from now on.
    pub fn drop_all(&mut self) -> impl Iterator<Item = T> + '_ {
        (self.counts.dropped, self.under_way) = (self.counts.dropped + self.under_way as u64, 0);
        self.due.clear();
        self.places.iter_mut().filter_map(|place| place.take().map(|entry| entry.call))
    }

    /// How many are under way.
    pub fn len(&self) -> usize {
        self.under_way
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.under_way == 0
    }

    /// What has become of all calls.
    pub fn counts(&self) -> CallCounts {
        self.counts
    }
}
