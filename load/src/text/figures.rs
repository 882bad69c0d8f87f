//! Figures for people: units that keep a figure short, thousands grouped, `-` for what is no number.

use crate::kinds::Kind;
use crate::report::Quantiles;
use std::collections::{BTreeMap, BTreeSet};

/// What stands where a figure is missing or no number.
pub const UNKNOWN: &str = "-";

/// From here on a figure is written with an exponent.
const LONGEST: f64 = 1e12;

/// A count: thousands grouped, from 10^12 on rounded to four digits with an exponent.
pub fn count(count: u64) -> String {
    if (count as f64) < LONGEST { grouped(&count.to_string()) } else { format!("{:.3e}", count as f64) }
}

/// A figure of three digits or all those before the point.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    let size = value.abs();
    match size {
        0.0 => "0".to_owned(),
        _ if !(0.000_999_5..LONGEST).contains(&size) => format!("{value:.2e}"),
        _ if size >= 99.95 => grouped(&format!("{value:.0}")),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.9995 => format!("{value:.2}"),
        _ => format!(
            "{value:.*}",
            if size >= 0.099_95 {
                3
            } else if size >= 0.009_995 {
                4
            } else {
                5
            }
        ),
    }
}

/// [`number`] without zeros at its end: for what was asked for, not measured.
pub fn trimmed(value: f64) -> String {
    let text = number(value);
    if text.contains('.') && !text.contains('e') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// So many per second.
pub fn rate(per_second: f64) -> String {
    format!("{}/s", number(per_second))
}

/// A time given in microseconds, in ns, us, ms or s.
pub fn time(microseconds: f64) -> String {
    let (value, unit) = match microseconds.abs() {
        size if !size.is_finite() => return UNKNOWN.to_owned(),
        0.0 => (0.0, "us"),
        size if size < 0.9995 => (microseconds * 1e3, "ns"),
        size if size < 999.5 => (microseconds, "us"),
        size if size < 999.5e3 => (microseconds / 1e3, "ms"),
        _ => (microseconds / 1e6, "s"),
    };
    format!("{} {unit}", number(value))
}

/// A span of whole seconds, rounded down, for those who wait: `18 s`, `2 min 5 s`, `1 h 2 min`.
pub fn span(seconds: f64) -> String {
    if !seconds.is_finite() {
        return UNKNOWN.to_owned();
    }
    let whole = seconds.abs() as u64;
    let sign = if seconds <= -1.0 { "-" } else { "" };
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{sign}{seconds} s"),
        (0, minutes, seconds) => format!("{sign}{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{sign}{} h {minutes} min", count(hours)),
    }
}

/// A number of bytes, in B, KiB, MiB, GiB or TiB.
pub fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes.abs() < 999.5 {
        return format!("{} B", trimmed(bytes.round()));
    }
    let mut value = bytes / 1024.0;
    let mut unit = UNITS[0];
    for larger in &UNITS[1..] {
        if value.abs() >= 999.5 {
            (value, unit) = (value / 1024.0, larger);
        }
    }
    if value.is_finite() { format!("{} {unit}", number(value)) } else { UNKNOWN.to_owned() }
}

/// A share, 1 being all, in percent.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        value if !value.is_finite() => UNKNOWN.to_owned(),
        value if value.abs() < 9_999.95 => format!("{value:.1} %"),
        value => format!("{} %", number(value)),
    }
}

/// One figure by another, with three digits after the point.
pub fn ratio(ratio: f64) -> String {
    if ratio.is_finite() && (0.01..1_000.0).contains(&ratio.abs()) { format!("{ratio:.3}") } else { number(ratio) }
}

/// A moment in seconds since 1970 as `2026-01-31 12:00:00 UTC`; none for what no clock shows.
pub fn moment(unix_s: f64) -> Option<String> {
    const YEAR_10000: f64 = 253_402_300_800.0;
    if !(1.0..YEAR_10000).contains(&unix_s) {
        return None;
    }
    let seconds = unix_s as u64;
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    Some(format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC"))
}

/// Year, month and day of a day since 1970, in the Gregorian calendar.
fn date(mut day: u64) -> (u64, u64, u64) {
    let leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

/// What a quantile's key is called: `p99.9` for `99.9`; `max` and the like as they are.
pub fn quantile(key: &str) -> String {
    if rank(key).is_some() { format!("p{key}") } else { key.to_owned() }
}

/// The keys of some distributions: `min`, the quantiles upwards, `max`, then the rest.
pub fn quantile_keys<'a>(distributions: &[&'a Quantiles]) -> Vec<&'a str> {
    let keys: BTreeSet<&str> = distributions.iter().flat_map(|quantiles| quantiles.keys()).map(String::as_str).collect();
    let mut keys: Vec<&str> = keys.into_iter().collect();
    keys.sort_by(|a, b| place(a).total_cmp(&place(b)));
    keys
}

/// Where a key stands among the others.
pub fn place(key: &str) -> f64 {
    match key {
        "min" => -1.0,
        "max" => 200.0,
        "mean" => 201.0,
        _ => rank(key).unwrap_or(202.0),
    }
}

