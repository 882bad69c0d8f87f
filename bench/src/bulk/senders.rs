//! Who sends, and what that costs.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use corelane_load::report::Report;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::roads::Road;
use crate::build::BUILD;
use crate::counts;
use crate::cpus::SERVER_CPU;
use crate::load::Timing;
use crate::report::Findings;
use crate::server::{self, Server};
use crate::softirq::Threads;
use crate::stage::Stage;

/// Connections to each sender.
pub const CONNECTIONS: &str = "8";

/// The most that iperf3 sends at once.
const IPERF_BYTES_MAX: usize = 1 << 20;

/// Sends of so many bytes and more are asked to leave without a copy, where that is asked for.
const ASKED_BYTES_LEAST: usize = 16 << 10;

/// Shorter pieces of sealed memory are copied.
const SEALED_BYTES_LEAST: usize = 32 << 10;

/// Bytes of the file that is sent again and again: of the page cache, and longer than any piece.
const FILE_BYTES: usize = 16 << 20;

pub const GIB: f64 = 1_073_741_824.0;

/// The sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// `push`, from the lane's memory.
    Memory,
    /// `push`, from sealed memory, whose pages the receiver is given.
    Sealed,
    /// `push` from the lane's memory, which asks the kernel to read from there, and copies once it has seen that the kernel does.
    Asked,
    /// `push`, from a file.
    File,
    /// A plain loop of write(2).
    Loop,
    /// The same with sendfile(2), from a memory file.
    Sendfile,
    /// iperf3 with its zero-copy option, which is sendfile(2).
    Iperf,
}

impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "corelane (memory)",
            Self::Sealed => "corelane (sealed)",
            Self::Asked => "corelane (memory, asked)",
            Self::File => "corelane (file)",
            Self::Loop => "plain loop (write)",
            Self::Sendfile => "plain loop (sendfile)",
            Self::Iperf => "iperf3 -Z",
        })
    }
}

/// The figures of one window.
#[derive(Clone, Debug, Serialize)]
pub struct Sample {
    /// Processor time of the sender, with what the kernel's own thread of its CPU did meanwhile, in seconds.
    pub cpu_s_per_gib: f64,
    /// Payload that came, in 10^9 bits a second.
    pub gigabits_per_s: f64,
    /// Share of one CPU that the sender used.
    pub sender_load: f64,
    /// Share of the sends whose bytes the sender's side has copied.
    pub copied: f64,
}

/// Those that take part here.
pub fn lineup(findings: &mut Findings) -> Vec<Sender> {
    let mut who = vec![Sender::Memory, Sender::Sealed, Sender::Asked, Sender::File, Sender::Loop, Sender::Sendfile];
    match server::is_installed("iperf3") {
        true => who.push(Sender::Iperf),
        false => findings.leave_out("iperf3 -Z: it is not installed: apt-get install -y iperf3".to_owned()),
    }
    who
}

/// The file that is sent; gone when dropped.
pub struct Bulk(PathBuf);

impl Bulk {
    /// Writes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("corelane-bulk-{}", std::process::id()));
        fs::write(&path, vec![0x5a; FILE_BYTES]).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        // What cannot be removed is one more temporary file.
        let _ = fs::remove_file(&self.0);
    }
}

impl Sender {
    /// Whether it takes part with pieces of `bytes`.
    pub fn fits(self, bytes: usize) -> bool {
        match self {
            Self::Asked => bytes >= ASKED_BYTES_LEAST,
            Self::Sealed => bytes >= SEALED_BYTES_LEAST,
            Self::Iperf => bytes <= IPERF_BYTES_MAX,
            _ => true,
        }
    }

    /// Has it send pieces of `bytes` for a window.
    ///
    /// # Errors
    /// When a program cannot be started, or nothing comes.
    pub fn measure(self, bytes: usize, stage: &Stage, road: &Road, file: &Bulk, timing: Timing) -> Result<Sample> {
        if self == Self::Iperf {
            return iperf(bytes, road, timing);
        }
        let address = road.address(&mut None)?;
        let server = Server::start(self.command(bytes, stage, road, file, &address.to_string())?)?;
        let softirq = Threads::of(&[SERVER_CPU]);
        let (own, kernel) = (server.cpu_ns()?, softirq.cpu_ns());
        let report = sink(stage, road, &format!("tcp://{address}"), server.pid(), timing)?;
        let (own, kernel) = (server.cpu_ns()? - own, softirq.cpu_ns().zip(kernel).map_or(0, |(after, before)| after - before));
        let copied = match self {
            Self::Memory | Self::Asked => {
                counts::stat(&stage.corelane, server.pid()).and_then(|stat| copied(&stat)).unwrap_or(1.0)
            }
            Self::Loop => 1.0,
            Self::Sealed => counts::stat(&stage.corelane, server.pid()).and_then(|stat| copied_sealed(&stat)).unwrap_or(1.0),
            Self::File | Self::Sendfile | Self::Iperf => 0.0,
        };
        Ok(Sample { copied, ..sample(&report, 1.0 + kernel as f64 / own.max(1) as f64)? })
    }

