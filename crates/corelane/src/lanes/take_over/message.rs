//! The messages of two processes of which one takes over, and how they go over a socket.

use corelane_os::passing;
use corelane_rss::Transport;
use corelane_seam::{Address, Unix};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// How this release speaks. One more or one less is understood.
pub(crate) const VERSION: u32 = 2;
/// Bytes of a message, with the end of its line: the table of 1,024 buckets has room, and the sockets of 256 lanes.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 10;
/// Messages of one hand-over: a socket each of 256 lanes at 200 places.
const MESSAGES_MAX: usize = 256 * 200;

/// Whether a process of that version is understood.
pub(crate) fn understands(version: u32) -> bool {
    version.abs_diff(VERSION) <= 1
}

/// A message. Fields that came later than version 1 have defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "kebab-case")]
pub(crate) enum Message {
    /// The process that runs, and how it steers.
    Offer { version: u32, process: u32, lanes: usize, steering: String, key: String, hash_types: String, table: String },
    /// With two descriptors: the maps of table and counts.
    Maps,
    /// Sockets of one place among which a program chooses, in the kernel's order: lane and cookie. With two descriptors where the program has maps: itself
    /// and the map of its sockets.
    Group { transport: String, address: SocketAddr, members: Vec<(usize, u64)> },
    /// With one descriptor: a lane's socket.
    Socket { transport: String, address: SocketAddr, lane: usize },
    /// With one descriptor: a socket that all lanes share. It `outlives` both processes if somebody else keeps it.
    Shared { transport: String, address: WrittenAddress, outlives: bool },
    /// With one descriptor: a listener that is no service's. Since version 2.
    Listener { address: SocketAddr },
    /// State that a service keeps over a restart.
    Keepsake { name: String, bytes: Vec<u8> },
    /// All that there is has been said.
    Complete,
    /// The new process could serve; in version 1 it does.
    Ready,
    /// The old one waits until it does. Since version 2.
    Agreed,
    /// The new one serves. Since version 2.
    Serving,
    /// The old one does not any more.
    Released,
    /// It is not to be.
    Refused { why: String },
    /// One that came later.
    #[serde(other)]
    Unknown,
}

/// The address of a socket that all lanes share, as it is written in a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WrittenAddress {
    /// At an address and port.
    Ip(SocketAddr),
    /// In the file system.
    Path(Vec<u8>),
    /// In the abstract namespace of Linux.
    Hidden(Vec<u8>),
}

impl WrittenAddress {
    /// None for what no service is served at.
    pub(crate) fn of(address: &Address) -> Option<Self> {
        if let Some(address) = address.inet() {
            return Some(Self::Ip(address));
        }
        let unix = address.unix()?;
        match unix.as_path() {
            Some(path) => Some(Self::Path(path.as_os_str().as_encoded_bytes().to_vec())),
            // Its name begins with a zero (unix(7)), which is not written.
            None => Some(Self::Hidden(unix.name().strip_prefix(&[0])?.to_vec())),
        }
    }

    /// None for a name that cannot be.
    pub(crate) fn address(&self) -> Option<Address> {
        Some(match self {
            Self::Ip(address) => (*address).into(),
            Self::Path(path) => Unix::path(path).ok()?.into(),
            Self::Hidden(name) => Unix::hidden(name).ok()?.into(),
        })
    }
}

/// The word of a transport.
pub(crate) fn word(transport: Transport) -> String {
    if transport == Transport::Tcp { "tcp" } else { "udp" }.to_owned()
}

/// The transport of a word.
pub(crate) fn transport(word: &str) -> Option<Transport> {
    [Transport::Tcp, Transport::Udp].into_iter().find(|transport| self::word(*transport) == word)
}

#[derive(Serialize, Deserialize)]
struct Line {
    /// Descriptors that come with its first byte.
    #[serde(default)]
    descriptors: usize,
    #[serde(flatten)]
    message: Message,
}

/// One end of the socket, which waits as long as its timeouts say.
pub(crate) struct Talk<'a> {
    stream: &'a UnixStream,
    bytes: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
    heard: usize,
}

impl<'a> Talk<'a> {
    pub(crate) fn new(stream: &'a UnixStream) -> Self {
        Self { stream, bytes: Vec::new(), descriptors: VecDeque::new(), heard: 0 }
    }

    /// Says a message, with descriptors beside it.
    ///
    /// # Errors
    /// What the system says; `InvalidInput` for one that is too long.
    pub(crate) fn say(&self, message: Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let line = Line { descriptors: descriptors.len(), message };
        let mut bytes = serde_json::to_vec(&line).map_err(|_| ErrorKind::InvalidInput)?;
        bytes.push(b'\n');
        if bytes.len() > LINE_BYTES_MAX {
            return Err(ErrorKind::InvalidInput.into());
        }
        let mut sent = passing::send(self.stream.as_fd(), &bytes, descriptors)?;
        while sent < bytes.len() {
            sent += passing::send(self.stream.as_fd(), &bytes[sent..], &[])?;
        }
        Ok(())
    }

