//! The driver on io_uring(7).
//!
//! The ring tells what is ready: a poll that stays (`IORING_POLL_ADD_MULTI`) is the one entry a connection has in it.
//! Bytes move by plain calls, as with epoll: measured on loopback echo, receives with buffers that the kernel selects,
//! receives that stay, and sends submitted together all cost as much or more, because what counts is bytes per call and
//! one hot block. Nothing is lent to the kernel for longer than a call, but the memory of file operations, which the
//! ring carries out itself.

mod files;
mod operations;
mod refusal;
mod ring;

pub use operations::refused_operations;

use crate::apart::apart;
use crate::bell::EventBell;
use crate::errors::Error;
use crate::offload::{Ended, FileCall, Helpers};
use crate::probes::Probes;
use crate::readiness::ReadinessDriver;
use crate::readiness::source::{BELL, Copies, Pause, ReadinessSource, UNWATCHED};
use crate::tuning;
use corelane_os::clock;
use corelane_os::sockets;
use corelane_seam::ordered::Ordered;
use corelane_seam::{Arena, Bell, Fault, Tuning};
use files::Files;
use io_uring::{opcode, types};
use ring::Ring;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The driver on io_uring(7), from kernel 6.1. Must be made on its lane's thread.
pub type UringDriver = ReadinessDriver<Uring>;

impl UringDriver {
    /// A driver that receives into `arena` and uses what `probes` allows and the kernel has, with a bell of its own.
    ///
    /// # Errors
    /// [`Error::Tuning`] for a setting out of range; `Error::Uring...` where the system refuses io_uring, which leaves
    /// [`EpollDriver`](crate::EpollDriver); [`Error::Refused`] if the system gives no descriptor.
    pub fn new(arena: Arena, tuning: Tuning, probes: Probes) -> Result<Self, Error> {
        Self::with_bell(arena, tuning, tried(probes), EventBell::shared()?)
    }

    /// The same with a bell that was made before: where the lane takes a descriptor table of its own first, this driver's
    /// descriptors are in no other table. Features in `found` are used without a try: [another driver](Self::probes) has tried them here.
    ///
    /// # Errors
    /// As for [`UringDriver::new`].
    pub fn with_bell(arena: Arena, tuning: Tuning, found: Probes, bell: Arc<EventBell>) -> Result<Self, Error> {
        tuning::check(&tuning)?;
        let source = Uring::new(found.uring_no_iowait, tuning.offload_threads)?;
        Self::on(source, arena, tuning, found, bell)
    }
}

/// Tries what is allowed of this driver; returns what works.
pub(crate) fn tried(probes: Probes) -> Probes {
    let uring_no_iowait = probes.uring_no_iowait && apart(ring::no_iowait).is_ok();
    Probes { uring_no_iowait, epoll_pwait2: false, ..probes.with_common_tried() }
}

/// Tries whether this system lets a driver use io_uring: has a ring report that a descriptor is readable.
///
/// # Errors
/// Why not, with the remedy.
pub fn probe_uring() -> Result<(), Error> {
    apart(try_uring)
}

fn try_uring() -> Result<(), Error> {
    let refused = |number| refusal::of("io_uring_enter", number);
    let bell = EventBell::new().map_err(|fault| Error::Refused { call: "eventfd2", fault })?;
    let mut source = Uring::new(false, 2)?;
    assert!(bell.before_sleep(), "nobody has rung");
    bell.ring();
    source.watch(bell.as_fd(), libc::EPOLLIN, BELL).map_err(|fault| refused(fault.number))?;
    match source.look(Pause::Nanoseconds(0), 1).map_err(refused)? {
        1 => Ok(()),
        _ => Err(Error::UringOld { call: "io_uring_enter" }),
    }
}

// What a completion belongs to stands in its user data. Data of descriptors are a table's index in the low half, and no
// table gets so long that it needs the upper two bits of that: a process has at most 2^30 descriptors (fs.nr_open, proc(5)).

/// Added to a descriptor's data by the entry that ends watching it.
const ENDING: u64 = 1 << 31;
/// A file operation, together with its token in the upper half.
const FILE: u64 = 1 << 31 | 1 << 30;
/// The entry that ends everything.
const ENDING_ALL: u64 = 1 << 30;
const KIND: u64 = 1 << 31 | 1 << 30;

