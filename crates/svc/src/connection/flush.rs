//! The end of a turn for a connection that was touched: one send, then what its state asks for, then the next of its limits in time.

use crate::connection::entry::Connection;
use crate::connection::events::Calling;
use crate::connection::found::Found;
use crate::connection::machine::{Facts, Pause, Phase, Settled, Step};
use crate::connection::passage::Broken;
use crate::pending::requests::Requests;
use crate::words::names::{ConnectionId, Ending};
use corelane_lane::Kit;
use corelane_seam::slab::Others;
use corelane_seam::{Op, RECEIVE_BYTES_LEAST, StreamOp};
use corelane_watch::ServiceCounter;

/// What a connection comes to in its flush that concerns more than itself.
pub(crate) enum Reach {
    Breaks(Broken),
    /// The service is told that all output has left.
    Calls(Calling),
    Ends(Ending),
    /// It ends, and so does the other of its pair.
    EndsWith(ConnectionId),
    /// The transform of the other of its pair says its last word.
    TakesLeaveOf(ConnectionId),
}

/// What follows a step.
enum After {
    /// Another one: the state is asked again.
    Step,
    /// Nothing more in this turn.
    Rest,
    Reach(Reach),
}

impl Found<'_> {
    /// Takes it from those that are to be flushed; false if it is none of them.
    pub(crate) fn take_dirty(&mut self) -> bool {
        debug_assert!(self.is_connected(), "what is looked at has its socket");
        std::mem::take(&mut self.connection.is_dirty)
    }

    /// Submits what may leave, and takes the steps that the connection's state asks for, until it rests, or as far as they concern it alone.
    pub(crate) fn flush(&mut self, kit: &mut Kit, others: &mut Others<'_, Connection>, requests: &mut Requests) -> Option<Reach> {
        debug_assert!(!self.connection.is_dirty, "what is flushed is marked no more");
        match self.connection.machine.phase() {
            Phase::Opening | Phase::Ended => return None,
            Phase::Parting | Phase::Lingering => {}
            Phase::Handshake | Phase::Refusing => self.send(kit),
            Phase::Open | Phase::Closing | Phase::GivenUp => {
                self.seal(kit);
                self.drop_late_words();
                if let Err(broken) = self.make_ready(kit, requests) {
                    return Some(Reach::Breaks(broken));
                }
                if self.connection.wishes_bridge() {
                    let (_, other) = self.other(others);
                    self.bridge(kit, other);
                }
                self.send(kit);
            }
        }
        self.take_steps(kit, others)
    }

    /// Makes ready what may leave: by the connection's transform, or by reading what lies in a far file.
    ///
    /// # Errors
    /// Nothing leaves any more.
    fn make_ready(&mut self, kit: &mut Kit, requests: &mut Requests) -> Result<(), Broken> {
        debug_assert!(self.connection.socket.is_some(), "what is open has a socket");
        if self.connection.transform.is_some() {
            return self.pass_output(kit, requests);
        }
        match &self.connection.busy {
            Some(busy) if busy.output.has_far_files() => self.fetch(kit, requests).map_err(Broken::File),
            _ => Ok(()),
        }
    }

    pub(crate) fn take_steps(&mut self, kit: &mut Kit, others: &mut Others<'_, Connection>) -> Option<Reach> {
        debug_assert!(self.connection.socket.is_some(), "what takes steps was opened");
        loop {
            let (step, piped) = self.step(others);
            let next = if self.take(kit, step, piped) { After::Rest } else { self.take_seldom(kit, others, step) };
            match next {
                After::Step => {}
                After::Reach(reach) => return Some(reach),
                After::Rest => {
                    self.come_to_rest(kit);
                    return None;
                }
            }
        }
    }

    /// Takes a step that a request seldom has.
    // Apart, so that the others pay only for the check.
    #[inline(never)]
    fn take_seldom(&mut self, kit: &mut Kit, others: &mut Others<'_, Connection>, step: Step) -> After {
        debug_assert!(!self.connection.machine.has_ended(), "what has ended takes no step");
        match step {
            Step::OutputOverflow => return self.break_off_at(ServiceCounter::OutputMaxHits),
            Step::RecordOverflow => return self.break_off_at(ServiceCounter::RecordMaxHits),
            Step::CallDrained => return After::Reach(Reach::Calls(self.begin_drained(kit))),
            Step::SettlePair => return self.settle_pair(kit, others),
            Step::TakeLeave => return self.take_leave_and_send(kit),
            Step::End(ending) => return After::Reach(Reach::Ends(ending)),
            Step::Close(ending) => self.close_behind(kit, ending),
            Step::DropRecord => self.drop_record(),
            Step::Part => self.part(),
            Step::Finish => self.finish(kit),
            Step::FinishHalf => self.finish_half(kit),
            Step::Wait | Step::Receive | Step::Pause(_) => unreachable!("the connection takes this step itself"),
        }
        After::Step
    }

    fn break_off_at(&self, bound: ServiceCounter) -> After {
        self.count(bound, 1);
        After::Reach(Reach::Ends(Ending::Aborted))
    }

    /// The stream of one of a pair has ended: our side of the other finishes as soon as its output has left. When both streams have ended, both end.
    fn settle_pair(&mut self, kit: &mut Kit, others: &mut Others<'_, Connection>) -> After {
        debug_assert!(
            self.connection.pair.is_some() && self.connection.machine.was_told_of_end(),
            "one of a pair has come to its end"
        );
        let (says_all, (pair, other)) = (self.says_all(), self.other(others));
        let other_says_all = other.holdings(self.limits()).says_all();
        let settled = self.connection.machine.settle_pair(says_all, (&mut other.machine, other_says_all));
        // Where both end, the close tells the other peer, unless it waits for what a transform has still to say.
        if settled.finishes_other && (!settled.ends || other.machine.is_gentle(Ending::EndOfStream)) {
            // reason: our side finishes towards a peer only while it is open.
            kit.finish(other.socket.expect("what is open has a socket"));
        }
        match settled {
            Settled { other_takes_leave: true, .. } => After::Reach(Reach::TakesLeaveOf(pair)),
            Settled { ends: true, .. } => After::Reach(Reach::EndsWith(pair)),
            Settled { .. } => After::Rest,
        }
    }

    /// The other of its pair.
    fn other<'o>(&self, others: &'o mut Others<'_, Connection>) -> (ConnectionId, &'o mut Connection) {
        // reason: asked by the callers.
        let pair = self.connection.pair.get().expect("one of a pair has another");
        // reason: whoever ends, or is coupled with another, takes itself from its pair.
        let other = others.get_mut(pair.into()).expect("both of a pair are there until one leaves it");
        assert!(other.pair.get() == Some(self.id), "each of a pair is the other's");
        (pair, other)
    }

    fn take_leave_and_send(&mut self, kit: &mut Kit) -> After {
        debug_assert!(self.connection.transform.is_some(), "a transform takes leave");
        match self.take_leave(kit) {
            Ok(is_done) => {
                self.send(kit);
                if is_done { After::Step } else { After::Rest }
            }
            Err(broken) => After::Reach(Reach::Breaks(broken)),
        }
    }

    /// Ends the gathering of small writes, and counts what calls have moved.
    fn seal(&mut self, kit: &Kit) {
        debug_assert!(self.connection.machine.phase() > Phase::Handshake, "no output leaves before");
        let Some(mut busy) = self.connection.busy.take() else { return };
        self.note_owed(&mut busy, kit.now());
        busy.output.seal();
        busy.count(kit, &self.state.row);
        self.connection.busy = Some(busy);
    }

    /// Drops what was written by who had said that it says no more.
    fn drop_late_words(&mut self) {
        debug_assert!(self.connection.machine.phase() > Phase::Handshake, "who says its last was open");
        let has_said_all = self.connection.machine.has_said_all();
        let Some(busy) = self.connection.busy.as_mut().filter(|_| has_said_all) else { return };
        if !busy.output.chain.is_empty() {
            busy.output.chain.clear();
            self.count(ServiceCounter::AnswersLate, 1);
        }
    }

    /// Submits everything that may leave, unless the last send is still under way, or too many are unreleased.
    pub(crate) fn send(&mut self, kit: &mut Kit) {
        debug_assert!(!self.connection.machine.has_ended(), "nothing is sent behind the end");
        let handle = self.handle();
        let Self { connection, agenda, .. } = self;
        // Without a box there is nothing to be sent.
        let Some(busy) = connection.busy.as_mut() else { return };
        // reason: it opens with one.
        let socket = connection.socket.expect("what is open has a socket");
        let is_plain = connection.transform.is_none();
        let has_none =
            if is_plain { busy.output.chain.is_empty() || busy.output.far_at_front().is_some() } else { busy.wire.is_empty() };
        if !connection.machine.may_send() || has_none {
            return;
        }
        let mut chain = agenda.boxes.chain();
        match is_plain {
            true if busy.output.has_far_files() => busy.output.move_near(&mut chain),
            true => std::mem::swap(&mut busy.output.chain, &mut chain),
            false => std::mem::swap(&mut busy.wire, &mut chain),
        }
        let compacted = if connection.machine.unreleased() > 0 { chain.compact() } else { 0 };
        busy.window.begin(chain.held());
        busy.delivery.begin(kit.now());
        busy.output.begin_to_leave();
        connection.machine.begin_send();
        kit.submit(handle, StreamOp::Send { socket, chain });
        // Where what is sent is kept, it is to keep no large block for few bytes.
        if compacted > 0 {
            self.count(ServiceCounter::BytesCompacted, compacted);
        }
    }

    fn says_all(&self) -> bool {
        self.connection.holdings(self.limits()).says_all()
    }

    /// What the connection's state asks for next. One of a pair reads nothing for which the other has no room. For a receive into a pipe it says of how many bytes.
    fn step(&self, others: &mut Others<'_, Connection>) -> (Step, Option<usize>) {
        debug_assert!(self.connection.machine.phase() != Phase::Opening, "what is being opened waits for its completion alone");
        let step = self.connection.machine.step(&self.connection.holdings(self.limits()));
        let is_asked = step == Step::Receive && self.connection.pair.is_some() && !self.connection.machine.is_in_handshake();
        if !is_asked {
            return (step, None);
        }
        let (_, other) = self.other(others);
        let held = other.busy.as_ref().map_or(0, |busy| busy.output_held());
        let room = self.limits().output_high.saturating_sub(held);
        let may_pipe = self.connection.bulk.is_unseen() && self.connection.has_plain_way() && other.has_plain_way();
        let piped = self.connection.bulk.most(room).filter(|_| may_pipe);
        // One pipe is being sent, and one waits: more would not make it faster.
        let is_full = room == 0
            || piped.is_some() && other.machine.is_sending() && other.busy.as_ref().is_some_and(|busy| busy.has_output());
        if is_full { (Step::Pause(Pause::Output), None) } else { (step, piped) }
    }

    /// Takes a step that concerns this connection alone; false if it is none.
    fn take(&mut self, kit: &mut Kit, step: Step, piped: Option<usize>) -> bool {
        debug_assert!(step == Step::Wait || !self.connection.machine.has_ended(), "what has ended waits for its close alone");
        debug_assert!(piped.is_none() || step == Step::Receive, "only a receive is into a pipe");
        let pause = match step {
            Step::Wait => None,
            Step::Receive if self.ask_to_receive(kit) => None,
            Step::Receive => Some(Pause::Memory),
            Step::Pause(pause) => Some(pause),
            _ => return false,
        };
        let hit = pause.and_then(Pause::counter);
        if let Some(counter) = hit.filter(|_| !self.connection.is_at_bound) {
            self.count(counter, 1);
        }
        self.connection.is_at_bound = hit.is_some();
        match pause {
            Some(_) => self.time_deafness(kit),
            None if step == Step::Receive => self.arm_receive(kit, piped),
            None => {}
        }
        true
    }

    /// Submits the next receive.
    fn arm_receive(&mut self, kit: &mut Kit, piped: Option<usize>) {
        debug_assert!(!self.connection.machine.peer_has_finished(), "nothing comes behind the end");
        let handle = self.handle();
        let op = self.connection.receive_op(piped);
        let stop = self.connection.socket.filter(|_| self.connection.machine.takes_what_is_there());
        self.connection.machine.begin_receive();
        kit.submit(handle, op);
        if let Some(socket) = stop {
            kit.submit(handle, Op::StopReceive { socket });
        }
    }

    /// The peer finished in the middle of a record: the part that came will never be answered.
    fn drop_record(&mut self) {
        debug_assert!(self.connection.in_record(), "what is dropped has begun");
        self.connection.machine.drop_record();
        // reason: the record is in it.
        self.connection.busy.as_mut().expect("a connection in a record has its box").drop_record();
        self.count(ServiceCounter::RecordsTruncated, 1);
    }

    /// Both have said all. A close would be a reset where the peer has not taken everything, or has sent more than was received.
    fn part(&mut self) {
        debug_assert!(self.connection.transform.is_none(), "a transform has its own end");
        debug_assert!(!self.connection.has_output(), "nothing of ours is lost by a close");
        self.connection.machine.part();
        self.ask_of_delivery();
    }

    /// The peer has not taken all that it was sent, or has sent more: it is waited for.
    pub(crate) fn linger(&mut self, kit: &mut Kit) {
        debug_assert!(self.connection.machine.phase() == Phase::Parting, "what was asked for lingers");
        self.finish(kit);
        self.mark_dirty();
    }

    /// Our side has said all: finish it, and wait for the peer's end, if it is awaited.
    fn finish(&mut self, kit: &mut Kit) {
        debug_assert!(self.connection.socket.is_some(), "what finishes was open");
        debug_assert!(!self.connection.has_output(), "our side finishes behind its output");
        (self.connection.active_at, self.connection.finished_at) = (kit.now(), kit.now());
        let tells = self.connection.machine.finish();
        // Where the peer has finished too, it is told by the close, which comes at once.
        if tells && !self.connection.machine.peer_has_finished() {
            // reason: it opens with one.
            kit.finish(self.connection.socket.expect("what is open has a socket"));
        }
    }

    /// Our side has said all, and still listens.
    fn finish_half(&mut self, kit: &mut Kit) {
        debug_assert!(!self.connection.has_output(), "our side finishes behind its output");
        let tells = self.connection.machine.finish_half();
        assert!(tells, "our side finishes once");
        // reason: it opens with one.
        kit.finish(self.connection.socket.expect("what is open has a socket"));
    }

    /// After all steps of a turn: gives back what is not needed, and sets the next deadline.
    pub(crate) fn come_to_rest(&mut self, kit: &mut Kit) {
        debug_assert!(self.connection.machine.phase() != Phase::Opening, "what comes to rest has taken its steps");
        self.put_away();
        self.set_deadline(kit);
        if self.connection.machine.peer_has_finished() {
            self.time_deafness(kit);
        }
    }

    /// Gives the box back if nothing is in it; else moves bytes that use little of their block to fitting memory.
    fn put_away(&mut self) {
        debug_assert!(self.connection.busy.is_none() || !self.connection.machine.has_ended(), "a box goes behind the end");
        let is_ready = self.connection.is_ready;
        let lingers = self.connection.machine.phase() == Phase::Lingering;
        let owes_last_word = self.connection.machine.owes_last_word();
        // A connection at rest has none.
        let Some(busy) = self.connection.busy.as_mut() else { return };
        if lingers && busy.delivery.is_awaited() {
            return; // it keeps what the peer takes
        }
        if !busy.in_record() {
            busy.record_bytes = 0;
        }
        // The last word that is still to come has its time in the box.
        if !is_ready && !owes_last_word && busy.is_idle() {
            // reason: it was there just now.
            self.agenda.boxes.keep(self.connection.busy.take().expect("a box that is put away is there"));
            return;
        }
        if busy.holds_bytes() {
            let moved = busy.compact();
            self.count(ServiceCounter::BytesCompacted, moved);
        }
    }

    /// Asks whether what arrives next may be charged to the connection; else it waits for memory.
    fn ask_to_receive(&mut self, kit: &Kit) -> bool {
        debug_assert!(!self.connection.machine.is_receiving(), "who receives has asked");
        // A receive into a lease needs no memory: that was lent already.
        let fills = self.connection.busy.as_ref().is_some_and(|busy| busy.fill.is_some());
        let needs_none = fills || !self.connection.machine.serves_input();
        if needs_none || kit.arena.would_lend(self.connection.payer, RECEIVE_BYTES_LEAST) {
            return true;
        }
        if self.agenda.memory.use_grant(self.id) {
            return true;
        }
        self.mark_starved(&kit.arena, RECEIVE_BYTES_LEAST);
        false
    }
}
