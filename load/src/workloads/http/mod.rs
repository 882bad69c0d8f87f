//! HTTP/1.1 over connections (RFC 9112): requests in turn of a list of paths, several in flight on a connection if asked to, and answers that are
//! read in full: the status is counted, the content compared with what it should be.
//!
//! ```text
//! Settings (options and URL) -> Mix (which path is next) -> a head a path, written once
//! Stream (a connection): heads by Responses, content by Body, both of corelane_wire; a head that has the bytes of the last one is not read again
//! ```

mod answer;
mod expect;
mod mix;
mod request;
mod settings;

use super::{Particulars, WorkloadEntry};
use crate::ends::Ends;
use crate::engine::Engine;
use crate::error::Error;
use crate::kinds::{Kind, OwnKind};
use crate::place::Scheme;
use crate::plan::{Mode, Plan};
use crate::workload::{Answers, Workload};
use answer::Stream;
use corelane::lanes::Transport;
use corelane::service::entry::choice::{Choice, Flag, Text};
use corelane::{Input, Lanes, Output};
use mix::Mix;
use request::Path;

pub use expect::{Content, Expect};
pub use settings::{HttpSettings, Wanted, check_method, header, wanted};

/// Where HTTP is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 80;

/// The same behind TLS.
pub const SECURE_PORT: u16 = 443;

const HTTP: Scheme = Scheme { name: "http", transport: Transport::Tcp, port: Some(DEFAULT_PORT), has_path: true, secure: None };

/// Most bytes of contents in flight on a connection.
const SIZE_MAX: usize = 64 << 20;

macro_rules! own_kinds {
    ($($name:ident = $place:literal $word:literal $meaning:literal;)*) => {
        $(#[doc = concat!("`", $word, "`: ", $meaning, ".")]
        pub const $name: Kind = Kind::Own(&OwnKind { place: $place, name: $word, meaning: $meaning });)*

        const KINDS: &[Kind] = &[$($name,)*];
    };
}

own_kinds! {
    CLIENT_ERROR = 0 "http_4xx" "the server answered with a status from 400 to 499; with --any-status that is a right answer";
    SERVER_ERROR = 1 "http_5xx" "the server answered with a status from 500 to 599; with --any-status that is a right answer";
    CONTENT = 2 "http_content" "the content of a 2xx answer has another length or hash than --expect says";
    MALFORMED = 3 "http_malformed" "what came breaks RFC 9112, or its head is over 16 KiB; the connection is broken off";
    CUT = 4 "http_cut" "the server ended the connection in the middle of an answer";
    UNASKED = 5 "http_unasked" "bytes came that answer no request; the connection is broken off";
}

/// What is counted of answers.
const COUNTS: &[&str] = &[
    "status_1xx",
    "status_2xx",
    "status_3xx",
    "status_4xx",
    "status_5xx",
    "redirects",
    "head_bytes",
    "content_bytes",
    "trailer_bytes",
];

/// Places in [`COUNTS`]; that of a status class is its first digit less one.
mod place {
    pub const REDIRECTS: usize = 5;
    pub const HEAD_BYTES: usize = 6;
    pub const CONTENT_BYTES: usize = 7;
    pub const TRAILER_BYTES: usize = 8;
}

const PATH: Text = Text::new(
    "path",
    "[WEIGHT ]/PATH[ EXPECT]",
    |text| settings::wanted(text).map(drop),
    "a path to ask for, in proportion to its weight (1 unless it is said), instead of the URL's; behind it what its content is, as for --expect; may be repeated",
);

const PATHS: Text = Text::new(
    "paths",
    "FILE",
    |text| settings::list(text).map(drop),
    "a file of paths, each on a line as for --path; what begins with # is passed over",
);

const METHOD: Text = Text::new(
    "method",
    "NAME",
    settings::check_method,
    "the method, in capitals; --size gives its request a content of so many bytes [default: GET, with --size POST]",
);

const HEADER: Text = Text::new(
    "header",
    "NAME: VALUE",
    |text| settings::header(text).map(drop),
    "a header line of each request, instead of the generator's own of that name; may be repeated",
);

