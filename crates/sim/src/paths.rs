//! The names of the model file system, and where a path leads: path_resolution(7), and openat2(2) beneath a directory.

use corelane_seam::{Fault, Reason};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Links that one path may lead through (path_resolution(7)).
const LINKS_MAX: usize = 40;

pub(crate) const NOT_FOUND: Fault = Fault { reason: Reason::NotFound, number: 2 };
pub(crate) const NOT_A_DIRECTORY: Fault = Fault { reason: Reason::NotFound, number: 20 };
const OUTSIDE: Fault = Fault { reason: Reason::Outside, number: 18 };
const LINK: Fault = Fault { reason: Reason::Outside, number: 40 };

/// What a name stands for.
pub(crate) enum Name {
    File(usize),
    Directory(usize),
    /// A symbolic link. A magic one is the system's: it leads where no path leads (proc(5)).
    Link {
        to: PathBuf,
        magic: bool,
    },
}

/// From the root, without links or dots in their directories.
pub(crate) type Names = BTreeMap<PathBuf, Name>;

/// Where paths start, and what they may do.
pub(crate) struct Way<'a> {
    pub(crate) from: &'a Path,
    /// They may not leave it.
    pub(crate) beneath: bool,
    pub(crate) no_links: bool,
}

impl Way<'_> {
    /// The name that a path leads to; whatever lies on the way to it is there, it need not be.
    pub(crate) fn resolve(&self, names: &Names, path: &Path) -> Result<PathBuf, Fault> {
        let mut ahead: Vec<Component<'_>> = path.components().rev().collect();
        let (mut here, mut links) = (self.from.to_path_buf(), 0);
        if ahead.is_empty() {
            return Err(NOT_FOUND);
        }
        while let Some(part) = ahead.pop() {
            let Component::Normal(name) = part else {
                self.leave(&mut here, part)?;
                continue;
            };
            here.push(name);
            match names.get(&here) {
                Some(Name::Link { to, magic }) => {
                    links += 1;
                    if self.no_links || (*magic && self.beneath) || links > LINKS_MAX {
                        return Err(LINK);
                    }
                    here.pop();
                    ahead.extend(to.components().rev());
                }
                Some(Name::Directory(_)) => {}
                _ if ahead.is_empty() => {}
                Some(Name::File(_)) => return Err(NOT_A_DIRECTORY),
                None => return Err(NOT_FOUND),
            }
        }
        assert!(!self.beneath || here.starts_with(self.from), "a path beneath a directory stays there");
        Ok(here)
    }

    /// Goes where a part leads that is no name.
    fn leave(&self, here: &mut PathBuf, part: Component<'_>) -> Result<(), Fault> {
        match part {
            Component::RootDir if self.beneath => return Err(OUTSIDE),
            Component::ParentDir if self.beneath && *here == self.from => return Err(OUTSIDE),
            Component::RootDir => *here = PathBuf::from("/"),
            Component::ParentDir => drop(here.pop()),
            _ => {}
        }
        Ok(())
    }
}
