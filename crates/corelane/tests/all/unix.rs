//! Unix sockets on the real system: lanes that share a name, who asks, and what becomes of the path.
#![forbid(unsafe_code)]

use crate::process;
use corelane::lanes::{DriverChoice, Running};
use corelane::service::{Limits, Reason, SocketId, Unix};
use corelane::{
    Address, Cx, DatagramService, Datagrams, Error, Input, Lanes, Next, Output, Peer, Replies, Silent, StreamService,
};
use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

const DRIVERS: [DriverChoice; 2] = [DriverChoice::Epoll, DriverChoice::Uring];
const PATIENCE: Duration = Duration::from_secs(30);

/// A directory of the test's own.
fn directory(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("corelane-unix-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// This process's user.
fn user() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").unwrap().uid()
}

/// Answers each byte with the lane's number and the user who asked, and what else came as it is.
struct Who;

impl StreamService for Who {
    type Talk = Silent;
    type Session = u32;

    fn open(&mut self, _: &mut Cx<'_>, peer: &Peer) -> u32 {
        assert_eq!((peer.flow, peer.local.unix().map(|unix| unix.user)), (None, Some(None)));
        peer.address.unix().and_then(|unix| unix.user).unwrap()
    }

    fn receive(&mut self, cx: &mut Cx<'_>, user: &mut u32, input: &mut Input, output: &mut Output) -> Next {
        let asked = input.len();
        input.skip(input.len());
        let [a, b, c, d] = user.to_le_bytes();
        (0..asked).for_each(|_| assert!(output.write(&[cx.lane() as u8, a, b, c, d]).is_ok()));
        Next::Continue
    }
}

fn ask(stream: &mut UnixStream) -> (u8, u32) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"?").unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    (answer[0], u32::from_le_bytes(answer[1..].try_into().unwrap()))
}

fn serve(driver: DriverChoice, lanes: usize, url: &str) -> Result<Running, Error> {
    Lanes::per_core().lanes(lanes).driver(driver).serve(url, |_| Who)?.start()
}

