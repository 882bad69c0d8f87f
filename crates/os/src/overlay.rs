//! Which file systems an overlay (overlayfs) is made of: it answers as slowly as the slowest of them.

use rustix::fs::{Mode, OFlags, open};
use std::fs::read_to_string;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;

/// Whether a directory that the overlay of an open file is made of is on another machine or a program's. A layer that cannot be found here is taken for local: in a container the
/// layers have names of another mount namespace, and nearly all are directories of its machine.
pub(crate) fn is_any_far(file: BorrowedFd<'_>, is_local: impl Fn(BorrowedFd<'_>) -> bool) -> bool {
    let is_far = |path: PathBuf| {
        let found = open(&path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        found.is_ok_and(|directory| !is_local(directory.as_fd()))
    };
    layers_of(file).into_iter().any(is_far)
}

/// The layers of the overlay that a file lies on, as far as they have names here.
fn layers_of(file: BorrowedFd<'_>) -> Vec<PathBuf> {
    let facts = read_to_string(format!("/proc/thread-self/fdinfo/{}", file.as_raw_fd())).unwrap_or_default();
    let mount = facts.lines().find_map(|line| line.strip_prefix("mnt_id:")).unwrap_or_default();
    layers(&read_to_string("/proc/thread-self/mountinfo").unwrap_or_default(), mount.trim())
}

/// The layers of the overlay of that number that have whole names, as proc_pid_mountinfo(5) tells them.
fn layers(mounts: &str, number: &str) -> Vec<PathBuf> {
    let of_number = |line: &&str| line.split(' ').next() == Some(number);
    let of_system = mounts.lines().find(of_number).and_then(|mount| mount.split_once(" - "));
    let mut parts = of_system.map_or("", |(_, parts)| parts).split(' ');
    let (Some("overlay"), Some(options)) = (parts.next(), parts.nth(1)) else { return Vec::new() };
    let mut all = Vec::new();
    for option in options.split(',') {
        let Some((name, value)) = option.split_once('=') else { continue };
        if matches!(name, "lowerdir" | "lowerdir+" | "datadir+" | "upperdir") {
            all.extend(value.split(':').filter(|path| !path.is_empty()).map(PathBuf::from));
        }
    }
    // What is escaped, or relative to where the mount was made, is not found here.
    let is_whole = |path: &PathBuf| path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&b'\\');
    all.retain(is_whole);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
        31 27 0:44 / /srv rw,relatime shared:3 - overlay overlay rw,lowerdir=/a:/b/c,upperdir=/u,workdir=/w,uuid=on\n\
        32 27 0:45 / /one rw - overlay none ro,lowerdir+=/a,lowerdir+=/b\n\
        33 27 0:46 / / rw - overlay overlay rw,lowerdir=l/AB:l/CD,upperdir=/u\n\
        34 27 0:47 / /x rw - overlay overlay rw,lowerdir=/a\\040b,upperdir=/u\n";

    #[test]
    fn the_layers_of_an_overlay_are_told_where_they_have_whole_names() {
        let found = |number| layers(MOUNTS, number).into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(found("31"), ["/a", "/b/c", "/u"]);
        assert_eq!(found("32"), ["/a", "/b"]);
        assert_eq!((found("33"), found("34")), (vec!["/u".to_owned()], vec!["/u".to_owned()]));
        assert!(["22", "3"].iter().all(|number| found(number).is_empty()));
    }

    #[test]
    fn a_file_that_lies_on_no_overlay_has_no_layers() {
        let file = std::fs::File::open("/proc/self/mountinfo").unwrap();
        assert!(layers_of(file.as_fd()).is_empty() && !is_any_far(file.as_fd(), |_| false));
    }
}
