//! The name that may have been meant by one that there is not.

/// The question after the one of these names that is nearest to `word`, as it stands behind that word; nothing if none is near.
///
/// ```
/// # mod corelane { pub mod service { pub use corelane_svc::did_you_mean; } }
/// use corelane::service::did_you_mean;
///
/// assert_eq!(did_you_mean("idle_limt", ["idle_limit", "read_limit"]), " (did you mean idle_limit?)");
/// assert_eq!(did_you_mean("colour", ["idle_limit", "read_limit"]), "");
/// ```
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    // A book instead of a name gets no help.
    let word: Vec<char> = word.chars().take(LETTERS_MAX).map(|letter| letter.to_ascii_lowercase()).collect();
    let near = names.into_iter().map(|name| (slips(&word, &name.to_ascii_lowercase().chars().collect::<Vec<_>>()), name));
    let nearest = near.min_by_key(|(slips, _)| *slips).filter(|(slips, _)| *slips <= (word.len() / 3).max(1) && word.len() > 1);
    nearest.map_or(String::new(), |(_, name)| format!(" (did you mean {name}?)"))
}

/// The longest word that is looked at.
const LETTERS_MAX: usize = 64;

/// Letters that are missing, too many, wrong, or in the place of the next one, between two words (optimal string alignment).
fn slips(one: &[char], other: &[char]) -> usize {
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, letter) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, wanted) in other.iter().enumerate() {
            let changed = rows[i][j] + usize::from(letter != wanted);
            let mut least = changed.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == other[j - 1] && one[i - 1] == *wanted {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_near_is_found_and_what_is_not_is_not() {
        let names = ["echo", "rpc", "http"];
        for (word, meant) in [("ecoh", "echo"), ("htttp", "http"), ("HTTP", "http"), ("rcp", "rpc"), ("ech", "echo")] {
            assert_eq!(did_you_mean(word, names), format!(" (did you mean {meant}?)"));
        }
        for word in ["", "x", "nfs", "memcached", &"e".repeat(100_000)] {
            assert_eq!(did_you_mean(word, names), "", "{}", word.len());
        }
        assert_eq!(did_you_mean("echo", []), "");
    }
}
