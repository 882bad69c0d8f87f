//! Answers that are given later: `after N` is answered with `over` when N milliseconds have passed, and `wait` with `rung` when a connection, on
//! whatever lane, says `ring`. No client takes all places of those who wait: one too many is answered with `busy`.
use corelane::service::{ConnectionId, Ending, Hold, Limits, Order, Origin, PeerKey, Says, Shares, Silence, Ticket, Unheard};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Result, StreamService};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes that a line or an answer has at the most.
const LINE_BYTES: usize = 32;

/// Requests that wait on a lane at the most.
const WAITING_MAX: u32 = 10_000;

/// The longest time, in milliseconds.
const LATEST: u64 = 60_000;

/// A request that is answered later, with its answer's memory.
const HOLD: Hold = Hold::new(Order::Kept).reserve(LINE_BYTES);

/// What the lanes say to each other: somebody rang.
pub struct Rung;

/// A lane's bell.
pub struct Bell {
    /// Requests that wait for it, by connection, with who pays for their places.
    waiting: BTreeMap<ConnectionId, (PeerKey, Vec<Ticket>)>,
    places: Shares,
}

/// What the bell keeps of a connection.
pub struct Client {
    peer: PeerKey,
    /// Requests that wait for a time, by the token of their timers.
    timed: BTreeMap<u64, Ticket>,
    last: u64,
}

impl Bell {
    /// A bell for which so many requests may wait.
    pub fn new(waiting_max: u32) -> Self {
        Self { waiting: BTreeMap::new(), places: Shares::new(waiting_max) }
    }

    /// Takes a request that waits for the bell. This and the next two say whether the request was taken; if not, it stays in the input.
    fn wait(&mut self, cx: &mut Cx<'_, Says<Rung>>, client: &Client, output: &mut Output) -> bool {
        if !self.places.admits(client.peer) {
            return output.write(b"busy\n").is_ok();
        }
        let Ok(ticket) = output.hold(HOLD) else { return false };
        self.places.take(Some(client.peer));
        self.waiting.entry(cx.id()).or_insert_with(|| (client.peer, Vec::new())).1.push(ticket);
        true
    }

    /// Takes a request that waits for a time.
    fn time(cx: &mut Cx<'_, Says<Rung>>, client: &mut Client, output: &mut Output, after: Duration) -> bool {
        let Ok(ticket) = output.hold(HOLD) else { return false };
        client.last += 1;
        match cx.start_timer(after, client.last) {
            Ok(_) => drop(client.timed.insert(client.last, ticket)),
            Err(_) => answer(cx, ticket, b"busy\n"),
        }
        true
    }

    /// Rings on each lane, this one among them. Where one has no room yet, the others are rung again later, which does no harm.
    fn ring(cx: &mut Cx<'_, Says<Rung>>, output: &mut Output) -> bool {
        // A lane that has ended hears nothing, and nobody waits there.
        let is_full = |sent| matches!(sent, Err(Unheard { why: Silence::Full, .. }));
        (0..cx.lanes()).all(|lane| !is_full(cx.send(lane, Rung))) && output.write(b"ok\n").is_ok()
    }

    /// Gives the places of a connection back.
    fn leave(&mut self, (peer, tickets): (PeerKey, Vec<Ticket>)) -> Vec<Ticket> {
        self.places.give_more_back(Some(peer), tickets.len() as u32);
        tickets
    }
}

fn answer(cx: &mut Cx<'_, Says<Rung>>, ticket: Ticket, answer: &[u8]) {
    // Its memory was kept, so there is always an answer.
    let _ = cx.answer_bytes(ticket, answer);
}

/// The time of a line `after N`.
fn time_of(line: &[u8]) -> Option<Duration> {
    let number = std::str::from_utf8(line).ok()?.strip_prefix("after ")?;
    number.parse().ok().map(|number| Duration::from_millis(std::cmp::min(number, LATEST)))
}

impl StreamService for Bell {
    type Talk = Says<Rung>;
    type Session = Client;

    fn open(&mut self, _cx: &mut Cx<'_, Says<Rung>>, peer: &Peer) -> Client {
        Client { peer: PeerKey::of(&peer.address), timed: BTreeMap::new(), last: 0 }
    }

    fn receive(&mut self, cx: &mut Cx<'_, Says<Rung>>, client: &mut Client, input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            if end >= LINE_BYTES {
                return Next::Abort;
            }
            let Some(line) = input.contiguous(end) else { break };
            let is_taken = match line {
                b"wait" => self.wait(cx, client, output),
                b"ring" => Self::ring(cx, output),
                line => match time_of(line) {
                    Some(after) => Self::time(cx, client, output, after),
                    None => output.write(b"no\n").is_ok(),
                },
            };
            if !is_taken {
                break;
            }
            input.skip(end + 1);
            cx.count_requests(1);
        }
        Next::Continue
    }

    fn timer(&mut self, cx: &mut Cx<'_, Says<Rung>>, client: &mut Client, _output: &mut Output, token: u64) -> Next {
        if let Some(ticket) = client.timed.remove(&token) {
            answer(cx, ticket, b"over\n");
        }
        Next::Continue
    }

    fn lane_message(&mut self, cx: &mut Cx<'_, Says<Rung>>, _from: Origin, Rung: Rung) {
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            self.leave(waiting).into_iter().for_each(|ticket| answer(cx, ticket, b"rung\n"));
        }
    }

    fn closed(&mut self, cx: &mut Cx<'_, Says<Rung>>, _client: Client, _ending: Ending) {
        // Nobody waits for these answers any more.
        if let Some(waiting) = self.waiting.remove(&cx.id()) {
            self.leave(waiting);
        }
    }
}

fn main() -> Result<()> {
    let limits = Limits::new().connections_per_peer_max(100).requests_in_flight_max(64).idle_limit(Duration::from_secs(60));
    Lanes::per_core().limits(limits).serve("tcp://127.0.0.1:7007", |_lane| Bell::new(WAITING_MAX))?.run()
}
