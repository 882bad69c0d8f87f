//! Every counter of lanes, and every one that all services have, declared once. A new one is one line here; what only one service counts is
//! declared with that service ([`counters!`](crate::counters)). `UPDATE_DOCS=1` brings the table in COUNTERS.md up to date.

use crate::histogram::{self, LaneHistogram};
use std::fmt::Write;

/// How a word changes, and what its sum over the lanes means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from 0 at the start; the sum counts all lanes.
    Counter,
    /// Goes up and down; the sum is what all lanes have together.
    Gauge,
    /// A state or a clock reading: a sum of it means nothing and is left at 0.
    Mark,
}

impl Kind {
    /// Its spelling in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Mark => "mark",
        }
    }

    /// How a page says it of a service's own counter.
    pub(crate) fn word(self) -> u64 {
        match self {
            Self::Counter => 0,
            Self::Gauge => 1,
            Self::Mark => 2,
        }
    }

    /// What is not known to grow only is shown as it is.
    pub(crate) fn of_word(word: u64) -> Self {
        if word == Self::Counter.word() { Self::Counter } else { Self::Gauge }
    }
}

/// What a row of counters belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One lane.
    Lane,
    /// One service on one lane.
    Service,
    /// The packet path of one lane.
    Packets,
    /// One protocol of the packet path of one lane.
    Workstream,
}

impl Scope {
    /// Its spelling in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lane => "lane",
            Self::Service => "service",
            Self::Packets => "packets",
            Self::Workstream => "workstream",
        }
    }
}

/// What is said of one counter where it is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// The name in text and JSON, in snake case.
    pub name: &'static str,
    /// How it changes.
    pub kind: Kind,
    /// What it counts: the plural of a thing, or `bytes`, `nanoseconds`, `state`.
    pub unit: &'static str,
    /// One sentence on when it changes.
    pub meaning: &'static str,
    /// Its word among those that are declared together, from 0.
    pub place: usize,
}

/// A figure derived from counters: one of them divided by the sum of some.
#[derive(Clone, Copy, Debug)]
pub struct Ratio<C: 'static> {
    /// The name in text and JSON, in snake case.
    pub name: &'static str,
    /// What is divided.
    pub numerator: C,
    /// What it is divided by: the sum of these.
    pub denominator: &'static [C],
    /// One sentence on what it tells.
    pub meaning: &'static str,
}

/// The counters of one scope.
pub trait Counter: Copy + 'static {
    /// What a row of them belongs to.
    const SCOPE: Scope;
    /// All, in the order of their words in a row.
    const ALL: &'static [Self];
    /// What the catalogue says of each, in the same order.
    const DECLARED: &'static [Declaration];
    /// The figures derived from them.
    const RATIOS: &'static [Ratio<Self>];

    /// The place of its word in a row.
    fn index(self) -> usize;

    /// What the catalogue says of it.
    fn declaration(self) -> &'static Declaration {
        &Self::DECLARED[self.index()]
    }
}

macro_rules! catalogue {
    (
        $(#[$doc:meta])* $name:ident, $scope:ident;
        counters { $($variant:ident $text:literal $kind:ident $unit:literal $meaning:literal;)* }
        ratios { $($ratio:literal $numerator:ident / $($denominator:ident)+, $tells:literal;)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = $meaning] $variant,)*
        }

        impl Counter for $name {
            const SCOPE: Scope = Scope::$scope;
            const ALL: &'static [Self] = &[$(Self::$variant),*];
            const DECLARED: &'static [Declaration] =
                &[$(Declaration {
                    name: $text,
                    kind: Kind::$kind,
                    unit: $unit,
                    meaning: $meaning,
                    place: Self::$variant as usize,
                }),*];
            const RATIOS: &'static [Ratio<Self>] = &[$(Ratio {
                name: $ratio,
                numerator: Self::$numerator,
                denominator: &[$(Self::$denominator),+],
                meaning: $tells,
            }),*];

            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

