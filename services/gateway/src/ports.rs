//! Ports and their networks.

use crate::keys::{Keys, Value, Wrong, flag, list, number, parsed, text, text_or_number, word, wrong};
use crate::spots::{InterfaceSpot, PortSpot, Spots};
use corelane::lanes::gateway::{
    Advertised, InterfaceSettings, MssClamp, Network, NoTags, PollingChange, PollingChangeError, Port, ReversePath, Tags,
};
use std::net::IpAddr;

const ADDRESSES: &str = "addresses such as [\"10.0.10.1/24\", \"fd00:10::1/64\"]";

/// All ports.
pub fn read(keys: &mut Keys<'_>, spots: &mut Spots) -> Result<Vec<Port>, Wrong> {
    let mut ports = Vec::new();
    for own in keys.tables("port", "a port")? {
        let (port, spot) = port(own)?;
        ports.push(port);
        spots.ports.push(spot);
    }
    if ports.is_empty() {
        let why = "there is no port: write [[port]], and below it interface = \"eth1\" and its networks".to_owned();
        return Err(Wrong { at: 0, why });
    }
    Ok(ports)
}

fn port(mut keys: Keys<'_>) -> Result<(Port, PortSpot), Wrong> {
    let at = keys.at();
    let (interface, tap) = (keys.take("interface"), keys.take("tap"));
    let mut port = match (interface, tap) {
        (Some(interface), None) => Port::of(text(interface, "\"eth1\"")?),
        (None, Some(tap)) => Port::of_tap(text(tap, "\"tap0\"")?),
        (Some(_), Some(tap)) => return Err(wrong(tap, "a port is an interface or a tap: leave out one of the two")),
        (None, None) => {
            return Err(Wrong { at, why: "a port has no interface: write interface = \"eth1\"".to_owned() });
        }
    };
    if let Some(polls) = keys.take("poll") {
        port.polls = flag(polls)?;
    }
    if let Some(frames) = keys.take("frames") {
        port.frames = Some(number(frames, 256..=65_536, "frames")? as usize);
    }
    let (device, mut spot) =
        (port.device.clone(), PortSpot { at, interfaces: vec![InterfaceSpot { at, ..InterfaceSpot::default() }] });
    let mut is_written = false;
    for own in keys.tables("network", "a network")? {
        let at = own.at();
        let (interface, own) = network(own, &device)?;
        if interface.tags != Tags::None {
            port.interfaces.push(interface);
            spot.interfaces.push(own);
        } else if std::mem::replace(&mut is_written, true) {
            let why = "a second network without a vlan: put its addresses into the first, or write vlan = 10".to_owned();
            return Err(Wrong { at, why });
        } else {
            // reason: both are made with their first.
            (port.interfaces[0], spot.interfaces[0]) = (interface, own);
        }
    }
    keys.end()?;
    Ok((port, spot))
}

/// A network at a VLAN of a port, or without one.
fn network(mut keys: Keys<'_>, device: &str) -> Result<(InterfaceSettings, InterfaceSpot), Wrong> {
    let mut spot = InterfaceSpot { at: keys.at(), ..InterfaceSpot::default() };
    let mut made = InterfaceSettings::default();
    made.tags = keys.take("vlan").map_or(Ok(Tags::None), tags)?;
    made.name = match keys.take("name") {
        Some(name) => name_of(name)?.into(),
        None if made.tags == Tags::None => device.into(),
        None => format!("{device}.{}", made.tags).into(),
    };
    (spot.addresses, made.networks) = networks(keys.must("addresses", "[\"10.0.10.1/24\"]")?, ADDRESSES)?;
    made.forwards = keys.take("forward").map_or(Ok(true), flag)?;
    made.mtu = keys.take("mtu").map(|mtu| number(mtu, 68..=65_535, "bytes")).transpose()?.map(|mtu| mtu as usize);
    let ways = [("strict", ReversePath::Strict), ("loose", ReversePath::Loose), ("off", ReversePath::Off)];
    made.reverse_path = keys.take("reverse_path").map_or(Ok(ReversePath::Strict), |value| word(value, &ways))?;
    made.mss = keys.take("mss").map_or(Ok(MssClamp::Off), mss)?;
    if let Some(proxy) = keys.take("proxy") {
        (spot.proxies, made.proxies) = networks(proxy, "networks such as [\"10.0.20.0/24\"]")?;
    }
    made.relay = keys.take("relay").map_or(Ok(Vec::new()), servers)?;
    made.advertises = keys.take("advertise").map_or(Ok(None), advertised)?;
    let most = 1 << 20;
    made.neighbours_max =
        keys.take("neighbours").map(|value| number(value, 1..=most, "neighbours")).transpose()?.map(|most| most as usize);
    keys.end()?;
    Ok((made, spot))
}

