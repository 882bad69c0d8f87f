//! Which functions of ours, in which files, a request passes: those that a run with more requests has called more often, by callgrind's profile.
//!
//! What the compiler has inlined is no function here, so the table shows calls as they are made.

use std::collections::BTreeMap;

/// How often each function was called, by its file and its name.
pub type Calls = BTreeMap<(String, String), u64>;

/// Folders of this project, at which the path of a file begins, the first ones first.
const OURS: [&str; 4] = ["crates/", "services/", "cli/", "load/"];

/// Reads a profile as callgrind writes it (Callgrind Format Specification, version 1): names stand in full once, and as their number from then on.
pub fn read(profile: &str) -> Calls {
    let (mut files, mut functions) = (Names::default(), Names::default());
    let (mut file, mut called, mut homes, mut calls) = (String::new(), String::new(), BTreeMap::new(), BTreeMap::new());
    for line in profile.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        match key {
            "fl" => file = files.name(value),
            "fi" | "fe" | "cfi" | "cfl" => drop(files.name(value)),
            "fn" => drop(homes.insert(functions.name(value), file.clone())),
            "cfn" => called = functions.name(value),
            "calls" => {
                let times = value.split(' ').next().and_then(|times| times.parse().ok()).unwrap_or(0);
                *calls.entry(called.clone()).or_insert(0u64) += times;
            }
            _ => {}
        }
    }
    calls.into_iter().filter_map(|(name, times)| Some(((ours(homes.get(&name)?)?, name), times))).collect()
}

/// Names that were given numbers.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    /// The name that is written `(number) name`, or `(number)` once it was.
    fn name(&mut self, written: &str) -> String {
        let Some((number, name)) = written.split_once(')') else { return written.to_owned() };
        let name = name.trim_start();
        if name.is_empty() {
            return self.0.get(number).cloned().unwrap_or_default();
        }
        self.0.insert(number.to_owned(), name.to_owned());
        name.to_owned()
    }
}

/// A file of this project, as its path in it.
fn ours(file: &str) -> Option<String> {
    let at = |folder: &&str| file.rfind(*folder).filter(|&at| at == 0 || file[..at].ends_with('/'));
    OURS.iter().find_map(at).map(|at| file[at..].to_owned())
}

/// The functions that were called for at least every second request of those that the longer run has more, a line a file.
pub fn table(few: &Calls, many: &Calls, requests: u64) -> String {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for ((file, function), times) in many {
        let before = few.get(&(file.clone(), function.clone())).copied().unwrap_or(0);
        if 2 * (times - before.min(*times)) >= requests {
            files.entry(file).or_default().push(short(function));
        }
    }
    let functions: usize = files.values().map(Vec::len).sum();
    let mut lines: Vec<String> = files.iter().map(|(file, functions)| format!("{file}: {}", functions.join(", "))).collect();
    lines.push(format!("{functions} functions in {} files\n", files.len()));
    lines.join("\n")
}

/// A function's name without what its path and its types say.
fn short(function: &str) -> &str {
    function.rsplit("::").next().unwrap_or(function)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: &str = "events: Ir\nfl=(1) /of/crates/a/src/one.rs\nfn=(1) a::One<T>::first\n3 10\ncfi=(2) crates/b/src/two.rs\ncfn=(2) b::second\ncalls=10 7\n3 90\n\
                       fl=(2)\nfn=(2)\n7 90\ncfn=(3) memcpy\ncalls=10 0\n7 9\nfl=(3) /libc.so\nfn=(3)\n0 9\n";

    #[test]
    fn a_function_is_called_in_its_own_file() {
        let calls = read(FEW);
        let second = ("crates/b/src/two.rs".to_owned(), "b::second".to_owned());
        assert_eq!(calls.into_iter().collect::<Vec<_>>(), [(second, 10)], "others are not ours, or are called by nobody");
    }

    #[test]
    fn what_each_request_calls_is_on_its_path() {
        let many = FEW.replace("calls=10 7", "calls=30 7");
        let at = |requests| table(&read(FEW), &read(&many), requests);
        assert_eq!(at(20), "crates/b/src/two.rs: second\n1 functions in 1 files\n");
        assert_eq!(at(41), "0 functions in 0 files\n", "not for every second one");
    }

    #[test]
    fn a_file_of_another_is_none_of_ours() {
        assert_eq!(ours("/of/registry/x/src/lib.rs"), None);
        assert_eq!(ours("/of/services/echo/src/lib.rs").as_deref(), Some("services/echo/src/lib.rs"));
        assert_eq!(ours("crates/svc/src/table.rs").as_deref(), Some("crates/svc/src/table.rs"));
    }
}
