//! What an application counts of its own stands in the page, beside what HTTP counts.

#[allow(dead_code)] // its main
#[path = "../../examples/counted.rs"]
mod example;

use corelane::Lanes;
use corelane::admin::watch::{Kind, Reader};
use corelane_http::{Hosts, Http};
use std::io::{Read, Write};
use std::net::TcpStream;

/// The statuses of what is answered to orders of so many apples.
fn ordered(address: &corelane::service::Address, orders: &[&str]) -> Vec<String> {
    let order = |apples: &&str| {
        let mut stream = TcpStream::connect(address.inet().unwrap()).unwrap();
        write!(stream, "POST /sell/{apples} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    orders.iter().map(order).collect()
}

#[test]
fn an_applications_counters_are_in_the_page_for_whoever_reads_it() {
    for behind_hosts in [false, true] {
        let lanes = Lanes::per_core().lanes(1);
        let lanes = match behind_hosts {
            false => lanes.serve("tcp://127.0.0.1:0", |_| Http::new(example::shop(10))),
            true => lanes.serve("tcp://127.0.0.1:0", |_| Http::new(Hosts::new(Some(|_tokens| example::shop(10))))),
        };
        let running = lanes.unwrap().start().unwrap();
        assert_eq!(ordered(running.address(), &["4", "7", "apple", "6"]), ["200", "409", "400", "200"]);
        // As another program does that has never heard of shops.
        let reader = Reader::open(running.page().expect("a page that others can read")).unwrap();
        let service = &reader.description().services[0];
        let own: Vec<_> = service.counters.iter().map(|one| (one.name.as_str(), one.kind)).collect();
        assert!(own.starts_with(&[("answers_1xx", Kind::Counter)]), "{own:?}");
        assert!(own.ends_with(&[("apples_sold", Kind::Counter), ("apples_left", Kind::Gauge)]), "{own:?}");
        let snapshot = reader.snapshot(0);
        let values = &snapshot.services[0].values;
        let of =
            ["apples_sold", "apples_left", "answers_1xx", "answers_2xx", "answers_4xx"].map(|name| values.own(name).unwrap());
        assert_eq!(of, [10, 0, 0, 2, 2]);
    }
}
