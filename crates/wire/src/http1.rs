//! HTTP/1.1 (RFC 9110, RFC 9112), for servers and for clients.
//!
//! A connection is heads and contents in turn. Each has a machine that is shown the bytes that are there, in any split, and says what of
//! them is what: [`Requests`] (or [`Responses`]), then [`Body`]. None keeps bytes. What is refused has a status, and whether the connection must
//! close ([`Refusal`]).
//!
//! ```
//! use corelane_wire::http1::{Body, Limits, Part, Refusal, Requests, Scratch, Step};
//!
//! let stream = b"PUT /a HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
//! let mut scratch = Scratch::new();
//! let Step::Request { head, bytes } = Requests::new(Limits::default()).next(stream, &mut scratch)? else { panic!("it is whole") };
//! assert_eq!((head.target.path, head.authority.map(|found| found.host)), (&b"/a"[..], Some(&b"b"[..])));
//!
//! let mut body = Body::new(head.framing, 1 << 20)?;
//! let mut rest = &stream[bytes..];
//! assert_eq!(body.next(rest)?, Part::Data(3..8));
//! rest = &rest[8..];
//! assert_eq!(body.next(rest)?, Part::End(7));
//! # Ok::<(), Refusal>(())
//! ```

mod authority;
mod body;
mod chunk;
mod coding;
mod condition;
mod date;
mod facts;
mod fields;
mod lines;
mod list;
mod method;
mod multipart;
mod part;
mod passing;
pub mod path;
pub mod percent;
mod range;
mod refusal;
mod request;
mod response;
mod status;
mod tag;
mod target;
mod token;
mod write;

pub use authority::Authority;
pub use body::Body;
pub use chunk::{EXTENSION_BYTES_MAX, TRAILER_BYTES_MAX};
pub use coding::{Coding, Codings, coding, codings};
pub use condition::{Condition, Validators, condition, range_applies};
pub use date::Date;
pub use facts::Framing;
pub use fields::{FIELDS_MAX, Fields, Scratch, trailers};
pub use method::{METHOD_BYTES_MAX, Method, Version};
pub use multipart::{ContentRange, Parts};
pub use part::Part;
pub use passing::{end_to_end, is_alike};
pub use range::{RANGES_MAX, Ranges, Span, Spans, ranges};
pub use refusal::Refusal;
pub use request::{EMPTY_LINES_MAX, Limits, Request, Requests, Step};
pub use response::{Answer, Response, Responses};
pub use status::Status;
pub use tag::Tag;
pub use target::{Form, Target};
pub use write::{
    CHUNK_END, DIGITS_MAX, FieldLines, check_field, decimal, write_chunk_begin, write_last_chunk, write_request, write_response,
};
