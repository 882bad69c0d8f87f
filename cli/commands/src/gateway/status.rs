//! What packets meet at a gateway, and have left behind there.

use super::asked::Asked;
use crate::stat::text::plural;
use anyhow::Result;
use corelane::admin::gateway::{self, InterfaceRow, Losses, Totals, Translated};
use std::fmt::Write;

/// Prints what the rules make of a packet.
pub fn trace(asked: &Asked, packet: &str) -> Result<()> {
    let lines = asked.rows(gateway::trace(&asked.page, packet))?;
    asked.print(&lines, || lines.join("\n"))
}

/// Prints what was forwarded at each interface.
pub fn interfaces(asked: &Asked) -> Result<()> {
    let rows = asked.rows(gateway::interfaces(&asked.page))?;
    asked.print(&rows, || table(&rows))
}

/// The columns behind the name. What is not known is a dash.
const COLUMNS: [&str; 10] =
    ["packets-in", "bytes-in", "packets-out", "bytes-out", "dropped", "errors", "refused", "unsent", "lost", "neighbours"];

/// A line for each interface, its columns as wide as they have to be.
fn table(rows: &[InterfaceRow]) -> String {
    let cells = |row: &InterfaceRow| {
        let Losses { drops, errors, refused, unsent, .. } = row.losses;
        let lost = row.redirect_lost.map_or_else(|| "-".to_owned(), |lost| lost.to_string());
        let before = [row.packets_in, row.bytes_in, row.packets_out, row.bytes_out, drops, errors, refused, unsent];
        let before = before.iter().map(u64::to_string);
        before.chain([lost, row.neighbours.to_string()]).collect::<Vec<_>>()
    };
    let cells: Vec<_> = rows.iter().map(cells).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0).max(COLUMNS[column].len());
    let widths: Vec<_> = (0..COLUMNS.len()).map(width).collect();
    let line = |name: &str, cells: &mut dyn Iterator<Item = &str>| {
        let rest = cells.zip(&widths).fold(String::new(), |line, (cell, width)| line + &format!("  {cell:>width$}"));
        format!("{name:16}{rest}")
    };
    let each = rows.iter().zip(&cells).map(|(row, cells)| line(&row.name, &mut cells.iter().map(String::as_str)));
    [line("interface", &mut COLUMNS.into_iter())].into_iter().chain(each).collect::<Vec<_>>().join("\n")
}

/// Prints how much there is of everything.
pub fn totals(asked: &Asked) -> Result<()> {
    let totals = asked.said(gateway::totals(&asked.page))?;
    asked.print(&totals, || text(&totals))
}

fn text(totals: &Totals) -> String {
    let Totals { lanes, interfaces, rules, execution, report, tables, keys, routes, states, states_refused, .. } = totals;
    let mut out = format!(
        "{}, {}, {}\n{}, carried out by {execution}; {} with {}\n",
        plural(*lanes, "lane"),
        plural(*interfaces, "interface"),
        plural(*routes, "route"),
        plural(*rules, "rule"),
        plural(*tables, "table"),
        plural(*keys, "key"),
    );
    if let Some(report) = report {
        let _ = writeln!(out, "tree: {report}");
    }
    if let Some(fast) = &totals.fast_path {
        let lost = fast.lost.map_or_else(String::new, |lost| format!("; {lost} packets lost behind it"));
        let state = fast.why_not.as_deref().unwrap_or("on");
        let _ = writeln!(out, "fast path: {state}; {} packets forwarded, {} dropped by rules{lost}", fast.forwarded, fast.denied);
        if let Some(unread) = &fast.unread {
            let _ = writeln!(out, "{unread}");
        }
        if fast.is_on && !fast.refusing.is_empty() {
            let _ = writeln!(
                out,
                "lanes forward what leaves by {}, which sends nothing that is redirected",
                fast.refusing.join(", ")
            );
        }
    }
    let Losses { refused, errors, not_ours, drops, unsent, .. } = totals.losses;
    let _ = writeln!(
        out,
        "{drops} packets dropped, {errors} with errors, {refused} refused by rules, {unsent} unsent; {not_ours} frames were for others"
    );
    let _ = writeln!(out, "{states} states of flows, {states_refused} refused; {} lines of log not kept", totals.lines_refused);
    if let Some(translated) = &totals.translated {
        let Translated { packets, sessions, ports, begun, .. } = translated;
        let refused =
            translated.refused_unfit + translated.refused_sessions + translated.refused_source + translated.refused_ports;
        let _ = writeln!(
            out,
            "translated: {packets} packets; {sessions} sessions of {begun} that began, {ports} ports given out; {refused} packets refused"
        );
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rows() -> Vec<InterfaceRow> {
        let row = |name: &str, lost: Option<u64>| {
            serde_json::from_value(json!({
                "name": name, "packets_in": 1_234_567_890_123_u64, "bytes_in": 2, "packets_out": 3, "bytes_out": 4, "neighbours": 5, "asked": 6,
                "refused": 7, "errors": 8, "not_ours": 9, "drops": 10, "unsent": 11, "redirect_lost": lost
            }))
        };
        vec![row("eth1", Some(12)).unwrap(), row("users10", None).unwrap()]
    }

    #[test]
    fn each_interface_has_a_line_with_columns_as_wide_as_they_have_to_be() {
        let text = "\
            interface            packets-in  bytes-in  packets-out  bytes-out  dropped  errors  refused  unsent  lost  neighbours\n\
            eth1              1234567890123         2            3          4       10       8        7      11    12           5\n\
            users10           1234567890123         2            3          4       10       8        7      11     -           5";
        assert_eq!(table(&rows()), text);
        assert_eq!(table(&[]).lines().count(), 1);
    }

    /// A process of another version says less.
    #[test]
    fn what_a_process_does_not_say_is_none() {
        let row =
            json!({ "name": "a", "packets_in": 1, "bytes_in": 2, "packets_out": 3, "bytes_out": 4, "neighbours": 5, "asked": 6 });
        let row: InterfaceRow = serde_json::from_value(row).unwrap();
        assert_eq!((row.losses, row.redirect_lost), (Losses::default(), None));
    }

    #[test]
    fn what_went_no_further_is_told_in_a_line() {
        let mut totals = Totals::default();
        totals.losses = rows()[0].losses;
        let line = "10 packets dropped, 8 with errors, 7 refused by rules, 11 unsent; 9 frames were for others";
        assert!(text(&totals).lines().any(|told| told == line), "{}", text(&totals));
    }
}
