//! The plain loop: level-triggered epoll, one hot buffer, one recv and one send an event.
//!
//! A connection that cannot take its echo keeps the rest and is not read from again until the rest has left.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use corelane_peers::{Protocol, arguments_for, listener, ready};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

const EVENTS_PER_WAIT: usize = 256;

struct Connection {
    stream: TcpStream,
    /// The part of an echo that the socket did not take; empty nearly always, and then it owns no memory.
    unsent: Vec<u8>,
}

/// What one event leaves behind.
enum After {
    Read,
    Write,
    Close,
}

struct Server {
    epoll: Epoll,
    listener: TcpListener,
    /// By descriptor number.
    connections: Vec<Option<Connection>>,
    buffer: Vec<u8>,
}

fn main() -> io::Result<()> {
    let arguments = arguments_for(Protocol::Tcp)?;
    let mut server = Server::new(listener(arguments.address)?, arguments.buffer_bytes)?;
    ready()?;
    let mut events = [EpollEvent::empty(); EVENTS_PER_WAIT];
    loop {
        let count = server.epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..count] {
            server.handle(event.data() as usize)?;
        }
    }
}

impl Server {
    fn new(listener: TcpListener, buffer_bytes: usize) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        epoll.add(&listener, interest(EpollFlags::EPOLLIN, listener.as_raw_fd()))?;
        Ok(Self { epoll, listener, connections: Vec::new(), buffer: vec![0; buffer_bytes] })
    }

    fn handle(&mut self, number: usize) -> io::Result<()> {
        if number == self.listener.as_raw_fd() as usize {
            return self.accept();
        }
        let Some(connection) = self.connections.get_mut(number).and_then(Option::as_mut) else {
            return Ok(());
        };
        let waited = !connection.unsent.is_empty();
        match connection.serve(&mut self.buffer) {
            After::Read if !waited => Ok(()),
            After::Write if waited => Ok(()),
            After::Read => self.rearm(number, EpollFlags::EPOLLIN),
            After::Write => self.rearm(number, EpollFlags::EPOLLOUT),
            After::Close => {
                self.connections[number] = None;
                Ok(())
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let number = stream.as_raw_fd();
            self.epoll.add(&stream, interest(EpollFlags::EPOLLIN, number))?;
            let number = number as usize;
            if self.connections.len() <= number {
                self.connections.resize_with(number + 1, || None);
            }
            self.connections[number] = Some(Connection { stream, unsent: Vec::new() });
        }
    }

    fn rearm(&self, number: usize, flags: EpollFlags) -> io::Result<()> {
        let Some(connection) = &self.connections[number] else {
            return Ok(());
        };
        let mut event = interest(flags, connection.stream.as_raw_fd());
        Ok(self.epoll.modify(&connection.stream, &mut event)?)
    }
}

impl Connection {
    fn serve(&mut self, buffer: &mut [u8]) -> After {
        if self.unsent.is_empty() {
            return self.echo(buffer);
        }
        match self.stream.write(&self.unsent) {
            Ok(sent) => {
                self.unsent.drain(..sent);
                if self.unsent.is_empty() {
                    self.unsent = Vec::new();
                    return After::Read;
                }
                After::Write
            }
            Err(error) => after_error(&error, After::Write),
        }
    }

    fn echo(&mut self, buffer: &mut [u8]) -> After {
        let received = match self.stream.read(buffer) {
            Ok(0) => return After::Close,
            Ok(received) => received,
            Err(error) => return after_error(&error, After::Read),
        };
        let sent = match self.stream.write(&buffer[..received]) {
            Ok(sent) => sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => return After::Close,
        };
        if sent == received {
            return After::Read;
        }
        self.unsent = buffer[sent..received].to_vec();
        After::Write
    }
}

fn after_error(error: &io::Error, retry: After) -> After {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => retry,
        _ => After::Close,
    }
}

fn interest(flags: EpollFlags, number: i32) -> EpollEvent {
    EpollEvent::new(flags, number as u64)
}
