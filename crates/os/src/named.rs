//! Unix sockets that lanes share: made before the lanes, with their names taken and given back in order (unix(7)).
//!
//! The kernel spreads nothing over several Unix sockets of one name (there is no SO_REUSEPORT for them), so all lanes accept from one. A name
//! in the file system outlives its socket: whoever binds next finds it taken, though nobody is there. It is unlinked if connecting to it is
//! refused; two processes that find that out at once are kept apart by a lock of the directory (flock(2)).

use crate::sockets;
use corelane_rss::Transport;
use corelane_seam::{Address, Fault, Reason, Unix};
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat, fchmod, flock, open, statat, unlink};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A socket that is bound to a Unix name, until it is dropped; then a path goes, too, if it is still this socket's.
#[derive(Debug)]
pub struct NamedSocket {
    socket: OwnedFd,
    /// Where it lies in the file system, and as what: device and inode.
    file: Option<(PathBuf, (u64, u64))>,
}

/// Why a name could not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Somebody listens there.
    Served {
        /// The user and process that made the socket, if they tell.
        by: Option<(u32, i32)>,
    },
    /// The directory is missing.
    NoDirectory(
        /// Its path.
        PathBuf,
    ),
    /// What lies there is no socket, and not ours to remove.
    NoSocket,
    /// What was asked of the name is of no use with it.
    Unfit(
        /// Why.
        &'static str,
    ),
    /// What the system says.
    System(
        /// Its words.
        Fault,
    ),
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Served { by: Some((user, process)) } => {
                write!(f, "process {process} of user {user} serves there: stop it, or choose another name")
            }
            Self::Served { by: None } => f.write_str("another process serves there: stop it, or choose another name"),
            Self::NoDirectory(directory) => write!(f, "the directory {} is missing: create it", directory.display()),
            Self::NoSocket => f.write_str("what lies there is no socket: remove it, or choose another path"),
            Self::Unfit(why) => f.write_str(why),
            Self::System(Fault { reason: Reason::Permission, .. }) => f.write_str(
                "permission denied: the directory must be writable for this user, and each before it must let the user pass",
            ),
            Self::System(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for NameError {}

impl From<Fault> for NameError {
    fn from(fault: Fault) -> Self {
        Self::System(fault)
    }
}

impl From<rustix::io::Errno> for NameError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(crate::errno::fault_of(error))
    }
}

impl NamedSocket {
    /// Makes the socket of a name: one that listens with `backlog`, or one for datagrams. A path is given `mode`, from the first moment on; without,
    /// the process's umask decides.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn new(transport: Transport, name: &Unix, mode: Option<u32>, backlog: u32) -> Result<Self, NameError> {
        let Some(path) = name.as_path() else {
            return match (mode, name.name()) {
                (_, []) => Err(NameError::Unfit("a service needs a name to be served at: write unix:/run/x.sock or unix:@name")),
                (Some(_), _) => Err(NameError::Unfit("an abstract name has no mode: leave out mode, or use a path")),
                (None, _) => Ok(Self { socket: bound(transport, name, None, backlog)?, file: None }),
            };
        };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _alone = lock(directory)?;
        let socket = match bound(transport, name, mode, backlog) {
            Err(NameError::System(Fault { reason: Reason::AddressInUse, .. })) => {
                remove_stale(transport, name, path)?;
                bound(transport, name, mode, backlog)?
            }
            other => other?,
        };
        let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
        assert!(FileType::from_raw_mode(found.st_mode) == FileType::Socket, "what was just bound there is a socket");
        Ok(Self { socket, file: Some((path.to_owned(), identity(&found))) })
    }

    /// The number by which lanes know it, which copy the table of descriptors.
    pub fn number(&self) -> i32 {
        self.socket.as_raw_fd()
    }
}

