//! The thread that answers, and what its clients can cost.

mod clients;
mod names;
mod pages;

use crate::error::Error;
use crate::families::{Meanings, More, Telling};
use crate::upstreams::Watched;
use clients::{Client, Clients};
use corelane::admin::watch::Reader;
use corelane::lanes::Running;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use names::Names;
use pages::{Pages, Parts};
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, oneshot};
use tokio::time::MissedTickBehavior;

pub use clients::CLIENTS_MAX;

/// How long a client may take for its question and for reading the answer.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two looks of the dashboard.
const SECOND: Duration = Duration::from_secs(1);

/// The longest head of a question, in bytes.
const QUESTION_BYTES_MAX: usize = 16 << 10;

/// What the system holds for a client that does not read, beside what that one's own end holds: little, so that who reads nothing is soon known.
const UNREAD_BYTES_MAX: u32 = 64 << 10;

/// After the system refused a connection (no descriptors), the next is waited for so long.
const PAUSE: Duration = Duration::from_millis(100);

/// Where to listen. Whoever reaches these addresses reads what the program counts: nobody is asked who they are, so they belong on loopback, or on a
/// network of operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen {
    /// For metrics and health: `/metrics`, `/livez`, `/readyz`.
    pub metrics: Option<SocketAddr>,
    /// For the dashboard: `/`. May be the same as that for metrics.
    pub dashboard: Option<SocketAddr>,
    /// The file of a gateway's graphs, which are beside the dashboard then: `/gateway`.
    pub graphs: Option<PathBuf>,
    /// Names by which these may be asked for, beside addresses and names without a dot. Who asks by another name is refused (421), because a page of another
    /// site may have a browser ask so (DNS rebinding).
    pub names: Vec<String>,
}

impl Listen {
    /// Its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.places().into_iter().map(|(address, _)| address)
    }

    /// Each address once.
    fn places(&self) -> Vec<(SocketAddr, Parts)> {
        match (self.metrics, self.dashboard) {
            (Some(metrics), Some(dashboard)) if metrics == dashboard && metrics.port() != 0 => {
                vec![(metrics, Parts { metrics: true, dashboard: true })]
            }
            (metrics, dashboard) => {
                let metrics = metrics.map(|address| (address, Parts { metrics: true, dashboard: false }));
                let dashboard = dashboard.map(|address| (address, Parts { metrics: false, dashboard: true }));
                metrics.into_iter().chain(dashboard).collect()
            }
        }
    }
}

/// That nobody more is to be accepted, because another process does.
#[derive(Debug, Default)]
struct Left {
    is_so: AtomicBool,
    told: Notify,
}

impl Left {
    fn leave(&self) {
        self.is_so.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    /// The next who connects; none if others accept from now on.
    async fn accept(&self, listener: &tokio::net::TcpListener) -> Option<io::Result<(TcpStream, SocketAddr)>> {
        let mut told = pin!(self.told.notified());
        poll_fn(|context| {
            if told.as_mut().poll(context).is_ready() || self.is_so.load(Ordering::Acquire) {
                return Poll::Ready(None);
            }
            listener.poll_accept(context).map(Some)
        })
        .await
    }
}

/// The server. Dropping it ends it.
#[derive(Debug)]
pub struct Metrics {
    places: Vec<(SocketAddr, Parts)>,
    thread: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Metrics {
    /// Listens, and answers from then on. To be called when the lanes run: they have copies of the descriptors that are open when they start.
    ///
    /// # Errors
    /// [`Error::Listen`], [`Error::Start`].
    pub fn start(reader: Reader, listen: &Listen) -> Result<Self, Error> {
        let mut listeners = Vec::new();
        for (address, parts) in listen.places() {
            listeners.push((listen_at(address).map_err(|source| Error::Listen { address, source })?, parts));
        }
        let nothing: Telling = Box::new(More::new);
        Self::serve_at(listeners, reader, listen, (Meanings::default(), nothing, Watched::default()), Arc::default())
    }

    /// Serves what these lanes count, at the listeners that were handed over for its addresses or at its own, and hands them on to the process that takes over.
    /// It accepts nobody then.
    ///
    /// # Errors
    /// As of [`Metrics::start`].
    pub fn beside(running: &mut Running, listen: &Listen) -> Result<Self, Error> {
        Self::beside_with(running, listen, More::new)
    }

    /// The same, with what `more` tells each time that metrics are asked for.
    ///
    /// # Errors
    /// As of [`Metrics::start`].
    pub fn beside_with(
        running: &mut Running,
        listen: &Listen,
        more: impl Fn() -> More + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let started = |source| Error::Start { source };
        let reader = Reader::of(running.counters()).map_err(|error| started(io::Error::other(error)))?;
        let (mut listeners, left) = (Vec::new(), Arc::<Left>::default());
        for (address, parts) in listen.places() {
            let handed = running.listeners(address);
            let own = if handed.is_empty() { vec![listen_at(address)] } else { handed.into_iter().map(bounded).collect() };
            for listener in own {
                let listener = listener.map_err(|source| Error::Listen { address, source })?;
                let left = left.clone();
                running.hand_over_listener(&listener, move || left.leave()).map_err(started)?;
                listeners.push((listener, parts));
            }
        }
        let counted = running.counted().iter();
        let own = counted.flat_map(|(service, all)| all.iter().map(|one| ((service.clone(), one.name.to_owned()), one.meaning)));
        let told: (_, Telling, _) = (Arc::new(own.collect()), Box::new(more), Watched::new(running.services()));
        Self::serve_at(listeners, reader, listen, told, left)
    }

    fn serve_at(
        listeners: Vec<(TcpListener, Parts)>,
        reader: Reader,
        listen: &Listen,
        told: (Meanings, Telling, Watched),
        left: Arc<Left>,
    ) -> Result<Self, Error> {
        let started = |source| Error::Start { source };
        let place = |(listener, parts): &(TcpListener, Parts)| Ok((listener.local_addr()?, *parts));
        let places = listeners.iter().map(place).collect::<Result<_, _>>().map_err(started)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(started)?;
        let (end, ended) = oneshot::channel();
        let clients = Arc::new(Clients::default());
        let pages = Pages::new(reader, Names::new(listen.names.iter().cloned()), told, clients.clone(), listen.graphs.clone());
        let body = move || serve(&runtime, Arc::new(pages), listeners, (clients, left), ended);
        let thread = std::thread::Builder::new().name("corelane-http".to_owned()).spawn(body).map_err(started)?;
        Ok(Self { places, thread: Some((end, thread)) })
    }

    /// What is where, in a word.
    pub fn places(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        self.places.iter().flat_map(|(address, parts)| {
            let metrics = parts.metrics.then_some(("metrics", *address));
            metrics.into_iter().chain(parts.dashboard.then_some(("dashboard", *address)))
        })
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.thread.take() {
            let _ = end.send(());
            // It has nothing to do but to end.
            let _ = thread.join();
        }
    }
}

fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    bounded(TcpListener::bind(address)?)
}

/// Who does not read is soon known.
fn bounded(listener: TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    // Those that are accepted have it from this one.
    let same = OwnedFd::from(listener.try_clone()?);
    TcpSocket::from_std_stream(same.into()).set_send_buffer_size(UNREAD_BYTES_MAX)?;
    Ok(listener)
}

fn serve(
    runtime: &Runtime,
    pages: Arc<Pages>,
    listeners: Vec<(TcpListener, Parts)>,
    (clients, left): (Arc<Clients>, Arc<Left>),
    ended: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        if listeners.iter().any(|(_, parts)| parts.dashboard) {
            pages.look();
            tokio::spawn(look(pages.clone()));
        }
        for (listener, parts) in listeners {
            tokio::spawn(accept(listener, parts, pages.clone(), (clients.clone(), left.clone())));
        }
        // An error is the same: who would tell has gone.
        let _ = ended.await;
    });
}

