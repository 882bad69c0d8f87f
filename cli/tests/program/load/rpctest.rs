//! The twin of rpctest: every column is computed again from the histogram that it writes.

use super::hosts::*;
use super::*;
use std::path::Path;

/// `corelane load --style rpctest` with these words: what it prints, when it ends with `code`.
fn printed(words: &[&str], code: i32) -> String {
    let output = ended(&[], &[&["--style", "rpctest"], words].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A run as its file tells it.
struct Written {
    date: f64,
    in_flight: f64,
    calls: f64,
    bytes: f64,
    seconds: Vec<f64>,
    longest_ns: Vec<f64>,
    /// The upper end of each bucket in nanoseconds, and its calls.
    buckets: Vec<(f64, f64)>,
}

/// The value behind a word of a line.
fn behind(line: &str, word: &str) -> f64 {
    let mut words = line.split_whitespace().skip_while(|&other| other != word);
    words.nth(1).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {word} in {line:?}"))
}

fn written(folder: &Path, number: usize) -> Written {
    let text = std::fs::read_to_string(folder.join(format!("run-{number:03}.txt"))).unwrap();
    let first = text.lines().next().unwrap();
    let threads: Vec<&str> = text.lines().filter(|line| line.starts_with("# thread")).collect();
    let numbers = |line: &str| line.split_whitespace().map(|word| word.parse().unwrap()).collect::<Vec<f64>>();
    let buckets: Vec<Vec<f64>> = text.lines().filter(|line| !line.starts_with('#')).map(numbers).collect();
    assert!(buckets.iter().all(|bucket| bucket.len() == 3 && bucket[0] <= bucket[1]));
    assert!(buckets.is_sorted_by(|one, next| one[1] < next[0]), "buckets rise and do not overlap");
    Written {
        date: behind(first, "date"),
        in_flight: behind(first, "in_flight"),
        calls: behind(first, "calls"),
        bytes: behind(first, "bytes"),
        seconds: threads.iter().map(|line| behind(line, "seconds")).collect(),
        longest_ns: threads.iter().map(|line| behind(line, "longest_ns")).collect(),
        buckets: buckets.iter().map(|bucket| (bucket[1], bucket[2])).collect(),
    }
}

impl Written {
    fn quantile_us(&self, percent: f64) -> f64 {
        let all: f64 = self.buckets.iter().map(|bucket| bucket.1).sum();
        let mut counted = 0.0;
        let found = self.buckets.iter().find(|bucket| {
            counted += bucket.1;
            counted >= percent / 100.0 * all
        });
        found.unwrap().0 / 1e3
    }
}

fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

const QUANTILES: [f64; 7] = [0.3, 4.6, 31.7, 50.0, 68.3, 95.4, 99.7];

/// The cells of a line of -x, computed anew from the files of its run and those before.
fn recomputed(runs: &[Written], by_average: bool) -> Vec<f64> {
    let run = runs.last().unwrap();
    let all: Vec<f64> = runs.iter().flat_map(|run| run.seconds.clone()).collect();
    let elapsed = if by_average { mean(&all) } else { median(all) };
    let own = median(run.seconds.clone());
    let least = run.seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = run.seconds.iter().copied().fold(0.0, f64::max);
    let mut cells = vec![run.date, run.seconds.len() as f64, run.in_flight, run.calls / elapsed];
    cells.extend([median(runs.iter().map(|run| run.quantile_us(50.0))), run.bytes * 8.0 / 1e6 / own]);
    cells.push(run.buckets[0].0 / 1e3);
    cells.extend(QUANTILES.map(|percent| run.quantile_us(percent)));
    cells.push(run.buckets.last().unwrap().0 / 1e3);
    cells.extend([run.calls, least, own, most, run.calls / least, run.calls / own, run.calls / most]);
    cells
}

fn check(address: std::net::SocketAddr, more: &[&str], threads: usize, by_average: bool) {
    let (scratch, place) = (Scratch::new(), format!("nobody@{address}"));
    let folder = scratch.path().join("runs");
    let runs = ["-x", "-c", "1k", "-i", "3", "-d", folder.to_str().unwrap(), &place];
    let text = printed(&[&runs[..], more].concat(), GOOD);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 4, "{text}");
    let rate = if by_average { "AvgRPC" } else { "MedRPC" };
    assert!(lines[0].starts_with("      Date  TD  INF ") && lines[0].contains(rate), "{text}");
    let mut files = Vec::new();
    for (number, line) in (1..).zip(&lines[1..]) {
        files.push(written(&folder, number));
        let run = &files[number - 1];
        let counted: f64 = run.buckets.iter().map(|bucket| bucket.1).sum();
        assert_eq!((run.calls, counted, run.seconds.len()), (1_024.0 * threads as f64, run.calls, threads));
        let (cells, list) = line.split_once(" *").unwrap_or((line, ""));
        let cells: Vec<f64> = cells.split_whitespace().map(|cell| cell.parse().unwrap()).collect();
        let expected = recomputed(&files, by_average);
        assert_eq!(cells.len(), expected.len(), "{text}");
        for (column, (got, expected)) in cells.iter().zip(expected).enumerate() {
            // As far apart as rounding in print allows: times of threads have six decimals, the others one or none.
            let step = if (16..=18).contains(&column) { 1e-6 } else { 0.51 };
            assert!((got - expected).abs() <= step + expected * 1e-9, "column {column}: {got}, not {expected}: {text}");
        }
        let most = 8_388_608.0 * if threads > 2 { 64.0 } else { 32.0 };
        let over: Vec<String> = run.longest_ns.iter().filter(|&&ns| ns >= most).map(|ns| format!("{:.1}", ns / 1e6)).collect();
        assert_eq!(list.split_whitespace().collect::<Vec<_>>(), over, "{text}");
        assert!(std::fs::read_to_string(folder.join(format!("run-{number:03}.html"))).unwrap().contains("<svg"));
    }
}

#[test]
fn rpctest_prints_what_its_histograms_say() {
    let server = Server::start(&["rpc=tcp://127.0.0.1:0", "rpc=udp://127.0.0.1:0"]);
    check(server.tcp(), &["-a", "4", "-j", "2"], 2, false);
    check(server.tcp(), &["-a", "0", "-j", "3", "-m", "-f", "-A", "unix"], 3, true);
    check(server.udp(), &["-u", "-a", "8"], 1, false);
}

/// A server that waits for longer than the original's histogram holds.
#[test]
fn rpctest_lists_what_took_too_long_for_the_original() {
    let post = Post::start(|number, call| {
        if number == 5 {
            // reason: the reply is to be late.
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        vec![[&call[..4], &[0, 0, 0, 1], &[0; 16]].concat()]
    });
    let text = printed(&["-H", "-u", "-i", "1", "-c", "10", &post.address.to_string()], GOOD);
    let (_, list) = text.trim_end().split_once(" * ").unwrap_or_else(|| panic!("nothing took long: {text:?}"));
    // Others may take long as well where the machine is busy.
    let longest = list.split_whitespace().map(|took| took.parse::<f64>().unwrap()).fold(0.0, f64::max);
    assert!(longest >= 300.0, "{text}");
}

#[test]
fn rpctest_says_what_failed() {
    let post = Post::start(|_, call| vec![[&call[..4], &[0, 0, 0, 1], &[0; 12], &[0, 0, 0, 1]].concat()]);
    let words = ["--style", "rpctest", "-u", "-i", "2", "-c", "10", &post.address.to_string()];
    let output = ended(&[], &words);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(FAILURES), "{said}");
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        ["run 1: calls failed: rpc_unavailable 10", "run 2: calls failed: rpc_unavailable 10"]
    );
    let server = Server::start(&["rpc=tcp://127.0.0.1:0"]);
    let folder = Scratch::new();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let path = folder.path().join("file").join("below");
    let output = ended(&[], &["--style", "rpctest", "-d", path.to_str().unwrap(), &server.tcp().to_string()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(REFUSED), "{said}");
    assert!(said.contains("-d") && said.lines().count() == 1, "{said}");
}
