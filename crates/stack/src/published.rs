//! What a lane's packet path counts, as it stands in the counter page: written by the lane, read by whoever looks.

use crate::beside::Beside;
use crate::counts::{Drop, PacketCounts};
use crate::polling::PollingNow;
use crate::tunnels::Tunnel;
use corelane_isr::dispatch::{Dispatch, Number, Placement, ProtocolRow, Report, StreamCounts, StreamNow, StreamRow};
use corelane_isr::polling::{Controller, Knobs, Settings, Variables};
use corelane_isr::reassembly::{FragmentCounts, Reason};
use corelane_seam::{Lost, PortKind, PortState};
use corelane_watch::{
    LaneSnapshot, PacketCounter, PacketsRow, PacketsSnapshot, PacketsWriter, Snapshot, StreamCounter, StreamSnapshot, choice_of,
};

/// The policies by their words in the page, from 1; 0 is none of its own.
const DISPATCHES: [Dispatch; 3] = [Dispatch::Deferred, Dispatch::Hybrid, Dispatch::Direct];
/// The placements by theirs, from 1.
const PLACEMENTS: [Placement; 3] = [Placement::Source, Placement::Flow, Placement::Lane];

const _: () = assert!(Number::COUNT == corelane_watch::PROTOCOLS_MAX, "each protocol has its place in a row");

/// Writes all of it as of one moment.
pub(crate) fn write(row: &PacketsRow, beside: &Beside) {
    let (counts, gauges, isr) = (&*beside.tally, beside.gauges(), beside.placing.isr());
    assert!(counts.datagrams_add_up(), "{counts:?}");
    row.together(|to| {
        write_counts(to, counts);
        write_fragments(to, &gauges.fragments, gauges.fragments_waiting, beside.placing.reordered());
        write_lost(to, &gauges.links.lost);
        write_polling(to, beside.polled());
        to.set(PacketCounter::AddressesTaken, gauges.links.taken.0);
        to.set(PacketCounter::AddressesUnready, gauges.links.taken.1);
        to.set(PacketCounter::AddressesBeside, beside.kernels());
        to.set(PacketCounter::KernelForwards, beside.forwards());
        to.set(PacketCounter::MtuShort, gauges.links.mtu_short.unwrap_or_default() as u64);
        to.set_interface(beside.interface());
        to.set(PacketCounter::DispatchOfAll, word_of(isr.dispatch(), &DISPATCHES));
        to.set(PacketCounter::PortState, word_of(gauges.links.state, &PortState::ALL));
        to.set(PacketCounter::PortKind, word_of(gauges.links.kind, &PortKind::ALL));
        let mut protocols = 0;
        for stream in isr.now() {
            write_stream(to, protocols, &stream);
            protocols += 1;
        }
        to.set_protocols(protocols);
    });
}

fn write_fragments(to: &PacketsWriter<'_>, counts: &FragmentCounts, waiting: usize, reorders: u64) {
    use PacketCounter as C;
    assert_eq!(counts.fragments, counts.joined + counts.dropped + waiting as u64, "{counts:?}");
    let of = |reasons: &[Reason]| reasons.iter().map(|reason| counts.of(*reason)).sum();
    for (counter, value) in [
        (C::Fragments, counts.fragments),
        (C::Reassembled, counts.reassembled),
        (C::FragmentsJoined, counts.joined),
        (C::FragmentsWaiting, waiting as u64),
        (C::FragmentsDropped, counts.dropped),
        (C::FragmentsTooSmall, of(&[Reason::TooSmall])),
        (C::FragmentsTooLong, of(&[Reason::TooLong])),
        (C::FragmentsTwice, of(&[Reason::Duplicate])),
        (C::FragmentsAtOdds, of(&[Reason::Header, Reason::Headless, Reason::End, Reason::Overlap, Reason::Congestion])),
        (C::FragmentsTimedOut, counts.timed_out),
        (C::FragmentsNoRoom, of(&[Reason::Bucket, Reason::Datagrams, Reason::Fragments, Reason::Bytes])),
        (C::FragmentsTooMany, of(&[Reason::Each])),
        (C::Reorders, reorders),
    ] {
        to.set(counter, value);
    }
}

