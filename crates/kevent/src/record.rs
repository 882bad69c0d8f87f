//! The record of 2007: what is asked for and what is told, in 40 bytes.

use std::os::fd::{AsRawFd, BorrowedFd};

use corelane_event::{Change, Event, Filter, Flags, Manner, Refused, notes};
use corelane_os::clock;
use corelane_os::events::number;

/// Words of a record in a ring.
pub const WORDS: usize = 5;

/// A `struct ukevent`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// What is waited for, by its kind: a descriptor, a signal, a time ([`Record::timer`]).
    pub id: u64,
    /// The number of a [`Kind`].
    pub kind: u32,
    /// Which events: [`events`], or the bits of poll(2). In a record that is told: those that have come.
    pub event: u32,
    /// How it behaves.
    pub request: Request,
    /// What is told of it.
    pub returned: Returned,
    /// What the origin says; [`Kind`] says what.
    pub data: [u32; 2],
    /// Comes back with each event.
    pub user: u64,
}

bitflags::bitflags! {
    /// How a kevent behaves (KEVENT_REQ_*).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(transparent)]
    pub struct Request: u32 {
        /// Told once, then removed.
        const ONESHOT = 0x1;
        /// Of all queues that wait for the origin all are woken, and not one.
        const WAKEUP_ALL = 0x2;
        /// Told once for each activity; else for as long as it is so.
        const ET = 0x4;
        /// Asked again when it is handed out (by a call), with what there is in `data`; else told as it was when its activity was reported.
        const LAST_CHECK = 0x8;
        /// What is ready when it is added is queued like what becomes so later, and is not in the answer.
        const ALWAYS_QUEUE = 0x10;
    }

    /// What is told of a kevent (KEVENT_RET_*).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(transparent)]
    pub struct Returned: u32 {
        /// Its origin has ended, or it was refused: the errno in the second word of `data`. It is registered no more.
        const BROKEN = 0x1;
        /// It was processed.
        const DONE = 0x2;
        /// Part of the original's numbers; never told, because memory is looked at before it is written.
        const COPY_FAILED = 0x4;
    }
}

/// Where events come from (KEVENT_*), and what `data` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Kind {
    /// A socket by its descriptor: which events; connections that wait (always), or bytes to receive (with [`Request::LAST_CHECK`]).
    Socket = 0,
    /// A directory by its descriptor: which events.
    Inode = 1,
    /// Seconds and nanoseconds in `id`, again and again unless [`Request::ONESHOT`]: milliseconds of the monotonic clock; expirations since told.
    Timer = 2,
    /// A descriptor: bits of poll(2). Checked always, as with [`Request::LAST_CHECK`].
    Poll = 3,
    /// The original's network operations; all operations are told as [`Kind::Aio`] here.
    NetworkAio = 4,
    /// An operation, by the number that it was submitted under ([`corelane_event::Queue::submit`]): bytes, or the connection that was accepted; its
    /// errno. With BROKEN after an error, and where the other end will send no more. Also what the program posts ([`corelane_event::Queue::post`]): data and notes.
    Aio = 5,
    /// A pipe by its descriptor: as a socket.
    Pipe = 6,
    /// A signal: how often it has come since told, in the second word.
    Signal = 7,
}

/// Events by kind (KEVENT_*).
pub mod events {
    /// A timer has fired.
    pub const FIRED: u32 = 0x1;
    /// A socket or pipe can be received from, or has been closed by the other end.
    pub const RECV: u32 = 0x1;
    /// A socket has connections to accept.
    pub const ACCEPT: u32 = 0x2;
    /// A socket or pipe can be sent to.
    pub const SEND: u32 = 0x4;
    /// A directory has a new entry.
    pub const CREATE: u32 = 0x1;
    /// A directory has lost an entry.
    pub const REMOVE: u32 = 0x2;
    /// A signal has come.
    pub const DELIVERED: u32 = 0x1;
    /// An operation is complete.
    pub const COMPLETE: u32 = 0x1;
    /// A list of operations is: how many of them failed, and the first errno.
    pub const LIST_COMPLETE: u32 = 0x2;
}

/// In a signal's `id`: it is not to be delivered in the usual way as well, which it never is.
pub const SIGNAL_NO_MASK: u64 = 1 << 63;

