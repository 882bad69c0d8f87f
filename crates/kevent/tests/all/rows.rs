//! What kevent of 2007 promises, a case for each row of its description, named after it.

use corelane_event::{Memory, Submission, Work, closed};
use corelane_kevent::{Kevents, Kind, Position, Record, Request, Returned, Ring, Statistics, Timeout, events};
use corelane_os::events::number;
use corelane_os::testing::{in_child, raise, this_thread, wait_until_asleep, wait_until_readable};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PATIENCE: Timeout = Timeout::Within(Duration::from_secs(30));
const AT_ONCE: Timeout = Timeout::Within(Duration::ZERO);

fn plain() -> Kevents {
    Kevents::new(None).unwrap()
}

fn with_ring(size: u32) -> Kevents {
    Kevents::new(Some(Arc::new(Ring::new(size).unwrap()))).unwrap()
}

fn id(descriptor: &impl AsRawFd) -> u64 {
    descriptor.as_raw_fd() as u64
}

fn socket(descriptor: &impl AsFd, event: u32) -> Record {
    Record::socket(descriptor.as_fd(), event)
}

fn add(kevents: &Kevents, record: Record) {
    let mut records = [record.with(Request::ALWAYS_QUEUE)];
    assert_eq!(kevents.add(&mut records), Ok(0), "{records:?}");
}

/// What there is now.
fn now(kevents: &Kevents) -> Vec<Record> {
    got(kevents, 0, AT_ONCE)
}

fn got(kevents: &Kevents, at_least: usize, timeout: Timeout) -> Vec<Record> {
    let mut records = [Record::default(); 64];
    let count = kevents.get_events(at_least, &mut records, timeout).unwrap();
    records[..count].to_vec()
}

/// What lies in the ring.
fn taken(ring: &Ring) -> Vec<Record> {
    let mut records = vec![Record::default(); ring.size() as usize];
    let count = ring.take(&mut records).unwrap();
    records[..count].to_vec()
}

fn wait(kevents: &Kevents, at_most: usize) -> usize {
    kevents.wait(at_most, kevents.ring().unwrap().position().index, AT_ONCE).unwrap()
}

/// A timer that never goes off here.
fn far(number: u32) -> Record {
    Record::timer(100_000 + number, 0).user(number.into())
}

#[test]
fn k_01_activity_touches_the_list_of_its_origin_and_is_told_in_the_order_it_came() {
    let kevents = plain();
    let pairs: Vec<_> = (0..8).map(|_| UnixStream::pair().unwrap()).collect();
    for (end, _) in &pairs {
        add(&kevents, socket(end, events::RECV));
    }
    for index in [5, 2, 7] {
        (&pairs[index].1).write_all(b"x").unwrap();
    }
    let told: Vec<_> = now(&kevents).iter().map(|record| record.id).collect();
    assert_eq!(told, [5, 2, 7].map(|index: usize| id(&pairs[index].0)));
}

#[test]
fn k_02_one_id_may_be_added_by_each_kind_once() {
    let kevents = plain();
    let (end, _peer) = UnixStream::pair().unwrap();
    add(&kevents, socket(&end, events::RECV));
    add(&kevents, Record::poll(end.as_fd(), 1));
    add(&kevents, Record::new(Kind::Aio, id(&end), 1));
    let mut again = [socket(&end, events::SEND)];
    assert_eq!(kevents.add(&mut again), Ok(1));
    assert_eq!((again[0].returned, again[0].data[1]), (Returned::BROKEN | Returned::DONE, number::EEXIST as u32));
}

#[test]
fn k_03_what_was_given_comes_back() {
    let kevents = plain();
    let (end, mut peer) = UnixStream::pair().unwrap();
    add(&kevents, socket(&end, events::RECV | events::SEND).with(Request::ET).user(u64::MAX - 5));
    peer.write_all(b"x").unwrap();
    let told = now(&kevents)[0];
    assert_eq!((told.id, told.kind, told.user), (id(&end), Kind::Socket as u32, u64::MAX - 5));
    assert_eq!((told.event, told.request), (events::RECV | events::SEND, Request::ET | Request::ALWAYS_QUEUE));
    assert_eq!((told.returned, told.data[0]), (Returned::DONE, events::RECV | events::SEND));
}

