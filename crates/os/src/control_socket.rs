//! A socket beside a process's counter page, through which its user asks and tells the process things while it runs.
//!
//! One connection carries one request and its answer, a line each: the answer begins with `ok ` or `error `. Only the user who runs the
//! process, and root, are heard (SO_PEERCRED). The thread of the socket reads all connections side by side and answers one
//! request at a time, so a client that stops in the middle holds nobody up: it is dropped after [`PATIENCE`], and before that if so many
//! others come that there is no room for it.
//!
//! Sources: unix(7), poll(2).
#![allow(unsafe_code)]

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, mem};

/// What the name of a socket ends with; the rest is as its page's.
pub const SUFFIX: &str = "control";

/// Bytes of a request or an answer, with the end of its line: room for a table of 1,024 buckets.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// How long a client may take to send its request, and again to take the answer.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Clients that are read side by side. One more takes the place of the one that has been silent for longest.
const CLIENTS_MAX: usize = 64;

/// How long nobody is accepted where the system has no descriptor for one.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a socket could not be made, or gave no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// The environment: the socket cannot be made or reached.
    Socket {
        /// The socket.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The environment: nobody listens at the socket. Its process has ended, or never listened.
    Gone {
        /// The socket.
        path: PathBuf,
    },
    /// The process: no answer within the time.
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The process: what came is no answer, or only a part of one. It does not speak this protocol, ended, or does not hear this user.
    NoAnswer {
        /// The socket.
        path: PathBuf,
        /// Bytes that came.
        got_bytes: usize,
    },
    /// The caller: a request of several lines, or of too many bytes.
    Request {
        /// Its bytes.
        got_bytes: usize,
    },
    /// The caller: the process does not do what was asked; these are its words.
    Refused {
        /// What is wrong, and the remedy.
        why: String,
    },
}

impl fmt::Display for ControlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket { path, source } => {
                write!(f, "control socket {}: {source}; see that it is yours and its file system has room", path.display())
            }
            Self::Gone { path } => write!(f, "nobody listens at the control socket {}: start the process again", path.display()),
            Self::Silent { path, waited } => {
                write!(f, "no answer at the control socket {} for {waited:?}: does the process hang?", path.display())
            }
            Self::NoAnswer { path, got_bytes } => {
                let path = path.display();
                write!(
                    f,
                    "{got_bytes} bytes and no answer at the control socket {path}: has the process ended, or is it of another version?"
                )
            }
            Self::Request { got_bytes } => {
                write!(
                    f,
                    "a request is one line of at most {} bytes, and this has {got_bytes}: ask for less at once",
                    LINE_BYTES_MAX - 1
                )
            }
            Self::Refused { why } => f.write_str(why),
        }
    }
}

impl std::error::Error for ControlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Socket { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// An open socket and the thread that answers at it. Dropping it finishes the request in progress, ends the thread and removes the socket.
pub struct ControlSocket {
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
    /// Shut down to end the thread.
    lifeline: UnixStream,
}

impl ControlSocket {
    /// Opens the socket of the process whose page is at `page`, and has `answer` called with each request, on a thread of its own. A process
    /// that was killed leaves its socket behind; those in the page's directory are removed.
    ///
    /// Open it after the lanes have taken descriptor tables of their own: they have no use for it.
    ///
    /// # Errors
    /// [`ControlError::Socket`].
    pub fn open(page: &Path, answer: impl FnMut(&str) -> Result<String, String> + Send + 'static) -> Result<Self, ControlError> {
        Self::open_for(page, PATIENCE, answer)
    }

    /// [`ControlSocket::open`] that has `patience` with each client.
    fn open_for(
        page: &Path,
        patience: Duration,
        answer: impl FnMut(&str) -> Result<String, String> + Send + 'static,
    ) -> Result<Self, ControlError> {
        let path = page.with_extension(SUFFIX);
        let failed = |source| ControlError::Socket { path: path.clone(), source };
        remove_dead(page);
        let listener = listen(page, &path).map_err(failed)?;
        let socket = Self::start(path.clone(), listener, patience, answer);
        socket.map_err(|source| {
            let _ = fs::remove_file(&path);
            failed(source)
        })
    }

