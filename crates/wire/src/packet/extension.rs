//! The extension headers of IPv6 (RFC 8200, section 4) but the fragment header, and the walk through them.

use super::bytes::{split, split_at};
use super::fragment::{self, Header as FragmentHeader};
use super::ipv4::Offset;
use super::protocol::IpProtocol;
use crate::Error;
use crate::xdr::Writer;

/// Extension headers that are walked at most. RFC 8200, section 4.1 has six kinds, and one of them twice.
pub const EXTENSIONS_MAX: usize = 8;

/// Bytes of the longest extension header.
pub const EXTENSION_BYTES_MAX: usize = 2048;

const PAD_ONE: u8 = 0;
const PAD_MANY: u8 = 1;

/// What kind of extension header it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Options that every router reads.
    HopByHop,
    /// Routers on the way.
    Routing,
    /// Options for the destination.
    Destination,
    /// Authentication.
    Authentication,
}

impl Kind {
    /// The number that announces it.
    #[must_use]
    pub const fn protocol(self) -> IpProtocol {
        match self {
            Self::HopByHop => IpProtocol::HOP_BY_HOP,
            Self::Routing => IpProtocol::ROUTING,
            Self::Destination => IpProtocol::DESTINATION,
            Self::Authentication => IpProtocol::AUTHENTICATION,
        }
    }

    const fn of(protocol: IpProtocol) -> Option<Self> {
        match protocol {
            IpProtocol::HOP_BY_HOP => Some(Self::HopByHop),
            IpProtocol::ROUTING => Some(Self::Routing),
            IpProtocol::DESTINATION => Some(Self::Destination),
            IpProtocol::AUTHENTICATION => Some(Self::Authentication),
            _ => None,
        }
    }

    /// Whether what it holds is a list of options.
    const fn has_options(self) -> bool {
        matches!(self, Self::HopByHop | Self::Destination)
    }

    /// Bytes that the length field counts by: that of authentication counts in fours (RFC 4302, section 2.2).
    const fn unit(self) -> usize {
        if matches!(self, Self::Authentication) { 4 } else { 8 }
    }

    /// Bytes of a header whose length field is `units`: the first eight do not count.
    const fn length(self, units: u8) -> usize {
        self.unit() * units as usize + 8
    }

    /// Bytes of the shortest: authentication has a number and a place in a sequence behind its length field (RFC 4302, section 2).
    const fn least(self) -> usize {
        if matches!(self, Self::Authentication) { 12 } else { 8 }
    }

    /// The length field of a header of so many bytes, if there can be one.
    fn units(self, length: usize) -> Option<u8> {
        let counted =
            length.checked_sub(8).filter(|_| length >= self.least()).filter(|counted| counted.is_multiple_of(self.unit()))?;
        u8::try_from(counted / self.unit()).ok()
    }
}

/// An extension header: it ends where one may, and its options, if it has any, are well formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    kind: Kind,
    next: IpProtocol,
    data: &'a [u8],
}

impl<'a> Extension<'a> {
    /// The header of that kind in front of `next`; `data` is all behind its length field.
    ///
    /// # Errors
    /// [`Error::Malformed`] where no length field says so, or the options are no list; a routing header has its type and what is left at least.
    pub fn new(kind: Kind, next: IpProtocol, data: &'a [u8]) -> Result<Self, Error> {
        kind.units(data.len() + 2).ok_or(Error::Malformed { what: "length of an extension header" })?;
        if kind.has_options() {
            ExtensionOptions::new(data).try_for_each(|option| option.map(drop))?;
        }
        Ok(Self { kind, next, data })
    }

    /// The header of that kind at the front of `bytes`, and what follows it.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Malformed`] where its options are no list.
    pub fn parse(kind: Kind, bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Error> {
        let (&[next, units], _) = split::<2>(bytes)?;
        let (header, rest) = split_at(bytes, kind.length(units))?;
        let (_, data) = split_at(header, 2)?;
        Ok((Self::new(kind, IpProtocol(next), data)?, rest))
    }

    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// What follows.
    #[must_use]
    pub const fn next(&self) -> IpProtocol {
        self.next
    }

    /// All behind its length field.
    #[must_use]
    pub const fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Its bytes.
    #[must_use]
    pub const fn header_bytes(&self) -> usize {
        2 + self.data.len()
    }

    /// Its options; none for a kind that has no options.
    #[must_use]
    pub const fn options(&self) -> ExtensionOptions<'a> {
        ExtensionOptions::new(if self.kind.has_options() { self.data } else { &[] })
    }

