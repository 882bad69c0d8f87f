//! Which content coding to answer in (RFC 9110 section 12.5.3).

use super::Fields;
use super::list::weighted;

/// A content coding (RFC 9110 section 8.4.1, RFC 7932, RFC 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Brotli.
    Brotli,
    /// Zstandard.
    Zstandard,
    /// GZIP.
    Gzip,
    /// None.
    Identity,
}

impl Coding {
    /// Its name in fields.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstandard => "zstd",
            Self::Gzip => "gzip",
            Self::Identity => "identity",
        }
    }

    fn is_named(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.name().as_bytes()) || self == Self::Gzip && name.eq_ignore_ascii_case(b"x-gzip")
    }
}

/// The coding that the client likes best of those `available`, the first of which is preferred where it likes several as well; identity, which is always there, only
/// where none is liked as well. None where it accepts nothing, not even identity: then 406, or identity all the same.
pub fn coding(fields: Fields<'_>, available: &[Coding]) -> Option<Coding> {
    let weight = |coding: Coding| (weight(fields, coding), coding);
    let all = available.iter().copied().filter(|coding| *coding != Coding::Identity).chain([Coding::Identity]).map(weight);
    // The first of the best: `max_by_key` would take the last.
    let best = all.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
    (best.0 > 0).then_some(best.1)
}

/// How much the client likes `coding`, in thousandths. Elements that are none are passed over.
fn weight(fields: Fields<'_>, coding: Coding) -> u16 {
    let mut any = None;
    for (name, weight) in fields.list("accept-encoding").filter_map(weighted) {
        if coding.is_named(name) {
            return weight;
        }
        if name == b"*" {
            any = Some(weight);
        }
    }
    match coding {
        // Liked least of what is accepted at all, unless it is named.
        Coding::Identity if any != Some(0) => 1,
        _ => any.unwrap_or(0),
    }
}