    fn start(
        path: PathBuf,
        listener: UnixListener,
        patience: Duration,
        answer: impl FnMut(&str) -> Result<String, String> + Send + 'static,
    ) -> io::Result<Self> {
        let (lifeline, end) = UnixStream::pair()?;
        let mut server = Server { listener, end, clients: Vec::new(), accept_from: None, patience, answer };
        let thread = Builder::new().name("control".to_string()).spawn(move || server.run())?;
        Ok(Self { path, thread: Some(thread), lifeline })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // First, so that nobody comes who would wait in vain. A drop cannot report; a socket left behind is found as dead.
        let _ = fs::remove_file(&self.path);
        // Closing it would not do: lanes that were started later have copies of it in their descriptor tables. On a pair of our own it
        // does not fail.
        let _ = self.lifeline.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported on standard error.
            let _ = thread.join();
        }
    }
}

/// Sends `request` to the process whose page is at `page`, and waits at most `patience` for its answer.
///
/// # Errors
/// Every [`ControlError`].
pub fn ask(page: &Path, request: &str, patience: Duration) -> Result<String, ControlError> {
    let path = page.with_extension(SUFFIX);
    if request.len() >= LINE_BYTES_MAX || request.contains('\n') {
        return Err(ControlError::Request { got_bytes: request.len() });
    }
    let deadline = Instant::now() + patience;
    let answer = exchange(&path, request, deadline).map_err(|source| match source.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => ControlError::Gone { path: path.clone() },
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ControlError::Silent { path: path.clone(), waited: patience },
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => ControlError::NoAnswer { path: path.clone(), got_bytes: 0 },
        _ => ControlError::Socket { path: path.clone(), source },
    })?;
    let line = answer.strip_suffix(b"\n").and_then(|line| std::str::from_utf8(line).ok());
    match line.and_then(|line| line.split_once(' ')) {
        Some(("ok", words)) => Ok(words.to_string()),
        Some(("error", why)) => Err(ControlError::Refused { why: why.to_string() }),
        _ => Err(ControlError::NoAnswer { path, got_bytes: answer.len() }),
    }
}

/// The bytes of the answer, up to the end of the first line, of the stream, or of what an answer may have.
fn exchange(path: &Path, request: &str, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut stream = connect(path, left(deadline)?)?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut bytes = [0; 4096];
    while answer.last() != Some(&b'\n') && answer.len() < LINE_BYTES_MAX {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(&mut bytes)? {
            0 => break,
            length => answer.extend_from_slice(&bytes[..length]),
        }
    }
    Ok(answer)
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Removes the sockets beside `page` that nobody listens at. Sockets get their names when they listen, so those of living
/// processes always take a connection.
fn remove_dead(page: &Path) {
    let files = page.parent().map(fs::read_dir).and_then(Result::ok).into_iter().flatten();
    let sockets = files.filter_map(Result::ok).filter(|file| file.file_type().is_ok_and(|kind| kind.is_socket()));
    for path in sockets.map(|file| file.path()) {
        let is_dead =
            || connect(&path, Duration::from_millis(1)).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if path.extension() == Some(OsStr::new(SUFFIX)) && is_dead() {
            // What cannot be removed stays for the next start.
            let _ = fs::remove_file(path);
        }
    }
}

/// A short path to `path` through its open directory: the address of a socket has room for 107 bytes only.
fn short(path: &Path) -> io::Result<(File, PathBuf)> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Err(ErrorKind::InvalidFilename.into()) };
    let directory = File::open(directory)?;
    let short = Path::new("/proc/thread-self/fd").join(directory.as_raw_fd().to_string()).join(name);
    Ok((directory, short))
}

/// Listens at `path`. The socket is made under the name that `page` had before it was published, which is removed with those of
/// the dead should this process die over it, and gets its own when it listens and is closed to others.
fn listen(page: &Path, path: &Path) -> io::Result<UnixListener> {
    let unpublished = page.with_extension(crate::page::SUFFIX_UNPUBLISHED);
    let (_directory, short) = short(&unpublished)?;
    let listener = UnixListener::bind(short)?;
    let published = fs::set_permissions(&unpublished, Permissions::from_mode(0o600)).and_then(|()| {
        listener.set_nonblocking(true)?;
        fs::rename(&unpublished, path)
    });
    if published.is_err() {
        let _ = fs::remove_file(&unpublished);
    }
    published.map(|()| listener)
}

