//! What the program's files leave to some of them: who writes on standard output and standard error, and who knows a workload by its name.

use super::finding::{Finding, Rule};
use super::imports::imported;
use super::source::Source;
use super::tree::Tree;

const RULE: Rule = "program";

/// Where the rule holds.
const PROGRAM: &str = "cli/commands/src/";

/// What is written on a stream that may be closed.
struct Stream {
    tokens: &'static [&'static str],
    /// Files that have it all the same, each with its reason.
    may: &'static [(&'static str, &'static str)],
}

const WRITERS: &[(&str, &str)] = &[("cli/commands/src/print.rs", "it is what all others use")];

const STREAMS: &[Stream] = &[
    Stream { tokens: &["println", "!"], may: &[] },
    Stream { tokens: &["print", "!"], may: &[] },
    Stream { tokens: &["eprintln", "!"], may: &[] },
    Stream { tokens: &["eprint", "!"], may: &[] },
    Stream { tokens: &["stdout", "("], may: WRITERS },
    Stream {
        tokens: &["stderr", "("],
        may: &[WRITERS[0], ("cli/commands/src/terminal.rs", "a whole terminal is drawn, whose mode is asked for and given back")],
    },
];

const PRINT: &str =
    "use `print`, `print_some` or `note` of cli/commands/src/print.rs: the macros panic where the reader has gone away";

/// Who names workloads: a style is the face of a program that spoke one protocol.
const STYLES: &str = "cli/commands/src/load/styles/";

/// What leads to a workload, before its name.
const WORKLOADS: &str = "corelane_load::workloads::";

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for source in tree.sources.iter().filter(|source| source.path.starts_with(PROGRAM)) {
        for (line, what, remedy) in [written(source), named(source)].concat() {
            if !source.in_test(line) {
                findings.push(source.finding(line, RULE, what, remedy));
            }
        }
    }
}

type Fault = (usize, String, &'static str);

fn written(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    for index in 0..source.tokens() {
        let meant =
            |stream: &&Stream| source.has(index, stream.tokens) && stream.may.iter().all(|(file, _)| source.path != *file);
        faults.extend(
            STREAMS.iter().find(meant).map(|stream| (source.line(index), format!("`{}`", stream.tokens.concat()), PRINT)),
        );
    }
    faults
}

/// Modules of workloads that are imported.
fn named(source: &Source) -> Vec<Fault> {
    if source.path.starts_with(STYLES) {
        return Vec::new();
    }
    let uses = (0..source.tokens()).filter(|&index| source.word(index) == "use");
    let paths = uses.flat_map(|index| imported(source, index + 1));
    let module = |path: &str| {
        let name = path.strip_prefix(WORKLOADS)?.split("::").next()?;
        name.starts_with(|c: char| c.is_ascii_lowercase()).then(|| name.to_owned())
    };
    let fault = |(at, path): (usize, String)| {
        Some((
            source.line(at),
            format!("the workload `{}`", module(&path)?),
            "take what is wanted from the entries: workloads::ALL",
        ))
    };
    paths.filter_map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn faults(path: &str, text: &str) -> Vec<String> {
        found(check, &[(path, text)])
    }

    #[test]
    fn what_panics_at_a_closed_pipe_is_found() {
        for text in ["eprintln!(\"a\");", "println!();", "print!(\"a\");", "eprint!(\"a\");", "io::stdout().lock();", "stderr()"]
        {
            assert_eq!(faults("cli/commands/src/stat.rs", text).len(), 1, "{text}");
            assert!(faults("cli/tests/stat.rs", text).is_empty() && faults("xtask/src/a.rs", text).is_empty(), "{text}");
        }
        assert!(faults("cli/commands/src/print.rs", "stdout().lock(); stderr().lock();").is_empty());
        assert_eq!(faults("cli/commands/src/print.rs", "eprintln!();"), ["cli/commands/src/print.rs:1 `eprintln!`"]);
        assert!(faults("cli/commands/src/stat.rs", "print(lines); note(words); with_writer(stderr);").is_empty());
    }

    #[test]
    fn only_styles_name_workloads() {
        for text in ["use corelane_load::workloads::{self, http};", "use corelane_load::{plan, workloads::rpc::ENTRY};"] {
            assert_eq!(faults("cli/commands/src/load/options.rs", text).len(), 1, "{text}");
            assert!(faults("cli/commands/src/load/styles/one.rs", text).is_empty(), "{text}");
        }
        assert!(faults("cli/commands/src/load.rs", "use corelane_load::workloads::{self, WorkloadEntry};").is_empty());
    }
}
