//! Who has which link address, as a pure value: what was heard and when goes in, what is to be done comes out. It has no clock and no frames.
//!
//! ```text
//!  (none) --something is sent--> INCOMPLETE --answer--> REACHABLE --30 s without news--> STALE --something is sent--> PROBE --answer--> REACHABLE
//!                                    |                      ^                                                           |
//!                     three questions, no answer: gone      '-- DELAY <--something is sent to somebody who has asked    three questions, no answer:
//!                                                               '--a second later, something is sent--> PROBE           INCOMPLETE, if sent to
//! ```
//!
//! The states are those of RFC 4861, section 7.3.2, for neighbours of both families. DELAY is for those who have only asked, and lasts a second: who was reachable before is
//! asked with the first that is sent to him when he is stale, since no transport says here that he was heard. Whoever is asked is sent to meanwhile.
//!
//! An address that somebody else claims is its owner's while he answers at his link address, and the other's after [`SILENCE`].

use corelane_wire::packet::ethernet::Mac;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Neighbours that are known at most, unless the settings say otherwise.
pub const KNOWN_MAX: usize = 8192;
/// Questions that wait for an answer at most.
pub const ASKED_MAX: usize = 128;
/// Nanoseconds from one question to the next (RFC 4861, section 10: RETRANS_TIMER).
pub(super) const AGAIN: u64 = 1_000_000_000;
/// Nanoseconds for which the one who is known may be silent while somebody else claims his address: a station of the link answers within a fraction.
pub(super) const SILENCE: u64 = 200_000_000;
/// Questions that are asked before somebody is given up (RFC 4861, section 10: MAX_UNICAST_SOLICIT).
const TRIES: u8 = 3;
/// Nanoseconds for which an answer is fresh (RFC 4861, section 10: REACHABLE_TIME).
pub(super) const FRESH: u64 = 30 * AGAIN;

/// What is known of whether a neighbour is where he was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeighbourState {
    /// He was asked for, so often, and his link address is not known.
    Incomplete { tries: u8 },
    /// He was heard. From then on he is stale.
    Reachable { until: u64 },
    /// He was heard long ago, or has an address that was another's.
    Stale,
    /// He was sent something, and is asked with what is sent from then on.
    Delay { until: u64 },
    /// He was asked so often, last at that time.
    Probe { asked: u64, tries: u8 },
}

/// A neighbour.
#[derive(Clone, Copy, Debug)]
struct Entry {
    state: NeighbourState,
    /// Nobody's while it is incomplete.
    mac: Mac,
    used: u64,
    /// He has answered, and not only asked or claimed.
    has_answered: bool,
    /// Somebody else says that he has the address, and since when.
    claim: Option<(Mac, u64)>,
    /// Tells its place in an order from those of entries that were there before.
    ticket: u64,
}

/// What is to be done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Send it there; and ask for him, if so.
    Send { to: Mac, asks: bool },
    /// It waits; and he is to be asked for, if so.
    Wait { asks: bool },
}

/// What comes of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learnt {
    /// Nothing.
    Nothing,
    /// Who was asked for has that link address: what waits for him may leave.
    Found(Mac),
    /// He who is known is to be asked there whether he still has the address.
    Ask(Mac),
}

/// What time has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// He is to be asked for again.
    Ask(IpAddr),
    /// He is given up.
    GiveUp(IpAddr),
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Cache {
    known_max: usize,
    by: BTreeMap<IpAddr, Entry>,
    /// How many of them are incomplete.
    incomplete: usize,
    /// When each that is incomplete is to be asked for again, the earliest first.
    due: VecDeque<(u64, IpAddr)>,
    /// Those who are known, in the order in which they make room: who has never answered, and who has. Each with when he was used when he was put in; who was used since goes to
    /// the end when it is his turn.
    orders: [VecDeque<(u64, u64, IpAddr)>; 2],
    /// The ticket that was given last.
    ticket: u64,
    /// Somebody has another link address than before, or somebody else says so.
    has_moved: bool,
}

impl Entry {
    /// Whoever was silent for so long while somebody else claimed the address has lost it to him, who is asked with what is sent next.
    fn settle(&mut self, now: u64) {
        if let Some((mac, _)) = self.claim.take_if(|(_, since)| now >= *since + SILENCE) {
            (self.mac, self.state, self.has_answered) = (mac, NeighbourState::Stale, false);
        }
    }

