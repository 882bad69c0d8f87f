//! Questions to the kernel and its answers over netlink(7): headers, attributes, ends.

pub mod generic;

use crate::options::set_bytes;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{self, AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::num::NonZeroU32;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes of one answer; the kernel fills no larger place when it lists, and a single message is smaller.
const ANSWER_BYTES: usize = 64 << 10;
/// Bytes of all answers to one question: ten thousand interfaces take a third of it.
const ANSWERS_BYTES_MAX: usize = 64 << 20;
/// `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;
/// `struct nlattr`.
const ATTRIBUTE_BYTES: usize = 4;
/// The upper two bits of an attribute's kind are flags.
const KIND_MASK: u16 = 0x3fff;
const NESTED: u16 = 0x8000;
/// Words of a refusal (`NLMSGERR_ATTR_MSG`).
const REFUSAL_WORDS: u16 = 1;

/// A question: one message.
pub struct Request(Vec<u8>);

impl Request {
    /// One that is answered by one message. `head` is the fixed part that its kind has.
    pub fn one(kind: u16, head: &[u8]) -> Self {
        Self::new(kind, libc::NLM_F_ACK, head)
    }

    /// One that is answered by a list.
    pub fn list(kind: u16, head: &[u8]) -> Self {
        Self::new(kind, libc::NLM_F_DUMP, head)
    }

    fn new(kind: u16, flags: i32, head: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | flags) as u16).to_ne_bytes());
        bytes.extend_from_slice(head);
        Self(bytes).padded()
    }

    /// With one attribute more, of less than 64 KiB.
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        assert!(self.0.len().is_multiple_of(4), "an attribute begins at a multiple of 4 bytes");
        // reason: whoever asks gives names and numbers.
        let length = u16::try_from(ATTRIBUTE_BYTES + value.len()).expect("an attribute has less than 64 KiB");
        self.0.extend_from_slice(&length.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.padded()
    }

    /// With an attribute that has others in it.
    pub fn nested(self, outer: u16, within: &[(u16, &[u8])]) -> Self {
        let inner = within.iter().fold(Self(Vec::new()), |inner, (kind, value)| inner.attribute(*kind, value));
        self.attribute(outer | NESTED, &inner.0)
    }

    fn padded(mut self) -> Self {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Asks the kernel: the bodies of all messages that answer, without their headers.
    ///
    /// # Errors
    /// The kernel's answer, if it is an error; `InvalidData` if it is no answer at all.
    pub fn ask(self, protocol: i32) -> io::Result<Vec<Vec<u8>>> {
        let (mut bodies, mut total) = (Vec::new(), 0);
        self.ask_each(protocol, |body| {
            total += body.len();
            bodies.push(body.to_vec());
            if total > ANSWERS_BYTES_MAX { Err(malformed()) } else { Ok(()) }
        })?;
        Ok(bodies)
    }

    /// Asks the kernel, and gives each body to `each` as it comes: for lists that are longer than anybody would keep.
    ///
    /// # Errors
    /// As [`Request::ask`], and those of `each`, which end the list.
    pub fn ask_each(self, protocol: i32, each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        self.list_each(protocol, each).map(drop)
    }

    /// The same; whether the list is of one moment. If not, something changed while the kernel listed it, and what stayed may be missing (`NLM_F_DUMP_INTR`).
    ///
    /// # Errors
    /// As [`Request::ask_each`].
    pub fn list_each(mut self, protocol: i32, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<bool> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        let socket = open(protocol, SocketFlags::empty())?;
        // Unbound, the socket sends to the kernel.
        let sent = retry_on_intr(|| net::send(&socket, &self.0, SendFlags::empty()))?;
        assert!(sent == self.0.len(), "a message is sent whole or not at all");
        let (mut answer, mut is_whole) = (vec![0; ANSWER_BYTES], true);
        loop {
            let (_, bytes) = retry_on_intr(|| net::recv(&socket, answer.as_mut_slice(), RecvFlags::TRUNC))?;
            let answer = answer.get(..bytes).ok_or_else(malformed)?;
            is_whole &= !is_interrupted(answer)?;
            if read(answer, &mut each)? {
                return Ok(is_whole);
            }
        }
    }
}

