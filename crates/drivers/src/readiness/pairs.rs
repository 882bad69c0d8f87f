//! What a driver knows of the pairs between which the kernel passes bytes (`bridged`).

use super::endpoint::Endpoint;
use corelane_bridge::{Bridge, Counted, Direction, Given, Kernel, Say};
use corelane_os::{clock, progress, sockets};
use corelane_seam::Handle;
use corelane_seam::ordered::Ordered;
use corelane_seam::slab::{Key, Slab};
use std::os::fd::{AsFd, BorrowedFd};

/// After so many nanoseconds is looked again whether the kernel's thread has come so far, and then after twice as many each time, up to the most: where a peer does not read, it does not
/// come so far for long. Each of them is a multiple of those before, so that many share a [`tick`].
pub(super) const LOOK_AGAIN: u64 = 200_000;
pub(super) const LOOK_AGAIN_MOST: u64 = LOOK_AGAIN << 7;
/// A close waits for that no longer: what is not given to a connection by then is lost with it.
pub(super) const CLOSE_LIMIT: u64 = 10_000_000_000;

/// When those are looked at that wait so long from now: together with all others of that pause, so that the lane wakes once for all of them.
pub(super) fn tick(now: u64, pause: u64) -> u64 {
    (now / pause + 1) * pause
}

/// One of a pair.
pub(super) struct Side {
    /// None once it was closed.
    pub(super) key: Option<Key>,
    /// The direction that begins here.
    pub(super) direction: Direction,
    /// Bytes of it that the lane was told of.
    pub(super) told: u64,
    pub(super) is_broken: bool,
    /// Its end waits for what was redirected to it.
    pub(super) finishes: bool,
    /// An end of what it receives was told, in front of which bytes are still to come.
    pub(super) awaits_rest: bool,
    /// It stands among those that wait, and after so long it is looked at.
    pub(super) is_waiting: bool,
    pub(super) pause: u64,
}

/// Two connections.
pub(super) struct Pair {
    pub(super) sides: [Side; 2],
    /// Closes of them that wait.
    pub(super) departing: u8,
    /// Both are to be broken off: what has come on one of them is not what its peer has sent.
    pub(super) is_spoiled: bool,
}

/// A connection whose close waits.
pub(super) struct Departing {
    pub(super) bits: u64,
    pub(super) endpoint: Endpoint,
    pub(super) handle: Handle,
    pub(super) until: u64,
    pub(super) number: u32,
    /// When it is looked at, and after how long again.
    pub(super) at: u64,
    pub(super) pause: u64,
}

/// What a driver knows of its bridge.
pub(super) struct Bridged {
    pub(super) bridge: Bridge,
    pub(super) pairs: Slab<Pair>,
    /// Which direction begins at each of them.
    pub(super) numbers: Ordered<Key, u32>,
    pub(super) pairs_max: usize,
    /// When those that wait for the kernel are looked at, each once.
    pub(super) waiting: Vec<(u64, Key)>,
    pub(super) departing: Vec<Departing>,
    pub(super) look_at: u64,
}

/// A direction, and the connections at which it begins and ends.
pub(super) struct At<'a> {
    pub(super) bridge: &'a Bridge,
    pub(super) number: u32,
    pub(super) start: Option<BorrowedFd<'a>>,
    pub(super) end: Option<BorrowedFd<'a>>,
    pub(super) is_broken: bool,
}

impl Kernel for At<'_> {
    fn counted(&self) -> Counted {
        self.bridge.counted(self.number)
    }

    fn say(&self, say: Say) {
        self.bridge.say(self.number, say);
    }

    fn given(&self) -> Given {
        let Some(end) = self.end.filter(|_| !self.is_broken) else { return Given::Broken };
        if progress::has_ended(end) { Given::Broken } else { progress::of(end).map_or(Given::Unknown, Given::Known) }
    }

    fn arrived(&self) -> Option<u64> {
        progress::arrived(self.start?)
    }

    fn pause(&self) {
        std::thread::yield_now();
    }

    fn send_buffer(&self) -> u64 {
        self.end.map_or(0, |end| progress::send_buffer_bytes(end) as u64)
    }
}

impl Side {
    pub(super) fn new(key: Key) -> Self {
        let direction = Direction::default();
        let (is_broken, finishes, awaits_rest, is_waiting) = (false, false, false, false);
        Self { key: Some(key), direction, told: 0, is_broken, finishes, awaits_rest, is_waiting, pause: 0 }
    }
}

