//! Sets of rules, and tables.

use super::asked::Asked;
use anyhow::{Result, bail};
use corelane::admin::gateway::{self, KeyRow, TableRow};
use std::collections::BTreeMap;

/// Prints which sets are switched off and on.
pub fn show_sets(asked: &Asked) -> Result<()> {
    let sets = asked.said(gateway::sets(&asked.page))?;
    let part = |word: &str, sets: &[u8]| match sets {
        [] => String::new(),
        sets => format!("{word} {} ", sets.iter().map(u8::to_string).collect::<Vec<_>>().join(" ")),
    };
    asked.print(&sets, || format!("{}{}", part("disable", &sets.disabled), part("enable", &sets.enabled)).trim_end().to_owned())
}

/// Prints what tables there are, or what one is.
pub fn show(asked: &Asked, name: Option<&str>) -> Result<()> {
    let mut tables = asked.rows(gateway::tables(&asked.page))?;
    tables.retain(|table| name.is_none_or(|name| name == table.name));
    match name {
        Some(name) if tables.is_empty() => bail!("no table has the name {name}; `corelane gateway table all info` shows all"),
        _ => {}
    }
    let line = |table: &TableRow| format!("{}: type {}, {} keys", head(&table.name), table.kind, table.keys);
    asked.print(&tables, || tables.iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// Prints the keys of one.
pub fn list(asked: &Asked, name: &str) -> Result<()> {
    let keys = asked.rows(gateway::keys(&asked.page, name))?;
    asked.print(&keys, || lines(&keys))
}

/// Prints all with their keys.
pub fn list_all(asked: &Asked) -> Result<()> {
    let mut all = BTreeMap::new();
    for table in asked.rows(gateway::tables(&asked.page))? {
        let keys = asked.rows(gateway::keys(&asked.page, &table.name))?;
        all.insert(table.name, keys);
    }
    asked.print(&all, || {
        let text = |(name, keys): (&String, &Vec<KeyRow>)| format!("{}\n{}", head(name), lines(keys)).trim_end().to_owned();
        all.iter().map(text).collect::<Vec<_>>().join("\n")
    })
}

fn head(name: &str) -> String {
    format!("--- table({name})")
}

fn lines(keys: &[KeyRow]) -> String {
    keys.iter().map(|row| format!("{} {}", row.key, row.value)).collect::<Vec<_>>().join("\n")
}
