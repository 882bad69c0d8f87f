//! How calls can fail.

use crate::kinds::{Kind, OwnKind};

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
