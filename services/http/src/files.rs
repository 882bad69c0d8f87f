//! Files beneath a directory.
//!
//! ```text
//! request -> name -> Cache -> respond                                   a hit: at once, no call of the system
//!                      | none -> Visit (an exchange) waits for Lookup: open beneath the root, read if small -> Cache -> respond
//! respond -> conditions, ranges -> one answer from memory | Sending: windows of a file
//! ```
//!
//! Names are resolved by the kernel and cannot leave the root ([`Cx::open_beneath`]). One that several ask for at once is looked for once.

mod asked;
mod cache;
mod entity;
mod lookup;
mod media;
mod name;
mod page;
mod respond;
mod root;
mod sending;
mod visit;

use crate::application::{Application, First, Handled};
use crate::{Reply, Request};
use asked::Asked;
use cache::{Cache, Known};
use corelane::service::{Outcome, Refused};
use corelane::{Cx, Silent};
use corelane_wire::http1::{Method, Status};
use entity::Entity;
use lookup::Lookups;
use name::Decoded;
use respond::Response;
use root::Root;
use std::path::PathBuf;
use std::rc::Rc;
use visit::Visit;

/// What may be done with files.
const METHODS: &str = "GET, HEAD, OPTIONS";
/// How long what was seen of a file is taken for true, in nanoseconds: a second.
const TRUE_FOR: u64 = 1_000_000_000;

/// Serves what lies beneath a directory (RFC 9110): GET, HEAD and OPTIONS, conditions, ranges, and what lies beside a file in compressed form with `.br`, `.zst` or `.gz`
/// behind its name.
///
/// Nothing whose name begins with a dot is served, nothing that is no regular file, and no link that leads out of the directory. A file that has changed is
/// noticed within a second.
pub struct Files {
    root: Root,
    index: String,
    lists: bool,
    cache: Cache,
    cache_bytes: usize,
    lookups: Lookups,
    decoded: Decoded,
    /// Memory to put a cache's key together in.
    key: Vec<u8>,
}

impl Files {
    /// What lies beneath this directory. It need not be there yet, and may be replaced by another of its name.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let (root, lookups, cache) = (Root::new(root.into()), Lookups::default(), Cache::new(Self::CACHE_BYTES));
        let (index, decoded) = ("index.html".to_owned(), Decoded::new());
        Self { root, index, lists: false, cache, cache_bytes: Self::CACHE_BYTES, lookups, decoded, key: Vec::new() }
    }

    /// Bytes of a lane's memory for small files, unless others are set: 16 MiB.
    pub const CACHE_BYTES: usize = 16 << 20;

    /// Sets the name of the file that a directory is shown by: `index.html`.
    pub fn index(self, index: impl Into<String>) -> Self {
        Self { index: index.into(), ..self }
    }

    /// Lists directories that have no such file; otherwise they are refused with 403 (Forbidden).
    pub fn listing(self, lists: bool) -> Self {
        Self { lists, ..self }
    }

    /// Sets how much of a lane's memory holds small files ([`Files::CACHE_BYTES`]); never more than a quarter of it is used.
    pub fn cache_bytes(self, bytes: usize) -> Self {
        Self { cache_bytes: bytes, cache: Cache::new(bytes), ..self }
    }

    /// What is to be sent for this name, if it is known.
    fn known(&mut self, cx: &Cx<'_>, name: &[u8], asked: &Asked<'_>) -> Option<Rc<Entity>> {
        let since = cx.now().nanoseconds().saturating_sub(TRUE_FOR);
        let Known::File(plain) = self.cache.get(name, since)? else { return None };
        if plain.has_codings {
            for &coding in asked.codings().as_slice() {
                lookup::write_key(&mut self.key, name, coding);
                match self.cache.get(&self.key, since)? {
                    Known::File(coded) => return Some(coded.clone()),
                    Known::Nothing => {}
                }
            }
        }
        Some(plain.clone())
    }

    fn serve(
        &mut self,
        cx: &mut Cx<'_>,
        request: &Request<'_>,
        reply: Reply<'_>,
        decoded: &mut Decoded,
    ) -> Result<Handled<Self>, Refused> {
        let name = match decoded.name(request.head.target.path) {
            Ok(name) => name,
            Err(status) => return respond::status(reply, status),
        };
        let asked = Asked::of(request.method(), request.fields());
        if let Some(entity) = self.known(cx, name, &asked) {
            return Ok(match respond::entity(reply, &asked, &entity, cx.time_of_day())? {
                Response::Answered(answered) => answered.into(),
                Response::Begun(begun, sending) => (sending, First::Produce(begun)).into(),
            });
        }
        Ok((Visit::new(name, request.query(), &asked), First::Wait).into())
    }
}

impl Application for Files {
    type Talk = Silent;

    fn started(&mut self, cx: &mut Cx<'_>) {
        self.cache = Cache::new(self.cache_bytes.min(cx.arena().limit() / 4));
        self.open_root(cx);
    }

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        match request.method() {
            Method::Get | Method::Head => {}
            Method::Options => return reply.answer(Status::NO_CONTENT).field("Allow", METHODS).empty(),
            _ => return respond::not_allowed(reply),
        }
        self.look_after_root(cx);
        let mut decoded = std::mem::take(&mut self.decoded);
        let served = self.serve(cx, request, reply, &mut decoded);
        self.decoded = decoded;
        served
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        match token {
            root::TOKEN => self.root_opened(cx, outcome),
            token => self.lookup_went_on(cx, token, outcome),
        }
    }
}
