//! The limits by name, for those who set them from text.

use crate::limits::Limits;
use crate::limits::amounts::{size, size_word, size_words, time, time_word};
use crate::limits::nearest::did_you_mean;
use corelane_seam::nanoseconds;
use std::time::Duration;

/// A limit's name, what it is a number of, and how it is set.
struct Setting {
    name: &'static str,
    unit: Unit,
    /// The least that makes sense; 0 only where it means "no limit", or nothing.
    least: u64,
    /// False if the value does not fit. Times are in nanoseconds.
    set: fn(&mut Limits, u64) -> bool,
    get: fn(&Limits) -> u64,
}

/// The unit of a limit.
#[derive(Clone, Copy)]
enum Unit {
    /// So many of these.
    Of(&'static str),
    /// A size, or with what stands here so much of it.
    Size(&'static str),
    /// A time.
    Time,
}

macro_rules! settings {
    ($($name:ident $($field:ident).+ as $type:ty, $unit:expr, from $least:expr;)*) => {
        const SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($name),
            unit: $unit,
            least: $least,
            set: |limits, value| <$type>::of(value).map(|value| limits.$($field).+ = value).is_some(),
            get: |limits| limits.$($field).+.number(),
        }),*];
    };
}

/// A limit as a number.
trait Value: Sized {
    /// None if it does not fit.
    fn of(number: u64) -> Option<Self>;
    fn number(self) -> u64;
}

impl Value for u32 {
    fn of(number: u64) -> Option<Self> {
        number.try_into().ok()
    }

    fn number(self) -> u64 {
        self.into()
    }
}

impl Value for usize {
    fn of(number: u64) -> Option<Self> {
        number.try_into().ok()
    }

    fn number(self) -> u64 {
        u64::try_from(self).unwrap_or(u64::MAX)
    }
}

impl Value for u64 {
    fn of(number: u64) -> Option<Self> {
        Some(number)
    }

    fn number(self) -> u64 {
        self
    }
}

/// In nanoseconds.
impl Value for Duration {
    fn of(number: u64) -> Option<Self> {
        Some(Self::from_nanos(number))
    }

    fn number(self) -> u64 {
        nanoseconds(self)
    }
}

const MILLISECOND: u64 = 1_000_000;
const SIZE: Unit = Unit::Size("");

settings! {
    connections_max connections_max as u32, Unit::Of("connections"), from 1;
    connections_per_peer_max connections_per_peer_max as u32, Unit::Of("connections"), from 0;
    handshakes_max handshakes_max as u32, Unit::Of("handshakes"), from 1;
    requests_in_flight_max requests_in_flight_max as u32, Unit::Of("requests"), from 1;
    timers_per_connection_max timers_per_connection_max as u32, Unit::Of("timers"), from 1;
    alarms_max alarms_max as u32, Unit::Of("alarms"), from 1;
    asks_max asks_max as u32, Unit::Of("questions"), from 1;
    record_max record_max as usize, SIZE, from 1;
    output_high output_high as usize, SIZE, from 1;
    output_max output_max as usize, SIZE, from 1;
    receive_rate_min receive_rate_min as u64, Unit::Size(" per second"), from 0;
    send_rate_min send_rate_min as u64, Unit::Size(" per second"), from 0;
    idle_limit idle_limit as Duration, Unit::Time, from 0;
    read_limit read_limit as Duration, Unit::Time, from 0;
    send_limit send_limit as Duration, Unit::Time, from 0;
    answer_limit answer_limit as Duration, Unit::Time, from 0;
    linger_limit linger_limit as Duration, Unit::Time, from MILLISECOND;
    connect_limit connect_limit as Duration, Unit::Time, from MILLISECOND;
    handshake_limit handshake_limit as Duration, Unit::Time, from MILLISECOND;
    drain_limit drain_limit as Duration, Unit::Time, from MILLISECOND;
    backlog backlog as u32, Unit::Of("connections"), from 1;
    datagram_sockets_max datagram_sockets_max as u32, Unit::Of("sockets"), from 1;
    datagrams_waiting_max datagrams_waiting_max as u32, Unit::Of("datagrams"), from 1;
    keep_alive stream.keep_alive as Duration, Unit::Time, from 0;
    user_timeout stream.user_timeout as Duration, Unit::Time, from 0;
    send_buffer stream.send_buffer_bytes as u32, SIZE, from 0;
    receive_buffer stream.receive_buffer_bytes as u32, SIZE, from 0;
}

impl Unit {
    /// The number that a text stands for; none if it is more than any limit.
    fn read(self, text: &str) -> Result<Option<u64>, String> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match self {
            Self::Of(what) if !is_number => Err(format!("{text:?} is not a number of {what}")),
            Self::Of(_) => Ok(text.parse().ok()),
            Self::Size(_) => size(text).map(Some),
            Self::Time => time(text).map(|time| time.as_nanos().try_into().ok()),
        }
    }

    /// The text that stands for a number, without what it is a number of.
    fn value(self, number: u64) -> String {
        match self {
            Self::Of(_) => number.to_string(),
            Self::Size(_) => size_word(number),
            Self::Time => time_word(Duration::from_nanos(number)),
        }
    }

    /// The same for people.
    fn words(self, number: u64) -> String {
        match self {
            Self::Of(what) => format!("{number} {what}"),
            Self::Size(of) => size_words(number) + of,
            Self::Time => self.value(number),
        }
    }
}

