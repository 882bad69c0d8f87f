//! Numbers and times as people read them. What is not finite is printed as a dash.

/// Stands for what is not a number.
pub const ABSENT: &str = "–";

/// First second of the year 10,000: later dates are no dates.
const END_OF_DATES: f64 = 253_402_300_800.0;

/// `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Four significant digits, more where it is a whole number: `0.125`, `12.35`, `123.4`, `1,235`.
pub fn figure(number: f64) -> String {
    let size = number.abs();
    if !number.is_finite() {
        ABSENT.to_owned()
    } else if size >= 1e15 || (size > 0.0 && size < 0.001) {
        format!("{number:.3e}")
    } else if size >= 999.95 || size.fract() == 0.0 {
        let sign = if number < 0.0 { "-" } else { "" };
        format!("{sign}{}", grouped(size.round() as u64))
    } else {
        let decimals = if size >= 99.995 { 1 } else { 2 + usize::from(size < 9.9995) };
        format!("{number:.decimals$}")
    }
}

/// A figure that may not have been measured.
pub fn measured(number: Option<f64>) -> String {
    number.map_or_else(|| ABSENT.to_owned(), figure)
}

/// A share of one in percent: `12.5 %`.
pub fn percent(share: f64) -> String {
    if share.is_finite() { format!("{} %", trimmed(share * 100.0, 2)) } else { ABSENT.to_owned() }
}

/// Short enough for an axis: `250`, `1,000`, `2.5M`, `1G`.
pub fn short(number: f64) -> String {
    match number.abs() {
        size if !size.is_finite() => ABSENT.to_owned(),
        size if size >= 1e15 => format!("{number:.0e}"),
        size if size >= 1e12 => format!("{}T", trimmed(number / 1e12, 3)),
        size if size >= 1e9 => format!("{}G", trimmed(number / 1e9, 3)),
        size if size >= 1e6 => format!("{}M", trimmed(number / 1e6, 3)),
        size if size > 0.0 && size < 1e-6 => format!("{number:.0e}"),
        size if size >= 1000.0 => figure(number.round()),
        _ => trimmed(number, 6),
    }
}

/// At most so many decimals, none at the end that are nought.
fn trimmed(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// `1.5 MiB`.
pub fn bytes(number: f64) -> String {
    let mut size = number;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size.abs() < 1024.0 {
            return format!("{} {unit}", trimmed(size, 1));
        }
        size /= 1024.0;
    }
    if size.is_finite() { format!("{} TiB", figure(size)) } else { ABSENT.to_owned() }
}

/// Seconds since 1970 as `2026-03-01 12:00:00 UTC`.
pub fn date(unix_s: f64) -> String {
    if !(0.0..END_OF_DATES).contains(&unix_s) {
        return ABSENT.to_owned();
    }
    let (days, second) = ((unix_s / 86_400.0) as u64, unix_s as u64 % 86_400);
    let (year, month, day) = calendar(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// Year, month and day of the month, so many days after the beginning of 1970.
fn calendar(mut days: u64) -> (u64, usize, u64) {
    let mut year = 1970;
    while days >= 365 + leap(year) {
        days -= 365 + leap(year);
        year += 1;
    }
    let lengths = [31, 28 + leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

/// The days that a year has more than 365.
fn leap(year: u64) -> u64 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    u64::from(is_leap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_rounded() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        let figures = [0.0, 0.125, 9.99996, 12.345, 99.999, 123.44, 999.96, 64.0, -1234.5, 1e300, 1e-9];
        let texts = ["0", "0.125", "10.00", "12.35", "100.0", "123.4", "1,000", "64", "-1,235", "1.000e300", "1.000e-9"];
        assert_eq!(figures.map(figure), texts);
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for text in [figure(number), percent(number), short(number), bytes(number), date(number)] {
                assert_eq!(text, ABSENT);
            }
        }
        assert_eq!(measured(None), ABSENT);
        assert_eq!(date(-1.0), ABSENT);
    }

    #[test]
    fn labels_of_axes_are_short() {
        let numbers = [0.0, -0.0, 0.1 + 0.2, 250.0, 100_000.0, 2_500_000.0, 1e9, 3e12, 1e20];
        assert_eq!(numbers.map(short), ["0", "0", "0.3", "250", "100,000", "2.5M", "1G", "3T", "1e20"]);
    }

    #[test]
    fn shares_and_bytes_have_units() {
        assert_eq!([0.0, 0.125, 1.0, 0.00004].map(percent), ["0 %", "12.5 %", "100 %", "0 %"]);
        let sizes = [0.0, 1023.0, 1536.0, 5e9, 1e18];
        assert_eq!(sizes.map(bytes), ["0 B", "1023 B", "1.5 KiB", "4.7 GiB", "909,495 TiB"]);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399.5), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_782_400.0), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_772_366_400.0), "2026-03-01 12:00:00 UTC");
        assert_eq!(date(253_402_300_799.0), "9999-12-31 23:59:59 UTC");
    }
}
