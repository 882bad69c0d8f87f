//! Where a service is served: `tcp://HOST:PORT`, `udp://HOST:PORT`, `unix:PATH` or `unixgram:PATH`.

use crate::error::Error;
use corelane_rss::Transport;
use corelane_seam::{Address, Unix};
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::str::FromStr;

/// A place to serve at. HOST is a name, an IPv4 address, or an IPv6 address in brackets (RFC 3986 section 3.2.2). A PATH is that of a Unix socket,
/// for connections behind `unix:` and for datagrams behind `unixgram:`; `@NAME` is an abstract name (unix(7)), and `?mode=0660` behind a path says
/// who may connect, as for chmod(1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    transport: Transport,
    at: At,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum At {
    Port { scheme: &'static str, host: String, port: u16 },
    Unix { name: Unix, mode: Option<u32> },
}

/// The most that the file of a Unix socket may allow (chmod(2)).
const MODE_MAX: u32 = 0o777;

impl Url {
    /// Reads `text`; without a port, `default_port` is meant.
    ///
    /// # Errors
    /// [`Error::Url`] with what is wrong.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, Error> {
        if let Some((transport, rest)) = unix(text) {
            return Self::of_unix(transport, text, rest);
        }
        let wrong = |why: &str| unfit(text, why);
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("there is no ://"))?;
        let transport = match scheme {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            _ => return Err(wrong("the part before :// must be tcp or udp")),
        };
        Self::of(transport, text, rest, default_port)
    }

    /// Reads `rest`, which is what follows the :// of `text`.
    pub(crate) fn of(transport: Transport, text: &str, rest: &str, default_port: u16) -> Result<Self, Error> {
        let wrong = |why: &str| unfit(text, why);
        if rest.find('/').is_some_and(|at| at > 0) {
            return Err(wrong("what follows :// must be HOST:PORT, and a path behind it means nothing"));
        }
        let (host, port) = split(rest).ok_or_else(|| wrong("an IPv6 address must stand in brackets"))?;
        if host.is_empty() && port.is_some() {
            return Err(wrong(&without_address(text)));
        }
        let is_odd = |byte: char| byte.is_control() || byte.is_whitespace() || "/?#@[]".contains(byte);
        if host.is_empty() || host.contains(is_odd) {
            return Err(wrong("what follows :// must be HOST:PORT and nothing else"));
        }
        let port = match port {
            None => default_port,
            Some(digits) => Some(digits)
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                .and_then(|digits| digits.parse().ok())
                .ok_or_else(|| wrong("the port must be a number from 0 to 65535"))?,
        };
        let scheme = if transport == Transport::Tcp { "tcp" } else { "udp" };
        Ok(Self { transport, at: At::Port { scheme, host: host.to_string(), port } })
    }

    /// The same place, called by what is spoken there.
    pub(crate) fn called(mut self, name: &'static str) -> Self {
        if let At::Port { scheme, .. } = &mut self.at {
            *scheme = name;
        }
        self
    }

    /// Reads `rest`, which is what follows the scheme of a Unix socket in `text`.
    fn of_unix(transport: Transport, text: &str, rest: &str) -> Result<Self, Error> {
        let wrong = |why: String| unfit(text, &why);
        let (name, query) = rest.split_once('?').map_or((rest, None), |(name, query)| (name, Some(query)));
        let name: Unix = name.parse().map_err(|error: corelane_seam::AddressError| wrong(error.to_string()))?;
        let mode = |query: &str| {
            let digits = query.strip_prefix(MODE)?;
            let is_octal = digits.len() <= 4 && digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
            u32::from_str_radix(digits, 8).ok().filter(|mode| is_octal && *mode <= MODE_MAX)
        };
        let unfit = || wrong("behind ? stands the mode of its file, in octal digits, as in ?mode=0660".to_owned());
        let mode = query.map(|query| mode(query).ok_or_else(unfit)).transpose()?;
        Ok(Self { transport, at: At::Unix { name, mode } })
    }

    /// Connections or datagrams.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Its port, where it has one; 0 has the system choose.
    pub fn port(&self) -> Option<u16> {
        match self.at {
            At::Port { port, .. } => Some(port),
            At::Unix { .. } => None,
        }
    }

    /// The addresses that it means, if these stand in it: nobody is asked for a name.
    pub(crate) fn literal(&self) -> Option<IpAddr> {
        match &self.at {
            At::Port { host, .. } => host.parse().ok(),
            At::Unix { .. } => None,
        }
    }

    /// Whether it is a Unix socket's.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.at, At::Unix { .. })
    }

    /// Where its socket lies, if it has a path.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.at {
            At::Unix { name, .. } => name.as_path(),
            At::Port { .. } => None,
        }
    }

    /// The mode of a Unix socket's file, if one was asked for.
    pub(crate) fn mode(&self) -> Option<u32> {
        match self.at {
            At::Unix { mode, .. } => mode,
            At::Port { .. } => None,
        }
    }

    /// All addresses that the host has, in the system's order, each once (getaddrinfo(3)); the one of a Unix socket.
    ///
    /// # Errors
    /// [`Error::Host`] if the name is not known.
    pub fn resolve(&self) -> Result<Vec<Address>, Error> {
        let (host, port) = match &self.at {
            At::Port { host, port, .. } => (host, *port),
            At::Unix { name, .. } => return Ok(vec![name.clone().into()]),
        };
        let unknown = |why: String| Error::Host { host: host.clone(), why };
        let found = (host.as_str(), port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
        let mut addresses: Vec<Address> = Vec::new();
        for address in found.map(Address::Ip) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() { Err(unknown("it has no address".to_string())) } else { Ok(addresses) }
    }

    /// Its address, if that is written so that nobody need be asked for it.
    pub(crate) fn written(&self) -> Option<Address> {
        match &self.at {
            At::Port { port, .. } => Some(SocketAddr::new(self.literal()?, *port).into()),
            At::Unix { name, .. } => Some(name.clone().into()),
        }
    }

    /// The URL of one of its addresses.
    pub fn at(&self, address: &Address) -> Url {
        match (&self.at, address.inet()) {
            (At::Port { scheme, .. }, Some(address)) => {
                let at = At::Port { scheme, host: address.ip().to_string(), port: address.port() };
                Url { transport: self.transport, at }
            }
            _ => self.clone(),
        }
    }
}

