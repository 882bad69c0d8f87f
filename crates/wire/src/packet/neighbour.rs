//! Neighbour discovery (RFC 4861), as ICMPv6 carries it. Whoever acts on a message checks first that its packet came with 255 hops.

use super::bytes::{field, split, u16_at, u32_at, v6_at};
use super::ethernet::Mac;
use crate::Error;
use crate::xdr::Writer;
use std::net::Ipv6Addr;

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

const SOURCE: u8 = 1;
const TARGET: u8 = 2;
const PREFIX: u8 = 3;
const REDIRECTED: u8 = 4;
const MOST: u8 = 5;

/// Bits of an advertisement.
const IS_ROUTER: u32 = 1 << 31;
const IS_SOLICITED: u32 = 1 << 30;
const REPLACES: u32 = 1 << 29;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Routers, say that you are there.
    RouterSolicitation {
        /// What else it says.
        options: Options<'a>,
    },
    /// A router is here.
    RouterAdvertisement(Router, Options<'a>),
    /// Who has `target`, or is it still there?
    Solicitation {
        /// The address.
        target: Ipv6Addr,
        /// What else it says.
        options: Options<'a>,
    },
    /// Its sender has `target`.
    Advertisement {
        /// The address.
        target: Ipv6Addr,
        /// About the answer.
        flags: AdvertisementFlags,
        /// What else it says.
        options: Options<'a>,
    },
    /// Another router, or the destination itself, is nearer.
    Redirect {
        /// Which.
        target: Ipv6Addr,
        /// For what destination.
        destination: Ipv6Addr,
        /// What else it says.
        options: Options<'a>,
    },
}

/// What an advertisement says beside the address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AdvertisementFlags {
    /// The sender is a router.
    pub is_router: bool,
    /// It was asked.
    pub is_solicited: bool,
    /// What is known of the address is replaced.
    pub replaces: bool,
}

/// What a router says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Router {
    /// Hops that packets are to start with; 0 where it does not say.
    pub hops: u8,
    /// Addresses are managed (DHCPv6).
    pub is_managed: bool,
    /// Other things are.
    pub has_others: bool,
    /// How long it may be used, in seconds; 0 if it is no router for all destinations.
    pub lifetime: u16,
    /// How long a neighbour counts as there, in milliseconds; 0 where it does not say.
    pub reachable: u32,
    /// How long to wait between solicitations, in milliseconds; 0 where it does not say.
    pub again: u32,
}

impl<'a> Message<'a> {
    /// Whether ICMPv6 messages of type `kind` are of neighbour discovery.
    pub(super) const fn is_kind(kind: u8) -> bool {
        matches!(kind, ROUTER_SOLICITATION..=REDIRECT)
    }

    /// Reads what is behind the checksum of a message of type `kind`.
    pub(super) fn parse(kind: u8, body: &'a [u8]) -> Result<Self, Error> {
        let with_target = || -> Result<(&[u8; 20], Options<'a>), Error> {
            let (head, options) = split::<20>(body)?;
            Ok((head, Options::new(options)?))
        };
        match kind {
            ROUTER_SOLICITATION => Ok(Self::RouterSolicitation { options: Options::new(split::<4>(body)?.1)? }),
            ROUTER_ADVERTISEMENT => {
                let (head, options) = split::<12>(body)?;
                Ok(Self::RouterAdvertisement(Router::read(head), Options::new(options)?))
            }
            SOLICITATION => with_target().map(|(head, options)| Self::Solicitation { target: v6_at::<4, _>(head), options }),
            ADVERTISEMENT => with_target().map(|(head, options)| {
                let bits = u32_at::<0, _>(head);
                let flags = AdvertisementFlags {
                    is_router: bits & IS_ROUTER != 0,
                    is_solicited: bits & IS_SOLICITED != 0,
                    replaces: bits & REPLACES != 0,
                };
                Self::Advertisement { target: v6_at::<4, _>(head), flags, options }
            }),
            REDIRECT => {
                let (head, options) = split::<36>(body)?;
                let (target, destination) = (v6_at::<4, _>(head), v6_at::<20, _>(head));
                Ok(Self::Redirect { target, destination, options: Options::new(options)? })
            }
            got => Err(Error::Unknown { what: "type of neighbour discovery", got: got.into() }),
        }
    }

