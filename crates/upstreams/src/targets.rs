//! Upstreams as an operator writes them: `HOST:PORT`, `ADDRESS:PORT`, `[IPv6]:PORT` or `unix:PATH`, or a source of such (`file:PATH`, `srv:NAME`), with `tls://` before one that is spoken to by TLS, each with `*WEIGHT` behind it if it is to have more than others.

use crate::source::Source;
use corelane::Address;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// The most upstreams that a list names.
pub const TARGETS_MAX: usize = 64;

/// The most addresses of one name that are used; of more, the first in their order.
pub const ADDRESSES_MAX: usize = 16;

/// The greatest weight of one upstream.
pub const WEIGHT_MAX: u16 = 256;

/// The longest name of a host (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 253;

/// Stands before a target that is spoken to by TLS.
const TLS: &str = "tls://";

/// Where a target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this address.
    At(Address),
    /// At the addresses of a name, which is resolved again and again.
    Named {
        /// The name.
        host: String,
        /// The port, never 0.
        port: u16,
    },
    /// It is none itself, but names some.
    Source(Source),
}

/// One entry of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    name: String,
    place: Place,
    weight: u16,
    /// Its name in TLS, if it is spoken to so.
    tls: Option<String>,
    group: u32,
    priority: u16,
}

impl Target {
    /// As it was written, without its weight: its name in commands and counters.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The name that its certificate must have, if TLS is spoken to it: its host, or its address without the port.
    pub fn tls(&self) -> Option<&str> {
        self.tls.as_deref()
    }

    /// Which of several groups it is of: a use is of one. The first is 0.
    pub fn group(&self) -> u32 {
        self.group
    }

    /// Those of the least number that can be had are taken, and others where none of these can: 0, but for SRV records.
    pub fn priority(&self) -> u16 {
        self.priority
    }

    /// One that is no source: `HOST:PORT`, `[IPv6]:PORT` or `unix:PATH`, perhaps with a weight.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn of_word(text: &str, is_tls: bool) -> Result<Self, TargetError> {
        let wrong = |why: String| TargetError { text: text.to_owned(), why };
        if text.starts_with(TLS) {
            return Err(wrong("write tls:// before the source, for all that it names".to_owned()));
        }
        let named = if is_tls { target(&format!("{TLS}{text}")) } else { target(text) };
        let named = named.map_err(wrong)?;
        if let Place::Source(_) = named.place {
            return Err(wrong("a source names no other one".to_owned()));
        }
        Ok(named)
    }

    pub(crate) fn of_priority(self, priority: u16) -> Self {
        Self { priority, ..self }
    }

    pub(crate) fn of_group(self, group: u32) -> Self {
        Self { group, ..self }
    }

    /// Whether it is the same upstream, whatever its weight.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        (&self.name, self.group) == (&other.name, other.group)
    }

    /// Its part beside others, 1 to [`WEIGHT_MAX`]. Each address of a name has it.
    pub fn weight(&self) -> u16 {
        self.weight
    }
}

/// A list of targets: at least one, at most [`TARGETS_MAX`], none twice.
///
/// ```
/// use corelane_upstreams::Targets;
///
/// let targets: Targets = "10.0.0.1:80*3,[2001:db8::1]:80,unix:/run/app.sock,app.example:8080".parse()?;
/// assert_eq!(targets.all().iter().map(|target| target.weight()).collect::<Vec<_>>(), [3, 1, 1, 1]);
/// assert_eq!(targets.all()[1].name(), "[2001:db8::1]:80");
/// # Ok::<(), corelane_upstreams::TargetError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Targets(Vec<Target>);

impl Targets {
    /// All of them, in their order.
    pub fn all(&self) -> &[Target] {
        &self.0
    }

    /// No targets, to be [added](Targets::add).
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Adds one to a group.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn add(&mut self, text: &str, group: u32) -> Result<(), TargetError> {
        let wrong = |why: String| TargetError { text: text.to_owned(), why };
        let target = Target { group, ..target(text).map_err(wrong)? };
        if self.0.iter().any(|known| known.name == target.name && known.group == group) {
            return Err(wrong("it is named twice: give it a weight instead, as in HOST:PORT*2".to_owned()));
        }
        if self.0.len() == TARGETS_MAX {
            return Err(wrong(format!("there are {TARGETS_MAX} upstreams at the most")));
        }
        self.0.push(target);
        Ok(())
    }

    /// Whether TLS is spoken to any of them.
    pub fn speak_tls(&self) -> bool {
        self.0.iter().any(|target| target.tls.is_some())
    }

    /// The TCP ports that they are at.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.0.iter().filter_map(|target| match &target.place {
            Place::At(address) => Some(address.inet()?.port()),
            Place::Named { port, .. } => Some(*port),
            Place::Source(_) => None,
        })
    }
}

/// Why a list cannot be used. The operator is at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError {
    /// The entry.
    pub text: String,
    /// The reason, with the remedy.
    pub why: String,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.text, self.why)
    }
}

