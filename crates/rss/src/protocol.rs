//! What stands above IP.

use std::fmt;

/// Number of a protocol above IP (RFC 790; the registry "Protocol Numbers"). Written as `tcp`, `udp` or the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    /// Transmission control protocol (RFC 9293).
    pub const TCP: Self = Self(6);
    /// User datagram protocol (RFC 768).
    pub const UDP: Self = Self(17);
}

/// What a port is for: a service's sockets are of one of these, while packets may be of any [`Protocol`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Connections.
    Tcp,
    /// Datagrams.
    Udp,
}

impl From<Transport> for Protocol {
    fn from(transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::TCP,
            Transport::Udp => Self::UDP,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TCP => f.write_str("tcp"),
            Self::UDP => f.write_str("udp"),
            Self(number) => write!(f, "{number}"),
        }
    }
}
