//! The world: one clock, one source of chance, and who runs next.

use crate::check::{Ledger, Violation};
use crate::clock::Clock;
use crate::driver::SimDriver;
use crate::faults::{FaultCounts, FaultKind, Faults, Planted};
use crate::files::Files;
use crate::lane::{Lane, Trouble};
use crate::log::{Detail, Log, Site};
use crate::net::detached::Detachments;
use crate::net::streams::imbalance;
use crate::net::{Network, Owner};
use crate::peers::{DatagramPeer, Peer};
use crate::state::{Event, Notice, State, World};
use crate::wire::Wire;
use corelane_seam::{Arena, Fault, Instant, Interest, Random, Tuning, nanoseconds};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

/// The most nanoseconds that the clock jumps forward.
const JUMP_MAX: u64 = 2_000_000_000;

/// Who is to run next: what [`World::step`] returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    /// The lane of this number ([`SimDriver::lane`]): let it make one turn, which collects once.
    Lane(usize),
    /// This peer has news: it is open, failed, or has bytes, room, or an end.
    Peer(Peer),
    /// This datagram peer has received.
    Datagrams(DatagramPeer),
    /// A lane has connected to an address where the test listens; this is the test's end.
    Incoming(Peer),
    /// The time of an alarm has come; this is its token.
    Alarm(u64),
}

/// One of the machines of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host(usize);

/// What a world has seen so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The time.
    pub now: Instant,
    /// Turns given to lanes.
    pub turns: u64,
    /// Operations pushed to all drivers.
    pub operations: u64,
    /// How often each fault happened.
    pub faults: FaultCounts,
    /// How often the planted bug struck.
    pub planted: u64,
    /// A digest of the whole log: equal for equal runs.
    pub digest: u64,
}

