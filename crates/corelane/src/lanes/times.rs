//! Times as people write them, in options and on the command line.

use std::time::Duration;

/// Reads a time: a number of seconds, or numbers with units such as `500ms` and `1m 30s`.
///
/// # Errors
/// What is wrong with it, and what to write.
pub fn time(text: &str) -> Result<Duration, String> {
    time_of(text, 1.0, "seconds, such as 3 or 0.5, or units, such as 500ms or 10m")
}

/// Reads a short time: as [`time`], but a number alone is of microseconds.
///
/// # Errors
/// As of [`time`].
pub fn short_time(text: &str) -> Result<Duration, String> {
    time_of(text, 1e-6, "a unit, such as 50us or 1ms, or a number of microseconds")
}

fn time_of(text: &str, bare_seconds: f64, remedy: &str) -> Result<Duration, String> {
    let wrong = |why: String| format!("{text:?} is no time: {why}; write {remedy}");
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return humantime::parse_duration(text).map_err(|error| wrong(error.to_string()));
    }
    let number: f64 = text.parse().map_err(|_| wrong("it is no number".to_owned()))?;
    Duration::try_from_secs_f64(number * bare_seconds).map_err(|error| wrong(error.to_string()))
}

/// A time as [`time`] reads it, in one word.
pub(crate) fn written(time: Duration) -> String {
    humantime::format_duration(time).to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_or_have_units() {
        for (text, milliseconds) in [("3", 3_000), ("0.5", 500), ("0", 0), ("500ms", 500), ("10m", 600_000), ("1m 30s", 90_000)] {
            assert_eq!(time(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", ".", "1.2.3", "soon", "-1", "1e3", "3 apples", "99999999999999999999999", "NaN", "inf"] {
            let error = time(text).expect_err(text);
            assert!(error.contains(&format!("{text:?} is no time")) && error.contains("such as 3 or 0.5"), "{error}");
        }
    }

    #[test]
    fn short_times_are_microseconds_or_have_units() {
        for (text, microseconds) in
            [("50", 50), ("0", 0), ("50us", 50), ("1ms", 1_000), ("1000000", 1_000_000), ("1s", 1_000_000)]
        {
            assert_eq!(short_time(text), Ok(Duration::from_micros(microseconds)), "{text}");
        }
        for text in ["", "soon", "-1", "3 apples"] {
            let error = short_time(text).expect_err(text);
            assert!(error.contains("is no time") && error.contains("such as 50us or 1ms"), "{error}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for milliseconds in [0, 1, 500, 90_000, 86_400_000, 1 << 40] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(time(&written(duration)), Ok(duration), "{}", written(duration));
        }
    }
}