/// Connects to the socket at `path`; waits at most `patience` where its queue is full, and gives up a write after as long.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let (_directory, short) = short(path)?;
    let short = short.as_os_str().as_bytes();
    // SAFETY: takes no pointers.
    let number = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just opened it for us alone.
    let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(number) });
    stream.set_write_timeout(Some(patience))?;
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as libc::sa_family_t, sun_path: [0; 108] };
    if short.len() >= address.sun_path.len() {
        return Err(ErrorKind::InvalidFilename.into());
    }
    address.sun_path.iter_mut().zip(short).for_each(|(place, byte)| *place = *byte as libc::c_char);
    // SAFETY: the address is valid for so many bytes, and its path ends with a zero.
    let answer = unsafe { libc::connect(number, (&raw const address).cast(), mem::size_of_val(&address) as libc::socklen_t) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(stream) }
}

/// The thread's own state.
struct Server<A> {
    listener: UnixListener,
    /// Has an end of stream when the socket is to be closed.
    end: UnixStream,
    clients: Vec<Client>,
    /// When to accept again, after the system could not.
    accept_from: Option<Instant>,
    /// How long a client may take to ask, and then to take its answer.
    patience: Duration,
    answer: A,
}

/// A connection: first its request comes, then its answer goes.
struct Client {
    stream: UnixStream,
    request: Vec<u8>,
    /// What is left of the answer; none while the request is not complete.
    answer: Option<Vec<u8>>,
    deadline: Instant,
}

/// Whether a connection is to go on.
#[derive(PartialEq)]
enum Next {
    Wait,
    Close,
}

impl<A: FnMut(&str) -> Result<String, String>> Server<A> {
    fn run(&mut self) {
        while self.turn() {}
        // Who still waits is told so, because copies of the listener may keep their connections open.
        while let Ok((stream, _)) = self.listener.accept() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Waits for clients and goes on with them; false when the socket is to be closed.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        self.accept_from = self.accept_from.filter(|from| *from > now);
        let mut polled = self.polled();
        let wakes = self.clients.iter().map(|client| client.deadline).chain(self.accept_from);
        poll(&mut polled, wakes.min().map(|wake| wake.saturating_duration_since(now)));
        let ready: Vec<bool> = polled.iter().map(|fd| fd.revents != 0).collect();
        if ready[0] {
            return false;
        }
        self.serve(&ready[2..]);
        if ready[1] {
            self.accept();
        }
        true
    }

    /// The end, the listener, and the clients in order.
    fn polled(&self) -> Vec<libc::pollfd> {
        let one = |fd: i32, events| libc::pollfd { fd, events, revents: 0 };
        // A negative descriptor is passed over.
        let listener = if self.accept_from.is_none() { self.listener.as_raw_fd() } else { -1 };
        let clients = self.clients.iter().map(|client| {
            let events = if client.answer.is_none() { libc::POLLIN } else { libc::POLLOUT };
            one(client.stream.as_raw_fd(), events)
        });
        [one(self.end.as_raw_fd(), libc::POLLIN), one(listener, libc::POLLIN)].into_iter().chain(clients).collect()
    }

    /// Goes on with the clients that are ready, and drops those whose time is over.
    fn serve(&mut self, ready: &[bool]) {
        let mut ready = ready.iter();
        let (answer, patience) = (&mut self.answer, self.patience);
        // What has come is looked at first: an answer to another may have taken long.
        self.clients.retain_mut(|client| {
            let waits = ready.next() != Some(&true) || client.go_on(answer, patience) == Next::Wait;
            waits && client.deadline > Instant::now()
        });
    }

    fn accept(&mut self) {
        for _ in 0..CLIENTS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) if is_heard(&stream) && stream.set_nonblocking(true).is_ok() => self.begin(stream),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(_) => {
                    self.accept_from = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
    }
}

impl<A: FnMut(&str) -> Result<String, String>> Server<A> {
    /// Begins with a client, whose request is mostly there already: then it needs no place among those who wait.
    fn begin(&mut self, stream: UnixStream) {
        let mut client = Client { stream, request: Vec::new(), answer: None, deadline: Instant::now() + self.patience };
        if client.go_on(&mut self.answer, self.patience) == Next::Close {
            return;
        }
        if self.clients.len() == CLIENTS_MAX {
            let silent = self.clients.iter().position(|client| client.answer.is_none());
            self.clients.remove(silent.unwrap_or(0));
        }
        self.clients.push(client);
    }
}

