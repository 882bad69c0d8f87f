//! All short orders in which a connection that was just accepted is used: whoever waits is told, whatever was found out before the driver
//! had the connection watched.

use crate::bench::{Bench, chain_of, lasting};
use crate::rig::{Rig, Side};
use corelane_seam::{Handle, Op, Outcome, Socket, StreamOp, StreamOutcome, Wait};

/// Steps of an order.
const STEPS: u32 = 3;
/// More than a connection holds that nobody reads.
const FULL: usize = 16 << 20;

/// What can happen to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The peer sends a byte.
    Says,
    /// The peer finishes.
    Finishes,
    /// The peer breaks it off.
    Resets,
    /// A receive begins.
    Receive,
    /// One into a lease.
    ReceiveInto,
    /// It is stopped.
    Stop,
    /// Sends begin until one waits.
    Fill,
}

const ALL: [Step; 7] = [Step::Says, Step::Finishes, Step::Resets, Step::Receive, Step::ReceiveInto, Step::Stop, Step::Fill];

/// What a receive came to.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    Bytes(usize),
    Stopped,
    End,
    Fault,
}

fn came(outcome: Outcome) -> Came {
    let (bytes, fault) = match outcome {
        Outcome::Stream(StreamOutcome::Received(bytes)) => return Came::Bytes(bytes.len()),
        Outcome::Stream(StreamOutcome::EndOfStream) => return Came::End,
        Outcome::Stream(StreamOutcome::Filled { lease, fault }) => (lease.len(), fault),
        Outcome::Failed(fault) => (0, Some(fault)),
        other => panic!("{other:?}"),
    };
    match (bytes, fault) {
        (0, None) => Came::End,
        (bytes, None) => Came::Bytes(bytes),
        (0, Some(corelane_seam::Fault::CANCELLED)) => Came::Stopped,
        (_, Some(_)) => Came::Fault,
    }
}

/// A connection in the middle of an order.
struct Order<'a, R: Rig> {
    bench: &'a mut Bench<R>,
    server: Socket,
    client: Socket,
    full: &'static [u8],
    receiving: Option<Handle>,
    sending: Option<Handle>,
    said: usize,
    heard: usize,
    has_finished: bool,
    has_reset: bool,
    /// The last that was heard, if nothing comes behind it.
    end: Option<Came>,
}

impl<R: Rig> Order<'_, R> {
    fn take(&mut self, step: Step) {
        match step {
            Step::Says if !self.has_finished => {
                self.bench.send_bytes(Side::Client, self.client, b"x");
                self.said += 1;
            }
            Step::Finishes if !self.has_finished => self.finish(),
            Step::Resets if !self.has_reset => {
                let reset = Op::Close { socket: self.client, reset: true };
                assert!(matches!(self.bench.run(Side::Client, reset), Outcome::Closed));
                self.bench.forget(Side::Client, self.client);
                (self.has_finished, self.has_reset) = (true, true);
            }
            Step::Receive if self.receiving.is_none() => self.receive(StreamOp::Receive { socket: self.server }),
            Step::ReceiveInto if self.receiving.is_none() => {
                let lease = self.bench.rig.arena(Side::Server).lease(64).unwrap();
                self.receive(StreamOp::ReceiveInto { socket: self.server, lease, until: 64 });
            }
            Step::Stop => drop(self.bench.push(Side::Server, Op::StopReceive { socket: self.server })),
            Step::Fill if self.sending.is_none() => self.fill(),
            _ => {}
        }
        self.bench.collect(Side::Server, Wait::No, 64);
        if let Some(receive) = self.receiving.filter(|receive| self.bench.has_ended(Side::Server, *receive)) {
            self.hear(receive);
        }
    }

    fn finish(&mut self) {
        self.bench.driver(Side::Client).finish(self.client);
        self.has_finished = true;
    }

    fn receive(&mut self, op: StreamOp) {
        self.receiving = Some(self.bench.push(Side::Server, op));
    }

    /// Takes in what a receive comes to, once it has ended.
    fn hear(&mut self, receive: Handle) {
        self.receiving = None;
        match came(self.bench.end(Side::Server, receive)) {
            Came::Bytes(bytes) => self.heard += bytes,
            Came::Stopped => {}
            end => self.end = Some(end),
        }
    }

    fn fill(&mut self) {
        let mut chain = chain_of(self.full);
        loop {
            let send = self.bench.push(Side::Server, StreamOp::Send { socket: self.server, chain });
            self.bench.collect(Side::Server, Wait::No, 64);
            if !self.bench.has_ended(Side::Server, send) {
                return self.sending = Some(send);
            }
            match self.bench.end(Side::Server, send) {
                Outcome::Stream(StreamOutcome::Sent { rest, fault: None, .. }) if !rest.is_empty() => chain = rest,
                Outcome::Stream(StreamOutcome::Sent { fault: Some(_), .. }) => return,
                other => panic!("nobody reads, so this cannot fit: {other:?}"),
            }
        }
    }

    /// The peer says its last and reads what there is: all that waits ends.
    fn end(mut self) {
        if !self.has_finished {
            self.take(Step::Says);
            self.finish();
        }
        while let Some(send) = self.sending.filter(|send| !self.bench.has_ended(Side::Server, *send)) {
            match self.has_reset {
                true => self.bench.until(|bench| bench.has_ended(Side::Server, send)),
                false => drop(self.bench.receive(Side::Client, self.client)),
            }
        }
        while self.end.is_none() {
            let receive =
                self.receiving.unwrap_or_else(|| self.bench.push(Side::Server, StreamOp::Receive { socket: self.server }));
            self.hear(receive);
        }
        match self.has_reset {
            true => assert!(self.heard <= self.said),
            false => assert_eq!((self.heard, self.end.as_ref()), (self.said, Some(&Came::End))),
        }
        self.bench.close(Side::Server, self.server);
        if !self.has_reset {
            self.bench.close(Side::Client, self.client);
        }
    }
}

pub fn in_whatever_order_nobody_is_forgotten<R: Rig>() {
    let mut bench = Bench::<R>::new();
    let full = lasting(FULL);
    let (listener, to) = bench.listen(Side::Server, bench.rig.address(Side::Server));
    let accept = bench.push(Side::Server, StreamOp::Accept { listener });
    for number in 0..ALL.len().pow(STEPS) {
        let (server, client) = bench.join(accept, to.clone());
        let (receiving, sending, end) = (None, None, None);
        let (said, heard, has_finished, has_reset) = (0, 0, false, false);
        let mut order =
            Order { bench: &mut bench, server, client, full, receiving, sending, said, heard, has_finished, has_reset, end };
        for at in 0..STEPS {
            order.take(ALL[number / ALL.len().pow(at) % ALL.len()]);
        }
        order.end();
    }
    bench.finish();
}
