//! Unix names: the test's peers as clients and servers there, each of a user of its own.

use crate::bench::{Bench, reason};
use corelane_seam::{
    Address, Arena, Bind, DatagramOp, DatagramOutcome, Datagrams, Driver, Listen, Outcome, Reason, Segment, StreamOp,
    StreamOptions, StreamOutcome, Trains, Tuning, Unix,
};
use corelane_sim::{Faults, Status, World};

fn path() -> Unix {
    Unix::path(b"/run/service.sock").unwrap()
}

fn listen(name: Unix, share_port: bool) -> Listen {
    Listen { address: name.into(), backlog: 2, share_port, v6_only: false, stream: StreamOptions::default() }
}

fn connect(name: Unix) -> StreamOp {
    StreamOp::Connect { to: name.into(), from: None, options: StreamOptions::default() }
}

fn bind(name: Unix) -> Bind {
    let (receive_buffer_bytes, send_buffer_bytes) = (0, 0);
    Bind { address: name.into(), peer: None, share_port: false, v6_only: false, receive_buffer_bytes, send_buffer_bytes }
}

#[test]
fn a_lane_is_told_the_user_of_each_client() {
    let mut bench = Bench::new(Faults::none());
    let listener = bench.lanes[0].listen(&listen(path(), false)).unwrap();
    let accept = bench.push(0, StreamOp::Accept { listener });
    let to = bench.world.named(&path());
    let named = Unix::hidden(b"client").unwrap().of_user(12);
    for client in [Unix::UNNAMED.of_user(0), Unix::UNNAMED.of_user(u32::MAX), named] {
        let from = bench.world.named(&client);
        let peer = bench.world.connect(from, to).unwrap();
        let Outcome::Stream(StreamOutcome::Accepted { peer: told, local, .. }) = bench.end(accept) else {
            panic!("not accepted")
        };
        assert_eq!((told, local), (Address::from(client.clone()), Address::from(path())));
        bench.settle();
        assert_eq!((peer.status(), bench.world.meaning(peer.local())), (Status::Open, client.into()));
    }
}

#[test]
fn a_lane_is_told_the_user_of_a_server() {
    let mut bench = Bench::new(Faults::none());
    let served = path().of_user(33);
    let at = bench.world.named(&served);
    let missing = bench.run(0, connect(path()));
    assert_eq!(reason(&missing), Some(Reason::NotFound));
    bench.world.listen(at).unwrap();
    assert_eq!(bench.world.listen(at).unwrap_err().reason, Reason::AddressInUse);
    assert_eq!(bench.lanes[0].listen(&listen(path(), true)).unwrap_err().reason, Reason::AddressInUse);
    // What a lane says of the user is of no account.
    let connected = bench.run(0, connect(path().of_user(5)));
    let Outcome::Stream(StreamOutcome::Connected { peer, .. }) = connected else { panic!("{connected:?}") };
    assert_eq!(peer, Address::from(served));
}

#[test]
fn who_has_no_room_says_so_at_once() {
    let mut bench = Bench::new(Faults::none());
    bench.lanes[0].listen(&listen(path(), false)).unwrap();
    let outcomes = [(); 3].map(|()| bench.run(0, connect(path())));
    assert_eq!(outcomes.each_ref().map(reason), [None, None, Some(Reason::Busy)]);
}

#[test]
fn lanes_share_the_socket_of_a_name() {
    let mut bench = Bench::new(Faults::none());
    let first = bench.lanes[0].listen(&listen(path(), true)).unwrap();
    bench.lanes.push(bench.world.driver(Arena::new(1 << 20).unwrap(), Tuning::default()));
    let second = bench.lanes[1].listen(&listen(path(), true)).unwrap();
    bench.lanes[1].refuse_new(second);
    assert_eq!(reason(&bench.run(0, connect(path()))), Some(Reason::Refused));
    bench.close(0, first);
    bench.close(1, second);
    assert_eq!(reason(&bench.run(0, connect(path()))), Some(Reason::Refused), "the path is stale");
    assert!(bench.lanes[0].listen(&listen(path(), false)).is_ok(), "and can be taken");
}

#[test]
fn a_name_is_that_of_one_host() {
    let mut bench = Bench::new(Faults::none());
    bench.lanes[0].listen(&listen(path(), false)).unwrap();
    let host = bench.world.host(&["10.0.0.7".parse().unwrap()]);
    let mut far = bench.world.driver_on(host, Arena::new(1 << 20).unwrap(), Tuning::default());
    assert!(far.listen(&listen(path(), false)).is_ok());
}

#[test]
fn a_connection_of_two_families_is_refused() {
    let mut bench = Bench::new(Faults::none());
    bench.lanes[0].listen(&listen(path(), false)).unwrap();
    let options = StreamOptions::default();
    let from = Some("10.0.0.1:0".parse().unwrap());
    let outcome = bench.run(0, StreamOp::Connect { to: path().into(), from, options });
    assert_eq!(reason(&outcome), Some(Reason::Other));
    let outcome = bench.run(0, StreamOp::Connect { to: "10.0.0.1:7".parse().unwrap(), from: Some(path().into()), options });
    assert_eq!(reason(&outcome), Some(Reason::Other));
}

/// Over Unix sockets nothing is lost, doubled or overtaken, whatever the network does.
#[test]
fn datagrams_come_whole_in_order_and_with_their_user() {
    let always = Faults {
        datagram_loss: 1_000,
        datagram_duplicate: 1_000,
        datagram_reorder: 1_000,
        datagram_error: 1_000,
        ..Faults::none()
    };
    let mut bench = Bench::in_world(World::new(1, always), Tuning::default());
    let socket = bench.lanes[0].bind(&bind(path())).unwrap();
    let to = bench.world.named(&path());
    let asker = Unix::hidden(b"asker").unwrap().of_user(0);
    let peer = bench.world.bind(bench.world.named(&asker)).unwrap();
    let all: Vec<_> = (0..10).map(|number| vec![number; 8]).collect();
    all.iter().for_each(|bytes| peer.send(to, bytes).unwrap());
    assert_eq!(peer.send(to, b"no room").unwrap_err().reason, Reason::Busy);
    let outcome = bench.run(0, DatagramOp::Receive { socket, into: Datagrams::new() });
    let Outcome::Datagram(DatagramOutcome::Arrived { batch, fault: None }) = outcome else { panic!("{outcome:?}") };
    let got: Vec<_> = batch.arrivals().iter().map(|arrival| batch.payload(arrival).to_vec()).collect();
    assert_eq!(got, all);
    assert!(batch.arrivals().iter().all(|arrival| arrival.peer == Address::from(asker.clone())));

    let mut trains = Trains::new();
    assert!(trains.add(&batch.arrivals()[0].peer, None, 0, Segment::Static(&[7; 12]), 1));
    let outcome = bench.run(0, DatagramOp::Send { socket, trains });
    let Outcome::Datagram(DatagramOutcome::Departed { datagrams, refused, fault, .. }) = outcome else { panic!("{outcome:?}") };
    assert_eq!((datagrams, refused, fault.unwrap().reason), (10, 2, Reason::Busy));
    let answers: Vec<_> = std::iter::from_fn(|| peer.receive()).collect();
    assert_eq!(answers, vec![(to, vec![7]); 10]);
    assert_eq!(bench.world.meaning(to), Address::from(path().of_user(1000)));
}
