//! Changes: what is registered, updated, removed, switched on and off (kqueue(2); the order of effects is FreeBSD's).

use corelane_os::events::descriptor;
use corelane_os::events::number;
use corelane_os::events::polling::{Bell, Readiness};
use corelane_seam::slab::Key;
use std::os::fd::RawFd;
use std::sync::Arc;

use super::origins::Standing;
use super::parts::State;
use super::timers::Timers;
use crate::interest::{Interest, Source, Timing, Trigger};
use crate::poster::{Posted, Poster};
use crate::record::{Change, Filter, Flags, Manner, notes};
use crate::refused::{REPLACED, Refused};
use crate::set::Token;
use crate::signals;

/// Timers of one queue.
const TIMERS: usize = 4096;

pub(super) const MISSING: Refused =
    Refused::new(number::ENOENT, "nothing is registered under this ident and filter: the caller adds it first");

const SUBMITTED: Refused =
    Refused::new(number::EBUSY, "the end of an operation is told in any case: the caller cancels it, and takes what is told");

impl State {
    /// Does what is asked.
    pub fn change(&mut self, change: &Change) -> Result<(), Refused> {
        if change.flags.contains(Flags::ENABLE | Flags::DISABLE) {
            return Err(Refused::new(number::EINVAL, "ENABLE and DISABLE exclude each other: the caller gives one"));
        }
        if change.flags.contains(Flags::ADD | Flags::KEEPUDATA) {
            return Err(Refused::new(number::EINVAL, "KEEPUDATA keeps what is registered: the caller gives it without ADD"));
        }
        let found = match self.origin_that_will_tell(change) {
            Some(origin) => self.origins[origin].interests.get(change.filter),
            None => self.find(change)?,
        };
        if let Some(key) = found.filter(|_| !is_switch(change)) {
            self.check_not_submitted(key)?;
        }
        let result = match found {
            Some(key) if change.flags.contains(Flags::DELETE) => self.delete(key),
            Some(key) => self.update(key, change),
            None if change.flags.contains(Flags::ADD) => self.add(change, Manner::empty()).map(|_| ()),
            None => Err(missing(change)),
        };
        let result = match result {
            Err(REPLACED) if change.flags.contains(Flags::ADD) => self.add(change, Manner::empty()).map(|_| ()),
            Err(REPLACED) => Err(MISSING),
            result => result,
        };
        self.timers.iter_mut().for_each(Timers::settle);
        self.settle_bell();
        result
    }

    /// Whether an interest is the program's, and not an operation's.
    pub(super) fn check_not_submitted(&self, key: Key) -> Result<(), Refused> {
        if matches!(self.interests[key].source, Source::Submitted(_)) { Err(SUBMITTED) } else { Ok(()) }
    }

    /// Removes what is registered. ENOENT, or EBADF, where its file is found to be gone.
    fn delete(&mut self, key: Key) -> Result<(), Refused> {
        let interest = &self.interests[key];
        let in_set = interest.origin().filter(|key| self.origins[*key].registered.is_some() && !self.origins[*key].is_process());
        let Some(origin) = in_set.filter(|_| interest.filter != Filter::Vnode) else {
            self.drop_interest(key);
            return Ok(());
        };
        let number = self.origins[origin].number;
        let is_there = match self.drop_interest(key) {
            Standing::There => true,
            Standing::Gone => false,
            Standing::Unasked => self.origins.get(origin).is_some_and(|origin| origin.is_same(&self.set)),
        };
        if is_there {
            return Ok(());
        }
        // Others may be interested in the file that is gone.
        if self.origins.get(origin).is_some() {
            self.end_origin(origin);
        }
        descriptor::identity_of(number).map_err(Refused::system).and(Err(MISSING))
    }

    /// What is registered is told, whatever its origin says.
    pub fn mark(&mut self, ident: u64, filter: Filter) -> Result<(), Refused> {
        let key = self.known(ident, filter).ok_or(MISSING)?;
        self.check_not_submitted(key)?;
        let interest = &mut self.interests[key];
        interest.forced = true;
        if interest.is_heard() {
            self.ready.push(key.index);
        }
        self.settle_bell();
        Ok(())
    }

    /// A change's origin, if it is in the set and the change makes the set say whether the ident still means that file: then it need not be asked for before.
    fn origin_that_will_tell(&self, change: &Change) -> Option<Key> {
        let is_one = change.filter.of_descriptor() && asks_the_set(change);
        self.registered_origin_of(descriptor_of(change).ok().filter(|_| is_one)?)
    }

