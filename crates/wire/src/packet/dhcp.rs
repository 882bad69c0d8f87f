//! Messages of DHCP for IPv4 (RFC 2131), with their options (RFC 2132) and what a relay agent adds (RFC 3046).
//!
//! Options that a message has put into its fields for names (option 52) are not looked at: they are part of [`Header::names`].

use super::bytes::{field, set, split, u16_at, u32_at, v4_at};
use crate::Error;
use crate::xdr::Writer;
use std::net::Ipv4Addr;

/// The ports of servers and relays, and of clients.
pub const SERVER_PORT: u16 = 67;
/// See there.
pub const CLIENT_PORT: u16 = 68;
/// Bytes of the shortest message that is sent: some read no shorter (RFC 1542, section 2.1).
pub const BYTES_MIN: usize = 300;
/// The code of the option that a relay adds (RFC 3046, section 2), and within it of that which names the circuit (section 3.1).
pub const RELAY_INFORMATION: u8 = 82;
/// See there.
pub const CIRCUIT: u8 = 1;
/// The flag of a client that hears broadcasts alone, until it has an address (RFC 2131, section 2).
pub const BROADCAST: u16 = 1 << 15;
/// Hardware addresses of Ethernet, and their bytes.
pub const ETHERNET: (u8, u8) = (1, 6);

/// What announces options (RFC 2131, section 3).
const COOKIE: [u8; 4] = [99, 130, 83, 99];
const FILL: u8 = 0;
const END: u8 = 255;
const HARDWARE_BYTES_MAX: u8 = 16;
/// Bytes of a server's name and of a file's.
const NAMES_BYTES: usize = 192;

/// A message whose options are well formed, up to their end.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    head: &'a [u8; Header::BYTES],
    /// Without their end, and what follows it.
    options: &'a [u8],
}

impl<'a> View<'a> {
    /// The message that a datagram carries.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unknown`] for what is neither asked nor answered; [`Error::Malformed`] for a hardware address that does not fit, for options that are none,
    /// without their end, or not announced, as in messages of BOOTP alone.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, behind) = split::<{ Header::BYTES }>(bytes)?;
        Operation::of(head[0])?;
        if head[2] > HARDWARE_BYTES_MAX {
            return Err(Error::Malformed { what: "hardware address of a DHCP message" });
        }
        if field::<236, 4, _>(head) != COOKIE {
            return Err(Error::Malformed { what: "cookie of a DHCP message" });
        }
        let mut walk = Choices { rest: behind };
        while walk.next().is_some() {}
        match walk.rest.first() {
            Some(&END) => Ok(Self { head, options: &behind[..behind.len() - walk.rest.len()] }),
            _ => Err(Error::Malformed { what: "list of options of a DHCP message" }),
        }
    }

    /// Its fixed part.
    #[must_use]
    pub fn header(&self) -> Header {
        let head = self.head;
        Header {
            // What is neither was refused when the view was made.
            operation: if head[0] == Operation::Reply as u8 { Operation::Reply } else { Operation::Request },
            hardware: head[1],
            hardware_bytes: head[2],
            hops: head[3],
            transaction: u32_at::<4, _>(head),
            seconds: u16_at::<8, _>(head),
            flags: u16_at::<10, _>(head),
            client: v4_at::<12, _>(head),
            yours: v4_at::<16, _>(head),
            server: v4_at::<20, _>(head),
            relay: v4_at::<24, _>(head),
            hardware_address: field::<28, 16, _>(head),
            names: field::<44, NAMES_BYTES, _>(head),
        }
    }

    /// Its options, in their order.
    #[must_use]
    pub const fn options(&self) -> Choices<'a> {
        Choices { rest: self.options }
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// From a client (BOOTREQUEST).
    Request = 1,
    /// From a server (BOOTREPLY).
    Reply = 2,
}

impl Operation {
    fn of(number: u8) -> Result<Self, Error> {
        match number {
            1 => Ok(Self::Request),
            2 => Ok(Self::Reply),
            got => Err(Error::Unknown { what: "operation of DHCP", got: got.into() }),
        }
    }
}

/// The fixed part of a message. Addresses are unspecified where it says none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Who speaks.
    pub operation: Operation,
    /// The kind of the client's hardware address ([`ETHERNET`]).
    pub hardware: u8,
    /// Bytes of it: at most 16.
    pub hardware_bytes: u8,
    /// Relays that it has passed.
    pub hops: u8,
    /// The client's number of it.
    pub transaction: u32,
    /// For how many seconds the client has asked.
    pub seconds: u16,
    /// [`BROADCAST`], and bits that stand for nothing yet.
    pub flags: u16,
    /// The address that the client has (ciaddr).
    pub client: Ipv4Addr,
    /// The address that the client gets (yiaddr).
    pub yours: Ipv4Addr,
    /// The server of what the client does next (siaddr).
    pub server: Ipv4Addr,
    /// The relay by which it came (giaddr).
    pub relay: Ipv4Addr,
    /// The client's hardware address, with zeros behind it (chaddr).
    pub hardware_address: [u8; 16],
    /// The server's name and that of a file, of 64 and 128 bytes.
    pub names: [u8; NAMES_BYTES],
}

