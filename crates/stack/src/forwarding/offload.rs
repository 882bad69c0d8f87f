//! What a port's fast path is told (flow offload): how packets from one address to another go on.

use crate::judging;
use crate::outward::Outward;
use crate::packet::Ip;
use crate::routes::Way;
use corelane_seam::{LearntWay, LinkSide};
use corelane_wire::packet::ethernet::Mac;

/// How long a way holds, in nanoseconds. Then a packet comes to the lane again, which asks for a neighbour that was not heard lately.
const HOLDS: u64 = 4_000_000_000;

/// Tells the port by which a packet came that others from its source may come so, and that others to its destination leave by that way to that station, uncut up to so many bytes.
/// Where the interface of a side `clamps`, those that open connections come to the lane. A station is not told whose address somebody else says he has.
pub(super) fn tell(out: &Outward<'_>, ip: &Ip, (came_by, way): (usize, &Way), mtu: usize, station: Mac, clamps: [bool; 2]) {
    let leaves_by = way.interface;
    let (comes, leaves) = (&out.interfaces[came_by], &out.interfaces[leaves_by]);
    let Some(offload) = out.trunks[comes.port()].offload() else { return };
    // A program would count there what does not leave.
    if !out.trunks[leaves.port()].line().leaves || !leaves.neighbours().is_sure(way.hop) {
        return;
    }
    let side = |at: usize, station: Mac, hands_over_opening| LinkSide {
        interface: judging::interface(at).0,
        tags: out.interfaces[at].tags().as_seen(),
        destination: station.0,
        hands_over_opening,
    };
    let way = LearntWay {
        source: ip.source,
        destination: ip.destination,
        comes: side(came_by, comes.mac(), clamps[0]),
        leaves: side(leaves_by, station, clamps[1]),
        leaves_from: leaves.mac().0,
        device: out.trunks[leaves.port()].device(),
        mtu: mtu.min(u16::MAX.into()) as u16,
        until: out.now + HOLDS,
    };
    // One that is not taken is told with the next packet.
    let _is_taken = offload.learn(out.now, &way);
}
