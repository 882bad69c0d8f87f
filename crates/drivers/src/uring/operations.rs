//! Every operation of a ring that this driver uses, carried out once.

use super::ring::Ring;
use crate::errors::Error;
use crate::readiness::source::Pause;
use corelane_os::errno;
use io_uring::{opcode, squeue, types};
use rustix::fs::{MemfdFlags, memfd_create};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

/// Completions of the probe's entries, by their places in the order of submission.
const DATA: u64 = 1;
const WRITTEN: &[u8; 8] = b"corelane";

/// Carries out each operation once, on descriptors of its own; returns the names of those that the kernel refuses, each with the
/// system's number. A container's seccomp filter sees none of them, but the kernel may lack some, and whoever made a ring may be restricted.
///
/// # Errors
/// Why there is no ring at all.
pub fn refused_operations() -> Result<Vec<(&'static str, i32)>, Error> {
    let mut refused = Vec::new();
    super::apart(|| {
        refused = try_all()?;
        Ok(())
    })?;
    Ok(refused)
}

fn try_all() -> Result<Vec<(&'static str, i32)>, Error> {
    let refused = |error: rustix::io::Errno| Error::Refused { call: "memfd_create", fault: errno::fault(error.raw_os_error()) };
    let mut ring = Ring::with_queues(2, 4, 2, false)?;
    let file = memfd_create("corelane-probe", MemfdFlags::CLOEXEC).map_err(refused)?;
    let number = types::Fd(file.as_raw_fd());
    let mut read = [0; WRITTEN.len()];
    let (from, to, bytes) = (WRITTEN.as_ptr(), read.as_mut_ptr(), WRITTEN.len() as u32);
    let always = opcode::PollAdd::new(number, libc::POLLIN as u32).build();
    let mut results = vec![
        ("IORING_OP_POLL_ADD", one(&mut ring, always)),
        ("IORING_OP_WRITE", one(&mut ring, opcode::Write::new(number, from, bytes).offset(0).build())),
        ("IORING_OP_READ", one(&mut ring, opcode::Read::new(number, to, bytes).offset(0).build())),
        ("IORING_OP_FSYNC", one(&mut ring, opcode::Fsync::new(number).build())),
        ("IORING_OP_ASYNC_CANCEL", cancel(&mut ring)),
    ];
    let closed = file.try_clone().map_err(|error| errno::of(&error));
    results.push(("IORING_OP_CLOSE", closed.and_then(|closed| close(&mut ring, closed))));
    assert!(results.iter().any(|(_, result)| result.is_err()) || read == *WRITTEN, "what was written is read");
    Ok(results.into_iter().filter_map(|(name, result)| result.err().map(|number| (name, number))).collect())
}

fn close(ring: &mut Ring, descriptor: OwnedFd) -> Result<i32, i32> {
    let number = descriptor.into_raw_fd();
    one(ring, opcode::Close::new(types::Fd(number)).build()).inspect_err(|_| {
        // SAFETY: the ring has left it open, and nobody else knows it.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    })
}

/// To end what is not there is answered so; a kernel without the operation says something else.
fn cancel(ring: &mut Ring) -> Result<i32, i32> {
    match one(ring, opcode::AsyncCancel::new(u64::MAX).build()) {
        Err(libc::ENOENT) => Ok(0),
        other => other,
    }
}

/// Carries out one operation and waits for its only completion, so that the memory it names is used no longer.
fn one(ring: &mut Ring, entry: squeue::Entry) -> Result<i32, i32> {
    // SAFETY: this returns after the last completion; whoever made the entry keeps its memory until then.
    unsafe { ring.push(entry.user_data(DATA)) };
    let mut answer = None;
    while answer.is_none() {
        match ring.enter(Pause::Endless) {
            Ok(_) | Err(libc::EINTR) => {}
            Err(number) => panic!("entering a ring that works fails with {number}"),
        }
        ring.take(|_, result, last| answer = last.then_some(result));
    }
    match answer {
        Some(result) if result >= 0 => Ok(result),
        result => Err(result.map_or(libc::EIO, |result| -result)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_all_operations() {
        assert_eq!(refused_operations().unwrap(), []);
    }

    #[test]
    fn what_the_kernel_refuses_is_told_with_its_number() {
        let mut ring = Ring::with_queues(2, 4, 2, false).unwrap();
        let sync = opcode::Fsync::new(types::Fd(-1)).build();
        assert_eq!(one(&mut ring, sync), Err(libc::EBADF));
    }
}
