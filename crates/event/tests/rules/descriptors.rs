use super::{Owned, PATIENCE, change, ident, queue};
use corelane_event::{Change, Filter, Flags};
use std::io::{Read, Seek, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, client)
}

#[test]
fn bytes_are_told_as_long_as_there_are_some() {
    let queue = queue();
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()));
    assert!(queue.now().is_empty());
    theirs.write_all(b"12345").unwrap();
    for _ in 0..3 {
        assert_eq!(queue.one().data, 5);
    }
    ours.read_exact(&mut [0; 2]).unwrap();
    assert_eq!(queue.one().data, 3);
    ours.read_exact(&mut [0; 3]).unwrap();
    assert!(queue.now().is_empty());
}

#[test]
fn cleared_each_arrival_is_told_once() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()).cleared());
    for expected in [2, 4, 6] {
        theirs.write_all(b"ab").unwrap();
        let event = queue.one();
        assert_eq!((event.data, event.flags), (expected, Flags::CLEAR));
        assert!(queue.now().is_empty());
    }
}

#[test]
fn what_was_read_meanwhile_is_not_told() {
    let queue = queue();
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()).cleared());
    theirs.write_all(b"ab").unwrap();
    ours.read_exact(&mut [0; 2]).unwrap();
    assert!(queue.now().is_empty());
}

#[test]
fn a_level_and_a_cleared_interest_share_a_descriptor() {
    let queue = queue();
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()));
    queue.ok(Change::writable(ours.as_fd()).cleared());
    let told: Vec<_> = queue.next().iter().map(|event| event.filter).collect();
    assert_eq!(told, [Filter::Write]);
    theirs.write_all(b"ab").unwrap();
    // Its arrival is also a moment at which there is space.
    assert!(queue.next().iter().any(|event| event.filter == Filter::Read));
    for _ in 0..3 {
        assert_eq!(queue.one().filter, Filter::Read);
    }
    ours.read_exact(&mut [0; 2]).unwrap();
    assert!(queue.now().is_empty());
}

#[test]
fn low_water_is_each_interests_own() {
    let (first, second) = (queue(), queue());
    let (mut ours, mut theirs) = tcp();
    first.ok(Change::readable(ours.as_fd()).from_bytes(4));
    second.ok(Change::readable(ours.as_fd()));
    theirs.write_all(b"abc").unwrap();
    assert_eq!(second.one().data, 3);
    assert!(first.now().is_empty());
    theirs.write_all(b"d").unwrap();
    for _ in 0..2 {
        assert_eq!(first.one().data, 4);
    }
    ours.read_exact(&mut [0; 1]).unwrap();
    assert!(first.now().is_empty());
    assert_eq!(second.one().data, 3);
}

#[test]
fn below_low_water_nobody_spins() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()).from_bytes(100));
    theirs.write_all(b"abc").unwrap();
    assert!(queue.now().is_empty());
    // What was looked at once is not reported again, so the set is silent.
    assert!(!is_readable(&queue));
}

fn is_readable(queue: &super::Owned) -> bool {
    let (outer, poll) = (super::queue(), queue.descriptor() as u64);
    outer.ok(Change::add(poll, Filter::Read));
    !outer.now().is_empty()
}

#[test]
fn a_queue_is_watched_by_another() {
    let (inner, outer) = (queue(), queue());
    outer.ok(Change::add(inner.descriptor() as u64, Filter::Read));
    assert!(outer.now().is_empty());
    inner.ok(Change::user(1));
    inner.ok(Change::trigger(1));
    assert_eq!(outer.one().ident, inner.descriptor() as u64);
    assert_eq!(inner.one().ident, 1);
    assert!(outer.now().is_empty());
}

#[test]
fn the_end_is_told_with_what_is_left() {
    let queue = queue();
    let (mut ours, mut theirs) = tcp();
    queue.ok(Change::readable(ours.as_fd()));
    theirs.write_all(b"last").unwrap();
    theirs.shutdown(Shutdown::Write).unwrap();
    let event = loop {
        let event = queue.one();
        if event.flags.contains(Flags::EOF) {
            break event;
        }
    };
    assert_eq!((event.data, event.notes), (4, 0));
    ours.read_exact(&mut [0; 4]).unwrap();
    let event = queue.one();
    assert_eq!((event.data, event.flags), (0, Flags::EOF));
}

