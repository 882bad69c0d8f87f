//! Every state that a connection's machine can reach, visited, and held against what a connection's history alone says of it.

use super::*;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::LazyLock;

/// What has happened to a connection: enough to say what may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct History {
    is_open: bool,
    is_outgoing: bool,
    /// Our side has decided on an ending that waits for the output.
    closes: Option<Ending>,
    /// The system is asked whether the peer has all.
    parts: bool,
    /// Our side has said all and waits for the peer.
    lingers: bool,
    ended: Option<Ending>,
    receives: bool,
    sends: bool,
    /// So many sends have ended and are not released.
    unreleased: u8,
    /// The end of the peer's stream has come, and the service knows.
    peer_ended: bool,
    service_knows: bool,
    /// What a drain still takes.
    draining: Draining,
    /// The receive under way is older than the drain.
    receives_before: bool,
    /// The peer was told that our side has finished.
    told_peer: bool,
    /// A transform stands before it; its handshake is over; it has more to do.
    veiled: bool,
    is_shaken: bool,
    is_at_work: bool,
    /// It has said how the stream ended: as the peer meant it, or not.
    stream_end: Option<bool>,
    /// It was told to say its last; it has.
    leaves: bool,
    has_left: bool,
    /// It is to say none, for the other of its pair was cut.
    is_mute: bool,
    refused: bool,
    /// Its service has said all before anything else was to end it.
    says_no_more: bool,
}

/// What memory says, as a value.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    has_output: bool,
    holds_answer: bool,
    in_record: bool,
    is_due: bool,
    peer_has_said_all: bool,
    wants_drained: bool,
    is_paired: bool,
    overflows: bool,
    is_too_long: bool,
    pause: Option<Pause>,
}

impl Facts for Said {
    fn has_output(&self) -> bool {
        self.has_output
    }

    fn holds_answer(&self) -> bool {
        self.holds_answer
    }

    fn in_record(&self) -> bool {
        self.in_record
    }

    fn is_due(&self) -> bool {
        self.is_due
    }

    fn peer_has_said_all(&self) -> bool {
        self.peer_has_said_all
    }

    fn wants_drained(&self) -> bool {
        self.wants_drained
    }

    fn is_paired(&self) -> bool {
        self.is_paired
    }

    fn overflows(&self) -> bool {
        self.overflows
    }

    fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    fn pause(&self) -> Option<Pause> {
        self.pause
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    machine: Machine,
    history: History,
}

/// What can happen to a connection from outside.
#[derive(Clone, Copy, Debug)]
enum Event {
    Opened,
    Received(usize),
    EndOfStream,
    Stopped {
        found_nothing: bool,
    },
    ReceivedAndStopped {
        found_nothing: bool,
    },
    /// A send has ended, and its memory is released, or will be.
    Sent {
        released: bool,
    },
    Released,
    ToldOfEnd,
    Drain(usize),
    Served,
    Close(Ending),
    End(Ending),
    /// The system says that the peer has not all.
    Linger,
    BeginSend,
    /// The other of its pair has come to its end.
    FinishHalf,
    /// A transform stands before it from now on.
    Veil,
    /// It was called, and has more to do or not.
    Passed(bool),
    /// It was called, and refused memory.
    PassedRefused,
    Handshaken,
    /// It says that the stream has ended, or was cut.
    InputEnded {
        cut: bool,
    },
    TakeLeave,
    PassOnCut,
    Refuse,
    /// Its service has said all.
    SayNoMore,
    /// It has gone to another lane.
    Moved,
}

const EVENTS: [Event; 39] = [
    Event::Opened,
    Event::Received(0),
    Event::Received(1),
    Event::Received(9),
    Event::EndOfStream,
    Event::Stopped { found_nothing: true },
    Event::Stopped { found_nothing: false },
    Event::ReceivedAndStopped { found_nothing: true },
    Event::ReceivedAndStopped { found_nothing: false },
    Event::Sent { released: true },
    Event::Sent { released: false },
    Event::Released,
    Event::ToldOfEnd,
    Event::Drain(0),
    Event::Drain(2),
    Event::Served,
    Event::Close(Ending::Completed),
    Event::Close(Ending::Closing),
    Event::Close(Ending::EndOfStream),
    Event::End(Ending::Completed),
    Event::End(Ending::Closing),
    Event::End(Ending::EndOfStream),
    Event::End(Ending::Error),
    Event::End(Ending::Aborted),
    Event::Linger,
    Event::BeginSend,
    Event::FinishHalf,
    Event::Veil,
    Event::Passed(true),
    Event::Passed(false),
    Event::PassedRefused,
    Event::Handshaken,
    Event::InputEnded { cut: true },
    Event::InputEnded { cut: false },
    Event::TakeLeave,
    Event::PassOnCut,
    Event::Refuse,
    Event::SayNoMore,
    Event::Moved,
];

/// So many unreleased sends the visit of all states meets.
const UNRELEASED_LOOKED_AT: u8 = 2;

impl History {
    /// Of a connection of which nothing is known but what it began as.
    fn begun(is_open: bool, is_outgoing: bool, draining: Draining) -> Self {
        Self {
            is_open,
            is_outgoing,
            closes: None,
            parts: false,
            lingers: false,
            ended: None,
            receives: false,
            sends: false,
            unreleased: 0,
            peer_ended: false,
            service_knows: false,
            draining,
            receives_before: false,
            told_peer: false,
            veiled: false,
            is_shaken: false,
            is_at_work: false,
            stream_end: None,
            leaves: false,
            has_left: false,
            is_mute: false,
            refused: false,
            says_no_more: false,
        }
    }

