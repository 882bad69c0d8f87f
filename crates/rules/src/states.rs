//! States of flows: what `keep-state` and `limit` remember. Ordered maps, so that nobody can choose keys that meet.

use crate::facts::{Address, Facts, Transport};
use crate::language::LimitBy;
use crate::limits::RecordLimits;
use crate::verdict::RuleId;
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;
/// How long a state lasts without packets, in nanoseconds: the original's defaults.
const AGE_TCP: u64 = 300 * SECOND;
const AGE_TCP_BEGUN: u64 = 20 * SECOND;
const AGE_TCP_ENDED: u64 = SECOND;
const AGE_UDP: u64 = 10 * SECOND;
const AGE_OTHER: u64 = 5 * SECOND;

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// States that are looked at for their age whenever one is to be made.
const SWEPT: usize = 4;

/// A flow, the same for both of its directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flow {
    protocol: u8,
    low: (Address, u16),
    high: (Address, u16),
}

/// What a `limit` counts by: parts that it does not name are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Counted {
    rule: RuleId,
    parts: [Option<(Address, u16)>; 4],
}

#[derive(Clone, Copy, Debug)]
struct FlowState {
    rule: RuleId,
    expires: u64,
    /// TCP's control bits of both directions so far.
    flags: [u8; 2],
    counted: Option<Counted>,
    source: u128,
}

/// The states of a lane.
#[derive(Clone, Debug)]
pub struct States {
    flows: BTreeMap<Flow, FlowState>,
    sources: BTreeMap<u128, usize>,
    counted: BTreeMap<Counted, usize>,
    /// Where the search for old ones goes on.
    hand: Option<Flow>,
    most: usize,
    most_by_source: usize,
    refused: u64,
}

impl States {
    pub fn new(limits: &RecordLimits) -> Self {
        Self {
            flows: BTreeMap::new(),
            sources: BTreeMap::new(),
            counted: BTreeMap::new(),
            hand: None,
            most: limits.states,
            most_by_source: limits.states_by_source,
            refused: 0,
        }
    }

    /// States that are kept, old ones that nobody has come across with them.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// States that were not made because a bound was met.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The rule that made the packet's state, if there is one that is not too old. It begins to age again.
    pub fn find(&mut self, facts: &Facts, now: u64) -> Option<RuleId> {
        let (flow, way) = flow_of(facts);
        let state = self.flows.get_mut(&flow)?;
        if state.expires <= now {
            self.forget(&flow);
            return None;
        }
        state.flags[way] |= control_bits(facts);
        state.expires = now.saturating_add(age(facts.protocol, state.flags));
        Some(state.rule)
    }

    /// As [`States::find`], and nothing changes.
    pub fn peek(&self, facts: &Facts, now: u64) -> Option<RuleId> {
        self.flows.get(&flow_of(facts).0).filter(|state| state.expires > now).map(|state| state.rule)
    }

    /// Makes a state, unless a bound is met: `limit` is the rule's own. One that is there already stays.
    pub fn install(&mut self, facts: &Facts, rule: RuleId, limit: Option<(LimitBy, u16)>, now: u64) -> bool {
        let (flow, way) = flow_of(facts);
        if self.flows.contains_key(&flow) {
            return true;
        }
        self.sweep(now);
        let counted = limit.map(|(by, _)| counted_of(facts, rule, by));
        let source = source_of(facts.source);
        let of_source = self.sources.get(&source).copied().unwrap_or(0);
        let of_limit = counted.and_then(|counted| self.counted.get(&counted)).copied().unwrap_or(0);
        let beyond = limit.is_some_and(|(_, most)| of_limit >= usize::from(most));
        if beyond || self.flows.len() >= self.most || of_source >= self.most_by_source {
            self.refused += 1;
            return false;
        }
        let mut flags = [0; 2];
        flags[way] = control_bits(facts);
        let expires = now.saturating_add(age(facts.protocol, flags));
        self.flows.insert(flow, FlowState { rule, expires, flags, counted, source });
        self.sources.insert(source, of_source + 1);
        if let Some(counted) = counted {
            self.counted.insert(counted, of_limit + 1);
        }
        true
    }

