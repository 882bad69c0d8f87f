//! The life of one connection: events in, steps out.
//!
//! Nothing here touches memory, sockets or services: [`Facts`] answers what the state does not know, and a [`Step`] says what to do
//! next. Each event asserts what may come before it, so an event at the wrong time is found at once.
//!
//! ```text
//! Opening --opened--> Open --close--> Closing --finish--> Lingering --end--> Ended
//!                       \________________________________________end________/
//! ```
//!
//! Before it lingers, the system is asked whether a peer that has said its last has taken all (`Parting`): then there is nothing to linger for.
//!
//! With a transform before it there are two more, and only then:
//!
//! ```text
//! Opening --opened, veil--> Handshake --handshaken--> Open --close--> Closing --leave, finish--> Lingering
//!                               \______________________\______refuse____\--> Refusing --finish----/
//! ```

use crate::words::names::Ending;
use corelane_watch::ServiceCounter;

/// Where a connection is in its life. Only forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// Being opened from our side.
    Opening,
    /// Open; its transform is in the handshake, and the service does not know the connection yet.
    Handshake,
    /// Input goes to the service.
    Open,
    /// No more input to the service; held answers and output still leave.
    Closing,
    /// The same of one that was closed in its handshake: no service will ever see it.
    GivenUp,
    /// Its transform has refused the peer; the transform's last words still leave.
    Refusing,
    /// All has left, and the peer has said its last: the system is asked whether the peer has taken all.
    Parting,
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
    /// So many of the bytes that were readable when the drain began are still to be served.
    Bytes(u32),
    /// The same behind a receive that was under way then: its bytes are none of these.
    Behind(u32),
    /// Accepted during the drain: its first request is served.
    First,
    /// Its first request was served; what else is readable is served until a receive finds nothing.
    Rest,
}

/// The transform before a connection, as far as the connection's life depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Veil {
    /// Nothing: bytes pass as they are.
    None,
    /// A transform that must say its last word before our side finishes.
    Speaks,
    /// It was told that our side ends, and has not finished.
    Leaves,
    /// It has said its last.
    HasLeft,
    /// It never says a last word: the other of its pair was cut or failed.
    Mute,
}

/// Who began it, and what follows from that in a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Origin {
    /// Opened from our side: in a drain the service or the pair ends it.
    Outgoing,
    Accepted(Draining),
}

/// What the socket brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Inflow {
    /// No receive is under way.
    Rests,
    Receives,
    /// The peer's socket has finished.
    Finished,
}

/// How far the peer's stream is, which the socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stream {
    /// More may come.
    Flows,
    /// The peer has ended it.
    Ended,
    /// The socket has finished, and the transform has not seen the peer's end.
    Cut,
    /// The service has seen that it has ended, or was cut.
    ToldEnded,
    ToldCut,
}

/// What our side still says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Speech {
    GoesOn,
    /// The service has said all before it was to end: our side finishes behind the output, and still listens.
    Ends,
    /// Our side has finished towards the peer.
    Finished,
    /// It has, and the service has said all.
    SaidAll,
}

/// Sends that may be under way, in the system's hands: two unlinked ones of a stream could change places.
const SENDS_MAX: u8 = 1;
/// Sends that have ended and whose memory is not released: more wait in the output, and leave together.
const UNRELEASED_MAX: u8 = 64;

/// What a connection's memory says about its next step. A step asks for a fact only if it depends on it, because every request asks for a
/// step, and most facts say nothing about the next one.
pub(crate) trait Facts {
    /// Bytes wait to be sent.
    fn has_output(&self) -> bool;
    /// A request is held, or a part of its answer waits for another one.
    fn holds_answer(&self) -> bool;
    /// A record has begun to arrive and is not complete, or is kept until there is room.
    fn in_record(&self) -> bool;
    /// The service is called with its input, now or when what it waits for is there.
    fn is_due(&self) -> bool;
    /// The peer has said all that it ever will, as the service says. A transform has its own end of that.
    fn peer_has_said_all(&self) -> bool;
    /// The service wants to be told when all output has left, and was not told yet.
    fn wants_drained(&self) -> bool;
    /// It is one of a pair.
    fn is_paired(&self) -> bool;
    /// The output is beyond its bound, and the service did not ask before it wrote.
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
    /// Calls with the helper threads.
    Offload,
    /// Bytes in the output, its own or that of the other of a pair.
    Output,
    /// None: the service itself waits before it takes more, as it does for an answer that comes later, or for a full channel.
    Service,
    /// Memory.
    Memory,
    /// Handshakes under way.
    Handshakes,
}

