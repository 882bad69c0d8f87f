//! Operations: begun when they are submitted, carried on by whoever enters the queue when their socket is ready, or by a helper; each told once.

use corelane_os::events::descriptor::{self, Kind};
use corelane_os::events::moving;
use corelane_os::events::number;
use corelane_os::events::polling::Readiness;
use corelane_seam::slab::Key;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::operations::{Ending, List, Operation, Stage};
use super::parts::State;
use crate::helpers::{Helped, Job, Opened, Task, Tell};
use crate::interest::{Interest, Source};
use crate::operation::{Memory, OperationResult, Progress, ReadyFor, Sent, Submission, Work};
use crate::record::{Change, Filter, Flags};
use crate::refused::Refused;
use crate::spare;

/// Operations of one queue that are not over, or whose outcome nobody has taken.
const OPERATIONS: usize = 4096;
/// Bytes that one operation moves before others have their turn.
const TURN: usize = 256 << 10;

const FULL: Refused = Refused::new(
    number::EAGAIN,
    "a queue has at most 4,096 operations: wait for some to end, and take their outcomes, or use another queue",
);
const TAKEN: Refused =
    Refused::new(number::EEXIST, "an operation has this ident already: the caller gives another, or takes its outcome first");

/// What a look at the first of a line has shown.
enum Look {
    Waits,
    /// It has had its turn, and there may be more.
    Again,
    Over(Ending),
}

/// What an operation takes, and more.
const OPERATION_BYTES: usize = 1024;

impl State {
    /// Helpers tell `tell` what became of their work.
    pub fn have_helpers_tell(&mut self, tell: Tell) {
        self.operations.tell = Some(tell);
    }

    /// Begins an operation. What is refused comes back.
    pub fn submit(&mut self, submission: Submission) -> Result<(), (Refused, Submission)> {
        if let Err(refused) = self.check_room(std::slice::from_ref(&submission), 0) {
            return Err((refused, submission));
        }
        let key = self.enter(submission, None);
        let begun = self.begin_work(key);
        self.settle_bell();
        begun.map_err(|refused| (refused, self.withdraw(key)))
    }

    /// Begins operations whose common end is told, too (filter `Lio`). What cannot begin ends with its error.
    pub fn submit_list(&mut self, ident: u64, cookie: u64, list: Vec<Submission>) -> Result<(), (Refused, Vec<Submission>)> {
        let is_known = self.keys.contains_key(&(Filter::Lio.number(), ident));
        let room = if is_known { Err(TAKEN) } else { self.check_room(&list, 1) };
        if let Err(refused) = room {
            return Err((refused, list));
        }
        self.register_submitted(ident, Filter::Lio, cookie);
        self.operations.lists.insert(ident, List { left: list.len(), failed: 0, error: 0 });
        for submission in list {
            let key = self.enter(submission, Some(ident));
            if let Err(refused) = self.begin_work(key) {
                self.end_operation(key, Ending::of(refused.number));
            }
        }
        self.end_list_if_done(ident);
        self.settle_bell();
        Ok(())
    }

    /// Asks an operation to end where it is. It is told as any other.
    pub fn cancel(&mut self, ident: u64) -> Result<(), Refused> {
        let words = "no operation of this ident is under way: it has ended, or never began";
        let missing = Refused::new(number::ENOENT, words);
        let key = self.operations.by_ident(ident).ok_or(missing)?;
        match self.operations.all[key].stage {
            Stage::Ended(_) => return Err(missing),
            Stage::Helped(_) => self.operations.all[key].shared.cancelled.store(true, Ordering::Release),
            Stage::Waits(origin) | Stage::Connects(origin) => {
                self.leave_line(origin, key);
                self.end_operation(key, Ending::of(number::ECANCELED));
                self.settle_line(origin, false);
            }
            // reason: it is looked at before the lock is let go.
            Stage::New => unreachable!("what was submitted has begun or is over"),
        }
        self.settle_bell();
        Ok(())
    }

    /// Every operation is asked to end: the queue is closed.
    pub fn cancel_all(&mut self) {
        let idents: Vec<u64> = self.operations.idents.keys().copied().collect();
        for ident in idents {
            // One that has ended needs no end.
            let _ = self.cancel(ident);
        }
    }

