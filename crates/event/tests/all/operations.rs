//! Operations on sockets and files: what is asked for, how far it comes, and how it ends; each end is told once.

use corelane_event::{Change, Event, Events, Filter, Flags, Lent, Memory, OperationResult, Progress, Sent, Submission, Work};
use corelane_os::testing::wait_until_readable;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const EAGAIN: u32 = 11;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const ENOENT: i32 = 2;
const EBADF: i32 = 9;
const EINVAL: i32 = 22;
const ENOTSOCK: i32 = 88;
const EPIPE: u32 = 32;
const ECONNRESET: u32 = 104;
const ECONNREFUSED: u32 = 111;
const ECANCELED: u32 = 125;

fn now(queue: &Events) -> Vec<Event> {
    let mut events = [Event::BLANK; 64];
    let told = queue.take(&mut events, 64, Some(Duration::ZERO)).unwrap();
    events[..told].to_vec()
}

/// The next event, waiting for it.
fn next(queue: &Events) -> Event {
    loop {
        wait_until_readable(queue.as_raw_fd());
        let mut events = [Event::BLANK; 1];
        if queue.take(&mut events, 1, Some(Duration::ZERO)).unwrap() == 1 {
            return events[0];
        }
    }
}

fn submit(queue: &Events, ident: u64, work: Work) {
    queue.submit(Submission { ident, cookie: ident * 10, work }).unwrap();
}

fn refused(queue: &Events, ident: u64, work: Work) -> i32 {
    queue.submit(Submission { ident, cookie: 0, work }).unwrap_err().0.number
}

/// The end of operation `ident`, which is all that is told: the event, and the outcome.
fn ended(queue: &Events, ident: u64) -> (Event, OperationResult) {
    let event = next(queue);
    assert_eq!((event.filter, event.ident, event.cookie), (Filter::Aio, ident, ident * 10));
    let outcome = queue.outcome(ident).unwrap();
    assert!(queue.outcome(ident).is_none(), "an outcome is taken once");
    assert_eq!(event.notes, outcome.error as u32);
    assert_eq!(event.flags.contains(Flags::EOF), outcome.is_end || outcome.error != 0);
    (event, outcome)
}

fn sockets() -> (UnixStream, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    one.set_nonblocking(true).unwrap();
    (one, other)
}

fn receive(socket: &impl AsRawFd, bytes: usize, at_least: usize) -> Work {
    Work::Receive { socket: socket.as_raw_fd(), memory: vec![0; bytes].into(), at_least }
}

fn send(socket: &impl AsRawFd, bytes: Vec<u8>) -> Work {
    Work::Send { socket: socket.as_raw_fd(), memory: bytes.into() }
}

fn bytes_of(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 251) as u8).collect()
}

/// A folder of a test's own, removed at its end.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, bytes: &[u8]) -> File {
        std::fs::write(self.0.path().join("file"), bytes).unwrap();
        File::options().read(true).write(true).open(self.0.path().join("file")).unwrap()
    }
}

#[test]
fn a_01_what_has_come_is_received_at_once_and_the_memory_comes_back() {
    let queue = Events::new().unwrap();
    let (ours, mut theirs) = sockets();
    theirs.write_all(b"abcd").unwrap();
    submit(&queue, 1, receive(&ours, 4, 4));
    let (event, outcome) = ended(&queue, 1);
    assert_eq!((event.data, outcome.memory.as_slice(), outcome.is_end), (4, b"abcd".as_slice(), false));
    assert_eq!(queue.registered(), 0);
}

#[test]
fn a_01_a_part_is_seen_while_the_rest_is_waited_for() {
    let queue = Events::new().unwrap();
    let (ours, mut theirs) = sockets();
    submit(&queue, 1, receive(&ours, 6, 6));
    assert_eq!(queue.progress(1), Some(Progress { done: 0, left: 6 }));
    theirs.write_all(b"abcd").unwrap();
    assert!(now(&queue).is_empty());
    assert_eq!(queue.progress(1), Some(Progress { done: 4, left: 2 }));
    assert!(queue.outcome(1).is_none(), "it is not over");
    theirs.write_all(b"efgh").unwrap();
    let (event, outcome) = ended(&queue, 1);
    assert_eq!((event.data, outcome.memory.as_slice()), (6, b"abcdef".as_slice()));
    assert_eq!(queue.progress(1), None);
    submit(&queue, 2, receive(&ours, 6, 1));
    let (event, outcome) = ended(&queue, 2);
    assert_eq!((event.data, &outcome.memory[..2]), (2, b"gh".as_slice()));
}

