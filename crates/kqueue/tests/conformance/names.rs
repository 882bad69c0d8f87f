//! NOTE_NAMES of EVFILT_VNODE, and the function that gives the names.
//!
//! Holds a marked cell: calls a C function as a C program does.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};
use std::fs;
use std::os::fd::AsRawFd;

use corelane_kqueue::Name;
use libc::{EBADF, EFAULT, EINVAL, ENOENT};

use crate::numbers::*;
use crate::rig::*;
use crate::{Case, case};

type Names = unsafe extern "C" fn(c_int, c_int, *mut Name, c_int, *mut u64) -> c_int;

mod linked {
    use super::*;

    unsafe extern "C" {
        pub fn corelane_names(kq: c_int, fd: c_int, names: *mut Name, room: c_int, lost: *mut u64) -> c_int;
    }
}

/// `corelane_names` with any arguments: what it returned, or errno.
fn raw(queue: c_int, folder: c_int, names: *mut Name, room: c_int, lost: *mut u64) -> Result<usize, i32> {
    // SAFETY: a function of this name has this signature.
    let call = loaded(c"corelane_names")
        .map_or(linked::corelane_names as Names, |found| unsafe { std::mem::transmute::<*mut c_void, Names>(found) });
    // SAFETY: the cases give room for as many, or null.
    let returned = unsafe { call(queue, folder, names, room, lost) };
    usize::try_from(returned).map_err(|_| nix::errno::Errno::last_raw())
}

/// At most eight names, and how many were lost.
fn names(queue: &Queue, folder: &impl AsRawFd) -> Result<(Vec<(u32, String)>, u64), i32> {
    let mut room = [Name { what: 0, name: [1; 256] }; 8];
    let mut lost = u64::MAX;
    let count = raw(queue.as_raw_fd(), folder.as_raw_fd(), room.as_mut_ptr(), 8, &raw mut lost)?;
    let text = |name: &Name| {
        // SAFETY: the function ends each with a zero.
        unsafe { CStr::from_ptr(name.name.as_ptr()) }.to_str().unwrap().to_owned()
    };
    Ok((room[..count].iter().map(|name| (name.what, text(name))).collect(), lost))
}

pub const CASES: &[Case] = &[
    case("names of entries come with their changes", "K-23", |q| {
        let folder = Folder::new();
        let directory = folder.open();
        q.set(&[ev(id(&directory), VNODE, ADD | CLEAR).notes(NOTE_NAMES)]);
        let _file = folder.file("a", b"");
        fs::rename(folder.path("a"), folder.path("b")).unwrap();
        fs::remove_file(folder.path("b")).unwrap();
        assert_eq!(q.wait().fflags, NOTE_NAMES);
        let expected = [(1, "a"), (4, "a"), (8, "b"), (2, "b")].map(|(what, name)| (what, name.to_owned()));
        assert_eq!(names(q, &directory), Ok((expected.to_vec(), 0)));
        assert_eq!(names(q, &directory), Ok((vec![], 0)));
        q.silent();
    }),
    case("the longest name is told whole", "K-23", |q| {
        let folder = Folder::new();
        let directory = folder.open();
        q.set(&[ev(id(&directory), VNODE, ADD | CLEAR).notes(NOTE_NAMES | NOTE_WRITE)]);
        let long = "n".repeat(255);
        let _file = folder.file(&long, b"");
        assert_eq!(q.wait().fflags, NOTE_NAMES | NOTE_WRITE);
        assert_eq!(names(q, &directory), Ok((vec![(1, long)], 0)));
    }),
    case("names that nobody asked for are refused, and bad arguments too", "K-23", |q| {
        let folder = Folder::new();
        let directory = folder.open();
        assert_eq!(names(q, &directory), Err(ENOENT));
        q.set(&[ev(id(&directory), VNODE, ADD | CLEAR).notes(NOTE_WRITE)]);
        assert_eq!(names(q, &directory), Err(ENOENT));
        assert_eq!(q.change(ev(id(&directory), VNODE, ADD | ONESHOT).notes(NOTE_NAMES)), Err(EINVAL));
        q.set(&[ev(id(&directory), VNODE, ADD | CLEAR).notes(NOTE_NAMES)]);
        let (queue, number) = (q.as_raw_fd(), directory.as_raw_fd());
        let (no_names, no_lost) = (std::ptr::null_mut(), std::ptr::null_mut());
        assert_eq!(raw(queue, number, no_names, 1, no_lost), Err(EFAULT));
        assert_eq!(raw(queue, number, no_names, -1, no_lost), Err(EINVAL));
        assert_eq!(raw(number, number, no_names, 0, no_lost), Err(EBADF));
        assert_eq!(raw(queue, -1, no_names, 0, no_lost), Err(ENOENT));
        assert_eq!(raw(queue, number, no_names, 0, no_lost), Ok(0));
    }),
];
