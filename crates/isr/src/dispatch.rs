//! Workstreams and dispatch: on which lane a packet's handler runs, and whether now or later.
//!
//! Each lane has one [`Isr`], a value that runs nothing itself: it says what is to be done, and whoever asks does it and says when it is done.
//!
//! ```text
//! port --.arrive(protocol, packet, facts) -> PacketStep::Run(run)              the handler is run at once, then .finished(run.mark)
//!                                          | PacketStep::Queued | Parked       later, by .next_step()
//!                                          | PacketStep::Elsewhere { lane, .. } by channel, as a parcel: there .admit(..), here .settled(..) once it is home
//!                                          | PacketStep::Dropped(packet)       the queue is full
//! turn --.next_step() -> PacketStep::Run(run) | PacketStep::Elsewhere { .. } | PacketStep::Drained(protocol)
//! ```
//!
//! **Order.** What is queued of a protocol runs in the order it came, and under [`Dispatch::Hybrid`] nothing runs at once while anything is
//! queued or running. A change of policy, or of who gets a flow ([`Isr::begin_generation`]), begins a **generation**: what was placed in
//! the one before, here and on other lanes, is handled first; what arrives meanwhile is parked, and then placed by the new policy in
//! the order in which it came. So a flow is never reordered, whatever is changed while it runs. Where only some flows get another lane, only
//! theirs is parked ([`Isr::begin_generation_of`]): all others go on as before.
//!
//! **Buckets.** A lane has one queue for each protocol; a protocol that tells its packets' buckets ([`Registration::bucket`]) has one for each
//! bucket instead, with a limit and counts of its own, and they take turns. What is said of order holds for both, since a flow is of one bucket.
//!
//! **Cost.** A packet that is run at once looks at its own protocol alone. One that is queued costs a look at each of the 16 when it is run, however
//! much is queued.
//!
//! **Counts.** Handled = Dispatched + Hybrid + Queued - Length, after every call ([`StreamCounts::add_up`]).

mod counts;
mod policy;
mod protocol;
mod queues;
mod report;
mod step;
mod stream;

pub use counts::StreamCounts;
pub use policy::{Dispatch, LIMIT_DEFAULT, LIMIT_MAX, NoDispatch, Placement};
pub use protocol::{Ask, Number, Refused, Registration};
pub use queues::BUCKETS_MAX;
pub use report::{ProtocolRow, Report, StreamNow, StreamRow};
pub use step::{Facts, Mark, PacketStep, Placed, Run};

use std::rc::Rc;
use step::RunKind;
use stream::{Moves, Outstanding, Stream};

/// A queue that is being run.
#[derive(Clone, Copy, Debug)]
struct Batch {
    number: Number,
    bucket: usize,
    /// Packets of it that are left.
    left: usize,
}

/// A lane's workstreams.
pub struct Isr<P> {
    lane: usize,
    lanes: usize,
    dispatch: Dispatch,
    streams: [Option<Stream<P>>; Number::COUNT],
    /// Packets of each protocol that this lane has placed, on itself or on others, and that are not handled. They outlive a registration.
    outstanding: [Outstanding; Number::COUNT],
    /// Handlers that run of what was queued, or dispatched by the hybrid policy.
    marked: usize,
    /// The queue that is being run.
    batch: Option<Batch>,
    /// Packets in all queues.
    queued: usize,
    /// All that is queued was passed on by a handler that the hybrid policy had dispatched: nothing else was waiting then.
    has_passed_on: bool,
    /// Queued packets that may run after one that was dispatched at once.
    share: usize,
    credit: usize,
}

impl<P> Isr<P> {
    /// The workstreams of lane `lane` of so many. `dispatch` holds for protocols that do not say otherwise.
    ///
    /// # Panics
    /// If there is no such lane.
    #[must_use]
    pub fn new(lane: usize, lanes: usize, dispatch: Dispatch) -> Self {
        assert!(lane < lanes, "lane {lane} of {lanes}");
        let (streams, outstanding) = (std::array::from_fn(|_| None), [Outstanding::default(); Number::COUNT]);
        Self {
            lane,
            lanes,
            dispatch,
            streams,
            outstanding,
            marked: 0,
            batch: None,
            queued: 0,
            has_passed_on: false,
            share: 0,
            credit: 0,
        }
    }

