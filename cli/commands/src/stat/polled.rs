//! How much of their time lanes give to packets, and what is left of it for services and tasks.

use corelane::admin::polling::{LanePolling, Settings, polling_of};
use corelane::admin::watch::{LaneCounter, LongTurns, ProcessFigures, Snapshot};

/// Services of lanes that had turns for too long, of which so many are shown at the most.
const LONG_TURNS_MAX: usize = 16;
/// Lanes of which each is shown with its shares, at the most; the first line has the range of all.
const LANES_MAX: usize = 64;

/// How a lane spent its time, each in per cent.
struct Shares {
    lane: usize,
    network: f64,
    user: f64,
}

/// How much of their time lanes give to packets, or threads of the kernel have at their CPUs, and what services and tasks have, in lines of so many columns: of each lane, as far as
/// there is a span. Nothing where none polls and no thread is governed.
pub fn lines(snapshot: &Snapshot, figures: &ProcessFigures<'_>, columns: usize) -> Vec<String> {
    let shares = shares(figures);
    let words: Vec<_> = words(snapshot, figures, columns).into_iter().collect();
    if words.is_empty() {
        return words;
    }
    let wrapped = |begin: &'static str, text: String| {
        let options = textwrap::Options::new(columns).initial_indent(begin).subsequent_indent("    ");
        let lines = textwrap::wrap(&text, options).into_iter().map(|line| line.into_owned());
        lines.filter(|_| !text.is_empty()).collect::<Vec<_>>()
    };
    let is_told = shares.len() < 2 || words[0].contains(&each(&shares));
    let shown = &shares[..shares.len().min(LANES_MAX)];
    let more = if shown.len() < shares.len() { ".." } else { "" };
    let shares = if is_told { Vec::new() } else { wrapped("  network/user of lane ", each(shown) + more) };
    let long: Vec<_> = snapshot.long_turns().take(LONG_TURNS_MAX).map(long_turns).collect();
    [words, shares, wrapped("  long turns while packets waited: ", long.join(", "))].concat()
}

/// Turns that a service had for too long, in words.
fn long_turns(one: LongTurns<'_>) -> String {
    format!("{} of lane {}: {} of {:.1} ms", one.service, one.lane, one.turns, one.milliseconds_each())
}

/// The same in a line, with all lanes if that has room for them, or the least and the most that one has.
pub fn words(snapshot: &Snapshot, figures: &ProcessFigures<'_>, columns: usize) -> Option<String> {
    let (name, set) = by_lanes(snapshot, figures).or_else(|| by_threads(snapshot))?;
    let shares = shares(figures);
    let range = |of: fn(&Shares) -> f64| {
        let (least, most) =
            shares.iter().map(of).fold((f64::MAX, 0.0), |(least, most), share| (share.min(least), share.max(most)));
        format!("{least:.0}-{most:.0}%")
    };
    Some(match &*shares {
        // Without a span nothing is known of shares.
        [] => format!("{name}: {set}"),
        [one] => format!("{name}: network {:.0}%, user {:.0}%, {set}", one.network, one.user),
        several => {
            let all = format!("{name}: {set}; network/user of lane {}", each(several));
            let lanes = several.len();
            let some =
                || format!("{name}: {lanes} lanes, network {}, user {}, {set}", range(|one| one.network), range(|one| one.user));
            if all.chars().count() <= columns { all } else { some() }
        }
    })
}

/// By which controller lanes poll, and what is set.
fn by_lanes(snapshot: &Snapshot, figures: &ProcessFigures<'_>) -> Option<(String, String)> {
    let LanePolling { settings: Settings { controller, knobs, .. }, .. } = polling_of(snapshot).next()?;
    let burst = figures.burst_frames.unwrap_or_default();
    Some((format!("polling ({})", controller.name()), format!("user_frac {}, burst {burst}", knobs.user_frac)))
}

/// That threads of the kernel receive beside lanes, and what these keep.
fn by_threads(snapshot: &Snapshot) -> Option<(String, String)> {
    let lane = snapshot.lanes.iter().find(|lane| lane.is_beside_threads())?;
    Some(("receiving threads".to_owned(), format!("user_frac {}", lane.values.get(LaneCounter::ReceivingUserFrac))))
}

