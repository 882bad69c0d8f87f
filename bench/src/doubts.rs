//! How many samples the generator doubted, and why.

use std::collections::BTreeMap;

/// A line for each doubt: how many of the samples had it. Doubts that differ in their numbers alone are the same.
pub fn tally<'a>(samples: impl Iterator<Item = &'a [String]>) -> String {
    let mut count = 0;
    let mut had: BTreeMap<String, usize> = BTreeMap::new();
    for doubts in samples {
        count += 1;
        let mut kinds: Vec<String> = doubts.iter().map(|doubt| without_numbers(doubt)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds.into_iter().for_each(|kind| *had.entry(kind).or_default() += 1);
    }
    had.into_iter().map(|(kind, times)| format!("{times} of {count} samples: {kind}\n")).collect()
}

/// `text` with an `N` for every number.
fn without_numbers(text: &str) -> String {
    let mut kind = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_digit()) {
        kind += &rest[..start];
        kind.push('N');
        // A point belongs to a number only where digits follow.
        let number = rest[start..].find(|letter: char| !letter.is_ascii_digit() && letter != '.');
        let number = rest[start..].split_at(number.unwrap_or(rest.len() - start)).0.trim_end_matches('.');
        rest = &rest[start + number.len()..];
    }
    kind + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_make_no_difference() {
        assert_eq!(without_numbers("lane 0 waited 41 % of 1.25 s, or 7."), "lane N waited N % of N s, or N.");
        assert_eq!(without_numbers("no number"), "no number");
        assert_eq!(without_numbers("12"), "N");
    }

    #[test]
    fn samples_are_counted_once_by_doubt() {
        let samples = [vec!["lane 0 waited", "lane 1 waited"], vec![], vec!["lane 0 waited", "too busy"]];
        let samples: Vec<Vec<String>> = samples.iter().map(|one| one.iter().map(|&text| text.to_owned()).collect()).collect();
        let lines = tally(samples.iter().map(Vec::as_slice));
        assert_eq!(lines, "2 of 3 samples: lane N waited\n1 of 3 samples: too busy\n");
        assert_eq!(tally([[].as_slice()].into_iter()), "");
    }
}
