//! The calls that files take and for which there is no other way, each made once.

use crate::errors::Error;
use corelane_os::errno;
use corelane_seam::Fault;
use rustix::fs::{CWD, Dir, MemfdFlags, Mode, OFlags, fcntl_setfl, fstat, memfd_create, openat, sendfile};
use rustix::io::{Errno, pread};

/// What a call came to.
type Tried = Result<(), Errno>;

/// Tries the calls that serving files takes, whichever driver makes them.
///
/// # Errors
/// [`Error::Refused`] with the first that the system, or a filter of calls around the process, does not allow.
pub fn probe_file_calls() -> Result<(), Error> {
    let file = memfd_create("corelane-probe", MemfdFlags::CLOEXEC).ok();
    let root = openat(CWD, "/", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let names = |of: Result<Dir, Errno>| of.map(|mut names| names.read().transpose()).and_then(|first| first.map(drop));
    let mut calls: Vec<(&'static str, Tried)> = vec![("openat", root.as_ref().map(drop).map_err(|error| *error))];
    if let Ok(root) = &root {
        calls.push(("fstat", fstat(root).map(drop)));
        calls.push(("getdents64", names(Dir::read_from(root))));
        calls.push(("fcntl", fcntl_setfl(root, OFlags::empty())));
    }
    if let Some(file) = &file {
        calls.push(("pread64", pread(file, &mut [0_u8; 1], 0).map(drop)));
        calls.push(("sendfile", sendfile(file, file, Some(&mut 0), 0).map(drop)));
    }
    let refused = |(call, tried): (&'static str, Tried)| match tried {
        Err(error @ (Errno::PERM | Errno::NOSYS)) => Some((call, errno::fault_of(error))),
        // Whatever else it says, the call was made.
        _ => None,
    };
    let first: Option<(&'static str, Fault)> = calls.into_iter().find_map(refused);
    first.map_or(Ok(()), |(call, fault)| Err(Error::Refused { call, fault }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_system_allows_all() {
        assert!(probe_file_calls().is_ok());
    }
}
