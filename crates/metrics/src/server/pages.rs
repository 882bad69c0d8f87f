//! What is answered to which question.

use super::clients::{Client, Clients, STREAMS_MAX};
use super::names::{Asked, Names};
use crate::dashboard::{Dashboard, PAGE, POLICY};
use crate::families::{Families, Meanings, Telling};
use crate::graphs::{self, Span};
use crate::health::{self, Health};
use crate::text::Format;
use crate::upstreams::Watched;
use corelane::admin::watch::{Reader, Snapshot};
use http_body_util::channel::Sender;
use http_body_util::{Channel, Either, Full};
use hyper::body::{Bytes, Frame};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use hyper::{Method, Request, Response, StatusCode};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What is served at one address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) metrics: bool,
    pub(super) dashboard: bool,
}

/// What is sent: all at once, or as it comes.
pub(super) type Body = Either<Full<Bytes>, Channel<Bytes>>;

/// Who asks again so soon is given the same: a thousand who ask cost no more than ten a second.
const FRESH: Duration = Duration::from_millis(100);

/// Events that a stream may be behind, beside those that the system holds for it: whoever reads none is dropped.
const EVENTS_MAX: usize = 8;

/// A picture of a day that is drawn again so soon shows the same.
const FRESH_GRAPHS: Duration = Duration::from_secs(5);

/// What is said to who asks by a name that is not this program's.
const WHOSE: &str = "this is asked for by another name than its own, as a page of another site may have a browser do: use an address, or name it with --host-names\n";

const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";

/// What is known, and what was answered last.
pub(super) struct Pages {
    reader: Reader,
    names: Names,
    meanings: Meanings,
    more: Telling,
    upstreams: Watched,
    clients: Arc<Clients>,
    /// In each format, by its number.
    metrics: Mutex<[Option<(Instant, Bytes)>; 2]>,
    dashboard: Mutex<Dashboard>,
    /// The file of graphs, and what was told of each span last.
    graphs: Option<PathBuf>,
    spans: Mutex<[Option<(Instant, Bytes)>; Span::ALL.len()]>,
    streams: Mutex<Vec<(Sender<Bytes>, Arc<Client>)>>,
}

impl Pages {
    pub fn new(
        reader: Reader,
        names: Names,
        (meanings, more, upstreams): (Meanings, Telling, Watched),
        clients: Arc<Clients>,
        graphs: Option<PathBuf>,
    ) -> Self {
        let (metrics, dashboard, spans, streams) = Default::default();
        Self { reader, names, meanings, more, upstreams, clients, metrics, dashboard, graphs, spans, streams }
    }

    /// Takes a look, and tells the streams.
    pub fn look(&self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = self.snapshot();
        let upstreams = self.upstreams.shown(&now);
        let event = {
            let mut dashboard = lock(&self.dashboard);
            let lanes = 0..self.reader.description().lanes.len();
            let rows: Vec<_> =
                lanes.flat_map(|lane| self.reader.connections(lane).into_iter().map(move |row| (lane, row))).collect();
            dashboard.add(now, (&rows, upstreams), since.as_millis() as u64);
            dashboard.event()
        };
        lock(&self.streams).retain_mut(|(sender, client)| {
            let takes = sender.try_send(Frame::data(event.clone())).is_ok();
            if !takes {
                client.end();
            }
            takes
        });
    }

    /// The answer to a question at an address with these parts.
    pub fn answer<B>(&self, request: &Request<B>, parts: Parts, client: &Arc<Client>) -> Response<Body> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = whole(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match self.names.judge(request) {
            Asked::ByName => {}
            Asked::TwiceOrNot => return whole(StatusCode::BAD_REQUEST, PLAIN, "a question has one Host\n"),
            Asked::ByOther => return whole(StatusCode::MISDIRECTED_REQUEST, PLAIN, WHOSE),
        }
        let graphs = self.graphs.as_deref().filter(|_| parts.dashboard);
        match request.uri().path() {
            "/gateway" if graphs.is_some() => page(graphs::PAGE),
            path if path.starts_with("/gateway/") && graphs.is_some() => self.span(path),
            "/metrics" if parts.metrics => self.metrics(request.headers()),
            "/livez" if parts.metrics => probe(health::live(&self.snapshot())),
            "/readyz" if parts.metrics => probe(health::ready(&self.snapshot())),
            "/" if parts.dashboard => page(PAGE),
            "/look" if parts.dashboard => whole(StatusCode::OK, JSON, lock(&self.dashboard).look()),
            "/history" if parts.dashboard => whole(StatusCode::OK, JSON, lock(&self.dashboard).history()),
            "/events" if parts.dashboard => self.stream(client),
            _ => whole(StatusCode::NOT_FOUND, PLAIN, words(parts, graphs.is_some())),
        }
    }

    fn snapshot(&self) -> Snapshot {
        self.reader.snapshot(corelane::now().nanoseconds())
    }