impl World {
    /// A world with one host, which has 127.0.0.0/8, ::1, 10.0.0.1 and fd00::1.
    pub fn new(seed: u64, faults: Faults) -> Self {
        let state = State {
            clock: Clock::new(),
            random: Random::new(seed),
            faults,
            counts: FaultCounts::default(),
            planted: None,
            planted_count: 0,
            keeps_sends: false,
            shared: std::collections::BTreeMap::new(),
            log: Log::new(),
            ledger: Ledger::new(),
            net: Network::new(),
            wire: Wire::default(),
            files: Files::new(),
            disk_delay: 0,
            far_delay: None,
            disk_is_broken: false,
            lanes: Vec::new(),
            detached: Detachments::default(),
            peers: Vec::new(),
            notices: Vec::new(),
            turns: 0,
        };
        let world = Self(Rc::new(RefCell::new(state)));
        world.host(&[IpAddr::from([10, 0, 0, 1]), IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 1])]);
        world
    }

    /// Adds a machine with these addresses beside its loopback ones; an address that another host has stays there.
    pub fn host(&self, addresses: &[IpAddr]) -> Host {
        Host(self.0.borrow_mut().net.add_host(addresses))
    }

    /// Gives the first host other addresses: sockets that are open stay as they are, new ones find the new addresses.
    pub fn renumber(&self, addresses: &[IpAddr]) {
        self.0.borrow_mut().net.renumber(0, addresses);
    }

    /// The driver of a new lane on the first host. `arena` is the lane's memory.
    pub fn driver(&self, arena: Arena, tuning: Tuning) -> SimDriver {
        self.driver_on(Host(0), arena, tuning)
    }

    /// The driver of a new lane on `host`.
    pub fn driver_on(&self, host: Host, arena: Arena, tuning: Tuning) -> SimDriver {
        self.refuse_memory(&arena);
        let state = &mut *self.0.borrow_mut();
        state.lanes.push(Lane::new(host.0, arena, tuning));
        let lane = state.lanes.len() - 1;
        if state.strikes(FaultKind::FragmentedArena) {
            state.fragment(lane);
        }
        SimDriver::new(self.clone(), lane)
    }

    /// Has chance refuse what the arena would lend its services.
    fn refuse_memory(&self, arena: &Arena) {
        // The world has the arena: one of the two must not keep the other.
        let state = Rc::downgrade(&self.0);
        arena.refuse_when(move || {
            let Some(state) = state.upgrade() else { return false };
            let state = &mut *state.borrow_mut();
            // Nothing is drawn for it where it never happens.
            state.faults.refused_memory > 0 && state.strikes(FaultKind::RefusedMemory)
        });
    }

    /// From now on the driver of lane `lane` panics when it is asked for completions, as a real one does whose descriptor was taken away.
    /// What it has open then is closed by the system, and no breach.
    pub fn break_driver(&self, lane: usize) {
        let own = &mut self.0.borrow_mut().lanes[lane];
        own.trouble = Some(Trouble::Broken);
        own.bell_rang = true;
    }

    /// From now on lane `lane` makes no turn, as one whose service does not return, or whose CPU others have.
    pub fn hold_up(&self, lane: usize) {
        self.0.borrow_mut().lanes[lane].trouble = Some(Trouble::Stuck);
    }

    /// Lane `lane` goes on, if it was held up ([`World::hold_up`]).
    pub fn let_go(&self, lane: usize) {
        self.0.borrow_mut().lanes[lane].trouble.take_if(|trouble| *trouble == Trouble::Stuck);
    }

    /// The time, by the clock that all lanes share.
    pub fn now(&self) -> Instant {
        Instant::from_nanoseconds(self.0.borrow().clock.now())
    }

    /// Lets things happen until somebody has a reason to run, and picks who runs, by chance among all who could. The
    /// clock moves only as far as needed. None: nobody will ever run again unless the test does something; if the
    /// run is not over by then, a wake-up was lost or everybody waits for everybody.
    pub fn step(&self) -> Option<Turn> {
        let chosen = self.0.borrow_mut().choose()?;
        Some(match chosen {
            Chosen::Lane(lane) => Turn::Lane(lane),
            Chosen::Notice(Notice::Peer(id)) => self.peer_turn(id),
            Chosen::Notice(Notice::Incoming(id)) => Turn::Incoming(self.peer(id)),
            Chosen::Notice(Notice::Alarm(token)) => Turn::Alarm(token),
        })
    }

    /// The turn of a peer that has news.
    fn peer_turn(&self, id: usize) -> Turn {
        match self.0.borrow().peers[id].port {
            Some(port) => Turn::Datagrams(self.datagram_peer(id, port)),
            None => Turn::Peer(self.peer(id)),
        }
    }

    /// Lets so much time pass, with all that happens in it, without a turn for anybody.
    pub fn pass(&self, time: Duration) {
        let state = &mut *self.0.borrow_mut();
        let end = state.clock.now().saturating_add(nanoseconds(time));
        state.let_happen();
        while let Some(next) = state.clock.next_time().filter(|&next| next <= end) {
            state.clock.advance_to(next);
            state.let_happen();
        }
        state.clock.advance_to(end);
    }

    /// Has [`World::step`] return [`Turn::Alarm`] with `token` once the clock shows `time`.
    pub fn alarm(&self, time: Instant, token: u64) {
        self.0.borrow_mut().clock.at(time.nanoseconds(), Event::Alarm { token });
    }

    /// Files that the lanes have open.
    pub fn open_files(&self) -> usize {
        self.0.borrow().lanes.iter().map(|lane| lane.files.len()).sum()
    }

    /// From now on lane `lane` has at most `most` descriptors open (RLIMIT_NOFILE); what is open above that stays. Without a call there
    /// is no limit.
    pub fn limit_descriptors(&self, lane: usize, most: usize) {
        self.0.borrow_mut().lanes[lane].descriptors.limit(most);
    }

    /// How many descriptors lane `lane` has open: sockets, connections it is opening, files, and those of the test.
    pub fn open_descriptors(&self, lane: usize) -> usize {
        self.0.borrow().lanes[lane].descriptors.count()
    }

    /// Opens a descriptor of somebody else in the table of lane `lane`, for [`Op::Poll`](corelane_seam::Op::Poll), ready for nothing. To
    /// other lanes its number means nothing, or something else.
    ///
    /// # Errors
    /// [`NoDescriptor`](corelane_seam::Reason::NoDescriptor) at the table's limit.
    pub fn open_foreign(&self, lane: usize) -> Result<i32, Fault> {
        let own = &mut self.0.borrow_mut().lanes[lane];
        let number = own.descriptors.open()?;
        own.foreign.insert(number, Interest::default());
        Ok(number)
    }

    /// Makes a descriptor that [`World::open_foreign`] opened in the table of lane `lane` ready, and only for this.
    ///
    /// # Panics
    /// If it is not open there.
    pub fn set_ready(&self, lane: usize, descriptor: i32, ready: Interest) {
        self.0.borrow_mut().make_ready(lane, descriptor, ready);
    }

    /// Closes what [`World::open_foreign`] opened.
    ///
    /// # Panics
    /// If it is not open there.
    pub fn close_foreign(&self, lane: usize, descriptor: i32) {
        let own = &mut self.0.borrow_mut().lanes[lane];
        assert!(own.foreign.remove(&descriptor).is_some(), "descriptor {descriptor} is not open in the table of lane {lane}");
        own.descriptors.close(descriptor);
    }

    /// Has the system read all that is sent from now on, whoever has taken it, until this is called with `false`: no send's memory is released meanwhile, as if each
    /// met [`Faults::late_release`](crate::Faults).
    pub fn keep_sends(&self, keeps: bool) {
        let state = &mut *self.0.borrow_mut();
        state.keeps_sends = keeps;
        if !keeps {
            state.release_all();
        }
    }

    /// Plants a bug in every driver of this world.
    pub fn plant(&self, bug: Planted) {
        self.0.borrow_mut().planted = Some(bug);
    }

    /// Whether the contract was kept, at the end of a run: when the lanes have closed everything, collected all
    /// completions, and given back their memory. Their drivers may be gone by then.
    ///
    /// # Errors
    /// The first breach: every operation ends exactly once, every socket is closed once and after its operations, all
    /// memory is released and unchanged until then, no bell is lost, and bytes are neither made, lost nor changed.
    pub fn check(&self) -> Result<(), Violation> {
        self.0.borrow_mut().close_dropped();
        self.0.borrow().verdict()
    }

    /// The counts so far.
    pub fn report(&self) -> Report {
        let state = self.0.borrow();
        Report {
            now: Instant::from_nanoseconds(state.clock.now()),
            turns: state.turns,
            operations: state.ledger.pushed(),
            faults: state.counts,
            planted: state.planted_count,
            digest: state.log.digest(),
        }
    }

    /// The last 65,536 events as lines: time in nanoseconds, place, event.
    pub fn log(&self) -> Vec<String> {
        self.0.borrow().log.lines().collect()
    }
}