#[test]
fn lanes_share_a_path_and_know_the_user() {
    if process::is_parent("unix::lanes_share_a_path_and_know_the_user") {
        return;
    }
    let directory = directory("share");
    let path = directory.join("x.sock");
    for driver in DRIVERS {
        let running = serve(driver, 3, &format!("unix:{}?mode=0600", path.display())).unwrap();
        assert_eq!(running.address().unix().and_then(Unix::as_path), Some(path.as_path()));
        let mut lanes = [0; 3];
        let mut streams = Vec::new();
        while lanes.contains(&0) {
            let mut stream = UnixStream::connect(&path).unwrap();
            let (lane, asked_by) = ask(&mut stream);
            assert_eq!(asked_by, user());
            lanes[lane as usize] += 1;
            streams.push(stream);
            assert!(streams.len() < 10_000, "some lane never accepts: {lanes:?}");
        }
        running.drain();
        for mut stream in streams {
            assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the drain closes what is idle");
        }
        running.wait().unwrap();
        assert!(!path.exists(), "the path goes with the lanes");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn a_name_has_one_program() {
    if process::is_parent("unix::a_name_has_one_program") {
        return;
    }
    let directory = directory("one");
    let url = format!("unix:{}", directory.join("x.sock").display());
    let first = serve(DriverChoice::Auto, 2, &url).unwrap();
    let second = serve(DriverChoice::Auto, 2, &url).map(drop).unwrap_err().to_string();
    assert!(second.contains(&format!("process {} of user {} serves there", std::process::id(), user())), "{second}");
    let joined = Lanes::per_core().join(true).serve(&url, |_| Who).unwrap().start().map(drop).unwrap_err().to_string();
    assert!(joined.contains("leave out --join"), "{joined}");
    let twice = Lanes::per_core().serve(&url, |_| Who).unwrap().serve(&url, |_| Who).unwrap();
    assert!(matches!(twice.start().map(drop), Err(Error::Name { .. } | Error::Setting { .. })));
    assert_eq!(ask(&mut UnixStream::connect(directory.join("x.sock")).unwrap()).1, user());
    drop(first);
    let missing = serve(DriverChoice::Auto, 1, &format!("unix:{}/missing/x.sock", directory.display()));
    let missing = missing.map(drop).unwrap_err().to_string();
    assert!(missing.ends_with("missing is missing: create it"), "{missing}");
    std::fs::remove_dir_all(directory).unwrap();
}

/// A user is one peer to limits, whatever the number of connections.
#[test]
fn a_users_connections_are_bounded() {
    if process::is_parent("unix::a_users_connections_are_bounded") {
        return;
    }
    let directory = directory("bound");
    let path = directory.join("x.sock");
    for driver in DRIVERS {
        let mut limits = Limits::default();
        limits.connections_per_peer_max = 2;
        let lanes = Lanes::per_core().lanes(1).driver(driver).limits(limits);
        let running = lanes.serve(&format!("unix:{}", path.display()), |_| Who).unwrap().start().unwrap();
        let mut open: Vec<_> = (0..2).map(|_| UnixStream::connect(&path).unwrap()).collect();
        open.iter_mut().for_each(|stream| assert_eq!(ask(stream).1, user()));
        let mut refused = UnixStream::connect(&path).unwrap();
        refused.set_read_timeout(Some(PATIENCE)).unwrap();
        let end = refused.read(&mut [0]);
        assert!(matches!(&end, Ok(0)) || end.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
        drop(running);
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// A lane that has no room leaves who comes to those that have: together they take as many as all of them may, and one more waits until
/// somebody leaves.
#[test]
fn lanes_without_room_leave_connections_to_the_others() {
    if process::is_parent("unix::lanes_without_room_leave_connections_to_the_others") {
        return;
    }
    const LANES: usize = 3;
    const EACH: usize = 4;
    for driver in DRIVERS {
        let name = format!("@corelane-room-{}-{driver:?}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name[1..]).unwrap();
        let mut limits = Limits::default();
        (limits.connections_max, limits.connections_per_peer_max) = (EACH as u32, (LANES * EACH) as u32);
        let lanes = Lanes::per_core().lanes(LANES).driver(driver).limits(limits);
        let running = lanes.serve(&format!("unix:{name}"), |_| Who).unwrap().start().unwrap();
        let connect = || UnixStream::connect_addr(&address).unwrap();
        let mut open: Vec<_> = (0..LANES * EACH).map(|_| connect()).collect();
        let mut taken = [0; LANES];
        open.iter_mut().for_each(|stream| taken[ask(stream).0 as usize] += 1);
        assert_eq!(taken, [EACH; LANES]);
        for round in 0..4 * LANES {
            let mut waiting = connect();
            let leaving = open.remove(round * 5 % open.len());
            drop(leaving);
            assert_eq!(ask(&mut waiting).1, user());
            open.push(waiting);
        }
        running.drain();
        drop(open);
        running.wait().unwrap();
    }
}

/// Sends back what it gets, with the sender's user before it.
struct Back;

impl DatagramService for Back {
    type Talk = Silent;
    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        assert_eq!(cx.lane(), 0, "datagrams of a Unix socket come to one lane");
        for arrival in batch.arrivals() {
            let user = arrival.peer.unix().and_then(|unix| unix.user).unwrap();
            let answer = [&user.to_le_bytes(), batch.payload(arrival)].concat();
            let answer = cx.arena().copy_of(&answer).unwrap().share();
            replies.send(&arrival.peer, None, answer);
        }
    }
}

#[test]
fn datagrams_come_with_their_user_and_go_back_to_their_name() {
    if process::is_parent("unix::datagrams_come_with_their_user_and_go_back_to_their_name") {
        return;
    }
    let directory = directory("datagrams");
    let (path, own) = (directory.join("x.sock"), directory.join("client.sock"));
    for driver in DRIVERS {
        let lanes = Lanes::per_core().lanes(2).driver(driver);
        let running = lanes.serve_datagrams(&format!("unixgram:{}", path.display()), |_| Back).unwrap().start().unwrap();
        let client = UnixDatagram::bind(&own).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        for size in [0, 1, 1_000, 60_000] {
            let payload = vec![7; size];
            client.send_to(&payload, &path).unwrap();
            let mut answer = vec![0; 65_536];
            let (bytes, from) = client.recv_from(&mut answer).unwrap();
            assert_eq!(from.as_pathname(), Some(path.as_path()));
            assert!(answer[..bytes] == [&user().to_le_bytes()[..], &payload].concat());
        }
        drop(running);
        assert!(!path.exists());
        std::fs::remove_file(&own).unwrap();
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// Asks a server of [`Who`] once, and one of [`Back`].
struct Asker {
    to: Address,
    told: Sender<Vec<u8>>,
}

impl StreamService for Asker {
    type Talk = Silent;
    type Session = ();

    fn started(&mut self, cx: &mut Cx<'_>) {
        cx.connect(&self.to, ()).unwrap();
    }

    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}

    fn connected(&mut self, cx: &mut Cx<'_>, (): &mut (), output: &mut Output) -> Next {
        let id = cx.id();
        let peer = cx.peer(id).unwrap();
        let unix = peer.address.unix().unwrap();
        assert_eq!((unix.name(), unix.user), (self.to.unix().unwrap().name(), Some(user())));
        assert!(output.write(b"?").is_ok());
        Next::Continue
    }

    fn receive(&mut self, _: &mut Cx<'_>, (): &mut (), input: &mut Input, _: &mut Output) -> Next {
        match input.contiguous(5) {
            Some(answer) => {
                self.told.send(answer.to_vec()).unwrap();
                Next::Close
            }
            None => Next::Need(1),
        }
    }

    fn closed(&mut self, cx: &mut Cx<'_>, (): (), ending: corelane::service::Ending) {
        if ending == corelane::service::Ending::Error {
            self.told.send(format!("{:?}", cx.fault().map(|fault| fault.reason)).into_bytes()).unwrap();
        }
    }
}

impl DatagramService for Asker {
    type Talk = Silent;
    fn started(&mut self, cx: &mut Cx<'_>) {
        let socket = cx.open_datagrams(Unix::UNNAMED, Some(self.to.clone())).unwrap();
        assert!(cx.datagrams(socket).unwrap().send(&self.to, None, &b"ask"[..]));
    }

    fn opened(&mut self, _: &mut Cx<'_>, _: SocketId, outcome: Result<Address, corelane::service::Fault>) {
        assert!(!outcome.unwrap().unix().unwrap().name().is_empty(), "the system has chosen a name");
    }

    fn receive(&mut self, _: &mut Cx<'_>, batch: &Datagrams, _: &mut Replies) {
        self.told.send(batch.payload(&batch.arrivals()[0]).to_vec()).unwrap();
    }
}

#[test]
fn lanes_are_clients_too() {
    if process::is_parent("unix::lanes_are_clients_too") {
        return;
    }
    let name = format!("unix:@corelane-clients-{}", std::process::id());
    let to: Address = name.parse().unwrap();
    for driver in DRIVERS {
        let client = || Lanes::per_core().lanes(1).driver(driver);
        let (told, news) = channel();
        let server = serve(driver, 2, &name).unwrap();
        let (asker, tell) = (to.clone(), told.clone());
        let asking = client().client(move |_| Asker { to: asker.clone(), told: tell.clone() }).start().unwrap();
        assert_eq!(news.recv_timeout(PATIENCE).unwrap()[1..], user().to_le_bytes());
        drop((asking, server));
        let (asker, tell) = (to.clone(), told.clone());
        let nobody = client().client(move |_| Asker { to: asker.clone(), told: tell.clone() }).start().unwrap();
        assert_eq!(news.recv_timeout(PATIENCE).unwrap(), format!("{:?}", Some(Reason::Refused)).into_bytes());
        drop(nobody);
        let url = name.replace("unix:", "unixgram:");
        let server = client().serve_datagrams(&url, |_| Back).unwrap().start().unwrap();
        let (asker, tell) = (to.clone(), told.clone());
        let asking = client().client_datagrams(move |_| Asker { to: asker.clone(), told: tell.clone() }).start().unwrap();
        assert_eq!(news.recv_timeout(PATIENCE).unwrap(), [&user().to_le_bytes()[..], b"ask"].concat());
        drop((asking, server));
    }
}
