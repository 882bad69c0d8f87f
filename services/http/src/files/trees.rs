//! Where files lie: beneath the root of the site, or beneath the directory of its error pages. Each has a root that is looked after, and directories that are watched.

use super::directories::Directories;
use super::place::Where;
use super::root::Root;
use std::path::PathBuf;

/// One of them.
pub(super) struct Tree {
    pub root: Root,
    pub directories: Directories,
}

impl Tree {
    pub fn new(root: PathBuf) -> Self {
        Self { root: Root::new(root), directories: Directories::default() }
    }
}

/// All of them.
pub(super) struct Trees {
    pub site: Tree,
    pub errors: Option<Tree>,
}

impl Trees {
    /// Those that there are.
    pub fn places(&self) -> impl Iterator<Item = Where> + use<> {
        [Some(Where::Site), self.errors.as_ref().map(|_| Where::Errors)].into_iter().flatten()
    }

    pub fn at(&self, at: Where) -> &Tree {
        match at {
            Where::Site => &self.site,
            // reason: nobody looks there where there are none.
            Where::Errors => self.errors.as_ref().expect("there are pages of errors"),
        }
    }

    pub fn at_mut(&mut self, at: Where) -> &mut Tree {
        match at {
            Where::Site => &mut self.site,
            // reason: as above.
            Where::Errors => self.errors.as_mut().expect("there are pages of errors"),
        }
    }
}
