//! Record marking (RFC 5531 section 11): how messages are told apart in a stream.
//!
//! A record is one or more fragments. Before each stands a mark of four bytes: 31 bits of length, and the highest bit says
//! that the fragment is the last of its record.

use crate::Error;
use crate::xdr::Writer;
use std::ops::Range;

const MARK_BYTES: usize = 4;
const LAST: u32 = 1 << 31;

/// Most bytes in a fragment: 31 bits.
pub const FRAGMENT_BYTES_MAX: u32 = LAST - 1;

/// What a stream may ask its reader to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordLimits {
    /// Most bytes in a record, without marks. Checked when a mark arrives, before anything is waited for.
    pub bytes: u32,
    /// Most fragments in a record, empty ones among them (RFC 5531 section 11 allows these, and bounds nothing).
    pub fragments: u32,
}

/// Finds the records in a stream. It keeps no bytes, only how much of a record of several fragments has passed.
///
/// Show it the bytes that are there, in any split: it says where a record lies in them, or how much is missing. Bytes before
/// the end of what it found are then to be dropped, and the rest shown again with more. Its work is the same for any length.
#[derive(Clone, Copy, Debug)]
pub struct Records {
    limits: RecordLimits,
    joined: u32,
    fragments: u32,
}

/// What stands at the front of the bytes shown. Ranges are indices into these; drop the bytes up to their end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A whole record in one piece.
    Record(Range<usize>),
    /// A fragment of a record that has several: join it to those before.
    Join {
        /// Its bytes.
        fragment: Range<usize>,
        /// Whether the record is whole now.
        is_last: bool,
    },
    /// Nothing whole: drop nothing and show the same bytes again, with more.
    More {
        /// The begin of the fragment, as far as it is there; for those who look at the head of a long record early.
        begun: Range<usize>,
        /// Bytes that are missing: first those of the mark, then those of the fragment.
        missing: usize,
    },
}

impl Records {
    /// Starts at the begin of a stream.
    pub const fn new(limits: RecordLimits) -> Self {
        Self { limits, joined: 0, fragments: 0 }
    }

    /// Looks at the front of `bytes`.
    ///
    /// # Errors
    /// [`Error::RecordTooLong`], [`Error::TooManyFragments`]. Where the next record begins is not known then: close.
    #[inline]
    pub fn next(&mut self, bytes: &[u8]) -> Result<Step, Error> {
        let Some((mark, rest)) = bytes.split_first_chunk::<MARK_BYTES>() else {
            return Ok(Step::More { begun: bytes.len()..bytes.len(), missing: MARK_BYTES - bytes.len() });
        };
        let mark = u32::from_be_bytes(*mark);
        let (length, is_last) = (mark & FRAGMENT_BYTES_MAX, mark & LAST != 0);
        self.check(length, is_last)?;
        let end = MARK_BYTES + length as usize;
        if rest.len() < length as usize {
            return Ok(Step::More { begun: MARK_BYTES..bytes.len(), missing: end - bytes.len() });
        }
        if is_last && self.fragments == 0 {
            return Ok(Step::Record(MARK_BYTES..end));
        }
        (self.joined, self.fragments) = if is_last { (0, 0) } else { (self.joined + length, self.fragments + 1) };
        Ok(Step::Join { fragment: MARK_BYTES..end, is_last })
    }

    /// Holds a mark against the limits. A fragment that is not the last needs one more behind it.
    fn check(&self, length: u32, is_last: bool) -> Result<(), Error> {
        let RecordLimits { bytes, fragments } = self.limits;
        assert!(self.joined == 0 || self.fragments > 0, "bytes that passed were a fragment's");
        assert!(self.joined <= bytes && self.fragments <= fragments, "what passed was within the limits");
        let got = u64::from(self.joined) + u64::from(length);
        if got > u64::from(bytes) {
            return Err(Error::RecordTooLong { limit: bytes, got });
        }
        if u64::from(self.fragments) + 1 + u64::from(!is_last) > u64::from(fragments) {
            return Err(Error::TooManyFragments { limit: fragments });
        }
        Ok(())
    }
}

/// The mark of a fragment of `length` bytes, [`FRAGMENT_BYTES_MAX`] at most; the last of its record, or not.
///
/// # Errors
/// [`Error::Oversized`].
#[inline]
pub fn mark(length: usize, is_last: bool) -> Result<[u8; MARK_BYTES], Error> {
    let fits = u32::try_from(length).ok().filter(|&length| length <= FRAGMENT_BYTES_MAX);
    let length = fits.ok_or(Error::Oversized { limit: FRAGMENT_BYTES_MAX, got: length })?;
    Ok((if is_last { length | LAST } else { length }).to_be_bytes())
}

/// Writes a record of one fragment: its mark, then what `content` writes. `following` bytes more belong to it that go another
/// way, for example data as a lease and its padding; they come right behind.
///
/// # Errors
/// Those of `content`, [`Error::NoRoom`], [`Error::Oversized`]; nothing has been written then, so another reply can be.
#[inline]
pub fn write_record(
    to: &mut Writer<'_>,
    following: usize,
    content: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let start = to.len();
    let written = to.put(&[0; MARK_BYTES]).and_then(|()| content(to));
    let marked = written.and_then(|()| mark((to.len() - start - MARK_BYTES).saturating_add(following), true));
    match marked {
        Ok(mark) => to.patch(start, mark),
        Err(_) => to.truncate(start),
    }
    marked.map(drop)
}

