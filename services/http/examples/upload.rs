//! Takes files: `PUT /NAME` stores its content beneath a directory, piece by piece as it comes, and is answered when the system has it on the disk. A client that is
//! faster than the disk waits: no more than a piece is in memory. What comes is written beside the file that there may be, and takes its name when it is whole: nobody ever sees half of it, and
//! where a client breaks off, or sends too much, nothing is left of it.
use corelane::service::{ConnectionId, File, FileOutcome, OffloadResult, OpenOptions, Outcome, Refused, Shared};
use corelane::{Cx, Lanes, Silent};
use corelane_http::http1::{Method, Status};
use corelane_http::{Application, Exchange, First, Flow, Goes, Handled, Http, Reply, Request};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

const BYTES_MAX: u64 = 1 << 30;
const CREATE: OpenOptions = OpenOptions::new().write(true).create(true).truncate(true);
/// The token of what nobody waits for.
const NOBODY: u64 = 0;

/// Takes files into a directory.
pub struct Uploads {
    directory: PathBuf,
    /// What is under way, by the token of what is done for it.
    under_way: BTreeMap<u64, Rc<RefCell<Upload>>>,
    last: u64,
}

/// One file that is coming.
struct Upload {
    connection: ConnectionId,
    token: u64,
    /// What it is to be called, and what it is called until it is whole.
    path: PathBuf,
    beside: PathBuf,
    file: Option<File>,
    /// What came before the file was open.
    early: Option<Shared>,
    written: u64,
    stage: Stage,
    /// Nobody waits for it any more.
    is_gone: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    New,
    Busy,
    Idle,
    Synced,
    Stored,
    Failed,
}

impl Uploads {
    /// Into this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), under_way: BTreeMap::new(), last: NOBODY }
    }
}

impl Upload {
    fn open(&mut self, cx: &mut Cx) {
        self.stage = Stage::Busy;
        cx.open_file(self.beside.clone(), CREATE, self.token);
    }

    fn write(&mut self, cx: &mut Cx, piece: Shared) {
        let Some(file) = &self.file else { return self.early = Some(piece) };
        (self.stage, self.written) = (Stage::Busy, self.written + piece.len() as u64);
        cx.write_file(file, self.written - piece.len() as u64, piece, self.token);
    }

    /// It is whole, and on the disk: it takes its name.
    fn store(&mut self, cx: &mut Cx) {
        let (from, to) = (self.beside.clone(), self.path.clone());
        self.stage = Stage::Busy;
        cx.offload(move || std::fs::rename(from, to).is_ok(), self.token);
    }

    /// It will never be whole.
    fn discard(&mut self, cx: &mut Cx) {
        let beside = self.beside.clone();
        (self.file, self.early) = (None, None);
        cx.offload(move || std::fs::remove_file(beside).is_ok(), NOBODY);
    }

    /// What was under way for it has come to its end.
    fn note(&mut self, outcome: Outcome) {
        self.stage = match outcome {
            Outcome::File(FileOutcome::Opened { file, .. }) => {
                self.file = Some(file);
                Stage::Idle
            }
            Outcome::File(FileOutcome::Written { .. }) => Stage::Idle,
            Outcome::File(FileOutcome::Done) => Stage::Synced,
            Outcome::Offloaded(OffloadResult(stored)) if stored.downcast_ref() == Some(&true) => Stage::Stored,
            _ => Stage::Failed,
        };
    }
}

/// The same, as its connection has it.
struct Incoming(Rc<RefCell<Upload>>);

impl Exchange<Uploads> for Incoming {
    fn content(&mut self, _: &mut Uploads, cx: &mut Cx, piece: Shared) -> Flow {
        let mut upload = self.0.borrow_mut();
        if upload.stage == Stage::New {
            upload.open(cx);
        }
        upload.write(cx, piece);
        Flow::Wait // for the disk
    }

    fn go_on(&mut self, uploads: &mut Uploads, cx: &mut Cx, reply: Reply) -> Result<Goes, Refused> {
        let mut upload = self.0.borrow_mut();
        match (upload.stage, upload.file.clone()) {
            (Stage::New, _) => upload.open(cx),
            (Stage::Idle, Some(file)) => {
                upload.stage = Stage::Busy;
                cx.sync_file(&file, upload.token);
            }
            // Else it is called again when a helper is free.
            (Stage::Synced, _) if cx.ask_offload() => upload.store(cx),
            (Stage::Stored, _) => {
                uploads.under_way.remove(&upload.token);
                return reply.status(Status::CREATED);
            }
            (Stage::Failed, _) => {
                uploads.under_way.remove(&upload.token);
                upload.discard(cx);
                return reply.status(Status::INTERNAL_SERVER_ERROR);
            }
            (Stage::Busy | Stage::Idle | Stage::Synced, _) => {}
        }
        Ok(Goes::Wait)
    }

    fn gone(&mut self, uploads: &mut Uploads, cx: &mut Cx) {
        let mut upload = self.0.borrow_mut();
        upload.is_gone = true;
        // What is under way is waited for.
        if upload.stage != Stage::Busy && uploads.under_way.remove(&upload.token).is_some() && upload.stage != Stage::New {
            upload.discard(cx);
        }
    }
}

impl Application for Uploads {
    type Talk = Silent;

    fn request(&mut self, cx: &mut Cx, request: &Request, reply: Reply) -> Result<Handled<Self>, Refused> {
        let name = request.path().trim_start_matches('/');
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if request.method() != Method::Put || !is_name {
            return reply.status(Status::BAD_REQUEST);
        }
        self.last += 1;
        let upload = Upload {
            connection: cx.id(),
            token: self.last,
            path: self.directory.join(name),
            beside: self.directory.join(format!(".{name}.{}.{}.{}", std::process::id(), cx.lane(), self.last)),
            file: None,
            early: None,
            written: 0,
            stage: Stage::New,
            is_gone: false,
        };
        let upload = Rc::new(RefCell::new(upload));
        self.under_way.insert(self.last, upload.clone());
        Ok((Incoming(upload), First::Receive(BYTES_MAX)).into())
    }

    fn completed(&mut self, cx: &mut Cx, token: u64, outcome: Outcome) {
        let Some(shared) = self.under_way.get(&token).cloned() else { return };
        let mut upload = shared.borrow_mut();
        upload.note(outcome);
        if upload.is_gone {
            self.under_way.remove(&token);
            return upload.discard(cx);
        }
        match upload.early.take() {
            Some(piece) if upload.stage == Stage::Idle => upload.write(cx, piece),
            _ => cx.resume(upload.connection),
        }
    }
}

fn main() -> corelane::Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:8080", |_lane| Http::new(Uploads::new(".")))?.run()
}
