//! What is asked of a queue and what it tells: changes and events, with the numbers of FreeBSD's `sys/event.h`.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// What of an origin is of interest (kqueue(2), EVFILT_*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i16)]
pub enum Filter {
    /// A descriptor can be read from.
    Read = -1,
    /// A descriptor can be written to.
    Write = -2,
    /// An asynchronous operation on a file is complete.
    Aio = -3,
    /// A file or directory has changed.
    Vnode = -4,
    /// A process, by its id, has done something.
    Process = -5,
    /// A signal has come.
    Signal = -6,
    /// Time has passed.
    Timer = -7,
    /// A process, by its descriptor (pidfd_open(2)), has done something.
    ProcessDescriptor = -8,
    /// A list of asynchronous operations on files is complete.
    Lio = -10,
    /// The program says so.
    User = -11,
    /// All that was written to a socket has left.
    Empty = -13,
    /// A socket has got what is urgent ([`notes::OOB`]): OpenBSD's and DragonFly's, under a number that FreeBSD does not use.
    Except = -32,
    /// A socket or pipe is ready for any of what `notes` ask for ([`notes::RECV`], [`notes::ACCEPT`], [`notes::SEND`]): kevent's of 2007.
    Ready = -64,
    /// A descriptor is ready for any of the bits of poll(2) in `notes`: kevent's of 2007.
    Poll = -65,
}

impl Filter {
    /// The filter of this number; none where FreeBSD has none, or only reserves it (FS, SENDFILE): EINVAL.
    #[must_use]
    pub fn from_number(number: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|filter| *filter as i16 == number)
    }

    /// Its number in `sys/event.h`.
    #[must_use]
    pub fn number(self) -> i16 {
        self as i16
    }

    /// Whether its ident is the number of an open descriptor.
    #[must_use]
    pub fn of_descriptor(self) -> bool {
        matches!(
            self,
            Self::Read
                | Self::Write
                | Self::Vnode
                | Self::ProcessDescriptor
                | Self::Empty
                | Self::Except
                | Self::Ready
                | Self::Poll
        )
    }

    const ALL: [Self; 12] = [
        Self::Read,
        Self::Write,
        Self::Aio,
        Self::Vnode,
        Self::Process,
        Self::Signal,
        Self::Timer,
        Self::ProcessDescriptor,
        Self::Lio,
        Self::User,
        Self::Empty,
        Self::Except,
    ];
}

bitflags::bitflags! {
    /// What is to be done, and how an interest behaves; in an event, what it says of itself (kqueue(2), EV_*).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u16 {
        /// Register, or update what is registered; enabled in both cases, unless DISABLE is given too.
        const ADD = 0x1;
        /// Remove the interest.
        const DELETE = 0x2;
        /// Tell of it (again).
        const ENABLE = 0x4;
        /// Keep it and let it become active, but do not tell.
        const DISABLE = 0x8;
        /// Tell once, then remove.
        const ONESHOT = 0x10;
        /// Told once for each activity: what was told is set back.
        const CLEAR = 0x20;
        /// The change is always answered, with `ERROR` and 0 in `data` (a matter of the C face).
        const RECEIPT = 0x40;
        /// Tell once, then disable.
        const DISPATCH = 0x80;
        /// `ONESHOT`, and active at once.
        const FORCEONESHOT = 0x100;
        /// The cookie stays what it is, whatever the change says of it; not with `ADD`.
        const KEEPUDATA = 0x200;
        /// Kept with the interest and told with its events; FreeBSD's filters have uses of their own for it.
        const FLAG1 = 0x2000;
        /// Active events are discarded in silence.
        const DROP = 0x1000;
        /// The event tells of an error: its number in `data`.
        const ERROR = 0x4000;
        /// The origin has ended: nothing more will come.
        const EOF = 0x8000;
    }
}

bitflags::bitflags! {
    /// How an interest behaves that kevent of 2007 has and kqueue(2) has not ([`Queue::register`](crate::Queue::register)). Without any: as in kqueue(2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Manner: u8 {
        /// `Ready`, `Poll`: told as the set has reported it, without asking the descriptor: no system call an event.
        const UNCHECKED = 0x1;
        /// Of all queues that wait for an origin in this manner one is woken (EPOLLEXCLUSIVE), where the kernel can.
        const EXCLUSIVE = 0x2;
        /// What is ready at registration is told by take, and not in the answer to the registration.
        const QUEUED = 0x4;
        /// The end of its origin is told: an event with `ERROR`, and EBADF in `data`.
        const BROKEN = 0x8;
    }
}

/// Notes: flags of one filter (kqueue(2), NOTE_*), with FreeBSD's values. What a number means depends on the filter.
pub mod notes {
    /// `Read`, `Write`: active from `data` bytes on (low-water mark).
    pub const LOWAT: u32 = 0x1;
    /// `Read` of a file: always active.
    pub const FILE_POLL: u32 = 0x2;
    /// `Except`: urgent data (tcp(7)).
    pub const OOB: u32 = 0x4;

