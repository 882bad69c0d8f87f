//! Attackers of one address, and clients that must be served meanwhile: of another address, and of the attackers' own.

use crate::rig::Rig;
use corelane_sim::{Peer, Status};
use std::time::Duration;

/// The attackers' address ([`Rig::connect`]).
const ATTACKER: usize = 1;
/// That of somebody else.
const OTHER: usize = 2;
/// The attack goes on alone for so many rounds, then beside clients.
const BEFORE: usize = 110;
const ROUNDS: usize = 300;
const ROUND: Duration = Duration::from_millis(10);
/// Rounds within which each client must be served: a second.
const PATIENCE: usize = 100;

/// Connections of one address that take all they can of something bounded, while two clients ask one small thing after the other: one of another address, one of the
/// attackers' own. Each must be served within a second.
pub struct Siege {
    count: usize,
    says: Box<dyn Fn(usize) -> Vec<u8>>,
    drips: &'static str,
    again: usize,
    is_served: fn(&[u8]) -> bool,
}

impl Siege {
    /// So many attackers, each of which says this as soon as it is open; thrown out, it comes again at once.
    pub fn of(count: usize, says: impl Into<Vec<u8>>) -> Self {
        let says = says.into();
        Self::each(count, move |_| says.clone())
    }

    /// The same, of which each says its own: they are numbered, those that come again too.
    pub fn each(count: usize, says: impl Fn(usize) -> Vec<u8> + 'static) -> Self {
        Self { count, says: Box::new(says), drips: "", again: 1, is_served: |heard| !heard.is_empty() }
    }

    /// They add this every 10 ms.
    pub fn drips(mut self, drips: &'static str) -> Self {
        self.drips = drips;
        self
    }

    /// Those that were thrown out come again in one of so many rounds of 10 ms.
    pub fn again_each(mut self, rounds: usize) -> Self {
        self.again = rounds;
        self
    }

    /// How it is told that a client was served; else by whatever it hears. One that is answered otherwise asks again.
    pub fn served_if(mut self, is_served: fn(&[u8]) -> bool) -> Self {
        self.is_served = is_served;
        self
    }

    /// Goes on for some four seconds, of which clients ask in the last three.
    ///
    /// # Panics
    /// If one of them is not served within a second.
    pub fn lay(&self, rig: &mut Rig, request: &'static str) {
        let (mut attackers, mut come) = (Vec::new(), 0);
        let mut clients = [OTHER, ATTACKER].map(|number| Clients::of(number, request, self.is_served));
        for round in 0..BEFORE + ROUNDS {
            self.work(rig, &mut attackers, &mut come, round);
            rig.wait(ROUND);
            if round >= BEFORE {
                clients.iter_mut().for_each(|client| client.work(rig));
            }
        }
        for Clients { number, longest, served, .. } in &clients {
            println!("client {number}: {served} were served, the longest in {longest} rounds");
            assert!(
                *longest <= PATIENCE && *served > 3,
                "client {number}: {served} served, one waited for {longest} rounds of 10 ms"
            );
        }
        let current = clients.iter().filter_map(|client| client.current.as_ref());
        attackers.iter().chain(current).for_each(|said| said.peer.reset());
    }

    fn work(&self, rig: &Rig, attackers: &mut Vec<Said>, come: &mut usize, round: usize) {
        attackers.retain(Said::is_there);
        attackers.iter_mut().for_each(|said| said.say(self.drips.as_bytes()));
        while attackers.len() < self.count && round.is_multiple_of(self.again) {
            attackers.push(Said::by(rig, ATTACKER, (self.says)(*come)));
            *come += 1;
        }
    }
}

/// A connection that says something as soon as it is open.
struct Said {
    peer: Peer,
    /// The rest of that.
    first: Vec<u8>,
}

impl Said {
    fn by(rig: &Rig, number: usize, first: Vec<u8>) -> Self {
        Self { peer: rig.connect(number), first }
    }

    fn is_there(&self) -> bool {
        matches!(self.peer.status(), Status::Open | Status::Opening)
    }

    /// Says what it has begun with, and later on `more`.
    fn say(&mut self, more: &[u8]) {
        if self.peer.status() != Status::Open {
            return;
        }
        match self.first.is_empty() {
            true => drop(self.peer.send(more)),
            false => {
                let said = self.peer.send(&self.first);
                self.first.drain(..said);
            }
        }
    }
}

/// One after the other, each on a connection of its own.
struct Clients {
    number: usize,
    request: &'static str,
    is_served: fn(&[u8]) -> bool,
    current: Option<Said>,
    heard: Vec<u8>,
    /// Rounds since the one that is served now has come; reset or refused, it comes again.
    waited: usize,
    longest: usize,
    served: usize,
}

impl Clients {
    fn of(number: usize, request: &'static str, is_served: fn(&[u8]) -> bool) -> Self {
        Self { number, request, is_served, current: None, heard: Vec::new(), waited: 0, longest: 0, served: 0 }
    }

    fn work(&mut self, rig: &Rig) {
        self.waited += 1;
        self.longest = self.longest.max(self.waited);
        let Some(mut said) = self.current.take().filter(|said| said.is_there() || said.peer.readable_bytes() > 0) else {
            self.heard.clear();
            self.current = Some(Said::by(rig, self.number, self.request.as_bytes().to_vec()));
            return;
        };
        self.heard.extend(said.peer.read(usize::MAX));
        match (self.is_served)(&self.heard) {
            true => {
                said.peer.close();
                self.heard.clear();
                (self.waited, self.served) = (0, self.served + 1);
            }
            // It was answered otherwise: it comes again.
            false if !self.heard.is_empty() => {
                said.peer.close();
                self.heard.clear();
            }
            false => {
                said.say(b"");
                self.current = Some(said);
            }
        }
    }
}