/// The percentage that a key names, if it names one.
pub fn rank(key: &str) -> Option<f64> {
    key.parse().ok().filter(|percent| (0.0..=100.0).contains(percent))
}

/// The kinds of errors that were met and how often, in the order of [`Kind::ALL`], unknown ones last.
pub fn errors(errors: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    let place = |name: &str| Kind::ALL.iter().position(|kind| kind.name() == name).unwrap_or(Kind::ALL.len());
    let mut met: Vec<(&str, u64)> = errors.iter().filter(|(_, count)| **count > 0).map(|(name, n)| (&**name, *n)).collect();
    met.sort_by_key(|(name, _)| place(name));
    met
}

/// Puts a comma before each group of three digits in a whole number.
fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let mut text = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(999_999_999_999), "999,999,999,999");
        assert_eq!(count(u64::MAX), "1.845e19");
    }

    #[test]
    fn numbers_keep_three_digits() {
        let cases = [
            (0.0, "0"),
            (1.0, "1.00"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.94, "99.9"),
            (99.96, "100"),
            (-1_234.5, "-1,234"),
            (0.9996, "1.00"),
            (0.1234, "0.123"),
            (0.01234, "0.0123"),
            (0.00123, "0.00123"),
            (0.0001, "1.00e-4"),
            (1e12, "1.00e12"),
            (-1e300, "-1.00e300"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text, "{value}");
        }
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for text in [number(value), time(value), span(value), bytes(value), percent(value), ratio(value), trimmed(value)] {
                assert_eq!(text, UNKNOWN);
            }
            assert_eq!(rate(value), "-/s");
            assert_eq!(moment(value), None);
        }
    }

    #[test]
    fn times_take_the_unit_that_fits() {
        let cases = [
            (0.0, "0 us"),
            (0.0123, "12.3 ns"),
            (0.999, "999 ns"),
            (0.9996, "1.00 us"),
            (999.4, "999 us"),
            (999.6, "1.00 ms"),
            (999_400.0, "999 ms"),
            (999_600.0, "1.00 s"),
            (3.6e9, "3,600 s"),
            (-12.5, "-12.5 us"),
        ];
        for (value, text) in cases {
            assert_eq!(time(value), text, "{value}");
        }
    }

    #[test]
    fn spans_bytes_shares_and_ratios() {
        assert_eq!([span(0.9), span(59.9), span(125.0), span(3_725.0)], ["0 s", "59 s", "2 min 5 s", "1 h 2 min"]);
        assert_eq!([span(-2.5), span(-0.5)], ["-2 s", "0 s"]);
        assert_eq!([bytes(0.0), bytes(512.0), bytes(1000.0), bytes(1023.9)], ["0 B", "512 B", "0.977 KiB", "1.00 KiB"]);
        assert_eq!([bytes(1_048_576.0), bytes(-2_048.0), bytes(1e30)], ["1.00 MiB", "-2.00 KiB", "9.09e17 TiB"]);
        assert_eq!(
            [percent(0.0), percent(0.1234), percent(1.0), percent(1e9)],
            ["0.0 %", "12.3 %", "100.0 %", "100,000,000,000 %"]
        );
        assert_eq!([ratio(1.0), ratio(0.98765), ratio(12_345.6), ratio(0.0)], ["1.000", "0.988", "12,346", "0"]);
        assert_eq!([trimmed(2.0), trimmed(2.5), trimmed(100.0), trimmed(0.25)], ["2", "2.5", "100", "0.25"]);
    }

    #[test]
    fn moments_follow_the_calendar() {
        assert_eq!(moment(951_782_400.0).unwrap(), "2000-02-29 00:00:00 UTC");
        assert_eq!(moment(1_767_225_599.9).unwrap(), "2025-12-31 23:59:59 UTC");
        assert_eq!(moment(4_107_542_400.0).unwrap(), "2100-03-01 00:00:00 UTC");
        assert_eq!(moment(0.0), None);
    }

    #[test]
    fn quantiles_stand_in_order() {
        let quantiles: Quantiles =
            ["99.9", "min", "max", "mean", "50", "9", "stddev", "nan"].map(|key| (key.to_owned(), 1.0)).into();
        assert_eq!(quantile_keys(&[&quantiles]), ["min", "9", "50", "99.9", "max", "mean", "nan", "stddev"]);
        assert_eq!([quantile("99.9"), quantile("max"), quantile("nan")], ["p99.9", "max", "nan"]);
    }

    #[test]
    fn only_errors_that_were_met_are_named() {
        let mut counts = crate::kinds::Errors::default().by_name(&[]);
        assert!(errors(&counts).is_empty());
        counts.extend([("reset".to_owned(), 2), ("client_timeout".to_owned(), 1), ("added later".to_owned(), 3)]);
        assert_eq!(errors(&counts), [("client_timeout", 1), ("reset", 2), ("added later", 3)]);
    }
}