/// Writes `record` as fragments that end at `cuts`, for those who test a reader; the last ends where the record does. A cut
/// beyond the end is taken as the end, one before the cut before it as that.
///
/// # Errors
/// [`Error::NoRoom`], [`Error::Oversized`].
pub fn write_split(to: &mut Writer<'_>, record: &[u8], cuts: &[usize]) -> Result<(), Error> {
    let mut from = 0;
    for &cut in cuts {
        let cut = cut.clamp(from, record.len());
        write_fragment(to, &record[from..cut], false)?;
        from = cut;
    }
    write_fragment(to, &record[from..], true)
}

fn write_fragment(to: &mut Writer<'_>, fragment: &[u8], is_last: bool) -> Result<(), Error> {
    to.put(&mark(fragment.len(), is_last)?)?;
    to.put(fragment)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RecordLimits = RecordLimits { bytes: 100, fragments: 4 };

    fn split(record: &[u8], cuts: &[usize]) -> Vec<u8> {
        let mut memory = [0; 256];
        let mut writer = Writer::new(&mut memory);
        write_split(&mut writer, record, cuts).unwrap();
        writer.written().to_vec()
    }

    #[test]
    fn one_fragment_is_found_in_place() {
        let stream = [&split(b"hello", &[])[..], &split(b"you", &[])].concat();
        let mut records = Records::new(LIMITS);
        assert_eq!(records.next(&stream), Ok(Step::Record(4..9)));
        assert_eq!(records.next(&stream[9..]), Ok(Step::Record(4..7)));
        assert_eq!(records.next(&[]), Ok(Step::More { begun: 0..0, missing: 4 }));
    }

    #[test]
    fn what_is_missing_is_told_to_the_byte() {
        let stream = split(b"hello", &[]);
        let mut records = Records::new(LIMITS);
        for there in 0..stream.len() {
            let missing = if there < 4 { 4 - there } else { 9 - there };
            let begun = there.min(4)..there;
            assert_eq!(records.next(&stream[..there]), Ok(Step::More { begun, missing }), "{there}");
        }
    }

    #[test]
    fn fragments_are_to_be_joined() {
        let stream = split(b"hello", &[1, 1, 4]);
        let mut records = Records::new(LIMITS);
        let (mut rest, mut joined) = (&stream[..], Vec::new());
        loop {
            let Step::Join { fragment, is_last } = records.next(rest).unwrap() else { panic!("not whole: {rest:?}") };
            joined.extend(&rest[fragment.clone()]);
            rest = &rest[fragment.end..];
            if is_last {
                break;
            }
        }
        assert_eq!((&joined[..], rest), (&b"hello"[..], &[][..]));
        assert_eq!(records.next(&split(b"", &[])), Ok(Step::Record(4..4)));
    }

    #[test]
    fn a_record_is_bounded_when_its_mark_arrives() {
        let too_long = |got| Err(Error::RecordTooLong { limit: 100, got });
        assert_eq!(Records::new(LIMITS).next(&0x7fff_ffff_u32.to_be_bytes()), too_long(0x7fff_ffff));
        assert_eq!(Records::new(LIMITS).next(&0xffff_ffff_u32.to_be_bytes()), too_long(0x7fff_ffff));
        let mut records = Records::new(LIMITS);
        records.next(&split(&[7; 60], &[60])[..64]).unwrap();
        assert_eq!(records.next(&[0x80, 0, 0, 41]), too_long(101));
        assert_eq!(records.next(&[0x80, 0, 0, 40]), Ok(Step::More { begun: 4..4, missing: 40 }));
    }

    #[test]
    fn a_record_that_never_ends_is_bounded() {
        let mut records = Records::new(LIMITS);
        for _ in 0..3 {
            assert_eq!(records.next(&[0; 4]), Ok(Step::Join { fragment: 4..4, is_last: false }));
        }
        assert_eq!(records.next(&[0; 4]), Err(Error::TooManyFragments { limit: 4 }));
        assert_eq!(records.next(&[0x80, 0, 0, 0]), Ok(Step::Join { fragment: 4..4, is_last: true }));
    }

    #[test]
    fn the_largest_limits_do_not_overflow() {
        let mut records = Records::new(RecordLimits { bytes: u32::MAX, fragments: u32::MAX });
        assert_eq!(records.next(&[0xff; 4]), Ok(Step::More { begun: 4..4, missing: 0x7fff_ffff }));
    }

    #[test]
    fn a_record_that_cannot_be_written_leaves_nothing() {
        let mut memory = [0; 12];
        let mut writer = Writer::new(&mut memory);
        assert!(write_record(&mut writer, 0, |to| to.put(&[1; 9])).is_err());
        assert!(writer.is_empty());
        write_record(&mut writer, 5, |to| to.put(&[1; 3])).unwrap();
        assert_eq!(writer.written(), [0x80, 0, 0, 8, 1, 1, 1]);
        let error = Error::Oversized { limit: FRAGMENT_BYTES_MAX, got: 1 << 31 };
        assert_eq!(write_record(&mut writer, 1 << 31, |_| Ok(())), Err(error));
        assert_eq!(writer.len(), 7);
    }
}
