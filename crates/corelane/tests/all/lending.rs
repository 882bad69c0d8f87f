//! Memory that lanes lend to each other: read and sent where it is lent to without a copy, and home again however that ends.

use corelane::service::parts::AbroadCounts;
use corelane::service::{
    AbroadLimits, Asking, Asks, Call, Chain, Hold, Lease, Lends, Limits, Lost, Order, Origin, Parcel, ParcelRefused, Says,
    ServiceCounter, Shared, Ticket,
};
use corelane::testing::{Faults, MS, Nobody, Peer as Client, Rig, RigPlan, S, Status, World, patient, simulate};
use corelane::{Cx, Input, Next, Output, Peer, StreamService};
use corelane_watch::LaneCounter;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::rc::Rc;
use std::time::Duration;

/// Keys of all lanes; each is at home on the lane of its number.
const KEYS: usize = 12;
/// The longest request, in bytes.
const LINE_BYTES: usize = 16;

/// A value, by its key.
fn value(key: usize) -> Vec<u8> {
    (0..1 + key * 3001).map(|at| (at * 7 + key) as u8).collect()
}

enum Answer {
    Lent(Parcel),
    Copied(Vec<u8>, ParcelRefused),
}

type Talk = Lends<Asks<usize, Answer>>;

/// What is known of all lanes.
#[derive(Default)]
struct Book {
    /// Why values were copied.
    refused: RefCell<Vec<ParcelRefused>>,
    /// Whoever has taken a value of this key in panics.
    panics_at: Cell<usize>,
}

/// Sends the value of each key that a client names: whichever lane that comes to asks the key's home.
struct Library {
    book: Rc<Book>,
    values: BTreeMap<usize, Shared>,
    waiting: BTreeMap<Asking, Ticket>,
    lent: usize,
}

impl Library {
    fn new(book: &Rc<Book>) -> Self {
        Self { book: book.clone(), values: BTreeMap::new(), waiting: BTreeMap::new(), lent: 0 }
    }

    fn keep(&mut self, cx: &mut Cx<'_, Talk>, key: usize) {
        let bytes = value(key);
        // Where there is no memory for another, the one before stays.
        if let Ok(mut lease) = cx.lease(bytes.len()) {
            lease.append(&bytes);
            self.values.insert(key, lease.share());
        }
    }

    fn answer(&mut self, cx: &mut Cx<'_, Talk>, key: usize, to: usize) -> Answer {
        match cx.lend(&self.values[&key], to) {
            Ok(parcel) => {
                self.lent += 1;
                // Another takes its place while it is away.
                if self.lent.is_multiple_of(3) {
                    self.keep(cx, key);
                }
                Answer::Lent(parcel)
            }
            Err(refused) => Answer::Copied(self.values[&key].to_vec(), refused),
        }
    }
}

impl StreamService for Library {
    type Talk = Talk;
    type Session = Option<Ticket>;

    fn started(&mut self, cx: &mut Cx<'_, Talk>) {
        (0..KEYS).filter(|key| key % cx.lanes() == cx.lane()).collect::<Vec<_>>().into_iter().for_each(|key| self.keep(cx, key));
    }

    fn open(&mut self, _: &mut Cx<'_, Talk>, _: &Peer) -> Option<Ticket> {
        None
    }