    /// What is registered under a change's ident and filter, for the open file that the ident means now.
    pub(super) fn find(&mut self, change: &Change) -> Result<Option<Key>, Refused> {
        if change.filter.of_descriptor() {
            let number = descriptor_of(change)?;
            let Some(origin) = self.origin_of(number)? else { return Ok(None) };
            return Ok(self.origins[origin].interests.get(change.filter));
        }
        Ok(self.known(change.ident, change.filter))
    }

    pub(super) fn add(&mut self, change: &Change, manner: Manner) -> Result<Key, Refused> {
        check_names(change)?;
        self.make_room()?;
        let source = self.source(change)?;
        let mut interest = Interest::new(change, source);
        interest.manner = manner;
        interest.flags |= natural(change);
        let key = self.interests.insert(interest);
        if !change.filter.of_descriptor() {
            let before = self.keys.insert((change.filter.number(), change.ident), key);
            assert!(before.is_none(), "an interest is registered once");
        }
        self.join(key);
        if change.filter == Filter::Process {
            self.count_process(0, change.notes);
        }
        let joined = self.activate(key, change);
        joined.map(|()| key).inspect_err(|_| {
            if self.interests.get(key).is_some() {
                self.drop_interest(key);
            }
        })
    }

    /// Where a new interest's activity is to come from.
    fn source(&mut self, change: &Change) -> Result<Source, Refused> {
        match change.filter {
            Filter::Read
            | Filter::Write
            | Filter::Empty
            | Filter::Except
            | Filter::Vnode
            | Filter::ProcessDescriptor
            | Filter::Ready
            | Filter::Poll => {
                let file = descriptor_of(change)?;
                if file == self.own {
                    return Err(Refused::new(number::EINVAL, "a queue cannot watch itself"));
                }
                let origin = self.take_origin(file)?;
                self.check_kind(origin, change.filter).map_err(|refused| self.misfit(origin, refused))?;
                let is_file = change.filter == Filter::Vnode;
                Ok(if is_file { Source::File(origin, 0) } else { Source::Descriptor(origin) })
            }
            Filter::Process => {
                self.prepare_processes(change)?;
                let id = u32::try_from(change.ident).map_err(|_| Refused::system(number::ESRCH))?;
                let origin = self.take_process(id).inspect_err(|_| self.count_process(0, 0))?;
                Ok(Source::Process { origin, came: 0, parent: 0, status: None })
            }
            Filter::Timer => self.timer(change).map(Source::Timer),
            Filter::Signal => self.signal(change).map(Source::Signal),
            Filter::User => Ok(Source::User(Trigger::default())),
            Filter::Aio | Filter::Lio => Ok(Source::Posted(None)),
        }
    }

    fn timer(&mut self, change: &Change) -> Result<Timing, Refused> {
        let words = "a timer has one unit, and a time that is not negative: the caller mends notes or data";
        let monotonic = self.timers[0].now();
        let timing = Timing::of(change, |_| monotonic).ok_or(Refused::new(number::EINVAL, words))?;
        if self.timer_count >= TIMERS {
            return Err(Refused::new(number::ENOMEM, "a queue has at most 4,096 timers: delete some, or use another queue"));
        }
        self.timers[usize::from(timing.wall)].prepare(&self.set).map_err(Refused::system)?;
        Ok(timing)
    }

    /// Counts a signal from now on.
    fn signal(&mut self, change: &Change) -> Result<u64, Refused> {
        let refused = Refused::new(number::EINVAL, "this is no signal that can be waited for: the caller gives another number");
        let signal = i32::try_from(change.ident).map_err(|_| refused)?;
        let count = signals::watch(signal).map_err(|error| match error {
            number::EINVAL => refused,
            error => Refused::system(error),
        })?;
        self.be_called().inspect_err(|_| signals::leave(signal as usize)).map_err(Refused::system)?;
        Ok(count)
    }

    /// Hears of signals from now on.
    fn be_called(&mut self) -> Result<(), i32> {
        if self.called.is_none() {
            let bell = Arc::new(Bell::new()?);
            self.set.add(bell.number(), Readiness::IN, Token::Called.word())?;
            self.set.add(signals::number(), Readiness::IN, Token::Signals.word())?;
            signals::call(&bell);
            self.called = Some(bell);
        }
        Ok(())
    }

