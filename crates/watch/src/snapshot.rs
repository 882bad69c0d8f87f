//! What a reader saw at one moment, and how much that differs from an earlier one.

use crate::catalogue::{Counter, Kind, LaneCounter, LaneState, PacketCounter, Ratio, ServiceCounter, StreamCounter};
use crate::error::Error;
use crate::histogram::{Histogram, LaneHistogram};
use crate::page::{CounterName, LaneName, ServiceName};
use crate::process::Liveness;
use crate::process_id::ProcessId;
use crate::steering::SteeringSnapshot;
use std::marker::PhantomData;
use std::sync::Arc;

/// One value for each counter of a scope, and for each of a service's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values<C> {
    words: Vec<u64>,
    own: Vec<u64>,
    declared: Arc<[CounterName]>,
    scope: PhantomData<C>,
}

impl<C: Counter> Default for Values<C> {
    fn default() -> Self {
        Self::from_words(|_| 0)
    }
}

impl<C: Counter> Values<C> {
    pub(crate) fn from_words(word: impl Fn(usize) -> u64) -> Self {
        let words = (0..C::ALL.len()).map(word).collect();
        Self { words, own: Vec::new(), declared: Arc::new([]), scope: PhantomData }
    }

    pub(crate) fn with_own(self, declared: &Arc<[CounterName]>, word: impl Fn(usize) -> u64) -> Self {
        Self { own: (0..declared.len()).map(word).collect(), declared: Arc::clone(declared), ..self }
    }

    /// The value of one counter.
    pub fn get(&self, counter: C) -> u64 {
        self.words[counter.index()]
    }

    /// All counters with their values, in the catalogue's order.
    pub fn iter(&self) -> impl Iterator<Item = (C, u64)> {
        C::ALL.iter().map(|&counter| (counter, self.get(counter)))
    }

    /// The value of one of the service's own counters; none if it has none of this name.
    pub fn own(&self, name: &str) -> Option<u64> {
        self.all().skip(C::ALL.len()).find(|value| value.name == name).map(|value| value.value)
    }

    /// All counters with their values: those of the catalogue in its order, then the service's own.
    pub fn all(&self) -> impl Iterator<Item = Value<'_>> {
        let known = C::DECLARED.iter().zip(&self.words);
        let known = known.map(|(one, &value)| Value { name: one.name, kind: one.kind, unit: one.unit, value });
        let own = self.declared.iter().zip(&self.own);
        known.chain(own.map(|(one, &value)| Value { name: &one.name, kind: one.kind, unit: &one.unit, value }))
    }

    /// A derived figure; none where it would be a division by zero.
    pub fn ratio(&self, ratio: &Ratio<C>) -> Option<f64> {
        let denominator: u128 = ratio.denominator.iter().map(|&counter| u128::from(self.get(counter))).sum();
        (denominator > 0).then(|| self.get(ratio.numerator) as f64 / denominator as f64)
    }

    /// What several lanes have together; marks have no sum and stay 0.
    pub fn sum<'a>(rows: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        for row in rows {
            if sum.own.is_empty() {
                sum = sum.with_own(&row.declared, |_| 0);
            }
            assert!(sum.own.len() == row.own.len(), "all are of one service: what it declares is the same on every lane");
            for (word, value) in sum.own.iter_mut().zip(&row.own) {
                *word = word.saturating_add(*value);
            }
            for (counter, value) in row.iter().filter(|(counter, _)| counter.declaration().kind != Kind::Mark) {
                let word = &mut sum.words[counter.index()];
                *word = word.saturating_add(value);
            }
        }
        sum
    }

    /// By how much the counters have grown since `earlier`; gauges and marks as they are now.
    pub fn since(&self, earlier: &Self) -> Self {
        let word = |counter: C| match counter.declaration().kind {
            Kind::Counter => self.get(counter).saturating_sub(earlier.get(counter)),
            Kind::Gauge | Kind::Mark => self.get(counter),
        };
        let own = |i: usize| match self.declared[i].kind {
            Kind::Counter => self.own[i].saturating_sub(earlier.own.get(i).copied().unwrap_or(0)),
            Kind::Gauge | Kind::Mark => self.own[i],
        };
        Self::from_words(|index| word(C::ALL[index])).with_own(&self.declared, own)
    }
}

/// A counter by name, for those who show all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// Its name.
    pub name: &'a str,
    /// How it changes.
    pub kind: Kind,
    /// What it counts.
    pub unit: &'a str,
    /// What it was.
    pub value: u64,
}

/// A page at one moment. Each value is whole; they are read one after another while the lanes go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The process that wrote the page.
    pub process: ProcessId,
    /// Whether it ran.
    pub liveness: Liveness,
    /// Name and version of its program.
    pub program: String,
    /// When it started, by the wall clock, in nanoseconds since 1970.
    pub started_unix_nanoseconds: u64,
    /// When this was read, by the monotonic clock (CLOCK_MONOTONIC) in nanoseconds.
    pub at_nanoseconds: u64,
    /// None if counters count from the start of the process; else they count from so many nanoseconds before.
    pub span_nanoseconds: Option<u64>,
    /// What the process has to do without, in its own words.
    pub notes: Vec<String>,
    /// Notes for which the page had no room.
    pub notes_refused: u64,
    /// How flows are told apart, and which lane serves each bucket.
    pub steering: SteeringSnapshot,
    /// All lanes together.
    pub total: Values<LaneCounter>,
    /// Each lane.
    pub lanes: Vec<LaneSnapshot>,
    /// Each service, on all lanes together.
    pub services: Vec<ServiceSnapshot>,
}

