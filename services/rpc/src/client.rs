//! Calls of programs elsewhere, from a lane.
//!
//! A client is a value that a service of yours keeps: [`StreamClient`] in the session of a connection that it opened
//! ([`Cx::connect`](corelane::Cx::connect)), [`DatagramClient`] beside a socket ([`Cx::open_datagrams`](corelane::Cx::open_datagrams)). It
//! numbers calls, matches replies, and knows what is overdue; the service hands it what arrives and keeps a timer for
//! what is due. With each call goes a value of yours, which comes back with the results, or with why there are none: exactly once.
//!
//! ```
//! use corelane::service::Ending;
//! use corelane::{Cx, Input, Next, Output, Peer, Silent, StreamService};
//! use corelane_rpc::client::{CallError, StreamClient};
//! use corelane_rpc::rpc::{Auth, CallHead, NULL};
//! use std::net::SocketAddr;
//! use std::time::Duration;
//!
//! /// Opens a connection, makes one call, and prints what became of it.
//! struct Ping;
//!
//! const NFS_NULL: CallHead<'_> =
//!     CallHead { xid: 0, program: 100_003, version: 3, procedure: NULL, credential: Auth::NONE, verifier: Auth::NONE };
//!
//! impl StreamService for Ping {
//!     type Talk = Silent;
//!     type Session = StreamClient<&'static str>;
//!
//!     fn started(&mut self, cx: &mut Cx<'_>) {
//!         let _ = cx.connect(SocketAddr::from(([127, 0, 0, 1], 2049)), StreamClient::<&str>::new(16, 1 << 20, 0));
//!     }
//!
//!     fn open(&mut self, _: &mut Cx<'_>, _: &Peer) -> Self::Session {
//!         StreamClient::new(16, 1 << 20, 0)
//!     }
//!
//!     fn connected(&mut self, cx: &mut Cx<'_>, client: &mut Self::Session, output: &mut Output) -> Next {
//!         match client.call(cx.now(), output, &NFS_NULL, &(), Duration::from_secs(1), "the server answers") {
//!             Ok(_) => Next::Continue,
//!             Err(_) => Next::Abort,
//!         }
//!     }
//!
//!     fn receive(&mut self, _: &mut Cx<'_>, client: &mut Self::Session, input: &mut Input, _: &mut Output) -> Next {
//!         let next = client.receive(input, |words, results| println!("{words}: {results:?}"));
//!         if client.is_empty() { Next::Close } else { next.unwrap_or(Next::Abort) }
//!     }
//!
//!     fn closed(&mut self, _: &mut Cx<'_>, mut client: Self::Session, _: Ending) {
//!         client.lost().for_each(|words| println!("{words}: {}", CallError::Lost));
//!     }
//! }
//! ```

mod datagrams;
mod stream;

pub use datagrams::{DatagramClient, OverdueCall};
pub use stream::StreamClient;

use corelane_wire::Error;
use corelane_wire::rpc::{Acceptance, CallHead, Denial, Reply, Verdict};
use corelane_wire::xdr::{Encode, Writer};
use std::fmt;

