//! How things stand now: what an interest's origin says of itself when it is asked, at retrieval.
//!
//! All but the most frequent question, for bytes of a socket or pipe, are functions that are never inlined: the way of that one stays short (468 instructions an
//! event, and not 475: `cargo xtask bench event --only event-instructions`).

use corelane_os::events::descriptor::{self, Kind};
use corelane_os::events::number;
use corelane_os::events::polling::Readiness;
use corelane_os::events::process;

use super::origin::Origin;
use super::parts::State;
use crate::interest::{Interest, Source, Told};
use crate::pending;
use crate::record::{Filter, Flags, Manner, notes};
use crate::signals::Counts;

/// What is asked of a descriptor whose readiness was not reported just now.
const ANY: Readiness = Readiness::IN.union(Readiness::OUT).union(Readiness::RDHUP);

/// What an origin answers.
pub(super) enum Answer {
    /// There is nothing to tell.
    Nothing,
    /// There is nothing to tell although the descriptor is ready, and will be.
    Idle,
    /// So things stand.
    Told(Told),
}

fn told(notes: u32, data: i64) -> Answer {
    Answer::Told(Told { notes, data, flags: Flags::empty() })
}

impl State {
    /// What there is to tell to an interest, whose origin `origin` is if it has one.
    #[inline]
    pub(super) fn ask(&self, interest: &Interest, origin: Option<&Origin>, counts: &Counts) -> Answer {
        match (&interest.source, origin) {
            (Source::Descriptor(_), Some(origin)) => self.ask_descriptor(interest, origin),
            // A child that is followed is told as such first: its end has another number to tell.
            (Source::Process { came, parent, .. }, _) if came & notes::CHILD != 0 => told(*came, i64::from(*parent)),
            (Source::Process { came, status, .. }, Some(origin)) => match self.ask_process(interest, origin, *status) {
                Answer::Told(ended) => Answer::Told(Told { notes: ended.notes | came, ..ended }),
                _ if *came != 0 => told(*came, 0),
                nothing => nothing,
            },
            (Source::File(_, came), _) if *came != 0 => told(*came, 0),
            (source, _) => self.ask_itself(interest, source, counts),
        }
    }

    /// What came to an interest that has no descriptor's origin.
    #[inline(never)]
    fn ask_itself(&self, interest: &Interest, source: &Source, counts: &Counts) -> Answer {
        match source {
            Source::Timer(timing) if timing.fired && interest.flags.contains(Flags::ONESHOT) => told(0, 1),
            Source::Timer(timing) if timing.fired => {
                let now = self.timers[usize::from(timing.wall)].now();
                told(0, i64::try_from(timing.expirations(now)).unwrap_or(i64::MAX))
            }
            Source::Signal(seen) if counts[interest.ident as usize] > *seen => {
                told(0, (counts[interest.ident as usize] - seen) as i64)
            }
            Source::User(trigger) if trigger.on => told(trigger.bits, trigger.data),
            Source::Posted(Some((notes, data))) => told(*notes, *data),
            Source::Ended => {
                let flags = Flags::ERROR | Flags::ONESHOT;
                Answer::Told(Told { notes: 0, data: i64::from(number::EBADF), flags })
            }
            Source::Submitted(Some(ended)) => Answer::Told(*ended),
            _ => Answer::Nothing,
        }
    }

    #[inline]
    fn ask_descriptor(&self, interest: &Interest, origin: &Origin) -> Answer {
        let ready = || self.reported(origin).unwrap_or_else(|| descriptor::readiness(origin.number, ANY));
        match interest.filter {
            Filter::Read if origin.kind == Kind::File => ask_file(interest, origin),
            Filter::Read | Filter::Write if origin.is_always_ready => told(0, 0),
            Filter::Read => ask_read(interest, origin, ready()),
            Filter::Write => ask_write(interest, origin, ready()),
            Filter::Empty => ask_empty(origin),
            Filter::Except => ask_except(interest, origin, self.reported(origin)),
            Filter::Ready | Filter::Poll => ask_mask(interest, origin, self.reported(origin)),
            _ => self.ask_process(interest, origin, None),
        }
    }

