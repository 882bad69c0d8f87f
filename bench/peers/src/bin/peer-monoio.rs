//! monoio on io_uring: one task and one buffer a connection.

use std::io;

use corelane_peers::{Protocol, arguments_for, listener, ready};
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::{TcpListener, TcpStream};
use monoio::{IoUringDriver, RuntimeBuilder};

fn main() -> io::Result<()> {
    let arguments = arguments_for(Protocol::Tcp)?;
    let mut runtime = RuntimeBuilder::<IoUringDriver>::new().build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener(arguments.address)?)?;
        ready()?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // A connection that fails concerns nobody but its client.
            monoio::spawn(async move { drop(echo(stream, arguments.buffer_bytes).await) });
        }
    })
}

async fn echo(mut stream: TcpStream, buffer_bytes: usize) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(buffer_bytes);
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
