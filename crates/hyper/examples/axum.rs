//! An axum application on lanes: extractors, bodies streamed both ways, a handler that waits, one that spawns, and one that asks another server as a client
//! of tokio's, and answers that tokio's timers make. Only `main` knows of lanes.
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use corelane::Lanes;
use corelane_hyper::Here;
use futures_util::stream::{Stream, pending};
use hyper::StatusCode;
use hyper::body::{Body as HttpBody, Frame};
use hyper_util::service::TowerToHyperService;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
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
    ended: Arc<AtomicU64>,
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

/// Says a word ten times a second, until it has said them all or nobody listens; whatever comes first is noted by a task of tokio's.
struct Ticks {
    next: Pin<Box<tokio::time::Sleep>>,
    left: u32,
    ended: Arc<AtomicU64>,
}

const TICK: Duration = Duration::from_millis(100);

impl HttpBody for Ticks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        ready!(self.next.as_mut().poll(context));
        (self.next, self.left) = (Box::pin(tokio::time::sleep(TICK)), self.left - 1);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"tick\n")))))
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        let ended = self.ended.clone();
        tokio::spawn(async move { ended.fetch_add(1, Ordering::Relaxed) });
    }
}

/// Of so many ticks.
async fn ticks(State(app): State<App>, Path(left): Path<u32>) -> Body {
    Body::new(Ticks { next: Box::pin(tokio::time::sleep(TICK)), left, ended: app.ended })
}

/// Events (server-sent): none, but that the connection is kept open.
async fn events() -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    Sse::new(pending()).keep_alive(KeepAlive::new().interval(TICK))
}

/// How many answers of ticks have ended.
async fn ended(State(app): State<App>) -> String {
    format!("{}\n", app.ended.load(Ordering::Relaxed))
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
        .route("/ticks/{left}", get(ticks))
        .route("/events", get(events))
        .route("/ended", get(ended))
        .layer(axum::extract::DefaultBodyLimit::max(64 << 20))
        .with_state(App { here, upstream, spawned: Arc::default(), ended: Arc::default() })
}

/// Lanes that serve the application at this place.
///
/// # Errors
/// As the lanes'.
pub fn lanes(place: &str, upstream: SocketAddr, tokio: Handle) -> corelane::Result<Lanes> {
    let serve = move |_lane| {
        corelane_hyper::enter(&tokio);
        let app = OnceCell::new();
        corelane_hyper::serve(move |here, _peer| {
            let app: &Router = app.get_or_init(|| routes(here.clone(), upstream));
            TowerToHyperService::new(app.clone())
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