/// What a ring tells, and the file operations that it carries out.
pub struct Uring {
    ring: Ring,
    /// What was told and not yet handed out, behind the `handed_out` events of the last look.
    events: Vec<(u64, i32)>,
    handed_out: usize,
    /// Descriptors whose watching is being ended: the ring holds them open until then.
    closing: Ordered<u64, (OwnedFd, Copies)>,
    files: Files,
    ended: Vec<Ended>,
}

impl Uring {
    fn new(no_iowait: bool, threads: usize) -> Result<Self, Error> {
        Ok(Self {
            ring: Ring::new(no_iowait, threads)?,
            events: Vec::with_capacity(ring::COMPLETIONS as usize),
            handed_out: 0,
            closing: Ordered::default(),
            files: Files::default(),
            ended: Vec::new(),
        })
    }

    /// Takes what the ring has completed; returns how much that was.
    fn take(&mut self) -> usize {
        let Self { ring, events, closing, files, ended, .. } = self;
        ring.take(|data, result, last| match data & KIND {
            _ if data == BELL => events.push((data, told(result, last))),
            0 if last && closed(closing.remove(data)) => {}
            0 => events.push((data, told(result, last))),
            ENDING if result == -libc::ENOENT => {
                // Watching had ended by itself.
                closed(closing.remove(data ^ ENDING));
            }
            FILE => {
                let token = (data >> 32) as u32;
                ended.push(Ended::of_file(token, files.end(token, result)));
            }
            _ => {}
        })
    }

    /// Enters the ring, and takes all that it has completed. Returns the calls used, and how much it took.
    fn enter(&mut self, pause: Pause) -> Result<(u64, usize), i32> {
        let mut calls = self.ring.enter(pause)?;
        let mut taken = self.take();
        while self.ring.has_overflown() {
            calls += self.ring.enter(Pause::Nanoseconds(0))?;
            taken += self.take();
        }
        Ok((calls, taken))
    }
}

/// Drops a descriptor that is watched no more; returns whether there was one. Nothing is told of it any longer, so who shares it is woken for
/// what was told last.
fn closed(closing: Option<(OwnedFd, Copies)>) -> bool {
    if let Some((listener, Copies::Lanes)) = &closing {
        sockets::wake_all(listener.as_fd());
    }
    closing.is_some()
}

/// A wake-up for data says that it may be for urgent data (`EPOLLPRI`) too, and for its kind of priority, which no TCP
/// socket ever has. The ring reports one wake-up as it was, and looks at the socket only if there were several: so this
/// event, asked for with the urgent one, tells that nobody has looked. An urgent byte makes two wake-ups, its own and
/// that of the bytes around it.
const NOT_LOOKED: i32 = libc::EPOLLRDBAND;

/// The events of a completion.
fn told(result: i32, last: bool) -> i32 {
    let events = match result {
        // What was ended to be taken up again tells nothing.
        result if result == -libc::ECANCELED => 0,
        // An entry that failed tells nothing: let whoever uses the descriptor find out.
        ..0 => libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLERR,
        events if events & NOT_LOOKED != 0 => events & !(NOT_LOOKED | libc::EPOLLPRI),
        events => events,
    };
    if last { events | UNWATCHED } else { events & !UNWATCHED }
}

impl ReadinessSource for Uring {
    const NAME: &'static str = "uring";

    fn watch(&mut self, descriptor: BorrowedFd, events: i32, data: u64) -> Result<(), Fault> {
        assert!(data == BELL || data & KIND == 0, "a table grew too long");
        let not_looked = if events & libc::EPOLLPRI != 0 { NOT_LOOKED } else { 0 };
        let events = events & !libc::EPOLLET | not_looked;
        // One that stays would be first in the row for ever.
        let stays = events & libc::EPOLLEXCLUSIVE == 0;
        let poll = opcode::PollAdd::new(types::Fd(descriptor.as_raw_fd()), events as u32).multi(stays);
        // SAFETY: the entry names no memory.
        unsafe { self.ring.push(poll.build().user_data(data)) };
        Ok(())
    }

    /// The watching that is under way ends; whoever takes it up again does so with the new events.
    fn change(&mut self, _descriptor: BorrowedFd, _events: i32, data: u64) -> Result<(), Fault> {
        assert!(data & KIND == 0, "only what stands in the table is changed");
        // SAFETY: the entry names no memory.
        unsafe { self.ring.push(opcode::AsyncCancel::new(data).build().user_data(data | ENDING)) };
        Ok(())
    }

