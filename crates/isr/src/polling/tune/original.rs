//! What can be tuned of the original's controller: the clock's ticks and its knobs.

use super::super::knobs::{Knob, Knobs};
use super::dimension::{Bears, Dimension, Settings, Towards};

/// The name of the clock's ticks a second among the dimensions.
pub const TICKS: &str = "hz";

/// The dimensions of a controller at `hz` ticks a second with these knobs: the most promising first.
#[must_use]
pub fn dimensions(hz: u32, knobs: &Knobs) -> Vec<Dimension> {
    let of = |knob: Knob, values: &[u32], first, bears| {
        let (name, start, values) = (knob.name(), knobs.get(knob), values.to_vec());
        Dimension { name, values, start, first, bears }
    };
    let hz = Dimension {
        name: TICKS,
        values: vec![100, 250, 500, 1000, 1500, 2500, 4000, 6000],
        start: hz,
        first: Towards::Up,
        bears: Bears::Nothing,
    };
    vec![
        hz,
        of(Knob::UserFrac, &[10, 20, 30, 40, 50, 60, 70, 80, 90], Towards::Down, Bears::UserShare),
        of(Knob::IdlePoll, &[0, 1], Towards::Up, Bears::Nothing),
        of(Knob::BurstMax, &[40, 75, 150, 300, 600, 1200], Towards::Up, Bears::Burst),
        of(Knob::EachBurst, &[2, 5, 10, 20, 40], Towards::Up, Bears::Nothing),
        of(Knob::RegFrac, &[5, 20, 50, 100], Towards::Up, Bears::Nothing),
    ]
}

/// The ticks a second and the knobs of settings; what they do not name stays, and what the other values bound comes into its range.
#[must_use]
pub fn knobs(settings: &Settings, hz: u32, knobs: &Knobs) -> (u32, Knobs) {
    let hz = settings.get(TICKS).unwrap_or(hz);
    let value = |knob: Knob| settings.get(knob.name()).unwrap_or_else(|| knobs.get(knob));
    let burst_max = value(Knob::BurstMax);
    let knobs = Knobs {
        user_frac: value(Knob::UserFrac),
        burst_max,
        each_burst: value(Knob::EachBurst).min(burst_max),
        reg_frac: value(Knob::RegFrac).min(hz),
        idle_poll: value(Knob::IdlePoll) == 1,
    };
    (hz, knobs)
}