    fn receive(&mut self, cx: &mut Cx<'_, Talk>, refused: &mut Option<Ticket>, input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n').filter(|_| output.ask_limit()) {
            let Some(ticket) = refused.take().or_else(|| output.hold(Hold::new(Order::Kept)).ok()) else { break };
            let Some(line) = input.contiguous(end + 1) else {
                *refused = Some(ticket);
                break;
            };
            assert!(line.len() <= LINE_BYTES);
            let key: usize = String::from_utf8_lossy(line).trim().parse().unwrap();
            match cx.ask(key % cx.lanes(), key) {
                Ok(asking) => drop(self.waiting.insert(asking, ticket)),
                Err(_) => {
                    *refused = Some(ticket);
                    break;
                }
            }
            input.skip(end + 1);
        }
        Next::Continue
    }

    fn asked(&mut self, cx: &mut Cx<'_, Talk>, from: Origin, key: usize, call: Call<Talk>) {
        let Origin::Lane(from) = from else { panic!("nobody asks from outside") };
        let answer = self.answer(cx, key, from);
        cx.reply(call, answer);
    }

    fn replied(&mut self, cx: &mut Cx<'_, Talk>, asking: Asking, outcome: Result<Answer, Lost>) {
        let Some(ticket) = self.waiting.remove(&asking) else { return };
        let mut chain = Chain::new();
        match outcome {
            Ok(Answer::Lent(parcel)) => {
                let guest = cx.guests().admit(parcel);
                assert_ne!(guest.len(), value(self.book.panics_at.get()).len(), "as it was told");
                chain.push(guest);
            }
            Ok(Answer::Copied(bytes, refused)) => {
                self.book.refused.borrow_mut().push(refused);
                chain.push(cx.arena().copy_of(&bytes).unwrap().share());
            }
            Err(_) => {}
        }
        cx.answer_chain(ticket, chain);
    }
}

fn away(rig: &Rig) -> Vec<AbroadCounts> {
    rig.posts.iter().map(|post| post.counts(rig.world.now())).collect()
}

/// Two lanes that lend so much, and a client with the lane that it has come to.
fn library(limits: AbroadLimits, served: Limits, book: &Rc<Book>) -> (Rig, Client, usize) {
    let mut plan = RigPlan::lanes(2).memory(32 << 20);
    plan.parcels = limits;
    book.panics_at.set(KEYS + 1);
    let mut rig = Rig::serving(&World::new(1, Faults::none()), &plan, served, |_| Library::new(book));
    let client = rig.connect(0);
    rig.wait(MS);
    let lane = rig.lane_of_first_connection().unwrap();
    (rig, client, lane)
}

/// A key whose home is another lane than this, with a value of some KiB.
fn elsewhere(lane: usize) -> usize {
    8 + (1 - lane)
}

fn hear(rig: &mut Rig, client: &Client, bytes: usize) -> Vec<u8> {
    let mut heard = Vec::new();
    while heard.len() < bytes && client.status() == Status::Open {
        rig.wait(MS);
        heard.extend(client.read(usize::MAX));
    }
    heard
}

/// Values come from any lane, also when they are no longer kept there; at the end each lane has all that it has lent.
#[test]
fn what_is_lent_is_sent_by_others_and_comes_home_whatever_happens() {
    for drains in [false, true] {
        let (lent, refused) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let counts = (lent.clone(), refused.clone());
        // What this library does without memory is nobody's question: it keeps its values, and copies where it may not lend.
        let faults = |seed| Faults { refused_memory: 0, ..Faults::all(seed) };
        let outcome = simulate(40, faults, move |scene| {
            let (book, (lent, refused)) = (Rc::new(Book::default()), counts.clone());
            book.panics_at.set(KEYS + 1);
            scene.memory(8 << 20);
            if drains {
                let after = scene.random().below(40);
                scene.drain_after(Duration::from_millis(after));
            }
            let served = book.clone();
            scene.serve(7, move |_lane| Library::new(&served));
            for client in 0..12_usize {
                let script = scene.connect(7);
                if client % 4 == 0 {
                    script.read_slowly(1 + client * 997);
                }
                for step in 0..6 {
                    let key = (client * 5 + step * 7) % KEYS;
                    script.say(format!("{key}\n"));
                    script.hear(value(key));
                }
                if client % 5 == 4 {
                    script.reset();
                } else {
                    script.finish();
                }
            }
            scene.check(move |rig| {
                let counts = away(rig);
                lent.set(lent.get() + rig.count(ServiceCounter::ParcelsSent));
                refused.set(refused.get() + rig.count(ServiceCounter::ParcelsRefused));
                let sent: u64 = counts.iter().map(|counts| counts.sent).sum();
                match counts.iter().all(|counts| counts.parcels == 0) && sent == rig.count(ServiceCounter::ParcelsSent) {
                    true => Ok(()),
                    false => Err(format!("something is away, or was not counted: {counts:?}")),
                }
            });
        });
        println!("{}", outcome.unwrap());
        assert!(lent.get() > 300, "{} parcels travelled", lent.get());
    }
}

