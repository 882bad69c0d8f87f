//! Sends whose memory the kernel reads from where it lies: kept until it has, also when their socket is closed.
//!
//! ```text
//! send --Sent--> kept --a notice--> Released            while the connection is open
//! close --> parted: ended both ways, or broken off --notices--> Released --> the descriptor is closed --> Closed
//!                   \\--half of RELEASE_LIMIT--> broken off --all of it--> withheld: no Released, and nobody gets the memory --> Closed
//! ```

use super::endpoint::Endpoint;
use super::kept::{KeptSend, KeptSends, Parted, Standing};
use super::source::ReadinessSource;
use super::state::ReadinessDriver;
use crate::means::{Circumstances, Means, Own, Why};
use crate::stream::{self, Sent};
use corelane_os::{clock, sockets, uncopied};
use corelane_seam::slab::Key;
use corelane_seam::{Chain, Completion, File, Handle, RELEASE_LIMIT, Wait, nanoseconds};
use std::os::fd::AsFd;
use std::time::Duration;

impl<S: ReadinessSource> ReadinessDriver<S> {
    /// How a large send leaves. For the first of a connection its peer is looked at, and for the first uncopied one its socket is asked.
    #[inline(never)]
    pub(super) fn means_of(&mut self, key: Key, completions: &mut Vec<Completion>) -> Means {
        // A notice that waits gives memory back, and nobody looks for events while sends end at once.
        let is_short = self.is_short() && {
            self.note_notices(key, completions);
            self.is_short()
        };
        let socket = self.endpoints.at_mut(key.index).descriptor.as_fd();
        let kept = self.kept.or_insert_with(key, || {
            let peer = sockets::peer_address(socket).ok().filter(|peer| peer.inet().is_some());
            let standing = if peer.is_some() { Standing::Unasked } else { Standing::Refused };
            KeptSends { standing, own: peer.as_ref().map(Own::of).unwrap_or_default(), ..KeptSends::default() }
        });
        let asked =
            Circumstances { is_refused: kept.standing == Standing::Refused, is_short, always: self.tuning.zero_copy_always };
        let mut means = self.ways.choose(&kept.own, asked, clock::now);
        if means == Means::Uncopied && kept.standing == Standing::Unasked {
            // Without edges nobody would hear of notices.
            let is_allowed = uncopied::allow(socket).is_ok() && self.watch(key).is_ok();
            let standing = if is_allowed { Standing::Allowed } else { Standing::Refused };
            if let Some(kept) = self.kept.get_mut(key) {
                kept.standing = standing;
            }
            means = if is_allowed { Means::Uncopied } else { Means::Copied(Why::Refused) };
        }
        means
    }

    /// Counts how a large send left.
    pub(super) fn count(&mut self, means: Means) {
        let sends = &mut self.counters.sends;
        *match means {
            Means::Uncopied => &mut sends.uncopied,
            Means::Copied(Why::Refused) => &mut sends.copied_refused,
            Means::Copied(Why::Short) => &mut sends.copied_short,
            Means::Copied(Why::Seen) => &mut sends.copied_seen,
        } += 1;
    }

    /// Whether no more memory should stay the kernel's.
    fn is_short(&self) -> bool {
        self.arena.free() < self.arena.reserve() || self.counters.sends.withheld_bytes > self.arena.limit() as u64 / 8
    }

    /// Sends what goes; says whether the memory of that is released.
    pub(super) fn send_uncopied(&mut self, key: Key, handle: Handle, chain: &mut Chain) -> (Sent, bool) {
        // reason: asked for by the caller.
        let kept = self.kept.get_mut(key).expect("a socket that sends so was asked whether it can");
        let (socket, files) = (self.endpoints.at_mut(key.index).descriptor.as_fd(), &self.files);
        let mut held = kept.spare.pop().unwrap_or_default();
        let find = |file: &File| files.get(file.into()).map(|open| open.file.as_fd());
        let sent = stream::send_uncopied(socket, chain, find, (&mut kept.notices, &mut held));
        if sent.bytes == 0 {
            self.ways.take_back(&kept.own);
        }
        let is_released = held.is_empty();
        match is_released {
            true => kept.keep(held),
            false => kept.sends.push_back(KeptSend { handle, last: kept.notices.last(), chain: held }),
        }
        (sent, is_released)
    }

