//! Changes of files and directories (inotify(7)).

use rustix::fs::inotify::{self, CreateFlags, Reader};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// What is watched for.
pub use rustix::fs::inotify::WatchFlags as Wanted;

/// What has happened: the same bits, and those that only the kernel says.
pub use rustix::fs::inotify::ReadFlags as Happened;

/// Bytes that one read takes: at least one change with the longest name, and dozens without.
const CHUNK: usize = 4096;

/// A change of a watched file.
pub struct Change<'a> {
    /// Its watch.
    pub watch: i32,
    /// What happened.
    pub what: Happened,
    /// In a directory, the name it happened to.
    pub name: Option<&'a [u8]>,
    /// What both ends of a move have in common; 0 of anything else.
    pub cookie: u32,
}

/// Watches over files, each by a number.
pub struct Changes(OwnedFd);

impl Changes {
    /// Without watches.
    ///
    /// # Errors
    /// The system's number: too many descriptors or instances (EMFILE).
    pub fn new() -> Result<Self, i32> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        inotify::init(flags).map(Self).map_err(|error| error.raw_os_error())
    }

    /// Its descriptor, readable while a change has not been read.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Watches the file behind `number` for `wanted`, and for nothing else any more; the same file has the same watch. The file is named by
    /// /proc, so that one without a name is found, and nothing holds it open; as the calling thread's, which may have a table of its own.
    ///
    /// # Errors
    /// The system's number: ENOENT without /proc, ENOSPC at fs.inotify.max_user_watches.
    pub fn watch(&self, number: RawFd, wanted: Wanted) -> Result<i32, i32> {
        assert!(number >= 0, "an open descriptor has a number");
        let path = format!("/proc/thread-self/fd/{number}");
        inotify::add_watch(&self.0, path, wanted).map_err(|error| error.raw_os_error())
    }

    /// Ends a watch; one that the kernel has ended is ended.
    pub fn unwatch(&self, watch: i32) {
        let _ = inotify::remove_watch(&self.0, watch);
    }

    /// Calls `each` with every change that has not been read.
    /// True if the kernel has dropped some (its queue was full: fs.inotify.max_queued_events).
    pub fn read(&self, mut each: impl FnMut(Change<'_>)) -> bool {
        let mut chunk = [MaybeUninit::uninit(); CHUNK];
        let mut reader = Reader::new(&self.0, &mut chunk);
        let mut dropped = false;
        loop {
            match reader.next() {
                Ok(change) if change.events().contains(Happened::QUEUE_OVERFLOW) => dropped = true,
                Ok(change) => each(Change {
                    watch: change.wd(),
                    what: change.events(),
                    name: change.file_name().map(|name| name.to_bytes()),
                    cookie: change.cookie(),
                }),
                Err(Errno::INTR) => {}
                Err(_) => return dropped,
            }
        }
    }
}
