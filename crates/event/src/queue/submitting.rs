//! What is asked of a queue beside changes and events: operations, and names.

use std::os::fd::RawFd;

use super::Queue;
use crate::names::Named;
use crate::operation::{OperationResult, Progress, Submission};
use crate::poster::Poster;
use crate::refused::Refused;

impl Queue {
    /// Begins an operation. What can be done of it without waiting is done at once. However it ends, there is one event, with the filter `Aio`:
    ///
    /// * `data`: the bytes that were moved, or the number of the connection that was accepted;
    /// * `notes`: the error;
    /// * the flag `EOF`: it failed, or the peer or the file had no more.
    ///
    /// After that event [`Queue::outcome`] has the rest. Before it, the operation's interest can only be switched off and on; any other change is
    /// refused (EBUSY).
    ///
    /// Operations of one socket go one after the other, those that receive beside those that send; those of files in any order, by at most four helper
    /// threads of the queue, which exist while there is work for them.
    ///
    /// # Errors
    /// With the submission as it came: EBADF: the descriptor is not open, or as for [`Queue::change`]; ENOTSOCK, EINVAL: it is not of the kind that the work needs;
    /// EAGAIN: the queue has 4,096 operations, or no thread can be started; EEXIST: an operation has this ident, and its outcome was not taken.
    pub fn submit(&self, submission: Submission) -> Result<(), Box<(Refused, Submission)>> {
        match self.check_home() {
            Ok(()) => self.state().submit(submission).map_err(Box::new),
            Err(refused) => Err(Box::new((refused, submission))),
        }
    }

    /// Begins operations that belong together. Beside the events of each, those that cannot begin among them, one tells that all are over: filter `Lio`,
    /// `ident`, in `data` how many have failed, in `notes` the first error, and `EOF` where there is one.
    ///
    /// # Errors
    /// With the list as it came, and nothing begun: EAGAIN, EEXIST and EBADF as for [`Queue::submit`].
    pub fn submit_list(&self, ident: u64, cookie: u64, list: Vec<Submission>) -> Result<(), (Refused, Vec<Submission>)> {
        match self.check_home() {
            Ok(()) => self.state().submit_list(ident, cookie, list),
            Err(refused) => Err((refused, list)),
        }
    }

    /// Asks an operation to end where it is. Its event comes as ever: with ECANCELED, unless it was over before it could be stopped.
    ///
    /// # Errors
    /// ENOENT: no operation of this ident is under way; EBADF as for [`Queue::change`].
    pub fn cancel(&self, ident: u64) -> Result<(), Refused> {
        self.check_home()?;
        self.state().cancel(ident)
    }

    /// How far an operation has come whose outcome was not taken; none if there is none.
    #[must_use]
    pub fn progress(&self, ident: u64) -> Option<Progress> {
        self.check_home().ok()?;
        self.state().progress(ident)
    }

    /// What became of an operation, once its event was told; none before, and after it was taken.
    #[must_use]
    pub fn outcome(&self, ident: u64) -> Option<OperationResult> {
        self.check_home().ok()?;
        self.state().outcome(ident)
    }

    /// From now on nobody takes outcomes ([`Queue::outcome`]): with the event of an operation what it leaves is gone, and a connection that was accepted is the
    /// program's to close, by the number that the event tells. For programs that keep no books of ours, as those in C.
    pub fn hand_over_outcomes(&self) {
        self.state().hand_over_outcomes();
    }

    /// Names of entries that have changed in the directory `number`, an interest with [`notes::NAMES`](crate::notes::NAMES): the oldest of at most `room`,
    /// which are then forgotten, and how many were lost since this was last asked, because more than 1,024 waited or the kernel dropped some. An event says
    /// NAMES in its notes where there are some.
    ///
    /// # Errors
    /// ENOENT: nobody asks for names of this directory; EBADF as for [`Queue::change`].
    pub fn names(&self, number: RawFd, room: usize) -> Result<(Vec<Named>, u64), Refused> {
        self.check_home()?;
        self.state().take_names(number, room)
    }

    /// What triggers user events of this queue without ever waiting: for lanes, and for whoever else must not wait for the queue's lock.
    ///
    /// # Errors
    /// Too many descriptors; ENOTSUP: /proc is not mounted; EBADF as for [`Queue::change`].
    pub fn poster(&self) -> Result<Poster, Refused> {
        self.check_home()?;
        self.state().poster()
    }
}
