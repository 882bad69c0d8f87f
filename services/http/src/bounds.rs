//! That docs/http.md has the bounds as they are.

use crate::files::{LISTED_MAX, LISTING_BYTES_MAX, LISTINGS_BYTES_MAX, LOOKUPS_MAX, PATH_BYTES_MAX, SMALL_BYTES, WARMINGS_MAX};
use crate::{ENTRY, Files, HEAD_BYTES_MAX, HttpCounter, SITES_MAX, Settings};
use corelane::admin::watch::{Counter, ServiceCounter};
use corelane::service::{LEASE_BYTES_MAX, Limits, OwnCounter};
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
        ("names that are listed of a directory", LISTED_MAX),
        ("bytes of such a list", LISTING_BYTES_MAX),
        ("bytes of lists that are being sent", LISTINGS_BYTES_MAX),
        ("names that are looked up at once", LOOKUPS_MAX),
        ("parts of files that are read ahead at once", WARMINGS_MAX),
        ("bytes of memory for small files", Files::CACHE_BYTES),
        ("bytes of a file that is kept in memory", SMALL_BYTES as usize),
        ("sites", SITES_MAX - 1),
    ]
}

fn of_connections() -> Vec<(&'static str, usize)> {
    let limits: Limits = ENTRY.default_limits();
    vec![
        ("time without a request", limits.idle_limit.as_millis() as usize),
        ("time for a head, or for each part of content", limits.read_limit.as_millis() as usize),
        ("bytes a second of a head or content", limits.receive_rate_min as usize),
        ("time without the client taking any of its answer", limits.send_limit.as_millis() as usize),
        ("time until a held answer is given", limits.answer_limit.as_millis() as usize),
        ("answers that are held", limits.requests_in_flight_max as usize),
        ("bytes of answers that wait for the client", limits.output_high),
        ("connections of a lane", limits.connections_max as usize),
        ("handshakes under way", limits.handshakes_max as usize),
        ("time for a handshake", limits.handshake_limit.as_millis() as usize),
    ]
}

#[test]
fn every_bound_is_documented_as_it_is() {
    let mut expected: Vec<_> =
        of_http().into_iter().chain(of_connections()).map(|(name, value)| (name, value.to_string())).collect();
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