    /// What is to be done with a packet for him; none if he does not answer any more.
    fn send(&mut self, now: u64) -> Option<Decision> {
        self.settle(now);
        let tries = match self.state {
            NeighbourState::Incomplete { .. } => return Some(Decision::Wait { asks: false }),
            NeighbourState::Reachable { until } if now < until => None,
            NeighbourState::Delay { until } if now < until => None,
            NeighbourState::Probe { asked, .. } if now < asked + AGAIN => None,
            NeighbourState::Probe { tries, .. } if tries >= TRIES => return None,
            NeighbourState::Probe { tries, .. } => Some(tries + 1),
            NeighbourState::Reachable { .. } | NeighbourState::Stale | NeighbourState::Delay { .. } => Some(1),
        };
        self.used = now;
        self.state = tries.map_or(self.state, |tries| NeighbourState::Probe { asked: now, tries });
        Some(Decision::Send { to: self.mac, asks: tries.is_some() })
    }

    /// Somebody says that he has the address of one who is known.
    fn hear(&mut self, now: u64, mac: Mac, answers: bool) -> Learnt {
        self.settle(now);
        if self.mac == mac || answers && matches!(self.state, NeighbourState::Probe { .. }) {
            (self.mac, self.state, self.claim) = (mac, NeighbourState::Reachable { until: now + FRESH }, None);
            self.has_answered |= answers;
            return Learnt::Nothing;
        }
        let is_new = self.claim.is_none();
        self.claim.get_or_insert((mac, now));
        if is_new { Learnt::Ask(self.mac) } else { Learnt::Nothing }
    }
}

impl Cache {
    /// For so many who are known at most.
    pub fn new(known_max: usize) -> Self {
        let (by, due, orders) = Default::default();
        Self { known_max, by, incomplete: 0, due, orders, ticket: 0, has_moved: false }
    }

    /// Whether somebody is known, or asked for.
    pub fn has(&self, ip: IpAddr) -> bool {
        self.by.contains_key(&ip)
    }

    /// Whether somebody's link address is known.
    #[cfg(test)]
    pub fn is_known(&self, ip: IpAddr) -> bool {
        self.by.get(&ip).is_some_and(|entry| !matches!(entry.state, NeighbourState::Incomplete { .. }))
    }

    /// How many are known, and how many are asked for.
    pub fn lengths(&self) -> (usize, usize) {
        (self.by.len() - self.incomplete, self.incomplete)
    }

    /// Something is to be sent to a neighbour. Where it waits for somebody who is not asked for yet, [`Cache::ask`] notes that he is, once there is room.
    pub fn send(&mut self, now: u64, to: IpAddr) -> Decision {
        let sent = self.by.get_mut(&to).map(|entry| {
            let before = entry.mac;
            let decision = entry.send(now);
            self.has_moved |= entry.mac != before;
            decision
        });
        match sent {
            Some(Some(decision)) => return decision,
            Some(None) => drop(self.by.remove(&to)),
            None => {}
        }
        Decision::Wait { asks: true }
    }

    /// The state of one, and the link address as far as it is known.
    pub fn known(&self, ip: IpAddr) -> Option<(&'static str, Option<Mac>)> {
        let entry = self.by.get(&ip)?;
        Some(match entry.state {
            NeighbourState::Incomplete { .. } => ("incomplete", None),
            NeighbourState::Reachable { .. } => ("reachable", Some(entry.mac)),
            NeighbourState::Stale => ("stale", Some(entry.mac)),
            NeighbourState::Delay { .. } => ("delay", Some(entry.mac)),
            NeighbourState::Probe { .. } => ("probe", Some(entry.mac)),
        })
    }

    /// Notes that a neighbour was asked for, of whom nothing is known.
    pub fn ask(&mut self, now: u64, to: IpAddr) {
        assert!(self.incomplete < ASKED_MAX, "room is made before somebody is asked for");
        let ticket = self.next_ticket();
        let state = NeighbourState::Incomplete { tries: 1 };
        let entry = Entry { state, mac: Mac([0; 6]), used: now, has_answered: false, claim: None, ticket };
        let before = self.by.insert(to, entry);
        assert!(before.is_none(), "who is asked for was not known");
        self.incomplete += 1;
        self.due.push_back((now + AGAIN, to));
        assert_eq!(self.incomplete, self.due.len(), "each question is asked again");
    }

    /// Whether no one more can be asked for.
    pub fn is_full(&self) -> bool {
        self.incomplete >= ASKED_MAX
    }

    /// Gives up the one who was asked for first.
    pub fn give_up_oldest(&mut self) -> Option<IpAddr> {
        let (_, oldest) = self.due.pop_front()?;
        self.give_up(oldest);
        Some(oldest)
    }

    fn give_up(&mut self, ip: IpAddr) {
        let entry = self.by.remove(&ip);
        assert!(
            entry.is_some_and(|entry| matches!(entry.state, NeighbourState::Incomplete { .. })),
            "what is asked again was asked"
        );
        self.incomplete -= 1;
    }

