//! The answers on one connection: heads and contents in turn.

use super::counts;
use super::expect::Gathered;
use super::head::{Head, malformed, read};
use super::kinds::{CLIENT_ERROR, CONTENT, CUT, MALFORMED, SERVER_ERROR, UNASKED};
use super::request::Path;
use crate::kinds::Kind;
use crate::workload::Answers;
use corelane::Input;
use corelane_wire::http1::{Body, Limits, Part, Responses, Scratch, TRAILER_BYTES_MAX, trailers};
use std::collections::VecDeque;

/// What one lane asks, and how the answers are read and judged.
pub struct Judge {
    pub paths: Vec<Path>,
    pub is_head: bool,
    pub any_status: bool,
}

/// One connection.
pub struct Stream {
    /// Which paths wait for their answers, the oldest first; unused where there is one path.
    asked: VecDeque<u16>,
    /// Which paths are to be asked for first, because they waited on the connection before.
    again: VecDeque<u16>,
    at: At,
    /// Interim answers, and bytes of their heads, before the one that is on its way.
    interim: (u64, u64),
    had_one: bool,
}

/// What comes next.
enum At {
    Head(Responses),
    Content(Reading),
    /// Nothing: the server has said that it was the last.
    Over,
}

/// An answer whose head is read.
struct Reading {
    head: Head,
    body: Body,
    content: Gathered,
    trailer_bytes: u64,
}

/// Where a machine stands: there may be more in what has come.
#[derive(PartialEq)]
enum Step {
    GoOn,
    /// More bytes, or memory to join those that are there, are to come.
    Wait,
}

impl Stream {
    pub fn new() -> Self {
        Self { asked: VecDeque::new(), again: VecDeque::new(), at: At::start(), interim: (0, 0), had_one: false }
    }

    /// The connection that follows: what waits on this one, and what was not even asked again there, goes first.
    pub fn followed(mut self) -> Self {
        self.asked.append(&mut self.again);
        Self { again: self.asked, ..Self::new() }
    }

    /// The path that is to be asked for first.
    pub fn again(&self) -> Option<usize> {
        self.again.front().copied().map(usize::from)
    }

    /// That request was made; false if there was none to be made first.
    pub fn take_again(&mut self) -> bool {
        self.again.pop_front().is_some()
    }

    /// A request for this path was made.
    pub fn asked(&mut self, path: usize) {
        self.asked.push_back(path as u16);
    }

    /// Whether the server may close it while nothing is waited for: it was used, and nothing has begun.
    pub fn may_end(&self) -> bool {
        self.had_one && !matches!(self.at, At::Content(_))
    }

    fn oldest(&self) -> usize {
        self.asked.front().copied().map_or(0, usize::from)
    }
}

impl At {
    fn start() -> Self {
        Self::Head(Responses::new(Limits::default()))
    }
}

impl Judge {
    /// Takes what has arrived.
    pub fn take(&mut self, stream: &mut Stream, input: &mut Input, answers: &mut Answers<'_>) -> Result<(), Kind> {
        loop {
            let step = match stream.at {
                At::Head(_) => self.take_head(stream, input, answers)?,
                At::Content(_) => self.take_content(stream, input, answers)?,
                At::Over => {
                    input.skip(usize::MAX);
                    Step::Wait
                }
            };
            if step == Step::Wait {
                break;
            }
        }
        if input.is_finished() { self.finish(stream, input, answers) } else { Ok(()) }
    }

    fn take_head(&mut self, stream: &mut Stream, input: &mut Input, answers: &mut Answers<'_>) -> Result<Step, Kind> {
        let oldest = stream.oldest();
        let At::Head(responses) = &mut stream.at else { unreachable!("a head is awaited") };
        if input.is_empty() {
            return Ok(Step::Wait);
        }
        if !answers.are_due() {
            return Err(UNASKED);
        }
        let path = &mut self.paths[oldest];
        let bytes = input.first();
        let head = match path.known(bytes) {
            Some(head) => head,
            None => match read(responses, bytes, self.is_head)? {
                Some(head) => path.learn(head, &bytes[..head.bytes]),
                None => return Ok(join(input, Limits::default().head_bytes)),
            },
        };
        input.skip(head.bytes);
        if head.is_interim {
            (stream.interim.0, stream.interim.1) = (stream.interim.0 + 1, stream.interim.1 + head.bytes as u64);
            stream.at = At::start();
            return Ok(Step::GoOn);
        }
        // What follows 101 is no HTTP, and nobody has asked for anything else.
        if head.status == 101 {
            return Err(MALFORMED);
        }
        let body = Body::new(head.framing, u64::MAX).map_err(malformed)?;
        let content = Gathered::new(path.expect.wants_hash() && head.status / 100 == 2);
        let reading = Reading { head, body, content, trailer_bytes: 0 };
        match body.is_ended() {
            true => self.complete(stream, reading, answers)?,
            false => stream.at = At::Content(reading),
        }
        Ok(Step::GoOn)
    }