    /// Whether our side is to finish though it listens.
    fn is_to_finish_half(&self) -> bool {
        self.is_served() && self.says_no_more && !self.told_peer
    }

    /// Whether it is open and nobody has decided to end it.
    fn goes_on(&self) -> bool {
        self.is_open && self.closes.is_none() && self.ended.is_none() && !self.refused
    }

    fn is_in_handshake(&self) -> bool {
        self.goes_on() && self.veiled && !self.is_shaken
    }

    /// Whether it was closed before its handshake was over.
    fn never_opens(&self) -> bool {
        self.veiled && !self.is_shaken && self.closes.is_some()
    }

    fn is_served(&self) -> bool {
        self.goes_on() && !self.is_in_handshake()
    }

    /// Whether the transform may be called.
    fn passes(&self) -> bool {
        self.veiled && self.ended.is_none() && !self.lingers && !self.refused
    }

    /// Whether nothing more will come for the service.
    fn is_all_there(&self) -> bool {
        if self.veiled { self.stream_end.is_some() } else { self.peer_ended }
    }

    /// Whether the transform, if there is one, has said its last.
    fn is_silent(&self) -> bool {
        !self.veiled || self.has_left || self.is_mute
    }

    /// Whether nothing it says leaves any more, nor is it told anything.
    fn is_past(&self) -> bool {
        self.ended.is_some() || self.parts || self.lingers || self.refused
    }

    /// Whether an ending waits for the output.
    fn is_gentle(&self, ending: Ending) -> bool {
        match ending {
            Ending::Completed | Ending::Closing => true,
            Ending::EndOfStream => self.veiled,
            Ending::Error | Ending::Aborted => false,
        }
    }

    /// Whether it can happen now.
    fn admits(&self, event: Event) -> bool {
        match event {
            Event::Opened => !self.is_open && self.ended.is_none(),
            Event::Received(_) | Event::EndOfStream | Event::Stopped { .. } | Event::ReceivedAndStopped { .. } => self.receives,
            // How many are not released changes no step: up to so many are looked at.
            Event::Sent { released } => self.sends && (released || self.unreleased < UNRELEASED_LOOKED_AT),
            Event::Released => self.unreleased > 0,
            Event::ToldOfEnd => self.is_served() && self.is_all_there(),
            Event::Drain(_) => self.goes_on() && self.draining == Draining::No && !self.is_outgoing,
            Event::Served => self.is_served(),
            // Whatever was decided before: a service may close twice, a pair's other end, a limit come.
            Event::Close(ending) => self.is_open && self.ended.is_none() && self.is_gentle(ending),
            Event::End(ending) if self.is_gentle(ending) => {
                let is_over = self.parts || self.lingers;
                !self.is_open && self.ended.is_none() || is_over && self.ended.is_none() && self.closes == Some(ending)
            }
            Event::End(_) => self.ended.is_none(),
            Event::Linger => self.parts && self.ended.is_none(),
            Event::BeginSend => self.is_open && self.ended.is_none() && !(self.parts || self.lingers) && !self.sends,
            Event::FinishHalf => self.is_served() && !self.sends && self.is_silent(),
            Event::Veil => {
                let new = Self::begun(true, self.is_outgoing, self.draining);
                *self == Self { says_no_more: self.says_no_more, ..new } && !matches!(self.draining, Draining::Bytes(_))
            }
            Event::Passed(_) | Event::PassedRefused => self.passes(),
            Event::Handshaken => self.is_in_handshake(),
            Event::InputEnded { cut } => {
                let may_be_cut = self.peer_ended && !self.is_at_work;
                self.veiled && self.goes_on() && self.stream_end.is_none() && (!cut || may_be_cut)
            }
            Event::TakeLeave => self.passes() && !self.leaves && !self.is_mute && !self.is_in_handshake(),
            Event::PassOnCut => self.ended.is_none(),
            Event::Refuse => self.passes(),
            Event::SayNoMore => !(self.is_past() || self.never_opens()),
            // Whatever it has been through, nothing of that is left to be known of it.
            Event::Moved => {
                let new = Self::begun(true, false, Draining::No);
                *self == Self { receives: true, veiled: self.veiled, is_shaken: self.veiled, ..new }
            }
        }
    }