    fn is_closing(&self, data: u64) -> bool {
        self.closing.contains(data)
    }

    fn close(&mut self, data: u64, descriptor: OwnedFd, copies: Copies) {
        let other = self.closing.insert(data, (descriptor, copies));
        assert!(other.is_none(), "a descriptor is closed once");
        // SAFETY: the entry names no memory.
        unsafe { self.ring.push(opcode::AsyncCancel::new(data).build().user_data(data | ENDING)) };
    }

    fn look(&mut self, pause: Pause, _most: usize) -> Result<usize, i32> {
        self.events.drain(..std::mem::take(&mut self.handed_out));
        let (begin, closing) = (clock::now(), self.closing.len());
        let mut left = if self.events.is_empty() { pause } else { Pause::Nanoseconds(0) };
        loop {
            let (_, taken) = self.enter(left)?;
            let has_closed = self.closing.len() < closing;
            if taken == 0 || has_closed || !self.events.is_empty() || !self.ended.is_empty() {
                break;
            }
            // What was taken is of no interest outside, such as the end of watching.
            if let Pause::Nanoseconds(nanoseconds) = pause {
                left = Pause::Nanoseconds(begin.saturating_add(nanoseconds).saturating_sub(clock::now()));
            }
        }
        self.handed_out = self.events.len();
        Ok(self.handed_out)
    }

    fn event(&self, index: usize) -> (u64, i32) {
        self.events[index]
    }

    /// Submits what is queued, and closes what is to be closed.
    fn flush(&mut self) -> u64 {
        let mut calls = 0;
        while self.ring.has_queued() || !self.closing.is_empty() {
            let before = self.ring.under_way();
            // Without a pause no signal can end it, and what the kernel has no memory for now stays queued.
            calls += self.enter(Pause::Nanoseconds(0)).map_or(1, |(calls, _)| calls);
            if self.ring.under_way() == before {
                break;
            }
        }
        calls
    }

    fn begin_file(&mut self, token: u32, call: FileCall, helpers: &mut Helpers) -> Result<(), Fault> {
        if call.may_hold_up() || matches!(call, FileCall::Open { .. } | FileCall::List { .. } | FileCall::Warm { .. }) {
            return helpers.file(token, call);
        }
        let data = u64::from(token) << 32 | FILE;
        if let Some(answer) = self.files.begin(&mut self.ring, token, data, call)? {
            self.ended.push(Ended::of_file(token, answer));
        }
        Ok(())
    }

    fn take_ended(&mut self, ended: &mut Vec<Ended>) {
        ended.append(&mut self.ended);
    }

