//! `struct kevent` as libkqueue has it, for programs that were built against that library's header.

use std::ffi::{c_short, c_uint, c_ushort, c_void};

use corelane_event::notes;

use crate::record::{Kevent, Record};

/// FreeBSD's record before its version 12.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// As [`Kevent::ident`].
    pub ident: usize,
    /// As [`Kevent::filter`].
    pub filter: c_short,
    /// As [`Kevent::flags`].
    pub flags: c_ushort,
    /// As [`Kevent::fflags`], but for timers.
    pub fflags: c_uint,
    /// As [`Kevent::data`].
    pub data: isize,
    /// As [`Kevent::udata`].
    pub udata: *mut c_void,
}

const _: () = assert!(size_of::<Short>() == 32 && align_of::<Short>() == 8, "libkqueue's record");

/// EVFILT_TIMER, EVFILT_VNODE.
const TIMER: c_short = -7;
const VNODE: c_short = -4;

/// A timer's notes: libkqueue's number of each, and ours.
const TIMERS: [(c_uint, c_uint); 4] = [(1, notes::SECONDS), (2, notes::USECONDS), (4, notes::NSECONDS), (8, notes::ABSTIME)];

/// A timer's notes that mean nothing: here they are refused, too.
const UNKNOWN: c_uint = 1 << 31;

/// A file's notes that mean the same in both. The next bit is a file cut short there, and one opened here.
const FILES: c_uint = 0x7f;
const CUT_SHORT: c_uint = 0x80;

fn notes_from(filter: c_short, given: c_uint) -> c_uint {
    match filter {
        TIMER if given & !0xf != 0 => UNKNOWN | given,
        TIMER => TIMERS.iter().filter(|(theirs, _)| given & theirs != 0).fold(0, |all, (_, ours)| all | ours),
        VNODE => given & FILES | if given & CUT_SHORT != 0 { notes::TRUNCATE } else { 0 },
        _ => given,
    }
}

fn notes_to(filter: c_short, ours: c_uint) -> c_uint {
    match filter {
        TIMER if ours & UNKNOWN != 0 => ours & !UNKNOWN,
        TIMER => TIMERS.iter().filter(|(_, own)| ours & own != 0).fold(0, |all, (theirs, _)| all | theirs),
        VNODE => ours & FILES | if ours & notes::TRUNCATE != 0 { CUT_SHORT } else { 0 },
        _ => ours,
    }
}

impl Record for Short {}

impl From<Short> for Kevent {
    fn from(short: Short) -> Self {
        let Short { ident, filter, flags, fflags, data, udata } = short;
        Self { ident, filter, flags, fflags: notes_from(filter, fflags), data: data as i64, udata, ext: [0; 4] }
    }
}

impl From<Kevent> for Short {
    fn from(whole: Kevent) -> Self {
        let Kevent { ident, filter, flags, fflags, data, udata, .. } = whole;
        Self { ident, filter, flags, fflags: notes_to(filter, fflags), data: data as isize, udata }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timers_notes_come_back_as_they_were_given() {
        for given in (0..64).chain([1 << 30]) {
            assert_eq!(notes_to(TIMER, notes_from(TIMER, given)), given, "{given:#x}");
        }
        assert_eq!(notes_from(TIMER, 9), notes::SECONDS | notes::ABSTIME);
        assert_eq!(notes_from(TIMER, 16) & UNKNOWN, UNKNOWN);
        assert_eq!((notes_from(VNODE, 0xff), notes_from(-1, 0xff)), (0x87f, 0xff));
        assert_eq!(notes_to(VNODE, 0xfff), 0xff);
    }
}
