//! Which crate may depend on which, and who may use code from elsewhere.

use super::finding::{Finding, Rule};
use super::manifest::line_of;
use super::tree::Tree;
use crate::workspace::{Dependency, Member};

const RULE: Rule = "layering";

/// Everything below the facade.
const BELOW_FACADE: &[&str] = &[
    "crates/channel",
    "crates/steer",
    "crates/svc",
    "crates/lane",
    "crates/watch",
    "crates/sim",
    "crates/testing",
    "crates/stack",
    "crates/isr",
    "crates/nat",
    "crates/prefixes",
    "crates/bridge",
    "crates/drivers",
    "crates/xdp",
    "crates/select",
    "crates/machine",
    "crates/unwind",
    "crates/confine",
    "crates/os",
    "crates/seam",
    "crates/wire",
    "crates/rss",
    "crates/rules",
];

/// What a user of the project needs: the facade, and, to speak a protocol, its bytes, which depend on nothing.
const USER: &[&str] = &["crates/corelane", "crates/wire", "crates/tls", "crates/proxied", "crates/upstreams"];

/// Folder and what it may depend on, from the bottom up. `/*` stands for every folder inside.
const LAYERS: &[(&str, &[&str])] = &[
    ("crates/testkit", &[]),
    ("crates/graphs", &[]),
    ("crates/prefixes", &[]),
    ("crates/rss", &[]),
    ("crates/wire", &[]),
    ("crates/rules", &["crates/prefixes"]),
    ("crates/seam", &["crates/rss"]),
    ("crates/nat", &["crates/rss", "crates/seam", "crates/wire"]),
    ("crates/os", &["crates/rss", "crates/seam"]),
    ("crates/channel", &["crates/os"]),
    ("crates/event", &["crates/os", "crates/seam"]),
    ("crates/kevent", &["crates/event", "crates/os"]),
    ("crates/kqueue", &["crates/event", "crates/kevent"]),
    ("crates/machine", &["crates/os"]),
    ("crates/unwind", &["crates/os"]),
    ("crates/confine", &["crates/os"]),
    ("crates/select", &["crates/os", "crates/seam", "crates/rss"]),
    ("crates/bridge", &["crates/select", "crates/os", "crates/seam"]),
    ("crates/drivers", &["crates/bridge", "crates/os", "crates/seam"]),
    ("crates/xdp", &["crates/select", "crates/os", "crates/seam", "crates/wire", "crates/rss", "crates/rules"]),
    ("crates/sim", &["crates/seam", "crates/rss"]),
    ("crates/watch", &["crates/os"]),
    ("crates/lane", &["crates/seam", "crates/watch"]),
    ("crates/svc", &["crates/lane", "crates/seam", "crates/watch", "crates/rss"]),
    ("crates/isr", &["crates/seam", "crates/wire"]),
    (
        "crates/stack",
        &[
            "crates/channel",
            "crates/lane",
            "crates/isr",
            "crates/nat",
            "crates/prefixes",
            "crates/rules",
            "crates/seam",
            "crates/wire",
            "crates/rss",
            "crates/watch",
        ],
    ),
    ("crates/testing", &["crates/svc", "crates/lane", "crates/watch", "crates/sim", "crates/seam"]),
    ("crates/steer", &["crates/svc", "crates/lane", "crates/select", "crates/machine", "crates/os", "crates/rss", "crates/seam"]),
    ("crates/corelane", BELOW_FACADE),
    ("crates/tls", &["crates/corelane"]),
    ("crates/hyper", &["crates/corelane"]),
    ("crates/proxied", &["crates/corelane", "crates/wire"]),
    ("crates/upstreams", &["crates/corelane", "crates/wire"]),
    ("crates/metrics", &["crates/corelane", "crates/graphs", "crates/upstreams"]),
    ("services/all", &["crates/corelane", "services/*"]),
    ("services/*", USER),
    ("load", USER),
    ("cli/commands", &["crates/corelane", "crates/metrics", "crates/upstreams", "services/all", "load"]),
    ("cli", &["cli/commands"]),
    ("xtask", &[]),
    ("bench", &["crates/seam", "crates/machine", "crates/os", "crates/select", "crates/watch", "load", "xtask"]),
];

