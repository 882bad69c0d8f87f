//! Changes while packets go through: 1,000 rules by a script, 10,000 routes by a file, and none, to know what is lost anyhow. A lane forwards, or its port's program.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::contenders::{Asked, Gateway, Rules};
use super::houses;
use super::running::Running;
use crate::bars::Limit;
use crate::host;
use crate::interrupt::Interrupt;
use crate::rounds::{Extent, Rounds, Verdict};
use crate::stage::Stage;
use crate::tables::{self, number};

/// The name of the cell, for `--only` and the tables.
pub const CELL: &str = "gateway-changes";

/// Packets a second meanwhile.
const OFFER: f64 = 50e3;
/// How long packets go through before a change and behind it.
const AROUND: Duration = Duration::from_millis(200);
/// Rules of a script: so many for each house. All of those that see a packet in count as much, or it was judged by a part of them.
const RULES: usize = 1_000;
/// Their first number, behind all that were there.
const FIRST_NUMBER: u16 = 40_000;
/// Routes of a file, each of 256 addresses.
const ROUTES: u16 = 10_000;
/// None may be lost that is not lost without a change, of packets or of counts, and none judged by half a set.
const NONE: Limit = Limit::AtMost(0.0);

/// A change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    Rules,
    Routes,
}

/// Those that forward.
const GATEWAYS: [Gateway; 2] = [Gateway::Polling(Rules::Tree), Gateway::Lane(Rules::Xdp)];
const CHANGES: [Change; 3] = [Change::Nothing, Change::Rules, Change::Routes];

/// A change at a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    gateway: Gateway,
    change: Change,
}

fn cases() -> Vec<Case> {
    GATEWAYS.into_iter().flat_map(|gateway| CHANGES.map(|change| Case { gateway, change })).collect()
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}: {}", self.gateway, self.change))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.pad("no change"),
            Self::Rules => f.pad(&format!("{RULES} rules")),
            Self::Routes => f.pad(&format!("{ROUTES} routes")),
        }
    }
}

/// The fate of packets that went through during a change.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Changed {
    /// Packets that were offered.
    offered: u64,
    /// Those that did not come to their users as they had to.
    lost: u64,
    /// Those among them for which the ring of the gateway's interface had no room, or that of its port: nobody received there in time.
    unreceived: u64,
    /// Those among them that the gateway had sent, and for which the ring of its users' interface had no room: no loss of its own.
    at_users: u64,
    /// How long the kernel's thread that receives for it waited for its CPU, in milliseconds, and how long the host had taken CPUs away: where it waited with a change as without, others
    /// of the machine had its time.
    waited_ms: f64,
    stolen_ms: u64,
    /// Counts of the 160 rules that are missing: each packet that came was counted twice.
    counts_lost: u64,
    /// Counts of new rules that differ from those of others which see the same packets.
    halves: u64,
    /// How long the command took, in milliseconds.
    took_ms: f64,
}

/// All rounds.
pub struct Changes(Rounds<Case, Changed>);

impl Serialize for Changes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// Makes each change in rounds, at a gateway that is started anew for each round.
///
/// # Errors
/// When a gateway does not start or forward, a command fails, or a signal asks for the end.
pub fn run(stage: &Stage, extent: Extent, interrupt: &Interrupt) -> Result<Changes> {
    let cases = cases();
    let rounds = Rounds::take(CELL, cases.clone(), extent.rounds, interrupt, |place| {
        let Case { gateway, change } = cases[place];
        let running = Running::start_unpinned(Asked { gateway, is_tagged: true, beside: None }, &stage.corelane)?;
        changed(&running, change, &stage.corelane)
    })?;
    Ok(Changes(rounds))
}