    fn take_content(&mut self, stream: &mut Stream, input: &mut Input, answers: &mut Answers<'_>) -> Result<Step, Kind> {
        let At::Content(reading) = &mut stream.at else { unreachable!("content is awaited") };
        let bytes = input.first();
        let taken = match reading.body.next(bytes).map_err(malformed)? {
            Part::Data(range) => {
                reading.content.add(&bytes[range.clone()]);
                range.end
            }
            Part::Trailers(range) => {
                trailers(&bytes[range.clone()], &mut Scratch::new()).map_err(malformed)?;
                reading.trailer_bytes = range.len() as u64;
                range.end
            }
            Part::More(0) => return Ok(join(input, TRAILER_BYTES_MAX)),
            Part::More(drop) | Part::End(drop) => drop,
        };
        input.skip(taken);
        self.complete_if_ended(stream, answers)?;
        Ok(Step::GoOn)
    }

    fn complete_if_ended(&mut self, stream: &mut Stream, answers: &mut Answers<'_>) -> Result<(), Kind> {
        if !matches!(&stream.at, At::Content(reading) if reading.body.is_ended()) {
            return Ok(());
        }
        let At::Content(reading) = std::mem::replace(&mut stream.at, At::start()) else { unreachable!("it was just there") };
        self.complete(stream, reading, answers)
    }

    /// An answer is whole.
    fn complete(&mut self, stream: &mut Stream, reading: Reading, answers: &mut Answers<'_>) -> Result<(), Kind> {
        let Reading { head, content, trailer_bytes, .. } = reading;
        let (path, content) = (stream.oldest(), content.content());
        stream.asked.pop_front();
        let class = usize::from(head.status / 100);
        assert!((1..=5).contains(&class), "a status has three digits, and begins with 1 to 5");
        let outcome = match class {
            4 if !self.any_status => Err(CLIENT_ERROR),
            5 if !self.any_status => Err(SERVER_ERROR),
            2 if !self.paths[path].expect.judge(content) => Err(CONTENT),
            _ => Ok(()),
        };
        let (interim, interim_bytes) = std::mem::take(&mut stream.interim);
        let counted = [
            (0, interim),
            (class - 1, 1),
            (counts::REDIRECTS, u64::from(head.is_redirect)),
            (counts::HEAD_BYTES, head.bytes as u64 + interim_bytes),
            (counts::CONTENT_BYTES, content.bytes),
            (counts::TRAILER_BYTES, trailer_bytes),
        ];
        answers.oldest(outcome, &counted)?;
        stream.had_one = true;
        stream.at = if head.stays {
            At::start()
        } else {
            answers.end_connection();
            At::Over
        };
        Ok(())
    }

    /// The server has ended its stream.
    fn finish(&mut self, stream: &mut Stream, input: &Input, answers: &mut Answers<'_>) -> Result<(), Kind> {
        if input.len() > input.first().len() {
            return Ok(()); // what is there cannot be joined yet
        }
        match &mut stream.at {
            At::Head(_) if input.is_empty() => Ok(()),
            At::Head(_) => Err(CUT),
            At::Content(_) if input.is_truncated() => Err(CUT),
            At::Content(reading) => {
                reading.body.finish().map_err(|_| CUT)?;
                self.complete_if_ended(stream, answers)
            }
            At::Over => Ok(()),
        }
    }
}

/// Joins what is there, up to one byte more than may belong together.
fn join(input: &mut Input, most: usize) -> Step {
    let there = input.len().min(most + 1);
    let joined = input.first().len() < there && input.contiguous(there).is_some();
    if joined { Step::GoOn } else { Step::Wait }
}
