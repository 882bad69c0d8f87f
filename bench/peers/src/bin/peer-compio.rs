//! compio on io_uring: one task and one buffer a connection.

use std::io;

use compio::BufResult;
use compio::buf::{IntoInner, IoBuf};
use compio::io::{AsyncRead, AsyncWriteExt};
use compio::net::{TcpListener, TcpStream};
use compio::runtime::{Runtime, spawn};
use corelane_peers::{Protocol, arguments_for, listener, ready};

fn main() -> io::Result<()> {
    let arguments = arguments_for(Protocol::Tcp)?;
    let runtime = Runtime::new()?;
    if !runtime.driver_type().is_iouring() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "io_uring is refused here"));
    }
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener(arguments.address)?)?;
        ready()?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // A connection that fails concerns nobody but its client.
            spawn(async move { drop(echo(stream, arguments.buffer_bytes).await) }).detach();
        }
    })
}

async fn echo(mut stream: TcpStream, buffer_bytes: usize) -> io::Result<()> {
    let mut buffer = Vec::with_capacity(buffer_bytes);
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
