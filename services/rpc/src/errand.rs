//! One call after the other to one program, from a lane of its own, for those who wait for the end of it.

use crate::client::{CallError, DatagramClient, OverdueCall};
use corelane::lanes::Running;
use corelane::service::{Fault, Reason, Shared, SocketId};
use corelane::{Address, Cx, DatagramService, Datagrams, Instant, Lanes, Replies, Silent};
use corelane_wire::rpc::{CallHead, Patience};
use corelane_wire::xdr::Encode;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// How long each call is waited for.
const PATIENCE: Patience =
    Patience { timeout: Duration::from_secs(3), again: Duration::from_millis(250), again_max: Duration::from_secs(1) };

/// Memory of the errand's lane.
const MEMORY_BYTES: usize = 4 << 20;

/// What is asked, and what becomes of it.
pub(crate) trait Script: Clone + Send + Sync + 'static {
    /// Arguments of its calls.
    type Arguments: Encode;

    /// What the next call is for, and its arguments; none at the end.
    fn next(&self) -> Option<(CallHead<'static>, Self::Arguments)>;

    /// The results of that call, or why there are none.
    fn answer(&mut self, results: Result<&[u8], CallError>);

    /// How long it rests at its end, until it begins again; none where the end is one.
    fn pause(&self) -> Option<Duration> {
        None
    }

    /// Begins again.
    fn again(&mut self) {}
}

/// Carries a script out: its calls go to `peer` over UDP, each when the one before has ended. Waits for the end, which comes by itself.
///
/// # Errors
/// What the system says of a lane.
pub(crate) fn carry_out<S: Script>(script: S, peer: SocketAddr) -> Result<S, corelane::Error> {
    let (sender, receiver) = channel();
    let running = begin(script, peer, Some(sender))?;
    match receiver.recv() {
        Ok(script) => Ok(script),
        // Its lane has ended without an answer: it says why.
        Err(gone) => Err(running
            .wait()
            .err()
            .unwrap_or(corelane::Error::System { what: "carrying an errand out", error: std::io::Error::other(gone) })),
    }
}

/// Begins to carry a script out; at its end, if it has one, it goes to `done`.
///
/// # Errors
/// What the system says of a lane.
pub(crate) fn begin<S: Script>(script: S, peer: SocketAddr, done: Option<Sender<S>>) -> Result<Running, corelane::Error> {
    let errand =
        move |_lane| Errand { script: script.clone(), peer, socket: None, client: DatagramClient::new(1, 0), done: done.clone() };
    Lanes::per_core().lanes(1).memory_bytes(MEMORY_BYTES).unlisted().client_datagrams(errand).named("rpcbind").start()
}

struct Errand<S> {
    script: S,
    peer: SocketAddr,
    socket: Option<SocketId>,
    client: DatagramClient<()>,
    done: Option<Sender<S>>,
}

impl<S: Script> Errand<S> {
    fn send(&self, cx: &mut Cx<'_>, datagram: Shared, replies: Option<&mut Replies>) {
        let output = match replies {
            Some(replies) => Some(replies),
            None => self.socket.and_then(|socket| cx.datagrams(socket)),
        };
        // What is refused here is sent again when it is due.
        if let Some(output) = output {
            output.send(self.peer, None, datagram);
        }
    }

    /// Makes the next call, or says that all is done.
    fn go_on(&mut self, cx: &mut Cx<'_>, mut replies: Option<&mut Replies>) {
        while let Some((what, arguments)) = self.script.next() {
            match self.client.call(cx, &what, &arguments, PATIENCE, ()) {
                Ok(datagram) => {
                    self.send(cx, datagram, replies.take());
                    let due = self.client.next_due().unwrap_or(Instant::NEVER);
                    // reason: a service may have one alarm, whatever its bound is.
                    return cx.start_alarm(due, 0).expect("one alarm is always to be had");
                }
                Err((error, ())) => {
                    self.script.answer(Err(error));
                }
            }
        }
        if let Some(pause) = self.script.pause() {
            // reason: a service may have one alarm, whatever its bound is.
            return cx.start_alarm(cx.now() + pause, 0).expect("one alarm is always to be had");
        }
        if let Some(done) = self.done.take() {
            // Nobody waits any more: then nobody wants to know.
            let _ = done.send(self.script.clone());
        }
    }

    /// The call under way has failed.
    fn fail(&mut self, cx: &mut Cx<'_>, error: CallError) {
        if self.client.lost().count() > 0 {
            self.script.answer(Err(error));
            self.go_on(cx, None);
        }
    }
}

impl<S: Script> DatagramService for Errand<S> {
    type Talk = Silent;
    fn started(&mut self, cx: &mut Cx<'_>) {
        let any: IpAddr = if self.peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        self.client = DatagramClient::new(1, cx.now().nanoseconds() as u32);
        self.socket = cx.open_datagrams(SocketAddr::new(any, 0), Some(self.peer.into())).ok();
        // What is sent before the socket is open waits; where there is none, the calls end with their time.
        self.go_on(cx, None);
    }

    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        let (script, mut answered) = (&mut self.script, false);
        self.client.receive(batch, |(), results| {
            script.answer(results);
            answered = true;
        });
        if answered {
            self.go_on(cx, Some(replies));
        }
    }

    fn opened(&mut self, cx: &mut Cx<'_>, _socket: SocketId, outcome: Result<Address, Fault>) {
        if outcome.is_err() {
            self.fail(cx, CallError::Lost);
        }
    }

    fn fault(&mut self, cx: &mut Cx<'_>, _socket: SocketId, fault: Fault) {
        if fault.reason == Reason::Refused {
            self.fail(cx, CallError::Refused);
        }
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, _: u64) {
        if self.client.is_empty() && self.script.pause().is_some() {
            self.script.again();
            return self.go_on(cx, None);
        }
        match self.client.overdue(cx.now()) {
            Some(OverdueCall::Again(datagram)) => self.send(cx, datagram, None),
            Some(OverdueCall::GivenUp(())) => {
                self.script.answer(Err(CallError::TimedOut));
                return self.go_on(cx, None);
            }
            None => {}
        }
        // reason: a service may have one alarm, whatever its bound is.
        cx.start_alarm(self.client.next_due().unwrap_or(Instant::NEVER), 0).expect("one alarm is always to be had");
    }
}
