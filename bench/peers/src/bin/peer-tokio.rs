//! tokio, on its current-thread runtime where there is one CPU for it, and else on its runtime with a thread for each CPU: one task and one buffer a connection.

use std::io;

use corelane_peers::{Arguments, Protocol, arguments, datagram_socket, listener, ready};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::net::{TcpListener, TcpStream, UdpSocket};

fn main() -> io::Result<()> {
    let arguments = arguments()?;
    let is_alone = std::thread::available_parallelism()?.get() == 1;
    let mut runtime = if is_alone { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let runtime = runtime.enable_io().build()?;
    runtime.block_on(async {
        match arguments.protocol {
            Protocol::Tcp => serve_streams(arguments).await,
            Protocol::Udp => serve_datagrams(arguments).await,
        }
    })
}

async fn serve_streams(arguments: Arguments) -> io::Result<()> {
    let listener = listener(arguments.address)?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    ready()?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        // A connection that fails concerns nobody but its client.
        tokio::spawn(async move { drop(echo(stream, arguments.buffer_bytes).await) });
    }
}

corelane_peers::echo!(TcpStream);

async fn serve_datagrams(arguments: Arguments) -> io::Result<()> {
    let socket = datagram_socket(arguments.address)?;
    socket.set_nonblocking(true)?;
    let socket = UdpSocket::from_std(socket)?;
    ready()?;
    let mut buffer = vec![0; arguments.buffer_bytes];
    loop {
        let (length, peer) = match socket.recv_from(&mut buffer).await {
            Ok(datagram) => datagram,
            // A peer that is gone answers an earlier echo with ICMP; that is no reason to stop.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            Err(error) => return Err(error),
        };
        // A datagram may be lost, here as anywhere on its way.
        let _ = socket.send_to(&buffer[..length], peer).await;
    }
}