/// Folder, what its tests may depend on beyond [`LAYERS`], and why.
const TESTS_TOO: &[(&str, &[&str], &str)] = &[
    ("crates/*", &["crates/seam"], "what tests draw from a seed comes from one generator"),
    ("crates/select", &["crates/drivers"], "flows find the sockets of every driver"),
    (
        "crates/xdp",
        &["crates/drivers", "crates/machine", "crates/sim", "crates/stack"],
        "ports are driven by every driver, wrapped for tests, and a stack runs on them",
    ),
    ("crates/corelane", &["crates/event"], "a lane's task waits at a queue, and a queue for lanes"),
    ("crates/isr", &["crates/rss"], "what was reassembled is hashed again, as a lane does it"),
    (
        "crates/stack",
        &["crates/sim", "crates/svc", "crates/testing"],
        "sockets over frames are tested on the simulated wire, and under the service layer",
    ),
    ("crates/kqueue", &["crates/os"], "what a machine cannot run is noted as everywhere"),
    ("crates/lane", &["crates/sim", "crates/rss"], "lanes are tested on the simulated driver"),
    ("crates/svc", &["crates/sim", "crates/rss", "crates/testing"], "services are tested on the simulated driver"),
    ("crates/steer", &["crates/testing", "crates/watch"], "steering is tested on simulated lanes"),
    ("crates/hyper", &["crates/tls"], "HTTP/2 is what TLS chooses by name"),
    ("xtask", &["crates/os"], "what a machine cannot run is noted as everywhere"),
    ("services/*", &["load"], "a service is tested under its own load"),
    ("load", &["services/*"], "a workload is tested against its service"),
    ("cli", &["crates/corelane", "load"], "what the program counts and reports is read as a program of others reads it"),
];

/// What no program links: only a feature brings it, for tests.
const SIMULATION: &str = "crates/testing";

/// What tests of all crates may use, and what only a feature for tests may bring.
const TESTKIT: &str = "crates/testkit";

/// Crates through which the system could be called past [`SYSTEM`].
const RAW: &[&str] = &["libc", "io-uring", "nix", "rustix"];

/// The crates that call the system.
pub const SYSTEM: [&str; 5] = ["crates/os", "crates/drivers", "crates/xdp", "crates/select", "crates/machine"];

/// Who may depend on [`RAW`] beside [`SYSTEM`]: the scripts, which no user runs, the face whose functions take C's types, and what only a feature of the facade brings.
const RAW_TOO: [&str; 5] = ["xtask", "bench", "crates/kqueue", "crates/confine", "crates/unwind"];

/// The data path: nothing on it comes from elsewhere.
const DATA_PATH: &[&str] = &[
    "crates/seam",
    "crates/lane",
    "crates/svc",
    "crates/watch",
    "crates/isr",
    "crates/nat",
    "crates/prefixes",
    "crates/stack",
    "crates/sim",
    "crates/rss",
    "crates/rules",
    "crates/wire",
    "services/*",
];

/// Folder on the data path, what it uses from elsewhere all the same, and why.
const TAKEN: &[(&str, &[&str], &str)] = &[
    (
        "crates/wire",
        &["httparse", "httpdate", "memchr"],
        "small parsers without dependencies, which more people look at than would at ours",
    ),
    ("crates/svc", &["humantime"], "times as people write them, in limits that are set by text: before anything is served"),
    ("services/gateway", &["toml"], "the format of its file, which is read before there are lanes"),
    (
        "services/http",
        &["matchit", "mime_guess", "twox-hash"],
        "routes by path: for applications, which choose their own; the table of what files are, which others keep; and the hash that names a file's bytes, once it is read",
    ),
];

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for member in &tree.workspace.members {
        let path = format!("{}/Cargo.toml", member.folder);
        let manifest = tree.text(&path);
        for (line, what, remedy) in faults(member, manifest) {
            findings.push(Finding { path: path.clone(), line, rule: RULE, what, remedy });
        }
    }
}

fn faults(member: &Member, manifest: &str) -> Vec<(usize, String, String)> {
    let folder = member.folder.as_str();
    let Some((_, allowed)) = LAYERS.iter().find(|(pattern, _)| matches(pattern, folder)) else {
        let remedy = "give it a row in xtask/src/tidy/layering.rs";
        return vec![(1, format!("{folder} has no place in the layers"), remedy.to_owned())];
    };
    let fault = |dependency: &Dependency| {
        let (what, remedy) = match &dependency.folder {
            Some(to) if to == TESTKIT && (dependency.dev || dependency.optional) => None,
            Some(to) if to == SIMULATION && !dependency.dev && !dependency.optional => linked_fault(folder),
            Some(to) => inner_fault(folder, to, dependency.dev, allowed),
            None => outer_fault(folder, dependency),
        }?;
        Some((line_of(manifest, &dependency.name), what, remedy))
    };
    member.dependencies.iter().filter_map(fault).collect()
}

