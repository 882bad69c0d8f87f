//! Every promise of the page on drains names tests, and those are there.

use std::path::Path;

/// The words of a text that stand between back ticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn is_test(word: &str) -> bool {
    word.contains('_') && word.chars().filter(|&letter| letter == '_').count() > 2
}

#[test]
fn each_promise_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/drain.md")).unwrap();
    let (mut promises, mut tests) = (0, 0);
    for promise in page.split("\n* ").skip(1) {
        let promise = promise.split("\n\n").next().unwrap();
        let (mut file, mut named) = (String::new(), 0);
        for word in quoted(promise) {
            match word {
                path if path.ends_with(".rs") => file = std::fs::read_to_string(root.join(path)).expect(path),
                name if is_test(name) => {
                    assert!(
                        file.contains(&format!("fn {name}(")),
                        "{name} is not in the file that is named before it: {promise}"
                    );
                    named += 1;
                }
                _ => {}
            }
        }
        assert!(named > 0, "no test holds this: {promise}");
        (promises, tests) = (promises + 1, tests + named);
    }
    assert!(promises >= 15 && tests > promises, "{promises} promises and {tests} tests: the page is not read as it is written");
}
