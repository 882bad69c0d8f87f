//! The secret of the hash: which keys there are, which are refused, and how one is written.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// Bytes of the key of most devices.
const SHORT: usize = 40;
/// Bytes of the key of devices that hash up to 48 bytes.
const LONG: usize = 52;
/// Input bits of the longest tuple: two IPv6 addresses and two ports.
const INPUT_BITS: usize = 36 * 8;
/// Fewer different windows than the symmetric key has.
const LEAST_WINDOWS: usize = 16;
/// Bits of a flow id that choose among 128 buckets, as the original's table has at most.
const BUCKET_BITS: u32 = 7;
/// Keys drawn before entropy is held to be broken.
const DRAWS: usize = 16;

/// Name of a field, its first input bit, and its bits.
type Field = (&'static str, usize, usize);

/// Every field of every hash type.
const FIELDS: &[Field] = &[
    ("IPv4 source", 0, 32),
    ("IPv4 destination", 32, 32),
    ("IPv4 source port", 64, 16),
    ("IPv4 destination port", 80, 16),
    ("IPv6 source", 0, 128),
    ("IPv6 destination", 128, 128),
    ("IPv6 source port", 256, 16),
    ("IPv6 destination port", 272, 16),
];

/// A key of the Toeplitz hash: 40 or 52 bytes, and not a degenerate one.
///
/// Written as hexadecimal bytes with colons, as ethtool(8) writes it.
///
/// What is refused, because a stranger or a mistake could then choose the lane:
/// * a length other than 40 or 52 bytes;
/// * all bits equal: the flow id would be 0, or only say whether the number of ones is odd;
/// * a window (32 bits in a row) of zeros at one of the 288 input bits: that bit would not count;
/// * fewer than 16 different windows there: bits far apart would cancel each other, as with a repeated byte;
/// * a field that alone, with all others fixed, does not reach each of 128 buckets.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Zeros behind `length`.
    bytes: [u8; LONG],
    length: usize,
}

impl Key {
    /// The key of Microsoft's verification suite, and the original's only one ("Verifying the RSS Hash Calculation").
    pub const MICROSOFT: Self = Self::short([
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
        0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ]);

    /// The key that sends both directions of a flow to one bucket (Woo and Park, "Scalable TCP Session Monitoring with
    /// Symmetric Receive-side Scaling", 2012). It knows 16 windows only, so flows are easier to aim than with another key.
    pub const SYMMETRIC: Self = {
        let mut bytes = [0x6d; SHORT];
        let mut at = 1;
        while at < SHORT {
            bytes[at] = 0x5a;
            at += 2;
        }
        Self::short(bytes)
    };

    /// The key of these bytes.
    ///
    /// # Errors
    /// [`Error::KeyLength`] and the other errors on keys: see what [`Key`] refuses.
    pub fn new(bytes: &[u8]) -> Result<Self, Error> {
        let mut key = Self { bytes: [0; LONG], length: bytes.len() };
        match key.bytes.get_mut(..bytes.len()) {
            Some(place) if matches!(bytes.len(), SHORT | LONG) => place.copy_from_slice(bytes),
            _ => return Err(Error::KeyLength { got: bytes.len() }),
        }
        key.check()?;
        Ok(key)
    }

