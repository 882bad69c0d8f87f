//! The table of sections: what runs, in which order, and for how long at most.

use std::time::{Duration, Instant};

/// For how long all sections together may run. CI ends its run after 40 minutes, and builds this program first.
pub const WHOLE: Duration = Duration::from_secs(36 * 60);

/// One section of the run.
pub struct Section {
    /// Name, for `--only` and the report.
    pub name: &'static str,
    /// Its share in seconds. It may take more, as far as those behind it keep half of theirs ([`ends`]); what has not ended by then is killed and fails.
    pub seconds: u64,
    /// What it does.
    pub work: Work,
}

/// Arguments of cargo.
type Arguments = &'static [&'static str];
/// Environment variables and their values. Paths are relative to the root.
type Variables = &'static [(&'static str, &'static str)];

/// What a section does.
pub enum Work {
    /// The house rules.
    Tidy,
    /// Whether rustdoc finds a fault in any document, and whether the facade shows whatever its signatures name.
    Documents,
    /// Whether the facade builds with each of its features alone, and with none.
    Features,
    /// A cargo command that passes or fails as one.
    Check(Arguments, Variables),
    /// A cargo command that runs tests.
    Counted(Arguments, Variables),
    /// Builds all test programs.
    Build,
    /// Lints what the build has not linted.
    Lint,
    /// Runs the examples in documents.
    Examples,
    /// Runs the test programs of the crates in these folders; `/*` stands for every folder inside.
    Programs(&'static [&'static str]),
}

/// The check of a workspace of its own, by its manifest. Nothing is built: it takes no other toolchain, and no linking of what is large.
macro_rules! checked {
    ($manifest:literal) => {
        ["clippy", "--locked", "--all-targets", "--manifest-path", $manifest, "--", "-D", "warnings"]
    };
}

/// What is checked beside this workspace, with results of its own.
const fn apart(arguments: Arguments) -> Work {
    // libfuzzer-sys would compile a fuzzer, in C++, for programs that are not linked here: it is told of one that is never looked at.
    Work::Check(arguments, &[("CARGO_TARGET_DIR", "target/beside"), ("CUSTOM_LIBFUZZER_PATH", "target/beside/never-linked.a")])
}

/// What reads the sources and needs nothing of the build: it runs beside that.
pub const READING: &[Section] = &[
    Section { name: "format", seconds: 40, work: Work::Check(&["fmt", "--all", "--check"], &[]) },
    Section { name: "tidy", seconds: 80, work: Work::Tidy },
];

/// The build, and the test programs that need the machine, in the order in which they run.
pub const SECTIONS: &[Section] = &[
    Section { name: "build", seconds: 600, work: Work::Build },
    Section {
        name: "drivers",
        seconds: 250,
        work: Work::Programs(&[
            "crates/os",
            "crates/channel",
            "crates/event",
            "crates/kevent",
            "crates/kqueue",
            "crates/machine",
            "crates/unwind",
            "crates/confine",
            "crates/select",
            "crates/drivers",
            "crates/xdp",
            "crates/watch",
            "crates/steer",
        ]),
    },
    Section {
        name: "services",
        seconds: 450,
        work: Work::Programs(&[
            "crates/corelane",
            "crates/hyper",
            "crates/metrics",
            "crates/proxied",
            "crates/tls",
            "services/all",
            "services/echo",
            "services/gateway",
            "services/http",
            "services/proxy",
            "services/push",
        ]),
    },
    Section { name: "program", seconds: 600, work: Work::Programs(&["cli", "cli/commands"]) },
];

/// Test programs that only compute: no socket, no address and no time of this machine is in them. So they run beside the others, which mostly wait.
pub const COMPUTING: &[Section] = &[
    Section {
        name: "pure",
        seconds: 300,
        work: Work::Programs(&[
            "crates/rss",
            "crates/wire",
            "crates/seam",
            "crates/bridge",
            "crates/isr",
            "crates/rules",
            "crates/prefixes",
            "crates/nat",
            "crates/graphs",
            "crates/testkit",
            "xtask",
            "bench",
        ]),
    },
    Section {
        name: "simulation",
        seconds: 620,
        work: Work::Programs(&["crates/sim", "crates/lane", "crates/stack", "crates/svc", "crates/testing", "crates/upstreams"]),
    },
    Section { name: "simulated", seconds: 380, work: Work::Programs(&["load", "services/rpc"]) },
];

/// What runs beside all test programs, on what CPU time these leave. The shares are the most that it took beside them on two CPUs, from nothing built: while programs run it
/// has next to nothing of the CPUs, and is not ended for that.
pub const BESIDE: &[Section] = &[
    Section {
        name: "clippy",
        seconds: 60, // where the build has not linted; what it leaves is theirs who follow
        work: Work::Lint,
    },
    Section { name: "examples", seconds: 120, work: Work::Examples },
    Section { name: "documents", seconds: 220, work: Work::Documents },
    Section { name: "features", seconds: 420, work: Work::Features },
    Section {
        name: "loom",
        seconds: 100,
        work: Work::Counted(
            &[
                "test",
                "-p",
                "corelane-seam",
                "-p",
                "corelane-lane",
                "-p",
                "corelane-watch",
                "-p",
                "corelane-drivers",
                "-p",
                "corelane-kevent",
                "-p",
                "corelane-channel",
                "--lib",
                "loom",
            ],
            &[("RUSTC_WORKSPACE_WRAPPER", "xtask/loom.sh")],
        ),
    },
];

