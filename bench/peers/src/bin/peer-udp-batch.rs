//! The datagram loop of batches: one recvmmsg(2) for all that has arrived, as far as there are buffers, and one sendmmsg(2) for
//! their echoes.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, RawFd};

use corelane_peers::{Protocol, arguments_for, datagram_socket, ready};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg, sendmmsg};

/// Datagrams of a batch, as in the batches of the server under test.
const BATCH: usize = 64;

struct Server {
    socket: RawFd,
    /// One for each datagram of a batch.
    buffers: Vec<Vec<u8>>,
    received: MultiHeaders<SockaddrStorage>,
    sent: MultiHeaders<SockaddrStorage>,
    /// Of the batch that was received: bytes of each datagram, and whose it is.
    lengths: Vec<usize>,
    peers: Vec<Option<SockaddrStorage>>,
}

fn main() -> io::Result<()> {
    let arguments = arguments_for(Protocol::Udp)?;
    let socket = datagram_socket(arguments.address)?;
    let mut server = Server::new(socket.as_raw_fd(), arguments.buffer_bytes);
    ready()?;
    loop {
        match server.receive() {
            Ok(()) => server.echo(),
            // A peer that is gone answers an earlier echo with ICMP; that is no reason to stop.
            Err(Errno::ECONNREFUSED) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Server {
    fn new(socket: RawFd, buffer_bytes: usize) -> Self {
        Self {
            socket,
            buffers: vec![vec![0; buffer_bytes]; BATCH],
            received: MultiHeaders::preallocate(BATCH, None),
            sent: MultiHeaders::preallocate(BATCH, None),
            lengths: Vec::with_capacity(BATCH),
            peers: Vec::with_capacity(BATCH),
        }
    }

    /// Waits for one datagram, and takes what else has arrived.
    fn receive(&mut self) -> nix::Result<()> {
        self.lengths.clear();
        self.peers.clear();
        let mut parts: Vec<_> = self.buffers.iter_mut().map(|buffer| [IoSliceMut::new(buffer)]).collect();
        let batch = recvmmsg(self.socket, &mut self.received, parts.iter_mut(), MsgFlags::MSG_WAITFORONE, None)?;
        for datagram in batch {
            self.lengths.push(datagram.bytes);
            self.peers.push(datagram.address);
        }
        Ok(())
    }

    fn echo(&mut self) {
        let mut first = 0;
        while first < self.lengths.len() {
            let parts: Vec<_> = self
                .buffers
                .iter()
                .zip(&self.lengths)
                .skip(first)
                .map(|(buffer, &length)| [IoSlice::new(&buffer[..length])])
                .collect();
            let sent = sendmmsg(self.socket, &mut self.sent, parts.iter(), &self.peers[first..], [], MsgFlags::empty());
            // The one that is refused is lost, as a datagram may be here as anywhere on its way.
            first += sent.map_or(1, |sent| sent.count().max(1));
        }
    }
}
