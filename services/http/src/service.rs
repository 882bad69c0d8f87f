//! HTTP as a service over connections: which part of it a connection is in.

use crate::application::{Application, Minds};
use crate::backlog::UNAVAILABLE_AND_CLOSED;
use crate::counters::HttpCounter;
use crate::desk::Desk;
use crate::live::live;
use crate::log::{AccessLog, Ended, Sent};
use crate::outgoing::end_other;
use crate::rules::{Book, Rules};
use crate::session::{Active, Look, Session, Spare};
use crate::settings::Settings;
use corelane::service::{
    Asking, Call as LaneCall, Chain, Declaration, Ending, Input, Joined, Lost, Origin, Outcome, Output, Owes, OwnCounter, Peer,
    Ticket,
};
use corelane::{Cx, Next, StreamService, Talk};
use corelane_upstreams::Asked;
use corelane_wire::http1::Status;
use std::any::Any;
use std::rc::Rc;

/// HTTP/1.1 over connections, for one application.
///
/// Bounds beside those of [`Settings`]: content that is collected by what its application says and by what a lane lends at once (4 MiB, or less with
/// little memory), requests that are held by `requests_in_flight_max`, answers that wait by `output_high`.
pub struct Http<A: Application> {
    pub(crate) application: A,
    pub(crate) settings: Settings,
    pub(crate) desk: Rc<Desk>,
    pub(crate) spare: Spare<A>,
    /// Exchanges that have begun, and were neither answered whole nor told that they are gone.
    pub(crate) exchanges: usize,
    /// Upstreams that its application has, as they are told.
    upstreams: usize,
    is_draining: bool,
}

/// Why an answer is cut short that a drain does not wait for any longer, in the log.
const DRAIN: &str = "drain";

/// A session on its way to another lane.
struct BetweenRequests;

/// One call into the service, but for its input.
pub(crate) struct Call<'a, 'l, T: Talk> {
    pub cx: &'a mut Cx<'l, T>,
    pub output: &'a mut Output,
}

impl<A: Application> Http<A> {
    /// What it counts, and behind that what its application does.
    const COUNTED: &'static Joined = &Joined::new(HttpCounter::DECLARED, A::COUNTERS);

    /// Serves `application` with the default settings.
    pub fn new(mut application: A) -> Self {
        application.stand_within(Session::<A>::within());
        let desk = Rc::new(Desk::new(None));
        Self { application, settings: Settings::new(), desk, spare: Spare::new(), exchanges: 0, upstreams: 0, is_draining: false }
    }

    /// Sets the bounds.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Logs what is answered. To be called on the lane that serves, as all that makes a service.
    pub fn log(mut self, log: &AccessLog) -> Self {
        let rules = self.desk.rules();
        self.desk = Rc::new(Desk::new(Some(log.lane())));
        self.desk.set_rules(rules);
        self
    }

    /// Has answers and redirects by path, beside what the application does.
    pub fn rules(self, rules: impl Into<Rc<Rules>>) -> Self {
        self.book(Book::All(rules.into()))
    }

    /// The same for each application within it.
    pub(crate) fn book(self, rules: Book) -> Self {
        self.desk.set_rules(Rc::new(rules));
        self
    }

    /// The application.
    pub fn application(&self) -> &A {
        &self.application
    }

    fn look(&mut self, call: &mut Call<'_, '_, A::Talk>, session: &mut Session<A>, input: &mut Input) -> Look {
        if session.running().is_some() {
            return self.run(call, session, Some(input), false);
        }
        let active = session.active.take().map(|active| self.spare.unboxed(active));
        match active {
            None if input.is_empty() => Look::Over(Next::Continue),
            None => {
                let begun = self.begin_head();
                self.look_at_heads(call, session, input, begun)
            }
            Some(Active::Head(begun)) => self.look_at_heads(call, session, input, begun),
            Some(Active::Unwanted { body, left }) => self.pass_over(session, input, body, left),
            Some(Active::Collected(collected)) => self.collect(call, session, input, collected),
            Some(Active::Kept(kept)) => self.write_kept(call, session, input, kept),
            Some(Active::Wanted(most)) => self.collect_now(call, session, input, most),
            Some(Active::Tunnel(to)) => self.pass_on(call, session, input, to),
            Some(Active::Running(_) | Active::Outgoing(_)) => unreachable!("it goes on where it lies"),
        }
    }

    /// There are as many as names have addresses, which come as something that a helper thread has asked.
    fn note_upstreams(&mut self, cx: &mut Cx<'_, A::Talk>) {
        let mut count = 0;
        self.application.upstreams(&mut |upstreams| count += upstreams.in_rotation(cx.now()).1);
        if count != self.upstreams {
            self.upstreams = count;
            cx.set_gauge(HttpCounter::Upstreams, count as u64);
        }
    }