    /// Registers a protocol. Returns the limit of its queue: [`LIMIT_MAX`] for one that asks for more.
    ///
    /// # Errors
    /// [`Refused::Taken`].
    pub fn register(&mut self, registration: Registration<P>) -> Result<usize, Refused> {
        let number = registration.number;
        let place = &mut self.streams[number.index()];
        if place.is_some() {
            return Err(Refused::Taken(number));
        }
        let stream = place.insert(Stream::new(registration, self.dispatch, self.outstanding[number.index()]));
        Ok(stream.limit)
    }

    /// Takes a protocol out; what waits of it is dropped, and returned with who placed each, which is to be told if it is another lane. What was
    /// parked was placed by none, and is here of this lane.
    ///
    /// # Errors
    /// [`Refused::Unknown`].
    pub fn unregister(&mut self, number: Number) -> Result<impl Iterator<Item = (P, Placed)> + use<P>, Refused> {
        let stream = self.streams[number.index()].take().ok_or(Refused::Unknown(number))?;
        self.batch = self.batch.filter(|batch| batch.number != number);
        let this = self.lane;
        self.queued -= stream.queues.placed().count();
        stream.queues.placed().filter(|placed| placed.lane == this).for_each(|own| self.settled(number, own, 1));
        Ok(stream.into_packets(self.lane))
    }

    /// The policy of protocols that do not say otherwise.
    #[must_use]
    pub const fn dispatch(&self) -> Dispatch {
        self.dispatch
    }

    /// Changes the policy for protocols that do not say otherwise.
    pub fn set_dispatch(&mut self, dispatch: Dispatch) {
        self.dispatch = dispatch;
        self.each(|stream, outstanding| stream.want(dispatch, outstanding));
    }

    /// Changes the policy of a protocol; none is that of all.
    ///
    /// # Errors
    /// [`Refused::Unknown`].
    pub fn set_dispatch_of(&mut self, number: Number, dispatch: Option<Dispatch>) -> Result<(), Refused> {
        let (all, outstanding) = (self.dispatch, self.outstanding[number.index()]);
        let stream = self.stream(number)?;
        stream.own_dispatch = dispatch;
        stream.want(all, outstanding);
        Ok(())
    }

    /// From now on protocols choose lanes otherwise: what was placed before is handled first.
    pub fn begin_generation(&mut self) {
        self.each(Stream::begin_generation);
    }

    /// From now on protocols choose lanes otherwise for the packets of which `moves` is true: what was placed before is handled first, and what
    /// arrives of all others is placed meanwhile. It is true of all packets of a flow, or of none. While another change is under way, all are parked.
    pub fn begin_generation_of(&mut self, moves: impl Fn(&P) -> bool + 'static) {
        let moves: Moves<P> = Rc::new(moves);
        self.each(|stream, outstanding| stream.begin_generation_of(moves.clone(), outstanding));
    }

    /// Changes the limit of a protocol's queue. A lower one drains nothing.
    ///
    /// # Errors
    /// [`Refused::Unknown`]; [`Refused::Limit`] above [`LIMIT_MAX`].
    pub fn set_limit(&mut self, number: Number, limit: usize) -> Result<(), Refused> {
        let stream = self.stream(number)?;
        if limit > LIMIT_MAX {
            return Err(Refused::Limit { got: limit });
        }
        stream.limit = limit;
        Ok(())
    }

    /// The limit of a protocol's queue.
    ///
    /// # Errors
    /// [`Refused::Unknown`].
    pub fn limit(&mut self, number: Number) -> Result<usize, Refused> {
        self.stream(number).map(|stream| stream.limit)
    }

    /// How many queued packets may run after one that was dispatched at once ([`Isr::help`]); 0 at first.
    pub fn set_share(&mut self, share: usize) {
        (self.share, self.credit) = (share, self.credit.min(share));
    }

    /// What is registered, lowest number first, with the policy in force and what was counted.
    pub fn protocols(&self) -> impl Iterator<Item = (&Registration<P>, Dispatch, StreamCounts)> {
        self.streams.iter().flatten().map(|stream| (stream.registration(), stream.dispatch, stream.counts()))
    }

    /// What was counted of a protocol, in all of its queues; none if it is not registered.
    #[must_use]
    pub fn counts(&self, number: Number) -> Option<StreamCounts> {
        self.streams[number.index()].as_ref().map(Stream::counts)
    }

    /// What was counted of each bucket of a protocol, the lowest first; of one if its lane's packets share a queue. None if it is not registered.
    pub fn bucket_counts(&self, number: Number) -> impl Iterator<Item = &StreamCounts> {
        self.streams[number.index()].iter().flat_map(|stream| stream.queues.counts())
    }

