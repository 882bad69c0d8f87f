//! Addresses between which nothing is forwarded, whatever routes say.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a packet with these addresses may be forwarded: neither is of no host, of this machine alone, of one link alone, of a group or reserved (RFC 1812, section 5.3.7; RFC
/// 4291, section 2.5; RFC 3927, section 7), and they differ ("land").
pub(super) fn may_pass(source: IpAddr, destination: IpAddr) -> bool {
    let is_of_hosts = |address| match address {
        IpAddr::V4(address) => is_of_hosts_v4(address),
        IpAddr::V6(address) => is_of_hosts_v6(address),
    };
    is_of_hosts(source) && is_of_hosts(destination) && source != destination
}

fn is_of_hosts_v4(address: Ipv4Addr) -> bool {
    // 224/4 are groups, 240/4 is reserved, with the address of all stations in it.
    !matches!(address.octets(), [0 | 127 | 224..=255, ..] | [169, 254, ..])
}

fn is_of_hosts_v6(address: Ipv6Addr) -> bool {
    // Nobody, ourselves, and addresses of IPv4 in two forms that no link carries (RFC 4291, sections 2.5.2, 2.5.3 and 2.5.5).
    let holds_v4 = address.to_ipv4_mapped().is_some() || address.to_bits() >> 32 == 0;
    !(holds_v4 || address.is_multicast() || address.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_from_or_to_who_cannot_be() {
        let may = |source: &str, destination: &str| may_pass(source.parse().unwrap(), destination.parse().unwrap());
        assert!(may("10.0.0.9", "192.0.2.1") && may("2001:db8::1", "fd00::1") && may("223.255.255.254", "126.1.1.1"));
        for none in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.1.1",
            "224.0.0.1",
            "239.1.2.3",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            assert!(!may(none, "10.0.0.9") && !may("10.0.0.9", none), "{none}");
        }
        for none in ["::", "::1", "::10.0.0.9", "::ffff:10.0.0.9", "fe80::1", "febf::1", "ff02::1", "ff0e::1"] {
            assert!(!may(none, "fd00::9") && !may("fd00::9", none), "{none}");
        }
        assert!(!may("10.0.0.9", "10.0.0.9") && !may("fd00::9", "fd00::9"), "land");
        assert!(may("169.253.1.1", "170.254.1.1") && may("fec0::1", "1::"));
    }
}