impl Client {
    fn go_on(&mut self, answer: &mut impl FnMut(&str) -> Result<String, String>, patience: Duration) -> Next {
        if self.answer.is_none() {
            match self.read() {
                Ok(None) => return Next::Wait,
                Ok(Some(line)) => self.answer = Some(written(respond(&line, answer))),
                Err(_) => return Next::Close,
            }
            self.deadline = Instant::now() + patience;
        }
        self.write()
    }

    /// The request, as far as it is to be looked at, once there is nothing to wait for.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) if self.request.is_empty() => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(0) => return Ok(Some(mem::take(&mut self.request))),
                Ok(length) => self.request.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if let Some(at) = self.request.iter().position(|byte| *byte == b'\n') {
                self.request.truncate(at + 1);
            } else if self.request.len() < LINE_BYTES_MAX {
                continue;
            }
            return Ok(Some(mem::take(&mut self.request)));
        }
    }

    fn write(&mut self) -> Next {
        let Some(answer) = &mut self.answer else { return Next::Wait };
        match self.stream.write(answer) {
            Ok(length) if length < answer.len() => {
                answer.drain(..length);
                Next::Wait
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Next::Wait,
            _ => Next::Close,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Lanes that were started meanwhile have copies of the descriptor. Who has gone needs no end of stream.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn respond(line: &[u8], answer: &mut impl FnMut(&str) -> Result<String, String>) -> Result<String, String> {
    if line.len() > LINE_BYTES_MAX || (line.len() == LINE_BYTES_MAX && !line.ends_with(b"\n")) {
        return Err(format!("a request has at most {} bytes: ask for less at once", LINE_BYTES_MAX - 1));
    }
    let Some(line) = line.strip_suffix(b"\n") else {
        return Err("the request ends before its line does: end it with a newline".to_string());
    };
    let line = std::str::from_utf8(line).map_err(|_| "the request is not UTF-8: write plain text".to_string())?;
    answer(line)
}

/// The line of an answer. What would break it is cut.
fn written(answer: Result<String, String>) -> Vec<u8> {
    let (word, mut words) = match answer {
        Ok(words) => ("ok", words),
        Err(why) => ("error", why),
    };
    words = words.replace('\n', "; ");
    words.truncate(words.floor_char_boundary(LINE_BYTES_MAX - "error \n".len()));
    format!("{word} {words}\n").into_bytes()
}

/// Whether the other end is of this user, or root's.
fn is_heard(stream: &UnixStream) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `peer` has so many writable bytes, and `bytes` says how many.
    let answer =
        unsafe { libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &mut bytes) };
    // SAFETY: takes no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    answer == 0 && (peer.uid == user || peer.uid == 0)
}

/// Waits until one of them is ready, or the time is over; no time is for ever.
fn poll(fds: &mut [libc::pollfd], time: Option<Duration>) {
    // Rounded up: waking early would only wait again.
    let milliseconds = time.map_or(-1, |time| i32::try_from(time.as_millis() + 1).unwrap_or(i32::MAX));
    // SAFETY: the entries are valid for reads and writes, and there are so many.
    let answer = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, milliseconds) };
    if answer < 0 {
        // Interrupted: nobody is ready.
        fds.iter_mut().for_each(|fd| fd.revents = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;

    /// How long a test waits for anything.
    const LONG: Duration = Duration::from_secs(60);

    /// A directory of one test's own, gone when it ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            // Longer than the address of a socket may be.
            let long = "directory".repeat(12);
            let name = format!("corelane-control-{}-{}-{long}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn page(&self, name: &str) -> PathBuf {
            self.0.join(name).with_extension("page")
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> =
                fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// Answers with the request, but refuses `no`.
    fn echo(request: &str) -> Result<String, String> {
        if request == "no" { Err("it is not to be\nas you know".to_string()) } else { Ok(request.to_string()) }
    }

    /// A connection that has sent `bytes`.
    fn sent(socket: &ControlSocket, bytes: &[u8]) -> UnixStream {
        let mut stream = connect(socket.path(), LONG).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        // What is too long is not read to its end.
        let _ = stream.write_all(bytes);
        stream
    }

    /// All that comes until the end.
    fn answer(mut stream: UnixStream) -> String {
        let mut bytes = Vec::new();
        // An end with bytes of ours unread shows as a reset behind the answer.
        let end = stream.read_to_end(&mut bytes);
        assert!(end.is_ok() || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn requests_are_answered_and_refused() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let mut count = 0;
        let socket = ControlSocket::open(&page, move |request| {
            count += 1;
            echo(request).map(|words| format!("{count} {words}"))
        });
        let socket = socket.unwrap();
        assert_eq!(fs::metadata(socket.path()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ask(&page, "first of all", LONG).unwrap(), "1 first of all");
        let Err(ControlError::Refused { why }) = ask(&page, "no", LONG) else { panic!("it does not refuse") };
        assert_eq!(why, "it is not to be; as you know");
        assert_eq!(ask(&page, "", LONG).unwrap(), "3 ");
        assert!(matches!(ask(&page, "two\nlines", LONG), Err(ControlError::Request { got_bytes: 9 })));
        assert_eq!(scratch.names(), ["1.control"]);
        drop(socket);
        assert!(scratch.names().is_empty());
        assert!(matches!(ask(&page, "late", LONG), Err(ControlError::Gone { .. })));
    }

    #[test]
    fn what_is_no_request_is_refused_with_words() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let socket = ControlSocket::open(&page, echo).unwrap();
        assert!(answer(sent(&socket, &[b'a'; LINE_BYTES_MAX])).starts_with("error a request has at most 16383 bytes"));
        assert!(answer(sent(&socket, &vec![b'a'; 1 << 20])).starts_with("error a request has at most 16383 bytes"));
        assert!(answer(sent(&socket, b"\xff\xfe\x00\n")).starts_with("error the request is not UTF-8"));
        let half = sent(&socket, b"half a li");
        half.shutdown(Shutdown::Write).unwrap();
        assert!(answer(half).starts_with("error the request ends before its line"));
        let nothing = sent(&socket, b"");
        nothing.shutdown(Shutdown::Write).unwrap();
        assert_eq!(answer(nothing), "");
        assert_eq!(answer(sent(&socket, b"one\ntwo\n")), "ok one\n");
        let longest = "b".repeat(LINE_BYTES_MAX - 1);
        assert!(matches!(ask(&page, &format!("{longest}b"), LONG), Err(ControlError::Request { .. })));
        assert_eq!(ask(&page, &longest, LONG).unwrap().len(), LINE_BYTES_MAX - "error \n".len());
    }

    #[test]
    fn clients_that_stop_in_the_middle_hold_nobody() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let socket = ControlSocket::open(&page, echo).unwrap();
        let stuck: Vec<UnixStream> = (0..CLIENTS_MAX - 1).map(|_| sent(&socket, b"half")).collect();
        assert_eq!(ask(&page, "through", LONG).unwrap(), "through");
        let more: Vec<UnixStream> = (0..CLIENTS_MAX).map(|_| sent(&socket, b"half")).collect();
        assert_eq!(ask(&page, "in the end", LONG).unwrap(), "in the end");
        for stream in stuck.into_iter().chain(more) {
            assert_eq!(answer(stream), "", "it is dropped without an answer");
        }
    }

    #[test]
    fn many_silent_clients_keep_nobody_waiting() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let socket = ControlSocket::open_for(&page, LONG, echo).unwrap();
        let silent: Vec<UnixStream> = (0..200).map(|_| sent(&socket, b"")).collect();
        assert_eq!(ask(&page, "through", LONG).unwrap(), "through");
        // Nobody waited for their time to be over: all are still heard but those who made room.
        for mut stream in silent.into_iter().skip(200 - CLIENTS_MAX + 1) {
            stream.write_all(b"me, too\n").unwrap();
            assert_eq!(answer(stream), "ok me, too\n");
        }
    }

    #[test]
    fn who_always_has_a_byte_ready_is_late_all_the_same() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let listener = listen(&page, &page.with_extension(SUFFIX)).unwrap();
        let (_lifeline, end) = UnixStream::pair().unwrap();
        let mut server = Server { listener, end, clients: Vec::new(), accept_from: None, patience: PATIENCE, answer: echo };
        let past = Instant::now();
        let clients: Vec<UnixStream> = [&b"a"[..], b"whole\n"]
            .into_iter()
            .map(|bytes| {
                let (mut client, stream) = UnixStream::pair().unwrap();
                stream.set_nonblocking(true).unwrap();
                client.write_all(bytes).unwrap();
                server.clients.push(Client { stream, request: Vec::new(), answer: None, deadline: past });
                client
            })
            .collect();
        assert!(server.turn());
        assert!(server.clients.is_empty());
        let answers: Vec<String> = clients.into_iter().map(answer).collect();
        assert_eq!(answers, ["", "ok whole\n"]);
    }

    #[test]
    fn copies_in_other_descriptor_tables_keep_nothing_open() {
        let scratch = Scratch::new();
        let (go, gone) = mpsc::channel::<()>();
        let socket = ControlSocket::open(&scratch.page("1"), move |request| {
            let _ = gone.recv();
            echo(request)
        });
        let socket = socket.unwrap();
        let (asked, stuck) = (sent(&socket, b"hello\n"), sent(&socket, b"half"));
        let (copied, have_copied) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let copier = std::thread::spawn(move || {
            copied.send(crate::runner::own_descriptors()).unwrap();
            let _ = ended.recv();
        });
        have_copied.recv().unwrap().unwrap();
        go.send(()).unwrap();
        assert_eq!(answer(asked), "ok hello\n");
        drop(socket);
        assert_eq!(answer(stuck), "");
        drop(end);
        copier.join().unwrap();
    }

    #[test]
    fn a_hundred_clients_at_once_are_all_answered() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let _socket = ControlSocket::open(&page, echo).unwrap();
        std::thread::scope(|scope| {
            for number in 0..100 {
                let page = &page;
                scope.spawn(move || assert_eq!(ask(page, &number.to_string(), LONG).unwrap(), number.to_string()));
            }
        });
    }

    #[test]
    fn an_answer_that_takes_long_is_waited_for() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let (go, gone) = mpsc::channel::<()>();
        let socket = ControlSocket::open(&page, move |_| {
            gone.recv().map_err(|error| error.to_string())?;
            Ok("at last".to_string())
        });
        let socket = socket.unwrap();
        assert!(matches!(ask(&page, "soon", Duration::from_millis(20)), Err(ControlError::Silent { .. })));
        go.send(()).unwrap(); // for the one that has given up
        let waiting = sent(&socket, b"late\n");
        go.send(()).unwrap();
        assert_eq!(answer(waiting), "ok at last\n");
    }

    #[test]
    fn sockets_of_the_dead_are_removed_and_others_stay() {
        let scratch = Scratch::new();
        let living = scratch.page("1");
        let socket = ControlSocket::open(&living, echo).unwrap();
        let (_directory, dead) = short(&scratch.0.join("2.control")).unwrap();
        drop(UnixListener::bind(dead).unwrap()); // as by a process that is killed
        let (_directory, other) = short(&scratch.0.join("other")).unwrap();
        drop(UnixListener::bind(other).unwrap());
        fs::write(scratch.0.join("3.control"), "not a socket").unwrap();
        assert!(matches!(ask(&scratch.page("2"), "hello", LONG), Err(ControlError::Gone { .. })));
        let _new = ControlSocket::open(&scratch.page("4"), echo).unwrap();
        assert_eq!(scratch.names(), ["1.control", "3.control", "4.control", "other"]);
        assert_eq!(ask(&living, "still there", LONG).unwrap(), "still there");
        drop(socket);
        assert_eq!(scratch.names(), ["3.control", "4.control", "other"]);
    }

    #[test]
    fn a_place_where_no_socket_can_be_is_named() {
        let scratch = Scratch::new();
        let page = scratch.0.join("missing/1.page");
        let refused = ControlSocket::open(&page, echo).map(|_| ());
        let Err(ControlError::Socket { path, source }) = refused else { panic!("{refused:?}") };
        assert_eq!((path, source.kind()), (page.with_extension("control"), ErrorKind::NotFound));
    }

    #[test]
    fn other_users_are_not_heard() {
        // SAFETY: takes no arguments and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return crate::testing::skip("control_socket::tests::other_users_are_not_heard", "it needs root");
        }
        let scratch = Scratch::new();
        fs::set_permissions(&scratch.0, Permissions::from_mode(0o755)).unwrap();
        let page = scratch.page("1");
        let socket = ControlSocket::open(&page, |_| panic!("it was heard")).unwrap();
        let as_nobody = |page: PathBuf| {
            let asked = move || {
                // SAFETY: takes no pointers. Made directly, the call changes the user of this thread only.
                assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) }, 0);
                ask(&page, "hello", LONG)
            };
            std::thread::spawn(asked).join().unwrap()
        };
        let refused = as_nobody(page.clone());
        let Err(ControlError::Socket { source, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(source.kind(), ErrorKind::PermissionDenied);
        fs::set_permissions(socket.path(), Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(as_nobody(page), Err(ControlError::NoAnswer { got_bytes: 0, .. })));
    }
}
