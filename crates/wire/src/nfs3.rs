//! NFS version 3 (RFC 1813): arguments and results of its 22 procedures.
//!
//! Names, targets of links, handles and data are views. Times, attributes and the rest are values of fixed size. A server
//! reads `call.arguments::<nfs3::ReadArguments>()` and writes a `ReadResult`; for data that goes another way it writes
//! a [`ReadHead`] and lets data and padding follow.
