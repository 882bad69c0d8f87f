//! A lane that computes while it serves: a task wants all the time that it can get, and datagrams come as packets of an interface. With `,poll`, packets
//! leave the task its part however fast they come (`user_frac`, docs/packet.md).
//!
//! ```text
//! computing 'eth1,ip=10.0.0.2/24,poll,user_frac=30' udp://10.0.0.2:60007 tcp://127.0.0.1:7010
//! ```
//!
//! Datagrams are sent back. A connection is told how many nanoseconds of CPU the task has had; the first one starts it.
use corelane::{Cx, DatagramService, Datagrams, Error, Input, Lanes, Next, Output, Peer, Replies, Result, Silent, StreamService};
use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// Nanoseconds of CPU that the task computes for before it lets the lane go on.
const SLICE: u64 = 20_000;

/// Sends datagrams back.
pub struct Echo;

impl DatagramService for Echo {
    type Talk = Silent;

    fn receive(&mut self, cx: &mut Cx, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            cx.count_requests(arrival.datagrams());
            replies.echo(batch, arrival);
        }
    }
}

/// Says how much was computed.
#[derive(Default)]
pub struct Computed {
    nanoseconds: Option<Rc<Cell<u64>>>,
}

impl StreamService for Computed {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, cx: &mut Cx, _peer: &Peer) {
        if self.nanoseconds.is_none() {
            let computed = Rc::new(Cell::new(0));
            if cx.spawn(compute(computed.clone())).is_ok() {
                self.nanoseconds = Some(computed);
            }
        }
    }

    fn receive(&mut self, cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        input.skip(input.len());
        cx.count_requests(1);
        let computed = self.nanoseconds.as_ref().map_or(0, |computed| computed.get());
        // One line always has room.
        let _full = writeln!(output, "{computed}");
        Next::Close
    }
}

/// The time that this thread has computed for, in nanoseconds.
fn used() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

async fn compute(computed: Rc<Cell<u64>>) {
    loop {
        let begun = used();
        let mut ended = begun;
        while ended < begun + SLICE {
            ended = used();
        }
        computed.set(computed.get() + ended - begun);
        let mut has_yielded = false;
        poll_fn(|cx| match std::mem::replace(&mut has_yielded, true) {
            true => Poll::Ready(()),
            false => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port, echo, computed] = &words[..] else {
        let why = "write a port, where datagrams are echoed, and where it says how much was computed".to_owned();
        return Err(Error::Setting { name: "computing", why });
    };
    let lanes = Lanes::per_core().lanes(1).packet(port.parse()?);
    lanes.serve_datagrams(echo, |_lane| Echo)?.serve(computed, |_lane| Computed::default())?.run()
}
