//! A handler is called once for its request, and an exchange that was begun is ended once, whatever the lane refuses them and however the connection ends: a model keeps the
//! books of both.

use super::answers::answers;
use super::rig::{Rig, RigPlan, Talker, burst, patient};
use super::shop::pattern;
use corelane::service::{Outcome, Refused, Shared};
use corelane::testing::{FaultCounts, FaultKind, Faults, Random, World};
use corelane::{Cx, Silent};
use corelane_http::http1::{Method, Status};
use corelane_http::{Application, Exchange, First, Flow, Goes, Handled, Held, Http, Parts, Produced, Reply, Request};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of content that an exchange takes; more is refused.
const RECEIVE_BYTES: u64 = 5_000;

/// What is known of one exchange.
#[derive(Default)]
struct Life {
    said_all: u32,
    gone: u32,
    dropped: u32,
}

/// What the clients' requests have done, of all lanes.
#[derive(Default)]
struct Book {
    /// How often a handler was called for each request.
    sold: BTreeMap<u64, u32>,
    /// How often it was asked whether it wants the content.
    asked: BTreeMap<u64, u32>,
    lives: BTreeMap<u64, Life>,
}

impl Book {
    fn sell(&mut self, request: u64) {
        *self.sold.entry(request).or_default() += 1;
    }

    fn judge(&self) {
        let twice: Vec<_> = self.sold.iter().chain(&self.asked).filter(|(_, calls)| **calls != 1).collect();
        assert!(twice.is_empty(), "called more than once: {twice:?}");
        for (request, life) in &self.lives {
            let Life { said_all, gone, dropped } = *life;
            assert!(said_all + gone >= 1, "{request}: nobody told it of its end");
            assert!(
                said_all <= 1 && gone <= 1 && dropped == 1,
                "{request}: {said_all} answers, {gone} times gone, {dropped} drops"
            );
        }
    }
}

/// The book, as all lanes of a run have it.
type Books = Rc<RefCell<Book>>;

/// Sells, each time that it is called.
struct Till {
    book: Books,
    held: BTreeMap<u64, Held>,
}

/// What an exchange does.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    /// Takes content, and answers.
    Take,
    /// Answers in parts.
    Parts,
    /// Panics at its first piece.
    BurstsAtContent,
    /// Panics as it is to answer.
    BurstsAtAnswer,
    /// Is refused what it needs.
    Fails,
    /// Says less than it has announced.
    Short,
}

struct Deal {
    way: Way,
    request: u64,
    bytes: usize,
    book: Books,
}

impl Deal {
    fn new(way: Way, request: u64, bytes: usize, book: &Books) -> Self {
        book.borrow_mut().lives.entry(request).or_default();
        Self { way, request, bytes, book: book.clone() }
    }

    fn note(&self, note: impl FnOnce(&mut Life)) {
        note(self.book.borrow_mut().lives.get_mut(&self.request).unwrap());
    }
}

impl Drop for Deal {
    fn drop(&mut self) {
        self.note(|life| life.dropped += 1);
    }
}

impl Exchange<Till> for Deal {
    fn content(&mut self, _: &mut Till, _: &mut Cx<'_>, _piece: Shared) -> Flow {
        assert!(self.way != Way::BurstsAtContent, "told to");
        Flow::More
    }

    fn go_on(&mut self, till: &mut Till, cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        self.book.borrow_mut().sell(self.request);
        match self.way {
            Way::BurstsAtAnswer => burst("told to"),
            Way::Fails => return Err(Refused::Memory),
            Way::Parts => return reply.answer(Status::OK).begin(None).map(Goes::Produce),
            _ => {}
        }
        self.note(|life| life.said_all += 1);
        if self.bytes.is_multiple_of(3) {
            let (held, goes) = reply.hold(0, None).inspect_err(|_| self.note(|life| life.said_all = 0))?;
            till.hold(cx, self.request, held);
            return Ok(goes);
        }
        reply.answer(Status::OK).bytes(&pattern(self.bytes))
    }

    fn produce(&mut self, _: &mut Till, _: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        let piece = self.bytes.min(3_000);
        if piece > 0 && parts.write(&pattern(3_000)[..piece]).is_ok() {
            self.bytes -= piece;
        }
        if self.bytes > 0 {
            return Produced::More;
        }
        if self.way == Way::Parts {
            self.note(|life| life.said_all += 1);
        }
        Produced::End
    }

    fn gone(&mut self, _: &mut Till, _: &mut Cx<'_>) {
        self.note(|life| life.gone += 1);
    }
}

