//! Lines of at most 80 characters.

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

/// At most `width` characters of a text, the last two of which are dots if more are left out.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        text.to_owned()
    } else {
        text.chars().take(width.saturating_sub(2)).chain("..".chars()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_too_long_is_cut() {
        assert_eq!((cut("abcdef", 6), cut("abcdef", 5)), ("abcdef".to_owned(), "abc..".to_owned()));
    }
}