/// What is checked beside this workspace: its results lie elsewhere, so it waits for none of [`BESIDE`], whose compilers have one lock.
pub const APART: &[Section] = &[
    Section { name: "fuzz-rss", seconds: 45, work: apart(&checked!("crates/rss/fuzz/Cargo.toml")) },
    Section { name: "fuzz-wire", seconds: 45, work: apart(&checked!("crates/wire/fuzz/Cargo.toml")) },
    Section { name: "fuzz-isr", seconds: 15, work: apart(&checked!("crates/isr/fuzz/Cargo.toml")) },
    Section { name: "peers", seconds: 180, work: apart(&checked!("bench/peers/Cargo.toml")) },
];

/// When each of `sections`, which run one after the other, has to have ended: the last at `end`, the others so early that those behind them have half of their
/// shares. So a machine that is slow in all takes longer, and fails nothing: a section is ended that hangs, or computes without end.
pub fn ends<'a>(sections: &'a [&Section], end: Instant) -> impl Iterator<Item = Instant> + 'a {
    (1..=sections.len()).map(move |behind| end - kept(sections[behind..].iter().copied()))
}

/// What is kept for these sections, however long those before them take.
pub fn kept<'a>(sections: impl IntoIterator<Item = &'a Section>) -> Duration {
    sections.into_iter().map(|section| Duration::from_secs(section.seconds) / 2).sum()
}

/// The names of all sections.
pub fn names() -> Vec<&'static str> {
    all().map(|section| section.name).collect()
}

/// All sections.
pub fn all() -> impl Iterator<Item = &'static Section> + Clone {
    [READING, SECTIONS, COMPUTING, BESIDE, APART].into_iter().flatten()
}

/// Whether the crate in `folder` is one of `patterns`.
pub fn holds(patterns: &[&str], folder: &str) -> bool {
    let matches = |pattern: &&str| match pattern.strip_suffix("/*") {
        Some(parent) => folder.rsplit_once('/').is_some_and(|(inside, _)| inside == parent),
        None => folder == *pattern,
    };
    patterns.iter().any(matches)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::test::packages;

    #[test]
    fn the_shares_fit_into_thirty_three_minutes() {
        assert!(seconds(SECTIONS) <= 33 * 60);
    }

    #[test]
    fn a_machine_that_is_slower_by_a_tenth_takes_its_time_and_ci_has_some_left() {
        assert!(WHOLE >= Duration::from_secs(seconds(SECTIONS)) * 11 / 10 && WHOLE <= Duration::from_secs(36 * 60));
    }

    #[test]
    fn a_section_that_takes_longer_leaves_half_of_their_shares_to_those_behind_it() {
        let of = |seconds| Section { name: "", seconds, work: Work::Build };
        let (start, [first, second, last]) = (Instant::now(), [100, 40, 20].map(of));
        let ends: Vec<_> = ends(&[&first, &second, &last], start + Duration::from_secs(160)).collect();
        assert_eq!(ends, [130, 150, 160].map(|seconds| start + Duration::from_secs(seconds)));
    }

    #[test]
    fn what_is_installed_beside_the_build_has_no_longer_than_it_has() {
        let before = SECTIONS.iter().filter(|section| !matches!(section.work, Work::Programs(_)));
        assert!(packages::SECONDS.max(seconds(READING)) <= seconds(before));
    }

    #[test]
    fn what_runs_beside_the_programs_has_no_longer_than_they_have() {
        let programs = SECTIONS.iter().filter(|section| matches!(section.work, Work::Programs(_)));
        assert!([COMPUTING, BESIDE, APART].into_iter().all(|row| seconds(row) <= seconds(programs.clone())));
    }

    fn seconds<'a>(sections: impl IntoIterator<Item = &'a Section>) -> u64 {
        sections.into_iter().map(|section| section.seconds).sum()
    }

    /// The folders that the root manifest keeps out of the workspace.
    fn excluded() -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let manifest: toml::Table = std::fs::read_to_string(root.join("Cargo.toml")).unwrap().parse().unwrap();
        manifest["workspace"]["exclude"].clone().try_into().unwrap()
    }

    #[test]
    fn what_is_no_member_of_the_workspace_is_checked_all_the_same() {
        let excluded = excluded();
        assert!(!excluded.is_empty());
        for folder in excluded {
            let manifest = format!("{folder}/Cargo.toml");
            let checks = |section: &Section| match section.work {
                Work::Check(arguments, _) => arguments.contains(&"--locked") && arguments.contains(&manifest.as_str()),
                _ => false,
            };
            assert!(APART.iter().any(checks), "no section checks {folder}");
        }
    }

    #[test]
    fn names_differ() {
        let mut names = names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn the_build_comes_before_what_it_builds() {
        let build = SECTIONS.iter().position(|s| matches!(s.work, Work::Build)).unwrap();
        let first = SECTIONS.iter().position(|s| matches!(s.work, Work::Programs(_))).unwrap();
        assert!(build < first);
    }

    #[test]
    fn folders_are_matched_whole() {
        assert!(holds(&["cli", "services/*"], "services/echo"));
        assert!(!holds(&["cli", "services/*"], "services"));
        assert!(!holds(&["crates/lane"], "crates/lanes"));
    }
}
