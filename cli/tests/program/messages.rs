//! What is said on standard error: as lines, or as objects with codes.

use crate::common::*;
use nix::sys::signal::Signal;
use serde_json::Value;

/// All lines of standard error, each an object.
fn objects(server: &Server) -> Vec<Value> {
    let words = server.words();
    words.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"))).collect()
}

#[test]
fn lines_are_objects_with_codes_where_that_is_asked_for() {
    // More lanes than any test's machine has CPUs: one note at the least.
    let mut server = Server::start(&["--log-format", "json", "--lanes", "100", "--memory", "4MiB", TCP]);
    let coded = server.notes.iter().find(|note| note.starts_with("[CL-0002] ")).expect("lanes share CPUs").clone();
    server.signal(Signal::SIGHUP);
    until("it says what a hangup does", || server.words().contains("SIGHUP"));
    let objects = objects(&server);
    let with = |code: &str| objects.iter().find(|object| object["fields"]["code"] == code);
    let note = with("CL-0002").unwrap_or_else(|| panic!("{objects:?}"));
    assert_eq!((&note["level"], &note["fields"]["message"]), (&"WARN".into(), &coded["[CL-0002] ".len()..].into()));
    let hangup = objects.iter().find(|object| object["level"] == "INFO").unwrap_or_else(|| panic!("{objects:?}"));
    let message = hangup["fields"]["message"].as_str().unwrap();
    assert!(message.starts_with("SIGHUP: ") && hangup["fields"].get("code").is_none(), "{hangup}");
    server.signal(Signal::SIGTERM);
    assert_eq!(server.ended().code(), Some(0), "{}", server.words());
}

#[test]
fn every_note_has_a_code_that_the_page_of_messages_explains() {
    let page = include_str!("../../../docs/messages.md");
    let server = Server::start(&["--steering", "kernel", "--spin", "100us", "--lanes", "100", "--memory", "4MiB", TCP]);
    assert!(server.notes.len() >= 2, "{:?}", server.notes);
    for note in &server.notes {
        let code = note.strip_prefix('[').and_then(|note| note.split_once("] ")).unwrap_or_else(|| panic!("{note:?} has none")).0;
        assert!(page.contains(&format!("| `{code}` |")), "{note}");
    }
}