    /// Somebody is sent something who has asked for an address of ours, and said his own.
    pub fn promote(&mut self, now: u64, ip: IpAddr, mac: Mac) {
        assert!(!self.has(ip), "who is known, or asked for, is not remembered as one who has asked");
        let ticket = self.next_ticket();
        let state = NeighbourState::Delay { until: now + AGAIN };
        self.know(ip, Entry { state, mac, used: now, has_answered: false, claim: None, ticket });
    }

    /// Somebody says that he has `ip`: it is an answer, or unasked.
    pub fn hear(&mut self, now: u64, ip: IpAddr, mac: Mac, answers: bool) -> Learnt {
        let Some(entry) = self.by.get_mut(&ip) else { return Learnt::Nothing };
        if !matches!(entry.state, NeighbourState::Incomplete { .. }) {
            self.has_moved |= entry.mac != mac;
            return entry.hear(now, mac, answers);
        }
        self.by.remove(&ip);
        self.incomplete -= 1;
        self.due.retain(|(_, other)| *other != ip);
        assert_eq!(self.incomplete, self.due.len(), "each question is asked again");
        let (state, ticket) = (NeighbourState::Reachable { until: now + FRESH }, self.next_ticket());
        self.know(ip, Entry { state, mac, used: now, has_answered: answers, claim: None, ticket });
        Learnt::Found(mac)
    }

    /// He who is known, and was asked at his link address, has answered (RFC 4861, section 7.2.5): he has the address still, whoever claims it.
    pub fn confirm(&mut self, now: u64, ip: IpAddr) {
        let known = self.by.get_mut(&ip).filter(|entry| !matches!(entry.state, NeighbourState::Incomplete { .. }));
        if let Some(entry) = known {
            entry.hear(now, entry.mac, true);
        }
    }

