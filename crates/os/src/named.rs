//! Unix sockets that lanes share: made before the lanes, with their names taken and given back in order (unix(7)).
//!
//! The kernel spreads nothing over several Unix sockets of one name (there is no SO_REUSEPORT for them), so all lanes accept from one. A name
//! in the file system outlives its socket: whoever binds next finds it taken, though nobody is there. It is unlinked if connecting to it is
//! refused; two processes that find that out at once are kept apart by a lock of the directory (flock(2)).

use crate::sockets;
use corelane_rss::Transport;
use corelane_seam::{Address, AddressError, Fault, Reason, Unix};
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat, chmod, fchmod, fcntl_setfl, flock, fstat, open, statat, unlink,
};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};
use std::fmt;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the lock of a directory is waited for: others of this kind hold it for a few system calls, but anybody who can read the directory
/// can take it.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before it is asked for again.
const PAUSE: Duration = Duration::from_millis(5);

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
    /// Somebody holds the directory's lock.
    Locked(
        /// Its path.
        PathBuf,
    ),
    /// What lies there is no socket, and not ours to remove.
    NoSocket,
    /// Nobody is at the socket that lies there, but another user has made it.
    Foreign {
        /// Which.
        user: u32,
    },
    /// The socket was made, and then something else was put in its place.
    Replaced,
    /// No socket can have that path.
    Path(
        /// Why not.
        AddressError,
    ),
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
            Self::Locked(directory) => write!(
                f,
                "another process holds the lock of the directory {0} (`fuser -v {0}` shows who has it open): stop it, or choose another directory",
                directory.display()
            ),
            Self::Replaced => {
                f.write_str("somebody put something else in the socket's place: choose a directory that nobody else can write to")
            }
            Self::Foreign { user } => {
                write!(
                    f,
                    "user {user} has left the socket behind that lies there: have that user remove it, or choose another path"
                )
            }
            Self::NoSocket => f.write_str("what lies there is no socket: remove it, or choose another path"),
            Self::Path(why) => why.fmt(f),
            Self::Unfit(why) => f.write_str(why),
            Self::System(Fault { reason: Reason::Permission, .. }) => f.write_str(
                "permission denied: this user must be allowed to read and write the directory, and to pass each before it",
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

impl From<Errno> for NameError {
    fn from(error: Errno) -> Self {
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
                (None, _) => {
                    let socket = bound(transport, name, None).map_err(|error| match error {
                        NameError::System(Fault { reason: Reason::AddressInUse, .. }) => served(transport, name),
                        other => other,
                    })?;
                    begin(transport, &socket, backlog)?;
                    Ok(Self { socket, file: None })
                }
            };
        };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let _alone = lock(directory, PATIENCE)?;
        let socket = match bound(transport, name, mode) {
            Err(NameError::System(Fault { reason: Reason::AddressInUse, .. })) => {
                remove_stale(transport, name, path)?;
                bound(transport, name, mode)?
            }
            other => other?,
        };
        let file = own_file(path, mode)?;
        begin(transport, &socket, backlog)?;
        Ok(Self { socket, file: Some((path.to_owned(), file)) })
    }

    /// The number by which lanes know it, which copy the table of descriptors.
    pub fn number(&self) -> i32 {
        self.socket.as_raw_fd()
    }

    /// Has so many connections wait at it from now on. It listens already.
    ///
    /// # Errors
    /// What the system says (listen(2)).
    pub fn set_backlog(&self, backlog: u32) -> Result<(), Fault> {
        sockets::begin_to_listen(self.socket.as_fd(), backlog)
    }

    /// Makes the socket of a path for this user alone, with its listener for threads that wait to accept.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn listening_at(path: &Path, backlog: u32) -> Result<(Self, UnixListener), NameError> {
        let name = Unix::path(path.as_os_str().as_encoded_bytes()).map_err(NameError::Path)?;
        let named = Self::new(Transport::Tcp, &name, Some(0o600), backlog)?;
        let listener = UnixListener::from(sockets::duplicate(named.number())?);
        fcntl_setfl(&listener, OFlags::empty())?;
        Ok((named, listener))
    }

    /// One that another process made: its path is that one's, until this one [owns](NamedSocket::own) it.
    pub fn inherited(socket: OwnedFd) -> Self {
        Self { socket, file: None }
    }

    /// The process that made it goes on without it: its path goes with this one now, if it is among `names`.
    pub fn own(&mut self, names: &[Unix]) {
        let address = sockets::local_address(self.socket.as_fd());
        let bound = |name: &&Unix| address.as_ref().is_ok_and(|address| address.unix() == Some(name));
        let path = names.iter().find(bound).and_then(|name| name.as_path());
        if let Some((path, found)) = path.and_then(|path| Some((path, statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?))) {
            self.file = Some((path.to_owned(), identity(&found)));
        }
    }

    /// Another process goes on with it, and with its path.
    pub fn leave_behind(&mut self) {
        self.file = None;
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
fn lock(directory: &Path, patience: Duration) -> Result<OwnedFd, NameError> {
    let opened = open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let opened = opened.map_err(|error| match crate::errno::fault_of(error) {
        Fault { reason: Reason::NotFound, .. } => NameError::NoDirectory(directory.to_owned()),
        fault => fault.into(),
    })?;
    let deadline = Instant::now() + patience;
    loop {
        match flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(opened),
            Err(Errno::WOULDBLOCK) if Instant::now() < deadline => sleep(PAUSE),
            Err(Errno::WOULDBLOCK) => return Err(NameError::Locked(directory.to_owned())),
            Err(error) => return Err(error.into()),
        }
    }
}

