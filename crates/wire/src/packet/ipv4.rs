//! IPv4 (RFC 791).

use super::bytes::{set, split, split_at, split_front, u16_at, v4_at};
use super::checksum::{Addresses, Sum};
use super::options::{OPTIONS_BYTES_MAX, OptionViews, Options};
use super::protocol::IpProtocol;
use super::traffic::Traffic;
use crate::Error;
use crate::xdr::Writer;
use std::net::Ipv4Addr;

const VERSION: u8 = 4;
const DO_NOT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// A packet whose lengths are checked: what is not the packet's is cut off.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    head: &'a [u8; Header::BYTES],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// The packet at the front of `bytes`; padding may be behind it. Whether its checksum is right is a question of its own.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unknown`] for another version; [`Error::Malformed`] where a length contradicts itself.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        Self::of_front(bytes, 0)
    }

    /// The same, of which up to `missing` bytes more lie elsewhere: what is here of it, the whole header among that.
    ///
    /// # Errors
    /// As [`View::new`].
    pub fn of_front(bytes: &'a [u8], missing: usize) -> Result<Self, Error> {
        let (head, _) = split::<{ Header::BYTES }>(bytes)?;
        if head[0] >> 4 != VERSION {
            return Err(Error::Unknown { what: "version of IP", got: (head[0] >> 4).into() });
        }
        let (length, total) = (usize::from(head[0] & 0xf) * 4, usize::from(u16_at::<2, _>(head)));
        if length < Header::BYTES || total < length {
            return Err(Error::Malformed { what: "length of an IPv4 packet" });
        }
        let (bytes, _) = split_front(bytes, total, missing)?;
        let (whole_head, payload) = split_at(bytes, length)?;
        let (_, options) = split_at(whole_head, Header::BYTES)?;
        Ok(Self { bytes, head, options, payload })
    }

    /// The whole packet, as it lies.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of the whole packet, as its header says.
    #[must_use]
    pub fn length(&self) -> usize {
        u16_at::<2, _>(self.head) as usize
    }

    /// Bytes of the header with its options.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        Header::BYTES + self.options.len()
    }

    /// Who sends and who is meant.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses::V4 { source: v4_at::<12, _>(self.head), destination: v4_at::<16, _>(self.head) }
    }

    /// What follows the header.
    #[must_use]
    pub const fn protocol(&self) -> IpProtocol {
        IpProtocol(self.head[9])
    }

    /// How it is to be treated.
    #[must_use]
    pub const fn traffic(&self) -> Traffic {
        Traffic(self.head[1])
    }

    /// Whether it may be cut, and which part of a packet it is.
    #[must_use]
    pub fn fragment(&self) -> Fragment {
        let field = u16_at::<6, _>(self.head);
        let offset = Offset(field & OFFSET);
        Fragment { offset, more: field & MORE_FRAGMENTS != 0, keep_whole: field & DO_NOT_FRAGMENT != 0 }
    }

    /// Which packet a fragment is of.
    #[must_use]
    pub fn identification(&self) -> u16 {
        u16_at::<4, _>(self.head)
    }

    /// Whether the header's checksum is right.
    #[must_use]
    pub fn is_checksum_right(&self) -> bool {
        Sum::of(self.head).and(self.options).is_right()
    }

    /// The options, one by one.
    #[must_use]
    pub const fn options(&self) -> OptionViews<'a> {
        OptionViews::new(self.options)
    }

    /// What the packet carries.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Its header. The bit that is reserved is not kept.
    ///
    /// # Errors
    /// [`Error::Malformed`] where the options are no list.
    pub fn header(&self) -> Result<Header, Error> {
        Ok(Header {
            traffic: self.traffic(),
            identification: self.identification(),
            fragment: self.fragment(),
            hops: self.head[8],
            protocol: self.protocol(),
            source: v4_at::<12, _>(self.head),
            destination: v4_at::<16, _>(self.head),
            options: Options::parse(self.options)?,
        })
    }
}

/// Where a fragment begins within its packet: a multiple of eight bytes below 65,536.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Offset(u16);

impl Offset {
    /// The beginning.
    pub const START: Self = Self(0);

