//! A connection as hyper reads and writes it.

use crate::course::Course;
use crate::heads::Look;
use corelane::aio::{self, Connection};
use hyper::rt::{Read, ReadBufCursor, Write};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A connection for hyper. Input is copied once, from the lane's memory into hyper's buffer; what hyper writes is copied once into the lane's, and leaves
/// with the turn. Dropped, the connection is closed behind that.
#[derive(Debug)]
pub struct Io {
    connection: Rc<Connection>,
    /// None where nobody asks here.
    course: Option<Rc<Course>>,
}

impl Io {
    /// hyper's side of this connection.
    pub fn new(connection: Rc<Connection>) -> Self {
        Self { connection, course: None }
    }

    /// That of a server, which takes note of what its client says.
    pub(crate) fn of(connection: Rc<Connection>, course: Rc<Course>) -> Self {
        Self { connection, course: Some(course) }
    }

    /// Waits until something of what has come may be handed over; returns how many bytes. None: the stream has ended.
    fn poll_free(&self, context: &mut Context<'_>) -> Poll<aio::Result<usize>> {
        let Some(course) = &self.course else {
            ready!(self.connection.poll_fill(context, 1))?;
            return Poll::Ready(Ok(usize::MAX));
        };
        loop {
            match self.connection.input(|input| course.look(input)) {
                Look::Pass(bytes) => return Poll::Ready(Ok(bytes)),
                Look::Await(bytes) => {
                    // One byte is waited for where nothing has come.
                    if bytes > 1 {
                        course.be_amid_head(true);
                    }
                    if !ready!(self.connection.poll_fill(context, bytes))? {
                        return Poll::Ready(Ok(self.connection.input(|input| course.pass_all(input))));
                    }
                }
            }
        }
    }

    /// Writes one slice; returns how many bytes of it.
    fn write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<aio::Result<usize>> {
        let written = ready!(self.connection.poll_write(context, bytes))?;
        self.course.iter().for_each(|course| course.say(&bytes[..written]));
        Poll::Ready(Ok(written))
    }
}

impl Read for Io {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let free = ready!(self.poll_free(context)).map_err(told)?;
        let course = self.course.as_deref();
        let heard = self.connection.input(|input| {
            let (mut heard, mut left) = (None, free);
            while buffer.remaining() > 0 && left > 0 && !input.is_empty() {
                let bytes = input.first().len().min(buffer.remaining()).min(left);
                buffer.put_slice(&input.first()[..bytes]);
                heard = course.map(|course| heard.unwrap_or(0) + course.pass(&input.first()[..bytes]));
                input.skip(bytes);
                left -= bytes;
            }
            heard
        });
        if let Some((course, heard)) = course.zip(heard) {
            course.hear(heard);
        }
        Poll::Ready(Ok(()))
    }
}

impl Write for Io {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.write(context, bytes).map_err(told)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(self: Pin<&mut Self>, context: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut written = 0;
        for slice in slices.iter().filter(|slice| !slice.is_empty()) {
            let bytes = match self.write(context, slice) {
                Poll::Ready(Ok(bytes)) => bytes,
                // The part that was written counts; for the rest hyper asks again.
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

    /// Bytes that were written leave with the turn.
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
