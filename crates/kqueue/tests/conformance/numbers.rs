//! The numbers of `sys/event.h`, written out again: the suite is a program of its own, as any other.

pub const READ: i16 = -1;
pub const WRITE: i16 = -2;
pub const AIO: i16 = -3;
pub const VNODE: i16 = -4;
pub const PROC: i16 = -5;
pub const SIGNAL: i16 = -6;
pub const TIMER: i16 = -7;
pub const PROCDESC: i16 = -8;
pub const FS: i16 = -9;
pub const LIO: i16 = -10;
pub const USER: i16 = -11;
pub const SENDFILE: i16 = -12;
pub const EMPTY: i16 = -13;
pub const EXCEPT: i16 = -32;

pub const ADD: u16 = 0x1;
pub const DELETE: u16 = 0x2;
pub const ENABLE: u16 = 0x4;
pub const DISABLE: u16 = 0x8;
pub const ONESHOT: u16 = 0x10;
pub const CLEAR: u16 = 0x20;
pub const RECEIPT: u16 = 0x40;
pub const DISPATCH: u16 = 0x80;
pub const FORCEONESHOT: u16 = 0x100;
pub const KEEPUDATA: u16 = 0x200;
pub const ERROR: u16 = 0x4000;
pub const EOF: u16 = 0x8000;

pub const NOTE_LOWAT: u32 = 0x1;
pub const NOTE_FILE_POLL: u32 = 0x2;
pub const NOTE_OOB: u32 = 0x4;

pub const NOTE_FFAND: u32 = 0x4000_0000;
pub const NOTE_FFOR: u32 = 0x8000_0000;
pub const NOTE_FFCOPY: u32 = 0xc000_0000;
pub const NOTE_FFCTRLMASK: u32 = 0xc000_0000;
pub const NOTE_FFLAGSMASK: u32 = 0x00ff_ffff;
pub const NOTE_TRIGGER: u32 = 0x0100_0000;

pub const NOTE_DELETE: u32 = 0x1;
pub const NOTE_WRITE: u32 = 0x2;
pub const NOTE_EXTEND: u32 = 0x4;
pub const NOTE_ATTRIB: u32 = 0x8;
pub const NOTE_LINK: u32 = 0x10;
pub const NOTE_RENAME: u32 = 0x20;
pub const NOTE_OPEN: u32 = 0x80;
pub const NOTE_CLOSE: u32 = 0x100;
pub const NOTE_CLOSE_WRITE: u32 = 0x200;
pub const NOTE_READ: u32 = 0x400;
pub const NOTE_TRUNCATE: u32 = 0x800;
pub const NOTE_NAMES: u32 = 0x0100_0000;

pub const NOTE_EXIT: u32 = 0x8000_0000;
pub const NOTE_FORK: u32 = 0x4000_0000;
pub const NOTE_EXEC: u32 = 0x2000_0000;
pub const NOTE_TRACK: u32 = 0x1;
pub const NOTE_TRACKERR: u32 = 0x2;
pub const NOTE_CHILD: u32 = 0x4;

pub const NOTE_SECONDS: u32 = 0x1;
pub const NOTE_MSECONDS: u32 = 0x2;
pub const NOTE_USECONDS: u32 = 0x4;
pub const NOTE_NSECONDS: u32 = 0x8;
pub const NOTE_ABSTIME: u32 = 0x10;
