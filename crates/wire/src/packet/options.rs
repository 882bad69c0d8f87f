//! The options of IPv4 and of TCP, which have one grammar: kind 0 ends the list, kind 1 fills, any other is followed by its length
//! (RFC 791, section 3.1; RFC 9293, section 3.2).

use crate::Error;

/// Bytes of options that a header can hold.
pub const OPTIONS_BYTES_MAX: usize = 40;

const END: u8 = 0;
const FILL: u8 = 1;

/// One option. Ends and fillings are not handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionView<'a> {
    /// Its kind, 2 or more.
    pub kind: u8,
    /// What is behind kind and length.
    pub data: &'a [u8],
}

/// The options in some bytes, until they end or one is no option.
#[derive(Clone, Debug)]
pub struct OptionViews<'a> {
    rest: &'a [u8],
}

impl<'a> OptionViews<'a> {
    /// Those in `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for OptionViews<'a> {
    type Item = Result<OptionView<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let filled = self.rest.iter().take_while(|&&kind| kind == FILL).count();
        self.rest = &self.rest[filled..];
        let (&kind, behind) = self.rest.split_first().filter(|(kind, _)| **kind != END)?;
        let length = behind.first().map_or(0, |&length| usize::from(length));
        match self.rest.split_at_checked(length) {
            Some((option, rest)) if length >= 2 => {
                self.rest = rest;
                Some(Ok(OptionView { kind, data: &option[2..] }))
            }
            _ => {
                self.rest = &[];
                Some(Err(Error::Malformed { what: "list of options" }))
            }
        }
    }
}

/// A list of options that fits into a header, is well formed, and ends at a multiple of four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    bytes: [u8; OPTIONS_BYTES_MAX],
    /// Without the zeros that fill the last four bytes.
    length: u8,
}

impl Default for Options {
    fn default() -> Self {
        Self::NONE
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().flatten()).finish()
    }
}

impl Options {
    /// No option.
    pub const NONE: Self = Self { bytes: [0; OPTIONS_BYTES_MAX], length: 0 };

    /// The options of a header, without what fills; the value is the same whatever filled them.
    ///
    /// # Errors
    /// [`Error::Malformed`] for what is no list of options; [`Error::Oversized`] beyond [`OPTIONS_BYTES_MAX`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        OptionViews::new(bytes).try_fold(Self::NONE, |options, option| {
            let option = option?;
            options.with(option.kind, option.data)
        })
    }

    /// These and one more.
    ///
    /// # Errors
    /// [`Error::Unknown`] for the kinds 0 and 1; [`Error::Oversized`] where it does not fit.
    pub fn with(mut self, kind: u8, data: &[u8]) -> Result<Self, Error> {
        if kind <= FILL {
            return Err(Error::Unknown { what: "kind of option", got: kind.into() });
        }
        let (start, end) = (usize::from(self.length), usize::from(self.length) + 2 + data.len());
        let oversized = Error::Oversized { limit: OPTIONS_BYTES_MAX as u32, got: end };
        let place = self.bytes.get_mut(start..end).ok_or(oversized)?;
        place[0] = kind;
        place[1] = (2 + data.len()) as u8;
        place[2..].copy_from_slice(data);
        self.length = end as u8;
        Ok(self)
    }

    /// As they stand in a header, filled with zeros.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length).next_multiple_of(4)]
    }

    /// One by one.
    #[must_use]
    pub fn iter(&self) -> OptionViews<'_> {
        OptionViews::new(&self.bytes[..usize::from(self.length)])
    }
}
