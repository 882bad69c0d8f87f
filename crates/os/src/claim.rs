//! Whether a port is free before lanes share it.
//!
//! With SO_REUSEPORT a second process can listen on the port of a first without a word, and takes half of its
//! connections. So the port is first asked for *without* sharing.

use crate::sockets;
use corelane_rss::Transport;
use corelane_seam::{Address, Bind, Fault, Listen, Reason, StreamOptions};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a port may take to become free: the kernel ends the ring of a process that was killed, and with it the sockets
/// on which that waits, only after the process is gone.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

/// An address that can be listened on: nobody else gets its port as long as this lives, and nobody can share it.
#[derive(Debug)]
pub struct Claim {
    /// With the port that the system has chosen, if it was asked to.
    pub address: Address,
    _socket: OwnedFd,
}

/// Finds out that `address` can be listened on, and which port the system chooses for port 0. With
/// `join`, another process that shares the port is welcome. A port in use is asked for again for up to a second.
///
/// # Errors
/// `AddressInUse` if somebody else serves the port, `Permission`, `AddressUnknown`, and others of bind(2).
pub fn claim(transport: Transport, address: &Address, v6_only: bool, join: bool) -> Result<Claim, Fault> {
    assert!(address.inet().is_some(), "a port is claimed; a Unix name is taken, and kept (`NamedSocket`)");
    let give_up = Instant::now() + PATIENCE;
    loop {
        match attempt(transport, address, v6_only, join) {
            Err(fault) if fault.reason == Reason::AddressInUse && Instant::now() < give_up => sleep(PAUSE),
            other => return other,
        }
    }
}

fn attempt(transport: Transport, address: &Address, v6_only: bool, join: bool) -> Result<Claim, Fault> {
    let socket = match transport {
        Transport::Tcp => {
            let address = address.clone();
            sockets::listen(&Listen { address, backlog: 1, share_port: join, v6_only, stream: StreamOptions::default() })?
        }
        Transport::Udp => {
            let address = address.clone();
            let bind = Bind { address, peer: None, share_port: join, v6_only, receive_buffer_bytes: 0, send_buffer_bytes: 0 };
            sockets::bind(&bind, false)?
        }
    };
    let claimed = sockets::local_address(socket.as_fd())?;
    assert!(
        claimed.port() != 0 && (address.port() == 0 || claimed.port() == address.port()),
        "the port asked for, or a chosen one"
    );
    Ok(Claim { address: claimed, _socket: socket })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::network::alone;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn a_served_port_is_refused() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        for (transport, address) in
            [(Transport::Tcp, tcp.local_addr().unwrap().into()), (Transport::Udp, udp.local_addr().unwrap().into())]
        {
            let refused = claim(transport, &address, false, false).unwrap_err();
            assert_eq!(refused.reason, Reason::AddressInUse, "{transport:?}");
        }
    }

    #[test]
    fn a_free_port_is_named_and_left_free() {
        // No child of this process has a copy of what is closed here.
        let _alone = alone();
        let claim = claim(Transport::Tcp, &"[::1]:0".parse().unwrap(), false, false).unwrap();
        let address = claim.address.inet().unwrap();
        assert_ne!(address.port(), 0);
        assert!(TcpListener::bind(address).is_err());
        drop(claim);
        assert!(TcpListener::bind(address).is_ok());
    }
}
