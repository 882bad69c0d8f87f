//! Who carries a fast path: an interface's program.

use super::program::FastPart;
use super::unfit::Unfit;
use crate::link::Interface;
use corelane_seam::Fault;
use corelane_select::bpf::Program;
use std::fmt::Debug;

/// An interface with a program, in which there may be a fast path.
pub trait Carrier: Debug + Send + Sync {
    /// The interface as it was found.
    fn interface(&self) -> &Interface;

    /// Whether the interface has the program still: it may be gone, or somebody may have taken the program off.
    fn is_there(&self) -> bool;

    /// Whether senders on this machine may leave checksums out.
    fn leaves_sums(&self) -> bool;

    /// The program with this fast path, of the kind that is there.
    ///
    /// # Errors
    /// [`Unfit::Instructions`] and [`Unfit::Refused`].
    fn load(&self, fast: &FastPart<'_>) -> Result<Program, Unfit>;

    /// Has the interface run this program from the next packet on.
    ///
    /// # Errors
    /// What the system says.
    fn put(&self, program: &Program) -> Result<(), Fault>;

    /// Has it run the one again that it began with.
    ///
    /// # Errors
    /// What the system says.
    fn put_plain(&self) -> Result<(), Fault>;
}
