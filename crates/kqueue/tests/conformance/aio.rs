//! EVFILT_AIO and EVFILT_LIO: operations of `corelane/aio.h`.
//!
//! Holds a marked cell: calls C functions as a C program does.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;

use corelane_kqueue::{Aio, Kevent};
use libc::{EAGAIN, EBADF, EBUSY, ECANCELED, EEXIST, EFAULT, EINVAL, ENAMETOOLONG, ENOENT, ENOTSOCK};

use crate::numbers::*;
use crate::rig::*;
use crate::{Case, case};

const RECV: c_int = 1;
const SEND: c_int = 2;
const ACCEPT: c_int = 3;
const CONNECT: c_int = 4;
const SENDFILE: c_int = 5;
const SENDPATH: c_int = 6;
const READ_AT: c_int = 7;
const WRITE_AT: c_int = 8;
const FSYNC: c_int = 9;

type One = unsafe extern "C" fn(c_int, *const Aio) -> c_int;
type Many = unsafe extern "C" fn(c_int, *const *const Aio, c_int, *mut c_void) -> c_int;
type Progress = unsafe extern "C" fn(c_int, *const Aio, *mut i64) -> i64;

mod linked {
    use super::*;

    unsafe extern "C" {
        pub fn corelane_aio_submit(kq: c_int, aio: *const Aio) -> c_int;
        pub fn corelane_aio_cancel(kq: c_int, aio: *const Aio) -> c_int;
        pub fn corelane_aio_progress(kq: c_int, aio: *const Aio, left: *mut i64) -> i64;
        pub fn corelane_lio_submit(kq: c_int, list: *const *const Aio, count: c_int, udata: *mut c_void) -> c_int;
    }
}

fn one(name: &CStr, linked: One) -> One {
    // SAFETY: functions of these names have this signature.
    loaded(name).map_or(linked, |found| unsafe { std::mem::transmute::<*mut c_void, One>(found) })
}

fn answer(returned: c_int) -> Result<(), i32> {
    if returned == 0 { Ok(()) } else { Err(nix::errno::Errno::last_raw()) }
}

fn submit(queue: &impl AsRawFd, aio: *const Aio) -> Result<(), i32> {
    let call = one(c"corelane_aio_submit", linked::corelane_aio_submit);
    // SAFETY: the cases keep what they submit until it is over, or give null.
    answer(unsafe { call(queue.as_raw_fd(), aio) })
}

fn cancel(queue: &impl AsRawFd, aio: &Aio) -> Result<(), i32> {
    let call = one(c"corelane_aio_cancel", linked::corelane_aio_cancel);
    // SAFETY: only its address is looked at.
    answer(unsafe { call(queue.as_raw_fd(), aio) })
}

fn submit_list(queue: &impl AsRawFd, list: *const *const Aio, count: c_int, tag: usize) -> Result<(), i32> {
    // SAFETY: as above.
    let call = loaded(c"corelane_lio_submit")
        .map_or(linked::corelane_lio_submit as Many, |found| unsafe { std::mem::transmute::<*mut c_void, Many>(found) });
    // SAFETY: the cases give lists of this length, or null.
    answer(unsafe { call(queue.as_raw_fd(), list, count, std::ptr::without_provenance_mut(tag)) })
}

/// Done, and left.
fn progress(queue: &impl AsRawFd, aio: &Aio) -> Result<(i64, i64), i32> {
    // SAFETY: as above.
    let call = loaded(c"corelane_aio_progress").map_or(linked::corelane_aio_progress as Progress, |found| unsafe {
        std::mem::transmute::<*mut c_void, Progress>(found)
    });
    let mut left = -1;
    // SAFETY: there is room for the number.
    match unsafe { call(queue.as_raw_fd(), aio, &raw mut left) } {
        -1 => Err(nix::errno::Errno::last_raw()),
        done => Ok((done, left)),
    }
}

