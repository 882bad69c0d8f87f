//! Interests in manners of kevent of 2007, and memory whose room others take.

use corelane_event::{Change, Event, Filter, Flags, Intake, Manner, Queue, closed, notes};
use corelane_os::events::number;
use corelane_os::testing::{this_thread, wait_until_asleep};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(30));

fn ready(descriptor: &impl AsRawFd, asked: u32) -> Change {
    Change { notes: asked, ..Change::add(descriptor.as_raw_fd() as u64, Filter::Ready) }
}

fn now(queue: &Queue) -> Vec<Event> {
    let mut events = [Event::BLANK; 16];
    let told = queue.take(&mut events, 1, Some(Duration::ZERO)).unwrap();
    events[..told].to_vec()
}

#[test]
fn one_interest_is_told_of_all_bits_it_asks_for_as_they_were_reported() {
    let (end, mut peer) = UnixStream::pair().unwrap();
    let queue = Queue::new().unwrap();
    let change = ready(&end, notes::RECV | notes::SEND);
    assert_eq!(queue.register(&change, Manner::UNCHECKED | Manner::QUEUED), Ok(None));
    assert_eq!(now(&queue)[0].notes, notes::SEND);
    peer.write_all(b"abc").unwrap();
    let told = now(&queue)[0];
    assert_eq!((told.notes, told.data), (notes::RECV | notes::SEND, 0), "unchecked bytes are not counted");
    assert_eq!(queue.modify(&ready(&end, notes::RECV), Manner::QUEUED), Ok(None));
    assert_eq!((now(&queue)[0].notes, now(&queue)[0].data), (notes::RECV, 3));
    (&end).read_exact(&mut [0; 3]).unwrap();
    assert_eq!(now(&queue), []);
    queue.end();
}

#[test]
fn what_is_ready_is_told_at_registration_unless_it_is_to_be_queued() {
    let (end, mut peer) = UnixStream::pair().unwrap();
    peer.write_all(b"abc").unwrap();
    let queue = Queue::new().unwrap();
    let once = Change { flags: Flags::ADD | Flags::ONESHOT, ..ready(&end, notes::RECV) };
    let told = queue.register(&once, Manner::empty()).unwrap().expect("bytes are there");
    assert_eq!((told.notes, told.data, queue.registered()), (notes::RECV, 3, 0));
    assert_eq!((queue.register(&once, Manner::QUEUED), now(&queue).len(), queue.registered()), (Ok(None), 1, 0));
    queue.end();
}

#[test]
fn an_interest_is_registered_once_and_replaced_if_it_is_there() {
    let queue = Queue::new().unwrap();
    let timer = Change::every(1, Duration::from_secs(1000));
    assert_eq!(queue.modify(&timer, Manner::empty()).unwrap_err().number, number::ENOENT);
    assert_eq!(queue.register(&timer, Manner::empty()), Ok(None));
    assert_eq!(queue.register(&timer, Manner::empty()).unwrap_err().number, number::EEXIST);
    let (end, _peer) = UnixStream::pair().unwrap();
    for filter in [Filter::Ready, Filter::Poll, Filter::Read] {
        let change = Change { notes: notes::RECV, ..Change::add(end.as_raw_fd() as u64, filter) };
        assert_eq!(queue.register(&change, Manner::empty()), Ok(None), "one number, several kinds");
    }
    assert_eq!(queue.registered(), 4);
    queue.end();
}

#[test]
fn what_is_marked_is_told_once_whatever_is_true_of_it() {
    let (end, _peer) = UnixStream::pair().unwrap();
    let queue = Queue::new().unwrap();
    let ident = end.as_raw_fd() as u64;
    queue.register(&ready(&end, notes::RECV), Manner::empty()).unwrap();
    queue.register(&Change::every(7, Duration::from_secs(1000)), Manner::empty()).unwrap();
    queue.mark(ident, Filter::Ready).unwrap();
    queue.mark(7, Filter::Timer).unwrap();
    assert_eq!(queue.mark(8, Filter::Timer).unwrap_err().number, number::ENOENT);
    let told: Vec<_> = now(&queue).iter().map(|event| (event.ident, event.notes)).collect();
    assert_eq!((told, now(&queue)), (vec![(ident, 0), (7, 0)], Vec::new()));
    queue.end();
}

#[test]
fn the_end_of_an_origin_is_told_where_that_was_asked_for_though_its_number_is_anothers_by_then() {
    let (end, peer) = UnixStream::pair().unwrap();
    let queue = Queue::new().unwrap();
    let change = ready(&end, notes::RECV).cookie(11);
    queue.register(&change, Manner::BROKEN | Manner::UNCHECKED).unwrap();
    closed(end.as_raw_fd());
    queue.register(&change.cookie(12), Manner::UNCHECKED).unwrap();
    let told = now(&queue);
    assert_eq!((told.len(), told[0].cookie, told[0].data), (1, 11, i64::from(number::EBADF)));
    assert!(told[0].flags.contains(Flags::ERROR));
    assert_eq!((now(&queue), queue.registered()), (Vec::new(), 1));
    closed(end.as_raw_fd());
    assert_eq!((now(&queue), queue.registered()), (Vec::new(), 0), "nobody asked");
    drop(peer);
    queue.end();
}