    /// Remembers what has happened.
    fn note(&mut self, event: Event) {
        match event {
            Event::Opened => self.is_open = true,
            Event::Received(bytes) => self.use_up(bytes),
            Event::Stopped { found_nothing } => self.stop(found_nothing),
            Event::ReceivedAndStopped { found_nothing } => {
                self.use_up(1);
                self.stop(found_nothing);
            }
            Event::EndOfStream => (self.receives, self.peer_ended) = (false, true),
            Event::Sent { released } => (self.sends, self.unreleased) = (false, self.unreleased + u8::from(!released)),
            Event::Released => self.unreleased -= 1,
            Event::ToldOfEnd => self.service_knows = true,
            Event::Close(ending) if self.goes_on() => self.closes = Some(ending),
            Event::End(ending) => self.ended = Some(ending),
            Event::Linger => (self.parts, self.lingers, self.told_peer) = (false, true, true),
            Event::BeginSend => self.sends = true,
            Event::Veil => self.veiled = true,
            Event::Passed(more) => (self.is_at_work, self.has_left) = (more, self.has_left || self.leaves && !more),
            Event::PassedRefused => self.is_at_work = false,
            Event::Handshaken => self.is_shaken = true,
            Event::InputEnded { cut } => self.stream_end = Some(!cut),
            Event::TakeLeave => self.leaves = true,
            Event::PassOnCut => self.is_mute |= self.veiled && !self.leaves,
            Event::Refuse => {
                (self.refused, self.closes, self.is_at_work) = (true, Some(Ending::Aborted), false);
            }
            Event::SayNoMore => self.says_no_more |= self.closes.is_none(),
            Event::Moved => self.receives = false,
            Event::Drain(_) if self.is_in_handshake() => self.draining = Draining::First,
            Event::Drain(bytes) => (self.draining, self.receives_before) = (Draining::Bytes(bytes as u32), self.receives),
            Event::Served if self.draining == Draining::First => self.draining = Draining::Rest,
            Event::Served | Event::FinishHalf | Event::Close(_) => {}
        }
    }

    /// A receive has brought so many bytes.
    fn use_up(&mut self, bytes: usize) {
        if let Draining::Bytes(left) = &mut self.draining
            && !self.receives_before
        {
            *left = left.saturating_sub(bytes as u32);
        }
        (self.receives, self.receives_before) = (false, false);
    }

