//! hyper on simulated lanes: both of its sides over a network with faults, how it drains, and peers that mean no good.

mod answers;
mod attack;
mod bounds;
mod drain;
mod frames;
mod paces;
mod runtime;
mod talk;

use corelane::aio;
use corelane::testing::{Faults, Rig, RigPlan, World, patient};
use corelane_hyper::Here;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Error, Request, Response};
use std::cell::Cell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

type Answer = Response<BoxBody<Bytes, Error>>;

/// Bytes of one piece of an endless answer.
const PIECE: usize = 16 << 10;

/// A body of so many pieces, which counts those that were asked for.
struct Pieces {
    left: usize,
    made: Rc<Cell<usize>>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        self.made.set(self.made.get() + 1);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[7; PIECE])))))
    }
}

fn full(text: String) -> BoxBody<Bytes, Error> {
    Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed()
}

/// `/echo` sends back what comes while it comes, `/wait` answers after a second, `/sum` after it has all; anything else at once.
async fn answer(here: Here, request: Request<Incoming>) -> Result<Answer, Error> {
    let body = match request.uri().path() {
        "/echo" => request.into_body().boxed(),
        "/wait" => {
            here.sleep(Duration::from_secs(1)).await;
            full("waited".to_owned())
        }
        "/sum" => full(request.into_body().collect().await?.to_bytes().len().to_string()),
        "/nothing" => Empty::new().map_err(|never| match never {}).boxed(),
        path => full(format!("hello from {path}")),
    };
    Ok(Response::new(body))
}

fn served() -> aio::Serve {
    corelane_hyper::serve(|here, _peer| {
        let here = here.clone();
        service_fn(move |request| answer(here.clone(), request))
    })
}

/// One lane without faults that serves this.
fn rig(make: impl Fn() -> aio::Serve) -> (World, Rig) {
    let world = World::new(1, Faults::none());
    let rig = Rig::serving(&world, &RigPlan::lanes(1), patient(), move |_lane| make());
    (world, rig)
}