/// How something that was asked for went.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is done.
    Done,
    /// It was refused; with the kernel's words, if it has any (`NETLINK_EXT_ACK`, Linux 4.12).
    Refused(Option<String>),
}

impl Request {
    /// Asks the kernel to do something, and why not.
    ///
    /// # Errors
    /// What the system says of the socket.
    pub fn attempt(mut self, protocol: i32) -> io::Result<Verdict> {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        let socket = open(protocol, SocketFlags::empty())?;
        for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
            let set = set_bytes(socket.as_fd(), libc::SOL_NETLINK, option, &1_i32.to_ne_bytes());
            set.map_err(|fault| io::Error::from_raw_os_error(fault.number))?;
        }
        retry_on_intr(|| net::send(&socket, &self.0, SendFlags::empty()))?;
        let mut answer = vec![0; ANSWER_BYTES];
        let (_, bytes) = retry_on_intr(|| net::recv(&socket, answer.as_mut_slice(), RecvFlags::TRUNC))?;
        let Some(Message { kind, body, .. }) = next(answer.get(..bytes).ok_or_else(malformed)?)? else { return Err(malformed()) };
        let is_refused = i32::from(kind) == libc::NLMSG_ERROR && word(body, 0).is_some_and(|error| error != 0);
        // Behind the number lies the header of what was asked, and nothing more of it.
        let words = || Attributes::behind(body, size_of::<u32>() + HEADER_BYTES).ok()?.text(REFUSAL_WORDS);
        Ok(if is_refused { Verdict::Refused(words()) } else { Verdict::Done })
    }
}

fn open(protocol: i32, flags: SocketFlags) -> io::Result<OwnedFd> {
    // The number 0 is that of rtnetlink(7), and what no protocol at all stands for.
    let protocol = NonZeroU32::new(protocol.cast_unsigned()).map(Protocol::from_raw);
    Ok(net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC | flags, protocol)?)
}

/// What the kernel tells unasked: of the network namespace that the thread had when this was made.
#[derive(Debug)]
pub struct Notices(OwnedFd);

impl Notices {
    /// Hears the groups of rtnetlink(7) that the bits name, such as `RTMGRP_LINK`.
    ///
    /// # Errors
    /// What the system says.
    pub fn hear(groups: i32) -> io::Result<Self> {
        let socket = open(libc::NETLINK_ROUTE, SocketFlags::NONBLOCK)?;
        net::bind(&socket, &SocketAddrNetlink::new(0, groups.cast_unsigned()))?;
        Ok(Self(socket))
    }

    /// Gives each notice that has come to `each`: its kind and its body.
    ///
    /// # Errors
    /// `ENOBUFS` if some were lost, said once all others have been given, so that whoever asks then sees the last state; and what else the system says.
    pub fn take(&self, mut each: impl FnMut(u16, &[u8])) -> io::Result<()> {
        self.take_flagged(|kind, _, body| each(kind, body))
    }

