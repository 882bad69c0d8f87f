//! The contract between a lane and what it runs on.

use crate::address::Address;
use crate::bell::Bell;
use crate::detached::Detached;
use crate::error::{Fault, Reason};
use crate::handle::{Handle, Socket};
use crate::operation::{Bind, Completion, Listen, Op};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long [`Driver::collect`] may wait when nothing is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Until the clock shows this, in nanoseconds of [`Driver::now`].
    Until(u64),
    /// Until something completes or the bell rings.
    Forever,
}

/// Receives that one [`Driver::collect`] hands out at the most, however little each brings.
pub const RECEIVES_PER_CYCLE: usize = 16;

/// Bytes of the block that a receive from a connection is given where only the arena's reserve is left, or only pieces:
/// see [`Arena::lease_to_receive`](crate::Arena::lease_to_receive).
pub const RECEIVE_BYTES_LEAST: usize = 4 << 10;

/// The same for datagrams: room for one of any size, or one train.
pub const DATAGRAM_BLOCK_BYTES_LEAST: usize = 64 << 10;

/// How long after a close a driver waits, at the most, for the system to be done with the memory of what was sent. Memory that is not released by then is withheld: the
/// socket is closed, no [`Outcome::Released`](crate::Outcome::Released) comes, and nobody gets that memory any more.
pub const RELEASE_LIMIT: Duration = Duration::from_secs(10);

/// The counts of a driver itself, since its creation; what its completions show is counted above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// System calls that hand over work: sends, receives, accepts, submissions.
    pub calls_work: u64,
    /// System calls that wait or look for events.
    pub calls_wait: u64,
    /// Receives and accepts that found nothing.
    pub receives_empty: u64,
    /// Times that something could have been received and the lane's memory was used up.
    pub receives_starved: u64,
    /// Kernel events for sockets that were closed meanwhile.
    pub events_stale: u64,
    /// How sends left.
    pub sends: SendCounters,
    /// What passed through pipes.
    pub pipes: PipeCounters,
    /// What the system passed on by itself.
    pub bridges: BridgeCounters,
}

/// What passed from connections to others through pipes of the system's, since a driver's creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipeCounters {
    /// Bytes that receives have brought into pipes.
    pub bytes: u64,
    /// Receives that found no pipe: as many held bytes as may be, or the system gave none. Their bytes came into the lane's memory.
    pub refused: u64,
    /// Pipes that hold bytes now.
    pub held: u64,
}

/// What the system has passed on by itself ([`Op::Bridge`]), since a driver's creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeCounters {
    /// Bytes that it has passed on, as far as anybody was told.
    pub bytes: u64,
    /// Pairs that it does not pass bytes between, though it was asked to: as many as may be are there, it refused, or they were not at rest.
    pub refused: u64,
    /// Pairs between which it passes bytes now.
    pub pairs: u64,
    /// Pairs that were broken off, because bytes had come twice on one of them and nobody could tell which.
    pub spoiled: u64,
}

/// How large sends left a driver, and what became of their memory, since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendCounters {
    /// Sends that the kernel was asked to read from where they lie.
    pub uncopied: u64,
    /// Of their calls, those that the kernel copied anyway.
    pub copied_anyway: u64,
    /// Large sends that were copied because the kernel was seen to copy there, or has not said yet.
    pub copied_seen: u64,
    /// Large sends that were copied because their sockets have no other ones.
    pub copied_refused: u64,
    /// Large sends that were copied because the lane was short of memory, or much of it was withheld.
    pub copied_short: u64,
    /// Uncopied sends of which something was copied because there was no room for a notice.
    pub copied_full: u64,
    /// Calls that sent sealed bytes from their file.
    pub sealed: u64,
    /// Calls that sent a part of a file from it.
    pub from_file: u64,
    /// Bytes of memory that the system was too long to release.
    pub withheld_bytes: u64,
    /// Those of them that were given new pages, and are used again.
    pub renewed_bytes: u64,
}

/// The monotonic clock, in nanoseconds of [`Driver::now`], for those on the lane's thread who have no driver.
pub type Clock = Rc<dyn Fn() -> u64>;

/// The way by which a lane asks the operating system. One belongs to one lane and is used on that lane's thread only.
///
/// The lane's [`Arena`](crate::Arena) is given to the driver when it is made. Only that memory is ever lent to the kernel:
/// an operation that carries a lease or chain owns it until its completion (or its release, if that comes later).
pub trait Driver {
    /// The name that users see: `epoll`, `uring` or `sim`.
    fn name(&self) -> &'static str;

