//! What a case is made of: a queue as C sees it, and real descriptors to watch.
//!
//! Holds a marked cell: calls C functions as a C program does.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int};
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;

use corelane_kqueue::Kevent;
use nix::fcntl::OFlag;

use crate::numbers::*;
use crate::of_2007;

/// Longer than anything here takes on a machine that is busy.
const LIMIT: Duration = Duration::from_secs(10);

type KeventFunction = unsafe extern "C" fn(c_int, *const Kevent, c_int, *mut Kevent, c_int, *const libc::timespec) -> c_int;

/// The functions under test.
struct Api {
    kqueue: extern "C" fn() -> c_int,
    kqueue1: extern "C" fn(c_int) -> c_int,
    kevent: KeventFunction,
}

mod linked {
    use super::*;

    // The library is linked for these names alone.
    use corelane_kqueue as _;

    unsafe extern "C" {
        pub safe fn kqueue() -> c_int;
        pub safe fn kqueue1(flags: c_int) -> c_int;
        pub fn kevent(
            kq: c_int,
            changes: *const Kevent,
            count: c_int,
            events: *mut Kevent,
            room: c_int,
            timeout: *const libc::timespec,
        ) -> c_int;
    }
}

/// The functions of the shared library where that is preloaded, else those linked into this program.
fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| match (loaded(c"kqueue"), loaded(c"kqueue1"), loaded(c"kevent")) {
        _ if std::env::var_os(crate::FACE).is_some() => {
            Api { kqueue: of_2007::kqueue, kqueue1: of_2007::kqueue1, kevent: of_2007::kevent }
        }
        (Some(kqueue), Some(kqueue1), Some(kevent)) => {
            // SAFETY: functions of these names, with the signatures of sys/event.h.
            unsafe {
                Api {
                    kqueue: std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> c_int>(kqueue),
                    kqueue1: std::mem::transmute::<*mut libc::c_void, extern "C" fn(c_int) -> c_int>(kqueue1),
                    kevent: std::mem::transmute::<*mut libc::c_void, KeventFunction>(kevent),
                }
            }
        }
        _ => Api {
            kqueue: {
                extern "C" fn call() -> c_int {
                    linked::kqueue()
                }
                call
            },
            kqueue1: {
                extern "C" fn call(flags: c_int) -> c_int {
                    linked::kqueue1(flags)
                }
                call
            },
            kevent: linked::kevent,
        },
    })
}

/// A function of the shared library, where that is preloaded.
pub fn loaded(name: &CStr) -> Option<*mut libc::c_void> {
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Notes that this machine cannot run the case that this process runs, on its face.
pub fn skip(reason: &str) {
    let said = |variable| std::env::var(variable).unwrap_or_default();
    let face = match said(crate::FACE) {
        face if !face.is_empty() => face,
        _ if closes_are_seen() => "shared".to_owned(),
        _ => "linked".to_owned(),
    };
    corelane_os::testing::skip(&format!("{face}: {}", said(crate::VARIABLE)), reason);
}

/// Whether closes are seen at once: by the shared library.
pub fn closes_are_seen() -> bool {
    loaded(c"kqueue").is_some()
}

/// The number of an open descriptor, as an ident.
pub fn id(descriptor: &impl AsRawFd) -> usize {
    usize::try_from(descriptor.as_raw_fd()).unwrap()
}

/// A change.
pub fn ev(ident: usize, filter: i16, flags: u16) -> Kevent {
    Kevent { ident, filter, flags, fflags: 0, data: 0, udata: std::ptr::null_mut(), ext: [0; 4] }
}

/// The rest of a change.
pub trait With {
    fn notes(self, notes: u32) -> Self;
    fn data(self, data: i64) -> Self;
    fn tag(self, tag: usize) -> Self;
    fn has(&self, flag: u16) -> bool;
}

impl With for Kevent {
    fn notes(self, fflags: u32) -> Self {
        Self { fflags, ..self }
    }

    fn data(self, data: i64) -> Self {
        Self { data, ..self }
    }

    fn tag(self, tag: usize) -> Self {
        Self { udata: std::ptr::without_provenance_mut(tag), ..self }
    }

    fn has(&self, flag: u16) -> bool {
        self.flags & flag == flag
    }
}

/// The tag of an event.
pub fn tag(event: &Kevent) -> usize {
    event.udata.addr()
}

/// A queue of kqueue(2).
pub struct Queue(RawFd);

/// How long to wait, as C says it.
pub fn time(seconds: i64, nanoseconds: i64) -> Option<libc::timespec> {
    Some(libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds })
}

