//! Close to the limit for datagrams: whole trains in with `UDP_GRO` and out again with `UDP_SEGMENT` (udp(7)).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use corelane_peers::{Protocol, arguments_for, datagram_socket, ready};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt};

/// What one receive brought.
struct Train {
    bytes: usize,
    peer: SockaddrStorage,
    /// Bytes of each datagram of the train; absent for a datagram that came alone.
    segment_bytes: Option<u16>,
}

fn main() -> io::Result<()> {
    let arguments = arguments_for(Protocol::Udp)?;
    let socket = datagram_socket(arguments.address)?;
    setsockopt(&socket, sockopt::UdpGroSegment, &true)?;
    ready()?;
    let mut buffer = vec![0; arguments.buffer_bytes];
    let mut control = cmsg_space!(i32);
    loop {
        match receive(&socket, &mut buffer, &mut control) {
            Ok(Some(train)) => echo(&socket, &buffer, &train),
            // A peer that is gone answers an earlier echo with ICMP; that is no reason to stop.
            Ok(None) | Err(Errno::ECONNREFUSED) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn receive(socket: &UdpSocket, buffer: &mut [u8], control: &mut [u8]) -> nix::Result<Option<Train>> {
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(control), MsgFlags::empty())?;
    let segment_bytes = message.cmsgs()?.find_map(|part| match part {
        ControlMessageOwned::UdpGroSegments(bytes) => u16::try_from(bytes).ok(),
        _ => None,
    });
    let bytes = message.bytes;
    Ok(message.address.map(|peer| Train { bytes, peer, segment_bytes }))
}

fn echo(socket: &UdpSocket, buffer: &[u8], train: &Train) {
    let parts = [IoSlice::new(&buffer[..train.bytes])];
    let segments = train.segment_bytes.as_ref().map(ControlMessage::UdpGsoSegments);
    // A datagram may be lost, here as anywhere on its way.
    let _ = sendmsg(socket.as_raw_fd(), &parts, segments.as_slice(), MsgFlags::empty(), Some(&train.peer));
}
