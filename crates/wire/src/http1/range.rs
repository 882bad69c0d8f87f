//! Ranges of bytes (RFC 9110 section 14).

use super::Fields;
use super::list::elements;
use super::token::decimal;

/// Most ranges that one request may name; with more, all is sent (section 14.2 lets a server pass over such requests).
pub const RANGES_MAX: usize = 16;

/// Bytes from `begin` to before `end`, one at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The first.
    pub begin: u64,
    /// Behind the last.
    pub end: u64,
}

impl Span {
    /// How many.
    pub const fn bytes(self) -> u64 {
        self.end - self.begin
    }
}

/// What of something a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// All of it: no range is asked for, or none that is understood (section 14.2).
    Whole,
    /// Nothing that is there: answer 416 with `Content-Range: bytes */length`.
    Unsatisfiable,
    /// These parts: answer 206.
    Some(Spans),
}

/// One part or several. No two overlap or touch, so together they are never more than the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    spans: [Span; RANGES_MAX],
    count: usize,
}

impl Spans {
    /// The parts: in the order in which they were asked for, or in that of their bytes where some had to be joined.
    pub fn as_slice(&self) -> &[Span] {
        &self.spans[..self.count]
    }

    /// Takes a part in; false if there is no room.
    fn push(&mut self, span: Span) -> bool {
        let Some(place) = self.spans.get_mut(self.count) else { return false };
        (*place, self.count) = (span, self.count + 1);
        true
    }

    /// Joins what overlaps or touches (section 15.3.7.2), if anything does.
    fn join(mut self) -> Self {
        let mut sorted = self.spans;
        let sorted = &mut sorted[..self.count];
        sorted.sort_unstable();
        if !sorted.windows(2).any(|pair| pair[1].begin <= pair[0].end) {
            return self;
        }
        self.count = 0;
        for &span in &*sorted {
            match self.spans[..self.count].last_mut() {
                Some(last) if span.begin <= last.end => last.end = last.end.max(span.end),
                _ => assert!(self.push(span), "joining makes no more of them"),
            }
        }
        self
    }
}

/// What a GET with `fields` asks for of something that has `length` bytes. Only for GET, and where If-Range agrees
/// ([`range_applies`](super::range_applies)).
pub fn ranges(fields: Fields<'_>, length: u64) -> Ranges {
    fields.once("range").and_then(|value| parse(value, length)).unwrap_or(Ranges::Whole)
}

/// None where the value is not understood.
fn parse(value: &[u8], length: u64) -> Option<Ranges> {
    let (unit, list) = value.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    let mut spans = Spans { spans: [Span::default(); RANGES_MAX], count: 0 };
    let (mut named, mut suffix_of_nothing) = (0, false);
    for element in elements(list) {
        named += 1;
        if named > RANGES_MAX {
            return None;
        }
        match span(element, length)? {
            Asked::Span(span) => assert!(spans.push(span), "no more are named than there is room for"),
            Asked::Nothing => {}
            Asked::SuffixOfNothing => suffix_of_nothing = true,
        }
    }
    match spans.count {
        _ if named == 0 || suffix_of_nothing => None,
        0 => Some(Ranges::Unsatisfiable),
        _ => Some(Ranges::Some(spans.join())),
    }
}

/// What one element asks for.
enum Asked {
    Span(Span),
    /// Nothing that is there.
    Nothing,
    /// The last bytes of something that has none: satisfied, but no Content-Range can say so (section 14.1.2).
    SuffixOfNothing,
}

/// Section 14.1.1; none where it is not of the form. Numbers over 64 bits are behind any end.
fn span(element: &[u8], length: u64) -> Option<Asked> {
    let dash = element.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (&element[..dash], &element[dash + 1..]);
    if first.is_empty() {
        let suffix = decimal(last)?.min(length);
        return Some(match (suffix, length) {
            (0, 0) if decimal(last) != Some(0) => Asked::SuffixOfNothing,
            (0, _) => Asked::Nothing,
            _ => Asked::Span(Span { begin: length - suffix, end: length }),
        });
    }
    let begin = decimal(first)?;
    let last = if last.is_empty() { u64::MAX } else { decimal(last)? };
    if last < begin {
        return None;
    }
    Some(if begin >= length { Asked::Nothing } else { Asked::Span(Span { begin, end: last.saturating_add(1).min(length) }) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: &str, length: u64) -> Option<Vec<(u64, u64)>> {
        match parse(value.as_bytes(), length).unwrap_or(Ranges::Whole) {
            Ranges::Whole => None,
            Ranges::Unsatisfiable => Some(Vec::new()),
            Ranges::Some(spans) => Some(spans.as_slice().iter().map(|span| (span.begin, span.end)).collect()),
        }
    }

    /// The examples of section 14.1.2, of 10,000 bytes.
    #[test]
    fn the_examples() {
        assert_eq!(of("bytes=0-499", 10_000), Some(vec![(0, 500)]));
        assert_eq!(of("bytes=500-999", 10_000), Some(vec![(500, 1_000)]));
        assert_eq!(of("bytes=-500", 10_000), Some(vec![(9_500, 10_000)]));
        assert_eq!(of("bytes=9500-", 10_000), Some(vec![(9_500, 10_000)]));
        assert_eq!(of("bytes=0-0,-1", 10_000), Some(vec![(0, 1), (9_999, 10_000)]));
        assert_eq!(of("bytes= 0-999, 4500-5499, -1000", 10_000), Some(vec![(0, 1_000), (4_500, 5_500), (9_000, 10_000)]));
        assert_eq!(of("bytes=500-600,601-999", 10_000), Some(vec![(500, 1_000)]));
        assert_eq!(of("bytes=500-700,601-999", 10_000), Some(vec![(500, 1_000)]));
    }

    #[test]
    fn what_is_not_understood_asks_for_all() {
        let others = [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=1-0",
            "bytes=0-1,a",
            "lines=0-1",
            "bytes 0-1",
            "bytes=+0-1",
        ];
        for value in others.iter().chain(&["bytes=0-1;2-3", "bytes=0 - 1", "bytes=0--1", "bytes=0x0-1"]) {
            assert_eq!(of(value, 10), None, "{value}");
        }
    }

    #[test]
    fn what_is_not_there_is_not_sent() {
        assert_eq!(of("bytes=10-", 10), Some(vec![]));
        assert_eq!(of("bytes=-0", 10), Some(vec![]));
        assert_eq!(of("bytes=99999999999999999999-", 10), Some(vec![]));
        assert_eq!(of("bytes=10-,0-99999999999999999999", 10), Some(vec![(0, 10)]));
        assert_eq!(of("bytes=-99999999999999999999", 10), Some(vec![(0, 10)]));
        assert_eq!(of("bytes=-1", 0), None, "satisfied by nothing");
        assert_eq!(of("bytes=0-", 0), Some(vec![]));
    }

    #[test]
    fn many_ranges_never_come_to_more_than_the_whole() {
        let many = |count: usize| format!("bytes={}", vec!["0-"; count].join(","));
        assert_eq!(of(&many(RANGES_MAX), 10), Some(vec![(0, 10)]));
        assert_eq!(of(&many(RANGES_MAX + 1), 10), None);
        assert_eq!(of("bytes=5-6,0-1,8-8", 10), Some(vec![(5, 7), (0, 2), (8, 9)]), "as asked for");
        assert_eq!(of("bytes=5-6,0-5,8-8", 10), Some(vec![(0, 7), (8, 9)]));
        assert_eq!(of("bytes=0-8,2-3", 10), Some(vec![(0, 9)]), "one within the other");
    }
}
