//! Paths resolved component by component, as openat2(2) would: for systems whose filter of calls refuses that (containers' of before 2021).
//!
//! ```text
//! a/b/c   open a beneath the directory, through no link -> open b beneath a -> open c beneath b
//! a link  its text takes its place; one that begins with a slash leads outside
//! ..      one name less, and those that are left are opened anew from the directory
//! ```
//!
//! No call of these follows a link or goes up, so none leaves the directory, whatever is renamed meanwhile. One descriptor is open at a time beside the directory's, whatever the path.

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, openat, readlinkat, statat};
use rustix::io::{Errno, retry_on_intr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Links that are followed on the way, as many as the kernel does (path_resolution(7)).
const LINKS_MAX: usize = 40;
/// Names that are opened on the way: links that lead up and down again come to no more.
const STEPS_MAX: usize = 4096;
/// How a name on the way is opened.
const ON_THE_WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What openat2(2) is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) flags: OFlags,
    pub(crate) mode: Mode,
    pub(crate) resolve: ResolveFlags,
}

/// A way that is being walked.
struct Walk<'f> {
    from: BorrowedFd<'f>,
    /// The root of the file system, in place of that.
    root: Option<OwnedFd>,
    /// The directory in which the next name is looked for; none for where it begins.
    at: Option<OwnedFd>,
    /// The names by which that was come to.
    entered: Vec<Vec<u8>>,
    /// Names that are left, the next one last.
    ahead: Vec<Vec<u8>>,
    links: usize,
    steps: usize,
    how: How,
}

/// Opens a file as openat2(2) does.
///
/// # Errors
/// As there.
pub(crate) fn open(from: BorrowedFd<'_>, path: &Path, how: How) -> Result<OwnedFd, Errno> {
    let (root, at, entered, ahead) = (None, None, Vec::new(), Vec::new());
    let mut walk = Walk { from, root, at, entered, ahead, links: 0, steps: 0, how };
    let path = path.as_os_str().as_bytes();
    if path.is_empty() {
        return Err(Errno::NOENT);
    }
    walk.lies_ahead(path)?;
    walk.go()
}

