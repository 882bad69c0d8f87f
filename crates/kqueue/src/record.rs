//! `struct kevent`, and what of it the event core understands.

use std::ffi::{c_short, c_uint, c_ushort, c_void};

use corelane_event::{Change, Event, Filter, Flags, Refused};

/// `struct kevent` of `sys/event.h`: a change on its way in, an event on its way out. FreeBSD's layout since its version 12.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kevent {
    /// What it is about: a descriptor, a process id, a signal, or a number of the program's own.
    pub ident: usize,
    /// `EVFILT_*`.
    pub filter: c_short,
    /// `EV_*`.
    pub flags: c_ushort,
    /// `NOTE_*` of the filter.
    pub fflags: c_uint,
    /// The filter's value.
    pub data: i64,
    /// The program's, passed through.
    pub udata: *mut c_void,
    /// Passed through.
    pub ext: [u64; 4],
}

/// What an array of a call may be made of.
pub(crate) trait Record: Copy + Into<Kevent> + From<Kevent> {}

impl Record for Kevent {}

const _: () = assert!(size_of::<Kevent>() == 64 && align_of::<Kevent>() == 8, "FreeBSD's record");

impl Kevent {
    /// The change that this record asks for. EINVAL where there is no such filter, EPERM where only who submits the work may register.
    pub(crate) fn change(&self) -> Result<Change, i32> {
        let filter = Filter::from_number(self.filter).ok_or(libc::EINVAL)?;
        let flags = Flags::from_bits_truncate(self.flags & !SYSTEM);
        if matches!(filter, Filter::Aio | Filter::Lio) && flags.contains(Flags::ADD) {
            return Err(libc::EPERM);
        }
        Ok(Change {
            ident: self.ident as u64,
            filter,
            flags,
            notes: self.fflags,
            data: self.data,
            cookie: self.udata.expose_provenance() as u64,
            ext: self.ext,
        })
    }

    /// Whether an answer is asked for even where all goes well.
    pub(crate) fn wants_receipt(&self) -> bool {
        self.flags & Flags::RECEIPT.bits() != 0
    }

    /// The answer to this change: `number` is its errno, 0 for success.
    pub(crate) fn answer(self, number: i32) -> Self {
        assert!(number >= 0, "an errno or none");
        Self { flags: Flags::ERROR.bits(), data: i64::from(number), ..self }
    }
}

/// What a program cannot ask for: EV_SYSFLAGS.
const SYSTEM: u16 = 0xf000;

impl From<&Event> for Kevent {
    fn from(event: &Event) -> Self {
        Self {
            ident: event.ident as usize,
            filter: event.filter.number(),
            flags: event.flags.bits(),
            fflags: event.notes,
            data: event.data,
            udata: std::ptr::with_exposed_provenance_mut(event.cookie as usize),
            ext: event.ext,
        }
    }
}

/// The errno of a refusal.
pub(crate) fn number(refused: Refused) -> i32 {
    refused.number
}
