//! Lanes with services in a simulated world, and clients that check every byte.
#![allow(dead_code, clippy::unwrap_used)] // each test uses its part

use corelane_lane::{Control, Core, Lane, LaneSettings, Mesh, Order, Turn as LaneTurn};
use corelane_seam::{Arena, Tuning};
use corelane_sim::{FaultCounts, FaultKind, Faults, Peer, Planted, Report, SimDriver, Status, Turn, World};
use corelane_svc::{Cx, Input, Limits, Next, Output, Services, Sharing, StreamService};
use corelane_watch::{Description, LaneName, Page, Reader, ServiceCounter, ServiceName};
use std::net::SocketAddr;
use std::sync::Arc;

/// Where the service under test listens.
pub fn address() -> SocketAddr {
    "10.0.0.1:7".parse().unwrap()
}

/// Lanes of one program in a world.
pub struct Rig {
    pub world: World,
    pub control: Arc<Control>,
    pub page: Page,
    lanes: Vec<Option<Lane<SimDriver, Services>>>,
    arenas: Vec<Arena>,
}

impl Rig {
    /// `lanes` lanes; `add` gives each its services and listens.
    pub fn new(
        world: World,
        lanes: usize,
        settings: LaneSettings,
        tuning: Tuning,
        services: &[&str],
        add: impl Fn(usize, &mut Services, &mut SimDriver, &Page),
    ) -> Self {
        let description = Description {
            program: "simulation".into(),
            services: services.iter().map(|name| ServiceName { name: name.to_string(), url: String::new() }).collect(),
            lanes: (0..lanes).map(|_| LaneName::default()).collect(),
            ..Description::default()
        };
        let page = Page::heap(&description).unwrap();
        let control = Control::new(lanes);
        let mut rig = Self { world, control, page, lanes: Vec::new(), arenas: Vec::new() };
        for (number, mesh) in Mesh::between(&rig.control, settings.channel_messages).into_iter().enumerate() {
            let arena = Arena::new(settings.memory_bytes).unwrap();
            let mut driver = rig.world.driver(arena.clone(), tuning);
            let mut services = Services::new(100_000);
            add(number, &mut services, &mut driver, &rig.page);
            let core =
                Core::new(number, &rig.control, mesh, arena.clone(), rig.page.lane(number).unwrap(), &settings, Box::new(|_| {}));
            rig.lanes.push(Some(Lane::new(driver, services, core, rig.control.clone(), settings)));
            rig.arenas.push(arena);
        }
        rig
    }

    /// One lane makes a turn.
    pub fn turn(&mut self, lane: usize) {
        if let Some(running) = self.lanes[lane].as_mut()
            && running.turn() == LaneTurn::Ended
        {
            self.lanes[lane] = None;
        }
    }

    pub fn has_ended(&self) -> bool {
        self.lanes.iter().all(Option::is_none)
    }

    /// The connections of all lanes.
    pub fn connections(&self) -> usize {
        self.lanes.iter().flatten().map(|lane| lane.work().connections()).sum()
    }

    /// A counter of a service, over all lanes.
    pub fn count(&self, service: usize, counter: ServiceCounter) -> u64 {
        let snapshot = Reader::of(&self.page).unwrap().snapshot(0);
        snapshot.services[service].values.get(counter)
    }

    /// Steps the world until nothing is left to do, `each` says stop, or too much has happened.
    pub fn run(&mut self, mut each: impl FnMut(&mut Rig, Turn) -> bool) {
        for _ in 0..2_000_000 {
            match self.world.step() {
                None => return,
                Some(Turn::Lane(lane)) => self.turn(lane),
                Some(turn) => {
                    if each(self, turn) {
                        return;
                    }
                }
            }
        }
        panic!("the world does not come to rest");
    }

    /// Drains all lanes; they must end by themselves.
    pub fn drain(&mut self, mut each: impl FnMut(&mut Rig, Turn) -> bool) {
        self.control.give(Order::Drain);
        self.run(|rig, turn| {
            each(rig, turn);
            rig.has_ended()
        });
        // The last lane may end in a turn of its own, after the last news.
        for _ in 0..1000 {
            (0..self.lanes.len()).for_each(|lane| self.turn(lane));
        }
        assert!(self.has_ended(), "lanes did not end: {} connections left", self.connections());
        for arena in &self.arenas {
            assert_eq!(arena.used(), 0, "memory of an ended lane is in use");
        }
    }
}

pub struct Echo;

impl StreamService for Echo {
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &corelane_svc::Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        cx.count_requests(1);
        output.forward(input.take_all());
        Next::Continue
    }
}

/// How many clients, and how much each sends.
#[derive(Clone, Copy)]
pub struct Clients {
    pub count: usize,
    pub bytes: usize,
}

/// A client that sends a known stream and checks what comes back.
struct Client {
    peer: Peer,
    seed: u64,
    sent: usize,
    received: usize,
    bytes: usize,
    is_over: bool,
    wrong: bool,
}