/// The word before the mode of a Unix socket's file, in the query.
pub(crate) const MODE: &str = "mode=";

/// The error of a URL that is wrong.
pub(crate) fn unfit(text: &str, why: &str) -> Error {
    let expected = "tcp://HOST:PORT, udp://HOST:PORT, unix:PATH or unixgram:PATH".to_owned();
    Error::Url { text: text.to_owned(), why: why.to_owned(), expected }
}

/// Says of `tcp://:8080` that its address is missing, and names both forms that may be meant.
fn without_address(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("tcp", text));
    let port = rest.split(['/', '?']).next().unwrap_or_default();
    format!(
        "there is no address: {scheme}://[::]{port} is all addresses of this machine, and {scheme}://127.0.0.1{port} is for this machine alone"
    )
}

/// How a Unix socket's URL is spoken to, and what follows its scheme; none for any other.
pub(crate) fn unix(text: &str) -> Option<(Transport, &str)> {
    let connections = text.strip_prefix("unix:").map(|rest| (Transport::Tcp, rest));
    connections.or_else(|| text.strip_prefix("unixgram:").map(|rest| (Transport::Udp, rest)))
}

/// Splits `HOST:PORT`, taking the brackets off an IPv6 address. None for an IPv6 address without them.
fn split(rest: &str) -> Option<(&str, Option<&str>)> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if let Some(inner) = rest.strip_prefix('[') {
        let (host, after) = inner.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None if after.is_empty() => Some((host, None)),
            None => None,
        };
    }
    match rest.split_once(':') {
        Some((_, port)) if port.contains(':') => None,
        Some((host, port)) => Some((host, Some(port))),
        None => Some((rest, None)),
    }
}

