//! What the page needs beyond the figures of the text: labels of axes, and figures that may be absent.

use crate::text::figures::{UNKNOWN, count, number};

/// A figure that may not have been measured.
pub fn measured(value: Option<f64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), number)
}

/// Short enough for an axis, and exact where labels are round: `0.25`, `1,000`, `2.5M`, `1G`.
pub fn short(number: f64) -> String {
    match number.abs() {
        size if !size.is_finite() => UNKNOWN.to_owned(),
        size if size >= 1e15 || (size > 0.0 && size < 1e-6) => format!("{number:.0e}"),
        size if size >= 1e12 => format!("{}T", decimals(number / 1e12)),
        size if size >= 1e9 => format!("{}G", decimals(number / 1e9)),
        size if size >= 1e6 => format!("{}M", decimals(number / 1e6)),
        size if size >= 1000.0 => format!("{}{}", if number < 0.0 { "-" } else { "" }, count(size.round() as u64)),
        _ => decimals(number),
    }
}

/// At most six decimals, none at the end that are nought.
fn decimals(number: f64) -> String {
    let text = format!("{number:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_axes_are_short() {
        let numbers = [0.0, -0.0, 0.1 + 0.2, 1.0175, 250.0, -5000.0, 100_000.0, 2_500_000.0, 1e9, 3e12, 1e20, 1e-9];
        let labels = ["0", "0", "0.3", "1.0175", "250", "-5,000", "100,000", "2.5M", "1G", "3T", "1e20", "1e-9"];
        assert_eq!(numbers.map(short), labels);
    }

    #[test]
    fn what_is_absent_or_no_number_is_a_dash() {
        assert_eq!([measured(None), measured(Some(f64::NAN)), short(f64::INFINITY)], [UNKNOWN; 3]);
        assert_eq!(measured(Some(12.5)), "12.5");
    }
}
