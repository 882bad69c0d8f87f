//! hyper's hello on tokio's current-thread runtime, as hyper's own documents show it: HTTP/1.1, for each request so many bytes as it is told,
//! which are 13 where all of it is said.

use std::convert::Infallible;
use std::io;

use corelane_peers::{Protocol, arguments_for, listener, ready};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

/// What is said.
const HELLO: &[u8] = b"Hello, World!";

fn main() -> io::Result<()> {
    let arguments = arguments_for(Protocol::Tcp)?;
    let hello = Bytes::from_static(HELLO).slice(..arguments.buffer_bytes.min(HELLO.len()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = listener(arguments.address)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        ready()?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let hello = hello.clone();
            let service = service_fn(move |request| answer(request, hello.clone()));
            let serving = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
            // A connection that fails concerns nobody but its client.
            tokio::spawn(async move { drop(serving.await) });
        }
    })
}

/// Answers with `content`, which nobody copies.
async fn answer(_request: Request<Incoming>, content: Bytes) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(content)))
}
