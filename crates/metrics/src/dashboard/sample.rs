//! One second, as the graphs need it.

use corelane::admin::watch::{Count, LaneCounter, PacketCounter, ProcessFigures, Snapshot};
use serde::Serialize;

/// One second, as the graphs need it. In the page's script the fields are numbered in this order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Sample(
    /// When it ended, in milliseconds since 1970.
    u64,
    /// Requests.
    f64,
    /// Connections that are open.
    u64,
    /// Microseconds that half, and 99 of 100, of its requests took.
    Option<f64>,
    Option<f64>,
    /// Strays.
    f64,
    /// The share of their time in which the lanes worked.
    f64,
    /// The same for packets, of lanes that poll, for services and tasks, and the greatest burst.
    Option<f64>,
    Option<f64>,
    Option<u64>,
    /// What is set of polling, in the order of [`KNOBS`].
    Option<[u64; KNOBS.len()]>,
);

/// What is set of polling, in its order.
const KNOBS: [PacketCounter; 8] = [
    PacketCounter::PollingController,
    PacketCounter::PollingHz,
    PacketCounter::PollingUserFrac,
    PacketCounter::PollingBurstMax,
    PacketCounter::PollingEachBurst,
    PacketCounter::PollingRegFrac,
    PacketCounter::PollingIdlePoll,
    PacketCounter::PollingOtherPrograms,
];

/// The number of receiving threads among the controllers.
const THREADS: u64 = 3;

pub(super) fn sample(since: &Snapshot, figures: &ProcessFigures<'_>, unix_milliseconds: u64) -> Sample {
    let shows = figures.network_share.is_some();
    Sample(
        unix_milliseconds,
        rate(figures.requests),
        figures.connections_open,
        microseconds(figures.request_nanoseconds.p50),
        microseconds(figures.request_nanoseconds.p99),
        rate(figures.strays),
        figures.worked_share.unwrap_or(0.0),
        figures.network_share,
        figures.user_share,
        figures.burst_frames.filter(|_| shows),
        // All lanes are told the same.
        shows.then(|| by_threads(since).unwrap_or_else(|| by_lanes(since))),
    )
}

fn by_lanes(since: &Snapshot) -> [u64; KNOBS.len()] {
    let knob = |knob| since.lanes.iter().filter_map(|lane| Some(lane.packets.as_ref()?.values.get(knob))).max();
    KNOBS.map(|one| knob(one).unwrap_or_default())
}

/// Of threads of the kernel beside lanes only the user fraction is set. They stand as a controller of their own.
fn by_threads(since: &Snapshot) -> Option<[u64; KNOBS.len()]> {
    let lane = since.lanes.iter().find(|lane| lane.is_beside_threads())?;
    let user_frac = lane.values.get(LaneCounter::ReceivingUserFrac);
    Some(KNOBS.map(|one| match one {
        PacketCounter::PollingController => THREADS,
        PacketCounter::PollingUserFrac => user_frac,
        _ => 0,
    }))
}

/// For each second of the look.
pub(super) fn rate(count: Count) -> f64 {
    count.per_second.unwrap_or(0.0)
}

pub(super) fn microseconds(nanoseconds: Option<u64>) -> Option<f64> {
    nanoseconds.map(|nanoseconds| nanoseconds as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page, Reader};

    #[test]
    fn a_second_has_what_packets_took_of_lanes_that_poll_and_what_is_set() {
        let lanes = vec![LaneName::default(); 3];
        let page = Page::heap(&Description { lanes, ..Description::default() }).expect("a page");
        let set = |lane: usize, counters: &[(PacketCounter, u64)]| {
            let row = page.packets(lane).expect("a row");
            row.together(|row| {
                row.set_protocols(1);
                counters.iter().for_each(|&(counter, value)| row.set(counter, value));
            });
        };
        use PacketCounter as C;
        // The third lane has packets, and does not poll.
        set(2, &[(C::NetworkNanoseconds, 0)]);
        for lane in 0..2 {
            set(lane, &KNOBS.into_iter().zip([2, 1000, 30, 150, 5, 20, 1, 0]).collect::<Vec<_>>());
            set(lane, &[(C::PollingBurst, 60 + lane as u64), (C::NetworkNanoseconds, 5)]);
        }
        let reader = Reader::of(&page).expect("a reader");
        let before = reader.snapshot(1_000_000_000);
        set(0, &[(C::NetworkNanoseconds, 5 + 200_000_000)]);
        set(1, &[(C::NetworkNanoseconds, 5 + 400_000_000)]);
        let of = |since: Snapshot, at| sample(&since, &ProcessFigures::of(&since), at);
        let Sample(at, .., network, user, burst, knobs) = of(reader.snapshot(2_000_000_000).since(&before).expect("a span"), 77);
        assert_eq!((at, burst, knobs), (77, Some(61), Some([2, 1000, 30, 150, 5, 20, 1, 0])));
        assert!(network.is_some_and(|share| (share - 0.3).abs() < 1e-9), "{network:?}: the mean of those that poll");
        assert!(user.is_some_and(|share| (share - 0.7).abs() < 1e-9), "{user:?}: what packets leave of lanes that do not sleep");
        let page = Page::heap(&Description { lanes: vec![LaneName::default()], ..Description::default() }).expect("a page");
        page.lane(0).expect("a row").set(LaneCounter::ReceivingUserFrac, 80);
        let reader = Reader::of(&page).expect("a reader");
        let Sample(.., network, user, burst, knobs) = of(reader.snapshot(2).since(&reader.snapshot(1)).expect("a span"), 0);
        assert_eq!(
            (network, user, burst, knobs),
            (Some(0.0), Some(1.0), None, Some([3, 0, 80, 0, 0, 0, 0, 0])),
            "beside threads"
        );
        let page = Page::heap(&Description { lanes: vec![LaneName::default()], ..Description::default() }).expect("a page");
        let reader = Reader::of(&page).expect("a reader");
        let Sample(.., network, user, burst, knobs) = of(reader.snapshot(2).since(&reader.snapshot(1)).expect("a span"), 0);
        assert_eq!((network, user, burst, knobs), (None, None, None, None), "where nothing polls");
    }
}
