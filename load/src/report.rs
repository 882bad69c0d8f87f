//! What a run comes to: the document that `--json` prints, from which the table and the HTML report are made.
//!
//! Times are in microseconds (`_us`) or seconds (`_s`), rates per second. A figure that was not measured is absent.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the document; raised when a field changes its meaning or goes.
pub const SCHEMA: u32 = 2;

/// A distribution of times in microseconds by quantile in percent (`"50"`, `"99.9"`), with `min`, `mean`, `stddev`, `max`.
pub type Quantiles = BTreeMap<String, f64>;

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program and its version.
    pub program: String,
    /// The workload's name: `echo`, `udp`, `idle`, ...
    pub workload: String,
    /// The URL that was loaded.
    pub target: String,
    /// When measuring began: seconds since 1970.
    pub started_unix_s: f64,
    /// What was asked for.
    pub settings: Settings,
    /// Length of the measured window.
    pub seconds: f64,
    /// Requests answered rightly that count: in a closed loop those answered in the window, with a rate those whose intended start lies in it.
    pub requests: u64,
    /// Requests answered within the window, per second.
    pub requests_per_second: f64,
    /// Requests answered within the window, whenever they were to start: what the rate is made of.
    #[serde(default)]
    pub answered_in_window: u64,
    /// Requests whose intended start lies in the window, per second; only with a rate. With `--connection-rate` those of the connections that
    /// were to be opened in it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub offered_per_second: Option<f64>,
    /// Requests that should have been sent in the window and were not; only with a rate. With `--connection-rate` those of the connections that
    /// were not asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub not_sent: Option<u64>,
    /// Requests sent that count.
    pub sent: u64,
    /// Payload bytes sent in the window.
    pub bytes_sent: u64,
    /// Payload bytes received in the window.
    pub bytes_received: u64,
    /// Connections that followed one which had ended in order: by the server's word, or after `requests_per_connection`.
    #[serde(default)]
    pub renewed: u64,
    /// Requests sent a second time, because the server had ended their connection in order before it came to them; each is one of `sent`.
    #[serde(default)]
    pub asked_again: u64,
    /// Handshakes of TLS in the whole run, the opening and the warm-up included; only behind TLS.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub handshakes: Option<Handshakes>,
    /// From asking for a connection until TLS stands on it, in the whole run; only behind TLS.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub handshake_us: Option<Quantiles>,
    /// What only the workload counts, of the requests that count.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub counted: BTreeMap<String, u64>,
    /// Errors by kind, every kind present.
    pub errors: BTreeMap<String, u64>,
    /// What went one way; only where nothing is answered (`sink`, `burst`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flow: Option<Flow>,
    /// Where latency begins: `intended start` or `send`.
    pub latency_from: String,
    /// Latency, timeouts included with the time waited.
    pub latency_us: Quantiles,
    /// From send to answer, without the waiting before it; only with a rate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub service_us: Option<Quantiles>,
    /// How late the generator itself sent; only with a rate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub send_lag_us: Option<Quantiles>,
    /// From asking for a connection to having it; only with `--connection-rate`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub connect_us: Option<Quantiles>,
    /// Lifetime of connections on which something was answered; only with `--connection-rate`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub connection_us: Option<Quantiles>,
    /// From sending a request to the first byte of its answer; only with `--connection-rate`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub response_us: Option<Quantiles>,
    /// From the first byte of an answer to its last one; only with `--connection-rate`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transfer_us: Option<Quantiles>,
    /// How connections were opened; only with `--connection-rate`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub opened: Option<Opened>,
    /// CPU time of the server per request; only where the server's process is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_us_per_request: Option<f64>,
    /// The server's side of the run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<Server>,
    /// The lanes of the target that the connections were to lead to; only where they were aimed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub target_lanes: Vec<TargetLane>,
    /// The generator's own health.
    pub generator: Generator,
    /// What set the rate: `server`, `generator`, `rate` (the one asked for), or `neither` (latency, or something between them).
    pub limit: String,
    /// Whether the figures can be believed.
    pub believable: bool,
    /// Why not, one sentence each.
    pub doubts: Vec<String>,
    /// What an engineer should know that casts no doubt, one sentence each.
    pub notes: Vec<String>,
    /// Second by second, warm-up first.
    pub series: Vec<Second>,
    /// Latency by percentile, for a curve.
    pub distribution: Vec<Point>,
    /// Service time by percentile, for a curve; empty without a rate.
    pub service_distribution: Vec<Point>,
    /// Many runs of the same settings: the figures above are the medians over them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repeated: Option<Repeated>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// `closed` (so many in flight), `open` (a rate), `connections` (a rate of connections), `flood` (as much as goes) or `sink` (as much as comes).
    pub mode: String,
    /// Connections, or sockets for datagrams.
    pub connections: u64,
    /// Most requests in flight on each.
    pub depth: u64,
    /// Bytes of a request; with `rpc` of its payload.
    pub size: u64,
    /// What is called; only with `rpc`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub call: Option<String>,
    /// How TLS was spoken; only behind it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tls: Option<String>,
    /// Requests (or connections) a second that were asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate: Option<f64>,
    /// Requests on each connection; only where that was asked for, and with `--connection-rate`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requests_per_connection: Option<u64>,
    /// `fixed`, `poisson` or `recorded`; only with a rate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arrivals: Option<String>,
    /// Seconds to measure; or else `requests` are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_s: Option<f64>,
    /// Requests to make; or else `duration_s` is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requests: Option<u64>,
    /// Seconds before measuring begins.
    pub warm_up_s: f64,
    /// How long an answer is waited for.
    pub timeout_s: f64,
    /// Lanes of the generator.
    pub lanes: u64,
    /// How long a lane looks for work before it sleeps.
    pub spin_us: u64,
    /// What the lanes ask the operating system through.
    pub driver: String,
    /// What random arrivals are made from.
    pub seed: u64,
    /// How connections were spread over lanes of the target: `even`, `one:LANE`, or weights; only where they were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub spread: Option<String>,
}

