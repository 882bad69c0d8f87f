//! Where a service is served: `tcp://HOST:PORT` or `udp://HOST:PORT`.

use crate::error::Error;
use corelane_rss::Transport;
use corelane_seam::Address;
use std::fmt;
use std::net::ToSocketAddrs;
use std::str::FromStr;

/// A place to serve at. HOST is a name, an IPv4 address, or an IPv6 address in brackets (RFC 3986 section 3.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    transport: Transport,
    host: String,
    port: u16,
}

impl Url {
    /// Reads `text`; without a port, `default_port` is meant.
    ///
    /// # Errors
    /// [`Error::Url`] with what is wrong.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, Error> {
        let wrong = |why| Error::Url { text: text.to_string(), why };
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
        let wrong = |why| Error::Url { text: text.to_string(), why };
        let (host, port) = split(rest).ok_or_else(|| wrong("an IPv6 address must stand in brackets"))?;
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
        Ok(Self { transport, host: host.to_string(), port })
    }

    /// Connections or datagrams.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// All addresses that the host has, in the system's order, each once (getaddrinfo(3)).
    ///
    /// # Errors
    /// [`Error::Host`] if the name is not known.
    pub fn resolve(&self) -> Result<Vec<Address>, Error> {
        let unknown = |why: String| Error::Host { host: self.host.clone(), why };
        let found = (self.host.as_str(), self.port).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
        let mut addresses: Vec<Address> = Vec::new();
        for address in found.map(Address::Ip) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() { Err(unknown("it has no address".to_string())) } else { Ok(addresses) }
    }

    /// The URL of one of its addresses.
    pub fn at(&self, address: &Address) -> Url {
        let host = address.ip().map_or_else(|| self.host.clone(), |ip| ip.to_string());
        Url { transport: self.transport, host, port: address.port() }
    }
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
        let named = text.trim_end_matches('/').rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        if named { Ok(url) } else { Err(Error::Url { text: text.to_string(), why: "there is no port" }) }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.transport == Transport::Tcp { "tcp" } else { "udp" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
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
        assert!("tcp://localhost".parse::<Url>().is_err());
    }

    #[test]
    fn an_address_resolves_to_itself() {
        let url: Url = "tcp://[::1]:9".parse().unwrap();
        assert_eq!(url.resolve().unwrap(), vec!["[::1]:9".parse::<Address>().unwrap()]);
        assert_eq!(url.at(&"[::1]:10".parse().unwrap()).to_string(), "tcp://[::1]:10");
    }
}