    /// `User`: the lower 24 bits belong to the program.
    pub const FLAGS_MASK: u32 = 0x00ff_ffff;
    /// `User`: which of the following four is asked for.
    pub const CONTROL_MASK: u32 = 0xc000_0000;
    /// `User`: leave the program's bits.
    pub const NOP: u32 = 0;
    /// `User`: and the program's bits with those given.
    pub const AND: u32 = 0x4000_0000;
    /// `User`: or them.
    pub const OR: u32 = 0x8000_0000;
    /// `User`: take those given.
    pub const COPY: u32 = 0xc000_0000;
    /// `User`: activate.
    pub const TRIGGER: u32 = 0x0100_0000;

    /// `Vnode`: the file's last name was removed (by its link count: inotify(7) itself waits for the last close).
    pub const DELETE: u32 = 0x1;
    /// `Vnode`: written to.
    pub const WRITE: u32 = 0x2;
    /// `Vnode`: has become longer; a directory: an entry was added or removed.
    pub const EXTEND: u32 = 0x4;
    /// `Vnode`: attributes have changed.
    pub const ATTRIB: u32 = 0x8;
    /// `Vnode`: the link count has changed.
    pub const LINK: u32 = 0x10;
    /// `Vnode`: renamed.
    pub const RENAME: u32 = 0x20;
    /// `Vnode`: the file system was unmounted.
    pub const REVOKE: u32 = 0x40;
    /// `Vnode`: opened.
    pub const OPEN: u32 = 0x80;
    /// `Vnode`: closed by somebody who could not write.
    pub const CLOSE: u32 = 0x100;
    /// `Vnode`: closed by somebody who could write.
    pub const CLOSE_WRITE: u32 = 0x200;
    /// `Vnode`: read.
    pub const READ: u32 = 0x400;
    /// `Vnode`: it has shrunk; OpenBSD's, under a number that FreeBSD does not use.
    pub const TRUNCATE: u32 = 0x800;
    /// `Vnode` of a directory: entries have changed, whose names are kept for [`Queue::names`](crate::Queue::names). Not FreeBSD's.
    pub const NAMES: u32 = 0x0100_0000;

    /// `Vnode` of a directory: has a new entry, or one under a new name. Not in FreeBSD.
    pub const ENTRY_CREATED: u32 = 0x1000_0000;
    /// `Vnode` of a directory: has lost an entry, or its name. Not in FreeBSD.
    pub const ENTRY_REMOVED: u32 = 0x2000_0000;

    /// `Process`: has ended; `data` is its wait status (wait(2)).
    pub const EXIT: u32 = 0x8000_0000;
    /// `Process`: has forked.
    pub const FORK: u32 = 0x4000_0000;
    /// `Process`: has started another program.
    pub const EXEC: u32 = 0x2000_0000;
    /// `Process`: its children are followed too.
    pub const TRACK: u32 = 0x1;
    /// `Process`, told: a child could not be followed.
    pub const TRACKERR: u32 = 0x2;
    /// `Process`, told: this is a followed child; `data` is its parent.
    pub const CHILD: u32 = 0x4;
    /// `Process`: the part of an event's notes that belongs to the kind of activity.
    pub const PCTRLMASK: u32 = 0xf000_0000;

    /// `Ready`: bytes can be received, or will never be.
    pub const RECV: u32 = 0x1;
    /// `Ready`: a connection can be accepted.
    pub const ACCEPT: u32 = 0x2;
    /// `Ready`: bytes can be sent.
    pub const SEND: u32 = 0x4;

    /// `Timer`: `data` is in seconds.
    pub const SECONDS: u32 = 0x1;
    /// `Timer`: in milliseconds, which is the default.
    pub const MSECONDS: u32 = 0x2;
    /// `Timer`: in microseconds.
    pub const USECONDS: u32 = 0x4;
    /// `Timer`: in nanoseconds.
    pub const NSECONDS: u32 = 0x8;
    /// `Timer`: `data` is an instant of the wall clock, since 1970.
    pub const ABSTIME: u32 = 0x10;
}

/// What is asked of a queue: struct kevent on its way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The origin: a descriptor, a process id, a signal, or for timers and user events a number of the program's own.
    pub ident: u64,
    /// What of it is of interest.
    pub filter: Filter,
    /// What is to be done, and how the interest behaves.
    pub flags: Flags,
    /// Flags of the filter: [`notes`].
    pub notes: u32,
    /// A number for the filter: a period, a low-water mark.
    pub data: i64,
    /// Comes back with each event; the C face's `udata`.
    pub cookie: u64,
    /// Comes back with each event, but for what a filter puts in its place.
    pub ext: [u64; 4],
}