impl Pause {
    /// What counts it; nothing does where no bound was hit.
    pub(crate) fn counter(self) -> Option<ServiceCounter> {
        match self {
            Self::Requests => Some(ServiceCounter::RequestsInFlightMaxHits),
            Self::Offload => Some(ServiceCounter::OffloadMaxHits),
            Self::Output => Some(ServiceCounter::OutputHighHits),
            Self::Memory => Some(ServiceCounter::MemoryHits),
            Self::Service => None,
            Self::Handshakes => Some(ServiceCounter::HandshakesMaxHits),
        }
    }
}

/// What a connection's state asks for, after its output was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing until something completes.
    Wait,
    /// Submit the next receive.
    Receive,
    /// Nothing until there is room, or a ticket. Names the limit that was reached.
    Pause(Pause),
    /// Break off: the output is over its bound.
    OutputOverflow,
    /// Break off: a record is over its bound.
    RecordOverflow,
    /// The service wants to produce more.
    CallDrained,
    /// The peer finished within a record.
    DropRecord,
    /// Settle with the other of the pair: this one's stream has ended.
    SettlePair,
    /// Close behind the output.
    Close(Ending),
    /// End now.
    End(Ending),
    /// The service's output has left: the transform says its last word.
    TakeLeave,
    /// Everything has left, and nothing more comes: the system is asked whether the peer has taken all.
    Part,
    /// Everything has left: our side finishes.
    Finish,
    /// The same, and it still listens.
    FinishHalf,
}

/// What follows for a pair when one's stream has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// The other's transform must first say its last word.
    pub(crate) other_takes_leave: bool,
    /// Our side of the other finishes: its peer is told.
    pub(crate) finishes_other: bool,
    /// Everything has left on both sides: whoever is left of the pair ends.
    pub(crate) ends: bool,
}

/// The state of a connection's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Machine {
    phase: Phase,
    ending: Option<Ending>,
    origin: Origin,
    inflow: Inflow,
    stream: Stream,
    veil: Veil,
    /// The transform has more to do, and is called again without another event.
    at_work: bool,
    speech: Speech,
    /// Sends under way.
    sends: u8,
    /// Sends that have ended and whose memory is not released.
    unreleased: u8,
}

impl Machine {
    /// A connection that was accepted, perhaps during a drain.
    pub(crate) fn accepted(in_drain: bool) -> Self {
        let draining = if in_drain { Draining::First } else { Draining::No };
        Self { phase: Phase::Open, origin: Origin::Accepted(draining), ..Self::opening() }
    }

    /// A connection that was idle on another lane, where it was accepted, perhaps with a transform before it.
    pub(crate) fn arrived(is_veiled: bool) -> Self {
        let veil = if is_veiled { Veil::Speaks } else { Veil::None };
        Self { veil, ..Self::accepted(false) }
    }

