//! The limits by name, for those who set them from text.

use crate::limits::Limits;
use corelane_seam::nanoseconds;
use std::time::Duration;

/// A limit's name, its unit, and how it is set.
struct Setting {
    name: &'static str,
    unit: &'static str,
    /// The least that makes sense; 0 only where it means "no limit", or nothing.
    least: u64,
    /// False if the value does not fit.
    set: fn(&mut Limits, u64) -> bool,
    get: fn(&Limits) -> u64,
}

macro_rules! settings {
    ($($name:ident $($field:ident).+ as $type:ty, $scale:expr, $unit:literal, from $least:literal;)*) => {
        const SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($name),
            unit: $unit,
            least: $least,
            set: |limits, value| {
                let fitting = value.checked_mul($scale).and_then(<$type>::of);
                fitting.map(|value| limits.$($field).+ = value).is_some()
            },
            get: |limits| limits.$($field).+.number() / $scale,
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
const SECOND: u64 = 1000 * MILLISECOND;

settings! {
    connections_max connections_max as u32, 1, "connections", from 1;
    connections_per_peer_max connections_per_peer_max as u32, 1, "connections", from 0;
    handshakes_max handshakes_max as u32, 1, "handshakes", from 1;
    requests_in_flight_max requests_in_flight_max as u32, 1, "requests", from 1;
    timers_per_connection_max timers_per_connection_max as u32, 1, "timers", from 1;
    alarms_max alarms_max as u32, 1, "alarms", from 1;
    asks_max asks_max as u32, 1, "questions", from 1;
    record_max record_max as usize, 1, "bytes", from 1;
    output_high output_high as usize, 1, "bytes", from 1;
    output_max output_max as usize, 1, "bytes", from 1;
    receive_rate_min receive_rate_min as u64, 1, "bytes per second", from 0;
    idle_limit idle_limit as Duration, MILLISECOND, "milliseconds", from 0;
    read_limit read_limit as Duration, MILLISECOND, "milliseconds", from 0;
    send_limit send_limit as Duration, MILLISECOND, "milliseconds", from 0;
    answer_limit answer_limit as Duration, MILLISECOND, "milliseconds", from 0;
    linger_limit linger_limit as Duration, MILLISECOND, "milliseconds", from 1;
    connect_limit connect_limit as Duration, MILLISECOND, "milliseconds", from 1;
    handshake_limit handshake_limit as Duration, MILLISECOND, "milliseconds", from 1;
    drain_limit drain_limit as Duration, MILLISECOND, "milliseconds", from 1;
    backlog backlog as u32, 1, "connections", from 1;
    datagram_sockets_max datagram_sockets_max as u32, 1, "sockets", from 1;
    datagrams_waiting_max datagrams_waiting_max as u32, 1, "datagrams", from 1;
    keep_alive stream.keep_alive as Duration, SECOND, "seconds", from 0;
    user_timeout stream.user_timeout as Duration, MILLISECOND, "milliseconds", from 0;
    send_buffer stream.send_buffer_bytes as u32, 1, "bytes", from 0;
    receive_buffer stream.receive_buffer_bytes as u32, 1, "bytes", from 0;
}

impl Limits {
    /// Sets a limit from `NAME=VALUE`, in the unit that [`Limits::describe`] gives.
    ///
    /// # Errors
    /// What is wrong with the text, in words.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let (name, value) =
            text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=VALUE: write for example idle_limit=30000"))?;
        if name == "no_delay" {
            self.stream.no_delay = value.parse().map_err(|_| format!("no_delay: {value:?} is neither true nor false"))?;
            return Ok(());
        }
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        let setting = setting.ok_or_else(|| format!("there is no limit {name:?}; there are {}", names().join(", ")))?;
        let value: u64 = value.parse().map_err(|_| format!("{name}: {value:?} is not a number of {}", setting.unit))?;
        match value >= setting.least && (setting.set)(self, value) {
            true => Ok(()),
            false if value < setting.least => {
                Err(format!("{name}: {value} {} is too little: {} or more", setting.unit, setting.least))
            }
            false => Err(format!("{name}: {value} {} is more than a limit can be", setting.unit)),
        }
    }

    /// All limits with their values and units, a line each.
    pub fn describe(&self) -> String {
        let line = |setting: &Setting| format!("{}={} {}", setting.name, (setting.get)(self), setting.unit);
        let mut lines: Vec<String> = SETTINGS.iter().map(line).collect();
        lines.push(format!("no_delay={}", self.stream.no_delay));
        lines.join("\n")
    }
}

fn names() -> Vec<&'static str> {
    SETTINGS.iter().map(|setting| setting.name).chain(["no_delay"]).collect()
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
        limits.set("idle_limit=1500").unwrap();
        limits.set("no_delay=false").unwrap();
        assert_eq!((limits.idle_limit, limits.stream.no_delay), (Duration::from_millis(1500), false));
    }

    #[test]
    fn what_a_lane_cannot_keep_is_refused_with_a_remedy() {
        let limits = Limits::default();
        assert_eq!(limits.check(usize::MAX), Ok(()), "too much memory is refused elsewhere");
        assert_eq!(limits.check(1), Ok(()), "the defaults fit in the least memory that a lane can have");
        let record = |record_max, memory| limits.record_max(record_max).check(memory);
        assert_eq!((record(4 << 20, 64 << 20), record(2 << 20, 4 << 20)), (Ok(()), Ok(())));
        assert!(record((4 << 20) + 1, 1 << 30).unwrap_err().contains("remedy: record_max=4194304 or less"));
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