pub const FOREVER: Option<libc::timespec> = None;
pub const AT_ONCE: Option<libc::timespec> = Some(libc::timespec { tv_sec: 0, tv_nsec: 0 });

/// kevent(2) with any arguments: how many events, or errno.
pub fn raw(
    queue: RawFd,
    changes: (*const Kevent, c_int),
    events: (*mut Kevent, c_int),
    timeout: Option<libc::timespec>,
) -> Result<usize, i32> {
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the cases give lists of these lengths, or null.
    let returned = unsafe { (api().kevent)(queue, changes.0, changes.1, events.0, events.1, timeout) };
    usize::try_from(returned).map_err(|_| nix::errno::Errno::last_raw())
}

/// kqueue1(2).
pub fn kqueue1(flags: c_int) -> Result<Queue, i32> {
    let number = (api().kqueue1)(flags);
    if number < 0 { Err(nix::errno::Errno::last_raw()) } else { Ok(Queue(number)) }
}

impl Queue {
    pub fn new() -> Self {
        let number = (api().kqueue)();
        assert!(number >= 0, "kqueue: errno {}", nix::errno::Errno::last_raw());
        Self(number)
    }

    /// kevent(2) with lists as they should be.
    pub fn call(&self, changes: &[Kevent], room: usize, timeout: Option<libc::timespec>) -> Result<Vec<Kevent>, i32> {
        let mut events = vec![ev(usize::MAX, 0, 0); room];
        let (count, room) = (c_int::try_from(changes.len()).unwrap(), c_int::try_from(room).unwrap());
        let told = raw(self.0, (changes.as_ptr(), count), (events.as_mut_ptr(), room), timeout)?;
        assert!(told <= events.len(), "no more events than there is room for");
        events.truncate(told);
        Ok(events)
    }

    /// Applies one change and takes nothing.
    pub fn change(&self, change: Kevent) -> Result<(), i32> {
        self.call(&[change], 0, FOREVER).map(|_| ())
    }

    /// Applies changes that must go well.
    pub fn set(&self, changes: &[Kevent]) {
        assert_eq!(self.call(changes, 0, FOREVER), Ok(Vec::new()));
    }

    /// Registers `change`, which must go well.
    pub fn add(&self, ident: usize, filter: i16) {
        self.set(&[ev(ident, filter, ADD)]);
    }

    /// The next event, which is all there is room for.
    pub fn wait(&self) -> Kevent {
        let limit = time(i64::try_from(LIMIT.as_secs()).unwrap(), 0);
        let events = self.call(&[], 1, limit).expect("kevent waits");
        *events.first().expect("an event comes")
    }

    /// Everything that is told at once, in an order of its own.
    pub fn now(&self) -> Vec<Kevent> {
        self.call(&[], 64, AT_ONCE).expect("kevent looks")
    }

    /// Nothing is told.
    pub fn silent(&self) {
        assert_eq!(self.now(), Vec::new());
    }

    /// Waits until `enough` says of an event that it is the one waited for; returns it.
    pub fn until(&self, enough: impl Fn(&Kevent) -> bool) -> Kevent {
        loop {
            let event = self.wait();
            if enough(&event) {
                return event;
            }
        }
    }

    /// Lets go of the descriptor, which is no longer this value's to close.
    pub fn into_raw(self) -> RawFd {
        let number = self.0;
        std::mem::forget(self);
        number
    }
}

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// close(2), by the name that C programs use.
pub fn close(descriptor: RawFd) {
    // SAFETY: the cases close what they opened.
    assert_eq!(unsafe { libc::close(descriptor) }, 0, "close {descriptor}");
}