/// What poll(2) can be asked for, and what it tells unasked.
const POLLED: u32 = 0x23c7;
const POLL_ENDS: u32 = 0x18;

const SECOND: u64 = 1_000_000_000;

const KIND: Refused = invalid("this is no kind of kevent that can be added: the caller gives another type");
const EVENTS: Refused = invalid("these are no events of this kind: the caller gives others, and at least one");
const REQUEST: Refused = invalid("these are no request flags: the caller gives those of KEVENT_REQ_*");
const TIME: Refused =
    invalid("a timer's id is seconds and fewer than 1,000,000,000 nanoseconds, and not 0: the caller gives such a time");

const fn invalid(words: &'static str) -> Refused {
    Refused { number: number::EINVAL, words }
}

impl Kind {
    const ALL: [Self; 8] =
        [Self::Socket, Self::Inode, Self::Timer, Self::Poll, Self::NetworkAio, Self::Aio, Self::Pipe, Self::Signal];

    /// The kind of this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// The filter behind it.
    fn filter(self) -> Filter {
        match self {
            Self::Socket | Self::Pipe => Filter::Ready,
            Self::Inode => Filter::Vnode,
            Self::Timer => Filter::Timer,
            Self::Poll => Filter::Poll,
            Self::NetworkAio | Self::Aio => Filter::Aio,
            Self::Signal => Filter::Signal,
        }
    }

    /// The events that can be asked for.
    fn all_events(self) -> u32 {
        match self {
            Self::Socket => events::RECV | events::ACCEPT | events::SEND,
            Self::Pipe => events::RECV | events::SEND,
            Self::Inode => events::CREATE | events::REMOVE,
            Self::Poll => POLLED | POLL_ENDS,
            Self::Timer | Self::NetworkAio | Self::Aio | Self::Signal => 1,
        }
    }

    /// Whether it is told for as long as it is so, and not of what has come.
    pub(crate) fn is_level(self) -> bool {
        matches!(self, Self::Socket | Self::Pipe | Self::Poll)
    }
}

impl Record {
    /// A kevent of `kind` for these `events`.
    #[must_use]
    pub fn new(kind: Kind, id: u64, event: u32) -> Self {
        Self { id, kind: kind as u32, event, ..Self::default() }
    }

    /// A socket.
    #[must_use]
    pub fn socket(socket: BorrowedFd<'_>, event: u32) -> Self {
        Self::new(Kind::Socket, id_of(socket), event)
    }

    /// An end of a pipe.
    #[must_use]
    pub fn pipe(end: BorrowedFd<'_>, event: u32) -> Self {
        Self::new(Kind::Pipe, id_of(end), event)
    }

    /// A directory.
    #[must_use]
    pub fn directory(directory: BorrowedFd<'_>, event: u32) -> Self {
        Self::new(Kind::Inode, id_of(directory), event)
    }

    /// Anything that can be polled, for bits of poll(2).
    #[must_use]
    pub fn poll(descriptor: BorrowedFd<'_>, bits: u32) -> Self {
        Self::new(Kind::Poll, id_of(descriptor), bits)
    }

    /// A signal.
    #[must_use]
    pub fn signal(number: i32) -> Self {
        Self::new(Kind::Signal, number.unsigned_abs().into(), events::DELIVERED)
    }

    /// A timer.
    #[must_use]
    pub fn timer(seconds: u32, nanoseconds: u32) -> Self {
        Self::new(Kind::Timer, u64::from(seconds) | u64::from(nanoseconds) << 32, events::FIRED)
    }

    /// With these flags too.
    #[must_use]
    pub fn with(self, request: Request) -> Self {
        Self { request: self.request | request, ..self }
    }

    /// What comes back with each event.
    #[must_use]
    pub fn user(self, user: u64) -> Self {
        Self { user, ..self }
    }

    /// As it lies in a ring.
    #[must_use]
    pub fn to_words(&self) -> [u64; WORDS] {
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let flags = pair(self.request.bits(), self.returned.bits());
        [self.id, pair(self.kind, self.event), flags, pair(self.data[0], self.data[1]), self.user]
    }