    /// A connection that is being opened.
    pub(crate) fn opening() -> Self {
        Self {
            phase: Phase::Opening,
            ending: None,
            origin: Origin::Outgoing,
            inflow: Inflow::Rests,
            stream: Stream::Flows,
            veil: Veil::None,
            at_work: false,
            speech: Speech::GoesOn,
            sends: 0,
            unreleased: 0,
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
        match self.origin {
            Origin::Outgoing => Draining::No,
            Origin::Accepted(draining) => draining,
        }
    }

    fn set_draining(&mut self, draining: Draining) {
        assert!(!self.is_outgoing(), "what this side opened does not drain: {self:?}");
        self.origin = Origin::Accepted(draining);
    }

    pub(crate) fn is_receiving(&self) -> bool {
        self.inflow == Inflow::Receives
    }

    pub(crate) fn is_sending(&self) -> bool {
        self.sends > 0
    }

    /// Whether what is sent now leaves at once: no send is under way, and not too many are unreleased.
    pub(crate) fn may_send(&self) -> bool {
        self.sends < SENDS_MAX && self.unreleased < UNRELEASED_MAX
    }

    /// Sends that have ended and whose memory is not released.
    pub(crate) fn unreleased(&self) -> u8 {
        self.unreleased
    }

    pub(crate) fn peer_has_finished(&self) -> bool {
        self.inflow == Inflow::Finished
    }

    /// Whether nothing more will come for the service.
    pub(crate) fn input_has_ended(&self) -> bool {
        self.stream != Stream::Flows
    }

    /// Whether it has ended before the peer said so.
    pub(crate) fn input_was_cut(&self) -> bool {
        matches!(self.stream, Stream::Cut | Stream::ToldCut)
    }

    /// Whether what arrives is taken: by the service, or by the transform.
    pub(crate) fn takes_input(&self) -> bool {
        matches!(self.phase, Phase::Handshake | Phase::Open) && self.stream == Stream::Flows
    }

    /// Whether the transform is called with what has arrived.
    pub(crate) fn is_to_pass(&self) -> bool {
        self.takes_input() || self.phase == Phase::Open && (self.at_work || self.owes_last_word())
    }

    pub(crate) fn is_in_handshake(&self) -> bool {
        self.phase == Phase::Handshake
    }

    /// Whether the transform is still to be told that our side ends.
    pub(crate) fn is_to_take_leave(&self) -> bool {
        self.veil == Veil::Speaks
    }

    /// Whether the transform has said its last, or is to say none, or there is none.
    pub(crate) fn has_taken_leave(&self) -> bool {
        matches!(self.veil, Veil::None | Veil::HasLeft | Veil::Mute)
    }

    /// Whether the transform has been told that our side ends. One that is to say no last word never is.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.veil, Veil::Leaves | Veil::HasLeft)
    }

    /// Whether the transform has been told that our side ends, and may have words left.
    pub(crate) fn owes_last_word(&self) -> bool {
        self.veil == Veil::Leaves
    }

    /// Whether this ending lets the output leave first.
    pub(crate) fn is_gentle(&self, ending: Ending) -> bool {
        match ending {
            Ending::Completed | Ending::Closing => true,
            // A transform tells the peer first.
            Ending::EndOfStream => self.veil != Veil::None,
            Ending::Error | Ending::Aborted => false,
        }
    }

    pub(crate) fn was_told_of_end(&self) -> bool {
        matches!(self.stream, Stream::ToldEnded | Stream::ToldCut)
    }

    pub(crate) fn is_outgoing(&self) -> bool {
        self.origin == Origin::Outgoing
    }

    /// Whether tickets are answered, messages and timers told, and output taken: until our side has finished, or refuses the peer, or gives the
    /// handshake up.
    pub(crate) fn takes_notices(&self) -> bool {
        self.phase < Phase::GivenUp
    }

    /// Whether a drain takes only what is there: each receive is stopped at once, and the first that finds
    /// nothing is the last.
    pub(crate) fn takes_what_is_there(&self) -> bool {
        self.phase == Phase::Open && matches!(self.draining(), Draining::Bytes(_) | Draining::Behind(_) | Draining::Rest)
    }

    /// Whether what arrives goes to the service.
    pub(crate) fn serves_input(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether only the peer's next move is awaited.
    pub(crate) fn is_at_rest(&self) -> bool {
        let is_served = self.phase == Phase::Open && self.stream == Stream::Flows && !self.at_work && !self.is_to_finish_half();
        is_served && self.is_receiving() && self.draining() == Draining::No
    }

    /// Whether it drains.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining() != Draining::No
    }

    /// Whether one of its sides has finished, or is to.
    pub(crate) fn has_half(&self) -> bool {
        self.input_has_ended() || self.peer_has_finished() || self.speech != Speech::GoesOn
    }

    /// Whether it may leave its lane: only the peer's next move is awaited, and [what arrives](Machine::arrived) on the other lane is all that there is to be said of it.
    pub(crate) fn may_leave(&self) -> bool {
        let is_whole = !self.has_half() && matches!(self.veil, Veil::None | Veil::Speaks);
        self.is_at_rest() && is_whole && !self.is_outgoing() && self.sends == 0 && self.unreleased == 0
    }