    /// Follows a change of the options that it can follow; whether it does.
    fn change(&mut self, cx: &mut Cx<'_, A::Talk>, options: &str) -> bool {
        let Some((rules, targets)) = live(options) else { return false };
        if !self.application.retarget_each(cx, &targets) {
            return false;
        }
        self.application.redirect_each(&rules.iter().map(Rules::has_redirects).collect::<Vec<bool>>());
        self.desk.set_rules(Rc::new(Book::of_each(rules)));
        self.note_upstreams(cx);
        true
    }

    fn count_answers(&self, cx: &mut Cx<'_, A::Talk>) {
        use HttpCounter::{Answers1xx, Answers2xx, Answers3xx, Answers4xx, Answers5xx};
        let counters = [Answers1xx, Answers2xx, Answers3xx, Answers4xx, Answers5xx];
        for (counter, answers) in counters.into_iter().zip(self.desk.take_answers()) {
            if answers > 0 {
                cx.count(counter, answers);
            }
        }
        let kept = self.desk.take_kept();
        if kept > 0 {
            cx.count(HttpCounter::AnswersKept, kept);
        }
        if let Some(log) = self.desk.log() {
            log.borrow_mut().end_call(cx);
        }
    }
}

impl<A: Application> StreamService for Http<A> {
    type Talk = A::Talk;
    type Session = Session<A>;

    const COUNTERS: &'static [Declaration] = Self::COUNTED.declared();
    const PEER_BEGINS: bool = true;

    fn started(&mut self, cx: &mut Cx<'_, A::Talk>) {
        if let Some(log) = self.desk.log() {
            log.borrow_mut().started(cx.arena());
        }
        self.application.started(cx);
        self.note_upstreams(cx);
    }

    fn open(&mut self, _cx: &mut Cx<'_, A::Talk>, _peer: &Peer) -> Session<A> {
        Session::new()
    }

    fn receive(&mut self, cx: &mut Cx<'_, A::Talk>, session: &mut Session<A>, input: &mut Input, output: &mut Output) -> Next {
        if let Some(outgoing) = session.outgoing() {
            return outgoing.received(cx, input, output);
        }
        self.desk.begin_call(cx);
        // Each request is counted, so that what is none, such as empty lines, keeps no connection open.
        output.peer_owes(Owes::Request);
        if session.is_last && !input.is_empty() {
            self.desk.note_last_held(cx.id(), false);
        }
        let mut call = Call { cx, output };
        let next = loop {
            match self.look(&mut call, session, input) {
                Look::Again => {}
                Look::Over(next) => break next,
            }
        };
        self.count_answers(cx);
        next
    }

    fn connected(&mut self, cx: &mut Cx<'_, A::Talk>, session: &mut Session<A>, output: &mut Output) -> Next {
        // reason: only those are opened.
        session.outgoing().expect("a connection is opened by the application").opened(cx, output)
    }

    fn drained(&mut self, cx: &mut Cx<'_, A::Talk>, session: &mut Session<A>, output: &mut Output) -> Next {
        if let Some(outgoing) = session.outgoing() {
            return outgoing.drained(cx, output);
        }
        self.desk.begin_call(cx);
        if session.running().is_none() {
            return Next::Continue;
        }
        let look = self.run(&mut Call { cx, output }, session, None, true);
        self.count_answers(cx);
        match look {
            // What has arrived meanwhile is looked at next.
            Look::Again => {
                cx.resume(cx.id());
                Next::Continue
            }
            Look::Over(next) => next,
        }
    }

    fn expired(
        &mut self,
        cx: &mut Cx<'_, A::Talk>,
        _session: &mut Session<A>,
        output: &mut Output,
        ticket: Ticket,
        token: u64,
    ) -> Next {
        self.desk.look(cx);
        let mut answer = Chain::new();
        answer.push(UNAVAILABLE_AND_CLOSED);
        let answered = output.answer(ticket, answer);
        assert!(answered.is_ok(), "the ticket is of this connection");
        let sent = Sent { status: Status::SERVICE_UNAVAILABLE.code(), bytes: 0 };
        self.desk.count_answer(sent.status);
        let note = self.desk.timed().take(token);
        if let Some(mut note) = note.flatten() {
            note.note_sent(sent);
            note.end(Ended::Closed);
        }
        self.count_answers(cx);
        Next::Close
    }