#[test]
fn k_04_k_05_k_07_types_events_and_flags_have_their_numbers() {
    let kinds = [Kind::Socket, Kind::Inode, Kind::Timer, Kind::Poll, Kind::NetworkAio, Kind::Aio, Kind::Pipe, Kind::Signal];
    assert_eq!(kinds.map(|kind| kind as u32), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(
        (0..9).map(Kind::from_number).collect::<Vec<_>>()[7..],
        [Some(Kind::Signal), None],
        "posix timers are the kernel's"
    );
    assert_eq!((events::FIRED, events::RECV, events::ACCEPT, events::SEND), (1, 1, 2, 4));
    assert_eq!((events::CREATE, events::REMOVE, events::DELIVERED, corelane_kevent::SIGNAL_NO_MASK), (1, 2, 1, 1 << 63));
    let flags = [Request::ONESHOT, Request::WAKEUP_ALL, Request::ET, Request::LAST_CHECK, Request::ALWAYS_QUEUE];
    assert_eq!(flags.map(|flag| flag.bits()), [1, 2, 4, 8, 16]);
    assert_eq!([Returned::BROKEN, Returned::DONE, Returned::COPY_FAILED].map(|flag| flag.bits()), [1, 2, 4]);
}

/// How many of two queues, each with a thread that sleeps at it, are told of a connection to one listener.
fn told_of_a_connection(request: Request) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let queues = [plain(), plain()];
    let (sleeps, sleeping) = mpsc::channel();
    let told = AtomicUsize::new(0);
    thread::scope(|threads| {
        for kevents in &queues {
            add(kevents, socket(&listener, events::ACCEPT).with(request));
            add(kevents, far(1));
            let (sleeps, told) = (sleeps.clone(), &told);
            threads.spawn(move || {
                sleeps.send(this_thread()).unwrap();
                let accepts = got(kevents, 1, PATIENCE).iter().any(|record| record.kind == Kind::Socket as u32);
                told.fetch_add(usize::from(accepts), Ordering::SeqCst);
            });
        }
        queues.iter().for_each(|_| wait_until_asleep(&sleeping.recv().unwrap()));
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let expected = if request == Request::WAKEUP_ALL { 2 } else { 1 };
        while told.load(Ordering::SeqCst) < expected {
            thread::yield_now();
        }
        // Who was not told still sleeps.
        queues.iter().for_each(|kevents| assert_eq!(kevents.ready(&[far(1)]), Ok(1)));
    });
    told.into_inner()
}

#[test]
fn k_06_one_queue_is_woken_and_with_wakeup_all_every_one() {
    assert_eq!((told_of_a_connection(Request::empty()), told_of_a_connection(Request::WAKEUP_ALL)), (1, 2));
}

#[test]
fn k_06_oneshot_is_told_once_and_gone() {
    let kevents = plain();
    let (end, mut peer) = UnixStream::pair().unwrap();
    add(&kevents, socket(&end, events::RECV).with(Request::ONESHOT));
    peer.write_all(b"x").unwrap();
    assert_eq!((now(&kevents).len(), now(&kevents).len()), (1, 0));
    add(&kevents, socket(&end, events::RECV));
}

#[test]
fn k_06_et_is_told_once_for_each_activity_and_the_default_for_as_long_as_it_is_so() {
    for (request, again) in [(Request::ET, 0), (Request::empty(), 1)] {
        let kevents = plain();
        let (end, mut peer) = UnixStream::pair().unwrap();
        add(&kevents, socket(&end, events::RECV).with(request));
        peer.write_all(b"x").unwrap();
        assert_eq!((now(&kevents).len(), now(&kevents).len()), (1, again));
        peer.write_all(b"x").unwrap();
        assert_eq!(now(&kevents).len(), 1);
    }
}

