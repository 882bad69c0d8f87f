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
    let weights = Weights::of(fields);
    let weight = |coding: Coding| (weights.of_coding(coding), coding);
    let all = available.iter().copied().filter(|coding| *coding != Coding::Identity).chain([Coding::Identity]).map(weight);
    // The first of the best: `max_by_key` would take the last.
    let best = all.reduce(|best, other| if other.0 > best.0 { other } else { best })?;
    (best.0 > 0).then_some(best.1)
}

/// Codings that a client likes no less than none, best first.
#[derive(Clone, Copy, Debug)]
pub struct Codings<const N: usize> {
    all: [Coding; N],
    count: usize,
}

impl<const N: usize> Codings<N> {
    /// No coding.
    pub const NONE: Self = Self { all: [Coding::Identity; N], count: 0 };

    /// The codings.
    pub fn as_slice(&self) -> &[Coding] {
        &self.all[..self.count]
    }
}

/// All of those `available` (identity not among them) that [`coding`] would choose one after the other, if that before were not there.
pub fn codings<const N: usize>(fields: Fields<'_>, available: [Coding; N]) -> Codings<N> {
    let weights = Weights::of(fields);
    let least = weights.of_coding(Coding::Identity).max(1);
    let mut codings = Codings::NONE;
    for coding in available.into_iter().filter(|coding| weights.of_coding(*coding) >= least) {
        codings.all[codings.count] = coding;
        codings.count += 1;
    }
    // The order of what is liked as well stays.
    codings.all[..codings.count].sort_by_key(|coding| std::cmp::Reverse(weights.of_coding(*coding)));
    codings
}

/// How much a client likes each coding, in thousandths.
struct Weights {
    /// Of those that it names.
    named: [Option<u16>; ALL.len()],
    /// Of all others, if it says so.
    others: Option<u16>,
}

const ALL: [Coding; 4] = [Coding::Brotli, Coding::Zstandard, Coding::Gzip, Coding::Identity];

impl Weights {
    /// Reads the field. Elements that are none are passed over; the first that names a coding counts.
    fn of(fields: Fields<'_>) -> Self {
        let mut weights = Self { named: [None; ALL.len()], others: None };
        for (name, weight) in fields.list("accept-encoding").filter_map(weighted) {
            if name == b"*" {
                weights.others = Some(weight);
            }
            if let Some(at) = ALL.iter().position(|coding| coding.is_named(name)) {
                weights.named[at].get_or_insert(weight);
            }
        }
        weights
    }

    fn of_coding(&self, coding: Coding) -> u16 {
        match (self.named[coding as usize], coding) {
            (Some(weight), _) => weight,
            // Liked least of what is accepted at all, unless it is named.
            (None, Coding::Identity) if self.others != Some(0) => 1,
            (None, _) => self.others.unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::{Scratch, trailers};

    #[test]
    fn all_that_are_liked_are_those_chosen_one_after_the_other() {
        assert!(ALL.iter().enumerate().all(|(at, coding)| *coding as usize == at));
        let available = [Coding::Brotli, Coding::Zstandard, Coding::Gzip];
        let weights = ["", ";q=0", ";q=0.5", ";q=1"];
        for case in 0..weights.len().pow(5) {
            let names = ["br", "zstd", "x-gzip", "identity", "*"];
            let of = |at: usize| (case / weights.len().pow(at as u32)) % weights.len();
            let value: Vec<String> =
                (0..5).filter(|at| case % 7 != *at).map(|at| format!("{}{}", names[at], weights[of(at)])).collect();
            let lines = format!("Accept-Encoding: {}\r\n\r\n", value.join(", "));
            let mut scratch = Scratch::new();
            let fields = trailers(lines.as_bytes(), &mut scratch).unwrap();
            let (mut left, mut expected) = (available.to_vec(), Vec::new());
            while let Some(best) = coding(fields, &left).filter(|best| *best != Coding::Identity) {
                expected.push(best);
                left.retain(|one| *one != best);
            }
            assert_eq!(codings(fields, available).as_slice(), expected, "{value:?}");
        }
    }
}
