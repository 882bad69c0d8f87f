//! TCP (RFC 9293) and its usual options (RFC 7323, RFC 2018).

use super::bytes::{field, set, split, split_at, u16_at, u32_at};
use super::checksum::Addresses;
use super::options::{OPTIONS_BYTES_MAX, OptionView, OptionViews, Options};
use super::protocol::IpProtocol;
use crate::Error;
use crate::xdr::Writer;

/// The largest shift of a window (RFC 7323, section 2.3).
pub const WINDOW_SHIFT_MAX: u8 = 14;

const SEGMENT: u8 = 2;
const WINDOW: u8 = 3;
const MAY_ACKNOWLEDGE: u8 = 4;
const ACKNOWLEDGED: u8 = 5;
const TIMES: u8 = 8;

/// A segment whose lengths are checked.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    bytes: &'a [u8],
    head: &'a [u8; Header::BYTES],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> View<'a> {
    /// The segment in `bytes`, which are all that the packet carries.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Malformed`] where data are to begin within the header.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let (head, _) = split::<{ Header::BYTES }>(bytes)?;
        let length = usize::from(head[12] >> 4) * 4;
        if length < Header::BYTES {
            return Err(Error::Malformed { what: "length of a TCP header" });
        }
        let (whole_head, payload) = split_at(bytes, length)?;
        let (_, options) = split_at(whole_head, Header::BYTES)?;
        Ok(Self { bytes, head, options, payload })
    }

    /// The options, one by one.
    #[must_use]
    pub const fn options(&self) -> OptionViews<'a> {
        OptionViews::new(self.options)
    }

    /// What it carries.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Whether its checksum is right.
    #[must_use]
    pub fn is_checksum_right(&self, addresses: &Addresses) -> bool {
        addresses.pseudo(IpProtocol::TCP, self.bytes.len()).is_ok_and(|sum| sum.and(self.bytes).is_right())
    }

    /// Its header. The three bits that are reserved are not kept.
    ///
    /// # Errors
    /// [`Error::Malformed`] where the options are no list.
    pub fn header(&self) -> Result<Header, Error> {
        let head = self.head;
        Ok(Header {
            source: u16_at::<0, _>(head),
            destination: u16_at::<2, _>(head),
            sequence: u32_at::<4, _>(head),
            acknowledgement: u32_at::<8, _>(head),
            flags: Flags::of_bits(u16_at::<12, _>(head)),
            window: u16_at::<14, _>(head),
            urgent: u16_at::<18, _>(head),
            options: Options::parse(self.options)?,
        })
    }
}

