//! Echo: sends back what it gets, byte for byte (RFC 862), without copying it.
#![forbid(unsafe_code)]

mod loops;

use corelane::aio::{self, Connection, Lane};
use corelane::service::entry::choice::{Choice, Flag};
use corelane::service::entry::{Asked, Entry, Scheme};
use corelane::service::{Arrival, Declaration, OwnCounter};
use corelane::{
    Address, Cx, DatagramService, Datagrams, Input, Instant, Lanes, Next, Output, Peer, Replies, Result, Silent, StreamService,
};
use corelane_tls::entry as tls;
use loops::{Loops, answers_anything};
use std::any::Any;

/// Where echo is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 60007;
/// Where it is served behind TLS unless said otherwise.
pub const DEFAULT_TLS_PORT: u16 = 60443;

const REFLECT: Flag = Flag::new("reflect", "answer datagrams of other machines too, though their senders can be forged");

const ASYNC: Flag = Flag::new("async", "echo over connections by an async fn, to compare the two ways of writing a service");

/// Echo over TCP and UDP.
pub static ENTRY: Entry = Entry::new(
    "echo",
    "sends back what it gets",
    &[
        Scheme::connections::<Echo>("tcp", DEFAULT_PORT, connections),
        Scheme::datagrams::<EchoDatagrams>("udp", DEFAULT_PORT, datagrams),
        tls::behind(Scheme::connections::<Echo>("tls", DEFAULT_TLS_PORT, connections)),
    ],
)
.options(&[Choice::Flag(REFLECT), Choice::Flag(ASYNC)])
.by_default();

fn connections(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let url = asked.url().to_string();
    if asked.chosen().flag(&ASYNC) { lanes.serve(&url, |_lane| aio::each(echo)) } else { lanes.serve(&url, |_lane| Echo) }
}

fn datagrams(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let (answer, port) = (answer(asked)?, asked.url().port().unwrap_or(0));
    lanes.serve_datagrams(&asked.url().to_string(), move |_lane| EchoDatagrams::new(answer).at_port(port))
}

/// UDP echo beyond loopback must be asked for.
fn answer(asked: &Asked) -> Result<Answer> {
    if asked.chosen().flag(&REFLECT) {
        return Ok(Answer::Everybody);
    }
    let url = asked.url();
    match url.resolve()?.iter().find(|address| !is_near(address)) {
        None => Ok(Answer::Loopback),
        Some(address) => Err(asked.refuse(
            REFLECT.name,
            format!(
                "{url}: {} can be reached from other machines, and a UDP echo would send to whomever a forged datagram names; \
                 listen on 127.0.0.1 or [::1], or ask for it with {url}?reflect",
                address.ip().map_or_else(String::new, |ip| ip.to_string())
            ),
        )),
    }
}

/// Whether only this machine has it: a loopback address, or one of no network.
fn is_near(address: &Address) -> bool {
    address.ip().is_none_or(|ip| ip.to_canonical().is_loopback())
}

/// Echo over connections. The leases that bytes arrive in are the ones they leave in.
pub struct Echo;

impl StreamService for Echo {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    /// A stream of bytes has no requests: each hand-over counts as one.
    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        if !input.is_empty() {
            cx.count_requests(1);
            output.forward(input.take_all());
        }
        Next::Continue
    }

    /// Between two answers nothing is known of a connection.
    fn pack(&mut self, _cx: &mut Cx<'_>, _session: ()) -> std::result::Result<Box<dyn Any + Send>, ()> {
        Ok(Box::new(()))
    }

    fn unpack(&mut self, _cx: &mut Cx<'_>, packed: Box<dyn Any + Send>) -> std::result::Result<(), Box<dyn Any + Send>> {
        packed.downcast().map(|packed| *packed)
    }
}

/// Echo over connections once more, by `async fn`.
///
/// # Errors
/// As the connection's.
pub async fn echo(_lane: Lane, connection: Connection) -> aio::Result<()> {
    while let Some(bytes) = connection.read().await? {
        connection.count_requests(1);
        connection.send_all(bytes).await?;
    }
    Ok(())
}

/// Whose datagrams are echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Only those from this machine. A datagram's sender can be forged: whoever answers everybody can be made to send
    /// to a victim (reflection), or into an endless loop with another echo service.
    Loopback,
    /// Everybody's.
    Everybody,
}

corelane::counters! {
    /// What echo over datagrams counts beside what all services do.
    pub enum EchoCounter {
        LoopsRefused "loops_refused" Counter "datagrams" "Datagrams without an answer, because they might go round for ever. They came from the port of a service that answers anything, or a peer sent the same bytes over 1,000 times in a minute.";
    }
}

/// Echo over datagrams: trains are answered with trains.
///
/// What comes from a port where a service answers anything (7, 13, 17, 19, 37, and its own) has no answer, and the same bytes have at most 1,000 a minute for each peer: two echo
/// services would send one forged datagram to and fro for ever (`loops_refused`).
pub struct EchoDatagrams {
    answer: Answer,
    /// Its own; 0 if it is not known.
    port: u16,
    /// None where only this machine is answered: nobody else can begin a loop.
    loops: Option<Loops>,
}

impl EchoDatagrams {
    /// Echo for those whom `answer` names; what comes from others is dropped.
    pub fn new(answer: Answer) -> Self {
        Self { answer, port: 0, loops: (answer == Answer::Everybody).then(Loops::new) }
    }

    /// Served at this port, from which nobody is answered: another echo service may be there.
    pub fn at_port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    fn answers(&self, peer: &Address) -> bool {
        self.answer == Answer::Everybody || is_near(peer)
    }

    /// Whether an answer may come back here for ever.
    fn goes_round(&mut self, now: Instant, batch: &Datagrams, arrival: &Arrival) -> bool {
        let first = || batch.each(arrival).next().unwrap_or_default();
        answers_anything(arrival.peer.port(), self.port)
            || self.loops.as_mut().is_some_and(|loops| loops.are_one(now, &arrival.peer, arrival.datagrams(), first()))
    }
}

impl DatagramService for EchoDatagrams {
    type Talk = Silent;
    const COUNTERS: &'static [Declaration] = EchoCounter::DECLARED;

    fn receive(&mut self, cx: &mut Cx<'_>, batch: &Datagrams, replies: &mut Replies) {
        for arrival in batch.arrivals() {
            match () {
                () if !self.answers(&arrival.peer) => {}
                () if self.goes_round(cx.now(), batch, arrival) => cx.count(EchoCounter::LoopsRefused, arrival.datagrams()),
                () => {
                    cx.count_requests(arrival.datagrams());
                    replies.echo(batch, arrival);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_answered_unless_everybody_is() {
        let [here, mapped, there]: [Address; 3] =
            ["127.0.0.9:1", "[::ffff:127.0.0.1]:1", "192.0.2.1:1"].map(|text| text.parse().unwrap());
        let local = EchoDatagrams::new(Answer::Loopback);
        assert_eq!([&here, &mapped, &there].map(|peer| local.answers(peer)), [true, true, false]);
        assert!(EchoDatagrams::new(Answer::Everybody).answers(&there));
    }
}
