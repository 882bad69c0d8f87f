//! A chat: each line that a client says goes to all clients, on all lanes. `who` is answered with how many there are.
use corelane::service::{ConnectionId, Ending, Origin, Silence, Unheard};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Result, StreamService, Talk};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The longest line, in bytes.
const LINE_BYTES: usize = 1024;

/// What is said: a line to each lane, and there the same line to each connection.
pub enum Words {}

impl Talk for Words {
    type Message = Arc<[u8]>;
    type Question = Infallible;
    type Answer = Infallible;
    type Notice = Arc<[u8]>;
}

/// The clients of one lane.
pub struct Chat {
    clients: BTreeSet<ConnectionId>,
    /// How many clients all lanes have.
    all: Arc<AtomicUsize>,
}

impl Chat {
    /// The chat of one of the lanes that count their clients in `all`.
    pub fn new(all: Arc<AtomicUsize>) -> Self {
        Self { clients: BTreeSet::new(), all }
    }

    /// Says a line to all lanes, from `next` on. False if one of them has no room: `receive` is called again when it has.
    fn tell(cx: &mut Cx<'_, Words>, next: &mut usize, line: &[u8]) -> bool {
        let line: Arc<[u8]> = line.into();
        while *next < cx.lanes() {
            if let Err(Unheard { why: Silence::Full, .. }) = cx.send(*next, line.clone()) {
                return false;
            }
            *next += 1;
        }
        *next = 0;
        true
    }
}

impl StreamService for Chat {
    type Talk = Words;
    /// The lane that is to hear the first line of the input next.
    type Session = usize;

    fn open(&mut self, cx: &mut Cx<'_, Words>, _peer: &Peer) -> usize {
        self.clients.insert(cx.id());
        self.all.fetch_add(1, Ordering::Relaxed);
        0
    }

    fn receive(&mut self, cx: &mut Cx<'_, Words>, next: &mut usize, input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            if end >= LINE_BYTES {
                return Next::Abort;
            }
            let Some(line) = input.contiguous(end + 1) else { break };
            let is_taken = match line {
                b"who\n" => writeln!(output, "{} here", self.all.load(Ordering::Relaxed)).is_ok(),
                line => Self::tell(cx, next, line),
            };
            if !is_taken {
                break;
            }
            input.skip(end + 1);
            cx.count_requests(1);
        }
        Next::Continue
    }

    fn lane_message(&mut self, cx: &mut Cx<'_, Words>, _from: Origin, line: Arc<[u8]>) {
        self.clients.iter().for_each(|&client| cx.notify(client, line.clone()));
    }

    fn message(&mut self, _cx: &mut Cx<'_, Words>, _next: &mut usize, output: &mut Output, line: Arc<[u8]>) -> Next {
        // A client that reads too slowly misses lines.
        if output.ask_room() {
            let _ = output.write(&line);
        }
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx<'_, Words>, _next: usize, _ending: Ending) {
        self.clients.remove(&cx.id());
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

fn main() -> Result<()> {
    let all = Arc::new(AtomicUsize::new(0));
    Lanes::per_core().serve("tcp://127.0.0.1:7007", move |_lane| Chat::new(all.clone()))?.run()
}