    /// A new interest is made known to where its activity comes from.
    fn join(&mut self, key: Key) {
        let interest = &self.interests[key];
        match interest.source {
            Source::Descriptor(origin) | Source::File(origin, _) | Source::Process { origin, .. } => {
                self.origins[origin].interests.put(interest.filter, key);
            }
            Source::Timer(timing) => {
                self.timer_count += 1;
                self.timers[usize::from(timing.wall)].insert(timing.due, key);
            }
            Source::Signal(_) => {
                self.signals.insert(interest.ident as usize, key);
            }
            Source::User(_) | Source::Posted(_) | Source::Submitted(_) => {}
            // reason: an origin ends after it began.
            Source::Ended => unreachable!("a new interest has an origin"),
        }
    }

    /// Updates what is registered.
    fn update(&mut self, key: Key, change: &Change) -> Result<(), Refused> {
        if change.flags.contains(Flags::ADD) {
            check_names(change)?;
            if change.filter == Filter::Process {
                self.prepare_processes(change)?;
                self.count_process(self.interests[key].notes, change.notes);
            }
            if change.filter == Filter::Timer {
                self.restart(key, change)?;
            }
            let interest = &mut self.interests[key];
            (interest.notes, interest.data, interest.ext) = (change.notes, change.data, change.ext);
        }
        if !change.flags.contains(Flags::KEEPUDATA) {
            self.interests[key].cookie = change.cookie;
        }
        self.activate(key, change)?;
        self.reset(key, change);
        Ok(())
    }

    /// A user event that was there is set back by CLEAR, whatever else the change says of it.
    fn reset(&mut self, key: Key, change: &Change) {
        let interest = self.interests.get_mut(key);
        if let Some(Interest { source: Source::User(trigger), .. }) = interest
            && change.flags.contains(Flags::CLEAR)
        {
            trigger.on = false;
        }
    }

    /// A timer begins anew, and what it has not told is forgotten.
    fn restart(&mut self, key: Key, change: &Change) -> Result<(), Refused> {
        let timing = self.timer_after(change)?;
        let interest = &mut self.interests[key];
        let Source::Timer(before) = std::mem::replace(&mut interest.source, Source::Timer(timing)) else {
            // reason: an interest's source is made by its filter, which never changes.
            unreachable!("a timer's interest has a timer");
        };
        self.ready.remove(key.index);
        self.timers[usize::from(before.wall)].remove(before.due, key);
        self.timers[usize::from(timing.wall)].insert(timing.due, key);
        Ok(())
    }

    fn timer_after(&mut self, change: &Change) -> Result<Timing, Refused> {
        // The timer that begins anew is not one more.
        self.timer_count -= 1;
        let timing = self.timer(change);
        self.timer_count += 1;
        timing
    }

    /// The part of a change that is the same for what is new and what was there: triggers, switches, and what is ready by now.
    fn activate(&mut self, key: Key, change: &Change) -> Result<(), Refused> {
        let interest = &mut self.interests[key];
        if let Source::User(trigger) = &mut interest.source {
            trigger.touch(change);
        }
        if change.flags.contains(Flags::FORCEONESHOT) {
            interest.flags |= Flags::ONESHOT;
            interest.forced = true;
        }
        if change.flags.contains(Flags::DISABLE) {
            interest.disabled = true;
        } else if change.flags.intersects(Flags::ENABLE | Flags::ADD) {
            interest.disabled = false;
        }
        let (disabled, forced, pending) = (interest.disabled, interest.forced, interest.is_pending());
        if disabled {
            self.ready.remove(key.index);
        } else if forced || pending {
            self.ready.push(key.index);
        }
        self.listen(key)
    }

    /// Hears of an interest's activity from now on, and of what is ready already.
    fn listen(&mut self, key: Key) -> Result<(), Refused> {
        let interest = &self.interests[key];
        let Some(origin) = interest.origin() else { return Ok(()) };
        let (filter, disabled) = (interest.filter, interest.disabled);
        let watches = filter == Filter::Vnode || filter == Filter::Read && self.origins[origin].is_file();
        if watches {
            self.settle_file(origin)?;
        }
        if !disabled && (filter == Filter::Empty || watches && filter == Filter::Read) {
            self.ready.push(key.index);
        }
        self.origins[origin].dozing = false;
        self.settle(origin, !disabled && !watches).map_err(|error| self.unsettled(origin, error))?;
        if !disabled && self.origins[origin].is_always_ready && matches!(filter, Filter::Read | Filter::Write) {
            self.ready.push(key.index);
        }
        Ok(())
    }