impl std::error::Error for TargetError {}

impl FromStr for Targets {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let mut all = Self::none();
        text.split(',').try_for_each(|text| all.add(text, 0))?;
        Ok(all)
    }
}

fn target(text: &str) -> Result<Target, String> {
    refuse_misread(text)?;
    let (name, weight) = match text.rsplit_once('*') {
        None => (text, 1),
        Some((name, digits)) if name.is_empty() || digits.contains(':') => {
            return Err("a * stands only behind HOST:PORT, before a weight: HOST:PORT*2".to_owned());
        }
        Some((name, digits)) => (name, weight(digits)?),
    };
    let (at, is_tls) = name.strip_prefix(TLS).map_or((name, false), |at| (at, true));
    if let Some(source) = Source::read(at) {
        let source = source?;
        if name != text {
            return Err("weights stand in the source".to_owned());
        }
        let tls = is_tls.then(|| at.to_owned());
        return Ok(Target { name: name.to_owned(), place: Place::Source(source), weight: 1, tls, group: 0, priority: 0 });
    }
    let place = place(at)?;
    let tls = is_tls.then(|| tls_name(&place)).transpose()?;
    Ok(Target { name: name.to_owned(), place, weight, tls, group: 0, priority: 0 })
}

/// The fault of port 0, which the system would choose for a listener.
const PORT_IS_0: &str = "its port is 0: behind the colon stands a port from 1 to 65535";

/// Refuses what was written as other programs have it: a URL, or a list without commas.
fn refuse_misread(text: &str) -> Result<(), String> {
    let at = text.strip_prefix(TLS).unwrap_or(text);
    if ["unix:", "file:", "srv:"].iter().any(|begin| at.starts_with(begin)) {
        return Ok(());
    }
    match at.split_once("://") {
        Some(("tls", _)) => return Err("tls:// stands there twice: write tls://HOST:PORT".to_owned()),
        Some((scheme, _)) if !scheme.contains(':') => {
            return Err(format!("there is no {scheme}:// here: write HOST:PORT, or tls://HOST:PORT for TLS"));
        }
        _ => {}
    }
    let mut several = at.split(|sign: char| matches!(sign, ';' | '|') || sign.is_whitespace()).filter(|part| !part.is_empty());
    if several.clone().count() > 1 && several.all(|part| part.contains(':')) {
        return Err("several upstreams are separated by commas: HOST:PORT,HOST:PORT".to_owned());
    }
    Ok(())
}

fn tls_name(place: &Place) -> Result<String, String> {
    match place {
        Place::Named { host, .. } => Ok(host.clone()),
        Place::Source(source) => Ok(source.to_string()),
        Place::At(address) => address
            .ip()
            .map(|ip| ip.to_canonical().to_string())
            .ok_or_else(|| "a Unix socket has no name that a certificate could prove: write it without tls://".to_owned()),
    }
}

fn weight(digits: &str) -> Result<u16, String> {
    let number = digits.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
    number.filter(|_| !digits.starts_with('+')).ok_or_else(|| format!("behind * stands a weight from 1 to {WEIGHT_MAX}"))
}