impl Bridged {
    /// For so many pairs, none of which is there yet.
    pub(super) fn new(bridge: Bridge, pairs_max: usize) -> Self {
        Self {
            bridge,
            pairs: Slab::new(),
            numbers: Ordered::default(),
            pairs_max,
            waiting: Vec::new(),
            departing: Vec::new(),
            look_at: u64::MAX,
        }
    }

    /// What readable bells are watched by.
    pub(super) fn bells(&self) -> BorrowedFd<'_> {
        self.bridge.bells()
    }

    /// The number of the direction that begins at it.
    pub(super) fn number(&self, key: Key) -> u32 {
        // reason: an endpoint that says so has one until it is closed.
        *self.numbers.get(key).expect("one of a pair has its direction")
    }

    pub(super) fn side(&mut self, number: u32) -> &mut Side {
        &mut self.pairs.at_mut(number >> 1).sides[number as usize & 1]
    }

    /// Does something with a direction: the side where it begins, and what the kernel knows of it.
    pub(super) fn with<R>(&mut self, endpoints: &Slab<Endpoint>, number: u32, act: impl FnOnce(&mut Side, &At<'_>) -> R) -> R {
        let Self { bridge, pairs, .. } = self;
        let pair = pairs.at_mut(number >> 1);
        let end = &pair.sides[number as usize & 1 ^ 1];
        let is_broken = end.is_broken;
        let socket = |side: &Side| side.key.map(|key| endpoints.at(key.index).descriptor.as_fd());
        let (start, end) = (socket(&pair.sides[number as usize & 1]), socket(end));
        act(&mut pair.sides[number as usize & 1], &At { bridge, number, start, end, is_broken })
    }

    /// Has both of a pair broken off when they are closed, and soon those that wait for it. Returns which are there still; none if that was done before.
    pub(super) fn spoil(&mut self, endpoints: &Slab<Endpoint>, number: u32) -> Option<[Option<Key>; 2]> {
        let pair = self.pairs.at_mut(number >> 1);
        if std::mem::replace(&mut pair.is_spoiled, true) {
            return None;
        }
        let keys = [0, 1].map(|place: usize| pair.sides[place].key);
        let open = keys.into_iter().flatten().map(|key| endpoints.at(key.index));
        let mut closing: Vec<&mut Departing> = self.departing.iter_mut().filter(|one| one.number >> 1 == number >> 1).collect();
        for one in &mut closing {
            (one.until, one.at, self.look_at) = (0, 0, 0);
        }
        let closing = closing.iter().map(|one| &one.endpoint);
        for endpoint in open.chain(closing) {
            // One that is broken already cannot be broken off.
            let _ = sockets::reset_on_close(endpoint.descriptor.as_fd());
        }
        Some(keys)
    }

    /// Whether what the lane has for this connection, or its end, may go now: nothing that comes before is still with the kernel.
    pub(super) fn may_give(&mut self, endpoints: &Slab<Endpoint>, key: Key) -> bool {
        let number = self.number(key);
        let may = self.with(endpoints, number ^ 1, |side, at| side.direction.is_clear(at));
        if may {
            self.side(number).pause = 0;
        }
        may
    }

    /// Has it looked at again, unless that is so already.
    pub(super) fn wait_for(&mut self, key: Key) {
        let number = self.number(key);
        let side = self.side(number);
        if std::mem::replace(&mut side.is_waiting, true) {
            return;
        }
        side.pause = (2 * side.pause).clamp(LOOK_AGAIN, LOOK_AGAIN_MOST);
        let at = tick(clock::now(), side.pause);
        self.waiting.push((at, key));
        self.look_at = self.look_at.min(at);
    }

    /// Those whose time has come to be looked at. Closes are looked at beside.
    pub(super) fn due(&mut self, now: u64) -> Vec<Key> {
        let mut next = u64::MAX;
        let is_due = |(at, _): &mut (u64, Key)| {
            let is_due = *at <= now;
            next = if is_due { next } else { next.min(*at) };
            is_due
        };
        let due = self.waiting.extract_if(.., is_due).map(|(_, key)| key).collect();
        self.look_at = next;
        due
    }

    /// One of a pair is closed: what there is of the pair goes with the second of them.
    pub(super) fn forget(&mut self, number: u32) {
        let pair = self.pairs.at(number >> 1);
        if pair.departing == 0 && pair.sides.iter().all(|side| side.key.is_none()) {
            self.pairs.remove_at(number >> 1);
        }
    }
}
