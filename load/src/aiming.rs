//! How the ends of an aimed load are found.

use crate::aim::{Aim, Aimed, AimedLane};
use crate::error::Error;
use crate::plan::Plan;
use corelane::admin::machine::{ports_to_choose, wall_clock};
use corelane::admin::rss::{Outgoing, Protocol, Shares, Spread, Way};
use corelane::lanes::Transport;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

impl Aimed {
    /// # Errors
    /// [`Error::Setting`]: the target has no such lanes, too few ports lead to one, or nobody says from which address.
    pub(crate) fn new(aim: &Aim, plan: &Plan) -> Result<Self, Error> {
        let mut lanes = lanes(aim, plan)?;
        let shares = shares(aim, lanes.len()).map_err(wrong)?;
        let mut places = Vec::new();
        for lane in shares.take(plan.connections as usize) {
            places.push((lane as u8, lanes[lane].places));
            lanes[lane].places += 1;
        }
        match lanes.iter().position(|lane| lane.ends.len() < lane.places as usize) {
            Some(lane) if lanes[lane].buckets == 0 => Err(wrong(format!("lane {lane} of the target has no buckets"))),
            Some(lane) => {
                let (ends, wanted) = (lanes[lane].ends.len(), lanes[lane].places);
                let why =
                    format!("{ends} ports lead to lane {lane}, for {wanted} connections: name more addresses with --source");
                Err(wrong(why))
            }
            None => Ok(Self { places, lanes }),
        }
    }
}

fn wrong(why: impl ToString) -> Error {
    Error::Setting { name: "spread", why: why.to_string() }
}

/// Lanes in turn; evenly means among those that have buckets.
fn shares(aim: &Aim, lanes: usize) -> Result<Shares, corelane::admin::rss::Error> {
    match aim.spread {
        Spread::Even => {
            let counts = aim.table.counts();
            let weights: Vec<u32> = counts[..lanes].iter().map(|count| u32::from(*count > 0)).collect();
            Shares::new(&weights)
        }
        _ => aim.spread.lanes(lanes),
    }
}

/// The lanes that the table names, each with the ends that lead there: from all addresses in turn.
fn lanes(Aim { table, hasher, .. }: &Aim, plan: &Plan) -> Result<Vec<AimedLane>, Error> {
    let counts = table.counts();
    let last = table.owners().last().unwrap_or(0);
    let mut lanes: Vec<AimedLane> =
        counts[..=last].iter().map(|buckets| AimedLane { buckets: *buckets, ..AimedLane::default() }).collect();
    let protocol = if plan.transport == Transport::Tcp { Protocol::TCP } else { Protocol::UDP };
    let Some(peer) = plan.target.inet() else { return Err(wrong("only IP has flows: leave out --spread")) };
    for ports in ports_to_choose().map_err(wrong)? {
        for local in sources(plan)? {
            let flow = Outgoing { local, peer, protocol, way: Way::There };
            for (port, flow) in flow.ports(hasher, ports.clone(), |_| true).map_err(wrong)? {
                lanes[table.lane_of(flow)].ends.push(SocketAddr::new(local, port));
            }
        }
    }
    // Addresses take turns.
    lanes.iter_mut().for_each(|lane| lane.ends.sort_by_key(SocketAddr::port));
    // Ports that were used a moment ago may not be free again: another run begins with others.
    lanes.iter_mut().filter(|lane| !lane.ends.is_empty()).for_each(|lane| {
        let first = wall_clock() / 1_000 % lane.ends.len() as u64;
        lane.ends.rotate_left(first as usize);
    });
    Ok(lanes)
}