enum Chosen {
    Lane(usize),
    Notice(Notice),
}

impl State {
    fn choose(&mut self) -> Option<Chosen> {
        if self.strikes(FaultKind::ClockJump) {
            let jump = self.random.below(JUMP_MAX);
            self.clock.advance(jump);
        }
        loop {
            self.let_happen();
            if let Some(chosen) = self.pick() {
                return Some(chosen);
            }
            let wake_ups = self.lanes.iter().filter_map(Lane::wake_up);
            let next = wake_ups.chain(self.clock.next_time()).min()?;
            if let Some(lane) = self.pick_sleeper() {
                return Some(Chosen::Lane(lane));
            }
            self.clock.advance_to(next);
        }
    }

    /// Everything whose time has come.
    fn let_happen(&mut self) {
        self.close_dropped();
        (0..self.lanes.len()).for_each(|lane| self.hear(lane));
        while let Some(event) = self.clock.due() {
            self.happen(event);
        }
    }

    /// Picks among the lanes and notices that could come next.
    fn pick(&mut self) -> Option<Chosen> {
        let now = self.clock.now();
        let runnable = |lane: &Lane| lane.is_runnable(now);
        let lanes = self.lanes.iter().filter(|lane| runnable(lane)).count();
        let choices = lanes + self.notices.len();
        if choices == 0 {
            return None;
        }
        let choice = self.random.below(choices as u64) as usize;
        if let Some(index) = choice.checked_sub(lanes) {
            let notice = self.notices.remove(index);
            if let Notice::Peer(peer) = notice {
                self.peers[peer].notified = false;
            }
            return Some(Chosen::Notice(notice));
        }
        let lane = (0..self.lanes.len()).filter(|&lane| runnable(&self.lanes[lane])).nth(choice)?;
        Some(Chosen::Lane(self.turn(lane)))
    }