    /// What became of an operation that was told: nobody else is told of it again.
    pub fn outcome(&mut self, ident: u64) -> Option<OperationResult> {
        let key = self.operations.by_ident(ident)?;
        let is_untold = self.keys.contains_key(&(Filter::Aio.number(), ident));
        if is_untold || !matches!(self.operations.all[key].stage, Stage::Ended(_)) {
            return None;
        }
        self.operations.idents.remove(&ident);
        // reason: it was looked at just now.
        let operation = self.operations.all.remove(key).expect("an operation is known by its ident");
        let Stage::Ended(ending) = operation.stage else { unreachable!("it is over, as was just seen") };
        let (done, memory) = (operation.done, operation.work.into_memory());
        Some(OperationResult { done, error: ending.error, is_end: ending.is_end, memory, accepted: ending.accepted })
    }

    /// From now on nobody takes outcomes.
    pub fn hand_over_outcomes(&mut self) {
        self.operations.are_handed_over = true;
    }

    /// An operation's end was told.
    pub(super) fn operation_was_told(&mut self, ident: u64) {
        if self.operations.are_handed_over
            && let Some(accepted) = self.outcome(ident).and_then(|outcome| outcome.accepted)
        {
            let _ = accepted.into_raw_fd();
        }
    }

    /// How far an operation has come that is not over, or was not told.
    pub fn progress(&self, ident: u64) -> Option<Progress> {
        let operation = &self.operations.all[self.operations.by_ident(ident)?];
        let done = operation.done.max(operation.shared.done.load(Ordering::Acquire));
        let is_over = matches!(operation.stage, Stage::Ended(_));
        Some(Progress { done, left: if is_over { 0 } else { operation.length.saturating_sub(done) } })
    }

    fn check_room(&self, list: &[Submission], more: usize) -> Result<(), Refused> {
        if self.operations.all.len() + self.operations.lists.len() + list.len() + more > OPERATIONS {
            return Err(FULL);
        }
        spare::check(spare::INTEREST + list.len() * OPERATION_BYTES)?;
        let is_taken =
            |ident: u64| self.operations.idents.contains_key(&ident) || self.keys.contains_key(&(Filter::Aio.number(), ident));
        let mut own = std::collections::BTreeSet::new();
        let is_double = list.iter().any(|submission| is_taken(submission.ident) || !own.insert(submission.ident));
        if is_double { Err(TAKEN) } else { Ok(()) }
    }

    /// The operation is known from now on, and its end will be told.
    fn enter(&mut self, submission: Submission, list: Option<u64>) -> Key {
        let Submission { ident, cookie, work } = submission;
        let (stage, length) = (Stage::New, work.length());
        let operation = Operation { ident, work, done: 0, length, stage, shared: Arc::default(), file: None, list };
        let key = self.operations.all.insert(operation);
        let before = self.operations.idents.insert(ident, key);
        assert!(before.is_none(), "an ident is one operation's");
        self.register_submitted(ident, Filter::Aio, cookie);
        key
    }

    fn register_submitted(&mut self, ident: u64, filter: Filter, cookie: u64) {
        let mut interest = Interest::new(&Change::add(ident, filter).cookie(cookie), Source::Submitted(None));
        interest.flags |= Flags::ONESHOT;
        let key = self.interests.insert(interest);
        let before = self.keys.insert((filter.number(), ident), key);
        assert!(before.is_none(), "an interest is registered once");
    }

    /// An operation that could not begin is forgotten.
    fn withdraw(&mut self, key: Key) -> Submission {
        // reason: it was entered just now.
        let operation = self.operations.all.remove(key).expect("it was entered");
        self.operations.idents.remove(&operation.ident);
        let interest = self.keys[&(Filter::Aio.number(), operation.ident)];
        let cookie = self.interests[interest].cookie;
        self.drop_interest(interest);
        Submission { ident: operation.ident, cookie, work: operation.work }
    }

