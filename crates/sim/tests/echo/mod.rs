//! One run: two echo lanes, fifty clients and a few senders of datagrams, from one seed.

mod chores;
mod clients;
mod service;
mod watching;

use clients::{Client, Sender};
use corelane_seam::{Address, Driver, Unix};
use corelane_sim::{FaultKind, Faults, Planted, Random, Report, Turn, World};
use service::{EchoLane, Found, Inbox};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

const LANES: usize = 2;
/// Far more than any run takes: beyond it something goes round in circles.
const STEPS_MAX: usize = 1_000_000;

pub struct Run {
    world: World,
    random: Random,
    lanes: Vec<EchoLane>,
    clients: BTreeMap<usize, Client>,
    senders: BTreeMap<usize, Sender>,
    stop: Rc<Cell<bool>>,
}

/// Over what the clients of a run reach its lanes.
#[derive(Clone, Copy)]
enum Way {
    Network,
    /// A Unix name. Who finds a queue full there is told so instead of waiting, so there are no more than fit.
    UnixName,
}

impl Way {
    fn clients(self) -> usize {
        match self {
            Self::Network => 50,
            Self::UnixName => 8,
        }
    }

    fn senders(self) -> usize {
        match self {
            Self::Network => 4,
            Self::UnixName => 1,
        }
    }

    /// Where lanes are bound, and where they find themselves.
    fn homes(self) -> [Address; 2] {
        match self {
            Self::Network => ["0.0.0.0:7", "127.0.0.1:7"].map(|address| address.parse().unwrap()),
            Self::UnixName => [(); 2].map(|()| "unix:@echo".parse().unwrap()),
        }
    }

    /// Where lanes are for clients, and where those and the senders are.
    fn ends(self, world: &World) -> [SocketAddr; 3] {
        match self {
            Self::Network => ["10.0.0.1:7", "192.0.2.1:0", "192.0.2.2:0"].map(|address| address.parse().unwrap()),
            Self::UnixName => {
                let names = [Unix::hidden(b"echo"), Ok(Unix::UNNAMED.of_user(7)), Unix::hidden(b"sender")];
                names.map(|name| world.named(&name.unwrap()))
            }
        }
    }
}

/// Plays the whole run of `seed`; returns what the world counted, and what was wrong.
pub fn play(seed: u64, faults: Faults, bug: Option<Planted>) -> (Report, Found<()>) {
    play_over(Way::Network, seed, faults, bug)
}

/// The same over Unix sockets.
pub fn play_at_name(seed: u64, faults: Faults) -> (Report, Found<()>) {
    play_over(Way::UnixName, seed, faults, None)
}

fn play_over(way: Way, seed: u64, faults: Faults, bug: Option<Planted>) -> (Report, Found<()>) {
    let mut run = Run::new(way, seed, faults, bug);
    let found = run.play();
    let world = run.world.clone();
    drop(run);
    let found = found.and_then(|()| world.check().map_err(|violation| violation.to_string()));
    (world.report(), found)
}

impl Run {
    fn new(way: Way, seed: u64, faults: Faults, bug: Option<Planted>) -> Self {
        let world = World::new(seed, faults);
        if let Some(bug) = bug {
            world.plant(bug);
        }
        let (mut random, stop) = (Random::new(!seed), Rc::new(Cell::new(false)));
        let [address, own] = way.homes();
        let lanes = (0..LANES).map(|_| EchoLane::new(&world, random.bits(), &address, stop.clone()));
        let mut lanes: Vec<_> = lanes.collect();
        let doors: Vec<(Inbox, _)> = lanes.iter().map(|lane| (lane.inbox.clone(), lane.driver.bell())).collect();
        for (index, lane) in lanes.iter_mut().enumerate() {
            for (_, (inbox, bell)) in doors.iter().enumerate().filter(|(other, _)| *other != index) {
                lane.meet(inbox.clone(), bell.clone());
            }
            (0..2).for_each(|_| lane.ask(own.clone()));
        }
        let [to, client, sender] = way.ends(&world);
        let clients = (0..way.clients()).map(|_| Client::new(&world, &mut random, client, to));
        let clients = clients.map(|client| (client.peer.id(), client)).collect();
        let senders = (0..way.senders()).map(|_| Sender::new(&world, &mut random, sender, to));
        let senders = senders.map(|sender| (sender.peer.id(), sender)).collect();
        Self { world, random, lanes, clients, senders, stop }
    }

    fn play(&mut self) -> Found<()> {
        self.settle()?;
        self.check_clients()?;
        self.stop.set(true);
        self.lanes.iter().for_each(|lane| lane.driver.bell().ring());
        self.settle()?;
        if self.lanes.iter().all(EchoLane::is_over) { Ok(()) } else { Err("a lane did not stop".to_string()) }
    }

    /// Runs until nobody has anything to do.
    fn settle(&mut self) -> Found<()> {
        for _ in 0..STEPS_MAX {
            let Some(turn) = self.world.step() else { return Ok(()) };
            match turn {
                Turn::Lane(lane) => self.lanes[lane].turn()?,
                Turn::Peer(peer) => self.clients.get_mut(&peer.id()).ok_or("an unknown client")?.turn(&mut self.random)?,
                Turn::Alarm(id) => self.clients.get_mut(&(id as usize)).ok_or("an unknown alarm")?.let_read(&mut self.random)?,
                Turn::Datagrams(peer) => self.senders.get_mut(&peer.id()).ok_or("an unknown sender")?.turn()?,
                Turn::Incoming(peer) => return Err(format!("nobody listens for {peer:?}")),
            }
        }
        Err("the run goes round in circles".to_string())
    }

    fn check_clients(&self) -> Found<()> {
        if let Some(lane) = self.lanes.iter().position(|lane| !lane.is_idle()) {
            return Err(format!("lane {lane} sleeps with work to do"));
        }
        let faults = self.world.report().faults;
        let no = |kind| faults.of(kind) == 0;
        // Connections that no lane has seen.
        let unseen = faults.of(FaultKind::AbortedAccept) + faults.of(FaultKind::LostAccept);
        for client in self.clients.values() {
            if !client.is_done || (no(FaultKind::Reset) && unseen == 0 && !client.is_complete()) {
                return Err(format!("{:?} waits for its echo", client.peer));
            }
        }
        for sender in self.senders.values() {
            let lost = sender.got.len() < sender.sent() && no(FaultKind::DatagramLoss) && no(FaultKind::DatagramRefused);
            let doubled = sender.got.values().any(|&times| times > 1) && no(FaultKind::DatagramDuplicate);
            if lost || doubled {
                return Err(format!("{:?} got {} of {} datagrams", sender.peer, sender.got.len(), sender.sent()));
            }
        }
        let closed: u64 = self.lanes.iter().map(|lane| lane.messages).sum();
        if closed + unseen < self.clients.len() as u64 { Err(format!("{closed} messages between lanes")) } else { Ok(()) }
    }
}
