//! External data representation (RFC 4506): integers, opaque data, strings, arrays, optional data, unions.
//!
//! A [`Reader`] hands out views into the bytes that it reads; a [`Writer`] fills memory of the caller. Types that go both
//! ways implement [`Decode`] and [`Encode`]. Three decisions:
//!
//! * **Padding** is written as zeros, as RFC 4506 section 3 demands, and is passed over unread: its content has no meaning,
//!   and the common implementations do not look at it either, so refusing it would only refuse careless peers.
//! * **Numbers with few legal values** (booleans, enumerations, discriminants) are refused when they are none of these.
//! * **Linked lists** (optional data in a chain, section 4.19) are read in a loop with a bound, never by recursion.
//!
//! Floating point (sections 4.6 to 4.8) is left out: no protocol here has it.

mod bounded;
mod codec;
mod reader;
mod sequence;
mod writer;

pub use bounded::{Opaque, Text};
pub use codec::{Decode, Encode};
pub use reader::Reader;
pub use sequence::{Array, List, Sequence, SequenceItems};
pub use writer::Writer;

pub(crate) use codec::{xdr_enum, xdr_struct};

/// Bytes of padding after `bytes` of data, so that the whole is a multiple of four (RFC 4506 section 3).
pub const fn padding(bytes: usize) -> usize {
    bytes.wrapping_neg() & 3
}
