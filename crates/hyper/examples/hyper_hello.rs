//! hyper's hello on lanes: HTTP/1.1 and HTTP/2. Where it is served may be given: `hyper_hello tcp://127.0.0.1:8080`.
use corelane::{Lanes, Result};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use std::convert::Infallible;

/// Says hello.
pub async fn hello(_request: Request<Incoming>) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from_static(b"Hello, World!"))))
}

fn main() -> Result<()> {
    let place = std::env::args().nth(1).unwrap_or_else(|| "tcp://127.0.0.1:8080".to_owned());
    Lanes::per_core().serve(&place, |_lane| corelane_hyper::serve(|_here, _peer| service_fn(hello)))?.run()
}
