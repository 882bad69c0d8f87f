//! What a world does to its lanes on purpose: faults that a correct lane survives, and planted driver bugs that a good
//! test finds.

use corelane_seam::Random;

/// Declares each fault once: the field with its chance, the kind, and their list.
macro_rules! faults {
    ($($(#[$doc:meta])* $field:ident: $kind:ident,)*) => {
        /// How likely each fault is, in chances per 1,000 opportunities (0 never, 1,000 always).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Faults { $($(#[$doc])* pub $field: u16,)* }

        /// The name of a fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FaultKind { $($(#[$doc])* $kind,)* }

        impl FaultKind {
            /// Every kind.
            pub const ALL: [Self; [$(Self::$kind),*].len()] = [$(Self::$kind),*];

            /// The name, as the field of [`Faults`] spells it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => stringify!($field),)* }
            }
        }

        impl Faults {
            /// The chance of one kind.
            pub const fn chance(&self, kind: FaultKind) -> u16 {
                match kind { $(FaultKind::$kind => self.$field,)* }
            }

            /// The same with another chance of one kind.
            #[must_use]
            pub const fn with(mut self, kind: FaultKind, chance: u16) -> Self {
                match kind { $(FaultKind::$kind => self.$field = chance,)* }
                self
            }

            /// Gives every field what `chance` returns for its kind.
            fn of(mut chance: impl FnMut(FaultKind) -> u16) -> Self {
                Self { $($field: chance(FaultKind::$kind),)* }
            }
        }
    };
}

faults! {
    /// A receive brings less than has arrived.
    short_read: ShortRead,
    /// A send takes less than there is room for.
    short_write: ShortWrite,
    /// A completion overtakes completions of other operations.
    reordered_completion: ReorderedCompletion,
    /// A completion is handed over some time after the operation ended.
    late_completion: LateCompletion,
    /// A send's memory is released some time after its end ([`Outcome::Released`](corelane_seam::Outcome::Released)).
    late_release: LateRelease,
    /// No memory for a receive, for some time, as if the arena were used up.
    no_memory: NoMemory,
    /// The network resets a connection, for both ends.
    reset: Reset,
    /// Accepting ends with [`NoDescriptor`](corelane_seam::Reason::NoDescriptor).
    refused_accept: RefusedAccept,
    /// Others fill a lane's descriptor table for some time: whatever it opens then ends with
    /// [`NoDescriptor`](corelane_seam::Reason::NoDescriptor). Drawn at each opening of a lane that runs.
    filled_table: FilledTable,
    /// A connection that waited is gone when it is accepted: accepting ends with ECONNABORTED.
    aborted_accept: AbortedAccept,
    /// Accepting ends with [`NoMemory`](corelane_seam::Reason::NoMemory) (ENOBUFS); who waits goes on waiting.
    accept_without_memory: AcceptWithoutMemory,
    /// A connection is accepted, and lost because the system does not report on it (ENOSPC of epoll_ctl(2)): accepting ends.
    lost_accept: LostAccept,
    /// A listener that is to refuse newcomers goes on taking them: the system lets this process attach no filter.
    unfiltered_listener: UnfilteredListener,
    /// A stop or cancel takes effect late, or bytes arrive just before a close: counted if that lets the operation end by
    /// itself.
    cancel_race: CancelRace,
    /// The clock jumps forward, by up to two seconds; drawn at each step.
    clock_jump: ClockJump,
    /// A file operation fails with EIO.
    file_error: FileError,
    /// A file read brings less than the file has.
    short_file_read: ShortFileRead,
    /// A datagram is lost.
    datagram_loss: DatagramLoss,
    /// A datagram arrives twice.
    datagram_duplicate: DatagramDuplicate,
    /// A datagram arrives behind later ones.
    datagram_reorder: DatagramReorder,
    /// Receiving datagrams fails, with ENOBUFS or with what the network says of something sent earlier; what has arrived comes
    /// with the next receive.
    datagram_error: DatagramError,
    /// The system takes no more datagrams for the moment (ENOBUFS): a train is lost.
    datagram_refused: DatagramRefused,
    /// A lane's memory lies in pieces for some time: no block is to be had that is larger than one receive needs. Drawn when
    /// the lane's driver is made.
    fragmented_arena: FragmentedArena,
    /// A sleeping lane wakes for no reason; drawn at each step.
    spurious_wake: SpuriousWake,
    /// A doorbell wakes its lane late; it is never lost.
    delayed_bell: DelayedBell,
    /// Opening beneath a directory cannot be told to stay there, because something was renamed meanwhile: it ends with
    /// [`Busy`](corelane_seam::Reason::Busy).
    raced_file: RacedFile,
    /// No more directories may be watched: a watch ends with [`Busy`](corelane_seam::Reason::Busy) (ENOSPC).
    refused_file_watch: RefusedFileWatch,
    /// What happens in a watched directory is told up to a second later.
    late_file_notice: LateFileNotice,
    /// Notices are lost because too many wait to be read: all watches of the lane end as changed.
    lost_file_notices: LostFileNotices,
    /// A service is refused memory that the lane would lend it, as if that were used up: for a lease, a write, an answer, or what is kept for one.
    refused_memory: RefusedMemory,
    /// A send's memory is released only when the receiver has read its bytes, long after it has acknowledged them: both have the same pages, as with sendfile(2) on one machine. After
    /// a second the receiver's system copies what it keeps.
    shared_pages: SharedPages,
    /// What the system still reads of a socket that is closed is never released. Drawn at the close.
    never_release: NeverRelease,
    /// There is no pipe for a receive: it brings its bytes into memory.
    refused_pipe: RefusedPipe,
    /// Two connections are not bridged, though there is room for a pair: their bytes pass through the lane.
    refused_bridge: RefusedBridge,
}

impl Faults {
    /// No fault.
    pub fn none() -> Self {
        Self::default()
    }

    /// A mix of all kinds, drawn from `seed`: each kind off, rare (up to 1 %) or frequent (up to 10 %), so that different seeds meet
    /// different combinations. Resets are never frequent: they would end most connections before anything else does.
    pub fn all(seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self::of(|kind| match random.below(4) {
            0 => 0,
            2.. if kind != FaultKind::Reset => random.one_to(100) as u16,
            _ => random.one_to(10) as u16,
        })
    }
}

/// How often each fault happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultCounts([u64; FaultKind::ALL.len()]);

impl Default for FaultCounts {
    fn default() -> Self {
        Self([0; FaultKind::ALL.len()])
    }
}

impl FaultCounts {
    /// The count of one kind.
    pub const fn of(&self, kind: FaultKind) -> u64 {
        self.0[kind as usize]
    }

    pub(crate) const fn count(&mut self, kind: FaultKind) {
        self.0[kind as usize] += 1;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &FaultCounts) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }
}