impl FromStr for Url {
    type Err = Error;

    /// As [`Url::parse`], but the port must be there.
    fn from_str(text: &str) -> Result<Self, Error> {
        let url = Self::parse(text, 0)?;
        let named = matches!(url.at, At::Unix { .. })
            || text.trim_end_matches('/').rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if named { Ok(url) } else { Err(unfit(text, "there is no port")) }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            At::Port { scheme, host, port } if host.contains(':') => write!(f, "{scheme}://[{host}]:{port}"),
            At::Port { scheme, host, port } => write!(f, "{scheme}://{host}:{port}"),
            At::Unix { name, mode } => {
                let name = name.to_string();
                // The name brings the scheme for connections along.
                let (unix, rest) = name.split_at("unix".len());
                write!(f, "{unix}{}{rest}", if self.transport == Transport::Tcp { "" } else { "gram" })?;
                mode.map_or(Ok(()), |mode| write!(f, "?{MODE}{mode:04o}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ones_are_read_and_written_back() {
        for text in ["tcp://127.0.0.1:60007", "udp://[::1]:60007", "tcp://localhost:0", "tcp://[::]:65535"] {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), text);
        }
        assert_eq!(Url::parse("udp://localhost", 7).unwrap().to_string(), "udp://localhost:7");
        assert_eq!(Url::parse("tcp://[::1]", 7).unwrap().to_string(), "tcp://[::1]:7");
    }

    #[test]
    fn unix_sockets_are_named_by_path_or_abstractly() {
        for text in ["unix:/run/x.sock", "unixgram:/run/x.sock?mode=0660", "unix:@name", "unixgram:@name", "unix:x%3fy?mode=0007"]
        {
            assert_eq!(text.parse::<Url>().unwrap().to_string(), text);
        }
        let url: Url = "unix:/run/x.sock?mode=660".parse().unwrap();
        assert_eq!((url.transport(), url.mode()), (Transport::Tcp, Some(0o660)));
        let address: Address = "unix:/run/x.sock".parse().unwrap();
        assert_eq!(url.resolve().unwrap(), std::slice::from_ref(&address));
        assert_eq!(url.at(&address), url);
        for text in
            ["unix:", "unix:/x?", "unix:/x?mode=", "unix:/x?mode=8", "unix:/x?mode=7777", "unix:/x?mode=00660", "unix:/x?more=1"]
        {
            assert!(matches!(text.parse::<Url>(), Err(Error::Url { .. })), "{text}");
        }
        let long = format!("unix:/{}", "x".repeat(107)).parse::<Url>().unwrap_err().to_string();
        assert!(long.contains("at most 107 bytes, and this has 108"), "{long}");
    }

    #[test]
    fn bad_ones_are_refused_with_a_reason() {
        for text in [
            "",
            "localhost:1",
            "http://a:1",
            "tcp://:1",
            "tcp://a:b",
            "tcp://a:65536",
            "tcp://::1:1",
            "tcp://a:1/x",
            "tcp://[::1",
            "tcp://a b:1",
            "tcp://a:+5",
            "tcp://a\n:1",
        ] {
            assert!(matches!(Url::parse(text, 1), Err(Error::Url { .. })), "{text}");
        }
        let both = "there is no address: tcp://[::]:8080 is all addresses of this machine, and tcp://127.0.0.1:8080 is for this machine alone";
        let said = Url::parse("tcp://:8080", 1).unwrap_err().to_string();
        assert!(said.contains(both), "{said}");
        assert!("tcp://localhost".parse::<Url>().is_err());
    }

    #[test]
    fn an_address_resolves_to_itself() {
        let url: Url = "tcp://[::1]:9".parse().unwrap();
        assert_eq!(url.resolve().unwrap(), vec!["[::1]:9".parse::<Address>().unwrap()]);
        assert_eq!(url.at(&"[::1]:10".parse().unwrap()).to_string(), "tcp://[::1]:10");
    }
}
