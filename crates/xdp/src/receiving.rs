//! The kernel's receiving of interfaces, in threads of its own beside the lanes, for sockets of the kernel: under a flood each lane keeps its user fraction of its
//! CPU. In softirq it would keep nothing, whatever its priority (`Documentation/networking/napi.rst`, threaded NAPI; sched(7)).
//!
//! ```text
//! interface -- a veth without a program? a program that passes all --> NAPIs --> a thread each --> bound to the CPU of its lane, with the weight of Share
//! news of the link --> the same again: an interface that comes up may have all of it anew         end --> as it was
//! ```
//!
//! A veth runs ordinary packets past any NAPI unless its driver runs a program. The program goes with this process, however that ends, and the threads with it. A
//! card's threads stay when the process is killed: [`left_behind`] finds them.

mod spent;

use crate::attaching::{obstacle, there};
use crate::claims;
use crate::errors::{Error, SCHEDULING};
use crate::link::{self, Interface};
use crate::napi::{self, Napi, SETTING, Setting};
use crate::share::{Share, USER_FRACTION_MAX};
use corelane_os::netlink::{Attributes, Notices};
use corelane_os::scheduling::{Scheduling, bind, cpus_of, group_weight};
use corelane_os::{clock, errno, kernel_files};
use corelane_select::bpf::assembly::{Alu, Assembler, Register};
use corelane_select::bpf::{Program, ProgramKind, XdpLink, XdpMode};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::write;
use spent::Spent;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// `struct ifinfomsg`.
const HEAD_BYTES: usize = 16;
/// What a program returns that lets the kernel have a packet (`XDP_PASS`).
const PASS: i32 = 2;
/// The weight of a thread of nice 0.
const ORDINARY: u32 = 1024;
/// How often it is looked how long the threads have run, and whether the process before has ended, where there is one.
const LOOKS: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// The thread of a lane, beside which a thread of the kernel receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneThread {
    /// The CPU to which it is bound.
    pub cpu: usize,
    /// Its number (gettid(2)).
    pub thread: u32,
}

/// What the operator should know of the receiving of interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Told {
    /// An interface was given a program that passes all.
    Attached {
        /// The interface.
        name: Box<str>,
    },
    /// No weight comes near enough to the user fraction.
    Missed {
        /// What was asked for, in per cent.
        asked: u8,
        /// What lanes have, per mille of their CPUs.
        lane: u32,
    },
    /// Lanes have a priority beside which no weight counts.
    RealTime,
    /// The process before still governs an interface; this one does so when that has ended.
    Waits {
        /// The interface.
        name: Box<str>,
    },
    /// The receiving of an interface is not governed any more.
    Lost {
        /// The interface.
        name: Box<str>,
        /// Why not, and the remedy.
        error: Error,
    },
    /// It is governed again.
    Again {
        /// The interface.
        name: Box<str>,
    },
    /// At the end an interface's threads could not be taken back.
    Kept {
        /// The interface.
        name: Box<str>,
        /// Why not, and the remedy.
        error: Error,
    },
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Attached { name } => write!(
                f,
                "{name} was given an XDP program that passes all, without which a veth's receiving runs in no thread: the other end of its wire \
                 sends no segments to be cut (TSO) meanwhile"
            ),
            Self::Missed { asked, lane } => {
                let (points, tenths) = (lane / 10, lane % 10);
                write!(
                    f,
                    "no weight of a thread leaves lanes the {asked} % of their CPUs that were asked for: they have {points}.{tenths} % under a \
                     flood; remedy: lanes of another nice value or weight of their control group (cpu.weight), fewer queues, or another --user-frac"
                )
            }
            Self::RealTime => f.write_str(
                "lanes have a real-time priority, beside which no weight counts: receiving has what they leave; remedy: an ordinary policy (chrt -o)",
            ),
            Self::Waits { name } => {
                write!(f, "the process before still governs the receiving of {name}: this one does so when that has ended")
            }
            Self::Lost { name, error } => write!(
                f,
                "the receiving of {name} does not keep to the user fraction any more, and a flood may take the CPUs of lanes: {error}"
            ),
            Self::Again { name } => write!(f, "the receiving of {name} keeps to the user fraction again"),
            Self::Kept { name, error } => write!(
                f,
                "threads of the kernel go on receiving at {name}: {error}; remedy: {}",
                taking_back(name)
            ),
        }
    }
}