    /// The monotonic clock, in nanoseconds (CLOCK_MONOTONIC, clock_gettime(2)).
    fn now(&self) -> u64;

    /// The time of day: nanoseconds since 1970, UTC (CLOCK_REALTIME). It can be set, backwards as well.
    fn time_of_day(&self) -> u64;

    /// Makes a listening socket; `Accept` starts it.
    ///
    /// # Errors
    /// `AddressInUse`, `AddressUnknown`, `Permission`, `NoDescriptor` and others.
    fn listen(&mut self, listen: &Listen) -> Result<Socket, Fault>;

    /// Makes a datagram socket.
    ///
    /// # Errors
    /// As for [`Driver::listen`].
    fn bind(&mut self, bind: &Bind) -> Result<Socket, Fault>;

    /// Names a socket that was made before this driver, by its number in the lane's table of descriptors: asked to listen or to bind at `address`, the
    /// driver uses a duplicate of it. So lanes share the one socket that a Unix name can have; the number stays its owner's to close. Each connection
    /// goes to one of them. Where nothing was made before, as in a simulation, lanes that share an address share its socket, and this does nothing.
    /// One that `outlives` the process, because somebody else has it as well, refuses nobody: who comes late waits in it for the next process.
    fn lend(&mut self, _address: &Address, _number: i32, _outlives: bool) {}

    /// Gives a socket that another process made, and that is this lane's own from now on: the next listen or bind at `address`, by what the socket is
    /// for, uses it in place of a new one. Where there are no descriptors, as in a simulation, it is closed.
    fn give(&mut self, _address: &Address, _socket: OwnedFd) {}

    /// Another process has this listening or datagram socket as well, and goes on with it: from now on nothing is done to it that others would
    /// feel. It refuses nobody, and its close ends it for this lane alone.
    fn leave_behind(&mut self, _socket: Socket) {}

    /// Takes a connection out of this driver, for another one of the program to [adopt](Driver::adopt): it must be at rest, so that a receive without a
    /// lease ([`StreamOp::Receive`](crate::StreamOp::Receive)) is under way on it and nothing else is. That receive ends with it, and is the one operation
    /// without a completion. The socket's name is void. Bytes that have arrived and were not received go along.
    ///
    /// # Errors
    /// The connection stays as it is: `UnderWay` if it is not at rest, or a completion of it is still to come; `Busy` if as many connections are between drivers as may be;
    /// `Unsupported` where connections cannot leave; others of the system's. `Cancelled` for a void name.
    fn detach(&mut self, _socket: Socket) -> Result<Detached, Fault> {
        Err(Fault::of(Reason::Unsupported))
    }

    /// Takes a connection that another driver of the program has detached, or this one. Nothing is under way on it.
    ///
    /// # Errors
    /// It comes back: `NoDescriptor` where there is no room for it, `Unsupported` if it was detached by a driver of another kind.
    fn adopt(&mut self, detached: Detached) -> Result<Socket, (Fault, Detached)> {
        Err((Fault::of(Reason::Unsupported), detached))
    }

    /// The address that a listening or datagram socket has.
    ///
    /// # Errors
    /// If the socket's name is void.
    fn local_address(&self, socket: Socket) -> Result<Address, Fault>;

    /// The descriptor behind a listening or datagram socket, on this lane's thread, for what the contract has no call for:
    /// what selects the socket of a flow is attached there. None where there is no such thing, as in a simulation, and for
    /// a void name.
    fn descriptor(&self, _socket: Socket) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Stops a listening socket from taking new connections, while those that wait, or whose handshake is under way,
    /// can still be accepted; on a socket that lanes share, for all of them. Where the system cannot do this, it does nothing.
    fn refuse_new(&mut self, listener: Socket);

    /// Ends this side of a connection (shutdown(2) with SHUT_WR): the peer sees the end of the stream behind all that was
    /// sent. Takes effect at once: call it when the last send has completed.
    fn finish(&mut self, socket: Socket);

    /// Bytes that have arrived on a connection and were not received yet (SIOCINQ, tcp(7)); 0 if not known.
    fn readable_bytes(&self, socket: Socket) -> usize;

