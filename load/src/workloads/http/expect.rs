//! What the content of an answer must be: its length, and its hash.

use std::hash::Hasher;
use std::str::FromStr;
use twox_hash::XxHash64;

/// Content as its length and its hash tell it: XXH64 with the seed 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Its bytes.
    pub bytes: u64,
    /// Its hash.
    pub hash: u64,
}

impl Content {
    /// Of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.len() as u64, hash: XxHash64::oneshot(0, bytes) }
    }
}

/// What the content of answers to one path must be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// That of the first one.
    #[default]
    First,
    /// Whatever comes.
    Any,
    /// So many bytes.
    Length(u64),
    /// This.
    Content(Content),
}

impl FromStr for Expect {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is neither first, nor any, nor BYTES, nor BYTES:HASH with 16 hexadecimal digits");
        let number = |digits: &str| digits.parse().ok().filter(|_| !digits.starts_with('+'));
        match (text, text.split_once(':')) {
            ("first", _) => Ok(Self::First),
            ("any", _) => Ok(Self::Any),
            (_, None) => number(text).map(Self::Length).ok_or_else(wrong),
            (_, Some((bytes, hash))) => {
                let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
                let hash = u64::from_str_radix(hash, 16).ok().filter(|_| is_hash);
                number(bytes).zip(hash).map(|(bytes, hash)| Self::Content(Content { bytes, hash })).ok_or_else(wrong)
            }
        }
    }
}

impl Expect {
    /// Whether the hash matters.
    pub fn wants_hash(self) -> bool {
        matches!(self, Self::First | Self::Content(_))
    }

    /// Whether this content is right. The first one says what the others must be.
    pub fn judge(&mut self, found: Content) -> bool {
        match *self {
            Self::First => {
                *self = Self::Content(found);
                true
            }
            Self::Any => true,
            Self::Length(bytes) => found.bytes == bytes,
            Self::Content(content) => found == content,
        }
    }
}

/// Content as it comes, in pieces.
pub struct Gathered {
    bytes: u64,
    hash: XxHash64,
    wants_hash: bool,
}

impl Gathered {
    /// Nothing yet.
    pub fn new(wants_hash: bool) -> Self {
        Self { bytes: 0, hash: XxHash64::with_seed(0), wants_hash }
    }

    /// One more piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        if self.wants_hash {
            self.hash.write(piece);
        }
    }

    /// What it has come to; the hash is 0 where nobody wants it.
    pub fn content(&self) -> Content {
        Content { bytes: self.bytes, hash: if self.wants_hash { self.hash.finish() } else { 0 } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that the hash's specification publishes for nothing, and for a short text.
    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(Content::of(b""), Content { bytes: 0, hash: 0xef46_db37_51d8_e999 });
        assert_eq!(Content::of(b"abc"), Content { bytes: 3, hash: 0x44bc_2cf5_ad77_0999 });
    }

    #[test]
    fn pieces_come_to_the_whole() {
        let whole: Vec<u8> = (0..10_000_u32).map(|at| (at * 7 % 251) as u8).collect();
        for length in [1, 7, 31, 32, 33, 4_096, 10_000] {
            let mut gathered = Gathered::new(true);
            whole.chunks(length).for_each(|piece| gathered.add(piece));
            assert_eq!(gathered.content(), Content::of(&whole), "in pieces of {length}");
        }
    }

    #[test]
    fn what_is_expected_is_read() {
        let content = Content { bytes: 3, hash: 0x44bc_2cf5_ad77_0999 };
        for (text, expect) in [
            ("first", Expect::First),
            ("any", Expect::Any),
            ("0", Expect::Length(0)),
            ("3:44bc2cf5ad770999", Expect::Content(content)),
        ] {
            assert_eq!(text.parse(), Ok(expect));
        }
        for text in ["", "all", "-1", "+1", "3:", "3:1", ":44bc2cf5ad770999", "3:+4bc2cf5ad770999", "3:44bc2cf5ad7709990"] {
            assert!(text.parse::<Expect>().unwrap_err().contains(&format!("{text:?}")), "{text}");
        }
    }

    #[test]
    fn the_first_content_says_what_the_others_must_be() {
        let mut expect = Expect::First;
        assert!(expect.judge(Content::of(b"a")) && expect.judge(Content::of(b"a")));
        assert!(!expect.judge(Content::of(b"b")) && !expect.judge(Content::of(b"")) && expect.judge(Content::of(b"a")));
        assert!(Expect::Length(1).judge(Content::of(b"b")) && !Expect::Length(2).judge(Content::of(b"b")));
    }
}