#[test]
fn k_06_last_check_asks_when_it_is_handed_out_and_says_how_much_there_is() {
    let kevents = plain();
    let (end, mut peer) = UnixStream::pair().unwrap();
    add(&kevents, socket(&end, events::RECV).with(Request::LAST_CHECK | Request::ET));
    peer.write_all(b"abc").unwrap();
    wait_until_readable(kevents.queue().descriptor());
    (&end).read_exact(&mut [0; 3]).unwrap();
    assert_eq!(now(&kevents), [], "no longer true");
    peer.write_all(b"abcd").unwrap();
    assert_eq!(now(&kevents)[0].data, [events::RECV, 4]);
}

#[test]
fn k_06_always_queue_keeps_what_is_ready_for_the_queue() {
    let (end, mut peer) = UnixStream::pair().unwrap();
    peer.write_all(b"x").unwrap();
    for (request, at_once) in [(Request::empty(), 1), (Request::ALWAYS_QUEUE, 0)] {
        let kevents = plain();
        assert_eq!(kevents.add(&mut [socket(&end, events::RECV).with(request | Request::ONESHOT)]), Ok(at_once));
        assert_eq!(now(&kevents).len(), 1 - at_once);
    }
}

#[test]
fn k_08_a_ring_is_of_any_size_from_two() {
    for size in [2, 3, 100, 1000] {
        assert_eq!(with_ring(size).ring().unwrap().size(), size);
    }
    for size in [0, 1, u32::MAX] {
        assert_eq!(Ring::new(size).unwrap_err().number, number::EINVAL);
    }
}

#[test]
fn k_09_what_is_ready_or_refused_is_brought_to_the_front() {
    let kevents = plain();
    let (end, _peer) = UnixStream::pair().unwrap();
    let mut records = [far(1), Record::new(Kind::Socket, 1 << 20, 1).user(7), far(2), socket(&end, events::SEND).user(8), far(3)];
    assert_eq!(kevents.add(&mut records), Ok(2));
    assert_eq!((records[0].user, records[0].data[1]), (7, number::EBADF as u32));
    assert!(records[0].returned.contains(Returned::BROKEN));
    assert_eq!((records[1].user, records[1].returned, records[1].event), (8, Returned::DONE, events::SEND));
    assert_eq!(kevents.add(&mut vec![far(9); 65_537]).unwrap_err().number, number::EINVAL);
}

#[test]
fn k_10_modify_and_remove_mark_each_record_and_ask_anew() {
    let kevents = plain();
    let (end, _peer) = UnixStream::pair().unwrap();
    add(&kevents, socket(&end, events::RECV));
    add(&kevents, far(1));
    assert_eq!(kevents.modify(&mut [far(1); 3]).unwrap_err().number, number::EINVAL, "more than are registered");
    let mut records = [socket(&end, events::SEND).user(5), far(2)];
    assert_eq!(kevents.modify(&mut records), Ok(1));
    let marks = records.map(|record| record.returned);
    assert_eq!((marks, records[1].data[1]), ([Returned::DONE, Returned::DONE | Returned::BROKEN], number::ENOENT as u32));
    let told = now(&kevents);
    assert_eq!((told.len(), told[0].event, told[0].user), (1, events::SEND, 5), "it was ready when it was asked");
    assert_eq!(kevents.remove(&mut records), Ok(1));
    assert_eq!((now(&kevents), records[1].data[1]), (vec![], number::ENOENT as u32), "what was ready is not told");
}