fn changed(running: &Running, change: Change, corelane: &Path) -> Result<Changed> {
    let pid = running.pid().context("the gateway has a process")?;
    let before = counted(corelane, pid)?;
    let (came_before, fate, stolen) = (running.came(), running.fate()?, host::stolen_ms()?);
    let words: Option<(&[&str], _)> = match change {
        Change::Nothing => None,
        Change::Rules => Some((&["import"], running.write("more.sh", &script())?)),
        Change::Routes => Some((&["route", "import"], running.write("routes", &routes())?)),
    };
    let (offered, took_ms) = running.meanwhile(OFFER, || {
        thread::sleep(AROUND);
        let began = Instant::now();
        if let Some((words, file)) = &words {
            tell(corelane, pid, words, Some(file))?;
        }
        let took = began.elapsed();
        thread::sleep(AROUND);
        Ok(took.as_secs_f64() * 1e3)
    })?;
    let (came, fate, stolen_ms) = (running.came() - came_before, running.fate()?.since(&fate), host::stolen_ms()? - stolen);
    let after = counted(corelane, pid)?;
    let of_old = |rows: &[Row]| rows.iter().filter(|row| row.is_old()).map(|row| row.packets).sum::<u64>();
    // What was counted and lost behind the rules is a lost packet, and no lost count.
    let counts_lost = (2 * came).saturating_sub(of_old(&after) - of_old(&before));
    Ok(Changed {
        offered,
        lost: offered.saturating_sub(came),
        unreceived: fate.unreceived,
        at_users: fate.at_users,
        waited_ms: fate.waited_ns as f64 / 1e6,
        stolen_ms,
        counts_lost,
        halves: halves(&after),
        took_ms,
    })
}

/// A rule as it is shown.
#[derive(Debug, Deserialize)]
struct Row {
    number: u16,
    packets: u64,
    rule: String,
}

impl Row {
    fn is_old(&self) -> bool {
        self.rule.starts_with("count") && !self.is_new()
    }

    fn is_new(&self) -> bool {
        self.rule.starts_with("count") && self.number >= FIRST_NUMBER
    }
}

fn counted(corelane: &Path, pid: i32) -> Result<Vec<Row>> {
    let text = tell(corelane, pid, &["show", "--json"], None)?;
    serde_json::from_slice(&text).context("rules as corelane shows them")
}

