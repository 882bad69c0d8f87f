//! Amounts as people write them: times and sizes, each with its unit. A number alone has one meaning wherever it stands: as a size it is of bytes, and as a
//! time it is refused, but for 0.

use std::time::Duration;

/// Reads a time: numbers with units, such as `500ms`, `30s` and `1m30s`; or `0`, which takes none.
///
/// ```
/// # mod corelane { pub mod service { pub mod entry { pub mod choice { pub use corelane_svc::amounts::time; } } } }
/// use corelane::service::entry::choice::time;
/// use std::time::Duration;
///
/// assert_eq!(time("1m30s"), Ok(Duration::from_secs(90)));
/// assert!(time("3").unwrap_err().contains("write 3s"));
/// ```
///
/// # Errors
/// What is wrong with it, and what to write.
pub fn time(text: &str) -> Result<Duration, String> {
    let is_bare = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') && text.parse::<f64>().is_ok();
    match is_bare {
        true if text == "0" => Ok(Duration::ZERO),
        true => {
            Err(format!("{text:?} has no unit: write {text}s for seconds, {text}ms for milliseconds, or {text}m for minutes"))
        }
        false => humantime::parse_duration(text)
            .map_err(|why| format!("{text:?} is no time: {why}; write numbers with units, such as 500ms, 30s or 1m30s")),
    }
}

/// A time as [`time`] reads it, in one word.
pub fn time_word(time: Duration) -> String {
    humantime::format_duration(time).to_string().replace(' ', "")
}

/// Units of a size, and their bytes; the first ones are those that sizes are written with.
const UNITS: [(&str, u64); 10] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("B", 1),
];

/// How many of [`UNITS`] sizes are written with.
const WRITTEN: usize = 3;

/// Reads a size in bytes: a number of them, or of KiB, MiB or GiB, which are powers of 1024, or of k, M or G (kB, MB, GB), which are powers of 1000.
///
/// ```
/// # mod corelane { pub mod service { pub mod entry { pub mod choice { pub use corelane_svc::amounts::size; } } } }
/// use corelane::service::entry::choice::size;
///
/// assert_eq!([size("4096"), size("64KiB"), size("10k")], [Ok(4_096), Ok(65_536), Ok(10_000)]);
/// ```
///
/// # Errors
/// That it is none, or more than any, and what to write.
pub fn size(text: &str) -> Result<u64, String> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let bytes = if unit.is_empty() { Some(1) } else { UNITS.iter().find(|(name, _)| *name == unit).map(|(_, bytes)| *bytes) };
    match bytes.filter(|_| !digits.is_empty()) {
        Some(bytes) => {
            let size = digits.parse().ok().and_then(|number: u64| number.checked_mul(bytes));
            size.ok_or_else(|| format!("{text:?} is more than any size"))
        }
        None => Err(format!(
            "{text:?} is no size: write a whole number of bytes, such as 4096, or of KiB, MiB or GiB, such as 64MiB, or 10k, 1M or 1G for thousands, millions and billions"
        )),
    }
}

/// A size as [`size`] reads it, in one word; a number alone if it is no whole number of KiB.
pub fn size_word(bytes: u64) -> String {
    let fits = |unit: &&(&str, u64)| bytes > 0 && bytes.is_multiple_of(unit.1);
    match UNITS[..WRITTEN].iter().find(fits) {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

/// The same for people.
pub fn size_words(bytes: u64) -> String {
    let word = size_word(bytes);
    if word.bytes().all(|byte| byte.is_ascii_digit()) { format!("{word} bytes") } else { word }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_nothing() {
        for (text, milliseconds) in
            [("3s", 3_000), ("1.5s", 1_500), ("0", 0), ("0s", 0), ("500ms", 500), ("10m", 600_000), ("1m 30s", 90_000)]
        {
            assert_eq!(time(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        assert_eq!(time("50us"), Ok(Duration::from_micros(50)));
        for text in ["3", "0.5", "00", "1000000"] {
            let why = time(text).expect_err(text);
            assert!(why.contains("has no unit") && why.contains(&format!("write {text}s for seconds")), "{why}");
        }
        for text in ["", ".", "1.2.3", "soon", "-1", "-1s", "1e3", "3 apples", "NaN", "inf", "1s2"] {
            let why = time(text).expect_err(text);
            assert!(why.contains(&format!("{text:?} is no time")) && why.contains("such as 500ms"), "{why}");
        }
    }

    #[test]
    fn a_size_is_of_bytes_or_has_a_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4_096),
            ("7B", 7),
            ("64KiB", 65_536),
            ("4MiB", 4 << 20),
            ("2GiB", 2 << 30),
            ("10k", 10_000),
            ("10kB", 10_000),
            ("3M", 3_000_000),
            ("1GB", 1_000_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "1.5MiB", "-1", "64 MiB", "64mib", "64K", "64KB", "1MiB2", "much", "１"] {
            let why = size(text).expect_err(text);
            assert!(why.contains(&format!("{text:?} is no size")) && why.contains("such as 64MiB"), "{why}");
        }
        for text in ["99999999999999999999", "99999999999GiB"] {
            assert!(size(text).expect_err(text).contains("is more than any size"), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for milliseconds in [0, 1, 500, 90_000, 86_400_000, 1 << 40] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(time(&time_word(duration)), Ok(duration), "{}", time_word(duration));
        }
        for (bytes, word, words) in [
            (0, "0", "0 bytes"),
            (1, "1", "1 bytes"),
            (1_000, "1000", "1000 bytes"),
            (1 << 10, "1KiB", "1KiB"),
            (3 << 19, "1536KiB", "1536KiB"),
            (64 << 20, "64MiB", "64MiB"),
            (u64::MAX, "18446744073709551615", "18446744073709551615 bytes"),
        ] {
            assert_eq!((size_word(bytes).as_str(), size_words(bytes).as_str(), size(word)), (word, words, Ok(bytes)));
        }
    }
}
