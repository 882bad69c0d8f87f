//! The questions to a server whose instructions are counted, and the things that it needs beside it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::behind::{Behind, Way};
use crate::load;
use crate::server::free_address;
use crate::web::Folder;

/// The question of one request.
#[derive(Clone, Copy)]
pub enum Asks {
    /// An echo of so many bytes on a connection.
    Stream(usize),
    /// The same, each on a connection of its own.
    Anew(usize),
    /// The same, each in a datagram.
    Datagram(usize),
    /// A call of the null procedure, on a connection.
    Call,
    /// A file of so many bytes.
    File(usize),
    /// An echo of so many bytes, by a server behind it.
    Passed(usize),
    /// A file of so many bytes that a server behind it has.
    Forwarded(usize),
}

/// How long an answer may take: a program under callgrind is some fifty times slower.
const PATIENCE: Duration = Duration::from_secs(30);

/// Things that the counted server needs: files, or a server behind it. Nobody counts those.
pub enum Beside {
    Nothing,
    Files(Folder),
    Server(Behind),
}

impl Beside {
    /// Prepares all that a server needs for this question; `program` serves behind it.
    ///
    /// # Errors
    /// When it does not start, or its files cannot be written.
    pub fn start(asks: Asks, program: &Path) -> Result<Self> {
        let behind = |way, bytes| {
            let mut last = None;
            let mut behind = Behind::start(program, [free_address(&mut last)?, free_address(&mut last)?], &[bytes])?;
            behind.way = way;
            Ok(Self::Server(behind))
        };
        match asks {
            Asks::File(bytes) => Ok(Self::Files(Folder::with_files(&[bytes])?)),
            Asks::Passed(bytes) => behind(Way::Bytes, bytes),
            Asks::Forwarded(bytes) => behind(Way::Http, bytes),
            Asks::Stream(_) | Asks::Anew(_) | Asks::Datagram(_) | Asks::Call => Ok(Self::Nothing),
        }
    }

    /// The service that is to be at `address`.
    pub fn place(&self, asks: Asks, address: SocketAddr) -> String {
        match (self, asks) {
            (Self::Files(folder), _) => format!("http=http://{address}?root={}", folder.files().display()),
            (Self::Server(behind), Asks::Passed(_)) => behind.place(load::Asks::Echo, address),
            (Self::Server(behind), _) => behind.place(load::Asks::Get(load::Page::File), address),
            (Self::Nothing, Asks::Datagram(_)) => format!("echo=udp://{address}"),
            (Self::Nothing, Asks::Call) => format!("rpc=tcp://{address}"),
            (Self::Nothing, _) => format!("echo=tcp://{address}"),
        }
    }
}

impl Asks {
    /// Asks the server at `address` in so many rounds, with `depth` requests together.
    ///
    /// # Errors
    /// When it cannot be reached, is silent, or answers wrongly.
    pub fn ask(self, address: SocketAddr, depth: usize, rounds: usize) -> Result<()> {
        match self {
            Self::Datagram(bytes) => ask_datagrams(address, bytes, rounds),
            Self::Anew(bytes) => (0..rounds).try_for_each(|_| Self::Stream(bytes).ask(address, depth, 1)),
            Self::File(bytes) | Self::Forwarded(bytes) => ask_files(connect(address)?, bytes, depth, rounds),
            Self::Stream(bytes) | Self::Passed(bytes) => {
                let echo = vec![b'x'; bytes];
                let answers = converse(&mut connect(address)?, &echo, bytes, depth, rounds)?;
                ensure!(answers == echo.repeat(depth), "an echo is another");
                Ok(())
            }
            Self::Call => {
                let answers = converse(&mut connect(address)?, &null_call(), REPLY_BYTES, depth, rounds)?;
                ensure!(answers.ends_with(&[0; 4]), "a call was not carried out: {answers:?}");
                Ok(())
            }
        }
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).context("connecting")?;
    stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(PATIENCE))).context("a connection's settings")?;
    Ok(stream)
}

/// Sends a request `depth` times together and waits for all answers, in so many rounds; returns the last round's answers.
fn converse(stream: &mut TcpStream, request: &[u8], answer_bytes: usize, depth: usize, rounds: usize) -> Result<Vec<u8>> {
    let (requests, mut answers) = (request.repeat(depth), vec![0; answer_bytes * depth]);
    for _ in 0..rounds {
        stream.write_all(&requests).context("asking")?;
        stream.read_exact(&mut answers).context("its answers")?;
    }
    Ok(answers)
}

/// Asks for a file; the first answer, which nobody counts apart, tells how long all are.
fn ask_files(mut stream: TcpStream, bytes: usize, depth: usize, rounds: usize) -> Result<()> {
    const GOOD: &[u8] = b"HTTP/1.1 200 ";
    let request = format!("GET /{bytes} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).context("asking for the first time")?;
    let mut first = BufReader::new(&stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(first.read_line(&mut head).context("the first answer")? > 0, "an answer ends within its head: {head}");
    }
    first.read_exact(&mut vec![0; bytes]).context("the first answer")?;
    let answers = converse(&mut stream, request.as_bytes(), head.len() + bytes, depth, rounds)?;
    let all_are_good = answers.chunks(head.len() + bytes).all(|answer| answer.starts_with(GOOD));
    ensure!(all_are_good, "an answer is no 200, or not as long as the first: {head}");
    Ok(())
}

fn ask_datagrams(address: SocketAddr, bytes: usize, rounds: usize) -> Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").context("a socket")?;
    socket.connect(address).and_then(|()| socket.set_read_timeout(Some(PATIENCE))).context("its settings")?;
    let (request, mut answer) = (vec![b'x'; bytes], vec![0; bytes + 1]);
    for _ in 0..rounds {
        socket.send(&request).context("asking")?;
        let length = socket.recv(&mut answer).context("its answer")?;
        ensure!(answer[..length] == request, "an echo is another");
    }
    Ok(())
}

/// A record with an accepted reply without results (RFC 5531 sections 9 and 11).
const REPLY_BYTES: usize = 4 + 24;

/// A record with a call of procedure 0 of NFS version 3, which every server of a program has.
fn null_call() -> Vec<u8> {
    const LAST_FRAGMENT: u32 = 1 << 31;
    let words: [u32; 11] = [LAST_FRAGMENT | 40, 1, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_one_record() {
        let call = null_call();
        assert_eq!((call.len(), &call[..4]), (44, &[0x80, 0, 0, 40][..]));
    }
}
