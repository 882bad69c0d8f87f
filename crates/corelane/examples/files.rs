//! Sends what lies beneath one directory: `NAME` and a line feed is answered with the file's length, a line feed, and its bytes, which leave from the
//! file without passing through the program. A name is not looked at here: what leads out of the directory is not opened, and who asks is told `no`.
use corelane::service::{File, FileOutcome, FilePart, OpenOptions, Order, Outcome, Ticket};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Result, Silent, StreamService};
use std::collections::BTreeMap;
use std::path::PathBuf;

const READ: OpenOptions = OpenOptions::new().read(true);

/// The request that is none: for the directory.
const TOP: u64 = 0;

/// Sends the files of a directory.
pub struct Files {
    path: PathBuf,
    directory: Option<File>,
    /// Requests whose files are being opened; while there is no directory they wait for it.
    asked: BTreeMap<u64, (Ticket, PathBuf)>,
    last: u64,
}

impl Files {
    /// The files of this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { path: directory.into(), directory: None, asked: BTreeMap::new(), last: TOP }
    }

    fn ask(&mut self, cx: &mut Cx, ticket: Ticket, name: PathBuf) {
        self.last += 1;
        match &self.directory {
            Some(directory) => cx.open_beneath(directory, name.clone(), READ, self.last),
            None if self.asked.is_empty() => cx.open_file(self.path.clone(), READ.directory(true), TOP),
            None => {}
        }
        self.asked.insert(self.last, (ticket, name));
    }

    fn begin(&mut self, cx: &mut Cx, directory: File) {
        for (&token, (_, name)) in &self.asked {
            cx.open_beneath(&directory, name.clone(), READ, token);
        }
        self.directory = Some(directory);
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
            let name = String::from_utf8_lossy(line).trim_end().into();
            let Ok(ticket) = output.hold(Order::Kept) else { break };
            input.skip(end + 1);
            cx.count_requests(1);
            self.ask(cx, ticket, name);
        }
        Next::Continue
    }

    fn completed(&mut self, cx: &mut Cx, token: u64, outcome: Outcome) {
        if token == TOP {
            return match outcome {
                Outcome::File(FileOutcome::Opened { file, .. }) => self.begin(cx, file),
                _ => std::mem::take(&mut self.asked).into_values().for_each(|(ticket, _)| Self::refuse(cx, ticket)),
            };
        }
        let Some((ticket, _)) = self.asked.remove(&token) else { return };
        match outcome {
            Outcome::File(FileOutcome::Opened { file, facts }) => Self::send(cx, ticket, file, facts.length),
            _ => Self::refuse(cx, ticket),
        }
    }
}

fn main() -> Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:7007", |_lane| Files::new("."))?.run()
}
