//! Handing over: a socket at which other processes ask for channels, and what they ask with.
//!
//! A client connects, writes which packets it wants as one line, and reads `ok` with the files of the rings, one for each lane, or `no: ` and why. The
//! channel is open for as long as the connection: it ends when the client closes it or dies, by whatever cause.
//!
//! Source: unix(7). Only the user who runs the process, and root, are heard.

use crate::memory::HandedMemory;
use crate::ring::Consumer;
use corelane_os::local::{end_listening, is_ours};
use corelane_os::named::{NameError, NamedSocket};
use corelane_os::passing::{self, DESCRIPTORS_MAX};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, Scope, scope, sleep};
use std::time::Duration;

/// Clients that have channels at one time, at most.
pub const CLIENTS_MAX: usize = 16;
/// Clients that wait to be accepted, at most.
const QUEUED_MAX: u32 = 16;
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long nobody is accepted where the system has no descriptor for one.
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a request or an answer, at most.
const LINE_BYTES_MAX: usize = 512;

/// Opens and closes channels for clients.
pub trait Opens: Send + Sync + 'static {
    /// Opens a channel for the packets that `request` names: its number, and the files of its rings.
    ///
    /// # Errors
    /// Why not, for the client: who is at fault, and the remedy.
    fn open(&self, request: &str) -> Result<(u64, Vec<OwnedFd>), String>;

    /// The client has gone: the channel is taken away.
    fn close(&self, number: u64);
}

/// An open socket. Dropping it removes the socket, closes all channels, and ends its threads.
pub struct Offers {
    /// None once it is dropped: the path goes first.
    named: Option<NamedSocket>,
    shared: Arc<OfferServer>,
    thread: Option<JoinHandle<()>>,
}

struct OfferServer {
    listener: UnixListener,
    opens: Box<dyn Opens>,
    clients: Mutex<Clients>,
}

#[derive(Default)]
struct Clients {
    streams: Vec<Arc<UnixStream>>,
    is_closed: bool,
}

impl Offers {
    /// Opens the socket at `path`, for this user alone. One that a process of this user has left behind there is replaced, and nothing else is.
    ///
    /// # Errors
    /// [`NameError`]: somebody answers there, something else lies there, or what the system says, in words and with the remedy.
    pub fn open(path: &Path, opens: impl Opens) -> io::Result<Self> {
        let named = |why: NameError| io::Error::new(ErrorKind::AddrInUse, why);
        let (name, listener) = NamedSocket::listening_at(path, QUEUED_MAX).map_err(named)?;
        let shared = Arc::new(OfferServer { listener, opens: Box::new(opens), clients: Mutex::default() });
        let accepting = shared.clone();
        let thread = Builder::new().name("channels".to_string()).spawn(move || scope(|scope| accepting.accept(scope)))?;
        Ok(Self { named: Some(name), shared, thread: Some(thread) })
    }
}

impl Drop for Offers {
    fn drop(&mut self) {
        // First, so that nobody comes who would wait in vain.
        self.named = None;
        let mut clients = self.shared.lock();
        clients.is_closed = true;
        // One that has gone meanwhile is none.
        clients.streams.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        drop(clients);
        end_listening(&self.shared.listener);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported on standard error.
            let _ = thread.join();
        }
    }
}

impl OfferServer {
    fn lock(&self) -> MutexGuard<'_, Clients> {
        // What a panic left behind is whole: nothing is changed in two steps.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        loop {
            let accepted = self.listener.accept();
            if self.lock().is_closed {
                return;
            }
            let Ok((stream, _)) = accepted else {
                sleep(PAUSE);
                continue;
            };
            if let Some(stream) = Some(stream).filter(is_ours).and_then(|stream| self.enter(stream)) {
                let served = stream.clone();
                let serves = move || {
                    // What is wrong with a client's connection ends it.
                    let _ = self.serve(&served);
                    self.leave(&served);
                };
                if Builder::new().name("channel".to_string()).spawn_scoped(scope, serves).is_err() {
                    self.leave(&stream);
                }
            }
        }
    }

    fn enter(&self, stream: UnixStream) -> Option<Arc<UnixStream>> {
        let mut clients = self.lock();
        if clients.is_closed || clients.streams.len() >= CLIENTS_MAX {
            let _ = (&stream).write_all(b"no: as many processes have channels as may: end one\n");
            return None;
        }
        let stream = Arc::new(stream);
        clients.streams.push(stream.clone());
        assert!(clients.streams.len() <= CLIENTS_MAX, "who comes when there are as many as may be is refused above");
        Some(stream)
    }

    fn leave(&self, stream: &Arc<UnixStream>) {
        let mut clients = self.lock();
        let before = clients.streams.len();
        clients.streams.retain(|known| !Arc::ptr_eq(known, stream));
        assert_eq!(before, clients.streams.len() + 1, "a client leaves once");
    }

    fn serve(&self, mut stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = String::new();
        BufReader::new(stream.take(LINE_BYTES_MAX as u64)).read_line(&mut request)?;
        match self.opens.open(request.trim()) {
            Err(why) => stream.write_all(format!("no: {why}\n").as_bytes()),
            Ok((number, rings)) if rings.len() > DESCRIPTORS_MAX => {
                self.opens.close(number);
                stream.write_all(format!("no: channels of more than {DESCRIPTORS_MAX} lanes cannot be handed over\n").as_bytes())
            }
            Ok((number, rings)) => {
                let files: Vec<_> = rings.iter().map(AsFd::as_fd).collect();
                let served = passing::send(stream.as_fd(), b"ok\n", &files).and_then(|_| until_gone(stream));
                self.opens.close(number);
                served
            }
        }
    }
}

/// Waits until the client has gone, whatever else it says.
fn until_gone(mut stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(None)?;
    while stream.read(&mut [0; 64])? > 0 {}
    Ok(())
}

/// Rings that were taken, and the connection for as long as which they are filled.
#[derive(Debug)]
pub struct Taken {
    /// One for each lane: each may be taken from by a thread of its own.
    pub consumers: Vec<Consumer>,
    /// Dropping it closes the channel.
    pub connection: Arc<UnixStream>,
}

/// Asks the process that listens at `path` for the packets that `request` names.
///
/// # Errors
/// The system's; `InvalidInput` with the other process's words where it refuses; `InvalidData` for what are no rings.
pub fn take(path: &Path, request: &str) -> io::Result<Taken> {
    let mut connection = UnixStream::connect(path)?;
    // Who is refused at once finds the answer, and nobody who reads.
    let written = connection.write_all(format!("{request}\n").as_bytes());
    let mut answer = [0; LINE_BYTES_MAX];
    let (length, files) = passing::receive(connection.as_fd(), &mut answer)?;
    let answer = String::from_utf8_lossy(&answer[..length]);
    if let Some(why) = answer.strip_prefix("no: ") {
        return Err(io::Error::new(ErrorKind::InvalidInput, why.trim().to_owned()));
    }
    written?;
    let connection = Arc::new(connection);
    let consumer = |file| {
        let consumer = Consumer::new(HandedMemory::open(file)?);
        let consumer = consumer.map_err(|broken| io::Error::new(ErrorKind::InvalidData, broken))?;
        Ok(consumer.with_connection(Arc::downgrade(&connection)))
    };
    let consumers: Vec<_> = files.into_iter().map(consumer).collect::<io::Result<_>>()?;
    if consumers.is_empty() {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            "no ring was handed over: the other process has ended, or offers none",
        ));
    }
    Ok(Taken { consumers, connection })
}
