//! The life of one connection: events in, steps out.
//!
//! Nothing here touches memory, sockets or services: what the state alone does not know is asked of [`Facts`], and what is to be done goes
//! as a [`Step`]. Each event asserts what may come before it, so that who brings one at the wrong time is found at once.
//!
//! ```text
//! Opening --opened--> Open --close--> Closing --finish--> Lingering --end--> Ended
//!                       \________________________________________end________/
//! ```
//!
//! With a transform before it there are two more, and only then:
//!
//! ```text
//! Opening --opened, veil--> Handshake --handshaken--> Open --close--> Closing --leave, finish--> Lingering
//!                               \______________________\______refuse____\--> Refusing --finish----/
//! ```

use crate::names::Ending;
use corelane_watch::ServiceCounter;

/// Where a connection is in its life. Only forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// Being opened from our side.
    Opening,
    /// Open; its transform is in its handshake, and the service does not have it yet.
    Handshake,
    /// Input goes to the service.
    Open,
    /// No more input to the service; held answers and output still leave.
    Closing,
    /// Its transform has refused the peer: what that has to say to it still leaves.
    Refusing,
    /// Our side has finished; what arrives is discarded until the peer has finished too.
    Lingering,
    /// The close was submitted; the entry is free once it has completed.
    Ended,
}

/// Where a drain stands for one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Draining {
    /// No drain.
    No,
    /// So many bytes were readable when the drain began, and are still to be served; none are left of them at 0.
    Bytes(usize),
    /// Accepted during the drain: its first request is served.
    First,
    /// Its first request was served, and now what else is readable is: until a receive finds nothing.
    Rest,
}

/// What stands before a connection, as far as its life depends on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Veil {
    /// Nothing: bytes pass as they are.
    None,
    /// A transform, which is to speak before our side finishes.
    Speaks,
    /// It was told that our side ends, and has not come to its end.
    Leaves,
    /// It has said its last.
    HasLeft,
}

/// How far the peer's stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stream {
    /// More may come.
    Flows,
    /// The peer has ended it.
    Ended,
    /// The socket has finished, and the transform has not seen the peer's end.
    Cut,
}

/// What the state of a connection's memory says, as far as its life depends on it. Each is asked for only where a step turns on it, for a
/// request asks for a step, and most of what is true of a connection says nothing about the next one.
pub(crate) trait Facts {
    /// Bytes wait to be sent.
    fn has_output(&self) -> bool;
    /// A request is held, or a part of its answer waits for another one.
    fn holds_answer(&self) -> bool;
    /// A record has begun to arrive and is not complete, or is kept until there is room.
    fn in_record(&self) -> bool;
    /// The service is called with its input, now or when what it waits for is there.
    fn is_due(&self) -> bool;
    /// The service wants to be told that all output has left, and was not yet.
    fn wants_drained(&self) -> bool;
    /// It is one of a pair.
    fn is_paired(&self) -> bool;
    /// The output is beyond its bound, and nobody had asked for it.
    fn overflows(&self) -> bool;
    /// The record is longer than one may be.
    fn is_too_long(&self) -> bool;
    /// A limit at which the input waits.
    fn pause(&self) -> Option<Pause>;

    /// Everything that was handed over to be sent is, and nothing is held that will be.
    fn says_all(&self) -> bool {
        !(self.has_output() || self.holds_answer())
    }
}

/// A limit at which the input of a connection waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pause {
    /// Requests in flight.
    Requests,
    /// Calls that are with the helper threads.
    Offload,
    /// Bytes in the output, its own or that of the other of a pair.
    Output,
    /// Memory.
    Memory,
}

impl Pause {
    /// What counts it.
    pub(crate) fn counter(self) -> ServiceCounter {
        match self {
            Self::Requests => ServiceCounter::RequestsInFlightMaxHits,
            Self::Offload => ServiceCounter::OffloadMaxHits,
            Self::Output => ServiceCounter::OutputHighHits,
            Self::Memory => ServiceCounter::MemoryHits,
        }
    }
}

