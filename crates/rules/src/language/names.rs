//! Names that stand for numbers. Where several do, the first is printed.

/// Protocols (the registry "Protocol Numbers").
pub const PROTOCOLS: &[(&str, u8)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("ipencap", 4),
    ("tcp", 6),
    ("udp", 17),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("icmp6", 58),
    ("icmpv6", 58),
    ("ospf", 89),
    ("pim", 103),
    ("carp", 112),
    ("vrrp", 112),
    ("sctp", 132),
    ("udplite", 136),
];

/// Codes of ICMP's destination unreachable (RFC 792, RFC 1812, section 5.2.7.1), by ipfw's names.
pub const UNREACH: &[(&str, u8)] = &[
    ("net", 0),
    ("host", 1),
    ("protocol", 2),
    ("port", 3),
    ("needfrag", 4),
    ("srcfail", 5),
    ("net-unknown", 6),
    ("host-unknown", 7),
    ("isolated", 8),
    ("net-prohib", 9),
    ("host-prohib", 10),
    ("tosnet", 11),
    ("toshost", 12),
    ("filter-prohib", 13),
    ("host-precedence", 14),
    ("precedence-cutoff", 15),
];

/// Codes of ICMPv6's destination unreachable (RFC 4443, section 3.1), by ipfw's names.
pub const UNREACH6: &[(&str, u8)] = &[("no-route", 0), ("admin-prohib", 1), ("address", 3), ("port", 4)];

/// TCP's control bits.
pub const TCP_FLAGS: &[(&str, u8)] = &[("fin", 0x01), ("syn", 0x02), ("rst", 0x04), ("psh", 0x08), ("ack", 0x10), ("urg", 0x20)];

/// Ports by the names that scripts use (the registry "Service Name and Transport Protocol Port Number"). They are printed as numbers.
pub const SERVICES: &[(&str, u16)] = &[
    ("ftp-data", 20),
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("tftp", 69),
    ("http", 80),
    ("pop3", 110),
    ("auth", 113),
    ("nntp", 119),
    ("ntp", 123),
    ("netbios-ns", 137),
    ("netbios-dgm", 138),
    ("netbios-ssn", 139),
    ("imap", 143),
    ("snmp", 161),
    ("snmptrap", 162),
    ("bgp", 179),
    ("ldap", 389),
    ("https", 443),
    ("microsoft-ds", 445),
    ("syslog", 514),
    ("ntalk", 518),
    ("imaps", 993),
    ("pop3s", 995),
    ("nfsd", 2049),
    ("mysql", 3306),
];

/// The number that a list has for a name.
pub fn number<N: Copy>(list: &[(&str, N)], name: &str) -> Option<N> {
    list.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}