fn byte(seed: u64, at: usize) -> u8 {
    (seed.wrapping_mul(31).wrapping_add(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Client {
    fn work(&mut self) {
        let received = self.peer.read(usize::MAX);
        for got in received {
            self.wrong |= got != byte(self.seed, self.received) || self.received >= self.sent;
            self.received += 1;
        }
        match self.peer.status() {
            Status::Opening => return,
            Status::Open => {}
            _ => {
                self.is_over = true;
                self.peer.close();
                return;
            }
        }
        if self.sent < self.bytes {
            let piece: Vec<u8> =
                (self.sent..self.bytes.min(self.sent + 1 + (self.seed as usize % 701))).map(|at| byte(self.seed, at)).collect();
            self.sent += self.peer.send(&piece);
            if self.sent == self.bytes {
                self.peer.finish();
            }
        }
    }
}

/// Faults that a service without files, datagrams and cancelled operations does not meet.
const NOT_OF_STREAMS: [FaultKind; 6] = [
    FaultKind::CancelRace,
    FaultKind::FileError,
    FaultKind::ShortFileRead,
    FaultKind::DatagramLoss,
    FaultKind::DatagramDuplicate,
    FaultKind::DatagramReorder,
];

/// What a run came to.
#[derive(Default)]
pub struct Outcome {
    pub seed: u64,
    pub answered: usize,
    pub clients: usize,
    pub wrong: usize,
    pub endings: u64,
    pub accepts: u64,
    pub digest: u64,
    pub faults: FaultCounts,
    pub clean: Option<String>,
}

impl Outcome {
    pub fn expect_all_answered(&self) {
        assert_eq!((self.answered, self.wrong), (self.clients, 0), "seed {}", self.seed);
    }

    /// No byte is wrong, the contract was kept, and every accepted connection has exactly one ending.
    pub fn expect_clean(&self) {
        assert_eq!(self.wrong, 0, "seed {}: wrong bytes", self.seed);
        assert_eq!(self.clean, None, "seed {}", self.seed);
        assert_eq!(self.endings, self.accepts, "seed {}: endings against accepted connections", self.seed);
    }

    pub fn add(&mut self, other: &Outcome) {
        self.faults.add(&other.faults);
        self.answered += other.answered;
        self.clients += other.clients;
    }

    /// Prints how often each fault happened; each that streams can meet must have.
    pub fn print_faults(&self) {
        for kind in FaultKind::ALL {
            println!("{kind:?}: {}", self.faults.of(kind));
            assert!(self.faults.of(kind) > 0 || NOT_OF_STREAMS.contains(&kind), "{kind:?} never happened");
        }
    }
}

/// All endings of a service.
pub fn endings(rig: &Rig, service: usize) -> u64 {
    use ServiceCounter as C;
    [C::EndingsCompleted, C::EndingsEndOfStream, C::EndingsClosing, C::EndingsError, C::EndingsAborted]
        .iter()
        .map(|&counter| rig.count(service, counter))
        .sum()
}

pub struct Run;

impl Run {
    /// Echo on two lanes, with clients that send, finish, and check; then a drain.
    pub fn echo(seed: u64, faults: Faults, clients: Clients) -> Outcome {
        Self::echo_with(seed, faults, clients, None)
    }

    pub fn echo_with(seed: u64, faults: Faults, clients: Clients, bug: Option<Planted>) -> Outcome {
        let world = World::new(seed, faults);
        if let Some(bug) = bug {
            world.plant(bug);
        }
        let settings = LaneSettings { memory_bytes: 4 << 20, ..LaneSettings::default() };
        let mut rig = Rig::new(world.clone(), 2, settings, Tuning::default(), &["echo"], |lane, services, driver, page| {
            let echo = services.add_stream(Echo, Limits::default(), page.service(lane, 0).unwrap());
            services.listen(driver, echo, address(), Sharing { share_port: true, v6_only: false }).unwrap();
        });
        let mut list = connect(&world, seed, clients);
        rig.run(|_, turn| {
            serve_client(&mut list, turn);
            list.iter().all(|client| client.is_over)
        });
        let over = list.iter().filter(|client| client.is_over).count();
        assert_eq!(over, list.len(), "seed {seed}: {} clients still wait", list.len() - over);
        rig.drain(|_, turn| {
            serve_client(&mut list, turn);
            false
        });
        finish(seed, &world, &rig, &list)
    }
}

fn connect(world: &World, seed: u64, clients: Clients) -> Vec<Client> {
    let client = |number: usize| {
        let from = SocketAddr::from(([192, 0, 2, 1 + (number % 200) as u8], 0));
        let peer = world.connect(from, address()).unwrap();
        Client {
            peer,
            seed: seed.wrapping_mul(1000).wrapping_add(number as u64),
            sent: 0,
            received: 0,
            bytes: clients.bytes,
            is_over: false,
            wrong: false,
        }
    };
    (0..clients.count).map(client).collect()
}

fn serve_client(clients: &mut [Client], turn: Turn) {
    if let Turn::Peer(peer) = turn
        && let Some(client) = clients.iter_mut().find(|client| client.peer == peer)
        && !client.is_over
    {
        client.work();
    }
}

fn finish(seed: u64, world: &World, rig: &Rig, clients: &[Client]) -> Outcome {
    let Report { digest, faults, .. } = world.report();
    Outcome {
        seed,
        answered: clients.iter().filter(|client| client.received == client.bytes).count(),
        clients: clients.len(),
        wrong: clients.iter().filter(|client| client.wrong).count(),
        endings: endings(rig, 0),
        accepts: rig.count(0, ServiceCounter::Accepts),
        digest,
        faults,
        clean: world.check().err().map(|violation| format!("{violation:?}")),
    }
}
