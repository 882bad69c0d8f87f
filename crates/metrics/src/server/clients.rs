//! Those who are connected: so many at a time, each address its share, and who has been here longest makes room for the next.

use corelane::service::parts::Share;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The most clients at a time, streams included.
pub const CLIENTS_MAX: usize = 64;

/// The most of them that are streams, which make room for other streams alone.
pub(super) const STREAMS_MAX: usize = 16;

/// What everybody may take before others are preferred: who reads what was asked for needs far less.
const GRACE: Duration = Duration::from_millis(250);

/// Who shares: an address, or the /64 that one customer has (RFC 6177).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Sharer(IpAddr);

impl Sharer {
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address => address,
        })
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Client {
    since: Instant,
    sharer: Sharer,
    is_stream: AtomicBool,
    /// It was told to end.
    is_ended: AtomicBool,
    task: OnceLock<AbortHandle>,
}

impl Client {
    pub fn of(address: IpAddr) -> Self {
        Self {
            since: Instant::now(),
            sharer: Sharer::of(address),
            is_stream: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            task: OnceLock::new(),
        }
    }

    /// Whether it has become a stream.
    pub fn is_stream(&self) -> bool {
        self.is_stream.load(Ordering::Relaxed)
    }

    /// Ends it, whatever it does.
    pub fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.task.get().inspect(|task| task.abort());
    }

    pub fn has_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed) || self.task.get().is_some_and(AbortHandle::is_finished)
    }
}

/// All of them, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Clients {
    all: Mutex<Vec<Arc<Client>>>,
    /// Somebody has gone.
    gone: Notify,
    /// Streams that ended so that others have room.
    displaced: AtomicU64,
}

