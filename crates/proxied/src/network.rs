//! Addresses that an operator names.

use corelane::Address;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Some addresses: `192.0.2.1`, `192.0.2.0/24`, `2001:db8::/32`, or `unix` for whoever may open the service's Unix socket. IPv4 is meant in either of its forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The leading bits of IPv6; IPv4 in its mapped form (RFC 4291 section 2.5.5.2).
    Ip {
        first: u128,
        bits: u32,
    },
    Unix,
}

/// Why a text names no addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkError(String);

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is none of ADDRESS, ADDRESS/PREFIX, unix; such as 192.0.2.0/24", self.0)
    }
}

impl std::error::Error for NetworkError {}

impl Network {
    /// Whether it has this address.
    pub fn has(&self, address: &Address) -> bool {
        match (self.0, address.ip()) {
            (Kind::Ip { first, bits }, Some(ip)) => (number(ip) ^ first).leading_zeros() >= bits,
            (Kind::Unix, _) => address.unix().is_some(),
            (Kind::Ip { .. }, None) => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        if text == "unix" {
            return Ok(Self(Kind::Unix));
        }
        let wrong = || NetworkError(text.to_owned());
        let (ip, prefix) = text.split_once('/').map_or((text, None), |(ip, prefix)| (ip, Some(prefix)));
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let own = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(own), |prefix| prefix.parse().map_err(|_| wrong()))?;
        if prefix > own {
            return Err(wrong());
        }
        Ok(Self(Kind::Ip { first: number(ip), bits: 128 - own + prefix }))
    }
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => Ipv6Addr::to_bits(ip.to_ipv6_mapped()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::service::Unix;

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        for (network, has, has_not) in [
            ("192.0.2.1", "192.0.2.1:9", "192.0.2.2:9"),
            ("192.0.2.1", "[::ffff:192.0.2.1]:9", "[::ffff:192.0.2.0]:9"),
            ("192.0.2.0/24", "192.0.2.255:9", "192.0.3.0:9"),
            ("192.0.2.77/24", "192.0.2.0:9", "192.0.1.255:9"),
            ("0.0.0.0/0", "255.0.2.255:9", "[2001:db8::1]:9"),
            ("2001:db8::/32", "[2001:db8:ffff::1]:9", "[2001:db9::]:9"),
            ("::1", "[::1]:9", "[::2]:9"),
            ("::/0", "192.0.2.1:9", "unix:/x"),
            ("unix", "unix:/x", "[::1]:9"),
        ] {
            let network: Network = network.parse().unwrap();
            let is_in = |text: &str| network.has(&text.parse().unwrap());
            assert!(is_in(has) && !is_in(has_not), "{network:?}");
        }
        assert!(Network(Kind::Unix).has(&Address::Unix(Unix::UNNAMED)));
    }

    #[test]
    fn what_names_none_is_refused() {
        for text in [
            "",
            "localhost",
            "192.0.2",
            "192.0.2.1/33",
            "::1/129",
            "192.0.2.1/",
            "192.0.2.1/-1",
            "192.0.2.1:80",
            "unix:/x",
            "::1/1/1",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