/// What takes an interface's threads back, as it would be typed.
pub(crate) fn taking_back(name: &str) -> String {
    format!("echo 0 > {}", receive_setting(name))
}

/// The file by which all of an interface's receivers get threads, or none.
pub fn receive_setting(name: &str) -> String {
    format!("{}/{SETTING}", napi::folder(name))
}

/// The receiving of some interfaces, governed as long as this lives.
pub struct ReceiveThreads {
    state: Arc<Mutex<Arrangement>>,
    follower: Mutex<Option<Follower>>,
    tell: Tell,
}

type Tell = Arc<dyn Fn(Told) + Send + Sync>;

/// The thread that hears of interfaces, and what ends it.
struct Follower {
    thread: JoinHandle<()>,
    end: Arc<OwnedFd>,
}

impl ReceiveThreads {
    /// Has these interfaces, of the calling thread's network namespace, received by threads beside these lanes, which keep `user_fraction` per cent of their CPUs
    /// (0 to 99) under a flood. What is found later is given to `tell`, on a thread of this; what is found now is returned. Four times a second that thread says to `spent`
    /// for how many nanoseconds threads have run beside each lane, and the user fraction.
    ///
    /// With `waits`, an interface that another process governs is taken when that has ended; else it is refused.
    ///
    /// Needs CAP_NET_ADMIN and CAP_SYS_NICE, CAP_BPF for a veth without a program, Linux 6.8, and the machine's first PID namespace.
    ///
    /// # Errors
    /// Why one of them cannot be, and the remedy; all are as they were then.
    ///
    /// # Panics
    /// If there are no lanes, or the user fraction is greater.
    pub fn start(
        interfaces: &[Box<str>],
        lanes: Vec<LaneThread>,
        user_fraction: u8,
        waits: bool,
        tell: impl Fn(Told) + Send + Sync + 'static,
        spent: impl Fn(&[u64], u8) + Send + 'static,
    ) -> Result<(Self, Vec<Told>), Error> {
        assert!(!lanes.is_empty() && user_fraction <= USER_FRACTION_MAX, "a lane keeps a part of its CPU");
        let refused = |error: io::Error| Error::of("netlink", errno::of(&error), "");
        // What changes from now on is heard.
        let notices = Notices::hear(libc::RTMGRP_LINK).map_err(refused)?;
        let interfaces: Vec<_> = interfaces.iter().map(|name| Governed::new(name, waits)).collect();
        let mut state = Arrangement { spent: Spent::beside(lanes.len()), lanes, user_fraction, interfaces, missed: None };
        let told = match state.apply(true) {
            Ok(told) => told,
            Err(error) => {
                // What could not be had is what is said.
                let _kept = state.revert();
                return Err(error);
            }
        };
        state.say_spent(&spent);
        let (state, tell): (_, Tell) = (Arc::new(Mutex::new(state)), Arc::new(tell));
        let this = Self { state: state.clone(), follower: Mutex::new(None), tell: tell.clone() };
        let end = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| refused(error.into()))?);
        let body = {
            let end = end.clone();
            move || follow(&state, &notices, &end, &tell, &spent)
        };
        let thread = Builder::new().name("receiving".to_owned()).spawn(body).map_err(refused)?;
        *lock(&this.follower) = Some(Follower { thread, end });
        Ok((this, told))
    }

    /// Has lanes keep another user fraction from now on, in per cent; returns what the operator should know.
    ///
    /// # Errors
    /// Why an interface cannot be told; the others are.
    ///
    /// # Panics
    /// If it is greater than 99.
    pub fn set(&self, user_fraction: u8) -> Result<Vec<Told>, Error> {
        assert!(user_fraction <= USER_FRACTION_MAX, "receiving keeps something");
        let mut state = lock(&self.state);
        state.user_fraction = user_fraction;
        state.apply(true)
    }

    /// The user fraction in force, in per cent.
    pub fn user_fraction(&self) -> u8 {
        lock(&self.state).user_fraction
    }

    /// Has all as it was before. What cannot be is told.
    pub fn end(&self) {
        let Some(Follower { thread, end }) = lock(&self.follower).take() else { return };
        let written = write(&*end, &1_u64.to_ne_bytes());
        assert!(written.is_ok(), "a counter at 0 takes 1");
        // A panic of its own has been told.
        let _panic = thread.join();
        lock(&self.state).revert().into_iter().for_each(|told| (self.tell)(told));
    }
}