/// What one lane of the target gets of an aimed load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetLane {
    /// Its number.
    pub lane: u64,
    /// Buckets that are its own.
    pub buckets: u64,
    /// Connections, or sockets for datagrams, that lead there.
    pub connections: u64,
    /// The same as a part of all, 0 to 1.
    pub share: f64,
}

/// How connections were opened that had times of their own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Connections asked for.
    pub asked: u64,
    /// Connections on which something was answered.
    pub answered: u64,
    /// The most that one lane had open or was opening at once, summed over the lanes.
    pub most_at_once: u64,
    /// The most that one lane asked for one right after the other, in one turn.
    pub longest_burst: u64,
}

/// Bytes that went one way: those that came, or, of datagrams, those that the system was handed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Payload of the window, in 10^9 bits a second.
    pub gigabits_per_second: f64,
    /// CPU time of the server for each GiB, in seconds; only where its process is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server_s_per_gib: Option<f64>,
    /// The same of the generator's lanes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub generator_s_per_gib: Option<f64>,
}

/// What went one way on a lane of the generator in one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaneFlow {
    /// Connections open at its end.
    pub connections: u64,
    /// Connections that were opened in it.
    pub opened: u64,
    /// Connections that ended in it.
    pub closed: u64,
    /// Payload bytes sent.
    pub bytes_sent: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
}

/// Handshakes of TLS.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Handshakes {
    /// Those in which the server has proved who it is.
    pub full: u64,
    /// Those that went on with a session of an earlier connection.
    pub resumed: u64,
}