fn bound(transport: Transport, name: &Unix, mode: Option<u32>) -> Result<OwnedFd, NameError> {
    assert!(mode.is_none() || name.as_path().is_some(), "a mode is one of a path");
    let address: Address = name.clone().into();
    let socket = sockets::unbound(&address, transport)?;
    if let Some(mode) = mode {
        // Bound, its file has no more rights than this, less the umask's; then exactly these.
        fchmod(&socket, Mode::from_raw_mode(mode))?;
    }
    sockets::bind_to(socket.as_fd(), &address)?;
    Ok(socket)
}

fn begin(transport: Transport, socket: &OwnedFd, backlog: u32) -> Result<(), Fault> {
    match transport {
        Transport::Tcp => sockets::begin_to_listen(socket.as_fd(), backlog),
        Transport::Udp => Ok(()),
    }
}

/// Gives the file of a socket that was bound to `path` just now its mode, and returns which file that is. Where others may write to the directory,
/// something else may lie there by now, or a link to a file of this user's: that is not touched.
fn own_file(path: &Path, mode: Option<u32>) -> Result<(u64, u64), NameError> {
    let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = fstat(&file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket || stat.st_uid != geteuid().as_raw() {
        return Err(NameError::Replaced);
    }
    if let Some(mode) = mode {
        // fchmod(2) refuses such a descriptor, and fchmodat2(2) is younger than the kernels that we support.
        chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), Mode::from_raw_mode(mode))?;
    }
    Ok(identity(&stat))
}

/// Unlinks the path of a socket at which nobody is any more.
fn remove_stale(transport: Transport, name: &Unix, path: &Path) -> Result<(), NameError> {
    assert!(name.as_path() == Some(path), "what is asked is what is removed");
    let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
        return Err(NameError::NoSocket);
    }
    if found.st_uid != geteuid().as_raw() {
        return Err(foreign(transport, name, found.st_uid));
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        match asked(transport, name)? {
            (_, Err(Fault { reason: Reason::Refused, .. })) => return Ok(unlink(path)?),
            (_, Err(fault)) if fault.reason == Reason::Permission => return Err(fault.into()),
            // The sockets of a process that was killed may outlive it a little: its rings end behind it.
            (asking, Ok(_)) if has_ended(&asking) && Instant::now() < deadline => sleep(PAUSE),
            _ => return Err(served(transport, name)),
        }
    }
}

/// Whether the process that listens at the other end is no more. Others may have its socket all the same: those it has started.
fn has_ended(asking: &OwnedFd) -> bool {
    let process = sockets::peer_process(asking.as_fd()).and_then(|(_, process)| Pid::from_raw(process));
    process.is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
}

/// Whoever is at the socket of another user, or nobody any more: it is not ours to remove.
fn foreign(transport: Transport, name: &Unix, user: u32) -> NameError {
    match asked(transport, name) {
        Ok((_, Err(Fault { reason: Reason::Refused, .. }))) => NameError::Foreign { user },
        Ok((_, Err(fault))) if fault.reason == Reason::Permission => fault.into(),
        _ => served(transport, name),
    }
}