fn place(name: &str) -> Result<Place, String> {
    if name.starts_with("unix:") {
        return name.parse().map(Place::At).map_err(|error: corelane::service::AddressError| error.to_string());
    }
    if let Ok(address) = name.parse::<Address>() {
        return match address.inet() {
            Some(inet) if inet.port() != 0 => Ok(Place::At(address)),
            Some(_) => Err(PORT_IS_0.to_owned()),
            None => Err("it is neither IPv4 nor IPv6: write HOST:PORT, [IPv6]:PORT or unix:PATH".to_owned()),
        };
    }
    if name.starts_with('[') && name.ends_with(']') {
        return Err("its port is missing: write [IPv6]:PORT".to_owned());
    }
    if name.parse::<Ipv6Addr>().is_ok() {
        return Err("an IPv6 address stands in brackets, and its port behind them: [2001:db8::1]:80".to_owned());
    }
    let (host, port) = name.rsplit_once(':').ok_or("write HOST:PORT, [IPv6]:PORT or unix:PATH")?;
    if port.contains('/') {
        return Err("a path has no place behind a port: write HOST:PORT".to_owned());
    }
    let number = port.parse().ok().filter(|_| port.bytes().all(|byte| byte.is_ascii_digit()));
    let port = match number {
        _ if port.is_empty() => return Err("its port is missing: write HOST:PORT".to_owned()),
        Some(0) => return Err(PORT_IS_0.to_owned()),
        Some(port) => port,
        None => return Err("behind the colon stands a port from 1 to 65535".to_owned()),
    };
    if host.contains([':', '[', ']']) {
        return Err("write one colon, as in HOST:PORT; an IPv6 address stands in brackets: [2001:db8::1]:80".to_owned());
    }
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if host.is_empty() || host.len() > HOST_BYTES_MAX || !host.bytes().all(is_fit) {
        return Err(format!(
            "{host:?} is no name of a host: letters, digits, hyphens and dots, {HOST_BYTES_MAX} bytes at the most"
        ));
    }
    Ok(Place::Named { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let targets: Targets = "localhost:1,127.0.0.1:2*256,[::1]:3*1,unix:/x,unix:@y,tls://file:/a,srv:_b.c".parse().unwrap();
        let of = |place: &Place| match place {
            Place::At(address) => address.to_string(),
            Place::Named { host, port } => format!("name {host} {port}"),
            Place::Source(source) => format!("source {source}"),
        };
        let all: Vec<_> = targets.all().iter().map(|target| (target.name(), of(target.place()), target.weight())).collect();
        let expected = [
            ("localhost:1", "name localhost 1", 1),
            ("127.0.0.1:2", "127.0.0.1:2", 256),
            ("[::1]:3", "[::1]:3", 1),
            ("unix:/x", "unix:/x", 1),
            ("unix:@y", "unix:@y", 1),
            ("tls://file:/a", "source file:/a", 1),
            ("srv:_b.c", "source srv:_b.c", 1),
        ];
        assert_eq!(all, expected.map(|(name, place, weight)| (name, place.to_owned(), weight)));
    }

    #[test]
    fn those_behind_tls_have_a_name() {
        let targets: Targets = "tls://a.test:443*2,tls://[::1]:1,tls://10.0.0.1:2,a.test:443".parse().unwrap();
        let names: Vec<_> = targets.all().iter().map(Target::tls).collect();
        assert_eq!(names, [Some("a.test"), Some("::1"), Some("10.0.0.1"), None]);
        assert_eq!((targets.all()[0].name(), targets.all()[0].weight()), ("tls://a.test:443", 2));
        assert!(targets.speak_tls() && !"a:1".parse::<Targets>().unwrap().speak_tls());
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_remedy() {
        for (wrong, said) in [
            ("", "write HOST:PORT"),
            ("a", "write HOST:PORT"),
            ("a:1,", "write HOST:PORT"),
            ("a:", "its port is missing: write HOST:PORT"),
            ("a:0", "its port is 0: "),
            ("a:65536", "a port from 1 to 65535"),
            ("a:+5", "a port from 1 to 65535"),
            ("127.0.0.1:0", "its port is 0: "),
            ("[::1]:0", "its port is 0: "),
            ("127.0.0.1", "write HOST:PORT"),
            ("tls://unix:/x", "without tls://"),
            ("tls://a", "write HOST:PORT"),
            ("::1:80", "in brackets"),
            ("::", "in brackets"),
            ("a:b:80", "write one colon"),
            ("[::1]", "its port is missing: write [IPv6]:PORT"),
            ("tls://[::1]", "its port is missing: write [IPv6]:PORT"),
            ("a:80/b", "a path has no place"),
            ("http://127.0.0.1:80", "there is no http:// here: write HOST:PORT, or tls://HOST:PORT for TLS"),
            ("http://127.0.0.1:80/", "there is no http:// here"),
            ("https://10.0.0.1", "there is no https:// here"),
            ("https://10.0.0.1/*", "there is no https:// here"),
            ("tls://https://10.0.0.1", "there is no https:// here"),
            ("tls://tls://a:1", "tls:// stands there twice"),
            ("10.0.0.1:80;10.0.0.2:80", "separated by commas: HOST:PORT,HOST:PORT"),
            ("10.0.0.1:80*2 10.0.0.2:80", "separated by commas"),
            ("*:80", "a * stands only behind HOST:PORT"),
            ("*.a.test:80", "a * stands only behind HOST:PORT"),
            ("*", "a * stands only behind HOST:PORT"),
            (":80", "no name of a host"),
            ("a b:80", "no name of a host"),
            ("a\n:80", "no name of a host"),
            ("a:80*0", "a weight from 1 to 256"),
            ("a:80*257", "a weight from 1 to 256"),
            ("a:80*+1", "a weight from 1 to 256"),
            ("a:80*", "a weight from 1 to 256"),
            ("a:80,b:80,a:80*2", "named twice"),
            ("unix:", "unix:"),
            ("file:a", "write file:/PATH"),
            ("file:/a*2", "weights stand in the source"),
            ("srv:", "write srv:_SERVICE._tcp.DOMAIN"),
        ] {
            let error = wrong.parse::<Targets>().unwrap_err().to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
        let many: Vec<String> = (1..=TARGETS_MAX).map(|port| format!("a:{port}")).collect();
        assert_eq!(many.join(",").parse::<Targets>().unwrap().all().len(), TARGETS_MAX);
        assert!((many.join(",") + ",b:1").parse::<Targets>().unwrap_err().why.contains("64 upstreams"));
        let long = "a".repeat(HOST_BYTES_MAX + 1);
        assert!(format!("{long}:1").parse::<Targets>().is_err() && format!("{}:1", &long[1..]).parse::<Targets>().is_ok());
    }
}
