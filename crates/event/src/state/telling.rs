//! Retrieval: what the set reports goes on the ready list, and what is true of it becomes events.

use corelane_os::events::descriptor::Kind;
use corelane_os::events::polling::{Readiness, Report, readiness_of, token_of};
use corelane_os::events::signals::SIGNALS;
use corelane_seam::slab::Key;

use super::asking::Answer;
use super::origin::Origin;
use super::parts::State;
use super::timers::Timers;
use crate::closing;
use crate::interest::{Interest, Source, Told};
use crate::poster::Posted;
use crate::record::{Event, Filter, Flags, Manner, notes};
use crate::set::Token;
use crate::signals::{self, Counts};

/// How long an interest in a drained buffer waits before its origin is asked again; nanoseconds.
const LOOK_AGAIN: u64 = 1_000_000;

/// How long what a process has ended with may take to be told after its end; nanoseconds. The kernel says both on one path, on which it may lose its processor.
const STATUS_COMES: u64 = 100_000_000;

/// Counts of signals where nobody was ever interested in any: they are large, and nobody looks at them.
static NONE: Counts = [0; SIGNALS];

/// Where a call's events go.
pub struct Sink<'a> {
    pub each: &'a mut dyn FnMut(&Event),
    /// How many more there is room for.
    pub room: usize,
    /// Whether the call may wait on after some were told.
    pub is_patient: bool,
}

impl State {
    /// A call looks at the queue: until [`State::finish`] no interest is told twice.
    pub fn begin(&mut self) {
        assert!(self.put_back.is_empty(), "who has looked has put back what stays true");
        self.look += 1;
        self.fresh.clear();
    }

    /// The call has looked: what stays true is on the ready list again.
    pub fn finish(&mut self) {
        for key in self.put_back.drain(..) {
            // It may have ended since with its file.
            if self.interests.get(key).is_some() {
                self.ready.push(key.index);
            }
        }
        self.timers.iter_mut().for_each(Timers::settle);
        self.settle_bell();
    }

    /// Notes what `reports` speak of, and tells what is true of it, and of the ready list; says how much that is.
    pub fn tell(&mut self, reports: &[Report], sink: &mut Sink) -> usize {
        let room = sink.room;
        // All are noted before the first is asked: what of them is not in the processor's cache is fetched side by side, and not one behind each system call.
        for report in reports {
            match Token::from_word(token_of(report)) {
                Some(token) => self.hear(token),
                None => self.report(Key::from_bits(token_of(report)), readiness_of(report), room),
            }
        }
        self.tell_due(sink);
        self.hear_processes();
        let counted;
        let counts = if self.called.is_none() {
            &NONE
        } else {
            counted = self.gather();
            &counted
        };
        self.scan(sink, counts);
        self.batch += 1;
        assert!(sink.room <= room, "what is told takes room");
        room - sink.room
    }

    /// Something other than an origin's descriptor was reported.
    fn hear(&mut self, token: Token) {
        match token {
            Token::Monotonic => self.expire(0),
            Token::Wall => self.expire(1),
            Token::Files => self.hear_files(),
            // Silenced before the counts are looked at: what comes later rings again.
            Token::Called => self.called.iter().for_each(|bell| bell.silence()),
            // They are listened to before anything is told: what a process has done is known before its end.
            Token::Processes => {}
            Token::Posted => self.hear_posted(),
            Token::Bell | Token::Signals | Token::Retired => {}
            // reason: it is in the outer set alone, from which nobody collects.
            Token::Inner => unreachable!("the outer set is not collected from"),
        }
    }

    /// The set has reported `what` of an origin: its interests are due to be told, as far as there is `room`, or go on the ready list where others stand there
    /// before them.
    fn report(&mut self, key: Key, what: Readiness, room: usize) {
        let Some(origin) = self.origins.get_mut(key) else {
            self.haunted |= self.lost.contains(&key);
            return;
        };
        if origin.watch.is_closed() {
            self.end_origin(key);
            return;
        }
        origin.reported = (self.batch, what);
        let at_once = origin.is_told_at_once();
        for key in origin.interests.iter() {
            let interest = &self.interests[key];
            if !interest.is_heard() || !interest.concerns(what) {
                continue;
            }
            if at_once && self.ready.is_empty() && self.due.len() < room {
                self.due.push(key);
            } else {
                self.ready.push(key.index);
            }
        }
        if !at_once && !origin.lines_are_empty() {
            self.carry_on(key, what);
        }
    }

    /// User events that posters have triggered.
    fn hear_posted(&mut self) {
        let posted = self.posted.as_ref().map(Posted::take).unwrap_or_default();
        for (user, data) in posted {
            // It may have been deleted since it was triggered.
            let Some(&key) = self.keys.get(&(Filter::User.number(), user)) else { continue };
            let interest = &mut self.interests[key];
            if let Source::User(trigger) = &mut interest.source {
                (trigger.data, trigger.on) = (data, true);
            }
            if interest.is_heard() {
                self.ready.push(key.index);
            }
        }
    }

