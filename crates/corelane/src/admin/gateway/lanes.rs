//! The lanes of a gateway, as the owner of its rules needs them: told things, all or none of them, and looked at.

use super::words::{FastPath, InterfaceRow, Totals, Translated};
use corelane_rules::{Count, Facts, RuleId, RuleSet};
use corelane_stack::{Policy, Route};
use std::net::IpAddr;

/// Whether lanes go by what they were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InForce {
    /// All of them.
    Now,
    /// At least one of them has not finished its turn, and will when it does.
    Soon,
}

/// The counts of rules on all lanes, in the order in which they were asked for.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub counts: Vec<Count>,
    /// The lanes' clock.
    pub now: u64,
}

/// The knowledge that lanes have of a packet, for whoever asks.
#[derive(Debug, Default)]
pub(crate) struct Sighted {
    pub source_is_ours: bool,
    pub destination_is_ours: bool,
    /// The lane that has a state of its flow, and the rule that made it.
    pub state: Option<(usize, RuleId)>,
}

/// Where an address is, as one lane has it: the interface, who gets its packets, and what is known of him.
pub(crate) type Found = (usize, IpAddr, Option<(&'static str, Option<String>)>);

/// The packets forwarded at each interface and those that were not, by its number, and the totals.
pub(crate) type Seen = (Vec<InterfaceRow>, Totals);

/// All lanes. A refusal is in words for whoever asks.
pub(crate) trait Lanes {
    /// Has all of them do these one after the other, and waits until they have. If one has no room, none is told anything.
    fn tell(&self, orders: &[Policy]) -> Result<InForce, String>;
    /// The counts of these rules.
    fn counts(&self, rules: &[RuleId]) -> Result<Counted, String>;
    /// Of each route whether it could be added; false if its network is the gateway's own.
    fn could_lead(&self, routes: &[Route]) -> Result<Vec<Result<bool, String>>, String>;
    /// Their knowledge of a packet.
    fn sight(&self, facts: &Facts) -> Result<Sighted, String>;
    /// Whether the address is one of the gateway's, and the way to it.
    fn way(&self, to: IpAddr) -> Result<(bool, Option<Found>), String>;
    /// The packets forwarded at each interface, by its number, with the numbers of states and translations.
    fn totals(&self) -> Result<Seen, String>;
}

/// Adds the row of an interface of one lane to that of others.
pub(crate) fn add_row(row: &mut InterfaceRow, other: &InterfaceRow) {
    row.packets_in += other.packets_in;
    row.bytes_in += other.bytes_in;
    row.packets_out += other.packets_out;
    row.bytes_out += other.bytes_out;
    row.losses += other.losses;
    row.device = row.device.or(other.device);
    row.neighbours = row.neighbours.max(other.neighbours);
    row.asked = row.asked.max(other.asked);
}

/// Adds the totals of one lane to those of others.
pub(crate) fn add_totals(all: &mut Totals, other: Totals) {
    all.lanes += other.lanes;
    all.states += other.states;
    all.states_refused += other.states_refused;
    all.lines_refused += other.lines_refused;
    if let Some(more) = other.translated {
        let sum = all.translated.get_or_insert_default();
        let Translated { packets, sessions, ports, begun, refused_unfit, refused_sessions, refused_source, refused_ports } = more;
        sum.packets += packets;
        sum.sessions += sessions;
        sum.ports += ports;
        sum.begun += begun;
        sum.refused_unfit += refused_unfit;
        sum.refused_sessions += refused_sessions;
        sum.refused_source += refused_source;
        sum.refused_ports += refused_ports;
    }
}

/// Packets that went by all interfaces without a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub forwarded: u64,
    /// Those that rules had dropped.
    pub denied: u64,
}

/// All that carries out the same rules beside the lanes: the programs of their ports. Its clock is the lanes'.
pub(crate) trait Beside: Send {
    /// The counts of these rules there, in their order.
    fn counts(&self, rules: &[RuleId]) -> Vec<Count>;
    /// Adds what went by an interface there and what did not, by its number from 0; what of that came in there.
    fn add_traffic(&self, interface: usize, row: &mut InterfaceRow) -> Passed;
    /// Counts of these rules begin with 0 again.
    fn zero(&mut self, rules: &[RuleId]);
    /// These rules are in force on the lanes from now on.
    fn follow(&mut self, rules: &RuleSet);
    /// Whether it carries out the rules, or why not; and what was lost behind it. So much went by all interfaces.
    fn state(&self, passed: Passed) -> FastPath;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::gateway::Losses;

    #[test]
    fn what_lanes_have_at_an_interface_is_added() {
        let losses = Losses { refused: 1, errors: 2, not_ours: 3, drops: 4, unsent: 5 };
        let one = InterfaceRow { packets_in: 6, neighbours: 7, losses, device: Some(3), ..InterfaceRow::default() };
        let mut row = InterfaceRow::default();
        add_row(&mut row, &one);
        add_row(&mut row, &InterfaceRow { neighbours: 2, device: None, ..one.clone() });
        assert_eq!((row.packets_in, row.neighbours, row.device), (12, 7, Some(3)));
        assert_eq!(row.losses, Losses { refused: 2, errors: 4, not_ours: 6, drops: 8, unsent: 10 });
    }
}