/// One lane at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneSnapshot {
    /// What the page says of it.
    pub name: LaneName,
    /// Whether what the lane writes together was read together. It is not if the lane was writing at each of many looks, or was killed while it
    /// did: then its values may be of two moments.
    pub is_whole: bool,
    /// Its values.
    pub values: Values<LaneCounter>,
    /// Its histograms, in the order of [`LaneHistogram::ALL`].
    pub histograms: Vec<Histogram>,
    /// The values of each service on it, in the order of [`Snapshot::services`].
    pub services: Vec<Values<ServiceCounter>>,
    /// What its packet path counts, if it has one.
    pub packets: Option<PacketsSnapshot>,
}

/// A lane's packet path at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketsSnapshot {
    /// Whether all of it was read together, as [`LaneSnapshot::is_whole`].
    pub is_whole: bool,
    /// The name of the interface that its packets come by.
    pub interface: String,
    /// Its values.
    pub values: Values<PacketCounter>,
    /// Each of its protocols, the lowest number first.
    pub streams: Vec<StreamSnapshot>,
}

/// A protocol of a lane's packet path at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSnapshot {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Values<StreamCounter>,
}

impl PacketsSnapshot {
    /// The same with counters counting only what came after `earlier`.
    fn since(&self, earlier: &Self) -> Self {
        let stream = |now: &StreamSnapshot| {
            let before = earlier.streams.iter().find(|before| before.name == now.name);
            let values = before.map_or_else(|| now.values.clone(), |before| now.values.since(&before.values));
            StreamSnapshot { name: now.name.clone(), values }
        };
        let values = self.values.since(&earlier.values);
        let (is_whole, interface) = (self.is_whole, self.interface.clone());
        Self { is_whole, interface, values, streams: self.streams.iter().map(stream).collect() }
    }
}

impl LaneSnapshot {
    /// What is counted of its packets, if it polls and counts for how long.
    pub(crate) fn polled(&self) -> Option<&Values<PacketCounter>> {
        let packets = self.packets.as_ref().map(|packets| &packets.values)?;
        // Where nothing is kept for others, nobody counts.
        let counts = packets.get(PacketCounter::PollingController) > 0 && packets.get(PacketCounter::PollingUserFrac) > 0;
        counts.then_some(packets)
    }

    /// Whether threads of the kernel receive at its CPU that keep to a user fraction.
    pub fn is_beside_threads(&self) -> bool {
        let [ran, user_frac] = [LaneCounter::ReceivingNanoseconds, LaneCounter::ReceivingUserFrac].map(|of| self.values.get(of));
        self.polled().is_none() && (ran > 0 || user_frac > 0)
    }

    /// One of its histograms.
    pub fn histogram(&self, which: LaneHistogram) -> &Histogram {
        assert!(self.histograms.len() == LaneHistogram::ALL.len(), "a lane has each histogram");
        &self.histograms[which as usize]
    }

    /// What the lane was at, as it says itself: a lane that drains says so in its turns only, and sleeps between them. None if the page says something
    /// that no version known here says.
    pub fn activity(&self) -> Option<LaneState> {
        LaneState::from_word(self.values.get(LaneCounter::LaneState))
    }

    /// The lane's state, for people: [its activity](Self::activity), but for a lane that drains [`LaneState::Draining`] until it has ended.
    pub fn state(&self) -> Option<LaneState> {
        let drains = self.values.get(LaneCounter::DrainBeganNanoseconds) > 0;
        self.activity().map(|state| if drains && state != LaneState::Ended { LaneState::Draining } else { state })
    }

    /// Whether the lane is in a turn.
    pub fn is_awake(&self) -> bool {
        matches!(self.activity(), Some(LaneState::Running | LaneState::Spinning | LaneState::Draining))
    }
}

/// One service at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceSnapshot {
    /// What the page says of it.
    pub name: ServiceName,
    /// Its values on all lanes together.
    pub values: Values<ServiceCounter>,
}

impl Snapshot {
    /// The same snapshot with counters counting only what came after `earlier`.
    ///
    /// # Errors
    /// [`Error::OtherPage`] if `earlier` is not of the same process, or has other lanes or services.
    pub fn since(&self, earlier: &Self) -> Result<Self, Error> {
        let shape = |snapshot: &Self| (snapshot.process, snapshot.lanes.len(), snapshot.services.len());
        if shape(self) != shape(earlier) {
            return Err(Error::OtherPage { expected: self.process, got: earlier.process });
        }
        let mut since = self.clone();
        since.span_nanoseconds = Some(self.at_nanoseconds.saturating_sub(earlier.at_nanoseconds));
        since.total = self.total.since(&earlier.total);
        for (lane, earlier) in since.lanes.iter_mut().zip(&earlier.lanes) {
            lane.values = lane.values.since(&earlier.values);
            let both = lane.histograms.iter_mut().zip(&earlier.histograms);
            both.for_each(|(now, earlier)| *now = now.since(earlier));
            for (service, earlier) in lane.services.iter_mut().zip(&earlier.services) {
                *service = service.since(earlier);
            }
            if let (Some(packets), Some(earlier)) = (&mut lane.packets, &earlier.packets) {
                *packets = packets.since(earlier);
            }
        }
        for (service, earlier) in since.services.iter_mut().zip(&earlier.services) {
            service.values = service.values.since(&earlier.values);
        }
        Ok(since)
    }

    /// A histogram of all lanes together.
    pub fn histogram(&self, which: LaneHistogram) -> Histogram {
        let mut all = Histogram::default();
        self.lanes.iter().for_each(|lane| all.join(lane.histogram(which)));
        all
    }

    /// `count` for each second of the span; none if there is no span.
    pub fn per_second(&self, count: u64) -> Option<f64> {
        let nanoseconds = self.span_nanoseconds.filter(|&nanoseconds| nanoseconds > 0)?;
        Some(count as f64 * 1e9 / nanoseconds as f64)
    }
}