    /// A receive was stopped.
    fn stop(&mut self, found_nothing: bool) {
        if found_nothing && self.is_served() && matches!(self.draining, Draining::Bytes(_) | Draining::Rest) {
            self.draining = Draining::Bytes(0);
        }
        (self.receives, self.receives_before) = (false, false);
    }
}

impl State {
    fn happen(mut self, event: Event) -> Self {
        let Self { machine, history } = &mut self;
        match event {
            Event::Opened => machine.opened(),
            Event::Received(bytes) => machine.received(bytes),
            Event::EndOfStream => machine.end_of_stream(),
            Event::Stopped { found_nothing } => machine.receive_stopped(found_nothing),
            Event::ReceivedAndStopped { found_nothing } => machine.received_and_stopped(1, found_nothing),
            Event::Sent { released } => machine.sent(released),
            Event::Released => machine.released(),
            Event::ToldOfEnd => machine.tell_of_end(),
            Event::Drain(bytes) => machine.drain(bytes),
            Event::Served => machine.served(),
            Event::Close(ending) => {
                let was_in_handshake = history.is_in_handshake();
                assert_eq!(machine.close(ending), was_in_handshake, "its handshake is given up or not: {history:?}");
            }
            Event::End(ending) => {
                let reset = machine.end(ending);
                let in_order = history.refused && history.lingers;
                assert_eq!(reset, ending == Ending::Aborted && !in_order, "broken off or not: {history:?}");
            }
            Event::Linger => assert!(machine.finish() && !history.told_peer, "who is asked about was not told: {history:?}"),
            Event::BeginSend => machine.begin_send(),
            Event::FinishHalf => {
                assert!(machine.finish_half() != history.told_peer, "the peer is told once: {machine:?}");
                history.told_peer = true;
            }
            Event::Veil => machine.veil(),
            Event::Passed(more) => machine.passed(more, false),
            Event::PassedRefused => machine.passed(false, true),
            Event::Handshaken => machine.handshaken(),
            Event::InputEnded { cut } => machine.input_ended(cut),
            Event::TakeLeave => machine.take_leave(),
            Event::PassOnCut => machine.pass_on_cut(),
            Event::Refuse => machine.refuse(),
            Event::SayNoMore => machine.say_no_more(),
            Event::Moved => *machine = Machine::arrived(history.veiled),
        }
        history.note(event);
        self
    }

    /// Takes a step as the connection would.
    fn take(mut self, step: Step) -> Self {
        let Self { machine, history } = &mut self;
        match step {
            Step::Receive => {
                machine.begin_receive();
                history.receives = true;
            }
            Step::OutputOverflow | Step::RecordOverflow => return self.happen(Event::End(Ending::Aborted)),
            Step::Close(ending) => return self.happen(Event::Close(ending)),
            Step::End(ending) => return self.happen(Event::End(ending)),
            Step::Part => {
                machine.part();
                history.parts = true;
            }
            Step::Finish => {
                assert!(machine.finish() != history.told_peer, "the peer is told once: {machine:?}");
                (history.lingers, history.told_peer) = (true, true);
            }
            Step::FinishHalf => {
                assert!(!history.told_peer, "our side finishes once: {machine:?}");
                return self.happen(Event::FinishHalf);
            }
            Step::DropRecord => machine.drop_record(),
            Step::SettlePair => assert!(!machine.settle_pair(true, (&mut Machine::opening(), true)).ends),
            Step::TakeLeave if history.leaves => {}
            Step::TakeLeave => return self.happen(Event::TakeLeave),
            Step::Wait | Step::Pause(_) | Step::CallDrained => {}
        }
        self
    }

    /// What shows of the machine is what has happened.
    fn agrees(&self) {
        let Self { machine, history } = self;
        assert_eq!(machine.may_leave(), history.admits(Event::Moved), "it may leave its lane when it rests: {self:?}");
        let phase = match history {
            History { ended: Some(_), .. } => Phase::Ended,
            History { lingers: true, .. } => Phase::Lingering,
            History { parts: true, .. } => Phase::Parting,
            History { refused: true, .. } => Phase::Refusing,
            History { closes: Some(_), .. } if history.never_opens() => Phase::GivenUp,
            History { closes: Some(_), .. } => Phase::Closing,
            History { veiled: true, is_shaken: false, .. } => Phase::Handshake,
            History { is_open: true, .. } => Phase::Open,
            _ => Phase::Opening,
        };
        assert_eq!(machine.phase(), phase, "{self:?}");
        assert_eq!(machine.ending(), history.ended.or(history.closes), "{self:?}");
        let draining = match history.draining {
            Draining::Bytes(left) if history.receives && history.receives_before => Draining::Behind(left),
            draining => draining,
        };
        assert_eq!(machine.draining(), draining, "{self:?}");
        let shown = (machine.is_receiving(), machine.is_sending(), machine.peer_has_finished(), machine.was_told_of_end());
        assert_eq!(shown, (history.receives, history.sends, history.peer_ended, history.service_knows), "{self:?}");
        assert_eq!((machine.unreleased(), machine.may_send()), (history.unreleased, !history.sends), "{self:?}");
        assert_eq!(machine.serves_input(), history.is_served(), "{self:?}");
        assert_eq!(machine.takes_notices(), !history.is_past() && !history.never_opens(), "{self:?}");
        assert_eq!(machine.is_in_handshake(), history.is_in_handshake(), "{self:?}");
        let stream = (machine.input_has_ended(), machine.input_was_cut());
        assert_eq!(stream, (history.is_all_there(), history.stream_end == Some(false)), "{self:?}");
        let leave = (machine.is_to_take_leave(), machine.is_leaving(), machine.has_taken_leave());
        assert_eq!(
            leave,
            (history.veiled && !history.leaves && !history.is_mute, history.leaves, history.is_silent()),
            "{self:?}"
        );
        assert_eq!(machine.takes_input(), history.goes_on() && !history.is_all_there(), "{self:?}");
        let has_said_all = history.says_no_more && (history.told_peer || history.leaves);
        assert_eq!(machine.has_said_all(), has_said_all, "{self:?}");
        assert_eq!(machine.owes_last_word(), history.leaves && !history.has_left, "{self:?}");
        let is_called_again = history.is_at_work || history.leaves && !history.has_left;
        let to_pass = machine.takes_input() || history.is_served() && is_called_again;
        assert_eq!(machine.is_to_pass(), to_pass, "{self:?}");
    }