#[test]
fn no_byte_is_copied_of_what_is_lent() {
    let book = Rc::default();
    let (mut rig, client, lane) = library(AbroadLimits::default(), patient(), &book);
    let before = rig.count(ServiceCounter::BytesCopied);
    let key = elsewhere(lane);
    client.send(format!("{key}\n").repeat(3).as_bytes());
    assert!(hear(&mut rig, &client, 3 * value(key).len()) == value(key).repeat(3));
    rig.wait(MS);
    assert_eq!((rig.count(ServiceCounter::BytesCopied), rig.count(ServiceCounter::ParcelsSent)), (before, 3));
    let counts = away(&rig);
    assert_eq!(
        (counts[1 - lane].sent, counts[1 - lane].parcels, counts[1 - lane].found),
        (3, 0, 0),
        "they went home by their channel"
    );
    client.finish();
    rig.close(&mut Nobody);
}

#[test]
fn an_output_counts_what_it_holds_of_others() {
    let book = Rc::default();
    let (mut rig, client, lane) =
        library(AbroadLimits::default(), patient().output_high(64 << 10).requests_in_flight_max(4), &book);
    let key = elsewhere(lane);
    client.send(format!("{key}\n").repeat(200).as_bytes());
    rig.wait(S);
    let away = away(&rig)[1 - lane];
    assert!(away.parcels > 0 && away.parcels * value(key).len() < 256 << 10, "who does not read is not written to: {away:?}");
    assert!(hear(&mut rig, &client, 200 * value(key).len()) == value(key).repeat(200));
    client.finish();
    rig.close(&mut Nobody);
}

#[test]
fn no_more_is_lent_than_may_be_away_and_the_rest_is_copied() {
    let book = Rc::<Book>::default();
    let (mut rig, client, lane) = library(AbroadLimits::default().parcels_max(2), patient(), &book);
    let key = elsewhere(lane);
    client.send(format!("{key}\n").repeat(40).as_bytes());
    rig.wait(S);
    assert!(away(&rig)[1 - lane].parcels <= 2);
    let refused = book.refused.borrow().len();
    assert!(refused > 0 && book.refused.borrow().iter().all(|why| *why == ParcelRefused::TooMuch), "{:?}", book.refused);
    assert_eq!(rig.count(ServiceCounter::ParcelsRefused), refused as u64);
    assert!(hear(&mut rig, &client, 40 * value(key).len()) == value(key).repeat(40));
    client.finish();
    rig.close(&mut Nobody);
}

#[test]
fn a_lane_that_keeps_something_too_long_is_lent_nothing_until_it_is_back() {
    let book = Rc::<Book>::default();
    let limits = AbroadLimits::default().overdue(Duration::from_secs(2));
    let (mut rig, client, lane) = library(limits, patient().output_high(64 << 10).requests_in_flight_max(4), &book);
    let key = elsewhere(lane);
    client.send(format!("{key}\n").repeat(200).as_bytes());
    rig.wait(3 * S);
    assert!(away(&rig)[1 - lane].overdue > 0, "{:?}", away(&rig));
    assert_eq!(rig.count(ServiceCounter::ParcelsOverdueHits), 0, "nothing was asked for meanwhile");
    assert!(hear(&mut rig, &client, 200 * value(key).len()) == value(key).repeat(200));
    rig.wait(MS);
    let overdue = rig.count(ServiceCounter::ParcelsOverdueHits);
    assert!(overdue > 0 && *book.refused.borrow() == vec![ParcelRefused::Overdue; overdue as usize], "{:?}", book.refused);
    let sent = rig.count(ServiceCounter::ParcelsSent);
    client.send(format!("{key}\n").as_bytes());
    assert!(hear(&mut rig, &client, value(key).len()) == value(key));
    assert_eq!(rig.count(ServiceCounter::ParcelsSent), sent + 1, "it has given back all, and is lent to again");
    client.finish();
    rig.close(&mut Nobody);
}

