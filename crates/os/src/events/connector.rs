//! Forks, programs and ends of all processes, as the kernel tells them (the process connector, Documentation/driver-api/connector.rst). It tells nobody in a container or another user namespace,
//! and on older kernels the superuser alone.

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::num::NonZeroU32;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::netlink::word;

/// `struct nlmsghdr`, `struct cn_msg`: what stands before an event.
const HEADERS: usize = 16 + 20;
/// CN_IDX_PROC and CN_VAL_PROC, and the group of the same number.
const PROCESSES: u32 = 1;
/// PROC_CN_MCAST_LISTEN.
const LISTEN: u32 = 1;
/// Bytes of one message, and more.
const MESSAGE: usize = 256;

/// What a process has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It has a child.
    Fork {
        /// The process.
        parent: u32,
        /// Its child.
        child: u32,
    },
    /// It runs another program.
    Exec(u32),
    /// It has ended. Told before its descriptor is readable.
    Exit {
        /// The process.
        process: u32,
        /// Its wait status (wait(2)).
        status: i32,
    },
}

/// A descriptor that is readable when a process has done something.
pub struct Connector(OwnedFd);

impl Connector {
    /// Hears of all processes of the machine.
    ///
    /// # Errors
    /// ENOTSUP where the kernel does not tell this process; too many descriptors.
    pub fn new() -> Result<Self, i32> {
        let connector = Self(open()?);
        let sent = rustix::net::send(&connector.0, &listening(), SendFlags::empty());
        sent.map_err(|_| libc::ENOTSUP)?;
        // Where it tells, it has said so by now.
        let mut answer = [0; MESSAGE];
        match rustix::net::recv(&connector.0, answer.as_mut_slice(), RecvFlags::DONTWAIT) {
            Ok(_) => Ok(connector),
            Err(_) => Err(libc::ENOTSUP),
        }
    }

    /// Its descriptor.
    pub fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Calls `each` with what was done since, but what only threads did. True if the kernel has dropped some.
    pub fn read(&self, mut each: impl FnMut(Deed)) -> bool {
        let mut message = [0; MESSAGE];
        let mut dropped = false;
        loop {
            match rustix::net::recv(&self.0, message.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((_, bytes)) => deed(message.get(HEADERS..bytes).unwrap_or_default()).into_iter().for_each(&mut each),
                Err(Errno::NOBUFS) => dropped = true,
                Err(Errno::INTR) => {}
                Err(_) => return dropped,
            }
        }
    }
}

fn open() -> Result<OwnedFd, i32> {
    let protocol = NonZeroU32::new(libc::NETLINK_CONNECTOR.cast_unsigned()).map(Protocol::from_raw);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol);
    let socket = socket.map_err(|error| match error {
        Errno::MFILE | Errno::NFILE | Errno::NOMEM => error.raw_os_error(),
        _ => libc::ENOTSUP,
    })?;
    let bound = rustix::net::bind(&socket, &SocketAddrNetlink::new(0, PROCESSES));
    bound.map(|()| socket).map_err(|_| libc::ENOTSUP)
}

/// The message that asks for events.
fn listening() -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
    let halves = |halves: [u16; 2]| halves.map(u16::to_ne_bytes).concat();
    let asked = words(&[LISTEN]);
    let length = HEADERS + asked.len();
    [
        // Length, kind and flags, sequence, sender.
        words(&[length as u32]),
        halves([libc::NLMSG_DONE as u16, 0]),
        words(&[0, 0]),
        // Whose matter, sequence, answer; length and flags.
        words(&[PROCESSES, PROCESSES, 0, 0]),
        halves([asked.len() as u16, 0]),
        asked,
    ]
    .concat()
}

/// What `struct proc_event` says, if it is of interest: what, CPU, time, and then process and its leader, or two of them.
fn deed(event: &[u8]) -> Option<Deed> {
    const FORK: u32 = 0x1;
    const EXEC: u32 = 0x2;
    const EXIT: u32 = 0x8000_0000;
    let at = |index: usize| word(event, 16 + 4 * index);
    match word(event, 0)? {
        // A thread belongs to another leader than itself.
        FORK if at(2) == at(3) => Some(Deed::Fork { parent: at(1)?, child: at(2)? }),
        EXEC => Some(Deed::Exec(at(1)?)),
        EXIT if at(0) == at(1) => Some(Deed::Exit { process: at(0)?, status: at(2)?.cast_signed() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn events_are_those_of_processes_and_what_is_cut_is_none() {
        let fork = event(&[1, 0, 0, 0, 10, 11, 20, 20]);
        assert_eq!(deed(&fork), Some(Deed::Fork { parent: 11, child: 20 }));
        assert_eq!(deed(&event(&[1, 0, 0, 0, 10, 11, 20, 11])), None, "a thread");
        assert_eq!(deed(&event(&[2, 0, 0, 0, 10, 11])), Some(Deed::Exec(11)));
        assert_eq!(deed(&event(&[0x8000_0000, 0, 0, 0, 11, 11, 9, 0])), Some(Deed::Exit { process: 11, status: 9 }));
        assert_eq!(deed(&event(&[0x8000_0000, 0, 0, 0, 10, 11, 0, 0])), None, "a thread");
        assert_eq!((deed(&[]), deed(&event(&[2, 0, 0, 0, 10])), deed(&event(&[4; 8]))), (None, None, None));
        assert_eq!(deed(&fork[..28]), None);
    }
}
