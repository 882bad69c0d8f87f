//! Each row of the originals' list that the packet path has to satisfy has tests that are named after it, here or in another crate.
#![allow(clippy::unwrap_used)] // all of this is tests

use std::path::Path;

/// A row, what the tests show of it, and where they are. C-04 and C-05, TCP over channels, come with TCP.
///
/// Not shown, because it is not there: X-06, a queue for each bucket of the stack's own protocols (`isr` has them for whoever registers a bucket, and the
/// stack has one a lane and protocol), memory nodes, and threads bound by what the card is set to; X-07, switches of a lane that does not poll (measured, and the bar is missed:
/// BENCHMARKS.md, *Packets*); X-10, a lane's number as an option of a socket, and a flow's lane told to the card; X-11, CPUs of reception and of
/// transmission apart. N-10, the card's
/// hash for `ether`: the stack's runs at once wherever it comes, and is not asked.
const ROWS: [(&str, &str, &[&str]); 37] = [
    ("n_01", "sixteen protocols on each lane come and go", &[ROWS_OF_DISPATCH]),
    ("n_02", "a workstream a lane", &[ROWS_OF_DISPATCH]),
    ("n_03", "limits of queues", &[ROWS_OF_DISPATCH]),
    ("n_04", "lanes by source, flow or the protocol", &[ROWS_OF_DISPATCH]),
    (
        "n_05",
        "deferred, hybrid, direct; of all and of one; live",
        &[ROWS_OF_DISPATCH, "crates/isr/tests/dispatch/order.rs", PROGRAM],
    ),
    ("n_06", "no flow reordered under hybrid", &["crates/isr/tests/dispatch/order.rs", ORDER]),
    ("n_07", "what is above the limit is given back and counted", &[ROWS_OF_DISPATCH]),
    ("n_08", "handled is dispatched, hybrid and queued less what waits", &[ROWS_OF_DISPATCH, PROGRAM]),
    ("n_09", "the report", &["crates/isr/tests/dispatch/report.rs", "cli/commands/src/stat/workstreams.rs", PROGRAM]),
    ("n_10", "which protocols look at which hash", &["crates/isr/tests/reassembly/flows.rs", LANES]),
    ("n_11", "drops read and cleared, limits changed, also by the operator", &[ROWS_OF_DISPATCH, PROGRAM]),
    ("f_01", "fragments hash by addresses", &["crates/isr/tests/reassembly/flows.rs"]),
    ("f_02", "fragmented and whole datagrams of a flow on one lane", &["crates/isr/tests/reassembly/flows.rs"]),
    ("f_03", "the key of a datagram", &["crates/isr/tests/reassembly/checks.rs"]),
    ("f_04", "limits and 30 s", &["crates/isr/tests/reassembly/limits.rs", "crates/isr/tests/reassembly/flood.rs", LANES]),
    ("f_05", "what goes at a limit", &["crates/isr/tests/reassembly/limits.rs"]),
    ("f_06", "checks of fragments", &["crates/isr/tests/reassembly/checks.rs"]),
    ("f_07", "what is counted", &["crates/isr/tests/reassembly/limits.rs"]),
    ("f_08", "what is in tunnels", &["crates/stack/tests/simulated/tunnels.rs", "crates/isr/tests/reassembly/flows.rs"]),
    ("c_01", "no line that both write", &["crates/channel/src/ring.rs"]),
    ("c_02", "packets for one consumer without the stack", &["crates/channel/tests/handed/main.rs"]),
    ("c_03", "a channel a flow, a miss to the default", &["crates/stack/tests/simulated/channels.rs", PROGRAM]),
    ("d_02", "knobs, ranges, handlers", &["crates/isr/tests/dispatch/polling/knobs.rs", CONTROLLER]),
    ("d_03", "the clock's tick, as the model and the recorded ticks have it", &[CONTROLLER]),
    ("d_04", "the poll, alike", &[CONTROLLER]),
    ("d_05", "the end of a poll, alike", &[CONTROLLER]),
    ("d_06", "an idle CPU polls", &[CONTROLLER, CARD]),
    ("d_07", "frames a second at most, and programs keep their share", &[CONTROLLER]),
    ("x_06", "a stream for each bucket of a protocol that tells them", &[ROWS_OF_DISPATCH]),
    ("x_07", "how often a lane sleeps under a flood; switches measured", &[LANES, "bench/src/packet/flood.rs"]),
    ("x_08", "fragments that are sent have their flow's hash", &["crates/stack/tests/allocation.rs"]),
    ("x_09", "reassembly without copies", &["crates/isr/tests/reassembly/frames.rs"]),
    ("x_10", "counts of each lane, and a flow for a lane that its user names", &["crates/stack/tests/simulated/channels.rs"]),
    ("x_11", "services on another lane than packets come to", &["crates/stack/tests/simulated/channels.rs"]),
    ("x_12", "a bounded share of what waits, and order across changes", &[ROWS_OF_DISPATCH, ORDER]),
    ("x_12", "policies and buckets change by the operator's command", &[PROGRAM]),
    ("x_17", "the published steps, and settings that are found unaided", &[CARD, "crates/isr/tests/dispatch/polling/tune.rs"]),
];

const ROWS_OF_DISPATCH: &str = "crates/isr/tests/dispatch/rows.rs";
const ORDER: &str = "crates/stack/tests/simulated/order.rs";
const LANES: &str = "crates/stack/tests/simulated/lanes.rs";
const CONTROLLER: &str = "crates/isr/tests/dispatch/polling/controller.rs";
const CARD: &str = "crates/isr/tests/dispatch/polling/card.rs";
const PROGRAM: &str = "cli/tests/program/packet.rs";

/// Whether a text has a test of that row, which may be one of several in the test's name.
fn has_test(text: &str, row: &str) -> bool {
    text.split("fn ").skip(1).map(|rest| rest.split('(').next().unwrap_or_default()).any(|name| {
        let rows = name.split('_').collect::<Vec<_>>();
        let rows = rows.chunks_exact(2).take_while(|pair| pair[0].len() == 1 && pair[1].parse::<u8>().is_ok());
        rows.map(|pair| pair.join("_")).any(|found| found == row)
    })
}

#[test]
fn every_row_has_a_test_that_is_named_after_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (row, demands, places) in ROWS {
        for place in places {
            let text = std::fs::read_to_string(root.join(place)).expect(place);
            assert!(has_test(&text, row), "{row}, {demands}: no test in {place}");
        }
    }
    assert!(!has_test("fn n_1_a() {} fn an_11_b() {}", "n_11") && has_test("fn n_08_n_11_b() {}", "n_11"));
}