    /// Whether the step is one that what has happened allows, and, where it is none, something is still to come.
    fn allows(&self, step: Step, facts: &Said) {
        let History { receives, sends, peer_ended, service_knows, parts, lingers, refused, told_peer, .. } = self.history;
        let (is_served, goes_on) = (self.history.is_served(), self.history.goes_on());
        let is_used_up = self.history.draining == Draining::Bytes(0);
        let closes = self.history.closes.is_some() && !(parts || lingers) && !refused && self.history.ended.is_none();
        let answered = !(sends || facts.has_output || facts.holds_answer);
        let (is_all_there, is_due) = (self.history.is_all_there(), facts.is_due || self.history.is_at_work);
        let shaken_to_the_end = self.history.is_in_handshake() && (peer_ended || is_all_there) && !is_due;
        let is_right = match step {
            Step::Receive => {
                let at_work = goes_on && !is_all_there && !is_due && facts.pause.is_none() && !is_used_up;
                !receives && !peer_ended && (at_work || lingers)
            }
            Step::Pause(pause) => goes_on && facts.pause == Some(pause),
            Step::OutputOverflow => facts.overflows && (goes_on || closes),
            Step::RecordOverflow => goes_on && facts.is_too_long,
            Step::CallDrained => is_served && facts.wants_drained && !facts.has_output && !sends,
            Step::DropRecord => (is_served && service_knows || shaken_to_the_end) && facts.in_record,
            Step::SettlePair => is_served && service_knows && facts.is_paired && !facts.in_record,
            Step::Close(Ending::EndOfStream) if is_served => self.history.veiled && service_knows && answered && !facts.is_paired,
            Step::Close(Ending::EndOfStream) => shaken_to_the_end && !facts.in_record,
            Step::Close(ending) => is_served && ending == Ending::Closing && is_used_up && answered && !receives,
            Step::End(Ending::EndOfStream) if is_served => !self.history.veiled && service_knows && answered && !facts.is_paired,
            Step::End(ending) => lingers && peer_ended && self.history.closes == Some(ending),
            Step::TakeLeave if is_served => {
                self.history.is_to_finish_half() && !sends && !facts.has_output && !self.history.is_silent()
            }
            Step::TakeLeave => closes && answered && !self.history.is_silent(),
            Step::FinishHalf => self.history.is_to_finish_half() && !sends && !facts.has_output && self.history.is_silent(),
            Step::Part => {
                let is_known = facts.peer_has_said_all && !(peer_ended || told_peer || self.history.veiled);
                closes && answered && is_known
            }
            Step::Finish if refused => !lingers && !sends && !facts.has_output,
            Step::Finish => closes && answered && self.history.is_silent(),
            Step::Wait => {
                let others = receives || sends || facts.has_output || facts.holds_answer || is_due;
                let is_over = self.history.ended.is_some() || !self.history.is_open || parts;
                let is_to_be_told = is_served && !service_knows && (peer_ended || is_all_there);
                is_over || others || is_to_be_told
            }
        };
        assert!(is_right, "{step:?} in {self:?} with {facts:?}");
    }

