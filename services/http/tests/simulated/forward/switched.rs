//! Changes of the protocol that an upstream may not make, and those that it requires.

use super::strange::{Case, bad};

fn upgrading(kind: &str, offers: &str) -> String {
    format!("GET /{kind}/7 HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: {offers}\r\n\r\n")
}

/// RFC 9110 section 7.8.
#[test]
fn a_protocol_changes_only_to_one_that_was_asked_for() {
    let mut case = Case::new(1, |forward| forward);
    let malformed = bad("502 Bad Gateway", "what the server behind this one has answered is no HTTP/1.1");
    for kind in ["other", "more", "begin", "old", "untold", "unnamed"] {
        let answer = case.ask(&upgrading(&format!("switch-{kind}"), "y, x"));
        assert_eq!(answer, (malformed.clone(), false), "{kind}");
    }
    for (kind, named) in [("switch", "x"), ("switch-capital", "X")] {
        let (answer, _) = case.ask(&upgrading(kind, "y, x"));
        let is_right = answer.starts_with("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n");
        assert!(is_right && answer.ends_with(&format!("Upgrade: {named}\r\n\r\n")), "{kind}: {answer}");
    }
    case.close();
}

/// RFC 9110 section 15.5.22.
#[test]
fn an_upgrade_that_is_required_is_named_to_the_client() {
    let mut case = Case::new(1, |forward| forward);
    let required = |lines: &str| format!("HTTP/1.1 426 Upgrade Required\r\n{lines}Content-Length: 3\r\n\r\n7:0");
    for (kind, lines) in [("required", "Upgrade: x, y/2\r\nUpgrade: z\r\nConnection: upgrade\r\n"), ("required-unnamed", "")] {
        for request in [upgrading(kind, "z"), format!("GET /{kind}/7 HTTP/1.1\r\nHost: a\r\n\r\n")] {
            assert_eq!(case.ask(&request), (required(lines), false), "{request}");
        }
    }
    case.close();
}