/// Somebody is at that name.
fn served(transport: Transport, name: &Unix) -> NameError {
    let by = asked(transport, name).ok().filter(|(_, connected)| connected.is_ok());
    NameError::Served { by: by.and_then(|(asking, _)| sockets::peer_process(asking.as_fd())) }
}

/// A socket with which a name was connected to, and what came of that.
fn asked(transport: Transport, name: &Unix) -> Result<(OwnedFd, Result<bool, Fault>), NameError> {
    let address: Address = name.clone().into();
    let asking = sockets::unbound(&address, transport)?;
    let connected = sockets::connect(asking.as_fd(), &address);
    Ok((asking, connected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::network::alone;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::net::{UnixDatagram, UnixStream};
    use std::sync::MutexGuard;
    use tempfile::TempDir;

    /// A directory of the test's own, which goes with it. What is closed meanwhile is gone.
    struct Directory(TempDir, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

    impl Directory {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap(), alone())
        }

        fn at(&self, name: &str) -> (PathBuf, Unix) {
            let path = self.0.path().join(name);
            let unix = Unix::path(path.as_os_str().as_encoded_bytes()).unwrap();
            (path, unix)
        }
    }

    fn listening(name: &Unix) -> Result<NamedSocket, NameError> {
        NamedSocket::new(Transport::Tcp, name, None, 8)
    }

    #[test]
    fn a_path_is_made_with_its_mode_and_goes_with_the_socket() {
        let directory = Directory::new();
        for (transport, name) in [(Transport::Tcp, "stream"), (Transport::Udp, "datagrams")] {
            let (path, unix) = directory.at(name);
            for mode in [0o600, 0o660, 0o666] {
                let socket = NamedSocket::new(transport, &unix, Some(mode), 8).unwrap();
                assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
                // What it was given before it was bound, so that nobody comes in between.
                assert_eq!(rustix::fs::fstat(&socket.socket).unwrap().st_mode & 0o777, mode);
                assert!(socket.number() >= 0);
                drop(socket);
                assert!(!path.exists());
            }
        }
    }

    #[test]
    fn a_stale_socket_makes_room_and_a_served_one_does_not() {
        let directory = Directory::new();
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
    fn one_at_a_time_takes_names_of_a_directory() {
        let directory = Directory::new();
        let other = || open(directory.0.path(), OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let held = lock(directory.0.path(), PATIENCE).unwrap();
        assert_eq!(flock(other(), FlockOperation::NonBlockingLockExclusive), Err(rustix::io::Errno::WOULDBLOCK));
        drop(held);
        assert_eq!(flock(other(), FlockOperation::NonBlockingLockExclusive), Ok(()));
    }

    #[test]
    fn what_is_no_socket_stays() {
        let directory = Directory::new();
        let (path, unix) = directory.at("file");
        std::fs::write(&path, b"kept").unwrap();
        assert_eq!(listening(&unix).unwrap_err(), NameError::NoSocket);
        assert_eq!(std::fs::read(&path).unwrap(), b"kept");
    }

    #[test]
    fn a_dead_socket_of_another_user_stays() {
        let directory = Directory::new();
        let (path, unix) = directory.at("stream");
        drop(UnixListener::bind(&path).unwrap());
        if std::os::unix::fs::lchown(&path, Some(65_534), None).is_err() {
            return crate::testing::skip("named::a_dead_socket_of_another_user_stays", "only root gives files away");
        }
        assert_eq!(listening(&unix).unwrap_err(), NameError::Foreign { user: 65_534 });
        assert!(path.exists());
    }

    #[test]
    fn a_listener_for_threads_that_wait_is_this_users_alone() {
        let directory = Directory::new();
        let (path, _) = directory.at("stream");
        let (named, listener) = NamedSocket::listening_at(&path, 8).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // It waits, rather than say that nobody is there.
        let asking = std::thread::spawn({
            let path = path.clone();
            move || UnixStream::connect(path).map(drop)
        });
        assert!(listener.accept().is_ok());
        asking.join().unwrap().unwrap();
        drop(named);
        assert!(!path.exists());
        let long = NamedSocket::listening_at(&directory.0.path().join("x".repeat(200)), 8).map(drop).unwrap_err();
        assert!(matches!(long, NameError::Path(_)) && long.to_string().contains("choose a shorter path"), "{long}");
    }

    #[test]
    fn a_path_that_somebody_else_has_taken_over_stays() {
        let directory = Directory::new();
        let (path, unix) = directory.at("stream");
        let ours = listening(&unix).unwrap();
        let inode = std::fs::metadata(&path).unwrap().ino();
        std::fs::remove_file(&path).unwrap();
        // Held, so that the inode's number is not used again at once.
        let (_other, _) = directory.at("held");
        std::fs::write(directory.0.path().join("held"), b"").unwrap();
        let theirs = UnixListener::bind(&path).unwrap();
        assert_ne!(std::fs::metadata(&path).unwrap().ino(), inode);
        drop(ours);
        assert!(path.exists());
        drop(theirs);
    }

    /// Anybody who can read a directory can lock it.
    #[test]
    fn a_directory_that_somebody_has_locked_is_not_waited_for_without_end() {
        let directory = Directory::new();
        let held = lock(directory.0.path(), PATIENCE).unwrap();
        let refused = lock(directory.0.path(), Duration::from_millis(20)).unwrap_err();
        assert_eq!(refused, NameError::Locked(directory.0.path().to_owned()));
        assert!(refused.to_string().contains("choose another directory"), "{refused}");
        let waiting = std::thread::spawn({
            let path = directory.0.path().to_owned();
            move || lock(&path, Duration::from_secs(60)).map(drop)
        });
        drop(held);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    }

    /// Another user who may write to the directory can put a link in the socket's place between two calls of ours.
    #[test]
    fn what_was_put_in_the_sockets_place_keeps_its_mode() {
        let directory = Directory::new();
        let (file, _) = directory.at("file");
        std::fs::write(&file, b"secret").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let (path, unix) = directory.at("stream");
        let _socket = bound(Transport::Tcp, &unix, Some(0o666)).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&file, &path).unwrap();
        assert_eq!(own_file(&path, Some(0o666)), Err(NameError::Replaced));
        assert_eq!(own_file(&file, Some(0o666)), Err(NameError::Replaced));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_cannot_be_is_told_with_the_remedy() {
        let directory = Directory::new();
        let (_, unix) = directory.at("missing/stream");
        let missing = listening(&unix).unwrap_err();
        assert_eq!(missing, NameError::NoDirectory(directory.0.path().join("missing")));
        assert!(missing.to_string().ends_with("missing is missing: create it"), "{missing}");
        let hidden = Unix::hidden(format!("corelane-named-{}", std::process::id()).as_bytes()).unwrap();
        let refused = NamedSocket::new(Transport::Tcp, &hidden, Some(0o600), 8).unwrap_err();
        assert!(refused.to_string().contains("no mode"), "{refused}");
        let first = listening(&hidden).unwrap();
        let by = Some((rustix::process::getuid().as_raw(), std::process::id() as i32));
        assert_eq!(listening(&hidden).unwrap_err(), NameError::Served { by });
        let datagrams = NamedSocket::new(Transport::Udp, &hidden, None, 8);
        assert!(datagrams.is_ok(), "connections and datagrams have names of their own");
        let served = NamedSocket::new(Transport::Udp, &hidden, None, 8).unwrap_err();
        assert!(matches!(served, NameError::Served { .. }), "{served}");
        drop(first);
        assert!(listening(&hidden).is_ok(), "an abstract name goes with its socket");
        assert!(matches!(listening(&Unix::UNNAMED), Err(NameError::Unfit(_))));
    }

    /// The process that listened has ended, and another one has its socket, which takes one connection and ends too: as what the kernel still does for a
    /// process that was killed.
    #[test]
    fn sockets_that_outlive_their_process_a_little_are_waited_for() {
        const LISTENS: &str = "import os, socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\nif os.fork() == 0: s.accept()";
        if !corelane_testkit::is_installed("python3") {
            return crate::testing::skip(
                "named::sockets_that_outlive_their_process_a_little_are_waited_for",
                "there is no python3",
            );
        }
        let directory = Directory::new();
        let (path, unix) = directory.at("x");
        let ended = std::process::Command::new("python3").args(["-c", LISTENS]).arg(&path).status().unwrap();
        assert!(ended.success() && path.exists());
        let taken = listening(&unix);
        assert!(taken.is_ok(), "{}", taken.unwrap_err());
    }
}
