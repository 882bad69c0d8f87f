//! Each test that the table of rules names, sentence by sentence, is where the table says.

use super::finding::{Finding, Rule};
use super::tree::Tree;

const RULE: Rule = "held";

/// The page whose tables say which test holds a rule.
const PAGE: &str = "docs/packet-rules.md";
/// How it names folders of tests, and where they are.
const FOLDERS: [(&str, &str); 3] =
    [("simulated/", "crates/stack/tests/simulated/"), ("isr/", "crates/isr/tests/reassembly/"), ("src/", "crates/stack/src/")];
/// Underscores of a test's name, at the least: it is a sentence, where a counter is a word or two.
const UNDERSCORES: usize = 3;

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let rows = tree.text(PAGE).lines().enumerate().filter(|(_, line)| line.starts_with('|'));
    for (index, row) in rows {
        let mut file = None;
        // What stands between backticks: a file, and then tests in it.
        for word in row.split('`').skip(1).step_by(2) {
            if let Some(path) = path_of(word) {
                file = Some(path);
            } else if !is_test(word) {
                continue;
            }
            let fault = match &file {
                Some(path) if tree.text(path).is_empty() => format!("there is no file {path}"),
                Some(path) if is_test(word) && !tree.text(path).contains(&format!("fn {word}(")) => {
                    format!("there is no test {word} in {path}")
                }
                Some(_) => continue,
                None => format!("no file is named in front of the test {word}"),
            };
            let (path, remedy) = (PAGE.to_owned(), "name the test that holds this, and its file".to_owned());
            findings.push(Finding { path, line: index + 1, rule: RULE, what: fault, remedy });
        }
    }
}

/// The file that a word of the page names, if it names one.
fn path_of(word: &str) -> Option<String> {
    let folder = FOLDERS.iter().find_map(|(short, folder)| Some((folder, word.strip_prefix(short)?)));
    match folder {
        Some((folder, name)) => Some(format!("{folder}{name}.rs")),
        None => Some(word.to_owned()).filter(|word| word.contains('/') && word.ends_with(".rs")),
    }
}

fn is_test(word: &str) -> bool {
    let is_name = word.chars().all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit());
    is_name && word.matches('_').count() >= UNDERSCORES
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    /// What is found in a page of that row, beside a file with one test.
    fn faults(row: &str) -> Vec<String> {
        let file = ("crates/stack/tests/simulated/link.rs", "#[test]\nfn what_is_asked_is_answered() {}\n");
        found(check, &[(PAGE, &format!("`simulated/X` is a file\n| 7.1 | asked | {row} |\n")), file])
    }

    #[test]
    fn a_test_that_is_not_there_is_found() {
        let fault = |what: &str| vec![format!("{PAGE}:2 {what}")];
        assert!(faults("`simulated/link` `what_is_asked_is_answered`, counted (`frames_dropped`)").is_empty());
        assert!(faults("not done: nobody asks").is_empty());
        let link = "crates/stack/tests/simulated/link.rs";
        assert_eq!(
            faults("`simulated/link` `what_is_asked_is_heard`"),
            fault(&format!("there is no test what_is_asked_is_heard in {link}"))
        );
        let absent = fault("there is no file crates/stack/src/link.rs");
        assert_eq!(faults("they are written so (`src/link`)"), absent);
        assert_eq!(faults("`crates/stack/src/link.rs`"), absent);
        assert_eq!(
            faults("`what_is_asked_is_answered`"),
            fault("no file is named in front of the test what_is_asked_is_answered")
        );
        let second = format!("`{link}` `what_is_asked_is_answered`, `what_is_asked_is_answered_twice`");
        assert_eq!(faults(&second).len(), 1);
    }
}