    /// An outgoing connection is open.
    pub(crate) fn opened(&mut self) {
        assert!(self.phase == Phase::Opening && self.is_outgoing(), "only what is being opened opens: {self:?}");
        self.phase = Phase::Open;
    }

    /// A transform stands before it from now on: nothing has passed yet.
    pub(crate) fn veil(&mut self) {
        let is_idle = self.inflow == Inflow::Rests && self.sends + self.unreleased == 0;
        let is_new = is_idle && self.veil == Veil::None && !matches!(self.draining(), Draining::Bytes(_) | Draining::Behind(_));
        assert!(self.phase == Phase::Open && is_new, "a transform stands there from the first byte on: {self:?}");
        (self.phase, self.veil) = (Phase::Handshake, Veil::Speaks);
    }

    /// Whether the transform may be called.
    fn is_passable(&self) -> bool {
        (Phase::Handshake..Phase::Refusing).contains(&self.phase) && self.veil != Veil::None
    }

    fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing | Phase::GivenUp)
    }

    /// The transform was called, and did what it could; or, with `more`, a turn's share of it. One that was refused memory may have words left.
    pub(crate) fn passed(&mut self, more: bool, was_refused: bool) {
        let may = self.is_passable();
        assert!(may, "bytes pass a transform from its handshake until our side finishes: {self:?}");
        self.at_work = more;
        if self.veil == Veil::Leaves && !more && !was_refused {
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
        assert!(!cut || self.peer_has_finished() && !self.at_work, "what is cut has come to its end: {self:?}");
        self.stream = if cut { Stream::Cut } else { Stream::Ended };
    }

    /// The transform is told that our side ends.
    pub(crate) fn take_leave(&mut self) {
        let may = self.phase == Phase::Open || self.is_closing();
        assert!(may && self.veil == Veil::Speaks, "a transform takes leave once: {self:?}");
        self.veil = Veil::Leaves;
    }

    /// The other of its pair was cut or failed. Our side ends without a last word of the transform, so the peer cannot take this end for a proper one.
    pub(crate) fn pass_on_cut(&mut self) {
        assert!(self.phase != Phase::Ended, "what has ended is of no pair: {self:?}");
        if self.veil == Veil::Speaks {
            self.veil = Veil::Mute;
        }
    }

    /// The transform has refused the peer; what was decided before is overruled.
    pub(crate) fn refuse(&mut self) {
        let may = self.is_passable();
        assert!(may, "a transform refuses what passes it: {self:?}");
        (self.phase, self.ending, self.at_work) = (Phase::Refusing, Some(Ending::Aborted), false);
    }

    /// A receive is submitted.
    pub(crate) fn begin_receive(&mut self) {
        let may = matches!(self.phase, Phase::Handshake | Phase::Open | Phase::Lingering);
        assert!(may, "nobody receives before or after: {self:?}");
        assert!(self.inflow == Inflow::Rests, "one receive at a time, and none behind the end: {self:?}");
        self.inflow = Inflow::Receives;
    }

    /// Bytes came.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.end_receive();
        self.use_up(bytes);
    }

    /// Bytes came that may be of those that were readable when the drain began.
    fn use_up(&mut self, bytes: usize) {
        debug_assert!(!self.is_receiving(), "bytes count when their receive has ended: {self:?}");
        match self.draining() {
            Draining::Bytes(left) => {
                self.set_draining(Draining::Bytes(left.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX))));
            }
            Draining::Behind(_) => self.end_behind(),
            _ => {}
        }
    }

    /// The receive has ended that began before the drain.
    fn end_behind(&mut self) {
        if let Draining::Behind(left) = self.draining() {
            self.set_draining(Draining::Bytes(left));
        }
    }

    /// The peer has finished.
    pub(crate) fn end_of_stream(&mut self) {
        self.end_receive();
        self.end_behind();
        self.inflow = Inflow::Finished;
        if self.veil == Veil::None {
            self.stream = Stream::Ended;
        }
    }

    /// A receive ended without bytes: it was stopped, or there was no memory for what is there. `found_nothing` if it was
    /// stopped and nothing was there.
    pub(crate) fn receive_stopped(&mut self, found_nothing: bool) {
        self.end_receive();
        self.note_stopped(found_nothing);
    }

    fn note_stopped(&mut self, found_nothing: bool) {
        debug_assert!(!self.is_receiving(), "what was stopped has ended: {self:?}");
        self.end_behind();
        if found_nothing && self.takes_what_is_there() {
            self.set_draining(Draining::Bytes(0));
        }
    }

    /// A receive into a lease ended with bytes, or none, and a fault.
    pub(crate) fn received_and_stopped(&mut self, bytes: usize, found_nothing: bool) {
        self.end_receive();
        self.use_up(bytes);
        self.note_stopped(found_nothing);
    }

    fn end_receive(&mut self) {
        assert!(self.is_receiving() && self.phase != Phase::Opening, "a receive ends that was begun: {self:?}");
        self.inflow = Inflow::Rests;
    }

    /// A send is submitted.
    pub(crate) fn begin_send(&mut self) {
        let may = !matches!(self.phase, Phase::Opening | Phase::Parting | Phase::Lingering | Phase::Ended);
        assert!(may, "nobody sends before or after: {self:?}");
        assert!(self.may_send(), "one send at a time, and few unreleased: {self:?}");
        self.sends += 1;
    }

    /// A send has ended. What it does not release is released later, whatever becomes of the connection, before its socket is closed.
    pub(crate) fn sent(&mut self, is_released: bool) {
        assert!(self.sends > 0 && self.phase != Phase::Opening, "a send ends that was begun: {self:?}");
        self.sends -= 1;
        self.unreleased += u8::from(!is_released);
    }

    /// The memory of a send that had ended is released.
    pub(crate) fn released(&mut self) {
        assert!(self.unreleased > 0, "what is released had ended, and was not: {self:?}");
        self.unreleased -= 1;
    }

    /// The service is told of the end of the stream; again, if it left input behind then.
    pub(crate) fn tell_of_end(&mut self) {
        assert!(self.input_has_ended() && self.phase == Phase::Open, "an end is told that came: {self:?}");
        self.stream = if self.input_was_cut() { Stream::ToldCut } else { Stream::ToldEnded };
    }

    /// A drain begins; so many bytes are readable. A connection in its handshake is treated as one that waits to be accepted, because nobody can yet
    /// tell what requests it has sent.
    pub(crate) fn drain(&mut self, readable: usize) {
        let may = matches!(self.phase, Phase::Handshake | Phase::Open) && !self.is_outgoing();
        assert!(may && self.draining() == Draining::No, "drained once: {self:?}");
        let readable = u32::try_from(readable).unwrap_or(u32::MAX);
        self.set_draining(match self.phase {
            Phase::Handshake => Draining::First,
            _ if self.is_receiving() => Draining::Behind(readable),
            _ => Draining::Bytes(readable),
        });
    }

    /// A request was served whole: the first one of a connection that was accepted during a drain.
    pub(crate) fn served(&mut self) {
        assert!(self.phase == Phase::Open, "only what is open is served: {self:?}");
        if self.draining() == Draining::First {
            self.set_draining(Draining::Rest);
        }
    }

    /// Closes it behind its output, unless its end is decided already. Returns whether this gives up its handshake: then the output that waited
    /// for the handshake never leaves.
    pub(crate) fn close(&mut self, ending: Ending) -> bool {
        let may = !matches!(self.phase, Phase::Opening | Phase::Ended);
        assert!(may && self.is_gentle(ending), "{ending:?} waits for the output of what was opened, and has not ended: {self:?}");
        let closing = match self.phase {
            Phase::Handshake => Phase::GivenUp,
            Phase::Open => Phase::Closing,
            _ => return false,
        };
        (self.phase, self.ending) = (closing, Some(ending));
        closing == Phase::GivenUp
    }

    /// The service has said all that it ever will; it may say so again, and before it is open. Nothing that closes anyway.
    pub(crate) fn say_no_more(&mut self) {
        assert!(self.takes_notices(), "who says no more was heard until now: {self:?}");
        self.speech = match self.speech {
            Speech::GoesOn if self.phase <= Phase::Open => Speech::Ends,
            Speech::Finished if self.phase <= Phase::Open => Speech::SaidAll,
            speech => speech,
        };
    }

    /// Whether our side is still to finish, though it listens.
    fn is_to_finish_half(&self) -> bool {
        self.speech == Speech::Ends
    }

    /// Whether its service has said all, and that has left or is on its way: what is written now never leaves.
    pub(crate) fn has_said_all(&self) -> bool {
        self.speech == Speech::SaidAll || self.speech == Speech::Ends && self.is_leaving()
    }

    /// All our output has left, and the peer says nothing more.
    pub(crate) fn part(&mut self) {
        assert!(self.phase == Phase::Closing && self.may_part() && self.sends == 0, "nothing is lost by a close: {self:?}");
        self.phase = Phase::Parting;
    }

    /// Whether neither side has finished, and no transform has a word to say about that.
    fn may_part(&self) -> bool {
        self.veil == Veil::None && self.inflow != Inflow::Finished && matches!(self.speech, Speech::GoesOn | Speech::Ends)
    }

    /// All our output has left; returns whether the peer must still be told.
    pub(crate) fn finish(&mut self) -> bool {
        let is_silent = self.is_closing() && self.has_taken_leave();
        let has_said_all = matches!(self.phase, Phase::Refusing | Phase::Parting) || is_silent;
        assert!(has_said_all && self.sends == 0, "our side finishes behind its output: {self:?}");
        self.phase = Phase::Lingering;
        self.finish_speech()
    }

    /// All our output has left, of one of a pair or of one that says no more, and it still listens; returns whether the peer must be told.
    pub(crate) fn finish_half(&mut self) -> bool {
        assert!(self.phase == Phase::Open, "only what is open still listens: {self:?}");
        assert!(self.sends == 0 && self.has_taken_leave(), "our side finishes behind its output: {self:?}");
        self.finish_speech()
    }

    fn finish_speech(&mut self) -> bool {
        debug_assert!(self.sends == 0 && self.phase != Phase::Ended, "our side finishes behind its output: {self:?}");
        let (after, is_first) = match self.speech {
            Speech::GoesOn => (Speech::Finished, true),
            Speech::Ends => (Speech::SaidAll, true),
            speech => (speech, false),
        };
        self.speech = after;
        is_first
    }

    /// The peer finished in the middle of a record: what there is of it will never be answered, and is dropped.
    pub(crate) fn drop_record(&self) {
        let may_become_whole = match self.phase {
            Phase::Handshake => !self.peer_has_finished() && !self.input_has_ended(),
            Phase::Open => !self.was_told_of_end(),
            _ => true,
        };
        assert!(!may_become_whole, "no record is dropped that may become whole: {self:?}");
    }

    /// Its stream has ended, and it is one of a pair: the other is finished as soon as all has left it, and it has taken leave. Of each it is said whether its output [says all](Facts::says_all).
    pub(crate) fn settle_pair(&self, says_all: bool, (other, other_says_all): (&mut Self, bool)) -> Settled {
        assert!(
            self.phase == Phase::Open && self.was_told_of_end(),
            "a pair is settled by one that has come to its end: {self:?}"
        );
        let is_answered = says_all && self.sends == 0;
        if other.sends > 0 || !other_says_all {
            return Settled::default();
        }
        if self.input_was_cut() {
            other.pass_on_cut();
        }
        if (other.phase == Phase::Open || other.is_closing()) && !other.has_taken_leave() {
            return Settled { other_takes_leave: true, ..Settled::default() };
        }
        let finishes_other = other.phase == Phase::Open && other.finish_half();
        Settled { finishes_other, ends: is_answered && other.was_told_of_end(), other_takes_leave: false }
    }

    /// Ends it, whatever was decided before. Returns whether with a reset; a connection that was refused in order gets none. An ending that lets the
    /// output leave comes where there is none yet, or no more.
    pub(crate) fn end(&mut self, ending: Ending) -> bool {
        assert!(self.phase != Phase::Ended, "a connection ends once: {self:?}");
        let in_order = matches!(self.phase, Phase::Parting | Phase::Lingering) && self.ending == Some(ending);
        let loses_nothing = in_order || self.phase == Phase::Opening;
        assert!(loses_nothing || !self.is_gentle(ending), "{ending:?} waits for the output: {self:?}");
        (self.phase, self.ending) = (Phase::Ended, Some(ending));
        ending == Ending::Aborted && !in_order
    }

    /// Whether everything that was asked is answered, and all answers have left.
    pub(crate) fn is_answered(&self, facts: &impl Facts) -> bool {
        self.sends == 0 && facts.says_all()
    }

    /// What is to be done next.
    pub(crate) fn step(&self, facts: &impl Facts) -> Step {
        match self.phase {
            Phase::Opening | Phase::Parting | Phase::Ended => Step::Wait,
            Phase::Handshake | Phase::Open | Phase::Closing | Phase::GivenUp if facts.overflows() => Step::OutputOverflow,
            Phase::Handshake => self.step_handshake(facts),
            Phase::Open => self.step_open(facts),
            Phase::Closing | Phase::GivenUp if !self.is_answered(facts) => Step::Wait,
            Phase::Closing | Phase::GivenUp if !self.has_taken_leave() => Step::TakeLeave,
            Phase::Closing if self.may_part() && facts.peer_has_said_all() => Step::Part,
            Phase::Closing | Phase::GivenUp => Step::Finish,
            Phase::Refusing if self.sends > 0 || facts.has_output() => Step::Wait,
            Phase::Refusing => Step::Finish,
            // reason: our side finishes behind its output once its ending is decided.
            Phase::Lingering if self.peer_has_finished() => Step::End(self.ending.expect("what lingers has its ending")),
            Phase::Lingering if self.is_receiving() => Step::Wait,
            Phase::Lingering => Step::Receive,
        }
    }

    fn step_handshake(&self, facts: &impl Facts) -> Step {
        if facts.is_due() || self.at_work {
            return Step::Wait;
        }
        // Nothing was asked yet, so there is nothing to be answered.
        if self.peer_has_finished() || self.input_has_ended() {
            return if facts.in_record() { Step::DropRecord } else { Step::Close(Ending::EndOfStream) };
        }
        self.step_receive(facts)
    }

    fn step_open(&self, facts: &impl Facts) -> Step {
        // A service that asks again without having written would be called for ever; so it is told once something more has left.
        if facts.wants_drained() && !facts.has_output() && self.sends == 0 {
            return Step::CallDrained;
        }
        if self.is_to_finish_half() && self.sends == 0 && !facts.has_output() {
            return if self.has_taken_leave() { Step::FinishHalf } else { Step::TakeLeave };
        }
        if facts.is_due() || self.at_work {
            return Self::step_at_limit(facts).unwrap_or(Step::Wait);
        }
        if self.was_told_of_end() {
            return match facts.is_paired() {
                _ if facts.in_record() => Step::DropRecord,
                true => Step::SettlePair,
                false if !self.is_answered(facts) => Step::Wait,
                false if self.is_gentle(Ending::EndOfStream) => Step::Close(Ending::EndOfStream),
                false => Step::End(Ending::EndOfStream),
            };
        }
        if matches!(self.draining(), Draining::Bytes(0) | Draining::Behind(0)) {
            // A receive under way was stopped. It may have bytes already, so its end is awaited. Who answers in parts is asked for the next one until all is said.
            return if self.is_receiving() || !self.is_answered(facts) { Step::Wait } else { Step::Close(Ending::Closing) };
        }
        self.step_receive(facts)
    }

    fn step_receive(&self, facts: &impl Facts) -> Step {
        let waits = self.inflow != Inflow::Rests || self.input_has_ended();
        Self::step_at_limit(facts).unwrap_or(if waits { Step::Wait } else { Step::Receive })
    }

    /// The step for an input at a limit; none below its limits.
    fn step_at_limit(facts: &impl Facts) -> Option<Step> {
        if facts.is_too_long() { Some(Step::RecordOverflow) } else { facts.pause().map(Step::Pause) }
    }
}

#[cfg(test)]
mod model;
