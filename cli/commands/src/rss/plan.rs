//! `corelane rss plan`: flows that lead into given buckets.

use super::end::{End, end};
use super::placing::Placing;
use crate::print::print;
use anyhow::{Result, anyhow, bail};
use corelane::admin::control::bucket_list;
use corelane::admin::rss::{Bucket, Buckets, Error, FlowHasher, FlowPlan, HashTypes, Protocol, Tuple};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

/// Addresses that are tried at the most.
const CANDIDATES_MAX: usize = 1 << 16;

/// Finds flows that lead into given buckets, one for each
///
/// SOURCE is a prefix such as 10.11.2.0/24, or several prefixes and addresses with commas: then addresses are found among them, for the
/// hash over addresses. Or it is one address: then source ports are found, for the hash over addresses and ports, and DESTINATION has
/// a port.
#[derive(clap::Args)]
pub struct Arguments {
    /// Who sends: prefixes, or one address
    source: String,
    /// Who receives: 10.11.2.1, 10.11.2.1:80 or [2001:db8::1]:80
    #[arg(value_name = "DESTINATION[:PORT]")]
    destination: String,
    /// The buckets to lead into, such as 0-3,7, or all
    #[arg(long, value_name = "LIST")]
    buckets: String,
    /// How many buckets there are: a power of two up to 1024
    #[arg(long, value_name = "N", default_value_t = 128)]
    of: usize,
    /// The source ports to choose from
    #[arg(long, value_name = "FIRST-LAST", default_value = "32768-60999")]
    ports: String,
    #[command(flatten)]
    placing: Placing,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What is to be chosen.
enum Source {
    /// An address out of prefixes of so many bits.
    In(Vec<(IpAddr, u32)>),
    /// A port of this address.
    At(IpAddr),
}

/// Prints the flows that were found.
pub fn run(arguments: &Arguments) -> Result<()> {
    let (source, destination) = (source(&arguments.source)?, end(&arguments.destination)?);
    let table = arguments.placing.table(arguments.of, "--of")?;
    let wanted = wanted(&arguments.buckets, table.buckets())?;
    let hasher = FlowHasher::new(&arguments.placing.key()?, HashTypes::ALL);
    let candidates = candidates(&source, destination, &arguments.ports)?;
    let place = |tuple: &Tuple| Some(table.buckets().of(hasher.tuple(tuple)?.flow).index());
    let plan = FlowPlan::cover(wanted.iter().map(|bucket| bucket.index()), candidates, place).map_err(|error| match error {
        Error::Uncovered { place, tried } => {
            anyhow!("none of {tried} flows leads to bucket {place}: give a wider SOURCE, or more --ports")
        }
        error => anyhow!("--buckets: {error}"),
    })?;
    let has_port = matches!(source, Source::At(_));
    let source_of = |tuple: &Tuple| if has_port { tuple.source().to_string() } else { tuple.source().ip().to_string() };
    let flow = |(bucket, (_, tuple)): (&Bucket, (usize, &Tuple))| (bucket.index(), table.lane(*bucket), source_of(tuple));
    let flows = wanted.iter().zip(plan.iter()).map(flow);
    if !arguments.json {
        let lines = flows.map(|(bucket, lane, source)| format!("\n{bucket:>6}  {lane:>4}  {source}"));
        return print(lines.fold("bucket  lane  source".to_string(), |text, line| text + &line));
    }
    let flows: Vec<Value> =
        flows.map(|(bucket, lane, source)| json!({ "bucket": bucket, "lane": lane, "source": source })).collect();
    let (buckets, lanes) = (table.buckets().count(), table.owners().count());
    print(json!({ "buckets": buckets, "lanes": lanes, "destination": arguments.destination, "flows": flows }))
}

fn wanted(list: &str, buckets: Buckets) -> Result<Vec<Bucket>> {
    match list {
        "all" => Ok(buckets.all().collect()),
        list => bucket_list(list, buckets).map_err(|why| anyhow!("--buckets: {why}, or all")),
    }
}

fn source(text: &str) -> Result<Source> {
    if !text.contains(['/', ',']) {
        let at = end(text)?;
        return if at.port.is_none() {
            Ok(Source::At(at.address))
        } else {
            bail!("{text}: the source port is to be found: leave it off")
        };
    }
    let wrong = |part: &str| anyhow!("{part:?} is neither a prefix such as 10.11.2.0/24 nor an address");
    text.split(',').map(|part| prefix(part).ok_or_else(|| wrong(part))).collect::<Result<_>>().map(Source::In)
}

/// An address and how many of its bits are common to the prefix: all, where none are given.
fn prefix(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
    (bits <= most).then_some((address, bits))
}

/// Reads FIRST-LAST, or one port.
fn ports(text: &str) -> Result<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match first.parse().ok().zip(last.parse().ok()) {
        Some((first, last)) if 0 < first && first <= last => Ok(first..=last),
        _ => bail!("--ports: {text:?} is not a range of ports such as 32768-60999"),
    }
}

fn candidates(source: &Source, destination: End, range: &str) -> Result<Box<dyn Iterator<Item = Tuple>>> {
    match (source, destination.port) {
        (Source::In(prefixes), None) => {
            let to = SocketAddr::new(destination.address, 0);
            // A protocol without ports is hashed over addresses.
            let flow = move |from| Tuple::new(SocketAddr::new(from, 0), to, Protocol(0));
            prefixes.iter().try_for_each(|(address, _)| flow(*address).map(drop))?;
            let hosts = prefixes.clone().into_iter().flat_map(|(address, bits)| hosts(address, bits));
            let others = hosts.filter(move |host| *host != to.ip()).take(CANDIDATES_MAX);
            Ok(Box::new(others.filter_map(move |host| flow(host).ok())))
        }
        (Source::At(address), Some(port)) => {
            let (from, to) = (*address, SocketAddr::new(destination.address, port));
            Tuple::new(SocketAddr::new(from, 0), to, Protocol::TCP)?;
            let flow = move |port| Tuple::new(SocketAddr::new(from, port), to, Protocol::TCP).ok();
            Ok(Box::new(ports(range)?.filter_map(flow)))
        }
        (Source::In(..), Some(_)) => {
            bail!("addresses are found for the hash over addresses: leave the port of the destination off")
        }
        (Source::At(_), None) => bail!("ports are found for the hash over ports as well: give the destination a port"),
    }
}

/// The addresses of a prefix that a host can have: not the first and last of IPv4, which name the network and all of its hosts, nor
/// the first of IPv6, which names its routers (RFC 4291, 2.6.1); prefixes of one or two addresses have no such (RFC 3021, RFC 6164).
fn hosts(address: IpAddr, bits: u32) -> Box<dyn Iterator<Item = IpAddr>> {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shr(bits).unwrap_or(0);
            let (first, last) = (u32::from(address) & !mask, u32::from(address) | mask);
            let range = if mask > 1 { first + 1..=last - 1 } else { first..=last };
            Box::new(range.map(|host| Ipv4Addr::from(host).into()))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shr(bits).unwrap_or(0);
            let (first, last) = (u128::from(address) & !mask, u128::from(address) | mask);
            let range = if mask > 1 { first + 1..=last } else { first..=last };
            Box::new(range.map(|host| Ipv6Addr::from(host).into()))
        }
    }
}