#[test]
fn a_01_the_end_of_a_stream_ends_an_operation_with_what_it_has() {
    let queue = Events::new().unwrap();
    let (ours, mut theirs) = sockets();
    theirs.write_all(b"ab").unwrap();
    submit(&queue, 1, receive(&ours, 4, 4));
    drop(theirs);
    let (event, outcome) = ended(&queue, 1);
    assert_eq!((event.data, outcome.error, outcome.is_end, &outcome.memory[..2]), (2, 0, true, b"ab".as_slice()));
}

#[test]
fn a_01_a_reset_ends_what_receives_and_a_lost_peer_what_sends() {
    let queue = Events::new().unwrap();
    let (ours, theirs) = tcp();
    submit(&queue, 1, receive(&ours, 4, 4));
    reset(theirs);
    assert_eq!(ended(&queue, 1).0.notes, ECONNRESET);
    submit(&queue, 2, send(&ours, vec![1; 8]));
    assert_eq!(ended(&queue, 2).0.notes, EPIPE);
}

#[test]
fn a_01_more_than_a_buffer_holds_is_sent_as_there_is_room() {
    let queue = Events::new().unwrap();
    let (ours, mut theirs) = sockets();
    let bytes = bytes_of(3 << 20);
    submit(&queue, 1, send(&ours, bytes.clone()));
    let first = queue.progress(1).unwrap();
    assert!(first.done > 0 && first.done + first.left == bytes.len() as u64, "{first:?}");
    let mut came = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    let mut told = Vec::new();
    while came.len() < bytes.len() {
        let count = theirs.read(&mut chunk).unwrap();
        came.extend_from_slice(&chunk[..count]);
        told.extend(now(&queue));
    }
    assert!(came == bytes);
    assert_eq!(told.iter().map(|event| (event.ident, event.data)).collect::<Vec<_>>(), [(1, bytes.len() as i64)]);
    assert!(queue.outcome(1).unwrap().memory == bytes);
}

#[test]
fn a_01_operations_of_one_way_go_one_after_the_other() {
    let queue = Events::new().unwrap();
    let (ours, mut theirs) = sockets();
    (1..=3).for_each(|ident| submit(&queue, ident, receive(&ours, 2, 2)));
    submit(&queue, 4, send(&ours, b"xyz".to_vec()));
    assert_eq!(next(&queue).ident, 4, "what sends does not wait for what receives");
    theirs.write_all(b"aabbc").unwrap();
    let told: Vec<u64> = [next(&queue), next(&queue)].iter().map(|event| event.ident).collect();
    assert_eq!(told, [1, 2]);
    assert_eq!([1, 2].map(|ident| queue.outcome(ident).unwrap().memory), [b"aa", b"bb"]);
    assert_eq!(queue.progress(3), Some(Progress { done: 1, left: 1 }));
}

#[test]
fn a_01_connections_are_accepted_and_made() {
    let queue = Events::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(refused(&queue, 1, Work::Accept { listener: listener.as_raw_fd() }), EINVAL, "it blocks");
    listener.set_nonblocking(true).unwrap();
    submit(&queue, 1, Work::Accept { listener: listener.as_raw_fd() });
    assert!(now(&queue).is_empty());
    let address = listener.local_addr().unwrap();
    let socket = corelane_os::sockets::connecting(&address.into(), None, &Default::default()).unwrap();
    submit(&queue, 2, Work::connect(socket.as_raw_fd(), &address));
    let mut told = [next(&queue), next(&queue)];
    told.sort_by_key(|event| event.ident);
    assert_eq!((told[0].ident, told[1].ident, told[1].notes), (1, 2, 0));
    let accepted = queue.outcome(1).unwrap().accepted.unwrap();
    assert_eq!(told[0].data, i64::from(accepted.as_raw_fd()));
    let (accepted, mut connected) = (TcpStream::from(accepted), TcpStream::from(socket));
    submit(&queue, 3, receive(&accepted, 2, 2));
    connected.set_nonblocking(false).unwrap();
    connected.write_all(b"hi").unwrap();
    assert_eq!(ended(&queue, 3).1.memory, b"hi");
}