#[test]
fn a_close_that_meets_the_lock_is_found_when_that_is_let_go() {
    let (end, _peer) = UnixStream::pair().unwrap();
    let queue = Queue::new().unwrap();
    queue.register(&ready(&end, notes::RECV), Manner::BROKEN).unwrap();
    queue.change(&Change::user(1)).unwrap();
    queue.change(&Change::trigger(1)).unwrap();
    let number = end.as_raw_fd();
    let told = queue
        .take_each(1, 1, Some(Duration::ZERO), |_| {
            closed(number);
        })
        .unwrap();
    assert_eq!(told, 1);
    drop(OwnedFd::from(end));
    let mut events = [Event::BLANK; 2];
    assert_eq!(queue.take(&mut events, 1, PATIENCE), Ok(1), "nothing else would ring");
    assert!(events[0].flags.contains(Flags::ERROR));
    queue.end();
}

/// Which of two threads, each asleep at a queue of its own that waits for one listener, are told of a connection.
fn woken_by_a_connection(manner: Manner) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let queues = [(); 2].map(|()| Queue::new().unwrap());
    let (tell, told) = mpsc::channel();
    thread::scope(|threads| {
        for queue in &queues {
            queue.register(&ready(&listener, notes::ACCEPT), manner | Manner::UNCHECKED).unwrap();
            queue.change(&Change::user(1)).unwrap();
            let tell = tell.clone();
            threads.spawn(move || {
                tell.send(Err(this_thread())).unwrap();
                let mut events = [Event::BLANK; 1];
                assert_eq!(queue.take(&mut events, 1, PATIENCE), Ok(1));
                tell.send(Ok(events[0].filter)).unwrap();
            });
        }
        for _ in &queues {
            wait_until_asleep(&told.recv().unwrap().unwrap_err());
        }
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let first = told.recv().unwrap().unwrap();
        assert_eq!(first, Filter::Ready);
        // Without the manner the other is told by itself: only where it is not, somebody else must wake it.
        if manner.contains(Manner::EXCLUSIVE) {
            queues.iter().for_each(|queue| queue.change(&Change::trigger(1)).unwrap());
        }
        let second = told.recv().unwrap().unwrap();
        queues.iter().for_each(|queue| queue.end());
        1 + usize::from(second == Filter::Ready)
    })
}

#[test]
fn of_queues_that_wait_in_the_exclusive_manner_one_is_woken_and_else_all() {
    assert_eq!((woken_by_a_connection(Manner::EXCLUSIVE), woken_by_a_connection(Manner::empty())), (1, 2));
}

/// Room for a few, and what came.
struct Few {
    room: usize,
    came: Vec<u64>,
    opened: usize,
}

impl Intake for Few {
    fn open(&mut self) -> usize {
        self.opened += 1;
        self.room
    }

    fn put(&mut self, event: Event) {
        assert!(self.room > 0);
        self.room -= 1;
        self.came.push(event.ident);
    }

    fn close(&mut self) {
        self.opened -= 1;
    }
}

#[test]
fn what_has_no_room_stays_and_is_told_when_there_is() {
    let queue = Queue::new().unwrap();
    for ident in 0..5 {
        queue.change(&Change::user(ident)).unwrap();
        queue.change(&Change::trigger(ident)).unwrap();
    }
    let mut few = Few { room: 0, came: Vec::new(), opened: 0 };
    assert_eq!(queue.take_into(&mut few, 9, PATIENCE), Ok(0), "nobody waits where there is no room");
    few.room = 3;
    assert_eq!(queue.take_into(&mut few, 9, PATIENCE), Ok(3));
    few.room = 3;
    assert_eq!(queue.take_into(&mut few, 9, PATIENCE), Ok(2));
    assert_eq!((few.came, few.opened), (vec![0, 1, 2, 3, 4], 0));
    queue.end();
}

#[test]
fn a_close_is_found_while_others_make_and_end_queues() {
    let left = std::sync::atomic::AtomicBool::new(true);
    thread::scope(|threads| {
        threads.spawn(|| {
            while left.load(std::sync::atomic::Ordering::Relaxed) {
                Queue::new().unwrap().end();
            }
        });
        let found = (0..1000).all(|_| {
            let (end, _peer) = UnixStream::pair().unwrap();
            let queue = Queue::new().unwrap();
            queue.register(&ready(&end, notes::RECV), Manner::BROKEN).unwrap();
            closed(end.as_raw_fd());
            let mut events = [Event::BLANK; 1];
            let told = queue.take(&mut events, 1, PATIENCE).unwrap();
            queue.end();
            told == 1
        });
        left.store(false, std::sync::atomic::Ordering::Relaxed);
        assert!(found, "nothing else would ring");
    });
}
