//! Lanes without memory for a request: it is made later, once, and counts from when it was to start.

use crate::simulated::account::verify;
use crate::simulated::datagram_account;
use crate::simulated::datagram_peers::DatagramServer;
use crate::simulated::for_seeds;
use crate::simulated::plans::{datagrams, drawn, streams};
use crate::simulated::rig::{Rig, target};
use crate::simulated::streams::served;
use corelane::testing::{Faults, Nobody};
use corelane_load::plan::{Extent, Mode, Plan};
use std::time::Duration;

#[test]
fn a_request_that_waits_for_memory_is_made_once_and_counts_from_its_start() {
    for_seeds(150, |seed| {
        let plan = Plan { depth: 1, ..drawn(seed, streams(target(false))) };
        // Without resets it is clear which connection was the last one of a number.
        let by_number = matches!((&plan.mode, plan.extent), (Mode::Connections { .. }, Extent::Requests(_)));
        let faults = Faults { reset: if seed % 2 == 0 || by_number { 0 } else { 3 }, ..Faults::none() };
        let (rig, _) = served(seed, faults, plan, 1);
        let outcome = rig.generate(150).run(&mut Nobody);
        if outcome.desk.borrow().collector.unreachable().is_none() {
            verify(&outcome, true);
        }
    });
}

/// Lanes with room for a few datagrams only, while more may be in flight: what does not fit now goes later.
#[test]
fn datagrams_that_do_not_fit_go_later_and_the_number_is_made_exactly() {
    for_seeds(40, |seed| {
        let extent = Extent::Requests(400);
        let plan = Plan {
            connections: 4,
            lanes: 1,
            depth: 16,
            size: 40_000,
            extent,
            warm_up: Duration::ZERO,
            ..datagrams(target(true))
        };
        let rig = Rig::new(seed, Faults::none(), plan).generate_in(0, 1 << 20);
        let mut server = DatagramServer::new(&rig, seed, 0, 0);
        let outcome = rig.run(&mut server);
        let report = &outcome.report;
        datagram_account::verify(&outcome);
        assert_eq!(report.requests + report.errors["lost"], 400, "{:?}", report.errors);
    });
}
