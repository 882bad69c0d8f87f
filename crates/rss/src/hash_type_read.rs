//! Hash types from what others wrote: names and masks.

use std::str::FromStr;

use crate::error::shown;
use crate::{Error, HashType, HashTypes};

impl FromStr for HashType {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let named = Self::ALL.into_iter().find(|hash_type| hash_type.name() == text);
        named.ok_or_else(|| Error::HashTypeName { got: shown(text) })
    }
}

impl HashTypes {
    /// The set of the bits in `mask`.
    ///
    /// # Errors
    /// [`Error::HashTypeBits`] for bits that belong to no type.
    pub const fn from_mask(mask: u32) -> Result<Self, Error> {
        match mask & !Self::ALL.mask {
            0 => Ok(Self { mask }),
            unknown => Err(Error::HashTypeBits { unknown }),
        }
    }
}

impl FromStr for HashTypes {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "none" {
            return Ok(Self::NONE);
        }
        text.split(',').try_fold(Self::NONE, |types, name| Ok(types.with(name.parse()?)))
    }
}
