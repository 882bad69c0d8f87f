//! The asking end of a control socket: a socket beside a process's counter page, through which its user asks and tells the process things
//! while it runs. One connection carries one request and its answer, a line each: the answer begins with `ok ` or `error `.

use corelane_os::local;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The end of the name of a socket; the rest is as its page's.
pub const SUFFIX: &str = "control";

/// Bytes of a request or an answer, with the end of its line: room for a table of 1,024 buckets.
pub const LINE_BYTES_MAX: usize = 16 << 10;

/// The word that a request of a gateway begins with.
pub(crate) const GATEWAY: &str = "gateway";

/// Bytes of such a request, or of its answer: room for 10,000 routes, which are changed all or none.
pub const GATEWAY_BYTES_MAX: usize = 1 << 20;

/// The word that a request of services begins with ([`StreamService::operate`](crate::StreamService::operate)). Each lane adds to its answer, which has the same bound.
pub(crate) const SERVICES: &str = "services";

/// Bytes that this request may have, and its answer. Its beginning is enough to tell.
pub fn bytes_max(request: &[u8]) -> usize {
    let is_of = |word: &str| matches!(request.strip_prefix(word.as_bytes()), Some([b' ', ..]));
    if is_of(GATEWAY) || is_of(SERVICES) { GATEWAY_BYTES_MAX } else { LINE_BYTES_MAX }
}

/// Why a socket could not be made, or gave no answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum ControlError {
    /// The environment: the socket cannot be made or reached.
    Socket {
        /// The socket.
        path: PathBuf,
        /// The system's answer.
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
        /// Bytes that it may have.
        most_bytes: usize,
    },
    /// The caller: the process does not do what was asked; these are its words.
    Refused {
        /// The fault, and the remedy.
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
            Self::Request { got_bytes, most_bytes } => {
                write!(f, "a request is one line of at most {most_bytes} bytes, and this has {got_bytes}: ask for less at once")
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

/// Sends `request` to the process whose page is at `page`, and waits at most `patience` for its answer.
///
/// # Errors
/// Every [`ControlError`].
pub fn ask(page: &Path, request: &str, patience: Duration) -> Result<String, ControlError> {
    let path = page.with_extension(SUFFIX);
    let most = bytes_max(request.as_bytes());
    if request.len() >= most || request.contains('\n') {
        return Err(ControlError::Request { got_bytes: request.len(), most_bytes: most - 1 });
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
    let most = bytes_max(request.as_bytes());
    let mut stream = connect(path, left(deadline)?)?;
    stream.write_all(format!("{request}\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut bytes = [0; 4096];
    while answer.last() != Some(&b'\n') && answer.len() < most {
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

/// Connects to the socket at `path`; waits at most `patience` where its queue is full, and gives up a write after as long.
pub fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let (_directory, short) = short(path)?;
    local::connect(&short, patience)
}

/// A short path to `path` through its open directory: the address of a socket has room for 107 bytes only.
pub fn short(path: &Path) -> io::Result<(File, PathBuf)> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Err(ErrorKind::InvalidFilename.into()) };
    let directory = File::open(directory)?;
    let short = Path::new("/proc/thread-self/fd").join(directory.as_raw_fd().to_string()).join(name);
    Ok((directory, short))
}
