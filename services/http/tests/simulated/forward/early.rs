//! Requests that come before the names of servers behind are resolved for the first time.

use super::odd::{BookRef, Odd};
use super::{BEHIND, behind_at};
use crate::simulated::rig::{MS, Nobody, Peer, Rig, RigPlan, S, Status, address, at, patient};
use corelane::Address;
use corelane::admin::watch::ServiceCounter as C;
use corelane::service::Limits;
use corelane::testing::{Faults, World};
use corelane_http::{Forward, Hosts, Http};
use corelane_upstreams::entry::Behind;
use std::cell::Cell;
use std::time::Duration;

const SEEDS: u64 = 60;

thread_local! {
    /// How often a name was asked for in this run.
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

fn resolved(host: &str, port: u16) -> Result<Vec<Address>, String> {
    ASKED.set(ASKED.get() + 1);
    match host {
        "a.test" => Ok(vec![at(port).into()]),
        _ => Err("nobody knows it".to_owned()),
    }
}

/// A lane with a server behind of this name, and a client that has asked; none where the name was resolved before that.
fn asked(seed: u64, name: &str, limits: Limits, request: &str) -> Option<(Rig, Peer)> {
    ASKED.set(0);
    let world = World::new(seed, Faults::none());
    let behind = Behind { targets: format!("{name}:{BEHIND}").parse().unwrap(), ..behind_at(BEHIND) };
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        roster.serve(address(), limits, Http::new(Forward::new(&behind, roster.lane()).resolving(resolved)));
        roster.serve(at(BEHIND), patient(), Odd::new(BookRef::default(), seed));
    });
    let peer = rig.connect(1);
    let soon = Duration::from_micros(1);
    while peer.status() == Status::Opening && ASKED.get() == 0 {
        rig.wait(soon);
    }
    if ASKED.get() == 0 {
        assert_eq!(peer.send(request.as_bytes()), request.len());
        while rig.count(C::Requests) == 0 && ASKED.get() == 0 {
            rig.wait(soon);
        }
    }
    (ASKED.get() == 0).then_some((rig, peer))
}

/// The same for each seed with which the request came first.
fn early<'a>(name: &'a str, limits: Limits, request: &'a str) -> impl Iterator<Item = (Rig, Peer)> + 'a {
    let mut count = 0;
    (0..=SEEDS).filter_map(move |seed| {
        assert!(seed < SEEDS || count > 2, "no request came before the name was resolved");
        let found = asked(seed, name, limits, request);
        count += u32::from(found.is_some());
        found
    })
}

fn end(mut rig: Rig, peer: &Peer) {
    peer.close();
    rig.wait(20 * MS);
    rig.close(&mut Nobody);
}

#[test]
fn they_wait_and_are_sent_on() {
    for request in ["GET /whole/1 HTTP/1.1\r\nHost: a\r\n\r\n", "PUT /whole/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok"]
    {
        for (mut rig, peer) in early("a.test", patient(), request) {
            let answer = rig.hear(&peer) + &rig.hear(&peer);
            let content = if request.starts_with("PUT") { "1:2" } else { "1:0" };
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(content), "{answer}");
            end(rig, &peer);
        }
    }
}

#[test]
fn they_are_refused_where_a_name_has_no_address_or_nobody_tells_in_time() {
    let request = "GET /whole/1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let impatient = patient().connect_limit(Duration::from_nanos(1));
    for (name, limits) in [("b.test", patient()), ("a.test", impatient)] {
        let mut refused = 0;
        for (mut rig, peer) in early(name, limits, request) {
            // Nobody waits for the name for as long as an answer may take.
            let answer = rig.hear(&peer);
            if answer.starts_with("HTTP/1.1 503 ") {
                refused += 1;
                assert!(answer.ends_with("can be reached\n") && rig.named("forwards_refused") == 1, "{answer}");
            }
            assert!(name == "a.test" || answer.starts_with("HTTP/1.1 503 "), "{answer}");
            end(rig, &peer);
        }
        assert!(refused > 0, "{name}");
    }
}

#[test]
fn a_client_that_leaves_meanwhile_is_let_go() {
    for (mut rig, peer) in early("a.test", patient(), "GET /silent/1 HTTP/1.1\r\nHost: a\r\n\r\n") {
        peer.reset();
        rig.wait(S);
        assert_eq!((rig.connections(), rig.named("forwards_abandoned")), (0, 1));
        end(rig, &peer);
    }
}

#[test]
fn more_sites_than_helper_threads_take_calls_have_their_names_a_moment_later() {
    const SITES: u32 = 100;
    ASKED.set(0);
    let world = World::new(1, Faults::none());
    let behind = Behind { targets: format!("a.test:{BEHIND}").parse().unwrap(), ..behind_at(BEHIND) };
    let mut rig = Rig::new(&world, &RigPlan::lanes(1), |roster| {
        let mut hosts = Hosts::new(None::<fn(u64) -> Forward>);
        for site in 0..SITES {
            let forward = |tokens| Forward::new(&behind, roster.lane()).tokens(tokens).resolving(resolved);
            hosts.add(&format!("{site}.example"), forward).unwrap();
        }
        roster.serve(address(), patient(), Http::new(hosts));
        roster.serve(at(BEHIND), patient(), Odd::new(BookRef::default(), 1));
    });
    let peer = rig.connect(1);
    let request = format!("GET /whole/1 HTTP/1.1\r\nHost: {}.example\r\n\r\n", SITES - 1);
    while peer.status() == Status::Opening {
        rig.wait(Duration::from_micros(1));
    }
    assert_eq!(peer.send(request.as_bytes()), request.len());
    rig.wait(S);
    let answer = rig.hear(&peer);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(ASKED.get(), SITES, "each is asked for once");
    end(rig, &peer);
}
