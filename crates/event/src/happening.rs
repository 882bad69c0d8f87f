//! Events by what they say, for programs that would rather match than look numbers up.

use std::os::fd::RawFd;

use crate::record::{Event, Filter, Flags, notes};

/// What an event tells ([`Event::happening`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// A descriptor can be read from.
    Readable {
        /// Which.
        descriptor: RawFd,
        /// Bytes or connections that wait; the distance to a file's end, which may be negative.
        count: i64,
        /// Nothing more will come.
        end: Option<DescriptorEnd>,
    },
    /// A descriptor can be written to.
    Writable {
        /// Which.
        descriptor: RawFd,
        /// Bytes that it takes now.
        room: i64,
        /// Nothing more can be sent.
        end: Option<DescriptorEnd>,
    },
    /// A descriptor is ready for some of what was asked for (kevent's of 2007).
    Ready {
        /// Which.
        descriptor: RawFd,
        /// For what: [`notes`] of `Ready`, or bits of poll(2).
        what: u32,
    },
    /// All that was written to a socket has left.
    Empty {
        /// Which.
        descriptor: RawFd,
    },
    /// A socket has got urgent data.
    Urgent {
        /// Which.
        descriptor: RawFd,
    },
    /// A file or directory has changed.
    Changed {
        /// Which.
        descriptor: RawFd,
        /// How: [`notes`] of `Vnode`. With [`notes::NAMES`] names wait for [`Queue::names`](crate::Queue::names).
        changes: u32,
    },
    /// A process has ended.
    Ended {
        /// Its id, or its descriptor.
        process: u64,
        /// Its wait status (wait(2)).
        status: i64,
        /// What else it has done before: [`notes`] of `Process`.
        deeds: u32,
    },
    /// A process has done something and lives.
    Did {
        /// Its id.
        process: u64,
        /// What: [`notes`] of `Process`.
        deeds: u32,
        /// Whose child it is, where it is one that is followed.
        parent: Option<u32>,
    },
    /// A signal has come.
    Signal {
        /// Which.
        signal: i32,
        /// How often.
        count: i64,
    },
    /// Time has passed.
    Timer {
        /// The program's number.
        timer: u64,
        /// How often.
        expirations: i64,
    },
    /// The program has said so.
    User {
        /// Its number.
        user: u64,
        /// Its 24 bits.
        bits: u32,
        /// Its value.
        data: i64,
    },
    /// An operation is over; [`Queue::outcome`](crate::Queue::outcome) has the rest.
    Operation {
        /// Its ident.
        ident: u64,
        /// Bytes that were moved, or the descriptor that was accepted; with the error that ended it instead of its end.
        result: Result<i64, i32>,
        /// The peer, or the file, had no more.
        is_end: bool,
    },
    /// A list of operations is over.
    List {
        /// Its ident.
        ident: u64,
        /// How many have failed.
        failed: i64,
    },
}

/// How a descriptor has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorEnd {
    /// The error number, 0 without one.
    pub error: i32,
}

impl Event {
    /// What it tells, by its filter.
    #[must_use]
    pub fn happening(&self) -> Happening {
        let (ident, count) = (self.ident, self.data);
        let end = self.flags.contains(Flags::EOF).then_some(DescriptorEnd { error: self.notes.cast_signed() });
        match self.filter {
            Filter::Read => Happening::Readable { descriptor: self.descriptor(), count, end },
            Filter::Write => Happening::Writable { descriptor: self.descriptor(), room: count, end },
            Filter::Empty => Happening::Empty { descriptor: self.descriptor() },
            Filter::Except => Happening::Urgent { descriptor: self.descriptor() },
            Filter::Ready | Filter::Poll => Happening::Ready { descriptor: self.descriptor(), what: self.notes },
            Filter::Vnode => Happening::Changed { descriptor: self.descriptor(), changes: self.notes },
            Filter::Process | Filter::ProcessDescriptor => self.of_process(),
            Filter::Signal => Happening::Signal { signal: ident as i32, count },
            Filter::Timer => Happening::Timer { timer: ident, expirations: count },
            Filter::User => Happening::User { user: ident, bits: self.notes & notes::FLAGS_MASK, data: count },
            Filter::Aio => {
                let error = self.notes.cast_signed();
                let result = if error == 0 { Ok(count) } else { Err(error) };
                Happening::Operation { ident, result, is_end: error == 0 && end.is_some() }
            }
            Filter::Lio => Happening::List { ident, failed: count },
        }
    }