#[test]
fn what_a_service_has_taken_in_goes_home_after_its_panic() {
    let book = Rc::<Book>::default();
    let (mut rig, client, lane) = library(AbroadLimits::default(), patient(), &book);
    let key = elsewhere(lane);
    book.panics_at.set(key);
    client.send(format!("{key}\n").as_bytes());
    rig.wait(10 * MS);
    assert_eq!((rig.count(ServiceCounter::Panics), rig.count(ServiceCounter::ParcelsSent)), (1, 1));
    assert_eq!((away(&rig)[1 - lane].parcels, away(&rig)[1 - lane].found), (0, 0));
    client.reset();
    rig.close(&mut Nobody);
}

#[test]
fn a_lane_that_is_lost_leaves_what_it_was_lent_to_its_home() {
    let book = Rc::<Book>::default();
    let (mut rig, client, lane) = library(AbroadLimits::default(), patient(), &book);
    let key = elsewhere(lane);
    let kept = rig.arenas[1 - lane].used();
    client.send(format!("{key}\n").repeat(40).as_bytes());
    rig.wait(S);
    let parcels = away(&rig)[1 - lane].parcels;
    assert!(parcels > 0);
    rig.break_lane(lane);
    // A lane that sleeps looks in its next turn.
    let other = rig.connect(1);
    rig.wait(10 * MS);
    let counts = away(&rig)[1 - lane];
    assert_eq!((counts.parcels, counts.found), (0, parcels as u64), "{counts:?}");
    assert!(rig.arenas[1 - lane].used() <= kept + (64 << 10), "values that were replaced meanwhile are free");
    other.reset();
}

/// What each lane has seen, in order.
type Shown = Rc<RefCell<Vec<(usize, Vec<u8>)>>>;

/// Sends a lease about: each lane adds its number and passes it on, and the first one shows it.
struct Relay {
    shown: Shown,
}

type Passing = Lends<Says<Parcel>>;

impl StreamService for Relay {
    type Talk = Passing;
    type Session = ();

    fn started(&mut self, cx: &mut Cx<'_, Passing>) {
        if cx.lane() == 0 {
            let mut lease: Lease = cx.lease(8).unwrap();
            lease.append(&[0; 3]);
            let parcel = cx.lend_lease(lease, 1).unwrap();
            cx.send(1, parcel).unwrap();
        }
    }

    fn open(&mut self, _: &mut Cx<'_, Passing>, _: &Peer) {}

    fn receive(&mut self, _: &mut Cx<'_, Passing>, (): &mut (), _: &mut Input, _: &mut Output) -> Next {
        Next::Close
    }

    fn lane_message(&mut self, cx: &mut Cx<'_, Passing>, _: Origin, mut parcel: Parcel) {
        let (lane, next) = (cx.lane(), (cx.lane() + 1) % cx.lanes());
        parcel.bytes_mut().unwrap()[lane] = lane as u8 + 1;
        self.shown.borrow_mut().push((lane, parcel.to_vec()));
        if lane > 0 {
            cx.send(next, parcel).unwrap();
        }
    }
}

#[test]
fn a_lease_is_written_by_each_lane_that_it_passes() {
    let shown = Shown::default();
    let world = World::new(1, Faults::none());
    let mut rig = Rig::serving(&world, &RigPlan::lanes(3), patient(), |_| Relay { shown: shown.clone() });
    rig.wait(10 * MS);
    assert_eq!(*shown.borrow(), [(1, vec![0, 2, 0]), (2, vec![0, 2, 3]), (0, vec![1, 2, 3])]);
    // It was dropped as what it was, not given back: its home finds it by itself.
    (0..20).for_each(|number| rig.connect(number).reset());
    rig.wait(10 * MS);
    assert!(away(&rig).iter().all(|counts| counts.parcels == 0), "{:?}", away(&rig));
    rig.close(&mut Nobody);
}

/// Lends to a lane whose service is not there, and loses that.
struct Hopeless;

impl StreamService for Hopeless {
    type Talk = Passing;
    type Session = ();