mod packets;

pub use packets::{PacketCounter, StreamCounter};

catalogue! {
    /// What each lane counts.
    LaneCounter, Lane;
    counters {
        TurnsProductive "turns_productive" Counter "turns" "Turns that found work: a completion, a message, a due timer or a ready task.";
        TurnsEmpty "turns_empty" Counter "turns" "Turns that found nothing to do.";
        SpinNanoseconds "spin_nanoseconds" Counter "nanoseconds" "Time spent looking for work again and again instead of sleeping.";
        SleepNanoseconds "sleep_nanoseconds" Counter "nanoseconds" "Time spent asleep in the driver.";
        Sleeps "sleeps" Counter "sleeps" "Times the lane went to sleep in the driver.";
        Completions "completions" Counter "completions" "Completions collected from the driver.";
        CompletionsStale "completions_stale" Counter "completions" "Completions dropped because the generation of their handle had passed.";
        CompletionsForeign "completions_foreign" Counter "completions" "Completions and timers dropped because the work that they were for had left the lane.";
        WorksBroken "works_broken" Counter "works" "Works that left the lane by a panic of their own.";
        EventsStale "events_stale" Counter "events" "Kernel events for sockets that had been closed meanwhile.";
        SystemCallsSubmit "system_calls_submit" Counter "calls" "System calls that handed work to the kernel.";
        SystemCallsWait "system_calls_wait" Counter "calls" "System calls that waited or looked for events.";
        ReceivesEmpty "receives_empty" Counter "receives" "Receives and accepts that found nothing.";
        ReceivesStarved "receives_starved" Counter "receives" "Receives put off, though something was ready, because the lane's memory was used up.";
        SendsUncopied "sends_uncopied" Counter "sends" "Sends that the kernel was asked to read from where they lie (MSG_ZEROCOPY), because they were large enough and nothing spoke against it.";
        SendsCopiedAnyway "sends_copied_anyway" Counter "sends" "Calls of such sends that the kernel copied anyway.";
        SendsCopiedSeen "sends_copied_seen" Counter "sends" "Large sends that were copied because the kernel was seen to copy to that network, or was asked and has not said yet.";
        SendsCopiedRefused "sends_copied_refused" Counter "sends" "Large sends that were copied because their sockets have no other ones (Unix).";
        SendsCopiedShort "sends_copied_short" Counter "sends" "Large sends that were copied because the lane was short of memory, or too much of it was withheld.";
        SendsCopiedFull "sends_copied_full" Counter "sends" "Uncopied sends of which something was copied because there was no room for a notice (net.core.optmem_max).";
        SendsSealed "sends_sealed" Counter "sends" "Calls that gave the receiver the pages of sealed memory (sendfile).";
        SendsFromFile "sends_from_file" Counter "sends" "Calls that sent a part of a file, and not through the lane's memory (sendfile).";
        BytesPiped "bytes_piped" Counter "bytes" "Bytes that passed from one connection to another through pipes of the system's, and not through the lane's memory (splice).";
        PipesHeld "pipes_held" Gauge "pipes" "Pipes that hold such bytes now.";
        BytesBridged "bytes_bridged" Counter "bytes" "Bytes that the kernel passed on from one connection to another, and not through the lane (a sockmap). The count is as of when the lane was told last.";
        PairsBridged "pairs_bridged" Gauge "pairs" "Pairs of connections between which it passes bytes now.";
        BridgedPairsMaxHits "bridged_pairs_max_hits" Counter "hits" "Times that a pair was not bridged, because as many as may be were, or the kernel refused: its bytes passed through the lane.";
        PairsSpoiled "pairs_spoiled" Counter "pairs" "Pairs between which the kernel passed bytes and that were broken off, both connections with a reset. Bytes had come twice, and nobody could tell which.";
        PipesMaxHits "pipes_max_hits" Counter "hits" "Receives of bulk that found no pipe, because all pipes held bytes or the system gave none. Their bytes came into the lane's memory.";
        MemoryUsed "memory_used" Gauge "bytes" "Lane memory that is leased now.";
        MemoryPeak "memory_peak" Gauge "bytes" "The most lane memory that was leased at one time.";
        MemoryHuge "memory_huge" Gauge "bytes" "Lane memory in huge pages, of those that were set aside (vm.nr_hugepages); 0 if it has none of these.";
        MemoryLocked "memory_locked" Gauge "bytes" "Lane memory that is never taken out of the machine's (mlock); 0 if it is not locked.";
        MemoryWithheld "memory_withheld" Counter "bytes" "Memory of sends that the system still read ten seconds after their connections were closed: nobody writes to it again.";
        MemoryRenewed "memory_renewed" Counter "bytes" "Withheld memory that was given new pages, and is used again.";
        MemoryLimitHits "memory_limit_hits" Counter "hits" "Times memory was asked for and not lent: too little was free, or a peer held its share already.";
        TimersFired "timers_fired" Counter "timers" "Timers that came due and ran.";
        TasksPolled "tasks_polled" Counter "polls" "Polls of the lane's tasks.";
        TasksPanicked "tasks_panicked" Counter "tasks" "Tasks ended by a panic.";
        TasksMaxHits "tasks_max_hits" Counter "hits" "Tasks refused because the lane had as many as its bound (tasks_max) allows, or their peer had its share.";
        MessagesSent "messages_sent" Counter "messages" "Messages put into channels to other lanes.";
        MessagesReceived "messages_received" Counter "messages" "Messages taken from channels of other lanes.";
        MessagesRefused "messages_refused" Counter "messages" "Messages that came back: the channel was full, or nobody was at its other end.";
        WordsRefused "words_refused" Counter "words" "Words from outside of the lanes that came back: the work that they were for had left the lane, or did not listen.";
        DoorbellsRung "doorbells_rung" Counter "doorbells" "Doorbells rung to wake another lane.";
        DoorbellsSpared "doorbells_spared" Counter "doorbells" "Doorbells not rung because the other lane was awake.";
        Offloads "offloads" Counter "calls" "Calls handed to the helper threads.";
        OffloadsRefused "offloads_refused" Counter "calls" "Calls not handed to the helper threads because their queue was full.";
        WatchesRefused "watches_refused" Counter "directories" "Directories that could not be watched: at the bound of the lane or of the user, or because others change their file system as well. Their files are looked at again and again.";
        FileOperations "file_operations" Counter "operations" "Reads, writes and syncs of files that were started.";
        ConnectionsCapHits "connections_cap_hits" Counter "hits" "Times no more were accepted at the lane's bound over all its services: new connections wait in the backlog.";
        ReportLinesDropped "report_lines_dropped" Counter "lines" "Lines for the operator that were lost because nobody took them from standard error.";
        Selections "selections" Counter "arrivals" "New connections and datagrams that were selected for this lane in the kernel, as of a second ago.";
        SelectionsOffCpu "selections_off_cpu" Counter "arrivals" "Those of them that were received on another CPU than the lane's own.";
        Migrations "migrations" Counter "connections" "Connections that moved to this lane in the kernel because the listener that had them closed.";
        DrainBeganNanoseconds "drain_began_nanoseconds" Mark "nanoseconds" "The monotonic clock when the lane began to drain; 0 before.";
        LastTurnNanoseconds "last_turn_nanoseconds" Mark "nanoseconds" "The monotonic clock when the last turn began (CLOCK_MONOTONIC).";
        Stalls "stalls" Counter "turns" "Turns that took longer than was set (--stall), each counted while it lasts. Written by the thread that watches the lanes.";
        ReceivingNanoseconds "receiving_nanoseconds" Counter "nanoseconds" "Time in which threads of the kernel received at the lane's CPU (--receive-threads), as of a quarter of a second ago.";
        ReceivingUserFrac "receiving_user_frac" Mark "percent" "The lane's part of its CPU beside such threads under a flood (user_frac).";
        Serving "serving" Mark "call" "The service and the connection of the turn's last call. The upper half is the service's number plus 1, the lower half the connection's plus 1, and 0 is none yet.";
        LaneState "lane_state" Mark "state" "The lane's state: 0 starting, 1 running, 2 spinning, 3 sleeping, 4 draining, 5 ended.";
    }
    ratios {
        "productive_share" TurnsProductive / TurnsProductive TurnsEmpty, "Share of the turns that found work.";
        "completions_per_turn" Completions / TurnsProductive, "Completions that a productive turn found.";
        "completions_per_system_call" Completions / SystemCallsSubmit SystemCallsWait, "Completions for each system call.";
    }
}

