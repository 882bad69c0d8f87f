//! hyper and axum applications, HTTP/1.1 and HTTP/2, on Corelane's lanes: what changes is `main`.
//!
//! ```no_run
//! use corelane::Lanes;
//! use hyper::body::{Bytes, Incoming};
//! use hyper::service::service_fn;
//! use hyper::{Request, Response};
//! use http_body_util::Full;
//! use std::convert::Infallible;
//!
//! async fn hello(_request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
//!     Ok(Response::new(Full::new(Bytes::from_static(b"hello\n"))))
//! }
//!
//! Lanes::per_core().serve("tcp://127.0.0.1:8080", |_lane| corelane_hyper::serve(|_here, _peer| service_fn(hello)))?.run()
//! # ; Ok::<(), corelane::Error>(())
//! ```
#![doc = include_str!("../DESIGN.md")]
#![forbid(unsafe_code)]

mod course;
mod enter;
mod frames;
mod heads;
mod here;
mod io;
mod serve;

pub use enter::enter;
pub use here::{Here, Sleep};
pub use io::Io;
pub use serve::{Working, serve};

/// The version of hyper whose types stand in signatures here.
pub use hyper;