    /// What forbids a destination to pass over it that knows no routing and no options but paddings; `at` counts from its first byte.
    #[must_use]
    pub fn unrecognized(&self) -> Option<Unrecognized> {
        match (self.kind, self.data) {
            (Kind::Routing, &[_, left, ..]) if left > 0 => Some(Unrecognized { at: 2, code: 0, is_told: true }),
            _ => self.unrecognized_option(),
        }
    }

    fn unrecognized_option(&self) -> Option<Unrecognized> {
        let mut options = self.options();
        while let Some(option) = options.next() {
            let option = option.ok().filter(|option| option.kind >> 6 > 0);
            if let Some(option) = option {
                let at = self.header_bytes() - options.rest.len() - option.data.len() - 2;
                return Some(Unrecognized { at, code: 2, is_told: option.kind >> 6 > 1 });
            }
        }
        None
    }

    /// Writes it.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then nothing was written.
    pub fn emit(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        if to.room() < self.header_bytes() {
            return Err(Error::NoRoom { expected: self.header_bytes(), got: to.room() });
        }
        let units = self.kind.units(self.header_bytes());
        assert!(units.is_some(), "a header that exists has a length field");
        to.put(&[self.next.0, units.unwrap_or_default()])?;
        to.put(self.data)
    }
}

/// Why a packet is to be dropped by who does not know what an extension header of it asks for (RFC 8200, sections 4.2 and 4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecognized {
    /// Where that stands, in bytes: the type of a routing header with segments left, the kind of an option.
    pub at: usize,
    /// The code of the parameter problem (RFC 4443, section 3.4): 0 for a routing header, 2 for an option.
    pub code: u8,
    /// Its sender is told.
    pub is_told: bool,
}

/// One option: its kind, and what is behind its length field. Paddings are not handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtensionOption<'a> {
    /// Its kind. The two bits in front say what to do if it is not known (RFC 8200, section 4.2).
    pub kind: u8,
    /// What is behind kind and length.
    pub data: &'a [u8],
}

/// The options in some bytes, until they end or one is no option.
#[derive(Clone, Debug)]
pub struct ExtensionOptions<'a> {
    rest: &'a [u8],
}

impl<'a> ExtensionOptions<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn option(&mut self) -> Result<ExtensionOption<'a>, Error> {
        let malformed = Error::Malformed { what: "list of IPv6 options" };
        let (&[kind, length], behind) = split(self.rest).map_err(|_| malformed)?;
        let (data, rest) = split_at(behind, length.into()).map_err(|_| malformed)?;
        self.rest = rest;
        Ok(ExtensionOption { kind, data })
    }
}

impl<'a> Iterator for ExtensionOptions<'a> {
    type Item = Result<ExtensionOption<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match *self.rest.first()? {
                PAD_ONE => self.rest = &self.rest[1..],
                _ => match self.option() {
                    Ok(option) if option.kind == PAD_MANY => {}
                    Ok(option) => return Some(Ok(option)),
                    Err(error) => {
                        self.rest = &[];
                        return Some(Err(error));
                    }
                },
            }
        }
    }
}

/// Where a fragment header stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentPlace {
    /// The header.
    pub header: FragmentHeader,
    /// Where it begins, in bytes from the beginning of what was walked.
    pub at: usize,
    /// Where the number stands that announces it, counted likewise; none if that is in the packet's own header.
    pub announced_at: Option<usize>,
}

/// The end of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a> {
    /// What follows the last extension header.
    pub protocol: IpProtocol,
    /// That, as it lies.
    pub payload: &'a [u8],
    /// The fragment header, if there was one.
    pub fragment: Option<FragmentPlace>,
    /// How many extension headers there were.
    pub headers: usize,
    walked: usize,
    announced_at: Option<usize>,
    unrecognized: Option<Unrecognized>,
    has_route: bool,
}