/// The server's side of a run, as the operating system counts it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Its process.
    pub pid: u32,
    /// CPU time of the process with its descendants per second: 1 is one CPU fully used.
    pub cpus_used: f64,
    /// Of the time in which its threads wanted a CPU, the share in which they had none, 0 to 1.
    pub waiting_for_cpu: f64,
    /// Resident bytes at the end.
    pub resident_bytes: u64,
    /// Resident bytes by which it grew from before the connections to the end, per connection.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bytes_per_connection: Option<f64>,
    /// From its own counter page, if it has one, and only over datagrams: trains that the system dropped at its sockets, mostly for full
    /// buffers, from the window's begin to the end of the run. A datagram alone is a train of one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trains_dropped: Option<u64>,
    /// From its own counter page, if it has one: figures per request of the load (`receives`, `sends`, `sleeps`, `bytes_copied`, ...).
    pub per_request: BTreeMap<String, f64>,
}

/// The generator's own health.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time of its lanes per request.
    pub us_per_request: f64,
    /// Resident bytes of this process at the end.
    pub resident_bytes: u64,
    /// Share of all CPU time that the host took from this machine in the window, 0 to 1.
    pub stolen: f64,
    /// Packets that this network namespace dropped in the window because a socket's buffer was full. A train of datagrams is one packet
    /// to the system, which counts it once however many it held.
    pub socket_buffer_drops: u64,
    /// Segments that this network namespace sent again in the window.
    pub retransmissions: u64,
    /// Datagrams of the generator that the system refused to send, in the whole run.
    pub datagrams_refused: u64,
    /// Lane by lane.
    pub lanes: Vec<Lane>,
}

/// One lane of the generator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    /// Its number.
    pub lane: u64,
    /// Its CPU, if it is bound to one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu: Option<u64>,
    /// Share of a CPU that its thread used, 0 to 1; a lane that spins uses all of one.
    pub cpu_used: f64,
    /// Share of a CPU that it used for work, 0 to 1: without what it spent looking in vain.
    pub busy: f64,
    /// Share of the time in which it had to wait for its CPU, 0 to 1.
    pub waiting_for_cpu: f64,
    /// Connections that it had open at the end.
    pub connections: u64,
    /// Requests answered, as in [`Report::requests`].
    pub requests: u64,
    /// What failed.
    pub errors: u64,
    /// From the window's begin to when its last request was answered or given up.
    pub seconds: f64,
    /// The longest latency of its requests.
    #[serde(default)]
    pub longest_us: f64,
    /// Time from the window's begin on in which it was not there, though it had asked to be called: the sum of what was 20 ms or more at once.
    #[serde(default)]
    pub gaps_us: f64,
    /// The longest such time.
    #[serde(default)]
    pub longest_gap_us: f64,
}

/// One second of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// When it began, in seconds from the start of measuring: negative for the warm-up.
    pub at_s: f64,
    /// Its length in seconds: 1, but for the last one.
    pub length_s: f64,
    /// Requests answered per second.
    pub requests_per_second: f64,
    /// Failures by kind, only those that were met.
    pub errors: BTreeMap<String, u64>,
    /// Latency.
    pub latency_us: Quantiles,
    /// Requests answered by each lane.
    pub lanes: Vec<u64>,
    /// What went one way on each lane; only where nothing is answered.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub flows: Vec<LaneFlow>,
}

/// A point of a curve of times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Share of the requests that took at most `us`, in percent.
    pub percent: f64,
    /// Microseconds.
    pub us: f64,
}

/// Several runs with the same settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// By figure (`requests_per_second`, `latency_us.99`, `server_us_per_request`, ...).
    pub figures: BTreeMap<String, Spread>,
    /// Each run, in order.
    pub runs: Vec<Report>,
}

/// A figure over several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
    /// Low end of the bootstrap 90 % interval of the median.
    pub low: f64,
    /// High end of it.
    pub high: f64,
}

