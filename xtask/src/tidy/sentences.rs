//! Sentences of the texts: each begins with its subject, so none with Who, Whoever or What as a noun, and none has more than 25 words. Headings and code are no
//! sentences. The cell of a table has sentences too; a semicolon ends one there, because a cell has no room for a list. A paragraph or table below
//! `<!-- tidy: allow(length) REASON -->` may have longer ones.

use super::finding::{Finding, Rule, allows};
use super::tree::Tree;

const RULE: Rule = "sentences";
const WORDS_MAX: usize = 25;
const NOUNS: [&str; 3] = ["Who", "Whoever", "What"];
/// Each line of it is the heading of a page.
const CONTENTS: &str = "docs/SUMMARY.md";
/// Rows of figures with a word for each, as they stood in tables: nobody reads it from its beginning to its end.
const FIGURES: &str = "bench/results/NOTES.md";

/// Words up to a full stop, or to the end of a paragraph.
#[derive(Default)]
struct Sentence {
    /// The line on which it begins.
    line: usize,
    words: Vec<String>,
    /// A note lets it be as long as it is.
    is_noted: bool,
}

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for text in tree.texts.iter().filter(|text| text.path.ends_with(".md") && text.path != CONTENTS) {
        for sentence in sentences(&text.text) {
            let find = |(what, remedy): (String, &str)| {
                let (path, line, remedy) = (text.path.clone(), sentence.line, remedy.to_owned());
                Finding { path, line, rule: RULE, what, remedy }
            };
            findings.extend(sentence.noun().map(find));
            findings.extend(sentence.excess().filter(|_| text.path != FIGURES).map(find));
        }
    }
}

impl Sentence {
    fn noun(&self) -> Option<(String, &'static str)> {
        let first = self.words.first()?.trim_start_matches(|c: char| !c.is_alphanumeric());
        let first = first.split(|c: char| !c.is_alphanumeric()).next()?;
        let is_question = self.words.last()?.trim_end_matches(CLOSING).ends_with('?');
        let is_noun = NOUNS.contains(&first) && !is_question;
        is_noun.then(|| (format!("a sentence begins with \"{first}\""), "begin with what it speaks of"))
    }

    fn excess(&self) -> Option<(String, &'static str)> {
        let count = self.words.iter().filter(|word| word.contains(char::is_alphanumeric)).count();
        (count > WORDS_MAX && !self.is_noted).then(|| {
            (
                format!("a sentence has {count} words"),
                "say it in two, of 25 at the most, or note `tidy: allow(length) reason` above",
            )
        })
    }
}

/// What may stand between the end of a sentence and the next.
const CLOSING: [char; 4] = ['"', ')', '*', '_'];

fn sentences(text: &str) -> Vec<Sentence> {
    let (mut sentences, mut open, mut is_code, mut is_noted) = (Vec::new(), None, false, false);
    for (index, line) in text.lines().enumerate() {
        let inner = line.trim_start();
        is_code ^= inner.starts_with("```");
        if !is_code && inner.starts_with('|') {
            sentences.extend(open.take());
            add_row(&mut sentences, inner, index + 1, is_noted);
            continue;
        }
        if is_code || is_apart(line) {
            sentences.extend(open.take());
            is_noted = allows(line, "length");
            continue;
        }
        if let Some(item) = item(inner) {
            sentences.extend(open.take());
            add(&mut sentences, &mut open, item, index + 1, is_noted);
        } else {
            add(&mut sentences, &mut open, inner, index + 1, is_noted);
        }
    }
    sentences.extend(open);
    sentences
}

/// Adds the words of a line to the sentence that is open, and to those that begin in it.
fn add(sentences: &mut Vec<Sentence>, open: &mut Option<Sentence>, words: &str, line: usize, is_noted: bool) {
    for word in plain(words).split_whitespace() {
        let sentence = open.get_or_insert_with(|| Sentence { line, is_noted, ..Sentence::default() });
        sentence.words.push(word.to_owned());
        if word.trim_end_matches(CLOSING).ends_with(['.', '!', '?']) {
            sentences.extend(open.take());
        }
    }
}

/// Adds the sentences of a row's cells. A cell that is nothing but a link names a page, as a heading does.
fn add_row(sentences: &mut Vec<Sentence>, row: &str, line: usize, is_noted: bool) {
    for cell in cells(row).iter().map(|cell| cell.trim()) {
        let is_title = cell.starts_with('[') && cell.ends_with(')') && cell.matches("](").count() == 1;
        for part in plain(cell).split(';').filter(|_| !is_title) {
            let mut open = None;
            add(sentences, &mut open, part, line, is_noted);
            sentences.extend(open);
        }
    }
}