    /// Begins an operation that was entered; it may be over by then.
    fn begin_work(&mut self, key: Key) -> Result<(), Refused> {
        let work = &self.operations.all[key].work;
        match (work.socket(), work.file()) {
            (Some((socket, way)), file) => {
                check_socket(socket, work)?;
                let file = file.map(open_file).transpose()?;
                self.operations.all[key].file = file.map(Arc::new);
                self.stand_in_line(key, socket, way)
            }
            (None, Some(file)) => {
                let file = open_file(file)?;
                self.begin_file(key, file)
            }
            // reason: every work has the one or the other.
            (None, None) => unreachable!("an operation works with a socket or a file"),
        }
    }

    /// The operation is the next of its socket's line; who stands alone is looked at.
    fn stand_in_line(&mut self, key: Key, socket: RawFd, way: ReadyFor) -> Result<(), Refused> {
        let origin = self.take_origin(socket)?;
        let line = &mut self.origins[origin].rest().lines[way as usize];
        line.push_back(key);
        let is_alone = line.len() == 1;
        self.operations.all[key].stage = Stage::Waits(origin);
        if is_alone {
            self.go_on(origin, way);
        }
        self.settle_line(origin, true);
        Ok(())
    }

    /// Carries on the operations of an origin that was reported as `what`.
    pub(super) fn carry_on(&mut self, origin: Key, what: Readiness) {
        if !self.is_alive(&self.origins[origin], false) {
            self.end_origin(origin);
            return;
        }
        let end = Readiness::ERR | Readiness::HUP;
        let mut again = false;
        for (way, readiness) in [(ReadyFor::In, Readiness::IN | Readiness::RDHUP), (ReadyFor::Out, Readiness::OUT)] {
            if what.intersects(readiness | end) {
                again |= self.go_on(origin, way);
            }
        }
        self.settle_line(origin, again);
    }

    /// Carries on what stands first in a line, until it waits. Whether it may go on at once.
    fn go_on(&mut self, origin: Key, way: ReadyFor) -> bool {
        let mut turn = TURN;
        while let Some(&key) = self.origins[origin].rest().lines[way as usize].front() {
            match self.look_at(key, origin, &mut turn) {
                Look::Waits => return false,
                Look::Again => return true,
                Look::Over(ending) => {
                    self.leave_line(origin, key);
                    self.end_operation(key, ending);
                }
            }
        }
        false
    }

    fn look_at(&mut self, key: Key, origin: Key, turn: &mut usize) -> Look {
        let (socket, kind) = (self.origins[origin].number, self.origins[origin].kind);
        let operation = &mut self.operations.all[key];
        match (&operation.stage, &mut operation.work) {
            (Stage::Helped(_), _) => Look::Waits,
            (Stage::Connects(_), _) => look_at_connection(socket),
            (_, Work::Receive { memory, at_least, .. }) => receive(socket, kind, memory, *at_least, &mut operation.done, turn),
            (_, Work::Send { memory, .. }) => send(socket, kind, memory, &mut operation.done, turn),
            (_, Work::Accept { .. }) => accept(socket),
            (_, Work::Connect { address, .. }) => match moving::connect(socket, address) {
                Err(number::EINPROGRESS) => {
                    operation.stage = Stage::Connects(origin);
                    Look::Waits
                }
                answer => Look::Over(Ending::of(answer.err().unwrap_or(0))),
            },
            (_, Work::SendFile { .. }) => self.let_helper_send(key, origin),
            // reason: what works with files alone stands in no line.
            _ => unreachable!("an operation in a line works with a socket"),
        }
    }

    /// A helper sends the next part of a file, if the socket has room.
    fn let_helper_send(&mut self, key: Key, origin: Key) -> Look {
        let socket = self.origins[origin].number;
        let ready = descriptor::readiness(socket, Readiness::OUT);
        let operation = &mut self.operations.all[key];
        let Work::SendFile { file, offset, length, .. } = &operation.work else { unreachable!("it sends a file") };
        let left = length.saturating_sub(operation.done);
        if ready.is_empty() || left == 0 {
            return if left == 0 { Look::Over(Ending::default()) } else { Look::Waits };
        }
        let opened = match (&operation.file, file) {
            (Some(file), _) => Opened::File(file.clone()),
            (None, Sent::Path(path)) => Opened::Path(path.clone()),
            // reason: what was given open was opened again when it was submitted.
            (None, Sent::Open(_)) => unreachable!("a file that was open is open"),
        };
        let offset = offset.saturating_add(operation.done);
        let task = match moving::duplicate(socket) {
            Ok(socket) => Task::Send { socket, file: opened, offset, length: left },
            Err(error) => return Look::Over(Ending::of(error)),
        };
        match self.give(key, task, Some(origin)) {
            Ok(()) => Look::Waits,
            Err(error) => Look::Over(Ending::of(error)),
        }
    }