#[test]
fn k_11_ready_marks_and_with_nothing_wakes_one() {
    let kevents = plain();
    add(&kevents, far(1));
    add(&kevents, far(2));
    assert_eq!(kevents.ready(&[far(2), far(3), far(1)]), Ok(2));
    let told: Vec<_> = now(&kevents).iter().map(|record| record.user).collect();
    assert_eq!((told, now(&kevents)), (vec![2, 1], vec![]));
    thread::scope(|threads| {
        let waits = threads.spawn(|| got(&kevents, 1, Timeout::Never));
        assert_eq!(kevents.ready(&[]), Ok(0));
        assert_eq!(waits.join().unwrap(), []);
    });
}

#[test]
fn k_12_get_events_waits_for_its_minimum() {
    let kevents = plain();
    (1..=3).for_each(|number| add(&kevents, far(number)));
    thread::scope(|threads| {
        let waits = threads.spawn(|| got(&kevents, 3, PATIENCE));
        for number in 1..=3 {
            assert!(!waits.is_finished(), "fewer than the minimum");
            kevents.ready(&[far(number)]).unwrap();
        }
        assert_eq!(waits.join().unwrap().len(), 3);
    });
}

#[test]
fn k_12_a_timeout_is_relative_or_an_instant_of_the_wall_clock_and_ends_a_wait_for_more() {
    let kevents = plain();
    add(&kevents, far(1));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    for timeout in
        [Timeout::Within(Duration::from_millis(5)), Timeout::Until(since + Duration::from_millis(5)), Timeout::Until(since)]
    {
        kevents.ready(&[far(1)]).unwrap();
        assert_eq!(got(&kevents, 2, timeout).len(), 1);
        if let Timeout::Until(instant) = timeout {
            assert!(SystemTime::now().duration_since(UNIX_EPOCH).unwrap() >= instant, "no earlier");
        }
    }
}

#[test]
fn k_12_get_events_copies_to_the_ring_what_that_has_room_for() {
    let kevents = with_ring(2);
    (1..=3).for_each(|number| add(&kevents, far(number)));
    kevents.ready(&[far(1), far(2), far(3)]).unwrap();
    let (got, ringed) = (now(&kevents), taken(kevents.ring().unwrap()));
    assert_eq!((got.len(), &got[..2]), (3, &ringed[..]));
}

#[test]
fn k_13_wait_moves_what_has_come_and_there_is_room_for() {
    let kevents = with_ring(3);
    let ring = kevents.ring().unwrap();
    (1..=5).for_each(|number| add(&kevents, far(number)));
    kevents.ready(&[1, 2, 3, 4, 5].map(far)).unwrap();
    assert_eq!((wait(&kevents, 0), wait(&kevents, 2), wait(&kevents, 9), wait(&kevents, 9)), (0, 2, 1, 0), "a full ring");
    let users = |records: Vec<Record>| records.iter().map(|record| record.user).collect::<Vec<_>>();
    assert_eq!(users(taken(ring)), [1, 2, 3]);
    assert_eq!((wait(&kevents, 9), users(taken(ring)), wait(&kevents, 9)), (2, vec![4, 5], 0));
    assert_eq!(plain().wait(1, 0, AT_ONCE).unwrap_err().number, number::EINVAL, "no ring");
}

#[test]
fn k_13_wait_returns_at_once_where_the_index_has_moved_or_something_is_to_be_taken() {
    let kevents = with_ring(3);
    assert_eq!(kevents.wait(1, 2, Timeout::Never), Ok(0), "the index is another");
    kevents.put(&far(1)).unwrap();
    assert_eq!(kevents.wait(1, 0, Timeout::Never), Ok(0), "something lies there");
    assert_eq!(taken(kevents.ring().unwrap()), [far(1)]);
}

#[test]
fn k_13_who_waits_is_woken_by_what_others_put_there() {
    let kevents = with_ring(3);
    thread::scope(|threads| {
        let waits = threads.spawn(|| {
            let mut seen = Vec::new();
            while seen.len() < 100 {
                kevents.wait(1, kevents.ring().unwrap().position().index, Timeout::Never).unwrap();
                seen.extend(taken(kevents.ring().unwrap()));
            }
            seen
        });
        for number in 1..=100 {
            while kevents.put(&far(number)).is_err() {
                thread::yield_now();
            }
        }
        assert_eq!(waits.join().unwrap(), (1..=100).map(far).collect::<Vec<_>>());
    });
}

