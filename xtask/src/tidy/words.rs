//! One word for one thing: the synonyms that the vocabulary rules out.

use super::finding::{Finding, Rule, allows};
use super::source::Source;
use super::tree::{Text, Tree};

const RULE: Rule = "words";

/// Ruled out in every identifier and in Markdown, and the word to use.
const EVERYWHERE: &[(&str, &str)] =
    &[("worker", "lane"), ("shard", "lane"), ("reactor", "lane"), ("mailbox", "channel"), ("backend", "driver")];

/// Ruled out in the names of types and public items, and the word to use.
const IN_NAMES: &[(&str, &str)] =
    &[("slot", "bucket"), ("tick", "turn"), ("iteration", "turn"), ("core", "lane"), ("buf", "lease")];

/// Uses that mean something else: a CPU's core, and the kernel's unit of time in proc(5).
const FINE: [&str; 2] = ["per_core", "ticks"];

/// Programs beside the workspace, which have no lanes.
const APART: &str = "bench/peers/";

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources.iter().filter(|source| !source.path.starts_with(APART)) {
        check_source(source, findings);
    }
    for text in tree.texts.iter().filter(|text| text.path.ends_with(".md")) {
        check_markdown(text, findings);
    }
}

fn check_source(source: &Source, findings: &mut Vec<Finding>) {
    for index in (0..source.tokens()).filter(|&index| source.is_identifier(index)) {
        let name = source.word(index);
        let line = source.line(index);
        let named = if is_declared(source, index) { IN_NAMES } else { &[] };
        for (word, better) in banned(name, EVERYWHERE).into_iter().chain(banned(name, named)) {
            if !source.noted(line, |comment| allows(comment, word)) {
                let what = format!("`{name}` says \"{word}\"");
                findings.push(source.finding(line, RULE, what, &remedy(better)));
            }
        }
    }
}

fn check_markdown(text: &Text, findings: &mut Vec<Finding>) {
    let mut above = "";
    for (index, line) in text.text.lines().enumerate() {
        for (word, better) in line_words(line) {
            if !allows(line, word) && !allows(above, word) {
                let (path, line) = (text.path.clone(), index + 1);
                let what = format!("the text says \"{word}\"");
                findings.push(Finding { path, line, rule: RULE, what, remedy: remedy(better) });
            }
        }
        above = line;
    }
}

fn remedy(better: &str) -> String {
    format!("the word is \"{better}\", or note `tidy: allow(word) reason`")
}

fn line_words(line: &str) -> Vec<(&'static str, &'static str)> {
    let names = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    names.flat_map(|name| banned(name, EVERYWHERE)).collect()
}

/// Which entries of `table` occur as words of `name`, in the singular or the plural.
fn banned(name: &str, table: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let mut name = split(name).join("_");
    for fine in FINE {
        name = name.replace(fine, "");
    }
    let words: Vec<&str> = name.split('_').collect();
    let hit = |(word, _): &&(&str, &str)| words.iter().any(|w| *w == *word || w.strip_suffix('s') == Some(word));
    table.iter().filter(hit).copied().collect()
}

/// The words of an identifier in lower case: `RingSlot_max` is ring, slot, max.
fn split(name: &str) -> Vec<String> {
    let chars: Vec<char> = name.chars().collect();
    let lower = |at: usize| chars.get(at).is_some_and(|c| c.is_lowercase());
    let mut spaced = String::new();
    for (index, c) in chars.iter().enumerate() {
        if c.is_uppercase() && (lower(index.wrapping_sub(1)) || lower(index + 1)) {
            spaced.push('_');
        }
        spaced.extend(c.to_lowercase());
    }
    spaced.split('_').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Whether the identifier at `index` is being declared as a type or as a public item or field.
fn is_declared(source: &Source, index: usize) -> bool {
    let before = |back: usize| index.checked_sub(back).map_or("", |at| source.word(at));
    match before(1) {
        "struct" | "enum" | "trait" | "type" => true,
        "pub" => source.word(index + 1) == ":",
        "fn" | "const" | "static" | "mod" | "mut" => is_public(source, index),
        _ => false,
    }
}

/// Whether `pub` and nothing but qualifiers stand before the identifier at `index`.
fn is_public(source: &Source, index: usize) -> bool {
    let qualifiers = ["fn", "const", "static", "mod", "mut", "async", "unsafe", "extern", "\""];
    let mut before = (0..index).rev().map(|at| source.word(at));
    before.find(|word| !qualifiers.contains(word)) == Some("pub")
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn rust(text: &str) -> Vec<String> {
        found(check, &[("crates/lane/src/a.rs", text)])
    }

    fn markdown(text: &str) -> usize {
        found(check, &[("README.md", text)]).len()
    }

    #[test]
    fn names_split_into_words() {
        assert_eq!(split("per_core"), ["per", "core"]);
        assert_eq!(split("IORingSlot"), ["io", "ring", "slot"]);
        assert_eq!(split("MAX_BUFS"), ["max", "bufs"]);
        assert_eq!(split("Corelane"), ["corelane"]);
    }

    #[test]
    fn synonyms_are_found_in_every_identifier() {
        let expected = ["crates/lane/src/a.rs:1 `next_worker` says \"worker\""];
        assert_eq!(rust("fn next_worker() {}"), expected);
        assert_eq!(rust("let a = Shards::new();").len(), 1);
        assert_eq!(rust("mod epoll_backend;").len(), 1);
    }

    #[test]
    fn some_words_are_ruled_out_in_names_only() {
        assert_eq!(rust("struct Slot;").len(), 1);
        assert_eq!(rust("pub const fn tick() {}").len(), 1);
        assert_eq!(rust("struct A { pub read_buf: u8 }").len(), 1);
        assert_eq!(rust("pub static mut CORES: u8 = 1;").len(), 1);
        assert_eq!(rust("pub extern \"C\" fn core() {}").len(), 1);
        let fine = "use core::mem; fn tick(buf: &mut [u8]) { let slot = BufReader::new(buf); }";
        assert!(rust(fine).is_empty());
        assert!(rust("pub(crate) fn slot() {}").is_empty());
    }

    #[test]
    fn other_names_are_fine() {
        assert!(rust("pub struct Ticket; pub fn per_core() {} pub struct Corelane;").is_empty());
        assert!(rust("pub const START_TICKS: u8 = 1; pub struct PerCore;").is_empty());
        assert!(rust("// a worker\nconst A: &str = \"backend\";").is_empty());
        assert!(found(check, &[("bench/peers/a.rs", "fn worker() {}")]).is_empty());
    }

    #[test]
    fn a_note_lets_a_line_pass() {
        assert!(rust("// tidy: allow(slot) the kernel's own name\nstruct Slot;").is_empty());
        assert_eq!(rust("// tidy: allow(slot)\nstruct Slot;").len(), 1);
    }

    #[test]
    fn markdown_is_read_as_text() {
        assert_eq!(markdown("Two workers and a `Reactor`."), 2);
        assert_eq!(markdown("A slot, a tick, network, hardworking."), 0);
        assert_eq!(markdown("<!-- tidy: allow(worker) nginx's word -->\nA worker."), 0);
    }
}
