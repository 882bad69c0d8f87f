//! An application that calls what blocks: `GET /resolve/NAME` is answered with the addresses of a host, which a helper thread looks up.
use corelane::Lanes;
use corelane::service::{OffloadResult, Outcome};
use corelane_http::http1::Status;
use corelane_http::{Held, Http, Routes};
use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::time::Duration;

/// Requests whose names are being looked up, by token.
#[derive(Default)]
pub struct LookUps {
    waiting: BTreeMap<u64, Held>,
    last: u64,
}

/// Looks a name up. This blocks.
fn addresses(name: &str) -> Option<String> {
    let addresses = (name, 0).to_socket_addrs().ok()?;
    Some(addresses.map(|address| format!("{}\n", address.ip())).collect())
}

/// The routes of one lane.
pub fn routes() -> Routes<LookUps> {
    let mut routes = Routes::new(LookUps::default());
    routes.get("/resolve/{name}", |look_ups, cx, request, reply| {
        if !cx.ask_offload() {
            return reply.status(Status::SERVICE_UNAVAILABLE);
        }
        let name = request.param("name").to_owned();
        let (held, handled) = reply.hold(0, Some(Duration::from_secs(5)))?;
        look_ups.last += 1;
        look_ups.waiting.insert(look_ups.last, held);
        cx.offload(move || addresses(&name), look_ups.last);
        Ok(handled)
    });
    routes.on_completed(|look_ups, cx, token, outcome| {
        let Some(held) = look_ups.waiting.remove(&token) else { return };
        let found = match outcome {
            Outcome::Offloaded(OffloadResult(found)) => found.downcast::<Option<String>>().ok().and_then(|found| *found),
            _ => None,
        };
        // Where there is no memory for an answer, the client is told 503.
        let _: Result<(), _> = match found {
            Some(found) => held.answer(cx, Status::OK).media("text/plain").bytes(found.as_bytes()),
            None => held.answer(cx, Status::NOT_FOUND).empty(),
        };
    });
    routes
}

fn main() -> corelane::Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:8080", |_lane| Http::new(routes()))?.run()
}
