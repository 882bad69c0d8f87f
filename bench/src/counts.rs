//! Exact counts from `corelane stat`: what noise cannot hide. The generator's report gives them per request of the server, and
//! an echo over streams takes all that one receive brought for one request.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Serialize;
use serde_json::Value;

use super::load::Carrier;

/// A server's own counters at one moment, or their growth between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Calls that send.
    pub sends: Option<f64>,
    /// Calls that receive.
    pub receives: Option<f64>,
    /// Requests as the server counts them.
    pub requests: Option<f64>,
    /// Bytes that the sends took.
    pub bytes_sent: Option<f64>,
    /// Bytes that the receives brought.
    pub bytes_received: Option<f64>,
}

/// The output of `corelane stat --json --pid PID`; `None` when that does not work.
pub fn stat(corelane: &Path, pid: i32) -> Option<Value> {
    let mut command = Command::new(corelane);
    command.args(["stat", "--json", "--pid", &pid.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success())
}

/// The name of the driver that the server of this output runs on.
pub fn driver(stat: &Value) -> Option<String> {
    find(stat, &|name, value| (name == "driver").then(|| value.as_str()).flatten()).map(str::to_owned)
}

impl Counts {
    /// Looks for the counts of a service over `transport` in the output of `stat`. Streams and datagrams have counters of
    /// calls apart; one that is missing is `None`.
    pub fn of(stat: &Value, transport: Carrier) -> Self {
        let number = |wanted: &str| find(stat, &|name, value| (name == wanted).then(|| value.as_f64()).flatten());
        let (sends, receives) = match transport {
            Carrier::Tcp | Carrier::Tls => ("sends", "receives"),
            Carrier::UdpSingles | Carrier::UdpTrains => ("datagram_sends", "datagram_receives"),
        };
        Self {
            sends: number(sends),
            receives: number(receives),
            requests: number("requests"),
            bytes_sent: number("bytes_out"),
            bytes_received: number("bytes_in"),
        }
    }

    /// What was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let growth = |now: Option<f64>, then: Option<f64>| Some(now? - then?);
        Self {
            sends: growth(self.sends, earlier.sends),
            receives: growth(self.receives, earlier.receives),
            requests: growth(self.requests, earlier.requests),
            bytes_sent: growth(self.bytes_sent, earlier.bytes_sent),
            bytes_received: growth(self.bytes_received, earlier.bytes_received),
        }
    }
}

/// The first match, outer levels before inner ones, so that a total comes before the lanes it is the total of.
pub fn find<'v, T>(root: &'v Value, wanted: &dyn Fn(&str, &'v Value) -> Option<T>) -> Option<T> {
    let mut level = vec![root];
    while !level.is_empty() {
        let members = level.iter().filter_map(|value| value.as_object()).flatten();
        if let Some(found) = members.clone().find_map(|(name, value)| wanted(name, value)) {
            return Some(found);
        }
        let elements = level.iter().filter_map(|value| value.as_array()).flatten();
        level = members.map(|(_, value)| value).chain(elements).collect();
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn counts_are_found_at_any_depth_and_totals_first() {
        let lane = json!({"driver": "uring", "counters": {"sends": 3, "requests": 48, "bytes_in": 7}});
        let stat = json!({"lanes": [lane], "total": {"sends": 5}});
        let counts = Counts::of(&stat, Carrier::Tcp);
        assert_eq!(counts.sends, Some(5.0));
        assert_eq!(counts.requests, Some(48.0));
        assert_eq!(counts.bytes_received, Some(7.0));
        assert_eq!(counts.receives, None);
        assert_eq!(driver(&stat).as_deref(), Some("uring"));
    }

    #[test]
    fn datagrams_have_calls_of_their_own() {
        let stat = json!({"sends": 1, "receives": 2, "datagram_sends": 3, "datagram_receives": 4});
        let calls = |transport| {
            let counts = Counts::of(&stat, transport);
            (counts.sends, counts.receives)
        };
        assert_eq!(calls(Carrier::Tcp), (Some(1.0), Some(2.0)));
        assert_eq!(calls(Carrier::UdpSingles), (Some(3.0), Some(4.0)));
        assert_eq!(calls(Carrier::UdpTrains), (Some(3.0), Some(4.0)));
    }

    #[test]
    fn what_is_no_number_is_not_a_count() {
        let counts = Counts::of(&json!({"sends": "many", "deeper": {"sends": 2}}), Carrier::Tcp);
        assert_eq!(counts.sends, Some(2.0));
        assert_eq!(Counts::of(&json!([1, "a", null]), Carrier::Tcp), Counts::default());
    }

    #[test]
    fn growth_needs_both_ends() {
        let earlier = Counts { sends: Some(10.0), requests: Some(1.0), ..Counts::default() };
        let later = Counts { sends: Some(25.0), receives: Some(3.0), ..Counts::default() };
        assert_eq!(later.since(&earlier), Counts { sends: Some(15.0), ..Counts::default() });
    }

    #[test]
    fn a_program_without_stat_gives_nothing() {
        assert_eq!(stat(Path::new("/nonexistent"), 1), None);
        assert_eq!(stat(Path::new("false"), 1), None);
        assert_eq!(stat(Path::new("echo"), 1), None, "no JSON");
    }
}