fn write_lost(to: &PacketsWriter<'_>, lost: &Lost) {
    use PacketCounter as C;
    for (counter, value) in [
        (C::PortNoFrame, lost.no_frame),
        (C::PortRingFull, lost.ring_full),
        (C::PortTooLong, lost.too_long),
        (C::PortSendLost, lost.send_lost),
    ] {
        to.set(counter, value);
    }
}

/// The controllers by their words in the page, from 1.
const CONTROLLERS: [Controller; 2] = [Controller::Timed, Controller::Original];

fn write_polling(to: &PacketsWriter<'_>, polled: &PollingNow) {
    use PacketCounter as C;
    let PollingNow { settings, variables: v, network, timed } = polled;
    let Some(Settings { controller, hz, knobs, other_programs }) = *settings else { return };
    for (counter, value) in [
        (C::NetworkNanoseconds, *network),
        (C::NetworkHeld, timed.held),
        (C::PollingOverruns, timed.overruns),
        (C::PollingController, word_of(controller, &CONTROLLERS)),
        (C::PollingHz, hz.into()),
        (C::PollingUserFrac, knobs.user_frac.into()),
        (C::PollingBurstMax, knobs.burst_max.into()),
        (C::PollingEachBurst, knobs.each_burst.into()),
        (C::PollingRegFrac, knobs.reg_frac.into()),
        (C::PollingIdlePoll, knobs.idle_poll.into()),
        (C::PollingOtherPrograms, other_programs.into()),
        (C::PollingBurst, v.burst.into()),
        (C::PollingResidualBurst, v.residual_burst.into()),
        (C::PollingPhase, v.phase.into()),
        (C::PollingPending, v.pending_polls.into()),
        (C::PollingHandlers, v.handlers.into()),
        (C::PollingShortTicks, v.short_ticks.into()),
        (C::PollingLostPolls, v.lost_polls.into()),
        (C::PollingStalled, v.stalled.into()),
        (C::PollingSuspect, v.suspect.into()),
    ] {
        to.set(counter, value);
    }
}

fn write_counts(to: &PacketsWriter<'_>, counts: &PacketCounts) {
    use PacketCounter as C;
    for (counter, value) in [
        (C::FramesIn, counts.frames_in),
        (C::FramesOut, counts.frames_out),
        (C::FramesMalformed, counts.of(Drop::Malformed)),
        (C::FramesChecksum, counts.of(Drop::Checksum)),
        (C::FramesNotOurs, counts.of(Drop::NotOurs)),
        (C::FramesDropped, counts.dropped()),
        (C::UdpReceived, counts.datagrams_arrived),
        (C::UdpDamaged, counts.datagrams_damaged),
        (C::UdpNoSocket, counts.of(Drop::Port)),
        (C::UdpSocketFull, counts.of(Drop::Full)),
        (C::UdpDelivered, counts.datagrams_in),
        (C::UdpElsewhere, counts.strays),
        (C::UdpSent, counts.datagrams_out),
        (C::PacketsCrossed, counts.crossed),
        (C::CrossingLost, counts.of(Drop::Crossing)),
        (C::ChannelPut, counts.channelled),
        (C::ChannelDropped, counts.of(Drop::Channel)),
        (C::EchoesAnswered, counts.echoes),
        (C::ErrorsSent, counts.errors_out),
        (C::SumsLeft, counts.sums_left),
        (C::WaysNarrowed, counts.ways_narrowed),
        (C::AddressConflicts, counts.conflicts),
        (C::AnnouncementsSent, counts.announcements_sent),
        (C::VlanUnknown, counts.of(Drop::Vlan)),
        (C::PacketsForwarded, counts.forwarded),
        (C::ForwardMartian, counts.of(Drop::Martian)),
        (C::ForwardReversePath, counts.of(Drop::ReversePath)),
        (C::ForwardNoRoute, counts.of(Drop::NoRoute)),
        (C::ForwardHops, counts.of(Drop::Hops)),
        (C::ForwardTooBig, counts.of(Drop::TooBig)),
        (C::ForwardSourceRoute, counts.of(Drop::SourceRoute)),
        (C::ForwardQueueFull, counts.of(Drop::Outgoing)),
        (C::PacketsRefused, counts.of(Drop::Judged)),
        (C::NatRefused, counts.of(Drop::Translation)),
    ] {
        to.set(counter, value);
    }
    for (tunnel, opened, dropped) in [
        (Tunnel::Gre, C::GreOpened, C::GreDropped),
        (Tunnel::IpInIp, C::IpipOpened, C::IpipDropped),
        (Tunnel::Ipv6InIp, C::Ip6inipOpened, C::Ip6inipDropped),
        (Tunnel::Vxlan, C::VxlanOpened, C::VxlanDropped),
    ] {
        to.set(opened, counts.of_tunnel(tunnel).opened);
        to.set(dropped, counts.of_tunnel(tunnel).dropped);
    }
}

