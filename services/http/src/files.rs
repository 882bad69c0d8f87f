//! Files beneath a directory.
//!
//! ```text
//! request -> name -> Cache -> respond                                   a hit: at once, no call of the system; Directories tell what is not true any more
//!                      | none -> Visit (an exchange) waits for Lookup: open beneath the root, read if small -> Cache -> respond
//! respond -> conditions, ranges -> one answer from memory | Sending: windows of a file
//! ```
//!
//! Names are resolved by the kernel and cannot leave the root ([`Cx::open_beneath`]). One that several ask for at once is looked for once.

mod asked;
mod cache;
mod directories;
mod entity;
mod listings;
mod lookup;
mod media;
mod name;
mod page;
mod place;
mod respond;
mod root;
mod sending;
mod tree;
mod visit;
mod warming;

use crate::application::{Application, First, Handled};
use crate::{Reply, Request};
use asked::Asked;
use cache::{Cache, Known};
use corelane::service::{Outcome, Refused};
use corelane::{Cx, Silent};
use corelane_wire::http1::{Method, Status};
use entity::Entity;
use listings::Listings;
use lookup::Lookups;
use name::Decoded;
use place::Where;
use respond::{Response, ResponseKind, Trouble};
use std::path::PathBuf;
use std::rc::Rc;
use tree::Tree;
use visit::Visit;
use warming::Warmings;

#[cfg(test)]
pub(crate) use {
    listings::{LISTING_BYTES_MAX, LISTINGS_BYTES_MAX},
    lookup::{LISTED_MAX, LOOKUPS_MAX, SMALL_BYTES},
    name::PATH_BYTES_MAX,
    warming::WARMINGS_MAX,
};

/// What may be done with files.
const METHODS: &str = "GET, HEAD, OPTIONS";
/// How long what was seen of a file is taken for true where nobody tells that it has changed, in nanoseconds: a second.
const TRUE_FOR: u64 = 1_000_000_000;

/// Serves what lies beneath a directory (RFC 9110): GET, HEAD and OPTIONS, conditions, ranges, and what lies beside a file in compressed form with `.br`, `.zst` or `.gz`
/// behind its name.
///
/// Nothing whose name begins with a dot is served, nothing that is no regular file, and no link that leads out of the directory. A file that has changed is
/// noticed at once where the system tells of it, else within a second; within a minute what the system tells nobody where it tells of the rest: writes through mapped memory, or through another
/// name that the file got later, and what is mounted above it. A large one is sent part by part, each of which a helper thread has read before if it was not in the system's memory, so that a disk holds up nobody else.
pub struct Files {
    site: Tree,
    errors: Option<Tree>,
    index: String,
    lists: bool,
    cache: Cache,
    cache_bytes: usize,
    lookups: Lookups,
    listings: Listings,
    warmings: Warmings,
    /// Names what is under way.
    last_token: u64,
    decoded: Decoded,
    /// That of the root; behind it that of the pages of errors, and those of lookups.
    tokens: u64,
    /// How many there are beside each other on the lane.
    beside: usize,
    /// Memory to put a cache's key together in.
    key: Vec<u8>,
}

impl Files {
    /// What lies beneath this directory. It need not be there yet, and may be replaced by another of its name.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let (site, lookups, cache) = (Tree::new(root.into()), Lookups::default(), Cache::new(Self::CACHE_BYTES));
        let (index, decoded) = ("index.html".to_owned(), Decoded::new());
        Self {
            site,
            errors: None,
            index,
            lists: false,
            cache,
            cache_bytes: Self::CACHE_BYTES,
            lookups,
            listings: Listings::default(),
            warmings: Warmings::default(),
            last_token: 1,
            decoded,
            tokens: 0,
            beside: 1,
            key: Vec::new(),
        }
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

    /// Shows what is refused by the pages of this directory: `404.html`, or else `40x.html` for all that begin so, and so on. They are kept in memory as other files are, and one that
    /// has changed is noticed as soon. Where there is none, a page of ours is shown. What is refused before its name is looked at (a head that is none) is told without a page.
    pub fn errors(self, directory: impl Into<PathBuf>) -> Self {
        Self { errors: Some(Tree::new(directory.into())), ..self }
    }