impl Till {
    fn hold(&mut self, cx: &mut Cx<'_>, request: u64, held: Held) {
        self.held.insert(request, held);
        cx.offload(|| (), request);
    }
}

impl Application for Till {
    type Talk = Silent;

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        let mut words = request.path()[1..].split('/');
        let word = words.next().unwrap();
        let (number, bytes): (u64, usize) = (words.next().unwrap().parse().unwrap(), words.next().unwrap().parse().unwrap());
        let deal = |way| Deal::new(way, number, bytes, &self.book);
        let receive = First::Receive(RECEIVE_BYTES);
        match word {
            "take" => return Ok((deal(Way::Take), receive).into()),
            "burst" if bytes.is_multiple_of(2) => return Ok((deal(Way::BurstsAtContent), receive).into()),
            "burst" => return Ok((deal(Way::BurstsAtAnswer), receive).into()),
            "fail" => return Ok((deal(Way::Fails), receive).into()),
            "collect" if request.content().is_none() => {
                *self.book.borrow_mut().asked.entry(number).or_default() += 1;
                return Ok(Handled::Collect(100_000));
            }
            _ => {}
        }
        // From here on the state changes before anything is answered.
        self.book.borrow_mut().sell(number);
        match word {
            "now" | "collect" => reply.answer(Status::OK).bytes(&pattern(bytes)),
            "hold" => {
                let (held, handled) = reply.hold(bytes, None)?;
                self.hold(cx, number, held);
                Ok(handled)
            }
            "lease" => {
                let lease = cx.lease(bytes.max(1))?;
                reply.answer(Status::OK).segment(lease.share())
            }
            "parts" => {
                let begun = reply.answer(Status::OK).begin(None)?;
                Ok((deal(Way::Parts), First::Produce(begun)).into())
            }
            "short" => {
                let begun = reply.answer(Status::OK).begin(Some(bytes as u64 + 1))?;
                Ok((deal(Way::Short), First::Produce(begun)).into())
            }
            _ => reply.status(Status::NOT_FOUND),
        }
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, _outcome: Outcome) {
        let held = self.held.remove(&token).unwrap();
        // Refused memory for it, the client is told 503 (Service Unavailable).
        let _: Result<(), _> = held.answer(cx, Status::OK).bytes(&pattern(2_000));
    }
}

/// The requests of a client, and how many there are; after the last one the connection may end.
fn requests(random: &mut Random, client: u64) -> (Vec<u8>, usize) {
    let mut stream = Vec::new();
    let count = random.one_to(20) as u64;
    for number in 0..count {
        let (request, bytes) =
            (client * 100 + number, [1_000, 20_000, 60_000][random.below(3) as usize] + random.below(100) as usize);
        let content = pattern(random.one_to(6_000));
        let is_last = number + 1 == count;
        let (word, has_content) = match random.below(if is_last { 12 } else { 8 }) {
            0..3 => ("now", false),
            3 => ("hold", false),
            4 => ("lease", false),
            5 => ("parts", false),
            6 => ("collect", true),
            7 if is_last || content.len() as u64 <= RECEIVE_BYTES => ("take", true),
            8 => ("burst", true),
            9 => ("fail", true),
            10 => ("short", false),
            _ => ("now", false),
        };
        let head = format!("{} /{word}/{request}/{bytes} HTTP/1.1\r\nHost: a\r\n", if has_content { "PUT" } else { "GET" });
        match has_content {
            true => stream.extend([format!("{head}Content-Length: {}\r\n\r\n", content.len()).as_bytes(), &content].concat()),
            false => stream.extend(format!("{head}\r\n").as_bytes()),
        }
    }
    (stream, count as usize)
}

