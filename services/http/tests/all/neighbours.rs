//! An application whose lanes ask each other: what another replies is the answer to a request that waits here.
#![forbid(unsafe_code)]

use corelane::service::{Asking, Asks, Call, Lost, Origin, Refused};
use corelane::{Cx, Lanes};
use corelane_http::http1::Status;
use corelane_http::{Application, Handled, Held, Http, Reply, Request};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Asks a lane for its number.
type Talk = Asks<u32, String>;

#[derive(Default)]
struct Neighbours {
    waiting: BTreeMap<Asking, Held>,
}

impl Application for Neighbours {
    type Talk = Talk;

    fn request(&mut self, cx: &mut Cx<'_, Talk>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        let lane: usize = request.path()[1..].parse().unwrap();
        let (held, handled) = reply.hold(64, None)?;
        match cx.ask(lane, 7) {
            Ok(asking) => drop(self.waiting.insert(asking, held)),
            Err(_) => held.answer(cx, Status::NOT_FOUND).bytes(b"no such lane")?,
        }
        Ok(handled)
    }

    fn asked(&mut self, cx: &mut Cx<'_, Talk>, _from: Origin, question: u32, call: Call<Talk>) {
        let answer = format!("{question} on lane {}", cx.lane());
        cx.reply(call, answer);
    }

    fn replied(&mut self, cx: &mut Cx<'_, Talk>, asking: Asking, outcome: Result<String, Lost>) {
        let held = self.waiting.remove(&asking).unwrap();
        held.answer(cx, Status::OK).bytes::<()>(outcome.unwrap().as_bytes()).unwrap();
    }
}

#[test]
fn what_another_lane_replies_is_the_answer() {
    let lanes = Lanes::per_core().lanes(2);
    let running = lanes.serve("tcp://127.0.0.1:0", |_| Http::new(Neighbours::default())).unwrap().start().unwrap();
    for lane in 0..2 {
        let mut stream = TcpStream::connect(running.address().inet().unwrap()).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        write!(stream, "GET /{lane} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with(&format!("7 on lane {lane}")), "{answer}");
    }
}
