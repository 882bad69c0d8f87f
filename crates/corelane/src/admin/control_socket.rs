//! The answering end of a control socket (see [`crate::admin::control_client`]).
//!
//! Only the user who runs the process, and root, are heard. Each client has a thread of its own, and requests are carried out one after the
//! other. So a client that stops in the middle holds nobody up: it is dropped after [`PATIENCE`], and before that if so many others come that
//! there is no room for it.
//!
//! All requests together are bounded: [`CLIENTS_MAX`] times [`LINE_BYTES_MAX`], and [`LARGE_MAX`] of a gateway may be larger. Of others no more is read until one is done.
//!
//! Source: unix(7).

use crate::admin::control_client::{ControlError, LINE_BYTES_MAX, SUFFIX, bytes_max, connect, short};
use corelane_os::page::SUFFIX_UNPUBLISHED;
use corelane_os::{local, sockets};
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// How long a client may take to send its request, and again to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Clients that are served side by side. Where all of them are silent, one more takes the place of the one that has been so for longest.
const CLIENTS_MAX: usize = 64;

/// Requests of more than [`LINE_BYTES_MAX`] bytes that are read or carried out at a time.
const LARGE_MAX: usize = 4;

/// Connections that wait to be accepted: who asks once waits behind so many of those who ask without end.
const QUEUED_MAX: u16 = 16;

/// How long nobody is accepted where the system has no descriptor for one.
const PAUSE: Duration = Duration::from_millis(100);

/// Carries out a request; what it returns is for whoever asked.
type Answer = dyn FnMut(&str) -> Result<String, String> + Send;

/// Serves a process that asks to take over: its stream, and what stands behind [`TAKE_OVER`]. Called beside other requests.
pub(crate) type TakeOver = dyn Fn(&UnixStream, &str) + Send + Sync;

/// The beginning of such a request.
const TAKE_OVER: &[u8] = b"take-over ";

/// An open socket and the threads that answer at it. Dropping it finishes the request in progress, ends the threads and removes the socket.
pub struct ControlSocket {
    path: PathBuf,
    server: Arc<Server>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Opens the socket of the process whose page is at `page`, and has `answer` called with each request, on threads of its own. A process
    /// that was killed leaves its socket behind; those in the page's directory are removed.
    ///
    /// Open it after the lanes have taken descriptor tables of their own: they have no use for it.
    ///
    /// # Errors
    /// [`ControlError::Socket`].
    pub fn open(
        page: &Path,
        answer: impl FnMut(&str) -> Result<String, String> + Send + 'static,
        take_over: impl Fn(&UnixStream, &str) + Send + Sync + 'static,
    ) -> Result<Self, ControlError> {
        Self::open_for(page, PATIENCE, answer, Box::new(take_over))
    }

    /// [`ControlSocket::open`] that has `patience` with each client.
    fn open_for(
        page: &Path,
        patience: Duration,
        answer: impl FnMut(&str) -> Result<String, String> + Send + 'static,
        take_over: Box<TakeOver>,
    ) -> Result<Self, ControlError> {
        let path = page.with_extension(SUFFIX);
        let failed = |source| ControlError::Socket { path: path.clone(), source };
        remove_dead(page);
        let server = Arc::new(Server::new(listen(page, &path).map_err(failed)?, patience, Box::new(answer), take_over));
        let accepting = server.clone();
        match Builder::new().name("control".to_string()).spawn(move || accepting.accept()) {
            Ok(thread) => Ok(Self { path, server, thread: Some(thread) }),
            Err(source) => {
                let _ = fs::remove_file(&path);
                Err(failed(source))
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // First, so that nobody comes who would wait in vain. A drop cannot report; a socket left behind is found as dead.
        let _ = fs::remove_file(&self.path);
        self.server.lock().is_closed = true;
        self.server.changed.notify_all();
        // Closing it would not do: lanes that were started later have copies of it in their descriptor tables.
        local::end_listening(&self.server.listener);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported on standard error.
            let _ = thread.join();
        }
    }
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
            // A file that cannot be removed stays for the next start.
            let _ = fs::remove_file(path);
        }
    }
}

