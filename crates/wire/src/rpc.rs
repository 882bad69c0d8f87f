//! ONC RPC version 2 (RFC 5531): calls, replies, authentication, record marking.
//!
//! What a server does about each defect is decided here, so that no service decides it anew:
//!
//! | what came | what is owed | why |
//! | --- | --- | --- |
//! | a message that ends inside its header, or of a type that is neither call nor reply | close | nothing can be answered, and what follows cannot be trusted; RFC 5531 section 9 defines no answer |
//! | a reply | drop | an answer to an answer could go back and forth for ever |
//! | a call of another RPC version | `RPC_MISMATCH` 2 to 2, however short the rest is | section 9 |
//! | a credential or verifier over 400 bytes | `AUTH_BADCRED`, `AUTH_BADVERF` | section 8.2 bounds them |
//! | AUTH_NONE with a body, AUTH_SYS that does not parse | `AUTH_BADCRED` | section 10.1, appendix A |
//! | AUTH_SHORT | `AUTH_REJECTEDCRED` | appendix A: the caller sends its AUTH_SYS again; none is ever handed out here |
//! | RPCSEC_GSS, any other flavour | `AUTH_REJECTEDCRED` | section 8.2: not a broken seal, but nothing that is served here |
//! | a verifier that is not an empty AUTH_NONE | `AUTH_BADVERF` | section 10.1, appendix A |
//! | another program, version, or procedure | `PROG_UNAVAIL`, `PROG_MISMATCH`, `PROC_UNAVAIL` | section 9 |
//! | arguments that do not parse | `GARBAGE_ARGS` | section 9 |
//! | bytes after the arguments | nothing: passed over | section 9 is silent, and common servers do so |
//! | a record over a limit | close | section 11: its end cannot be found without reading it |
//!
//! Over datagrams, where nothing can be closed, close means drop.

mod auth;
mod call;
mod calls;
mod due;
mod program;
mod record;
mod refusal;
mod reply;

pub use auth::{Auth, AuthStatus, AuthSys, BODY_BYTES_MAX, Flavour, GIDS_MAX, Identity, MACHINE_NAME_BYTES_MAX};
pub use call::{Call, CallHead};
pub use calls::{CALLS_MAX, CallCounts, Calls, Overdue, Patience, Xids};
pub use program::Program;
pub use record::{FRAGMENT_BYTES_MAX, RecordLimits, Records, Step, mark, write_record, write_split};
pub use refusal::{Owed, Refusal};
pub use reply::{Acceptance, Denial, Reply, Verdict, success_head};

/// The version of the protocol (RFC 5531 section 9, `RPC_VERS`).
pub const VERSION: u32 = 2;

/// Message types (RFC 5531 section 9, `msg_type`).
const CALL: u32 = 0;
const REPLY: u32 = 1;

/// The procedure that every program has by convention, without arguments and results (RFC 5531 section 12.1).
pub const NULL: u32 = 0;
