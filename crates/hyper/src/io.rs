//! A connection as hyper reads and writes it.

use corelane::aio::{self, Connection};
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A connection for hyper. What has come is copied once, from the lane's memory into hyper's buffer; what hyper writes is copied once into the lane's, and leaves
/// with the turn. Dropped, the connection is closed behind that.
#[derive(Debug)]
pub struct Io(Rc<Connection>);

impl Io {
    /// hyper's side of this connection.
    pub fn new(connection: Rc<Connection>) -> Self {
        Self(connection)
    }
}

impl Read for Io {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        ready!(self.0.poll_fill(context, 1)).map_err(told)?;
        self.0.input(|input| {
            while buffer.remaining() > 0 && !input.is_empty() {
                let bytes = input.first().len().min(buffer.remaining());
                buffer.put_slice(&input.first()[..bytes]);
                input.skip(bytes);
            }
        });
        Poll::Ready(Ok(()))
    }
}

impl Write for Io {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write(context, bytes).map_err(told)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut written = 0;
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            let bytes = match self.0.poll_write(context, slice) {
                Poll::Ready(Ok(bytes)) => bytes,
                // What was written counts; for the rest hyper asks again.
                _ if written > 0 => break,
                outcome => return outcome.map_err(told),
            };
            assert!(bytes > 0 && bytes <= slice.len(), "a write that is ready has taken some of its bytes");
            written += bytes;
            if bytes < slice.len() {
                break;
            }
        }
        Poll::Ready(Ok(written))
    }

    /// What was written leaves with the turn.
    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Our side finishes behind what was written when the connection is dropped, which is next.
    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn told(error: aio::Error) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}
