//! Random changes and activity against a plain model, from seeds.

use corelane_event::{Change, Event, Filter, Flags, Queue};
use corelane_os::testing::replace;
use corelane_seam::Random;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

const SEEDS: u64 = 60;
const STEPS: usize = 400;
const PAIRS: usize = 5;
const USERS: u64 = 3;

/// An interest as the model has it.
#[derive(Clone, Copy, Debug)]
struct Interest {
    flags: Flags,
    low: i64,
    cookie: u64,
    disabled: bool,
    /// There was activity since it was told.
    must: bool,
    /// There was a change on its descriptor since: it may be told again.
    may: bool,
}

impl Interest {
    fn is_cleared(&self) -> bool {
        self.flags.contains(Flags::CLEAR)
    }
}

struct Pair {
    ours: UnixStream,
    theirs: UnixStream,
    bytes: i64,
    ended: bool,
}

impl Pair {
    fn new() -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        Self { ours, theirs, bytes: 0, ended: false }
    }
}

struct World {
    random: Random,
    queue: Arc<Queue>,
    pairs: Vec<Pair>,
    /// Files whose numbers mean others now.
    copies: Vec<UnixStream>,
    interests: BTreeMap<(Filter, u64), Interest>,
    told: usize,
    /// Old files live on when their numbers mean others: then the set is built again, and all may be told again.
    ghosts: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let pairs = (0..PAIRS).map(|_| Pair::new()).collect();
        let queue = Queue::new().unwrap();
        Self {
            random: Random::new(seed),
            queue,
            pairs,
            copies: Vec::new(),
            interests: BTreeMap::new(),
            told: 0,
            ghosts: seed.is_multiple_of(2),
        }
    }

    fn step(&mut self) {
        let pair = self.random.index(PAIRS);
        match self.random.index(14) {
            0..3 => self.write(pair),
            3..5 => self.read(pair),
            5..8 => self.add(pair),
            8 => self.switch(pair),
            9 => self.delete(pair),
            10 => self.user(),
            11 if self.random.index(4) == 0 => self.end(pair),
            12 if self.random.index(3) == 0 => self.reopen(pair),
            _ => self.take(),
        }
    }

    fn ident(&self, pair: usize) -> u64 {
        self.pairs[pair].ours.as_raw_fd() as u64
    }

    fn write(&mut self, pair: usize) {
        let key = (Filter::Read, self.ident(pair));
        let one = &mut self.pairs[pair];
        if one.ended {
            return;
        }
        one.theirs.write_all(b"ab").unwrap();
        one.bytes += 2;
        self.interests.get_mut(&key).into_iter().for_each(|interest| interest.must = true);
    }

    fn read(&mut self, pair: usize) {
        let one = &mut self.pairs[pair];
        let some = (self.random.index(3) as i64 + 1).min(one.bytes);
        one.ours.read_exact(&mut vec![0; some as usize]).unwrap();
        one.bytes -= some;
    }

    fn end(&mut self, pair: usize) {
        let key = (Filter::Read, self.ident(pair));
        self.pairs[pair].theirs.shutdown(std::net::Shutdown::Write).unwrap();
        self.pairs[pair].ended = true;
        self.interests.get_mut(&key).into_iter().for_each(|interest| interest.must = true);
    }

    fn add(&mut self, pair: usize) {
        let filter = [Filter::Read, Filter::Read, Filter::Write][self.random.index(3)];
        let modes = [Flags::empty(), Flags::CLEAR, Flags::ONESHOT, Flags::DISPATCH, Flags::CLEAR | Flags::DISPATCH];
        // A moment at which there is space may come with any activity, so writing is not told by moments here.
        let mode = modes[self.random.index(if filter == Filter::Write { 1 } else { modes.len() })];
        let low = [1, 1, 4][self.random.index(if filter == Filter::Write { 1 } else { 3 })];
        let cookie = self.random.index(1 << 20) as u64;
        let mut change = Change { flags: Flags::ADD | mode, ..Change::add(self.ident(pair), filter) }.cookie(cookie);
        if low > 1 {
            change = change.from_bytes(low as u32);
        }
        self.queue.change(&change).unwrap();
        let fresh = Interest { flags: mode, low, cookie, disabled: false, must: true, may: false };
        let interest = self.interests.entry((filter, change.ident)).or_insert(fresh);
        (interest.low, interest.cookie, interest.disabled) = (low, cookie, false);
        self.touch(pair);
    }

    /// A change was made on a descriptor.
    fn touch(&mut self, pair: usize) {
        let ident = self.ident(pair);
        for filter in [Filter::Read, Filter::Write] {
            self.interests.get_mut(&(filter, ident)).into_iter().for_each(|interest| interest.may = true);
        }
    }

    fn switch(&mut self, pair: usize) {
        let ident = self.ident(pair);
        let disable = self.random.index(2) == 0;
        let change = if disable { Change::disable(ident, Filter::Read) } else { Change::enable(ident, Filter::Read) };
        let result = self.queue.change(&change.cookie(3));
        let interest = self.interests.get_mut(&(Filter::Read, ident));
        assert_eq!(result.is_ok(), interest.is_some());
        if let Some(interest) = interest {
            (interest.disabled, interest.cookie) = (disable, 3);
        }
        self.touch(pair);
    }

    fn delete(&mut self, pair: usize) {
        let filter = [Filter::Read, Filter::Write][self.random.index(2)];
        let result = self.queue.change(&Change::delete(self.ident(pair), filter));
        assert_eq!(result.is_ok(), self.interests.remove(&(filter, self.ident(pair))).is_some());
        self.touch(pair);
    }

    fn user(&mut self) {
        let ident = self.random.index(USERS as usize) as u64;
        if let Some(interest) = self.interests.get_mut(&(Filter::User, ident)) {
            self.queue.change(&Change::trigger(ident)).unwrap();
            (interest.must, interest.cookie) = (true, 0);
            return;
        }
        let flags = [Flags::CLEAR, Flags::ONESHOT, Flags::CLEAR | Flags::DISPATCH][self.random.index(3)];
        self.queue.change(&Change { flags: Flags::ADD | flags, ..Change::user(ident) }).unwrap();
        let fresh = Interest { flags, low: 0, cookie: 0, disabled: false, must: false, may: false };
        self.interests.insert((Filter::User, ident), fresh);
    }

    /// The number comes to mean another file, told of or not, with the old one alive or not.
    fn reopen(&mut self, pair: usize) {
        let ident = self.ident(pair);
        let new = Pair::new();
        let old = std::mem::replace(&mut self.pairs[pair], new);
        if self.ghosts && self.random.index(2) == 0 {
            self.copies.push(old.ours.try_clone().unwrap());
            self.copies.push(old.theirs);
        }
        if self.random.index(2) == 0 {
            corelane_event::closed(old.ours.as_raw_fd());
        }
        let moved = replace(old.ours.into(), self.pairs[pair].ours.as_fd());
        self.pairs[pair].ours = moved.into();
        self.interests.retain(|(filter, other), _| *filter == Filter::User || *other != ident);
    }

    fn bytes(&self, ident: u64) -> (i64, bool) {
        let pair = self.pairs.iter().find(|pair| pair.ours.as_raw_fd() as u64 == ident).unwrap();
        (pair.bytes, pair.ended)
    }

    /// Whether an interest has to be told, and whether it may be.
    fn expected(&self, filter: Filter, ident: u64, interest: &Interest) -> (bool, bool) {
        let is_true = match filter {
            Filter::Read => {
                let (bytes, ended) = self.bytes(ident);
                bytes >= interest.low.max(1) || ended
            }
            Filter::Write => true,
            _ => interest.must,
        };
        let must = is_true && !interest.disabled && (interest.must || !interest.is_cleared());
        (must, is_true && !interest.disabled && (must || interest.may || self.ghosts))
    }

    fn take(&mut self) {
        let mut events = [Event::BLANK; 64];
        let count = self.queue.take(&mut events, 1, Some(Duration::ZERO)).unwrap();
        let told: BTreeMap<_, _> = events[..count].iter().map(|event| ((event.filter, event.ident), *event)).collect();
        assert_eq!(told.len(), count, "told twice: {:?}", &events[..count]);
        assert!(told.keys().all(|key| self.interests.contains_key(key)), "{told:?}");
        let known: Vec<_> = self.interests.iter().map(|(key, interest)| (*key, *interest)).collect();
        for (key, interest) in known {
            let (must, may) = self.expected(key.0, key.1, &interest);
            match told.get(&key) {
                Some(event) => {
                    assert!(may, "{event:?} of {interest:?}");
                    self.check(event, &interest);
                    self.after(key);
                }
                None => assert!(!must, "{key:?}, {interest:?} is not told"),
            }
        }
        self.told += count;
    }

    fn check(&self, event: &Event, interest: &Interest) {
        assert_eq!(event.cookie, interest.cookie);
        if event.filter == Filter::Read {
            let (bytes, ended) = self.bytes(event.ident);
            assert_eq!((event.data, event.flags.contains(Flags::EOF)), (bytes, ended), "{event:?}");
        }
    }

    fn after(&mut self, key: (Filter, u64)) {
        let Some(interest) = self.interests.get_mut(&key) else { return };
        (interest.must, interest.may) = (false, false);
        if interest.flags.contains(Flags::DISPATCH) {
            interest.disabled = true;
        }
        if interest.flags.contains(Flags::ONESHOT) {
            self.interests.remove(&key);
        }
    }
}

#[test]
fn changes_and_activity_are_told_as_the_model_has_it() {
    let mut told = 0;
    for seed in 0..SEEDS {
        let mut world = World::new(seed);
        (0..STEPS).for_each(|_| world.step());
        world.take();
        world.queue.end();
        told += world.told;
    }
    assert!(told > SEEDS as usize * STEPS / 4, "{told} events told");
}