    /// The same; with the flags of each notice (`NLM_F_REPLACE`, ..) behind its kind.
    ///
    /// # Errors
    /// As [`Notices::take`].
    pub fn take_flagged(&self, mut each: impl FnMut(u16, u16, &[u8])) -> io::Result<()> {
        let mut place = vec![0; ANSWER_BYTES];
        let mut lost = Ok(());
        loop {
            let bytes = match net::recv(&self.0, place.as_mut_slice(), RecvFlags::empty()) {
                Ok((_, bytes)) => bytes,
                Err(Errno::AGAIN) => return lost,
                Err(Errno::INTR) => continue,
                // The kernel says so before it gives what waits, and tells nothing new until that is taken.
                Err(Errno::NOBUFS) => {
                    lost = Err(Errno::NOBUFS.into());
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let mut messages = &place[..bytes];
            while let Some(Message { kind, flags, body, rest }) = next(messages)? {
                each(kind, flags, body);
                messages = rest;
            }
        }
    }
}

impl AsFd for Notices {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Takes the messages of one answer apart; true if the last one was among them.
fn read(mut messages: &[u8], each: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<bool> {
    while let Some(Message { kind, body, rest, .. }) = next(messages)? {
        match i32::from(kind) {
            libc::NLMSG_DONE | libc::NLMSG_ERROR => return ended(word(body, 0).ok_or_else(malformed)? as i32),
            _ => each(body)?,
        }
        messages = rest;
    }
    Ok(false)
}

/// Whether something has changed while these messages of a list were made.
fn is_interrupted(mut messages: &[u8]) -> io::Result<bool> {
    while let Some(Message { flags, rest, .. }) = next(messages)? {
        if i32::from(flags) & libc::NLM_F_DUMP_INTR != 0 {
            return Ok(true);
        }
        messages = rest;
    }
    Ok(false)
}

/// A message, and what lies behind it.
struct Message<'a> {
    kind: u16,
    flags: u16,
    body: &'a [u8],
    rest: &'a [u8],
}

/// The first of some messages.
fn next(messages: &[u8]) -> io::Result<Option<Message<'_>>> {
    if messages.is_empty() {
        return Ok(None);
    }
    let length = word(messages, 0).ok_or_else(malformed)? as usize;
    let body = messages.get(HEADER_BYTES..length).ok_or_else(malformed)?;
    assert!(length >= HEADER_BYTES, "each round takes something: no answer goes on for ever");
    let (kind, flags) = half(messages, 4).zip(half(messages, 6)).ok_or_else(malformed)?;
    Ok(Some(Message { kind, flags, body, rest: messages.get(length.next_multiple_of(4)..).unwrap_or_default() }))
}

/// Errors are negative; 0 says that all has been said.
fn ended(error: i32) -> io::Result<bool> {
    if error >= 0 { Ok(true) } else { Err(io::Error::from_raw_os_error(error.wrapping_neg())) }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "netlink: an answer of the kernel is no netlink message")
}

/// The attributes of a message, or of another attribute.
pub struct Attributes<'a>(Vec<(u16, &'a [u8])>);

impl<'a> Attributes<'a> {
    /// Reads all of them.
    ///
    /// # Errors
    /// `InvalidData` if one is longer than what holds it.
    pub fn of(mut bytes: &'a [u8]) -> io::Result<Self> {
        let mut found = Vec::new();
        while bytes.len() >= ATTRIBUTE_BYTES {
            let length = usize::from(half(bytes, 0).ok_or_else(malformed)?);
            let kind = half(bytes, 2).ok_or_else(malformed)? & KIND_MASK;
            found.push((kind, bytes.get(ATTRIBUTE_BYTES..length).ok_or_else(malformed)?));
            assert!(length >= ATTRIBUTE_BYTES, "each round takes something: no message goes on for ever");
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(Self(found))
    }

    /// Those behind the fixed part of a message.
    ///
    /// # Errors
    /// As [`Attributes::of`].
    pub fn behind(body: &'a [u8], head_bytes: usize) -> io::Result<Self> {
        Self::of(body.get(head_bytes..).ok_or_else(malformed)?)
    }

    /// The value of the first of its kind.
    pub fn get(&self, kind: u16) -> Option<&'a [u8]> {
        self.0.iter().find(|(found, _)| *found == kind).map(|(_, value)| *value)
    }

    /// A number of 32 bits.
    pub fn number(&self, kind: u16) -> Option<u32> {
        word(self.get(kind)?, 0)
    }

    /// A text that ends with a zero byte.
    pub fn text(&self, kind: u16) -> Option<String> {
        let bytes = self.get(kind)?.split(|&byte| byte == 0).next()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// 32 bits in the machine's order.
pub fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// 16 bits in the machine's order.
pub fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|bytes| u16::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut request = Request::one(kind, body);
        let length = (HEADER_BYTES + body.len()) as u32;
        request.0[..4].copy_from_slice(&length.to_ne_bytes());
        request.0
    }

