//! Where a load goes, as its URL says.

use crate::error::Error;
use corelane::Address;
use corelane::lanes::{Transport, Url};

/// How a URL of a workload may begin.
#[derive(Clone, Copy, Debug)]
pub struct Scheme {
    /// What stands before `://`.
    pub name: &'static str,
    /// How requests travel.
    pub transport: Transport,
    /// The port where the URL names none; none for the entry's own.
    pub port: Option<u16>,
    /// A path may follow the host.
    pub has_path: bool,
    /// What is spoken behind TLS, by its registered names (RFC 7301); none for what goes in plain.
    pub secure: Option<&'static [&'static [u8]]>,
}

impl Scheme {
    /// `tcp://HOST:PORT`.
    pub const TCP: Self = Self { name: "tcp", transport: Transport::Tcp, port: None, has_path: false, secure: None };

    /// `tls://HOST:PORT`: behind TLS, without a name for what is spoken.
    pub const fn tls(port: u16) -> Self {
        Self { name: "tls", port: Some(port), secure: Some(&[]), ..Self::TCP }
    }

    /// `udp://HOST:PORT`.
    pub const UDP: Self = Self { name: "udp", transport: Transport::Udp, ..Self::TCP };

    /// Whether it goes behind TLS.
    pub fn is_secure(&self) -> bool {
        self.secure.is_some()
    }
}

/// How a workload is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// Its name.
    pub name: &'static str,
    /// How its URLs begin.
    pub schemes: &'static [Scheme],
    /// The port where neither the URL nor its scheme names one.
    pub port: u16,
}

/// Where a load goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The URL in full, for reports.
    pub url: String,
    /// How requests travel.
    pub transport: Transport,
    /// The one of its addresses that is loaded: the first, until another is chosen.
    pub address: Address,
    /// All of them, in the system's order.
    pub addresses: Vec<Address>,
    /// Host and port as they were written; of a Unix socket `localhost`.
    pub authority: String,
    /// The same without the port.
    pub host: String,
    /// As [`Scheme::secure`].
    pub secure: Option<&'static [&'static [u8]]>,
    /// The path with its query, from the slash or the question mark on; empty if there is none.
    pub path: String,
}

impl Destination {
    /// Reads a URL of a workload: what it lacks is the workload's default, and the machine this one.
    ///
    /// # Errors
    /// [`Error::Setting`] where the workload is not asked for in that way; what is wrong with the URL; a host without an address.
    pub fn parse(ways: Ways, text: Option<&str>) -> Result<Self, Error> {
        let default = format!("{}://127.0.0.1", ways.schemes[0].name);
        let text = text.unwrap_or(&default);
        if is_unix(text) {
            return Self::of_unix(ways, text);
        }
        let Some((name, rest)) = text.split_once("://") else {
            return Err(Url::parse(text, 0).map_or_else(|error| named(ways, text, error), |_| unfit(ways, text)));
        };
        let scheme = ways.schemes.iter().find(|scheme| scheme.name == name).ok_or_else(|| unfit(ways, text))?;
        let end = rest.find(['/', '?', '#']).filter(|_| scheme.has_path).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if path.contains('#') {
            return Err(wrong(format!("{text:?}: what follows # is not sent to servers: leave it out")));
        }
        let carrier = if scheme.transport == Transport::Tcp { "tcp" } else { "udp" };
        let url = Url::parse(&format!("{carrier}://{authority}"), scheme.port.unwrap_or(ways.port))
            .map_err(|error| named(ways, text, error))?;
        let whole = url.to_string().replacen(carrier, scheme.name, 1) + path;
        let authority = authority.trim_end_matches('/').to_owned();
        let port = authority.rfind(':').filter(|&colon| !authority[colon..].contains(']'));
        let host = authority[..port.unwrap_or(authority.len())].to_owned();
        let (transport, secure) = (scheme.transport, scheme.secure);
        let (address, addresses) = addresses(&url)?;
        Ok(Self { url: whole, transport, address, addresses, authority, host, secure, path: path.to_owned() })
    }