    fn descriptor(&self) -> RawFd {
        assert!(self.filter.of_descriptor(), "{:?} is not of a descriptor", self.filter);
        // reason: what was registered was an open descriptor.
        RawFd::try_from(self.ident).expect("a descriptor's number")
    }

    fn of_process(&self) -> Happening {
        let process = self.ident;
        if self.notes & notes::EXIT != 0 {
            return Happening::Ended { process, status: self.data, deeds: self.notes & !notes::EXIT };
        }
        let parent = (self.notes & notes::CHILD != 0).then(|| u32::try_from(self.data).unwrap_or(0));
        Happening::Did { process, deeds: self.notes, parent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(filter: Filter, flags: Flags, notes: u32, data: i64) -> Happening {
        Event { ident: 7, filter, flags, notes, data, ..Event::BLANK }.happening()
    }

    #[test]
    fn each_filter_says_what_it_means() {
        let none = Flags::empty();
        let end = Some(DescriptorEnd { error: 104 });
        assert_eq!(event(Filter::Read, none, 0, 3), Happening::Readable { descriptor: 7, count: 3, end: None });
        assert_eq!(event(Filter::Read, Flags::EOF, 104, 0), Happening::Readable { descriptor: 7, count: 0, end });
        assert_eq!(event(Filter::Write, Flags::EOF, 104, 9), Happening::Writable { descriptor: 7, room: 9, end });
        assert_eq!(event(Filter::Empty, none, 0, 0), Happening::Empty { descriptor: 7 });
        assert_eq!(event(Filter::Poll, none, 5, 0), Happening::Ready { descriptor: 7, what: 5 });
        assert_eq!(event(Filter::Vnode, none, 3, 0), Happening::Changed { descriptor: 7, changes: 3 });
        assert_eq!(event(Filter::Signal, none, 0, 2), Happening::Signal { signal: 7, count: 2 });
        assert_eq!(event(Filter::Timer, none, 0, 2), Happening::Timer { timer: 7, expirations: 2 });
        assert_eq!(event(Filter::User, none, 0x4000_0005, 2), Happening::User { user: 7, bits: 5, data: 2 });
        assert_eq!(event(Filter::Lio, Flags::EOF, 9, 1), Happening::List { ident: 7, failed: 1 });
    }

    #[test]
    fn processes_end_or_live_on() {
        let deeds = notes::FORK;
        let both = notes::FORK | notes::EXIT;
        assert_eq!(event(Filter::Process, Flags::EOF, both, 256), Happening::Ended { process: 7, status: 256, deeds });
        assert_eq!(event(Filter::Process, Flags::CLEAR, deeds, 0), Happening::Did { process: 7, deeds, parent: None });
        let child = notes::CHILD;
        assert_eq!(event(Filter::Process, Flags::CLEAR, child, 5), Happening::Did { process: 7, deeds: child, parent: Some(5) });
    }

    #[test]
    fn operations_end_well_at_an_end_or_with_an_error() {
        let of = |flags, notes| event(Filter::Aio, flags, notes, 4);
        let over = |result, is_end| Happening::Operation { ident: 7, result, is_end };
        assert_eq!(of(Flags::ONESHOT, 0), over(Ok(4), false));
        assert_eq!(of(Flags::ONESHOT | Flags::EOF, 0), over(Ok(4), true));
        assert_eq!(of(Flags::ONESHOT | Flags::EOF, 32), over(Err(32), false));
    }
}
