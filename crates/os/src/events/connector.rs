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
/// PROC_EVENT_NONE: an answer.
const NONE: u32 = 0;
/// Bytes of one message, and more.
const MESSAGE: usize = 256;
/// Room for messages that wait, as the kernel counts it: some thousand of them.
const BUFFER_BYTES: usize = 4 << 20;

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
        let mark = crate::random::secret().map_err(|_| libc::ENOTSUP)? as u32;
        let sent = rustix::net::send(&connector.0, &listening(mark), SendFlags::empty());
        sent.map_err(|_| libc::ENOTSUP)?;
        if connector.is_answered(mark) { Ok(connector) } else { Err(libc::ENOTSUP) }
    }

    /// Whether the kernel has answered the question of this mark: where it does, it has by the time that the question is sent. What it tells others, and its answers to them, come here too.
    fn is_answered(&self, mark: u32) -> bool {
        let mut message = [0; MESSAGE];
        loop {
            match rustix::net::recv(&self.0, message.as_mut_slice(), RecvFlags::DONTWAIT) {
                Ok((_, bytes)) if answers(&message[..bytes.min(MESSAGE)], mark) => return true,
                Ok(_) | Err(Errno::INTR | Errno::NOBUFS) => {}
                Err(_) => return false,
            }
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
    // The kernel drops what finds no room, and all processes and threads of the machine are told of. Without the right to it, the usual room has to do.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES);
    let bound = rustix::net::bind(&socket, &SocketAddrNetlink::new(0, PROCESSES));
    bound.map(|()| socket).map_err(|_| libc::ENOTSUP)
}

/// The message that asks for events, in which `mark` stands as acknowledgement. The kernel writes a sequence of its own into the answer.
fn listening(mark: u32) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
    let halves = |halves: [u16; 2]| halves.map(u16::to_ne_bytes).concat();
    let asked = words(&[LISTEN]);
    let length = HEADERS + asked.len();
    [
        // Length, kind and flags, sequence, sender.
        words(&[length as u32]),
        halves([libc::NLMSG_DONE as u16, 0]),
        words(&[0, 0]),
        // Whose matter, sequence, acknowledgement; length and flags.
        words(&[PROCESSES, PROCESSES, 0, mark]),
        halves([asked.len() as u16, 0]),
        asked,
    ]
    .concat()
}

/// Whether this is the kernel's answer to `listening(mark)`, which was granted: the next acknowledgement, no event, and no error. Its sequence counts what the
/// kernel has told on one processor.
fn answers(message: &[u8], mark: u32) -> bool {
    const ACKNOWLEDGED: usize = 16 + 12;
    // What has happened, on which processor, and when.
    const ERROR: usize = HEADERS + 4 + 4 + 8;
    let told = [ACKNOWLEDGED, HEADERS, ERROR].map(|at| word(message, at));
    told == [Some(mark.wrapping_add(1)), Some(NONE), Some(0)]
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
    fn an_answer_is_to_the_own_question_and_its_sequence_is_the_kernels() {
        let message =
            |sequence, acknowledged, what, error| event(&[0, 0, 0, 0, 1, 1, sequence, acknowledged, 40, what, 0, 0, 0, error]);
        assert!(answers(&message(0, 8, NONE, 0), 7) && answers(&message(u32::MAX, 8, NONE, 0), 7));
        assert!(answers(&message(0, 0, NONE, 0), u32::MAX));
        assert!(!answers(&message(0, 9, NONE, 0), 7), "another's");
        assert!(!answers(&message(0, 7, NONE, 0), 7), "the question itself");
        assert!(!answers(&message(0, 8, 1, 0), 7), "an event");
        assert!(!answers(&message(0, 8, NONE, 1), 7), "refused");
        assert!(!answers(&message(0, 8, NONE, 0)[..HEADERS + 19], 7) && !answers(&[], 7));
        assert_eq!(listening(7)[24..32], [0, 0, 0, 0, 7, 0, 0, 0]);
    }

    /// The kernel lists who answers (/proc/net/connector); it tells the superuser outside of namespaces.
    #[test]
    fn who_may_hear_of_processes_hears_of_an_end() {
        const NAME: &str = "events::connector::who_may_hear_of_processes_hears_of_an_end";
        if !crate::testing::tells_of_processes() {
            return crate::testing::skip(NAME, "the kernel tells this process nothing of others (/proc/net/connector)");
        }
        let connector = Connector::new().expect("the kernel answers");
        // Where others fork so much that the kernel drops some of it, another child may be told whole.
        while !is_told_of_a_child(&connector) {}
    }

    fn is_told_of_a_child(connector: &Connector) -> bool {
        let alone = crate::testing::network::alone();
        let mut child = std::process::Command::new("true").spawn().expect("a program can be started");
        drop(alone);
        let id = child.id();
        assert!(child.wait().expect("it ends").success());
        let ended = Deed::Exit { process: id, status: 0 };
        let mut deeds = Vec::new();
        while !deeds.contains(&ended) {
            crate::testing::wait_until_readable(connector.number());
            if connector.read(|deed| deeds.push(deed)) {
                return false;
            }
        }
        let is_born = |deed: &Deed| matches!(deed, Deed::Fork { child, .. } if *child == id);
        assert!(deeds.iter().any(is_born) && deeds.contains(&Deed::Exec(id)), "{deeds:?}");
        true
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
