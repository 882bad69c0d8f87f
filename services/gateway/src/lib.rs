//! The gateway, as `serve` knows it: a file of TOML becomes a [`Gateway`] of the facade.
//!
//! ```text
//! CONFIG.toml --toml--> tables with places --ports, routes, rules, nat--> Gateway --check--> Lanes::gateway
//!                          rules file --rules: a command of ipfw a line--^
//! ```
//!
//! Everything that is wrong is said with file, line and column: what cannot be read here, and what the gateway's own check finds, whose parts are looked up in `Spots`.
#![forbid(unsafe_code)]

mod keys;
mod nat;
mod ports;
mod routes;
mod rules;
mod spots;

use corelane::lanes::gateway::Gateway;
use corelane::service::entry::{AtFile, Entry, ReadFile};
use corelane::{Lanes, Result};
use keys::{Keys, Wrong};
use spots::Spots;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// The gateway.
pub static ENTRY: Entry = Entry::of_file(
    "gateway",
    "routes between the networks of its ports, as its rules say, with VLANs and translation of addresses",
    AtFile::new("CONFIG.toml", |lanes, file| {
        let (gateway, rules) = read(file)?;
        let lanes = rules.iter().fold(lanes, Lanes::of_file);
        Ok(lanes.gateway(gateway))
    }),
);

#[cfg(test)]
mod tests;

/// Reads a gateway, and the file of its rules if it names one.
///
/// # Errors
/// [`Error::Text`](corelane::Error::Text): what is wrong, with its place.
pub fn read(file: &ReadFile) -> Result<(Gateway, Option<ReadFile>)> {
    let table = DeTable::parse(file.text()).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        file.wrong(start, error.message().replace('\n', ", "))
    })?;
    let wrong = |wrong: Wrong| file.wrong(wrong.at, wrong.why);
    let mut keys = Keys::of_file(&table);
    keys.only(&["port", "polling", "route", "routes", "rules", "nat", "graphs"]).map_err(wrong)?;
    let mut spots = Spots::default();
    let ports = ports::read(&mut keys, &mut spots).map_err(wrong)?;
    let mut gateway = Gateway::of(ports);
    gateway.polling = ports::read_polling(&mut keys, &mut spots).map_err(wrong)?;
    gateway.routes = routes::read(&mut keys, &gateway, &mut spots).map_err(wrong)?;
    gateway.follow = routes::read_follow(&mut keys, &mut spots).map_err(wrong)?;
    gateway.nat = nat::read(&mut keys, &gateway, &mut spots).map_err(wrong)?;
    gateway.graphs = graphs(&mut keys, file).map_err(wrong)?;
    let rules = rules::read(&mut keys, file, &mut gateway)?;
    gateway.check().map_err(|why| file.wrong(spots.of(why.at), why.why))?;
    Ok((gateway, rules))
}

/// Reads `[graphs]`: the file for what is counted over time, from where this one lies.
fn graphs(keys: &mut Keys<'_>, file: &ReadFile) -> std::result::Result<Option<PathBuf>, Wrong> {
    let Some(value) = keys.take("graphs") else { return Ok(None) };
    let mut own = Keys::of(value, "graphs")?;
    let example = "\"/var/lib/corelane/graphs\"";
    let name = keys::text(own.must("file", example)?, example)?;
    own.end()?;
    Ok(Some(file.path().parent().unwrap_or(Path::new("")).join(name)))
}