/// The cells of a row. A bar that is quoted as code, or behind a backslash, parts none.
fn cells(row: &str) -> Vec<String> {
    let (mut cells, mut is_code, mut is_escaped) = (vec![String::new()], false, false);
    for c in row.chars() {
        is_code ^= c == '`';
        match cells.last_mut() {
            Some(cell) if c != '|' || is_code || is_escaped => cell.push(c),
            _ => cells.push(String::new()),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    cells
}

/// Whether a line is none of a paragraph: empty, a heading, code, a picture, a comment.
fn is_apart(line: &str) -> bool {
    let inner = line.trim_start();
    inner.is_empty() || line.starts_with("    ") || ["#", "```", "![", "<!--"].iter().any(|start| inner.starts_with(start))
}

/// What a line says that begins an item of a list.
fn item(line: &str) -> Option<&str> {
    let after = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = after.strip_prefix(". ").filter(|_| after.len() < line.len());
    line.strip_prefix("* ").or(line.strip_prefix("- ")).or(numbered)
}

/// A line in which what is quoted as code is one word each, and a link is its words alone.
fn plain(line: &str) -> String {
    let pieces = line.split('`').enumerate().map(|(index, piece)| if index % 2 == 0 { piece } else { "code" });
    let (mut rest, mut plain) = (pieces.collect::<String>(), String::new());
    while let Some((before, after)) = rest.split_once("](") {
        plain.push_str(before);
        rest = after.split_once(')').map_or("", |(_, behind)| behind).to_owned();
    }
    plain + &rest
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn of(text: &str) -> Vec<String> {
        found(check, &[("docs/a.md", text)])
    }

    fn long(words: usize) -> String {
        "word ".repeat(words - 1) + "end."
    }

    #[test]
    fn a_sentence_has_twenty_five_words_at_most() {
        assert!(of(&format!("{} {}", long(25), long(25))).is_empty());
        assert_eq!(of(&format!("One.\n{}", long(26))), ["docs/a.md:2 a sentence has 26 words"]);
        assert_eq!(of(&long(26).replacen(' ', "\n", 13)).len(), 1, "lines of a paragraph are read together");
        assert!(of(&long(26).replacen(' ', "\n\n", 13)).is_empty(), "and no paragraphs");
        assert!(of(&format!("* {}\n* {}", "word ".repeat(20), "word ".repeat(20))).is_empty(), "nor items");
        assert!(of(&format!("1. {}\n2. {}", "word ".repeat(25), "word ".repeat(25))).is_empty());
    }

    #[test]
    fn code_and_links_are_a_word_or_their_words() {
        assert!(of(&format!("`{}` {}", long(9), long(24))).is_empty());
        assert!(of(&format!("[one](a/b c d) {}", long(24))).is_empty());
        assert_eq!(of(&format!("[one two](a.md) – `three` {}", long(23))).len(), 1);
    }

    #[test]
    fn headings_and_code_are_no_sentences() {
        for apart in ["# What", "    What", "![What](a.svg)", "<!-- What -->", "```text\nWhat it is.\n```"] {
            assert!(of(&format!("{apart}\n")).is_empty(), "{apart}");
        }
        assert_eq!(of("```text\n```\nWhat it is.").len(), 1, "code ends");
        assert_eq!(of("One\n# two\nWhat it is.").len(), 1, "a heading ends a sentence");
    }

    #[test]
    fn a_cell_has_sentences() {
        let row = |cell: &str| format!("| name | {cell} |\n| --- | --- |\n");
        assert_eq!(of(&row(&long(26))), ["docs/a.md:1 a sentence has 26 words"]);
        assert!(of(&row(&format!("{}; {}", "word ".repeat(25), long(25)))).is_empty(), "a semicolon ends one");
        assert!(of(&format!("|{}|{}|", "word ".repeat(20), "word ".repeat(20))).is_empty(), "and so does a bar");
        assert_eq!(of(&row("`a | b` What it is")).len(), 0, "code is a word, and a bar in it is none");
        assert_eq!(of(&row("a \\| b. What it is")).len(), 1);
        assert_eq!(of(&format!("One\n{}", row("What it is"))), ["docs/a.md:2 a sentence begins with \"What\""]);
        assert!(of(&row("[What is it](a.md)")).is_empty(), "a link alone names a page");
        assert_eq!(of(&row("[What it is](a.md) says it")).len(), 1);
        let noted = format!("<!-- tidy: allow(length) a list -->\n{}", row(&long(26)).repeat(2));
        assert!(of(&noted).is_empty());
        assert_eq!(of(&format!("{noted}\n{}", row(&long(26)))).len(), 1, "the next table has no note");
    }

    #[test]
    fn a_sentence_begins_with_its_subject() {
        assert_eq!(of("One. What it is."), ["docs/a.md:1 a sentence begins with \"What\""]);
        for opener in
            ["**Who is it** has it.", "* Whoever is it has it.", "[What](a.md) says it.", "(What) is it.", "2. What is it."]
        {
            assert_eq!(of(opener).len(), 1, "{opener}");
        }
        for fine in ["What is it?", "(What is it?)", "Whose is it.", "Whatever it is.", "One, who is it.", "`What` is it."] {
            assert!(of(fine).is_empty(), "{fine}");
        }
    }

    #[test]
    fn a_note_lets_a_paragraph_be_long() {
        let noted = format!("<!-- tidy: allow(length) a list -->\n{}\n\n", long(30));
        assert!(of(&noted).is_empty());
        assert_eq!(of(&format!("{noted}{}", long(30))).len(), 1, "and no other");
        assert_eq!(of(&noted.replace("a list ", "")).len(), 1, "by its reason");
        assert_eq!(of(&noted.replace("word word", "What word")).len(), 1, "but not begin as it likes");
    }

    #[test]
    fn contents_have_headings_and_figures_have_rows() {
        assert!(found(check, &[(CONTENTS, "- [What is it](a.md)"), (FIGURES, &long(26)), ("a.txt", &long(26))]).is_empty());
        assert_eq!(found(check, &[(FIGURES, "What it is.")]).len(), 1);
    }
}