    /// What is registered on this lane, lowest number first.
    pub fn now(&self) -> impl Iterator<Item = StreamNow> {
        self.streams.iter().flatten().map(StreamNow::of)
    }

    /// The rows of this lane's protocols; it runs on `cpu`. A protocol with a queue for each bucket has a row for each that has counted anything,
    /// `ip.17` for bucket 17.
    #[must_use]
    pub fn rows(&self, cpu: usize) -> Vec<StreamRow> {
        self.streams.iter().flatten().flat_map(|stream| StreamRow::of(stream, self.lane, cpu)).collect()
    }

    /// The protocols, as this lane has them.
    #[must_use]
    pub fn protocol_rows(&self) -> Vec<ProtocolRow> {
        self.streams.iter().flatten().map(ProtocolRow::of).collect()
    }

    /// Sets a protocol's count of drops to 0; returns what it was.
    ///
    /// # Errors
    /// [`Refused::Unknown`].
    pub fn clear_drops(&mut self, number: Number) -> Result<u64, Refused> {
        self.stream(number).map(Stream::clear_drops)
    }

    /// Takes a packet from a port of this lane, or from a handler that passes it on.
    pub fn arrive(&mut self, number: Number, packet: P, facts: Facts) -> PacketStep<P> {
        match &mut self.streams[number.index()] {
            None => PacketStep::Unregistered(packet),
            Some(stream) if stream.parks(&packet) => stream.park(packet, facts),
            Some(_) => self.place(number, packet, facts),
        }
    }

    /// Takes a packet that another lane has placed here. If it does not stay, that lane is told as if it had been handled.
    ///
    /// # Panics
    /// If it was placed by this lane, or by none.
    pub fn admit(&mut self, number: Number, packet: P, placed: Placed) -> PacketStep<P> {
        assert!(placed.lane != self.lane && placed.lane < self.lanes, "what a lane places on itself does not travel");
        match &mut self.streams[number.index()] {
            Some(stream) => {
                let step = stream.queue(packet, placed);
                self.queued += usize::from(matches!(step, PacketStep::Queued));
                step
            }
            None => PacketStep::Unregistered(packet),
        }
    }

    /// So many packets of a protocol, which this lane has placed so on others, were handled or dropped there.
    ///
    /// # Panics
    /// If they are more than were placed, or were placed by another lane.
    pub fn settled(&mut self, number: Number, placed: Placed, packets: usize) {
        assert!(placed.lane == self.lane, "a lane is told of what it has placed");
        let outstanding = &mut self.outstanding[number.index()];
        outstanding.less(placed.generation, packets);
        if let Some(stream) = &mut self.streams[number.index()] {
            stream.settle(*outstanding);
        }
    }

    /// A handler has run, and with that its packet is handled.
    pub fn finished(&mut self, mark: Mark) {
        let (number, placed) = (mark.number, mark.placed);
        self.has_run(mark);
        if placed.lane == self.lane {
            self.settled(number, placed, 1);
        }
    }

    /// A handler has run, of whose packet something is still to leave: [`Isr::settled`] is called when it has, also where this lane has placed it.
    pub fn has_run(&mut self, mark: Mark) {
        if mark.kind != RunKind::Direct {
            assert!(self.marked > 0, "a handler that ends has begun");
            self.marked -= 1;
        }
        if matches!(mark.kind, RunKind::Direct | RunKind::Hybrid) {
            self.credit = self.share;
        }
        assert!(self.credit <= self.share, "a share that was not used is not saved up");
    }

