//! Every sentence of the page on the RFCs names tests, and those are there.

use std::path::Path;

/// The words of a text that stand between back ticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What the table of streams has rows for: `9112 3.2`.
fn has_rows(table: &str, rfc: &str, section: &str) -> bool {
    table.lines().any(|line| line.split('\t').next() == Some(&format!("{rfc} {section}")))
}

#[test]
fn each_sentence_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect(path);
    let (page, table) = (read("docs/http-rules.md"), read("crates/wire/tests/data/http1-heads.tsv"));
    let (mut rfc, mut is_held, mut sentences) = ("", false, 0);
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("## RFC ") {
            rfc = &title[..4];
        }
        is_held = if line.starts_with("| section") { line.contains("held by") } else { is_held };
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [section, asked, held] = cells[..] else { continue };
        if !is_held || section == "section" || section == "---" {
            continue;
        }
        let (mut file, mut named) = (String::new(), 0);
        for word in quoted(held) {
            if word.ends_with(".rs") {
                file = read(word);
                continue;
            }
            assert!(file.contains(&format!("fn {word}(")), "{word} is not in the file that is named before it: {asked}");
            named += 1;
        }
        if held.starts_with("the table") {
            let at = held.split(',').next().unwrap().rsplit_once(" at ").map_or(section, |(_, at)| at);
            assert!(has_rows(&table, rfc, at), "the table has no rows for {rfc} {at}: {asked}");
            named += 1;
        }
        assert!(named > 0, "no test holds this: {asked}");
        sentences += 1;
    }
    assert!(sentences > 80, "{sentences} sentences: the page is not read as it is written");
}