impl<'a> Chain<'a> {
    /// Walks from a header of kind `next` at the front of `bytes` to the first that is no extension, or past the header of a fragment, behind
    /// which only the first fragment has headers. An atomic fragment (RFC 6946) is none.
    ///
    /// Where `bytes` do not follow the packet's own header, as the data of a fragment, no hop-by-hop options can be there.
    ///
    /// # Errors
    /// [`Error::Truncated`], also of a jumbogram, whose length field is 0; [`Error::Malformed`], also where hop-by-hop options are announced by
    /// any but the packet's own header (RFC 8200, section 4); [`Error::TooLong`] for more than [`EXTENSIONS_MAX`].
    pub fn walk(next: IpProtocol, bytes: &'a [u8]) -> Result<Self, Error> {
        let (protocol, payload) = (next, bytes);
        let (fragment, announced_at, unrecognized, has_route) = (None, None, None, false);
        let mut chain = Self { protocol, payload, fragment, headers: 0, walked: 0, announced_at, unrecognized, has_route };
        while chain.protocol.is_extension() && !chain.is_part() {
            if chain.headers == EXTENSIONS_MAX {
                let (limit, got) = (EXTENSIONS_MAX as u32, EXTENSIONS_MAX as u32 + 1);
                return Err(Error::TooLong { what: "chain of extension headers", limit, got });
            }
            chain = chain.step()?;
        }
        Ok(chain)
    }

    /// Whether it ended at a fragment header that is not atomic.
    #[must_use]
    pub fn is_part(&self) -> bool {
        self.fragment.is_some_and(|place| place.header.is_part())
    }

    /// Bytes of all headers that were walked past.
    #[must_use]
    pub const fn walked(&self) -> usize {
        self.walked
    }

    /// Where, behind the packet's own header, the field stands that names [`Chain::protocol`]; none if that is in the packet's own header. The pointer of
    /// an error on that protocol leads there (RFC 4443, section 3.4).
    #[must_use]
    pub const fn announced_at(&self) -> Option<usize> {
        self.announced_at
    }

    /// The first of its headers that may not be passed over, if there is one; `at` counts from the beginning of what was walked.
    #[must_use]
    pub const fn unrecognized(&self) -> Option<Unrecognized> {
        self.unrecognized
    }

    /// Whether one of its headers is a route of the sender's by any hosts (type 0), which goes on (RFC 5095).
    #[must_use]
    pub const fn has_route(&self) -> bool {
        self.has_route
    }

    fn step(self) -> Result<Self, Error> {
        let (mut fragment, mut unrecognized, mut has_route) = (self.fragment, self.unrecognized, self.has_route);
        let (next, rest) = match Kind::of(self.protocol) {
            Some(kind) => {
                let (header, rest) = Extension::parse(kind, self.payload)?;
                let of_header = || header.unrecognized().map(|found| Unrecognized { at: self.walked + found.at, ..found });
                unrecognized = unrecognized.or_else(of_header);
                has_route |= kind == Kind::Routing && matches!(header.data(), [0, left, ..] if *left > 0);
                (header.next(), rest)
            }
            None => {
                assert_eq!(self.protocol, IpProtocol::FRAGMENT, "each extension header but this has a kind");
                let view = fragment::View::new(self.payload)?;
                fragment = Some(FragmentPlace { header: view.header(), at: self.walked, announced_at: self.announced_at });
                (view.header().next, view.payload())
            }
        };
        // What the later fragments announce does not count (RFC 8200, section 4.5).
        let counts = fragment.is_none_or(|place| place.header.offset == Offset::START);
        if next == IpProtocol::HOP_BY_HOP && counts {
            return Err(Error::Malformed { what: "place of hop-by-hop options" });
        }
        let (headers, announced_at) = (self.headers + 1, Some(self.walked));
        let walked = self.walked + self.payload.len() - rest.len();
        Ok(Self { protocol: next, payload: rest, fragment, headers, walked, announced_at, unrecognized, has_route })
    }
}