/// What a connection's state asks for, after its output was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing until something completes.
    Wait,
    /// The next receive.
    Receive,
    /// Nothing until there is room, or a ticket: the limit that was reached.
    Pause(Pause),
    /// To be broken off over the bound of its output.
    OutputOverflow,
    /// To be broken off over the bound of a record.
    RecordOverflow,
    /// The service wants to produce more.
    CallDrained,
    /// The peer finished within a record.
    DropRecord,
    /// Its stream has ended, and it is one of a pair.
    SettlePair,
    /// Its time has come: it is closed behind its output.
    Close(Ending),
    /// Its time has come: it ends now.
    End(Ending),
    /// All of the service is said: the transform speaks its last.
    TakeLeave,
    /// All is said: our side finishes.
    Finish,
}

/// What becomes of a pair of which one has come to the end of its stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The transform of the other is to say that our side ends: it is settled when that is said.
    pub(crate) other_takes_leave: bool,
    /// The peer of the other is told that our side has finished.
    pub(crate) finishes_other: bool,
    /// All is said on either side: who is left of the pair ends.
    pub(crate) ends: bool,
}

/// The state of a connection's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Machine {
    phase: Phase,
    ending: Option<Ending>,
    draining: Draining,
    /// The receive under way began before the drain: its bytes are none of those that were readable then.
    received_before: bool,
    receiving: bool,
    sending: bool,
    /// The peer's socket has finished.
    peer_finished: bool,
    /// The stream that it carries.
    stream: Stream,
    veil: Veil,
    /// The transform has more to do, and is called again without anything having happened.
    at_work: bool,
    /// The service has seen the end of the stream.
    told_finished: bool,
    /// Our side has finished towards the peer.
    finished: bool,
    /// Opened from our side: a drain leaves its end to the service or the pair.
    outgoing: bool,
}

impl Machine {
    /// A connection that was accepted, perhaps during a drain.
    pub(crate) fn accepted(in_drain: bool) -> Self {
        let draining = if in_drain { Draining::First } else { Draining::No };
        Self { phase: Phase::Open, draining, outgoing: false, ..Self::opening() }
    }

    /// A connection that is being opened.
    pub(crate) fn opening() -> Self {
        Self {
            phase: Phase::Opening,
            ending: None,
            draining: Draining::No,
            received_before: false,
            receiving: false,
            sending: false,
            peer_finished: false,
            stream: Stream::Flows,
            veil: Veil::None,
            at_work: false,
            told_finished: false,
            finished: false,
            outgoing: true,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// How it ends, once that is decided.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending
    }

    pub(crate) fn draining(&self) -> Draining {
        self.draining
    }

    pub(crate) fn is_receiving(&self) -> bool {
        self.receiving
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.sending
    }

    pub(crate) fn peer_has_finished(&self) -> bool {
        self.peer_finished
    }

    /// Whether nothing more will come for the service.
    pub(crate) fn input_has_ended(&self) -> bool {
        self.stream != Stream::Flows
    }

    /// Whether it has ended before the peer said so.
    pub(crate) fn input_was_cut(&self) -> bool {
        self.stream == Stream::Cut
    }

    /// Whether what arrives is taken: by the service, or by the transform.
    pub(crate) fn takes_input(&self) -> bool {
        matches!(self.phase, Phase::Handshake | Phase::Open) && self.stream == Stream::Flows
    }

    /// Whether the transform is called with what has arrived.
    pub(crate) fn is_to_pass(&self) -> bool {
        self.takes_input() || self.phase == Phase::Open && self.at_work
    }

    pub(crate) fn is_in_handshake(&self) -> bool {
        self.phase == Phase::Handshake
    }

    /// Whether the transform is still to be told that our side ends.
    pub(crate) fn is_to_take_leave(&self) -> bool {
        self.veil == Veil::Speaks
    }

    /// Whether the transform has said its last, or there is none.
    pub(crate) fn has_taken_leave(&self) -> bool {
        matches!(self.veil, Veil::None | Veil::HasLeft)
    }

    /// Whether the transform has been told that our side ends.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.veil, Veil::Leaves | Veil::HasLeft)
    }

    /// Whether an ending lets the output leave first.
    pub(crate) fn is_gentle(&self, ending: Ending) -> bool {
        match ending {
            Ending::Completed | Ending::Closing => true,
            // A transform has the peer told.
            Ending::EndOfStream => self.veil != Veil::None,
            Ending::Error | Ending::Aborted => false,
        }
    }

    pub(crate) fn was_told_of_end(&self) -> bool {
        self.told_finished
    }

    pub(crate) fn is_outgoing(&self) -> bool {
        self.outgoing
    }

