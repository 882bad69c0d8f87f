//! ICMP for IPv4 (RFC 792, RFC 1191).

use super::bytes::{field, set, split, u16_at};
use super::checksum::Sum;
use crate::Error;
use crate::xdr::Writer;
use std::net::Ipv4Addr;

/// Bytes in front of what a message carries.
const HEAD_BYTES: usize = 8;

const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const REDIRECT: u8 = 5;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

/// The code of a destination that cannot be reached because the packet would have to be cut.
const TOO_BIG: u8 = 4;

/// A message whose length is checked.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    head: &'a [u8; HEAD_BYTES],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// The message in `bytes`, which are all that the packet carries.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, payload) = split(bytes)?;
        Ok(Self { bytes, head, payload })
    }

    /// Type and code.
    #[must_use]
    pub const fn kind(&self) -> (u8, u8) {
        (self.head[0], self.head[1])
    }

    /// Whether its checksum is right.
    #[must_use]
    pub fn is_checksum_right(&self) -> bool {
        Sum::of(self.bytes).is_right()
    }

    /// What it says.
    ///
    /// # Errors
    /// [`Error::Unknown`] for another type or code.
    pub fn message(&self) -> Result<Message<'a>, Error> {
        let (kind, code) = self.kind();
        let packet = self.payload;
        match (kind, code) {
            (ECHO_REQUEST, 0) => Ok(Message::EchoRequest(self.echo())),
            (ECHO_REPLY, 0) => Ok(Message::EchoReply(self.echo())),
            (UNREACHABLE, TOO_BIG) => Ok(Message::TooBig { most: u16_at::<6, _>(self.head), packet }),
            (UNREACHABLE, _) => Ok(Message::Unreachable { code: Code::new(code)?, packet }),
            (REDIRECT, _) => Ok(Message::Redirect { code: Code::new(code)?, router: field::<4, 4, _>(self.head).into(), packet }),
            (TIME_EXCEEDED, _) => Ok(Message::TimeExceeded { code: Code::new(code)?, packet }),
            (PARAMETER_PROBLEM, _) => Ok(Message::ParameterProblem { code: Code::new(code)?, at: self.head[4], packet }),
            _ => Err(Error::Unknown { what: "type and code of ICMP", got: u32::from(kind) << 8 | u32::from(code) }),
        }
    }

    fn echo(&self) -> Echo<'a> {
        Echo { identification: u16_at::<4, _>(self.head), sequence: u16_at::<6, _>(self.head), data: self.payload }
    }
}

/// The code of a message, `MAX` at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Code<const MAX: u8>(u8);

impl<const MAX: u8> Code<MAX> {
    /// That code.
    ///
    /// # Errors
    /// [`Error::Unknown`] beyond `MAX`.
    pub const fn new(code: u8) -> Result<Self, Error> {
        if code > MAX { Err(Error::Unknown { what: "code of ICMP", got: code as u32 }) } else { Ok(Self(code)) }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// A question whether somebody is there, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo<'a> {
    /// Of whom.
    pub identification: u16,
    /// Which of his.
    pub sequence: u16,
    /// What comes back as it was sent.
    pub data: &'a [u8],
}

/// A message. `packet` is the beginning of the packet that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Is somebody there?
    EchoRequest(Echo<'a>),
    /// Yes.
    EchoReply(Echo<'a>),
    /// The destination cannot be reached; code 4 is [`Message::TooBig`], and is written as such.
    Unreachable {
        /// Why.
        code: Code<15>,
        /// What the packet began with.
        packet: &'a [u8],
    },
    /// The packet may not be cut and does not fit.
    TooBig {
        /// What fits, in bytes; 0 from routers older than RFC 1191.
        most: u16,
        /// What the packet began with.
        packet: &'a [u8],
    },
    /// Another router is nearer.
    Redirect {
        /// For what.
        code: Code<3>,
        /// Which.
        router: Ipv4Addr,
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
        /// Why.
        code: Code<2>,
        /// At which byte of the packet.
        at: u8,
        /// What the packet began with.
        packet: &'a [u8],
    },
}

impl<'a> Message<'a> {
    /// Writes it, its checksum computed.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then nothing was written.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let (mut head, payload) = self.parts();
        let length = HEAD_BYTES + payload.len();
        if to.room() < length {
            return Err(Error::NoRoom { expected: length, got: to.room() });
        }
        let checksum = Sum::of(&head).and(payload).checksum();
        set::<2, 2, _>(&mut head, checksum.to_be_bytes());
        to.put(&head)?;
        to.put(payload)
    }

    /// The head without its checksum, and what it carries.
    fn parts(&self) -> ([u8; HEAD_BYTES], &'a [u8]) {
        let head = |kind, code, [a, b, c, d]: [u8; 4]| [kind, code, 0, 0, a, b, c, d];
        let echo = |kind, echo: &Echo<'a>| {
            let ([a, b], [c, d]) = (echo.identification.to_be_bytes(), echo.sequence.to_be_bytes());
            (head(kind, 0, [a, b, c, d]), echo.data)
        };
        match self {
            Self::EchoRequest(request) => echo(ECHO_REQUEST, request),
            Self::EchoReply(reply) => echo(ECHO_REPLY, reply),
            Self::Unreachable { code, packet } => (head(UNREACHABLE, code.0, [0; 4]), packet),
            Self::TooBig { most, packet } => (head(UNREACHABLE, TOO_BIG, u32::from(*most).to_be_bytes()), packet),
            Self::Redirect { code, router, packet } => (head(REDIRECT, code.0, router.octets()), packet),
            Self::TimeExceeded { code, packet } => (head(TIME_EXCEEDED, code.0, [0; 4]), packet),
            Self::ParameterProblem { code, at, packet } => (head(PARAMETER_PROBLEM, code.0, [*at, 0, 0, 0]), packet),
        }
    }
}