/// Two targets under the same load, in paired rounds of alternating order: what `--against` prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Paired {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The first target, over its rounds.
    pub a: Report,
    /// The one that it is compared with.
    pub b: Report,
    /// By figure: the ratio a / b, round by round.
    pub ratios: BTreeMap<String, Spread>,
    /// How many rounds.
    pub rounds: u64,
    /// Whether both sides of every round can be believed.
    pub believable: bool,
}

/// What a run is doing, for those who watch it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// `connecting`, `warming up`, `measuring`, `waiting for the last answers`, `done`.
    pub phase: String,
    /// What is loaded with what, in a line.
    pub what: String,
    /// Connections open, of so many.
    pub connections: (u64, u64),
    /// How far it is, 0 to 1.
    pub done: f64,
    /// Seconds since measuring began.
    pub elapsed_s: f64,
    /// Seconds that are left, where known.
    pub left_s: Option<f64>,
    /// Requests a second that were asked for.
    pub rate: Option<f64>,
    /// The seconds so far, warm-up first.
    pub series: Vec<Second>,
    /// Requests answered that count, so far.
    pub requests: u64,
    /// Latency of all that counts so far.
    pub latency_us: Quantiles,
    /// Errors so far, every kind present.
    pub errors: BTreeMap<String, u64>,
    /// Median send lag so far, only with a rate.
    pub lag_us: Option<f64>,
    /// Which run of how many.
    pub run: (u64, u64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn whole() -> Report {
        let times = || Some(Quantiles::from([("50".to_owned(), 1.0)]));
        Report {
            offered_per_second: Some(1.0),
            not_sent: Some(1),
            service_us: times(),
            send_lag_us: times(),
            connect_us: times(),
            connection_us: times(),
            response_us: times(),
            transfer_us: times(),
            opened: Some(Opened::default()),
            handshakes: Some(Handshakes::default()),
            handshake_us: times(),
            counted: BTreeMap::from([("50".to_owned(), 1)]),
            server_us_per_request: Some(1.0),
            server: Some(Server { bytes_per_connection: Some(1.0), trains_dropped: Some(1), ..Server::default() }),
            generator: Generator { lanes: vec![Lane { cpu: Some(0), ..Lane::default() }], ..Generator::default() },
            settings: Settings {
                rate: Some(1.0),
                arrivals: Some("fixed".to_owned()),
                requests_per_connection: Some(1),
                duration_s: Some(1.0),
                requests: Some(1),
                spread: Some("even".to_owned()),
                tls: Some("TLS".to_owned()),
                ..Settings::default()
            },
            target_lanes: vec![TargetLane::default()],
            flow: Some(Flow { server_s_per_gib: Some(1.0), generator_s_per_gib: Some(1.0), ..Flow::default() }),
            series: vec![Second { flows: vec![LaneFlow::default()], ..Second::default() }],
            distribution: vec![Point::default()],
            service_distribution: vec![Point::default()],
            ..Report::default()
        }
    }

    fn names(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                found.push(name.clone());
                names(value, found);
            }),
            Value::Array(items) => items.iter().for_each(|item| names(item, found)),
            _ => {}
        }
    }

    #[test]
    fn the_manual_names_every_field_of_the_document() {
        let manual = include_str!("../../LOAD.md");
        let spread = Spread::default();
        let repeated = Repeated { figures: [("requests".to_owned(), spread)].into(), runs: Vec::new() };
        let run = Report { repeated: Some(repeated), ..whole() };
        let pair = Paired { a: run, rounds: 1, ..Paired::default() };
        let mut found = Vec::new();
        names(&serde_json::to_value(pair).unwrap(), &mut found);
        let missing: Vec<_> = found.into_iter().filter(|name| name != "50" && !manual.contains(&format!("`{name}`"))).collect();
        assert_eq!(missing, Vec::<String>::new(), "LOAD.md says nothing of these");
    }

    #[test]
    fn a_document_is_read_as_it_was_written() {
        let run = whole();
        let text = serde_json::to_string(&run).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), run);
    }
}
