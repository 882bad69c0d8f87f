//! The Toeplitz hash, bit by bit and from tables.

use std::fmt;

use crate::Key;

/// Rows of the tables: one for each byte of the longest key. Input behind them adds nothing to the hash, since the key
/// is followed by zeros.
pub const ROWS: usize = 52;

/// The 32-bit Toeplitz hash of a flow. Which fields of the flow it covers is said by its [`crate::HashType`].
///
/// Written as `0x51ccc178`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// The hash by its definition, one input bit after the other: what every other form must equal.
///
/// For each bit of `input` that is set, most significant first, the 32 bits of the key that begin there are added
/// without carry. The input is in network byte order: source address, destination address, source port, destination
/// port, as the receiver sees them (Microsoft, "RSS Hashing Types").
#[must_use]
pub fn bitwise(key: &Key, input: &[u8]) -> FlowId {
    let (mut hash, mut window) = (0, key.window(0));
    for (at, byte) in input.iter().enumerate() {
        let next = key.bytes().get(at + 4).copied().unwrap_or(0);
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= window;
            }
            window = window << 1 | u32::from(next >> bit & 1);
        }
    }
    FlowId(hash)
}

/// One key's hash from tables, 52 KiB of them: what each value of each input byte adds.
///
/// IPv4 with ports touches 12 KiB of them and IPv6 36 KiB.
#[derive(Clone, Debug)]
pub struct Toeplitz {
    key: Key,
    rows: Box<[[u32; 256]; ROWS]>,
}

impl Toeplitz {
    /// The tables of `key`.
    #[must_use]
    pub fn new(key: &Key) -> Self {
        let mut rows = Box::new([[0; 256]; ROWS]);
        for (at, row) in rows.iter_mut().enumerate() {
            fill(row, |bit| key.window(8 * at + bit));
        }
        Self { key: *key, rows }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// What the byte at each place of the input adds, by its value. This is what a program in the kernel is given.
    #[must_use]
    pub fn rows(&self) -> &[[u32; 256]; ROWS] {
        &self.rows
    }

    /// The hash of `input`, in the order that [`bitwise`] says.
    #[must_use]
    pub fn hash(&self, input: &[u8]) -> FlowId {
        FlowId(self.part(0, input))
    }

    /// [`Toeplitz::hash`] where the length is known when compiling, and the loop therefore unrolled: a quarter faster.
    #[inline]
    pub(crate) fn fixed<const N: usize>(&self, input: &[u8; N]) -> FlowId {
        FlowId(self.fixed_part::<0, N>(input))
    }

    /// What `bytes` add that stand at place `at` of the input. The hash of the whole is the exclusive or of its parts.
    pub(crate) fn part(&self, at: usize, bytes: &[u8]) -> u32 {
        let rows = self.rows.iter().skip(at);
        bytes.iter().zip(rows).fold(0, |hash, (byte, row)| hash ^ row[usize::from(*byte)])
    }

    /// [`Toeplitz::part`] where place and length are known when compiling.
    #[inline(always)]
    pub(crate) fn fixed_part<const AT: usize, const N: usize>(&self, bytes: &[u8; N]) -> u32 {
        const { assert!(AT + N <= ROWS) };
        let mut hash = 0;
        for (at, byte) in bytes.iter().enumerate() {
            hash ^= self.rows[AT + at][usize::from(*byte)];
        }
        hash
    }
}

/// Fills the row of one input byte from the windows at its eight bits: each value adds what the value without its
/// lowest set bit adds, and that bit's window.
fn fill(row: &mut [u32; 256], window: impl Fn(usize) -> u32) {
    for value in 1..row.len() {
        let lowest = value.trailing_zeros() as usize;
        row[value] = row[value & (value - 1)] ^ window(7 - lowest);
    }
}
