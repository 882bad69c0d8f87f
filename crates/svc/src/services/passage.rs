//! Bytes pass a transform: when it is called, and what follows from that.

use crate::connection::entry::{Busy, Connection};
use crate::connection::found::Found;
use crate::connection::machine::Machine;
use crate::connection::transform::{Passage, Progress, Side, Transform};
use crate::pending::requests::Requests;
use crate::service::port::Callback;
use crate::services::served::Served;
use crate::words::names::{ConnectionId, Ending};
use corelane_lane::{Kit, fenced};
use corelane_seam::{Arena, Chain, Fault, Instant, Level, Record};
use corelane_watch::ServiceCounter;
use std::sync::Arc;
use std::time::Duration;

/// Handshake steps in one turn. More wait for the next turn, so that other connections do not wait for all of them.
const HANDSHAKE_STEPS_PER_TURN: u32 = 16;

/// What came of a call that did not end the connection.
struct Passed {
    opens: bool,
    /// There is something new for the service.
    brings: bool,
    ends_input: bool,
    has_more: bool,
    /// Bytes of memory that were refused to it.
    refused: usize,
}

/// What follows, beyond the connection, from passing its input.
pub(crate) enum Follows {
    /// The handshake is over.
    Opens,
    /// The other of its pair waits until this side has said its last word.
    Leaves(ConnectionId),
    Breaks(Broken),
}

/// Why bytes of a connection pass no more.
pub(crate) enum Broken {
    /// The transform has refused the peer, and what it said of that leaves. The other of its pair is left.
    Refused(Option<ConnectionId>),
    /// The transform has panicked with these words.
    Panicked(String),
    /// A file that was to be sent has no more, or cannot be read.
    File(Fault),
}

impl Served {
    /// Gives a newly opened connection its transform, if its service has one; otherwise the service gets the connection at once.
    pub(crate) fn begin(&mut self, kit: &mut Kit, index: u32) {
        let mut found = self.table.there(index);
        let side = if found.connection.machine.is_outgoing() { Side::Client } else { Side::Server };
        let (about, peer) = (found.begin_about(), found.connection.peer.clone());
        match self.fenced_call(kit, &about, |port, _| port.transform(side, &peer)).0 {
            None => self.end(kit, index, Ending::Aborted),
            Some(None) => self.hand_over(kit, index),
            Some(Some(transform)) => {
                self.table.there(index).begin_handshake(kit, transform);
                if !self.table.desk.parked.is_empty() {
                    self.table.desk.look_at_places(kit);
                }
            }
        }
    }

    /// The service gets a connection that is open.
    fn hand_over(&mut self, kit: &mut Kit, index: u32) {
        if !self.table.connections.has_session(index) {
            return self.open_session(kit, index);
        }
        let pair = self.table.there(index).connection.pair.get();
        self.adopt_session(kit, index);
        self.call(kit, index, Callback::Connected);
        self.table.there(index).mark_dirty();
        if let Some(mut other) = pair.and_then(|pair| self.table.found(pair)) {
            other.mark_dirty();
        }
    }

    /// Does what follows from passing a connection's input.
    pub(crate) fn follow(&mut self, kit: &mut Kit, index: u32, follows: Follows) {
        match follows {
            Follows::Opens => self.hand_over(kit, index),
            Follows::Leaves(pair) => self.table.there(pair.index).mark_dirty(),
            Follows::Breaks(broken) => drop(self.break_off(kit, index, broken)),
        }
    }

    /// Ends a connection whose bytes pass no more; returns whether something of it still leaves.
    pub(crate) fn break_off(&mut self, kit: &mut Kit, index: u32, broken: Broken) -> bool {
        match broken {
            Broken::Refused(pair) => {
                if let Some(pair) = pair {
                    self.leave_pair(kit, index, pair, Ending::Aborted);
                }
                return true;
            }
            Broken::Panicked(words) => {
                let about = self.table.there(index).begin_about();
                self.table.report_panic_of(kit, &about, &words);
                self.end(kit, index, Ending::Aborted);
            }
            Broken::File(fault) => self.end_by_fault(kit, index, fault),
        }
        false
    }
}

