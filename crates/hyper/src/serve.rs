//! The service: each connection is served by hyper, in the protocol that it begins with.

use crate::course::{Course, InHand};
use crate::heads::HEAD_BYTES_MAX;
use crate::here::Here;
use crate::io::Io;
use corelane::aio::{self, Connection, Either, Lane, Serve, select};
use corelane::service::Peer;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper::{Request, Response, StatusCode};
use pin_project_lite::pin_project;
use std::error::Error;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

type Fault = Box<dyn Error + Send + Sync>;

/// How an HTTP/2 connection begins (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A service of a hyper service: `make` makes the one of each connection, given the lane and the two ends. The protocol is the one that the
/// client begins with: HTTP/1.0 and 1.1, or HTTP/2 with prior knowledge or behind TLS's ALPN.
///
/// In a drain, requests that have begun are answered to their end, within `drain_limit`, and clients are told: by `Connection: close` in HTTP/1.1, by GOAWAY in HTTP/2.
/// When another process takes over, they are told in the same way about a second before the drain.
/// Of a connection on which nothing has begun, all is answered that was readable as the drain began.
///
/// An application that fails while it answers (its body ends with an error) has its connection broken off in HTTP/1.1, so that nobody takes what there is for the whole; in HTTP/2 its stream.
pub fn serve<M, S, B>(make: M) -> Serve
where
    M: Fn(&Here, &Peer) -> S + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + 'static,
    S::Future: 'static,
    S::Error: Into<Fault>,
    B: Body + 'static,
    B::Error: Into<Fault>,
{
    let make = Rc::new(make);
    aio::each(async move |lane: Lane, connection: Connection| {
        let here = Here::new(lane);
        let service = make(&here, &connection.peer());
        let connection = Rc::new(connection);
        // Any other fault is the peer's, or the connection's: it is counted as that ends.
        if converse(here, connection.clone(), service).await.is_err_and(|fault| is_of_application(&fault)) {
            connection.abort();
        }
    })
}

/// Whether it was the application that failed: what it has answered so far is no whole answer, and must not look like one.
fn is_of_application(fault: &Fault) -> bool {
    fault.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_user)
}

async fn converse<S, B>(here: Here, connection: Rc<Connection>, service: S) -> Result<(), Fault>
where
    S: Service<Request<Incoming>, Response = Response<B>> + 'static,
    S::Future: 'static,
    S::Error: Into<Fault>,
    B: Body + 'static,
    B::Error: Into<Fault>,
{
    // hyper makes up to 400 KiB of each answer that is asked for, whether or not anything leaves.
    connection.hold_input(true);
    let is_http2 = begins_with_preface(&connection).await?;
    // HTTP/2 ends by its own rules; HTTP/1.1 does while a request is in hand.
    connection.outlive_drain(is_http2);
    let course = Course::new(&connection, is_http2);
    let (io, service) = (Io::of(connection.clone(), course.clone()), Counted { course, service });
    if is_http2 {
        let mut serving = pin!(http2::Builder::new(here.clone()).timer(here).serve_connection(io, service));
        if let Either::First(outcome) = select(serving.as_mut(), connection.leaving()).await {
            return Ok(outcome?);
        }
        serving.as_mut().graceful_shutdown();
        return Ok(serving.await?);
    }
    // A head that begins must come whole within the service's `read_limit`, and is counted there.
    let mut http1 = http1::Builder::new();
    http1.timer(here).header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX);
    let mut serving = pin!(http1.serve_connection(io, service));
    if let Either::First(outcome) = select(serving.as_mut(), connection.draining()).await {
        return Ok(outcome?);
    }
    serving.as_mut().graceful_shutdown();
    Ok(serving.await?)
}

/// Whether the client speaks HTTP/2: as soon as what has come decides it.
async fn begins_with_preface(connection: &Connection) -> aio::Result<bool> {
    let mut wanted = 1;
    // A beginning that is shorter than the preface and like it decides nothing yet.
    while connection.fill(wanted).await? {
        let begun = connection.input(|input| {
            let there = input.len().min(PREFACE.len());
            input.contiguous(there).map(|bytes| (bytes == &PREFACE[..there], there))
        });
        match begun {
            Some((true, there)) if there < PREFACE.len() => {
                assert!(there >= wanted, "what was waited for has come");
                wanted = there + 1;
            }
            Some((is_preface, _)) => return Ok(is_preface),
            // No memory to look at it in one piece: it is hyper's to refuse.
            None => return Ok(false),
        }
    }
    Ok(false)
}

/// A service whose requests are counted, and during which the connection is at work.
struct Counted<S> {
    course: Rc<Course>,
    service: S,
}

impl<S, B> Service<Request<Incoming>> for Counted<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
{
    type Response = Response<Working<B>>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let in_hand = InHand::new(&self.course);
        Answering { answer: self.service.call(request), in_hand: Some(in_hand) }
    }
}

pin_project! {
    /// The answer to one request on its way.
    struct Answering<F> {
        #[pin]
        answer: F,
        in_hand: Option<InHand>,
    }
}

impl<F, B, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<Working<B>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut answer = ready!(this.answer.poll(context))?;
        let in_hand = this.in_hand.take();
        let hand = in_hand.as_ref().expect("a request is answered once"); // reason: it is taken with the answer alone
        if hand.sends_away() && answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            // hyper closes behind it.
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        hand.goes_on();
        Poll::Ready(Ok(answer.map(|body| Working { body, in_hand })))
    }
}

pin_project! {
    /// A body that is being answered: until its end its connection is at work.
    pub struct Working<B> {
        #[pin]
        body: B,
        in_hand: Option<InHand>,
    }
}

impl<B: Body> Body for Working<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = ready!(this.body.poll_frame(context));
        this.in_hand.iter().for_each(InHand::goes_on);
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
