//! Clients over datagrams on real sockets: lanes that ask lanes.
#![forbid(unsafe_code)]

use crate::process;
use corelane::lanes::{DriverChoice, Running};
use corelane::service::{Fault, Reason, SocketId};
use corelane::{Address, Cx, DatagramService, Datagrams, Lanes, Replies, Silent};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const SOCKETS: usize = 8;
const DEPTH: usize = 32;
const ROUNDS: usize = 50;
const BYTES: usize = 510;
static QUESTION: [u8; BYTES] = [7; BYTES];

/// What a client tells the test.
#[derive(Debug, PartialEq)]
enum News {
    /// A socket has had all its answers.
    Done(SocketId),
    Opened(Result<Address, Fault>),
    Fault(Fault),
}

struct Echo;

impl DatagramService for Echo {
    type Talk = Silent;
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            cx.count_requests(arrival.datagrams());
            replies.echo(batch, arrival);
        }
    }
}

/// Asks on some sockets, with so many questions out on each.
struct Asker {
    to: SocketAddr,
    singly: bool,
    news: Sender<News>,
    /// Of each socket, how many questions are still to be asked, and how many answers to come.
    left: Vec<(SocketId, usize, usize)>,
}

impl Asker {
    fn ask(&mut self, socket: usize, replies: &mut Replies, count: usize) {
        let count = count.min(self.left[socket].1);
        self.left[socket].1 -= count;
        for _ in 0..count {
            let taken = match self.singly {
                true => replies.send_single(self.to, None, &QUESTION[..]),
                false => replies.send(self.to, None, &QUESTION[..]),
            };
            assert!(taken);
        }
    }
}

impl DatagramService for Asker {
    type Talk = Silent;
    fn started(&mut self, cx: &mut Cx<'_>) {
        for _ in 0..SOCKETS {
            cx.open_datagrams("0.0.0.0:0".parse::<corelane::Address>().unwrap(), Some(self.to.into())).unwrap();
        }
    }

    fn opened(&mut self, cx: &mut Cx<'_>, socket: SocketId, outcome: Result<corelane::Address, Fault>) {
        assert!(outcome.is_ok(), "{outcome:?}");
        self.left.push((socket, ROUNDS * DEPTH, ROUNDS * DEPTH));
        self.ask(self.left.len() - 1, cx.datagrams(socket).unwrap(), DEPTH);
    }

    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        let mut count = 0;
        for arrival in batch.arrivals() {
            assert!(arrival.peer == self.to && batch.payload(arrival).iter().all(|&byte| byte == 7));
            count += arrival.datagrams();
        }
        cx.count_requests(count);
        let socket = self.left.iter().position(|known| known.0 == cx.socket()).unwrap();
        self.left[socket].2 -= count;
        match self.left[socket].2 {
            0 => self.news.send(News::Done(cx.socket())).unwrap(),
            _ => self.ask(socket, replies, count),
        }
    }
}

fn told(news: &Receiver<News>) -> News {
    news.recv_timeout(Duration::from_secs(60)).expect("news of the client")
}

fn client<S: DatagramService>(driver: DriverChoice, make: impl Fn() -> S + Send + Sync + 'static) -> Running {
    Lanes::per_core().lanes(1).driver(driver).client_datagrams(move |_| make()).start().unwrap()
}

#[test]
fn a_client_asks_on_many_sockets() {
    if process::is_parent("datagram_clients::a_client_asks_on_many_sockets") {
        return;
    }
    for (driver, singly) in [(DriverChoice::Epoll, false), (DriverChoice::Uring, false), (DriverChoice::Auto, true)] {
        let server = Lanes::per_core().lanes(2).driver(driver).serve_datagrams("udp://127.0.0.1:0", |_| Echo).unwrap();
        let server = server.start().unwrap();
        let (sender, news) = channel();
        let to = server.address().inet().unwrap();
        let running = client(driver, move || Asker { to, singly, news: sender.clone(), left: Vec::new() });
        assert!(running.places().is_empty());
        for _ in 0..SOCKETS {
            assert!(matches!(told(&news), News::Done(_)));
        }
        running.drain();
        running.wait().unwrap();
        server.drain();
        server.wait().unwrap();
    }
}

/// Sends to a place where nobody is bound, until somebody answers.
struct Hopeful {
    to: SocketAddr,
    taken: SocketAddr,
    news: Sender<News>,
    socket: Option<SocketId>,
}

impl DatagramService for Hopeful {
    type Talk = Silent;
    fn started(&mut self, cx: &mut Cx<'_>) {
        self.socket = cx.open_datagrams("127.0.0.1:0".parse::<corelane::Address>().unwrap(), Some(self.to.into())).ok();
        cx.start_alarm(cx.now(), 0).unwrap();
        cx.open_datagrams(self.taken, None).unwrap();
    }

    fn opened(&mut self, _: &mut Cx<'_>, socket: SocketId, outcome: Result<corelane::Address, Fault>) {
        if self.socket != Some(socket) {
            self.news.send(News::Opened(outcome)).unwrap();
        }
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
        let socket = self.socket.unwrap();
        if let Some(replies) = cx.datagrams(socket) {
            replies.send(self.to, None, &b"anybody?"[..]);
            cx.start_alarm(Duration::from_millis(1), 0).unwrap();
        }
    }

    fn fault(&mut self, _: &mut Cx<'_>, _: SocketId, fault: Fault) {
        self.news.send(News::Fault(fault)).unwrap();
    }

    fn receive(&mut self, cx: &mut Cx<'_>, _: &Datagrams, _: &mut Replies) {
        cx.close_datagrams(cx.socket());
        self.news.send(News::Done(cx.socket())).unwrap();
    }
}

#[test]
fn nobody_there_is_told_and_the_socket_goes_on() {
    if process::is_parent("datagram_clients::nobody_there_is_told_and_the_socket_goes_on") {
        return;
    }
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        // Of an address that no other socket uses, so that nobody takes the port.
        let [place, other] = ["127.0.0.9:0", "127.0.0.1:0"].map(|place| UdpSocket::bind(place).unwrap());
        let [to, taken] = [&place, &other].map(|socket| socket.local_addr().unwrap());
        // Now: a lane has a copy of what is open when it starts.
        drop(place);
        let (sender, news) = channel();
        let running = client(driver, move || Hopeful { to, taken, news: sender.clone(), socket: None });
        match told(&news) {
            News::Opened(Err(fault)) => assert_eq!(fault.reason, Reason::AddressInUse),
            other => panic!("{other:?}"),
        }
        for _ in 0..3 {
            assert!(matches!(told(&news), News::Fault(fault) if fault.reason == Reason::Refused));
        }
        let place = UdpSocket::bind(to).unwrap();
        place.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut text = [0; 100];
        let (bytes, peer) = place.recv_from(&mut text).unwrap();
        assert_eq!(&text[..bytes], b"anybody?");
        place.send_to(b"yes", peer).unwrap();
        while !matches!(told(&news), News::Done(_)) {}
        running.drain();
        running.wait().unwrap();
    }
}