catalogue! {
    /// What every service counts on each lane, beside its own.
    ServiceCounter, Service;
    counters {
        Accepts "accepts" Counter "connections" "Connections accepted.";
        Strays "strays" Counter "arrivals" "Connections and datagrams that came to another lane than the table names for their flow.";
        AcceptsNoDescriptor "accepts_no_descriptor" Counter "accepts" "Accepts that failed because the process had no descriptor left.";
        AcceptsRefused "accepts_refused" Counter "connections" "Connections accepted and reset at once because a limit was reached.";
        Connects "connects" Counter "connections" "Outgoing connections opened.";
        ConnectsFailed "connects_failed" Counter "connections" "Outgoing connections that could not be opened.";
        ConnectsHome "connects_home" Counter "connections" "Outgoing connections, of those for which ports are chosen, whose answers belong to this lane by the table.";
        ConnectsStray "connects_stray" Counter "connections" "Those whose answers belong to another lane: no port that leads here was free.";
        MovesAway "moves_away" Counter "connections" "Idle connections that have left for another lane, where they go on. Those that came back left as well.";
        MovesHere "moves_here" Counter "connections" "Idle connections that have come from another lane, or have come back because it had no place for them.";
        MovesRefused "moves_refused" Counter "connections" "Connections that did not move to another lane, because they were not idle, could not be packed, or the system kept them. Connections of other lanes that found no place here count as well.";
        MovesLost "moves_lost" Counter "connections" "Connections on their way to another lane that found a place nowhere: they have ended with an error.";
        ConnectionsOpen "connections_open" Gauge "connections" "Connections that are open now.";
        EndingsCompleted "endings_completed" Counter "connections" "Connections that the service closed and all of whose output left.";
        EndingsEndOfStream "endings_end_of_stream" Counter "connections" "Connections whose peer had finished and had been answered in full.";
        EndingsClosing "endings_closing" Counter "connections" "Connections ended by a drain or by the idle limit.";
        EndingsError "endings_error" Counter "connections" "Connections ended by an error of the socket or a reset.";
        EndingsAborted "endings_aborted" Counter "connections" "Connections ended by a panic, a deadline, the output limit or a transform that refused.";
        HandshakesUnderWay "handshakes_under_way" Gauge "handshakes" "Connections whose transform (TLS) is in its handshake now.";
        Handshakes "handshakes" Counter "handshakes" "Handshakes of transforms that ended well: the service got the connection.";
        HandshakesFailed "handshakes_failed" Counter "handshakes" "Handshakes of transforms that ended with their connection.";
        TransformRefusals "transform_refusals" Counter "connections" "Connections aborted because their transform refused the peer's bytes, in a handshake or later.";
        StreamsCut "streams_cut" Counter "connections" "Connections whose peer's socket finished before its transform saw the end of the stream (TLS without close_notify).";
        Panics "panics" Counter "panics" "Panics in the service, each of which closed its connection.";
        Requests "requests" Counter "requests" "Requests that the service took.";
        BytesIn "bytes_in" Counter "bytes" "Bytes received.";
        BytesOut "bytes_out" Counter "bytes" "Bytes sent.";
        BytesForwarded "bytes_forwarded" Counter "bytes" "Bytes put into output in the lease they came in.";
        BytesCopied "bytes_copied" Counter "bytes" "Bytes copied on their way: records that straddled leases, and output written from other memory.";
        BytesCompacted "bytes_compacted" Counter "bytes" "Bytes moved to fitting memory: a lease outlived its turn using under a quarter of its buffer.";
        Receives "receives" Counter "receives" "Receives from connections that brought bytes.";
        Sends "sends" Counter "sends" "Sends to connections.";
        SendsShort "sends_short" Counter "sends" "Sends that took only a part because the socket's buffer was full.";
        DatagramsIn "datagrams_in" Counter "datagrams" "Datagrams received, but for those that a socket with one peer had of others.";
        DatagramsOut "datagrams_out" Counter "datagrams" "Datagrams sent.";
        DatagramsRefused "datagrams_refused" Counter "datagrams" "Datagrams not sent because the kernel or a limit refused them.";
        TrainsIn "trains_in" Counter "trains" "Trains received (GRO); a datagram alone is a train of one.";
        TrainsOut "trains_out" Counter "trains" "Trains sent (GSO); a datagram alone is a train of one.";
        TrainsDropped "trains_dropped" Counter "trains" "Trains that the system dropped at the service's sockets, mostly because a receive buffer was full, as of a second ago. A single datagram is a train of one.";
        DatagramReceives "datagram_receives" Counter "receives" "Receives that brought datagrams, of which one can bring many.";
        DatagramSends "datagram_sends" Counter "sends" "Sends of datagrams, of which one can take many.";
        DatagramSocketsOpen "datagram_sockets_open" Gauge "sockets" "Datagram sockets that are open now.";
        DatagramSocketsMaxHits "datagram_sockets_max_hits" Counter "hits" "Datagram sockets refused to the service at its limit of them.";
        DatagramsWaitingMaxHits "datagrams_waiting_max_hits" Counter "hits" "Times datagrams were refused to the service because too many waited at their socket.";
        DatagramFaults "datagram_faults" Counter "faults" "Faults told to the service: sends that the system refused, and peers that the network could not reach.";
        ConnectionsMaxHits "connections_max_hits" Counter "hits" "Times no more were accepted at the service's limit of connections: new ones wait in the backlog.";
        ConnectionsPerPeerMaxHits "connections_per_peer_max_hits" Counter "hits" "Connections reset at once because their peer had its share already, and none that rested.";
        HandshakesMaxHits "handshakes_max_hits" Counter "hits" "Connections that waited because their peer had its share of the handshakes under way, or the service had as many as its limit.";
        ShareEndings "share_endings" Counter "connections" "Connections reset to make room: their peer had its share of connections, handshakes or tasks, and one more of its own or others needed some.";
        HandshakeLimitHits "handshake_limit_hits" Counter "hits" "Connections aborted because the handshake of their transform was not over within the handshake limit.";
        RequestsInFlightMaxHits "requests_in_flight_max_hits" Counter "hits" "Times reading paused because too many requests were unanswered.";
        RecordMaxHits "record_max_hits" Counter "hits" "Connections closed because a record was longer than the record limit.";
        OutputHighHits "output_high_hits" Counter "hits" "Times reading paused because as much output waited for the peer as may (output_high), as it does for who reads more slowly than answers come.";
        OutputMaxHits "output_max_hits" Counter "hits" "Connections aborted because their output grew beyond the output limit.";
        MemoryHits "memory_hits" Counter "hits" "Times reading paused because the peer held its share of the lane's memory.";
        MemoryEndings "memory_endings" Counter "connections" "Connections aborted because memory was short and they held the most of it.";
        ReceiveRateMinHits "receive_rate_min_hits" Counter "hits" "Connections closed because a request came below the minimum rate.";
        IdleLimitHits "idle_limit_hits" Counter "hits" "Connections closed because they were idle for the idle limit.";
        ReadLimitHits "read_limit_hits" Counter "hits" "Connections closed because a request was not complete within the read limit.";
        SendLimitHits "send_limit_hits" Counter "hits" "Connections closed because their output did not move for the send limit.";
        LingerLimitHits "linger_limit_hits" Counter "hits" "Connections closed before the peer confirmed all output, at the linger limit.";
        RecordsTruncated "records_truncated" Counter "records" "Records or datagrams of which only a part was received.";
        TicketsHeld "tickets_held" Counter "tickets" "Tickets given out for requests to be answered later.";
        TicketsDropped "tickets_dropped" Counter "tickets" "Tickets dropped without an answer, which is an error of the service.";
        AnswersLate "answers_late" Counter "answers" "Answers given after their connection had closed, and discarded.";
        AnswerLimitHits "answer_limit_hits" Counter "hits" "Connections aborted because a held request had no answer within the answer limit.";
        TimersMaxHits "timers_max_hits" Counter "hits" "Timers refused to the service because their connection had too many, and alarms because it had too many itself.";
        OffloadMaxHits "offload_max_hits" Counter "hits" "Times reading paused because as many calls were with the helper threads as may be.";
        NoticesLate "notices_late" Counter "messages" "Messages to connections of the lane that had ended.";
        Asks "asks" Counter "questions" "Questions of the service to itself on a lane.";
        AsksMaxHits "asks_max_hits" Counter "hits" "Questions refused to the service because too many waited for their outcome.";
        CallsDropped "calls_dropped" Counter "calls" "Questions to the service that it dropped without a reply, which is an error of the service.";
        MessagesDropped "messages_dropped" Counter "messages" "Messages that the service does not hear, or for which there was no task. The cause is an error of the service, or the bound of tasks.";
        ParcelsSent "parcels_sent" Counter "parcels" "Parcels that the service made of the lane's memory, to be read on another lane.";
        ParcelsRefused "parcels_refused" Counter "parcels" "Parcels refused to the service because as much of the lane's memory, or as many parcels, were with other lanes as may be.";
        ParcelsOverdueHits "parcels_overdue_hits" Counter "hits" "Parcels refused to the service because the lane that they were for has kept an earlier one for too long.";
        NoticesRefused "notices_refused" Counter "hits" "Attempts of the service to reach a connection of another service, which did nothing.";
        DrainDeadlineHits "drain_deadline_hits" Counter "hits" "Connections aborted, and datagram sockets closed, because the drain's deadline had passed.";
        TurnsLong "turns_long" Counter "turns" "Turns of a lane that polls of which the service had most, and that took more than half a millisecond while packets waited.";
        InLongTurnsNanoseconds "in_long_turns_nanoseconds" Counter "nanoseconds" "For how long the service had those turns.";
    }
    ratios {
        "requests_per_receive" Requests / Receives DatagramReceives, "Requests for each receive.";
        "requests_per_send" Requests / Sends DatagramSends, "Requests for each send.";
        "bytes_per_receive" BytesIn / Receives DatagramReceives, "Bytes for each receive.";
        "bytes_per_send" BytesOut / Sends DatagramSends, "Bytes for each send.";
        "datagrams_per_receive" DatagramsIn / DatagramReceives, "Datagrams for each receive of datagrams.";
        "datagrams_per_send" DatagramsOut / DatagramSends, "Datagrams for each send of datagrams.";
        "datagrams_per_train_in" DatagramsIn / TrainsIn, "Datagrams for each train received.";
        "datagrams_per_train_out" DatagramsOut / TrainsOut, "Datagrams for each train sent.";
        "nanoseconds_per_long_turn" InLongTurnsNanoseconds / TurnsLong, "Nanoseconds for which the service had each turn that was too long while packets waited.";
        "forwarded_share" BytesForwarded / BytesForwarded BytesCopied, "Of the bytes that were forwarded or copied, the share that was forwarded.";
    }
}