    /// An edge tells of an error of a socket, or of notices.
    pub(super) fn note_notices(&mut self, key: Key, completions: &mut Vec<Completion>) {
        let Some(kept) = self.kept.get_mut(key).filter(|kept| kept.standing == Standing::Allowed) else { return };
        let socket = self.endpoints.at_mut(key.index).descriptor.as_fd();
        self.counters.sends.copied_anyway += kept.take_notices(socket, &mut self.ways, completions);
    }

    /// An edge tells of a socket that is not in the table; returns whether it is one that was parted.
    pub(super) fn note_parted(&mut self, key: Key, completions: &mut Vec<Completion>) -> bool {
        let Some(place) = self.parted.iter().position(|parted| parted.key == key) else { return false };
        self.look_at_parted(place, completions);
        true
    }

    /// What a socket that is to be closed keeps, if the kernel still reads it.
    pub(super) fn take_kept(&mut self, key: Key, completions: &mut Vec<Completion>) -> Option<KeptSends> {
        if self.kept.is_empty() {
            return None;
        }
        self.note_notices(key, completions);
        self.kept.remove(key).filter(|kept| !kept.sends.is_empty())
    }

    /// Ends a connection whose socket stays for its notices.
    pub(super) fn part(
        &mut self,
        (key, endpoint, kept): (Key, Endpoint, KeptSends),
        (handle, reset): (Handle, bool),
        completions: &mut Vec<Completion>,
    ) {
        let socket = endpoint.descriptor.as_fd();
        if reset {
            uncopied::break_off(socket)
        } else {
            uncopied::end(socket)
        }
        let until = clock::now().saturating_add(nanoseconds(RELEASE_LIMIT) / 2);
        self.parted.push(Parted { key, endpoint, kept, handle, is_broken_off: reset, until });
        // What comes from now on makes an edge.
        self.look_at_parted(self.parted.len() - 1, completions);
    }

    /// Looks at those whose time has come.
    pub(super) fn age_parted(&mut self, completions: &mut Vec<Completion>) {
        if self.parted.is_empty() {
            return;
        }
        let now = clock::now();
        for place in (0..self.parted.len()).rev() {
            if self.parted[place].until <= now {
                self.look_at_parted(place, completions);
            }
        }
    }

    fn look_at_parted(&mut self, place: usize, completions: &mut Vec<Completion>) {
        let parted = &mut self.parted[place];
        let socket = parted.endpoint.descriptor.as_fd();
        self.counters.sends.copied_anyway += parted.kept.take_notices(socket, &mut self.ways, completions);
        let now = clock::now();
        if now >= parted.until && !parted.is_broken_off {
            uncopied::break_off(socket);
            (parted.is_broken_off, parted.until) = (true, now.saturating_add(nanoseconds(RELEASE_LIMIT) / 2));
            self.counters.sends.copied_anyway += parted.kept.take_notices(socket, &mut self.ways, completions);
        }
        let parted = &self.parted[place];
        let is_late = now >= parted.until;
        if parted.kept.sends.is_empty() || is_late {
            let Parted { key, endpoint, kept, handle, .. } = self.parted.swap_remove(place);
            let (withheld, renewed) = kept.withhold();
            self.counters.sends.withheld_bytes += withheld as u64;
            self.counters.sends.renewed_bytes += renewed as u64;
            self.release(key, endpoint);
            self.closing.push((key.bits(), handle));
        }
    }

    /// How long a look for events may last where a socket was parted.
    pub(super) fn wait_with_parted(&self, wait: Wait) -> Wait {
        let first = self.parted.iter().map(|parted| parted.until).min();
        match (wait, first) {
            (Wait::Until(until), Some(time)) => Wait::Until(until.min(time)),
            (Wait::Forever, Some(time)) => Wait::Until(time),
            (wait, _) => wait,
        }
    }

