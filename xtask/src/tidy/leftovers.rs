//! Nothing in the files belongs to one machine, names where packages come from, or was left for later.

use super::finding::{Finding, Rule};
use super::lexer::is_word;
use super::tree::Tree;

const RULE: Rule = "leftovers";

// The words below are put together so that this file does not hold what it looks for.

/// Folders that exist on one machine only.
const FOLDERS: &[&str] = &[
    concat!("/", "home/"),
    concat!("/", "root/"),
    concat!("/", "Users/"),
    concat!("/", "work/"),
    concat!("/", "workspace/"),
    concat!("/", "mnt/"),
];

/// Addresses of package registries.
const REGISTRIES: &[&str] = &[
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("deb.debian", ".org"),
    concat!("registry.npmjs", ".org"),
    concat!("proxy.golang", ".org"),
    concat!("docker", ".io"),
    concat!("ghcr", ".io"),
];

/// Words that mark unfinished work.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for text in tree.texts.iter().filter(|text| !text.path.ends_with("Cargo.lock")) {
        for (index, line) in text.text.lines().enumerate() {
            for (what, remedy) in faults(line) {
                let (path, line, remedy) = (text.path.clone(), index + 1, remedy.to_owned());
                findings.push(Finding { path, line, rule: RULE, what, remedy });
            }
        }
    }
}

fn faults(line: &str) -> Vec<(String, &'static str)> {
    let folders = FOLDERS.iter().filter(|word| stands(line, word, leads_to_path, |_| false));
    let registries = REGISTRIES.iter().filter(|word| stands(line, word, |_| false, is_word));
    let unfinished = UNFINISHED.iter().filter(|word| stands(line, word, is_word, is_word));
    let folders = folders.map(|w| (format!("the folder {w}"), "use a relative or temporary path"));
    let registries = registries.map(|w| (format!("the address {w}"), "leave it to the tool"));
    let unfinished = unfinished.map(|w| (format!("the note {w}"), "do it or take it out"));
    folders.chain(registries).chain(unfinished).collect()
}

/// Whether `word` stands in `line` where neither the character before nor the one after makes it part of another word.
fn stands(line: &str, word: &str, before: fn(char) -> bool, after: fn(char) -> bool) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let end = at + word.len();
        !line[..at].ends_with(before) && !line[end..].starts_with(after)
    })
}

/// Whether a folder after `c` is the middle of a path and not the start of one.
fn leads_to_path(c: char) -> bool {
    is_word(c) || matches!(c, '.' | '-' | '~' | '}' | '*' | ')')
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn count(text: &str) -> usize {
        found(check, &[("a.md", text)]).len()
    }

    #[test]
    fn folders_of_one_machine_are_found() {
        assert_eq!(count(&format!("see {}me/a", FOLDERS[0])), 1);
        assert_eq!(count(&format!("open(\"{}a\")", FOLDERS[3])), 1);
        assert_eq!(count(&format!("src{0}a .{0}a $DIR}}{0}a", FOLDERS[3])), 0);
        assert_eq!(count("under /proc/self, /sys/fs and /tmp/a"), 0);
    }

    #[test]
    fn registries_are_found() {
        let expected = format!("a.md:2 the address {}", REGISTRIES[0]);
        assert_eq!(found(check, &[("a.md", &format!("a\nstatic.{}/b", REGISTRIES[0]))]), [expected]);
        assert_eq!(found(check, &[("bench/peers/Cargo.lock", REGISTRIES[0])]).len(), 0);
        assert_eq!(count(&format!("{}x", REGISTRIES[0])), 0);
    }

    #[test]
    fn unfinished_work_is_found() {
        for word in UNFINISHED {
            assert_eq!(count(&format!("// {word}: later")), 1);
        }
        assert_eq!(count(&format!("mktemp {0}{0} todo!()", UNFINISHED[2])), 0);
    }
}
