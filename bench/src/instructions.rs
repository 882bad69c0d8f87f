//! `cargo xtask bench instructions`: instructions that the server takes for a request, outside of the kernel, by callgrind.
//!
//! Each cell is served with some requests and with three times as many; what the longer run takes more is divided by the requests that it had more. On a
//! busy machine a run now and then takes more, for what waits too long is looked at again, and never less: so each run is made some times, and the
//! least counts. One connection sends as many requests together as the cell is deep, and waits for all answers.
//!
//! `--path` prints instead which functions a request passes, and in which files they stand.

mod asked;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use clap::builder::PossibleValuesParser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use self::asked::{Asks, Beside};
use super::build::build_package;
use super::callgrind;
use super::cells::wants;
use super::path;
use super::record;
use super::server::free_address;
use super::tables::{self, number};
use xtask::workspace::Workspace;

/// What to count.
#[derive(Args, Debug)]
pub struct Arguments {
    /// Count this build of corelane, too, and say what part of its instructions this one takes.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// Count this build in place of the one that is made of this working tree.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "record")]
    program: Option<PathBuf>,
    /// Write the table to bench/results/instructions.txt too.
    #[arg(long)]
    record: bool,
    /// Print which functions of ours a request of each cell passes, by their files, in place of the count.
    #[arg(long, conflicts_with_all = ["beside", "record"])]
    path: bool,
    /// One cell alone; may be given again.
    #[arg(long, value_name = "CELL", conflicts_with = "record", value_parser = PossibleValuesParser::new(CELLS.map(|cell| cell.name)))]
    only: Vec<String>,
}

/// What is asked, in which pieces.
#[derive(Clone, Copy)]
struct Cell {
    name: &'static str,
    asks: Asks,
    /// Requests that are sent together.
    depth: usize,
}

const CELLS: [Cell; 13] = [
    Cell { name: "tcp-64-d1", asks: Asks::Stream(64), depth: 1 },
    Cell { name: "tcp-64-d16", asks: Asks::Stream(64), depth: 16 },
    Cell { name: "tcp-4096-d16", asks: Asks::Stream(4096), depth: 16 },
    Cell { name: "tcp-65536-d4", asks: Asks::Stream(65536), depth: 4 },
    Cell { name: "tcp-64-new", asks: Asks::Anew(64), depth: 1 },
    Cell { name: "udp-510-d1", asks: Asks::Datagram(510), depth: 1 },
    Cell { name: "rpc-d1", asks: Asks::Call, depth: 1 },
    Cell { name: "rpc-d16", asks: Asks::Call, depth: 16 },
    Cell { name: "http-4096-d1", asks: Asks::File(4096), depth: 1 },
    Cell { name: "http-4096-d16", asks: Asks::File(4096), depth: 16 },
    Cell { name: "proxy-64-d1", asks: Asks::Passed(64), depth: 1 },
    Cell { name: "proxy-64-d16", asks: Asks::Passed(64), depth: 16 },
    Cell { name: "pass-4096-d1", asks: Asks::Forwarded(4096), depth: 1 },
];

/// Rounds of the shorter run, each as many requests as the cell is deep; the longer run has three times as many.
const ROUNDS: usize = 500;

/// How often each run is made.
const TIMES: usize = 3;

/// One cell's result.
struct Counted {
    cell: &'static str,
    ours: f64,
    beside: Option<f64>,
}

impl Arguments {
    /// Runs the command, and prints the table.
    ///
    /// # Errors
    /// When valgrind is not installed, or a program cannot be built or started, or answers wrongly.
    pub fn run(&self) -> Result<()> {
        if let Some(why) = callgrind::missing() {
            bail!("instructions: {why}");
        }
        for program in self.beside.iter().chain(&self.program) {
            ensure!(program.is_file(), "{}: expected a program", program.display());
        }
        let ours = self.program.clone().map_or_else(built, Ok)?;
        if self.path {
            return self.print_paths(&ours);
        }
        let mut counted = Vec::new();
        for cell in CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            eprintln!("{} ...", cell.name);
            let of = |program: &Path| cell.count(program).with_context(|| format!("{} of {}", cell.name, program.display()));
            counted.push(Counted { cell: cell.name, ours: of(&ours)?, beside: self.beside.as_deref().map(of).transpose()? });
        }
        let table = table(&counted);
        print!("{table}");
        if self.record {
            record::write(&Workspace::load()?.root, "instructions", &table)?;
        }
        Ok(())
    }

    fn print_paths(&self, program: &Path) -> Result<()> {
        for cell in CELLS.iter().filter(|cell| wants(&self.only, cell.name)) {
            let path = cell.path(program).with_context(|| format!("{} of {}", cell.name, program.display()))?;
            println!("{}\n{path}", cell.name);
        }
        Ok(())
    }
}

/// The optimised build of this working tree.
fn built() -> Result<PathBuf> {
    let workspace = Workspace::load()?;
    build_package(&workspace, "corelane-cli")?;
    Ok(workspace.target.join("release/corelane"))
}

