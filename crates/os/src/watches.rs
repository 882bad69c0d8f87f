//! Directories that tell when something happens in them (inotify(7)): once each, and then they are watched no more.

use crate::{errno, overlay};
use corelane_seam::{Fault, Reason};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{FsWord, fstatfs};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Room for what is told at once; the rest is read next. One notice needs 272 bytes at the most.
const NOTICES_BYTES: usize = 4 << 10;

/// What happens to a name in a directory, or to itself, so that what it meant may not be so any more. `ONESHOT`: what changes all the time is told of once, whatever
/// the reader does meanwhile.
const CHANGES: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR)
    .union(WatchFlags::ONESHOT);

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The watch of this number has ended: something has happened there.
    Of(i32),
    /// Notices were lost (`IN_Q_OVERFLOW`): something may have happened anywhere.
    Lost,
}

/// A descriptor that becomes readable when something is told.
///
/// # Errors
/// The system's: `NoDescriptor` where a user has `fs.inotify.max_user_instances` of them.
pub fn open() -> Result<OwnedFd, Fault> {
    inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).map_err(errno::fault_of)
}

/// Whether what is open lies on a file system of this machine alone (fstatfs(2)): calls on it wait for nobody but the machine's disks, and whatever changes there is told of. An overlay
/// is as far as the farthest of its layers that has a name here. The question itself may wait for whoever serves the file system.
pub fn is_local(file: BorrowedFd<'_>) -> bool {
    is_simply_local(file) || is_overlay(file) && !overlay::is_any_far(file, is_simply_local)
}

fn is_simply_local(file: BorrowedFd<'_>) -> bool {
    // A device need not have an answer to that (fuse(4)), and a filter of calls may refuse the question.
    fstatfs(file).is_ok_and(|facts| is_of_this_machine(facts.f_type))
}

fn is_overlay(file: BorrowedFd<'_>) -> bool {
    fstatfs(file).is_ok_and(|facts| u32::try_from(facts.f_type) == Ok(OVERLAY))
}

/// Watches an open directory that [is local](is_local); returns the watch's number. A directory that is watched already has the same.
///
/// # Errors
/// `Busy` where the user has `fs.inotify.max_user_watches` of them, else the system's.
pub fn watch(notices: BorrowedFd<'_>, directory: BorrowedFd<'_>) -> Result<i32, Fault> {
    // By its name it could be another one by now. The thread's own table need not be the process's.
    let path = format!("/proc/thread-self/fd/{}", directory.as_raw_fd());
    inotify::add_watch(notices, path, CHANGES).map_err(|error| match error {
        Errno::NOSPC => Fault { reason: Reason::Busy, number: error.raw_os_error() },
        error => errno::fault_of(error),
    })
}

/// Ends a watch, if it has not ended by itself.
pub fn forget(notices: BorrowedFd<'_>, number: i32) {
    // It fails for one that has ended, whose notice was not read yet.
    let _ = inotify::remove_watch(notices, number);
}

/// Reads all that is told; returns the system calls used. Of a watch that was ended here nothing need be known any more, and it may be told of once.
pub fn read(notices: BorrowedFd<'_>, mut take: impl FnMut(Notice)) -> u64 {
    let mut memory = [MaybeUninit::uninit(); NOTICES_BYTES];
    let mut reader = Reader::new(notices, &mut memory);
    let mut calls = 0;
    loop {
        calls += u64::from(reader.is_buffer_empty());
        match reader.next() {
            Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => take(Notice::Lost),
            Ok(event) => take(Notice::Of(event.wd())),
            Err(Errno::INTR) => {}
            Err(error) => {
                assert!(error == Errno::AGAIN, "reading what is told of watched directories: {error}");
                return calls;
            }
        }
    }
}

/// An overlay answers as its layers do.
const OVERLAY: u32 = 0x794c_7630;

/// Whether this type of file system is on this machine alone. Others are served by other machines or by programs: these answer when they like, and change files without word. The numbers are
/// those of statfs(2).
fn is_of_this_machine(magic: FsWord) -> bool {
    const LOCAL: [u32; 15] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // xfs
        0x9123_683e, // btrfs
        0x0102_1994, // tmpfs
        0x8584_58f6, // ramfs
        0xf2f5_2010, // f2fs
        0xca45_1a4e, // bcachefs
        0x2fc1_2fc1, // zfs
        0x3153_464a, // jfs
        0x5265_4973, // reiserfs
        0x4d44,      // vfat
        0x2011_bab0, // exfat
        0x7371_7368, // squashfs
        0xe0f5_e1e2, // erofs
        0x9660,      // iso9660
    ];
    u32::try_from(magic).is_ok_and(|magic| LOCAL.contains(&magic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};
    use std::os::fd::AsFd;
    use std::path::Path;

    fn told(notices: &OwnedFd) -> Vec<Notice> {
        let mut told = Vec::new();
        read(notices.as_fd(), |notice| told.push(notice));
        told
    }

    #[test]
    fn each_change_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let (file, moved) = (path.join("file"), path.join("moved"));
        let changes: [(&str, &dyn Fn()); 8] = [
            ("a file comes", &|| fs::write(&file, "1").unwrap()),
            ("it is written to", &|| fs::write(&file, "2").unwrap()),
            ("it has other rights", &|| fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap()),
            ("it has another time", &|| File::open(&file).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap()),
            ("it has another name", &|| fs::rename(&file, &moved).unwrap()),
            ("it goes", &|| fs::remove_file(&moved).unwrap()),
            ("a link comes", &|| std::os::unix::fs::symlink("x", &file).unwrap()),
            ("the directory goes", &|| fs::remove_dir_all(path).unwrap()),
        ];
        let notices = open().unwrap();
        for (what, change) in changes {
            let number = watch(notices.as_fd(), File::open(path).unwrap().as_fd()).unwrap();
            assert_eq!(told(&notices), [], "before {what}");
            change();
            let after = told(&notices);
            assert!(!after.is_empty() && after.iter().all(|notice| *notice == Notice::Of(number)), "{what}: {after:?}");
        }
    }

    #[test]
    fn what_is_forgotten_or_only_read_is_not_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("file"), "1").unwrap();
        let (notices, directory) = (open().unwrap(), File::open(path).unwrap());
        let number = watch(notices.as_fd(), directory.as_fd()).unwrap();
        assert_eq!(watch(notices.as_fd(), directory.as_fd()), Ok(number));
        fs::read(path.join("file")).unwrap();
        fs::read_dir(path).unwrap().for_each(drop);
        assert_eq!(told(&notices), []);
        forget(notices.as_fd(), number);
        assert_eq!(told(&notices), [Notice::Of(number)], "its end");
        forget(notices.as_fd(), number);
        fs::write(path.join("file"), "2").unwrap();
        assert_eq!(told(&notices), []);
    }

    #[test]
    fn what_is_not_of_this_machine_alone_is_not_local() {
        let of = |path: &Path| is_local(File::open(path).unwrap().as_fd());
        assert!(of(tempfile::tempdir().unwrap().path()) && !of(Path::new("/proc")));
    }

    #[test]
    fn a_file_is_not_watched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::write(path.join("file"), "1").unwrap();
        let notices = open().unwrap();
        let fault = watch(notices.as_fd(), File::open(path.join("file")).unwrap().as_fd()).unwrap_err();
        assert_eq!(fault.reason, Reason::NotFound, "ENOTDIR");
    }
}
