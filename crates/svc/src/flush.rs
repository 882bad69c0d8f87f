//! The end of a turn for each connection that was touched: one send, then what its state asks for.

use crate::found::Found;
use crate::machine::{Facts, Pause, Phase, Step};
use crate::names::{ConnectionId, Ending};
use crate::port::Callback;
use crate::services::Services;
use crate::streams::receive_op;
use corelane_lane::Kit;
use corelane_seam::{Op, StreamOp};
use corelane_watch::ServiceCounter;

impl Services {
    /// Flushes every connection that was touched this turn. What that touches itself is flushed in the next one.
    pub(crate) fn flush_dirty(&mut self, kit: &mut Kit) {
        for _ in 0..self.table.desk.dirty.len() {
            let index = self.table.desk.next_dirty();
            self.flush_one(kit, index);
        }
    }

    fn flush_one(&mut self, kit: &mut Kit, index: u32) {
        // It may have gone since it was marked, and another that was not have its place.
        let Some(mut found) = self.table.at(index).filter(|found| found.connection.is_dirty) else { return };
        found.connection.is_dirty = false;
        match found.connection.machine.phase() {
            Phase::Opening | Phase::Ended => return,
            Phase::Lingering => {}
            Phase::Handshake | Phase::Refusing => found.send(kit),
            Phase::Open | Phase::Closing => {
                found.seal(kit);
                found.drop_late_words();
                if found.connection.transform.is_some() {
                    if !self.pass_output(kit, index) {
                        return;
                    }
                    found = self.table.there(index);
                }
                found.send(kit);
            }
        }
        let step = found.step();
        let is_alone = step != Step::Receive || found.connection.pair.is_none();
        if is_alone && found.take(kit, step) {
            return found.come_to_rest(kit);
        }
        self.take_steps(kit, index, step);
    }

    /// Does what the connection's state asks for, where that reaches beyond the connection.
    fn take_steps(&mut self, kit: &mut Kit, index: u32, first: Step) {
        let mut step = first;
        while self.take_step(kit, index, step) {
            step = self.table.there(index).step();
        }
        self.table.there(index).come_to_rest(kit);
    }

    /// Takes one step; true if the state must be asked again.
    fn take_step(&mut self, kit: &mut Kit, index: u32, step: Step) -> bool {
        let step = self.step_of_pair(index, step);
        let mut found = self.table.there(index);
        if found.take(kit, step) {
            return false;
        }
        let pair = found.connection.pair;
        match step {
            Step::OutputOverflow | Step::RecordOverflow => {
                let is_output = step == Step::OutputOverflow;
                found.count(if is_output { ServiceCounter::OutputMaxHits } else { ServiceCounter::RecordMaxHits }, 1);
                self.end(kit, index, Ending::Aborted);
                false
            }
            Step::CallDrained => {
                self.call_drained(kit, index);
                true
            }
            Step::DropRecord => {
                found.drop_record();
                true
            }
            Step::SettlePair => {
                // reason: the step of one of a pair.
                self.settle_pair(kit, index, pair.expect("one of a pair has another"));
                false
            }
            Step::Close(ending) => {
                self.end(kit, index, ending);
                true
            }
            Step::TakeLeave => {
                let is_done = self.take_leave(kit, index);
                self.table.there(index).send(kit);
                is_done
            }
            Step::End(ending) => {
                self.close_now(kit, index, ending);
                false
            }
            Step::Finish => {
                found.finish(kit);
                true
            }
            Step::FinishHalf => {
                found.finish_half(kit);
                true
            }
            Step::Wait | Step::Receive | Step::Pause(_) => unreachable!("the connection takes this step itself"),
        }
    }

    /// One of a pair reads nothing for which the other has no room.
    fn step_of_pair(&mut self, index: u32, step: Step) -> Step {
        let connection = self.table.there(index).connection;
        let is_asked = step == Step::Receive && !connection.machine.is_in_handshake();
        let Some(pair) = connection.pair.filter(|_| is_asked) else { return step };
        let is_full = self.table.found(pair).is_some_and(|other| {
            let held = other.connection.busy.as_ref().map_or(0, |busy| busy.output_held());
            held >= other.limits().output_high
        });
        if is_full { Step::Pause(Pause::Output) } else { step }
    }

    fn call_drained(&mut self, kit: &mut Kit, index: u32) {
        let wanted = std::mem::take(&mut self.table.there(index).busy(&kit.arena).output.wants_drained);
        assert!(wanted, "who is told that all has left has asked for it");
        self.call(kit, index, Callback::Drained);
        let found = self.table.there(index);
        let is_starved = found.connection.is_starved;
        // Unless the call has ended it, its box is back.
        if let Some(busy) = found.connection.busy.as_mut() {
            // Small writes count as waiting output too; else this would be called again before they have left.
            busy.output.seal();
            // A service without memory to go on is asked again once the lane would lend it.
            busy.output.wants_drained |= is_starved && busy.output.is_empty();
            busy.told_drained = !is_starved;
        }
    }

    /// The stream of one of a pair has ended: our side of the other finishes as soon as its output has left. When both streams have ended, both end.
    fn settle_pair(&mut self, kit: &mut Kit, index: u32, pair: ConnectionId) {
        let found = self.table.there(index);
        let (machine, says_all) = (found.connection.machine, found.says_all());
        let other = self.table.found(pair);
        let other_is_there = other.is_some();
        let settled = match other {
            None => machine.settle_pair(says_all, None),
            Some(other) => {
                let other_says_all = other.says_all();
                let settled = machine.settle_pair(says_all, Some((&mut other.connection.machine, other_says_all)));
                if settled.finishes_other {
                    // reason: our side finishes towards a peer only while it is open.
                    kit.finish(other.connection.socket.expect("what is open has a socket"));
                }
                settled
            }
        };
        if settled.other_takes_leave {
            return self.take_leave_of_pair(kit, index, pair);
        }
        if settled.ends {
            self.end(kit, index, Ending::EndOfStream);
        }
        if settled.ends && other_is_there {
            self.end(kit, pair.index, Ending::EndOfStream);
        }
    }
}