#[test]
fn a_01_a_connection_that_nobody_takes_ends_with_why() {
    let queue = Events::new().unwrap();
    // A port that no system gives to anybody (tcpmux).
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let socket = corelane_os::sockets::connecting(&address.into(), None, &Default::default()).unwrap();
    submit(&queue, 1, Work::connect(socket.as_raw_fd(), &address));
    assert_eq!(ended(&queue, 1).0.notes, ECONNREFUSED);
}

#[test]
fn a_01_datagrams_come_one_by_one() {
    let queue = Events::new().unwrap();
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    submit(&queue, 1, receive(&ours, 8, 8));
    submit(&queue, 2, receive(&ours, 8, 8));
    theirs.send(b"abc").unwrap();
    theirs.send(b"").unwrap();
    let (first, second) = (ended(&queue, 1), ended(&queue, 2));
    assert_eq!((first.0.data, &first.1.memory[..3]), (3, b"abc".as_slice()));
    assert_eq!((second.0.data, second.1.is_end), (0, false));
}

#[test]
fn a_02_a_file_is_sent_open_or_by_its_path() {
    let (queue, folder) = (Events::new().unwrap(), Folder::new());
    let bytes = bytes_of(2 << 20);
    let file = folder.file(&bytes);
    let path = folder.0.path().join("file");
    for (ident, sent) in [(1, Sent::Open(file.as_raw_fd())), (2, Sent::Path(path))] {
        let (ours, theirs) = sockets();
        let length = bytes.len() as u64 - 1000;
        submit(&queue, ident, Work::SendFile { socket: ours.as_raw_fd(), file: sent, offset: 1000, length });
        let reader = std::thread::spawn(move || {
            let (mut theirs, mut came) = (theirs, vec![0; length as usize]);
            theirs.read_exact(&mut came).unwrap();
            came
        });
        let (event, outcome) = ended(&queue, ident);
        assert_eq!((event.data, outcome.error, outcome.is_end), (length as i64, 0, false));
        assert!(reader.join().unwrap() == bytes[1000..]);
    }
}

#[test]
fn a_02_what_a_file_lacks_is_not_sent_and_what_is_no_file_is_told() {
    let (queue, folder) = (Events::new().unwrap(), Folder::new());
    let file = folder.file(b"short");
    let (ours, mut theirs) = sockets();
    let of = |file| Work::SendFile { socket: ours.as_raw_fd(), file, offset: 0, length: u64::MAX };
    submit(&queue, 1, of(Sent::Open(file.as_raw_fd())));
    let (event, outcome) = ended(&queue, 1);
    assert_eq!((event.data, outcome.is_end), (5, true));
    let mut came = [0; 5];
    theirs.read_exact(&mut came).unwrap();
    assert_eq!(&came, b"short");
    submit(&queue, 2, of(Sent::Path(folder.0.path().join("absent"))));
    assert_eq!(ended(&queue, 2).0.notes, ENOENT as u32);
    submit(&queue, 3, of(Sent::Path(folder.0.path().to_owned())));
    assert_eq!(ended(&queue, 3).0.notes, EINVAL as u32);
    assert_eq!(refused(&queue, 4, of(Sent::Open(ours.as_raw_fd()))), EINVAL);
}

#[test]
fn q_21_files_are_read_written_and_synced() {
    let (queue, folder) = (Events::new().unwrap(), Folder::new());
    let file = folder.file(b"0123456789");
    let number = file.as_raw_fd();
    submit(&queue, 1, Work::Write { file: number, memory: b"abc".to_vec().into(), offset: 8 });
    assert_eq!(ended(&queue, 1).0.data, 3);
    submit(&queue, 2, Work::Sync { file: number });
    assert_eq!(ended(&queue, 2).0.notes, 0);
    submit(&queue, 3, Work::Read { file: number, memory: vec![0; 20].into(), offset: 6 });
    let (event, outcome) = ended(&queue, 3);
    assert_eq!((event.data, &outcome.memory[..5], outcome.is_end), (5, b"67abc".as_slice(), true));
    submit(&queue, 4, Work::Read { file: number, memory: vec![0; 2].into(), offset: u64::MAX });
    assert_eq!(ended(&queue, 4).0.notes, EINVAL as u32);
    let (ours, _theirs) = sockets();
    assert_eq!(refused(&queue, 5, Work::Sync { file: ours.as_raw_fd() }), EINVAL);
}

