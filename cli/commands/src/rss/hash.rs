//! `corelane rss hash`: the flow id, bucket and lane of a flow, in both directions and by every hash type.

use super::end::{End, end};
use super::placing::Placing;
use crate::print::print;
use anyhow::{Result, bail};
use corelane::admin::rss::{FlowHasher, HashType, HashTypes, Hashed, Key, Protocol, Table, Tuple};
use serde_json::{Value, json};
use std::fmt::Write;
use std::net::SocketAddr;

/// Computes the flow id, bucket and lane of a flow
///
/// Both directions, and each hash type that fits: over the addresses, and with ports over these as well.
#[derive(clap::Args)]
pub struct Arguments {
    /// Who sends: 10.0.0.1, 10.0.0.1:4000, 2001:db8::1 or [2001:db8::1]:4000
    #[arg(value_name = "SOURCE[:PORT]")]
    source: String,
    /// Who receives
    #[arg(value_name = "DESTINATION[:PORT]")]
    destination: String,
    #[command(flatten)]
    placing: Placing,
    /// How many buckets: a power of two up to 1024
    #[arg(long, value_name = "N", default_value_t = 128)]
    buckets: usize,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Prints what was computed.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (source, destination) = (end(&arguments.source)?, end(&arguments.destination)?);
    let table = arguments.placing.table(arguments.buckets, "--buckets")?;
    let key = arguments.placing.key()?;
    let there = tuple(source, destination)?;
    let has_ports = source.port.is_some();
    let directions = [there, there.reversed()].map(|tuple| (tuple, hashes(&key, &tuple, has_ports)));
    if arguments.json {
        let directions: Vec<Value> = directions.iter().map(|(tuple, hashes)| object(tuple, hashes, has_ports, &table)).collect();
        return print(json!({ "buckets": table.buckets().count(), "lanes": table.owners().count(), "directions": directions }));
    }
    let mut words = String::new();
    for (tuple, hashes) in &directions {
        write_direction(&mut words, tuple, hashes, has_ports, &table)?;
    }
    print(words.trim_end())
}

fn tuple(source: End, destination: End) -> Result<Tuple> {
    if source.port.is_some() != destination.port.is_some() {
        bail!("one end has a port and the other has none: give both, or none");
    }
    let socket = |end: End| SocketAddr::new(end.address, end.port.unwrap_or(0));
    Ok(Tuple::new(socket(source), socket(destination), Protocol::TCP)?)
}

/// The flow by each hash type that fits; without ports, that is the one over addresses.
fn hashes(key: &Key, tuple: &Tuple, has_ports: bool) -> Vec<Hashed> {
    let types = match tuple.source().is_ipv4() {
        true => [HashType::Ipv4, HashType::Tcp4, HashType::Udp4],
        false => [HashType::Ipv6, HashType::Tcp6, HashType::Udp6],
    };
    let fit = types.into_iter().filter(|hash_type| has_ports || !hash_type.takes_ports());
    fit.filter_map(|hash_type| {
        let is_udp = matches!(hash_type, HashType::Udp4 | HashType::Udp6);
        let protocol = if is_udp { Protocol::UDP } else { Protocol::TCP };
        let tuple = Tuple::new(tuple.source(), tuple.destination(), protocol).ok()?;
        FlowHasher::new(key, HashTypes::NONE.with(hash_type)).tuple(&tuple)
    })
    .collect()
}

fn shown(end: SocketAddr, has_port: bool) -> String {
    if has_port { end.to_string() } else { end.ip().to_string() }
}

fn object(tuple: &Tuple, hashes: &[Hashed], has_ports: bool, table: &Table) -> Value {
    let one = |hashed: &Hashed| {
        let (bucket, lane) = (table.buckets().of(hashed.flow).index(), table.lane_of(hashed.flow));
        json!({ "type": hashed.hash_type.name(), "flow_id": hashed.flow.to_string(), "bucket": bucket, "lane": lane })
    };
    let hashes: Vec<Value> = hashes.iter().map(one).collect();
    json!({
        "source": shown(tuple.source(), has_ports), "destination": shown(tuple.destination(), has_ports), "hashes": hashes,
    })
}

fn write_direction(words: &mut String, tuple: &Tuple, hashes: &[Hashed], has_ports: bool, table: &Table) -> std::fmt::Result {
    // Two IPv6 addresses do not fit into one line of 80 characters.
    let arrow = if tuple.source().is_ipv4() { " > " } else { "\n> " };
    writeln!(words, "{}{arrow}{}", shown(tuple.source(), has_ports), shown(tuple.destination(), has_ports))?;
    writeln!(words, "  type     flow id  bucket  lane")?;
    for hashed in hashes {
        let (bucket, lane) = (table.buckets().of(hashed.flow), table.lane_of(hashed.flow));
        writeln!(words, "  {:<4}  {}  {:>6}  {lane:>4}", hashed.hash_type.name(), hashed.flow, bucket.index())?;
    }
    Ok(())
}
