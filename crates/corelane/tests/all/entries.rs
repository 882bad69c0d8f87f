//! A service of somebody else's, declared by its entry: its options, limits and counters are those of the page, help and errors.

use crate::examples::shop::{SHOP, Shop};
use corelane::Lanes;
use corelane::admin::reports::{Level, Record};
use corelane::admin::watch::{Kind, Reader};
use corelane::lanes::Running;
use corelane::service::Limits;
use corelane::service::entry::{Beside, Entry, Scheme, find};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};

fn opened(entry: &'static Entry, place: &str) -> Running {
    Lanes::per_core().lanes(1).serve_entry(entry, place).unwrap().start().unwrap()
}

/// What the shop answers to each line.
fn bought(running: &Running, lines: &[&str]) -> Vec<String> {
    let mut stream = TcpStream::connect(running.address()).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut buy = |line: &&str| {
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        answers.next().unwrap().unwrap()
    };
    lines.iter().map(&mut buy).collect()
}

#[test]
fn its_counters_are_in_the_page_for_whoever_reads_it() {
    let running = opened(&SHOP, "tcp://127.0.0.1:0?price=3&stock=10");
    assert_eq!(bought(&running, &["4", "7", "apple", "6"]), ["12", "no", "no", "18"]);
    // As another program does that has never heard of shops.
    let reader = Reader::open(running.page().expect("a page that others can read")).unwrap();
    let declared: Vec<_> = reader.description().services[0].counters.iter().map(|one| (one.name.as_str(), one.kind)).collect();
    assert_eq!(declared, [("apples_sold", Kind::Counter), ("orders_refused", Kind::Counter), ("apples_left", Kind::Gauge)]);
    let snapshot = reader.snapshot(0);
    let values = &snapshot.services[0].values;
    assert_eq!(["apples_sold", "orders_refused", "apples_left"].map(|name| values.own(name)), [Some(10), Some(2), Some(0)]);
    assert!(snapshot.services[0].values.all().any(|value| value.name == "apples_sold"));
}

#[test]
fn its_options_are_read_as_they_are_declared() {
    let wrong = |place| Lanes::per_core().serve_entry(&SHOP, place).err().unwrap().to_string();
    assert_eq!(wrong("tcp://127.0.0.1?price=0"), "shop: option \"price\": \"0\" is not a number of cents from 1 to 1000");
    assert_eq!(
        wrong("tcp://127.0.0.1?prize=1"),
        "shop: option \"prize\": there is no such option (did you mean price?); there are price, stock, money"
    );
    assert_eq!(wrong("udp://127.0.0.1"), "udp://127.0.0.1: this service can only be served at tcp:// or unix:");
    for (place, why) in [("127.0.0.1", "there is no ://"), ("tcp://a:b", "the port must be a number from 0 to 65535")] {
        let said = format!("{place:?} is not the URL of a service: {why}; write tcp://HOST:PORT or unix:PATH");
        assert_eq!(wrong(place), said, "what this service is served at");
    }
    assert_eq!(wrong("tcp://127.0.0.1?money=pounds"), "shop: option \"money\": \"pounds\" is neither cents nor euros");
    assert_eq!(bought(&opened(&SHOP, "tcp://127.0.0.1:0?price=30&money=euros"), &["2", "10"]), ["0.60", "3.00"]);
    let help = SHOP.describe();
    assert!(help.contains("in what an answer says what apples cost; cents or euros [default: cents]"), "{help}");
    assert!(
        help.starts_with("  shop: sells apples; tcp:// at port 7007\n")
            && help.ends_with("    limit record_max=64 bytes\n")
            && help.contains("what an apple costs; 1 to 1000 cents [default: 25]")
    );
    assert_eq!(bought(&opened(&SHOP, "tcp://127.0.0.1:0"), &["2"]), ["50"]);
}

#[test]
fn its_limits_are_its_own_until_others_are_set() {
    let long = "1".repeat(100);
    let ends = |running: &Running| {
        let mut stream = TcpStream::connect(running.address()).unwrap();
        stream.write_all(long.as_bytes()).unwrap();
        BufReader::new(&stream).lines().next().is_none_or(|line| line.is_err())
    };
    let running = opened(&SHOP, "tcp://127.0.0.1:0");
    assert!(ends(&running), "a line is longer than 64 bytes");
    let lanes = Lanes::per_core().lanes(1).limits(Limits::default()).serve_entry(&SHOP, "tcp://127.0.0.1:0").unwrap();
    assert_eq!(bought(&lanes.start().unwrap(), &[&long]), ["no"], "nobody's limit is met");
}

#[test]
fn names_are_found_in_a_list() {
    let list: &[&'static Entry] = &[&SHOP];
    let (entry, place) = find(list, "shop=tcp://127.0.0.1?price=1").unwrap();
    assert_eq!((entry.name(), place), ("shop", "tcp://127.0.0.1?price=1"));
    assert_eq!(find(list, "bank=tcp://127.0.0.1").unwrap_err().to_string(), "there is no service \"bank\": there are shop");
    let said = find(list, "tcp=tcp://127.0.0.1").unwrap_err().to_string();
    assert_eq!(said, "there is no service \"tcp\": there are shop; to serve shop at tcp:// write shop=tcp://HOST:PORT");
    for text in ["tcp://127.0.0.1?price=1", "shop"] {
        assert!(find(list, text).unwrap_err().to_string().ends_with("write for example shop=tcp://127.0.0.1:7007"), "{text}");
    }
}

static KEPT: AtomicUsize = AtomicUsize::new(0);

struct Kept;

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn what_it_has_outside_of_the_lanes_is_made_once_and_goes_with_them() {
    static NOISY: Entry = Entry::new(
        "noisy",
        "tells",
        &[Scheme::connections::<Shop>("tcp", 7008, |lanes, asked| {
            lanes.serve(&asked.url().to_string(), |_lane| Shop::new(1, 1))
        })],
    )
    .once_started(|opened| {
        KEPT.fetch_add(1, Ordering::SeqCst);
        let ports: Vec<bool> = opened.iter().map(|opened| opened.place.address().port() > 0).collect();
        Beside::default().note(Record::new(Level::Info, format!("opened {ports:?}"))).keep(Kept)
    });
    let lanes = Lanes::per_core().lanes(1).serve_entry(&SHOP, "tcp://127.0.0.1:0").unwrap();
    let lanes = lanes.serve_entry(&NOISY, "tcp://127.0.0.1:0").unwrap().serve_entry(&NOISY, "tcp://127.0.0.1:0").unwrap();
    let running = lanes.start().unwrap();
    assert_eq!(KEPT.load(Ordering::SeqCst), 1);
    assert!(running.notes().contains(&Record::new(Level::Info, "opened [true, true]")), "{:?}", running.notes());
    drop(running);
    assert_eq!(KEPT.load(Ordering::SeqCst), 0);
}