    fn of_unix(ways: Ways, text: &str) -> Result<Self, Error> {
        let url = Url::parse(text, 0)?;
        if !ways.schemes.iter().any(|scheme| scheme.transport == url.transport()) {
            return Err(unfit(ways, text));
        }
        let (authority, host) = ("localhost".to_owned(), "localhost".to_owned());
        let (transport, (address, addresses), path) = (url.transport(), addresses(&url)?, String::new());
        Ok(Self { url: url.to_string(), transport, address, addresses, authority, host, secure: None, path })
    }
}

/// Whether a word names a Unix socket.
pub fn is_unix(word: &str) -> bool {
    word.starts_with("unix:") || word.starts_with("unixgram:")
}

fn wrong(why: String) -> Error {
    Error::Setting { name: "URL", why }
}

/// What is wrong with a URL, in the user's own words rather than in those of what it stands for.
fn named(ways: Ways, text: &str, error: corelane::Error) -> Error {
    match error {
        corelane::Error::Url { why, .. } => {
            corelane::Error::Url { text: text.to_owned(), why, expected: places(ways, "HOST:PORT", "PATH") }.into()
        }
        error => error.into(),
    }
}

fn unfit(ways: Ways, text: &str) -> Error {
    wrong(format!("{text:?}: {} is asked for by {}", ways.name, places(ways, "", "")))
}

/// How a workload is asked for, with what may stand behind each scheme.
fn places(ways: Ways, port: &str, path: &str) -> String {
    let goes = |transport| ways.schemes.iter().any(|scheme| scheme.transport == transport);
    let unix = [("unix:", Transport::Tcp), ("unixgram:", Transport::Udp)].into_iter().filter(|way| goes(way.1));
    let names = ways.schemes.iter().map(|scheme| format!("{}://{port}", scheme.name));
    names.chain(unix.map(|(name, _)| format!("{name}{path}"))).collect::<Vec<_>>().join(" or ")
}

/// The first of its addresses, and all.
fn addresses(url: &Url) -> Result<(Address, Vec<Address>), Error> {
    let all = url.resolve()?;
    let first = all.first().cloned().ok_or_else(|| wrong(format!("{url}: the name has no address")))?;
    Ok((first, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: Ways = Ways { name: "echo", schemes: &[Scheme::TCP, Scheme::tls(60_443)], port: 60_007 };
    const RPC: Ways = Ways { name: "rpc", schemes: &[Scheme::TCP, Scheme::UDP], port: 62_049 };
    const UDP: Ways = Ways { name: "udp", schemes: &[Scheme::UDP], port: 60_007 };

    #[test]
    fn what_is_left_out_is_the_workloads() {
        let place = Destination::parse(RPC, None).unwrap();
        assert_eq!((place.url.as_str(), place.transport), ("tcp://127.0.0.1:62049", Transport::Tcp));
        let place = Destination::parse(UDP, Some("udp://[::1]")).unwrap();
        assert_eq!((place.url.as_str(), place.authority.as_str()), ("udp://[::1]:60007", "[::1]"));
        let place = Destination::parse(ECHO, Some("tls://[::1]:7")).unwrap();
        assert_eq!((place.url.as_str(), place.host.as_str(), place.secure), ("tls://[::1]:7", "[::1]", Some(&[][..])));
        let place = Destination::parse(ECHO, Some("unix:/run/x")).unwrap();
        assert_eq!((place.url.as_str(), place.address), ("unix:/run/x", "unix:/run/x".parse().unwrap()));
    }

    #[test]
    fn what_does_not_fit_is_said_with_what_does() {
        for (ways, text, words) in [
            (ECHO, "udp://127.0.0.1", "echo is asked for by tcp:// or tls:// or unix:"),
            (ECHO, "unixgram:/x", "echo is asked for by tcp:// or tls:// or unix:"),
            (RPC, "http://a", "rpc is asked for by tcp:// or udp:// or unix: or unixgram:"),
            (ECHO, "localhost:1", "there is no ://; write tcp://HOST:PORT or tls://HOST:PORT or unix:PATH"),
            (ECHO, "tcp://a:1/x", "a path behind it means nothing"),
            (ECHO, "tcp://127.0.0.1:99999", "from 0 to 65535"),
        ] {
            let said = Destination::parse(ways, Some(text)).unwrap_err().to_string();
            assert!(said.contains(words) && said.contains(text), "{text}: {said}");
        }
    }
}
