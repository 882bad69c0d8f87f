//! Programs that decide on what connections receive.

use super::{ATTACH_STREAM_VERDICT, Command, Map, MapKind, Program, call};
use corelane_os::errno;
use corelane_seam::Fault;
use std::os::fd::AsRawFd;

#[repr(C)]
struct Attach {
    target: u32,
    program: u32,
    attach_to: u32,
    flags: u32,
}

impl Program {
    /// Has a [`ProgramKind::StreamVerdict`](super::ProgramKind::StreamVerdict) decide on what each connection receives that is written into this map from now on. Needs CAP_NET_ADMIN and CAP_BPF.
    ///
    /// # Errors
    /// What the system says.
    ///
    /// # Panics
    /// If the map is none of connections.
    pub fn decide_for(&self, connections: &Map) -> Result<(), Fault> {
        assert!(connections.kind == MapKind::Connections, "a verdict is on what connections receive");
        let attribute = Attach {
            target: connections.descriptor.as_raw_fd().unsigned_abs(),
            program: self.descriptor.as_raw_fd().unsigned_abs(),
            attach_to: ATTACH_STREAM_VERDICT,
            flags: 0,
        };
        // SAFETY: the attribute is that of the command, and holds no pointers.
        unsafe { call(Command::ProgramAttach, &attribute) }.map(drop).map_err(errno::fault)
    }
}