/// Listens at `path`. The socket is made under the name that `page` had before it was published, which is removed with those of
/// the dead should this process die over it, and gets its own when it listens and is closed to others.
fn listen(page: &Path, path: &Path) -> io::Result<UnixListener> {
    let unpublished = page.with_extension(SUFFIX_UNPUBLISHED);
    let (_directory, short) = short(&unpublished)?;
    let listener = UnixListener::bind(short)?;
    let published = local::bound_queue(&listener, QUEUED_MAX)
        .and_then(|()| fs::set_permissions(&unpublished, Permissions::from_mode(0o600)))
        .and_then(|()| fs::rename(&unpublished, path));
    if published.is_err() {
        let _ = fs::remove_file(&unpublished);
    }
    published.map(|()| listener)
}

/// The state that all threads of a socket share.
struct Server {
    listener: UnixListener,
    /// How long a client may take to ask, and then to take its answer.
    patience: Duration,
    clients: Mutex<Clients>,
    /// A client has sent something, or ended; or the socket is to be closed.
    changed: Condvar,
    /// Held while a request is carried out.
    answer: Mutex<Box<Answer>>,
    take_over: Box<TakeOver>,
}

#[derive(Default)]
struct Clients {
    threads: usize,
    /// Those whose request has not come, the one that has been silent for longest first.
    silent: Vec<Arc<UnixStream>>,
    /// Those whose request is large.
    large: usize,
    is_closed: bool,
}

impl Clients {
    /// Each client has its thread, and is silent until its request has come.
    fn assert_bounded(&self) {
        assert!(self.threads <= CLIENTS_MAX, "{} clients are served side by side", self.threads);
        assert!(self.silent.len() <= self.threads, "{} are silent of {} clients", self.silent.len(), self.threads);
        assert!(self.large <= LARGE_MAX.min(self.threads), "{} requests are large of {} clients", self.large, self.threads);
    }

    /// Has the first one end where all are silent. A request that has arrived and was not read yet is no silence.
    fn make_room(&mut self) {
        let is_silent = |stream: &Arc<UnixStream>| sockets::readable_bytes(stream.as_fd()) == 0;
        if self.silent.len() == CLIENTS_MAX && self.silent.iter().all(is_silent) {
            // Its thread reads what comes meanwhile, and then the end.
            let _ = self.silent.remove(0).shutdown(Shutdown::Read);
        }
    }
}

impl Server {
    fn new(listener: UnixListener, patience: Duration, answer: Box<Answer>, take_over: Box<TakeOver>) -> Self {
        Self { listener, patience, clients: Mutex::default(), changed: Condvar::new(), answer: Mutex::new(answer), take_over }
    }

    fn lock(&self) -> MutexGuard<'_, Clients> {
        // Assertions under the lock are checked when a change is whole.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, clients: MutexGuard<'a, Clients>) -> MutexGuard<'a, Clients> {
        self.changed.wait(clients).unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts clients until the socket is closed, and returns when the last one has gone.
    fn accept(self: &Arc<Self>) {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) if local::is_ours(&stream) => self.begin(stream),
                Ok(_) => {}
                Err(_) if self.lock().is_closed => break,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(_) => sleep(PAUSE),
            }
        }
        let mut clients = self.lock();
        for stream in clients.silent.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
        while clients.threads > 0 {
            clients = self.wait(clients);
        }
    }

    fn begin(self: &Arc<Self>, stream: UnixStream) {
        let Some(client) = self.admit(stream) else { return };
        let deadline = Instant::now() + self.patience;
        // Where there is no thread for it, the client is dropped.
        let _ = Builder::new().name("control-client".to_string()).spawn(move || client.serve(deadline));
    }

    /// Waits for room; none if the socket is closed.
    fn admit(self: &Arc<Self>, stream: UnixStream) -> Option<Client> {
        let stream = Arc::new(stream);
        let mut clients = self.lock();
        while clients.threads == CLIENTS_MAX && !clients.is_closed {
            clients.make_room();
            clients = self.wait(clients);
        }
        if clients.is_closed {
            // A client that waited is told so: copies of the listener's connections may stay open.
            let _ = stream.shutdown(Shutdown::Both);
            return None;
        }
        clients.threads += 1;
        clients.silent.push(stream.clone());
        clients.assert_bounded();
        Some(Client { server: self.clone(), stream })
    }
}

/// That a large request may be carried out, until it is.
struct Permit(Arc<Server>);

