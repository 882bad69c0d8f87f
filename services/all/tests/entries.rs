//! What the entries declare agrees with itself, and with what is written about it.
#![allow(missing_docs, clippy::unwrap_used)]

use corelane::Lanes;
use corelane::admin::watch::documentation;
use corelane::service::Declaration;
use corelane_services::ALL;
use std::collections::HashSet;
use std::path::Path;

#[test]
fn names_are_told_apart() {
    let mut names = HashSet::new();
    for entry in ALL {
        assert!(names.insert(entry.name()), "two services are named {}", entry.name());
    }
}

#[test]
fn every_service_is_served_where_it_is_by_default() {
    for entry in ALL {
        for url in entry.default_urls("127.0.0.1") {
            assert!(Lanes::per_core().serve_entry(entry, &url).is_ok(), "{} at {url}", entry.name());
        }
    }
}

#[test]
fn the_committed_table_of_counters_is_what_is_declared() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/watch/COUNTERS.md");
    let own: Vec<(&str, Vec<Declaration>)> = ALL.iter().map(|entry| (entry.name(), entry.counters())).collect();
    let own: Vec<(&str, &[Declaration])> = own.iter().map(|(name, declared)| (*name, declared.as_slice())).collect();
    let made = documentation(&own);
    if std::env::var_os("UPDATE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == made, "COUNTERS.md is not what is declared: run this test with UPDATE_DOCS=1");
}