impl Cell {
    /// Instructions of a request.
    fn count(&self, program: &Path) -> Result<f64> {
        let (few, many) = (self.least(program, ROUNDS)?, self.least(program, 3 * ROUNDS)?);
        ensure!(many > few, "{few} instructions with {ROUNDS} rounds, and {many} with more");
        Ok((many - few) as f64 / (2 * ROUNDS * self.depth) as f64)
    }

    fn least(&self, program: &Path, rounds: usize) -> Result<u64> {
        (1..TIMES).try_fold(self.run(program, rounds)?, |least, _| Ok(least.min(self.run(program, rounds)?)))
    }

    /// All instructions of a server that is asked in so many rounds.
    fn run(&self, program: &Path, rounds: usize) -> Result<u64> {
        self.serve(program, callgrind::command(program), rounds)
    }

    /// Which functions of ours a request passes.
    fn path(&self, program: &Path) -> Result<String> {
        let profile = std::env::temp_dir().join(format!("corelane-profile-{}", std::process::id()));
        let calls = |rounds| {
            self.serve(program, callgrind::profiling(program, &profile), rounds)?;
            let read = fs::read_to_string(&profile).with_context(|| profile.display().to_string());
            // Nothing comes of it where there is none.
            let _ = fs::remove_file(&profile);
            read.map(|profile| path::read(&profile))
        };
        Ok(path::table(&calls(ROUNDS)?, &calls(3 * ROUNDS)?, (2 * ROUNDS * self.depth) as u64))
    }

    /// Has a server under callgrind asked in so many rounds; returns all instructions that it took.
    fn serve(&self, program: &Path, callgrind: Command, rounds: usize) -> Result<u64> {
        let beside = Beside::start(self.asks, program)?;
        let address = free_address(&mut None)?;
        let mut server = Counting::start(callgrind, &beside.place(self.asks, address))?;
        self.asks.ask(address, self.depth, rounds)?;
        server.end()
    }
}

/// A server under callgrind. Dropped before its end, it is killed.
struct Counting {
    child: Child,
    /// Open until its end: it would not write to a pipe that nobody reads.
    _out: BufReader<ChildStdout>,
}

impl Counting {
    fn start(mut command: Command, place: &str) -> Result<Self> {
        command.args(["serve", "--lanes", "1", "--driver", "epoll", "--steering", "kernel", place]).stdout(Stdio::piped());
        let mut child = command.spawn().context("valgrind")?;
        let out = BufReader::new(child.stdout.take().context("its output is not piped")?);
        let mut counting = Self { child, _out: out };
        let mut line = String::new();
        while !line.starts_with("ready") {
            line.clear();
            let length = counting._out.read_line(&mut line).context("its output")?;
            if length == 0 {
                let said = callgrind::collected(&mut counting.child).map_or_else(|error| format!("{error:#}"), |_| String::new());
                bail!("it ended before it was ready: {said}");
            }
        }
        Ok(counting)
    }

    /// Has it end in order, and returns what was counted.
    fn end(&mut self) -> Result<u64> {
        // reason: the kernel's pids are positive and fit i32 (PID_MAX_LIMIT is 2^22).
        let pid = i32::try_from(self.child.id()).expect("a pid fits i32");
        kill(Pid::from_raw(pid), Signal::SIGTERM).context("SIGTERM for the server")?;
        callgrind::collected(&mut self.child)
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // Nothing comes of either where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All cells, a line each.
fn table(counted: &[Counted]) -> String {
    let row = |&Counted { cell, ours, beside }: &Counted| {
        let ratio = number(beside.map(|beside| ours / beside), 3);
        vec![("cell", cell.to_owned()), ("instructions", number(ours, 0)), ("beside", number(beside, 0)), ("ratio", ratio)]
    };
    let mut lines = tables::table(&counted.iter().map(row).collect::<Vec<_>>());
    let judged = counted.iter().filter_map(|counted| Some(counted.ours < counted.beside?));
    let (below, all) = judged.fold((0, 0), |(below, all), is_below| (below + usize::from(is_below), all + 1));
    if all > 0 {
        lines += &format!("{below} of {all} cells below the build beside\n");
    }
    lines + "instructions of a request outside of the kernel; callgrind, epoll, one lane, one connection\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_beside_is_held_against_ours() {
        let words = |counted: &[Counted]| table(counted).split_whitespace().collect::<Vec<_>>().join(" ");
        let alone = words(&[Counted { cell: "a", ours: 1234.4, beside: None }]);
        assert!(alone.contains(" a 1234 - - ") && !alone.contains("build beside"), "{alone}");
        let both = |ours| Counted { cell: "a", ours, beside: Some(1000.0) };
        let two = words(&[both(900.0), both(1000.0)]);
        assert!(two.contains(" a 900 1000 0.900 a ") && two.contains(" 1 of 2 cells below the build beside "), "{two}");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let arguments =
            Arguments { beside: Some("/there/is/none".into()), program: None, record: false, path: false, only: Vec::new() };
        let why = arguments.run().expect_err("no program is there").to_string();
        assert!(why.contains("/there/is/none") || why.contains("apt-get install"), "{why}");
    }
}
