//! The work of lanes while they run: the functions in which their threads are, sampled by the system's clock. Lanes are not asked, and do nothing for it.
//! With the feature `profile`.
//!
//! ```text
//! unwind::perf::Sampling of each thread "lane-N" -> Stack -> unwind::Names::frames -> counts by [address] -> describe -> Profile: counts by [function]
//! ```

use corelane_os::{clock, kernel_files};
use corelane_unwind::perf::{Sample, Sampling};
use corelane_unwind::{Function, Names};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// How often a thread is looked at in each second that it runs: no divisor of what programs do by the clock.
const HERTZ: u64 = 99;
/// Between two readings: 16 samples fit in between.
const PAUSE_NANOSECONDS: u64 = 20_000_000;
/// Different stacks at the most; what comes beyond is counted as [`Profile::others`].
const STACKS_MAX: usize = 100_000;
/// The name for the time in calls of the system's.
const KERNEL: &str = "[kernel]";

/// The work of a process's lanes.
#[derive(Debug, Default)]
pub struct Profile {
    /// How often lanes were found in these functions, the outermost first: before all others the lane's name.
    pub stacks: BTreeMap<Vec<String>, u64>,
    /// Samples beyond the different stacks that are kept, and those that the system had no room for.
    pub others: u64,
    /// Whether what lanes do in the kernel is among them.
    pub sees_kernel: bool,
}

impl Profile {
    /// Samples that were taken.
    pub fn samples(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// One line a stack, its functions from the outermost on with `;` between them, and how often: what tools for flame graphs read.
    pub fn collapsed(&self) -> String {
        let line = |(stack, count): (&Vec<String>, &u64)| format!("{} {count}\n", stack.join(";"));
        self.stacks.iter().map(line).collect()
    }
}

/// The lanes of a process and their threads, by number.
///
/// # Errors
/// That the process is not there, or not for this user.
pub fn lanes(process: u32) -> io::Result<BTreeMap<usize, u32>> {
    let mut found = BTreeMap::new();
    for thread in kernel_files::numbers(&format!("/proc/{process}/task"))? {
        // One may end meanwhile.
        let Ok(name) = kernel_files::text(&format!("/proc/{process}/task/{thread}/comm")) else { continue };
        found.extend(name.trim().strip_prefix("lane-").and_then(|lane| Some((lane.parse().ok()?, thread))));
    }
    Ok(found)
}

/// Samples these lanes of a process for so long. Sleep is no part of it: a lane without work has few samples, or none.
///
/// # Errors
/// Why a thread may not be sampled, in words with a remedy; that the process's maps cannot be read.
pub fn profile(process: u32, lanes: &BTreeMap<usize, u32>, span: Duration) -> io::Result<Profile> {
    let mut names = Names::of(process)?;
    let mut sampled = Vec::new();
    for (lane, thread) in lanes {
        sampled.push((*lane, Sampling::of(*thread, HERTZ)?));
    }
    let mut found = Found::default();
    let end = clock::now().saturating_add(span.as_nanos() as u64);
    loop {
        let is_over = clock::now() >= end;
        for (lane, sampling) in &mut sampled {
            sampling.drain(|sample| found.note(*lane, &sample, &mut names));
        }
        if is_over {
            break;
        }
        clock::sleep_until(clock::now() + PAUSE_NANOSECONDS);
    }
    let lost: u64 = sampled.iter().map(|(_, sampling)| sampling.lost()).sum();
    let sees_kernel = sampled.iter().all(|(_, sampling)| sampling.sees_kernel());
    Ok(Profile { stacks: found.named(&mut names), others: found.others + lost, sees_kernel })
}

/// A sample: the lane, the addresses of its functions, and whether in the kernel.
type SampledStack = (usize, Vec<u64>, bool);

#[derive(Default)]
struct Found {
    counts: BTreeMap<SampledStack, u64>,
    others: u64,
}

impl Found {
    fn note(&mut self, lane: usize, sample: &Sample, names: &mut Names) {
        let stack = (lane, names.frames(&sample.stack), sample.in_kernel);
        if self.counts.len() < STACKS_MAX || self.counts.contains_key(&stack) {
            *self.counts.entry(stack).or_default() += 1;
        } else {
            self.others += 1;
        }
    }

    fn named(&self, names: &mut Names) -> BTreeMap<Vec<String>, u64> {
        let mut known: BTreeMap<u64, Vec<Function>> = BTreeMap::new();
        let mut stacks = BTreeMap::new();
        for ((lane, addresses, in_kernel), count) in &self.counts {
            let functions = addresses.iter().rev().flat_map(|address| {
                let functions = known.entry(*address).or_insert_with(|| names.describe(*address));
                functions.iter().rev().cloned().collect::<Vec<_>>()
            });
            let mut stack = vec![format!("lane {lane}")];
            stack.extend(within(functions.collect()).iter().map(|function| function.name.replace(';', ":")));
            stack.extend(in_kernel.then(|| KERNEL.to_owned()));
            *stacks.entry(stack).or_default() += count;
        }
        stacks
    }
}

/// Without the functions that start a thread, which are the same in every stack: those before the first of the program's own.
fn within(mut functions: Vec<Function>) -> Vec<Function> {
    let is_own = |function: &Function| function.place.is_some() && !function.is_library();
    let first = functions.iter().position(is_own).unwrap_or(0);
    functions.split_off(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    static RUNS: AtomicBool = AtomicBool::new(false);
    static ENDS: AtomicBool = AtomicBool::new(false);

    #[inline(never)]
    fn a_lane_that_computes() {
        RUNS.store(true, Ordering::Relaxed);
        while !std::hint::black_box(&ENDS).load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn what_a_lane_computes_is_named() {
        let thread = std::thread::Builder::new().name("lane-3".to_owned()).spawn(a_lane_that_computes).unwrap();
        let mut threads = lanes(std::process::id()).unwrap();
        // What starts it is not to be sampled.
        while !threads.contains_key(&3) || !RUNS.load(Ordering::Relaxed) {
            threads = lanes(std::process::id()).unwrap();
        }
        threads.retain(|lane, _| *lane == 3);
        let found = profile(std::process::id(), &threads, Duration::from_millis(500));
        ENDS.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        let found = found.unwrap();
        let named = found
            .stacks
            .iter()
            .filter(|(stack, _)| stack[0] == "lane 3" && stack.iter().any(|function| function.ends_with("a_lane_that_computes")));
        let named: u64 = named.map(|(_, count)| count).sum();
        assert!(named > 0 && named * 10 >= found.samples() * 9, "{found:?}");
        let words = found.collapsed();
        assert!(words.lines().all(|line| line.starts_with("lane 3;") && line.rsplit(' ').next().unwrap().parse::<u64>().is_ok()));
    }

    #[test]
    fn a_process_that_is_gone_is_told_of() {
        assert_eq!(lanes(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
        let gone = profile(std::process::id(), &[(0, u32::MAX)].into(), Duration::ZERO).unwrap_err();
        assert!(gone.to_string().contains("has ended"), "{gone}");
    }

    #[test]
    fn what_starts_a_thread_is_left_out_unless_nothing_else_is_known() {
        let of = |name: &str, place: Option<&str>| Function { name: name.to_owned(), place: place.map(str::to_owned) };
        let all = vec![of("clone", None), of("start", Some("/rustc/x")), of("turn", Some("turn.rs:1")), of("read", None)];
        assert_eq!(within(all.clone()), all[2..]);
        assert_eq!(within(all[..2].to_vec()), all[..2]);
    }
}
