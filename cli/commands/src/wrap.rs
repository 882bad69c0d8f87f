//! Texts in the room there is: lines of at most 80 characters, and what is cut to its columns.

use ratatui::text::Span;

/// The most characters of a line.
const WIDTH: usize = 80;

/// Breaks a text between words. The first line begins with `first`, the others with as many spaces. A word that is longer than a
/// line stands alone on one.
pub fn wrapped(first: &str, text: &str) -> String {
    let indent = " ".repeat(first.chars().count());
    let options = textwrap::Options::new(WIDTH).subsequent_indent(&indent).break_words(false);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    textwrap::fill(&(first.to_owned() + &words), options).trim_end().to_owned() + "\n"
}

/// The text without control characters, which must never reach a terminal.
pub fn legible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The [legible] text in so many columns of a terminal: cut, with a mark, if it is longer.
pub fn fit(text: &str, columns: usize) -> String {
    let text = legible(text);
    let width = |text: &str| Span::raw(text).width();
    if width(&text) <= columns {
        return text;
    }
    let ends = text.char_indices().map(|(end, _)| end);
    match ends.take_while(|&end| width(&text[..end]) < columns).last() {
        Some(end) => format!("{}{CUT}", &text[..end]),
        None => String::new(),
    }
}

/// Stands for what was cut off: a column.
const CUT: char = '…';

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_broken_between_words() {
        let text = "one two ".repeat(30);
        let lines = wrapped("note: ", &text);
        assert!(lines.lines().count() > 2 && lines.lines().all(|line| line.chars().count() <= WIDTH), "{lines}");
        assert!(lines.lines().skip(1).all(|line| line.starts_with("      ") && !line.starts_with("       ")), "{lines}");
        assert_eq!(lines.split_whitespace().skip(1).collect::<Vec<_>>(), text.split_whitespace().collect::<Vec<_>>());
        assert_eq!(wrapped("a ", ""), "a\n");
        let long = "x".repeat(100);
        assert_eq!(wrapped("a ", &format!("b {long} c")), format!("a b\n  {long}\n  c\n"));
    }

    #[test]
    fn what_is_too_long_is_cut_and_marked() {
        assert_eq!(
            [fit("abcdef", 6), fit("abcdef", 4), fit("äb", 2), fit("ab", 1), fit("ab", 0)],
            ["abcdef", "abc…", "äb", "…", ""]
        );
        // Letters of two columns are whole or not there.
        assert_eq!([fit("世界 世", 7), fit("世界 世", 6), fit("世界", 3), fit("世界", 1)], ["世界 世", "世界 …", "世…", "…"]);
    }

    #[test]
    fn control_characters_are_no_part_of_a_line() {
        assert_eq!([fit("\u{1b}[2J", 10), fit("\u{1b}[2J", 2), legible("a\nb\u{7}")], ["?[2J", "?…", "a?b?"]);
    }

    proptest! {
        #[test]
        fn a_text_fits_its_columns(text in "\\PC{0,20}", columns in 0..12_usize) {
            let cut = fit(&text, columns);
            prop_assert!(Span::raw(cut.as_str()).width() <= columns, "{cut:?}");
            prop_assert!(cut == text || columns == 0 || cut.ends_with(CUT), "{cut:?}");
        }
    }
}
