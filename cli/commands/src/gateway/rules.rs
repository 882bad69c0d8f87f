//! Rules as ipfw(8) shows them, and changes of them.

use super::asked::Asked;
use crate::stat::text::plural;
use anyhow::{Context, Result, anyhow, bail};
use corelane::admin::gateway::{self, RuleRow};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Columns of a time in words.
const TIME_COLUMNS: usize = "2026-01-01T00:00:00Z".len();

#[derive(clap::Args)]
pub struct Show {
    /// When each matched last: the time in UTC
    #[arg(short = 't', conflicts_with = "seconds")]
    time: bool,
    /// When each matched last: seconds since 1970, 0 for never
    #[arg(short = 'T')]
    seconds: bool,
    /// The set of each rule, and those of sets that are switched off
    #[arg(short = 'S')]
    sets: bool,
    /// Numbers of rules and ranges such as 200-300; all without any
    #[arg(value_parser = numbers)]
    numbers: Vec<(u16, u16)>,
}

fn numbers(text: &str) -> Result<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse(), last.parse()) {
        (Ok(first), Ok(last)) if first > 0 && first <= last => Ok((first, last)),
        _ => bail!("write the number of a rule, 1 to 65535, or a range such as 200-300"),
    }
}

/// Prints the rules.
pub fn show(asked: &Asked, show: &Show, with_counts: bool) -> Result<()> {
    let rows = asked.rows(gateway::rules(&asked.page, &show.numbers))?;
    let shown: Vec<RuleRow> = rows.into_iter().filter(|row| show.sets || !row.is_off).collect();
    asked.print(&shown, || text(&shown, show, with_counts, SystemTime::now()))
}