    fn open(&mut self, cx: &mut Cx<'_, Passing>, _: &Peer) {
        let mut lease = cx.lease(8).unwrap();
        lease.append(&[1]);
        let parcel = cx.lend_lease(lease, 1).unwrap();
        assert!(cx.send(1, parcel).is_err());
    }

    fn receive(&mut self, _: &mut Cx<'_, Passing>, (): &mut (), _: &mut Input, _: &mut Output) -> Next {
        Next::Continue
    }
}

#[test]
fn what_nobody_takes_is_home_again() {
    let world = World::new(1, Faults::none());
    let mut rig = Rig::new(&world, &RigPlan::lanes(2), |roster| match roster.lane() {
        0 => roster.serve(corelane::testing::at(7), patient(), Hopeless),
        _ => roster.tune(|_| {}),
    });
    let clients: Vec<Client> = (0..5).map(|number| rig.connect(number)).collect();
    rig.wait(10 * MS);
    assert_eq!((rig.count(ServiceCounter::ParcelsSent), rig.lane_count(LaneCounter::MessagesRefused)), (5, 5));
    clients.iter().for_each(Client::finish);
    rig.close(&mut Nobody);
    assert_eq!(away(&rig)[0].parcels, 0);
}

/// Says nothing that carries memory.
struct Plain;

impl StreamService for Plain {
    type Talk = Says<()>;
    type Session = ();

    fn open(&mut self, _: &mut Cx<'_, Says<()>>, _: &Peer) {}

    fn receive(&mut self, _: &mut Cx<'_, Says<()>>, (): &mut (), _: &mut Input, _: &mut Output) -> Next {
        Next::Continue
    }
}

#[test]
fn memory_is_open_to_others_only_where_a_service_lends() {
    let world = World::new(1, Faults::none());
    let mut rig = Rig::serving(&world, &RigPlan::lanes(2), patient(), |_| Plain);
    rig.wait(MS);
    let refused = rig.arenas[0]
        .copy_of(b"x")
        .unwrap()
        .parcel(1, corelane::service::Instant::from_nanoseconds(0))
        .map_err(|(_, refused)| refused);
    assert_eq!(refused.unwrap_err(), ParcelRefused::Closed);
    rig.close(&mut Nobody);
}

#[test]
fn real_lanes_lend_as_well() {
    let lanes = corelane::Lanes::per_core().lanes(2).serve("tcp://127.0.0.1:0", |_| {
        let book = Rc::new(Book::default());
        book.panics_at.set(KEYS + 1);
        Library::new(&book)
    });
    let running = lanes.unwrap().start().unwrap();
    let address = running.address().clone();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(&address).unwrap();
        let text: String = (0..KEYS).map(|key| format!("{key}\n")).collect();
        stream.write_all(text.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).unwrap();
        assert!(heard == (0..KEYS).flat_map(value).collect::<Vec<u8>>(), "{} bytes", heard.len());
    }
    let reader = corelane_watch::Reader::of(running.counters()).unwrap();
    running.drain();
    running.wait().unwrap();
    let values = reader.snapshot(0).services[0].values.clone();
    assert_eq!((values.get(ServiceCounter::ParcelsSent), values.get(ServiceCounter::Panics)), (8 * KEYS as u64, 0));
}

#[test]
fn bounds_that_cannot_be_are_refused_at_the_start() {
    for parcels in [0, AbroadLimits::PARCELS_MOST + 1] {
        let limits = AbroadLimits::default().parcels_max(parcels);
        let refused = corelane::Lanes::per_core().parcels(limits).client(|_| Plain).start().err().unwrap().to_string();
        assert!(refused.contains(&parcels.to_string()) && refused.contains("1 to 1048576"), "{refused}");
    }
}
