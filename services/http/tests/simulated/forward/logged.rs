//! The access log of requests that are sent on: to whom, and why it is this server that has answered.

use super::odd::{BookRef, Odd};
use super::{BEHIND, FOR_EVER, behind_at};
use crate::simulated::rig::{MS, Nobody, Rig, RigPlan, S, address, at, patient};
use corelane::testing::{Faults, World};
use corelane_http::{AccessLog, Forward, Hosts, Http, LogFormat};
use corelane_upstreams::Check;

/// A name that a client sends, by which it would have a line say something else.
const FORGING: &str = "\" 200 1 \"-\" \"-\" \"a\" 0.0 + \"10.0.0.9:80\" silent";

/// An upstream, if one is named, and a reason, if there is one.
type Passed = (Option<String>, Option<&'static str>);

/// The texts that are asked, and end, upstream and reason of their lines; `None` where a line says nothing of an upstream.
fn kinds() -> Vec<(String, char, Option<Passed>)> {
    let get = |kind: &str, host: &str| format!("GET /{kind}/7 HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {FORGING}\r\n\r\n");
    let (here, gone) = (Some(at(BEHIND).to_string()), Some(at(9_999).to_string()));
    vec![
        (get("x", "gone.test"), '+', Some((gone, Some("unreachable")))),
        (get("whole", "a"), '+', Some((here.clone(), None))),
        (get("garbage", "a"), '+', Some((here.clone(), Some("malformed")))),
        (get("fat", "a"), '+', Some((here.clone(), Some("too-large")))),
        (get("endless", "a"), '+', Some((here.clone(), Some("too-large")))),
        (get("trailers", "a"), 'X', Some((here.clone(), Some("too-large")))),
        (get("reset", "a"), '+', Some((here.clone(), Some("lost")))),
        (get("silent", "a"), '+', Some((here.clone(), Some("silent")))),
        // It has begun its answer.
        (get("stall", "a"), 'X', Some((here, Some("silent")))),
        // Its checks have failed meanwhile.
        (get("x", "gone.test"), '+', Some((None, Some("no-upstream")))),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), '+', None),
    ]
}

/// What is logged of those.
fn logged(format: LogFormat) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = AccessLog::open(&path, format).unwrap();
    let (world, book) = (World::new(1, Faults::none()), BookRef::default());
    let mut gone = behind_at(9_999);
    gone.settings.check = Some(Check::every(S));
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        let mut hosts = Hosts::new(Some(|tokens| Forward::new(&behind_at(BEHIND), 0).tokens(tokens).timeout(2 * S)));
        hosts.add("gone.test", |tokens| Forward::new(&gone, 0).tokens(tokens)).unwrap();
        roster.serve(address(), patient(), Http::new(hosts).log(&log));
        roster.serve(at(BEHIND), patient(), Odd::new(book.clone(), 1));
    });
    for (text, ..) in kinds() {
        let peer = rig.connect(1);
        rig.wait(MS);
        assert_eq!(peer.send(text.as_bytes()), text.len());
        // Its answer is heard, or is given up in its time.
        rig.wait(3 * S);
        peer.close();
        rig.wait(5 * MS);
    }
    rig.close(&mut Nobody);
    log.journal().flush();
    std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_line_says_to_whom_a_request_was_sent_on_and_why_it_was_answered_here() {
    let lines = logged(LogFormat::Combined);
    assert_eq!(lines.len(), kinds().len(), "{lines:#?}");
    for ((_, end, passed), line) in kinds().into_iter().zip(&lines) {
        let passed = passed.map(|(upstream, why)| format!(" \"{}\" {}", upstream.as_deref().unwrap_or("-"), why.unwrap_or("-")));
        let due = format!("{end}{}", passed.unwrap_or_default());
        // Seconds stand before it, and nothing behind.
        let begin = line.strip_suffix(&due).and_then(|begin| begin.trim_end().rsplit_once(' '));
        assert!(begin.is_some_and(|(_, seconds)| seconds.parse::<f64>().is_ok()), "{line}, not {due}");
        // Request, two fields and a host are in quotes, and an upstream.
        assert!(matches!(line.matches('"').count(), 8 | 10), "{line}");
    }
    let objects = logged(LogFormat::Json);
    for ((_, end, passed), line) in kinds().into_iter().zip(&objects) {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&object["end"], object.get("upstream").is_some()), (&end.to_string().into(), passed.is_some()), "{line}");
        let (upstream, why) = passed.unwrap_or_default();
        assert_eq!((&object["upstream"], &object["why"]), (&upstream.into(), &why.into()), "{line}");
    }
}

#[test]
fn a_request_that_a_drain_does_not_wait_for_has_that_in_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let log = AccessLog::open(&path, LogFormat::Combined).unwrap();
    let world = World::new(1, Faults::none());
    // It takes connections, and says nothing.
    world.listen(at(BEHIND)).unwrap();
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        let forward = Forward::new(&behind_at(BEHIND), 0).timeout(FOR_EVER);
        roster.serve(address(), patient().drain_limit(S), Http::new(forward).log(&log));
    });
    let peer = rig.connect(1);
    rig.wait(MS);
    assert!(peer.send(b"GET /silent/7 HTTP/1.1\r\nHost: a\r\n\r\n") > 0);
    rig.wait(S);
    rig.begin_drain();
    rig.wait(2 * S);
    peer.close();
    rig.close(&mut Nobody);
    log.journal().flush();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("\" 499 ") && text.ends_with(&format!(" X \"{}\" drain\n", at(BEHIND))), "{text}");
}