#[test]
fn k_13_many_threads_see_each_event_once() {
    const EVENTS: usize = 4000;
    let (kevents, seen, left) = (with_ring(7), Mutex::new(HashSet::new()), AtomicUsize::new(EVENTS));
    for number in 1..=EVENTS as u32 {
        add(&kevents, far(number).with(Request::ONESHOT));
    }
    thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                let ring = kevents.ring().unwrap();
                while left.load(Ordering::SeqCst) > 0 {
                    kevents.wait(5, ring.position().index, PATIENCE).unwrap();
                    let mut records = [Record::default(); 3];
                    let count = ring.take(&mut records).unwrap();
                    for record in &records[..count] {
                        assert!(seen.lock().unwrap().insert(record.user), "seen twice");
                    }
                    if count > 0 && left.fetch_sub(count, Ordering::SeqCst) == count {
                        // Those that sleep find nothing more.
                        (0..8).for_each(|_| assert_eq!(kevents.ready(&[]), Ok(0)));
                    }
                }
            });
        }
        for number in 1..=EVENTS as u32 {
            assert_eq!(kevents.ready(&[far(number)]), Ok(1));
        }
    });
    assert_eq!(seen.into_inner().unwrap().len(), EVENTS);
}

#[test]
fn k_14_a_commit_frees_what_was_read_and_a_stale_one_is_refused() {
    let kevents = with_ring(3);
    (1..=3).for_each(|number| kevents.put(&far(number)).unwrap());
    let commit = |index, over| kevents.commit(Position { index, over }).map_err(|refused| refused.number);
    assert_eq!((commit(3, 0), commit(1, 1)), (Err(number::EINVAL), Err(number::EINVAL)));
    assert_eq!((commit(2, 0), commit(2, 0)), (Ok(2), Ok(0)));
    (4..=5).for_each(|number| kevents.put(&far(number)).unwrap());
    assert_eq!((commit(1, 1), commit(2, 0)), (Ok(2), Err(number::EOVERFLOW)));
    assert_eq!(taken(kevents.ring().unwrap()), [far(5)]);
    assert_eq!(plain().commit(Position::default()).unwrap_err().number, number::EINVAL);
}

#[test]
fn k_15_what_is_told_as_long_as_it_is_so_lies_in_the_ring_once() {
    let kevents = with_ring(8);
    let (end, mut peer) = UnixStream::pair().unwrap();
    add(&kevents, socket(&end, events::RECV));
    peer.write_all(b"x").unwrap();
    assert_eq!((wait(&kevents, 8), wait(&kevents, 8), wait(&kevents, 8)), (1, 0, 0));
    assert_eq!((taken(kevents.ring().unwrap()).len(), wait(&kevents, 8)), (1, 1));
}

#[test]
fn k_15_a_full_ring_refuses_what_is_put_and_loses_nothing() {
    let kevents = with_ring(2);
    add(&kevents, far(3));
    (1..=2).for_each(|number| kevents.put(&far(number)).unwrap());
    assert_eq!(kevents.put(&far(9)).unwrap_err().number, number::ENOSPC);
    kevents.ready(&[far(3)]).unwrap();
    assert_eq!(wait(&kevents, 8), 0);
    assert_eq!(taken(kevents.ring().unwrap()), [far(1), far(2)]);
    assert_eq!((wait(&kevents, 8), taken(kevents.ring().unwrap())[0].user), (1, 3));
}

