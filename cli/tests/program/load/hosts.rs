//! Servers that do what they should not.

use super::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

/// A server whose connections are each treated by a thread of their own. It is gone when dropped.
pub struct Host {
    pub address: SocketAddr,
    /// Connections so far.
    pub accepts: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Listens, and treats each connection as `treat` does.
    pub fn start(treat: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (accepts, stop, treat) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)), Arc::new(treat));
        let (accepted, stopped) = (accepts.clone(), stop.clone());
        let thread = thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                accepted.fetch_add(1, Ordering::Relaxed);
                patient(&stream);
                let treat = treat.clone();
                thread::spawn(move || treat(stream));
            }
        });
        Self { address, accepts, stop, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        url(self.address)
    }

    pub fn accepted(&self) -> u64 {
        self.accepts.load(Ordering::Relaxed)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address); // the last one: it wakes the listener
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

/// Reads and throws away until the peer's end.
pub fn swallow(mut stream: TcpStream) {
    let mut bytes = [0; 65_536];
    while stream.read(&mut bytes).is_ok_and(|length| length > 0) {}
}

/// Answers each request of HTTP that has no content with `answer`, until the peer's end.
pub fn answering(answer: &'static str) -> impl Fn(TcpStream) + Send + Sync + 'static {
    move |stream| {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        while lines.by_ref().any(|line| line.is_empty()) {
            if (&stream).write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Datagrams that are answered by a rule. It is gone when dropped.
pub struct Post {
    pub address: SocketAddr,
    /// Datagrams so far.
    pub arrivals: Arc<AtomicU64>,
    socket: UdpSocket,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Post {
    /// Answers each datagram with what `rule` makes of it, given its number from 1 on.
    pub fn start(mut rule: impl FnMut(u64, &[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (address, receiver) = (socket.local_addr().unwrap(), socket.try_clone().unwrap());
        let (arrivals, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (arrived, stopped) = (arrivals.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let mut bytes = vec![0; 65_536];
            while let Ok((length, peer)) = receiver.recv_from(&mut bytes) {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let number = arrived.fetch_add(1, Ordering::Relaxed) + 1;
                for answer in rule(number, &bytes[..length]) {
                    let _ = receiver.send_to(&answer, peer); // who has gone refuses it
                }
            }
        });
        Self { address, arrivals, socket, stop, thread: Some(thread) }
    }

    pub fn url(&self) -> String {
        format!("udp://{}", self.address)
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.socket.send_to(&[], self.address); // the last one: it wakes the receiver
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}
