//! Origins with a descriptor: made, kept in the set as their interests need, and ended with their open file.

use corelane_os::events::descriptor::{self, Kind};
use corelane_os::events::number;
use corelane_os::events::polling::Readiness;
use corelane_os::events::process::{self, PidFd};
use corelane_seam::slab::Key;
use std::os::fd::RawFd;

use super::origin::{Origin, Rest};
use super::parts::State;
use super::processes::{Processes, needs_connector};
use crate::closing;
use crate::interest::{Interest, Source};
use crate::record::{Change, Filter, Flags, Manner};
use crate::refused::Refused;
use crate::set::Token;
use crate::signals;

/// What an exclusive registration may wait for (epoll_ctl(2)).
const EXCLUSIVE: Readiness = Readiness::IN.union(Readiness::OUT);

/// What the set has said of an origin's file as it was told of one interest less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It had nothing to be told.
    Unasked,
    /// It is in the set, under its number.
    There,
    /// Its number means another, or none.
    Gone,
}

impl State {
    /// The origin of the program's descriptor `number`, if it is known and is still the file that it was. One whose number was closed or means
    /// another file has ended. Of a number that is not known nothing is asked.
    ///
    /// EBADF if a number that was known is not open.
    pub(super) fn origin_of(&mut self, number: RawFd) -> Result<Option<Key>, Refused> {
        let Some(&key) = self.numbers.get(&number) else { return Ok(None) };
        let identity = descriptor::identity_of(number).map_err(Refused::system);
        let origin = &self.origins[key];
        if identity == Ok(origin.identity) && !origin.watch.is_closed() {
            return Ok(Some(key));
        }
        self.end_origin(key);
        identity.map(|_| None)
    }

    /// The origin of the program's descriptor `number`, if it is in the set and nobody has told that it was closed.
    pub(super) fn registered_origin_of(&self, number: RawFd) -> Option<Key> {
        let key = *self.numbers.get(&number)?;
        let origin = &self.origins[key];
        (origin.registered.is_some() && !origin.watch.is_closed()).then_some(key)
    }

    /// The origin of the program's descriptor, made if need be; one that is known was found to be the file that it was.
    pub(super) fn take_origin(&mut self, number: RawFd) -> Result<Key, Refused> {
        if let Some(&key) = self.numbers.get(&number) {
            return Ok(key);
        }
        let watch = closing::watch(number);
        let identified = descriptor::identify(number).map_err(Refused::system);
        let (kind, identity) = identified.inspect_err(|_| closing::unwatch(number))?;
        let key = self.origins.insert(Origin { watch, ..Origin::new(number, kind, identity) });
        let before = self.numbers.insert(number, key);
        assert!(before.is_none(), "a number has one origin");
        Ok(key)
    }

    /// The origin of a process, made if need be: with a descriptor of our own.
    pub(super) fn take_process(&mut self, id: u32) -> Result<Key, Refused> {
        if let Some(&key) = self.processes.get(&id) {
            return Ok(key);
        }
        let process = PidFd::open(id).map_err(Refused::system)?;
        let (kind, identity) = descriptor::identify(process.number()).map_err(Refused::system)?;
        let origin = Origin::new(process.number(), kind, identity);
        let rest = Some(Box::new(Rest { process: Some((id, process)), ..Rest::default() }));
        let key = self.origins.insert(Origin { rest, ..origin });
        let before = self.processes.insert(id, key);
        assert!(before.is_none(), "a process has one origin");
        Ok(key)
    }