#[test]
fn k_16_the_descriptor_is_readable_when_anything_is_ready() {
    let (outer, inner) = (plain(), plain());
    add(&inner, far(1));
    let watched = Record::new(Kind::Poll, inner.queue().descriptor() as u64, 1);
    add(&outer, watched);
    assert_eq!(now(&outer), []);
    inner.ready(&[far(1)]).unwrap();
    wait_until_readable(inner.queue().descriptor());
    assert_eq!(got(&outer, 1, PATIENCE)[0].data[0], 1);
}

#[test]
fn k_17_the_end_of_an_origin_is_told_as_broken_and_ends_a_wait() {
    for request in [Request::empty(), Request::ET, Request::ONESHOT, Request::LAST_CHECK, Request::WAKEUP_ALL] {
        let kevents = with_ring(4);
        let (end, _peer) = UnixStream::pair().unwrap();
        add(&kevents, socket(&end, events::RECV).with(request).user(9));
        thread::scope(|threads| {
            let waits = threads.spawn(|| kevents.wait(4, 0, PATIENCE));
            closed(end.as_raw_fd());
            drop(OwnedFd::from(end));
            assert_eq!(waits.join().unwrap(), Ok(1));
        });
        let told = taken(kevents.ring().unwrap());
        assert_eq!((told.len(), told[0].user, told[0].returned), (1, 9, Returned::BROKEN | Returned::DONE));
        assert_eq!((now(&kevents), told[0].data[1]), (vec![], number::EBADF as u32));
    }
}

#[test]
fn k_18_statistics_say_how_events_were_told() {
    let kevents = with_ring(4);
    let (end, _peer) = UnixStream::pair().unwrap();
    assert_eq!(kevents.add(&mut [socket(&end, events::SEND).with(Request::ONESHOT)]), Ok(1));
    (1..=3).for_each(|number| add(&kevents, far(number)));
    kevents.ready(&[far(1), far(2)]).unwrap();
    assert_eq!(wait(&kevents, 4), 2);
    kevents.ready(&[far(3)]).unwrap();
    assert_eq!(now(&kevents).len(), 1);
    assert_eq!(kevents.statistics(), Statistics { taken: 1, ringed: 2, at_once: 1, total: 4 });
}

#[test]
fn k_19_a_connection_that_is_closed_after_its_last_bytes_were_read_is_told_at_once() {
    for request in [Request::empty(), Request::ET, Request::LAST_CHECK, Request::LAST_CHECK | Request::ET] {
        let kevents = plain();
        let (end, mut peer) = UnixStream::pair().unwrap();
        add(&kevents, socket(&end, events::RECV).with(request));
        peer.write_all(b"x").unwrap();
        assert_eq!(got(&kevents, 1, PATIENCE).len(), 1);
        (&end).read_exact(&mut [0; 1]).unwrap();
        drop(peer);
        assert_eq!(got(&kevents, 1, Timeout::Never)[0].event, events::RECV);
    }
}

#[test]
fn k_20_sockets_tell_bytes_room_and_how_many_connections_wait() {
    let kevents = plain();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    add(&kevents, socket(&listener, events::ACCEPT));
    assert_eq!(now(&kevents), []);
    let clients: Vec<_> = (0..3).map(|_| TcpStream::connect(listener.local_addr().unwrap()).unwrap()).collect();
    assert_eq!(got(&kevents, 1, PATIENCE)[0].data, [events::ACCEPT, 3]);
    let _accepted: Vec<_> = clients.iter().map(|_| listener.accept().unwrap()).collect();
    assert_eq!(now(&kevents), []);
    add(&kevents, socket(&clients[0], events::RECV | events::SEND));
    assert_eq!(now(&kevents)[0].event, events::SEND);
}

#[test]
fn k_20_pipes_are_as_sockets() {
    let kevents = plain();
    let (reader, mut writer) = std::io::pipe().unwrap();
    add(&kevents, Record::pipe(reader.as_fd(), events::RECV).with(Request::LAST_CHECK));
    add(&kevents, Record::pipe(writer.as_fd(), events::SEND));
    let told = now(&kevents);
    assert_eq!((told.len(), told[0].id, told[0].event), (1, id(&writer), events::SEND));
    writer.write_all(b"abc").unwrap();
    let told = now(&kevents);
    assert_eq!(told.iter().find(|record| record.id == id(&reader)).unwrap().data, [events::RECV, 3]);
}