fn each(shares: &[Shares]) -> String {
    let one = |Shares { lane, network, user }: &Shares| format!("{lane}:{network:.0}/{user:.0}%");
    shares.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// The shares of lanes that poll or have such threads beside them, as far as there is a span.
fn shares(figures: &ProcessFigures<'_>) -> Vec<Shares> {
    let lanes = figures.lanes.iter().enumerate();
    let of = lanes.filter_map(|(lane, one)| Some((lane, one.network_share?, one.user_share?)));
    of.map(|(lane, network, user)| Shares { lane, network: network * 100.0, user: user * 100.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneCounter, LaneName, PacketCounter, Page, Reader};

    /// Lanes that poll, each of which gave so many per cent of a second to packets, and slept for so many.
    fn seen(spent: &[[u64; 2]]) -> Snapshot {
        let lane = LaneName { cpu: None, driver: "sim".into(), steering: "table".into() };
        let page = Page::heap(&Description { lanes: vec![lane; spent.len()], ..Description::default() }).unwrap();
        let set = |number: usize, network: u64| {
            page.packets(number).unwrap().together(|row| {
                use PacketCounter as C;
                row.set_protocols(1);
                let knobs = [(C::PollingController, 1), (C::PollingHz, 1000), (C::PollingUserFrac, 30)];
                let others = [(C::PollingBurstMax, 150), (C::PollingEachBurst, 5), (C::PollingRegFrac, 20)];
                let found = [(C::PollingBurst, 80 + number as u64), (C::NetworkNanoseconds, network)];
                [&knobs[..], &others, &found].concat().into_iter().for_each(|(counter, value)| row.set(counter, value));
            });
        };
        (0..spent.len()).for_each(|number| set(number, 7));
        let reader = Reader::of(&page).unwrap();
        let before = reader.snapshot(1_000_000_000);
        for (number, [network, asleep]) in spent.iter().enumerate() {
            set(number, 7 + network * 10_000_000);
            page.lane(number).unwrap().add(LaneCounter::SleepNanoseconds, asleep * 10_000_000);
        }
        reader.snapshot(2_000_000_000).since(&before).unwrap()
    }

    fn lines(snapshot: &Snapshot, columns: usize) -> Vec<String> {
        super::lines(snapshot, &ProcessFigures::of(snapshot), columns)
    }

    #[test]
    fn each_lane_has_its_network_and_user_share() {
        let one = seen(&[[42, 27]]);
        assert_eq!(lines(&one, 80), ["polling (timed): network 42%, user 31%, user_frac 30, burst 80"]);
        let two = seen(&[[42, 27], [70, 0]]);
        assert_eq!(lines(&two, 80), ["polling (timed): user_frac 30, burst 81; network/user of lane 0:42/31% 1:70/30%"]);
        // Whoever counts differently from one call of the system to another has no less than nothing.
        assert!(lines(&seen(&[[90, 20]]), 80)[0].contains("network 90%, user 0%"));
    }

    #[test]
    fn a_lane_beside_threads_of_the_kernel_has_their_share_and_its_own() {
        let lane = LaneName { cpu: None, driver: "sim".into(), steering: "kernel".into() };
        let page = Page::heap(&Description { lanes: vec![lane], ..Description::default() }).unwrap();
        page.lane(0).unwrap().set(LaneCounter::ReceivingUserFrac, 80);
        let reader = Reader::of(&page).unwrap();
        let before = reader.snapshot(1_000_000_000);
        page.lane(0).unwrap().set(LaneCounter::ReceivingNanoseconds, 150_000_000);
        let since = reader.snapshot(2_000_000_000).since(&before).unwrap();
        assert_eq!(lines(&since, 80), ["receiving threads: network 15%, user 85%, user_frac 80"]);
        assert_eq!(lines(&before, 80), ["receiving threads: user_frac 80"]);
    }

    #[test]
    fn many_lanes_have_a_range_in_a_line_and_lines_below() {
        let many = seen(&[[42, 27], [70, 0], [10, 90], [20, 0], [30, 30], [40, 40], [50, 50], [60, 40]]);
        let lines = lines(&many, 80);
        assert_eq!(lines[0], "polling (timed): 8 lanes, network 10-70%, user 0-80%, user_frac 30, burst 87");
        assert_eq!(lines[0], words(&many, &ProcessFigures::of(&many), 80).unwrap());
        let below = lines[1..].join(" ");
        for (number, share) in ["42/31%", "70/30%", "10/0%", "20/80%", "30/40%", "40/20%", "50/0%", "60/0%"].iter().enumerate() {
            assert!(below.contains(&format!("{number}:{share}")), "{lines:?}");
        }
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
    }

    #[test]
    fn where_nothing_polls_there_is_nothing_and_without_a_span_no_share() {
        let page = Page::heap(&Description { lanes: vec![LaneName::default()], ..Description::default() }).unwrap();
        assert_eq!(lines(&Reader::of(&page).unwrap().snapshot(1), 80), [""; 0]);
        let without = Snapshot { span_nanoseconds: None, ..seen(&[[42, 27], [70, 0]]) };
        assert_eq!(lines(&without, 80), ["polling (timed): user_frac 30, burst 81"]);
    }
}