    fn begin_file(&mut self, key: Key, file: OwnedFd) -> Result<(), Refused> {
        let operation = &mut self.operations.all[key];
        let take = |memory: &mut Memory| std::mem::replace(memory, Memory::Own(Vec::new()));
        let task = match &mut operation.work {
            Work::Read { memory, offset, .. } => Task::Read { file, memory: take(memory), offset: *offset },
            Work::Write { memory, offset, .. } => Task::Write { file, memory: take(memory), offset: *offset },
            _ => Task::Sync { file },
        };
        self.give(key, task, None).map_err(|error| Refused::new(error, "no helper thread can be started: allow the process more"))
    }

    /// A helper has the operation from now on; its memory stays what it was if there is no helper.
    fn give(&mut self, key: Key, task: Task, line: Option<Key>) -> Result<(), i32> {
        // reason: a queue says whom to tell when it is made.
        let tell = self.operations.tell.clone().expect("a queue hears of its helpers");
        let operation = &mut self.operations.all[key];
        operation.stage = Stage::Helped(line);
        let job = Job { operation: key, task, shared: operation.shared.clone() };
        self.operations.helpers.give(job, &tell).map_err(|(error, job)| {
            if let Task::Read { memory, .. } | Task::Write { memory, .. } = job.task {
                self.operations.all[key].restore(memory);
            }
            error
        })
    }

    /// A helper has done its part of an operation.
    pub fn helped(&mut self, key: Key, helped: Helped) {
        let operation = &mut self.operations.all[key];
        let Stage::Helped(line) = operation.stage else { unreachable!("who was helped had a helper") };
        if let Some(memory) = helped.memory {
            operation.restore(memory);
        }
        operation.file = helped.file.or(operation.file.take());
        operation.done = operation.done.max(operation.shared.done.load(Ordering::Acquire));
        match line {
            Some(origin) => self.note_sent(key, origin, helped.result),
            None => {
                let is_end = operation.done < operation.length;
                let error = helped.result.err().unwrap_or(0);
                self.end_operation(key, Ending { error, is_end: is_end && error == 0, accepted: None });
            }
        }
        self.settle_bell();
    }

    /// A helper has sent a part of a file, or could not.
    fn note_sent(&mut self, key: Key, origin: Key, result: Result<u64, i32>) {
        let operation = &mut self.operations.all[key];
        operation.stage = Stage::Waits(origin);
        let is_cancelled = operation.shared.cancelled.load(Ordering::Acquire);
        let ending = match result {
            Ok(sent) => {
                operation.done += sent;
                let is_over = operation.done == operation.length;
                (sent == 0 || is_over).then_some(Ending { is_end: !is_over, ..Ending::default() })
            }
            Err(number::EAGAIN) => None,
            Err(error) => Some(Ending::of(error)),
        };
        let ending = ending.or_else(|| is_cancelled.then(|| Ending::of(number::ECANCELED)));
        // Its socket may have been closed meanwhile: then the line is gone.
        let is_in_line = self.origins.get(origin).is_some();
        if let Some(ending) = ending.or_else(|| (!is_in_line).then(|| Ending::of(number::ECANCELED))) {
            if is_in_line {
                self.leave_line(origin, key);
            }
            self.end_operation(key, ending);
        }
        if is_in_line {
            self.settle_line(origin, true);
        }
    }

    /// The operation stands in its socket's line no more.
    fn leave_line(&mut self, origin: Key, key: Key) {
        let lines = &mut self.origins[origin].rest().lines;
        let before = lines[0].len() + lines[1].len();
        lines.iter_mut().for_each(|line| line.retain(|other| *other != key));
        assert!(lines[0].len() + lines[1].len() + 1 == before, "who leaves a line stood in it once");
    }