fn inner_fault(from: &str, to: &str, dev: bool, allowed: &[&str]) -> Option<(String, String)> {
    let in_tests =
        |(pattern, more, _): &(&str, &[&str], &str)| matches(pattern, from) && more.iter().any(|pattern| matches(pattern, to));
    if allowed.iter().any(|pattern| matches(pattern, to)) {
        return None;
    }
    // A crate that names itself for its tests turns on a feature.
    if dev && (from == to || TESTS_TOO.iter().any(in_tests)) {
        return None;
    }
    let kind = if dev { "the tests of " } else { "" };
    let list = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
    Some((format!("{kind}{from} may not use {to}"), format!("it may use {list}")))
}

fn linked_fault(from: &str) -> Option<(String, String)> {
    Some((format!("{from} links {SIMULATION} into every program"), "make it `optional`, behind a feature for tests".to_owned()))
}

fn outer_fault(from: &str, dependency: &Dependency) -> Option<(String, String)> {
    let name = dependency.name.as_str();
    let any = |patterns: &[&str]| patterns.iter().any(|pattern| matches(pattern, from));
    if dependency.dev {
        None
    } else if RAW.contains(&name) && !RAW_TOO.contains(&from) && !SYSTEM.contains(&from) {
        let remedy = "put the system call into crates/os and use that";
        Some((format!("{from} may not use {name}"), remedy.to_owned()))
    } else if any(DATA_PATH) && !is_loom(dependency) && !is_taken(from, name) {
        let remedy = "the data path uses nothing from elsewhere, except in tests";
        Some((format!("{from} is on the data path and may not use {name}"), remedy.to_owned()))
    } else {
        None
    }
}

fn is_loom(dependency: &Dependency) -> bool {
    dependency.name == "loom" && dependency.target.as_deref() == Some("cfg(loom)")
}

fn is_taken(from: &str, name: &str) -> bool {
    TAKEN.iter().any(|(folder, names, _)| *folder == from && names.contains(&name))
}