#[test]
fn k_21_poll_tells_the_bits_of_poll_and_checks_by_itself() {
    let kevents = plain();
    let (end, mut peer) = UnixStream::pair().unwrap();
    add(&kevents, Record::poll(end.as_fd(), 1).with(Request::ET));
    peer.write_all(b"x").unwrap();
    wait_until_readable(kevents.queue().descriptor());
    (&end).read_exact(&mut [0; 1]).unwrap();
    assert_eq!(now(&kevents), []);
    drop(peer);
    assert_eq!(now(&kevents)[0].data[0], 1 | 0x10, "POLLIN and POLLHUP");
}

#[test]
fn k_22_a_timer_is_its_time_and_periodic_unless_oneshot() {
    let kevents = plain();
    add(&kevents, Record::timer(0, 1_000_000).user(1));
    let first = got(&kevents, 1, PATIENCE)[0];
    let second = got(&kevents, 1, PATIENCE)[0];
    assert!(first.data[1] >= 1 && second.data[0].wrapping_sub(first.data[0]) < 30_000, "milliseconds of a clock that goes on");
    assert_eq!(kevents.remove(&mut [Record::timer(0, 1_000_000)]), Ok(1));
    add(&kevents, Record::timer(0, 1).with(Request::ONESHOT));
    assert_eq!(got(&kevents, 1, PATIENCE)[0].event, events::FIRED);
    assert_eq!(kevents.queue().registered(), 0);
}

