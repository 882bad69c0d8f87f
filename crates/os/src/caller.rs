//! A connection from a chosen end, for programs that have no lanes.

use crate::sockets;
use corelane_seam::{Fault, StreamOptions};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

/// Opens a connection from `from`, port and all, to `to`, which blocks from then on.
///
/// # Errors
/// `AddrInUse` and `AddrNotAvailable` where the end is taken, or not ours; `TimedOut` after `patience`; what else the system says
/// (connect(2)).
pub fn connect_from(from: SocketAddr, to: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let error_of = |fault: Fault| io::Error::from_raw_os_error(fault.number);
    let stream =
        TcpStream::from(sockets::connecting(&to.into(), Some(&from.into()), &StreamOptions::default()).map_err(error_of)?);
    stream.set_nonblocking(false)?;
    // It bounds connect(2), too (SO_SNDTIMEO, socket(7)).
    stream.set_write_timeout(Some(patience))?;
    match sockets::connect(stream.as_fd(), &to.into()).map_err(error_of)? {
        true => Ok(stream),
        false => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::network::alone;
    use std::io::ErrorKind;
    use std::net::TcpListener;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn a_connection_has_the_end_that_was_chosen() {
        // No child of this process has a copy of what is closed here.
        let _alone = alone();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        // An address that no other test uses, and a port that is free there.
        let from = TcpListener::bind("127.0.0.11:0").unwrap().local_addr().unwrap();
        let stream = connect_from(from, to, PATIENCE).unwrap();
        assert_eq!((stream.local_addr().unwrap(), listener.accept().unwrap().1), (from, from));
        let again = connect_from(from, to, PATIENCE).unwrap_err().kind();
        assert!(matches!(again, ErrorKind::AddrInUse | ErrorKind::AddrNotAvailable), "{again}");
        let foreign = connect_from("192.0.2.1:7".parse().unwrap(), to, PATIENCE).unwrap_err();
        assert_eq!(foreign.kind(), ErrorKind::AddrNotAvailable);
        drop(listener);
        let refused = connect_from("127.0.0.11:0".parse().unwrap(), to, PATIENCE).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    }
}
