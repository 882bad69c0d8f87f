//! Servers over datagrams that lose, double, reorder and change them.

use super::hosts::*;
use super::*;
use std::net::UdpSocket;
use std::sync::atomic::Ordering;

on_each_driver!(
    every_datagram_is_answered,
    loss_is_counted_exactly,
    doubles_are_noted_and_fail_nothing,
    changes_of_order_are_noted_and_fail_nothing,
    answers_of_the_wrong_size_are_mismatches,
    who_never_answers_datagrams_is_given_up,
    a_port_that_nobody_has_is_said_in_a_line,
    a_port_that_closes_is_refused,
);

/// A run with all its datagrams in flight at once.
fn run(driver: Driver, post: &Post, more: &[&str]) -> Run {
    let url = post.url();
    load(&[&["--driver", driver.name(), "udp", &url][..], more].concat())
}

fn every_datagram_is_answered(driver: Driver) {
    let post = Post::start(|_, bytes| vec![bytes.to_vec()]);
    for more in [&["--singles"][..], &["--rate", "2000"], &["--connections", "4", "--depth", "8"], &["--size", "8"]] {
        let run = run(driver, &post, &[&["--requests", "200", "--timeout", "20s"], more].concat());
        run.met(&[]).doubted(&[]);
        assert_eq!((run.report.requests, post.arrivals.swap(0, Ordering::Relaxed)), (200, 200), "{more:?}");
    }
}

fn loss_is_counted_exactly(driver: Driver) {
    let post = Post::start(|number, bytes| if number % 10 == 0 { Vec::new() } else { vec![bytes.to_vec()] });
    let run = run(driver, &post, &["--requests", "200", "--connections", "4", "--depth", "64", "--timeout", "5s"]);
    run.met(&["lost"]).doubted(&[]);
    assert_eq!((run.report.errors["lost"], run.report.requests), (20, 180));
    // Who waited in vain is in the times with what it waited.
    assert!(run.report.latency_us["max"] >= 5e6, "{:?}", run.report.latency_us);
}

fn doubles_are_noted_and_fail_nothing(driver: Driver) {
    let post = Post::start(|_, bytes| vec![bytes.to_vec(), bytes.to_vec()]);
    let run = run(driver, &post, &["--requests", "100", "--depth", "2", "--timeout", "20s"]);
    run.met(&["duplicate"]).doubted(&[]);
    // Those that come after the end are nobody's.
    assert!((50..=100).contains(&run.report.errors["duplicate"]), "{:?}", run.errors());
    assert_eq!(run.report.requests, 100);
}

fn changes_of_order_are_noted_and_fail_nothing(driver: Driver) {
    let mut held = None;
    let post = Post::start(move |_, bytes| match held.take() {
        None => {
            held = Some(bytes.to_vec());
            Vec::new()
        }
        Some(first) => vec![bytes.to_vec(), first],
    });
    let run = run(driver, &post, &["--requests", "64", "--depth", "64", "--timeout", "20s"]);
    run.met(&["reordered"]).doubted(&[]);
    assert_eq!((run.report.errors["reordered"], run.report.requests), (32, 64));
}

fn answers_of_the_wrong_size_are_mismatches(driver: Driver) {
    let post = Post::start(|number, bytes| match number % 4 {
        1 => vec![bytes[..bytes.len() - 1].to_vec()],
        2 => vec![[bytes, b"!"].concat()],
        3 => vec![Vec::new()],
        _ => vec![bytes.to_vec()],
    });
    let run = run(driver, &post, &["--requests", "40", "--depth", "40", "--timeout", "5s"]);
    run.met(&["lost", "mismatch"]).doubted(&[]);
    let errors = &run.report.errors;
    assert_eq!((errors["mismatch"], errors["lost"], run.report.requests), (30, 30, 10));
}

fn who_never_answers_datagrams_is_given_up(driver: Driver) {
    let post = Post::start(|_, _| Vec::new());
    let some = run(driver, &post, &["--requests", "100000", "--depth", "8", "--timeout", "200ms"]);
    some.met(&["lost"]).doubted(&["nothing was answered for", "nothing was answered rightly"]);
    assert_eq!(some.report.errors["lost"] % 8, 0);
    let open = run(driver, &post, &["--rate", "500", "--duration", "300ms", "--warmup", "0s", "--timeout", "200ms"]);
    open.met(&["lost"]).doubted(&["nothing was answered rightly"]);
    assert!(open.report.not_sent.is_some_and(|count| count > 100), "one may be in flight at a time: {:?}", open.report.not_sent);
}

fn nobody() -> String {
    format!("udp://{}", corelane_testkit::free())
}

fn a_port_that_nobody_has_is_said_in_a_line(driver: Driver) {
    let url = nobody();
    for more in [&["--connections", "50"][..], &["--rate", "100"], &["--requests", "5"]] {
        let start = ["--driver", driver.name(), "udp", &url];
        says(&[], &[&start[..], more].concat(), NOT_MADE, &[&url, "(refused)", "is a server listening there?"]);
    }
}

fn a_port_that_closes_is_refused(driver: Driver) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = format!("udp://{}", socket.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let mut bytes = [0; 100];
        for _ in 0..10 {
            let (length, peer) = socket.recv_from(&mut bytes).unwrap();
            socket.send_to(&bytes[..length], peer).unwrap();
        }
    });
    let run = load(&["--driver", driver.name(), "udp", &url, "--requests", "100", "--timeout", "5s"]);
    served.join().unwrap();
    // What waits in a socket that is closed is answered by nobody.
    let lost = run.report.errors["lost"];
    let kinds: &[&str] = if lost == 1 { &["lost", "refused"] } else { &["refused"] };
    run.met(kinds).doubted(&[]);
    assert_eq!((run.report.requests, run.report.errors["refused"] + lost), (10, 90));
}
