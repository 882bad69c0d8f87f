//! What the packet path of a lane counts, if it has one.

use super::{Counter, Declaration, Kind, Ratio, Scope};

catalogue! {
    /// What a lane's packet path counts. Of the datagrams: `udp_received` is `udp_damaged`, `udp_no_socket`, `udp_socket_full`, `udp_delivered` and
    /// `udp_elsewhere` together.
    PacketCounter, Packets;
    counters {
        FramesIn "frames_in" Counter "frames" "Frames that arrived.";
        FramesOut "frames_out" Counter "frames" "Frames handed to the port.";
        FramesMalformed "frames_malformed" Counter "packets" "Packets dropped because a header was cut short or contradicted itself.";
        FramesChecksum "frames_checksum" Counter "packets" "Packets dropped because a checksum was wrong.";
        FramesNotOurs "frames_not_ours" Counter "frames" "Frames dropped because they were for somebody else.";
        FramesDropped "frames_dropped" Counter "packets" "Packets dropped, for whatever reason.";
        UdpReceived "udp_received" Counter "datagrams" "Datagrams that reached UDP on the lane.";
        UdpDamaged "udp_damaged" Counter "datagrams" "Datagrams dropped because their header or checksum was wrong.";
        UdpNoSocket "udp_no_socket" Counter "datagrams" "Datagrams dropped because no socket had their port.";
        UdpSocketFull "udp_socket_full" Counter "datagrams" "Datagrams dropped because the queue of their socket was full.";
        UdpDelivered "udp_delivered" Counter "datagrams" "Datagrams put into the queue of their socket.";
        UdpElsewhere "udp_elsewhere" Counter "datagrams" "Datagrams sent on to the lane that alone can have their socket.";
        UdpSent "udp_sent" Counter "datagrams" "Datagrams that sockets sent.";
        PacketsCrossed "packets_crossed" Counter "packets" "Packets sent to the lane of their bucket.";
        CrossingLost "crossing_lost" Counter "packets" "Packets and datagrams dropped on their way to the lane of their bucket or socket. Other lanes had an eighth of the port's frames already, or the channel was full.";
        ChannelPut "channel_put" Counter "packets" "Packets put into channels of other lanes and processes.";
        ChannelDropped "channel_dropped" Counter "packets" "Packets dropped because the ring of their channel was full, or they were too long for one.";
        Fragments "fragments" Counter "fragments" "Fragments that arrived.";
        Reassembled "reassembled" Counter "datagrams" "Datagrams put together of fragments.";
        FragmentsJoined "fragments_joined" Counter "fragments" "Fragments of which datagrams were put together.";
        FragmentsWaiting "fragments_waiting" Gauge "fragments" "Fragments that wait for others now.";
        FragmentsDropped "fragments_dropped" Counter "fragments" "Fragments dropped: no room, too late, or at odds with others.";
        FragmentsTooSmall "fragments_too_small" Counter "fragments" "Fragments dropped because they had no data, or others were to follow a number of bytes that none can.";
        FragmentsTooLong "fragments_too_long" Counter "fragments" "Fragments dropped because their datagram would be longer than there are.";
        FragmentsTwice "fragments_twice" Counter "fragments" "Fragments dropped because they were there already.";
        FragmentsAtOdds "fragments_at_odds" Counter "fragments" "Fragments dropped because of a header, or because they overlapped others, or ended or met congestion where those did not.";
        FragmentsTimedOut "fragments_timed_out" Counter "datagrams" "Datagrams in fragments given up because the others did not come in time.";
        FragmentsNoRoom "fragments_no_room" Counter "datagrams" "Datagrams in fragments given up for others.";
        FragmentsTooMany "fragments_too_many" Counter "datagrams" "Datagrams in fragments given up because they came in more than the longest needs.";
        Reorders "reorders" Counter "datagrams" "Datagrams that ran behind a later one of their flow, because they waited for fragments.";
        EchoesAnswered "echoes_answered" Counter "packets" "Echo requests answered.";
        ErrorsSent "errors_sent" Counter "packets" "ICMP errors sent.";
        SumsLeft "sums_left" Counter "packets" "Packets taken whose checksum a sender on the same machine had left to its card.";
        WaysNarrowed "ways_narrowed" Counter "messages" "Messages of routers that packets to an address were too big, which were believed for ten minutes.";
        GreOpened "gre_opened" Counter "packets" "Packets taken out of tunnels of GRE.";
        GreDropped "gre_dropped" Counter "packets" "Packets dropped with what they carried in tunnels of GRE.";
        IpipOpened "ipip_opened" Counter "packets" "Packets taken out of tunnels of IPv4 in IP.";
        IpipDropped "ipip_dropped" Counter "packets" "Packets dropped with what they carried in tunnels of IPv4 in IP.";
        Ip6inipOpened "ip6inip_opened" Counter "packets" "Packets taken out of tunnels of IPv6 in IP (6in4).";
        Ip6inipDropped "ip6inip_dropped" Counter "packets" "Packets dropped with what they carried in tunnels of IPv6 in IP (6in4).";
        VxlanOpened "vxlan_opened" Counter "packets" "Packets taken out of tunnels of VXLAN.";
        VxlanDropped "vxlan_dropped" Counter "packets" "Packets dropped with what they carried in tunnels of VXLAN.";
        DispatchOfAll "dispatch_of_all" Mark "state" "When handlers run of protocols that do not say otherwise: 1 deferred, 2 hybrid, 3 direct.";
        PortNoFrame "port_no_frame" Counter "packets" "Packets lost at the port because no frame was free to receive them into.";
        PortRingFull "port_ring_full" Counter "packets" "Packets lost at the port because its ring of received ones was full.";
        PortTooLong "port_too_long" Counter "packets" "Packets lost at the port because they were longer than the frames that one may lie in.";
        PortSendLost "port_send_lost" Counter "packets" "Packets that the interface did not send. Its own queue was full, or the other end of its wire was not there or takes only shorter packets.";
        PortState "port_state" Mark "state" "The interface's state: 1 up, 2 down, 3 gone, 4 without a carrier, 5 without its XDP program, 6 with more queues than lanes. If it is gone, no packet comes or goes until the program is started anew.";
        PortKind "port_kind" Mark "state" "The way into the port's memory: 1 simulated, 2 tap, 3 packet socket, 4 AF_XDP, copied by the kernel, 5 AF_XDP, zero-copy.";
        AddressesTaken "addresses_taken" Gauge "addresses" "Addresses that another station of the link has: they are not announced, and asked for every 10 seconds. The first lane counts them.";
        AddressesUnready "addresses_unready" Gauge "addresses" "Those of addresses_taken that keep the program from being ready: for 30 seconds at most after the interface came up.";
        AddressesBeside "addresses_beside" Gauge "addresses" "Addresses of the lanes that the kernel has as well, so that both answer. The first lane counts them.";
        MtuShort "mtu_short" Gauge "bytes" "The interface's MTU, where that is less than the lanes' addresses of IPv6 ask for; else 0. The first lane says so.";
        KernelForwards "kernel_forwards" Mark "state" "Whether the kernel forwards the lanes' packets as well: 0 no, 1 those of IPv4, 2 those of IPv6. It then sends wrong errors about the lanes' addresses. The first lane says so.";
        AddressConflicts "address_conflicts" Counter "packets" "Words of other stations of the link that claimed an address of the lanes.";
        AnnouncementsSent "announcements_sent" Counter "packets" "Announcements to the link that an address is the lanes'.";
        NetworkNanoseconds "network_nanoseconds" Counter "nanoseconds" "Time in which the lane received and handled packets, where it polls.";
        NetworkHeld "network_held" Counter "times" "How often packets were held because their part of the lane's time was used up and others wanted it.";
        PollingOverruns "polling_overruns" Counter "times" "How often services and tasks took more than half a millisecond at once while packets waited.";
        PollingController "polling_controller" Mark "state" "The controller that bounds the time of packets on the lane: 0 none, 1 the clock (timed), 2 FreeBSD's (original).";
        PollingHz "polling_hz" Mark "ticks" "Ticks a second of FreeBSD's controller (hz).";
        PollingUserFrac "polling_user_frac" Mark "percent" "The part of the lane's time that is others' while they want it (user_frac).";
        PollingBurstMax "polling_burst_max" Mark "frames" "The most that a burst may be (burst_max).";
        PollingEachBurst "polling_each_burst" Mark "frames" "Frames that each port brings at once (each_burst).";
        PollingRegFrac "polling_reg_frac" Mark "ticks" "Ticks from one look at the card's status to the next (reg_frac).";
        PollingIdlePoll "polling_idle_poll" Mark "state" "Whether a lane that has nothing to do polls: 0 or 1 (idle_poll).";
        PollingOtherPrograms "polling_other_programs" Mark "state" "Whether other programs of the lane's CPU have a part in the user fraction: 0 or 1 (other_programs).";
        PollingBurst "polling_burst" Mark "frames" "Frames of each port that packets may have before others have their part (burst).";
        PollingResidualBurst "polling_residual_burst" Mark "frames" "Frames of the burst that are still to come in this tick (residual_burst).";
        PollingPhase "polling_phase" Mark "state" "Where FreeBSD's controller is, 0 to 6 (phase).";
        PollingPending "polling_pending" Mark "ticks" "Ticks whose polls have not ended (pending_polls).";
        PollingHandlers "polling_handlers" Mark "ports" "Ports that FreeBSD's controller polls (handlers).";
        PollingShortTicks "polling_short_ticks" Counter "ticks" "Ticks that came less than half of one after the last full one (short_ticks).";
        PollingLostPolls "polling_lost_polls" Counter "ticks" "Ticks that came while a poll was pending (lost_polls).";
        PollingStalled "polling_stalled" Counter "times" "How often more than a hundred pending polls were forgotten (stalled).";
        PollingSuspect "polling_suspect" Counter "ticks" "Ticks that came while the last one's poll had not begun (suspect).";
        VlanUnknown "vlan_unknown" Counter "frames" "Frames dropped because no interface of their port has their VLAN tags.";
        PacketsForwarded "packets_forwarded" Counter "packets" "Packets for others that were sent on to them.";
        ForwardMartian "forward_martian" Counter "packets" "Packets not sent on because of an address that no packet from host to host has.";
        ForwardReversePath "forward_reverse_path" Counter "packets" "Packets not sent on because no route leads back to their sender by where they came.";
        ForwardNoRoute "forward_no_route" Counter "packets" "Packets not sent on because no route leads to where they are for.";
        ForwardHops "forward_hops" Counter "packets" "Packets not sent on because they had passed as many routers as they may.";
        ForwardTooBig "forward_too_big" Counter "packets" "Packets not sent on because they were longer than the link carries, and may not be cut.";
        ForwardSourceRoute "forward_source_route" Counter "packets" "Packets not sent on because their sender had chosen their route.";
        ForwardQueueFull "forward_queue_full" Counter "packets" "Packets not sent on because a quarter of the port's frames waited to be sent already.";
        PacketsRefused "packets_refused" Counter "packets" "Packets that rules kept back, those that the stack itself was to send among them.";
        NatRefused "nat_refused" Counter "packets" "Packets not sent on because their addresses could not be translated: of no flow, of no kind that can be, or beyond a bound.";
        RelayRequests "relay_requests" Counter "packets" "Requests of DHCP clients that were passed on to a server at least; what rules keep back of them is among packets_refused.";
        RelayReplies "relay_replies" Counter "packets" "Answers of DHCP servers that were passed on to clients; those that rules keep back are among packets_refused.";
        RelayRefused "relay_refused" Counter "packets" "Messages of DHCP not passed on. A client named a relay of IPv4, had passed too many relays, or spoke as a server; or an answer was of none of the servers.";
        RelayLimited "relay_limited" Counter "packets" "Messages of DHCP not passed on because more came than may.";
    }
    ratios {}
}

