//! Those who are connected: so many at a time, and who has been here longest makes room for the next.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The most clients at a time, streams included.
pub const CLIENTS_MAX: usize = 64;

/// The most of them that are streams, which do not make room for others.
pub(super) const STREAMS_MAX: usize = 16;

/// What everybody may take before others are preferred: who reads what was asked for needs far less.
const GRACE: Duration = Duration::from_millis(250);

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    since: Instant,
    is_stream: AtomicBool,
    task: OnceLock<AbortHandle>,
}

impl Default for Client {
    fn default() -> Self {
        Self { since: Instant::now(), is_stream: AtomicBool::new(false), task: OnceLock::new() }
    }
}

impl Client {
    /// Whether it has become a stream.
    pub fn is_stream(&self) -> bool {
        self.is_stream.load(Ordering::Relaxed)
    }

    /// Ends it, whatever it does.
    pub fn end(&self) {
        self.task.get().inspect(|task| task.abort());
    }

    pub fn has_ended(&self) -> bool {
        self.task.get().is_some_and(AbortHandle::is_finished)
    }
}

/// All of them, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Clients {
    all: Mutex<Vec<Arc<Client>>>,
    /// Somebody has gone.
    gone: Notify,
}

impl Clients {
    /// Has `talk` run for one more, when there is room. Of those who have had their time, the one that has been here longest ends for it.
    pub async fn admit<F: Future<Output = ()> + Send + 'static>(self: &Arc<Self>, talk: impl FnOnce(Arc<Client>) -> F) {
        while let Err(left) = self.make_room() {
            // Whichever comes first.
            let _ = tokio::time::timeout(left, self.gone.notified()).await;
        }
        let client = Arc::new(Client::default());
        let (talk, clients) = (talk(client.clone()), self.clone());
        let task = tokio::spawn(async move {
            talk.await;
            clients.gone.notify_one();
        });
        assert!(client.task.set(task.abort_handle()).is_ok(), "a client is admitted once");
        let mut all = self.lock();
        all.push(client);
        assert!(all.len() <= CLIENTS_MAX, "clients are bounded");
    }

    /// Makes room for one; or says how long to wait for the oldest to have had its time.
    fn make_room(&self) -> Result<(), Duration> {
        let mut all = self.lock();
        all.retain(|client| !client.has_ended());
        if all.len() < CLIENTS_MAX {
            return Ok(());
        }
        // reason: streams are fewer than clients.
        let oldest = all.iter().position(|client| !client.is_stream()).expect("one of them is no stream");
        let left = GRACE.saturating_sub(all[oldest].since.elapsed());
        if !left.is_zero() {
            return Err(left);
        }
        all.remove(oldest).end();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        // Nothing is done under it that could leave a half behind.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a client a stream; false if there are as many as may be.
    pub fn become_stream(&self, client: &Client) -> bool {
        let all = self.lock();
        let has_room = all.iter().filter(|one| one.is_stream() && !one.has_ended()).count() < STREAMS_MAX;
        assert!(!client.is_stream(), "a client asks one question");
        client.is_stream.store(has_room, Ordering::Relaxed);
        has_room
    }
}

const _: () = assert!(STREAMS_MAX < CLIENTS_MAX, "who only asks finds room");
