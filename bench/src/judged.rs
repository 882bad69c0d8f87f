//! Verdicts as records hold them: lines of a table, read again.

use super::bars::{Limit, Word};

/// A line of a table of verdicts.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The cell's name.
    pub cell: String,
    /// What the figure is.
    pub figure: String,
    /// The figure.
    pub value: f64,
    /// Its interval, if it has one.
    pub interval: Option<[f64; 2]>,
    /// The bar.
    pub limit: Limit,
    /// What came of it.
    pub word: Word,
}

impl Judged {
    /// All verdicts of a record, in its order.
    pub fn all(record: &str) -> Vec<Self> {
        record.lines().filter_map(Self::of_line).collect()
    }

    /// Reads a line from its end, where its words are known; `None` for any other line.
    fn of_line(line: &str) -> Option<Self> {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let word = word_of(words.pop()?)?;
        let _rounds: usize = words.pop()?.parse().ok()?;
        let limit = limit_of(&mut words)?;
        let interval = interval_of(&mut words)?;
        let value = words.pop()?.parse().ok()?;
        let (cell, figure) = words.split_first()?;
        (!figure.is_empty()).then(|| Self { cell: (*cell).to_owned(), figure: figure.join(" "), value, interval, limit, word })
    }
}

/// The verdict that is written so.
pub fn word_of(text: &str) -> Option<Word> {
    [Word::Met, Word::Missed, Word::Open].into_iter().find(|word| word.to_string() == text)
}

/// Takes a bar from the end of `words`.
pub fn limit_of(words: &mut Vec<&str>) -> Option<Limit> {
    let bar = words.pop()?.parse().ok()?;
    let limit = match words.pop()? {
        "under" => return Some(Limit::Under(bar)),
        "most" => Limit::AtMost(bar),
        "least" => Limit::AtLeast(bar),
        _ => return None,
    };
    (words.pop()? == "at").then_some(limit)
}

/// Takes an interval, or the dash in its place, from the end of `words`.
fn interval_of(words: &mut Vec<&str>) -> Option<Option<[f64; 2]>> {
    let high = words.pop()?;
    if high == "-" {
        return Some(None);
    }
    let is_between = words.pop()? == "to";
    let low = words.pop()?.parse().ok()?;
    is_between.then_some(Some([low, high.parse().ok()?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_table_is_read_from_its_end() {
        let record = "cell  figure  value  90 % interval  bar  rounds  verdict\n\
            a-1  ours / theirs (best loop), CPU per request  1.500  1.250 to 2.000  at most 1.05  15  MISSED\n\
            b  at rest, MB  3  -  under 4  1  met\n\
            corelane  uring  60K/receive  1  64  met\n";
        let judged = Judged::all(record);
        assert_eq!(judged.len(), 2, "{judged:?}");
        assert_eq!((judged[0].cell.as_str(), judged[0].figure.as_str()), ("a-1", "ours / theirs (best loop), CPU per request"));
        assert_eq!((judged[0].value, judged[0].interval), (1.5, Some([1.25, 2.0])));
        assert_eq!((judged[0].limit, judged[0].word), (Limit::AtMost(1.05), Word::Missed));
        assert_eq!((judged[1].interval, judged[1].limit, judged[1].word), (None, Limit::Under(4.0), Word::Met));
    }
}