#[test]
fn a_reset_is_told_and_the_programs_error_stays_its_own() {
    const ECONNRESET: i32 = 104;
    let queue = queue();
    let (mut ours, theirs) = tcp();
    queue.ok(Change::readable(ours.as_fd()));
    // A close with something unread breaks the connection off.
    ours.write_all(b"unread").unwrap();
    theirs.peek(&mut [0]).unwrap();
    drop(theirs);
    let event = queue.one();
    assert_eq!((event.flags, event.notes), (Flags::EOF, ECONNRESET as u32));
    assert_eq!(ours.read(&mut [0]).unwrap_err().raw_os_error(), Some(ECONNRESET));
}

#[test]
fn listeners_tell_how_many_wait() {
    let queue = queue();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    queue.ok(Change::readable(listener.as_fd()));
    queue.ok(Change::writable(listener.as_fd()));
    assert!(queue.now().is_empty());
    let _clients: Vec<_> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!((queue.one().filter, queue.one().data), (Filter::Read, 3));
    for _ in 0..3 {
        listener.accept().unwrap();
    }
    assert!(queue.now().is_empty());
}

#[test]
fn datagrams_are_told_also_those_of_no_bytes() {
    let queue = queue();
    let ours = UdpSocket::bind("127.0.0.1:0").unwrap();
    let theirs = UdpSocket::bind("127.0.0.1:0").unwrap();
    queue.ok(Change::readable(ours.as_fd()));
    theirs.send_to(b"", ours.local_addr().unwrap()).unwrap();
    assert_eq!(queue.one().data, 0);
    ours.recv(&mut [0; 8]).unwrap();
    assert!(queue.now().is_empty());
    theirs.send_to(b"four", ours.local_addr().unwrap()).unwrap();
    assert_eq!(queue.one().data, 4);
}

#[test]
fn pipes_end_with_their_last_writer() {
    let queue = queue();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    queue.ok(Change::readable(reader.as_fd()));
    queue.ok(Change::writable(writer.as_fd()));
    let event = queue.one();
    assert!(event.filter == Filter::Write && event.data > 0);
    writer.write_all(b"abc").unwrap();
    let told = queue.next();
    assert!(told.iter().any(|event| event.filter == Filter::Read && event.data == 3));
    corelane_event::closed(super::number(&writer));
    drop(writer);
    let event = queue.one();
    assert_eq!((event.data, event.flags), (3, Flags::EOF));
    reader.read_exact(&mut [0; 3]).unwrap();
    assert_eq!((queue.one().data, queue.one().flags), (0, Flags::EOF));
}

#[test]
fn a_pipe_without_readers_tells_its_writer() {
    let queue = queue();
    let (reader, writer) = std::io::pipe().unwrap();
    queue.ok(Change::writable(writer.as_fd()).cleared());
    assert_eq!(queue.one().flags, Flags::CLEAR);
    drop(reader);
    let event = queue.one();
    assert!(event.flags.contains(Flags::EOF) && event.notes == 0);
}

#[test]
fn a_full_buffer_is_told_of_when_there_is_space_again() {
    let queue = queue();
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    queue.ok(Change::writable(ours.as_fd()));
    let before = queue.one().data;
    assert!(before > 0);
    let mut sent = 0;
    while let Ok(bytes) = ours.write(&[0; 4096]) {
        sent += bytes;
    }
    assert!(queue.now().is_empty());
    theirs.read_exact(&mut vec![0; sent]).unwrap();
    assert!(queue.one().data > 0);
}

#[test]
fn a_drained_buffer_is_told() {
    let queue = queue();
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::add(ident(&ours), Filter::Empty));
    assert_eq!(queue.one().data, 0);
    ours.write_all(b"abc").unwrap();
    assert!(queue.now().is_empty());
    theirs.read_exact(&mut [0; 3]).unwrap();
    assert_eq!(queue.one().filter, Filter::Empty);
}