    /// Its type.
    pub(super) const fn kind(&self) -> u8 {
        match self {
            Self::RouterSolicitation { .. } => ROUTER_SOLICITATION,
            Self::RouterAdvertisement(..) => ROUTER_ADVERTISEMENT,
            Self::Solicitation { .. } => SOLICITATION,
            Self::Advertisement { .. } => ADVERTISEMENT,
            Self::Redirect { .. } => REDIRECT,
        }
    }

    /// What stands between its checksum and its options.
    pub(super) fn body(&self) -> Body {
        match self {
            Self::RouterSolicitation { .. } => Body::of(&[&[0; 4]]),
            Self::RouterAdvertisement(router, _) => router.body(),
            Self::Solicitation { target, .. } => Body::of(&[&[0; 4], &target.octets()]),
            Self::Advertisement { target, flags, .. } => {
                let bit = |is_set, bit| if is_set { bit } else { 0 };
                let bits =
                    bit(flags.is_router, IS_ROUTER) | bit(flags.is_solicited, IS_SOLICITED) | bit(flags.replaces, REPLACES);
                Body::of(&[&bits.to_be_bytes(), &target.octets()])
            }
            Self::Redirect { target, destination, .. } => Body::of(&[&[0; 4], &target.octets(), &destination.octets()]),
        }
    }

    /// Its options.
    #[must_use]
    pub const fn options(&self) -> Options<'a> {
        match self {
            Self::RouterSolicitation { options }
            | Self::RouterAdvertisement(_, options)
            | Self::Solicitation { options, .. }
            | Self::Advertisement { options, .. }
            | Self::Redirect { options, .. } => *options,
        }
    }
}

impl Router {
    fn read(head: &[u8; 12]) -> Self {
        Self {
            hops: head[0],
            is_managed: head[1] & 0x80 != 0,
            has_others: head[1] & 0x40 != 0,
            lifetime: u16_at::<2, _>(head),
            reachable: u32_at::<4, _>(head),
            again: u32_at::<8, _>(head),
        }
    }

    fn body(&self) -> Body {
        let flags = u8::from(self.is_managed) << 7 | u8::from(self.has_others) << 6;
        let front = [self.hops, flags];
        Body::of(&[&front, &self.lifetime.to_be_bytes(), &self.reachable.to_be_bytes(), &self.again.to_be_bytes()])
    }
}

/// The fixed part of a message behind its checksum.
pub(super) struct Body {
    bytes: [u8; 36],
    length: usize,
}

impl Body {
    /// These parts, one behind the other.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut body = Self { bytes: [0; 36], length: 0 };
        for part in parts {
            let end = body.length + part.len();
            assert!(end <= body.bytes.len(), "no message has a longer fixed part than a redirection");
            body.bytes[body.length..end].copy_from_slice(part);
            body.length = end;
        }
        body
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A list of options, well formed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// The list in `bytes`.
    ///
    /// # Errors
    /// [`Error::Malformed`] where one ends behind them or has no length.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = rest.get(1).map_or(0, |&units| usize::from(units) * 8);
            let behind = rest.get(length..).filter(|_| length > 0);
            rest = behind.ok_or(Error::Malformed { what: "list of options of neighbour discovery" })?;
        }
        Ok(Self(bytes))
    }

    /// As they lie.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// One by one.
    pub fn iter(&self) -> impl Iterator<Item = Choice<'a>> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (&[kind, units], _) = split::<2>(rest).ok()?;
            let (option, behind) = rest.split_at_checked(usize::from(units) * 8)?;
            rest = behind;
            Some(Choice::of(kind, option.get(2..)?))
        })
    }
}

