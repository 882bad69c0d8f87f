//! Figures as people read them at a glance: three or four digits and a unit.

const LARGE: [(f64, &str); 6] = [(1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"), (1e18, "E")];

/// A number of things: `999`, `12.3k`, `4.56M`. At most six columns.
///
/// # Panics
/// With a number below 0: things are counted from there.
pub fn amount(number: f64) -> String {
    assert!(number >= 0.0, "things are counted from 0");
    // Rounded first, so that 999.6 is not shown as 1000.
    match LARGE.iter().rev().find(|(size, _)| number.round() >= *size) {
        None => format!("{number:.0}"),
        Some((size, unit)) => format!("{}{unit}", digits(number / size)),
    }
}

/// A time: `850ns`, `12.3us`, `4.56ms`, `7.00s`.
pub fn time(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds}ns"),
        1_000..1_000_000 => format!("{}us", digits(nanoseconds as f64 / 1e3)),
        1_000_000..1_000_000_000 => format!("{}ms", digits(nanoseconds as f64 / 1e6)),
        _ if nanoseconds < 1_000_000_000_000 => format!("{}s", digits(nanoseconds as f64 / 1e9)),
        _ => format!("{}h", amount(nanoseconds as f64 / 3.6e12)),
    }
}

fn digits(number: f64) -> String {
    let places = if number < 9.995 { 2 } else { usize::from(number < 99.95) };
    format!("{number:.places$}")
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let amounts = [0.0, 999.4, 999.6, 1234.0, 56_789.0, 1e6, 18e18].map(amount);
        assert_eq!(amounts, ["0", "999", "1.00k", "1.23k", "56.8k", "1.00M", "18.0E"]);
        let times = [7, 1_000, 45_600, 1_234_567, 999_999_999_999, 7_200_000_000_000].map(time);
        assert_eq!(times, ["7ns", "1.00us", "45.6us", "1.23ms", "1000s", "2h"]);
    }

    proptest! {
        #[test]
        fn figures_fit_their_columns(number: u64) {
            prop_assert!(amount(number as f64).len() <= 6, "{}", amount(number as f64));
            prop_assert!(time(number).len() <= 7, "{}", time(number));
        }
    }
}
