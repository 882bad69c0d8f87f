//! Dates (RFC 9110 section 5.6.7), by a library.

use httpdate::HttpDate;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// The last second of the year 9999, which is the last that the form can say.
const LAST: i64 = 253_402_300_799;

/// A second, as fields have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(i64);

impl Date {
    /// Bytes of a date.
    pub const BYTES: usize = 29;

    /// The date of so many seconds since 1970 (UTC). Before 1970 and after 9999 it is the nearest that can be said.
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self(seconds.clamp(0, LAST))
    }

    /// Seconds since 1970 (UTC).
    pub const fn unix_seconds(self) -> i64 {
        self.0
    }

    /// Reads a date in any of the three forms; none where it has none of them, or lies before 1970.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let date: HttpDate = std::str::from_utf8(text).ok()?.parse().ok()?;
        let since = SystemTime::from(date).duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Self::from_unix_seconds(i64::try_from(since.as_secs()).ok()?))
    }

    /// As it is to be sent: `Sun, 06 Nov 1994 08:49:37 GMT`. Costs about a microsecond: keep it for the second that it lasts.
    pub fn text(self) -> [u8; Self::BYTES] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(self.0.unsigned_abs());
        let mut text = Text([b' '; Self::BYTES], 0);
        let written = write!(text, "{}", HttpDate::from(time));
        assert!(written.is_ok() && text.1 == Self::BYTES, "the form is fixed");
        text.0
    }
}

/// A date being written.
struct Text([u8; Date::BYTES], usize);

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let place = self.0.get_mut(self.1..self.1 + text.len()).ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.1 += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 9110 section 5.6.7.
    const EXAMPLE: Date = Date(784_111_777);

    #[test]
    fn the_three_forms() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            assert_eq!(Date::parse(text.as_bytes()), Some(EXAMPLE), "{text}");
        }
        for text in [
            "",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37",
            "06 Nov 1994",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "0",
        ] {
            assert_eq!(Date::parse(text.as_bytes()), None, "{text}");
        }
    }

    /// By 2026, and for more than forty years behind that.
    #[test]
    fn a_year_of_two_digits_is_never_far_ahead() {
        let days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
        let year_of = |two: i64| {
            // Only one of them is the day.
            let read = |day: &&str| Date::parse(format!("{day}, 01-Jan-{two:02} 00:00:00 GMT").as_bytes());
            let text = days.iter().find_map(read).unwrap().text();
            std::str::from_utf8(&text[12..16]).unwrap().parse::<i64>().unwrap()
        };
        for two in 0..100 {
            let year = year_of(two);
            assert!(year % 100 == two && (1970..=2076).contains(&year), "{two} is {year}");
        }
        assert_eq!([year_of(99), year_of(77), year_of(26)], [1999, 1977, 2026]);
    }

    #[test]
    fn one_form_is_written() {
        assert_eq!(&EXAMPLE.text(), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&Date::from_unix_seconds(i64::MIN).text(), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&Date::from_unix_seconds(i64::MAX).text(), b"Fri, 31 Dec 9999 23:59:59 GMT");
    }

    #[test]
    fn what_is_written_reads_the_same() {
        for day in 0..120_000 {
            let date = Date::from_unix_seconds(day * 86_399);
            assert_eq!(Date::parse(&date.text()), Some(date));
        }
    }
}
