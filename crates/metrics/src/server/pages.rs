//! What is answered to which question.

use super::clients::{Client, Clients, STREAMS_MAX};
use super::names::{Asked, Names};
use crate::dashboard::{Dashboard, PAGE, POLICY};
use crate::families::{Families, Meanings, Telling};
use crate::health::{self, Health};
use crate::text::Format;
use corelane::admin::watch::{Reader, Snapshot};
use http_body_util::channel::Sender;
use http_body_util::{Channel, Either, Full};
use hyper::body::{Bytes, Frame};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use hyper::{Method, Request, Response, StatusCode};
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
    clients: Arc<Clients>,
    /// In each format, by its number.
    metrics: Mutex<[Option<(Instant, Bytes)>; 2]>,
    dashboard: Mutex<Dashboard>,
    streams: Mutex<Vec<(Sender<Bytes>, Arc<Client>)>>,
}

impl Pages {
    pub fn new(reader: Reader, names: Names, (meanings, more): (Meanings, Telling), clients: Arc<Clients>) -> Self {
        let (metrics, dashboard, streams) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { reader, names, meanings, more, clients, metrics, dashboard, streams }
    }

    /// Takes a look, and tells the streams.
    pub fn look(&self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let event = {
            let mut dashboard = lock(&self.dashboard);
            let lanes = 0..self.reader.description().lanes.len();
            let rows: Vec<_> =
                lanes.flat_map(|lane| self.reader.connections(lane).into_iter().map(move |row| (lane, row))).collect();
            dashboard.add(self.snapshot(), &rows, since.as_millis() as u64);
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
        match request.uri().path() {
            "/metrics" if parts.metrics => self.metrics(request.headers()),
            "/livez" if parts.metrics => probe(health::live(&self.snapshot())),
            "/readyz" if parts.metrics => probe(health::ready(&self.snapshot())),
            "/" if parts.dashboard => page(),
            "/look" if parts.dashboard => whole(StatusCode::OK, JSON, lock(&self.dashboard).look()),
            "/history" if parts.dashboard => whole(StatusCode::OK, JSON, lock(&self.dashboard).history()),
            "/events" if parts.dashboard => self.stream(client),
            _ => whole(StatusCode::NOT_FOUND, PLAIN, words(parts)),
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

    fn text(&self, format: Format) -> Bytes {
        let last = &mut lock(&self.metrics)[format as usize];
        if let Some((_, text)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return text.clone();
        }
        let text = Bytes::from(format.text(Families {
            snapshot: self.snapshot(),
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

fn page() -> Response<Body> {
    let mut answer = whole(StatusCode::OK, "text/html; charset=utf-8", PAGE);
    answer.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    answer
}

/// What there is, for whoever asks for something else.
fn words(parts: Parts) -> String {
    let metrics = if parts.metrics { " /metrics /livez /readyz" } else { "" };
    let dashboard = if parts.dashboard { " /" } else { "" };
    format!("there is{metrics}{dashboard}\n")
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
                (Meanings::default(), Box::new(Vec::new)),
                clients.clone(),
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