/// Whether `folder` is `pattern` or, where that ends in `/*`, lies right inside it.
fn matches(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix("/*") {
        Some(parent) => folder.rsplit_once('/').is_some_and(|(inside, _)| inside == parent),
        None => folder == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inner(folder: &str, dev: bool) -> Dependency {
        let name = folder.rsplit('/').next().unwrap().to_owned();
        Dependency { name, folder: Some(folder.to_owned()), dev, target: None, optional: false }
    }

    fn outer(name: &str, dev: bool, target: Option<&str>) -> Dependency {
        Dependency { name: name.into(), folder: None, dev, target: target.map(str::to_owned), optional: false }
    }

    fn fault(folder: &str, dependency: Dependency) -> Option<String> {
        let member = Member { folder: folder.into(), dependencies: vec![dependency], ..Member::default() };
        faults(&member, "").pop().map(|(_, what, _)| what)
    }

    #[test]
    fn dependencies_point_down() {
        assert_eq!(fault("crates/lane", inner("crates/seam", false)), None);
        assert_eq!(fault("services/echo", inner("crates/corelane", false)), None);
        assert_eq!(fault("cli/commands", inner("services/all", false)), None);
        assert_eq!(fault("cli", inner("cli/commands", false)), None);
        assert_eq!(fault("services/all", inner("services/echo", false)), None);
        let up = fault("crates/lane", inner("crates/svc", false));
        assert_eq!(up.unwrap(), "crates/lane may not use crates/svc");
        assert!(fault("services/echo", inner("crates/drivers", false)).is_some());
        assert!(fault("cli/commands", inner("services/echo", false)).is_some(), "they know no service by name");
        assert!(fault("services/echo", inner("services/http", false)).is_some());
    }

    #[test]
    fn who_uses_the_project_needs_the_facade_alone() {
        for user in ["services/echo", "load", "cli/commands"] {
            assert_eq!(fault(user, inner("crates/corelane", true)), None);
            for below in BELOW_FACADE.iter().filter(|below| **below != "crates/wire" || user == "cli/commands") {
                assert!(fault(user, inner(below, false)).is_some(), "{user} and {below}");
                assert!(fault(user, inner(below, true)).is_some(), "the tests of {user} and {below}");
            }
        }
    }

    #[test]
    fn no_program_links_a_simulation() {
        assert!(fault("crates/corelane", inner("crates/testing", false)).is_some());
        let optional = Dependency { optional: true, ..inner("crates/testing", false) };
        assert_eq!(fault("crates/corelane", optional), None);
        assert_eq!(fault("crates/svc", inner("crates/testing", true)), None);
    }

    /// Everything that a crate may reach.
    fn reached(from: &str) -> Vec<&'static str> {
        let mut found: Vec<&str> =
            LAYERS.iter().filter(|(folder, _)| *folder == from).flat_map(|(_, to)| to.iter().copied()).collect();
        for index in 0.. {
            let Some(&next) = found.get(index) else { break };
            let more = LAYERS.iter().filter(|(folder, _)| *folder == next).flat_map(|(_, to)| to.iter().copied());
            let more: Vec<&str> = more.filter(|folder| !found.contains(folder)).collect();
            found.extend(more);
        }
        found
    }

    #[test]
    fn a_lane_in_a_simulation_links_no_program_and_no_ring() {
        const REAL: [&str; 3] = ["crates/drivers", "crates/select", "crates/xdp"];
        for folder in ["sim", "lane", "svc", "watch", "isr", "stack", "testing"].map(|name| format!("crates/{name}")) {
            let reached = reached(&folder);
            assert!(reached.contains(&"crates/seam"), "{folder}: {reached:?}");
            assert!(REAL.iter().all(|real| !reached.contains(real)), "{folder}: {reached:?}");
        }
        assert!(REAL.iter().all(|real| reached("crates/corelane").contains(real)), "each is in the table, and found");
        assert!(reached("crates/corelane").contains(&"crates/drivers"), "the facade picks one");
    }

    #[test]
    fn tests_of_all_crates_share_one_kit_and_no_program_has_it() {
        assert_eq!(fault("services/echo", inner(TESTKIT, true)), None);
        assert_eq!(fault("crates/os", Dependency { optional: true, ..inner(TESTKIT, false) }), None);
        assert!(fault("crates/os", inner(TESTKIT, false)).is_some());
    }

    #[test]
    fn tests_may_use_what_the_table_names() {
        assert_eq!(fault("crates/lane", inner("crates/sim", true)), None);
        assert!(fault("crates/lane", inner("crates/sim", false)).is_some());
        let more = fault("crates/seam", inner("crates/svc", true));
        assert_eq!(more.unwrap(), "the tests of crates/seam may not use crates/svc");
    }

    #[test]
    fn only_the_crates_below_call_the_system() {
        for folder in SYSTEM {
            assert_eq!(fault(folder, outer("libc", false, None)), None);
        }
        assert_eq!(fault("crates/steer", outer("libc", true, None)), None);
        assert!(fault("crates/steer", outer("libc", false, None)).is_some());
        assert!(fault("cli/commands", outer("nix", false, None)).is_some());
    }

    #[test]
    fn the_data_path_uses_nothing_from_elsewhere() {
        assert_eq!(fault("crates/lane", outer("proptest", true, None)), None);
        assert_eq!(fault("crates/lane", outer("loom", false, Some("cfg(loom)"))), None);
        assert_eq!(fault("cli/commands", outer("clap", false, None)), None);
        assert!(fault("crates/lane", outer("loom", false, None)).is_some());
        assert!(fault("services/http", outer("serde", false, None)).is_some());
        assert_eq!(fault("crates/wire", outer("httparse", false, None)), None);
        assert!(fault("crates/svc", outer("httparse", false, None)).is_some());
        assert!(fault("crates/wire", outer("serde", false, None)).is_some());
    }

    #[test]
    fn every_crate_has_a_row() {
        let member = Member { folder: "crates/new".into(), ..Member::default() };
        assert_eq!(faults(&member, "")[0].1, "crates/new has no place in the layers");
    }

    #[test]
    fn the_finding_points_at_the_line() {
        let member = Member { folder: "crates/lane".into(), dependencies: vec![inner("crates/svc", false)], ..Member::default() };
        assert_eq!(faults(&member, "[dependencies]\nother = \"1\"\nsvc.workspace = true")[0].0, 3);
    }
}