impl Header {
    /// Bytes of the fixed part, with what announces the options.
    pub const BYTES: usize = 240;

    fn bytes(&self) -> Result<[u8; Self::BYTES], Error> {
        if self.hardware_bytes > HARDWARE_BYTES_MAX {
            return Err(Error::Oversized { limit: HARDWARE_BYTES_MAX.into(), got: self.hardware_bytes.into() });
        }
        let mut head = [0; Self::BYTES];
        set::<0, 4, _>(&mut head, [self.operation as u8, self.hardware, self.hardware_bytes, self.hops]);
        set::<4, 4, _>(&mut head, self.transaction.to_be_bytes());
        set::<8, 2, _>(&mut head, self.seconds.to_be_bytes());
        set::<10, 2, _>(&mut head, self.flags.to_be_bytes());
        set::<12, 4, _>(&mut head, self.client.octets());
        set::<16, 4, _>(&mut head, self.yours.octets());
        set::<20, 4, _>(&mut head, self.server.octets());
        set::<24, 4, _>(&mut head, self.relay.octets());
        set::<28, 16, _>(&mut head, self.hardware_address);
        set::<44, NAMES_BYTES, _>(&mut head, self.names);
        set::<236, 4, _>(&mut head, COOKIE);
        Ok(head)
    }

    /// Writes the message with these options, its end, and zeros up to [`BYTES_MIN`].
    ///
    /// # Errors
    /// [`Error::Oversized`] for a hardware address or an option that is too long; [`Error::Unknown`] for an option with a code that stands for none; [`Error::NoRoom`]. What was
    /// written then is no message.
    pub fn emit<'o>(&self, options: impl IntoIterator<Item = Choice<'o>>, to: &mut Writer<'_>) -> Result<(), Error> {
        let start = to.len();
        to.put(&self.bytes()?)?;
        options.into_iter().try_for_each(|option| option.emit(to))?;
        to.put(&[END])?;
        let missing = BYTES_MIN.saturating_sub(to.len() - start);
        to.put(&[FILL; BYTES_MIN][..missing])
    }
}

/// An option, or one within the option of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Choice<'a> {
    /// What it is: 1 to 254.
    pub code: u8,
    /// What it says: at most 255 bytes. A longer one is several of one code (RFC 3396).
    pub data: &'a [u8],
}

impl<'a> Choice<'a> {
    /// Bytes that it takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        2 + self.data.len()
    }

    /// Writes it.
    ///
    /// # Errors
    /// [`Error::Oversized`], [`Error::Unknown`], [`Error::NoRoom`]: then nothing was written.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let limit = u8::MAX;
        let length = u8::try_from(self.data.len()).map_err(|_| Error::Oversized { limit: limit.into(), got: self.data.len() })?;
        if matches!(self.code, FILL | END) {
            return Err(Error::Unknown { what: "code of an option of DHCP", got: self.code.into() });
        }
        if to.room() < self.bytes() {
            return Err(Error::NoRoom { expected: self.bytes(), got: to.room() });
        }
        to.put(&[self.code, length])?;
        to.put(self.data)
    }

    /// What a relay's option has in it.
    ///
    /// # Errors
    /// [`Error::Malformed`] where it is no list of options (RFC 3046, section 2.0: there are neither fillings nor ends).
    pub fn within(&self) -> Result<impl Iterator<Item = Choice<'a>> + use<'a>, Error> {
        let mut rest = self.data;
        while !rest.is_empty() {
            rest = one(rest).ok_or(Error::Malformed { what: "option of a relay" })?.1;
        }
        let mut rest = self.data;
        Ok(std::iter::from_fn(move || {
            let (choice, behind) = one(rest)?;
            rest = behind;
            Some(choice)
        }))
    }
}

/// Options, until their end or what is none. Fillings are not handed out.
#[derive(Clone, Copy, Debug)]
pub struct Choices<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Choices<'a> {
    type Item = Choice<'a>;

    fn next(&mut self) -> Option<Choice<'a>> {
        let filled = self.rest.iter().take_while(|&&code| code == FILL).count();
        self.rest = &self.rest[filled..];
        let (choice, rest) = one(self.rest).filter(|(choice, _)| choice.code != END)?;
        self.rest = rest;
        Some(choice)
    }
}

/// The option at the front, whatever its code, and what lies behind it.
fn one(bytes: &[u8]) -> Option<(Choice<'_>, &[u8])> {
    let (&[code, length], behind) = bytes.split_first_chunk::<2>()?;
    let (data, rest) = behind.split_at_checked(length.into())?;
    Some((Choice { code, data }, rest))
}