/// What [`LaneCounter::LaneState`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum LaneState {
    /// Not in its first turn yet.
    Starting = 0,
    /// In a turn.
    Running = 1,
    /// Looking for work again and again.
    Spinning = 2,
    /// Asleep in the driver.
    Sleeping = 3,
    /// Serving what it has; taking nothing new.
    Draining = 4,
    /// Over.
    Ended = 5,
}

impl LaneState {
    const ALL: [Self; 6] = [Self::Starting, Self::Running, Self::Spinning, Self::Sleeping, Self::Draining, Self::Ended];

    /// The state that the word in a row stands for; none for a word that stands for none.
    pub fn from_word(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|&state| state as u64 == word)
    }

    /// Its spelling in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Spinning => "spinning",
            Self::Sleeping => "sleeping",
            Self::Draining => "draining",
            Self::Ended => "ended",
        }
    }
}

/// Tells catalogues apart by what a reader must agree on: scopes, names, kinds, units and their order. FNV-1a.
pub(crate) const CATALOGUE_HASH: u64 = {
    let hash = hash_declared(0xcbf2_9ce4_8422_2325, LaneCounter::SCOPE, LaneCounter::DECLARED);
    let hash = hash_declared(hash, ServiceCounter::SCOPE, ServiceCounter::DECLARED);
    let hash = hash_declared(hash, PacketCounter::SCOPE, PacketCounter::DECLARED);
    let mut hash = hash_declared(hash, StreamCounter::SCOPE, StreamCounter::DECLARED);
    let mut i = 0;
    while i < LaneHistogram::DECLARED.len() {
        hash = hash_text(hash_text(hash, LaneHistogram::DECLARED[i].name), LaneHistogram::DECLARED[i].unit);
        i += 1;
    }
    hash
};

