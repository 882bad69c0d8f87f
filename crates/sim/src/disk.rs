//! What a test does to the model file system.

use crate::files::Files;
use crate::state::World;
use corelane_seam::nanoseconds;
use std::path::Path;
use std::time::Duration;

impl World {
    /// Puts a file, as it is, into the model file system, with the directories where it lies.
    pub fn write_file(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        self.change(|files, now| files.put(path.as_ref(), bytes, now));
    }

    /// From now on no file is in the page cache, and the disk takes so long for what is to be brought there
    /// ([`FileOp::Warm`](corelane_seam::FileOp::Warm)); with none, as at the beginning, all of them are.
    pub fn slow_disk(&self, delay: Duration) {
        self.0.borrow_mut().disk_delay = nanoseconds(delay);
    }

    /// From now on what is opened lies on a file system that somebody else serves, who answers each call so late: to open, read, write, list, warm or close; and of whose changes nobody is told
    /// ([`FileFacts::is_far`](corelane_seam::FileFacts::is_far)). With none, as at the beginning, files are this machine's own.
    pub fn far_files(&self, delay: Option<Duration>) {
        self.0.borrow_mut().far_delay = delay.map(nanoseconds);
    }

    /// From now on the disk fails, or is well again: whatever is read, written, listed or to be brought from there ends with EIO, and a send of a file's part brings none of it.
    /// Names are known all the same, so files are opened.
    pub fn break_disk(&self, is_broken: bool) {
        self.0.borrow_mut().disk_is_broken = is_broken;
    }

    /// Takes the name of a file or of a link out of the model file system. Who has the file open keeps it.
    ///
    /// # Panics
    /// If there is no such name.
    pub fn remove_file(&self, path: impl AsRef<Path>) {
        self.change(|files, now| files.remove(path.as_ref(), now));
    }

    /// Gives a file, a link, or a directory with all that lies in it another name (rename(2)). A file or a link that had it is gone.
    ///
    /// # Panics
    /// If there is no such name, or a directory has the other one.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) {
        self.change(|files, now| files.rename(from.as_ref(), to.as_ref(), now));
    }

    /// Gives a file one more name (link(2)).
    ///
    /// # Panics
    /// If there is no such file, or the name is taken.
    pub fn name_file(&self, path: impl AsRef<Path>, of: impl AsRef<Path>) {
        self.change(|files, now| files.name(path.as_ref(), of.as_ref(), now));
    }

    /// Sets the time of a file's last change (utimensat(2)): so long after the world began. When it was changed in truth it keeps.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn set_modified(&self, path: impl AsRef<Path>, modified: Duration) {
        self.change(|files, now| files.set_modified(path.as_ref(), modified.as_nanos() as u64, now));
    }

    /// From now on nobody may open a file or a directory, or everybody may (chmod(2)).
    ///
    /// # Panics
    /// If there is no such file.
    pub fn forbid(&self, path: impl AsRef<Path>, is_forbidden: bool) {
        self.change(|files, now| files.close(path.as_ref(), is_forbidden, now));
    }

    /// Makes a directory in the model file system, if it is not there.
    pub fn make_directory(&self, path: impl AsRef<Path>) {
        self.change(|files, now| files.make_directory(path.as_ref(), now));
    }

    /// Makes a symbolic link in the model file system. A `magic` one is as those of `/proc` (proc(5)), which are not followed beneath a
    /// directory wherever they lead.
    pub fn make_link(&self, path: impl AsRef<Path>, to: impl AsRef<Path>, magic: bool) {
        self.change(|files, now| files.make_link(path.as_ref(), to.as_ref(), magic, now));
    }

    /// What a file of the model file system holds; none if there is no such file.
    pub fn read_file(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        self.0.borrow().files.get(path.as_ref()).map(<[u8]>::to_vec)
    }

    /// Directories that the lanes watch.
    pub fn watched_directories(&self) -> usize {
        self.0.borrow().lanes.iter().map(|lane| lane.watches.len()).sum()
    }

    /// Does something to the files, of which the lanes are told that watch.
    fn change(&self, change: impl FnOnce(&mut Files, u64)) {
        let state = &mut *self.0.borrow_mut();
        change(&mut state.files, state.clock.now());
        state.tell_of_files();
    }
}
