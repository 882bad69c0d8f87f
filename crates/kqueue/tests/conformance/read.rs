//! EVFILT_READ: pipes, sockets, listeners, files, and what else can be polled.

use std::io::{Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::numbers::*;
use crate::rig::*;
use crate::sockets::*;
use crate::{Case, case};

pub const CASES: &[Case] = &[
    case("an empty pipe is silent", "Q-13", |q| {
        let (read, _write) = pipe();
        q.add(id(&read), READ);
        q.silent();
    }),
    case("a pipe says how many bytes it holds", "Q-13", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        put(&write, b"abcde");
        assert_eq!(q.wait().data, 5);
    }),
    case("bytes that were there before are told", "Q-13", |q| {
        let (read, write) = pipe();
        put(&write, b"abc");
        q.add(id(&read), READ);
        assert_eq!(q.wait().data, 3);
    }),
    case("a pipe's end is told when its last writer closes", "Q-13", |q| {
        let (read, write) = pipe();
        q.add(id(&read), READ);
        drop(write);
        let event = q.wait();
        assert!(event.has(EOF) && event.data == 0, "{event:?}");
    }),
    case("a pipe's end is told after one of two writers has gone too", "Q-13", |q| {
        let (read, write) = pipe();
        let other = dup(&write);
        q.add(id(&read), READ);
        drop(write);
        q.silent();
        close(other);
        assert!(q.wait().has(EOF));
    }),
    case("bytes remain to be read behind a pipe's end", "Q-13", |q| {
        let (read, write) = pipe();
        put(&write, b"last");
        drop(write);
        q.add(id(&read), READ);
        let event = q.wait();
        assert!(event.has(EOF) && event.data == 4, "{event:?}");
        get(&read, 4);
        let event = q.wait();
        assert!(event.has(EOF) && event.data == 0, "{event:?}");
    }),
    case("CLEAR tells a pipe's end once", "Q-13", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD | CLEAR)]);
        drop(write);
        assert!(q.wait().has(EOF));
        q.silent();
    }),
    case("a named pipe opens, ends and opens again", "Q-13", |q| {
        let folder = Folder::new();
        let path = folder.path("fifo");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let reader = std::fs::File::from(
            nix::fcntl::open(&path, nix::fcntl::OFlag::O_RDONLY | nix::fcntl::OFlag::O_NONBLOCK, nix::sys::stat::Mode::empty())
                .unwrap(),
        );
        q.add(id(&reader), READ);
        for _ in 0..2 {
            let writer = std::fs::File::options().write(true).open(&path).unwrap();
            put(&writer, b"abc");
            let event = q.wait();
            assert!(event.data == 3 && !event.has(EOF), "{event:?}");
            get(&reader, 3);
            drop(writer);
            assert!(q.wait().has(EOF));
        }
    }),
    case("a low-water mark above the bytes is silent", "Q-12", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD).notes(NOTE_LOWAT).data(4)]);
        put(&write, b"abc");
        q.silent();
    }),
    case("a low-water mark reached is told", "Q-12", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD).notes(NOTE_LOWAT).data(4)]);
        put(&write, b"abc");
        q.silent();
        put(&write, b"d");
        assert_eq!(q.wait().data, 4);
    }),
    case("a low-water mark is not reached again once bytes are read", "Q-12", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD).notes(NOTE_LOWAT).data(2)]);
        put(&write, b"abc");
        assert_eq!(q.wait().data, 3);
        get(&read, 2);
        q.silent();
        put(&write, b"d");
        assert_eq!(q.wait().data, 2);
    }),
    case("an end is told below the low-water mark", "Q-12", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), READ, ADD).notes(NOTE_LOWAT).data(100)]);
        put(&write, b"abc");
        drop(write);
        let event = q.wait();
        assert!(event.has(EOF) && event.data == 3, "{event:?}");
    }),
    case("each queue has a low-water mark of its own", "Q-12", |q| {
        let (other, (one, end)) = (Queue::new(), local());
        q.set(&[ev(id(&one), READ, ADD).notes(NOTE_LOWAT).data(1)]);
        other.set(&[ev(id(&one), READ, ADD).notes(NOTE_LOWAT).data(5)]);
        put(&end, b"abc");
        assert_eq!(q.wait().data, 3);
        other.silent();
        put(&end, b"de");
        assert_eq!(other.wait().data, 5);
    }),
    case("a low-water mark is raised and lowered", "Q-12", |q| {
        let (one, other) = local();
        put(&other, b"abcd");
        for (mark, told) in [(4, 1), (5, 0), (1, 1), (9, 0), (2, 1)] {
            q.set(&[ev(id(&one), READ, ADD).notes(NOTE_LOWAT).data(mark)]);
            assert_eq!(q.now().len(), told, "{mark}");
        }
    }),
    case("a low-water mark of zero is one byte", "Q-12", |q| {
        let (one, other) = local();
        q.set(&[ev(id(&one), READ, ADD).notes(NOTE_LOWAT).data(0)]);
        put(&other, b"a");
        assert_eq!(q.wait().data, 1);
    }),
    case("SO_RCVLOWAT holds for interests without a mark", "Q-12", |q| {
        let (one, other) = tcp();
        set_receive_mark(&one, 4);
        q.add(id(&one), READ);
        put(&other, b"abc");
        q.silent();
        put(&other, b"d");
        assert_eq!(q.wait().data, 4);
    }),
    case("a stream socket says how many bytes it holds", "Q-12", |q| {
        let (one, other) = local();
        q.add(id(&one), READ);
        put(&other, b"abcdef");
        assert_eq!(q.wait().data, 6);
    }),
    case("a TCP connection says how many bytes it holds", "Q-12", |q| {
        let (one, other) = tcp();
        q.add(id(&one), READ);
        put(&other, b"abcdef");
        assert_eq!(q.wait().data, 6);
    }),
    case("a TCP connection is told until it is drained", "Q-12", |q| {
        let (one, other) = tcp();
        q.add(id(&one), READ);
        put(&other, b"abcdef");
        assert_eq!(q.wait().data, 6);
        get(&one, 2);
        assert_eq!(q.wait().data, 4);
        get(&one, 4);
        q.silent();
    }),
    case("a quiet TCP connection is silent", "Q-12", |q| {
        let (one, _other) = tcp();
        q.add(id(&one), READ);
        q.silent();
    }),
    case("a peer that has finished is an end", "Q-12", |q| {
        let (one, other) = tcp();
        q.add(id(&one), READ);
        other.shutdown(Shutdown::Write).unwrap();
        let event = q.wait();
        assert!(event.has(EOF) && event.data == 0 && event.fflags == 0, "{event:?}");
    }),
    case("bytes remain to be read behind a peer's end", "Q-12", |q| {
        let (one, other) = tcp();
        put(&other, b"bye");
        drop(other);
        q.add(id(&one), READ);
        let event = q.until(|event| event.has(EOF));
        assert_eq!(event.data, 3);
        get(&one, 3);
        let event = q.wait();
        assert!(event.has(EOF) && event.data == 0, "{event:?}");
    }),
    case("a local peer that has closed is an end", "Q-12", |q| {
        let (one, other) = local();
        q.add(id(&one), READ);
        drop(other);
        assert!(q.wait().has(EOF));
    }),
    case("one's own shutdown of reading is an end", "Q-12", |q| {
        let (one, _other) = tcp();
        q.add(id(&one), READ);
        one.shutdown(Shutdown::Read).unwrap();
        assert!(q.wait().has(EOF));
    }),
    case("a reset is an end with its errno", "Q-12", |q| {
        let (one, other) = tcp();
        q.add(id(&one), READ);
        reset(other);
        let event = q.wait();
        assert!(event.has(EOF), "{event:?}");
        assert_eq!(event.fflags.cast_signed(), libc::ECONNRESET);
    }),
    case("a refused connection is an end with its errno", "Q-12", |q| {
        let socket = connecting_to_nobody();
        q.add(id(&socket), READ);
        let event = q.wait();
        assert!(event.has(EOF), "{event:?}");
        assert_eq!(event.fflags.cast_signed(), libc::ECONNREFUSED);
    }),
    case("telling of an error leaves it to the program", "Q-12", |q| {
        let (one, other) = tcp();
        q.add(id(&one), READ);
        reset(other);
        assert!(q.wait().has(EOF));
        assert!(q.wait().has(EOF));
        let error = nix::sys::socket::getsockopt(&one, nix::sys::socket::sockopt::SocketError).unwrap();
        assert_eq!(error, libc::ECONNRESET);
    }),
    case("CLEAR tells a peer's end once", "Q-12", |q| {
        let (one, other) = local();
        q.set(&[ev(id(&one), READ, ADD | CLEAR)]);
        drop(other);
        assert!(q.wait().has(EOF));
        q.silent();
    }),
    case("with CLEAR bytes that are left are not told again", "Q-09", |q| {
        let (one, other) = local();
        q.set(&[ev(id(&one), READ, ADD | CLEAR)]);
        put(&other, b"abc");
        assert_eq!(q.wait().data, 3);
        get(&one, 1);
        q.silent();
        put(&other, b"d");
        assert_eq!(q.wait().data, 3);
    }),
    case("DISPATCH of a socket tells what has come since", "Q-08", |q| {
        let (one, other) = local();
        q.set(&[ev(id(&one), READ, ADD | DISPATCH)]);
        put(&other, b"a");
        assert_eq!(q.wait().data, 1);
        put(&other, b"b");
        q.silent();
        q.set(&[ev(id(&one), READ, ENABLE)]);
        assert_eq!(q.wait().data, 2);
    }),
    case("a listener without connections is silent", "Q-12", |q| {
        let listener = listener();
        q.add(id(&listener), READ);
        q.silent();
    }),
    case("a listener says how many connections wait", "Q-12", |q| {
        let listener = listener();
        q.add(id(&listener), READ);
        let address = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
        let event = q.until(|event| event.data == 3);
        assert!(!event.has(EOF), "{event:?}");
        drop(clients);
    }),
    case("a listener says one less after accept", "Q-12", |q| {
        let listener = listener();
        let address = listener.local_addr().unwrap();
        let _clients: Vec<_> = (0..2).map(|_| TcpStream::connect(address).unwrap()).collect();
        q.add(id(&listener), READ);
        q.until(|event| event.data == 2);
        let _one = listener.accept().unwrap();
        assert_eq!(q.wait().data, 1);
        let _two = listener.accept().unwrap();
        q.silent();
    }),
    case("a local listener tells of a connection", "Q-12", |q| {
        let folder = Folder::new();
        let listener = std::os::unix::net::UnixListener::bind(folder.path("socket")).unwrap();
        q.add(id(&listener), READ);
        let _client = std::os::unix::net::UnixStream::connect(folder.path("socket")).unwrap();
        assert!(q.wait().data >= 1);
        let _one = listener.accept().unwrap();
        q.silent();
    }),
    case("a local listener says how many connections wait, and one less after accept", "Q-12", |q| {
        let folder = Folder::new();
        let listener = std::os::unix::net::UnixListener::bind(folder.path("socket")).unwrap();
        q.add(id(&listener), READ);
        let waiting: Vec<_> = (0..3).map(|_| std::os::unix::net::UnixStream::connect(folder.path("socket")).unwrap()).collect();
        assert_eq!(q.wait().data, 3);
        let _one = listener.accept().unwrap();
        assert_eq!(q.wait().data, 2);
        drop(waiting);
    }),
    case("a listener with CLEAR is told for each arrival", "Q-12", |q| {
        let listener = listener();
        q.set(&[ev(id(&listener), READ, ADD | CLEAR)]);
        let address = listener.local_addr().unwrap();
        let _one = TcpStream::connect(address).unwrap();
        assert_eq!(q.wait().data, 1);
        let _two = TcpStream::connect(address).unwrap();
        assert_eq!(q.wait().data, 2);
    }),
    case("a datagram socket tells of a datagram", "Q-12", |q| {
        let (one, other) = datagrams();
        q.add(id(&one), READ);
        q.silent();
        other.send(b"abcd").unwrap();
        assert!(q.wait().data >= 4);
        get(&one, 100);
        q.silent();
    }),
    case("an empty datagram is told", "Q-12", |q| {
        let (one, other) = datagrams();
        q.add(id(&one), READ);
        other.send(b"").unwrap();
        assert_eq!(q.wait().ident, id(&one));
    }),
    case("without CLEAR a datagram socket says how many bytes the next has", "Q-12", |q| {
        let (one, other) = datagrams();
        q.add(id(&one), READ);
        for bytes in [&b"abcd"[..], b"ef"] {
            other.send(bytes).unwrap();
        }
        assert_eq!(q.wait().data, 4);
        get(&one, 100);
        assert_eq!(q.wait().data, 2);
    }),
    case("who reads as many bytes as CLEAR has told has all datagrams", "Q-12", |q| {
        let (one, other) = datagrams();
        all_are_read(q, &one, &other);
    }),
    case("who reads as many bytes as CLEAR has told has all local datagrams", "Q-12", |q| {
        let (one, other) = std::os::unix::net::UnixDatagram::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        all_are_read(q, &one, &other);
    }),
    case("a pipe's end for writing tells that its readers are gone", "Q-13", |q| {
        let (read, write) = pipe();
        q.add(id(&write), READ);
        q.silent();
        put(&write, b"abc");
        q.silent();
        let copy = dup(&read);
        drop(read);
        q.silent();
        close(copy);
        let event = q.wait();
        assert!(event.filter == READ && event.has(EOF) && event.data == 0, "{event:?}");
        assert!(q.wait().has(EOF));
    }),
    case("CLEAR tells once that a pipe's readers are gone", "Q-13", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&write), READ, ADD | CLEAR)]);
        drop(read);
        assert!(q.wait().has(EOF));
        q.silent();
    }),
    case("urgent data is told until it is read", "Q-12", |q| {
        let (one, other) = tcp();
        q.set(&[ev(id(&one), EXCEPT, ADD).notes(NOTE_OOB)]);
        put(&other, b"a");
        let ready = Queue::new();
        ready.add(id(&one), READ);
        ready.wait();
        q.silent();
        send_urgent(&other, b'!');
        let event = q.wait();
        assert_eq!((event.ident, event.filter, event.fflags), (id(&one), EXCEPT, NOTE_OOB));
        assert_eq!(q.wait().filter, EXCEPT);
        assert_eq!(receive_urgent(&one), Some(b'!'));
        q.silent();
        drop(other);
        assert!(ready.until(|event| event.has(EOF)).has(EOF));
        q.silent();
    }),
    case("without NOTE_OOB there is nothing urgent, and of what is no socket neither", "Q-12", |q| {
        let (one, other) = tcp();
        q.add(id(&one), EXCEPT);
        send_urgent(&other, b'!');
        let ready = Queue::new();
        ready.set(&[ev(id(&one), EXCEPT, ADD).notes(NOTE_OOB)]);
        ready.wait();
        q.silent();
        let (read, _write) = pipe();
        assert_eq!(q.change(ev(id(&read), EXCEPT, ADD).notes(NOTE_OOB)), Err(libc::EINVAL));
    }),
    case("a TCP socket that is not connected is silent", "Q-12", |q| {
        let socket = new_socket();
        q.add(id(&socket), READ);
        let told = q.now();
        assert!(told.iter().all(|event| event.has(EOF)), "no bytes are told of it: {told:?}");
    }),
    case("an eventfd is told while its count is not zero", "Q-13", |q| {
        let counter = EventFd::from_value_and_flags(0, EfdFlags::EFD_NONBLOCK).unwrap();
        q.add(id(&counter), READ);
        q.silent();
        counter.write(3).unwrap();
        assert_eq!(q.wait().ident, id(&counter));
        counter.read().unwrap();
        q.silent();
    }),
    case("a timerfd is told when it expires", "Q-13", |q| {
        use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK).unwrap();
        q.add(id(&timer.as_fd()), READ);
        q.silent();
        let soon = Expiration::OneShot(nix::sys::time::TimeSpec::new(0, 1_000_000));
        timer.set(soon, TimerSetTimeFlags::empty()).unwrap();
        assert_eq!(q.wait().ident, id(&timer.as_fd()));
        timer.wait().unwrap();
        q.silent();
    }),
    case("a terminal says how many bytes it holds", "Q-13", |q| {
        let terminal = nix::pty::openpty(None, None).unwrap();
        q.add(id(&terminal.slave), READ);
        q.silent();
        put(&terminal.master, b"line\n");
        assert_eq!(q.wait().data, 5);
    }),
    case("a terminal's other side says how many bytes it holds", "Q-13", |q| {
        let terminal = nix::pty::openpty(None, None).unwrap();
        q.add(id(&terminal.master), READ);
        q.silent();
        put(&terminal.slave, b"said");
        assert_eq!(q.wait().data, 4);
    }),
    case("a file says how far its end is", "Q-13", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"0123456789");
        q.add(id(&file), READ);
        assert_eq!(q.wait().data, 10);
    }),
    case("a file's distance shrinks as it is read", "Q-13", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"0123456789");
        q.add(id(&file), READ);
        get(&file, 4);
        assert_eq!(q.wait().data, 6);
    }),
    case("a file at its end is silent", "Q-13", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"0123456789");
        q.add(id(&file), READ);
        get(&file, 10);
        q.silent();
    }),
    case("an empty file is silent", "Q-13", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"");
        q.add(id(&file), READ);
        q.silent();
    }),
    case("a file that grows is told", "Q-13", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"01");
        q.add(id(&file), READ);
        get(&file, 2);
        q.silent();
        append(&folder, "a", b"234");
        assert_eq!(q.wait().data, 3);
    }),
    case("a file that grows again is told again", "Q-13", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"");
        q.add(id(&file), READ);
        for _ in 0..3 {
            append(&folder, "a", b"23");
            assert_eq!(q.wait().data, 2);
            get(&file, 2);
            q.silent();
        }
    }),
    case("a file read past its end says so with a negative distance", "Q-13", |q| {
        let folder = Folder::new();
        let mut file = folder.file("a", b"0123456789");
        q.add(id(&file), READ);
        file.seek(SeekFrom::Start(8)).unwrap();
        std::fs::File::options().write(true).open(folder.path("a")).unwrap().set_len(3).unwrap();
        assert_eq!(q.wait().data, -5);
    }),
    case("a file that is polled is always told", "Q-13", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"01");
        q.set(&[ev(id(&file), READ, ADD).notes(NOTE_FILE_POLL)]);
        get(&file, 2);
        assert_eq!(q.wait().ident, id(&file));
        assert_eq!(q.wait().ident, id(&file));
    }),
    case("a file with ONESHOT is told once", "Q-13", |q| {
        let folder = Folder::new();
        let file = folder.file("a", b"01");
        q.set(&[ev(id(&file), READ, ADD | ONESHOT)]);
        assert_eq!(q.wait().data, 2);
        q.silent();
    }),
    case("devices that never wait are told at once", "Q-13", |q| {
        for (index, path) in ["/dev/null", "/dev/zero", "/dev/urandom"].into_iter().enumerate() {
            let device = std::fs::File::options().read(true).write(true).open(path).unwrap();
            q.set(&[ev(id(&device), READ, ADD).tag(index), ev(id(&device), WRITE, ADD).tag(index)]);
            for _ in 0..2 {
                let mut told: Vec<_> = q.now().iter().map(|event| (event.filter, tag(event), event.has(EOF))).collect();
                told.sort_unstable();
                assert_eq!(told, [(WRITE, index, false), (READ, index, false)], "{path}");
            }
            drop(device);
            q.silent();
        }
    }),
    case("a device that never waits is switched, and told once, as others", "Q-08", |q| {
        let device = std::fs::File::options().read(true).write(true).open("/dev/null").unwrap();
        q.set(&[ev(id(&device), READ, ADD | CLEAR), ev(id(&device), WRITE, ADD | DISPATCH)]);
        assert_eq!(q.now().len(), 2);
        q.silent();
        q.set(&[ev(id(&device), WRITE, ENABLE)]);
        assert_eq!(q.wait().filter, WRITE);
        q.set(&[ev(id(&device), WRITE, DELETE), ev(id(&device), READ, DELETE), ev(id(&device), READ, ADD | ONESHOT)]);
        assert_eq!(q.now().len(), 1);
        q.silent();
        assert_eq!(q.change(ev(id(&device), READ, DELETE)), Err(libc::ENOENT));
        q.set(&[ev(id(&device), READ, ADD | DISABLE)]);
        q.silent();
    }),
    case("many descriptors tell for themselves alone", "Q-01", |q| {
        let pipes: Vec<_> = (0..50).map(|_| pipe()).collect();
        for (index, (read, _)) in pipes.iter().enumerate() {
            q.set(&[ev(id(read), READ, ADD).tag(index)]);
        }
        for index in [7, 31, 0, 49] {
            put(&pipes[index].1, b"a");
            assert_eq!(tag(&q.wait()), index);
            get(&pipes[index].0, 1);
        }
        q.silent();
    }),
];