    /// As it lay in a ring.
    #[must_use]
    pub fn from_words(words: [u64; WORDS]) -> Self {
        let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
        Self {
            id: words[0],
            kind: low(words[1]),
            event: high(words[1]),
            request: Request::from_bits_retain(low(words[2])),
            returned: Returned::from_bits_retain(high(words[2])),
            data: [low(words[3]), high(words[3])],
            user: words[4],
        }
    }

    /// Whether it stays told for as long as it is so: such a one lies in a ring once.
    pub(crate) fn is_level(&self) -> bool {
        let once = Request::ONESHOT | Request::ET;
        Kind::from_number(self.kind).is_some_and(Kind::is_level) && !self.request.intersects(once)
    }

    /// The core's ident and filter of what this names.
    pub(crate) fn name(&self) -> Result<(u64, Filter), Refused> {
        let kind = Kind::from_number(self.kind).ok_or(KIND)?;
        let ident = if kind == Kind::Signal { self.id & !SIGNAL_NO_MASK } else { self.id };
        Ok((ident, kind.filter()))
    }

    /// What is asked of the core.
    pub(crate) fn change(&self) -> Result<Change, Refused> {
        let (ident, filter) = self.name()?;
        // reason: it has just been found to be one.
        let kind = Kind::from_number(self.kind).expect("a kind");
        if kind == Kind::NetworkAio {
            return Err(KIND);
        }
        let asked = if kind == Kind::Poll { self.event & POLLED } else { self.event };
        if asked == 0 || self.event & !kind.all_events() != 0 {
            return Err(EVENTS);
        }
        if !Request::all().contains(self.request) {
            return Err(REQUEST);
        }
        let (notes, data) = self.notes(kind)?;
        let ext = [u64::from(self.kind) << 32 | u64::from(self.event), u64::from(self.request.bits()), self.id, 0];
        Ok(Change { flags: self.flags(kind), notes, data, cookie: self.user, ext, ..Change::add(ident, filter) })
    }

    fn flags(&self, kind: Kind) -> Flags {
        let pairs = [(Request::ONESHOT, Flags::ONESHOT), (Request::ET, Flags::CLEAR)];
        let given = pairs.iter().filter(|(request, _)| self.request.contains(*request));
        let own = if kind == Kind::Inode { Flags::CLEAR } else { Flags::empty() };
        given.fold(Flags::ADD | own, |all, (_, flag)| all | *flag)
    }

    /// The filter's notes and data.
    fn notes(&self, kind: Kind) -> Result<(u32, i64), Refused> {
        match kind {
            Kind::Timer => Ok((notes::NSECONDS, period(self.id)?)),
            Kind::Inode => Ok((entries(self.event), 0)),
            _ => Ok((self.event, 0)),
        }
    }

    pub(crate) fn manner(&self) -> Manner {
        let checked = self.request.contains(Request::LAST_CHECK) || self.kind == Kind::Poll as u32;
        let given = [
            (!checked, Manner::UNCHECKED),
            (!self.request.contains(Request::WAKEUP_ALL), Manner::EXCLUSIVE),
            (self.request.contains(Request::ALWAYS_QUEUE), Manner::QUEUED),
        ];
        given.iter().filter(|(is, _)| *is).fold(Manner::BROKEN, |all, (_, manner)| all | *manner)
    }

    /// What the core tells.
    pub(crate) fn of(event: &Event) -> Self {
        let registered = Self::registered(event);
        let ended = event.filter == Filter::Aio && event.flags.contains(Flags::EOF);
        let broken = if ended { Returned::BROKEN } else { Returned::empty() };
        let told = Self { returned: Returned::DONE | broken, ..registered };
        if event.flags.contains(Flags::ERROR) {
            return told.refused(event.data as i32);
        }
        // reason: it is made from a kind.
        let kind = Kind::from_number(told.kind).expect("the kind of an event");
        let seen = match kind {
            Kind::Inode => events_of(event.notes),
            Kind::Socket | Kind::Pipe | Kind::Poll => event.notes,
            _ => 0,
        };
        // What was marked ready is told whole.
        let told = Self { event: if seen == 0 { told.event } else { seen }, ..told };
        let words = match kind {
            Kind::Timer => [clock::now() / 1_000_000, event.data.unsigned_abs()],
            Kind::NetworkAio | Kind::Aio => [event.data as u64, u64::from(event.notes)],
            Kind::Signal => [0, event.data.unsigned_abs()],
            _ => [u64::from(told.event), event.data.unsigned_abs()],
        };
        // Of each the lower half is told, as the record has it.
        Self { data: words.map(|word| word as u32), ..told }
    }

