//! Clients with many requests for a site that changes under them, under faults: what is heard is always a file as it once was, whole or the part that was asked for, or
//! the fault is said.

use super::shop::repeated;
use crate::files::tools::fill;
use corelane::testing::{
    FaultCounts, FaultKind, Faults, MS, Play, Random, Rig, RigPlan, Talker, Turn, World, for_seeds, patient,
};
use corelane_http::http1::{Answer, Body, Limits, Method, Part, Responses, Scratch};
use corelane_http::{Files, Http};
use std::collections::BTreeMap;

const CLIENTS: u64 = 4;
/// A change of the site.
const CHANGE: u64 = 1 << 40;
const NAMES: [&str; 8] =
    ["a.txt", "empty.txt", "style.css", "with/index.html", "large.bin", "medium.bin", "gone.txt", "late.txt"];

/// The site, whose files come, change and go.
struct Site {
    random: Random,
    /// All that each file ever was.
    were: BTreeMap<&'static str, Vec<Vec<u8>>>,
    is_there: BTreeMap<&'static str, bool>,
    changes: u32,
    /// A link is where a directory was.
    is_swapped: bool,
    talkers: Vec<Talker>,
}

impl Site {
    fn new(world: &World, seed: u64) -> Self {
        let (were, is_there) = Default::default();
        let mut site = Self { random: Random::new(seed), were, is_there, changes: 0, is_swapped: false, talkers: Vec::new() };
        fill(world);
        world.write_file("outside/index.html", b"secret");
        NAMES[..6].iter().for_each(|name| site.write(world, name));
        site
    }

    fn write(&mut self, world: &World, name: &'static str) {
        let most = match name {
            "empty.txt" => 1,
            "large.bin" => 3_000_000,
            "medium.bin" => 300_000,
            _ => 3_000,
        };
        let (length, version) = (self.random.below(most) as usize, self.were.get(name).map_or(0, Vec::len));
        let bytes = repeated(length, 64 * 256, |at| (at >> 6) as u8 ^ version as u8);
        // Under another name first, and then as a whole: whoever has the old one open keeps it.
        if self.is_there.insert(name, true) == Some(true) {
            world.remove_file(format!("site/{name}"));
        }
        world.write_file(format!("site/{name}"), &bytes);
        self.were.entry(name).or_default().push(bytes);
    }

    /// A link that leads out of the site takes the place of the directory, and goes again.
    fn swap(&mut self, world: &World) {
        self.is_swapped = !self.is_swapped;
        match !self.is_swapped {
            false => {
                world.rename("site/with", "with");
                world.make_link("site/with", "../outside", false);
            }
            true => {
                world.remove_file("site/with");
                world.rename("with", "site/with");
            }
        }
    }

    fn change(&mut self, world: &World) {
        if self.is_swapped || self.random.below(4) == 0 {
            return self.swap(world);
        }
        let name = NAMES[self.random.below(NAMES.len() as u64) as usize];
        match self.is_there.get(name) {
            Some(true) if self.random.below(3) == 0 => {
                world.remove_file(format!("site/{name}"));
                self.is_there.insert(name, false);
            }
            _ => self.write(world, name),
        }
    }
}

impl Play for Site {
    fn news(&mut self, world: &World, turn: Turn) {
        if turn == Turn::Alarm(CHANGE) {
            self.change(world);
            self.changes += 1;
            if self.changes < 30 {
                world.alarm(world.now() + self.random.time_below(100 * MS), CHANGE);
            }
            return;
        }
        self.talkers.news(world, turn);
    }

    fn is_over(&self) -> bool {
        self.talkers.is_over()
    }
}

/// A request: for which file, and for which part of it.
struct Question {
    name: &'static str,
    method: Method<'static>,
    range: Option<(usize, usize)>,
    text: String,
}

fn question(random: &mut Random) -> Question {
    let name = NAMES[random.below(NAMES.len() as u64) as usize];
    let method = if random.below(5) == 0 { Method::Head } else { Method::Get };
    let range = (random.below(4) == 0).then(|| {
        let begin = random.below(4_000) as usize;
        (begin, begin + random.one_to(1_000_000))
    });
    let field = range.map_or(String::new(), |(begin, end)| format!("Range: bytes={begin}-{}\r\n", end - 1));
    let path = if name.ends_with("index.html") && random.below(2) == 0 { "with/" } else { name };
    let text = format!("{} /{path} HTTP/1.1\r\nHost: a\r\n{field}\r\n", method.name());
    Question { name, method, range, text }
}