catalogue! {
    /// What is counted of each protocol of a packet path, on each lane. Handled is dispatched, hybrid and queued together, less the length.
    StreamCounter, Workstream;
    counters {
        Number "number" Mark "state" "The protocol's number, from 1 to 16.";
        Limit "limit" Mark "packets" "Packets that its queue holds.";
        Placement "placement" Mark "state" "How a packet's lane is chosen: 1 source, 2 flow, 3 cpu.";
        Dispatch "dispatch" Mark "state" "When its handler runs: 0 as by default, 1 deferred, 2 hybrid, 3 direct.";
        Asks "asks" Mark "state" "The sum of the questions that it answers: 1 a packet's lane, 2 the work due when its queue has run, 4 a packet's flow.";
        Length "length" Gauge "packets" "Packets queued now.";
        Watermark "watermark" Gauge "packets" "The most packets that were queued at one time.";
        Dispatched "dispatched" Counter "packets" "Packets run at once by the direct policy.";
        Hybrid "hybrid" Counter "packets" "Packets run at once by the hybrid policy.";
        Drops "drops" Counter "packets" "Packets dropped because the queue was full.";
        Queued "queued" Counter "packets" "Packets queued ever.";
        Handled "handled" Counter "packets" "Packets run, at once or later.";
    }
    ratios {}
}