    fn command(self, bytes: usize, stage: &Stage, road: &Road, file: &Bulk, address: &str) -> Result<Command> {
        if let Self::Loop | Self::Sendfile = self {
            let mut command = road.on(true, &stage.peers.join("target").join(BUILD_FOLDER).join("peer-push"))?;
            command.args([if self == Self::Loop { "write" } else { "sendfile" }, address, &bytes.to_string()]);
            return Ok(command);
        }
        let source = match self {
            Self::File => format!("&file={}", file.0.display()),
            Self::Sealed => "&memory=sealed".to_owned(),
            _ => "&memory=lane".to_owned(),
        };
        let mut command = serve(stage, road, &[format!("push=tcp://{address}?size={bytes}{source}")])?;
        if self == Self::Asked {
            command.args(["--zero-copy", &ASKED_BYTES_LEAST.to_string()]);
        }
        Ok(command)
    }
}

/// The folder of what [`BUILD`] builds.
pub const BUILD_FOLDER: &str = "release";

/// Corelane at the sender's end, with one lane.
///
/// # Errors
/// When this program's own path is not known.
pub fn serve(stage: &Stage, road: &Road, places: &[String]) -> Result<Command> {
    assert!(BUILD.contains(&"--release"), "peers lie in the folder of what is built so");
    let mut command = road.on(true, &stage.corelane)?;
    command.args(["serve", "--lanes", "1", "--cpus", &SERVER_CPU.to_string(), "--driver", &stage.driver_word()]);
    command.args(places);
    Ok(command)
}

/// Words of a receiver that takes what is pushed for a window. What comes is not looked at: all senders have the same receiver.
pub fn sink_words(url: &str, timing: Timing) -> Vec<String> {
    let [warm_up, window] = [timing.warm_up, timing.window].map(|time| format!("{}us", time.as_micros()));
    let words = ["load", "sink", url, "--json", "--quiet", "--check", "0", "--connections", CONNECTIONS, "--lanes", "1"];
    let times = ["--driver", crate::generator::DRIVER, "--warmup", &warm_up, "--duration", &window];
    words.iter().chain(&times).map(|word| (*word).to_owned()).collect()
}

