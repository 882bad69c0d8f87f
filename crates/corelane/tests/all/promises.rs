//! Pages of promises: each promise has a number, and at the end of the page a row with that number names the tests that hold it, which are there.

use std::path::Path;

const PAGES: [&str; 3] = ["drain", "take-over", "supervision"];

/// The words of a text that stand between back ticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The number with which a promise begins.
fn number_of(line: &str) -> Option<usize> {
    line.split_once(". ")?.0.parse().ok()
}

/// The number of a row of tests, and what else is in it.
fn row_of(line: &str) -> Option<(usize, &str)> {
    let (number, tests) = line.strip_prefix("| ")?.split_once(" | ")?;
    Some((number.parse().ok()?, tests))
}

/// Asserts that every test of a row is in the file that is named before it, and that there is one.
fn assert_there(root: &Path, tests: &str) {
    let (mut file, mut named) = (String::new(), 0);
    for word in quoted(tests) {
        match word {
            path if path.ends_with(".rs") => file = std::fs::read_to_string(root.join(path)).expect(path),
            name => {
                assert!(file.contains(&format!("fn {name}(")), "{name} is not in the file that is named before it: {tests}");
                named += 1;
            }
        }
    }
    assert!(named > 0, "no test holds this: {tests}");
}

#[test]
fn each_promise_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for name in PAGES {
        let page = std::fs::read_to_string(root.join(format!("docs/{name}.md"))).unwrap();
        let (promises, rows) = page.split_once("\n## Tests\n").expect(name);
        let promises: Vec<usize> = promises.lines().filter_map(number_of).collect();
        let rows: Vec<(usize, &str)> = rows.lines().filter_map(row_of).collect();
        assert!(promises.len() > 10 && promises == (1..=promises.len()).collect::<Vec<_>>(), "{name}: {promises:?}");
        assert_eq!(rows.iter().map(|(number, _)| *number).collect::<Vec<_>>(), promises, "{name}: the rows of its tests");
        rows.into_iter().for_each(|(_, tests)| assert_there(&root, tests));
    }
}
