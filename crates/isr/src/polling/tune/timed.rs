//! What can be tuned of the controller that goes by the clock.

use super::super::knobs::{Knob, Knobs};
use super::dimension::{Bears, Dimension, Towards};

/// The dimensions of a controller with these knobs: the most promising first.
#[must_use]
pub fn dimensions(knobs: &Knobs) -> Vec<Dimension> {
    let of = |knob: Knob, values: &[u32], first, bears| {
        let (name, start, values) = (knob.name(), knobs.get(knob), values.to_vec());
        Dimension { name, values, start, first, bears }
    };
    vec![
        of(Knob::UserFrac, &[10, 20, 30, 40, 50, 60, 70, 80, 90], Towards::Down, Bears::UserShare),
        of(Knob::EachBurst, &[8, 16, 32, 64], Towards::Down, Bears::Nothing),
        of(Knob::BurstMax, &[64, 128, 256, 1024, 20_000], Towards::Down, Bears::Burst),
    ]
}