/// Control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);
    /// The sender has finished.
    pub const FIN: Self = Self(1);
    /// Numbers begin here.
    pub const SYN: Self = Self(2);
    /// The connection is reset.
    pub const RST: Self = Self(4);
    /// Data are to be delivered at once.
    pub const PSH: Self = Self(8);
    /// The acknowledgement counts.
    pub const ACK: Self = Self(0x10);
    /// The urgent pointer counts.
    pub const URG: Self = Self(0x20);
    /// Congestion is echoed (RFC 3168).
    pub const ECE: Self = Self(0x40);
    /// The window was reduced (RFC 3168).
    pub const CWR: Self = Self(0x80);
    /// Accurate congestion feedback (RFC 9768).
    pub const AE: Self = Self(0x100);

    /// Those of these bits that have a meaning.
    #[must_use]
    pub const fn of_bits(bits: u16) -> Self {
        Self(bits & 0x1ff)
    }

    /// As bits.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// These and those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are among these.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What an option says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// The longest segment that the sender takes, in bytes of data.
    SegmentMax(u16),
    /// By how many bits windows are to be shifted, [`WINDOW_SHIFT_MAX`] at most: more counts as that.
    WindowShift(u8),
    /// Selective acknowledgements are understood.
    MayAcknowledge,
    /// Pairs of sequence numbers: blocks that have arrived, 1 to 4.
    Acknowledged(&'a [[u8; 8]]),
    /// The sender's time, and the last that it got of the other side's.
    Times {
        /// The sender's.
        time: u32,
        /// The other's.
        echo: u32,
    },
    /// Another option.
    Other(OptionView<'a>),
}

impl<'a> Choice<'a> {
    /// What `option` says. One of the wrong length says nothing: it counts as another.
    #[must_use]
    pub fn of(option: OptionView<'a>) -> Self {
        let read = match (option.kind, option.data) {
            (SEGMENT, &[high, low]) => Some(Self::SegmentMax(u16::from_be_bytes([high, low]))),
            (WINDOW, &[shift]) => Some(Self::WindowShift(shift.min(WINDOW_SHIFT_MAX))),
            (MAY_ACKNOWLEDGE, []) => Some(Self::MayAcknowledge),
            (ACKNOWLEDGED, data) => match data.as_chunks() {
                (blocks, []) if !blocks.is_empty() => Some(Self::Acknowledged(blocks)),
                _ => None,
            },
            (TIMES, data) => <&[u8; 8]>::try_from(data).ok().map(|data| {
                let (time, echo) = (u32_at::<0, _>(data), u32_at::<4, _>(data));
                Self::Times { time, echo }
            }),
            _ => None,
        };
        read.unwrap_or(Self::Other(option))
    }

    /// `options` and this one.
    ///
    /// # Errors
    /// As [`Options::with`]; [`Error::Oversized`] also for a shift over [`WINDOW_SHIFT_MAX`].
    pub fn put(&self, options: Options) -> Result<Options, Error> {
        match *self {
            Self::SegmentMax(bytes) => options.with(SEGMENT, &bytes.to_be_bytes()),
            Self::WindowShift(shift) if shift > WINDOW_SHIFT_MAX => {
                Err(Error::Oversized { limit: WINDOW_SHIFT_MAX.into(), got: shift.into() })
            }
            Self::WindowShift(shift) => options.with(WINDOW, &[shift]),
            Self::MayAcknowledge => options.with(MAY_ACKNOWLEDGE, &[]),
            Self::Acknowledged(blocks) => options.with(ACKNOWLEDGED, blocks.as_flattened()),
            Self::Times { time, echo } => {
                let mut data = [0; 8];
                set::<0, 4, _>(&mut data, time.to_be_bytes());
                set::<4, 4, _>(&mut data, echo.to_be_bytes());
                options.with(TIMES, &data)
            }
            Self::Other(option) => options.with(option.kind, option.data),
        }
    }
}

/// The two sequence numbers of a block that has arrived: its first, and the one behind its last.
#[must_use]
pub fn block(bytes: &[u8; 8]) -> (u32, u32) {
    (u32::from_be_bytes(field::<0, 4, _>(bytes)), u32::from_be_bytes(field::<4, 4, _>(bytes)))
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Port of who sends.
    pub source: u16,
    /// Port of who is meant.
    pub destination: u16,
    /// Number of the first byte.
    pub sequence: u32,
    /// Number of the byte that is expected next.
    pub acknowledgement: u32,
    /// Control bits.
    pub flags: Flags,
    /// Bytes that the sender takes, before they are shifted.
    pub window: u16,
    /// Where urgent data end, from `sequence` on.
    pub urgent: u16,
    /// Its options.
    pub options: Options,
}

impl Header {
    /// Bytes of a header without options.
    pub const BYTES: usize = 20;

    /// Bytes of this header.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        Self::BYTES + self.options.bytes().len()
    }

    /// Writes the header of the segment with `payload`, its checksum computed.
    ///
    /// # Errors
    /// [`Error::Oversized`] for more than 65,535 bytes; [`Error::NoRoom`]. Nothing was written then.
    pub fn emit(&self, addresses: &Addresses, payload: &[u8], to: &mut Writer<'_>) -> Result<(), Error> {
        let (mut head, options) = (self.head(), self.options.bytes());
        let sum = addresses.pseudo(IpProtocol::TCP, self.header_bytes() + payload.len())?;
        let checksum = sum.and(&head).and(options).and(payload).checksum();
        set::<16, 2, _>(&mut head, checksum.to_be_bytes());
        let mut whole = [0; Self::BYTES + OPTIONS_BYTES_MAX];
        whole[..Self::BYTES].copy_from_slice(&head);
        whole[Self::BYTES..self.header_bytes()].copy_from_slice(options);
        to.put(&whole[..self.header_bytes()])
    }

    fn head(&self) -> [u8; Self::BYTES] {
        let mut head = [0; Self::BYTES];
        set::<0, 2, _>(&mut head, self.source.to_be_bytes());
        set::<2, 2, _>(&mut head, self.destination.to_be_bytes());
        set::<4, 4, _>(&mut head, self.sequence.to_be_bytes());
        set::<8, 4, _>(&mut head, self.acknowledgement.to_be_bytes());
        let bits = (self.header_bytes() as u16 / 4) << 12 | self.flags.0;
        set::<12, 2, _>(&mut head, bits.to_be_bytes());
        set::<14, 2, _>(&mut head, self.window.to_be_bytes());
        set::<18, 2, _>(&mut head, self.urgent.to_be_bytes());
        head
    }
}