    /// Whether tickets are answered, messages and timers told: until our side has finished, or refuses the peer.
    pub(crate) fn takes_notices(&self) -> bool {
        self.phase < Phase::Refusing
    }

    /// Whether a drain takes no more from the peer than is there: each receive is stopped at once, and the first that finds
    /// nothing is the last.
    pub(crate) fn takes_what_is_there(&self) -> bool {
        self.phase == Phase::Open && matches!(self.draining, Draining::Bytes(_) | Draining::Rest)
    }

    /// Whether what arrives goes to the service.
    pub(crate) fn serves_input(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether nothing but what its peer does next is waited for.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_served = self.phase == Phase::Open && self.stream == Stream::Flows && !self.at_work;
        is_served && self.receiving && self.draining == Draining::No
    }

    /// An outgoing connection is open.
    pub(crate) fn opened(&mut self) {
        assert!(self.phase == Phase::Opening && self.outgoing, "only what is being opened opens: {self:?}");
        self.phase = Phase::Open;
    }

    /// A transform stands before it from now on: nothing has passed yet.
    pub(crate) fn veil(&mut self) {
        let is_idle = !(self.receiving || self.sending || self.peer_finished);
        let is_new = is_idle && self.veil == Veil::None && !matches!(self.draining, Draining::Bytes(_));
        assert!(self.phase == Phase::Open && is_new, "a transform stands there from the first byte on: {self:?}");
        (self.phase, self.veil) = (Phase::Handshake, Veil::Speaks);
    }

    /// The transform was called, and did what it could; or, with `more`, a turn's share of it.
    pub(crate) fn passed(&mut self, more: bool) {
        let may = matches!(self.phase, Phase::Handshake | Phase::Open | Phase::Closing) && self.veil != Veil::None;
        assert!(may, "bytes pass a transform from its handshake until our side finishes: {self:?}");
        self.at_work = more;
        if self.veil == Veil::Leaves && !more {
            self.veil = Veil::HasLeft;
        }
    }

    /// The handshake has ended well: the service gets the connection.
    pub(crate) fn handshaken(&mut self) {
        assert!(self.phase == Phase::Handshake, "a handshake ends that was begun: {self:?}");
        self.phase = Phase::Open;
    }

    /// The transform has seen the end of the peer's stream; or `cut`: the socket has finished without one.
    pub(crate) fn input_ended(&mut self, cut: bool) {
        assert!(self.takes_input() && self.veil != Veil::None, "a transform ends what it takes: {self:?}");
        assert!(!cut || self.peer_finished && !self.at_work, "what is cut has come to its end: {self:?}");
        self.stream = if cut { Stream::Cut } else { Stream::Ended };
    }

    /// The transform is told that our side ends.
    pub(crate) fn take_leave(&mut self) {
        let may = matches!(self.phase, Phase::Open | Phase::Closing);
        assert!(may && self.veil == Veil::Speaks, "a transform takes leave once: {self:?}");
        self.veil = Veil::Leaves;
    }

    /// The other of its pair was cut or has failed: our side ends without a word of the transform, so that the peer takes this end for no other.
    pub(crate) fn pass_on_cut(&mut self) {
        if self.veil == Veil::Speaks {
            self.veil = Veil::HasLeft;
        }
    }

    /// The transform has refused the peer; what was decided before is overruled.
    pub(crate) fn refuse(&mut self) {
        let may = matches!(self.phase, Phase::Handshake | Phase::Open | Phase::Closing) && self.veil != Veil::None;
        assert!(may, "a transform refuses what passes it: {self:?}");
        (self.phase, self.ending, self.at_work) = (Phase::Refusing, Some(Ending::Aborted), false);
    }

    /// A receive is submitted.
    pub(crate) fn begin_receive(&mut self) {
        let may = matches!(self.phase, Phase::Handshake | Phase::Open | Phase::Lingering);
        assert!(may, "nobody receives before or after: {self:?}");
        assert!(!self.receiving && !self.peer_finished, "one receive at a time, and none behind the end: {self:?}");
        self.receiving = true;
    }