/// The rules in columns, as wide as the widest number.
fn text(rows: &[RuleRow], show: &Show, with_counts: bool, now: SystemTime) -> String {
    let width = |of: fn(&RuleRow) -> u64| rows.iter().map(|row| of(row).to_string().len()).max().unwrap_or(0);
    let (packets, bytes) = (width(|row| row.packets), width(|row| row.bytes));
    let line = |row: &RuleRow| {
        let off = if row.is_off { "# DISABLED " } else { "" };
        let counts = if with_counts { format!(" {:>packets$} {:>bytes$}", row.packets, row.bytes) } else { String::new() };
        let last =
            row.idle_nanoseconds.map(|idle| now.checked_sub(Duration::from_nanos(idle)).unwrap_or(UNIX_EPOCH).max(UNIX_EPOCH));
        let time = match last {
            _ if show.seconds => {
                let since = last.map_or(0, |last| last.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
                format!(" {since:>10}")
            }
            _ if !show.time => String::new(),
            Some(last) => format!(" {}", humantime::format_rfc3339_seconds(last)),
            None => " ".repeat(TIME_COLUMNS + 1),
        };
        // Of all other sets a rule says itself which is its.
        let set = if show.sets && row.set == 0 { " set 0" } else { "" };
        format!("{off}{:05}{counts}{time}{set} {}", row.number, row.rule)
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Has one command with its words carried out; a rule that was added is printed, and else what ipfw(8) says.
pub fn change(asked: &Asked, command: &str, words: &[String]) -> Result<()> {
    let text = [&[command.to_owned()], words].concat().join(" ");
    let changed = asked.said(gateway::change(&asked.page, vec![text]))?;
    asked.note_late(changed.is_in_force);
    asked.print(&changed, || [&changed.lines[..], &said(command, words)].concat().join("\n"))
}

/// The line that ipfw(8) prints once a command has been carried out.
fn said(command: &str, numbers: &[String]) -> Vec<String> {
    let each = |what: &str| numbers.iter().map(|number| format!("Entry {number} {what}.")).collect();
    match (command, numbers) {
        ("flush", _) => vec!["Flushed all rules.".to_owned()],
        ("zero", []) => vec!["Accounting cleared.".to_owned()],
        ("zero", _) => each("cleared"),
        ("resetlog", []) => vec!["Logging counts reset.".to_owned()],
        ("resetlog", _) => each("logging count reset"),
        _ => Vec::new(),
    }
}

/// Has the commands of a script carried out, or looks what would come of them.
pub fn import(asked: &Asked, file: &Path, only_checks: bool) -> Result<()> {
    let script = read(file)?;
    let changed = asked.said(gateway::import(&asked.page, script, only_checks)).with_context(|| file.display().to_string())?;
    asked.note_late(changed.is_in_force || only_checks);
    asked.print(&changed, || {
        let would = if only_checks { "would be " } else { "" };
        let more = changed.added - changed.lines.len();
        let lines = changed.lines.join("\n") + if changed.lines.is_empty() { "" } else { "\n" };
        let more = if more == 0 { String::new() } else { format!("and {more} more\n") };
        format!("{lines}{more}{} {would}added, {} in all", plural(changed.added, "rule"), changed.rules)
    })
}

/// What a file says.
pub fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).map_err(|error| anyhow!("reading {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows() -> Vec<RuleRow> {
        let row = |number: u16, set: u8, off: bool, packets: u64, idle: Option<u64>, rule: &str| {
            let row = json!({
                "number": number, "set": set, "is_off": off, "packets": packets, "bytes": packets * 10, "idle_nanoseconds": idle, "rule": rule
            });
            serde_json::from_value(row).unwrap()
        };
        vec![
            row(100, 0, false, 5, Some(1_500_000_000), "count ip from any to any"),
            row(200, 3, true, 0, None, "set 3 deny ip from any to any"),
            row(65_535, 0, false, 1_234, Some(u64::MAX), "allow ip from any to any"),
        ]
    }

    fn shown(time: bool, seconds: bool, sets: bool, with_counts: bool) -> String {
        let now = UNIX_EPOCH + Duration::from_millis(1_000_000_000_500);
        text(&rows(), &Show { time, seconds, sets, numbers: Vec::new() }, with_counts, now)
    }

    #[test]
    fn rules_are_shown_as_ipfw_shows_them() {
        let expected = "00100    5    50 count ip from any to any\n\
                        # DISABLED 00200    0     0 set 3 deny ip from any to any\n\
                        65535 1234 12340 allow ip from any to any";
        assert_eq!(shown(false, false, false, true), expected);
        assert!(shown(false, false, false, false).starts_with("00100 count ip from any to any\n"));
        let lines = shown(true, false, true, false);
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines[0], "00100 2001-09-09T01:46:39Z set 0 count ip from any to any");
        assert_eq!(lines[1], "# DISABLED 00200                      set 3 deny ip from any to any");
        let lines = shown(false, true, false, true);
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines[0], "00100    5    50  999999999 count ip from any to any");
        assert!(lines[1].contains("     0          0 set 3") && lines[2].contains("12340          0 allow"), "{lines:?}");
    }

    #[test]
    fn what_ipfw_says_of_a_command_is_said() {
        let said = |command: &str, numbers: &[&str]| said(command, &numbers.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(said("flush", &[]), ["Flushed all rules."]);
        assert_eq!(
            (said("zero", &[]), said("resetlog", &[])),
            (vec!["Accounting cleared.".into()], vec!["Logging counts reset.".into()])
        );
        assert_eq!(said("zero", &["100", "200-300"]), ["Entry 100 cleared.", "Entry 200-300 cleared."]);
        assert_eq!(said("resetlog", &["100"]), ["Entry 100 logging count reset."]);
        assert!(said("delete", &["100"]).is_empty() && said("add", &["count"]).is_empty());
    }

    #[test]
    fn numbers_and_ranges_are_read() {
        assert_eq!((numbers("100").unwrap(), numbers("200-300").unwrap()), ((100, 100), (200, 300)));
        for bad in ["", "0", "300-200", "65536", "-5", "a"] {
            assert!(numbers(bad).is_err(), "{bad}");
        }
    }
}