/// What an option says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// Link address of who sends.
    Source(Mac),
    /// Link address of the target.
    Target(Mac),
    /// Addresses that are on the link, or that may be made up.
    Prefix(Prefix),
    /// The beginning of the packet that was redirected.
    Redirected(&'a [u8]),
    /// The longest packet on the link, in bytes.
    Most(u32),
    /// Another option, or one of the wrong length: its kind, and what is behind its length.
    Other(u8, &'a [u8]),
}

/// A prefix of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// Bits of the prefix that count: 0 to 128, and no more.
    pub bits: u8,
    /// Its addresses are on this link.
    pub is_on_link: bool,
    /// Addresses of it may be made up (RFC 4862).
    pub is_autonomous: bool,
    /// How long that holds, in seconds.
    pub valid: u32,
    /// How long such addresses are to be preferred, in seconds.
    pub preferred: u32,
    /// The prefix.
    pub prefix: Ipv6Addr,
}

impl<'a> Choice<'a> {
    fn of(kind: u8, data: &'a [u8]) -> Self {
        let mac = || <[u8; 6]>::try_from(data).map(Mac).ok();
        let read = match kind {
            SOURCE => mac().map(Self::Source),
            TARGET => mac().map(Self::Target),
            PREFIX => <&[u8; 30]>::try_from(data).ok().and_then(Prefix::read).map(Self::Prefix),
            REDIRECTED => data.get(6..).map(Self::Redirected),
            MOST => <&[u8; 6]>::try_from(data).ok().map(|data| Self::Most(u32_at::<2, _>(data))),
            _ => None,
        };
        read.unwrap_or(Self::Other(kind, data))
    }

    /// Writes it, filled with zeros to a multiple of eight bytes.
    ///
    /// # Errors
    /// [`Error::Oversized`] for more than 2,040 bytes; [`Error::NoRoom`]. Nothing was written then.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        let put = |to: &mut Writer<'_>, kind, parts: &[&[u8]]| put(kind, parts, to);
        match self {
            Self::Source(mac) => put(to, SOURCE, &[&mac.0]),
            Self::Target(mac) => put(to, TARGET, &[&mac.0]),
            Self::Prefix(prefix) => {
                let flags = u8::from(prefix.is_on_link) << 7 | u8::from(prefix.is_autonomous) << 6;
                let (valid, preferred) = (prefix.valid.to_be_bytes(), prefix.preferred.to_be_bytes());
                put(to, PREFIX, &[&[prefix.bits, flags], &valid, &preferred, &[0; 4], &prefix.prefix.octets()])
            }
            Self::Redirected(packet) => put(to, REDIRECTED, &[&[0; 6], packet]),
            Self::Most(bytes) => put(to, MOST, &[&[0; 2], &bytes.to_be_bytes()]),
            Self::Other(kind, data) => put(to, *kind, &[data]),
        }
    }
}

impl Prefix {
    fn read(data: &[u8; 30]) -> Option<Self> {
        let prefix = Self {
            bits: data[0],
            is_on_link: data[1] & 0x80 != 0,
            is_autonomous: data[1] & 0x40 != 0,
            valid: u32_at::<2, _>(data),
            preferred: u32_at::<6, _>(data),
            prefix: field::<14, 16, _>(data).into(),
        };
        (prefix.bits <= 128).then_some(prefix)
    }
}

fn put(kind: u8, parts: &[&[u8]], to: &mut Writer<'_>) -> Result<(), Error> {
    let bytes = 2 + parts.iter().map(|part| part.len()).sum::<usize>();
    let filled = bytes.next_multiple_of(8);
    let units = u8::try_from(filled / 8).map_err(|_| Error::Oversized { limit: 8 * u32::from(u8::MAX), got: bytes })?;
    if to.room() < filled {
        return Err(Error::NoRoom { expected: filled, got: to.room() });
    }
    to.put(&[kind, units])?;
    parts.iter().try_for_each(|part| to.put(part))?;
    to.put(&[0; 7][..filled - bytes])
}
