//! Lines of a head or of trailers, in bytes that come in any pieces.

use super::Refusal;
use memchr::memchr;
use std::ops::Range;

/// Finds lines one after the other. It keeps no bytes, only how far it has looked, so each byte is looked at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    /// Where the line begins whose end is not known.
    begin: usize,
    /// How far no end was found.
    searched: usize,
    /// Field lines found.
    count: usize,
}

/// What a section of field lines may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct SectionLimits {
    /// Where it must have ended.
    pub end: usize,
    /// Field lines.
    pub count: usize,
}

/// A section of field lines that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// Behind its empty line.
    pub end: usize,
    /// Its field lines.
    pub count: usize,
}

impl Lines {
    /// Where the next line begins.
    pub fn begin(&self) -> usize {
        self.begin
    }

    /// Gives up the lines found, of which the last ended at the place returned: from there the bytes are shown again.
    pub fn drop_found(&mut self) -> usize {
        assert!(self.count == 0, "field lines are not given up");
        let drop = self.begin;
        (self.begin, self.searched) = (0, self.searched - drop);
        drop
    }

    /// The next line of `bytes`, without CR LF; nothing where its end is not there. The same bytes are to be shown again, with more.
    #[inline]
    pub fn next(&mut self, bytes: &[u8]) -> Result<Option<Range<usize>>, Refusal> {
        assert!(self.begin <= self.searched && self.searched <= bytes.len(), "bytes are shown again whole");
        let Some(at) = memchr(b'\n', &bytes[self.searched..]) else {
            self.searched = bytes.len();
            return Ok(None);
        };
        let lf = self.searched + at;
        if lf == self.begin || bytes[lf - 1] != b'\r' {
            return Err(Refusal::BareLf);
        }
        let line = self.begin..lf - 1;
        (self.begin, self.searched) = (lf + 1, lf + 1);
        Ok(Some(line))
    }

    /// The end of the field lines that begin here, if their empty line is there.
    #[inline]
    pub fn section(&mut self, bytes: &[u8], limits: SectionLimits) -> Result<Option<Section>, Refusal> {
        if self.begin > limits.end {
            return Err(Refusal::HeadTooLong);
        }
        let shown = &bytes[..bytes.len().min(limits.end)];
        while let Some(line) = self.next(shown)? {
            if line.is_empty() {
                return Ok(Some(Section { end: self.begin, count: self.count }));
            }
            match bytes[line.start] {
                b' ' | b'\t' => return Err(Refusal::Fold),
                // CR CR LF, which is meant to look like the empty line.
                b'\r' => return Err(Refusal::BareCr),
                _ => {}
            }
            self.count += 1;
            if self.count > limits.count {
                return Err(Refusal::TooManyFields);
            }
        }
        if bytes.len() > limits.end { Err(Refusal::HeadTooLong) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_looked_at_once() {
        let head = b"a: b\r\nc: d\r\n\r\nrest";
        let mut lines = Lines::default();
        let limits = SectionLimits { end: 100, count: 2 };
        for length in 0..14 {
            assert_eq!(lines.section(&head[..length], limits), Ok(None));
            assert_eq!(lines.searched, length);
        }
        assert_eq!(lines.section(head, limits), Ok(Some(Section { end: 14, count: 2 })));
    }

    #[test]
    fn limits_hold_at_their_byte_and_line() {
        let head = b"a: b\r\nc: d\r\n\r\n";
        let found = |end, count| Lines::default().section(head, SectionLimits { end, count });
        assert_eq!(found(14, 2), Ok(Some(Section { end: 14, count: 2 })));
        assert_eq!(found(13, 2), Err(Refusal::HeadTooLong));
        assert_eq!(found(14, 1), Err(Refusal::TooManyFields));
    }
}