#[test]
fn q_21_the_end_of_a_list_is_told_after_all_of_it() {
    let (queue, folder) = (Events::new().unwrap(), Folder::new());
    let file = folder.file(b"0123456789");
    let read = |ident| {
        let work = Work::Read { file: file.as_raw_fd(), memory: vec![0; 2].into(), offset: ident };
        Submission { ident, cookie: ident * 10, work }
    };
    let bad = Submission { ident: 9, cookie: 90, work: Work::Sync { file: 1 << 20 } };
    queue.submit_list(77, 7, vec![read(1), bad, read(2), read(3)]).unwrap();
    let mut told = Vec::new();
    while told.len() < 5 {
        told.push(next(&queue));
    }
    let last = told.pop().unwrap();
    assert_eq!((last.filter, last.ident, last.cookie), (Filter::Lio, 77, 7));
    assert_eq!((last.data, last.notes, last.flags.contains(Flags::EOF)), (1, EBADF as u32, true));
    told.sort_by_key(|event| event.ident);
    assert_eq!(told.iter().map(|event| event.ident).collect::<Vec<_>>(), [1, 2, 3, 9]);
    assert_eq!([1, 2, 3].map(|ident| queue.outcome(ident).unwrap().memory), [b"12", b"23", b"34"]);
    assert_eq!(queue.outcome(9).unwrap().error, EBADF);
    queue.submit_list(78, 7, Vec::new()).unwrap();
    let empty = next(&queue);
    assert_eq!((empty.filter, empty.ident, empty.data, empty.notes), (Filter::Lio, 78, 0, 0));
}

#[test]
fn what_is_cancelled_ends_where_it_is_and_once() {
    let queue = Events::new().unwrap();
    let (ours, mut theirs) = sockets();
    submit(&queue, 1, receive(&ours, 6, 6));
    submit(&queue, 2, receive(&ours, 2, 2));
    theirs.write_all(b"abcd").unwrap();
    assert!(now(&queue).is_empty());
    queue.cancel(1).unwrap();
    assert_eq!(queue.cancel(1).unwrap_err().number, ENOENT);
    let (event, outcome) = ended(&queue, 1);
    assert_eq!((event.data, event.notes, &outcome.memory[..4]), (4, ECANCELED, b"abcd".as_slice()));
    theirs.write_all(b"ef").unwrap();
    assert_eq!(ended(&queue, 2).1.memory, b"ef", "the next has its turn");
    assert_eq!(queue.cancel(2).unwrap_err().number, ENOENT);
    assert_eq!(queue.cancel(7).unwrap_err().number, ENOENT);
}

#[test]
fn a_close_ends_the_operations_of_a_socket_told_or_not() {
    for told in [true, false] {
        let queue = Events::new().unwrap();
        let (ours, mut theirs) = sockets();
        submit(&queue, 1, receive(&ours, 6, 6));
        submit(&queue, 2, receive(&ours, 6, 6));
        let copy = ours.try_clone().unwrap();
        if told {
            corelane_event::closed(ours.as_raw_fd());
        }
        let (new, mut other) = sockets();
        other.write_all(b"not for the old one").unwrap();
        let moved = corelane_os::testing::replace(ours.into(), new.as_fd());
        theirs.write_all(b"old").unwrap();
        for ident in [1, 2] {
            assert_eq!(ended(&queue, ident).0.notes, ECANCELED);
        }
        assert!(now(&queue).is_empty());
        drop((copy, moved));
    }
}

#[test]
fn an_operation_and_an_interest_share_a_socket() {
    let queue = Events::new().unwrap();
    let (ours, mut theirs) = sockets();
    queue.change(&Change::readable(ours.as_fd()).cleared()).unwrap();
    submit(&queue, 1, receive(&ours, 4, 4));
    theirs.write_all(b"abcdef").unwrap();
    let mut told = [next(&queue), next(&queue)];
    told.sort_by_key(|event| event.filter);
    assert_eq!(told.iter().map(|event| (event.filter, event.data)).collect::<Vec<_>>(), [(Filter::Aio, 4), (Filter::Read, 2)]);
    queue.change(&Change::delete(ours.as_raw_fd() as u64, Filter::Read)).unwrap();
    submit(&queue, 2, receive(&ours, 4, 4));
    theirs.write_all(b"gh").unwrap();
    assert_eq!(ended(&queue, 2).1.memory, b"efgh");
}