    /// A process has ended: told with its status, once. `heard` is what the connector has said of it.
    #[inline(never)]
    fn ask_process(&self, interest: &Interest, origin: &Origin, heard: Option<i32>) -> Answer {
        let ready = self.reported(origin).unwrap_or_else(|| descriptor::readiness(origin.number, ANY));
        if !ready.contains(Readiness::IN) || interest.notes & notes::EXIT == 0 {
            return Answer::Nothing;
        }
        let will_be_heard = interest.filter == Filter::Process && self.heard_processes.is_some();
        match process::status(origin.number).or(heard.map(i64::from)) {
            // Another's child, which has ended just now: the connector is about to say with what.
            None if will_be_heard => Answer::Idle,
            known => {
                let flags = Flags::EOF | Flags::ONESHOT;
                Answer::Told(Told { notes: notes::EXIT, data: known.unwrap_or(0), flags })
            }
        }
    }
}

/// Bytes between where the program reads and the file's end.
#[inline(never)]
fn ask_file(interest: &Interest, origin: &Origin) -> Answer {
    let size = descriptor::file_state(origin.number).map_or(0, |state| state.size);
    let left = size - descriptor::offset(origin.number).unwrap_or(size);
    if left != 0 || interest.notes & notes::FILE_POLL != 0 { told(0, left) } else { Answer::Nothing }
}

/// A socket that was never connected has hung up, and nothing else.
fn is_unconnected(kind: Kind, ready: Readiness) -> bool {
    kind == Kind::Stream && ready.contains(Readiness::HUP) && !ready.intersects(Readiness::IN | Readiness::RDHUP | Readiness::ERR)
}

fn ask_read(interest: &Interest, origin: &Origin, ready: Readiness) -> Answer {
    if origin.listens.get()
        && ready.contains(Readiness::IN)
        && let Some(answer) = ask_listener(origin)
    {
        return answer;
    }
    let bytes = descriptor::readable_bytes(origin.number);
    let Some(mut bytes) = bytes else { return ask_uncounted(interest, origin, ready) };
    if is_unconnected(origin.kind, ready) {
        return Answer::Idle;
    }
    // A pipe whose writers are gone hangs up, a connection whose peer has finished says so. A pipe's other end has an error where its readers are gone.
    let ended = ready.intersects(Readiness::RDHUP | Readiness::HUP | Readiness::ERR);
    if bytes == 0 && !ended {
        if !is_still(origin, Readiness::IN) {
            return Answer::Nothing;
        }
        // What came since the bytes were counted; still none for a datagram of no bytes.
        bytes = descriptor::readable_bytes(origin.number).unwrap_or(0);
    }
    if !ended && !ready.contains(Readiness::IN) {
        return Answer::Nothing;
    }
    if origin.kind == Kind::Datagrams && interest.flags.contains(Flags::CLEAR) {
        bytes = all_datagrams(origin, bytes);
    }
    // A datagram may be of no bytes.
    let enough = bytes >= interest.low_water() || interest.low_water() <= 1;
    match (ended, enough) {
        (true, _) => ended_told(origin, ready, if is_abandoned(origin, ready) { 0 } else { bytes }),
        (false, true) => told(0, bytes),
        (false, false) => Answer::Idle,
    }
}

/// What is read of a pipe's end for writing, whose readers are gone, is nothing: the bytes that it holds are lost.
fn is_abandoned(origin: &Origin, ready: Readiness) -> bool {
    origin.kind == Kind::Pipe && ready.contains(Readiness::ERR)
}

/// The least memory that a datagram is charged with, of no bytes: what the kernel needs to know of it.
const DATAGRAM: i64 = 512;

/// Bytes of all datagrams that wait, at least. Who is told once reads on until it has read as much, or there is no more; how much there is the kernel knows of the first alone,
/// so it is told what memory all of them take. A local socket's are charged to who sent them: there may be as much as its buffer holds.
#[inline(never)]
fn all_datagrams(origin: &Origin, first: i64) -> i64 {
    match descriptor::socket_memory(origin.number) {
        Some(memory) if memory.received == 0 => first.max(memory.receive_buffer),
        Some(memory) if memory.received >= 2 * DATAGRAM => first.max(memory.received),
        _ => first,
    }
}

