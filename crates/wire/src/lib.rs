//! Bytes to meaning and back, without input or output.
//!
//! Each format is a module that reads views out of `&[u8]` and writes into a [`Writer`](xdr::Writer) over memory of the
//! caller. Nothing here allocates (but [`rpc::Calls`], once, when it is made), opaque data is never copied, and every length that a peer names is held against a bound
//! before it is used. A value that exists is legal: what RFCs bound is bounded by the type.
//!
//! | module | format | source |
//! | --- | --- | --- |
//! | [`xdr`] | external data representation | RFC 4506 |
//! | [`rpc`] | ONC RPC version 2, its record marking, AUTH_NONE and AUTH_SYS | RFC 5531 |
//! | [`rpcbind`] | port mapper (version 2) and rpcbind (versions 3 and 4), universal addresses | RFC 1833, RFC 5665 |
//! | [`http1`] | HTTP/1.1, for servers and clients | RFC 9110, RFC 9112, RFC 3986 |
//! | [`hello`] | the name that a client of TLS asks for | RFC 8446, RFC 6066 |
//! | [`nfs3`] | arguments and results of NFS version 3 | RFC 1813 |
//! | [`pattern`] | a stream of bytes whose places tell what they are | this project |
//! | [`packet`] | packets: Ethernet, VLAN, ARP, IP, ICMP, UDP, TCP, tunnels | the RFCs that each file names |
//!
//! A server's way through one call, from the bytes of a stream to the reply:
//!
//! ```
//! use corelane_wire::{Error, rpc, xdr};
//!
//! const ECHO: rpc::Program = rpc::Program { number: 0x2000_0001, low: 1, high: 1 };
//!
//! fn serve<'a>(message: &'a [u8]) -> Result<(u32, &'a [u8]), rpc::Refusal> {
//!     let call = rpc::Call::parse(message)?;
//!     ECHO.admit(&call)?;
//!     match call.procedure {
//!         0 => Ok((call.xid, &[])),
//!         1 => Ok((call.xid, call.arguments::<xdr::Opaque<'_, 1024>>()?.bytes())),
//!         _ => Err(call.procedure_unavailable()),
//!     }
//! }
//!
//! # let mut memory = [0; 256];
//! # let mut request = xdr::Writer::new(&mut memory);
//! # let auth = rpc::Auth::NONE;
//! # let head = rpc::CallHead { xid: 7, program: 0x2000_0001, version: 1, procedure: 1, credential: auth, verifier: auth };
//! # rpc::write_record(&mut request, 0, |to| {
//! #     xdr::Encode::encode(&head, to)?;
//! #     xdr::Encode::encode(&xdr::Opaque::<1024>::new(b"hello")?, to)
//! # })?;
//! # let stream = request.written();
//! let mut records = rpc::Records::new(rpc::RecordLimits { bytes: 1 << 20, fragments: 64 });
//! let rpc::Step::Record(range) = records.next(stream)? else { panic!("one fragment is contiguous") };
//!
//! let mut memory = [0; 256];
//! let mut output = xdr::Writer::new(&mut memory);
//! match serve(&stream[range]) {
//!     Ok((xid, data)) => rpc::write_record(&mut output, 0, |to| {
//!         to.put(&rpc::success_head(xid))?;
//!         to.opaque(data)
//!     })?,
//!     Err(refusal) => match refusal.owed {
//!         rpc::Owed::Answer(reply) => rpc::write_record(&mut output, 0, |to| xdr::Encode::encode(&reply, to))?,
//!         rpc::Owed::Drop | rpc::Owed::Close => {}
//!     },
//! }
//! assert_eq!(output.written().len(), 4 + 24 + 4 + 8);
//! # Ok::<(), Error>(())
//! ```
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod error;
pub mod hello;
pub mod http1;
pub mod nfs3;
pub mod packet;
pub mod pattern;
pub mod proxy;
pub mod rpc;
pub mod rpcbind;
pub mod xdr;

pub use error::Error;
