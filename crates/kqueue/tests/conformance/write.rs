//! EVFILT_WRITE.

use std::net::Shutdown;

use crate::numbers::*;
use crate::rig::*;
use crate::sockets::*;
use crate::{Case, case};

pub const CASES: &[Case] = &[
    case("a pipe with room is told", "Q-14", |q| {
        let (_read, write) = pipe();
        q.add(id(&write), WRITE);
        assert!(q.wait().data > 0);
    }),
    case("an empty pipe has room for what it takes", "Q-14", |q| {
        let (_read, write) = pipe();
        q.add(id(&write), WRITE);
        let room = q.wait().data;
        assert_eq!(usize::try_from(room).unwrap(), fill(&write));
    }),
    case("a full pipe is silent", "Q-14", |q| {
        let (_read, write) = pipe();
        fill(&write);
        q.add(id(&write), WRITE);
        q.silent();
    }),
    case("a pipe that is drained is told", "Q-14", |q| {
        let (read, write) = pipe();
        fill(&write);
        q.add(id(&write), WRITE);
        q.silent();
        drain(&read);
        assert!(q.wait().data > 0);
    }),
    case("a pipe without readers is an end", "Q-14", |q| {
        let (read, write) = pipe();
        q.add(id(&write), WRITE);
        drop(read);
        assert!(q.wait().has(EOF));
    }),
    case("a full pipe without readers is an end", "Q-14", |q| {
        let (read, write) = pipe();
        fill(&write);
        q.add(id(&write), WRITE);
        q.silent();
        drop(read);
        assert!(q.wait().has(EOF));
    }),
    case("a pipe whose readers went before it was watched is an end without room", "Q-14", |q| {
        let (read, write) = pipe();
        drop(read);
        q.set(&[ev(id(&write), WRITE, ADD)]);
        let event = q.wait();
        assert!(event.has(EOF) && event.data == 0 && tag(&event) == 0, "{event:?}");
    }),
    case("a full pipe has room again when a whole write fits, and not before", "Q-14", |q| {
        let (read, write) = pipe();
        fill(&write);
        q.add(id(&write), WRITE);
        get(&read, 1);
        q.silent();
        get(&read, libc::PIPE_BUF - 1);
        assert!(q.wait().data >= i64::try_from(libc::PIPE_BUF).unwrap());
    }),
    case("a pipe's end for reading never has room", "Q-14", |q| {
        let (read, write) = pipe();
        q.add(id(&read), WRITE);
        q.silent();
        put(&write, b"abc");
        q.silent();
    }),
    case("both sides of a terminal have room", "Q-14", |q| {
        let terminal = nix::pty::openpty(None, None).unwrap();
        for side in [&terminal.master, &terminal.slave] {
            q.set(&[ev(id(side), WRITE, ADD | ONESHOT)]);
            let event = q.wait();
            assert!(event.ident == id(side) && event.filter == WRITE && !event.has(EOF), "{event:?}");
        }
    }),
    case("a regular file takes what is written at any time", "Q-14", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"abc");
        q.add(id(&file), WRITE);
        for _ in 0..2 {
            let event = q.wait();
            assert_eq!((event.ident, event.filter), (id(&file), WRITE));
        }
        q.add(id(&file), READ);
        assert_eq!(q.now().len(), 2);
        get(&file, 3);
        q.set(&[ev(id(&file), WRITE, DELETE), ev(id(&file), WRITE, ADD | CLEAR)]);
        assert_eq!(q.wait().filter, WRITE);
        q.silent();
    }),
    case("a pipe with CLEAR is told once", "Q-14", |q| {
        let (_read, write) = pipe();
        q.set(&[ev(id(&write), WRITE, ADD | CLEAR)]);
        assert!(q.wait().has(CLEAR));
        q.silent();
    }),
    case("a pipe with ONESHOT is told once", "Q-14", |q| {
        let (_read, write) = pipe();
        q.set(&[ev(id(&write), WRITE, ADD | ONESHOT)]);
        q.wait();
        q.silent();
    }),
    case("a local socket with room is told", "Q-14", |q| {
        let (one, _other) = local();
        q.add(id(&one), WRITE);
        assert!(q.wait().data > 0);
    }),
    case("a full local socket is silent until it is drained", "Q-14", |q| {
        let (one, other) = local();
        fill(&one);
        q.add(id(&one), WRITE);
        q.silent();
        drain(&other);
        assert!(q.wait().data > 0);
    }),
    case("a connected TCP socket with room is told", "Q-14", |q| {
        let (one, _other) = tcp();
        q.add(id(&one), WRITE);
        let event = q.wait();
        assert!(event.data > 0 && !event.has(EOF), "{event:?}");
    }),
    case("a TCP connection's room shrinks with what is written", "Q-14", |q| {
        let (one, _other) = tcp();
        q.add(id(&one), WRITE);
        let before = q.wait().data;
        let filled = fill(&one);
        assert!(filled > 0);
        let after = q.now();
        assert!(after.iter().all(|event| event.data < before), "{before} {after:?}");
    }),
    case("a full TCP connection is silent until its peer reads", "Q-14", |q| {
        let (one, other) = tcp();
        until_full(&one, q);
        let peer = Queue::new();
        peer.add(id(&other), READ);
        // The peer reads as long as it takes until there is room.
        while q.now().is_empty() {
            peer.wait();
            drain(&other);
        }
        assert!(q.wait().data > 0);
    }),
    case("a connection is told when it is made", "Q-14", |q| {
        let listener = listener();
        let socket = new_socket();
        connect(&socket, listener.local_addr().unwrap().port());
        q.add(id(&socket), WRITE);
        let event = q.wait();
        assert!(!event.has(EOF) && event.data > 0, "{event:?}");
    }),
    case("a refused connection is an end", "Q-14", |q| {
        let socket = connecting_to_nobody();
        q.add(id(&socket), WRITE);
        let event = q.wait();
        assert!(event.has(EOF), "{event:?}");
        assert_eq!(event.fflags.cast_signed(), libc::ECONNREFUSED);
    }),
    case("a TCP socket that is not connected is never told", "Q-14", |q| {
        let socket = new_socket();
        q.add(id(&socket), WRITE);
        q.silent();
    }),
    case("a listener is never told", "Q-14", |q| {
        let listener = listener();
        q.add(id(&listener), WRITE);
        q.silent();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        q.silent();
    }),
    case("one's own shutdown of both is an end", "Q-14", |q| {
        let (one, _other) = tcp();
        q.add(id(&one), WRITE);
        one.shutdown(Shutdown::Both).unwrap();
        assert!(q.until(|event| event.has(EOF)).has(EOF));
    }),
    case("a local peer that has closed is an end", "Q-14", |q| {
        let (one, other) = local();
        q.add(id(&one), WRITE);
        drop(other);
        assert!(q.wait().has(EOF));
    }),
    case("a reset is an end", "Q-14", |q| {
        let (one, other) = tcp();
        q.add(id(&one), WRITE);
        reset(other);
        q.until(|event| event.has(EOF));
    }),
    case("a low-water mark above the room is silent", "Q-14", |q| {
        let (_read, write) = pipe();
        q.set(&[ev(id(&write), WRITE, ADD).notes(NOTE_LOWAT).data(1 << 30)]);
        q.silent();
    }),
    case("a low-water mark reached is told", "Q-14", |q| {
        let (read, write) = pipe();
        fill(&write);
        q.set(&[ev(id(&write), WRITE, ADD).notes(NOTE_LOWAT).data(8192)]);
        get(&read, 4096);
        q.silent();
        get(&read, 4096);
        assert!(q.wait().data >= 8192);
    }),
    case("a datagram socket has room", "Q-14", |q| {
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
        q.add(id(&socket), WRITE);
        assert!(q.wait().data > 0);
    }),
    case("DISABLE silences what has room", "Q-07", |q| {
        let (_read, write) = pipe();
        q.add(id(&write), WRITE);
        q.wait();
        q.set(&[ev(id(&write), WRITE, DISABLE)]);
        q.silent();
        q.set(&[ev(id(&write), WRITE, ENABLE)]);
        q.wait();
    }),
    case("DISPATCH tells of room once", "Q-08", |q| {
        let (one, _other) = local();
        q.set(&[ev(id(&one), WRITE, ADD | DISPATCH)]);
        q.wait();
        q.silent();
    }),
    case("deleting WRITE leaves READ", "Q-01", |q| {
        let (one, other) = local();
        q.add(id(&one), READ);
        q.add(id(&one), WRITE);
        q.set(&[ev(id(&one), WRITE, DELETE)]);
        q.silent();
        put(&other, b"a");
        assert_eq!(q.wait().filter, READ);
    }),
    case("deleting READ leaves WRITE", "Q-01", |q| {
        let (one, other) = local();
        q.add(id(&one), READ);
        q.add(id(&one), WRITE);
        put(&other, b"a");
        q.set(&[ev(id(&one), READ, DELETE)]);
        assert!(q.now().iter().all(|event| event.filter == WRITE));
    }),
];

/// Writes until there is no room, also not a moment later.
fn until_full(one: &std::net::TcpStream, queue: &Queue) {
    queue.add(id(one), WRITE);
    while !queue.now().is_empty() {
        fill(one);
    }
}