impl Permit {
    /// Waits for it; none by the deadline, or if the socket is closed.
    fn wait(server: &Arc<Server>, deadline: Instant) -> Option<Self> {
        let mut clients = server.lock();
        while clients.large == LARGE_MAX {
            let left = deadline.saturating_duration_since(Instant::now());
            if clients.is_closed || left.is_zero() {
                return None;
            }
            clients = server.changed.wait_timeout(clients, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        clients.large += 1;
        clients.assert_bounded();
        Some(Self(server.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut clients = self.0.lock();
        assert!(clients.large > 0, "a permit is given back that was taken");
        clients.large -= 1;
        drop(clients);
        self.0.changed.notify_all();
    }
}

/// The part of a client's request that came, as far as it is to be looked at.
struct Asked {
    line: Vec<u8>,
    /// That of a large one; it is refused where it got none.
    permit: Option<Permit>,
}

impl Asked {
    fn is_large(&self) -> bool {
        self.line.len() >= LINE_BYTES_MAX && bytes_max(&self.line) > LINE_BYTES_MAX
    }
}

/// A connection: first its request comes, then its answer goes.
struct Client {
    server: Arc<Server>,
    stream: Arc<UnixStream>,
}

impl Client {
    fn serve(&self, deadline: Instant) {
        let Some(asked) = self.request(deadline) else { return };
        if let Some(taking) = asked.line.strip_prefix(TAKE_OVER) {
            return (self.server.take_over)(&self.stream, String::from_utf8_lossy(taking).trim_end());
        }
        // An answer that an earlier request may have left behind by a panic is as good as what any other error leaves.
        let mut answer = self.server.answer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.server.lock().is_closed {
            return;
        }
        let said = match asked.is_large() && asked.permit.is_none() {
            true => Err(format!("{LARGE_MAX} large requests are under way: ask again")),
            false => respond(&asked.line, &mut **answer),
        };
        let answered = written(said, bytes_max(&asked.line));
        drop((asked, answer));
        self.give(&answered);
    }

    /// The request; none from a client that is late, has gone, or had to make room.
    fn request(&self, mut deadline: Instant) -> Option<Asked> {
        let mut asked = Asked { line: Vec::new(), permit: None };
        let mut bytes = [0; 4096];
        loop {
            // Bytes that have come already are taken however late it is, so this is never zero.
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_micros(1));
            self.stream.set_read_timeout(Some(left)).ok()?;
            let length = match (&*self.stream).read(&mut bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.ok()?,
            };
            let end = bytes[..length].iter().position(|byte| *byte == b'\n');
            asked.line.extend_from_slice(&bytes[..end.map_or(length, |end| end + 1)]);
            if asked.is_large() && asked.permit.is_none() {
                asked.permit = Permit::wait(&self.server, deadline);
                // The wait was none of its own.
                deadline = Instant::now() + self.server.patience;
            }
            let is_refused = asked.is_large() && asked.permit.is_none();
            if length == 0 {
                return (self.note_asked() && !asked.line.is_empty()).then_some(asked);
            }
            if end.is_some() || is_refused || asked.line.len() >= bytes_max(&asked.line) {
                self.note_asked();
                return Some(asked);
            }
            if Instant::now() >= deadline {
                return None;
            }
            self.server.changed.notify_all();
        }
    }

    /// Notes that the client is silent no more; false if it had to make room before.
    fn note_asked(&self) -> bool {
        let mut clients = self.server.lock();
        let place = clients.silent.iter().position(|stream| Arc::ptr_eq(stream, &self.stream));
        place.map(|place| clients.silent.remove(place)).is_some()
    }

    fn give(&self, mut answer: &[u8]) {
        let deadline = Instant::now() + self.server.patience;
        while !answer.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.set_write_timeout(Some(left)).is_err() {
                return;
            }
            match (&*self.stream).write(answer) {
                Ok(length) => answer = &answer[length..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Lanes that were started meanwhile have copies of the descriptor. A client that has gone needs no end of stream.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.note_asked();
        let mut clients = self.server.lock();
        assert!(clients.threads > 0, "a client goes that was counted");
        clients.threads -= 1;
        clients.assert_bounded();
        drop(clients);
        self.server.changed.notify_all();
    }
}

fn respond(line: &[u8], answer: &mut Answer) -> Result<String, String> {
    let most = bytes_max(line);
    if line.len() > most || (line.len() == most && !line.ends_with(b"\n")) {
        return Err(format!("a request has at most {} bytes: ask for less at once", most - 1));
    }
    let Some(line) = line.strip_suffix(b"\n") else {
        return Err("the request ends before its line does: end it with a newline".to_string());
    };
    let line = std::str::from_utf8(line).map_err(|_| "the request is not UTF-8: write plain text".to_string())?;
    answer(line)
}

/// The line of an answer, of at most so many bytes. Bytes that would break it are cut.
fn written(answer: Result<String, String>, most: usize) -> Vec<u8> {
    let (word, mut words) = match answer {
        Ok(words) => ("ok", words),
        Err(why) => ("error", why),
    };
    words = words.replace('\n', "; ");
    words.truncate(words.floor_char_boundary(most - "error \n".len()));
    format!("{word} {words}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::control_client::{GATEWAY_BYTES_MAX, ask};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use tempfile::TempDir;

    /// How long a test waits for anything.
    const LONG: Duration = Duration::from_secs(60);

    /// A directory of one test's own, gone when it ends.
    struct Scratch(TempDir);

    impl Scratch {
        fn new() -> Self {
            // Longer than the address of a socket may be.
            Self(tempfile::Builder::new().prefix(&"directory".repeat(12)).tempdir().unwrap())
        }

        fn page(&self, name: &str) -> PathBuf {
            self.0.path().join(name).with_extension("page")
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> =
                fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    /// Answers with the request, but refuses `no`.
    fn echo(request: &str) -> Result<String, String> {
        if request == "no" { Err("it is not to be\nas you know".to_string()) } else { Ok(request.to_string()) }
    }

    fn open(
        page: &Path,
        answer: impl FnMut(&str) -> Result<String, String> + Send + 'static,
    ) -> Result<ControlSocket, ControlError> {
        open_for(page, PATIENCE, answer)
    }

    fn open_for(
        page: &Path,
        patience: Duration,
        answer: impl FnMut(&str) -> Result<String, String> + Send + 'static,
    ) -> Result<ControlSocket, ControlError> {
        let take_over = |mut stream: &UnixStream, asked: &str| stream.write_all(format!("taken {asked}\n").as_bytes()).unwrap();
        ControlSocket::open_for(page, patience, answer, Box::new(take_over))
    }

    #[test]
    fn who_takes_over_has_the_stream_beside_other_requests() {
        let scratch = Scratch::new();
        let socket = open(&scratch.page("1"), |_| panic!("it is no request")).unwrap();
        assert_eq!(answer(sent(&socket, b"take-over {\"version\":1}\n")), "taken {\"version\":1}\n");
    }

    /// A connection that has sent `bytes`.
    fn sent(socket: &ControlSocket, bytes: &[u8]) -> UnixStream {
        let mut stream = connect(&socket.path, LONG).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        // A request that is too long is not read to its end.
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
        let socket = open(&page, move |request| {
            count += 1;
            echo(request).map(|words| format!("{count} {words}"))
        });
        let socket = socket.unwrap();
        assert_eq!(fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ask(&page, "first of all", LONG).unwrap(), "1 first of all");
        let Err(ControlError::Refused { why }) = ask(&page, "no", LONG) else { panic!("it does not refuse") };
        assert_eq!(why, "it is not to be; as you know");
        assert_eq!(ask(&page, "", LONG).unwrap(), "3 ");
        assert!(matches!(ask(&page, "two\nlines", LONG), Err(ControlError::Request { got_bytes: 9, .. })));
        assert_eq!(scratch.names(), ["1.control"]);
        drop(socket);
        assert!(scratch.names().is_empty());
        assert!(matches!(ask(&page, "late", LONG), Err(ControlError::Gone { .. })));
    }

    #[test]
    fn what_is_no_request_is_refused_with_words() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let socket = open(&page, echo).unwrap();
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
        let socket = open(&page, echo).unwrap();
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
        let socket = open_for(&page, LONG, echo).unwrap();
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
        let server =
            Arc::new(Server::new(listener, PATIENCE, Box::new(echo), Box::new(|_, _| unreachable!("nobody takes over"))));
        let past = Instant::now();
        let answers = [&b"a"[..], b"whole\n"].map(|bytes| {
            let (mut client, stream) = UnixStream::pair().unwrap();
            client.write_all(bytes).unwrap();
            server.admit(stream).unwrap().serve(past);
            answer(client)
        });
        assert_eq!(answers, ["", "ok whole\n"]);
        let clients = server.lock();
        assert!(clients.threads == 0 && clients.silent.is_empty());
    }

    #[test]
    fn who_sends_byte_after_byte_is_dropped_and_holds_nobody() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let socket = open_for(&page, Duration::from_secs(10), echo).unwrap();
        let drippers: Vec<_> = (0..CLIENTS_MAX)
            .map(|_| {
                let mut stream = sent(&socket, b"");
                std::thread::spawn(move || {
                    while stream.write_all(b"a").is_ok() {
                        // reason: slower than a whole request in the time that a client has, and never silent for as long.
                        sleep(Duration::from_millis(20));
                    }
                    answer(stream)
                })
            })
            .collect();
        assert_eq!(ask(&page, "through", LONG).unwrap(), "through");
        for dripper in drippers {
            assert_eq!(dripper.join().unwrap(), "", "it is dropped for its time, not for its length");
        }
    }

    #[test]
    fn copies_in_other_descriptor_tables_keep_nothing_open() {
        let scratch = Scratch::new();
        let (go, gone) = mpsc::channel::<()>();
        let socket = open(&scratch.page("1"), move |request| {
            let _ = gone.recv();
            echo(request)
        });
        let socket = socket.unwrap();
        let (asked, stuck) = (sent(&socket, b"hello\n"), sent(&socket, b"half"));
        let (copied, have_copied) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let copier = std::thread::spawn(move || {
            copied.send(corelane_os::runner::own_descriptors()).unwrap();
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
        let _socket = open(&page, echo).unwrap();
        std::thread::scope(|scope| {
            for number in 0..100 {
                let page = &page;
                scope.spawn(move || assert_eq!(ask(page, &number.to_string(), LONG).unwrap(), number.to_string()));
            }
        });
    }

    /// Ends a flood, also where the test fails.
    struct Over<'a>(&'a AtomicBool);

    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_gateways_requests_may_be_large_and_no_others() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let socket = open(&page, echo).unwrap();
        let (small, large) = ("a".repeat(LINE_BYTES_MAX - 1), "b".repeat(GATEWAY_BYTES_MAX - 1 - "gateway ".len()));
        let (small, large) = ([small], [format!("gateway {large}"), format!("gateway {}", &large[..LINE_BYTES_MAX + 9])]);
        for fits in small.iter().chain(&large) {
            // The word in front of an answer takes its part of the longest.
            let told = ask(&page, fits, LONG).unwrap();
            assert!(fits.starts_with(&told) && told.len() + "error \n".len() > fits.len(), "{} of {}", told.len(), fits.len());
        }
        for (long, most) in [(format!("{}a", small[0]), LINE_BYTES_MAX), (format!("{}b", large[0]), GATEWAY_BYTES_MAX)] {
            let refused = ask(&page, &long, LONG);
            assert!(matches!(refused, Err(ControlError::Request { most_bytes, .. }) if most_bytes == most - 1), "{refused:?}");
            let said = answer(sent(&socket, format!("{long}\n").as_bytes()));
            assert_eq!(said, format!("error a request has at most {} bytes: ask for less at once\n", most - 1));
        }
        let said = answer(sent(&socket, "gateways ".repeat(LINE_BYTES_MAX).as_bytes()));
        assert!(said.starts_with("error a request has at most 16383 bytes"), "{said}");
    }

    /// Some of them stop in the middle, others never end.
    #[test]
    fn large_requests_are_bounded_together_and_others_are_answered_meanwhile() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let socket = open_for(&page, Duration::from_secs(10), echo).unwrap();
        let begun = format!("gateway {}", "c".repeat(2 * LINE_BYTES_MAX));
        let stuck: Vec<UnixStream> = (0..LARGE_MAX).map(|_| sent(&socket, begun.as_bytes())).collect();
        let all_large = || socket.server.lock().large == LARGE_MAX;
        while !all_large() {
            sleep(Duration::from_millis(1));
        }
        let waits = sent(&socket, format!("{begun}\n").as_bytes());
        assert_eq!(ask(&page, "gateway small", LONG).unwrap(), "gateway small");
        assert!(all_large());
        // The first that goes leaves its room.
        let mut stuck = stuck.into_iter();
        drop(stuck.next());
        assert_eq!(answer(waits), format!("ok {begun}\n"));
        for stream in stuck {
            assert_eq!(answer(stream), "", "it is late");
        }
        assert_eq!(socket.server.lock().large, 0);
    }

    #[test]
    fn a_large_request_that_finds_no_room_is_told_so() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let socket = open_for(&page, Duration::from_secs(10), echo).unwrap();
        // Of four clients that are not there.
        socket.server.lock().threads += LARGE_MAX;
        let permits: Vec<Permit> = (0..LARGE_MAX).map(|_| Permit::wait(&socket.server, Instant::now() + LONG).unwrap()).collect();
        let said = answer(sent(&socket, format!("gateway {}\n", "d".repeat(LINE_BYTES_MAX)).as_bytes()));
        assert_eq!(said, "error 4 large requests are under way: ask again\n");
        drop(permits);
        socket.server.lock().threads -= LARGE_MAX;
    }

    /// Some ask as fast as they can and read no answer, others say more than a request may be.
    #[test]
    fn who_asks_without_end_keeps_nobody_else_from_asking() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let socket = open(&page, echo).unwrap();
        let is_over = AtomicBool::new(false);
        let flood = &|bytes: &[u8]| {
            while !is_over.load(Ordering::Relaxed) {
                // It is dropped before its answer comes.
                drop(sent(&socket, bytes));
            }
        };
        let long = vec![b'a'; 4 * LINE_BYTES_MAX];
        std::thread::scope(|scope| {
            let _over = Over(&is_over);
            for bytes in [&b"what is it?\n"[..], b"what is it?\n", &long, b""] {
                scope.spawn(move || flood(bytes));
            }
            for number in 0..100 {
                assert_eq!(ask(&page, &format!("question {number}"), LONG).unwrap(), format!("question {number}"));
            }
        });
    }

    #[test]
    fn an_answer_that_takes_long_is_waited_for() {
        let scratch = Scratch::new();
        let page = scratch.page("1");
        let (go, gone) = mpsc::channel::<()>();
        let socket = open(&page, move |_| {
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
        let socket = open(&living, echo).unwrap();
        let (_directory, dead) = short(&scratch.0.path().join("2.control")).unwrap();
        drop(UnixListener::bind(dead).unwrap()); // as by a process that is killed
        let (_directory, other) = short(&scratch.0.path().join("other")).unwrap();
        drop(UnixListener::bind(other).unwrap());
        fs::write(scratch.0.path().join("3.control"), "not a socket").unwrap();
        assert!(matches!(ask(&scratch.page("2"), "hello", LONG), Err(ControlError::Gone { .. })));
        let _new = open(&scratch.page("4"), echo).unwrap();
        assert_eq!(scratch.names(), ["1.control", "3.control", "4.control", "other"]);
        assert_eq!(ask(&living, "still there", LONG).unwrap(), "still there");
        drop(socket);
        assert_eq!(scratch.names(), ["3.control", "4.control", "other"]);
    }

    #[test]
    fn a_place_where_no_socket_can_be_is_named() {
        let scratch = Scratch::new();
        let page = scratch.0.path().join("missing/1.page");
        let refused = open(&page, echo).map(|_| ());
        let Err(ControlError::Socket { path, source }) = refused else { panic!("{refused:?}") };
        assert_eq!((path, source.kind()), (page.with_extension("control"), ErrorKind::NotFound));
    }

    #[test]
    fn other_users_are_not_heard() {
        if !rustix::process::geteuid().is_root() {
            return corelane_os::testing::skip("control_socket::tests::other_users_are_not_heard", "it needs root");
        }
        let scratch = Scratch::new();
        fs::set_permissions(scratch.0.path(), Permissions::from_mode(0o755)).unwrap();
        let page = scratch.page("1");
        let socket = open(&page, |_| panic!("it was heard")).unwrap();
        let as_nobody = |page: PathBuf| {
            let asked = move || {
                let nobody = rustix::thread::Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                ask(&page, "hello", LONG)
            };
            std::thread::spawn(asked).join().unwrap()
        };
        let refused = as_nobody(page.clone());
        let Err(ControlError::Socket { source, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(source.kind(), ErrorKind::PermissionDenied);
        fs::set_permissions(&socket.path, Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(as_nobody(page), Err(ControlError::NoAnswer { got_bytes: 0, .. })));
    }
}