/// A close that no library sees.
pub fn close_unseen(descriptor: RawFd) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::syscall(libc::SYS_close, descriptor) }, 0);
}

/// dup2(2) over `to`, which is closed by it.
pub fn dup2(from: &impl AsRawFd, to: RawFd) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::dup2(from.as_raw_fd(), to) }, to);
}

/// dup2(2) of a number that is not open.
pub fn dup2_fails(from: RawFd, to: RawFd) {
    // SAFETY: closes nothing.
    assert_eq!(unsafe { libc::dup2(from, to) }, -1);
}

/// Takes over a descriptor that is nobody's.
pub fn owned(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the cases give what they made.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// dup3(2) over `to`, which is closed by it.
pub fn dup3(from: &impl AsRawFd, to: RawFd) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::dup3(from.as_raw_fd(), to, libc::O_CLOEXEC) }, to);
}

/// A dup2(2) that no library sees.
pub fn dup2_unseen(from: &impl AsRawFd, to: RawFd) {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::syscall(libc::SYS_dup3, from.as_raw_fd(), to, 0) }, i64::from(to));
}

/// close_range(2) of one number.
pub fn close_range(descriptor: RawFd, flags: c_int) {
    let number = descriptor.cast_unsigned();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::close_range(number, number, flags) }, 0);
}

/// close_range(2) of all numbers but the first three.
pub fn close_all() {
    // SAFETY: called in a child, which uses none of them after this.
    assert_eq!(unsafe { libc::close_range(3, u32::MAX, 0) }, 0);
}

/// The same, which no library sees.
pub fn close_all_unseen() {
    // SAFETY: as above.
    assert_eq!(unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) }, 0);
}

/// fdopen(3) and fclose(3).
pub fn fclose(descriptor: RawFd) {
    // SAFETY: the stream is used here alone.
    unsafe {
        let stream = libc::fdopen(descriptor, c"r".as_ptr());
        assert!(!stream.is_null());
        assert_eq!(libc::fclose(stream), 0);
    }
}

/// Another number of the same open file.
pub fn dup(descriptor: &impl AsRawFd) -> RawFd {
    // SAFETY: asks for a number only.
    let copy = unsafe { libc::dup(descriptor.as_raw_fd()) };
    assert!(copy >= 0);
    copy
}

/// Runs `body` in a child; whether it returned true there.
pub fn in_child(body: impl FnOnce() -> bool) -> bool {
    // SAFETY: cases that fork have no other thread, so the child may do what its parent may.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends this process, without the parent's destructors.
        unsafe { libc::_exit(if passed { 0 } else { 1 }) }
    }
    exit_status(child) == 0
}

/// Starts a child that runs `body` and ends with what that returns.
pub fn child(body: impl FnOnce() -> i32) -> Child {
    // SAFETY: as above.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "fork");
    if child == 0 {
        let code = body();
        // SAFETY: as above.
        unsafe { libc::_exit(code) }
    }
    Child(child)
}

/// A child that has not been waited for.
pub struct Child(pub i32);

impl Child {
    pub fn id(&self) -> usize {
        usize::try_from(self.0).unwrap()
    }

    /// Takes its wait status.
    pub fn reap(self) -> i32 {
        exit_status(self.0)
    }
}

/// Waits for a child: its wait status.
fn exit_status(child: i32) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY: the status is ours.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if waited == child {
            return status;
        }
        assert_eq!(nix::errno::Errno::last(), nix::errno::Errno::EINTR);
    }
}

/// Runs `body` as a child of vfork(2) would: in this memory, with a descriptor table of its own, while its parent waits.
pub fn in_vfork(mut body: impl FnMut()) {
    let mut stack = vec![0_u8; 1 << 18];
    let run = Box::new(move || {
        body();
        0
    });
    let flags = nix::sched::CloneFlags::CLONE_VM | nix::sched::CloneFlags::CLONE_VFORK;
    // SAFETY: the parent waits until the child has ended, so nothing is touched by both.
    let child = unsafe { nix::sched::clone(run, &mut stack, flags, Some(libc::SIGCHLD)) }.unwrap();
    assert_eq!(exit_status(child.as_raw()), 0);
}

