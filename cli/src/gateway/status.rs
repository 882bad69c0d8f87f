//! What packets meet at a gateway, and have left behind there.

use super::asked::Asked;
use crate::stat::text::plural;
use anyhow::Result;
use corelane::admin::gateway::{self, InterfaceRow, Totals, Translated};
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

fn table(rows: &[InterfaceRow]) -> String {
    let mut out = format!(
        "{:16} {:>14} {:>18} {:>14} {:>18} {:>10}",
        "interface", "packets-in", "bytes-in", "packets-out", "bytes-out", "neighbours"
    );
    for row in rows {
        let InterfaceRow { name, packets_in, bytes_in, packets_out, bytes_out, neighbours, .. } = row;
        let _ = write!(out, "\n{name:16} {packets_in:14} {bytes_in:18} {packets_out:14} {bytes_out:18} {neighbours:10}");
    }
    out
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