    /// Forgets the states of rules that are gone.
    pub fn keep_those_of(&mut self, is_there: impl Fn(RuleId) -> bool) {
        let gone: Vec<Flow> = self.flows.iter().filter(|(_, state)| !is_there(state.rule)).map(|(flow, _)| *flow).collect();
        gone.iter().for_each(|flow| self.forget(flow));
    }

    /// Looks at some states for their age, and at others the next time.
    fn sweep(&mut self, now: u64) {
        for _ in 0..SWEPT {
            let from = self.hand.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
            let next = self.flows.range((from, std::ops::Bound::Unbounded)).next();
            let found = next.map(|(flow, state)| (*flow, state.expires));
            self.hand = found.map(|(flow, _)| flow);
            if let Some((flow, _)) = found.filter(|(_, expires)| *expires <= now) {
                self.forget(&flow);
            }
        }
    }

    fn forget(&mut self, flow: &Flow) {
        let Some(state) = self.flows.remove(flow) else { return };
        release(&mut self.sources, &state.source);
        if let Some(counted) = state.counted {
            release(&mut self.counted, &counted);
        }
    }
}

fn release<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    let count = counts.get_mut(key);
    assert!(count.as_ref().is_some_and(|count| **count > 0), "each state is counted once");
    if let Some(count) = count {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The packet's flow, and which of its two directions it goes.
fn flow_of(facts: &Facts) -> (Flow, usize) {
    let (source, destination) = ends(facts);
    let way = usize::from(source > destination);
    let (low, high) = if way == 0 { (source, destination) } else { (destination, source) };
    (Flow { protocol: facts.protocol, low, high }, way)
}

fn ends(facts: &Facts) -> ((Address, u16), (Address, u16)) {
    let (source, destination) = match facts.transport {
        Transport::Ports(source, destination) | Transport::Tcp(source, destination, _) => (source, destination),
        Transport::None | Transport::Icmp(_) => (0, 0),
    };
    ((facts.source, source), (facts.destination, destination))
}

fn control_bits(facts: &Facts) -> u8 {
    match facts.transport {
        Transport::Tcp(_, _, flags) => flags & (FIN | SYN | RST),
        _ => 0,
    }
}

/// A source as it is charged: all of a /64 of IPv6 is one.
fn source_of(address: Address) -> u128 {
    if address.is_v4() { address.number() } else { address.number() >> 64 << 64 }
}

fn counted_of(facts: &Facts, rule: RuleId, by: LimitBy) -> Counted {
    let (source, destination) = ends(facts);
    let none = Address::default();
    let parts = [
        by.source.then_some((source.0, 0)),
        by.source_port.then_some((none, source.1)),
        by.destination.then_some((destination.0, 0)),
        by.destination_port.then_some((none, destination.1)),
    ];
    Counted { rule, parts }
}

fn age(protocol: u8, flags: [u8; 2]) -> u64 {
    match protocol {
        TCP if (flags[0] | flags[1]) & RST != 0 || flags[0] & flags[1] & FIN != 0 => AGE_TCP_ENDED,
        TCP if flags[0] & flags[1] & SYN != 0 => AGE_TCP,
        TCP => AGE_TCP_BEGUN,
        UDP => AGE_UDP,
        _ => AGE_OTHER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: u8 = 0x10;
    const RULE: RuleId = RuleId { place: 1, generation: 1 };

    fn limits() -> RecordLimits {
        RecordLimits { states: 10, states_by_source: 3, ..RecordLimits::default() }
    }

    fn tcp(from: [u8; 4], to: [u8; 4], ports: (u16, u16), flags: u8) -> Facts {
        let facts = Facts::between(from.into(), to.into());
        Facts { protocol: TCP, transport: Transport::Tcp(ports.0, ports.1, flags), ..facts }
    }

    #[test]
    fn a_state_holds_both_ways_and_ages() {
        let mut states = States::new(&limits());
        let there = tcp([10, 0, 0, 1], [10, 0, 0, 2], (1000, 80), SYN);
        let back = tcp([10, 0, 0, 2], [10, 0, 0, 1], (80, 1000), SYN | ACK);
        assert_eq!(states.find(&there, 0), None);
        assert!(states.install(&there, RULE, None, 0));
        assert_eq!(states.find(&back, AGE_TCP_BEGUN), None, "half open, it has aged");
        assert_eq!(states.len(), 0);
        assert!(states.install(&there, RULE, None, 0));
        assert_eq!(states.find(&back, AGE_TCP_BEGUN - 1), Some(RULE));
        assert_eq!(states.find(&there, AGE_TCP), Some(RULE), "both have begun");
        assert_eq!(states.find(&tcp([10, 0, 0, 1], [10, 0, 0, 2], (1000, 80), FIN), AGE_TCP), Some(RULE));
        assert_eq!(states.find(&tcp([10, 0, 0, 2], [10, 0, 0, 1], (80, 1000), FIN), AGE_TCP + 1), Some(RULE));
        assert_eq!(states.peek(&there, AGE_TCP + 1 + AGE_TCP_ENDED), None, "both have ended");
        assert_eq!(states.find(&tcp([10, 0, 0, 1], [10, 0, 0, 2], (1000, 81), SYN), 1), None, "another port is another flow");
    }

    #[test]
    fn each_source_has_its_share_and_all_have_a_bound() {
        let mut states = States::new(&limits());
        let made = |states: &mut States, host: u8, port: u16, now: u64| {
            states.install(&tcp([10, 0, 0, host], [10, 9, 9, 9], (port, 80), SYN), RULE, None, now)
        };
        let of_one = (0..10).filter(|port| made(&mut states, 1, *port, 0)).count();
        assert_eq!((of_one, states.refused()), (3, 7));
        let of_others = (2..20).filter(|host| made(&mut states, *host, 1, 0)).count();
        assert_eq!((of_others, states.len()), (7, 10));
        // What has aged makes room, some with each that is to be made.
        let later = (20..40).filter(|host| made(&mut states, *host, 1, AGE_TCP_BEGUN)).count();
        assert!(later >= 9, "{later}");
        assert!(made(&mut states, 1, 1, AGE_TCP_BEGUN * 2) && states.len() <= 10);
    }

    #[test]
    fn limits_count_what_they_name() {
        let mut states = States::new(&RecordLimits::default());
        let limit = Some((LimitBy { source: true, ..LimitBy::default() }, 2));
        let facts = |host, port| tcp([10, 0, 0, host], [10, 9, 9, 9], (port, 80), SYN);
        let made: Vec<bool> = (0..3).map(|port| states.install(&facts(1, port), RULE, limit, 0)).collect();
        assert_eq!(made, [true, true, false]);
        assert!(states.install(&facts(2, 0), RULE, limit, 0), "another source has its own");
        assert!(states.install(&facts(1, 0), RULE, limit, 0), "one that is there stays");
        let other = RuleId { place: 2, generation: 1 };
        assert!(states.install(&facts(1, 7), other, limit, 0), "another rule counts apart");
        states.keep_those_of(|rule| rule == other);
        assert_eq!((states.len(), states.find(&facts(1, 0), 0)), (1, None));
        assert!(states.install(&facts(1, 0), RULE, limit, 0), "what is gone is not counted");
    }

    #[test]
    fn a_network_of_ipv6_is_one_source() {
        let mut states = States::new(&limits());
        let from = |last: u16| std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last);
        let udp = |last| Facts { protocol: UDP, ..Facts::between(from(last).into(), from(99).into()) };
        assert_eq!((0..9).filter(|last| states.install(&udp(*last), RULE, None, 0)).count(), 3);
        assert_eq!((states.peek(&udp(0), AGE_UDP - 1), states.peek(&udp(0), AGE_UDP)), (Some(RULE), None));
    }
}
