//! Translation of addresses.

use crate::keys::{Keys, Value, Wrong, list, number, parsed, text_or_number, word, wrong};
use crate::routes::interface_of;
use crate::spots::Spots;
use corelane::lanes::Transport;
use corelane::lanes::gateway::nat::{Forward, Mapping, SESSIONS_MAX, Settings, TIMEOUT_MAX};
use corelane::lanes::gateway::{Gateway, NatSettings};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

/// `[nat]`, if it is there.
pub fn read(keys: &mut Keys<'_>, gateway: &Gateway, spots: &mut Spots) -> Result<Option<NatSettings>, Wrong> {
    let Some(value) = keys.take("nat") else { return Ok(None) };
    let mut own = Keys::of(value, "nat")?;
    spots.nat = own.at();
    let mut interfaces = Vec::new();
    for name in list(own.must("interfaces", "[\"eth2\"]")?, "the outside interfaces, such as [\"eth2\"]")? {
        interfaces.push(interface_of(gateway, name)?);
        spots.outside.push(name.span().start);
    }
    let externals = match own.take("addresses") {
        Some(addresses) => {
            let example = "addresses of IPv4, such as [\"192.0.2.2\"]";
            let all = list(addresses, example)?.map(|one| {
                spots.externals.push(one.span().start);
                parsed(one, example, |text| text.parse().ok())
            });
            all.collect::<Result<Vec<Ipv4Addr>, _>>()?
        }
        None => firsts(gateway, &interfaces),
    };
    let Some(first) = externals.first() else {
        let why = "no outside interface has an address of IPv4: write addresses = [\"192.0.2.2\"]".to_owned();
        return Err(Wrong { at: spots.nat, why });
    };
    let mut settings = Settings::new(*first);
    settings.externals.clone_from(&externals);
    if let Some(value) = own.take("ports") {
        settings.ports = parsed(value, "ports such as \"1024-65535\"", ports_of)?;
    }
    bounds(&mut own, &mut settings)?;
    for forward in own.tables("forward", "a forward")? {
        spots.forwards.push(forward.at());
        settings.forwards.push(forwarded(forward, *first)?);
    }
    own.end()?;
    Ok(Some(NatSettings { interfaces, settings }))
}

/// Of each of these interfaces the first address of IPv4.
fn firsts(gateway: &Gateway, interfaces: &[usize]) -> Vec<Ipv4Addr> {
    let first = |interface: &usize| {
        let networks = &gateway.interfaces().nth(*interface)?.networks;
        networks.iter().find_map(|network| if let IpAddr::V4(v4) = network.address { Some(v4) } else { None })
    };
    interfaces.iter().filter_map(first).collect()
}

fn bounds(own: &mut Keys<'_>, settings: &mut Settings) -> Result<(), Wrong> {
    if let Some(value) = own.take("mapping") {
        settings.mapping = word(value, &[("independent", Mapping::Independent), ("dependent", Mapping::Dependent)])?;
    }
    if let Some(value) = own.take("sessions") {
        settings.sessions = number(value, 1..=SESSIONS_MAX as u64, "sessions of a lane")? as usize;
    }
    if let Some(value) = own.take("sessions_each") {
        settings.sessions_each = number(value, 1..=SESSIONS_MAX as u64, "sessions of one inside address")? as usize;
    }
    let Some(value) = own.take("timeouts") else { return Ok(()) };
    let mut keys = Keys::of(value, "timeouts")?;
    let times = &mut settings.timeouts;
    let each: [(&str, &mut u32); 4] = [
        ("udp", &mut times.udp),
        ("established", &mut times.established),
        ("transitory", &mut times.transitory),
        ("echo", &mut times.echo),
    ];
    for (name, time) in each {
        if let Some(value) = keys.take(name) {
            *time = number(value, 1..=TIMEOUT_MAX.into(), "seconds")? as u32;
        }
    }
    keys.end()
}

/// `[[nat.forward]]`.
fn forwarded(mut own: Keys<'_>, first: Ipv4Addr) -> Result<Forward, Wrong> {
    let protocols = [("tcp", Transport::Tcp), ("udp", Transport::Udp)];
    let transport = word(own.must("protocol", "\"tcp\"")?, &protocols)?;
    let external = match own.take("external") {
        Some(value) => parsed(value, "one of the external addresses, such as \"192.0.2.2\"", |text| text.parse().ok())?,
        None => first,
    };
    let port = own.must("port", "80")?;
    let ports = ports_in(port)?;
    let to = own.must("to", "\"10.0.10.5:80\"")?;
    let (inside, inside_port) = parsed(to, "an inside host with its port, such as \"10.0.10.5:80\"", |text| {
        let (host, port) = text.split_once(':').unwrap_or((text, ""));
        let port = if port.is_empty() { *ports.start() } else { port.parse().ok()? };
        Some((host.parse().ok()?, port))
    })?;
    own.end()?;
    Ok(Forward { transport, external, ports, inside, inside_port })
}

/// A port, or several: `80`, `"8000-8010"`.
fn ports_in(value: &Value<'_>) -> Result<RangeInclusive<u16>, Wrong> {
    let written = text_or_number(value, "80, or \"8000-8010\"")?;
    ports_of(&written).ok_or_else(|| wrong(value, format!("{written:?} are no ports: write 80, or \"8000-8010\"")))
}

fn ports_of(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (1..=last).contains(&first).then_some(first..=last)
}