    /// From now on the client gets each look.
    fn stream(&self, client: &Arc<Client>) -> Response<Body> {
        self.clients.become_stream(client);
        let (mut sender, body) = Channel::new(EVENTS_MAX);
        let sent = sender.try_send(Frame::data(lock(&self.dashboard).event()));
        assert!(sent.is_ok(), "there is room for the first event");
        let mut streams = lock(&self.streams);
        // Those who have gone since the last look make room now: who comes and goes fast fills nothing.
        streams.retain(|(_, client)| !client.has_ended());
        assert!(streams.len() < STREAMS_MAX, "streams are bounded");
        streams.push((sender, client.clone()));
        drop(streams);
        answer(StatusCode::OK, "text/event-stream", Either::Right(body))
    }

    /// Metrics in the format that is asked for.
    fn metrics(&self, fields: &HeaderMap) -> Response<Body> {
        let format = Format::accepted(fields.get_all(ACCEPT).iter().filter_map(|field| field.to_str().ok()));
        let mut answer = whole(StatusCode::OK, format.content_type(), self.text(format));
        answer.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
        answer
    }

    /// What the file of graphs has of a span that a path ends with.
    fn span(&self, path: &str) -> Response<Body> {
        let span = Span::ALL.into_iter().find(|span| path.strip_prefix("/gateway/") == Some(span.name()));
        let (Some(span), Some(file)) = (span, &self.graphs) else {
            return whole(StatusCode::NOT_FOUND, PLAIN, "there is /gateway/day /gateway/week /gateway/year\n");
        };
        let last = &mut lock(&self.spans)[span as usize];
        if let Some((_, told)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH_GRAPHS) {
            return whole(StatusCode::OK, JSON, told.clone());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match graphs::json(file, span, now.as_secs()) {
            Ok(told) => {
                let told = Bytes::from(told);
                *last = Some((Instant::now(), told.clone()));
                whole(StatusCode::OK, JSON, told)
            }
            Err(why) => whole(StatusCode::SERVICE_UNAVAILABLE, PLAIN, format!("{}: {why}\n", file.display())),
        }
    }

    fn text(&self, format: Format) -> Bytes {
        let last = &mut lock(&self.metrics)[format as usize];
        if let Some((_, text)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return text.clone();
        }
        let snapshot = self.snapshot();
        let text = Bytes::from(format.text(Families {
            upstreams: self.upstreams.shown(&snapshot),
            snapshot,
            meanings: self.meanings.clone(),
            displaced: self.clients.displaced(),
            more: (self.more)(),
        }));
        *last = Some((Instant::now(), text.clone()));
        text
    }
}

/// Whatever a panic left behind is whole: what is under these locks is replaced in one step.
fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

fn page(text: &'static str) -> Response<Body> {
    let mut answer = whole(StatusCode::OK, "text/html; charset=utf-8", text);
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    answer
}

/// What there is, for whoever asks for something else.
fn words(parts: Parts, has_graphs: bool) -> String {
    let metrics = if parts.metrics { " /metrics /livez /readyz" } else { "" };
    let dashboard = if parts.dashboard { " /" } else { "" };
    let graphs = if has_graphs { " /gateway" } else { "" };
    format!("there is{metrics}{dashboard}{graphs}\n")
}

fn probe(health: Health) -> Response<Body> {
    let status = if health.is_good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    whole(status, PLAIN, health.words)
}

fn whole(status: StatusCode, what: &'static str, bytes: impl Into<Bytes>) -> Response<Body> {
    answer(status, what, Either::Left(Full::new(bytes.into())))
}

fn answer(status: StatusCode, what: &'static str, body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(what));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page};

    #[test]
    fn a_stream_that_takes_nothing_ends_and_one_that_does_goes_on() {
        let page = Page::heap(&Description { lanes: vec![LaneName::default()], ..Description::default() }).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let clients = Arc::new(Clients::default());
            let pages = Pages::new(
                Reader::of(&page).unwrap(),
                Names::default(),
                (Meanings::default(), Box::new(Vec::new), Watched::default()),
                clients.clone(),
                None,
            );
            pages.look();
            let (mut bodies, mut admitted) = (Vec::new(), Vec::new());
            for _ in 0..2 {
                clients
                    .admit([127, 0, 0, 1].into(), |client| {
                        let Either::Right(body) = pages.stream(&client).into_body() else { panic!("there is room for it") };
                        bodies.push(body);
                        admitted.push(client);
                        std::future::pending()
                    })
                    .await;
            }
            let reads = bodies.pop().unwrap();
            let mut reads = std::pin::pin!(reads);
            for event in 1..=2 * EVENTS_MAX {
                assert!(http_body_util::BodyExt::frame(&mut reads).await.is_some());
                // The first came with the answer.
                assert_eq!(lock(&pages.streams).len(), if event <= EVENTS_MAX { 2 } else { 1 }, "event {event}");
                pages.look();
            }
            // Whoever was told to end does so when the thread comes to it.
            while !admitted[0].has_ended() {
                tokio::task::yield_now().await;
            }
            assert!(!admitted[1].has_ended());
        });
    }
}