impl Drop for NamedSocket {
    fn drop(&mut self) {
        let Some((path, file)) = &self.file else { return };
        let is_ours = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|found| identity(&found) == *file);
        if is_ours {
            // It may be gone since, or its directory be read-only by now: nothing is lost by that.
            let _ = unlink(path);
        }
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// Holds off others that do the same in the directory, until the descriptor closes.
fn lock(directory: &Path) -> Result<OwnedFd, NameError> {
    let opened = open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let opened = opened.map_err(|error| match crate::errno::fault_of(error) {
        Fault { reason: Reason::NotFound, .. } => NameError::NoDirectory(directory.to_owned()),
        fault => fault.into(),
    })?;
    flock(&opened, FlockOperation::LockExclusive)?;
    Ok(opened)
}

fn bound(transport: Transport, name: &Unix, mode: Option<u32>, backlog: u32) -> Result<OwnedFd, NameError> {
    assert!(mode.is_none() || name.as_path().is_some(), "a mode is one of a path");
    let address: Address = name.clone().into();
    let socket = sockets::unbound(&address, transport)?;
    if let Some(mode) = mode {
        // Bound, its file has no more rights than this, less the umask's; then exactly these.
        fchmod(&socket, Mode::from_raw_mode(mode))?;
    }
    sockets::bind_to(socket.as_fd(), &address)?;
    if let (Some(mode), Some(path)) = (mode, name.as_path()) {
        rustix::fs::chmod(path, Mode::from_raw_mode(mode))?;
    }
    if transport == Transport::Tcp {
        sockets::begin_to_listen(socket.as_fd(), backlog)?;
    }
    Ok(socket)
}

/// Unlinks the path of a socket at which nobody is any more.
fn remove_stale(transport: Transport, name: &Unix, path: &Path) -> Result<(), NameError> {
    assert!(name.as_path() == Some(path), "what is asked is what is removed");
    let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(NameError::NoSocket);
    }
    let address: Address = name.clone().into();
    let asking = sockets::unbound(&address, transport)?;
    match sockets::connect(asking.as_fd(), &address) {
        Err(Fault { reason: Reason::Refused, .. }) => Ok(unlink(path)?),
        Err(fault) if fault.reason == Reason::Permission => Err(fault.into()),
        _ => Err(NameError::Served { by: sockets::peer_process(asking.as_fd()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    /// A directory of the test's own, which goes with it.
    struct Directory(PathBuf);

    impl Directory {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("corelane-named-{}-{test}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn at(&self, name: &str) -> (PathBuf, Unix) {
            let path = self.0.join(name);
            let unix = Unix::path(path.as_os_str().as_encoded_bytes()).unwrap();
            (path, unix)
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn listening(name: &Unix) -> Result<NamedSocket, NameError> {
        NamedSocket::new(Transport::Tcp, name, None, 8)
    }

    #[test]
    fn a_path_is_made_with_its_mode_and_goes_with_the_socket() {
        let directory = Directory::new("mode");
        for (transport, name) in [(Transport::Tcp, "stream"), (Transport::Udp, "datagrams")] {
            let (path, unix) = directory.at(name);
            for mode in [0o600, 0o660, 0o666] {
                let socket = NamedSocket::new(transport, &unix, Some(mode), 8).unwrap();
                assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
                assert!(socket.number() >= 0);
                drop(socket);
                assert!(!path.exists());
            }
        }
    }

    #[test]
    fn a_stale_socket_makes_room_and_a_served_one_does_not() {
        let directory = Directory::new("stale");
        let (path, unix) = directory.at("stream");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "the standard library leaves it behind");
        let ours = listening(&unix).unwrap();
        UnixStream::connect(&path).unwrap();
        let by = Some((rustix::process::getuid().as_raw(), std::process::id() as i32));
        assert_eq!(listening(&unix).unwrap_err(), NameError::Served { by });
        assert!(UnixStream::connect(&path).is_ok(), "and it still serves");
        drop(ours);
        let (path, unix) = directory.at("datagrams");
        drop(UnixDatagram::bind(&path).unwrap());
        let ours = NamedSocket::new(Transport::Udp, &unix, None, 8).unwrap();
        assert!(matches!(NamedSocket::new(Transport::Udp, &unix, None, 8), Err(NameError::Served { .. })));
        // Of the other kind, which cannot be asked, it is somebody's all the same.
        assert!(matches!(listening(&unix), Err(NameError::Served { .. })));
        drop(ours);
    }

    #[test]
    fn what_is_no_socket_stays() {
        let directory = Directory::new("file");
        let (path, unix) = directory.at("file");
        std::fs::write(&path, b"kept").unwrap();
        assert_eq!(listening(&unix).unwrap_err(), NameError::NoSocket);
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn a_path_that_somebody_else_has_taken_over_stays() {
        let directory = Directory::new("taken");
        let (path, unix) = directory.at("stream");
        let ours = listening(&unix).unwrap();
        let inode = std::fs::metadata(&path).unwrap().ino();
        std::fs::remove_file(&path).unwrap();
        // Held, so that the inode's number is not used again at once.
        let (_other, _) = directory.at("held");
        std::fs::write(directory.0.join("held"), b"").unwrap();
        let theirs = UnixListener::bind(&path).unwrap();
        assert_ne!(std::fs::metadata(&path).unwrap().ino(), inode);
        drop(ours);
        assert!(path.exists());
        drop(theirs);
    }

    #[test]
    fn what_cannot_be_is_told_with_the_remedy() {
        let directory = Directory::new("words");
        let (_, unix) = directory.at("missing/stream");
        let missing = listening(&unix).unwrap_err();
        assert_eq!(missing, NameError::NoDirectory(directory.0.join("missing")));
        assert!(missing.to_string().ends_with("missing is missing: create it"), "{missing}");
        let hidden = Unix::hidden(format!("corelane-named-{}", std::process::id()).as_bytes()).unwrap();
        let refused = NamedSocket::new(Transport::Tcp, &hidden, Some(0o600), 8).unwrap_err();
        assert!(refused.to_string().contains("no mode"), "{refused}");
        let first = listening(&hidden).unwrap();
        assert!(matches!(listening(&hidden), Err(NameError::System(Fault { reason: Reason::AddressInUse, .. }))));
        drop(first);
        assert!(listening(&hidden).is_ok(), "an abstract name goes with its socket");
        assert!(matches!(listening(&Unix::UNNAMED), Err(NameError::Unfit(_))));
    }
}
