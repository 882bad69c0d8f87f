//! What the answers of a lane share: the date, memory to put heads together in, and the counts of what was answered.

use crate::backlog::{Backlog, UNAVAILABLE, UNAVAILABLE_AND_CLOSED, Unsent};
use crate::facts::Facts;
use crate::log::{LaneLog, Sent};
use crate::outcome::{Answered, Behind, Done, Given};
use crate::request::Whose;
use crate::rules::{Book, GENERATIONS, Matched, Rules};
use crate::timed::Timed;
use corelane::service::ConnectionId;
use corelane::{Cx, Output, Talk};
use corelane_wire::http1::{DIGITS_MAX, Date, Request as Head, Status, decimal};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The first memory for a head: most are shorter.
const HEAD_BYTES: usize = 1024;
/// What is kept of it for the next head, at the most.
const HEAD_BYTES_KEPT: usize = 64 << 10;

/// One for each service of a lane, shared by its answers.
pub(crate) struct Desk {
    second: Cell<u64>,
    /// How a head begins that says 200 (OK) on a connection that stays, with the date of that second.
    usual: RefCell<Vec<u8>>,
    date: Cell<[u8; Date::BYTES]>,
    head: Cell<Vec<u8>>,
    /// Answers by the first digit of their status, since they were counted last.
    answers: [Cell<usize>; 5],
    timed: RefCell<Timed>,
    /// The answer that was given in the call under way, and is to be kept.
    unsent: Cell<Option<Unsent>>,
    backlog: Rc<Backlog>,
    /// What was given in the call of an application that is under way.
    given: Cell<Option<Given>>,
    /// Connections that were told of another process, and on which one answer is held and nothing else is under way: that is the last.
    last_held: RefCell<BTreeSet<ConnectionId>>,
    /// Answers that were kept since they were counted last.
    kept: Cell<usize>,
    /// Whether there are rules, and what these are: those of the last settings, and those before, which answers under way may have.
    has_rules: Cell<bool>,
    rules: RefCell<[Rc<Book>; GENERATIONS]>,
    generation: Cell<usize>,
    /// None where nothing is logged.
    log: Option<Rc<RefCell<LaneLog>>>,
}

impl Desk {
    pub fn new(log: Option<LaneLog>) -> Self {
        let (head, log) = (Cell::new(Vec::with_capacity(HEAD_BYTES)), log.map(|log| Rc::new(RefCell::new(log))));
        let (second, date) = (Cell::new(u64::MAX), Cell::new([b' '; Date::BYTES]));
        let (usual, timed) = (RefCell::default(), RefCell::default());
        let (unsent, backlog, given, last_held, kept) = Default::default();
        let answers = [const { Cell::new(0) }; 5];
        let (has_rules, rules, generation) = Default::default();
        Self {
            second,
            usual,
            date,
            head,
            answers,
            timed,
            unsent,
            backlog,
            given,
            last_held,
            kept,
            has_rules,
            rules,
            generation,
            log,
        }
    }

    /// Notes the time.
    #[inline]
    pub fn look(&self, cx: &Cx<'_, impl Talk>) {
        let second = cx.time_of_day().as_secs();
        if self.second.replace(second) != second {
            self.begin_second(second);
        }
        if let Some(log) = &self.log {
            log.borrow_mut().turn(cx.now());
        }
    }

    /// Notes the time, and whose connection this call is for.
    #[inline]
    pub fn begin_call(&self, cx: &mut Cx<'_, impl Talk>) {
        self.look(cx);
        if let Some(log) = &self.log {
            let id = cx.id();
            log.borrow_mut().begin_call(cx.peer_address(id));
        }
    }

    /// From now on requests are under these rules; answers to those before keep theirs.
    pub fn set_rules(&self, rules: Rc<Book>) {
        let next = (self.generation.get() + 1) % GENERATIONS;
        self.has_rules.set(!rules.is_empty());
        self.rules.borrow_mut()[next] = rules;
        self.generation.set(next);
    }

    /// Those of now.
    pub fn rules(&self) -> Rc<Book> {
        self.rules.borrow()[self.generation.get()].clone()
    }

    /// Which field lines of the rules the answer to a request has.
    #[inline]
    pub fn matched(&self, head: &Head<'_>, whose: Whose) -> Matched {
        if !self.has_rules.get() {
            return Matched::NONE;
        }
        let generation = self.generation.get();
        let rules = self.rules.borrow();
        rules[generation].of(whose).map_or(Matched::NONE, |rules| rules.matched(head.target.path).of(generation))
    }

    /// Where the rules send a request instead.
    #[inline]
    pub fn location(&self, head: &Head<'_>, whose: Whose) -> Option<Vec<u8>> {
        if !self.has_rules.get() {
            return None;
        }
        self.rules.borrow()[self.generation.get()].of(whose)?.location(head)
    }

    /// Adds the field lines that the rules have for a request to the head of its answer.
    #[inline]
    pub fn put_fields(&self, head: &mut Vec<u8>, status: Status, facts: Facts) {
        if !facts.fields.is_none() {
            self.of(facts, |rules| rules.write(facts.fields, status, head));
        }
    }

    /// Whether the rules have a field line of this name for a request.
    #[inline]
    pub fn sets(&self, status: Status, facts: Facts, name: &[u8]) -> bool {
        !facts.fields.is_none() && self.of(facts, |rules| rules.sets(facts.fields, status, name)).unwrap_or(false)
    }

    /// The rules under which a request has come.
    fn of<R>(&self, facts: Facts, look: impl FnOnce(&Rules) -> R) -> Option<R> {
        self.rules.borrow()[facts.fields.generation()].of(facts.whose).map(look)
    }

