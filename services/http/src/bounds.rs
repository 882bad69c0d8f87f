//! That docs/http.md has the bounds as they are.

use crate::backlog::UNSENT_BYTES_MAX;
use crate::files::{
    LISTED_MAX, LISTING_BYTES_MAX, LISTINGS_BYTES_MAX, LOOKUPS_MAX, OPEN_FILES_MAX, PATH_BYTES_MAX, SMALL_BYTES, WARMINGS_MAX,
};
use crate::{ENTRY, Files, HEAD_BYTES_MAX, HttpCounter, SITES_MAX, Settings};
use corelane::admin::watch::{Counter, ServiceCounter};
use corelane::service::{LEASE_BYTES_MAX, OwnCounter};
use corelane_wire::http1::{EMPTY_LINES_MAX, EXTENSION_BYTES_MAX, FIELDS_MAX, METHOD_BYTES_MAX, RANGES_MAX, TRAILER_BYTES_MAX};
use corelane_wire::proxy::{V1_BYTES_MAX, V2_BYTES_MAX};

/// The cells of each row about a bound.
fn rows() -> Vec<Vec<&'static str>> {
    let cells = |row: &'static str| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    let rows = include_str!("../../../docs/http.md").lines().filter(|line| line.starts_with('|')).map(cells);
    rows.filter(|cells| !matches!(cells[0], "bound" | "---")).collect()
}

fn of_http() -> Vec<(&'static str, usize)> {
    let settings = Settings::new();
    vec![
        ("bytes of a head", settings.head.head_bytes),
        ("bytes of a target", settings.head.target_bytes),
        ("field lines", FIELDS_MAX),
        ("bytes of a method", METHOD_BYTES_MAX),
        ("empty lines before a head", EMPTY_LINES_MAX as usize),
        ("bytes of a path, for files", PATH_BYTES_MAX),
        ("ranges asked for", RANGES_MAX),
        ("bytes of content that is not wanted", settings.unwanted_bytes as usize),
        ("bytes of chunk extensions, of one content", EXTENSION_BYTES_MAX as usize),
        ("bytes of trailers", TRAILER_BYTES_MAX),
        ("lines of trailers", FIELDS_MAX),
        ("bytes of content that is collected", LEASE_BYTES_MAX),
        ("bytes of a PROXY header, version 1", V1_BYTES_MAX),
        ("bytes of a PROXY header, version 2", V2_BYTES_MAX),
        ("bytes of the head of an answer", HEAD_BYTES_MAX),
        ("bytes of answers that are kept until there is memory", UNSENT_BYTES_MAX),
        ("names that are listed of a directory", LISTED_MAX),
        ("bytes of such a list", LISTING_BYTES_MAX),
        ("bytes of lists that are being sent", LISTINGS_BYTES_MAX),
        ("large files that are open at once", OPEN_FILES_MAX),
        ("names that are looked up at once", LOOKUPS_MAX),
        ("parts of files that are read ahead at once", WARMINGS_MAX),
        ("bytes of memory for small files", Files::CACHE_BYTES),
        ("bytes of a file that is kept in memory", SMALL_BYTES as usize),
        ("sites", SITES_MAX - 1),
    ]
}

/// Those that are limits, each by the limit's name.
const OF_CONNECTIONS: [(&str, &str); 11] = [
    ("time without a request", "idle_limit"),
    ("time for a head, or for each part of content", "read_limit"),
    ("bytes a second of a head or content", "receive_rate_min"),
    ("time without the client taking enough of its answer", "send_limit"),
    ("bytes a second that the client takes of its answer", "send_rate_min"),
    ("time until a held answer is given", "answer_limit"),
    ("answers that are held", "requests_in_flight_max"),
    ("bytes of answers that wait for the client", "output_high"),
    ("connections of a lane", "connections_max"),
    ("handshakes under way", "handshakes_max"),
    ("time for a handshake", "handshake_limit"),
];

/// What help says of a limit, without what it counts.
fn limit(name: &str) -> String {
    let told = ENTRY.default_limits().describe();
    let value = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).expect("a limit");
    value.split(' ').next().expect("its value").to_owned()
}

#[test]
fn every_bound_is_documented_as_it_is() {
    let of_connections = OF_CONNECTIONS.into_iter().map(|(name, by)| (name, limit(by)));
    let mut expected: Vec<_> =
        of_http().into_iter().map(|(name, value)| (name, value.to_string())).chain(of_connections).collect();
    let mut documented: Vec<_> = rows().into_iter().map(|cells| (cells[0], cells[1].to_owned())).collect();
    expected.sort();
    documented.sort();
    assert_eq!(documented, expected);
}

#[test]
fn every_counter_that_is_documented_is_counted() {
    let counted = |name: &str| HttpCounter::DECLARED.iter().chain(ServiceCounter::DECLARED).any(|one| one.name == name);
    for cells in rows() {
        let counter = cells[4].trim_matches('`');
        assert!(counter.is_empty() || counted(counter), "{counter}");
    }
}