    /// The set refuses an origin's descriptor.
    fn unsettled(&mut self, origin: Key, error: i32) -> Refused {
        match error {
            number::ENOENT => {
                // The number means another file than it did: what was registered has ended, and this change is for the new one.
                self.end_origin(origin);
                REPLACED
            }
            number::EBADF => {
                self.end_origin(origin);
                Refused::system(error)
            }
            number::EPERM => Refused::new(number::EINVAL, "this kind of file is always ready, and cannot be waited for"),
            _ => Refused::system(error),
        }
    }

    /// An origin does not have what is asked for, or is not what its number means by now.
    fn misfit(&mut self, origin: Key, refused: Refused) -> Refused {
        let is_replaced = !self.origins[origin].is_same(&self.set);
        if is_replaced || self.origins[origin].is_empty() {
            self.end_origin(origin);
        }
        if is_replaced { REPLACED } else { refused }
    }

    /// A poster to this queue.
    pub fn poster(&mut self) -> Result<Poster, Refused> {
        if let Some(posted) = &self.posted {
            return Ok(posted.poster());
        }
        let posted = Posted::new(self.home).map_err(Refused::system)?;
        self.set.add(posted.number(), Readiness::IN, Token::Posted.word()).map_err(Refused::system)?;
        Ok(self.posted.insert(posted).poster())
    }

    /// Somebody says that an operation of his has come to an end; nothing if nobody is interested.
    pub fn post(&mut self, ident: u64, filter: Filter, notes: u32, data: i64) -> Result<(), Refused> {
        let key = self.known(ident, filter).ok_or(MISSING)?;
        let interest = &mut self.interests[key];
        let Source::Posted(posted) = &mut interest.source else {
            return Err(Refused::new(
                number::EINVAL,
                "events of this filter come from the system: the caller posts Aio and Lio alone",
            ));
        };
        *posted = Some((notes, data));
        if interest.is_heard() {
            self.ready.push(key.index);
        }
        self.settle_bell();
        Ok(())
    }
}

/// Whether a change of an interest in a descriptor that is in the set makes the set look for it there, or tells afterwards whether it did ([`State::delete`]).
fn asks_the_set(change: &Change) -> bool {
    let speaks = change.flags.intersects(Flags::ADD | Flags::ENABLE) && !change.flags.contains(Flags::DISABLE);
    change.filter != Filter::Vnode && (speaks || change.flags.contains(Flags::DELETE))
}

/// Whether a change does nothing but enable or disable.
fn is_switch(change: &Change) -> bool {
    !change.flags.intersects(Flags::ADD | Flags::DELETE | Flags::FORCEONESHOT)
}

/// Names are kept with an interest, so it has to be there when they are asked for.
fn check_names(change: &Change) -> Result<(), Refused> {
    let is_gone = change.flags.intersects(Flags::ONESHOT | Flags::FORCEONESHOT | Flags::DROP);
    if change.filter == Filter::Vnode && change.notes & notes::NAMES != 0 && is_gone {
        let words = "names go with an interest that is told once: the caller asks for them with CLEAR or DISPATCH";
        return Err(Refused::new(number::EINVAL, words));
    }
    Ok(())
}

/// Flags that a filter has by nature.
fn natural(change: &Change) -> Flags {
    match change.filter {
        Filter::Timer if change.notes & notes::ABSTIME != 0 => Flags::empty(),
        Filter::Timer | Filter::Signal | Filter::Process | Filter::ProcessDescriptor => Flags::CLEAR,
        Filter::Aio | Filter::Lio => Flags::ONESHOT,
        _ => Flags::empty(),
    }
}

/// Why there is nothing to be changed: of what is not open nothing can be registered.
fn missing(change: &Change) -> Refused {
    let is_open = |number| descriptor::identity_of(number).map_err(Refused::system);
    let asked = if change.filter.of_descriptor() { descriptor_of(change).and_then(is_open).err() } else { None };
    asked.unwrap_or(MISSING)
}

fn descriptor_of(change: &Change) -> Result<RawFd, Refused> {
    RawFd::try_from(change.ident).map_err(|_| Refused::system(number::EBADF))
}