    /// A key of `length` bytes, 40 or 52, from words of the caller's entropy. Draws again, 16 times at most, where a
    /// key would be refused.
    ///
    /// # Errors
    /// [`Error::KeyLength`]; [`Error::KeyEntropy`] where no draw was good, which real randomness does not do.
    pub fn random(length: usize, mut word: impl FnMut() -> u64) -> Result<Self, Error> {
        let mut bytes = [0; LONG];
        let bytes = bytes.get_mut(..length).ok_or(Error::KeyLength { got: length })?;
        for _ in 0..DRAWS {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&word().to_be_bytes()[..chunk.len()]);
            }
            match Self::new(bytes) {
                Ok(key) => return Ok(key),
                Err(error @ Error::KeyLength { .. }) => return Err(error),
                Err(_) => {}
            }
        }
        Err(Error::KeyEntropy { draws: DRAWS })
    }

    /// The bytes, 40 or 52.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The 32 bits of the key that begin at `bit`, which the hash takes in where that bit of the input is set. Zeros
    /// follow the end of the key.
    #[must_use]
    pub fn window(&self, bit: usize) -> u32 {
        let byte = |at: usize| u64::from(self.bytes.get(bit / 8 + at).copied().unwrap_or(0));
        let bits = (0..5).fold(0, |bits, at| bits << 8 | byte(at));
        (bits >> (8 - bit % 8)) as u32
    }

    /// Whether both directions of every flow, IPv4 and IPv6, with ports and without, have one flow id.
    #[must_use]
    pub fn is_symmetric(&self) -> bool {
        let alike = |field: &Field, apart: usize| (field.1..field.1 + field.2).all(|b| self.window(b) == self.window(b + apart));
        FIELDS.iter().step_by(2).all(|field| alike(field, field.2))
    }

    const fn short(from: [u8; SHORT]) -> Self {
        let mut bytes = [0; LONG];
        let mut at = 0;
        while at < SHORT {
            bytes[at] = from[at];
            at += 1;
        }
        Self { bytes, length: SHORT }
    }

    fn check(&self) -> Result<(), Error> {
        let bytes = self.bytes();
        if [0x00, 0xff].iter().any(|same| bytes.iter().all(|byte| byte == same)) {
            return Err(Error::KeyConstant);
        }
        let mut windows: Vec<u32> = (0..INPUT_BITS).map(|bit| self.window(bit)).collect();
        if let Some(bit) = windows.iter().position(|window| *window == 0) {
            return Err(Error::KeyZeroWindow { bit });
        }
        windows.sort_unstable();
        windows.dedup();
        if windows.len() < LEAST_WINDOWS {
            return Err(Error::KeyFewWindows { got: windows.len(), least: LEAST_WINDOWS });
        }
        FIELDS.iter().try_for_each(|field| self.check_field(field))
    }

    fn check_field(&self, &(field, first, bits): &Field) -> Result<(), Error> {
        let mask = (1 << BUCKET_BITS) - 1;
        let rank = rank((first..first + bits).map(|bit| self.window(bit) & mask));
        if rank == BUCKET_BITS { Ok(()) } else { Err(Error::KeyIgnoresField { field, reached: 1 << rank, of: 1 << BUCKET_BITS }) }
    }
}

/// How many of `vectors`, of [`BUCKET_BITS`] bits over the field of two elements, are independent: they reach 2 to the
/// power of that many values.
fn rank(vectors: impl Iterator<Item = u32>) -> u32 {
    let mut basis = [0_u32; BUCKET_BITS as usize];
    for mut vector in vectors {
        for (bit, base) in basis.iter_mut().enumerate().rev() {
            if vector >> bit & 1 == 0 {
                continue;
            }
            if *base == 0 {
                *base = vector;
                break;
            }
            vector ^= *base;
        }
    }
    basis.iter().map(|base| u32::from(*base != 0)).sum()
}

impl Default for Key {
    /// [`Key::MICROSOFT`].
    fn default() -> Self {
        Self::MICROSOFT
    }
}

impl fmt::Debug for Key {
    /// A key is a secret: whoever knows it can aim flows at one lane. So it shows only where it is asked for.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("length", &self.length).finish_non_exhaustive()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.bytes().iter().enumerate() {
            let colon = if at == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02x}")?;
        }
        Ok(())
    }
}

impl FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut bytes = [0; LONG];
        let mut length = 0;
        for part in text.split(':') {
            let place = bytes.get_mut(length).ok_or_else(|| Error::KeyLength { got: text.split(':').count() })?;
            *place = byte(part).ok_or(Error::KeyText { at: length })?;
            length += 1;
        }
        Self::new(&bytes[..length])
    }
}

/// The byte of exactly two hexadecimal digits.
fn byte(text: &str) -> Option<u8> {
    let digits = text.len() == 2 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    digits.then(|| u8::from_str_radix(text, 16).ok())?
}