    /// Whether somebody has another link address than before, or somebody else says so, since this was asked last.
    pub fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.has_moved)
    }

    /// Whether somebody was heard lately, and nobody else says that he has the address. Who is asked is not sure until he answers. Who has asked himself is, for his second.
    pub fn is_sure(&self, ip: IpAddr) -> bool {
        let is_heard = |state| matches!(state, NeighbourState::Reachable { .. } | NeighbourState::Delay { .. });
        self.by.get(&ip).is_some_and(|entry| entry.claim.is_none() && is_heard(entry.state))
    }

    /// When the next question is to be asked again; none if none waits.
    pub fn due(&self) -> Option<u64> {
        self.due.front().map(|(due, _)| *due)
    }

    /// What is due now.
    pub fn next_due(&mut self, now: u64) -> Option<Due> {
        let (_, ip) = self.due.pop_front_if(|(due, _)| *due <= now)?;
        let Some(Entry { state: NeighbourState::Incomplete { tries }, .. }) = self.by.get_mut(&ip) else {
            unreachable!("what is asked again was asked")
        };
        if *tries < TRIES {
            *tries += 1;
            self.due.push_back((now + AGAIN, ip));
            return Some(Due::Ask(ip));
        }
        self.give_up(ip);
        Some(Due::GiveUp(ip))
    }

    fn next_ticket(&mut self) -> u64 {
        self.ticket += 1;
        self.ticket
    }

    /// One more who is known. One that was used long ago makes room: of those who have never answered, if there is one, so that nobody who makes up askers takes the
    /// place of others.
    fn know(&mut self, ip: IpAddr, entry: Entry) {
        if self.by.len() - self.incomplete >= self.known_max {
            self.make_room();
        }
        self.orders[usize::from(entry.has_answered)].push_back((entry.used, entry.ticket, ip));
        self.by.insert(ip, entry);
        self.forget_places();
        assert!(self.by.len() - self.incomplete <= self.known_max, "the table is bounded");
    }

    fn make_room(&mut self) {
        for order in 0..self.orders.len() {
            while let Some((used, ticket, ip)) = self.orders[order].pop_front() {
                let entry = self.by.get(&ip).filter(|entry| entry.ticket == ticket);
                match entry.map(|entry| (usize::from(entry.has_answered), entry.used)) {
                    // He is gone.
                    None => {}
                    Some((his, now_used)) if his > order => self.orders[his].push_back((now_used, ticket, ip)),
                    Some((_, now_used)) if now_used > used => self.orders[order].push_back((now_used, ticket, ip)),
                    Some(_) => {
                        self.by.remove(&ip);
                        return;
                    }
                }
            }
        }
    }

    /// Takes the places of those who are gone out of the orders, before these are more than those who are there.
    fn forget_places(&mut self) {
        let Self { by, orders, known_max, .. } = self;
        for order in orders.iter_mut().filter(|order| order.len() > 2 * *known_max) {
            order.retain(|(_, ticket, ip)| by.get(ip).is_some_and(|entry| entry.ticket == *ticket));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn ip(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    fn mac(number: u8) -> Mac {
        Mac([2, 0, 0, 0, 0, number])
    }

    fn state(cache: &Cache) -> Option<NeighbourState> {
        cache.by.get(&ip(1)).map(|entry| entry.state)
    }

    /// RFC 4861, section 7.3.3, and appendix C.
    #[test]
    fn a_neighbour_goes_through_the_states_of_the_rfc() {
        let mut cache = Cache::new(KNOWN_MAX);
        assert_eq!(cache.send(0, ip(1)), Decision::Wait { asks: true });
        cache.ask(0, ip(1));
        assert_eq!(state(&cache), Some(NeighbourState::Incomplete { tries: 1 }));
        assert_eq!(cache.send(1, ip(1)), Decision::Wait { asks: false });
        assert_eq!(cache.next_due(AGAIN), Some(Due::Ask(ip(1))));
        assert_eq!(cache.hear(AGAIN, ip(1), mac(1), true), Learnt::Found(mac(1)));
        let fresh = AGAIN + FRESH;
        assert_eq!(state(&cache), Some(NeighbourState::Reachable { until: fresh }));
        assert_eq!(cache.send(fresh - 1, ip(1)), Decision::Send { to: mac(1), asks: false });
        assert_eq!(cache.send(fresh, ip(1)), Decision::Send { to: mac(1), asks: true });
        assert_eq!(state(&cache), Some(NeighbourState::Probe { asked: fresh, tries: 1 }));
        assert_eq!(cache.hear(fresh + 5, ip(1), mac(1), true), Learnt::Nothing);
        assert_eq!(state(&cache), Some(NeighbourState::Reachable { until: fresh + 5 + FRESH }));
        // Somebody else takes the address over.
        assert_eq!(cache.hear(fresh + 6, ip(1), mac(2), false), Learnt::Ask(mac(1)));
        assert_eq!(cache.hear(fresh + 6 + SILENCE, ip(1), mac(3), false), Learnt::Ask(mac(2)));
        assert_eq!(state(&cache), Some(NeighbourState::Stale));
        // One who has asked himself is asked a second later.
        cache.promote(0, ip(2), mac(4));
        assert_eq!(cache.by.get(&ip(2)).map(|entry| entry.state), Some(NeighbourState::Delay { until: AGAIN }));
        assert_eq!(cache.send(AGAIN - 1, ip(2)), Decision::Send { to: mac(4), asks: false });
        assert_eq!(cache.send(AGAIN, ip(2)), Decision::Send { to: mac(4), asks: true });
        for second in 2..4 {
            assert_eq!(cache.send(second * AGAIN, ip(2)), Decision::Send { to: mac(4), asks: true });
        }
        assert_eq!(cache.send(4 * AGAIN, ip(2)), Decision::Wait { asks: true }, "he is gone");
        assert_eq!(cache.lengths(), (1, 0));
    }

    #[test]
    fn who_is_asked_is_not_sure_until_he_answers() {
        let mut cache = Cache::new(KNOWN_MAX);
        let sure = |cache: &Cache| [1, 2].map(|number| cache.is_sure(ip(number)));
        cache.ask(0, ip(1));
        assert_eq!(sure(&cache), [false, false]);
        cache.hear(0, ip(1), mac(1), true);
        cache.promote(0, ip(2), mac(2));
        assert_eq!(sure(&cache), [true, true]);
        for number in 1..=2 {
            assert!(matches!(cache.send(FRESH, ip(number)), Decision::Send { asks: true, .. }));
        }
        assert_eq!(sure(&cache), [false, false]);
        cache.hear(FRESH + 1, ip(1), mac(1), true);
        assert_eq!(sure(&cache), [true, false]);
        cache.hear(FRESH + 2, ip(1), mac(7), false);
        assert_eq!(sure(&cache), [false, false], "somebody else says he has the address");
    }

    /// Whatever comes and goes, places in the orders are bounded, and who is in use stays.
    #[test]
    fn who_is_in_use_stays_while_thousands_come_and_go() {
        let mut cache = Cache::new(KNOWN_MAX);
        let learn = |cache: &mut Cache, now, number: u32| {
            cache.ask(now, ip(number));
            assert_eq!(cache.hear(now, ip(number), mac(1), true), Learnt::Found(mac(1)));
        };
        (0..500).for_each(|number| learn(&mut cache, 0, number));
        for number in 1000..60_000 {
            let now = u64::from(number);
            assert!(matches!(cache.send(now, ip(number % 500)), Decision::Send { .. }), "{number}");
            learn(&mut cache, now, number);
        }
        assert_eq!(cache.lengths(), (KNOWN_MAX, 0));
        assert!((0..500).all(|number| cache.is_known(ip(number))) && !cache.is_known(ip(1000)));
        assert!(cache.orders.iter().all(|order| order.len() <= 2 * KNOWN_MAX + 1));
    }
}
