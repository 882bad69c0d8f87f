//! glommio on io_uring: one task and one buffer a connection.

use std::io;

use corelane_peers::{Arguments, Protocol, arguments_for, ready};
use futures_lite::{AsyncReadExt, AsyncWriteExt};
use glommio::net::{TcpListener, TcpStream};
use glommio::{LocalExecutorBuilder, Placement};

/// Memory that its rings may lock; the limit of a user's processes is often 8 MiB.
const IO_MEMORY_BYTES: usize = 1024 * 1024;

fn main() -> io::Result<()> {
    let arguments = arguments_for(Protocol::Tcp)?;
    let executor = LocalExecutorBuilder::new(Placement::Unbound).io_memory(IO_MEMORY_BYTES).make()?;
    executor.run(serve(arguments))
}

async fn serve(arguments: Arguments) -> io::Result<()> {
    // It listens by itself, with the backlog of the other peers.
    let listener = TcpListener::bind(arguments.address)?;
    ready()?;
    loop {
        let stream = listener.accept().await?;
        stream.set_nodelay(true)?;
        // A connection that fails concerns nobody but its client.
        glommio::spawn_local(async move { drop(echo(stream, arguments.buffer_bytes).await) }).detach();
    }
}

corelane_peers::echo!(TcpStream);
