//! Kinds of tunnels, which of them are opened, and what is counted of each.

/// A kind of tunnel. Any key of GRE and any network of VXLAN is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tunnel {
    /// GRE (RFC 2784, RFC 2890), around packets or frames.
    Gre,
    /// IPv4 in IP (RFC 2003, RFC 2473).
    IpInIp,
    /// IPv6 in IP: 6in4 (RFC 4213), or in IPv6 (RFC 2473).
    Ipv6InIp,
    /// VXLAN (RFC 7348), at the port that is its own.
    Vxlan,
}

impl Tunnel {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Gre, Self::IpInIp, Self::Ipv6InIp, Self::Vxlan];

    /// How it is written: `gre`, `ipip`, `6in4`, `vxlan`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gre => "gre",
            Self::IpInIp => "ipip",
            Self::Ipv6InIp => "6in4",
            Self::Vxlan => "vxlan",
        }
    }

    /// The kind with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tunnel| tunnel.name() == name)
    }
}

/// What was counted of a kind of tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TunnelCounts {
    /// Packets whose inner packet went on.
    pub opened: u64,
    /// Packets that were dropped with what they carried: from a stranger, damaged within, for somebody else, or in too many tunnels.
    pub dropped: u64,
}