fn sink(stage: &Stage, road: &Road, url: &str, pid: i32, timing: Timing) -> Result<Report> {
    let mut command = road.on(false, &stage.corelane)?;
    command.args(sink_words(url, timing)).args(["--server-pid", &pid.to_string()]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("starting the receiver")?;
    serde_json::from_slice(&output.stdout).with_context(|| format!("the receiver: {}", output.status))
}

fn sample(report: &Report, with_kernel: f64) -> Result<Sample> {
    let flow = report.flow.as_ref().context("the receiver says nothing of what came")?;
    let load = report.server.as_ref().map_or(0.0, |server| server.cpus_used);
    ensure!(report.bytes_received > 0, "nothing came: {:?}", report.errors);
    let cost = flow.server_s_per_gib.context("the sender's process has ended")?;
    Ok(Sample { cpu_s_per_gib: cost * with_kernel, gigabits_per_s: flow.gigabits_per_second, sender_load: load, copied: 1.0 })
}

/// Share of a server's sends that were copied, by its own count: by itself, or by the kernel that was asked not to.
fn copied(stat: &Value) -> Option<f64> {
    let number = |wanted: &str| counts::find(stat, &|name, value| (name == wanted).then(|| value.as_f64()).flatten());
    let [sends, uncopied, anyway] = ["sends", "sends_uncopied", "sends_copied_anyway"].map(number);
    Some((1.0 - (uncopied? - anyway?).max(0.0) / sends?.max(1.0)).max(0.0))
}

/// The same of sealed memory: all but what gave its pages away.
fn copied_sealed(stat: &Value) -> Option<f64> {
    let number = |wanted: &str| counts::find(stat, &|name, value| (name == wanted).then(|| value.as_f64()).flatten());
    let [sends, sealed] = ["sends", "sends_sealed"].map(number);
    Some((1.0 - sealed? / sends?.max(1.0)).max(0.0))
}

/// The report of iperf3 at its end.
#[derive(Deserialize)]
struct Iperf {
    end: IperfEnd,
}

#[derive(Deserialize)]
struct IperfEnd {
    sum_sent: Sent,
    cpu_utilization_percent: Used,
}

#[derive(Deserialize)]
struct Sent {
    seconds: f64,
    bytes: f64,
}

#[derive(Deserialize)]
struct Used {
    host_total: f64,
}

/// iperf3 sends to its own receiver, for whole seconds.
fn iperf(bytes: usize, road: &Road, timing: Timing) -> Result<Sample> {
    let address = road.address(&mut None)?;
    // The receiver listens, so its address is that of the other end.
    let host = if let Road::Wire(_) = road { "10.9.0.1".to_owned() } else { address.ip().to_string() };
    let port = address.port().to_string();
    let mut receiver = road.on(false, Path::new("iperf3"))?;
    receiver.args(["-s", "-1", "-B", &host, "-p", &port]);
    let _receiver = Server::start_unheard(receiver)?;
    let seconds = timing.window.max(Duration::from_secs(1)).as_secs().to_string();
    let softirq = Threads::of(&[SERVER_CPU]);
    let before = softirq.cpu_ns();
    let told = try_often(|| {
        let mut sender = road.on(true, Path::new("iperf3"))?;
        sender.args(["-c", &host, "-p", &port, "-Z", "-N", "-l", &bytes.to_string(), "-P", CONNECTIONS, "-t", &seconds, "-J"]);
        let output = sender.stdin(Stdio::null()).output().context("starting iperf3")?;
        serde_json::from_slice::<Iperf>(&output.stdout).with_context(|| format!("iperf3: {}", output.status))
    })?;
    let kernel = softirq.cpu_ns().zip(before).map_or(0, |(after, before)| after - before);
    Ok(told.sample(kernel as f64 / 1e9))
}

/// Until the receiver listens.
fn try_often<T>(mut run: impl FnMut() -> Result<T>) -> Result<T> {
    const TRIES: usize = 20;
    for _ in 1..TRIES {
        if let Ok(told) = run() {
            return Ok(told);
        }
        // reason: nothing says when iperf3 listens but that it can be reached.
        std::thread::sleep(Duration::from_millis(50));
    }
    run()
}

impl Iperf {
    fn sample(&self, kernel_s: f64) -> Sample {
        let Sent { seconds, bytes } = self.end.sum_sent;
        let own = self.end.cpu_utilization_percent.host_total / 100.0;
        Sample {
            cpu_s_per_gib: (own * seconds + kernel_s) / (bytes / GIB),
            gigabits_per_s: bytes * 8.0 / seconds / 1e9,
            sender_load: own,
            copied: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_iperf_says_is_read() {
        let text = r#"{"start": {}, "end": {"sum_sent": {"seconds": 2.0, "bytes": 2147483648, "sender": true},
            "cpu_utilization_percent": {"host_total": 25.0, "host_user": 1.0}}}"#;
        let sample = serde_json::from_str::<Iperf>(text).expect("JSON").sample(0.5);
        assert_eq!((sample.cpu_s_per_gib, sample.sender_load), (0.5, 0.25));
        assert!((sample.gigabits_per_s - 8.589_934_592).abs() < 1e-9);
    }

    #[test]
    fn what_a_receiver_says_is_read_with_the_kernels_part() {
        let mut report = Report { bytes_received: 1, ..Report::default() };
        assert!(sample(&report, 1.0).is_err());
        report.flow = Some(corelane_load::report::Flow {
            gigabits_per_second: 10.0,
            server_s_per_gib: Some(0.2),
            generator_s_per_gib: None,
        });
        assert!((sample(&report, 1.5).expect("a sample").cpu_s_per_gib - 0.3).abs() < 1e-12);
        assert!(sample(&Report { bytes_received: 0, ..report }, 1.0).is_err());
    }

    #[test]
    fn what_the_kernel_copied_all_the_same_is_copied() {
        let share = |uncopied: f64, anyway: f64| {
            let page = serde_json::json!({"lanes": [], "total": {"sends_uncopied": uncopied, "sends_copied_anyway": anyway}});
            copied(&serde_json::json!([page, {"sends": 10.0}]))
        };
        assert_eq!(
            [share(0.0, 0.0), share(10.0, 0.0), share(1.0, 1.0), share(8.0, 6.0)].map(Option::unwrap),
            [1.0, 0.0, 1.0, 0.8]
        );
        assert_eq!(copied(&serde_json::json!({"sends": 10.0})), None);
        let sealed = serde_json::json!({"sends": 10.0, "sends_sealed": 9.0});
        assert!((copied_sealed(&sealed).expect("a share") - 0.1).abs() < 1e-12);
        assert_eq!(copied_sealed(&serde_json::json!({"sends": 10.0})), None);
    }

    #[test]
    fn the_receiver_is_asked_for_by_words_that_it_knows() {
        let timing = Timing { warm_up: Duration::from_millis(200), window: Duration::from_millis(800) };
        let words = sink_words("tcp://10.9.0.2:1667", timing).join(" ");
        assert!(words.starts_with("load sink tcp://10.9.0.2:1667 --json"), "{words}");
        assert!(words.ends_with("--driver epoll --warmup 200000us --duration 800000us"), "{words}");
    }
}