impl Found<'_> {
    /// If this turn has taken its share of handshake steps, puts this one off to the next turn and returns true.
    pub(crate) fn put_off(&mut self) -> bool {
        if !self.connection.machine.is_in_handshake() {
            return false;
        }
        let puts_off = self.desk.handshake_steps >= HANDSHAKE_STEPS_PER_TURN;
        self.desk.handshake_steps += 1;
        if puts_off {
            self.mark_ready();
        }
        puts_off
    }

    /// Passes what has arrived, and what was left for this turn, through the connection's transform.
    pub(crate) fn pass_input(&mut self, kit: &mut Kit) -> Option<Follows> {
        let passed = match self.pass(kit) {
            Ok(passed) => passed,
            Err(broken) => return Some(Follows::Breaks(broken)),
        };
        self.note_input(&kit.arena, &passed);
        if passed.opens && self.connection.machine.is_in_handshake() {
            self.change(kit.now(), Machine::handshaken);
            return Some(Follows::Opens);
        }
        self.connection.pair.get().filter(|_| self.connection.machine.is_leaving()).map(Follows::Leaves)
    }

    /// Passes the output through the connection's transform, as soon as what it made before has left; what lies in a file is read for that.
    ///
    /// # Errors
    /// Nothing passes any more.
    pub(crate) fn pass_output(&mut self, kit: &mut Kit, requests: &mut Requests) -> Result<(), Broken> {
        let now = kit.now();
        self.connection.let_files_pass();
        let may_write = !self.connection.machine.is_sending();
        if may_write && self.connection.busy.as_mut().is_some_and(|busy| busy.begin_to_wait(now)) {
            self.pass_beside(kit)?;
        }
        self.fetch(kit, requests).map_err(Broken::File)
    }

    /// Passes bytes where nothing has come, which may bring something all the same.
    fn pass_beside(&mut self, kit: &mut Kit) -> Result<(), Broken> {
        let passed = self.pass(kit)?;
        self.note_input(&kit.arena, &passed);
        if passed.brings {
            self.mark_ready();
        }
        Ok(())
    }

    /// Has the transform say its last word; returns whether it has said all of it. One that was refused memory for that says it when the lane would lend that, or
    /// its peer would take an end for a cut.
    ///
    /// # Errors
    /// Nothing passes any more.
    pub(crate) fn take_leave(&mut self, kit: &mut Kit) -> Result<bool, Broken> {
        if self.connection.machine.is_to_take_leave() {
            self.connection.machine.take_leave();
        }
        self.pass_beside(kit)?;
        if let Some(busy) = self.connection.busy.as_mut() {
            busy.begin_to_wait(kit.now());
        }
        Ok(self.connection.machine.has_taken_leave())
    }

    /// Calls the connection's transform, fenced.
    fn pass(&mut self, kit: &mut Kit) -> Result<Passed, Broken> {
        let (mut busy, about) = (self.take_busy(&kit.arena), self.begin_about());
        let connection = &mut *self.connection;
        // reason: asked for by the callers.
        let transform = connection.transform.as_mut().expect("only a connection with a transform passes through it");
        let before = about.begin_to_pay(kit);
        let input_before = busy.input.len();
        let mut nothing = Chain::new();
        let Busy { raw, input, output, wire, .. } = &mut *busy;
        // It gets output only if that can leave at once: waiting output stays unchanged.
        let may_write = wire.is_empty() && !connection.machine.is_sending();
        let mut in_files = if may_write && output.has_files && output.are_read(transform.passes_files()) {
            output.split_at_file()
        } else {
            Chain::new()
        };
        let mut passage = Passage {
            received: raw,
            input: &mut input.chain,
            output: if may_write { &mut output.chain } else { &mut nothing },
            wire,
            peer: &mut connection.peer,
            arena: &kit.arena,
            now: Instant::from_nanoseconds(kit.now()),
            time_of_day: Duration::from_nanos(kit.time_of_day()),
            peer_finished: connection.machine.peer_has_finished(),
            finishing: connection.machine.is_leaving(),
            opens: false,
            ends_input: false,
        };
        let done = fenced(|| transform.pass(&mut passage));
        let Passage { opens, ends_input, .. } = passage;
        let refused = kit.arena.pay_no_longer(before);
        busy.output.chain.append(&mut in_files);
        let brings = ends_input || busy.input.len() > input_before;
        busy.feed_fill();
        connection.busy = Some(busy);
        match done {
            Ok(Ok(progress)) => {
                let has_more = progress == Progress::More;
                connection.machine.passed(has_more, refused > 0);
                Ok(Passed { opens, brings, ends_input, has_more, refused })
            }
            Ok(Err(error)) => Err(Broken::Refused(self.refuse(kit, &error.0))),
            Err(words) => Err(Broken::Panicked(words)),
        }
    }

    /// The transform has refused the peer: what it said to the peer leaves, and nothing else. Returns the other of its pair, of which it is no more.
    fn refuse(&mut self, kit: &mut Kit, words: &str) -> Option<ConnectionId> {
        let peer = self.connection.peer.address.clone();
        let learned = self.connection.peer.learned.get_or_insert_default();
        Arc::make_mut(learned).refused = Some(words.to_owned());
        self.count(ServiceCounter::TransformRefusals, 1);
        self.change(kit.now(), Machine::refuse);
        self.drop_unpassed();
        kit.report_kind("refused bytes", Record::new(Level::Warn, format!("the bytes of {peer} were refused: {words}")));
        self.connection.pair.take()
    }

    fn begin_handshake(&mut self, kit: &Kit, transform: Box<dyn Transform>) {
        let before = self.connection.transform.replace(Box::new(transform));
        assert!(before.is_none() && self.connection.session.is_none(), "a transform stands there before a session does");
        self.change(kit.now(), Machine::veil);
        // Without a place it is not begun yet.
        if self.connection.parked == 0 {
            self.mark_ready();
        }
    }

    /// Drops what will never pass the transform. Only what the transform has made still leaves.
    pub(crate) fn drop_unpassed(&mut self) {
        if let Some(busy) = self.connection.busy.as_mut() {
            busy.keep_wire_only();
        }
    }

    /// Notes what a call said about the input, and whether the transform must be called again.
    fn note_input(&mut self, arena: &Arena, passed: &Passed) {
        let machine = &mut self.connection.machine;
        let is_cut = machine.peer_has_finished() && !passed.has_more && passed.refused == 0 && !passed.ends_input;
        if machine.takes_input() && (passed.ends_input || is_cut) {
            machine.input_ended(is_cut);
            self.note_end(is_cut);
        }
        let has_left = self.connection.busy.as_ref().is_some_and(|busy| !busy.raw.is_empty());
        if passed.refused > 0 && has_left {
            self.mark_blocked();
        }
        if passed.refused > 0 {
            self.mark_starved(arena, passed.refused);
        }
        if passed.has_more {
            self.mark_ready();
        }
    }

    /// Bytes after the peer's proper end are discarded; a cut stream may end within a record.
    fn note_end(&mut self, is_cut: bool) {
        self.count(ServiceCounter::StreamsCut, is_cut.into());
        if let Some(busy) = self.connection.busy.as_mut().filter(|_| !is_cut) {
            busy.raw.clear();
        }
    }

    fn mark_blocked(&mut self) {
        // reason: the bytes that it has left are in it.
        self.connection.busy.as_mut().expect("what a transform has left has its place").blocked = true;
    }

    /// Changes the state of a connection, tells readers of an ending that is decided by that, and counts a handshake that begins or ends.
    pub(crate) fn change<R>(&mut self, now: u64, change: impl FnOnce(&mut Machine) -> R) -> R {
        let machine = &mut self.connection.machine;
        let (was_to_end, before, result) = (machine.ending(), machine.is_in_handshake(), change(machine));
        let (after, serves) = (machine.is_in_handshake(), machine.serves_input());
        if let Some(ending) = machine.ending().filter(|ending| was_to_end != Some(*ending)) {
            self.desk.tell_ending(self.id.index, ending);
        }
        if before == after {
            return result;
        }
        match before {
            true => self.leave_handshakes(serves),
            false => self.join_handshakes(),
        }
        self.connection.active_at = now;
        result
    }
}

impl Connection {
    /// Where the transform passes parts of files as they are, nobody looks for them.
    fn let_files_pass(&mut self) {
        let Some(busy) = self.busy.as_mut().filter(|busy| busy.output.has_files) else { return };
        busy.output.has_files = self.transform.as_ref().is_some_and(|transform| busy.output.are_read(transform.passes_files()));
    }
}

impl Busy {
    /// Whether output waits for the transform; from now on it does, if it did not before.
    fn begin_to_wait(&mut self, now: u64) -> bool {
        self.delivery.begin(now);
        self.wire.is_empty() && !self.output.chain.is_empty() && self.output.file_at_front().is_none()
    }

    /// Drops what is not on its way to the peer yet.
    fn keep_wire_only(&mut self) {
        let wire = std::mem::take(&mut self.wire);
        let sending = self.sending_charged;
        self.reset();
        assert!(self.is_idle(), "nothing but what is on its way is kept");
        (self.wire, self.sending_charged) = (wire, sending);
    }
}
