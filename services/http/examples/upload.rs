//! Takes files: `PUT /NAME` stores its content beneath a directory, piece by piece as it comes, and is answered when the system has it on the disk. A client that is
//! faster than the disk waits: no more than a piece is in memory.
use corelane::service::{File, FileOutcome, OpenOptions, Outcome, Refused, Shared};
use corelane::{Cx, Lanes, Silent};
use corelane_http::http1::{Method, Status};
use corelane_http::{Application, Exchange, First, Flow, Goes, Handled, Http, Reply, Request};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

const BYTES_MAX: u64 = 1 << 30;
const CREATE: OpenOptions = OpenOptions::new().write(true).create(true).truncate(true);

/// Takes files into a directory.
pub struct Uploads {
    directory: PathBuf,
    /// What is under way, by the token of what is done for it.
    under_way: BTreeMap<u64, Rc<RefCell<Upload>>>,
    last: u64,
}

/// One file that is coming.
struct Upload {
    connection: corelane::service::ConnectionId,
    token: u64,
    file: Option<File>,
    /// What came before the file was open.
    early: Option<Shared>,
    written: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Busy,
    Idle,
    Synced,
    Failed,
}

impl Uploads {
    /// Into this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), under_way: BTreeMap::new(), last: 0 }
    }
}

impl Upload {
    fn write(&mut self, cx: &mut Cx, piece: Shared) {
        let Some(file) = &self.file else { return self.early = Some(piece) };
        (self.stage, self.written) = (Stage::Busy, self.written + piece.len() as u64);
        cx.write_file(file, self.written - piece.len() as u64, piece, self.token);
    }
}

/// The same, as its connection has it.
struct Incoming(Rc<RefCell<Upload>>);

impl Exchange<Uploads> for Incoming {
    fn content(&mut self, _: &mut Uploads, cx: &mut Cx, piece: Shared) -> Flow {
        self.0.borrow_mut().write(cx, piece);
        Flow::Wait // for the disk
    }

    fn go_on(&mut self, uploads: &mut Uploads, cx: &mut Cx, reply: Reply) -> Result<Goes, Refused> {
        let mut upload = self.0.borrow_mut();
        match (upload.stage, upload.file.clone()) {
            (Stage::Idle, Some(file)) => {
                upload.stage = Stage::Busy;
                cx.sync_file(&file, upload.token);
                Ok(Goes::Wait)
            }
            (Stage::Synced, _) => {
                uploads.under_way.remove(&upload.token);
                reply.status(Status::CREATED)
            }
            (Stage::Failed, _) => {
                uploads.under_way.remove(&upload.token);
                reply.status(Status::INTERNAL_SERVER_ERROR)
            }
            _ => Ok(Goes::Wait),
        }
    }

    fn gone(&mut self, uploads: &mut Uploads, _: &mut Cx) {
        uploads.under_way.remove(&self.0.borrow().token);
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
        let (connection, token) = (cx.id(), self.last);
        cx.open_file(self.directory.join(name), CREATE, token);
        let upload = Upload { connection, token, file: None, early: None, written: 0, stage: Stage::Busy };
        let upload = Rc::new(RefCell::new(upload));
        self.under_way.insert(token, upload.clone());
        Ok((Incoming(upload), First::Receive(BYTES_MAX)).into())
    }

    fn completed(&mut self, cx: &mut Cx, token: u64, outcome: Outcome) {
        let Some(upload) = self.under_way.get(&token) else { return };
        let mut upload = upload.borrow_mut();
        upload.stage = match outcome {
            Outcome::File(FileOutcome::Opened { file, .. }) => {
                upload.file = Some(file);
                Stage::Idle
            }
            Outcome::File(FileOutcome::Written { .. }) => Stage::Idle,
            Outcome::File(FileOutcome::Done) => Stage::Synced,
            _ => Stage::Failed,
        };
        match upload.early.take() {
            Some(piece) if upload.stage == Stage::Idle => upload.write(cx, piece),
            _ => cx.resume(upload.connection),
        }
    }
}

fn main() -> corelane::Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:8080", |_lane| Http::new(Uploads::new(".")))?.run()
}
