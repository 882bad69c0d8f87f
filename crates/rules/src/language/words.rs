//! A line as words, each with its column.

use crate::error::{Error, Place};

/// Characters of one line at the most: a list of addresses that is longer belongs into a table.
pub const LINE_CHARACTERS_MAX: usize = 4_096;

/// What begins a comment.
pub const COMMENT: &str = "//";

/// A word and the column where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub text: String,
    pub column: usize,
}

/// The words of a text that stands from `column` on. Braces are words of their own, and a list goes on behind a comma at a word's end; in a comment
/// neither is so.
pub fn split(text: &str, column: usize, words: &mut Vec<Word>) {
    let mut current = Word { text: String::new(), column };
    let mut is_comment = words.iter().any(|word| word.text.starts_with(COMMENT));
    for (at, c) in text.chars().enumerate() {
        // Right behind a word, a brace is a part of it.
        let is_part = current.text.contains('{') || c == '{' && !current.text.is_empty();
        let is_brace = !is_comment && !is_part && matches!(c, '{' | '}');
        if c.is_whitespace() || is_brace {
            is_comment |= finish(&mut current, words, is_comment);
        }
        if is_brace {
            words.push(Word { text: c.to_string(), column: column + at });
        } else if !c.is_whitespace() {
            if current.text.is_empty() {
                current.column = column + at;
            }
            current.text.push(c);
        }
    }
    finish(&mut current, words, is_comment);
}

/// Puts a word behind the others, and says whether a comment begins with it.
fn finish(current: &mut Word, words: &mut Vec<Word>, is_comment: bool) -> bool {
    let word = Word { text: std::mem::take(&mut current.text), column: current.column };
    let begins = word.text.starts_with(COMMENT);
    match words.last_mut() {
        Some(last) if !is_comment && !begins && last.text.ends_with(',') => last.text.push_str(&word.text),
        _ if word.text.is_empty() => {}
        _ => words.push(word),
    }
    begins
}

/// Where a parser stands among the words of a line.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    line: usize,
    words: &'a [Word],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(line: usize, words: &'a [Word]) -> Self {
        Self { line, words, at: 0 }
    }

    /// The next word, if there is one.
    pub fn peek(&self) -> Option<&'a str> {
        self.ahead(0)
    }

    /// The word so many behind the next.
    pub fn ahead(&self, count: usize) -> Option<&'a str> {
        self.words.get(self.at + count).map(|word| word.text.as_str())
    }

    /// Takes the next word if it is this one.
    pub fn take(&mut self, word: &str) -> bool {
        let is = self.peek() == Some(word);
        self.at += usize::from(is);
        is
    }

    /// Takes the next word, which must be there.
    pub fn word(&mut self, what: &str) -> Result<&'a str, Error> {
        let Some(word) = self.peek() else {
            return Err(self.fault("the line ends too early".to_owned(), format!("write {what}")));
        };
        self.at += 1;
        Ok(word)
    }

    /// Takes this word, which must be there.
    pub fn require(&mut self, word: &str) -> Result<(), Error> {
        if self.take(word) {
            return Ok(());
        }
        let found = self.peek().map_or("the end of the line".to_owned(), |found| format!("\"{found}\""));
        Err(self.fault(format!("{found} stands where \"{word}\" must"), format!("write \"{word}\"")))
    }

    /// All words that are left, with a blank between them.
    pub fn rest(&mut self) -> String {
        let rest: Vec<&str> = self.words[self.at..].iter().map(|word| word.text.as_str()).collect();
        self.at = self.words.len();
        rest.join(" ")
    }

    /// A fault at the next word.
    pub fn fault(&self, what: impl Into<String>, remedy: impl Into<String>) -> Error {
        self.fault_at(self.at, what.into(), remedy.into())
    }

    /// A fault at the word that was taken last.
    pub fn fault_before(&self, what: impl Into<String>, remedy: impl Into<String>) -> Error {
        self.fault_at(self.at.saturating_sub(1), what.into(), remedy.into())
    }

    fn fault_at(&self, at: usize, what: String, remedy: String) -> Error {
        let behind = self.words.last().map_or(1, |word| word.column + word.text.chars().count());
        let column = self.words.get(at).map_or(behind, |word| word.column);
        Error::Syntax { place: Place { line: self.line, column }, what, remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<(String, usize)> {
        let mut words = Vec::new();
        split(line, 1, &mut words);
        words.into_iter().map(|word| (word.text, word.column)).collect()
    }

    #[test]
    fn words_have_columns_and_braces_stand_alone() {
        let expected = [("a", 1), ("{", 4), ("b", 5), ("or", 7), ("c", 10), ("}", 11)];
        assert_eq!(texts("a  {b or c}"), expected.map(|(text, column)| (text.to_owned(), column)));
    }

    #[test]
    fn lists_go_on_behind_a_comma_and_comments_are_left_alone() {
        assert_eq!(texts("a, b,c x")[0], ("a,b,c".to_owned(), 1));
        let comment: Vec<String> = texts("x // {a, b").into_iter().map(|(text, _)| text).collect();
        assert_eq!(comment, ["x", "//", "{a,", "b"]);
    }
}