    #[test]
    fn what_is_asked_can_be_read_back() {
        let request = Request::one(7, &[1, 2])
            .attribute(3, b"abcde\0")
            .nested(4, &[(2, b"x\0"), (3, b"yz")])
            .attribute(5, &9_u32.to_ne_bytes());
        assert_eq!(request.0.len() % 4, 0);
        let attributes = Attributes::behind(&request.0, HEADER_BYTES + 4).unwrap();
        assert_eq!(attributes.text(3).as_deref(), Some("abcde"));
        assert_eq!(attributes.number(5), Some(9));
        assert_eq!(attributes.0.len(), 3);
        let inner = Attributes::of(attributes.get(4).unwrap()).unwrap();
        assert_eq!((inner.text(2).as_deref(), inner.get(3)), (Some("x"), Some(&b"yz"[..])));
        assert_eq!((attributes.number(3), attributes.number(8), inner.number(2)), (word(b"abcd", 0), None, None));
    }

    fn read_into(messages: &[u8], bodies: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        read(messages, &mut |body| {
            bodies.push(body.to_vec());
            Ok(())
        })
    }

    #[test]
    fn messages_are_taken_apart_up_to_the_last() {
        let mut bytes = [message(20, &[1, 2, 3]), message(21, &[])].concat();
        let mut bodies = Vec::new();
        assert!(!read_into(&bytes, &mut bodies).unwrap());
        assert_eq!(bodies, [vec![1, 2, 3], vec![]]);
        bytes.extend(message(libc::NLMSG_DONE as u16, &[0; 4]));
        assert!(read_into(&bytes, &mut bodies).unwrap());
        assert!(read_into(&message(libc::NLMSG_ERROR as u16, &[0; 20]), &mut bodies).unwrap(), "all has been said");
        let refused = message(libc::NLMSG_ERROR as u16, &(-libc::EOPNOTSUPP).to_ne_bytes());
        assert_eq!(read_into(&refused, &mut bodies).unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(bodies.len(), 4);
    }

    #[test]
    fn a_list_that_was_changed_meanwhile_says_so() {
        let mut bytes = [message(20, &[1, 2, 3]), message(21, &[])].concat();
        assert!(!is_interrupted(&bytes).unwrap());
        let second = bytes.len() - HEADER_BYTES;
        bytes[second + 6..second + 8].copy_from_slice(&(libc::NLM_F_DUMP_INTR as u16).to_ne_bytes());
        assert!(is_interrupted(&bytes).unwrap());
        assert!(Request::list(libc::RTM_GETLINK, &[0; 16]).list_each(libc::NETLINK_ROUTE, |_| Ok(())).is_ok());
    }

    #[test]
    fn messages_and_attributes_that_are_cut_are_refused() {
        let whole = message(20, &[7; 24]);
        for end in 1..whole.len() {
            assert!(read_into(&whole[..end], &mut Vec::new()).is_err(), "{end}");
        }
        let empty_header = [0_u8; HEADER_BYTES];
        assert!(read_into(&empty_header, &mut Vec::new()).is_err(), "a length of 0 would go on for ever");
        let attribute = Request(Vec::new()).attribute(1, &[7; 8]).0;
        for end in ATTRIBUTE_BYTES..attribute.len() {
            assert!(Attributes::of(&attribute[..end]).is_err(), "{end}");
        }
        assert!(Attributes::of(&[0; 4]).is_err(), "a length of 0 would go on for ever");
        assert!(Attributes::behind(&[0; 3], 4).is_err());
    }

    #[test]
    fn the_kernel_says_why_it_refuses() {
        let named = |name: &[u8]| {
            Request::one(libc::RTM_GETLINK, &[0; 16]).attribute(libc::IFLA_IFNAME, name).attempt(libc::NETLINK_ROUTE).unwrap()
        };
        assert_eq!(named(b"lo\0"), Verdict::Done);
        let Verdict::Refused(Some(words)) = named(&[b'x'; 64]) else { panic!("a name is not so long") };
        assert!(!words.is_empty());
    }

    #[test]
    fn the_kernel_answers_and_refuses() {
        assert!(!Request::list(libc::RTM_GETLINK, &[0; 16]).ask(libc::NETLINK_ROUTE).unwrap().is_empty());
        assert!(Request::one(libc::RTM_GETLINK, &[0xff; 16]).ask(libc::NETLINK_ROUTE).is_err());
        assert!(Request::list(libc::RTM_GETLINK, &[0; 16]).ask(9999).is_err());
    }
}
