//! What goes both ways, and the two shapes of it that are declared rather than written out.

use super::{Reader, Writer};
use crate::Error;

/// A type that is read from bytes; views live as long as these.
pub trait Decode<'a>: Sized {
    /// Takes a value off the front of `from`.
    ///
    /// # Errors
    /// Where the bytes are not a legal value.
    fn decode(from: &mut Reader<'a>) -> Result<Self, Error>;
}

/// A type that is written.
pub trait Encode {
    /// Writes the value to the end of `to`.
    ///
    /// # Errors
    /// [`Error::NoRoom`]; then a part may have been written.
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error>;
}

impl<'a> Reader<'a> {
    /// A value of a type that can be read.
    ///
    /// # Errors
    /// Those of the type.
    #[inline]
    pub fn read<T: Decode<'a>>(&mut self) -> Result<T, Error> {
        T::decode(self)
    }
}

macro_rules! primitive {
    ($type:ty, $from:ident => $read:expr, $value:ident, $to:ident => $write:expr) => {
        impl Decode<'_> for $type {
            #[inline]
            fn decode($from: &mut Reader<'_>) -> Result<Self, Error> {
                $read
            }
        }
        impl Encode for $type {
            #[inline]
            fn encode(&self, $to: &mut Writer<'_>) -> Result<(), Error> {
                let $value = *self;
                $write
            }
        }
    };
}

primitive!(u32, from => from.u32(), value, to => to.u32(value));
primitive!(u64, from => from.u64(), value, to => to.u64(value));
primitive!(bool, from => from.boolean(), value, to => to.boolean(value));
// RFC 4506 section 4.1: two's complement, as `as` converts.
primitive!(i32, from => from.u32().map(|value| value as i32), value, to => to.u32(value as u32));
primitive!(i64, from => from.u64().map(|value| value as i64), value, to => to.u64(value as u64));

/// Void (RFC 4506 section 4.16): no bytes.
impl Decode<'_> for () {
    fn decode(_from: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(())
    }
}

impl Encode for () {
    fn encode(&self, _to: &mut Writer<'_>) -> Result<(), Error> {
        Ok(())
    }
}

/// Fixed-length opaque data (RFC 4506 section 4.9), for the few bytes of a verifier; longer data is better a view.
impl<const N: usize> Decode<'_> for [u8; N] {
    fn decode(from: &mut Reader<'_>) -> Result<Self, Error> {
        from.fixed().copied()
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        to.fixed(self)
    }
}

/// Optional data (RFC 4506 section 4.19), or a union that a boolean switches (section 4.15).
impl<'a, T: Decode<'a>> Decode<'a> for Option<T> {
    fn decode(from: &mut Reader<'a>) -> Result<Self, Error> {
        from.boolean()?.then(|| from.read()).transpose()
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        to.boolean(self.is_some())?;
        self.as_ref().map_or(Ok(()), |value| value.encode(to))
    }
}

/// A structure of two (RFC 4506 section 4.14).
impl<'a, A: Decode<'a>, B: Decode<'a>> Decode<'a> for (A, B) {
    fn decode(from: &mut Reader<'a>) -> Result<Self, Error> {
        Ok((from.read()?, from.read()?))
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), Error> {
        self.0.encode(to)?;
        self.1.encode(to)
    }
}

/// Declares a structure (RFC 4506 section 4.14): the fields in their order.
macro_rules! xdr_struct {
    ($(#[$meta:meta])* $name:ident<$life:lifetime> { $($fields:tt)* }) => {
        xdr_struct!(@item [$(#[$meta])*] $name [<$life>] $life { $($fields)* });
    };
    ($(#[$meta:meta])* $name:ident { $($fields:tt)* }) => {
        xdr_struct!(@item [$(#[$meta])*] $name [] 'wire { $($fields)* });
    };
    (@item [$(#[$meta:meta])*] $name:ident [$($generics:tt)*] $life:lifetime
        { $($(#[$doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name $($generics)* { $($(#[$doc])* pub $field: $type,)* }

        impl<$life> $crate::xdr::Decode<$life> for $name $($generics)* {
            fn decode(from: &mut $crate::xdr::Reader<$life>) -> Result<Self, $crate::Error> {
                Ok(Self { $($field: from.read()?,)* })
            }
        }

        impl<$life> $crate::xdr::Encode for $name $($generics)* {
            fn encode(&self, to: &mut $crate::xdr::Writer<'_>) -> Result<(), $crate::Error> {
                $($crate::xdr::Encode::encode(&self.$field, to)?;)*
                Ok(())
            }
        }
    };
}
pub(crate) use xdr_struct;

/// Declares an enumeration (RFC 4506 section 4.3): its name in the RFC, and the values that are legal.
macro_rules! xdr_enum {
    ($(#[$meta:meta])* $name:ident = $what:literal { $($(#[$doc:meta])* $value:ident = $number:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name { $($(#[$doc])* $value = $number,)* }

        impl $name {
            /// All values, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$value),*];

            /// The value with this number.
            ///
            /// # Errors
            /// [`Error::Unknown`](crate::Error::Unknown).
            pub const fn from_number(number: u32) -> Result<Self, $crate::Error> {
                match number {
                    $($number => Ok(Self::$value),)*
                    got => Err($crate::Error::Unknown { what: $what, got }),
                }
            }

            /// The number that stands for the value.
            pub const fn number(self) -> u32 {
                self as u32
            }
        }

        impl $crate::xdr::Decode<'_> for $name {
            fn decode(from: &mut $crate::xdr::Reader<'_>) -> Result<Self, $crate::Error> {
                Self::from_number(from.u32()?)
            }
        }

        impl $crate::xdr::Encode for $name {
            fn encode(&self, to: &mut $crate::xdr::Writer<'_>) -> Result<(), $crate::Error> {
                to.u32(self.number())
            }
        }
    };
}
pub(crate) use xdr_enum;
