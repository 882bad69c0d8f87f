//! The limits by name, for those who set them from text.

use crate::limits::Limits;

/// A limit's name, its unit, and how it is set.
struct Setting {
    name: &'static str,
    unit: &'static str,
    set: fn(&mut Limits, u64),
    get: fn(&Limits) -> u64,
}

macro_rules! settings {
    ($($name:ident $($field:ident).+ as $type:ty, $scale:expr, $unit:literal;)*) => {
        const SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($name),
            unit: $unit,
            set: |limits, value| limits.$($field).+ = <$type>::try_from(value.saturating_mul($scale)).unwrap_or(<$type>::MAX),
            get: |limits| u64::try_from(limits.$($field).+).unwrap_or(u64::MAX) / $scale,
        }),*];
    };
}

const MILLISECOND: u64 = 1_000_000;

settings! {
    connections_max connections_max as u32, 1, "connections";
    connections_per_peer_max connections_per_peer_max as u32, 1, "connections";
    requests_in_flight_max requests_in_flight_max as u32, 1, "requests";
    record_max record_max as usize, 1, "bytes";
    output_high output_high as usize, 1, "bytes";
    output_max output_max as usize, 1, "bytes";
    receive_rate_min receive_rate_min as u64, 1, "bytes per second";
    idle_limit idle_limit as u64, MILLISECOND, "milliseconds";
    read_limit read_limit as u64, MILLISECOND, "milliseconds";
    send_limit send_limit as u64, MILLISECOND, "milliseconds";
    linger_limit linger_limit as u64, MILLISECOND, "milliseconds";
    connect_limit connect_limit as u64, MILLISECOND, "milliseconds";
    drain_limit drain_limit as u64, MILLISECOND, "milliseconds";
    backlog backlog as u32, 1, "connections";
    keep_alive stream.keep_alive_seconds as u32, 1, "seconds";
    user_timeout stream.user_timeout_milliseconds as u32, 1, "milliseconds";
    send_buffer stream.send_buffer_bytes as u32, 1, "bytes";
    receive_buffer stream.receive_buffer_bytes as u32, 1, "bytes";
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
            self.stream.no_delay = value.parse().map_err(|_| format!("{value:?} is neither true nor false"))?;
            return Ok(());
        }
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        let setting = setting.ok_or_else(|| format!("there is no limit {name:?}; there are {}", names().join(", ")))?;
        let value = value.parse().map_err(|_| format!("{name}: {value:?} is not a number of {}", setting.unit))?;
        (setting.set)(self, value);
        Ok(())
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
        assert_eq!((limits.idle_limit, limits.stream.no_delay), (1_500_000_000, false));
    }

    #[test]
    fn bad_texts_are_refused_with_the_names_that_exist() {
        let mut limits = Limits::default();
        assert!(limits.set("idle=1").unwrap_err().contains("idle_limit"));
        for bad in ["idle_limit", "idle_limit=x", "idle_limit=-1", "no_delay=maybe"] {
            assert!(limits.set(bad).is_err(), "{bad}");
        }
    }
}