impl Walk<'_> {
    fn stays_beneath(&self) -> bool {
        self.how.resolve.contains(ResolveFlags::BENEATH)
    }

    /// Puts a path in front of what is left.
    fn lies_ahead(&mut self, path: &[u8]) -> Result<(), Errno> {
        if path.first() == Some(&b'/') {
            if self.stays_beneath() {
                return Err(Errno::XDEV);
            }
            let root = openat(CWD, "/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            (self.root, self.at) = (Some(root), None);
            self.entered.clear();
        }
        self.ahead.extend(path.split(|byte| *byte == b'/').rev().map(<[u8]>::to_vec));
        if self.ahead.len() > STEPS_MAX { Err(Errno::NAMETOOLONG) } else { Ok(()) }
    }

    fn here(&self) -> BorrowedFd<'_> {
        self.at.as_ref().or(self.root.as_ref()).map_or(self.from, AsFd::as_fd)
    }

    /// Goes on until the last name is open.
    fn go(&mut self) -> Result<OwnedFd, Errno> {
        while let Some(name) = self.ahead.pop() {
            let is_last = self.ahead.is_empty();
            match &*name {
                b"" | b"." if is_last => return self.open_last(b"."),
                b"" | b"." => {}
                b".." => {
                    self.go_up()?;
                    if is_last {
                        self.ahead.push(b".".to_vec());
                    }
                }
                _ if is_last => match self.open_last(&name) {
                    Err(why) => self.follow(&name, why)?,
                    opened => return opened,
                },
                _ => self.enter(name)?,
            }
        }
        unreachable!("a path has a last name")
    }

    /// Opens the last name, unless it is a link's.
    fn open_last(&self, name: &[u8]) -> Result<OwnedFd, Errno> {
        let How { flags, mode, .. } = self.how;
        retry_on_intr(|| openat(self.here(), name, flags | OFlags::NOFOLLOW, mode))
    }

    /// Goes into a directory, or where a link leads.
    fn enter(&mut self, name: Vec<u8>) -> Result<(), Errno> {
        self.count_step()?;
        match retry_on_intr(|| openat(self.here(), &*name, ON_THE_WAY, Mode::empty())) {
            Ok(directory) => {
                self.at = Some(directory);
                self.entered.push(name);
                Ok(())
            }
            Err(why) => self.follow(&name, why),
        }
    }

    /// Goes where a link of this name leads; what could not be opened, and is none, fails as it did.
    fn follow(&mut self, name: &[u8], why: Errno) -> Result<(), Errno> {
        let is_link = || {
            let facts = statat(self.here(), name, AtFlags::SYMLINK_NOFOLLOW);
            facts.is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Symlink)
        };
        if !matches!(why, Errno::LOOP | Errno::NOTDIR) || !is_link() {
            return Err(why);
        }
        self.links += 1;
        if self.links > LINKS_MAX || self.how.resolve.contains(ResolveFlags::NO_SYMLINKS) {
            return Err(Errno::LOOP);
        }
        let target = readlinkat(self.here(), name, Vec::new())?;
        self.lies_ahead(target.as_bytes())
    }

    /// Goes to the directory above.
    fn go_up(&mut self) -> Result<(), Errno> {
        if !self.stays_beneath() {
            let above = openat(self.here(), "..", ON_THE_WAY, Mode::empty())?;
            self.at = Some(above);
            return Ok(());
        }
        self.entered.pop().ok_or(Errno::XDEV)?;
        self.at = None;
        for name in std::mem::take(&mut self.entered) {
            self.count_step()?;
            // A name that was entered and is a link or gone by now was renamed meanwhile.
            let directory = retry_on_intr(|| openat(self.here(), &*name, ON_THE_WAY, Mode::empty())).map_err(|_| Errno::AGAIN)?;
            self.at = Some(directory);
            self.entered.push(name);
        }
        Ok(())
    }

    fn count_step(&mut self) -> Result<(), Errno> {
        self.steps += 1;
        if self.steps > STEPS_MAX { Err(Errno::LOOP) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::openat2;
    use std::fs::{self, File};
    use std::io::Read;
    use std::os::unix::fs::symlink;

    const LINKS: [(&str, &str); 12] = [
        ("down", "a/b"),
        ("a/up", "../file"),
        ("a/b/round", "../../a/./b/file"),
        ("out", "../secret"),
        ("a/b/far_out", "../../../secret"),
        ("root", "/etc/hostname"),
        ("circle", "circle"),
        ("one", "other"),
        ("other", "one"),
        ("nowhere", "nothing"),
        ("slash", "a/"),
        ("to_down", "down/file"),
    ];

    const PATHS: [&str; 36] = [
        "file",
        "./file",
        "a/file",
        "a//file",
        "a/../file",
        "a/b/../file",
        "a/b/../../file",
        "a/b/../b/file",
        "down/file",
        "down",
        "down/",
        "down/../file",
        "a/up",
        "a/b/round",
        "out",
        "a/b/far_out",
        "root",
        "circle",
        "one",
        "nowhere",
        "slash",
        "slash/file",
        "to_down",
        "..",
        ".",
        "",
        "/",
        "../top/file",
        "a/../../secret",
        "file/",
        "file/x",
        "nothing",
        "nothing/x",
        "a/",
        "a/..",
        "down/..",
    ];

    /// Whatever a path is, both ways open the same, or fail with the same.
    #[test]
    fn a_walk_ends_where_openat2_does() {
        let folder = std::env::temp_dir().join(format!("corelane-components-{}", std::process::id()));
        fs::create_dir_all(folder.join("top/a/b")).unwrap();
        let at = |name: &str| folder.join("top").join(name);
        for name in ["file", "a/file", "a/b/file"] {
            fs::write(at(name), name).unwrap();
        }
        fs::write(folder.join("secret"), "secret").unwrap();
        for (name, to) in LINKS {
            symlink(to, at(name)).unwrap();
        }
        let top = File::open(folder.join("top")).unwrap();
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let how = |flags, resolve| How { flags: flags | OFlags::CLOEXEC, mode: Mode::empty(), resolve };
        let ways = [
            how(OFlags::RDONLY, beneath),
            how(OFlags::RDONLY | OFlags::DIRECTORY, beneath),
            how(OFlags::RDONLY, beneath | ResolveFlags::NO_SYMLINKS),
            how(OFlags::RDWR, beneath),
        ];
        for how in ways {
            for path in PATHS.map(Path::new) {
                let told = |opened: Result<OwnedFd, Errno>| {
                    let mut text = String::new();
                    // A directory is open, and has nothing to be read.
                    opened.map(|file| File::from(file).read_to_string(&mut text).map(|_| text).unwrap_or_default())
                };
                let expected = told(openat2(&top, path, how.flags, how.mode, how.resolve));
                assert_eq!(told(open(top.as_fd(), path, how)), expected, "{path:?} with {how:?}");
            }
        }
        // What is made lies where the last link leads.
        let made = How { flags: OFlags::WRONLY | OFlags::CREATE, mode: Mode::RUSR | Mode::WUSR, resolve: beneath };
        open(top.as_fd(), Path::new("nowhere"), made).unwrap();
        assert!(at("nothing").exists());
        fs::remove_dir_all(&folder).unwrap();
    }
}
