//! Sends files of one directory: `NAME` and a line feed is answered with the file's length, a line feed, and its bytes, which leave from the file without
//! passing through the program. A name is one part of a path: whoever asks for more is told `no`.
use corelane::service::{File, FileOutcome, FilePart, OpenOptions, Order, Outcome, Ticket};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Result, Silent, StreamService};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

const READ: OpenOptions = OpenOptions::new().read(true);

/// Sends the files of a directory.
pub struct Files {
    directory: PathBuf,
    /// Requests whose files are being opened.
    asked: BTreeMap<u64, Ticket>,
    next: u64,
}

impl Files {
    /// The files of this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), asked: BTreeMap::new(), next: 0 }
    }

    fn path(&self, name: &[u8]) -> Option<PathBuf> {
        let name = Path::new(std::str::from_utf8(name).ok()?.trim_end());
        let mut parts = name.components();
        matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None)).then(|| self.directory.join(name))
    }

    fn refuse(cx: &mut Cx, ticket: Ticket) {
        cx.answer(ticket, &b"no\n"[..]);
    }

    fn send(cx: &mut Cx, mut ticket: Ticket, file: File, length: u64) {
        let mut writer = cx.answer_writer(&mut ticket);
        let head = writer.put(format!("{length}\n").as_bytes()).and_then(|()| writer.finish());
        let Ok(mut answer) = head else { return Self::refuse(cx, ticket) };
        if length > 0 {
            answer.push(FilePart { file, offset: 0, length });
        }
        cx.answer_chain(ticket, answer);
    }
}

impl StreamService for Files {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            let Some(line) = input.contiguous(end + 1) else { break };
            let path = self.path(line);
            let Ok(ticket) = output.hold(Order::Kept) else { break };
            input.skip(end + 1);
            cx.count_requests(1);
            let Some(path) = path else {
                Self::refuse(cx, ticket);
                continue;
            };
            cx.open_file(path, READ, self.next);
            self.asked.insert(self.next, ticket);
            self.next += 1;
        }
        Next::Continue
    }

    fn completed(&mut self, cx: &mut Cx, token: u64, outcome: Outcome) {
        let Some(ticket) = self.asked.remove(&token) else { return };
        match outcome {
            Outcome::File(FileOutcome::Opened { file, length }) => Self::send(cx, ticket, file, length),
            _ => Self::refuse(cx, ticket),
        }
    }
}

fn main() -> Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:7007", |_lane| Files::new("."))?.run()
}