    /// Whether the descriptor's file can have interests in `filter`.
    pub(super) fn check_kind(&self, key: Key, filter: Filter) -> Result<(), Refused> {
        let origin = &self.origins[key];
        let fits = match filter {
            Filter::Read => origin.kind != Kind::Directory,
            Filter::Write => origin.kind != Kind::Directory,
            Filter::Vnode => match origin.kind {
                Kind::File | Kind::Directory | Kind::Device => true,
                Kind::Pipe => !descriptor::is_nameless_pipe(origin.number),
                _ => false,
            },
            Filter::Except => matches!(origin.kind, Kind::Stream | Kind::Datagrams),
            Filter::Empty => matches!(origin.kind, Kind::Stream | Kind::Datagrams),
            Filter::Ready => matches!(origin.kind, Kind::Stream | Kind::Datagrams | Kind::Pipe),
            Filter::Poll => !origin.is_always_ready || origin.kind != Kind::Device,
            _ => origin.is_process() || process::is_process(origin.number),
        };
        if fits {
            return Ok(());
        }
        Err(Refused::new(number::EINVAL, "this kind of file has no such events: the caller asks for another filter"))
    }

    /// What the set is to wait for at an origin: all that its interests need, edge-triggered where one of them must not be told of what it
    /// was told before, or where there is nothing to tell.
    fn needed(&self, origin: &Origin) -> Readiness {
        let heard = origin.interests.iter().map(|key| &self.interests[key]).filter(|interest| interest.is_heard());
        let mut all = Readiness::empty();
        let mut edge = origin.dozing;
        // Another queue's registration of a queue is refused if it is exclusive.
        let mut exclusive = origin.kind != Kind::Nameless;
        for interest in heard {
            let needs = interest.needs();
            all |= needs;
            edge |= !needs.is_empty() && (interest.flags.contains(Flags::CLEAR) || interest.low_water() > 1);
            exclusive &= interest.manner.contains(Manner::EXCLUSIVE);
        }
        let by_lines = self.needed_by_lines(origin);
        if exclusive && by_lines.is_empty() && all.intersects(EXCLUSIVE) && (EXCLUSIVE | Readiness::RDHUP).contains(all) {
            all = all & EXCLUSIVE | Readiness::EXCLUSIVE;
        }
        all |= by_lines;
        if edge || all.is_empty() { all | Readiness::ET } else { all }
    }

    /// Makes the set wait for what an origin's interests need; with `again`, has it tell anew of what is ready. ENOENT if the number means another file than
    /// the set knows.
    pub(super) fn settle(&mut self, key: Key, again: bool) -> Result<(), i32> {
        let origin = &self.origins[key];
        if origin.is_always_ready {
            return Ok(());
        }
        let needed = self.needed(origin);
        let number = origin.number;
        match origin.registered {
            None if needed == Readiness::ET => return Ok(()),
            None => match self.register(key, number, needed) {
                Err(number::EPERM) if self.may_never_wait(key) => {
                    self.origins[key].is_always_ready = true;
                    return Ok(());
                }
                answer => answer?,
            },
            Some(registered) if registered == needed && !again => return Ok(()),
            Some(registered) if (registered | needed).contains(Readiness::EXCLUSIVE) => {
                self.register_anew(key, number, needed)?
            }
            Some(_) => self.set.modify(number, needed, key.bits())?,
        }
        self.origins[key].registered = Some(needed);
        Ok(())
    }

    /// Whether all interests in an origin can be told of what never waits.
    fn may_never_wait(&self, key: Key) -> bool {
        let filter = |key| self.interests[key].filter;
        self.origins[key].interests.iter().all(|key| matches!(filter(key), Filter::Read | Filter::Write | Filter::Vnode))
    }

    /// What is exclusive, or is to be, cannot be modified.
    fn register_anew(&mut self, key: Key, file: RawFd, needed: Readiness) -> Result<(), i32> {
        self.set.remove(file)?;
        self.origins[key].registered = None;
        self.set.add(file, needed, key.bits())
    }

    fn register(&self, key: Key, file: RawFd, needed: Readiness) -> Result<(), i32> {
        match self.set.add(file, needed, key.bits()) {
            // Told as closed, and then not closed; or put into a new set as what had the number before. That one may be exclusive, and cannot be modified.
            Err(number::EEXIST) => {
                self.set.remove(file)?;
                self.set.add(file, needed, key.bits())
            }
            answer => answer,
        }
    }

