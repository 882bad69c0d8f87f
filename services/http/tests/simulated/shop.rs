//! An application with an answer of every kind.
//!
//! `GET /now/N` N bytes at once · `/later/N` held, answered by a helper · `/slow/N` held, with memory kept, and 50 ms at most · `/wait/N` an exchange that waits for a helper ·
//! `/sized/N`, `/chunks/N` in parts · `/short/N` of which half comes · `PUT /sum` content in pieces, `/drip` the same, with a pause behind each · `PUT /talk` content answered with itself as it comes, `/talk/N` after N pieces no more of it · `POST /echo` content collected · `/ignore` content that
//! nobody reads · `/words/N`, `/parts/N`, `/empty/N` the status N with and without content · `/hoard` content of any length collected · `/gone` how many exchanges were told of their connection's end · `/fat/N` a field of N bytes · `/ours/N` a field line that is not the application's · `/flood/N` in parts, as fast as there is room · `/never` held and not answered in time · `/release` answers those after all · `/panic`.

use corelane::service::{OffloadResult, Outcome, Refused, Shared};
use corelane::testing::burst;
use corelane::{Cx, Silent};
use corelane_http::http1::Status;
use corelane_http::{Application, Exchange, First, Flow, Goes, Handled, Held, Parts, Produced, Reply, Request};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Bytes of content that are collected.
pub const COLLECT_BYTES: u64 = 300_000;
/// Bytes that are taken in pieces.
pub const RECEIVE_BYTES: u64 = 1 << 20;
/// Bytes that are answered with themselves.
pub const TALK_BYTES: u64 = 1 << 30;

/// Field lines that are not the application's.
pub const OURS: [&str; 4] = ["content-length", "Transfer-Encoding", "connection", "DATE"];

pub fn pattern(bytes: usize) -> Vec<u8> {
    repeated(bytes, 2048, |at| ((at * 7 + bytes) >> 3) as u8)
}

/// So many bytes, each by its place, of which those `period` apart are the same: they are copied, for one by one they would take half of the time of all runs.
pub fn repeated(bytes: usize, period: usize, byte: impl Fn(usize) -> u8) -> Vec<u8> {
    let once: Vec<u8> = (0..bytes.min(period)).map(byte).collect();
    let mut all = once.repeat(bytes.div_ceil(period));
    all.truncate(bytes);
    all
}

/// What tells content from other content.
pub fn sum(so_far: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(so_far, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(*byte)))
}

/// What helpers work for.
enum Errand {
    Answer { held: Held, bytes: usize },
    Resume(corelane::service::ConnectionId),
}

#[derive(Default)]
pub struct Shop {
    errands: BTreeMap<u64, Errand>,
    last: u64,
    never: Vec<Held>,
    /// Exchanges that were told of their connection's end.
    gone: usize,
}

impl Shop {
    fn send(&mut self, cx: &mut Cx<'_>, errand: Errand) {
        self.last += 1;
        self.errands.insert(self.last, errand);
        cx.offload(|| (), self.last);
    }

    /// What few applications do, or none should.
    fn strange(&mut self, word: &str, bytes: usize, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        match word {
            "words" => reply.answer(Status::new(bytes as u16).unwrap()).bytes(b"words"),
            "parts" => {
                let begun = reply.answer(Status::new(bytes as u16).unwrap()).begin(None)?;
                Ok((Late { bytes, sent: 0, length: None, is_sized: true, asked: false, turns: 0 }, First::Produce(begun)).into())
            }
            "hoard" => Ok(Handled::Collect(u64::MAX)),
            "gone" => reply.text(&self.gone.to_string()),
            "fat" => reply.answer(Status::OK).field("X", "x".repeat(bytes)).bytes(b"never"),
            "ours" => reply.answer(Status::OK).field(OURS[bytes], "close").bytes(b"never"),
            "empty" => reply.answer(Status::new(bytes as u16).unwrap()).empty(),
            _ => reply.status(Status::NOT_FOUND),
        }
    }

    /// Answers what was not answered in time.
    fn release(&mut self, cx: &mut Cx<'_>) -> Result<(), Refused> {
        self.never.drain(..).try_for_each(|held| held.answer(cx, Status::OK).bytes::<()>(b"at last"))
    }
}

/// Takes content in pieces.
struct Sum {
    sum: u64,
    bytes: u64,
    drips: bool,
}

impl Exchange<Shop> for Sum {
    fn content(&mut self, shop: &mut Shop, cx: &mut Cx<'_>, piece: Shared) -> Flow {
        assert!(!piece.is_empty());
        (self.sum, self.bytes) = (sum(self.sum, &piece), self.bytes + piece.len() as u64);
        if !self.drips {
            return Flow::More;
        }
        shop.send(cx, Errand::Resume(cx.id()));
        Flow::Wait
    }

    fn go_on(&mut self, _shop: &mut Shop, _cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        reply.text(&format!("{} {:x}", self.bytes, self.sum))
    }

    fn gone(&mut self, shop: &mut Shop, _cx: &mut Cx<'_>) {
        shop.gone += 1;
    }
}

/// Answers content with itself while it comes.
#[derive(Default)]
struct Talk {
    waiting: VecDeque<Shared>,
    /// Pieces after which it ends though more may come; 0: none.
    pieces_max: usize,
    pieces: usize,
}

impl Exchange<Shop> for Talk {
    fn content(&mut self, _shop: &mut Shop, _cx: &mut Cx<'_>, piece: Shared) -> Flow {
        assert!(!piece.is_empty());
        self.waiting.push_back(piece);
        self.pieces += 1;
        if self.waiting.len() < 3 { Flow::More } else { Flow::Wait }
    }

