//! Calls of ONC RPC (RFC 5531), over connections and over datagrams. Every reply is checked in full: the number of its call, that it was
//! accepted, its verifier, and its results.
//!
//! A call without a payload is one of procedure 0, which every program has; one with a payload is procedure 1 of a program that gives back
//! the opaque data that it is called with.

mod kinds;
mod message;
mod numbers;
mod settings;
mod stream;

use super::{Particulars, WorkloadEntry};
use crate::datagram_engine::DatagramEngine;
use crate::ends::Ends;
use crate::engine::Engine;
use crate::error::Error;
use crate::kinds::Kind;
use crate::place::Scheme;
use crate::plan::{Mode, Plan};
use crate::workload::DatagramWorkload;
use corelane::Lanes;
use corelane::lanes::Transport;
use corelane::service::entry::choice::Choice;
use corelane::service::{DATAGRAM_BYTES_MAX, LEASE_BYTES_MAX};
use message::{Message, Said};
use settings::{PROGRAM, SPLIT, SPLIT_MAX};

pub use kinds::{DENIED, FAILED, UNAVAILABLE};
pub use numbers::Numbers;
pub use settings::{Caller, ECHO_PROGRAM, NULL_PROGRAM, Program, RpcSettings, Split};
pub use stream::RpcStream;

/// Where calls go unless said otherwise.
pub const DEFAULT_PORT: u16 = 62_049;

/// Most bytes of a record with the marks of all its fragments.
const RECORD_BYTES_MAX: usize = LEASE_BYTES_MAX - 4 * SPLIT_MAX as usize;

/// Calls over TCP and UDP.
pub const ENTRY: WorkloadEntry = WorkloadEntry {
    default_port: DEFAULT_PORT,
    default_size: 0,
    options: &[Choice::Text(PROGRAM), Choice::Text(SPLIT)],
    kinds: &[UNAVAILABLE, DENIED, FAILED],
    particulars: |chosen, _| Ok(Particulars::of(RpcSettings::of(chosen))),
    call: |plan| Some(RpcSettings::in_plan(plan).call(plan.size)),
    ..WorkloadEntry::plain(
        ("rpc", "ONC RPC calls over TCP or UDP: of the null procedure, or with --size of one that gives back its bytes"),
        &[Scheme::TCP, Scheme::UDP],
        check,
        client,
    )
};

fn check(plan: &Plan) -> Result<(), Error> {
    let bytes = plan.size.saturating_add(Message::FRAME_MAX);
    let most = if plan.transport == Transport::Udp { DATAGRAM_BYTES_MAX } else { RECORD_BYTES_MAX };
    if bytes > most {
        let why = format!("{} bytes are over {}, the most that a call can have", plan.size, most - Message::FRAME_MAX);
        return Err(Error::Setting { name: "size", why });
    }
    check_split(plan)?;
    if plan.transport == Transport::Udp && matches!(plan.mode, Mode::Connections { .. }) {
        return Err(Error::Setting { name: "connection-rate", why: "datagrams have no connections: use --rate".to_owned() });
    }
    Ok(())
}

fn check_split(plan: &Plan) -> Result<(), Error> {
    let wrong = |why: String| Err(Error::Setting { name: "split", why });
    match RpcSettings::in_plan(plan).split {
        Split::Whole => Ok(()),
        _ if plan.transport == Transport::Udp => wrong("a datagram holds one call, which cannot be split: use tcp://".to_owned()),
        Split::Fragments(count) | Split::Bytes(count) if !(1..=SPLIT_MAX).contains(&count) => {
            wrong(format!("{count} is not between 1 and {SPLIT_MAX}"))
        }
        _ => Ok(()),
    }
}

fn client(lanes: Lanes, ends: Ends) -> Lanes {
    match ends.plan().transport {
        Transport::Tcp => lanes.client(move |lane| Engine::new(ends.course(lane), RpcStream::new(ends.plan()))),
        Transport::Udp => {
            lanes.client_datagrams(move |lane| DatagramEngine::new(ends.course(lane), RpcDatagrams::new(ends.plan())))
        }
    }
}

/// Calls over UDP, each a datagram.
pub struct RpcDatagrams {
    message: Message,
}

impl RpcDatagrams {
    /// The calls of a plan.
    pub fn new(plan: &Plan) -> Self {
        Self { message: Message::new(plan) }
    }
}

impl DatagramWorkload for RpcDatagrams {
    type Socket = Numbers;

    fn socket(&mut self, number: u64, salt: u64) -> Numbers {
        Numbers::new(number, salt)
    }

    fn request_bytes(&self) -> usize {
        self.message.bytes()
    }

    fn request(&mut self, numbers: &mut Numbers, number: u64, request: &mut [u8]) {
        numbers.made = number + 1;
        self.message.write(numbers, number, request);
    }

    fn answer(&mut self, numbers: &mut Numbers, datagram: &[u8]) -> Option<u64> {
        match self.message.read(numbers, datagram) {
            Said::Answered(number) => Some(number),
            Said::Failed(..) | Said::Nonsense => None,
        }
    }

    fn refusal(&mut self, numbers: &mut Numbers, datagram: &[u8]) -> Option<(u64, Kind)> {
        match self.message.read(numbers, datagram) {
            Said::Failed(number, kind) => Some((number, kind)),
            Said::Answered(_) | Said::Nonsense => None,
        }
    }
}