/// A record of nothing but this.
fn aio(operation: c_int, descriptor: RawFd) -> Aio {
    Aio {
        operation,
        descriptor,
        file: -1,
        address_length: 0,
        path: std::ptr::null(),
        address: std::ptr::null(),
        buffer: std::ptr::null_mut(),
        length: 0,
        least: 0,
        offset: 0,
        udata: std::ptr::without_provenance_mut(5),
    }
}

/// An operation with memory.
struct Held {
    aio: Aio,
    memory: Vec<u8>,
}

impl Held {
    fn new(operation: c_int, descriptor: &impl AsRawFd, memory: impl Into<Vec<u8>>) -> Box<Self> {
        let mut held = Box::new(Self { aio: aio(operation, descriptor.as_raw_fd()), memory: memory.into() });
        (held.aio.buffer, held.aio.length) = (held.memory.as_mut_ptr().cast(), held.memory.len());
        held
    }

    /// Waits for its end, which is all that is told.
    fn ended(&self, queue: &Queue) -> Kevent {
        let event = queue.wait();
        assert_eq!((event.ident, event.filter, tag(&event)), (self.ident(), AIO, 5));
        event
    }

    fn ident(&self) -> usize {
        (&raw const self.aio).addr()
    }
}

fn errno(number: i32) -> u32 {
    number.unsigned_abs()
}

