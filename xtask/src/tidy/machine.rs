//! Above the seam nothing reaches for the real machine: the clock, threads, sockets, files and random state come from
//! the driver, so that a simulated run repeats itself.

use super::finding::{Finding, Rule};
use super::imports::imported;
use super::source::Source;
use super::tree::Tree;

const RULE: Rule = "machine";

/// The crates that see only the seam.
const ABOVE: &[&str] = &[
    "crates/seam/",
    "crates/rss/",
    "crates/wire/",
    "crates/watch/",
    "crates/isr/",
    "crates/nat/",
    "crates/prefixes/",
    "crates/stack/",
    "crates/lane/",
    "crates/svc/",
    "crates/steer/",
    "crates/sim/",
    "crates/testing/",
    "crates/corelane/",
    "crates/tls/",
    "crates/proxied/",
    "services/",
    "load/",
];

/// Path and what to use in its place. What begins with it is meant too.
const BANNED: &[(&str, &str)] = &[
    ("std::thread", "the runner in crates/os makes the threads"),
    ("std::time::Instant", "ask the driver's clock"),
    ("std::time::SystemTime", "ask the driver's clock"),
    ("std::time::UNIX_EPOCH", "ask the driver's clock"),
    ("std::net::TcpStream", "sockets belong to the driver"),
    ("std::net::TcpListener", "sockets belong to the driver"),
    ("std::net::UdpSocket", "sockets belong to the driver"),
    ("std::os::unix::net", "sockets belong to the driver"),
    ("std::fs", "files belong to the driver"),
    ("std::hash::RandomState", "use an ordered map or a hasher with a fixed seed"),
    ("std::collections::hash_map::RandomState", "use an ordered map or a hasher with a fixed seed"),
    ("rand", "take randomness from the lane's seed"),
    ("libc", "put the system call into crates/os"),
];

/// Modules that hold some of [`BANNED`] and are therefore not imported whole.
const WHOLE: &[&str] = &["std", "std::time", "std::net", "std::time::*", "std::net::*"];

/// Folder or file, path that it may use all the same, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("crates/watch/src/", "std::fs", "a page is a file, and its reader runs outside of lanes"),
    (
        "crates/wire/src/http1/date.rs",
        "std::time::SystemTime",
        "the type in which a library takes and gives dates; no clock is asked",
    ),
    ("crates/corelane/src/lanes/read_file.rs", "std::fs", "a file that says what lanes are to be is read before there are any"),
    (CONTROL, "std::fs", "a socket has a name beside the page's"),
    (CONTROL, "std::os::unix::net", "who answers and asks at a socket beside the page is no lane"),
    (CONTROL, "std::thread", "each client has a thread of its own"),
    (CONTROL, "std::time::Instant", "a client has a deadline"),
    (TAKE_OVER, "std::fs", "the name that others ask at goes to the new process"),
    (TAKE_OVER, "std::os::unix::net", "who hands over, and who takes, is no lane"),
    (TAKE_OVER, "std::thread", "who hands over, and who takes, is no lane"),
    (TAKE_OVER, "std::time::Instant", "the other process has a deadline"),
    ("crates/corelane/src/lanes/without/take_over.rs", "std::os::unix::net", "who refuses to hand over is no lane"),
    ("crates/corelane/src/lanes/others.rs", "std::net::TcpListener", "who listens beside the lanes is none"),
    ("crates/corelane/src/lanes/listeners.rs", "std::net::TcpListener", "who listens beside the lanes is none"),
    ("crates/tls/src/keys.rs", "std::fs", "keys are read before there are lanes"),
    ("crates/tls/src/watch.rs", "std::thread", "who looks after files is no lane"),
    ("crates/tls/src/watch.rs", "std::fs", "who looks after files is no lane"),
    (
        "crates/corelane/src/lanes/wakes.rs",
        "std::thread",
        "who wakes the tasks of the world outside has its descriptors, and is no lane",
    ),
    ("crates/corelane/src/lanes/stalls.rs", "std::thread", "who watches lanes is none"),
    ("crates/corelane/src/lanes/frames/insisting.rs", "std::thread", "what gives an order again stands beside lanes"),
    ("crates/corelane/src/lanes/following.rs", "std::thread", "who hears the kernel of routes stands beside lanes"),
];

/// The two ends of the control socket, which run beside lanes and may wait.
const CONTROL: &str = "crates/corelane/src/admin/control_";

/// One process hands over to another through it.
const TAKE_OVER: &str = "crates/corelane/src/lanes/take_over";

pub fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let above = |source: &&Source| ABOVE.iter().any(|folder| source.path.starts_with(folder));
    for source in tree.sources.iter().filter(above) {
        let faults = [paths(source), maps(source), thread_locals(source)].concat();
        for (line, what, remedy) in faults {
            if !source.beside_product(line) {
                findings.push(source.finding(line, RULE, what, remedy));
            }
        }
    }
}

