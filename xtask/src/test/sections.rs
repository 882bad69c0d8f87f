//! The table of sections: what runs, in which order, and for how long at most.

/// One section of the run.
pub struct Section {
    /// Name, for `--only` and the report.
    pub name: &'static str,
    /// Its share in seconds; what has not ended by then is killed and fails.
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
    /// A cargo command that passes or fails as one.
    Check(Arguments, Variables),
    /// A cargo command that runs tests.
    Counted(Arguments, Variables),
    /// Builds all test programs.
    Build,
    /// Runs the test programs of the crates in these folders; `/*` stands for every folder inside.
    Programs(&'static [&'static str]),
}

/// All sections, in the order in which they run.
pub const SECTIONS: &[Section] = &[
    Section { name: "format", seconds: 20, work: Work::Check(&["fmt", "--all", "--check"], &[]) },
    Section { name: "tidy", seconds: 20, work: Work::Tidy },
    Section {
        name: "clippy",
        seconds: 110,
        work: Work::Check(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]),
    },
    Section { name: "build", seconds: 390, work: Work::Build },
    Section { name: "pure", seconds: 20, work: Work::Programs(&["crates/rss", "crates/wire", "crates/seam", "xtask"]) },
    Section {
        name: "simulation",
        seconds: 110,
        work: Work::Programs(&["crates/sim", "crates/lane", "crates/svc", "crates/corelane"]),
    },
    Section { name: "drivers", seconds: 60, work: Work::Programs(&["crates/sys", "crates/watch", "crates/steer"]) },
    Section { name: "services", seconds: 200, work: Work::Programs(&["services/*", "load"]) },
    Section { name: "program", seconds: 200, work: Work::Programs(&["cli"]) },
    Section { name: "examples", seconds: 40, work: Work::Counted(&["test", "--workspace", "--doc"], &[]) },
    Section {
        name: "documents",
        seconds: 40,
        work: Work::Check(&["doc", "--no-deps", "--workspace"], &[("RUSTDOCFLAGS", "-D warnings")]),
    },
    Section {
        name: "loom",
        seconds: 200,
        work: Work::Counted(
            &["test", "-p", "corelane-lane", "-p", "corelane-watch", "-p", "corelane-sys", "--release", "--lib", "loom"],
            &[
                ("RUSTFLAGS", "--cfg loom"),
                ("CARGO_TARGET_DIR", "target/loom"),
                // What is explored is the same without it, and it is built in half the time.
                ("CARGO_PROFILE_RELEASE_LTO", "off"),
                ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
            ],
        ),
    },
];

/// The names of all sections.
pub fn names() -> Vec<&'static str> {
    SECTIONS.iter().map(|section| section.name).collect()
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
    use super::*;
    use crate::test::packages;

    #[test]
    fn the_shares_fit_into_twenty_five_minutes() {
        let sections: u64 = SECTIONS.iter().map(|section| section.seconds).sum();
        assert_eq!(sections + packages::SECONDS, 25 * 60);
    }

    #[test]
    fn names_differ() {
        let mut names = names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SECTIONS.len());
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