    /// Counts of signals, once there was an interest in any: the set reports them from then on, for as long as any queue counts them.
    fn gather(&mut self) -> Counts {
        assert!(self.called.is_some(), "counts are of interest to who hears of signals");
        let counts = signals::gather();
        for (&signal, key) in &self.signals {
            let interest = &self.interests[*key];
            let Source::Signal(seen) = interest.source else {
                // reason: it was put there as a signal's interest.
                unreachable!("a signal's interest counts");
            };
            if counts[signal] > seen && interest.is_heard() {
                self.ready.push(key.index);
            }
        }
        counts
    }

    /// Timers of a clock that are due by now are active.
    fn expire(&mut self, clock: usize) {
        let now = self.timers[clock].now();
        self.timers[clock].heard();
        while let Some(key) = self.timers[clock].expired(now) {
            let interest = &mut self.interests[key];
            interest.again = None;
            if let Source::Timer(timing) = &mut interest.source {
                timing.fired = true;
            }
            if interest.is_heard() {
                self.ready.push(key.index);
            }
        }
    }

    /// Tells what was reported before anything was on the ready list.
    fn tell_due(&mut self, sink: &mut Sink) {
        let mut due = std::mem::take(&mut self.due);
        for key in due.drain(..) {
            // It may have ended with another of its origin.
            if self.interests.get(key).is_some() {
                self.tell_one(key, sink, &NONE);
            }
        }
        self.due = due;
    }

    /// Asks each interest on the list as it is now, as long as there is room, and tells what is true.
    fn scan(&mut self, sink: &mut Sink, counts: &Counts) {
        for _ in 0..self.ready.len() {
            if sink.room == 0 {
                break;
            }
            // An interest may have ended with another of its origin, so the list may be shorter by now.
            let Some(place) = self.ready.pop() else { break };
            // reason: what is not registered any more is taken off the list.
            let key = self.interests.key_of(place).expect("the list holds interests");
            self.tell_one(key, sink, counts);
        }
    }

    /// Tells what there is to tell to an interest.
    fn tell_one(&mut self, key: Key, sink: &mut Sink, counts: &Counts) {
        if let Some(event) = self.ask_and_settle(key, counts) {
            if sink.is_patient {
                self.fresh.push(key);
            }
            sink.room -= 1;
            (sink.each)(&event);
        }
    }

    /// The event that there is to tell to an interest, which is then as it is after that.
    fn ask_and_settle(&mut self, key: Key, counts: &Counts) -> Option<Event> {
        let interest = &self.interests[key];
        if !interest.is_heard() {
            return None;
        }
        let origin = interest.origin().map(|origin| (origin, &self.origins[origin]));
        let is_repeated = origin.is_some_and(|(_, origin)| is_repeated(interest, origin));
        if interest.told_in == self.look {
            if !is_repeated {
                self.put_back.push(key);
            }
            return None;
        }
        let trusted = interest.manner.contains(Manner::UNCHECKED);
        if let Some((origin, one)) = origin
            && !self.is_alive(one, trusted)
        {
            self.end_origin(origin);
            return None;
        }
        let told = match self.ask(interest, origin.map(|(_, one)| one), counts) {
            Answer::Told(told) => told,
            _ if interest.forced => Told { notes: 0, data: 0, flags: Flags::empty() },
            answer => {
                self.tell_nothing(key, &answer);
                return None;
            }
        };
        let event = interest.event(told);
        self.after_telling(key, &event, is_repeated, counts);
        (!event.flags.contains(Flags::DROP)).then_some(event)
    }

    /// What there is to tell to an interest that is new.
    pub(super) fn tell_new(&mut self, key: Key) -> Option<Event> {
        self.begin();
        let is_signal = self.interests[key].filter == Filter::Signal;
        let counted = is_signal.then(|| self.gather());
        self.ready.remove(key.index);
        let mut event = None;
        let mut sink = Sink { each: &mut |told| event = Some(*told), room: 1, is_patient: false };
        self.tell_one(key, &mut sink, counted.as_ref().unwrap_or(&NONE));
        self.finish();
        event
    }

    /// Whether the set has reported an origin as failed or hung up, which it will do again and again.
    fn is_ended(&self, origin: Key) -> bool {
        let reported = self.reported(&self.origins[origin]);
        reported.is_some_and(|what| what.intersects(Readiness::ERR | Readiness::HUP))
    }