    /// A peer that finishes and a service that has nothing to say bring every connection to its end.
    fn comes_to_its_end(mut self) {
        let events = [
            Event::Opened,
            Event::Sent { released: true },
            Event::EndOfStream,
            Event::Passed(false),
            Event::InputEnded { cut: true },
            Event::ToldOfEnd,
            Event::Linger,
        ];
        for _ in 0..16 {
            for event in events {
                if self.history.admits(event) {
                    self = self.happen(event);
                }
            }
            self = self.take(self.machine.step(&Said::default()));
        }
        assert!(self.machine.has_ended() && !self.history.receives && !self.history.sends, "it never ends: {self:?}");
    }
}

/// All that memory can say.
fn all_facts() -> Vec<Said> {
    let with = |bits: u32| {
        let bit = |number: u32| bits & (1 << number) != 0;
        Said {
            has_output: bit(0),
            holds_answer: bit(1),
            in_record: bit(2),
            is_due: bit(3),
            wants_drained: bit(4),
            is_paired: bit(5),
            overflows: bit(6),
            is_too_long: bit(7),
            peer_has_said_all: bit(8),
            // Which limit it is changes what counts it, and no step.
            pause: [None, Some(Pause::Output)][(bits >> 9) as usize],
        }
    };
    (0..1 << 10).map(with).collect()
}

/// All states that can be reached.
static REACHED: LazyLock<Vec<State>> = LazyLock::new(reached);

/// The steps that a state can ask for, each once, whatever memory says.
fn steps(machine: &Machine, facts: &[Said]) -> Vec<Step> {
    let mut steps = Vec::new();
    for step in facts.iter().map(|facts| machine.step(facts)) {
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    steps
}

fn reached() -> Vec<State> {
    let starts = [
        (Machine::accepted(false), History::begun(true, false, Draining::No)),
        (Machine::accepted(true), History::begun(true, false, Draining::First)),
        (Machine::opening(), History::begun(false, true, Draining::No)),
    ];
    let mut found: HashSet<State> = HashSet::new();
    let mut next: VecDeque<State> = starts.into_iter().map(|(machine, history)| State { machine, history }).collect();
    let facts = all_facts();
    while let Some(state) = next.pop_front() {
        if !found.insert(state) {
            continue;
        }
        state.agrees();
        let events = EVENTS.into_iter().filter(|&event| state.history.admits(event));
        next.extend(events.map(|event| state.happen(event)));
        next.extend(steps(&state.machine, &facts).into_iter().map(|step| state.take(step)));
    }
    found.into_iter().collect()
}

#[test]
fn in_every_state_the_next_step_is_one_that_its_history_allows() {
    let facts = all_facts();
    let mut taken = BTreeSet::new();
    let states = &*REACHED;
    for state in states {
        facts.iter().for_each(|facts| state.allows(state.machine.step(facts), facts));
        taken.extend(steps(&state.machine, &facts).iter().map(|step| format!("{step:?}")));
    }
    println!("{} states, {} steps: {taken:?}", states.len(), taken.len());
    assert!(states.len() > 500 && taken.len() >= 18, "{} states, {taken:?}", states.len());
}

#[test]
fn a_pair_ends_when_both_have_said_all() {
    let all = [Said::default(), Said { has_output: true, ..Said::default() }, Said { holds_answer: true, ..Said::default() }];
    let answered = |state: &State, facts: &Said| !(state.history.sends || facts.has_output || facts.holds_answer);
    let with = |state: State| all.iter().map(move |facts| (state, facts));
    let others: Vec<_> = REACHED.iter().copied().filter(|state| !state.machine.has_ended()).flat_map(with).collect();
    let at_end = others.iter().filter(|(state, _)| state.history.is_served() && state.history.service_knows);
    for (number, (one, of_one)) in at_end.enumerate() {
        // All with all would take long: each meets another part of the others.
        for (other, of_other) in others.iter().skip(number % 89).step_by(89) {
            let mut machine = other.machine;
            let settled = one.machine.settle_pair(of_one.says_all(), (&mut machine, of_other.says_all()));
            let speaks = machine.phase() <= Phase::GivenUp && machine.phase() >= Phase::Open && !machine.has_taken_leave();
            assert_eq!(settled.other_takes_leave, answered(other, of_other) && speaks, "{other:?}");
            let says_all = answered(other, of_other) && !speaks;
            assert_eq!(settled.finishes_other, says_all && other.history.is_served() && !other.history.told_peer, "{other:?}");
            assert_eq!(settled.ends, answered(one, of_one) && says_all && other.history.service_knows, "{one:?} {other:?}");
        }
    }
}

#[test]
fn every_state_leads_to_the_end() {
    REACHED.iter().copied().for_each(State::comes_to_its_end);
}

fn send_unreleased(machine: &mut Machine) {
    machine.begin_send();
    machine.sent(false);
}

/// Events that cannot come to a connection that was accepted, each behind those that lead there.
const WRONG: [fn(&mut Machine); 31] = [
    |machine| machine.drop_record(),
    |machine| assert!(machine.settle_pair(true, (&mut Machine::opening(), true)).ends),
    |machine| machine.received(1),
    |machine| machine.end_of_stream(),
    |machine| machine.sent(true),
    |machine| machine.released(),
    |machine| {
        machine.begin_send();
        machine.sent(true);
        machine.released();
    },
    |machine| (0..=UNRELEASED_MAX).for_each(|_| send_unreleased(machine)),
    |machine| machine.tell_of_end(),
    |machine| machine.opened(),
    |machine| assert!(machine.finish()),
    |machine| assert!(machine.close(Ending::Error)),
    |machine| assert!(machine.close(Ending::EndOfStream)),
    |machine| machine.passed(false, false),
    |machine| machine.handshaken(),
    |machine| machine.input_ended(false),
    |machine| machine.refuse(),
    |machine| machine.take_leave(),
    |machine| {
        machine.begin_receive();
        machine.veil();
    },
    |machine| {
        machine.veil();
        machine.input_ended(true);
    },
    |machine| {
        machine.veil();
        machine.close(Ending::Completed);
        machine.finish();
    },
    |machine| {
        machine.begin_receive();
        machine.begin_receive();
    },
    |machine| {
        machine.end(Ending::Error);
        machine.end(Ending::Error);
    },
    |machine| {
        machine.end(Ending::Error);
        machine.say_no_more();
    },
    |machine| {
        machine.end(Ending::Error);
        machine.close(Ending::Closing);
    },
    |machine| {
        machine.end(Ending::Error);
        machine.pass_on_cut();
    },
    |machine| {
        machine.end(Ending::Closing);
    },
    |machine| {
        machine.veil();
        machine.served();
    },
    |machine| {
        machine.close(Ending::Completed);
        machine.served();
    },
    |machine| {
        machine.close(Ending::Completed);
        machine.finish_half();
    },
    |machine| {
        *machine = Machine::opening();
        machine.close(Ending::Completed);
    },
];

#[test]
fn what_cannot_come_is_noticed() {
    for (number, event) in WRONG.into_iter().enumerate() {
        let panicked = std::panic::catch_unwind(|| event(&mut Machine::accepted(false))).is_err();
        assert!(panicked, "event {number} came at the wrong time, and nobody noticed");
    }
}

/// The system may read what was sent for longer than the connection lasts: each release is counted, whatever becomes of it meanwhile.
#[test]
fn sends_go_on_while_earlier_ones_are_unreleased_up_to_a_bound() {
    let mut machine = Machine::accepted(false);
    (0..UNRELEASED_MAX).for_each(|_| send_unreleased(&mut machine));
    assert!(!machine.is_sending() && !machine.may_send());
    machine.released();
    assert!(machine.may_send());
    send_unreleased(&mut machine);
    machine.end(Ending::Error);
    (0..UNRELEASED_MAX).for_each(|_| machine.released());
    assert_eq!(machine.unreleased(), 0);
}

/// What was readable when a drain began is taken, however the receive that was under way then ends.
#[test]
fn a_receive_that_began_before_a_drain_brings_nothing_of_what_was_readable_then() {
    let ends: [fn(&mut Machine); 3] = [
        |machine| machine.received(100),
        |machine| machine.receive_stopped(false),
        |machine| machine.received_and_stopped(100, false),
    ];
    for end in ends {
        let mut machine = Machine::accepted(false);
        machine.begin_receive();
        machine.drain(10);
        end(&mut machine);
        assert_eq!(machine.draining(), Draining::Bytes(10));
        machine.begin_receive();
        machine.received(4);
        assert_eq!(machine.draining(), Draining::Bytes(6), "what is received from then on is");
    }
}
