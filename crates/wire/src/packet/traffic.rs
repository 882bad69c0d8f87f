//! The traffic class of a packet: how it is to be treated, and whether it met congestion.

/// Code point of explicit congestion notification (RFC 3168, section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not understand it.
    NotCapable = 0,
    /// It does, ECT(1).
    CapableOne = 1,
    /// It does, ECT(0).
    CapableZero = 2,
    /// Congestion was met.
    Congested = 3,
}

/// The eight bits of IPv4's type of service and of IPv6's traffic class (RFC 2474, RFC 3168): each value is legal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Traffic(pub u8);

impl Traffic {
    /// The code point of differentiated services, 0 to 63.
    #[must_use]
    pub const fn services(self) -> u8 {
        self.0 >> 2
    }

    /// The code point of congestion.
    #[must_use]
    pub const fn ecn(self) -> Ecn {
        match self.0 & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::CapableOne,
            2 => Ecn::CapableZero,
            _ => Ecn::Congested,
        }
    }

    /// The same with another code point of congestion.
    #[must_use]
    pub const fn with_ecn(self, ecn: Ecn) -> Self {
        Self(self.0 & !3 | ecn as u8)
    }
}