type Fault = (usize, String, &'static str);

fn paths(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    for index in 0..source.tokens() {
        if source.word(index) == "use" && source.word(index + 1) != "<" {
            for (at, path) in imported(source, index + 1) {
                faults.extend(fault(source, at, &path, true));
            }
        } else if source.is_identifier(index) && begins_path(source, index) {
            faults.extend(fault(source, index, &path_at(source, index), false));
        }
    }
    faults.dedup();
    faults
}

fn fault(source: &Source, at: usize, path: &str, import: bool) -> Option<Fault> {
    let line = source.line(at);
    if import && WHOLE.contains(&path) {
        let remedy = "import the items that are needed";
        return Some((line, format!("`{path}` is imported whole"), remedy));
    }
    let within = |banned: &str| {
        path.strip_prefix(banned).is_some_and(|rest| rest.starts_with("::") || rest.is_empty() && import)
            || path == banned && banned.contains("::")
    };
    let (banned, remedy) = BANNED.iter().find(|(banned, _)| within(banned))?;
    let excepted = EXCEPTIONS.iter().any(|(file, what, _)| source.path.starts_with(file) && what == banned);
    (!excepted).then(|| (line, format!("`{banned}` reaches past the seam"), *remedy))
}

/// Whether no path leads to the identifier at `index`; a `::` before it may be the root of all paths.
fn begins_path(source: &Source, index: usize) -> bool {
    let leads = |at: usize| source.is_identifier(at) || source.word(at) == ">";
    index == 0 || source.word(index - 1) != "::" || index == 1 || !leads(index - 2)
}

/// The path that begins with the identifier at `index`.
fn path_at(source: &Source, index: usize) -> String {
    let mut path = source.word(index).to_owned();
    let mut next = index + 1;
    while source.word(next) == "::" && source.is_identifier(next + 1) {
        path = format!("{path}::{}", source.word(next + 1));
        next += 2;
    }
    path
}

/// Maps whose hasher is seeded at random: those that name no hasher or are made by functions that pick one.
fn maps(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    for index in 0..source.tokens() {
        let with_hasher = match source.word(index) {
            "HashMap" => 3,
            "HashSet" => 2,
            _ => continue,
        };
        let path = source.word(index + 1) == "::";
        let next = if path { index + 2 } else { index + 1 };
        let seeded = matches!(source.word(next), "new" | "with_capacity" | "from");
        let short = source.word(next) == "<" && arguments(source, next) < with_hasher;
        if short || path && seeded {
            let what = format!("a {} with the standard hasher", source.word(index));
            let remedy = "use an ordered map or name a hasher with a fixed seed";
            faults.push((source.line(index), what, remedy));
        }
    }
    faults
}

/// How many generic arguments the `<` at `open` holds.
fn arguments(source: &Source, open: usize) -> usize {
    let mut depth = 0;
    let mut count = 1;
    for index in open..source.tokens() {
        match source.word(index) {
            "<" | "(" | "[" => depth += 1,
            ">" if source.word(index - 1) == "-" => {}
            ">" | ")" | "]" => depth -= 1,
            "," if depth == 1 && source.word(index + 1) != ">" => count += 1,
            ";" | "{" => break,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    count
}

fn thread_locals(source: &Source) -> Vec<Fault> {
    let local = |index: &usize| source.has(*index, &["thread_local", "!"]);
    let remedy = "keep the state in the lane";
    let fault = |index| (source.line(index), "a thread-local".to_owned(), remedy);
    (0..source.tokens()).filter(local).map(fault).collect()
}

#[cfg(test)]
mod tests {
    use super::super::found;
    use super::*;

    fn faults(text: &str) -> usize {
        found(check, &[("crates/svc/src/a.rs", text)]).len()
    }

    #[test]
    fn the_real_machine_is_found() {
        for text in [
            "use std::thread;",
            "use std::{io, thread::sleep};",
            "use std::time::{Duration, Instant};",
            "use std::time;",
            "use std::net::*;",
            "fn f() { std::fs::read(p); }",
            "fn f(s: &std::net::UdpSocket) {}",
            "fn f() { ::std::thread::yield_now(); }",
            "fn f() { libc::getpid(); }",
            "use rand::Rng;",
            "use rand;",
            "thread_local! { static A: u8 = 1; }",
            "fn f() -> RandomState { std::hash::RandomState::new() }",
        ] {
            assert_eq!(faults(text), 1, "{text}");
        }
    }

    #[test]
    fn the_finding_says_where() {
        let expected = ["load/src/a.rs:2 `std::fs` reaches past the seam"];
        assert_eq!(found(check, &[("load/src/a.rs", "use std::{\n    fs,\n};")]), expected);
    }

    #[test]
    fn the_rest_of_std_is_fine() {
        for text in [
            "use std::time::Duration;",
            "use std::net::{IpAddr, SocketAddr};",
            "use crate::fs::Tree;",
            "fn f(rand: u32) -> u32 { rand + self.libc }",
            "// std::thread\nconst A: &str = \"std::fs::read\";",
            "fn f() -> impl Sized + use<'a> { lane::thread::x() }",
            "#[cfg(test)]\nmod tests { use std::thread; }",
        ] {
            assert_eq!(faults(text), 0, "{text}");
        }
    }

    #[test]
    fn the_system_side_and_tests_may() {
        let text = "use std::thread;";
        for path in ["crates/os/src/a.rs", "cli/src/a.rs", "crates/svc/benches/a.rs"] {
            assert!(found(check, &[(path, text)]).is_empty(), "{path}");
        }
    }

    #[test]
    fn an_exception_holds_for_its_folder_and_path() {
        let in_watch = |text: &str| found(check, &[("crates/watch/src/a.rs", text)]).len();
        assert_eq!(in_watch("use std::fs::File;"), 0);
        assert_eq!(in_watch("use std::thread;"), 1);
    }

    #[test]
    fn maps_name_their_hasher() {
        assert_eq!(faults("struct A { a: HashMap<u32, Vec<(u8, u8)>> }"), 1);
        assert_eq!(faults("fn f() { let a = HashSet::with_capacity(4); }"), 1);
        assert_eq!(faults("fn f() { i.collect::<HashMap<_, _>>(); }"), 1);
        assert_eq!(faults("struct A { a: HashMap<u32, fn(u8, u8) -> u8, Fixed>, }"), 0);
        assert_eq!(faults("type S<K> = HashSet<K, Fixed>; fn f() { S::<u8>::default(); }"), 0);
    }
}