    fn go_on(&mut self, _shop: &mut Shop, _cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        reply.answer(Status::OK).begin(None).map(Goes::Produce)
    }

    fn produce(&mut self, _shop: &mut Shop, _cx: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        assert!(self.waiting.len() <= 3, "no more is taken than was asked for");
        if let Some(piece) = self.waiting.front() {
            if parts.push(piece.clone()).is_ok() {
                self.waiting.pop_front();
            }
            return Produced::More;
        }
        let ends = parts.has_all_content() || self.pieces_max > 0 && self.pieces >= self.pieces_max;
        if ends { Produced::End } else { Produced::Content }
    }

    fn gone(&mut self, shop: &mut Shop, _cx: &mut Cx<'_>) {
        shop.gone += 1;
    }
}

/// Waits for a helper, then answers at once or in parts.
struct Late {
    bytes: usize,
    sent: usize,
    /// How long the whole is; none where nobody says so.
    length: Option<u64>,
    is_sized: bool,
    asked: bool,
    turns: usize,
}

impl Exchange<Shop> for Late {
    fn go_on(&mut self, shop: &mut Shop, cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        if !std::mem::replace(&mut self.asked, true) {
            shop.send(cx, Errand::Resume(cx.id()));
            return Ok(Goes::Wait);
        }
        if self.is_sized {
            return reply.answer(Status::OK).begin(self.length).map(Goes::Produce);
        }
        reply.answer(Status::OK).bytes(&pattern(self.bytes))
    }

    fn produce(&mut self, shop: &mut Shop, cx: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        let whole = pattern(self.bytes);
        let piece = (self.bytes - self.sent).min(3_000);
        if parts.write(&whole[self.sent..self.sent + piece]).is_err() {
            return Produced::More;
        }
        (self.sent, self.turns) = (self.sent + piece, self.turns + 1);
        match self.turns % 4 {
            _ if self.sent == self.bytes => Produced::End,
            1 => Produced::Drained,
            2 => {
                shop.send(cx, Errand::Resume(cx.id()));
                Produced::Wait
            }
            _ => Produced::More,
        }
    }

    fn gone(&mut self, shop: &mut Shop, _cx: &mut Cx<'_>) {
        shop.gone += 1;
    }
}

/// Sends as much as there is room for.
struct Flood(u64);

impl Exchange<Shop> for Flood {
    fn go_on(&mut self, _shop: &mut Shop, _cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        reply.text("never called")
    }

    fn produce(&mut self, _shop: &mut Shop, _cx: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        let piece = self.0.min(16 << 10);
        if parts.write(&[b'f'; 16 << 10][..piece as usize]).is_ok() {
            self.0 -= piece;
        }
        if self.0 == 0 { Produced::End } else { Produced::More }
    }
}

impl Application for Shop {
    type Talk = Silent;

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        let (_, rest) = request.path().split_at(1);
        let (word, number) = rest.split_once('/').unwrap_or((rest, "0"));
        let bytes: usize = number.parse().unwrap();
        let late = |length, is_sized| Late { bytes, sent: 0, length, is_sized, asked: false, turns: 0 };
        match word {
            "now" => reply.answer(Status::OK).bytes(&pattern(bytes)),
            "later" => {
                let (held, handled) = reply.hold(0, None)?;
                self.send(cx, Errand::Answer { held, bytes });
                Ok(handled)
            }
            "slow" => {
                let (held, handled) = reply.hold(bytes + 500, Some(Duration::from_millis(50)))?;
                self.send(cx, Errand::Answer { held, bytes });
                Ok(handled)
            }
            "never" => {
                let (held, handled) = reply.hold(0, Some(Duration::from_millis(50)))?;
                self.never.push(held);
                Ok(handled)
            }
            "release" => {
                self.release(cx)?;
                reply.text("released")
            }
            "wait" | "late" => {
                self.send(cx, Errand::Resume(cx.id()));
                Ok((Late { asked: word == "wait", ..late(None, false) }, First::Wait).into())
            }
            "sized" | "short" => {
                let length = bytes as u64;
                let begun = reply.answer(Status::OK).begin(Some(if word == "short" { 2 * length } else { length }))?;
                Ok((late(None, true), First::Produce(begun)).into())
            }
            "chunks" => {
                let begun = reply.answer(Status::OK).begin(None)?;
                Ok((late(None, true), First::Produce(begun)).into())
            }
            "flood" => {
                let begun = reply.answer(Status::OK).begin(None)?;
                Ok((Flood(bytes as u64), First::Produce(begun)).into())
            }
            "sum" | "drip" => Ok((Sum { sum: 0, bytes: 0, drips: word == "drip" }, First::Receive(RECEIVE_BYTES)).into()),
            "talk" => Ok((Talk { pieces_max: bytes, ..Talk::default() }, First::Converse(TALK_BYTES)).into()),
            "echo" => match request.content() {
                Some(content) => reply.answer(Status::OK).segment(content.clone()),
                None => Ok(Handled::Collect(COLLECT_BYTES)),
            },
            "ignore" => reply.text("ignored"),
            "split" => reply.answer(Status::OK).field("X", "a\r\nSet-Cookie: b").bytes(b"never"),
            "panic" => burst("told to"),
            _ => self.strange(word, bytes, reply),
        }
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        assert!(matches!(outcome, Outcome::Offloaded(OffloadResult(_)) | Outcome::Failed(_)));
        match self.errands.remove(&token).unwrap() {
            Errand::Answer { held, bytes } => {
                // Refused memory, it is answered with 503 (Service Unavailable).
                let _: Result<(), _> = held.answer(cx, Status::OK).bytes(&pattern(bytes));
            }
            Errand::Resume(connection) => cx.resume(connection),
        }
    }
}