    /// Adds field lines to the head of an answer, but those in whose place the rules have others. What stands behind an empty line is no field.
    pub fn put_lines(&self, head: &mut Vec<u8>, status: Status, facts: Facts, lines: &[u8]) {
        if facts.fields.is_none() {
            return head.extend_from_slice(lines);
        }
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
            if !self.sets(status, facts, name) {
                head.extend_from_slice(line);
            }
        }
    }

    /// Where answers are logged.
    #[inline]
    pub fn log(&self) -> Option<&Rc<RefCell<LaneLog>>> {
        self.log.as_ref()
    }

    /// Answers that are held for a time only.
    pub fn timed(&self) -> RefMut<'_, Timed> {
        self.timed.borrow_mut()
    }

    #[cold]
    fn begin_second(&self, second: u64) {
        let date = Date::from_unix_seconds(i64::try_from(second).unwrap_or(i64::MAX));
        self.date.set(date.text());
        if let Some(log) = &self.log {
            log.borrow_mut().look(date);
        }
        let mut usual = self.usual.borrow_mut();
        usual.clear();
        begin_head(&mut usual, &self.date.get(), Status::OK, Facts::USUAL);
    }

    /// Begins a head: all that does not depend on the application.
    #[inline]
    pub fn begin_head(&self, head: &mut Vec<u8>, status: Status, facts: Facts) {
        assert!(self.second.get() != u64::MAX, "the time of day is noted before anything is answered");
        let is_usual = status == Status::OK && facts.persists && !facts.is_old;
        match is_usual {
            true => head.extend_from_slice(&self.usual.borrow()),
            false => begin_head(head, &self.date.get(), status, facts),
        }
    }

    /// The same for an answer that another server has given, with the date that it gave it.
    pub fn begin_head_of(&self, head: &mut Vec<u8>, status: Status, facts: Facts, date: &[u8]) {
        begin_head(head, date, status, facts);
    }

    /// Empty memory for a head.
    pub fn take_memory(&self) -> Vec<u8> {
        self.head.take()
    }

    /// Keeps it for the next one.
    pub fn keep_memory(&self, mut memory: Vec<u8>) {
        if memory.capacity() <= HEAD_BYTES_KEPT {
            memory.clear();
            self.head.set(memory);
        }
    }

    /// An application is about to be called with a request.
    #[inline]
    pub fn begin_request(&self) {
        self.given.set(None);
        if let Some(log) = &self.log {
            log.borrow_mut().passed.clear();
        }
    }

    /// It has answered.
    #[inline]
    pub fn give(&self, given: Given) {
        self.given.set(Some(given));
    }

    /// What it has answered, whatever it says itself.
    pub fn take_given(&self) -> Option<Given> {
        self.given.take()
    }

    /// The answer that a connection holds is its last, unless another request comes; or it is not.
    pub fn note_last_held(&self, connection: ConnectionId, is_last: bool) {
        let mut last = self.last_held.borrow_mut();
        if is_last {
            last.insert(connection);
        } else if !last.is_empty() {
            last.remove(&connection);
        }
    }

    /// Whether that is so.
    pub fn is_last_held(&self, connection: ConnectionId) -> bool {
        self.last_held.borrow().contains(&connection)
    }

    /// What the answers come to that are kept.
    #[inline]
    pub fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Keeps an answer for which there was no memory.
    #[cold]
    pub fn keep_answer(&self, output: &Output, (bytes, behind, sent): (&[u8], Behind, Sent)) -> Done {
        self.unsent.set(Some(Unsent::keep(bytes, behind, output.peer_payer(), &self.backlog)));
        self.kept.set(self.kept.get() + 1);
        Done::Kept(sent)
    }

    /// Answers a request, for which nobody is called, with 503 (Service Unavailable), which takes no memory.
    #[cold]
    pub fn answer_unavailable(&self, output: &mut Output, facts: Facts) -> Answered {
        output.push(if facts.persists { UNAVAILABLE } else { UNAVAILABLE_AND_CLOSED });
        let status = Status::SERVICE_UNAVAILABLE.code();
        self.count_answer(status);
        Answered(Done::Written(Sent { status, bytes: 0 }))
    }

    /// Takes what was to be kept.
    pub fn take_unsent(&self) -> Unsent {
        // reason: who has answered so has put it there in the same call.
        self.unsent.take().expect("an answer that is kept is there")
    }

    /// How many answers were kept since the last call.
    pub fn take_kept(&self) -> usize {
        self.kept.take()
    }

    pub fn count_answer(&self, status: u16) {
        assert!((100..600).contains(&status), "a status is one");
        let count = &self.answers[usize::from(status / 100) - 1];
        count.set(count.get() + 1);
    }

    /// How many were answered since the last call, by the first digit of their status.
    pub fn take_answers(&self) -> [usize; 5] {
        [0, 1, 2, 3, 4].map(|class: usize| self.answers[class].take())
    }
}

/// The status line, and the field lines that all answers have.
fn begin_head(head: &mut Vec<u8>, date: &[u8], status: Status, facts: Facts) {
    let mut digits = [0; DIGITS_MAX];
    for part in [b"HTTP/1.1 ", decimal(status.code().into(), &mut digits), b" ", status.phrase().as_bytes(), b"\r\nDate: ", date]
    {
        head.extend_from_slice(part);
    }
    head.extend_from_slice(match (facts.persists, facts.is_old) {
        (true, false) => b"\r\n",
        (true, true) => b"\r\nConnection: keep-alive\r\n",
        (false, _) => b"\r\nConnection: close\r\n",
    });
}
