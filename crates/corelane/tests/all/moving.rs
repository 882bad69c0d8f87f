//! Idle connections that move between lanes with descriptor tables of their own, on real sockets.
#![forbid(unsafe_code)]

use corelane::admin::watch::{Reader, ServiceCounter as C};
use corelane::lanes::{DriverChoice, Running};
use corelane::service::{ServiceError, Stays};
use corelane::{Cx, Error, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use std::any::Any;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// Answers each byte with its lane, and how many it has answered on this connection.
struct Counting;

impl StreamService for Counting {
    type Talk = Silent;
    type Session = u8;

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) -> u8 {
        0
    }

    fn receive(&mut self, cx: &mut Cx<'_>, count: &mut u8, input: &mut Input, output: &mut Output) -> Next {
        for _ in 0..input.len() {
            *count += 1;
            output.write(&[cx.lane() as u8, *count]).unwrap();
        }
        input.skip(input.len());
        Next::Continue
    }

    fn pack(&mut self, _cx: &mut Cx<'_>, count: u8) -> Result<Box<dyn Any + Send>, u8> {
        if count == u8::MAX { Err(count) } else { Ok(Box::new(count)) }
    }

    fn unpack(&mut self, _cx: &mut Cx<'_>, packed: Box<dyn Any + Send>) -> Result<u8, Box<dyn Any + Send>> {
        packed.downcast().map(|count| *count)
    }
}

pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) fn new(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    pub(crate) fn ask(&mut self) -> (usize, u8) {
        self.0.write_all(b"?").unwrap();
        let mut answer = [0; 2];
        self.0.read_exact(&mut answer).unwrap();
        (usize::from(answer[0]), answer[1])
    }

    fn is_end_of(&self, peer: &Peer) -> bool {
        peer.address.inet() == Some(self.0.local_addr().unwrap())
    }
}

pub(crate) fn serve(driver: DriverChoice, own: bool) -> Running {
    let lanes = Lanes::per_core().lanes(2).driver(driver).own_descriptors(own);
    lanes.serve("tcp://127.0.0.1:0", |_| Counting).unwrap().start().unwrap()
}

/// Descriptors in each lane's table.
fn descriptors(running: &Running) -> Vec<usize> {
    let open = |thread: u32| std::fs::read_dir(format!("/proc/self/task/{thread}/fd")).unwrap().count();
    running.threads().into_iter().map(open).collect()
}

/// A ring closes some turns later: so the tables are looked at until they are so.
fn until_descriptors(running: &Running, expected: &[usize]) {
    let begin = Instant::now();
    while descriptors(running) != expected {
        assert!(begin.elapsed() < PATIENCE, "{:?}, not {expected:?}", descriptors(running));
        std::thread::yield_now();
    }
}

/// Descriptors in each lane's table when nothing closes any more: they have been the same for a while.
fn settled_descriptors(running: &Running) -> Vec<usize> {
    let (mut last, mut looks) = (descriptors(running), 0);
    while looks < 20 {
        // reason: nobody tells when the last of them is closed.
        std::thread::sleep(Duration::from_millis(10));
        let now = descriptors(running);
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
    }
    last
}

pub(crate) fn count(running: &Running, counter: C) -> u64 {
    Reader::of(running.counters()).unwrap().snapshot(0).services[0].values.get(counter)
}

/// Moves connections, one or all of them, away from a lane; returns why others stay. What has just been answered may be busy still.
fn move_all(running: &Running, from: usize, only: Option<SocketAddr>) -> Vec<Stays> {
    let (told, stays) = channel();
    let choose = move |peer: &Peer| only.is_none_or(|only| peer.address.inet() == Some(only));
    running.moves().idle((from, 1 - from), choose, move |_, why| told.send(why).unwrap()).unwrap();
    stays.try_iter().collect()
}