#[test]
fn the_end_is_told_in_any_case() {
    let queue = Events::new().unwrap();
    let (ours, mut theirs) = sockets();
    submit(&queue, 1, receive(&ours, 2, 2));
    let change = |flags| Change { flags, ..Change::add(1, Filter::Aio) };
    for flags in [Flags::ADD, Flags::DELETE, Flags::ENABLE | Flags::FORCEONESHOT] {
        assert_eq!(queue.change(&change(flags)).unwrap_err().number, EBUSY);
    }
    assert_eq!(queue.post(1, Filter::Aio, 0, 0).unwrap_err().number, EINVAL);
    let (refused, back) = *queue.submit(Submission { ident: 1, cookie: 0, work: receive(&ours, 3, 3) }).unwrap_err();
    assert_eq!(
        (refused.number, matches!(back.work, Work::Receive { memory: Memory::Own(bytes), .. } if bytes.len() == 3)),
        (EEXIST, true)
    );
    queue.change(&change(Flags::DISABLE)).unwrap();
    theirs.write_all(b"ab").unwrap();
    assert!(now(&queue).is_empty());
    queue.change(&change(Flags::ENABLE).cookie(10)).unwrap();
    assert_eq!(ended(&queue, 1).1.memory, b"ab");
}

#[test]
fn bad_descriptors_are_refused_and_there_is_a_limit() {
    let (queue, folder) = (Events::new().unwrap(), Folder::new());
    let file = folder.file(b"");
    assert_eq!(refused(&queue, 1, receive(&Number(1 << 20), 1, 1)), EBADF);
    assert_eq!(refused(&queue, 1, receive(&Number(-1), 1, 1)), EBADF);
    assert_eq!(refused(&queue, 1, receive(&file, 1, 1)), ENOTSOCK);
    assert_eq!(refused(&queue, 1, Work::Read { file: 1 << 20, memory: vec![0].into(), offset: 0 }), EBADF);
    assert_eq!(queue.registered(), 0);
    let (ours, _theirs) = sockets();
    (0..4096).for_each(|ident| submit(&queue, ident, receive(&ours, 1, 1)));
    assert_eq!(refused(&queue, 4096, receive(&ours, 1, 1)), EAGAIN as i32);
    assert_eq!(queue.submit_list(1, 0, Vec::new()).unwrap_err().0.number, EAGAIN as i32);
    queue.cancel(4000).unwrap();
    assert_eq!(refused(&queue, 4096, receive(&ours, 1, 1)), EAGAIN as i32, "until its outcome is taken");
    ended(&queue, 4000);
    submit(&queue, 4096, receive(&ours, 1, 1));
}

/// Memory that says when it is let go.
struct Told {
    bytes: Vec<u8>,
    gone: Arc<AtomicUsize>,
}

impl Lent for Told {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn place(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.gone.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_queue_that_ends_lets_memory_go() {
    let (ours, _theirs) = sockets();
    let gone = Arc::new(AtomicUsize::new(0));
    let queue = Events::new().unwrap();
    for ident in 0..3 {
        let memory = Memory::Lent(Box::new(Told { bytes: vec![0; 4], gone: gone.clone() }));
        submit(&queue, ident, Work::Receive { socket: ours.as_raw_fd(), memory, at_least: 4 });
    }
    queue.cancel(1).unwrap();
    drop(ended(&queue, 1));
    assert_eq!(gone.load(Ordering::SeqCst), 1);
    drop(queue);
    assert_eq!(gone.load(Ordering::SeqCst), 3);
}

struct Number(RawFd);

impl AsRawFd for Number {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

fn tcp() -> (TcpStream, OwnedFd) {
    let (server, client) = corelane_os::testing::pair();
    (server.into(), client)
}

fn reset(socket: OwnedFd) {
    corelane_os::sockets::reset_on_close(socket.as_fd()).unwrap();
    drop(socket);
}