/// A connection or a datagram socket has an error; the error of a pipe is the other end's absence.
fn is_broken(origin: &Origin, ready: Readiness) -> bool {
    ready.contains(Readiness::ERR) && matches!(origin.kind, Kind::Stream | Kind::Datagrams)
}

/// Whether a descriptor is ready now, whatever was reported.
fn is_still(origin: &Origin, what: Readiness) -> bool {
    descriptor::readiness(origin.number, what).intersects(what)
}

/// What is read in other units than bytes: connections, and the kernel's own objects.
#[inline(never)]
fn ask_uncounted(interest: &Interest, origin: &Origin, ready: Readiness) -> Answer {
    if !ready.contains(Readiness::IN) {
        let ended = ready.intersects(Readiness::HUP | Readiness::ERR) && !is_unconnected(origin.kind, ready);
        return if ended { ended_told(origin, ready, 0) } else { Answer::Nothing };
    }
    if origin.kind == Kind::Stream
        && let Some(answer) = ask_listener(origin)
    {
        return answer;
    }
    if !is_still(origin, Readiness::IN) {
        return Answer::Nothing;
    }
    // Sockets whose datagrams are not counted in bytes, as those of netlink(7).
    if origin.kind == Kind::Datagrams && interest.flags.contains(Flags::CLEAR) {
        return told(0, all_datagrams(origin, 1));
    }
    if interest.low_water() <= 1 { told(0, counted(origin)) } else { Answer::Idle }
}

/// Connections that wait at a socket that listens; none where it does not. The next time this is asked first: a socket seldom ceases to listen.
#[inline(never)]
fn ask_listener(origin: &Origin) -> Option<Answer> {
    let waiting = waiting(origin);
    origin.listens.set(waiting.is_some());
    waiting.map(|waiting| if waiting > 0 { told(0, waiting) } else { Answer::Nothing })
}

/// Connections that wait, one where nobody counts: there is one at least; none where the socket does not listen.
fn waiting(origin: &Origin) -> Option<i64> {
    match descriptor::tcp(origin.number) {
        Some(tcp) if tcp.listens => Some(tcp.waiting),
        _ => descriptor::listens(origin.number).then(|| descriptor::local_backlog(origin.number).unwrap_or(1)),
    }
}

/// Events of a queue, as far as it knows of them itself: what only the kernel knows counts as one. Of other objects there is one.
fn counted(origin: &Origin) -> i64 {
    let pending = if origin.kind == Kind::Nameless { pending::of(origin.number) } else { None };
    pending.map_or(1, |pending| pending.max(1) as i64)
}

#[inline(never)]
fn ask_write(interest: &Interest, origin: &Origin, ready: Readiness) -> Answer {
    // What was reported need not say whether a peer was ever there.
    let hung_up = ready.contains(Readiness::HUP);
    let ready = if hung_up { descriptor::readiness(origin.number, ANY) } else { ready };
    if is_unconnected(origin.kind, ready) {
        return Answer::Idle;
    }
    if ready.intersects(Readiness::HUP | Readiness::ERR) {
        // A pipe that nobody reads takes nothing, whatever room it has.
        let space = if origin.kind == Kind::Pipe { 0 } else { space(origin, ready) };
        return ended_told(origin, ready, space);
    }
    if !ready.contains(Readiness::OUT) {
        return Answer::Nothing;
    }
    let space = space(origin, ready);
    if space >= interest.low_water() { told(0, space) } else { Answer::Idle }
}

/// Bytes that a descriptor takes now; at least one where it is ready.
fn space(origin: &Origin, ready: Readiness) -> i64 {
    let space = match origin.kind {
        Kind::Stream | Kind::Datagrams => descriptor::socket_memory(origin.number).map(|memory| memory.send_buffer - memory.sent),
        Kind::Pipe => {
            descriptor::pipe_size(origin.number).and_then(|size| Some(size - descriptor::readable_bytes(origin.number)?))
        }
        _ => None,
    };
    space.unwrap_or(0).max(i64::from(ready.contains(Readiness::OUT)))
}