/// What a queue tells: struct kevent on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The origin, as it was registered.
    pub ident: u64,
    /// What of it is told.
    pub filter: Filter,
    /// The interest's behaviour as registered, and `EOF` where the origin has ended.
    pub flags: Flags,
    /// What has happened, in flags of the filter; for a descriptor that has ended, its error number or 0.
    pub notes: u32,
    /// A number of the filter: bytes, connections, expirations, signals, a wait status.
    pub data: i64,
    /// As registered.
    pub cookie: u64,
    /// As registered, but for what the filter puts in its place.
    pub ext: [u64; 4],
}

impl Event {
    /// An event to be overwritten: what arrays for [`Queue::take`](crate::Queue::take) are made of.
    pub const BLANK: Self =
        Self { ident: 0, filter: Filter::User, flags: Flags::empty(), notes: 0, data: 0, cookie: 0, ext: [0; 4] };
}

impl Change {
    /// Registers interest in `filter` of `ident`.
    #[must_use]
    pub fn add(ident: u64, filter: Filter) -> Self {
        Self { ident, filter, flags: Flags::ADD, notes: 0, data: 0, cookie: 0, ext: [0; 4] }
    }

    /// The descriptor can be read from.
    #[must_use]
    pub fn readable(descriptor: BorrowedFd<'_>) -> Self {
        Self::add(ident_of(descriptor), Filter::Read)
    }

    /// The descriptor can be written to.
    #[must_use]
    pub fn writable(descriptor: BorrowedFd<'_>) -> Self {
        Self::add(ident_of(descriptor), Filter::Write)
    }

    /// The file or directory behind the descriptor changes in one of the ways in `changes` (notes of `Vnode`).
    #[must_use]
    pub fn changed(descriptor: BorrowedFd<'_>, changes: u32) -> Self {
        Self { notes: changes, ..Self::add(ident_of(descriptor), Filter::Vnode) }.cleared()
    }

    /// `period` has passed, again and again; at least a nanosecond. `timer` is a number of the program's own.
    #[must_use]
    pub fn every(timer: u64, period: Duration) -> Self {
        let data = i64::try_from(period.as_nanos()).unwrap_or(i64::MAX);
        Self { notes: notes::NSECONDS, data, ..Self::add(timer, Filter::Timer) }
    }

    /// `delay` has passed.
    #[must_use]
    pub fn after(timer: u64, delay: Duration) -> Self {
        Self::every(timer, delay).once()
    }

    /// The signal has come. It is blocked in the calling thread; others that do not block it take it as ever.
    #[must_use]
    pub fn signal(number: i32) -> Self {
        Self::add(u64::from(number.unsigned_abs()), Filter::Signal)
    }

    /// The process has ended.
    #[must_use]
    pub fn ended(process: u32) -> Self {
        Self { notes: notes::EXIT, ..Self::add(u64::from(process), Filter::Process) }
    }

    /// [`Change::trigger`] was asked for. `user` is a number of the program's own.
    #[must_use]
    pub fn user(user: u64) -> Self {
        Self::add(user, Filter::User).cleared()
    }

    /// Activates a user event that is registered.
    #[must_use]
    pub fn trigger(user: u64) -> Self {
        Self { flags: Flags::empty(), notes: notes::TRIGGER, ..Self::add(user, Filter::User) }
    }

    /// Removes this interest.
    #[must_use]
    pub fn delete(ident: u64, filter: Filter) -> Self {
        Self { flags: Flags::DELETE, ..Self::add(ident, filter) }
    }

    /// Tells of a disabled or dispatched interest again.
    #[must_use]
    pub fn enable(ident: u64, filter: Filter) -> Self {
        Self { flags: Flags::ENABLE, ..Self::add(ident, filter) }
    }

    /// Tells nothing of this interest until it is enabled.
    #[must_use]
    pub fn disable(ident: u64, filter: Filter) -> Self {
        Self { flags: Flags::DISABLE, ..Self::add(ident, filter) }
    }

    /// Told once, then removed.
    #[must_use]
    pub fn once(self) -> Self {
        self.with(Flags::ONESHOT)
    }

    /// Told once for each activity.
    #[must_use]
    pub fn cleared(self) -> Self {
        self.with(Flags::CLEAR)
    }

    /// Told once, then disabled until it is enabled: one thread at a time has it.
    #[must_use]
    pub fn dispatched(self) -> Self {
        self.with(Flags::DISPATCH)
    }

    /// Active from `bytes` on.
    #[must_use]
    pub fn from_bytes(self, bytes: u32) -> Self {
        Self { notes: self.notes | notes::LOWAT, data: i64::from(bytes), ..self }
    }

    /// What comes back with each event.
    #[must_use]
    pub fn cookie(self, cookie: u64) -> Self {
        Self { cookie, ..self }
    }

    fn with(self, flags: Flags) -> Self {
        Self { flags: self.flags | flags, ..self }
    }
}

/// An open descriptor as an ident.
fn ident_of(descriptor: BorrowedFd<'_>) -> u64 {
    let number = descriptor.as_raw_fd();
    assert!(number >= 0, "an open descriptor has a number");
    number as u64
}