/// Looks once a second, for as long as the server is there.
async fn look(pages: Arc<Pages>) {
    let mut seconds = tokio::time::interval(SECOND);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Skip);
    // The first is at once, and that look was taken.
    seconds.tick().await;
    loop {
        seconds.tick().await;
        pages.look();
    }
}

async fn accept(listener: TcpListener, parts: Parts, pages: Arc<Pages>, (clients, left): (Arc<Clients>, Arc<Left>)) {
    // reason: it was made for this, on a runtime that waits for sockets.
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener is one");
    while let Some(accepted) = left.accept(&listener).await {
        match accepted {
            Ok((stream, from)) => clients.admit(from.ip(), |client| talk(stream, parts, pages.clone(), client)).await,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Hears one question and answers it, within its time unless the answer is a stream.
async fn talk(stream: TcpStream, parts: Parts, pages: Arc<Pages>, client: Arc<Client>) {
    let asked = client.clone();
    let answer = service_fn(move |request| {
        let answer = pages.answer(&request, parts, &asked);
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let mut builder = http1::Builder::new();
    let builder =
        builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE).keep_alive(false).max_buf_size(QUESTION_BYTES_MAX);
    // Who has finished asking still reads.
    let builder = builder.half_close(true);
    let mut talk = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    // Whatever went wrong is the client's.
    if tokio::time::timeout(PATIENCE, talk.as_mut()).await.is_err() && client.is_stream() {
        let _ = talk.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::watch::{Description, LaneName, Page, ServiceName};
    use std::io::Write;

    /// Of this size the answer is larger than what the system holds for a client.
    fn pages() -> (Page, Arc<Pages>) {
        let page = Page::heap(&Description {
            services: vec![ServiceName::default(); 2],
            lanes: vec![LaneName::default(); 250],
            ..Description::default()
        });
        let page = page.unwrap();
        let pages = Pages::new(
            Reader::of(&page).unwrap(),
            Names::default(),
            (Meanings::default(), Box::new(More::new), Watched::default()),
            Arc::default(),
            None,
        );
        (page, Arc::new(pages))
    }

    #[test]
    fn who_asks_for_nothing_or_reads_nothing_is_dropped_in_time() {
        let (_page, pages) = pages();
        let parts = Parts { metrics: true, dashboard: false };
        for (question, has_patience) in
            [("", true), ("GET /metr", true), ("GET /metrics HTTP/1.1\r\n\r\n", true), ("GET /livez HTTP/1.1\r\n\r\n", false)]
        {
            // Time passes where nobody has anything to do.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                client.write_all(question.as_bytes()).unwrap();
                let (stream, _) = listener.accept().unwrap();
                stream.set_nonblocking(true).unwrap();
                let began = tokio::time::Instant::now();
                let talk =
                    talk(TcpStream::from_std(stream).unwrap(), parts, pages.clone(), Arc::new(Client::of([127, 0, 0, 1].into())));
                let ended = tokio::time::timeout(100 * PATIENCE, talk).await;
                assert!(ended.is_ok(), "{question:?} ends");
                assert_eq!(began.elapsed() >= PATIENCE, has_patience, "{question:?}");
                drop(client);
            });
        }
    }
}