const EXPECT: Text = Text::new(
    "expect",
    "HOW",
    |text| text.parse::<Expect>().map(drop),
    "what the content of 2xx answers must be: as the first one of its path on each lane (first), BYTES long, BYTES:HASH with its XXH64 as xxh64sum prints it, or any [default: first]",
);

const ANY_STATUS: Flag = Flag::new("any-status", "count 4xx and 5xx as right answers, not as failures");

/// HTTP/1.1 over connections.
pub const ENTRY: WorkloadEntry = WorkloadEntry {
    default_port: DEFAULT_PORT,
    default_size: 0,
    options: &[
        Choice::Texts(PATH),
        Choice::Text(PATHS),
        Choice::Text(METHOD),
        Choice::Texts(HEADER),
        Choice::Text(EXPECT),
        Choice::Flag(ANY_STATUS),
    ],
    kinds: KINDS,
    counts: COUNTS,
    particulars: |chosen, place| HttpSettings::of(chosen, place).map(Particulars::of),
    call: |plan| Some(HttpSettings::in_plan(plan).call(plan.size)),
    ..WorkloadEntry::plain(
        ("http", "HTTP/1.1 requests: answers are read in full, contents compared, redirects counted and not followed"),
        &[HTTP, Scheme { name: "https", port: Some(SECURE_PORT), secure: Some(&[b"http/1.1"]), ..HTTP }],
        check,
        client,
    )
};

fn check(plan: &Plan) -> Result<(), Error> {
    if plan.size.saturating_mul(plan.depth as usize) > SIZE_MAX {
        let why = format!("{} bytes, {} of them in flight, are over {SIZE_MAX} bytes a connection", plan.size, plan.depth);
        return Err(Error::Setting { name: "size", why });
    }
    let settings = HttpSettings::in_plan(plan);
    request::paths(&settings, plan.size)?;
    Mix::check(&settings.wanted)
}

fn client(lanes: Lanes, ends: Ends) -> Lanes {
    lanes.client(move |lane| Engine::new(ends.course(lane), Http::new(ends.plan(), lane)))
}

/// The requests of one lane.
pub struct Http {
    paths: Vec<Path>,
    mix: Mix,
    is_head: bool,
    any_status: bool,
    size: usize,
    /// The number of the last request of each connection, where that is known before.
    last: Option<u64>,
}

impl Http {
    /// The requests of a plan that passed its check, on lane `lane`.
    pub fn new(plan: &Plan, lane: usize) -> Self {
        let settings = HttpSettings::in_plan(plan);
        // reason: the plan was checked, and heads follow from it alone.
        let paths = request::paths(&settings, plan.size).expect("the requests of a plan can be written");
        let each = match plan.mode {
            Mode::Connections { requests, .. } => Some(requests),
            _ => plan.requests_each,
        };
        Self {
            mix: Mix::new(&settings.wanted, lane as u64, plan.lanes as u64),
            paths,
            is_head: settings.method(plan.size) == "HEAD",
            any_status: settings.any_status,
            size: plan.size,
            last: each.filter(|_| settings.says_close).map(|each| u64::from(each) - 1),
        }
    }
}

impl Workload for Http {
    type Connection = Stream;

    fn connection(&mut self, _number: u64) -> Stream {
        Stream::new()
    }

    fn connection_after(&mut self, _number: u64, before: Stream) -> Stream {
        before.followed()
    }

    fn request(&mut self, stream: &mut Stream, first: u64, count: usize, output: &mut Output) -> usize {
        for written in 0..count {
            let path = stream.again().unwrap_or_else(|| self.mix.next());
            let is_last = self.last == Some(first + written as u64);
            if !self.paths[path].write(is_last, self.size, output) {
                return written;
            }
            if !stream.take_again() {
                self.mix.take();
            }
            if self.paths.len() > 1 {
                stream.asked(path);
            }
        }
        count
    }

    fn may_end(&self, stream: &Stream) -> bool {
        stream.may_end()
    }

    fn receive(&mut self, stream: &mut Stream, input: &mut Input, answers: &mut Answers<'_>) -> Result<(), Kind> {
        self.take(stream, input, answers)
    }
}