impl Limits {
    /// Sets a limit from `NAME=VALUE`. A time has a unit, as in `idle_limit=30s`, `500ms` or `1m30s`; a size may have one, as in `record_max=64KiB`, and is
    /// of bytes without ([`crate::amounts`]).
    ///
    /// # Errors
    /// What is wrong with the text, in words.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=VALUE: write for example idle_limit=30s"))?;
        if name == "no_delay" {
            self.stream.no_delay = value.parse().map_err(|_| format!("no_delay: {value:?} is neither true nor false"))?;
            return Ok(());
        }
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        let setting = setting.ok_or_else(|| {
            let all: Vec<_> = names().collect();
            format!("there is no limit {name:?}{}; there are {}", did_you_mean(name, names()), all.join(", "))
        })?;
        match setting.unit.read(value).map_err(|why| format!("{name}: {why}"))? {
            Some(number) if number < setting.least => {
                let (little, least) = (setting.unit.words(number), setting.unit.value(setting.least));
                Err(format!("{name}: {little} is too little: {least} or more"))
            }
            Some(number) if (setting.set)(self, number) => Ok(()),
            _ => Err(format!("{name}: {value} is more than a limit can be")),
        }
    }

    /// All limits with their values, a line each: what [`Limits::set`] takes, and for a number what it counts.
    pub fn describe(&self) -> String {
        let line = |setting: &Setting| format!("{}={}", setting.name, setting.unit.words((setting.get)(self)));
        let mut lines: Vec<String> = SETTINGS.iter().map(line).collect();
        lines.push(format!("no_delay={}", self.stream.no_delay));
        lines.join("\n")
    }

    /// Whether a limit has this name.
    pub fn is_named(name: &str) -> bool {
        names().any(|limit| limit == name)
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    SETTINGS.iter().map(|setting| setting.name).chain(["no_delay"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_can_be_set_by_the_text_that_describes_it() {
        let mut limits = Limits::default();
        for line in Limits::default().describe().lines() {
            let (text, _) = line.split_once(' ').unwrap_or((line, ""));
            limits.set(text).unwrap();
        }
        assert_eq!(limits, Limits::default());
        limits.set("idle_limit=1500ms").unwrap();
        limits.set("no_delay=false").unwrap();
        assert_eq!((limits.idle_limit, limits.stream.no_delay), (Duration::from_millis(1500), false));
    }

    #[test]
    fn a_time_and_a_size_have_units() {
        let mut limits = Limits::default();
        for text in
            ["idle_limit=1m 30s", "keep_alive=2m", "record_max=64KiB", "output_high=10k", "send_buffer=4096", "read_limit=0"]
        {
            limits.set(text).unwrap();
        }
        assert_eq!((limits.idle_limit, limits.stream.keep_alive), (Duration::from_secs(90), Duration::from_secs(120)));
        assert_eq!((limits.record_max, limits.output_high, limits.stream.send_buffer_bytes), (65_536, 10_000, 4_096));
        assert_eq!(limits.read_limit, Duration::ZERO);
        for line in ["idle_limit=1m30s", "record_max=64KiB", "output_high=10000 bytes", "receive_rate_min=16 bytes per second"] {
            assert!(limits.describe().lines().any(|described| described == line), "{line}: {}", limits.describe());
        }
    }

    #[test]
    fn what_is_wrong_with_a_time_is_said_with_how_one_is_written() {
        for (text, words) in [
            ("idle_limit=soon", "idle_limit: \"soon\" is no time: "),
            ("idle_limit=soon", "write numbers with units, such as 500ms, 30s or 1m30s"),
            ("idle_limit=3", "idle_limit: \"3\" has no unit: write 3s for seconds, 3ms for milliseconds"),
            ("keep_alive=60", "keep_alive: \"60\" has no unit: write 60s for seconds"),
            ("record_max=1K", "record_max: \"1K\" is no size: "),
            ("send_buffer=8GiB", "send_buffer: 8GiB is more than a limit can be"),
            ("drain_limit=0", "drain_limit: 0s is too little: 1ms or more"),
            ("drain_limit=999us", "drain_limit: 999us is too little: 1ms or more"),
            ("idle_limit=1000years", "idle_limit: 1000years is more than a limit can be"),
            ("backlog=0", "backlog: 0 connections is too little: 1 or more"),
            ("backlog=1s", "backlog: \"1s\" is not a number of connections"),
        ] {
            let why = Limits::default().set(text).unwrap_err();
            assert!(why.contains(words), "{text}: {why}");
        }
    }

    #[test]
    fn what_a_lane_cannot_keep_is_refused_with_a_remedy() {
        let limits = Limits::default();
        assert_eq!(limits.check(usize::MAX), Ok(()), "too much memory is refused elsewhere");
        assert_eq!(limits.check(1), Ok(()), "the defaults fit in the least memory that a lane can have");
        let record = |record_max, memory| limits.record_max(record_max).check(memory);
        assert_eq!((record(4 << 20, 64 << 20), record(2 << 20, 4 << 20)), (Ok(()), Ok(())));
        assert!(record((4 << 20) + 1, 1 << 30).unwrap_err().contains("remedy: record_max=4MiB or less"));
        assert!(record((2 << 20) + 1, 4 << 20).unwrap_err().ends_with("or more memory (--memory)"));
        let contradictory = limits.output_high(2).output_max(1);
        assert!(contradictory.check(64 << 20).unwrap_err().starts_with("output_max=1: "));
    }

    #[test]
    fn bad_texts_are_refused_with_the_names_that_exist() {
        let mut limits = Limits::default();
        assert!(limits.set("idle=1").unwrap_err().contains("idle_limit"));
        for bad in [
            "idle_limit",
            "idle_limit=x",
            "idle_limit=-1",
            "idle_limit=",
            "no_delay=maybe",
            "output_high=0",
            "connections_max=0",
            "connections_max=99999999999",
            "idle_limit=99999999999999999",
        ] {
            assert!(limits.set(bad).is_err(), "{bad}");
        }
    }
}