    fn overdue(&mut self, cx: &mut Cx<'_, A::Talk>, session: &mut Session<A>, input: &mut Input, output: &mut Output) -> Next {
        if session.outgoing().is_some() {
            return Next::Abort;
        }
        self.desk.begin_call(cx);
        let next = self.give_up(&mut Call { cx, output }, session, input);
        self.count_answers(cx);
        next
    }

    fn draining(&mut self, _cx: &mut Cx<'_, A::Talk>, session: &mut Session<A>, _output: &mut Output) {
        session.is_last = true;
    }

    fn handed_over(&mut self, cx: &mut Cx<'_, A::Talk>, session: &mut Session<A>, output: &mut Output) {
        session.is_last = true;
        self.desk.note_last_held(cx.id(), session.active.is_none() && output.tickets() == 1);
    }

    /// Between two requests nothing is known of a connection, unless the next answer is to be its last.
    fn pack(&mut self, _cx: &mut Cx<'_, A::Talk>, session: Session<A>) -> Result<Box<dyn Any + Send>, Session<A>> {
        if session.active.is_some() || session.is_last { Err(session) } else { Ok(Box::new(BetweenRequests)) }
    }

    fn unpack(&mut self, _cx: &mut Cx<'_, A::Talk>, packed: Box<dyn Any + Send>) -> Result<Session<A>, Box<dyn Any + Send>> {
        packed.downcast().map(|_: Box<BetweenRequests>| Session::new())
    }

    fn closed(&mut self, cx: &mut Cx<'_, A::Talk>, mut session: Session<A>, ending: Ending) {
        if let Some(outgoing) = session.outgoing() {
            return outgoing.closed(cx, ending);
        }
        self.desk.look(cx);
        if session.is_last {
            self.desk.note_last_held(cx.id(), false);
        }
        match session.active.map(|active| self.spare.unboxed(active)) {
            Some(Active::Running(mut running)) => {
                // Its connection has ended, and with it what it owed.
                drop(running.owed.take());
                if ending != Ending::Error && self.is_draining {
                    running.because_unless_known(DRAIN);
                }
                if ending == Ending::Error && running.exchange.minds() != Minds::Nothing {
                    cx.count(HttpCounter::ForwardsAbandoned, 1);
                }
                self.tell_gone(cx, &mut running);
            }
            Some(Active::Tunnel(to)) => end_other(cx, ending, to),
            _ => {}
        }
        self.count_answers(cx);
    }

    fn completed(&mut self, cx: &mut Cx<'_, A::Talk>, token: u64, outcome: Outcome) {
        self.application.completed(cx, token, outcome);
        self.note_upstreams(cx);
        self.count_answers(cx);
    }

    fn lane_message(&mut self, cx: &mut Cx<'_, A::Talk>, from: Origin, message: <A::Talk as Talk>::Message) {
        self.application.lane_message(cx, from, message);
        self.count_answers(cx);
    }

    fn asked(&mut self, cx: &mut Cx<'_, A::Talk>, from: Origin, question: <A::Talk as Talk>::Question, call: LaneCall<A::Talk>) {
        self.application.asked(cx, from, question, call);
        self.count_answers(cx);
    }

    fn replied(&mut self, cx: &mut Cx<'_, A::Talk>, asking: Asking, outcome: Result<<A::Talk as Talk>::Answer, Lost>) {
        self.application.replied(cx, asking, outcome);
        self.count_answers(cx);
    }

    fn room(&mut self, cx: &mut Cx<'_, A::Talk>, lane: usize) {
        self.application.room(cx, lane);
        self.count_answers(cx);
    }

    fn alarm(&mut self, cx: &mut Cx<'_, A::Talk>, token: u64) {
        self.application.alarm(cx, token);
        self.count_answers(cx);
    }

    fn operate(&mut self, cx: &mut Cx<'_, A::Talk>, words: &str) -> Option<String> {
        if let Some(options) = words.strip_prefix("options ") {
            return Some(self.change(cx, options).to_string());
        }
        let mut asked = Asked::read(words, cx.now())?;
        let mut has_some = false;
        self.application.upstreams(&mut |upstreams| {
            has_some = true;
            asked.of(upstreams);
        });
        if asked.changes() {
            self.application.upstreams_changed(cx);
        }
        has_some.then(|| asked.answer())
    }

    fn drain_began(&mut self, cx: &mut Cx<'_, A::Talk>) {
        self.is_draining = true;
        self.application.drain_began(cx);
        self.count_answers(cx);
    }

    fn ending(&mut self, cx: &mut Cx<'_, A::Talk>) {
        self.application.ending(cx);
        assert!(self.exchanges == 0, "{} exchanges have begun, and were not ended", self.exchanges);
    }
}