/// A deliberate bug of the driver, to test that a test finds it. It strikes at one opportunity in sixteen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A send's memory is declared released while the system still reads it: other bytes leave than were meant.
    EarlyRelease,
    /// The memory of a send whose pages the receiver has is declared released when that has acknowledged them, and not read: it reads what was written there since
    /// ([`Faults::shared_pages`]).
    ReleaseAtAcknowledgement,
    /// The release that was promised never comes.
    LostRelease,
    /// A send's memory is released twice.
    DoubleRelease,
    /// A send's memory is released before that of an earlier one.
    UnorderedRelease,
    /// An operation's completion is not handed over.
    LostCompletion,
    /// An operation completes twice.
    DoubleCompletion,
    /// A socket is reported closed twice.
    DoubleClose,
    /// A socket is reported closed while operations on it are under way.
    EarlyClose,
    /// A ring of the doorbell is forgotten.
    LostDoorbell,
    /// A cancelled operation never completes.
    LeakedCancel,
    /// A completion carries the handle of an earlier generation.
    StaleHandle,
    /// A received byte is not the one that was sent.
    CorruptByte,
    /// A byte that was reported as sent never leaves.
    LostByte,
    /// A byte that was sent is given back as not sent, so it will leave twice.
    RepeatedByte,
    /// Received memory stays in use for ever.
    LeakedLease,
    /// A socket is reported closed, or its connection leaves, and its descriptor stays open.
    LeakedDescriptor,
    /// The system passes bytes on before others of the same connection that its lane still has.
    OvertakingBridge,
    /// A frame's memory is declared released while the interface still reads it.
    EarlyFrameRelease,
    /// The memory of frames that were sent is never released.
    LostFrameRelease,
    /// A frame that the lane has is handed over again.
    RepeatedFrame,
    /// A frame that has arrived is not handed over.
    LostFrame,
}

impl Planted {
    /// Every planted bug but those of ports.
    pub const ALL: [Self; 17] = [
        Self::EarlyRelease,
        Self::ReleaseAtAcknowledgement,
        Self::LostRelease,
        Self::DoubleRelease,
        Self::UnorderedRelease,
        Self::LostCompletion,
        Self::DoubleCompletion,
        Self::DoubleClose,
        Self::EarlyClose,
        Self::LostDoorbell,
        Self::LeakedCancel,
        Self::StaleHandle,
        Self::CorruptByte,
        Self::LostByte,
        Self::RepeatedByte,
        Self::LeakedLease,
        Self::LeakedDescriptor,
    ];

    /// Those of ports.
    pub const OF_PORTS: [Self; 4] = [Self::EarlyFrameRelease, Self::LostFrameRelease, Self::RepeatedFrame, Self::LostFrame];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_one_mix_and_seeds_differ() {
        assert_eq!(Faults::all(7), Faults::all(7));
        assert_ne!(Faults::all(7), Faults::all(8));
        assert!(FaultKind::ALL.iter().all(|&kind| Faults::none().chance(kind) == 0));
        for kind in FaultKind::ALL {
            let others = FaultKind::ALL.iter().filter(|&&other| Faults::none().with(kind, 7).chance(other) == 0).count();
            assert_eq!((Faults::none().with(kind, 7).chance(kind), others), (7, FaultKind::ALL.len() - 1));
            assert!((0..100).any(|seed| Faults::all(seed).chance(kind) > 0), "{}", kind.name());
            assert!((0..100).any(|seed| Faults::all(seed).chance(kind) == 0), "{}", kind.name());
        }
    }
}