    /// The driver ends: waits for what the kernel still reads, but no longer than `patience`. What it reads then is never used again.
    pub(super) fn end_kept(&mut self, patience: Duration) {
        let deadline = clock::now().saturating_add(nanoseconds(patience));
        for (key, mut kept) in self.kept.take_all() {
            // reason: what is kept goes with its socket.
            let socket = self.endpoints.at(key.index).descriptor.as_fd();
            uncopied::break_off(socket);
            kept.await_notices(socket, deadline);
            kept.withhold();
        }
        for Parted { mut kept, endpoint, .. } in std::mem::take(&mut self.parted) {
            uncopied::break_off(endpoint.descriptor.as_fd());
            kept.await_notices(endpoint.descriptor.as_fd(), deadline);
            kept.withhold();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EpollDriver, EventBell, Probes};
    use corelane_os::lane_memory::{LaneMemory, Pages};
    use corelane_seam::{
        Arena, Chain, Driver, Listen, Op, Outcome, SendCounters, Socket, StreamOp, StreamOptions, StreamOutcome, Tuning,
    };
    use std::os::fd::OwnedFd;

    const BYTES: usize = 1 << 20;
    const SEND: Handle = Handle::new(1, 1, 0);
    const CLOSE: Handle = Handle::new(1, 2, 0);

    fn collect(driver: &mut EpollDriver) -> Vec<Completion> {
        let mut completions = Vec::new();
        driver.collect(Wait::Until(driver.now() + 1_000_000), 64, &mut completions);
        completions
    }

    /// A driver with a connection, and its peer.
    fn joined(arena: &Arena, tuning: Tuning) -> (EpollDriver, Socket, OwnedFd) {
        let mut driver = EpollDriver::with_bell(arena.clone(), tuning, Probes::default(), EventBell::shared().unwrap()).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        let listen = Listen { address, backlog: 8, share_port: false, v6_only: false, stream: StreamOptions::default() };
        let listener = driver.listen(&listen).unwrap();
        let peer = corelane_os::testing::connected(driver.local_address(listener).unwrap());
        driver.push(Handle::new(1, 0, 0), StreamOp::Accept { listener }.into());
        let accepted = std::iter::repeat_with(|| ()).find_map(|()| collect(&mut driver).pop()).unwrap();
        let Outcome::Stream(StreamOutcome::Accepted { socket, .. }) = accepted.outcome else { panic!("{accepted:?}") };
        (driver, socket, peer)
    }

    /// Sends so much of the arena's memory.
    fn send(driver: &mut EpollDriver, arena: &Arena, socket: Socket, bytes: usize) -> Completion {
        ends_of_send(driver, arena, socket, bytes).pop().unwrap()
    }

    /// The same, with whatever ended at once.
    fn ends_of_send(driver: &mut EpollDriver, arena: &Arena, socket: Socket, bytes: usize) -> Vec<Completion> {
        let mut chain = Chain::new();
        chain.push(arena.copy_of(&vec![7; bytes]).unwrap().share());
        driver.push(SEND, StreamOp::Send { socket, chain }.into());
        std::iter::repeat_with(|| collect(driver)).find(|ends| !ends.is_empty()).unwrap()
    }

    /// A driver with a connection over which it has sent more than its peer has room for, and that peer, which never reads.
    fn sending(arena: &Arena) -> (EpollDriver, Socket, OwnedFd) {
        let (mut driver, socket, peer) = joined(arena, Tuning::default().zero_copy_bytes(1).zero_copy_always(true));
        let sent = send(&mut driver, arena, socket, BYTES);
        assert!(!sent.released && matches!(sent.outcome, Outcome::Stream(StreamOutcome::Sent { bytes, .. }) if bytes > 64 << 10));
        drop(sent);
        (driver, socket, peer)
    }

    /// System calls that this many large sends take, each of which the peer reads before the next.
    fn calls_of(arena: &Arena, tuning: Tuning, first: usize) -> (u64, SendCounters) {
        const LARGE: usize = 64 << 10;
        let (mut driver, socket, peer) = joined(arena, tuning);
        let mut before = 0;
        for number in 0..first + 20 {
            if number == first {
                before = driver.counters().calls_work;
            }
            let sent = send(&mut driver, arena, socket, LARGE);
            let mut is_released = sent.released;
            let mut left = LARGE;
            while left > 0 {
                corelane_os::testing::wait_for(peer.as_fd(), libc::POLLIN);
                left -= rustix::io::read(&peer, &mut vec![0; left]).unwrap();
            }
            while !is_released {
                is_released = collect(&mut driver).iter().any(|end| matches!(end.outcome, Outcome::Released));
            }
        }
        (driver.counters().calls_work - before, driver.counters().sends)
    }

    #[test]
    fn once_it_is_known_what_is_copied_anyway_takes_the_calls_of_a_plain_send() {
        let arena = Arena::new(4 << 20).unwrap();
        let (plain, none) = calls_of(&arena, Tuning::default(), 1);
        let (chosen, sends) = calls_of(&arena, Tuning::default().zero_copy_bytes(1), 1);
        assert_eq!((plain, none, chosen), (20, SendCounters::default(), 20));
        assert_eq!(sends, SendCounters { uncopied: 1, copied_anyway: 1, copied_seen: 20, ..SendCounters::default() });
    }

    /// A send of sealed memory has no notice: whether the kernel copies, the next of other memory asks.
    #[test]
    fn what_leaves_with_its_pages_asks_for_nothing() {
        let arena = Arena::new(4 << 20).unwrap();
        let (mut driver, socket, peer) = joined(&arena, Tuning::default().zero_copy_bytes(1));
        let mut chain = Chain::new();
        chain.push(corelane_os::sealed_file::seal(&[&[7; 64 << 10]]).unwrap());
        driver.push(SEND, StreamOp::Send { socket, chain }.into());
        let sent = std::iter::repeat_with(|| ()).find_map(|()| collect(&mut driver).pop()).unwrap();
        let sends = driver.counters().sends;
        assert!(sent.released && sends == SendCounters { sealed: 1, ..SendCounters::default() }, "{sends:?}");
        let mut left = 64 << 10;
        while left > 0 {
            corelane_os::testing::wait_for(peer.as_fd(), libc::POLLIN);
            left -= rustix::io::read(&peer, &mut vec![0; left]).unwrap();
        }
        assert!(!send(&mut driver, &arena, socket, 4096).released);
        assert_eq!(driver.counters().sends, SendCounters { uncopied: 1, sealed: 1, ..driver.counters().sends });
    }

    #[test]
    fn a_full_socket_takes_no_ask_and_no_count() {
        let arena = Arena::new(4 << 20).unwrap();
        let (mut driver, socket, peer) = joined(&arena, Tuning::default().zero_copy_bytes(1));
        let full = driver.endpoints.at_mut(Key::from(socket).index).descriptor.as_fd();
        let mut left = 0;
        while let Ok(bytes) = rustix::net::send(full, &[7; 64 << 10], rustix::net::SendFlags::empty()) {
            left += bytes;
        }
        let mut chain = Chain::new();
        chain.push(arena.copy_of(&[7; 4096]).unwrap().share());
        driver.push(SEND, StreamOp::Send { socket, chain }.into());
        driver.collect(Wait::No, 64, &mut Vec::new());
        assert_eq!(driver.counters().sends, SendCounters::default());
        while left > 0 {
            corelane_os::testing::wait_for(peer.as_fd(), libc::POLLIN);
            left -= rustix::io::read(&peer, &mut vec![0; left]).unwrap();
        }
        let sent = std::iter::repeat_with(|| ()).find_map(|()| collect(&mut driver).pop()).unwrap();
        assert!(!sent.released && driver.counters().sends.uncopied == 1, "{:?}", driver.counters().sends);
    }

    #[test]
    fn where_memory_is_short_or_much_of_it_withheld_sends_are_copied() {
        let arena = Arena::new(4 << 20).unwrap();
        let (mut driver, socket, _peer) = joined(&arena, Tuning::default().zero_copy_bytes(1));
        let mut hoard: Vec<_> = std::iter::from_fn(|| arena.lease_or_none(64 << 10)).collect();
        hoard.truncate(hoard.len() - arena.reserve() / (64 << 10));
        assert!(send(&mut driver, &arena, socket, 4096).released, "it takes of the reserve");
        drop(hoard);
        driver.counters.sends.withheld_bytes = arena.limit() as u64 / 8 + 1;
        assert!(send(&mut driver, &arena, socket, 4096).released);
        driver.counters.sends.withheld_bytes -= 1;
        assert!(!send(&mut driver, &arena, socket, 4096).released);
        let sends = driver.counters().sends;
        assert_eq!((sends.copied_short, sends.uncopied), (2, 1));
    }

    #[test]
    fn where_memory_is_short_what_was_read_comes_back_first() {
        let arena = Arena::new(4 << 20).unwrap();
        let (mut driver, socket, _peer) = joined(&arena, Tuning::default().zero_copy_bytes(1));
        let mut hoard: Vec<_> = std::iter::from_fn(|| arena.lease_or_none(64 << 10)).collect();
        hoard.truncate(hoard.len() - arena.reserve() / (64 << 10) - 1);
        assert!(!send(&mut driver, &arena, socket, 64 << 10).released, "it takes nothing of the reserve");
        let notice = driver.endpoints.at_mut(Key::from(socket).index).descriptor.as_fd();
        corelane_os::testing::wait_for(notice, libc::POLLERR);
        let ends = ends_of_send(&mut driver, &arena, socket, 4096);
        let released = ends.iter().map(|end| matches!(end.outcome, Outcome::Released)).collect::<Vec<_>>();
        assert_eq!(released, [true, false], "{ends:?}");
        let sends = driver.counters().sends;
        assert_eq!((sends.uncopied, sends.copied_short, sends.copied_seen), (1, 0, 1), "it was copied for what the notice says");
    }

    #[test]
    fn a_socket_that_cannot_is_no_sign_for_others() {
        let arena = Arena::new(4 << 20).unwrap();
        let (mut driver, socket, _peer) = joined(&arena, Tuning::default().zero_copy_bytes(1));
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        one.set_nonblocking(true).unwrap();
        let unix = driver.enter(one.into(), super::super::endpoint::EndpointKind::Stream).unwrap();
        (0..2).for_each(|_| assert!(send(&mut driver, &arena, unix.into(), 4096).released));
        let asked = Circumstances { is_refused: false, is_short: false, always: false };
        assert_eq!(driver.ways.choose(&Own::default(), asked, || 1), Means::Uncopied, "nobody asked in that place");
        assert!(!send(&mut driver, &arena, socket, 4096).released);
        assert_eq!(driver.counters().sends, SendCounters { uncopied: 1, copied_refused: 2, ..driver.counters().sends });
        drop(other);
    }

    /// Whatever comes until the close has ended.
    fn until_closed(driver: &mut EpollDriver) -> Vec<Completion> {
        let mut all = Vec::new();
        while !all.iter().any(|end: &Completion| matches!(end.outcome, Outcome::Closed)) {
            all.extend(collect(driver));
        }
        all
    }

    #[test]
    fn a_close_that_lasts_too_long_breaks_the_connection_off() {
        let arena = Arena::new(4 << 20).unwrap();
        let (mut driver, socket, peer) = sending(&arena);
        driver.push(CLOSE, Op::Close { socket, reset: false });
        (0..3).for_each(|_| assert!(collect(&mut driver).is_empty(), "the peer does not read"));
        assert!(driver.wait_with_parted(Wait::Forever) != Wait::Forever && arena.used() >= BYTES);
        driver.parted[0].until = 0;
        let ends = until_closed(&mut driver);
        let order: Vec<_> = ends.iter().map(|end| end.handle).collect();
        assert_eq!((order, arena.used()), (vec![SEND, CLOSE], 0));
        corelane_os::testing::wait_for(peer.as_fd(), libc::POLLERR);
    }

    /// As where a card never says that it has read. Returns what the driver counted.
    fn never_read(arena: &Arena, bytes: usize) -> SendCounters {
        let (mut driver, socket, _peer) = sending(arena);
        let mut chain = Chain::new();
        chain.push(arena.copy_of(&vec![9; bytes]).unwrap().share());
        let key = driver.kept.keys().next().unwrap();
        let kept = driver.kept.get_mut(key).unwrap();
        let last = kept.notices.take();
        kept.sends.push_back(KeptSend { handle: SEND, last, chain });
        driver.push(CLOSE, Op::Close { socket, reset: true });
        let released = std::iter::repeat_with(|| ()).find_map(|()| collect(&mut driver).pop()).unwrap();
        assert!(matches!(released.outcome, Outcome::Released));
        (0..3).for_each(|_| assert!(collect(&mut driver).is_empty(), "it waits"));
        driver.parted[0].until = 0;
        let ends = until_closed(&mut driver);
        assert_eq!(ends.len(), 1, "nothing is said to be released that is read");
        driver.counters().sends
    }

    #[test]
    fn what_is_never_read_is_never_used_again() {
        let arena = Arena::new(4 << 20).unwrap();
        let sends = never_read(&arena, 256);
        assert_eq!((sends.withheld_bytes, sends.renewed_bytes, arena.used()), (256, 0, 256), "nobody gets it");
    }

    #[test]
    fn the_place_of_what_is_never_read_is_used_again_with_new_pages() {
        let arena = Arena::made(4 << 20, |bytes| Some(LaneMemory::new(bytes, Pages::default()).unwrap().0)).unwrap();
        let sends = never_read(&arena, 64 << 10);
        assert_eq!((sends.withheld_bytes, sends.renewed_bytes, arena.used()), (64 << 10, 64 << 10, 0));
    }

    #[test]
    fn a_driver_that_ends_withholds_what_is_read() {
        let arena = Arena::new(4 << 20).unwrap();
        let (mut driver, _, _peer) = sending(&arena);
        let key = driver.kept.keys().next().unwrap();
        let kept = driver.kept.get_mut(key).unwrap();
        kept.sends[0].last = kept.notices.take();
        driver.end_kept(Duration::from_millis(20));
        drop(driver);
        assert!(arena.used() >= BYTES, "nobody gets it");
    }
}
