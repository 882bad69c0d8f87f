//! Instructions, counted exactly (callgrind): what the programs and libraries themselves do, without the kernel.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::programs::{Programs, System};
use crate::bars::Limit;
use crate::callgrind;
use crate::cpus::GENERATOR_CPU;
use crate::interrupt::Interrupt;
use crate::rounds::Verdict;
use crate::tables::{self, number};

/// What `--only` and the tables call it.
pub const NAME: &str = "event-instructions";

/// What evserver on kqueue may take of evserver on epoll.
const BAR: Limit = Limit::AtMost(1.05);

/// Events a round, and rounds that are counted, beside as many that are subtracted.
const ACTIVE: u64 = 200;
const ROUNDS: u64 = 20;

/// Connections at once, and how often.
const AT_ONCE: u64 = 10;
const TIMES: u64 = 20;

/// An exact count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Count {
    /// What was counted.
    pub what: String,
    /// Instructions of each event or request.
    pub instructions: f64,
}

/// Counts an event of each system, and a request of evserver on kqueue, on epoll, and on the least that kqueue(2) needs: below that no library comes.
///
/// # Errors
/// When a program fails, or a signal asks for the end.
pub fn run(programs: &Programs, interrupt: &Interrupt) -> Result<Vec<Count>> {
    eprintln!("{NAME} ...");
    let mut counts = Vec::new();
    for &system in &programs.systems {
        interrupt.check()?;
        let instructions = per_event(programs, system).with_context(|| format!("{NAME}, {system}"))?;
        counts.push(Count { what: format!("event by {system}"), instructions });
    }
    let servers = SERVERS.map(|system| (programs.server(), system, request_of(system)));
    // Its kqueue(2) stands before the library's.
    let least = (programs.least_server(), SERVERS[0], "request on the least of kqueue".to_owned());
    for (program, system, what) in servers.into_iter().chain([least]) {
        interrupt.check()?;
        let instructions = per_request(&program, system).with_context(|| format!("{NAME}, {what}"))?;
        counts.push(Count { what, instructions });
    }
    Ok(counts)
}

/// The one that is judged, and what it is divided by.
const SERVERS: [&str; 2] = ["kqueue", "epoll"];

fn request_of(system: &str) -> String {
    format!("request of evserver on {system}")
}

/// The part of a run that grows with what it does.
fn per_event(programs: &Programs, system: System) -> Result<f64> {
    let (program, word) = programs.command(system);
    let run = |rounds: u64| {
        let mut command = callgrind::command(&program);
        let [active, rounds, cpu] = [ACTIVE, rounds, GENERATOR_CPU as u64].map(|number| number.to_string());
        command.args([word, "rounds", &active, &active, &rounds, &cpu]);
        let mut child = command.stdout(Stdio::null()).spawn().context("valgrind")?;
        callgrind::collected(&mut child)
    };
    Ok((run(2 * ROUNDS)? - run(ROUNDS)?) as f64 / (ACTIVE * ROUNDS) as f64)
}

fn per_request(program: &Path, system: &str) -> Result<f64> {
    let run = |times: u64| {
        let mut command = callgrind::command(program);
        command.args([system, "0", &(times * AT_ONCE).to_string()]).stdout(Stdio::piped());
        let mut child = command.spawn().context("valgrind")?;
        let out = child.stdout.take().context("its output is not piped")?;
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line).context("its port")?;
        ask(line.trim().parse().with_context(|| format!("a port, not {line:?}"))?, times)?;
        callgrind::collected(&mut child)
    };
    Ok((run(2 * TIMES)? - run(TIMES)?) as f64 / (TIMES * AT_ONCE) as f64)
}

/// Asks for the page on some connections at once, and again.
fn ask(port: u16, times: u64) -> Result<()> {
    for _ in 0..times {
        let connect = |_| {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").map(|()| stream)
        };
        let streams = (0..AT_ONCE).map(connect).collect::<std::io::Result<Vec<_>>>().context("asking evserver")?;
        for mut stream in streams {
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).context("evserver's answer")?;
            ensure!(answer.starts_with(b"HTTP/1.1 200 "), "evserver answers {} bytes", answer.len());
        }
    }
    Ok(())
}

/// What came of the bar.
pub fn judge(counts: &[Count]) -> Option<Verdict> {
    let of = |system: &str| counts.iter().find(|count| count.what == request_of(system)).map(|count| count.instructions);
    let ratio = of(SERVERS[0])? / of(SERVERS[1])?;
    Some(Verdict::of_one(NAME, "evserver on kqueue / on epoll, instructions per request".to_owned(), ratio, BAR))
}

/// All counts, a line each.
pub fn table(counts: &[Count]) -> String {
    let row = |count: &Count| vec![("what", count.what.clone()), ("instructions", number(count.instructions, 0))];
    format!("{NAME}, outside of the kernel\n{}", tables::table(&counts.iter().map(row).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_on_kqueue_is_held_against_one_on_epoll() {
        let count = |system: &str, instructions| Count { what: request_of(system), instructions };
        let verdict = judge(&[count("kqueue", 210.0), count("epoll", 200.0)]).expect("both were counted");
        assert_eq!((verdict.value, verdict.word), (1.05, crate::bars::Word::Met));
        assert!(judge(&[count("epoll", 200.0)]).is_none());
    }
}
