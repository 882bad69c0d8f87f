//! HTTP/1.1 over connections (RFC 9112): requests in turn of a list of paths, several in flight on a connection if asked to, and answers that are
//! read in full: the status is counted, the content compared with what it should be.
//!
//! ```text
//! options, URL -> Settings -> Mix (which path is next) -> a head a path, written once
//! Judge (a lane) reads a Stream (a connection): heads by Responses, content by Body, both of corelane_wire; a head that has the bytes of the last
//! one is not read again
//! ```

mod answer;
mod counts;
mod expect;
mod head;
mod kinds;
mod mix;
mod options;
mod request;
mod settings;

use super::{Particulars, WorkloadEntry};
use crate::ends::Ends;
use crate::engine::Engine;
use crate::error::Error;
use crate::kinds::Kind;
use crate::place::Scheme;
use crate::plan::{Mode, Plan};
use crate::workload::{Answers, Workload};
use answer::{Judge, Stream};
use corelane::lanes::Transport;
use corelane::service::entry::choice::Choice;
use corelane::{Input, Lanes, Output};
use counts::COUNTS;
use kinds::KINDS;
use mix::Mix;
use options::{ANY_STATUS, EXPECT, HEADER, METHOD, PATH, PATHS};

pub use expect::{Content, Expect};
pub use kinds::{CLIENT_ERROR, CONTENT, CUT, MALFORMED, SERVER_ERROR, UNASKED};
pub use settings::{HttpSettings, Wanted, check_method, header, wanted};

/// Where HTTP is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 8080;

/// The same behind TLS.
pub const SECURE_PORT: u16 = 8443;

const HTTP: Scheme = Scheme { name: "http", transport: Transport::Tcp, port: Some(DEFAULT_PORT), has_path: true, secure: None };

/// Most bytes of contents in flight on a connection.
const SIZE_MAX: usize = 64 << 20;

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
    particulars: |chosen, place| options::read(chosen, place).map(Particulars::of),
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
    judge: Judge,
    mix: Mix,
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
            judge: Judge { paths, is_head: settings.method(plan.size) == "HEAD", any_status: settings.any_status },
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
            if !self.judge.paths[path].write(is_last, self.size, output) {
                return written;
            }
            if !stream.take_again() {
                self.mix.take();
            }
            if self.judge.paths.len() > 1 {
                stream.asked(path);
            }
        }
        count
    }

    fn may_end(&self, stream: &Stream) -> bool {
        stream.may_end()
    }

    fn receive(&mut self, stream: &mut Stream, input: &mut Input, answers: &mut Answers<'_>) -> Result<(), Kind> {
        self.judge.take(stream, input, answers)
    }
}
