//! Messages of DHCP for IPv6 (RFC 8415), as far as a relay agent looks at them: their kinds, those between relays and servers, and lists of options.

use super::bytes::{length_u16, set, split, u16_at, v6_at};
use crate::Error;
use crate::xdr::Writer;
use std::net::Ipv6Addr;

/// The ports of servers and relays, and of clients (section 7.2).
pub const SERVER_PORT: u16 = 547;
/// See there.
pub const CLIENT_PORT: u16 = 546;
/// The group of the link in which relays and servers listen (All_DHCP_Relay_Agents_and_Servers, section 7.1).
pub const RELAYS_AND_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// Relays that a message may pass, at most (HOP_COUNT_LIMIT, section 7.6).
pub const HOPS_MAX: u8 = 8;
/// The code of the option that carries another message (section 21.10), and of that by which a relay names the link of a client (section 21.18).
pub const RELAY_MESSAGE: u16 = 9;
/// See there.
pub const INTERFACE_ID: u16 = 18;

/// Bytes in front of the options of what a client and a server say: its kind, and the number of the exchange (section 8).
const HEAD: usize = 4;

/// What a message is (section 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// From a client that looks for servers.
    pub const SOLICIT: Self = Self(1);
    /// From a server that could serve a client.
    pub const ADVERTISE: Self = Self(2);
    /// From a server.
    pub const REPLY: Self = Self(7);
    /// From a server that asks for a request.
    pub const RECONFIGURE: Self = Self(10);
    /// From a relay to servers.
    pub const RELAY_FORWARD: Self = Self(12);
    /// From a server to a relay.
    pub const RELAY_REPLY: Self = Self(13);

    /// Whether servers alone say it. What stands for nothing yet may be anybody's, and is relayed (RFC 7283, section 3).
    #[must_use]
    pub const fn is_of_servers(self) -> bool {
        matches!(self, Self::ADVERTISE | Self::REPLY | Self::RECONFIGURE | Self::RELAY_REPLY)
    }

    /// Whether clients, or relays on their behalf, alone say it.
    #[must_use]
    pub const fn is_of_clients(self) -> bool {
        matches!(self.0, 1 | 3..=6 | 8 | 9 | 11 | 12)
    }

    /// The kind of a message whose options are well formed.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Malformed`] for options that are none.
    pub fn of(bytes: &[u8]) -> Result<Self, Error> {
        let (head, options) = split::<HEAD>(bytes)?;
        let kind = Self(head[0]);
        match kind {
            Self::RELAY_FORWARD | Self::RELAY_REPLY => View::new(bytes).map(drop)?,
            _ => Choices::new(options).map(drop)?,
        }
        Ok(kind)
    }
}

/// A message between relays and servers, whose options are well formed.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    head: &'a [u8; Header::BYTES],
    options: Choices<'a>,
}

impl<'a> View<'a> {
    /// The message that a datagram, or an option of another, carries.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unknown`] for what is none between relays and servers; [`Error::Malformed`] for options that are none.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, options) = split::<{ Header::BYTES }>(bytes)?;
        match Kind(head[0]) {
            Kind::RELAY_FORWARD | Kind::RELAY_REPLY => Ok(Self { head, options: Choices::new(options)? }),
            Kind(got) => Err(Error::Unknown { what: "message of a relay of DHCP", got: got.into() }),
        }
    }

    /// Its fixed part.
    #[must_use]
    pub fn header(&self) -> Header {
        let head = self.head;
        Header { kind: Kind(head[0]), hops: head[1], link: v6_at::<2, _>(head), peer: v6_at::<18, _>(head) }
    }

    /// Its options, in their order.
    #[must_use]
    pub const fn options(&self) -> Choices<'a> {
        self.options
    }

    /// What its first option of that code says.
    #[must_use]
    pub fn option(&self, code: u16) -> Option<&'a [u8]> {
        self.options().find(|option| option.code == code).map(|option| option.data)
    }
}

/// The fixed part of a message between relays and servers (section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// [`Kind::RELAY_FORWARD`] or [`Kind::RELAY_REPLY`].
    pub kind: Kind,
    /// Relays that it has passed before this one.
    pub hops: u8,
    /// An address by which the server knows the client's link; unspecified where another relay has named it.
    pub link: Ipv6Addr,
    /// The client or the relay that the message within is from, or for.
    pub peer: Ipv6Addr,
}

impl Header {
    /// Bytes of it.
    pub const BYTES: usize = 34;

    /// Writes the message with these options.
    ///
    /// # Errors
    /// [`Error::Oversized`] for an option that is too long; [`Error::NoRoom`]. What was written then is no message.
    pub fn emit<'o>(&self, options: impl IntoIterator<Item = Choice<'o>>, to: &mut Writer<'_>) -> Result<(), Error> {
        let mut head = [0; Self::BYTES];
        set::<0, 2, _>(&mut head, [self.kind.0, self.hops]);
        set::<2, 16, _>(&mut head, self.link.octets());
        set::<18, 16, _>(&mut head, self.peer.octets());
        to.put(&head)?;
        options.into_iter().try_for_each(|option| option.emit(to))
    }
}

/// An option (section 21.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Choice<'a> {
    /// What it is.
    pub code: u16,
    /// What it says: at most 65,535 bytes.
    pub data: &'a [u8],
}

impl Choice<'_> {
    /// Bytes in front of what it says.
    pub const HEAD: usize = 4;

    fn emit(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        to.put(&self.code.to_be_bytes())?;
        to.put(&length_u16(self.data.len())?.to_be_bytes())?;
        to.put(self.data)
    }
}

/// Options that are well formed.
#[derive(Clone, Copy, Debug)]
pub struct Choices<'a> {
    rest: &'a [u8],
}

impl<'a> Choices<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut walk = Self { rest: bytes };
        while walk.next().is_some() {}
        match walk.rest {
            [] => Ok(Self { rest: bytes }),
            _ => Err(Error::Malformed { what: "list of options of a DHCPv6 message" }),
        }
    }
}

impl<'a> Iterator for Choices<'a> {
    type Item = Choice<'a>;

    fn next(&mut self) -> Option<Choice<'a>> {
        let (head, behind) = split::<{ Choice::HEAD }>(self.rest).ok()?;
        let (data, rest) = behind.split_at_checked(u16_at::<2, _>(head).into())?;
        self.rest = rest;
        Some(Choice { code: u16_at::<0, _>(head), data })
    }
}