impl Clients {
    /// Has `talk` run for one more from `address`, when there is room. Of those who have had their time, one ends for it: of the address that has most, the one
    /// that has been here longest.
    pub async fn admit<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        address: IpAddr,
        talk: impl FnOnce(Arc<Client>) -> F,
    ) {
        let client = Arc::new(Client::of(address));
        loop {
            // Who can go on does so first: time in which this thread had no CPU is nobody's fault.
            tokio::task::yield_now().await;
            let Err(left) = self.make_room(&client) else { break };
            // Whichever comes first.
            let _ = tokio::time::timeout(left, self.gone.notified()).await;
        }
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

    /// Makes room for one; or says how long to wait for another to have had its time.
    fn make_room(&self, newcomer: &Client) -> Result<(), Duration> {
        let mut all = self.lock();
        all.retain(|client| !client.has_ended());
        if all.len() < CLIENTS_MAX {
            return Ok(());
        }
        let asks = |client: &Client| !client.is_stream();
        // reason: streams are fewer than clients.
        let (place, held) = most_and_longest(&all, newcomer, asks).expect("one of them is no stream");
        let has_too_many = held > CLIENTS_MAX / 2 && all[place].sharer != newcomer.sharer;
        let left = GRACE.saturating_sub(all[place].since.elapsed());
        if !(left.is_zero() || has_too_many) {
            return Err(left);
        }
        all.remove(place).end();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        // Nothing is done under it that could leave a half behind.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a client a stream. Where its address has its share, its own that has been here longest ends for it; where there are as many as may be, that of the address that has most.
    pub fn become_stream(&self, client: &Client) {
        let all = self.lock();
        assert!(!client.is_stream(), "a client asks one question");
        let lives = |one: &Client| one.is_stream() && !one.has_ended();
        let is_own = |one: &Client| lives(one) && one.sharer == client.sharer;
        let count = |counts: &dyn Fn(&Client) -> bool| all.iter().filter(|one| counts(one)).count() as u32;
        let share = Share { limit: STREAMS_MAX as u32, used: count(&lives) };
        let place = match (share.admits(count(&is_own)), share.left()) {
            (true, _) => None,
            (false, 0) => most_and_longest(&all, client, lives).map(|(place, _)| place),
            (false, _) => all.iter().position(|one| is_own(one)),
        };
        if let Some(place) = place {
            all[place].end();
            self.displaced.fetch_add(1, Ordering::Relaxed);
        }
        client.is_stream.store(true, Ordering::Relaxed);
    }

    /// How many streams have ended so that others had room.
    pub fn displaced(&self) -> u64 {
        self.displaced.load(Ordering::Relaxed)
    }
}

/// Of those that count, and of the address that has most of them with the newcomer among them, the one that has been here longest: its place, and how many
/// that address has. Of several such addresses, the one whose oldest has been here longest.
fn most_and_longest(all: &[Arc<Client>], newcomer: &Client, counts: impl Fn(&Client) -> bool) -> Option<(usize, usize)> {
    let mut held: BTreeMap<Sharer, (usize, Option<usize>)> = BTreeMap::new();
    held.entry(newcomer.sharer).or_default().0 = 1;
    for (place, client) in all.iter().enumerate().filter(|(_, client)| counts(client)) {
        let (count, oldest) = held.entry(client.sharer).or_default();
        *count += 1;
        oldest.get_or_insert(place);
    }
    let held = held.into_values().filter_map(|(count, oldest)| Some((oldest?, count)));
    held.max_by_key(|&(oldest, count)| (count, std::cmp::Reverse(oldest)))
}

const _: () = assert!(STREAMS_MAX < CLIENTS_MAX, "who only asks finds room");

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(addresses: &[&str]) -> Clients {
        let clients = Clients::default();
        for address in addresses {
            let client = Arc::new(Client::of(address.parse().unwrap()));
            clients.become_stream(&client);
            clients.lock().push(client);
        }
        clients
    }

    fn living(clients: &Clients) -> Vec<usize> {
        clients.lock().iter().enumerate().filter(|(_, one)| !one.has_ended()).map(|(place, _)| place).collect()
    }

    fn come(clients: &Clients, address: &str) {
        let newcomer = Arc::new(Client::of(address.parse().unwrap()));
        clients.become_stream(&newcomer);
        clients.lock().push(newcomer);
    }

    /// The row "streams of events" of the table of bounds: an attacker, others, and who comes from the attacker's address.
    #[test]
    fn an_address_has_its_share_of_streams_and_gives_its_oldest_for_more() {
        let clients = streams(&["192.0.2.9"; STREAMS_MAX]);
        assert_eq!(living(&clients), (STREAMS_MAX / 2..STREAMS_MAX).collect::<Vec<_>>(), "one alone has half");
        assert_eq!(clients.displaced(), 8);
        come(&clients, "192.0.2.9");
        assert!(living(&clients).contains(&STREAMS_MAX) && !living(&clients).contains(&8), "who comes next of it is there");
        for other in 1..=8 {
            come(&clients, &format!("198.51.100.{other}"));
        }
        assert_eq!((living(&clients).len(), clients.displaced()), (STREAMS_MAX, 9), "others have their places beside it");
        for (displaced, other) in [(10, 9), (11, 10)] {
            come(&clients, &format!("198.51.100.{other}"));
            assert_eq!((living(&clients).len(), clients.displaced()), (STREAMS_MAX, displaced));
            assert!(
                !living(&clients).contains(&(other - 1)),
                "where there are none left, the address that has most gives its oldest"
            );
        }
    }

    #[test]
    fn an_address_of_ipv6_shares_with_its_network_and_a_mapped_one_is_one_of_ipv4() {
        let sharer = |text: &str| Sharer::of(text.parse().unwrap());
        assert_eq!(sharer("2001:db8::1"), sharer("2001:db8::ffff:1"));
        assert_ne!(sharer("2001:db8::1"), sharer("2001:db8:0:1::1"));
        assert_eq!(sharer("::ffff:192.0.2.1"), sharer("192.0.2.1"));
    }
}