    /// The next message that is known, with its descriptors.
    ///
    /// # Errors
    /// What the system says; `InvalidData` for what is no message, `UnexpectedEof` where the other end has gone.
    pub(crate) fn hear(&mut self) -> io::Result<(Message, Vec<OwnedFd>)> {
        loop {
            self.heard += 1;
            if self.heard > MESSAGES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            let line = self.line()?;
            let Line { descriptors, message } = serde_json::from_slice(&line).map_err(|_| ErrorKind::InvalidData)?;
            if descriptors > self.descriptors.len() {
                return Err(ErrorKind::InvalidData.into());
            }
            // Those of a message that is not known are closed.
            let descriptors = self.descriptors.drain(..descriptors).collect();
            if message != Message::Unknown {
                return Ok((message, descriptors));
            }
        }
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut looked_at = 0;
        loop {
            if let Some(end) = self.bytes[looked_at..].iter().position(|byte| *byte == b'\n') {
                let rest = self.bytes.split_off(looked_at + end + 1);
                return Ok(std::mem::replace(&mut self.bytes, rest));
            }
            if self.bytes.len() >= LINE_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            looked_at = self.bytes.len();
            let mut more = [0; 4096];
            let (length, descriptors) = passing::receive(self.stream.as_fd(), &mut more)?;
            self.descriptors.extend(descriptors);
            if length == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.bytes.extend_from_slice(&more[..length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    fn heard(text: &str) -> io::Result<(Message, Vec<OwnedFd>)> {
        let (one, mut other) = UnixStream::pair().unwrap();
        other.write_all(text.as_bytes()).unwrap();
        drop(other);
        Talk::new(&one).hear()
    }

    /// As version 1 said them.
    const RECORDED: [&str; 10] = [
        r#"{"descriptors":0,"message":"offer","version":1,"process":77,"lanes":2,"steering":"program","key":"6d:5a","hash_types":"ipv4","table":"0:0 1:1"}"#,
        r#"{"descriptors":0,"message":"maps"}"#,
        r#"{"descriptors":0,"message":"group","transport":"tcp","address":"127.0.0.1:80","members":[[0,7],[1,8]]}"#,
        r#"{"descriptors":0,"message":"socket","transport":"udp","address":"[::1]:80","lane":1}"#,
        r#"{"descriptors":0,"message":"shared","transport":"tcp","address":{"path":[47,97]},"outlives":false}"#,
        r#"{"descriptors":0,"message":"keepsake","name":"tls a.pem","bytes":[1,2,255]}"#,
        r#"{"descriptors":0,"message":"complete"}"#,
        r#"{"descriptors":0,"message":"ready"}"#,
        r#"{"descriptors":0,"message":"released"}"#,
        r#"{"descriptors":0,"message":"refused","why":"words"}"#,
    ];

    /// The messages of version 2 beside those.
    const RECORDED_SINCE_2: [&str; 3] = [
        r#"{"descriptors":0,"message":"listener","address":"127.0.0.1:9100"}"#,
        r#"{"descriptors":0,"message":"agreed"}"#,
        r#"{"descriptors":0,"message":"serving"}"#,
    ];

    #[test]
    fn what_was_said_once_is_understood_and_said_the_same_way() {
        for recorded in RECORDED.into_iter().chain(RECORDED_SINCE_2) {
            let (message, with) = heard(&format!("{recorded}\n")).unwrap();
            assert!(message != Message::Unknown && with.is_empty(), "{recorded}");
            let said = serde_json::to_string(&Line { descriptors: 0, message }).unwrap();
            assert_eq!(said, recorded);
        }
    }

    #[test]
    fn what_came_later_is_passed_over_with_its_descriptors() {
        let (one, other) = UnixStream::pair().unwrap();
        let (null, file) = (File::open("/dev/null").unwrap(), File::open("/proc/self/status").unwrap());
        let later = br#"{"descriptors":1,"message":"moon-phase","full":true}"#;
        passing::send(other.as_fd(), &[later, &b"\n"[..]].concat(), &[null.as_fd()]).unwrap();
        let more = br#"{"message":"socket","transport":"tcp","address":"127.0.0.1:80","lane":0,"colour":"red","descriptors":1}"#;
        passing::send(other.as_fd(), &[more, &b"\n"[..]].concat(), &[file.as_fd()]).unwrap();
        let (message, with) = Talk::new(&one).hear().unwrap();
        assert!(matches!(message, Message::Socket { lane: 0, .. }), "{message:?}");
        let inode = |of: BorrowedFd<'_>| rustix::fs::fstat(of).unwrap().st_ino;
        assert_eq!(with.iter().map(|with| inode(with.as_fd())).collect::<Vec<_>>(), [inode(file.as_fd())]);
        // One before may have said less.
        assert!(heard("{\"message\":\"ready\"}\n").is_ok());
    }

    #[test]
    fn only_neighbouring_releases_are_understood() {
        assert!(understands(VERSION - 1) && understands(VERSION) && understands(VERSION + 1));
        assert!(!understands(VERSION + 2) && !understands(u32::MAX));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let whole = format!("{}\n", RECORDED[0]);
        for end in 0..whole.len() {
            assert_eq!(heard(&whole[..end]).unwrap_err().kind(), ErrorKind::UnexpectedEof, "{end}");
        }
        for bad in [
            "\n",
            "ok 0:0\n",
            "{}\n",
            "[]\n",
            "{\"message\":[]}\n",
            "{\"message\":\"offer\"}\n",
            "{\"message\":\"maps\",\"descriptors\":1}\n",
        ] {
            assert_eq!(heard(bad).unwrap_err().kind(), ErrorKind::InvalidData, "{bad:?}");
        }
        assert_eq!(heard(&"x".repeat(LINE_BYTES_MAX)).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
