//! ICMP for IPv6 (RFC 4443).

use super::bytes::{set, split, u16_at, u32_at};
use super::checksum::Addresses;
use super::icmp::{Code, Echo};
use super::neighbour;
use super::protocol::IpProtocol;
use crate::Error;
use crate::xdr::Writer;

const UNREACHABLE: u8 = 1;
const TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;

/// Bytes of type, code and checksum.
const FRONT: usize = 4;

/// A message whose length is checked.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    head: &'a [u8; FRONT],
    body: &'a [u8],
}

impl<'a> View<'a> {
    /// The message in `bytes`, which are all that the packet carries.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, body) = split(bytes)?;
        Ok(Self { bytes, head, body })
    }

    /// Type and code.
    #[must_use]
    pub const fn kind(&self) -> (u8, u8) {
        (self.head[0], self.head[1])
    }

    /// Whether its checksum is right.
    #[must_use]
    pub fn is_checksum_right(&self, addresses: &Addresses) -> bool {
        addresses.pseudo(IpProtocol::ICMPV6, self.bytes.len()).is_ok_and(|sum| sum.and(self.bytes).is_right())
    }

    /// What it says.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unknown`] for another type or code; [`Error::Malformed`] for options that are no list.
    pub fn message(&self) -> Result<Message<'a>, Error> {
        let (kind, code) = self.kind();
        if let (true, 0) = (neighbour::Message::is_kind(kind), code) {
            return Ok(Message::Neighbour(neighbour::Message::parse(kind, self.body)?));
        }
        let (head, packet) = split::<4>(self.body)?;
        let number = u32_at::<0, _>(head);
        let echo = Echo { identification: u16_at::<0, _>(head), sequence: u16_at::<2, _>(head), data: packet };
        match (kind, code) {
            (ECHO_REQUEST, 0) => Ok(Message::EchoRequest(echo)),
            (ECHO_REPLY, 0) => Ok(Message::EchoReply(echo)),
            (UNREACHABLE, _) => Ok(Message::Unreachable { code: Code::new(code)?, packet }),
            (TOO_BIG, _) => Ok(Message::TooBig { most: number, packet }),
            (TIME_EXCEEDED, _) => Ok(Message::TimeExceeded { code: Code::new(code)?, packet }),
            (PARAMETER_PROBLEM, _) => Ok(Message::ParameterProblem { code: Code::new(code)?, at: number, packet }),
            _ => Err(Error::Unknown { what: "type and code of ICMPv6", got: u32::from(kind) << 8 | u32::from(code) }),
        }
    }
}

/// A message. `packet` is the beginning of the packet that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Is somebody there?
    EchoRequest(Echo<'a>),
    /// Yes.
    EchoReply(Echo<'a>),
    /// The destination cannot be reached.
    Unreachable {
        /// Why.
        code: Code<8>,
        /// What the packet began with.
        packet: &'a [u8],
    },
    /// The packet does not fit.
    TooBig {
        /// What fits, in bytes.
        most: u32,
        /// What the packet began with.
        packet: &'a [u8],
    },
    /// The packet took too long: on the way (0), or to be reassembled (1).
    TimeExceeded {
        /// Which.
        code: Code<1>,
        /// What the packet began with.
        packet: &'a [u8],
    },
    /// A header makes no sense.
    ParameterProblem {
        /// Why: a field (0), the next header (1), an option (2), a first fragment without all headers (3, RFC 7112), and others.
        code: Code<10>,
        /// At which byte of the packet.
        at: u32,
        /// What the packet began with.
        packet: &'a [u8],
    },
    /// A message of neighbour discovery.
    Neighbour(neighbour::Message<'a>),
}

impl<'a> Message<'a> {
    /// Writes it, its checksum computed.
    ///
    /// # Errors
    /// [`Error::Oversized`] for more than 65,535 bytes; [`Error::NoRoom`]. Nothing was written then.
    pub fn emit(&self, addresses: &Addresses, to: &mut Writer<'_>) -> Result<(), Error> {
        let (kind, code, body, tail) = self.parts();
        let (mut front, length) = ([kind, code, 0, 0], FRONT + body.bytes().len() + tail.len());
        if to.room() < length {
            return Err(Error::NoRoom { expected: length, got: to.room() });
        }
        let sum = addresses.pseudo(IpProtocol::ICMPV6, length)?.and(&front).and(body.bytes()).and(tail);
        set::<2, 2, _>(&mut front, sum.checksum().to_be_bytes());
        to.put(&front)?;
        to.put(body.bytes())?;
        to.put(tail)
    }

    /// Type, code, the fixed part behind the checksum, and the rest.
    fn parts(&self) -> (u8, u8, neighbour::Body, &'a [u8]) {
        let word = |number: u32| neighbour::Body::of(&[&number.to_be_bytes()]);
        let echo = |echo: &Echo<'a>| word(u32::from(echo.identification) << 16 | u32::from(echo.sequence));
        match self {
            Self::EchoRequest(request) => (ECHO_REQUEST, 0, echo(request), request.data),
            Self::EchoReply(reply) => (ECHO_REPLY, 0, echo(reply), reply.data),
            Self::Unreachable { code, packet } => (UNREACHABLE, code.number(), word(0), packet),
            Self::TooBig { most, packet } => (TOO_BIG, 0, word(*most), packet),
            Self::TimeExceeded { code, packet } => (TIME_EXCEEDED, code.number(), word(0), packet),
            Self::ParameterProblem { code, at, packet } => (PARAMETER_PROBLEM, code.number(), word(*at), packet),
            Self::Neighbour(message) => (message.kind(), 0, message.body(), message.options().bytes()),
        }
    }
}
