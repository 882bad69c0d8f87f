//! Sources of upstreams as they are written: a file with a line for each, or SRV records.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The most upstreams that a source names.
pub const LISTED_MAX: usize = 256;

/// The port of name servers.
const DOMAIN_PORT: u16 = 53;

/// What names upstreams, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file with `HOST:PORT`, `[IPv6]:PORT` or `unix:PATH` in each line, `*WEIGHT` behind it if need be, and comments behind `#`.
    File(PathBuf),
    /// SRV records of this name (RFC 2782), of a name server if one is named, else of the system's.
    Srv {
        /// Such as `_http._tcp.example.org`.
        name: String,
        /// Where to ask.
        server: Option<SocketAddr>,
    },
}

impl Source {
    /// Reads `file:PATH`, `srv:NAME` or `srv:NAME@ADDRESS:PORT`; none for anything else.
    pub(crate) fn read(text: &str) -> Option<Result<Self, String>> {
        if let Some(path) = text.strip_prefix("file:") {
            let is_whole = path.starts_with('/');
            return Some(if is_whole {
                Ok(Self::File(path.into()))
            } else {
                Err("write file:/PATH, from the root on".to_owned())
            });
        }
        let text = text.strip_prefix("srv:")?;
        let (name, server) = text.split_once('@').map_or((text, None), |(name, server)| (name, Some(server)));
        let is_fit = |label: &str| {
            (1..=63).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        let labels = name.strip_suffix('.').unwrap_or(name);
        if name.len() > 253 || !labels.split('.').all(is_fit) {
            return Some(Err(format!("{name:?} is no name: write srv:_SERVICE._tcp.DOMAIN, such as srv:_http._tcp.example.org")));
        }
        let server = server.map(|server| {
            let bare = server.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DOMAIN_PORT));
            server.parse().or(bare).map_err(|_| format!("{server:?} is no name server: write @ADDRESS or @ADDRESS:PORT"))
        });
        Some(server.transpose().map(|server| Self::Srv { name: labels.to_owned(), server }))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Srv { name, server: None } => write!(f, "srv:{name}"),
            Self::Srv { name, server: Some(server) } => write!(f, "srv:{name}@{server}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_as_they_are_written() {
        let of = |text: &str| Source::read(text).unwrap();
        assert_eq!(of("file:/a/b"), Ok(Source::File("/a/b".into())));
        let server = |text: &str| Some(text.parse().unwrap());
        let srv = |name: &str, server| Ok(Source::Srv { name: name.to_owned(), server });
        assert_eq!(of("srv:_http._tcp.a.test."), srv("_http._tcp.a.test", None));
        assert_eq!(of("srv:a@127.0.0.1:8600"), srv("a", server("127.0.0.1:8600")));
        assert_eq!(of("srv:a@::1"), srv("a", server("[::1]:53")));
        assert_eq!(Source::read("a:1"), None);
        for wrong in ["file:a", "srv:", "srv:a..b", "srv:a b", "srv:a@b", &format!("srv:{}", "a".repeat(64))] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