/// Sends `signal` to this process.
pub fn raise_process(signal: c_int) {
    // SAFETY: sends only.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal) }, 0);
}

extern "C" fn nothing(_: c_int) {}

/// Installs a handler that does nothing, with these flags of sigaction(2).
pub fn handle(signal: c_int, flags: c_int) {
    // SAFETY: zero is a valid action, and its handler touches nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Ignores `signal`.
pub fn ignore(signal: c_int) {
    // SAFETY: installs no code.
    assert_ne!(unsafe { libc::signal(signal, libc::SIG_IGN) }, libc::SIG_ERR);
}

/// Who can be sent a signal of its own.
pub fn this_thread() -> libc::pthread_t {
    // SAFETY: always succeeds.
    unsafe { libc::pthread_self() }
}

/// Sends `signal` to a thread that has not ended.
pub fn raise_thread(thread: libc::pthread_t, signal: c_int) {
    // SAFETY: the cases join the thread afterwards.
    assert_eq!(unsafe { libc::pthread_kill(thread, signal) }, 0);
}

/// Both ends of a pipe: to read, to write.
pub fn pipe() -> (OwnedFd, OwnedFd) {
    nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK).unwrap()
}

/// A listener on loopback.
pub fn listener() -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

/// Both ends of a TCP connection; neither blocks.
pub fn tcp() -> (TcpStream, TcpStream) {
    let listener = listener();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for end in [&client, &server] {
        end.set_nonblocking(true).unwrap();
        end.set_nodelay(true).unwrap();
    }
    (client, server)
}

/// Both ends of a stream between local sockets; neither blocks.
pub fn local() -> (std::os::unix::net::UnixStream, std::os::unix::net::UnixStream) {
    let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    other.set_nonblocking(true).unwrap();
    (one, other)
}

/// Writes all of `bytes`.
pub fn put(descriptor: &impl AsRawFd, bytes: &[u8]) {
    // SAFETY: the bytes are there.
    let written = unsafe { libc::write(descriptor.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    assert_eq!(usize::try_from(written), Ok(bytes.len()), "write");
}

/// Reads at most `count` bytes; how many came. 0 at the end, and where there is nothing.
pub fn get(descriptor: &impl AsRawFd, count: usize) -> usize {
    let mut bytes = vec![0_u8; count];
    // SAFETY: there is room for as many.
    let came = unsafe { libc::read(descriptor.as_raw_fd(), bytes.as_mut_ptr().cast(), count) };
    usize::try_from(came).unwrap_or(0)
}

/// Writes until there is no room; how many bytes that took.
pub fn fill(descriptor: &impl AsRawFd) -> usize {
    let bytes = [b'f'; 4096];
    let mut filled = 0;
    let mut size = bytes.len();
    while size > 0 {
        // SAFETY: the bytes are there.
        let written = unsafe { libc::write(descriptor.as_raw_fd(), bytes.as_ptr().cast(), size) };
        match usize::try_from(written) {
            Ok(written) => filled += written,
            Err(_) => size /= 2,
        }
    }
    filled
}

/// Reads until nothing is left; how many bytes that were.
pub fn drain(descriptor: &impl AsRawFd) -> usize {
    std::iter::from_fn(|| Some(get(descriptor, 1 << 16)).filter(|came| *came > 0)).sum()
}

/// A folder of this process's own, removed at the end of the case.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A file with `bytes` in it, open to read and write, at its beginning.
    pub fn file(&self, name: &str, bytes: &[u8]) -> File {
        std::fs::write(self.path(name), bytes).unwrap();
        File::options().read(true).write(true).open(self.path(name)).unwrap()
    }

    /// The folder itself, open.
    pub fn open(&self) -> File {
        File::open(self.0.path()).unwrap()
    }
}