    /// The set is to tell what a socket's lines wait for; with `again`, anew. A socket of no interest is forgotten.
    fn settle_line(&mut self, origin: Key, again: bool) {
        if self.origins[origin].is_empty() {
            self.forget_unused(origin);
        } else if self.settle(origin, again).is_err() {
            self.end_origin(origin);
        }
    }
}

/// A socket of a kind and in a mode that the work needs.
fn check_socket(socket: RawFd, work: &Work) -> Result<(), Refused> {
    let (kind, _) = descriptor::identify(socket).map_err(Refused::system)?;
    if !matches!(kind, Kind::Stream | Kind::Datagrams) {
        return Err(Refused::new(number::ENOTSOCK, "this operation needs a socket: the caller gives another descriptor"));
    }
    if work.needs_nonblocking() && !moving::is_nonblocking(socket).map_err(Refused::system)? {
        let words = "accept, connect and sendfile need a socket that does not block: the caller sets O_NONBLOCK";
        return Err(Refused::new(number::EINVAL, words));
    }
    match work {
        Work::Accept { .. } if !descriptor::listens(socket) => {
            Err(Refused::new(number::EINVAL, "this socket takes no connections: the caller calls listen(2) first"))
        }
        _ => Ok(()),
    }
}

/// A regular file, kept open for the operation.
fn open_file(file: RawFd) -> Result<OwnedFd, Refused> {
    match descriptor::identify(file).map_err(Refused::system)? {
        (Kind::File, _) => moving::duplicate(file).map_err(Refused::system),
        _ => Err(Refused::new(number::EINVAL, "this operation needs a regular file: others may never answer")),
    }
}

fn look_at_connection(socket: RawFd) -> Look {
    if descriptor::readiness(socket, Readiness::OUT).is_empty() {
        return Look::Waits;
    }
    Look::Over(Ending::of(moving::take_error(socket).err().unwrap_or(0)))
}

fn accept(listener: RawFd) -> Look {
    match moving::accept(listener) {
        Ok(accepted) => Look::Over(Ending { accepted: Some(accepted), ..Ending::default() }),
        Err(number::EAGAIN) => Look::Waits,
        Err(error) => Look::Over(Ending::of(error)),
    }
}

fn receive(socket: RawFd, kind: Kind, memory: &mut Memory, at_least: usize, done: &mut u64, turn: &mut usize) -> Look {
    let place = memory.place();
    let enough = at_least.clamp(1, place.len().max(1)) as u64;
    while *done < place.len() as u64 {
        if *turn == 0 {
            return Look::Again;
        }
        let from = *done as usize;
        // A datagram comes whole.
        let most = if kind == Kind::Datagrams { place.len() } else { *turn };
        let to = place.len().min(from + most);
        match moving::receive(socket, &mut place[from..to]) {
            Ok(0) => return Look::Over(Ending { is_end: kind == Kind::Stream, ..Ending::default() }),
            Ok(bytes) => {
                *done += bytes as u64;
                *turn = turn.saturating_sub(bytes);
            }
            Err(number::EAGAIN) if *done < enough => return Look::Waits,
            Err(number::EAGAIN) => break,
            Err(error) => return Look::Over(Ending::of(error)),
        }
        if kind == Kind::Datagrams || *turn == 0 && *done >= enough {
            break;
        }
    }
    Look::Over(Ending::default())
}

fn send(socket: RawFd, kind: Kind, memory: &Memory, done: &mut u64, turn: &mut usize) -> Look {
    let bytes = memory.bytes();
    while *done < bytes.len() as u64 {
        if *turn == 0 {
            return Look::Again;
        }
        let from = *done as usize;
        // A datagram leaves whole.
        let most = if kind == Kind::Datagrams { bytes.len() } else { *turn };
        match moving::send(socket, &bytes[from..bytes.len().min(from + most)]) {
            Ok(sent) => {
                *done += sent as u64;
                *turn = turn.saturating_sub(sent);
            }
            Err(number::EAGAIN) => return Look::Waits,
            Err(error) => return Look::Over(Ending::of(error)),
        }
    }
    Look::Over(Ending::default())
}