    /// There is nothing to tell to an interest.
    #[inline(never)]
    fn tell_nothing(&mut self, key: Key, answer: &Answer) {
        let origin = self.interests[key].origin();
        // Of what was not reported, as of what is new, nothing is to be suspected.
        if let Some(origin) = origin
            && closing::are_told()
            && self.reported(&self.origins[origin]).is_some()
        {
            self.suspect(origin);
        }
        match origin.filter(|origin| self.origins.get(*origin).is_some()) {
            Some(origin) if matches!(answer, Answer::Idle) || self.is_ended(origin) => self.doze(origin),
            _ => {}
        }
        if self.is_unheard(key) {
            self.look_again(key, LOOK_AGAIN);
        }
        self.wait_for_status(key, answer);
    }

    /// A process has ended, and nobody has said yet with what: it is told then, or after a while without.
    fn wait_for_status(&mut self, key: Key, answer: &Answer) {
        let interest = self.interests.get_mut(key).map(|interest| &mut interest.source);
        if let (Some(Source::Process { status, .. }), Answer::Idle) = (interest, answer) {
            *status = Some(0);
            self.look_again(key, STATUS_COMES);
        }
    }

    /// Nothing tells of a drained buffer, nor of more room in a pipe than a little.
    fn is_unheard(&self, key: Key) -> bool {
        // It may just have ended with its file.
        let Some(interest) = self.interests.get(key) else { return false };
        let is_pipe = || interest.origin().is_some_and(|origin| self.origins[origin].kind == Kind::Pipe);
        interest.filter == Filter::Empty || interest.filter == Filter::Write && interest.low_water() > 1 && is_pipe()
    }

    /// An interest is asked again after so many nanoseconds.
    fn look_again(&mut self, key: Key, after: u64) {
        let interest = &mut self.interests[key];
        if interest.again.is_none() && self.timers[0].prepare(&self.set).is_ok() {
            let due = self.timers[0].now() + after;
            interest.again = Some(due);
            self.timers[0].insert(due, key);
        }
    }

    /// What becomes of an interest that was told, of which the set goes on to report what is true if it `is_repeated`.
    fn after_telling(&mut self, key: Key, event: &Event, is_repeated: bool, counts: &Counts) {
        if event.flags.intersects(Flags::ONESHOT | Flags::DROP) {
            self.drop_interest(key);
            if event.filter == Filter::Aio {
                self.operation_was_told(event.ident);
            }
            return;
        }
        let interest = &mut self.interests[key];
        interest.told_in = self.look;
        interest.forced = false;
        match &mut interest.source {
            Source::Timer(timing) if timing.period > 0 && timing.fired => {
                let (wall, count) = (timing.wall, event.data.unsigned_abs());
                timing.next(count);
                let due = timing.due;
                self.timers[usize::from(wall)].insert(due, key);
            }
            Source::Signal(seen) => *seen = counts[event.ident as usize],
            _ => {}
        }
        if event.flags.contains(Flags::CLEAR) {
            interest.clear();
        }
        if event.flags.contains(Flags::DISPATCH) {
            interest.disabled = true;
            self.resettle(key);
            return;
        }
        // A child that is followed may have ended meanwhile, which was not told with its beginning.
        let is_child = event.filter == Filter::Process && event.notes & notes::CHILD != 0;
        if !is_repeated && (is_child || !event.flags.contains(Flags::CLEAR)) {
            self.put_back.push(key);
        }
    }

    /// An interest has fallen silent, or speaks again: its origin's registration follows.
    fn resettle(&mut self, key: Key) {
        let origin = self.interests[key].origin();
        if let Some(origin) = origin
            && self.settle(origin, false).is_err()
        {
            self.end_origin(origin);
        }
    }

    /// Interests told in a call that waits on for more are told no second time in it.
    pub fn hold(&mut self, held: &mut Vec<Key>) {
        for key in std::mem::take(&mut self.fresh) {
            let Some(interest) = self.interests.get_mut(key) else { continue };
            assert!(!interest.held, "who is held is not told");
            interest.held = true;
            held.push(key);
            self.ready.remove(key.index);
            self.resettle(key);
        }
        self.settle_bell();
    }

    /// The call is over: what was held may be told again.
    pub fn let_go(&mut self, held: &[Key]) {
        for &key in held {
            let Some(interest) = self.interests.get_mut(key) else { continue };
            interest.held = false;
            let is_level = !interest.flags.contains(Flags::CLEAR);
            if !interest.disabled && (is_level || interest.is_pending()) {
                self.ready.push(key.index);
            }
            self.resettle(key);
        }
        self.settle_bell();
    }
}

/// Whether the set itself goes on reporting what an interest in a descriptor was told, so that it need not be looked at again after the call.
#[inline]
fn is_repeated(interest: &Interest, origin: &Origin) -> bool {
    let is_level = origin.registered.is_some_and(|what| !what.contains(Readiness::ET));
    is_level && matches!(interest.source, Source::Descriptor(_)) && !interest.needs().is_empty()
}