    /// Bytes came.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.end_receive();
        if let Draining::Bytes(left) = self.draining
            && !std::mem::take(&mut self.received_before)
        {
            self.draining = Draining::Bytes(left.saturating_sub(bytes));
        }
    }

    /// The peer has finished.
    pub(crate) fn end_of_stream(&mut self) {
        self.end_receive();
        self.peer_finished = true;
        if self.veil == Veil::None {
            self.stream = Stream::Ended;
        }
    }

    /// A receive ended without anything, because it was stopped or there was no memory for what is there; `found_nothing` if it was
    /// stopped and nothing was there.
    pub(crate) fn receive_stopped(&mut self, found_nothing: bool) {
        self.end_receive();
        self.received_before = false;
        if found_nothing && self.takes_what_is_there() {
            self.draining = Draining::Bytes(0);
        }
    }

    /// A receive into a lease ended with bytes, or none, and a fault.
    pub(crate) fn received_and_stopped(&mut self, bytes: usize, found_nothing: bool) {
        self.received(bytes);
        self.receiving = true;
        self.receive_stopped(found_nothing);
    }

    fn end_receive(&mut self) {
        assert!(self.receiving && self.phase != Phase::Opening, "a receive ends that was begun: {self:?}");
        self.receiving = false;
    }

    /// A send is submitted.
    pub(crate) fn begin_send(&mut self) {
        let may = !matches!(self.phase, Phase::Opening | Phase::Lingering | Phase::Ended);
        assert!(may, "nobody sends before or after: {self:?}");
        assert!(!self.sending, "one send at a time: {self:?}");
        self.sending = true;
    }

    /// A send has ended.
    pub(crate) fn sent(&mut self) {
        assert!(self.sending && self.phase != Phase::Opening, "a send ends that was begun: {self:?}");
        self.sending = false;
    }

    /// The service is told of the end of the stream.
    pub(crate) fn tell_of_end(&mut self) {
        assert!(self.input_has_ended() && self.phase == Phase::Open, "an end is told that came: {self:?}");
        self.told_finished = true;
    }

    /// A drain begins: so many bytes are readable. Who is in a handshake is served as one who waits to be accepted, for of the requests that it
    /// may have sent nobody can tell yet.
    pub(crate) fn drain(&mut self, readable: usize) {
        let may = matches!(self.phase, Phase::Handshake | Phase::Open) && !self.outgoing;
        assert!(may && self.draining == Draining::No, "drained once: {self:?}");
        match self.phase {
            Phase::Handshake => self.draining = Draining::First,
            _ => (self.draining, self.received_before) = (Draining::Bytes(readable), self.receiving),
        }
    }

    /// A request was served whole: the first one of a connection that was accepted during a drain.
    pub(crate) fn served(&mut self) {
        if self.draining == Draining::First {
            self.draining = Draining::Rest;
        }
    }

    /// Closes it behind its output; nothing if that, or its end, is decided already.
    pub(crate) fn close(&mut self, ending: Ending) {
        assert!(self.is_gentle(ending), "{ending:?} does not wait for output: {self:?}");
        if matches!(self.phase, Phase::Handshake | Phase::Open) {
            (self.phase, self.ending) = (Phase::Closing, Some(ending));
        }
    }

    /// Our side has said all; whether the peer is still to be told.
    pub(crate) fn finish(&mut self) -> bool {
        let has_said_all = self.phase == Phase::Refusing || self.phase == Phase::Closing && self.has_taken_leave();
        assert!(has_said_all && !self.sending, "our side finishes behind its output: {self:?}");
        self.phase = Phase::Lingering;
        !std::mem::replace(&mut self.finished, true)
    }

    /// Our side of a pair has said all, and still listens; whether the peer is to be told.
    pub(crate) fn finish_half(&mut self) -> bool {
        assert!(!self.sending && self.has_taken_leave(), "our side finishes behind its output: {self:?}");
        self.phase == Phase::Open && !std::mem::replace(&mut self.finished, true)
    }

    /// The peer finished in the middle of a record: what there is of it will never be answered, and is dropped.
    pub(crate) fn drop_record(&self) {
        let may_become_whole = match self.phase {
            Phase::Handshake => !self.peer_finished && !self.input_has_ended(),
            Phase::Open => !self.told_finished,
            _ => true,
        };
        assert!(!may_become_whole, "no record is dropped that may become whole: {self:?}");
    }

    /// Its stream has ended, and it is one of a pair: the other, if it is still there, is finished as soon as all has left it, and it has taken
    /// leave. Of each it is said whether its output [says all](Facts::says_all).
    pub(crate) fn settle_pair(&self, says_all: bool, other: Option<(&mut Self, bool)>) -> Settled {
        assert!(self.phase == Phase::Open && self.told_finished, "a pair is settled by one that has come to its end: {self:?}");
        let is_answered = says_all && !self.sending;
        let Some((other, other_says_all)) = other else { return Settled { ends: is_answered, ..Settled::default() } };
        if other.sending || !other_says_all {
            return Settled::default();
        }
        if self.input_was_cut() {
            other.pass_on_cut();
        }
        if matches!(other.phase, Phase::Open | Phase::Closing) && !other.has_taken_leave() {
            return Settled { other_takes_leave: true, ..Settled::default() };
        }
        let finishes_other = other.phase == Phase::Open && other.finish_half();
        Settled { finishes_other, ends: is_answered && other.told_finished, other_takes_leave: false }
    }

    /// Ends it; what was decided before is overruled. Returns whether it is broken off with a reset: who was refused in order is not.
    pub(crate) fn end(&mut self, ending: Ending) -> bool {
        assert!(self.phase != Phase::Ended, "a connection ends once: {self:?}");
        let in_order = self.phase == Phase::Lingering && self.ending == Some(ending);
        (self.phase, self.ending) = (Phase::Ended, Some(ending));
        ending == Ending::Aborted && !in_order
    }

    /// Whether everything that was asked is answered, and all answers have left.
    pub(crate) fn is_answered(&self, facts: &impl Facts) -> bool {
        !self.sending && facts.says_all()
    }

    /// What is to be done next.
    pub(crate) fn step(&self, facts: &impl Facts) -> Step {
        match self.phase {
            Phase::Opening | Phase::Ended => Step::Wait,
            Phase::Handshake | Phase::Open | Phase::Closing if facts.overflows() => Step::OutputOverflow,
            Phase::Handshake => self.step_handshake(facts),
            Phase::Open => self.step_open(facts),
            Phase::Closing if !self.is_answered(facts) => Step::Wait,
            Phase::Closing if !self.has_taken_leave() => Step::TakeLeave,
            Phase::Closing => Step::Finish,
            Phase::Refusing if self.sending || facts.has_output() => Step::Wait,
            Phase::Refusing => Step::Finish,
            Phase::Lingering if self.peer_finished => Step::End(self.ending.unwrap_or(Ending::Completed)),
            Phase::Lingering if self.receiving => Step::Wait,
            Phase::Lingering => Step::Receive,
        }
    }

    fn step_handshake(&self, facts: &impl Facts) -> Step {
        if facts.is_due() || self.at_work {
            return Step::Wait;
        }
        // Nothing was asked yet, so there is nothing to be answered.
        if self.peer_finished || self.input_has_ended() {
            return if facts.in_record() { Step::DropRecord } else { Step::Close(Ending::EndOfStream) };
        }
        self.step_receive(facts)
    }

    fn step_open(&self, facts: &impl Facts) -> Step {
        // Asked for again with nothing written, it would be told so for ever: then it waits for what leaves next.
        if facts.wants_drained() && !facts.has_output() && !self.sending {
            return Step::CallDrained;
        }
        if facts.is_due() || self.at_work {
            return Self::step_at_limit(facts).unwrap_or(Step::Wait);
        }
        if self.told_finished {
            return match facts.is_paired() {
                _ if facts.in_record() => Step::DropRecord,
                true => Step::SettlePair,
                false if !self.is_answered(facts) => Step::Wait,
                false if self.is_gentle(Ending::EndOfStream) => Step::Close(Ending::EndOfStream),
                false => Step::End(Ending::EndOfStream),
            };
        }
        if self.draining == Draining::Bytes(0) {
            // A receive under way may have bytes already: it was stopped, and says so.
            return if self.receiving { Step::Wait } else { Step::Close(Ending::Closing) };
        }
        self.step_receive(facts)
    }

    fn step_receive(&self, facts: &impl Facts) -> Step {
        let waits = self.receiving || self.peer_finished || self.input_has_ended();
        Self::step_at_limit(facts).unwrap_or(if waits { Step::Wait } else { Step::Receive })
    }

    /// What the input comes to at a limit, if it is at one.
    fn step_at_limit(facts: &impl Facts) -> Option<Step> {
        if facts.is_too_long() { Some(Step::RecordOverflow) } else { facts.pause().map(Step::Pause) }
    }
}

#[cfg(test)]
mod model;