fn write_stream(to: &PacketsWriter<'_>, protocol: usize, stream: &StreamNow) {
    use StreamCounter as C;
    let StreamNow { name, number, limit, placement, dispatch, asks, counts } = stream;
    assert!(counts.add_up(), "{name}: {counts:?}");
    to.name(protocol, name);
    for (counter, value) in [
        (C::Number, number.number().into()),
        (C::Limit, *limit as u64),
        (C::Placement, word_of(*placement, &PLACEMENTS)),
        (C::Dispatch, dispatch.map_or(0, |own| word_of(own, &DISPATCHES))),
        (C::Asks, asks.iter().rev().fold(0, |word, asks| word << 1 | u64::from(*asks))),
        (C::Length, counts.length as u64),
        (C::Watermark, counts.watermark as u64),
        (C::Dispatched, counts.dispatched),
        (C::Hybrid, counts.hybrid),
        (C::Drops, counts.drops),
        (C::Queued, counts.queued),
        (C::Handled, counts.handled),
    ] {
        to.set_stream(protocol, counter, value);
    }
}

/// The word of a choice: its place in the list, from 1.
fn word_of<T: PartialEq>(choice: T, all: &[T]) -> u64 {
    let place = all.iter().position(|one| *one == choice);
    // reason: the lists hold every variant.
    place.expect("each choice is in its list") as u64 + 1
}

/// How the packets of each lane come, by its number in the snapshot; lanes without a packet path are left out, and what no version known here writes.
pub fn ports_of(snapshot: &Snapshot) -> impl Iterator<Item = (usize, PortKind)> {
    snapshot.packets_choices(PacketCounter::PortKind, &PortKind::ALL)
}

/// Whether packets can come to each lane and go, as [`ports_of`].
pub fn port_states_of(snapshot: &Snapshot) -> impl Iterator<Item = (usize, PortState)> {
    snapshot.packets_choices(PacketCounter::PortState, &PortState::ALL)
}

/// How a lane polls, as its page tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LanePolling {
    /// The lane's number.
    pub lane: usize,
    /// What is set.
    pub settings: Settings,
    /// The controller's variables; by the clock only its burst.
    pub variables: Variables,
    /// Nanoseconds of the lane's time that packets took.
    pub network_ns: u64,
    /// How often they were held for others.
    pub held: u64,
    /// How often services and tasks took more than half a millisecond at once while packets waited.
    pub overruns: u64,
}