impl Services {
    /// The transform of the other of a pair says its last word before our side finishes.
    fn take_leave_of_pair(&mut self, kit: &mut Kit, index: u32, pair: ConnectionId) {
        if self.take_leave(kit, pair.index) {
            self.table.there(index).mark_dirty();
        }
        self.table.there(pair.index).mark_dirty();
    }
}

impl Found<'_> {
    fn seal(&mut self, kit: &Kit) {
        if let Some(busy) = self.connection.busy.as_mut() {
            busy.output.seal();
            busy.count(kit, &self.state.row);
        }
    }

    /// Drops what was written by who had said that it says no more.
    fn drop_late_words(&mut self) {
        let has_said_all = self.connection.machine.has_said_all();
        let Some(busy) = self.connection.busy.as_mut().filter(|_| has_said_all) else { return };
        if !busy.output.chain.is_empty() {
            busy.output.chain.clear();
            self.count(ServiceCounter::AnswersLate, 1);
        }
    }

    /// Submits everything that may leave, unless the last send is still under way.
    fn send(&mut self, kit: &mut Kit) {
        let handle = self.handle();
        let Self { connection, desk, .. } = self;
        // Without a box there is nothing to be sent.
        let Some(busy) = connection.busy.as_mut() else { return };
        // reason: it opens with one.
        let socket = connection.socket.expect("what is open has a socket");
        let chain = if connection.transform.is_some() { &mut busy.wire } else { &mut busy.output.chain };
        if connection.machine.is_sending() || chain.is_empty() {
            return;
        }
        assert!(busy.sending_charged == 0, "what was sent before has left, or is back");
        busy.sending_charged = chain.held().max(1);
        busy.progress_at = kit.now();
        busy.told_drained = false;
        let chain = std::mem::replace(chain, desk.chain());
        connection.machine.begin_send();
        kit.submit(handle, StreamOp::Send { socket, chain });
    }

    fn says_all(&self) -> bool {
        self.connection.holdings(self.limits()).says_all()
    }

    fn step(&self) -> Step {
        self.connection.machine.step(&self.connection.holdings(self.limits()))
    }

    /// Takes a step that concerns this connection alone; false if it is none.
    fn take(&mut self, kit: &mut Kit, step: Step) -> bool {
        let pause = match step {
            Step::Wait => None,
            Step::Receive if self.ask_to_receive(kit) => None,
            Step::Receive => Some(Pause::Memory),
            Step::Pause(pause) => Some(pause),
            _ => return false,
        };
        if let Some(pause) = pause.filter(|_| !self.connection.is_paused) {
            self.count(pause.counter(), 1);
        }
        self.connection.is_paused = pause.is_some();
        if step == Step::Receive && pause.is_none() {
            self.arm_receive(kit);
        }
        true
    }

    /// Submits the next receive.
    fn arm_receive(&mut self, kit: &mut Kit) {
        let handle = self.handle();
        let op = receive_op(self.connection);
        let stop = self.connection.socket.filter(|_| self.connection.machine.takes_what_is_there());
        self.connection.machine.begin_receive();
        kit.submit(handle, op);
        if let Some(socket) = stop {
            kit.submit(handle, Op::StopReceive { socket });
        }
    }

    /// The peer finished in the middle of a record: the part that came will never be answered.
    fn drop_record(&mut self) {
        self.connection.machine.drop_record();
        // reason: the record is in it.
        self.connection.busy.as_mut().expect("a connection in a record has its box").drop_record();
        self.count(ServiceCounter::RecordsTruncated, 1);
    }

    /// Our side has said all: finish it, and wait for the peer's end, if it is awaited.
    fn finish(&mut self, kit: &mut Kit) {
        (self.connection.active_at, self.connection.finished_at) = (kit.now(), kit.now());
        let tells = self.connection.machine.finish();
        // Who is not awaited is told by the close, which comes at once.
        if tells && self.connection.machine.awaits_peer() {
            // reason: it opens with one.
            kit.finish(self.connection.socket.expect("what is open has a socket"));
        }
    }

    /// Our side has said all, and still listens.
    fn finish_half(&mut self, kit: &mut Kit) {
        let tells = self.connection.machine.finish_half();
        assert!(tells, "our side finishes once");
        // reason: it opens with one.
        kit.finish(self.connection.socket.expect("what is open has a socket"));
    }

    /// After all steps of a turn: gives back what is not needed, and sets the next deadline.
    fn come_to_rest(&mut self, kit: &mut Kit) {
        self.put_away();
        self.set_deadline(kit);
    }

    /// Gives the box back if nothing is in it; else moves bytes that use little of their block to fitting memory.
    fn put_away(&mut self) {
        let is_ready = self.connection.is_ready;
        // A connection at rest has none.
        let Some(busy) = self.connection.busy.as_mut() else { return };
        if !busy.in_record() {
            busy.record_bytes = 0;
        }
        if !is_ready && busy.is_idle() {
            // reason: it was there just now.
            self.desk.keep(self.connection.busy.take().expect("a box that is put away is there"));
            return;
        }
        if busy.holds_bytes() {
            let moved = busy.compact();
            self.count(ServiceCounter::BytesCompacted, moved);
        }
    }
}