#[test]
fn with_room_for_one_each_has_its_turn() {
    let queue = queue();
    let pairs: Vec<_> = (0..4).map(|_| UnixStream::pair().unwrap()).collect();
    for (index, (ours, theirs)) in pairs.iter().enumerate() {
        queue.ok(Change::readable(ours.as_fd()).cookie(index as u64));
        queue.ok(Change::writable(ours.as_fd()).cookie(100 + index as u64));
        let mut theirs: &UnixStream = theirs;
        theirs.write_all(b"x").unwrap();
    }
    let mut seen: Vec<u64> = (0..16).map(|_| queue.told(1, Some(PATIENCE))[0].cookie).collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen, [0, 1, 2, 3, 100, 101, 102, 103]);
}

#[test]
fn what_arrives_while_a_call_tells_is_told_by_the_next() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    // More than a call takes reports of at once.
    let others: Vec<_> = (0..4).map(|_| UnixStream::pair().unwrap()).collect();
    let copies: Vec<_> = others.iter().flat_map(|(one, _)| (0..300).map(|_| one.try_clone().unwrap())).collect();
    queue.ok(Change::readable(ours.as_fd()).cleared());
    theirs.write_all(b"x").unwrap();
    for copy in &copies {
        queue.ok(Change::readable(copy.as_fd()).cleared());
    }
    for (_, other) in &others {
        (&*other).write_all(b"x").unwrap();
    }
    let mut told = 0;
    let count = queue.take_each(2 * copies.len(), 1, Some(Duration::ZERO), |event| {
        told += usize::from(event.ident == ident(&ours));
        if event.ident == ident(&ours) {
            theirs.write_all(b"y").unwrap();
        }
    });
    assert_eq!((count.unwrap(), told), (copies.len() + 1, 1), "each once");
    let event = queue.one();
    assert_eq!((event.ident, event.data), (ident(&ours), 2));
    assert!(queue.now().is_empty());
}

/// What goes off where nothing is asked any more would be a broken queue.
fn asked_again_until(end: impl FnOnce(&Owned, UnixStream, Change)) {
    let queue = queue();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    (&ours).write_all(b"unread").unwrap();
    let change = change(ident(&ours), Filter::Empty, Flags::ADD);
    // Asked twice before the first while is over.
    for _ in 0..2 {
        queue.ok(change);
        assert!(queue.now().is_empty());
    }
    end(&queue, ours, change);
    queue.ok(Change::after(7, Duration::from_millis(5)));
    assert_eq!(queue.told(1, Some(PATIENCE))[0].filter, Filter::Timer);
}

#[test]
fn what_is_asked_again_after_a_while_and_is_deleted_leaves_nothing_to_ask() {
    asked_again_until(|queue, _ours, change| queue.ok(Change { flags: Flags::DELETE, ..change }));
}

#[test]
fn what_is_asked_again_after_a_while_and_is_closed_leaves_nothing_to_ask() {
    asked_again_until(|_, ours, _| {
        corelane_event::closed(super::number(&ours));
        drop(ours);
    });
}

#[test]
fn a_file_that_was_told_while_more_was_waited_for_is_told_again() {
    let queue = queue();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"abc").unwrap();
    file.rewind().unwrap();
    queue.ok(Change::readable(file.as_fd()));
    queue.ok(Change::after(7, Duration::from_millis(5)));
    let mut events = [corelane_event::Event::BLANK; 2];
    assert_eq!(queue.take(&mut events, 2, Some(PATIENCE)), Ok(2));
    assert_eq!(queue.one().data, 3);
}

#[test]
fn a_minimum_is_waited_for_without_telling_anything_twice() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()));
    theirs.write_all(b"x").unwrap();
    queue.ok(Change::after(7, Duration::from_millis(30)));
    let mut events = [corelane_event::Event::BLANK; 8];
    let count = queue.take(&mut events, 2, Some(PATIENCE)).unwrap();
    let told: Vec<_> = events[..count].iter().map(|event| event.filter).collect();
    assert_eq!(told, [Filter::Read, Filter::Timer]);
    assert_eq!(queue.one().filter, Filter::Read);
}

#[test]
fn dispatched_it_keeps_nobody_awake() {
    let (queue, outer) = (queue(), super::queue());
    outer.ok(Change::add(queue.descriptor() as u64, Filter::Read));
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"abc").unwrap();
    queue.ok(Change::readable(ours.as_fd()).dispatched());
    assert_eq!(queue.one().data, 3);
    assert!(outer.now().is_empty(), "what is disabled is not reported");
}