/// How each lane polls that does, by its number in the snapshot.
pub fn polling_of(snapshot: &Snapshot) -> impl Iterator<Item = LanePolling> {
    let controllers = snapshot.packets_choices(PacketCounter::PollingController, &CONTROLLERS);
    controllers.filter_map(|(lane, controller)| {
        let packets = snapshot.lanes.get(lane)?.packets.as_ref()?;
        let of = |counter| packets.values.get(counter);
        // A page tells what a lane has, which fits; one that does not is no page of ours.
        let word = |counter| u32::try_from(of(counter)).ok();
        use PacketCounter as C;
        let knobs = Knobs {
            user_frac: word(C::PollingUserFrac)?,
            burst_max: word(C::PollingBurstMax)?,
            each_burst: word(C::PollingEachBurst)?,
            reg_frac: word(C::PollingRegFrac)?,
            idle_poll: of(C::PollingIdlePoll) == 1,
        };
        let other_programs = of(C::PollingOtherPrograms) == 1;
        let variables = Variables {
            burst: word(C::PollingBurst)?,
            residual_burst: word(C::PollingResidualBurst)?,
            phase: word(C::PollingPhase)?,
            pending_polls: word(C::PollingPending)?,
            handlers: word(C::PollingHandlers)?,
            short_ticks: of(C::PollingShortTicks) as u32,
            lost_polls: of(C::PollingLostPolls) as u32,
            stalled: of(C::PollingStalled) as u32,
            suspect: of(C::PollingSuspect) as u32,
            ..Variables::default()
        };
        Some(LanePolling {
            lane,
            settings: Settings { controller, hz: word(C::PollingHz)?, knobs, other_programs },
            variables,
            network_ns: of(C::NetworkNanoseconds),
            held: of(C::NetworkHeld),
            overruns: of(C::PollingOverruns),
        })
    })
}

/// The report of the workstreams of all lanes of a process. Without a packet path it has no protocols and no workstreams. What no version known here
/// writes is left out.
#[must_use]
pub fn report_of(snapshot: &Snapshot) -> Report {
    let lanes = snapshot.lanes.len();
    let first = snapshot.lanes.iter().find_map(|lane| lane.packets.as_ref());
    let dispatch = first.and_then(|packets| choice_of(packets.values.get(PacketCounter::DispatchOfAll), &DISPATCHES));
    let protocols = first.map_or_else(Vec::new, |packets| packets.streams.iter().filter_map(protocol_row).collect());
    let streams = snapshot.lanes.iter().enumerate().flat_map(|(number, lane)| stream_rows(number, lane));
    Report {
        lanes: (lanes, lanes),
        dispatch: dispatch.unwrap_or(Dispatch::Direct),
        are_bound: snapshot.lanes.iter().all(|lane| lane.name.cpu.is_some()),
        protocols,
        streams: streams.collect(),
    }
}

fn protocol_row(StreamSnapshot { name, values }: &StreamSnapshot) -> Option<ProtocolRow> {
    let asks = values.get(StreamCounter::Asks);
    Some(ProtocolRow {
        name: name.clone(),
        number: Number::new(u8::try_from(values.get(StreamCounter::Number)).ok()?).ok()?,
        limit: usize::try_from(values.get(StreamCounter::Limit)).ok()?,
        placement: choice_of(values.get(StreamCounter::Placement), &PLACEMENTS)?,
        dispatch: choice_of(values.get(StreamCounter::Dispatch), &DISPATCHES),
        asks: std::array::from_fn(|bit| asks >> bit & 1 == 1),
    })
}

fn stream_rows(number: usize, lane: &LaneSnapshot) -> impl Iterator<Item = StreamRow> {
    let streams = lane.packets.iter().flat_map(|PacketsSnapshot { streams, .. }| streams);
    streams.map(move |StreamSnapshot { name, values }| {
        let length = |counter| usize::try_from(values.get(counter)).unwrap_or(usize::MAX);
        let mut counts = StreamCounts::default();
        (counts.length, counts.watermark) = (length(StreamCounter::Length), length(StreamCounter::Watermark));
        counts.dispatched = values.get(StreamCounter::Dispatched);
        counts.hybrid = values.get(StreamCounter::Hybrid);
        counts.drops = values.get(StreamCounter::Drops);
        counts.queued = values.get(StreamCounter::Queued);
        counts.handled = values.get(StreamCounter::Handled);
        StreamRow { lane: number, cpu: lane.name.cpu.map_or(number, |cpu| cpu as usize), name: name.clone(), counts }
    })
}