/// The answer's status and content, and what lies behind it; none if it is not whole.
fn answer(bytes: &[u8], method: Method<'static>) -> Option<(u16, Vec<u8>, usize)> {
    let mut scratch = Scratch::new();
    let Answer::Response { head, bytes: mut at } = Responses::new(Limits::default()).next(bytes, &mut scratch).unwrap() else {
        return None;
    };
    let mut body = Body::new(head.framing(method), 1 << 30).unwrap();
    let mut content = Vec::new();
    loop {
        match body.next(&bytes[at..]).unwrap() {
            Part::Data(range) => {
                content.extend_from_slice(&bytes[at..][range.clone()]);
                at += range.end;
            }
            Part::End(drop) => return Some((head.status.code(), content, at + drop)),
            Part::More(_) => return None,
            Part::Trailers(_) => unreachable!("files have none"),
        }
    }
}

/// Whether the answer is right for some state of the file.
fn is_right(site: &Site, question: &Question, status: u16, content: &[u8]) -> bool {
    let nothing = Vec::new();
    let mut were = site.were.get(question.name).unwrap_or(&nothing).iter();
    match status {
        200 => were.any(|was| content == if question.method == Method::Head { &[] } else { &was[..] }),
        206 => {
            let (begin, end) = question.range.unwrap_or_default();
            were.any(|was| begin < was.len() && content == &was[begin..end.min(was.len())])
        }
        416 => were.any(|was| question.range.is_some_and(|(begin, _)| begin >= was.len())),
        // A directory without its index.
        403 => question.name == "with/index.html",
        // With a disk that fails, or a full table.
        404 | 500 | 503 => true,
        _ => false,
    }
}

fn run(seed: u64, faults: Faults) -> (FaultCounts, [u64; 3]) {
    let world = World::new(seed, faults);
    let mut random = Random::new(seed);
    let mut site = Site::new(&world, seed);
    let (lanes, cache) = (random.one_to(2), random.below(100_000) as usize);
    let limits = patient().output_high(random.one_to(300_000));
    let plan = RigPlan::lanes(lanes).memory(16 << 20);
    let mut rig = Rig::serving(&world, &plan, limits, |_| Http::new(Files::new("site").cache_bytes(cache)));
    world.slow_disk(random.below(3) as u32 * 10 * MS);
    world.alarm(world.now() + random.time_below(20 * MS), CHANGE);
    let questions: Vec<Vec<Question>> =
        (0..CLIENTS).map(|_| (0..random.one_to(30)).map(|_| question(&mut random)).collect()).collect();
    for (number, questions) in questions.iter().enumerate() {
        let stream = questions.iter().flat_map(|question| question.text.bytes()).collect();
        site.talkers.push(Talker::new(rig.connect(number), seed + number as u64, stream));
    }
    assert!(rig.play(&mut site), "clients wait for ever");
    let mut statuses = [0; 3];
    for (talker, questions) in site.talkers.iter().zip(&questions) {
        let mut at = 0;
        for question in questions {
            let Some((status, content, bytes)) = answer(&talker.got[at..], question.method) else {
                assert!(!talker.is_complete(), "an answer is missing, and nothing explains it");
                break;
            };
            assert!(is_right(&site, question, status, &content), "{} {status}: {} bytes", question.text, content.len());
            assert!(faults != Faults::none() || status < 500, "{status} without a fault");
            at += bytes;
            statuses[match status {
                200 => 0,
                206 => 1,
                _ => 2,
            }] += 1;
        }
    }
    rig.close(&mut site);
    assert_eq!((rig.named("panics"), world.open_files()), (0, 0));
    assert!(faults.chance(FaultKind::FileError) > 0 || rig.named("answers_cut_short") == 0, "files were replaced, not cut");
    (world.report().faults, statuses)
}

#[test]
fn what_is_heard_is_a_file_as_it_was() {
    let mut all = [0; 3];
    for_seeds(150, |seed| {
        let (_, statuses) = run(seed, Faults::none());
        all.iter_mut().zip(statuses).for_each(|(all, more)| *all += more);
    });
    assert!(all.iter().all(|statuses| *statuses > 0), "{all:?}");
}

#[test]
fn what_is_heard_is_a_file_as_it_was_under_every_fault() {
    let mut all = FaultCounts::default();
    for_seeds(300, |seed| all.add(&run(seed, Faults::all(seed)).0));
    let happened = [FaultKind::FileError, FaultKind::ShortFileRead, FaultKind::FilledTable].map(|kind| all.of(kind) > 0);
    assert!(happened == [true; 3] || corelane::testing::seeds(300).len() < 300, "{happened:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for_seeds(10, |seed| assert_eq!(run(seed, Faults::all(seed)), run(seed, Faults::all(seed)), "seed {seed}"));
}
