//! compio on io_uring: one task and one buffer a connection.

use std::io;

use compio::BufResult;
use compio::buf::{IntoInner, IoBuf};
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::{TcpListener, TcpStream};
use compio::runtime::{Runtime, spawn};
use corelane_peers::{BUFFER_BYTES, Protocol, arguments, listener, not_spoken, ready};

fn main() -> io::Result<()> {
    let (protocol, address) = arguments()?;
    if protocol != Protocol::Tcp {
        return Err(not_spoken(protocol));
    }
    let runtime = Runtime::new()?;
    if !runtime.driver_type().is_iouring() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring is refused here"));
    }
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener(address)?)?;
        ready()?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // A connection that fails concerns nobody but its client.
            spawn(async { drop(echo(stream).await) }).detach();
        }
    })
}

async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    loop {
        buffer.clear();
        let BufResult(received, filled) = stream.read(buffer).await;
        if received? == 0 {
            return Ok(());
        }
        let BufResult(sent, slice) = stream.write_all(filled.slice(..)).await;
        sent?;
        buffer = slice.into_inner();
    }
}
