//! How much of their time lanes give to packets, in a line.

use corelane::admin::polling::{LanePolling, Settings, polling_of};
use corelane::admin::watch::Snapshot;

/// A line on how much of their time lanes give to packets; none where none polls.
pub fn words(snapshot: &Snapshot) -> Option<String> {
    let polled: Vec<LanePolling> = polling_of(snapshot).collect();
    let first = polled.first()?;
    let shares = polled.iter().filter_map(|one| snapshot.network_share(snapshot.lanes.get(one.lane)?));
    let (least, most) = shares.fold((f64::MAX, 0.0_f64), |(least, most), share| (least.min(share), most.max(share)));
    let took = match polled.len() {
        // Without a span nothing is known of shares.
        _ if least > most => String::new(),
        1 => format!("packets took {:.0}% of its time, ", most * 100.0),
        lanes => format!("packets took {:.0} to {:.0}% of {lanes} lanes' time, ", least * 100.0, most * 100.0),
    };
    let burst = polled.iter().map(|one| one.variables.burst).max().unwrap_or_default();
    let Settings { controller, knobs, .. } = first.settings;
    Some(format!("polling ({}): {took}user_frac {}, burst {burst}", controller.name(), knobs.user_frac))
}