    /// The interest is registered no more.
    pub(super) fn drop_interest(&mut self, key: Key) -> Standing {
        // reason: whoever drops an interest has just looked it up.
        let interest = self.interests.remove(key).expect("an interest is dropped once");
        self.ready.remove(key.index);
        if interest.filter == Filter::Vnode {
            self.names.remove(&key);
        }
        if matches!(interest.source, Source::Ended) {
            // Its ident and filter may be another's by now.
            return Standing::Unasked;
        }
        self.forget_name(&interest, key);
        if let Some(due) = interest.again {
            self.timers[0].remove(due, key);
        }
        match interest.source {
            Source::Timer(timing) => {
                self.timer_count -= 1;
                self.timers[usize::from(timing.wall)].remove(timing.due, key);
            }
            Source::Signal(_) => {
                self.signals.remove(&(interest.ident as usize));
                signals::leave(interest.ident as usize);
            }
            Source::Process { origin, .. } => {
                self.count_process(interest.notes, 0);
                return self.leave(origin, key, interest.filter);
            }
            Source::Descriptor(origin) | Source::File(origin, _) => return self.leave(origin, key, interest.filter),
            Source::User(_) | Source::Posted(_) | Source::Submitted(_) | Source::Ended => {}
        }
        Standing::Unasked
    }

    /// Hears of what processes do, if a change asks for it.
    pub(super) fn prepare_processes(&mut self, change: &Change) -> Result<(), Refused> {
        if change.filter != Filter::Process || !needs_connector(change.notes) || self.heard_processes.is_some() {
            return Ok(());
        }
        let processes = Processes::new()?;
        self.set.add(processes.number(), Readiness::IN, Token::Processes.word()).map_err(Refused::system)?;
        self.heard_processes = Some(processes);
        Ok(())
    }

    /// An interest asks for `after` where it asked for `before`: with the last that needs it, nothing is heard of processes any more.
    pub(super) fn count_process(&mut self, before: u32, after: u32) {
        let Some(processes) = &mut self.heard_processes else {
            return assert!(!needs_connector(before | after), "who is to be told of processes has had them heard");
        };
        if !processes.count(before, after) {
            self.heard_processes = None;
        }
    }

    /// An interest is known by its ident and filter no more; one of a descriptor is known to its origin alone.
    fn forget_name(&mut self, interest: &Interest, key: Key) {
        if !interest.filter.of_descriptor() {
            let known = self.keys.remove(&(interest.filter.number(), interest.ident));
            assert_eq!(known, Some(key), "an interest is known by its ident and filter");
        }
    }

    /// An interest in an origin is gone; with the last one the origin is of no interest.
    fn leave(&mut self, origin: Key, interest: Key, filter: Filter) -> Standing {
        let one = &mut self.origins[origin];
        let left = one.interests.take(filter);
        assert_eq!(left, Some(interest), "an origin knows its interests");
        let before = one.registered;
        if one.is_empty() {
            return match (before, self.forget_unused(origin)) {
                (None, _) => Standing::Unasked,
                (Some(_), true) => Standing::There,
                (Some(_), false) => Standing::Gone,
            };
        }
        one.dozing = false;
        if self.settle(origin, false).is_err() {
            self.end_origin(origin);
            return Standing::Gone;
        }
        if self.origins[origin].registered == before { Standing::Unasked } else { Standing::There }
    }

    /// An origin of no interest is forgotten. Whether its file was in the set, if it was to be.
    pub(super) fn forget_unused(&mut self, origin: Key) -> bool {
        let gone = self.remove_from_set(origin).is_err();
        self.release(origin, gone);
        !gone
    }

    fn remove_from_set(&self, key: Key) -> Result<(), i32> {
        let origin = &self.origins[key];
        match origin.registered {
            Some(_) => self.set.remove(origin.number),
            None => Ok(()),
        }
    }

    /// The open file behind an origin is gone, or has another number: its interests end, in silence where that is not to be told.
    #[inline(never)]
    pub(super) fn end_origin(&mut self, key: Key) {
        let interests = std::mem::take(&mut self.origins[key].interests);
        for interest in interests.iter() {
            self.end_interest(interest);
        }
        self.end_lines(key);
        self.release(key, true);
    }

