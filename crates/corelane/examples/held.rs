//! A line protocol with answers that come later: `N` and a line feed is answered with `N` times `N`, which takes a call on a helper thread. Answers
//! keep the order of their requests; each has its memory kept before the work begins, and is refused with `late` after a second.
use corelane::service::{Hold, OffloadResult, Order, Outcome, Ticket};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Result, Silent, StreamService};
use std::collections::BTreeMap;
use std::time::Duration;

/// Bytes that an answer has at the most.
const ANSWER_BYTES: usize = 48;

/// Squares numbers, elsewhere.
#[derive(Default)]
pub struct Squares {
    held: BTreeMap<u64, Ticket>,
    asked: u64,
}

impl StreamService for Squares {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            // What finds no room stays in the input, and is offered again.
            if !cx.ask_offload() {
                break;
            }
            let Some(line) = input.contiguous(end + 1) else { break };
            let number: u64 = std::str::from_utf8(line).ok().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
            let hold = Hold::new(Order::Kept).reserve(ANSWER_BYTES).expires(Duration::from_secs(1), self.asked);
            let Ok(ticket) = output.hold(hold) else { break };
            input.skip(end + 1);
            cx.count_requests(1);
            self.held.insert(self.asked, ticket);
            cx.offload(move || u128::from(number) * u128::from(number), self.asked);
            self.asked += 1;
        }
        Next::Continue
    }

    fn completed(&mut self, cx: &mut Cx, token: u64, outcome: Outcome) {
        let Some(ticket) = self.held.remove(&token) else { return };
        let answer = match outcome {
            Outcome::Offloaded(OffloadResult(value)) => {
                value.downcast::<u128>().map_or("no\n".to_owned(), |value| format!("{value}\n"))
            }
            _ => "no\n".to_owned(),
        };
        // Its memory was kept, so there is always an answer.
        let _ = cx.answer_bytes(ticket, answer.as_bytes());
    }

    fn expired(&mut self, cx: &mut Cx, _session: &mut (), _output: &mut Output, ticket: Ticket, token: u64) -> Next {
        // The one that was good until now; what comes for it finds nobody.
        drop(self.held.remove(&token));
        match cx.answer_bytes(ticket, b"late\n") {
            Ok(()) => Next::Continue,
            Err(_) => Next::Abort,
        }
    }
}

fn main() -> Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:7007", |_lane| Squares::default())?.run()
}