impl Drop for ReceiveThreads {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for ReceiveThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        let names: Vec<_> = state.interfaces.iter().map(|one| &one.name).collect();
        write!(f, "ReceiveThreads({names:?}, {} %)", state.user_fraction)
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves at most an interface that is looked at again with the next news.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hears of interfaces until told to end, has all in force again that they may have lost, and says how long threads have run.
fn follow(state: &Mutex<Arrangement>, notices: &Notices, end: &OwnedFd, tell: &Tell, spent: &impl Fn(&[u64], u8)) {
    loop {
        let mut waited_for = [PollFd::new(notices, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        let waits = lock(state).interfaces.iter().any(Governed::waits);
        // What interrupts it is looked at as news would be.
        let _news = poll(&mut waited_for, Some(&LOOKS));
        if waited_for[1].revents().contains(PollFlags::IN) {
            return;
        }
        let mut state = lock(state);
        state.say_spent(spent);
        let mut is_meant = waits;
        let taken = notices.take(|_, body| is_meant |= name_in(body).is_some_and(|name| state.has(&name)));
        if is_meant || taken.is_err() {
            // Each error is told.
            let told = state.apply(false).unwrap_or_default();
            drop(state);
            told.into_iter().for_each(|told| tell(told));
        }
    }
}

/// The interface that a notice is about.
fn name_in(body: &[u8]) -> Option<String> {
    Attributes::behind(body, HEAD_BYTES).ok()?.text(libc::IFLA_IFNAME)
}

/// What is in force.
struct Arrangement {
    lanes: Vec<LaneThread>,
    user_fraction: u8,
    interfaces: Vec<Governed>,
    /// The share that was told of last, per mille.
    missed: Option<u32>,
    spent: Spent,
}

impl Arrangement {
    fn has(&self, name: &str) -> bool {
        self.interfaces.iter().any(|one| *one.name == *name)
    }

    /// Puts all in force that is not. With `asked`, for somebody who waits for it: the first error is returned, and else told.
    fn apply(&mut self, asked: bool) -> Result<Vec<Told>, Error> {
        let mut told = Vec::new();
        let mut first = None;
        let mut governed: Vec<(usize, Vec<(Napi, u32)>)> = Vec::new();
        for (at, one) in self.interfaces.iter_mut().enumerate() {
            match one.prepare(asked, &mut told) {
                Ok(threads) => governed.push((at, threads)),
                Err(error) => one.lose(error, asked, &mut first, &mut told),
            }
        }
        // Lanes keep their share also while all threads that may come to one CPU have work.
        let threads: usize = governed.iter().map(|(_, threads)| threads.len().div_ceil(self.lanes.len())).sum();
        let share = self.share(u32::try_from(threads).unwrap_or(u32::MAX).max(1), asked, &mut told);
        self.spent.found(governed.iter().flat_map(|(_, threads)| {
            let has_own = threads.len() == self.lanes.len();
            threads.iter().enumerate().map(move |(at, (_, thread))| (*thread, has_own.then_some(at)))
        }));
        for (at, threads) in governed {
            let one = &mut self.interfaces[at];
            match one.schedule(&threads, &self.lanes, share.scheduling) {
                Ok(()) => one.found(!threads.is_empty(), &mut told),
                Err(error) => one.lose(error, asked, &mut first, &mut told),
            }
        }
        first.map_or(Ok(told), Err)
    }

    /// How the threads are scheduled, so many at one CPU at the most. A share that is missed is told to somebody who asks, and else once.
    fn share(&mut self, threads: u32, asked: bool, told: &mut Vec<Told>) -> Share {
        let own = self.lanes.iter().find_map(|lane| Scheduling::of(lane.thread).ok());
        let is_real_time = own.is_some_and(|own| own.weight().is_none());
        // A group's weight is divided among its lanes while all of them have work.
        let group = group_weight().map(|weight| (weight / self.lanes.len() as u32).max(1));
        let lane = group.or_else(|| own?.weight()).unwrap_or(ORDINARY);
        let share = Share::nearest(lane, threads, self.user_fraction);
        let missed = (is_real_time || share.misses(self.user_fraction)).then_some(share.lane);
        let before = std::mem::replace(&mut self.missed, missed);
        let is_news = missed.is_some() && (asked || missed != before);
        match is_real_time {
            true if is_news => told.push(Told::RealTime),
            false if is_news => told.push(Told::Missed { asked: self.user_fraction, lane: share.lane }),
            _ => {}
        }
        share
    }

    /// Says how long threads have run beside each lane.
    fn say_spent(&mut self, to: &impl Fn(&[u64], u8)) {
        to(self.spent.look(clock::cpu_of_process), self.user_fraction);
    }

    /// Has all as it was before.
    fn revert(&mut self) -> Vec<Told> {
        self.interfaces.iter_mut().filter_map(Governed::revert).collect()
    }
}

/// How a receiver was found, before anything of it was set.
struct Before {
    napi: Napi,
    /// Of the thread that there was.
    thread: Option<(Scheduling, Vec<usize>)>,
}

/// One interface.
struct Governed {
    name: Box<str>,
    /// The number of the interface that all of this is about; 0 for none yet.
    interface: u32,
    /// Another process may have it yet, and is waited for.
    may_wait: bool,
    is_waiting: bool,
    claim: Option<UnixDatagram>,
    /// What passes all, loaded while it may be: later only links may be made.
    pass: Option<Program>,
    program: Option<XdpLink>,
    before: Vec<Before>,
    /// Of the whole interface, where receivers have no setting of their own.
    setting_before: Option<bool>,
    is_lost: bool,
}

impl Governed {
    fn new(name: &str, may_wait: bool) -> Self {
        Self {
            name: name.into(),
            interface: 0,
            may_wait,
            is_waiting: false,
            claim: None,
            pass: None,
            program: None,
            before: Vec::new(),
            setting_before: None,
            is_lost: false,
        }
    }

    fn waits(&self) -> bool {
        self.is_waiting
    }

    /// Has threads receive: each receiver with its thread, in their order; none while the interface is down, or another process has it.
    fn prepare(&mut self, asked: bool, told: &mut Vec<Told>) -> Result<Vec<(Napi, u32)>, Error> {
        // Of one that is gone its return is heard.
        let interface = Interface::find(&self.name).inspect_err(|_| self.is_waiting = false)?;
        let number = interface.link.interface;
        if number != self.interface {
            self.forget();
            self.interface = number;
        }
        if interface.is_veth && self.pass.is_none() {
            // What has a program may do without.
            self.pass = pass().ok();
        }
        if !self.claim(told)? {
            return Ok(Vec::new());
        }
        if !interface.is_up {
            return if asked && self.before.is_empty() { Err(Error::Down { name: self.name.clone() }) } else { Ok(Vec::new()) };
        }
        self.give_program(&interface, told)?;
        let found = napi::of(number, &self.name)?;
        if found.is_empty() {
            return Err(Error::NoNapi { name: self.name.clone() });
        }
        self.note_before(&found)?;
        self.have_threads(&found)?;
        napi::of(number, &self.name)?.into_iter().map(|napi| self.thread_of(napi)).collect()
    }

    /// Takes it from nobody: whether it is this process's now.
    fn claim(&mut self, told: &mut Vec<Told>) -> Result<bool, Error> {
        if self.claim.is_some() {
            return Ok(true);
        }
        match claims::receiving(self.interface, &self.name) {
            Ok(claim) => (self.claim, self.is_waiting) = (Some(claim), false),
            Err(Error::Governed { .. }) if self.may_wait => {
                if !std::mem::replace(&mut self.is_waiting, true) {
                    told.push(Told::Waits { name: self.name.clone() });
                }
            }
            Err(error) => return Err(error),
        }
        Ok(self.claim.is_some())
    }

    /// Gives a veth the program that it needs, if it has none.
    fn give_program(&mut self, interface: &Interface, told: &mut Vec<Told>) -> Result<(), Error> {
        if !interface.is_veth || interface.program_mode == Some("xdpdrv") {
            return Ok(());
        }
        if interface.program.is_some() {
            return Err(there(interface));
        }
        // One of ours that is no longer there was taken off.
        self.program = None;
        let program = self.pass.take().map_or_else(pass, Ok)?;
        let link = XdpLink::attach(&program, interface.link.interface, XdpMode::Native);
        let link = link.map_err(|fault| match fault.number {
            libc::EPERM | libc::EACCES => Error::of("BPF_LINK_CREATE", fault.number, &self.name),
            libc::EBUSY | libc::EEXIST => there(interface),
            _ => Error::PassRefused { name: self.name.clone(), obstacle: obstacle(&program, interface, fault) },
        });
        (self.pass, self.program) = (Some(program), Some(link?));
        told.push(Told::Attached { name: self.name.clone() });
        Ok(())
    }

    /// Notes how receivers are that were not there before; those that are gone need nothing.
    fn note_before(&mut self, found: &[Napi]) -> Result<(), Error> {
        self.before.retain(|before| found.iter().any(|napi| napi.id == before.napi.id));
        for napi in found {
            if self.before.iter().any(|before| before.napi.id == napi.id) {
                continue;
            }
            let thread = napi.thread.map(|_| self.thread_of(*napi)).transpose()?;
            let thread = thread.map(|(_, thread)| scheduled(thread)).transpose().map_err(|error| self.unscheduled(&error))?;
            self.before.push(Before { napi: *napi, thread });
        }
        assert!(self.before.len() == found.len(), "each is noted once");
        Ok(())
    }

    /// Has a thread for each.
    fn have_threads(&mut self, found: &[Napi]) -> Result<(), Error> {
        for napi in found.iter().filter(|napi| napi.threaded == Some(0)) {
            napi::set_threaded(napi.id, 1, &self.name)?;
        }
        if found.iter().all(|napi| napi.threaded.is_some()) {
            return Ok(());
        }
        let setting = Setting::of(&self.name, self.interface)?;
        let is_on = setting.is_on()?;
        self.setting_before.get_or_insert(is_on);
        if is_on { Ok(()) } else { setting.set(true) }
    }

    fn thread_of(&self, napi: Napi) -> Result<(Napi, u32), Error> {
        // The kernel makes it before it answers.
        let thread = napi.thread.ok_or_else(|| Error::NoNapi { name: self.name.clone() })?;
        napi::check_thread(napi, thread, &self.name)?;
        Ok((napi, thread))
    }

    /// Gives threads their CPUs and their weight: the thread of a queue the CPU of its lane, where each has one, and else those of all lanes.
    fn schedule(&self, threads: &[(Napi, u32)], lanes: &[LaneThread], scheduling: Scheduling) -> Result<(), Error> {
        let all: Vec<usize> = lanes.iter().map(|lane| lane.cpu).collect();
        for (at, (_, thread)) in threads.iter().enumerate() {
            let cpus = if threads.len() == lanes.len() { &all[at..=at] } else { &all[..] };
            give(*thread, scheduling, cpus).map_err(|error| self.unscheduled(&error))?;
        }
        Ok(())
    }

    fn unscheduled(&self, error: &io::Error) -> Error {
        Error::of(SCHEDULING, errno::of(error), &self.name)
    }

    /// Notes that it is not governed; it is told once, or returned to somebody who waits. One that has gone down meanwhile is heard to come up.
    fn lose(&mut self, error: Error, asked: bool, first: &mut Option<Error>, told: &mut Vec<Told>) {
        let is_down = Interface::find(&self.name).is_ok_and(|now| !now.is_up);
        if asked {
            first.get_or_insert(error);
        } else if is_down {
            // Its receivers went while they were set.
        } else if !std::mem::replace(&mut self.is_lost, true) {
            told.push(Told::Lost { name: self.name.clone(), error });
        }
    }

    /// Notes that nothing stands in its way; `is_governed` where it is up.
    fn found(&mut self, is_governed: bool, told: &mut Vec<Told>) {
        if is_governed && std::mem::take(&mut self.is_lost) {
            told.push(Told::Again { name: self.name.clone() });
        }
    }

    /// An interface that is gone, with all that it had.
    fn forget(&mut self) {
        (self.claim, self.program, self.setting_before) = (None, None, None);
        self.is_waiting = false;
        self.before.clear();
    }

    /// Has it as it was before; what of it could not be had so.
    fn revert(&mut self) -> Option<Told> {
        let (name, number) = (self.name.clone(), self.interface);
        let reverted = self.restore(&napi::of(number, &name).unwrap_or_default());
        let ours: Vec<u32> = self.before.iter().filter(|one| one.thread.is_none()).map(|one| one.napi.id).collect();
        self.forget();
        // Without its program a veth may have no receivers any more.
        let is_kept =
            || napi::of(number, &name).is_ok_and(|now| now.iter().any(|napi| ours.contains(&napi.id) && napi.thread.is_some()));
        reverted.err().filter(|_| is_kept()).map(|error| Told::Kept { name: name.clone(), error })
    }

    /// Restores all that can be, of these receivers.
    fn restore(&self, found: &[Napi]) -> Result<(), Error> {
        let mut result = Ok(());
        for napi in found {
            let Some(before) = self.before.iter().find(|before| before.napi.id == napi.id) else { continue };
            let restored = match (&before.thread, before.napi.threaded, napi.thread) {
                (Some((scheduling, cpus)), _, Some(thread)) => {
                    give(thread, *scheduling, cpus).map_err(|error| self.unscheduled(&error))
                }
                (None, Some(threaded), _) => napi::set_threaded(napi.id, threaded, &self.name),
                _ => Ok(()),
            };
            result = result.and(restored);
        }
        if self.setting_before == Some(false) {
            let set = Setting::of(&self.name, self.interface).and_then(|setting| setting.set(false));
            result = result.and(set);
        }
        result
    }
}

/// A program that passes all packets, also those that lie in several pieces.
fn pass() -> Result<Program, Error> {
    let mut pass = Assembler::new();
    pass.alu(Alu::Move, Register::R0, PASS);
    pass.exit();
    Ok(Program::load(ProgramKind::XdpPieces, &pass.finish(), "corelane_pass")?)
}

/// How a thread is scheduled, and where.
fn scheduled(thread: u32) -> io::Result<(Scheduling, Vec<usize>)> {
    Ok((Scheduling::of(thread)?, cpus_of(thread)?))
}

/// Gives a thread what it does not have yet.
fn give(thread: u32, scheduling: Scheduling, cpus: &[usize]) -> io::Result<()> {
    let (has, at) = scheduled(thread)?;
    let mut wanted = cpus.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    if at != wanted {
        bind(thread, &wanted)?;
    }
    if has == scheduling { Ok(()) } else { scheduling.give_to(thread) }
}

/// Looks whether an interface can be governed, as far as that shows without changing anything.
///
/// # Errors
/// As of [`ReceiveThreads::start`].
pub fn check_receiving(name: &str) -> Result<(), Error> {
    let interface = Interface::find(name)?;
    if !interface.is_up {
        return Err(Error::Down { name: interface.name });
    }
    let found = napi::of(interface.link.interface, name)?;
    if found.is_empty() && !interface.is_veth { Err(Error::NoNapi { name: interface.name }) } else { Ok(()) }
}

/// Interfaces of this network namespace that the kernel receives by threads which are bound or weighed, and no running process of ours governs: what one that was
/// killed has left, or an operator has set. Each with the command that has them received as ever.
///
/// # Errors
/// [`Error::Absent`] before Linux 6.8, and what else the system says.
pub fn left_behind() -> Result<Vec<(String, String)>, Error> {
    let all = napi::all()?;
    let mut left = Vec::new();
    for (interface, napi) in all {
        let Some(name) = link::name_of(interface).filter(|_| is_set(napi)) else { continue };
        let is_known = left.iter().any(|(known, _)| *known == name);
        // Taken for a moment, and given back.
        if !is_known && claims::receiving(interface, &name).is_ok() {
            let command = taking_back(&name);
            left.push((name, command));
        }
    }
    Ok(left)
}

/// Whether a receiver's thread is not as the kernel makes them.
fn is_set(napi: Napi) -> bool {
    let Some(thread) = napi.thread.filter(|thread| napi::check_thread(napi, *thread, "").is_ok()) else { return false };
    let parent = cpus_of(KTHREADD).ok().filter(|_| kernel_files::text("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n"));
    scheduled(thread)
        .is_ok_and(|(scheduling, cpus)| scheduling != Scheduling::nice(0) || parent.is_some_and(|parent| parent != cpus))
}

/// The parent of the kernel's threads.
const KTHREADD: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::napi::tests::{at_near, receive_as_a_card};

    /// As before Linux 6.17, whose receivers have no setting of their own.
    #[test]
    fn receivers_without_a_setting_of_their_own_are_set_together_and_taken_back() {
        at_near("receiving::tests::receivers_without_a_setting_of_their_own_are_set_together_and_taken_back", |near, show| {
            show();
            receive_as_a_card();
            let found =
                || napi::of(near, "near").unwrap().into_iter().map(|napi| Napi { threaded: None, ..napi }).collect::<Vec<_>>();
            for had_threads in [false, true] {
                Setting::of("near", near).unwrap().set(had_threads).unwrap();
                let mut governed = Governed { interface: near, ..Governed::new("near", false) };
                governed.note_before(&found()).unwrap();
                governed.have_threads(&found()).unwrap();
                governed.have_threads(&found()).unwrap();
                assert!(found()[0].thread.is_some());
                governed.restore(&found()).unwrap();
                assert_eq!(found()[0].thread.is_some(), had_threads);
            }
        });
    }
}
