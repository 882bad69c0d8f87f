//! monoio on io_uring: one task and one buffer a connection.

use std::io;

use corelane_peers::{BUFFER_BYTES, Protocol, arguments, listener, not_spoken, ready};
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, TcpStream};
use monoio::{IoUringDriver, RuntimeBuilder};

fn main() -> io::Result<()> {
    let (protocol, address) = arguments()?;
    if protocol != Protocol::Tcp {
        return Err(not_spoken(protocol));
    }
    let mut runtime = RuntimeBuilder::<IoUringDriver>::new().build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener(address)?)?;
        ready()?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // A connection that fails concerns nobody but its client.
            monoio::spawn(async { drop(echo(stream).await) });
        }
    })
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        let (received, filled) = stream.read(buffer).await;
        if received? == 0 {
            return Ok(());
        }
        let (sent, filled) = stream.write_all(filled).await;
        sent?;
        buffer = filled;
    }
}