    /// What was asked for, of an event that comes of it; of a completion, what its filter says.
    fn registered(event: &Event) -> Self {
        let kind = (event.ext[0] >> 32) as u32;
        match event.filter {
            Filter::Aio | Filter::Lio if event.ext == [0; 4] => {
                let complete = if event.filter == Filter::Aio { events::COMPLETE } else { events::LIST_COMPLETE };
                Self::new(Kind::Aio, event.ident, complete).user(event.cookie)
            }
            _ => {
                let request = Request::from_bits_retain(event.ext[1] as u32);
                let (id, events) = (event.ext[2], event.ext[0] as u32);
                Self { id, kind, event: events, request, user: event.cookie, ..Self::default() }
            }
        }
    }

    /// As one that was refused.
    pub(crate) fn refused(self, error: i32) -> Self {
        Self { returned: Returned::BROKEN | Returned::DONE, data: [self.data[0], error.unsigned_abs()], ..self }
    }
}

/// An open descriptor as an id.
fn id_of(descriptor: BorrowedFd<'_>) -> u64 {
    let number = descriptor.as_raw_fd();
    assert!(number >= 0, "an open descriptor has a number");
    number.unsigned_abs().into()
}

/// Nanoseconds of a timer's id.
fn period(id: u64) -> Result<i64, Refused> {
    let (seconds, nanoseconds) = (id & u64::from(u32::MAX), id >> 32);
    if nanoseconds >= SECOND || id == 0 {
        return Err(TIME);
    }
    // reason: 2^32 seconds are fewer nanoseconds than 2^63.
    Ok(i64::try_from(seconds * SECOND + nanoseconds).expect("136 years"))
}

/// Notes of a directory for these events.
fn entries(asked: u32) -> u32 {
    let pairs = [(events::CREATE, notes::ENTRY_CREATED), (events::REMOVE, notes::ENTRY_REMOVED)];
    pairs.iter().filter(|(event, _)| asked & event != 0).fold(0, |all, (_, note)| all | note)
}

/// The events that notes of a directory stand for.
fn events_of(told: u32) -> u32 {
    let pairs = [(notes::ENTRY_CREATED, events::CREATE), (notes::ENTRY_REMOVED, events::REMOVE)];
    pairs.iter().filter(|(note, _)| told & note != 0).fold(0, |all, (_, event)| all | event)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_40_bytes_and_comes_back_from_a_ring_as_it_was() {
        assert_eq!(size_of::<Record>(), 8 * WORDS);
        let record = Record {
            id: u64::MAX - 1,
            kind: 6,
            event: 5,
            request: Request::ET | Request::WAKEUP_ALL,
            returned: Returned::DONE,
            data: [7, u32::MAX],
            user: 1 << 63,
        };
        assert_eq!(Record::from_words(record.to_words()), record);
    }

    #[test]
    fn what_can_never_be_is_refused() {
        let refused = |record: Record| record.change().map(|_| ()).unwrap_err();
        assert_eq!(refused(Record { kind: 8, event: 1, ..Record::default() }), KIND, "posix timers are the kernel's");
        assert_eq!(refused(Record::new(Kind::NetworkAio, 1, 1)), KIND);
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::NetworkAio) {
            assert_eq!(refused(Record::new(kind, 1, 0)), EVENTS, "{kind:?}");
            assert_eq!(refused(Record::new(kind, 1, 1 << 31)), EVENTS, "{kind:?}");
            let flags = Request::from_bits_retain(0x20);
            assert_eq!(refused(Record::new(kind, 1, 1).with(flags)), REQUEST, "{kind:?}");
        }
        assert_eq!((refused(Record::timer(0, 0)), refused(Record::timer(1, 1_000_000_000))), (TIME, TIME));
        assert_eq!(period(Record::timer(u32::MAX, 999_999_999).id), Ok(4_294_967_295_999_999_999));
    }
}