    /// Sets how much of a lane's memory holds small files ([`Files::CACHE_BYTES`]); never more than a quarter of it is used.
    pub fn cache_bytes(self, bytes: usize) -> Self {
        Self { cache_bytes: bytes, cache: Cache::new(bytes), ..self }
    }

    /// What opening the root goes by.
    fn root_token(&self, at: Where) -> u64 {
        self.tokens + u64::from(at == Where::Errors)
    }

    fn next_token(&mut self) -> u64 {
        self.last_token += 1;
        self.tokens + self.last_token
    }

    /// Says that it is one of so many beside each other ([`Hosts`](crate::Hosts)), which share that memory, and where its tokens begin.
    pub fn beside(self, sites: usize, tokens: u64) -> Self {
        assert!(sites > 0, "it is one itself");
        Self { tokens, beside: sites, ..self }
    }

    /// What is to be sent for this name, if it is known.
    fn known(&mut self, cx: &Cx<'_>, name: &[u8], asked: &Asked<'_>) -> Option<Rc<Entity>> {
        let now = cx.now().nanoseconds();
        let Known::File(plain) = self.cache.get(name, now)? else { return None };
        if plain.has_codings {
            for &coding in asked.codings().as_slice() {
                lookup::write_key(&mut self.key, Where::Site, name, coding);
                match self.cache.get(&self.key, now)? {
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
        let asked = Asked::of(request.method(), request.fields());
        let name = match decoded.name(request.head.target.path) {
            Ok(name) => name,
            Err(status) => return self.refuse(reply, &asked, Trouble::of(status)),
        };
        let Some(entity) = self.known(cx, name, &asked) else {
            return Ok((Visit::new(name, request.query(), &asked), First::Wait).into());
        };
        match respond::plan(&asked, &entity, cx.time_of_day()) {
            ResponseKind::Trouble(trouble) => self.refuse(reply, &asked, trouble),
            plan => respond::entity(reply, &asked, &entity, &plan, cx.time_of_day()).map(Response::into),
        }
    }

    /// Says why a request has nothing of a file: at once, unless the operator's page for that is to be sent.
    fn refuse(&mut self, reply: Reply<'_>, asked: &Asked<'_>, trouble: Trouble) -> Result<Handled<Self>, Refused> {
        match self.errors {
            None => respond::trouble(reply, &trouble, None).map(Response::into),
            Some(_) => Ok((Visit::refused(trouble, asked), First::Wait).into()),
        }
    }
}

/// What a method is refused with that no file has: one that nobody knows is not implemented, the others are not allowed here (RFC 9110 section 9.1).
fn refused_method(method: Method<'_>) -> Status {
    if let Method::Other(_) = method { Status::NOT_IMPLEMENTED } else { Status::METHOD_NOT_ALLOWED }
}

impl Application for Files {
    type Talk = Silent;

    fn started(&mut self, cx: &mut Cx<'_>) {
        self.cache = Cache::new(self.cache_bytes.min(cx.arena().limit() / 4) / self.beside);
        for at in self.places() {
            self.open_root(cx, at);
        }
    }

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        match request.method() {
            Method::Get | Method::Head => {}
            Method::Options => return reply.answer(Status::NO_CONTENT).field("Allow", METHODS).empty(),
            method => {
                let asked = Asked::of(method, request.fields());
                return self.refuse(reply, &asked, Trouble::of(refused_method(method)));
            }
        }
        self.look_after_root(cx, Where::Site);
        let mut decoded = std::mem::take(&mut self.decoded);
        let served = self.serve(cx, request, reply, &mut decoded);
        self.decoded = decoded;
        served
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        if let Some(at) = self.places().find(|at| self.root_token(*at) == token) {
            return self.root_opened(cx, at, outcome);
        }
        if self.take_warmed(cx, token, &outcome) {
            return;
        }
        if let Some(outcome) = self.directory_went_on(cx, token, outcome) {
            self.lookup_went_on(cx, token, outcome);
        }
    }
}