/// The addresses to connect from: those that were named, or loopback's own.
fn sources(plan: &Plan) -> Result<Vec<IpAddr>, Error> {
    match plan.target.ip() {
        _ if !plan.sources.is_empty() => Ok(plan.sources.clone()),
        Some(IpAddr::V4(address)) if address.is_loopback() => Ok(vec![Ipv4Addr::LOCALHOST.into()]),
        Some(IpAddr::V6(address)) if address.is_loopback() => Ok(vec![Ipv6Addr::LOCALHOST.into()]),
        _ => Err(wrong("the ports depend on the address that is connected from: name it with --source")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::rss::{Buckets, FlowHasher, HashTypes, Key, Table, Tuple};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn hasher() -> Arc<FlowHasher> {
        Arc::new(FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL))
    }

    fn plan(spread: Spread, lanes: usize) -> Plan {
        let table = Table::even(Buckets::DEFAULT, lanes).unwrap();
        let plan = Plan::new("echo", "tcp://127.0.0.1:7", "127.0.0.1:7".parse::<corelane::Address>().unwrap());
        Plan { connections: 400, aim: Some(Aim { spread, table, hasher: hasher() }), ..plan }
    }

    fn connections(plan: &Plan) -> Vec<u64> {
        plan.aimed.as_ref().unwrap().target_lanes().iter().map(|lane| lane.connections).collect()
    }

    #[test]
    fn connections_lead_to_their_lanes_at_every_attempt() {
        let hasher = hasher();
        for target in ["127.0.0.1:7", "[::1]:7"] {
            let wanted = plan(Spread::Weights(vec![3, 0, 1]), 3);
            let plan = Plan { target: target.parse().unwrap(), ..wanted }.settled().unwrap();
            assert_eq!(connections(&plan), [300, 0, 100]);
            let (mut counts, mut ends) = ([0; 3], BTreeSet::new());
            for number in 0..400 {
                let lanes = [0, 1, 2, 20].map(|attempt| {
                    let end = plan.source_of(number, attempt).unwrap();
                    assert!(ends.insert(end), "{end} is there twice");
                    let tuple = Tuple::new(end, plan.target.inet().unwrap(), Protocol::TCP).unwrap();
                    plan.aim.as_ref().unwrap().table.lane_of(hasher.tuple(&tuple).unwrap().flow)
                });
                assert!(lanes.iter().all(|lane| *lane == lanes[0]));
                counts[lanes[0]] += 1;
            }
            assert_eq!(counts, [300, 0, 100]);
        }
    }

    #[test]
    fn several_addresses_take_turns() {
        let sources = ["127.0.0.2", "127.0.0.3"].map(|source| source.parse().unwrap());
        let plan = Plan { sources: sources.to_vec(), ..plan(Spread::One(1), 2) }.settled().unwrap();
        let first = (0..400).filter(|number| plan.source_of(*number, 0).unwrap().ip() == sources[0]).count();
        assert!((150..=250).contains(&first), "{first} of 400");
    }

    #[test]
    fn evenly_means_among_lanes_with_buckets() {
        let mut even = plan(Spread::Even, 4);
        let without = even.aim.as_ref().unwrap().table.without(1).unwrap();
        even.aim = Some(Aim { spread: Spread::Even, table: without, hasher: hasher() });
        let lanes = connections(&even.settled().unwrap());
        assert_eq!((lanes[1], lanes.iter().sum::<u64>()), (0, 400));
        assert!([0, 2, 3].iter().all(|lane| (133..=134).contains(&lanes[*lane])), "{lanes:?}");
        assert_eq!(connections(&plan(Spread::One(2), 4).settled().unwrap()), [0, 0, 400, 0]);
    }

    #[test]
    fn what_cannot_be_is_named() {
        let far = || Plan { target: "192.0.2.1:7".parse().unwrap(), ..plan(Spread::Even, 2) };
        for (plan, words) in [
            (plan(Spread::One(4), 4), "there is no lane 4"),
            (plan(Spread::Weights(vec![1, 1]), 4), "2 weights for 4 lanes"),
            (Plan { connections: 9_000, ..plan(Spread::One(1), 128) }, "ports lead to lane 1, for 9000 connections"),
            (far(), "name it with --source"),
        ] {
            let error = plan.settled().unwrap_err().to_string();
            assert!(error.starts_with("spread: ") && error.contains(words), "{error}");
        }
    }
}