fn append(folder: &Folder, name: &str, bytes: &[u8]) {
    std::fs::File::options().append(true).open(folder.path(name)).unwrap().write_all(bytes).unwrap();
}

/// Two datagram sockets that are connected to each other.
fn datagrams() -> (UdpSocket, UdpSocket) {
    let bound = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (one, other) = (bound(), bound());
    one.connect(other.local_addr().unwrap()).unwrap();
    other.connect(one.local_addr().unwrap()).unwrap();
    one.set_nonblocking(true).unwrap();
    (one, other)
}

/// Five datagrams wait, and are told once: who reads on until he has read as much as he was told, or there is no more, as nginx does, has read all of them.
fn all_are_read(queue: &Queue, one: &impl AsRawFd, other: &impl AsRawFd) {
    const BYTES: [usize; 5] = [3, 1000, 0, 400, 70];
    queue.set(&[ev(id(one), READ, ADD | CLEAR)]);
    for bytes in BYTES {
        put(other, &vec![b'd'; bytes]);
    }
    let mut left = queue.wait().data;
    let mut read = 0;
    while left > 0 && has_datagram(one) {
        let bytes = get(one, 2000);
        left -= i64::try_from(bytes).unwrap();
        read += bytes;
    }
    assert_eq!(read, BYTES.iter().sum::<usize>());
    queue.silent();
    put(other, b"more");
    assert!(queue.wait().data >= 4);
}

fn has_datagram(socket: &impl AsRawFd) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout};
    nix::poll::poll(&mut [PollFd::new(borrowed(socket), PollFlags::POLLIN)], PollTimeout::ZERO) == Ok(1)
}

fn set_receive_mark(socket: &impl AsRawFd, bytes: i32) {
    set_option(socket, libc::SO_RCVLOWAT, &bytes.to_ne_bytes());
}
