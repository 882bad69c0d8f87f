//! Both sides of hyper over a network with all its faults.

use crate::simulated::served;
use corelane::aio::{self, Lane};
use corelane::testing::{FaultKind, Faults, Scene, at, simulate};
use corelane_hyper::{Here, Io};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response, StatusCode};
use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::time::Duration;

type Outcome<T> = Result<T, Box<dyn Error>>;
type Asked = Request<Full<Bytes>>;

/// All faults but those that end connections between lanes; and memory that is refused.
fn gentle(seed: u64) -> Faults {
    let ends = [FaultKind::Reset, FaultKind::AbortedAccept, FaultKind::LostAccept, FaultKind::FilledTable, FaultKind::ClockJump];
    let refused = [0, 20, 100][(seed % 3) as usize];
    ends.into_iter().fold(Faults::all(seed), |faults, kind| faults.with(kind, 0)).with(FaultKind::RefusedMemory, refused)
}

fn post(path: &str, bytes: &Bytes) -> Asked {
    Request::post(format!("http://x{path}")).header("host", "x").body(Full::new(bytes.clone())).unwrap()
}

async fn body(response: Response<Incoming>) -> Outcome<Bytes> {
    assert_eq!(response.status(), StatusCode::OK);
    Ok(response.into_body().collect().await?.to_bytes())
}

/// Asks one after the other.
async fn ask_http1(lane: &Lane, bytes: &Bytes) -> Outcome<()> {
    let io = Io::new(Rc::new(lane.connect(at(7)).await?));
    let (mut sender, connection) = http1::handshake(io).await?;
    lane.spawn(connection)?;
    for _ in 0..3 {
        assert!(body(sender.send_request(post("/echo", bytes)).await?).await? == *bytes, "another echo");
        sender.ready().await?;
        let sum = body(sender.send_request(post("/sum", bytes)).await?).await?;
        assert_eq!(sum, bytes.len().to_string());
        sender.ready().await?;
    }
    Ok(())
}

/// Asks all at once.
async fn ask_http2(lane: &Lane, bytes: &Bytes) -> Outcome<()> {
    let here = Here::new(lane.clone());
    let io = Io::new(Rc::new(lane.connect(at(7)).await?));
    let (sender, connection) = http2::Builder::new(here.clone()).timer(here).handshake(io).await?;
    lane.spawn(connection)?;
    let left = Rc::new(Cell::new(0));
    for path in ["/echo", "/sum", "/echo", "/nothing", "/wait"] {
        let (mut sender, bytes, count) = (sender.clone(), bytes.clone(), left.clone());
        left.set(left.get() + 1);
        lane.spawn(async move {
            let Ok(response) = sender.send_request(post(path, &bytes)).await else { return };
            let Ok(answer) = body(response).await else { return };
            match path {
                "/echo" => assert!(answer == bytes, "another echo"),
                "/sum" => assert_eq!(answer, bytes.len().to_string()),
                "/wait" => assert_eq!(answer, "waited"),
                _ => assert!(answer.is_empty()),
            }
            count.set(count.get() - 1);
        })?;
    }
    for _ in 0..1000 {
        if left.get() == 0 {
            return Ok(());
        }
        lane.sleep(Duration::from_millis(10)).await;
    }
    Err(format!("{} of the requests have no answer", left.get()).into())
}

fn scene(scene: &mut Scene, is_http2: bool) {
    scene.memory(8 << 20);
    scene.serve(7, |_lane| served());
    let done = Rc::new(Cell::new(0));
    let count = done.clone();
    let length = scene.random().below(150_000) as usize;
    scene.client(move |_lane| {
        let count = count.clone();
        aio::main(async move |lane: Lane| {
            let bytes: Bytes = (0..length).map(|at| at as u8).collect();
            // The network breaks connections off as they open: until one holds.
            for _ in 0..50 {
                let asked = if is_http2 { ask_http2(&lane, &bytes).await } else { ask_http1(&lane, &bytes).await };
                if asked.is_ok() {
                    return count.set(count.get() + 1);
                }
            }
        })
    });
    // The lanes end when it has come to its end.
    scene.connect(7).say("x").pause(Duration::from_secs(60)).reset();
    scene.check(move |_| match done.get() {
        2 => Ok(()),
        done => Err(format!("{done} of two lanes have heard all")),
    });
}

fn run(is_http2: bool) {
    match simulate(40, gentle, |played| scene(played, is_http2)) {
        Ok(summary) => println!("{summary}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn http1_is_spoken_whatever_the_network_does() {
    run(false);
}

#[test]
fn http2_is_spoken_whatever_the_network_does() {
    run(true);
}
