//! Connections follow their buckets over real sockets: when the table changes, when a lane leaves, and when it comes back.
#![forbid(unsafe_code)]

use crate::moving::{Client, count, serve};
use crate::process;
use corelane::admin::watch::ServiceCounter as C;
use corelane::lanes::{DriverChoice, Running};
use corelane_rss::{Protocol, Table, Tuple};
use std::net::SocketAddr;

/// More than may be between two tables of descriptors at once.
const CLIENTS: usize = 40;

/// The other table of two lanes: each bucket is the other lane's.
fn swapped(table: &Table) -> Table {
    let mut swapped = table.clone();
    table.buckets().all().for_each(|bucket| swapped.set(bucket, 1 - table.lane(bucket)).unwrap());
    swapped
}

/// The lane that a client's bucket names.
fn of_bucket(running: &Running, client: &Client) -> usize {
    let tuple = Tuple::new(client.0.local_addr().unwrap(), client.0.peer_addr().unwrap(), Protocol::TCP).unwrap();
    running.steered().table().lane_of(running.steered().hasher().tuple(&tuple).unwrap().flow)
}

fn clients(at: SocketAddr, count: usize) -> Vec<Client> {
    (0..count).map(|_| Client::new(at)).collect()
}

/// Each is answered on the lane of its bucket, by a session that has come along.
fn check(running: &Running, clients: &mut [Client], asked: u8) {
    for client in clients {
        let lane = of_bucket(running, client);
        assert_eq!(client.ask(), (lane, asked));
    }
}

fn end(running: Running) {
    running.drain();
    running.wait().unwrap();
}

fn idle_connections_follow(driver: DriverChoice, own: bool, how_many: usize) {
    let running = serve(driver, own);
    let steered = running.steered().clone();
    let mut clients = clients(running.address().inet().unwrap(), how_many);
    check(&running, &mut clients, 1);
    let moved = || (count(&running, C::MovesAway), count(&running, C::MovesHere), count(&running, C::MovesLost));
    assert_eq!(moved(), (0, 0, 0));
    steered.rewrite(&swapped(&steered.table())).unwrap();
    let all = how_many as u64;
    check(&running, &mut clients, 2);
    // A connection that answers has arrived.
    assert_eq!(moved(), (all, all, 0), "each has gone once");
    let on_lane_1 = clients.iter().filter(|client| of_bucket(&running, client) == 1).count() as u64;
    assert!(on_lane_1 > 0 && on_lane_1 < all);
    steered.leave(1).unwrap();
    check(&running, &mut clients, 3);
    assert_eq!(moved(), (all + on_lane_1, all + on_lane_1, 0), "only what was the lane's has left it");
    steered.enter(1).unwrap();
    check(&running, &mut clients, 4);
    assert_eq!((count(&running, C::ConnectionsOpen), count(&running, C::Strays)), (all, 0));
    drop(clients);
    end(running);
}

#[test]
fn idle_connections_follow_their_buckets_on_epoll() {
    idle_connections_follow(DriverChoice::Epoll, true, CLIENTS);
}

#[test]
fn idle_connections_follow_their_buckets_on_uring() {
    idle_connections_follow(DriverChoice::Uring, true, CLIENTS);
}

/// More than go at once, from lanes that share a table of descriptors: which a test beside it that starts a process has a copy of for a moment, so this one is alone.
#[test]
fn many_connections_follow_their_buckets() {
    if process::is_parent("following::many_connections_follow_their_buckets") {
        return;
    }
    idle_connections_follow(DriverChoice::Epoll, false, 300);
}

/// One whose service does not pack it stays, and is served where it is.
#[test]
fn who_cannot_go_stays_and_is_counted() {
    let running = serve(DriverChoice::Auto, true);
    let mut clients = clients(running.address().inet().unwrap(), CLIENTS);
    check(&running, &mut clients, 1);
    let (stays, go) = clients.split_first_mut().unwrap();
    (2..=u8::MAX).for_each(|number| assert_eq!(stays.ask().1, number));
    let lane = of_bucket(&running, stays);
    running.steered().rewrite(&swapped(&running.steered().table())).unwrap();
    assert_eq!(count(&running, C::MovesAway), CLIENTS as u64 - 1);
    // What has just been answered may be busy still.
    assert!(count(&running, C::MovesRefused) >= 1);
    check(&running, go, 2);
    assert_ne!(of_bucket(&running, stays), lane);
    assert!(running.moves().idle((1 - lane, lane), |_| false, |_, _| ()).is_ok(), "lanes serve on");
    drop(clients);
    end(running);
}

/// The table changes all the time under clients that speak all the time. Each byte is answered once, and in order; who rests then is where its bucket is.
#[test]
fn who_speaks_while_the_table_changes_loses_nothing() {
    for driver in [DriverChoice::Epoll, DriverChoice::Uring] {
        let running = serve(driver, true);
        let at = running.address().inet().unwrap();
        let speak = move || {
            let mut client = Client::new(at);
            (1..=200).for_each(|number| assert_eq!(client.ask().1, number));
            client
        };
        let speakers: Vec<_> = (0..4).map(|_| std::thread::spawn(speak)).collect();
        let change = || running.steered().rewrite(&swapped(&running.steered().table())).unwrap();
        while speakers.iter().any(|speaker| !speaker.is_finished()) {
            change();
        }
        let mut clients: Vec<Client> = speakers.into_iter().map(|speaker| speaker.join().unwrap()).collect();
        change();
        check(&running, &mut clients, 201);
        let [away, here, lost] = [C::MovesAway, C::MovesHere, C::MovesLost].map(|counter| count(&running, counter));
        assert!(away > 0 && away == here && lost == 0, "{away} {here} {lost}");
        drop(clients);
        end(running);
    }
}