pub const CASES: &[Case] = &[
    case("what has come is received", "A-01", |q| {
        let (ours, theirs) = tcp();
        put(&theirs, b"abcd");
        let held = Held::new(RECV, &ours, [0; 4]);
        submit(q, &held.aio).unwrap();
        let event = held.ended(q);
        assert_eq!((event.data, event.fflags, event.has(EOF), held.memory.as_slice()), (4, 0, false, b"abcd".as_slice()));
        q.silent();
        assert_eq!(progress(q, &held.aio), Err(ENOENT));
    }),
    case("progress is seen while the rest is waited for", "A-01", |q| {
        let (ours, theirs) = local();
        let held = Held::new(RECV, &ours, [0; 6]);
        submit(q, &held.aio).unwrap();
        assert_eq!(progress(q, &held.aio), Ok((0, 6)));
        put(&theirs, b"abcd");
        q.silent();
        assert_eq!((progress(q, &held.aio), &held.memory[..4]), (Ok((4, 2)), b"abcd".as_slice()));
        put(&theirs, b"ef");
        assert_eq!(held.ended(q).data, 6);
    }),
    case("the least that is enough ends it", "A-01", |q| {
        let (ours, theirs) = local();
        let mut held = Held::new(RECV, &ours, [0; 6]);
        held.aio.least = 2;
        submit(q, &held.aio).unwrap();
        put(&theirs, b"a");
        q.silent();
        put(&theirs, b"bc");
        assert_eq!(held.ended(q).data, 3);
    }),
    case("the end of a stream is EOF without an error, and a reset with one", "A-01", |q| {
        let (ours, theirs) = tcp();
        let held = Held::new(RECV, &ours, [0; 6]);
        submit(q, &held.aio).unwrap();
        put(&theirs, b"ab");
        drop(theirs);
        let event = held.ended(q);
        assert_eq!((event.data, event.fflags, event.has(EOF)), (2, 0, true));
        let (ours, theirs) = tcp();
        let held = Held::new(RECV, &ours, [0; 6]);
        submit(q, &held.aio).unwrap();
        crate::sockets::reset(theirs);
        let event = held.ended(q);
        assert_eq!((event.fflags, event.has(EOF)), (errno(libc::ECONNRESET), true));
    }),
    case("more than the socket holds is sent, and a lost peer is told without a signal", "A-01", |q| {
        let (ours, theirs) = local();
        let held = Held::new(SEND, &ours, vec![b's'; 1 << 20]);
        submit(q, &held.aio).unwrap();
        let mut came = 0;
        let event = loop {
            came += drain(&theirs);
            if let Some(event) = q.now().first() {
                break *event;
            }
        };
        assert_eq!((event.data, came + drain(&theirs)), (1 << 20, 1 << 20));
        let held = Held::new(SEND, &ours, vec![b's'; 1 << 20]);
        submit(q, &held.aio).unwrap();
        drop(theirs);
        assert_eq!(held.ended(q).fflags, errno(libc::EPIPE));
    }),
    case("operations of one way are told in order", "A-01", |q| {
        let (ours, theirs) = local();
        let held: Vec<_> = (0..3).map(|_| Held::new(RECV, &ours, [0; 2])).collect();
        held.iter().for_each(|held| submit(q, &held.aio).unwrap());
        put(&theirs, b"aabbcc");
        held.iter().for_each(|held| assert_eq!(held.ended(q).data, 2));
        assert_eq!([0, 1, 2].map(|index: usize| held[index].memory[0]), *b"abc");
    }),
    case("a connection is accepted, and is the program's", "A-01", |q| {
        let listener = listener();
        let held = Held::new(ACCEPT, &listener, []);
        assert_eq!(submit(q, &held.aio), Err(EINVAL), "it blocks");
        listener.set_nonblocking(true).unwrap();
        submit(q, &held.aio).unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accepted = owned(RawFd::try_from(held.ended(q).data).unwrap());
        put(&client, b"abc");
        q.add(id(&accepted), READ);
        assert_eq!(q.wait().data, 3);
    }),
    case("a connection is made, or why not is told", "A-01", |q| {
        let listener = listener();
        let port = listener.local_addr().unwrap().port();
        let socket = crate::sockets::new_socket();
        let address = crate::sockets::address(port);
        let mut held = Held::new(CONNECT, &socket, []);
        (held.aio.address, held.aio.address_length) = ((&raw const address).cast(), 16);
        submit(q, &held.aio).unwrap();
        assert_eq!(held.ended(q).fflags, 0);
        drop(listener);
        let socket = crate::sockets::new_socket();
        held.aio.descriptor = socket.as_raw_fd();
        submit(q, &held.aio).unwrap();
        assert_eq!(held.ended(q).fflags, errno(libc::ECONNREFUSED));
    }),
    case("a file is sent, open or by its path, in one submission", "A-02", |q| {
        let folder = Folder::new();
        let file = folder.file("a", &vec![b'f'; 1 << 20]);
        let path = CString::new(folder.path("a").as_os_str().as_bytes()).unwrap();
        for operation in [SENDFILE, SENDPATH] {
            let (ours, theirs) = local();
            let mut held = Held::new(operation, &ours, []);
            (held.aio.file, held.aio.path) = (file.as_raw_fd(), path.as_ptr());
            (held.aio.offset, held.aio.length) = (24, (1 << 20) - 24);
            submit(q, &held.aio).unwrap();
            let mut came = 0;
            let event = loop {
                came += drain(&theirs);
                if let Some(event) = q.now().first() {
                    break *event;
                }
            };
            assert_eq!((event.ident, event.data, event.fflags), (held.ident(), (1 << 20) - 24, 0));
            assert_eq!(came + drain(&theirs), (1 << 20) - 24);
        }
    }),
    case("a file that is not there is told, and one that is short ends early", "A-02", |q| {
        let (folder, (ours, theirs)) = (Folder::new(), local());
        let path = CString::new(folder.path("a").as_os_str().as_bytes()).unwrap();
        let mut held = Held::new(SENDPATH, &ours, []);
        (held.aio.path, held.aio.length) = (path.as_ptr(), usize::MAX);
        submit(q, &held.aio).unwrap();
        assert_eq!(held.ended(q).fflags, errno(ENOENT));
        let _file = folder.file("a", b"short");
        submit(q, &held.aio).unwrap();
        let event = held.ended(q);
        assert_eq!((event.data, event.fflags, event.has(EOF), drain(&theirs)), (5, 0, true, 5));
    }),
    case("files are written, read and synced", "Q-21", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"0123456789");
        let mut held = Held::new(WRITE_AT, &file, *b"abc");
        held.aio.offset = 8;
        submit(q, &held.aio).unwrap();
        assert_eq!(held.ended(q).data, 3);
        let held = Held::new(FSYNC, &file, []);
        submit(q, &held.aio).unwrap();
        assert_eq!(held.ended(q).fflags, 0);
        let mut held = Held::new(READ_AT, &file, [0; 8]);
        held.aio.offset = 6;
        submit(q, &held.aio).unwrap();
        let event = held.ended(q);
        assert_eq!((event.data, event.has(EOF), &held.memory[..5]), (5, true, b"67abc".as_slice()));
    }),
    case("the end of a list is told after that of all its members", "Q-21", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"0123456789");
        let held: Vec<_> = (0..4).map(|_| Held::new(READ_AT, &file, [0; 2])).collect();
        let bad = Held::new(FSYNC, &Number(1 << 20), []);
        let list: Vec<*const Aio> = held.iter().chain([&bad]).map(|held| &raw const held.aio).collect();
        submit_list(q, list.as_ptr(), 5, 9).unwrap();
        let mut told: Vec<_> = (0..6).map(|_| q.wait()).collect();
        let last = told.pop().unwrap();
        assert_eq!((last.filter, last.ident, tag(&last)), (LIO, list.as_ptr().addr(), 9));
        assert_eq!((last.data, last.fflags, last.has(EOF)), (1, errno(EBADF), true));
        assert!(told.iter().all(|event| event.filter == AIO));
        q.silent();
    }),
    case("a list with a bad member begins nothing", "Q-21", |q| {
        let (ours, _theirs) = local();
        let held = Held::new(RECV, &ours, [0; 2]);
        let list = [&raw const held.aio, std::ptr::null()];
        assert_eq!(submit_list(q, list.as_ptr(), 2, 0), Err(EFAULT));
        assert_eq!(submit_list(q, [list[0], list[0]].as_ptr(), 2, 0), Err(EEXIST));
        assert_eq!(submit_list(q, std::ptr::null(), 2, 0), Err(EFAULT));
        assert_eq!(submit_list(q, list.as_ptr(), -1, 0), Err(EINVAL));
        assert_eq!(submit_list(q, list.as_ptr(), c_int::MAX, 0), Err(EAGAIN));
        assert_eq!(progress(q, &held.aio), Err(ENOENT));
        submit_list(q, std::ptr::null(), 0, 0).unwrap();
        assert_eq!(q.wait().filter, LIO);
    }),
    case("what is cancelled ends with what it has", "Q-21", |q| {
        let (ours, theirs) = local();
        let held = Held::new(RECV, &ours, [0; 4]);
        assert_eq!(cancel(q, &held.aio), Err(ENOENT));
        submit(q, &held.aio).unwrap();
        put(&theirs, b"ab");
        q.silent();
        cancel(q, &held.aio).unwrap();
        assert_eq!(cancel(q, &held.aio), Err(ENOENT));
        let event = held.ended(q);
        assert_eq!((event.data, event.fflags), (2, errno(ECANCELED)));
        q.silent();
    }),
    case("a close cancels what waits at the descriptor", "Q-01", |q| {
        let (ours, theirs) = local();
        let copy = dup(&ours);
        let held = Held::new(RECV, &Number(copy), [0; 4]);
        submit(q, &held.aio).unwrap();
        close(copy);
        put(&theirs, b"abcd");
        assert_eq!(held.ended(q).fflags, errno(ECANCELED));
        assert_eq!(get(&ours, 4), 4);
    }),
    case("an operation's end cannot be deleted, and can be put off", "Q-21", |q| {
        let (ours, theirs) = local();
        let held = Held::new(RECV, &ours, [0; 1]);
        submit(q, &held.aio).unwrap();
        assert_eq!(q.change(ev(held.ident(), AIO, DELETE)), Err(EBUSY));
        assert_eq!(submit(q, &held.aio), Err(EEXIST));
        q.set(&[ev(held.ident(), AIO, DISABLE)]);
        put(&theirs, b"a");
        q.silent();
        q.set(&[ev(held.ident(), AIO, ENABLE).tag(5)]);
        assert_eq!(held.ended(q).data, 1);
    }),
    case("what can never be is refused at once", "Q-21", |q| {
        let (folder, (ours, _theirs)) = (Folder::new(), local());
        let file = folder.file("a", b"");
        let with = |operation, descriptor: &dyn AsRawFd| aio(operation, descriptor.as_raw_fd());
        assert_eq!(submit(q, std::ptr::null()), Err(EFAULT));
        assert_eq!(submit(&Number(1 << 20), &with(FSYNC, &file)), Err(EBADF));
        assert_eq!(submit(&file, &with(FSYNC, &file)), Err(EBADF));
        for operation in [0, -1, 10, c_int::MAX] {
            assert_eq!(submit(q, &with(operation, &ours)), Err(EINVAL));
        }
        assert_eq!(submit(q, &with(RECV, &file)), Err(ENOTSOCK));
        assert_eq!(submit(q, &with(FSYNC, &ours)), Err(EINVAL));
        assert_eq!(submit(q, &with(ACCEPT, &ours)), Err(EINVAL));
        assert_eq!(submit(q, &with(CONNECT, &ours)), Err(EFAULT));
        assert_eq!(submit(q, &with(SENDPATH, &ours)), Err(EFAULT));
        assert_eq!(submit(q, &Aio { length: 1, ..with(RECV, &ours) }), Err(EFAULT));
        assert_eq!(submit(q, &Aio { length: 1, ..with(WRITE_AT, &file) }), Err(EFAULT));
        assert_eq!(submit(q, &Aio { offset: -1, ..with(FSYNC, &file) }), Err(EINVAL));
        let long = CString::new(vec![b'a'; 5000]).unwrap();
        assert_eq!(submit(q, &Aio { path: long.as_ptr(), ..with(SENDPATH, &ours) }), Err(ENAMETOOLONG));
        let mut byte = 0_u8;
        let buffer = (&raw mut byte).cast();
        assert_eq!(submit(q, &Aio { length: usize::MAX, buffer, ..with(RECV, &ours) }), Err(EINVAL));
        let address = crate::sockets::address(1);
        let address = (&raw const address).cast();
        assert_eq!(submit(q, &Aio { address, address_length: 4096, ..with(CONNECT, &ours) }), Err(EINVAL));
        q.silent();
    }),
    case("operation 4,097 is refused, and one that is over makes room", "Q-21", |q| {
        let (ours, _theirs) = local();
        let held: Vec<_> = (0..=4096).map(|_| Held::new(RECV, &ours, [0; 1])).collect();
        held[..4096].iter().for_each(|held| submit(q, &held.aio).unwrap());
        assert_eq!(submit(q, &held[4096].aio), Err(EAGAIN));
        cancel(q, &held[77].aio).unwrap();
        held[77].ended(q);
        submit(q, &held[4096].aio).unwrap();
    }),
    case("signals are for the program while a helper thread is there", "Q-18", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"");
        let signal = usize::try_from(libc::SIGUSR1).unwrap();
        q.set(&[ev(signal, SIGNAL, ADD)]);
        let held = Held::new(FSYNC, &file, []);
        submit(q, &held.aio).unwrap();
        held.ended(q);
        for _ in 0..50 {
            raise_process(libc::SIGUSR1);
            assert_eq!((q.wait().filter, q.now()), (SIGNAL, vec![]));
        }
    }),
    case("a child has no operations of its parent's", "Q-23", |q| {
        let (ours, theirs) = local();
        let held = Held::new(RECV, &ours, [0; 1]);
        submit(q, &held.aio).unwrap();
        assert!(in_child(|| {
            submit(q, &held.aio) == Err(EBADF) && cancel(q, &held.aio) == Err(EBADF) && progress(q, &held.aio) == Err(EBADF)
        }));
        put(&theirs, b"a");
        assert_eq!(held.ended(q).data, 1);
    }),
];

struct Number(RawFd);

impl AsRawFd for Number {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}
