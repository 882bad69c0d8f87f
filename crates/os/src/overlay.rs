//! Which file systems an overlay (overlayfs) is made of: it answers as slowly as the slowest of them.

use rustix::fs::{Mode, OFlags, open};
use std::fs::read_to_string;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;

/// Whether all directories that the overlay of an open file is made of are `local`. False where they cannot be found: their names may be those of another mount namespace, as in most
/// containers.
pub(crate) fn is_all(file: BorrowedFd<'_>, local: impl Fn(BorrowedFd<'_>) -> bool) -> bool {
    let Some(layers) = layers_of(file) else { return false };
    let is_local = |path: &PathBuf| {
        let found = open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        found.is_ok_and(|directory| local(directory.as_fd()))
    };
    !layers.is_empty() && layers.iter().all(is_local)
}

/// The layers of the overlay that a file lies on.
fn layers_of(file: BorrowedFd<'_>) -> Option<Vec<PathBuf>> {
    let facts = read_to_string(format!("/proc/thread-self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let mount = facts.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
    layers(&read_to_string("/proc/thread-self/mountinfo").ok()?, mount)
}

/// The layers of the overlay of that number, as proc_pid_mountinfo(5) tells them; none if one has no whole name.
fn layers(mounts: &str, number: &str) -> Option<Vec<PathBuf>> {
    let mount = mounts.lines().find(|line| line.split(' ').next() == Some(number))?;
    let (_, of_system) = mount.split_once(" - ")?;
    let mut parts = of_system.split(' ');
    let (kind, options) = (parts.next()?, parts.nth(1)?);
    if kind != "overlay" {
        return None;
    }
    let mut all = Vec::new();
    for option in options.split(',') {
        let Some((name, value)) = option.split_once('=') else { continue };
        if matches!(name, "lowerdir" | "lowerdir+" | "datadir+" | "upperdir") {
            all.extend(value.split(':').filter(|path| !path.is_empty()).map(PathBuf::from));
        }
    }
    // What is escaped, or relative to where the mount was made, is not found here.
    let is_whole = |path: &PathBuf| path.is_absolute() && !path.as_os_str().as_encoded_bytes().contains(&b'\\');
    all.iter().all(is_whole).then_some(all)
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
        let found = |number| {
            layers(MOUNTS, number).map(|layers| layers.into_iter().map(|path| path.display().to_string()).collect::<Vec<_>>())
        };
        assert_eq!(found("31").unwrap(), ["/a", "/b/c", "/u"]);
        assert_eq!(found("32").unwrap(), ["/a", "/b"]);
        assert!(["22", "33", "34", "3"].iter().all(|number| found(number).is_none()));
    }

    #[test]
    fn a_file_that_lies_on_no_overlay_has_no_layers() {
        let file = std::fs::File::open("/proc/self/mountinfo").unwrap();
        assert!(layers_of(file.as_fd()).is_none() && !is_all(file.as_fd(), |_| true));
    }
}
