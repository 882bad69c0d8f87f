//! Hosts by name.

use corelane_wire::http1::Authority;
use std::collections::BTreeMap;
use std::fmt;

/// The most bytes of a name (RFC 1035 section 2.3.4).
const NAME_BYTES_MAX: usize = 255;

/// Which site a host has.
#[derive(Default)]
pub(super) struct Names {
    exact: BTreeMap<Box<[u8]>, usize>,
    /// By what stands behind `*.`.
    beneath: BTreeMap<Box<[u8]>, usize>,
    pub(super) default: Option<usize>,
}

/// What is wrong with the name of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostError {
    /// It is none.
    Unfit(String),
    /// It has a site already.
    Twice(String),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfit(host) => write!(f, "{host:?} is no host: write a name or an address without a port, or *. and a name"),
            Self::Twice(host) => write!(f, "{host:?} is named twice"),
        }
    }
}

impl std::error::Error for HostError {}

/// Whether a host may be named so.
///
/// # Errors
/// [`HostError::Unfit`].
pub fn check_host(host: &str) -> Result<(), HostError> {
    let name = host.strip_prefix("*.").unwrap_or(host).as_bytes();
    let is_whole = Authority::parse(name).is_some_and(|authority| authority.host == name && authority.port.is_none());
    match is_whole && !name.is_empty() && !name.contains(&b'*') && folded(name, &mut [0; NAME_BYTES_MAX]).is_some() {
        true => Ok(()),
        false => Err(HostError::Unfit(host.to_owned())),
    }
}

impl Names {
    pub fn add(&mut self, host: &str, site: usize) -> Result<(), HostError> {
        check_host(host)?;
        let (names, name) = match host.strip_prefix("*.") {
            Some(name) => (&mut self.beneath, name),
            None => (&mut self.exact, host),
        };
        let mut memory = [0; NAME_BYTES_MAX];
        let name = folded(name.as_bytes(), &mut memory).ok_or_else(|| HostError::Unfit(host.to_owned()))?;
        if names.contains_key(name) {
            return Err(HostError::Twice(host.to_owned()));
        }
        names.insert(name.into(), site);
        Ok(())
    }

    /// The site of a host, or the default; none if it is to be refused.
    pub fn site(&self, host: Option<&[u8]>) -> Option<usize> {
        let mut memory = [0; NAME_BYTES_MAX];
        let found = host.and_then(|host| folded(host, &mut memory)).and_then(|host| self.named(host));
        found.or(self.default)
    }

    fn named(&self, host: &[u8]) -> Option<usize> {
        let beneath = || {
            let dots = host.iter().enumerate().filter(|(_, byte)| **byte == b'.');
            dots.skip_while(|(at, _)| *at == 0).find_map(|(at, _)| self.beneath.get(&host[at + 1..]))
        };
        let found = self.exact.get(host);
        found.or_else(|| if self.beneath.is_empty() { None } else { beneath() }).copied()
    }
}

/// A host as it is looked up: in small letters, without a dot at its end; none if it is too long.
fn folded<'m>(host: &[u8], memory: &'m mut [u8; NAME_BYTES_MAX]) -> Option<&'m [u8]> {
    let host = host.strip_suffix(b".").unwrap_or(host);
    let folded = memory.get_mut(..host.len())?;
    folded.copy_from_slice(host);
    folded.make_ascii_lowercase();
    Some(folded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hosts: &[&str], default: Option<usize>) -> Names {
        let mut names = Names { default, ..Names::default() };
        hosts.iter().enumerate().for_each(|(site, host)| names.add(host, site).unwrap());
        names
    }

    #[test]
    fn the_most_exact_name_is_found() {
        let hosts = ["shop.example", "*.example", "*.shop.example", "192.0.2.1", "[::1]"];
        let names = names(&hosts, Some(9));
        for (host, site) in [
            ("shop.example", 0),
            ("SHOP.Example.", 0),
            ("a.example", 1),
            ("a.b.example", 1),
            ("a.shop.example", 2),
            ("a.b.shop.EXAMPLE.", 2),
            ("192.0.2.1", 3),
            ("[::1]", 4),
            ("example", 9),
            ("notexample", 9),
            (".example", 9),
            ("shop.example..", 9),
            ("", 9),
        ] {
            assert_eq!(names.site(Some(host.as_bytes())), Some(site), "{host}");
        }
        let long = [&[b'a'; 300][..], b".example"].concat();
        assert_eq!((names.site(Some(&long)), names.site(None)), (Some(9), Some(9)));
    }

    #[test]
    fn without_a_default_who_is_unknown_has_no_site() {
        let names = names(&["shop.example"], None);
        assert_eq!(
            [Some(&b"shop.example"[..]), Some(b"other"), Some(b""), None].map(|host| names.site(host)),
            [Some(0), None, None, None]
        );
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for host in ["", "a:80", "*", "*.", "*.*.a", "a.*", "a b", "a/b", "user@a", "[::1", &"a".repeat(256)] {
            assert_eq!(check_host(host), Err(HostError::Unfit(host.to_owned())), "{host}");
        }
        let mut names = names(&["a.example", "*.example"], None);
        assert_eq!(names.add("A.example.", 2), Err(HostError::Twice("A.example.".to_owned())));
        assert_eq!(names.add("*.EXAMPLE", 2), Err(HostError::Twice("*.EXAMPLE".to_owned())));
        assert_eq!(names.add("example", 2), Ok(()));
    }
}
