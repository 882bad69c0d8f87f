//! Programs that look on at what the kernel traces.

use super::{Command, Program, call};
use corelane_os::errno;
use corelane_seam::Fault;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A program's place at what it looks on at, as long as this lives.
#[derive(Debug)]
pub struct Tracepoint {
    _descriptor: OwnedFd,
}

/// `struct bpf_attr`, as BPF_RAW_TRACEPOINT_OPEN reads it.
#[repr(C)]
struct Open {
    /// None: the program was loaded for one.
    name: u64,
    program: u32,
    unused: u32,
}

impl Tracepoint {
    /// Lets the program look on, which was loaded with [`Program::load_tracing`]. Needs CAP_BPF and CAP_PERFMON.
    ///
    /// # Errors
    /// What the system says.
    pub fn attach(program: &Program) -> Result<Self, Fault> {
        let attribute = Open { name: 0, program: program.descriptor.as_raw_fd().unsigned_abs(), unused: 0 };
        // SAFETY: the attribute is that of the command, and names nothing.
        let number = unsafe { call(Command::TracepointOpen, &attribute) }.map_err(errno::fault)?;
        // SAFETY: the call has just made this descriptor, and nobody else knows it.
        Ok(Self { _descriptor: unsafe { OwnedFd::from_raw_fd(number as i32) } })
    }
}