    fn end(&mut self, patience: Duration) -> bool {
        // One entry that ends all takes a time that grows with the square of what it finds.
        self.flush();
        let deadline = clock::now() + patience.as_nanos() as u64;
        let all = opcode::AsyncCancel2::new(types::CancelBuilder::any());
        // SAFETY: the entry names no memory.
        unsafe { self.ring.push(all.build().user_data(ENDING_ALL)) };
        while self.ring.under_way() > 0 {
            let left = deadline.saturating_sub(clock::now());
            if left == 0 {
                return false;
            }
            // A signal that ends the wait changes nothing.
            let _ = self.enter(Pause::Nanoseconds(left));
        }
        assert!(self.files.is_empty() && self.closing.is_empty(), "what is not under way has ended");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::LentMemory;
    use crate::open_file::OpenFile;
    use corelane_seam::slab::Key;
    use std::collections::BTreeSet;
    use std::io::{PipeReader, PipeWriter, Read, Write, pipe};

    const IN: i32 = libc::EPOLLIN;

    fn source_of(submissions: u32, completions: u32) -> Uring {
        Uring { ring: Ring::with_queues(submissions, completions, 2, false).unwrap(), ..Uring::new(false, 2).unwrap() }
    }

    fn data(index: u32) -> u64 {
        Key { index, generation: u32::MAX }.bits()
    }

    /// Looks until each of `count` pipes was reported, and watches again what ended; returns how many did.
    fn look_for_all(source: &mut Uring, pipes: &[(PipeReader, PipeWriter)]) -> usize {
        let (mut seen, mut ended) = (BTreeSet::new(), 0);
        while seen.len() < pipes.len() {
            for index in 0..source.look(Pause::Endless, 1).unwrap() {
                let (data, events) = source.event(index);
                assert!(events & IN != 0);
                let pipe = Key::from_bits(data).index;
                seen.insert(pipe);
                if events & UNWATCHED != 0 {
                    ended += 1;
                    source.watch(pipes[pipe as usize].0.as_fd(), IN, data).unwrap();
                }
            }
        }
        ended
    }

    /// More descriptors become ready at once than completions have a place: each is reported, time after time.
    #[test]
    fn no_event_is_lost_when_the_queue_overflows() {
        let mut source = source_of(4, 4);
        let pipes: Vec<_> = (0..100).map(|_| pipe().unwrap()).collect();
        for (index, (read, _)) in pipes.iter().enumerate() {
            source.watch(read.as_fd(), IN | libc::EPOLLET, data(index as u32)).unwrap();
        }
        source.flush();
        let mut ended = 0;
        for _ in 0..10 {
            pipes.iter().for_each(|(_, write)| (&mut &*write).write_all(b"x").unwrap());
            ended += look_for_all(&mut source, &pipes);
        }
        assert!(ended > 0, "the case was not reached");
        assert!(source.end(Duration::from_secs(10)));
    }

    /// The ring holds a descriptor open as long as it watches it.
    #[test]
    fn a_descriptor_is_closed_with_the_flush() {
        let mut source = Uring::new(false, 2).unwrap();
        for flushed_before in [true, false] {
            let (read, mut write) = pipe().unwrap();
            source.watch(read.as_fd(), IN, data(1)).unwrap();
            if flushed_before {
                source.flush();
            }
            source.close(data(1), read.into(), Copies::None);
            assert!(source.flush() > 0);
            assert_eq!(write.write_all(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
            assert_eq!((source.flush(), source.ring.under_way()), (0, 0));
        }
    }

    /// Closing waits for nothing that a descriptor reports meanwhile, and one whose watching ended by itself is closed.
    #[test]
    fn closing_does_not_depend_on_what_is_reported() {
        let mut source = source_of(4, 4);
        let pipes: Vec<_> = (0..50).map(|_| pipe().unwrap()).collect();
        let mut writers = Vec::new();
        for (index, (read, mut write)) in pipes.into_iter().enumerate() {
            write.write_all(b"x").unwrap();
            source.watch(read.as_fd(), IN, data(index as u32)).unwrap();
            source.close(data(index as u32), read.into(), Copies::Others);
            writers.push(write);
        }
        source.flush();
        assert!(source.closing.is_empty());
        assert!(writers.iter_mut().all(|write| write.write_all(b"x").is_err()));
    }

    #[test]
    fn the_end_waits_for_what_is_under_way_or_says_that_it_did_not() {
        let (mut read, _write) = pipe().unwrap();
        let mut source = Uring::new(false, 2).unwrap();
        source.watch(read.as_fd(), IN, data(1)).unwrap();
        assert!(!source.end(Duration::ZERO));
        assert!(source.end(Duration::from_secs(10)));
        assert_eq!(source.ring.under_way(), 0);
        drop(_write);
        assert_eq!(read.read(&mut [0]).unwrap(), 0);
    }

    /// A read waits for bytes that never come: the end ends it, and what comes later stays in the pipe, since nobody reads it into
    /// memory that is free again.
    #[test]
    fn the_end_ends_operations_on_memory() {
        let (read, mut write) = pipe().unwrap();
        let mut reader = read.try_clone().unwrap();
        let mut memory = [0; 4096];
        // SAFETY: the memory stays until the source has ended.
        let lent = unsafe { LentMemory::to_write(&mut memory) };
        let file = Arc::new(OpenFile { file: OwnedFd::from(read).into(), is_far: false });
        let mut helpers = Helpers::new(EventBell::shared().unwrap(), 1, 2);
        let mut source = Uring::new(false, 2).unwrap();
        source.begin_file(1, FileCall::Read { file, offset: 0, memory: lent }, &mut helpers).unwrap();
        source.flush();
        assert!(source.ring.under_way() == 1 && !source.files.is_empty());
        assert!(source.end(Duration::from_secs(10)));
        write.write_all(b"late").unwrap();
        let mut late = [0; 4];
        reader.read_exact(&mut late).unwrap();
        assert_eq!((late, memory[0]), (*b"late", 0));
    }

    #[test]
    fn this_kernel_lets_a_driver_use_it() {
        assert_eq!(probe_uring(), Ok(()));
    }
}