fn run(seed: u64) -> (FaultCounts, u64) {
    let faults = Faults::all(seed).with(FaultKind::RefusedMemory, [20, 100, 300][(seed % 3) as usize]);
    let (world, mut random) = (World::new(seed, faults), Random::new(seed));
    let limits = patient().requests_in_flight_max(random.one_to(3) as u32).output_high(random.one_to(100_000));
    let book = Books::default();
    let till = |_| Http::new(Till { book: book.clone(), held: BTreeMap::new() });
    let mut rig = Rig::serving(&world, &RigPlan::lanes(2).memory(4 << 20), limits, till);
    let (mut talkers, mut counts) = (Vec::new(), Vec::new());
    for client in 0..6 {
        let (stream, count) = requests(&mut random, client);
        let mut talker = Talker::new(rig.connect(client as usize), seed, stream);
        talker.read_most = [usize::MAX, 700][(seed % 2) as usize];
        talkers.push(talker);
        counts.push(count);
    }
    let drains_early = seed.is_multiple_of(7);
    match drains_early {
        true => rig.pass(random.time_below(std::time::Duration::from_millis(20)), &mut talkers),
        false => assert!(rig.play(&mut talkers), "clients wait for ever"),
    }
    rig.close(&mut talkers);
    let (kept, dropped) = (rig.named("answers_kept"), rig.named("tickets_dropped"));
    drop(rig);
    book.borrow().judge();
    for (talker, count) in talkers.iter().zip(&counts) {
        let (heard, ..) = answers(&talker.got, &vec![Method::Get; *count], talker.is_complete());
        let missing = count - heard.len();
        // The last one may have burst, or have been cut short.
        assert!(missing <= 1 || !talker.is_complete() || drains_early, "{missing} of {count} are not answered");
    }
    assert_eq!(dropped, 0);
    (world.report().faults, kept)
}

#[test]
fn a_handler_is_called_once_and_an_exchange_ended_once_whatever_is_refused() {
    let (mut faults, mut kept) = (FaultCounts::default(), 0);
    super::for_seeds(150, |seed| {
        let (of_run, kept_by_run) = run(seed);
        faults.add(&of_run);
        kept += kept_by_run;
    });
    let refused = faults.of(FaultKind::RefusedMemory);
    println!("memory was refused {refused} times, {kept} answers were kept");
    assert!(refused > 1_000 && kept > 100, "{refused} refusals, {kept} answers kept");
}

/// Clients that ask for more than may be kept, where what is lent for an answer is seldom enough for all of it. A client that is told 503 can ask again: nothing was done for it.
#[test]
fn who_is_told_that_there_is_no_room_was_not_sold_anything_and_who_was_hears_of_it() {
    const BYTES: usize = 200_000;
    const EACH: u64 = 4;
    let (mut kept, mut hits, mut refused) = (0, 0, 0);
    super::for_seeds(12, |seed| {
        let world = World::new(seed, Faults { refused_memory: 300, ..Faults::none() });
        let book = Books::default();
        let till = |_| Http::new(Till { book: book.clone(), held: BTreeMap::new() });
        let mut rig = Rig::serving(&world, &RigPlan::lanes(1).memory(64 << 20), patient().output_high(1 << 20), till);
        let ask = |client: u64, number: u64| {
            let (request, word) = (client * 100 + number, if number == 0 { "now" } else { "collect" });
            let (method, content) = if word == "now" { ("GET", "") } else { ("PUT", "Content-Length: 3\r\n") };
            let head = format!("{method} /{word}/{request}/{BYTES} HTTP/1.1\r\nHost: a\r\n{content}\r\n");
            head + if content.is_empty() { "" } else { "abc" }
        };
        let stream = |client| (0..EACH).map(|number| ask(client, number)).collect::<String>().into_bytes();
        // Half of them are of one address, and each of the others is of its own.
        let from = |client: u64| if client < 20 { 1 } else { client as usize };
        let mut talkers: Vec<Talker> =
            (0..40).map(|client| Talker::new(rig.connect(from(client)), seed, stream(client))).collect();
        assert!(rig.play(&mut talkers), "clients wait for ever");
        rig.close(&mut talkers);
        (kept, hits) = (kept + rig.named("answers_kept"), hits + rig.named("answers_kept_max_hits"));
        let book = book.borrow();
        book.judge();
        for (client, talker) in talkers.iter().enumerate() {
            let methods = [Method::Get, Method::Put, Method::Put, Method::Put];
            let (heard, ..) = answers(&talker.got, &methods, true);
            assert_eq!(heard.len() as u64, EACH, "each request is answered");
            for (number, heard) in heard.iter().enumerate() {
                let sold = book.sold.get(&(client as u64 * 100 + number as u64)).copied().unwrap_or(0);
                let due = if heard.status == 200 { (200, 1, BYTES) } else { (503, 0, 0) };
                assert_eq!((heard.status, sold, heard.content.len()), due, "client {client}, request {number}");
                refused += u64::from(heard.status == 503);
            }
        }
    });
    println!("{kept} answers were kept, the bound was met {hits} times, and {refused} requests were told so");
    assert!(kept > 1_000 && hits > 0 && refused > 0, "{kept} kept, {hits} hits, {refused} refused");
}