/// Which of the bits asked for are true, as reported where that is to do.
#[inline(never)]
fn ask_mask(interest: &Interest, origin: &Origin, reported: Option<Readiness>) -> Answer {
    let wanted = interest.needs();
    let is_checked = !interest.manner.contains(Manner::UNCHECKED);
    let reported = reported.filter(|_| !is_checked);
    let ready = reported.unwrap_or_else(|| descriptor::readiness(origin.number, wanted));
    let ready = ready & (wanted | Readiness::ERR | Readiness::HUP);
    if wanted.contains(Readiness::IN) && is_unconnected(origin.kind, ready) {
        return Answer::Idle;
    }
    match interest.filter {
        _ if ready.is_empty() => Answer::Nothing,
        Filter::Poll => told(ready.bits(), 0),
        _ => ask_ready(interest, interest.notes & ready_notes(ready), origin, is_checked),
    }
}

/// Notes of [`Filter::Ready`] that are true of a descriptor that is `ready`; an end is of interest to all.
fn ready_notes(ready: Readiness) -> u32 {
    let ended = ready.intersects(Readiness::ERR | Readiness::HUP);
    let receives = ended || ready.intersects(Readiness::IN | Readiness::RDHUP);
    let sends = ended || ready.contains(Readiness::OUT);
    let receiving = if receives { notes::RECV | notes::ACCEPT } else { 0 };
    receiving | if sends { notes::SEND } else { 0 }
}

/// With how many connections wait, or bytes, where it is looked at.
fn ask_ready(interest: &Interest, ready: u32, origin: &Origin, is_checked: bool) -> Answer {
    let accepts = ready & notes::ACCEPT != 0 && origin.kind == Kind::Stream;
    match (ready, if accepts { waiting(origin) } else { None }) {
        (0, _) => Answer::Idle,
        (_, Some(0)) => Answer::Nothing,
        (_, Some(waiting)) => told(ready, waiting),
        _ if is_checked && ready & notes::RECV != 0 => {
            let bytes = descriptor::readable_bytes(origin.number).unwrap_or(0);
            let once = origin.kind == Kind::Datagrams && interest.flags.contains(Flags::CLEAR);
            told(ready, if once { all_datagrams(origin, bytes) } else { bytes })
        }
        _ => told(ready, 0),
    }
}

/// Urgent data, if that was asked for. How many bytes lie before it nobody says.
#[inline(never)]
fn ask_except(interest: &Interest, origin: &Origin, reported: Option<Readiness>) -> Answer {
    let wanted = interest.needs();
    let ready = reported.unwrap_or_else(|| descriptor::readiness(origin.number, wanted));
    if ready.intersects(wanted) { told(notes::OOB, 0) } else { Answer::Nothing }
}

#[inline(never)]
fn ask_empty(origin: &Origin) -> Answer {
    match descriptor::unsent_bytes(origin.number) {
        Some(1..) => Answer::Nothing,
        _ => told(0, 0),
    }
}

/// Nothing more will come, or can be sent: with the error that ended it, or 0.
#[inline(never)]
fn ended_told(origin: &Origin, ready: Readiness, data: i64) -> Answer {
    let error = if is_broken(origin, ready) { inferred_error(origin, ready) } else { 0 };
    Answer::Told(Told { notes: error as u32, data, flags: Flags::EOF })
}

/// Which error a socket has, by what its state shows: SO_ERROR would take it from the program.
fn inferred_error(origin: &Origin, ready: Readiness) -> i32 {
    if origin.kind == Kind::Datagrams {
        return number::ECONNREFUSED;
    }
    match descriptor::tcp(origin.number) {
        Some(tcp) if tcp.was_connected => number::ECONNRESET,
        Some(tcp) if tcp.heard > 0 => number::ECONNREFUSED,
        Some(tcp) if tcp.retransmitted > 0 => number::ETIMEDOUT,
        Some(_) if ready.contains(Readiness::HUP) => number::EHOSTUNREACH,
        _ => number::ECONNRESET,
    }
}