    fn end_interest(&mut self, key: Key) {
        let one = &mut self.interests[key];
        if !one.filter.of_descriptor() {
            self.keys.remove(&(one.filter.number(), one.ident));
        }
        if one.filter == Filter::Vnode {
            self.names.remove(&key);
        }
        if let Some(due) = one.again.take() {
            self.timers[0].remove(due, key);
        }
        let (filter, notes) = (one.filter, one.notes);
        if one.manner.contains(Manner::BROKEN) {
            one.source = Source::Ended;
            self.ready.push(key.index);
        } else {
            self.ready.remove(key.index);
            self.interests.remove(key);
        }
        if filter == Filter::Process {
            self.count_process(notes, 0);
        }
    }

    /// An origin is forgotten. If it could not be taken out of the set (`gone`), the set may go on reporting it.
    fn release(&mut self, key: Key, gone: bool) {
        self.unwatch_file(key);
        // reason: whoever forgets an origin has just looked at it.
        let origin = self.origins.remove(key).expect("an origin is forgotten once");
        assert!(origin.is_empty(), "an origin with interests or operations is not forgotten");
        if let Some((id, _)) = origin.rest.as_ref().and_then(|rest| rest.process.as_ref()) {
            // The set forgets it when our descriptor is closed.
            self.processes.remove(id);
            return;
        }
        self.numbers.remove(&origin.number);
        closing::unwatch(origin.number);
        if gone && origin.registered.is_some() {
            self.lost.insert(key);
        }
    }

    /// An origin's file is of no interest any more.
    fn unwatch_file(&mut self, key: Key) {
        let watch = self.origins[key].rest.as_mut().and_then(|rest| rest.watch.take());
        let Some(watch) = watch else { return };
        // reason: it is there from the first watch on.
        let files = self.files.as_mut().expect("an origin with a watch has somebody who watches");
        files.leave(watch, key);
    }

    /// `number` is about to be closed, or to mean another file.
    pub fn closed(&mut self, number: RawFd) {
        if let Some(&key) = self.numbers.get(&number) {
            if self.remove_from_set(key).is_ok() {
                self.origins[key].registered = None;
            }
            self.end_origin(key);
            self.settle_bell();
        }
    }

    /// Numbers were closed while somebody else had the lock.
    pub fn closed_meanwhile(&mut self) {
        let origins = self.numbers.iter().filter(|(_, key)| self.origins[**key].watch.is_closed());
        let closed: Vec<RawFd> = origins.map(|(number, _)| *number).collect();
        closed.into_iter().for_each(|number| self.closed(number));
    }

    /// What the batch of reports that is told says of an origin.
    pub(super) fn reported(&self, origin: &Origin) -> Option<Readiness> {
        let (batch, what) = origin.reported;
        assert!(batch <= self.batch, "a report is of this batch or of an earlier one");
        (batch == self.batch).then_some(what)
    }

    /// Whether an origin is the open file that it was. One that is not asked is `trusted` to be the one that was reported.
    #[inline]
    pub(super) fn is_alive(&self, origin: &Origin, trusted: bool) -> bool {
        !origin.watch.is_closed() && (trusted || closing::are_told() || origin.is_process() || origin.is_same(&self.set))
    }

    /// An origin's answer does not fit its report: it may be another file's.
    pub(super) fn suspect(&mut self, key: Key) {
        let origin = &self.origins[key];
        let same = origin.is_process() || origin.is_same(&self.set);
        if !same {
            self.end_origin(key);
        }
    }

    /// The set reports an origin of which there is nothing to tell: from now on it tells of changes alone.
    pub(super) fn doze(&mut self, key: Key) {
        let origin = &mut self.origins[key];
        if !origin.dozing {
            origin.dozing = true;
            if self.settle(key, false).is_err() {
                self.end_origin(key);
            }
        }
    }
}
