//! Datagrams that are answered later: each `N` is sent back after so many milliseconds. What a service owes it says, so a drain waits for it.
use corelane::service::{Arrival, Shared};
use corelane::{Cx, DatagramService, Datagrams, Lanes, Replies, Result, Silent};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest delay, in milliseconds.
const LATEST: u64 = 60_000;

/// Sends back what it was sent, when it was told to.
#[derive(Default)]
pub struct Later {
    owed: BTreeMap<u64, (corelane::service::SocketId, Arrival, Shared)>,
    taken: u64,
}

impl Later {
    /// What finds no room is dropped, as datagrams are.
    fn take(&mut self, cx: &mut Cx, arrival: &Arrival, datagram: &[u8]) {
        let Some(after) = std::str::from_utf8(datagram).ok().and_then(|text| text.trim().parse().ok()) else { return };
        let after = Duration::from_millis(std::cmp::min(after, LATEST));
        let Ok(mut lease) = cx.lease(datagram.len()) else { return };
        lease.append(datagram);
        if cx.start_alarm(after, self.taken).is_ok() {
            self.owed.insert(self.taken, (cx.socket(), arrival.clone(), lease.share()));
            self.taken += 1;
        }
    }
}

impl DatagramService for Later {
    type Talk = Silent;
    fn receive(&mut self, cx: &mut Cx, batch: &Datagrams, _replies: &mut Replies) {
        for arrival in batch.arrivals() {
            cx.count_requests(arrival.datagrams());
            batch.each(arrival).for_each(|datagram| self.take(cx, arrival, datagram));
        }
    }

    fn alarm(&mut self, cx: &mut Cx, token: u64) {
        let Some((socket, arrival, answer)) = self.owed.remove(&token) else { return };
        let bytes = answer.len();
        if let Some(replies) = cx.datagrams(socket) {
            replies.reply(&arrival, answer, bytes);
        }
    }

    fn owes(&self) -> bool {
        !self.owed.is_empty()
    }
}

fn main() -> Result<()> {
    Lanes::per_core().serve_datagrams("udp://127.0.0.1:7007", |_lane| Later::default())?.run()
}
