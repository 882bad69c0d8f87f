//! An axum application on lanes: `GET /greet/NAME` says hello, and for the how many-th time on its lane.
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use corelane::{Lanes, Result};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

async fn greet(State(greeted): State<Arc<AtomicU64>>, Path(name): Path<String>) -> String {
    format!("hello, {name}: {}\n", greeted.fetch_add(1, Ordering::Relaxed) + 1)
}

/// The application, as it would be with any server.
pub fn routes() -> Router {
    Router::new().route("/greet/{name}", get(greet)).with_state(Arc::<AtomicU64>::default())
}

/// Lanes that serve it at this place, each with a router and a state of its own.
pub fn lanes(place: &str) -> Result<Lanes> {
    let serve = |_lane| {
        let app = routes();
        corelane_hyper::serve(move |_here, _peer| TowerToHyperService::new(app.clone()))
    };
    Lanes::per_core().serve(place, serve)
}

fn main() -> Result<()> {
    lanes("tcp://127.0.0.1:8080")?.run()
}