fn tell(corelane: &Path, pid: i32, words: &[&str], file: Option<&Path>) -> Result<Vec<u8>> {
    let output = Command::new(corelane).arg("gateway").args(["--pid", &pid.to_string()]).args(words).args(file).output();
    let output = output.context("corelane gateway")?;
    ensure!(output.status.success(), "corelane gateway {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

/// The rules that are added: half of a house's count what comes from it, the others what goes there.
fn script() -> String {
    let mut script = "#!/bin/sh\nfwcmd=\"/sbin/ipfw -q\"\n".to_owned();
    for (house, number) in houses::all().cycle().zip(FIRST_NUMBER..).take(RULES) {
        let is_in = ((number - FIRST_NUMBER) / u16::from(houses::HOUSES)).is_multiple_of(2);
        let direction = if is_in { "in" } else { "out" };
        // Writing to a string does not fail.
        let _ = writeln!(script, "$fwcmd add {number} count ip from any to any {direction} via vlan{house}");
    }
    script
}

/// Routes to networks that nobody sends to, by users of the houses.
fn routes() -> String {
    let users = houses::all().filter_map(|house| houses::users(house).next()).cycle();
    let lines = (0..ROUTES).zip(users).map(|(number, user)| {
        let [high, low] = number.to_be_bytes();
        format!("11.{high}.{low}.0/24 via {user}\n")
    });
    lines.collect()
}

/// Counts of new rules that say something else than others that saw the same packets: those of one house and direction, and all that came in by those that went out.
fn halves(rows: &[Row]) -> u64 {
    let new: Vec<&Row> = rows.iter().filter(|row| row.is_new()).collect();
    let first = |row: &Row| new.iter().find(|one| one.rule == row.rule).map_or(0, |one| one.packets);
    let unequal = new.iter().filter(|row| row.packets != first(row)).count() as u64;
    let once = |direction: &str| {
        let all = new.iter().take(2 * usize::from(houses::HOUSES)).filter(|row| row.rule.contains(direction));
        all.map(|row| row.packets).sum::<u64>()
    };
    unequal + once(" in ").abs_diff(once(" out "))
}

impl Changes {
    /// Of all rounds together: a round that loses some is not made up for by six that lose none.
    fn sum(&self, case: Case, figure: fn(&Changed) -> u64) -> Option<f64> {
        self.sum_of(case, |one| figure(one) as f64)
    }

    fn sum_of(&self, case: Case, figure: impl Fn(&Changed) -> f64) -> Option<f64> {
        Some(self.0.values(case, figure)?.iter().sum())
    }
}

/// The verdicts on the bars: what is lost without a change is the machine's.
pub fn judge(changes: &Changes) -> Vec<Verdict> {
    let judged = |case: Case| {
        let of = |what: &str, figure: fn(&Changed) -> u64| {
            let (sum, anyhow) = (changes.sum(case, figure)?, changes.sum(Case { change: Change::Nothing, ..case }, figure)?);
            let what = format!("{case}: {what}, {sum} and {anyhow} without a change");
            Some(Verdict { rounds: changes.0.rounds.len(), ..Verdict::of_one(CELL, what, sum - anyhow, NONE) })
        };
        [
            of("packets lost", |one| one.lost.saturating_sub(one.at_users)),
            of("counts lost", |one| one.counts_lost),
            of("judged by half a set", |one| one.halves),
        ]
    };
    cases().into_iter().filter(|case| case.change != Change::Nothing).flat_map(judged).flatten().collect()
}

/// The medians over the rounds, and of what was lost the sum.
pub fn table(changes: &Changes) -> String {
    let rounds = &changes.0;
    tables::of_rounds(rounds, "change", |_, who| {
        let sum = |of: fn(&Changed) -> u64| number(changes.sum(who, of), 0);
        vec![
            ("took ms", number(rounds.median(who, |one| one.took_ms), 1)),
            ("packets", sum(|one| one.offered)),
            ("lost", sum(|one| one.lost)),
            ("unreceived", sum(|one| one.unreceived)),
            ("at users", sum(|one| one.at_users)),
            ("waited ms", number(changes.sum_of(who, |one| one.waited_ms), 0)),
            ("stolen ms", sum(|one| one.stolen_ms)),
            ("counts lost", sum(|one| one.counts_lost)),
            ("halves", sum(|one| one.halves)),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Word;

    /// What rules of the script show where each has counted so much; `count` is given a rule's place.
    fn rows(count: impl Fn(usize) -> u64) -> Vec<Row> {
        let script = script();
        let rules = script.lines().filter_map(|line| line.strip_prefix("$fwcmd add "));
        let row = |(place, line): (usize, &str)| {
            let (number, rule) = line.split_once(' ').expect("a number and a rule");
            Row { number: number.parse().expect("a number"), packets: count(place), rule: rule.to_owned() }
        };
        rules.enumerate().map(row).collect()
    }

    #[test]
    fn a_packet_that_half_a_set_has_judged_is_seen() {
        assert_eq!(rows(|_| 7).len(), RULES);
        assert_eq!(halves(&rows(|_| 7)), 0);
        assert_eq!(halves(&rows(|place| 7 + u64::from(place == 999))), 1, "one rule has not seen what its house's others have");
        assert_eq!(halves(&rows(|place| 7 + (place / 40 % 2) as u64)), 40, "more went out than came in");
    }

    /// Rounds of which few lose packets: so many with a change at the lane, and without one.
    fn lossy(with: u64, without: u64) -> Changes {
        // Packets for which its users had no room are no loss of the gateway's.
        let sample = |lost| Changed {
            offered: 20_000,
            lost: lost + 9,
            unreceived: lost,
            at_users: 9,
            waited_ms: 0.0,
            stolen_ms: 0,
            counts_lost: 0,
            halves: 0,
            took_ms: 1.0,
        };
        let mut rounds = Rounds::new(CELL, cases());
        let of = |case: &Case| match (case.gateway, case.change) {
            (Gateway::Polling(_), Change::Nothing) => without,
            (Gateway::Polling(_), Change::Rules) => with,
            _ => 0,
        };
        rounds.rounds =
            (0..7).map(|round| cases().iter().map(|case| sample(if round == 0 { of(case) } else { 0 })).collect()).collect();
        Changes(rounds)
    }

    #[test]
    fn what_one_round_loses_is_judged_by_what_is_lost_without_a_change() {
        for (with, without, word) in [(235, 198, Word::Missed), (198, 235, Word::Met), (1, 0, Word::Missed), (0, 0, Word::Met)] {
            let verdicts = judge(&lossy(with, without));
            assert_eq!(verdicts.len(), 12, "of each gateway, for each change");
            let lost = verdicts.iter().find(|one| one.what.contains("tree: 1000 rules: packets lost")).expect("it is judged");
            assert_eq!((lost.word, lost.value, lost.rounds), (word, with as f64 - without as f64, 7));
            assert!(lost.what.ends_with(&format!("lost, {with} and {without} without a change")), "{}", lost.what);
        }
    }

    #[test]
    fn routes_are_as_many_as_are_said_and_none_is_a_houses() {
        let routes = routes();
        assert_eq!(routes.lines().count(), usize::from(ROUTES));
        assert!(
            routes.starts_with("11.0.0.0/24 via 10.0.1.32\n") && routes.ends_with("11.39.15.0/24 via 10.0.40.32\n"),
            "{routes}"
        );
    }
}
