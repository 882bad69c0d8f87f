//! One end of a flow, as it is written.

use anyhow::{Result, anyhow};
use std::net::{IpAddr, SocketAddr};

/// One end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub address: IpAddr,
    /// None if none was given.
    pub port: Option<u16>,
}

/// Reads ADDRESS or ADDRESS:PORT; an IPv6 address with a port stands in brackets.
pub fn end(text: &str) -> Result<End> {
    let bare = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    let with_port = || text.parse().ok().map(|socket: SocketAddr| End { address: socket.ip(), port: Some(socket.port()) });
    let address: Option<IpAddr> = text.parse().ok().or_else(bare);
    let end = address.map(|address| End { address, port: None }).or_else(with_port);
    end.ok_or_else(|| anyhow!("{text:?} is not an address: write 10.0.0.1, 10.0.0.1:80, 2001:db8::1 or [2001:db8::1]:80"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_with_and_without_ports() {
        let read = |text| end(text).map(|end| (end.address.to_string(), end.port)).ok();
        assert_eq!(read("10.0.0.1"), Some(("10.0.0.1".into(), None)));
        assert_eq!(read("10.0.0.1:0"), Some(("10.0.0.1".into(), Some(0))));
        assert_eq!(read("2001:db8::1"), Some(("2001:db8::1".into(), None)));
        assert_eq!(read("[2001:db8::1]"), Some(("2001:db8::1".into(), None)));
        assert_eq!(read("[2001:db8::1]:65535"), Some(("2001:db8::1".into(), Some(65535))));
        for bad in ["", "10.0.0", "10.0.0.1:", "10.0.0.1:65536", "10.0.0.1:-1", "[10.0.0.1]", "[::1", "host:80", "::1:80:90000"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
