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
mod key;
mod listings;
mod lookup;
mod media;
mod name;
mod open_file;
mod open_files;
mod page;
mod place;
mod respond;
mod root;
mod sending;
mod state;
mod tokens;
mod trees;
mod visit;
mod warming;

use crate::application::{Application, First, Handled};
use crate::{Reply, Request};
use asked::{FileRequest, METHODS};
use cache::{Cache, Known};
use corelane::service::{Outcome, Refused};
use corelane::{Cx, Silent};
use corelane_wire::http1::{Method, Status};
use entity::Entity;
use name::Decoded;
use open_files::OpenFiles;
use place::Where;
use respond::{Response, ResponseKind, Trouble};
use std::rc::Rc;
use visit::Visit;

pub use state::Files;

#[cfg(test)]
pub(crate) use {
    listings::{LISTING_BYTES_MAX, LISTINGS_BYTES_MAX},
    lookup::{LISTED_MAX, LOOKUPS_MAX, SMALL_BYTES},
    name::PATH_BYTES_MAX,
    open_files::OPEN_FILES_MAX,
    warming::WARMINGS_MAX,
};

impl Files {
    /// What is to be sent for this name, if it is known.
    fn known(&mut self, cx: &Cx<'_>, name: &[u8], asked: &FileRequest<'_>) -> Option<Rc<Entity>> {
        let now = cx.now().nanoseconds();
        let Known::File(plain) = self.finder.cache.get(name, now)? else { return None };
        if plain.has_codings {
            for &coding in asked.codings().as_slice() {
                key::write(&mut self.key, Where::Site, name, coding);
                match self.finder.cache.get(&self.key, now)? {
                    Known::File(coded) if !coded.is_older_than(plain) => return Some(coded.clone()),
                    Known::File(_) | Known::Nothing => {}
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
        let asked = FileRequest::of(request.method(), request.fields());
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
    fn refuse(&mut self, reply: Reply<'_>, asked: &FileRequest<'_>, trouble: Trouble) -> Result<Handled<Self>, Refused> {
        match self.finder.trees.errors {
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
        self.finder.cache = Cache::new(self.cache_bytes.min(cx.arena().limit() / 4) / self.beside);
        self.finder.open_files = OpenFiles::new(cx.descriptors_max() / self.beside as u64);
        self.finder.open_roots(cx);
    }

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        match request.method() {
            Method::Get | Method::Head => {}
            Method::Options => return reply.answer(Status::NO_CONTENT).field("Allow", METHODS).empty(),
            method => {
                let asked = FileRequest::of(method, request.fields());
                return self.refuse(reply, &asked, Trouble::of(refused_method(method)));
            }
        }
        self.finder.look_after_root(cx, Where::Site);
        let mut decoded = std::mem::take(&mut self.decoded);
        let served = self.serve(cx, request, reply, &mut decoded);
        self.decoded = decoded;
        served
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, outcome: Outcome) {
        if !self.warmings.take_warmed(cx, token, &outcome) {
            self.finder.went_on(cx, token, outcome);
        }
    }
}