    /// Bytes that were given to the system for a connection and that its peer has not taken: they wait here, or are on their way (SIOCOUTQ, tcp(7)). Our
    /// end counts for one until the peer has noted it. Of a Unix socket it is the memory that they take (unix(7)). None for a void name, and where nobody tells. Costs a system call.
    fn unsent_bytes(&self, socket: Socket) -> Option<usize>;

    /// Why a connection is no more, where its peer or the network has broken it off: for one that neither receives nor sends, and so is told by no operation. None while it is there, behind an end in
    /// order, for a void name, and where nobody tells. What has come behind the peer's end counts only where that end was received (`has_heard_end`): all before it is there to be received otherwise.
    /// It is told once: whoever hears it ends the connection. Costs up to two system calls.
    fn broken(&self, socket: Socket, has_heard_end: bool) -> Option<Fault>;

    /// Packets that the system has dropped at a datagram socket since it was made, mostly because its receive buffer was full, modulo 2^32
    /// (`drops` of SO_MEMINFO, socket(7)). A train is one packet where it is received as one. None for a void name, and where the system
    /// does not tell. Costs a system call.
    fn dropped(&self, socket: Socket) -> Option<u32>;

    /// Submits an operation. It takes effect with the next [`Driver::collect`] at the latest; all submitted between two
    /// collects go in as few system calls as the driver can. Faults come as completions; what breaks the contract ([`Op::check`], or an operation
    /// on a socket of another kind) is the lane's own fault, and a panic here or in the next collect.
    fn push(&mut self, handle: Handle, op: Op);

    /// Submits all of `ops` in order, and leaves the list empty: [`Driver::push`] for many.
    fn push_all(&mut self, ops: &mut Vec<(Handle, Op)>) {
        for (handle, op) in ops.drain(..) {
            self.push(handle, op);
        }
    }

    /// Closes the sockets of a work that has left its lane, and ends its connects, polls and watches, as if it had said so itself: those that were
    /// accepted, opened, or last received from, with a handle of `work`. Operations under way end, and what comes of them is told
    /// with their handles.
    fn abandon(&mut self, work: u8);

    /// Carries out what was submitted, then adds up to about `at_most` completions to `completions`, waiting for the
    /// first if none is there and `wait` allows. May return without any (bell, signal, or a clock that woke early).
    fn collect(&mut self, wait: Wait, at_most: usize, completions: &mut Vec<Completion>);

    /// Carries out what was submitted, and lets go of the CPU until the clock shows this, whatever comes meanwhile: the bell as well. Ends of what was submitted may be added to
    /// `completions`; else the next [`Driver::collect`] has them. Returns for how many nanoseconds others could have the CPU: what this thread takes of it to fall asleep and to wake up is not among them. For a lane that keeps a part of its CPU for others.
    ///
    /// Where nothing holds up the thread, as in a simulation, the time passes for all.
    fn rest(&mut self, until: u64, completions: &mut Vec<Completion>) -> u64;

    /// Nanoseconds that the last [`Driver::collect`] slept, where it is known that it did something else as well. None: all of it was sleep, as far as this driver knows.
    fn slept(&self) -> Option<u64> {
        None
    }

    /// [`Driver::now`] for those who have no driver; none where nobody has made one.
    fn clock(&self) -> Option<Clock> {
        None
    }

    /// The clock by which the lane is to time each call of its services; none where nobody asks how long one took. Asked once, when the lane is made.
    fn call_clock(&self) -> Option<Clock> {
        None
    }

    /// For how many nanoseconds services and tasks had the lane between the last two collects, if that was longer than their share at once while packets waited. Each time is told once.
    fn take_overrun(&mut self) -> Option<u64> {
        None
    }

    /// Whether there is more to collect that comes before tasks: a lane then collects again and runs none.
    fn outranks_tasks(&self) -> bool {
        false
    }

    /// Whether the last [`Driver::collect`] came back only because this driver cannot hold up its thread: the lane still sleeps, so its turn ends there.
    /// True in a simulation alone, which calls the lane again when it wakes.
    fn is_asleep(&self) -> bool {
        false
    }

    /// Offloaded calls that may wait or run at once ([`Tuning::offload_max`](crate::Tuning::offload_max)): whoever counts those under way needs none to be
    /// refused.
    fn offload_max(&self) -> usize;

    /// The doorbell that ends this driver's waiting; may be rung from any thread.
    fn bell(&self) -> Arc<dyn Bell>;

    /// The counts so far.
    fn counters(&self) -> DriverCounters;
}