#[test]
fn k_23_a_directory_tells_new_and_lost_entries_apart() {
    let folder = std::env::temp_dir().join(format!("corelane-kevent-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let open = std::fs::File::open(&folder).unwrap();
    let kevents = plain();
    add(&kevents, Record::directory(open.as_fd(), events::CREATE | events::REMOVE));
    std::fs::write(folder.join("a"), "a").unwrap();
    assert_eq!(got(&kevents, 1, PATIENCE)[0].event, events::CREATE);
    std::fs::remove_file(folder.join("a")).unwrap();
    assert_eq!((got(&kevents, 1, PATIENCE)[0].event, now(&kevents)), (events::REMOVE, vec![]));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn k_24_signals_are_counted_and_not_inherited() {
    const SIGUSR2: u64 = 12;
    let kevents = plain();
    add(&kevents, Record::new(Kind::Signal, corelane_kevent::SIGNAL_NO_MASK | SIGUSR2, events::DELIVERED));
    raise(SIGUSR2 as i32);
    let told = got(&kevents, 1, PATIENCE)[0];
    assert_eq!((told.id, told.data[1]), (corelane_kevent::SIGNAL_NO_MASK | SIGUSR2, 1));
    let refused = |result: Result<usize, corelane_event::Refused>| result.unwrap_err().number == number::EBADF;
    assert!(in_child(|| refused(kevents.get_events(1, &mut [Record::default()], AT_ONCE)) && refused(kevents.add(&mut []))));
}

#[test]
fn a_child_shares_the_ring_takes_commits_puts_and_waits() {
    let kevents = with_ring(5);
    let ring = kevents.ring().unwrap();
    add(&kevents, far(1));
    kevents.ready(&[far(1)]).unwrap();
    assert_eq!(wait(&kevents, 5), 1);
    let child = || {
        let taken = taken(ring);
        let refused = kevents.ready(&[far(1)]).is_err();
        // Nothing lies there: it is a wait that ends with its time.
        let waited = kevents.wait(1, ring.position().index, Timeout::Within(Duration::from_millis(1)));
        taken.len() == 1 && refused && waited == Ok(0) && kevents.put(&far(7)).is_ok()
    };
    assert!(in_child(child));
    assert_eq!((taken(ring), kevents.put(&far(8))), (vec![far(7)], Ok(())));
    let child = || kevents.wait(1, ring.position().index, Timeout::Never) == Ok(0) && taken(ring) == [far(8)];
    assert!(in_child(child), "what the parent has put is the child's to take");
}

#[test]
fn a_parent_that_waits_is_woken_by_what_its_child_puts() {
    let kevents = with_ring(5);
    thread::scope(|threads| {
        let waits = threads.spawn(|| {
            while kevents.ring().unwrap().is_empty() {
                kevents.wait(1, 0, Timeout::Never).unwrap();
            }
            taken(kevents.ring().unwrap())
        });
        assert!(in_child(|| kevents.put(&far(7)).is_ok()));
        assert_eq!(waits.join().unwrap(), [far(7)]);
    });
}

#[test]
fn a_01_operations_complete_through_the_queue_and_the_ring() {
    let kevents = with_ring(4);
    let (end, mut peer) = UnixStream::pair().unwrap();
    let receive = |ident| {
        let memory = Memory::Own(vec![0; 8]);
        let work = Work::Receive { socket: end.as_raw_fd(), memory, at_least: 3 };
        assert!(kevents.queue().submit(Submission { ident, cookie: ident + 100, work }).is_ok());
    };
    receive(1);
    assert_eq!(kevents.modify(&mut [Record::new(Kind::Aio, 1, events::COMPLETE)]), Ok(0), "its end is told in any case");
    assert_eq!(kevents.ready(&[Record::new(Kind::Aio, 1, events::COMPLETE)]), Ok(0));
    peer.write_all(b"ab").unwrap();
    assert_eq!((now(&kevents), kevents.queue().progress(1).map(|progress| progress.done)), (vec![], Some(2)), "partial");
    peer.write_all(b"c").unwrap();
    assert_eq!(kevents.wait(4, 0, PATIENCE), Ok(1));
    let told = taken(kevents.ring().unwrap())[0];
    assert_eq!((told.kind, told.id, told.user, told.data), (Kind::Aio as u32, 1, 101, [3, 0]));
    assert_eq!((told.event, told.returned), (events::COMPLETE, Returned::DONE));
    receive(2);
    drop(peer);
    let told = got(&kevents, 1, PATIENCE)[0];
    assert_eq!((told.id, told.data[0], told.returned), (2, 0, Returned::DONE | Returned::BROKEN));
}

#[test]
fn timers_beyond_the_limit_are_refused_one_by_one() {
    let kevents = plain();
    let mut timers: Vec<Record> = (0..4097).map(far).collect();
    assert_eq!(kevents.add(&mut timers), Ok(1));
    assert_eq!((timers[0].user, timers[0].data[1]), (4096, number::ENOMEM as u32));
}

#[test]
fn a_descriptor_closed_by_another_thread_in_the_middle_of_a_change_ends_as_any_other() {
    let kevents = with_ring(100);
    // Something is registered in any case.
    add(&kevents, far(1));
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for round in 0..300 {
                    let (end, mut peer) = UnixStream::pair().unwrap();
                    add(&kevents, socket(&end, events::RECV).user(round));
                    peer.write_all(b"x").unwrap();
                    let number = end.as_raw_fd();
                    thread::scope(|inner| {
                        inner.spawn(|| closed(number));
                        let mut records = [socket(&end, events::RECV | events::SEND)];
                        // It is found, or its end was faster.
                        assert!(kevents.modify(&mut records).is_ok_and(|found| found <= 1));
                    });
                    drop(OwnedFd::from(end));
                    kevents.wait(9, kevents.ring().unwrap().position().index, AT_ONCE).unwrap();
                    for record in taken(kevents.ring().unwrap()) {
                        assert!(record.returned.contains(Returned::DONE), "{record:?}");
                    }
                }
            });
        }
    });
}
