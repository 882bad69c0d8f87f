//! Calls of ONC RPC (RFC 5531), over connections and over datagrams. Every reply is checked in full: the number of its call, that it was
//! accepted, its verifier, and its results.
//!
//! A call without a payload is one of procedure 0, which every program has; one with a payload is procedure 1 of a program that gives back
//! the opaque data that it is called with.

mod message;
mod stream;

use super::{Particulars, WorkloadEntry};
use crate::datagram_engine::DatagramEngine;
use crate::ends::Ends;
use crate::engine::Engine;
use crate::error::Error;
use crate::kinds::{Kind, OwnKind};
use crate::place::Scheme;
use crate::plan::{Mode, Plan};
use crate::workload::DatagramWorkload;
use corelane::Lanes;
use corelane::lanes::Transport;
use corelane::service::entry::choice::{Choice, Chosen, Text};
use corelane::service::{DATAGRAM_BYTES_MAX, LEASE_BYTES_MAX};
use corelane_wire::rpc::Xids;
use message::{Message, Said};

pub use stream::RpcStream;

/// Where calls go unless said otherwise.
pub const DEFAULT_PORT: u16 = 62_049;

/// What is called without a payload unless said otherwise: NFS version 3 (RFC 1813 section 1), whose null procedure any server of it has.
pub const NULL_PROGRAM: Program = Program { number: 100_003, version: 3 };

/// What is called with one: a number that RFC 5531 section 8.3 leaves to users.
pub const ECHO_PROGRAM: Program = Program { number: 0x2000_0007, version: 1 };

/// A program and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its number.
    pub number: u32,
    /// Its version.
    pub version: u32,
}

/// Who calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Caller {
    /// Nobody: AUTH_NONE.
    #[default]
    Nobody,
    /// A user of a machine: AUTH_SYS (RFC 5531 appendix A), without further groups.
    User {
        /// Name of the machine; what is over 255 bytes is cut.
        machine: String,
        /// Number of the user.
        uid: u32,
        /// Number of the user's group.
        gid: u32,
    },
}

/// How records are taken apart on their way, for those who test how a server puts them together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    /// Not at all: one fragment a record, and as many records as there are in one send.
    #[default]
    Whole,
    /// So many fragments a record: the first and the last of one byte, the others alike. Fewer where it has fewer bytes.
    Fragments(u32),
    /// The stream of bytes leaves in pieces of so many, each with a send of its own.
    Bytes(u32),
}

/// Most fragments of a record, and most bytes of a piece of the stream.
const SPLIT_MAX: u32 = 1_024;

/// Most bytes of a record with the marks of all its fragments.
const RECORD_BYTES_MAX: usize = LEASE_BYTES_MAX - 4 * SPLIT_MAX as usize;

/// What a plan says of calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RpcSettings {
    /// What is called; none leaves it to whether there is a payload: [`ECHO_PROGRAM`] or [`NULL_PROGRAM`].
    pub program: Option<Program>,
    /// Who calls.
    pub caller: Caller,
    /// How records are taken apart.
    pub split: Split,
}

impl RpcSettings {
    fn of(chosen: &Chosen) -> Self {
        Self {
            program: chosen.text(&PROGRAM).and_then(|text| program(text).ok()),
            caller: Caller::Nobody,
            split: chosen.text(&SPLIT).and_then(|text| split(text).ok()).unwrap_or_default(),
        }
    }

    /// What a plan says.
    pub fn in_plan(plan: &Plan) -> Self {
        plan.particulars.get()
    }

    /// What is called with payloads of `size` bytes.
    pub fn program(&self, size: usize) -> Program {
        self.program.unwrap_or(if size == 0 { NULL_PROGRAM } else { ECHO_PROGRAM })
    }

    /// What is called how, for a report.
    fn call(&self, size: usize) -> String {
        let Program { number, version } = self.program(size);
        let procedure = message::procedure(size);
        let split = match self.split {
            Split::Whole => String::new(),
            Split::Fragments(count) => format!(" in fragments: {count}"),
            Split::Bytes(count) => format!(" in bytes a send: {count}"),
        };
        let caller = if self.caller == Caller::Nobody { "" } else { " as AUTH_SYS" };
        format!("program {number} version {version} procedure {procedure}{caller}{split}")
    }
}

/// The server does not have what is called.
pub const UNAVAILABLE: Kind = Kind::Own(&OwnKind {
    place: 0,
    name: "rpc_unavailable",
    meaning: "the server does not have the program, version or procedure (RFC 5531 section 9: PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL)",
});

/// The server did not accept the call.
pub const DENIED: Kind = Kind::Own(&OwnKind {
    place: 1,
    name: "rpc_denied",
    meaning: "the server did not accept the call: its version of RPC, or who calls (MSG_DENIED)",
});

/// The server did not carry the call out.
pub const FAILED: Kind = Kind::Own(&OwnKind {
    place: 2,
    name: "rpc_failed",
    meaning: "the server could not read the call, or not carry it out (GARBAGE_ARGS, SYSTEM_ERR)",
});

const PROGRAM: Text = Text::new(
    "program",
    "PROGRAM:VERSION",
    |text| program(text).map(drop),
    "what is called [default: 100003:3, NFS; with --size 536870919:1, an echo program]",
);

const SPLIT: Text = Text::new(
    "split",
    "N|bytes",
    |text| split(text).map(drop),
    "send each record in N fragments; or, with bytes or bytes=N, the stream of records in pieces of 1 or N bytes, each with a send of its own",
);

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

/// Reads `100003:3`.
fn program(text: &str) -> Result<Program, String> {
    let parts = text.split_once(':').and_then(|(number, version)| Some((number.parse().ok()?, version.parse().ok()?)));
    let (number, version) = parts.ok_or_else(|| format!("{text:?} is not PROGRAM:VERSION: write for example 100003:3"))?;
    Ok(Program { number, version })
}

/// Reads `3`, `bytes` or `bytes=100`.
fn split(text: &str) -> Result<Split, String> {
    let wrong = |_| format!("{text:?} is neither a number of fragments, nor bytes, nor bytes=N");
    match text.strip_prefix("bytes") {
        None => text.parse().map(Split::Fragments).map_err(wrong),
        Some("") => Ok(Split::Bytes(1)),
        Some(rest) => rest.strip_prefix('=').unwrap_or(text).parse().map(Split::Bytes).map_err(wrong),
    }
}

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

/// Connections, or sockets, whose numbers of calls start so far apart.
const XID_STRIDE: u64 = 0x9e37_79b1;

/// Calls of one connection or socket: their numbers, and how many were made.
pub struct Numbers {
    /// Where its payloads stand in the pattern.
    base: u64,
    xids: Xids,
    made: u64,
}

impl Numbers {
    fn new(number: u64, salt: u64) -> Self {
        Self { base: number.wrapping_mul(message::PLACE_STRIDE).wrapping_add(salt), xids: xids(number, salt), made: 0 }
    }
}

fn xids(number: u64, salt: u64) -> Xids {
    Xids::new(number.wrapping_mul(XID_STRIDE).wrapping_add(salt) as u32)
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
