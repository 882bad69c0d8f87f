//! A large file that is open, for all states of it that are sent.

use corelane::service::File;
use std::cell::Cell;
use std::rc::Rc;

/// One of so many.
pub(super) struct OpenFile {
    pub file: File,
    /// How many there are.
    count: Rc<Cell<usize>>,
}

impl OpenFile {
    /// One more.
    pub fn new(file: File, count: &Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self { file, count: count.clone() }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
    }
}
