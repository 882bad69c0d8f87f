//! Calls that hide a failure or a wait: each needs its reason beside it. Those that clippy finds are in the workspace's lints.

use super::finding::{Finding, Rule};
use super::source::Source;
use super::tree::Tree;

const RULE: Rule = "habits";

/// Where a call is looked for.
#[derive(PartialEq)]
enum Scope {
    Product,
    Tests,
    Everywhere,
}

/// A run of tokens that is ruled out.
struct Habit {
    tokens: &'static [&'static str],
    scope: Scope,
    /// Whether a `// reason:` on the line or right above it lets the call pass.
    with_reason: bool,
    remedy: &'static str,
}

const HANDLE: &str = "return an error, or give the invariant as `// reason: ...`";

const HABITS: &[Habit] = &[
    Habit { tokens: &[".", "unwrap", "(", ")"], scope: Scope::Product, with_reason: true, remedy: HANDLE },
    Habit { tokens: &[".", "expect", "("], scope: Scope::Product, with_reason: true, remedy: HANDLE },
    // Clippy sees what is ignored where it is built, and not what is elsewhere.
    Habit {
        tokens: &[",", "ignore", ")", "]"],
        scope: Scope::Everywhere,
        with_reason: false,
        remedy: "write `ignore = \"reason\"`",
    },
    Habit {
        tokens: &["thread", "::", "sleep"],
        scope: Scope::Tests,
        with_reason: true,
        remedy: "wait for the event, or give the `// reason: ...`",
    },
];

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in &tree.sources {
        for index in 0..source.tokens() {
            for habit in HABITS.iter().filter(|habit| source.has(index, habit.tokens)) {
                findings.extend(fault(source, index, habit));
            }
        }
    }
}

fn fault(source: &Source, index: usize, habit: &Habit) -> Option<Finding> {
    let line = source.line(index + habit.tokens.len() - 1);
    let here = match habit.scope {
        Scope::Product => !source.in_test(line) && !in_bench(source),
        Scope::Tests => source.in_test(line),
        Scope::Everywhere => true,
    };
    let excused = habit.with_reason && source.noted(line, has_reason);
    let what = format!("`{}`", habit.tokens.concat());
    (here && !excused).then(|| source.finding(line, RULE, what, habit.remedy))
}

fn in_bench(source: &Source) -> bool {
    source.path.contains("/benches/")
}

fn has_reason(comment: &str) -> bool {
    comment.split_once("reason: ").is_some_and(|(_, reason)| !reason.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        found(check, &[("crates/svc/src/a.rs", text)])
    }

    #[test]
    fn hidden_failures_are_found() {
        assert_eq!(faults("fn f() {\n    a.unwrap();\n}"), ["crates/svc/src/a.rs:2 `.unwrap()`"]);
        assert_eq!(faults("let a = b\n    .expect(\"it\");"), ["crates/svc/src/a.rs:2 `.expect(`"]);
    }

    #[test]
    fn a_reason_stands_beside_or_above() {
        assert!(faults("// reason: set in new\nlet a = b.unwrap();").is_empty());
        assert!(faults("let a = b.expect(\"set\"); // reason: set in new").is_empty());
        assert_eq!(faults("// reason: \nlet a = b.unwrap();").len(), 1);
        assert_eq!(faults("// reason: set in new\nlet a = 1;\nlet a = b.unwrap();").len(), 1);
    }

    #[test]
    fn tests_may_unwrap_but_not_sleep() {
        let test = |body: &str| format!("#[cfg(test)]\nmod tests {{ fn f() {{ {body} }} }}");
        assert!(faults(&test("a.unwrap();")).is_empty());
        assert_eq!(faults(&test("std::thread::sleep(d);")).len(), 1);
        assert!(faults(&test("\n// reason: the peer must idle\nthread::sleep(d);\n")).is_empty());
        assert!(faults("fn f() { thread::sleep(d); }").is_empty());
    }

    #[test]
    fn an_ignored_test_says_why() {
        assert_eq!(faults("#[test]\n#[cfg_attr(miri, ignore)]\nfn f() {}").len(), 1);
        assert!(faults("#[test]\n#[ignore = \"needs a NIC\"]\nfn f() {}").is_empty());
    }

    #[test]
    fn other_calls_are_fine() {
        assert!(faults("a.unwrap_or(1); b.unwrap_or_default(); // c.unwrap()").is_empty());
        assert!(faults("const A: &str = \"a.unwrap()\";").is_empty());
        assert!(found(check, &[("crates/svc/benches/a.rs", "a.unwrap();")]).is_empty());
    }
}