/// Servers of DHCP, of either family.
fn servers(value: &Value<'_>) -> Result<Vec<IpAddr>, Wrong> {
    let example = "servers of DHCP such as [\"10.0.1.5\", \"fd00:1::5\"]";
    list(value, example)?.map(|one| parsed(one, example, |text| text.parse().ok())).collect()
}

fn tags(value: &Value<'_>) -> Result<Tags, Wrong> {
    let text = text_or_number(value, "vlan = 10, or vlan = \"100.20\" for two tags")?;
    text.parse().map_err(|why: NoTags| wrong(value, format!("{text:?}: {why}")))
}

/// A name as rules have it: of letters, digits and a few signs, so that it can stand in them.
fn name_of<'d>(value: &'d Value<'d>) -> Result<&'d str, Wrong> {
    let example = "a name of 1 to 15 letters, digits, \".\", \"-\" or \"_\", such as \"users10\"";
    let name = text(value, example)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let fits =
        (1..=15).contains(&name.len()) && name.chars().all(is_plain) && name.starts_with(|c: char| c.is_ascii_alphabetic());
    if fits { Ok(name) } else { Err(wrong(value, format!("{name:?} is no name of a network: write {example}"))) }
}

fn networks(value: &Value<'_>, example: &str) -> Result<(Vec<usize>, Vec<Network>), Wrong> {
    let one = |value: &Value<'_>| {
        let network = parsed(value, &format!("an address with the bits of its network, as in {example}"), network_of)?;
        Ok((value.span().start, network))
    };
    list(value, example)?.map(one).collect()
}

/// `ADDRESS/BITS`.
pub fn network_of(text: &str) -> Option<Network> {
    let (address, bits) = text.split_once('/')?;
    Some(Network { address: address.parse::<IpAddr>().ok()?, bits: bits.parse().ok()? })
}

fn mss(value: &Value<'_>) -> Result<MssClamp, Wrong> {
    if value.get_ref().is_integer() {
        return Ok(MssClamp::To(number(value, 48..=65_495, "bytes")? as u16));
    }
    word(value, &[("mtu", MssClamp::ToMtu), ("off", MssClamp::Off)])
}

/// `true`, or a table of what is said otherwise.
fn advertised(value: &Value<'_>) -> Result<Option<Advertised>, Wrong> {
    if value.get_ref().is_bool() {
        return Ok(flag(value)?.then(Advertised::default));
    }
    let mut keys = Keys::of(value, "advertise")?;
    let mut made = Advertised::default();
    let seconds = u64::from(u32::MAX);
    if let Some(lifetime) = keys.take("lifetime") {
        made.lifetime = number(lifetime, 0..=9000, "seconds")? as u16;
    }
    if let Some(interval) = keys.take("interval") {
        made.interval = number(interval, 4..=1800, "seconds")? as u16;
    }
    if let Some(valid) = keys.take("valid") {
        made.valid = number(valid, 0..=seconds, "seconds")? as u32;
    }
    if let Some(preferred) = keys.take("preferred") {
        made.preferred = number(preferred, 0..=seconds, "seconds")? as u32;
    }
    keys.end()?;
    Ok(Some(made))
}

/// `[polling]`: the words of `corelane polling`, for the controller that each lane has for all of its ports.
pub fn read_polling(keys: &mut Keys<'_>, spots: &mut Spots) -> Result<Vec<PollingChange>, Wrong> {
    let Some(value) = keys.take("polling") else { return Ok(Vec::new()) };
    let toml::de::DeValue::Table(table) = value.get_ref() else {
        return Err(wrong(value, "polling is a table of knobs: write [polling], and below it user_frac = 50"));
    };
    let mut changes = Vec::new();
    for (key, value) in table {
        let name = key.get_ref();
        let written = text_or_number(value, "a number, such as user_frac = 50, or controller = \"original\"")?;
        let change = format!("{name}={written}").parse();
        changes.push(change.map_err(|why: PollingChangeError| Wrong { at: key.span().start, why: format!("{name}: {why}") })?);
        spots.polling.push(key.span().start);
    }
    Ok(changes)
}