/// Why a call has no results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// The server does not have the program (RFC 5531 section 9, PROG_UNAVAIL). Ask rpcbind where it is.
    ProgramUnavailable,
    /// The server has other versions of the program (PROG_MISMATCH).
    ProgramMismatch {
        /// The lowest.
        low: u32,
        /// The highest.
        high: u32,
    },
    /// The program has no such procedure (PROC_UNAVAIL).
    ProcedureUnavailable,
    /// The server could not read the arguments (GARBAGE_ARGS): the caller is at fault.
    GarbageArguments,
    /// The server failed (SYSTEM_ERR); its own log says why.
    SystemError,
    /// The server did not accept the call (MSG_DENIED): its version of RPC, or its credential.
    Denied(Denial),
    /// The server's reply cannot be read: the server is at fault.
    Unreadable(Error),
    /// No reply came in time.
    TimedOut,
    /// Nobody is there: the network said so.
    Refused,
    /// The connection was lost before the reply had come.
    Lost,
    /// As many calls are under way as may be: wait for one to end, or make the client with a greater limit.
    Full {
        /// The limit.
        limit: u32,
    },
    /// The lane's memory is used up; nothing was sent.
    NoMemory,
    /// The arguments cannot be written, or are longer than the client's limit: the caller is at fault.
    Arguments(Error),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProgramUnavailable => f.write_str("the server does not have the program; ask rpcbind where it is"),
            Self::ProgramMismatch { low, high } => {
                write!(f, "the server has versions {low} to {high} of the program; call one of these")
            }
            Self::ProcedureUnavailable => f.write_str("the server's program has no such procedure; call another one"),
            Self::GarbageArguments => f.write_str("the server could not read the arguments; the caller must mend them"),
            Self::SystemError => f.write_str("the server failed; its own log says why"),
            Self::Denied(Denial::RpcMismatch { low, high }) => {
                write!(f, "the server speaks RPC versions {low} to {high}; here is version 2")
            }
            Self::Denied(Denial::Authentication(status)) => {
                write!(f, "the server refuses the credential ({status:?}); call with another one")
            }
            Self::Unreadable(error) => write!(f, "the server's reply cannot be read: {error}"),
            Self::TimedOut => f.write_str("no reply came in time; see whether the server runs, or wait for longer"),
            Self::Refused => f.write_str("nobody listens there; start the server"),
            Self::Lost => f.write_str("the connection was lost before the reply came; open it again"),
            Self::Full { limit } => write!(f, "{limit} calls are under way, as many as may be; wait, or raise the limit"),
            Self::NoMemory => f.write_str("the lane's memory is used up; give it more"),
            Self::Arguments(error) => write!(f, "the arguments cannot be sent: {error}"),
        }
    }
}

impl std::error::Error for CallError {}

/// The number of a reply, and the results or why there are none. A verifier is not looked at: those that are served prove nothing.
///
/// # Errors
/// What is no reply.
fn results(message: &[u8]) -> Result<(u32, Result<&[u8], CallError>), Error> {
    let reply = Reply::parse(message)?;
    let outcome = match reply.verdict {
        Verdict::Denied(denial) => return Ok((reply.xid, Err(CallError::Denied(denial)))),
        Verdict::Accepted { outcome, .. } => outcome,
    };
    let results = match outcome {
        Acceptance::Success(results) => Ok(results),
        Acceptance::ProgramUnavailable => Err(CallError::ProgramUnavailable),
        Acceptance::ProgramMismatch { low, high } => Err(CallError::ProgramMismatch { low, high }),
        Acceptance::ProcedureUnavailable => Err(CallError::ProcedureUnavailable),
        Acceptance::GarbageArguments => Err(CallError::GarbageArguments),
        Acceptance::SystemError => Err(CallError::SystemError),
    };
    Ok((reply.xid, results))
}

/// Memory for one call, before it is copied to where it leaves from.
struct Scratch {
    memory: Vec<u8>,
    /// The most bytes.
    limit: usize,
}

impl Scratch {
    /// What it begins with: enough for most calls.
    const BYTES: usize = 1_024;

    fn new(limit: usize) -> Self {
        Self { memory: vec![0; Self::BYTES.min(limit)], limit }
    }

    /// What `content` writes; the memory grows up to the limit for it.
    fn write(&mut self, content: impl Fn(&mut Writer<'_>) -> Result<(), Error>) -> Result<&mut [u8], CallError> {
        loop {
            let mut writer = Writer::new(&mut self.memory);
            match content(&mut writer) {
                Ok(()) => {
                    let length = writer.len();
                    return Ok(&mut self.memory[..length]);
                }
                Err(Error::NoRoom { .. }) if self.memory.len() < self.limit => {
                    let more = (self.memory.len() * 2).clamp(1, self.limit);
                    self.memory.resize(more, 0);
                }
                Err(error) => return Err(CallError::Arguments(error)),
            }
        }
    }
}

/// A call as a message: `what` with a number, and its arguments.
fn encode(to: &mut Writer<'_>, xid: u32, what: &CallHead<'_>, arguments: &impl Encode) -> Result<(), Error> {
    CallHead { xid, ..*what }.encode(to)?;
    arguments.encode(to)
}