fn connections_move_with_their_sessions(driver: DriverChoice, own: bool) {
    let running = serve(driver, own);
    let at = running.address().inet().unwrap();
    // What a lane opens with its first connection stays open.
    let mut warm: Vec<Client> = (0..16).map(|_| Client::new(at)).collect();
    warm.iter_mut().for_each(|client| {
        client.ask();
    });
    drop(warm);
    while count(&running, C::ConnectionsOpen) > 0 {
        std::thread::yield_now();
    }
    let base = if own { settled_descriptors(&running) } else { descriptors(&running) };
    let mut clients: Vec<Client> = (0..6).map(|_| Client::new(at)).collect();
    let mut lanes: Vec<usize> = clients.iter_mut().map(|client| client.ask().0).collect();
    let on = |lanes: &[usize], lane: usize| lanes.iter().filter(|&&on| on == lane).count();
    let (mut moved, mut refused) = (0, 0);
    for round in 1..=5 {
        for (client, lane) in clients.iter_mut().zip(&mut lanes) {
            let own = client.0.local_addr().unwrap();
            while !move_all(&running, *lane, Some(own)).is_empty() {
                refused += 1;
            }
            *lane = 1 - *lane;
            moved += 1;
            assert_eq!(client.ask(), (*lane, round + 1), "its session goes along");
        }
        if own {
            until_descriptors(&running, &[base[0] + on(&lanes, 0), base[1] + on(&lanes, 1)]);
        }
    }
    assert_eq!(
        [C::MovesAway, C::MovesHere, C::MovesRefused, C::MovesLost].map(|counter| count(&running, counter)),
        [moved, moved, refused, 0]
    );
    drop(clients);
    while count(&running, C::ConnectionsOpen) > 0 {
        std::thread::yield_now();
    }
    if own {
        until_descriptors(&running, &base);
    }
    running.drain();
    running.wait().unwrap();
}

#[test]
fn connections_move_between_tables_of_lanes_on_epoll() {
    connections_move_with_their_sessions(DriverChoice::Epoll, true);
}

#[test]
fn connections_move_between_tables_of_lanes_on_uring() {
    connections_move_with_their_sessions(DriverChoice::Uring, true);
}

#[test]
fn connections_move_between_lanes_that_share_a_table() {
    connections_move_with_their_sessions(DriverChoice::Epoll, false);
}

/// Bytes that are sent while connections move about arrive once, and in order.
#[test]
fn who_speaks_while_it_is_moved_loses_nothing() {
    let running = serve(DriverChoice::Auto, true);
    let at = running.address().inet().unwrap();
    let speakers: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::new(at);
                (1..=200).for_each(|number| assert_eq!(client.ask().1, number));
            })
        })
        .collect();
    while speakers.iter().any(|speaker| !speaker.is_finished()) {
        (0..2).for_each(|from| drop(move_all(&running, from, None)));
    }
    speakers.into_iter().for_each(|speaker| speaker.join().unwrap());
    let begin = Instant::now();
    // The last ones may be on their way.
    while count(&running, C::MovesAway) != count(&running, C::MovesHere) {
        assert!(begin.elapsed() < PATIENCE, "some went away and did not arrive");
        std::thread::yield_now();
    }
    assert_eq!(count(&running, C::MovesLost), 0);
    running.drain();
    running.wait().unwrap();
}

#[test]
fn who_cannot_go_is_told_why() {
    let running = serve(DriverChoice::Auto, true);
    let mut client = Client::new(running.address().inet().unwrap());
    let (lane, _) = client.ask();
    let none = running.moves().idle((lane, lane), |_| true, |_, _| ()).unwrap_err();
    assert!(matches!(none, Error::Service(ServiceError::NoSuchLane { .. })), "{none}");
    (2..=u8::MAX).for_each(|number| assert_eq!(client.ask().1, number));
    assert!(client.is_end_of(&peer_of(&running, lane)));
    let why = std::iter::repeat_with(|| move_all(&running, lane, None)).find(|stays| *stays != [Stays::Busy]);
    assert_eq!(why.unwrap(), [Stays::Service], "its service packs it no more");
    let moves = running.moves();
    running.drain();
    drop(client);
    running.wait().unwrap();
    assert!(moves.idle((0, 1), |_| true, |_, _| ()).is_err(), "its lane has ended");
}

/// The peer of the one connection of a lane, as its lane sees it.
fn peer_of(running: &Running, lane: usize) -> Peer {
    let (told, seen) = channel();
    let look = move |peer: &Peer| {
        told.send(peer.clone()).unwrap();
        false
    };
    running.moves().idle((lane, 1 - lane), look, |_, _| ()).unwrap();
    seen.recv().unwrap()
}
