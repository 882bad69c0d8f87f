//! Entity tags (RFC 9110 section 8.8.3).

/// An entity tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    /// Whether it is weak: what has the same may differ in bytes.
    pub is_weak: bool,
    /// What stands between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> Tag<'a> {
    /// Reads a tag, `"..."` or `W/"..."`; none where it is none.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let (is_weak, quoted) = text.strip_prefix(b"W/").map_or((false, text), |rest| (true, rest));
        let opaque = quoted.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        let is_legal = |byte: &u8| matches!(byte, 0x21 | 0x23..=0x7e | 0x80..);
        opaque.iter().all(is_legal).then_some(Self { is_weak, opaque })
    }

    /// Strong comparison: byte for byte the same (section 8.8.3.2).
    pub fn is_strongly(self, other: Tag<'_>) -> bool {
        !self.is_weak && !other.is_weak && self.opaque == other.opaque
    }

    /// Weak comparison: as good as the same.
    pub fn is_weakly(self, other: Tag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_section_8_8_3_2() {
        let tags = [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ];
        for (one, other, strongly, weakly) in tags {
            let (one, other) = (Tag::parse(one.as_bytes()).unwrap(), Tag::parse(other.as_bytes()).unwrap());
            assert_eq!((one.is_strongly(other), one.is_weakly(other)), (strongly, weakly));
        }
    }

    #[test]
    fn what_is_no_tag() {
        for text in ["", "a", "\"", "\"a", "a\"", "w/\"a\"", "W/a", "\"a\"b\"", "\"a b\"", "\"a\tb\"", "*"] {
            assert_eq!(Tag::parse(text.as_bytes()), None, "{text}");
        }
        assert!(Tag::parse(b"\"\"").is_some());
    }
}