const fn hash_declared(mut hash: u64, scope: Scope, declared: &[Declaration]) -> u64 {
    let mut i = 0;
    while i < declared.len() {
        hash = hash_text(hash, scope.name());
        hash = hash_text(hash, declared[i].name);
        hash = hash_text(hash, declared[i].kind.name());
        hash = hash_text(hash, declared[i].unit);
        i += 1;
    }
    hash
}

const fn hash_text(mut hash: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut i = 0;
    // One round beyond the end, with a byte that no text holds, keeps "ab","c" from "a","bc".
    while i <= bytes.len() {
        let byte = if i < bytes.len() { bytes[i] } else { 0xff };
        hash = (hash ^ byte as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

/// The catalogue, and what each service counts of its own, as Markdown: the content of COUNTERS.md.
pub fn documentation(services: &[(&str, &[Declaration])]) -> String {
    let mut out = String::from(
        "# Counters\n\nMade from the catalogue in `src/catalogue.rs` and the entries of the services; do not edit.\n",
    );
    out.push_str(
        "\nA *counter* only grows. A *gauge* goes up and down. A *mark* is a state or a clock reading and has no sum.\n",
    );
    document::<LaneCounter>(&mut out, "For each lane");
    histogram::document(&mut out);
    document::<ServiceCounter>(&mut out, "For each service on each lane");
    document::<PacketCounter>(&mut out, "For the packet path of each lane");
    document::<StreamCounter>(&mut out, "For each protocol of the packet path, on each lane");
    for (name, declared) in services.iter().filter(|(_, declared)| !declared.is_empty()) {
        table(&mut out, &format!("For the service `{name}` on each lane, too"), declared);
    }
    out
}

fn table(out: &mut String, title: &str, declared: &[Declaration]) {
    let _ = writeln!(out, "\n## {title}\n\n| name | kind | unit | meaning |\n| --- | --- | --- | --- |");
    for Declaration { name, kind, unit, meaning, .. } in declared {
        let _ = writeln!(out, "| `{name}` | {} | {unit} | {meaning} |", kind.name());
    }
}

fn document<C: Counter>(out: &mut String, title: &str) {
    table(out, title, C::DECLARED);
    if C::RATIOS.is_empty() {
        return;
    }
    out.push_str("\nDerived from them:\n\n| name | is | meaning |\n| --- | --- | --- |\n");
    for ratio in C::RATIOS {
        let of: Vec<&str> = ratio.denominator.iter().map(|counter| counter.declaration().name).collect();
        let of = if of.len() > 1 { format!("({})", of.join(" + ")) } else { of.concat() };
        let _ = writeln!(out, "| `{}` | {} / {of} | {} |", ratio.name, ratio.numerator.declaration().name, ratio.meaning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn snake(camel: &str) -> String {
        let mut out = String::new();
        for c in camel.chars() {
            if c.is_uppercase() && !out.is_empty() {
                out.push('_');
            }
            out.extend(c.to_lowercase());
        }
        out
    }
    /// What counters are counted in.
    const UNITS: [&str; 47] = [
        "accepts",
        "answers",
        "addresses",
        "arrivals",
        "bytes",
        "call",
        "calls",
        "completions",
        "connections",
        "datagrams",
        "directories",
        "doorbells",
        "events",
        "faults",
        "fragments",
        "frames",
        "hits",
        "lines",
        "messages",
        "nanoseconds",
        "operations",
        "packets",
        "pairs",
        "panics",
        "parcels",
        "polls",
        "receives",
        "records",
        "handshakes",
        "questions",
        "requests",
        "sends",
        "percent",
        "pipes",
        "ports",
        "sleeps",
        "sockets",
        "state",
        "tasks",
        "ticks",
        "tickets",
        "timers",
        "times",
        "trains",
        "turns",
        "words",
        "works",
    ];

    fn check<C: Counter + std::fmt::Debug>() {
        let mut names = HashSet::new();
        for (index, counter) in C::ALL.iter().enumerate() {
            let entry = counter.declaration();
            assert_eq!(counter.index(), index);
            assert_eq!(entry.name, snake(&format!("{counter:?}")));
            assert!(names.insert(entry.name), "{} is declared twice", entry.name);
            assert!(UNITS.contains(&entry.unit), "{}: unit {}", entry.name, entry.unit);
            assert!(entry.meaning.ends_with('.') && !entry.meaning.contains('|'), "{}", entry.name);
        }
        for ratio in C::RATIOS {
            assert!(names.insert(ratio.name), "{} is declared twice", ratio.name);
        }
    }

    #[test]
    fn declarations_agree_with_themselves() {
        check::<LaneCounter>();
        check::<ServiceCounter>();
        check::<PacketCounter>();
        check::<StreamCounter>();
    }

    #[test]
    fn the_hash_sees_every_part_but_the_meaning() {
        let entry = Declaration { name: "ab", kind: Kind::Counter, unit: "c", meaning: "", place: 0 };
        let hash = |scope, entry| hash_declared(0, scope, &[entry]);
        let all = [
            hash(Scope::Lane, entry),
            hash(Scope::Service, entry),
            hash(Scope::Lane, Declaration { name: "a", unit: "bc", ..entry }),
            hash(Scope::Lane, Declaration { kind: Kind::Gauge, ..entry }),
            hash(Scope::Lane, Declaration { unit: "d", ..entry }),
        ];
        assert_eq!(HashSet::from(all).len(), all.len());
        assert_eq!(all[0], hash(Scope::Lane, Declaration { meaning: "another", ..entry }));
    }

    #[test]
    fn states_survive_their_words() {
        for state in LaneState::ALL {
            assert_eq!(LaneState::from_word(state as u64), Some(state));
            assert!(LaneCounter::LaneState.declaration().meaning.contains(&format!("{} {}", state as u64, state.name())));
        }
        assert_eq!(LaneState::from_word(6), None);
    }
}
