//! Virtual hosts: each request is answered by its own site, at once, later, in parts, and after an alarm, whoever else is asked meanwhile.

use super::answers::{answers, text};
use super::for_seeds;
use super::rig::{Rig, RigPlan, Talker, patient};
use corelane::service::{Outcome, Refused, Shared};
use corelane::testing::{FaultKind, Faults, Random, World};
use corelane::{Cx, Silent};
use corelane_http::http1::{Method, Status};
use corelane_http::{Application, Exchange, First, Flow, Goes, Handled, Held, Hosts, Http, Parts, Produced, Reply, Request};
use std::collections::BTreeMap;
use std::time::Duration;

/// Says its name, in all the ways there are.
struct Site {
    name: &'static str,
    tokens: u64,
    last: u64,
    held: BTreeMap<u64, Held>,
}

impl Site {
    fn new(name: &'static str, tokens: u64) -> Self {
        Self { name, tokens, last: 0, held: BTreeMap::new() }
    }

    fn token(&mut self) -> u64 {
        self.last += 1;
        self.tokens + self.last
    }

    fn answer(&mut self, cx: &mut Cx<'_>, token: u64) {
        let held = self.held.remove(&token).expect("it is this site's");
        assert!(held.answer(cx, Status::OK).bytes::<()>(self.name.as_bytes()).is_ok());
    }
}

/// Takes content, then says how much there was, and the site's name.
struct Sum(usize);

impl Exchange<Site> for Sum {
    fn content(&mut self, _site: &mut Site, _cx: &mut Cx<'_>, piece: Shared) -> Flow {
        self.0 += piece.len();
        Flow::More
    }

    fn go_on(&mut self, _site: &mut Site, _cx: &mut Cx<'_>, reply: Reply<'_>) -> Result<Goes, Refused> {
        assert_eq!(self.0, 5);
        reply.answer(Status::OK).begin(None).map(Goes::Produce)
    }

    fn produce(&mut self, site: &mut Site, _cx: &mut Cx<'_>, parts: &mut Parts<'_>) -> Produced {
        if parts.write(site.name.as_bytes()).is_err() { Produced::More } else { Produced::End }
    }
}

impl Application for Site {
    type Talk = Silent;

    fn request(&mut self, cx: &mut Cx<'_>, request: &Request<'_>, reply: Reply<'_>) -> Result<Handled<Self>, Refused> {
        match (request.path(), request.content()) {
            ("/now", _) => reply.text(self.name),
            ("/sum", _) => Ok((Sum(0), First::Receive(9)).into()),
            ("/collect", None) => Ok(Handled::Collect(9)),
            ("/collect", Some(_)) => reply.text(self.name),
            (path, _) => {
                let (held, handled) = reply.hold(100, None)?;
                let token = self.token();
                self.held.insert(token, held);
                match path {
                    "/alarm" => cx.start_alarm(Duration::from_millis(1), token).expect("there is room for alarms"),
                    _ => cx.offload(|| (), token),
                }
                Ok(handled)
            }
        }
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, _outcome: Outcome) {
        self.answer(cx, token);
    }

    fn alarm(&mut self, cx: &mut Cx<'_>, token: u64) {
        self.answer(cx, token);
    }
}

fn hosts(default: bool) -> Hosts<Site> {
    let mut hosts = Hosts::new(default.then_some(|tokens| Site::new("default", tokens)));
    hosts.add("shop.example", |tokens| Site::new("shop", tokens)).unwrap();
    hosts.add("*.example", |tokens| Site::new("others", tokens)).unwrap();
    hosts
}

#[test]
fn each_request_is_answered_by_its_own_site() {
    for_seeds(100, |seed| {
        let world = World::new(seed, Faults::all(seed));
        let mut random = Random::new(seed);
        let has_default = seed.is_multiple_of(2);
        let mut rig = Rig::serving(&world, &RigPlan::lanes(random.one_to(2)), patient(), |_| Http::new(hosts(has_default)));
        let fallback = if has_default { "default" } else { "421 Misdirected Request\n" };
        let mut due = Vec::new();
        let mut stream = String::new();
        for _ in 0..20 {
            let (host, site) = [
                ("shop.example", "shop"),
                ("SHOP.example.:80", "shop"),
                ("a.b.EXAMPLE", "others"),
                ("example", fallback),
                ("[::1]:8080", fallback),
            ][random.below(5) as usize];
            due.push(site);
            stream += &match random.below(5) {
                0 => format!("GET /now HTTP/1.1\r\nHost: {host}\r\n\r\n"),
                1 => format!("GET http://{host}/later HTTP/1.1\r\nHost: x\r\n\r\n"),
                2 => format!("GET /alarm HTTP/1.1\r\nHost: {host}\r\n\r\n"),
                3 => format!("PUT /sum HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\nabcde"),
                _ => format!("POST /collect HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\nabcde"),
            };
        }
        let mut talkers = vec![Talker::new(rig.connect(0), seed, stream.into_bytes())];
        rig.play(&mut talkers);
        let is_whole = talkers[0].is_complete();
        rig.close(&mut talkers);
        let (heard, ..) = answers(&talkers[0].got, &[Method::Get; 20], is_whole);
        assert!(heard.len() == 20 || !is_whole, "{} of 20", heard.len());
        let refused = world.report().faults.of(FaultKind::RefusedMemory) > 0;
        for (heard, due) in heard.iter().zip(due) {
            // Where a site was refused memory, the client is told 503.
            assert!(text(&heard.content) == due || refused && heard.status == 503, "{}: {due}", text(&heard.content));
        }
        assert_eq!(rig.named("panics"), 0);
    });
}