    /// The offset of so many bytes.
    ///
    /// # Errors
    /// [`Error::Malformed`] for what is no multiple of eight; [`Error::Oversized`] beyond 65,528.
    pub fn new(bytes: usize) -> Result<Self, Error> {
        let units = u16::try_from(bytes / 8).ok().filter(|units| *units <= OFFSET);
        let units = units.ok_or(Error::Oversized { limit: u32::from(OFFSET) * 8, got: bytes })?;
        if bytes.is_multiple_of(8) { Ok(Self(units)) } else { Err(Error::Malformed { what: "offset of a fragment" }) }
    }

    /// In bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0 as usize * 8
    }

    /// The offset of `units` of eight bytes, of which the lower 13 bits count.
    pub(super) const fn of_units(units: u16) -> Self {
        Self(units & OFFSET)
    }

    /// In units of eight bytes.
    pub(super) const fn units(self) -> u16 {
        self.0
    }
}

/// Which part of a packet this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fragment {
    /// Where it begins.
    pub offset: Offset,
    /// Whether others follow.
    pub more: bool,
    /// Whether no router may cut it.
    pub keep_whole: bool,
}

impl Fragment {
    /// Whether it is one, and not a whole packet.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.more || self.offset != Offset::START
    }

    const fn field(self) -> u16 {
        let more = if self.more { MORE_FRAGMENTS } else { 0 };
        let keep = if self.keep_whole { DO_NOT_FRAGMENT } else { 0 };
        self.offset.0 | more | keep
    }
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// How it is to be treated.
    pub traffic: Traffic,
    /// Which packet a fragment is of.
    pub identification: u16,
    /// Which part it is.
    pub fragment: Fragment,
    /// Routers that may still pass it on (time to live).
    pub hops: u8,
    /// What follows.
    pub protocol: IpProtocol,
    /// Who sends.
    pub source: Ipv4Addr,
    /// Who is meant.
    pub destination: Ipv4Addr,
    /// Its options.
    pub options: Options,
}

impl Header {
    /// Bytes of a header without options.
    pub const BYTES: usize = 20;

    /// Who sends and who is meant.
    #[must_use]
    pub const fn addresses(&self) -> Addresses {
        Addresses::V4 { source: self.source, destination: self.destination }
    }

    /// Writes the header of a packet with so many bytes of `payload`, its checksum computed.
    ///
    /// # Errors
    /// [`Error::Oversized`] where packet or reassembled packet has more than 65,535 bytes; [`Error::Malformed`] for a fragment that others follow,
    /// and whose payload is no multiple of eight bytes; [`Error::NoRoom`]. Nothing was written then.
    pub fn emit(&self, payload: usize, to: &mut Writer<'_>) -> Result<(), Error> {
        let options = self.options.bytes();
        let length = Self::BYTES + options.len();
        let end = (self.fragment.offset.bytes() + length).saturating_add(payload);
        if end > u16::MAX.into() {
            return Err(Error::Oversized { limit: u16::MAX.into(), got: end });
        }
        if self.fragment.more && (payload == 0 || !payload.is_multiple_of(8)) {
            return Err(Error::Malformed { what: "length of a fragment" });
        }
        let mut head = [0; Self::BYTES];
        head[0] = VERSION << 4 | (length / 4) as u8;
        head[1] = self.traffic.0;
        set::<2, 2, _>(&mut head, ((length + payload) as u16).to_be_bytes());
        set::<4, 2, _>(&mut head, self.identification.to_be_bytes());
        set::<6, 2, _>(&mut head, self.fragment.field().to_be_bytes());
        (head[8], head[9]) = (self.hops, self.protocol.0);
        set::<12, 4, _>(&mut head, self.source.octets());
        set::<16, 4, _>(&mut head, self.destination.octets());
        let checksum = Sum::of(&head).and(options).checksum();
        set::<10, 2, _>(&mut head, checksum.to_be_bytes());
        let mut whole = [0; Self::BYTES + OPTIONS_BYTES_MAX];
        whole[..Self::BYTES].copy_from_slice(&head);
        whole[Self::BYTES..length].copy_from_slice(options);
        to.put(&whole[..length])
    }
}