    /// Wakes a sleeping lane without a reason, if chance wants it.
    fn pick_sleeper(&mut self) -> Option<usize> {
        let asleep: Vec<_> = (0..self.lanes.len()).filter(|&lane| self.lanes[lane].is_asleep()).collect();
        if asleep.is_empty() || !self.strikes(FaultKind::SpuriousWake) {
            return None;
        }
        let lane = asleep[self.random.below(asleep.len() as u64) as usize];
        Some(self.turn(lane))
    }

    fn turn(&mut self, lane: usize) -> usize {
        self.turns += 1;
        self.lanes[lane].is_woken = self.lanes[lane].is_asleep();
        self.log.note(self.clock.now(), Site::Lane(lane), "turns", Detail::Nothing);
        lane
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Syn { attempt } => self.syn(attempt),
            Event::Opened { attempt } => self.opened(attempt),
            Event::AttemptFails { attempt, fault } => self.fail_attempt(attempt, fault),
            Event::Arrival { stream, side } => self.arrive(stream, side),
            Event::Packet { host, packet } => self.arrive_packet(host, packet),
            Event::NobodyThere { host, from, to } => self.nobody_there(host, from, to),
            Event::Due => {}
            Event::Bell { lane } => self.hear_late(lane),
            Event::Memory { lane, socket } => self.wake_socket(lane, socket),
            Event::TableHasRoom { lane } => self.lanes[lane].descriptors.is_filled = false,
            Event::Mended { lane } => self.mend(lane),
            Event::Stop { lane, stop } => self.stop_late(lane, stop),
            Event::Release { lane, number } => self.release(lane, number),
            Event::Withhold { lane, socket } => self.withhold(lane, socket),
            Event::File { lane, asked, work } => self.work_on_file(lane, asked, work),
            Event::Told { lane, number } => self.told(lane, number),
            Event::Offload { lane, asked, work } => self.run_offloaded(lane, asked, work),
            Event::Alarm { token } => self.notices.push(Notice::Alarm(token)),
            Event::FrameLeaves { card, queue, epoch } => self.frame_leaves(card, queue, epoch),
            Event::FrameRead { card, queue, epoch, frames } => self.frame_read(card, queue, epoch, frames),
            Event::Frame { card, bytes } => self.frame_arrives(card, bytes),
            Event::CardUp { card } => self.come_up(card),
        }
    }

    fn verdict(&self) -> Result<(), Violation> {
        self.ledger.verdict()?;
        self.wire.verdict()?;
        match self.net.streams.values().flat_map(|stream| &stream.ends).filter(|end| end.owner == Owner::Detached).count() {
            0 => {}
            connections => return Err(Violation::NeverAdopted { connections }),
        }
        for (index, lane) in self.lanes.iter().enumerate() {
            lane.verdict(index)?;
        }
        let streams = self.net.streams.values();
        match streams.filter(|stream| stream.ends.iter().any(|end| end.owner != Owner::Waiting)).find_map(imbalance) {
            Some(violation) => Err(violation),
            None => Ok(()),
        }
    }
}
