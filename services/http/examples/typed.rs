//! What requests say, as values of types: `GET /sum/A/B` two numbers of the path, `PUT /shelves/N?at=M` a number of the path, one of the query and a text. What is no such value is refused with 400 (Bad Request)
//! before a handler is called.
use corelane::Lanes;
use corelane_http::http1::{Method, Status};
use corelane_http::{FromRequest, Http, Matched, Routes, Unfit};
use std::collections::BTreeMap;

/// What is to be put where.
struct Put {
    shelf: u8,
    at: usize,
    what: String,
}

impl FromRequest for Put {
    const CONTENT_BYTES_MAX: u64 = 1_000;

    fn from_request(request: &Matched<'_, '_>) -> Result<Self, Unfit> {
        let at = request.parse_query("at")?.unwrap_or(0);
        Ok(Self { shelf: request.parse("shelf")?, at, what: request.parse_content()? })
    }
}

/// The routes of one lane, and what lies on its shelves.
pub fn routes() -> Routes<BTreeMap<(u8, usize), String>> {
    let mut routes = Routes::new(BTreeMap::new());
    routes.typed(Method::Get, "/sum/{a}/{b}", |_, _, (a, b): (u32, u32), _, reply| {
        reply.text(&format!("{}\n", u64::from(a) + u64::from(b)))
    });
    routes.typed(Method::Put, "/shelves/{shelf}", |shelves, _, Put { shelf, at, what }, _, reply| {
        let before = shelves.insert((shelf, at), what);
        reply.status(if before.is_none() { Status::CREATED } else { Status::OK })
    });
    routes
}

fn main() -> corelane::Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:8080", |_lane| Http::new(routes()))?.run()
}
