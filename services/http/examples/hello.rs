//! An application of two routes: `GET /` and `GET /greet/NAME`.
use corelane::{Lanes, Result};
use corelane_http::{Http, Routes};

/// The routes of one lane.
pub fn routes() -> Routes<()> {
    let mut routes = Routes::new(());
    routes.get("/", |(), _cx, _request, reply| reply.text("hello\n"));
    routes.get("/greet/{name}", |(), _cx, request, reply| reply.text(&format!("hello, {}\n", request.param("name"))));
    routes
}

fn main() -> Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:8080", |_lane| Http::new(routes()))?.run()
}