    /// Whether a change is under way, which waits for what was placed before it.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.streams.iter().flatten().any(Stream::is_changing)
    }

    /// What is to be done next of what waits: first what was parked and may be placed; then the lowest protocol, all that is queued of it (of
    /// its next bucket) when its run begins, then its hook. None: nothing is to be done before something arrives, is admitted or settled.
    pub fn next_step(&mut self) -> Option<PacketStep<P>> {
        if let Some(step) = self.unpark() {
            return Some(step);
        }
        let Batch { number, bucket, left } = self.batch.or_else(|| self.waiting())?;
        let stream = self.streams[number.index()].as_mut().filter(|_| left > 0);
        let first = stream.and_then(|stream| stream.queues.pop(bucket));
        let Some((packet, placed)) = first else {
            assert_eq!(left, 0, "a queue holds what it held when its run began");
            self.batch = None;
            return Some(PacketStep::Drained(number));
        };
        assert!(placed.lane < self.lanes, "who placed a packet is a lane of the program");
        self.queued -= 1;
        self.batch = Some(Batch { number, bucket, left: left - 1 });
        self.marked += 1;
        let mark = Mark { number, kind: RunKind::Queued, placed };
        Some(PacketStep::Run(Run { number, packet, placed, mark }))
    }

    /// Whether [`Isr::next_step`] has something.
    #[must_use]
    pub fn has_next(&self) -> bool {
        let may_unpark = self.streams.iter().flatten().any(Stream::may_unpark);
        self.batch.is_some() || may_unpark || self.waiting().is_some()
    }

    /// As [`Isr::next_step`], for who has just run a handler at once: what that has passed on, if the hybrid policy queued it for no other reason than
    /// that the handler was running. It comes so before whatever arrives next, of its flow as of others. Nothing while a handler runs.
    pub fn next_passed_on(&mut self) -> Option<PacketStep<P>> {
        if self.marked > 0 || !self.has_passed_on {
            return None;
        }
        let step = self.next_step();
        self.has_passed_on = step.is_some();
        step
    }

    /// As [`Isr::next_step`], for who has just dispatched a packet at once: nothing once his share is used up.
    pub fn help(&mut self) -> Option<PacketStep<P>> {
        self.credit = self.credit.checked_sub(1)?;
        self.next_step()
    }

    fn stream(&mut self, number: Number) -> Result<&mut Stream<P>, Refused> {
        self.streams[number.index()].as_mut().ok_or(Refused::Unknown(number))
    }

    /// Calls `change` with each stream, and how much of it is outstanding.
    fn each(&mut self, change: impl Fn(&mut Stream<P>, Outstanding)) {
        let streams = self.streams.iter_mut().zip(self.outstanding);
        streams.for_each(|(stream, outstanding)| stream.iter_mut().for_each(|stream| change(stream, outstanding)));
    }

    /// The lowest protocol of which something is queued: the next of its queues.
    fn waiting(&self) -> Option<Batch> {
        if self.queued == 0 {
            return None;
        }
        let next = self.streams.iter().flatten().find_map(|stream| {
            let (bucket, left) = stream.queues.next()?;
            Some(Batch { number: stream.registration().number, bucket, left })
        });
        assert!(next.is_some(), "{} packets are queued, and no queue has one", self.queued);
        next
    }

    /// Places one packet that was parked.
    fn unpark(&mut self) -> Option<PacketStep<P>> {
        let mut streams = self.streams.iter_mut().flatten();
        let (number, (packet, facts)) =
            streams.find_map(|stream| stream.unpark().map(|parked| (stream.registration().number, parked)))?;
        Some(self.place(number, packet, facts))
    }

    /// Places a packet by the policy that is in force.
    fn place(&mut self, number: Number, packet: P, facts: Facts) -> PacketStep<P> {
        let is_empty = self.batch.is_none() && self.queued == 0;
        let is_idle = self.marked == 0 && is_empty;
        let Some(stream) = &mut self.streams[number.index()] else { unreachable!("a packet is placed of what is registered") };
        let (outstanding, from) = (&mut self.outstanding[number.index()], self.lane);
        let placed = Placed { lane: from, generation: stream.generation() };
        let lane = match stream.dispatch {
            Dispatch::Direct => from,
            Dispatch::Hybrid | Dispatch::Deferred => stream.choose(&packet, facts, from, self.lanes),
        };
        let kind = match stream.dispatch {
            Dispatch::Direct => RunKind::Direct,
            Dispatch::Hybrid if is_idle && lane == from => RunKind::Hybrid,
            _ if lane == from => {
                let is_hybrid = stream.dispatch == Dispatch::Hybrid;
                let step = stream.queue(packet, placed);
                let is_queued = matches!(step, PacketStep::Queued);
                self.has_passed_on |= is_hybrid && is_empty && is_queued;
                outstanding.more(placed.generation, is_queued.into());
                self.queued += usize::from(is_queued);
                return step;
            }
            _ => {
                outstanding.more(placed.generation, 1);
                return PacketStep::Elsewhere { lane, number, packet, placed };
            }
        };
        outstanding.more(placed.generation, 1);
        let dispatch = stream.dispatch;
        stream.counts_of(&packet).run_at_once(dispatch);
        self.marked += usize::from(kind == RunKind::Hybrid);
        PacketStep::Run(Run { number, packet, placed, mark: Mark { number, kind, placed } })
    }
}
