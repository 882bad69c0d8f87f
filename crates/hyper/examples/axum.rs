//! An axum application on lanes: extractors, bodies streamed both ways, a handler that waits, one that spawns, and one that asks another server as a client
//! of tokio's. Only `main` knows of lanes.
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use corelane::Lanes;
use corelane_hyper::Here;
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::error::Error;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// What handlers share.
#[derive(Clone)]
pub struct App {
    here: Here,
    upstream: SocketAddr,
    spawned: Arc<AtomicU64>,
}

#[derive(Deserialize)]
struct Wait {
    milliseconds: u64,
}

#[derive(Deserialize, Serialize)]
struct Sum {
    numbers: Vec<i64>,
    sum: Option<i64>,
}

async fn greet(Path(name): Path<String>) -> String {
    format!("hello, {name}\n")
}

async fn sum(Json(mut asked): Json<Sum>) -> Json<Sum> {
    asked.sum = Some(asked.numbers.iter().sum());
    Json(asked)
}

async fn wait(State(app): State<App>, Query(wait): Query<Wait>) -> &'static str {
    app.here.sleep(Duration::from_millis(wait.milliseconds.min(10_000))).await;
    "waited\n"
}

async fn spawn(State(app): State<App>) -> String {
    let count = app.spawned.clone();
    let spawned = app.here.spawn(async move { count.fetch_add(1, Ordering::Relaxed) });
    format!("{} {}\n", spawned.is_ok(), app.spawned.load(Ordering::Relaxed))
}

/// Sends back what it is sent, while it is sent.
async fn echo(body: Body) -> Body {
    body
}

/// How many bytes it was sent.
async fn count(bytes: Bytes) -> String {
    format!("{}\n", bytes.len())
}

/// Asks another server, over a connection of tokio's.
async fn ask(State(app): State<App>) -> Result<String, Refused> {
    let mut server = TcpStream::connect(app.upstream).await?;
    server.write_all(b"question\n").await?;
    server.shutdown().await?;
    let mut answer = String::new();
    server.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The server that was asked does not answer.
struct Refused(std::io::Error);

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (StatusCode::BAD_GATEWAY, self.0.to_string()).into_response()
    }
}

/// The application, as it would be with any server.
pub fn routes(here: Here, upstream: SocketAddr) -> Router {
    Router::new()
        .route("/hello/{name}", get(greet))
        .route("/sum", post(sum))
        .route("/wait", get(wait))
        .route("/spawn", get(spawn))
        .route("/echo", post(echo))
        .route("/count", post(count))
        .route("/ask", get(ask))
        .layer(axum::extract::DefaultBodyLimit::max(64 << 20))
        .with_state(App { here, upstream, spawned: Arc::default() })
}

/// A service within tokio's runtime, for what handlers use of it.
fn entered(app: Router, tokio: Handle) -> impl Fn(Request<Incoming>) -> Answer + Clone {
    let app = TowerToHyperService::new(app);
    move |request| {
        let (app, tokio) = (app.clone(), tokio.clone());
        Box::pin(async move {
            let mut answer = pin!(hyper::service::Service::call(&app, request));
            poll_fn(|context| {
                let _entered = tokio.enter();
                answer.as_mut().poll(context)
            })
            .await
        })
    }
}

type Answer = std::pin::Pin<Box<dyn Future<Output = Result<Response, std::convert::Infallible>>>>;

/// Lanes that serve the application at this place.
///
/// # Errors
/// As the lanes'.
pub fn lanes(place: &str, upstream: SocketAddr, tokio: Handle) -> corelane::Result<Lanes> {
    let serve = move |_lane| {
        let (tokio, app) = (tokio.clone(), OnceCell::new());
        corelane_hyper::serve(move |here, _peer| {
            let app: &Router = app.get_or_init(|| routes(here.clone(), upstream));
            hyper::service::service_fn(entered(app.clone(), tokio.clone()))
        })
    };
    // The runtime's sockets are to be known on the lanes.
    Lanes::per_core().own_descriptors(false).serve(place, serve)
}

fn main() -> Result<(), Box<dyn Error>> {
    let place = std::env::args().nth(1).unwrap_or_else(|| "tcp://127.0.0.1:8080".to_owned());
    // tidy: allow(worker) tokio's name
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    Ok(lanes(&place, "127.0.0.1:7008".parse()?, runtime.handle().clone())?.run()?)
}
