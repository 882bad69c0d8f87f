//! Who has which address on the link: what ARP (RFC 826) and neighbour discovery (RFC 4861) have told ([`cache`]), and who waits for it ([`waiting`]).
//!
//! An address that moves (fail-over: RFC 826, RFC 4861 section 7.2.5) is followed within a fifth of a second, and a forged word moves nothing while its owner lives.
//!
//! Only what is sent makes an entry, never what arrives: so nobody fills the table with addresses that the stack does not talk to. Who has asked for
//! an address of ours, and will get answers, is remembered apart, until he is sent something or others have pushed him out. Questions that wait for
//! an answer have a part of their own as well, of which the oldest goes first, and a bounded part of the frames; so who makes the stack ask for many
//! that do not exist pushes out his own questions, and nobody who has answered.

mod cache;
mod met;
mod waiting;

pub use cache::{ASKED_MAX, KNOWN_MAX};
pub use waiting::WAITING_MAX;

use cache::{Cache, Decision, Due, Learnt};
use corelane_seam::Frame;
use corelane_wire::packet::ethernet::Mac;
use met::Met;
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use waiting::Waiting;

/// Those who have asked and were not sent anything, at most, unless the settings say otherwise; an eighth of them of one station: one that makes up askers pushes out its own. Half of them are
/// those who asked first, whom nobody pushes out.
pub const MET_MAX: usize = 256;

/// Nanoseconds between two times at which it is said that somebody has moved.
const MOVES_EACH: u64 = 1_000_000_000;

/// What one lane has heard of a neighbour, for the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    /// The number of the interface.
    pub interface: usize,
    pub ip: IpAddr,
    pub mac: Mac,
    pub kind: WordKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordKind {
    /// He has asked for an address of ours.
    Asks,
    /// He says unasked that he has his address.
    Claims,
    /// He has answered.
    Answers,
    /// He has answered, and not said at which link address: he was asked at his.
    Confirms,
}

/// What is to be done with the frames of a packet for a neighbour.
#[derive(Debug)]
pub(crate) enum Resolved<P> {
    /// Send them there; and ask again, if so.
    There(Mac, P, bool),
    /// They wait; ask for him, if so. So many others were pushed out.
    Waits(bool, u64),
}

/// The table.
#[derive(Debug)]
pub(crate) struct Neighbours {
    cache: Cache,
    waiting: Waiting,
    met: Met,
    /// When it was said last that somebody has moved.
    moved_at: u64,
}

impl Neighbours {
    /// An empty table, for one of so many interfaces of a port with so many frames, of which so many wait for neighbours of all of these.
    pub fn new(frames: usize, among: usize, of_all: Rc<Cell<usize>>, (known, met): (usize, usize)) -> Self {
        let (cache, waiting) = (Cache::new(known), Waiting::new(ASKED_MAX, frames, among, of_all));
        Self { cache, waiting, met: Met::new(met), moved_at: 0 }
    }

    /// Somebody has asked for an address of ours.
    pub fn meet(&mut self, ip: IpAddr, mac: Mac) {
        if !mac.is_group() && !self.cache.has(ip) {
            self.met.add(ip, mac);
        }
    }

    /// Who has asked and is sent something now is known from then on; he is asked himself with what is sent a second later.
    fn promote(&mut self, now: u64, ip: IpAddr) {
        if let Some((mac, _)) = self.met.remove(ip) {
            self.cache.promote(now, ip, mac);
        }
    }

    /// Finds the neighbour `to` for the frames of a packet.
    pub fn resolve<P: ExactSizeIterator<Item = Frame>>(&mut self, now: u64, to: IpAddr, packet: P) -> Resolved<P> {
        if !self.met.is_empty() {
            self.promote(now, to);
        }
        match self.cache.send(now, to) {
            Decision::Send { to, asks } => Resolved::There(to, packet, asks),
            Decision::Wait { asks } => self.wait(now, to, packet, asks),
        }
    }

    /// A packet waits for somebody who is asked for, or is to be.
    fn wait<P: ExactSizeIterator<Item = Frame>>(&mut self, now: u64, to: IpAddr, packet: P, asks: bool) -> Resolved<P> {
        let frames = packet.len();
        if !self.waiting.can_hold(frames) {
            return Resolved::Waits(false, frames as u64);
        }
        let Some(pushed_out) = self.make_room(to, frames, asks) else { return Resolved::Waits(false, frames as u64) };
        // His own question may have been the oldest.
        let asks = !self.cache.has(to);
        if asks {
            self.cache.ask(now, to);
        }
        self.waiting.add(to, packet);
        Resolved::Waits(asks, pushed_out)
    }

    /// Makes room for so many frames more that wait for `to`, who is new or not: his oldest packets go, or else the oldest question. Returns how many frames went; none if
    /// other interfaces of the port have what would be needed.
    fn make_room(&mut self, to: IpAddr, frames: usize, is_new: bool) -> Option<u64> {
        let mut pushed_out = if is_new && self.cache.is_full() { self.give_up_oldest() } else { 0 };
        while !self.waiting.has_room(to, frames) {
            if self.waiting.is_empty() {
                return None;
            }
            pushed_out += if self.waiting.of(to) > 0 { self.waiting.push_out(to) } else { self.give_up_oldest() };
        }
        Some(pushed_out)
    }

    /// Gives up the question that was asked first; returns how many frames waited for its answer.
    fn give_up_oldest(&mut self) -> u64 {
        // reason: where there is no room for one more, others were asked for.
        let oldest = self.cache.give_up_oldest().expect("what is full has a first question");
        self.waiting.give_up(oldest)
    }

    /// Somebody says that he has `ip`: it is an answer, or unasked. What waited for him is appended to `freed`, with his address. Where another has it,
    /// that one's link address is returned: he is to be asked there whether he still has it.
    pub fn heard(&mut self, now: u64, ip: IpAddr, mac: Mac, answers: bool, freed: &mut Vec<Frame>) -> Option<Mac> {
        if mac.is_group() {
            return None;
        }
        match self.cache.hear(now, ip, mac, answers) {
            Learnt::Nothing => None,
            Learnt::Found(mac) => {
                self.waiting.free(ip, mac, freed);
                None
            }
            Learnt::Ask(owner) => Some(owner),
        }
    }

    /// Whether somebody has another link address than before, or somebody else says so, since this was asked last; once in a second at the most, for anybody on the link can say it.
    pub fn take_moved(&mut self, now: u64) -> bool {
        if now < self.moved_at + MOVES_EACH || !self.cache.take_moved() {
            return false;
        }
        self.moved_at = now;
        true
    }

    /// Whether nobody else says that he has a neighbour's address.
    pub fn is_sure(&self, ip: IpAddr) -> bool {
        self.cache.is_sure(ip)
    }

    /// He who is known, and was asked at his link address, has answered (RFC 4861, section 7.2.5): he has the address still, whoever claims it.
    pub fn confirmed(&mut self, now: u64, ip: IpAddr) {
        self.cache.confirm(now, ip);
    }

    /// When the next question is to be asked again; none if none waits.
    pub fn due(&self) -> Option<u64> {
        self.cache.due()
    }

    /// Who is to be asked for again now; frames of those that are given up are appended to `lost`.
    pub fn next_due(&mut self, now: u64, lost: &mut Vec<Frame>) -> Option<IpAddr> {
        loop {
            match self.cache.next_due(now)? {
                Due::Ask(ip) => return Some(ip),
                Due::GiveUp(ip) => self.waiting.take(ip, lost),
            }
        }
    }

    /// The state of one, in RFC 4861's word, and its link address as far as it is known.
    pub fn known(&self, ip: IpAddr) -> Option<(&'static str, Option<Mac>)> {
        self.cache.known(ip)
    }

    /// How many are known, and how many are asked for.
    pub fn lengths(&self) -> (usize, usize) {
        self.cache.lengths()
    }
}

#[cfg(test)]
mod tests {
    use super::cache::{AGAIN, FRESH, SILENCE};
    use super::waiting::WAITING_PART;
    use super::*;
    use corelane_seam::FrameMemory;
    use std::net::Ipv4Addr;

    const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);

    /// Of the one interface of a port with so many frames.
    fn neighbours(frames: usize) -> Neighbours {
        Neighbours::new(frames, 1, Rc::default(), (KNOWN_MAX, MET_MAX))
    }

    fn ip(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    fn frame(memory: &FrameMemory) -> std::iter::Once<Frame> {
        let mut frame = memory.frame().unwrap();
        frame.append(&[0; 60]);
        std::iter::once(frame)
    }

    /// A packet that lies in so many frames.
    fn long(memory: &FrameMemory, frames: usize) -> std::vec::IntoIter<Frame> {
        let mut packet: Vec<_> = (0..frames).flat_map(|_| frame(memory)).collect();
        packet[..frames - 1].iter_mut().for_each(|frame| frame.facts.continues = true);
        packet.into_iter()
    }

    /// Only the first frame of a packet has a link's header, and no packet is pushed out in part.
    #[test]
    fn a_packet_of_several_frames_waits_and_goes_whole() {
        let (memory, mut neighbours) = (FrameMemory::new(128, 2048).unwrap(), neighbours(1024));
        assert!(matches!(neighbours.resolve(0, ip(1), long(&memory, 52)), Resolved::Waits(true, 0)));
        assert!(matches!(neighbours.resolve(0, ip(1), long(&memory, 10)), Resolved::Waits(false, 0)));
        assert!(matches!(neighbours.resolve(0, ip(1), long(&memory, 3)), Resolved::Waits(false, 52)));
        assert!(matches!(neighbours.resolve(0, ip(1), long(&memory, WAITING_MAX + 1)), Resolved::Waits(false, 65)));
        let mut freed = Vec::new();
        neighbours.heard(2, ip(1), MAC, true, &mut freed);
        let begins: Vec<_> = freed.iter().enumerate().filter(|(_, frame)| frame[..6] == MAC.0).map(|(index, _)| index).collect();
        assert_eq!((freed.len(), &begins[..]), (13, &[0, 10][..]));
    }

    /// Where others take all the room, the oldest of their questions go, and not the packet that comes.
    #[test]
    fn a_packet_of_several_frames_has_room_made() {
        let (memory, mut neighbours) = (FrameMemory::new(64, 2048).unwrap(), neighbours(20 * WAITING_PART));
        (0..20).for_each(|number| assert!(ask(&mut neighbours, &memory, 0, number)));
        assert!(matches!(neighbours.resolve(1, ip(30), long(&memory, 5)), Resolved::Waits(true, 5)));
        assert_eq!((neighbours.lengths(), memory.counts().held), ((0, 16), 20));
    }

    fn ask(neighbours: &mut Neighbours, memory: &FrameMemory, now: u64, number: u32) -> bool {
        matches!(neighbours.resolve(now, ip(number), frame(memory)), Resolved::Waits(true, _))
    }

    #[test]
    fn an_answer_frees_what_waited_in_order_and_is_used_from_then_on() {
        let (memory, mut neighbours) = (FrameMemory::new(128, 2048).unwrap(), neighbours(1024));
        assert!(ask(&mut neighbours, &memory, 0, 1));
        for _ in 0..WAITING_MAX - 1 {
            assert!(matches!(neighbours.resolve(1, ip(1), frame(&memory)), Resolved::Waits(false, 0)));
        }
        assert!(matches!(neighbours.resolve(1, ip(1), frame(&memory)), Resolved::Waits(false, 1)));
        let mut freed = Vec::new();
        neighbours.heard(2, ip(1), MAC, true, &mut freed);
        assert_eq!((freed.len(), &freed[0][..6]), (WAITING_MAX, &MAC.0[..]));
        assert!(matches!(neighbours.resolve(3, ip(1), frame(&memory)), Resolved::There(MAC, _, false)));
        assert_eq!((neighbours.lengths(), neighbours.due()), ((1, 0), None));
    }

    #[test]
    fn nobody_who_was_not_asked_for_gets_into_the_table() {
        let mut neighbours = neighbours(1024);
        let mut heard = |number| neighbours.heard(0, ip(number), MAC, true, &mut Vec::new());
        assert!((0..100_000).all(|number| heard(number).is_none()));
        assert_eq!(neighbours.lengths(), (0, 0));
    }

    #[test]
    fn questions_without_answer_push_out_each_other_and_nobody_who_answered() {
        let (memory, mut neighbours) = (FrameMemory::new(1024, 2048).unwrap(), neighbours(1024));
        for number in 0..100 {
            assert!(ask(&mut neighbours, &memory, 0, number));
            neighbours.heard(0, ip(number), MAC, true, &mut Vec::new());
        }
        (1000..100_000).for_each(|number| assert!(ask(&mut neighbours, &memory, 1, number)));
        assert_eq!(neighbours.lengths(), (100, ASKED_MAX));
        assert!(memory.counts().held <= ASKED_MAX);
        let held = |neighbours: &mut Neighbours, number| drop(neighbours.resolve(2, ip(number), frame(&memory)));
        (0..50_000).for_each(|number| held(&mut neighbours, 99_999 - number % 60));
        assert!(memory.counts().held <= 1024 / WAITING_PART, "{:?}", memory.counts());
    }

    #[test]
    fn who_has_asked_is_answered_at_once_and_pushes_out_nobody_who_is_known() {
        let (memory, mut neighbours) = (FrameMemory::new(64, 2048).unwrap(), neighbours(1024));
        ask(&mut neighbours, &memory, 0, 1);
        neighbours.heard(0, ip(1), MAC, true, &mut Vec::new());
        (10..100_000).for_each(|number| neighbours.meet(ip(number), station(number)));
        assert_eq!((neighbours.met.len(), neighbours.lengths()), (MET_MAX, (1, 0)));
        assert!(matches!(neighbours.resolve(FRESH, ip(99_999), frame(&memory)), Resolved::There(_, _, false)));
        assert!(matches!(neighbours.resolve(FRESH + AGAIN, ip(99_999), frame(&memory)), Resolved::There(_, _, true)));
        let pushed_out = ip(10 + MET_MAX as u32);
        assert!(matches!(neighbours.resolve(FRESH, pushed_out, frame(&memory)), Resolved::Waits(true, 0)));
        assert_eq!((neighbours.met.len(), neighbours.lengths()), (MET_MAX - 1, (2, 1)));
    }

    /// A flood of senders that nobody is, each with a link address of its own, pushes out its own once half of the table is taken.
    #[test]
    fn who_asked_first_is_pushed_out_by_no_flood() {
        let (memory, mut neighbours) = (FrameMemory::new(64, 2048).unwrap(), neighbours(1024));
        let half = MET_MAX as u32 / 2;
        (0..half).for_each(|number| neighbours.meet(ip(number), station(number)));
        let mut forged = 1000..;
        let mut flood = |neighbours: &mut Neighbours| {
            forged.by_ref().take(10_000).for_each(|number| neighbours.meet(ip(number), station(number)));
            assert_eq!(neighbours.met.len(), MET_MAX);
        };
        flood(&mut neighbours);
        assert!((0..half).all(|number| neighbours.met.get(ip(number)) == Some(station(number))));
        // He who asks again keeps his place, at another link address as well.
        neighbours.meet(ip(1), station(500));
        flood(&mut neighbours);
        assert_eq!(neighbours.met.get(ip(1)), Some(station(500)));
        // Who is sent something is known from then on; the place goes to him who has waited longest.
        assert!(matches!(neighbours.resolve(0, ip(1), frame(&memory)), Resolved::There(..)));
        let (oldest, next) = (21_000 - half, 21_001 - half);
        assert_eq!(neighbours.met.get(ip(oldest)), Some(station(oldest)));
        flood(&mut neighbours);
        assert!(neighbours.met.get(ip(oldest)).is_some() && neighbours.met.get(ip(next)).is_none());
        assert!((2..half).all(|number| neighbours.met.get(ip(number)).is_some()) && neighbours.cache.is_known(ip(1)));
    }

    fn station(number: u32) -> Mac {
        let [a, b, c, d] = number.to_be_bytes();
        Mac([2, 1, a, b, c, d])
    }

    #[test]
    fn a_station_that_makes_up_askers_pushes_out_its_own() {
        let mut neighbours = neighbours(1024);
        neighbours.meet(ip(1), station(1));
        (10..100_000).for_each(|number| neighbours.meet(ip(number), MAC));
        assert_eq!((neighbours.met.len(), neighbours.met.get(ip(1))), (1 + MET_MAX / 8, Some(station(1))));
        assert!(neighbours.met.get(ip(99_999)).is_some() && neighbours.met.get(ip(10)).is_none());
    }

    #[test]
    fn who_has_answered_is_pushed_out_by_nobody_who_only_asks() {
        let (memory, mut neighbours) = (FrameMemory::new(64, 2048).unwrap(), neighbours(1024));
        for number in 0..500 {
            ask(&mut neighbours, &memory, 0, number);
            neighbours.heard(0, ip(number), MAC, true, &mut Vec::new());
        }
        for number in 1000..20_000 {
            neighbours.meet(ip(number), station(number));
            assert!(matches!(neighbours.resolve(number.into(), ip(number), frame(&memory)), Resolved::There(..)));
        }
        assert_eq!(neighbours.lengths(), (KNOWN_MAX, 0));
        let is_known = |number| neighbours.cache.is_known(ip(number));
        assert!((0..500).all(is_known) && is_known(19_999) && !is_known(1000));
    }

    #[test]
    fn the_table_of_those_known_is_bounded_and_who_was_used_longest_ago_goes() {
        let (memory, mut neighbours) = (FrameMemory::new(64, 2048).unwrap(), neighbours(1024));
        for number in 0..20_000 {
            ask(&mut neighbours, &memory, number.into(), number);
            neighbours.heard(number.into(), ip(number), MAC, true, &mut Vec::new());
        }
        assert_eq!(neighbours.lengths(), (KNOWN_MAX, 0));
        assert!(matches!(neighbours.resolve(30_000, ip(19_999), frame(&memory)), Resolved::There(..)));
        assert!(ask(&mut neighbours, &memory, 30_000, 0));
    }

    #[test]
    fn after_three_questions_somebody_is_given_up() {
        let (memory, mut neighbours) = (FrameMemory::new(64, 2048).unwrap(), neighbours(1024));
        assert!(ask(&mut neighbours, &memory, 0, 1));
        let mut lost = Vec::new();
        for try_number in 1..=2 {
            let due = neighbours.due().unwrap();
            assert_eq!((due, neighbours.next_due(due, &mut lost)), (try_number * AGAIN, Some(ip(1))));
        }
        assert_eq!((neighbours.next_due(3 * AGAIN, &mut lost), lost.len(), neighbours.due()), (None, 1, None));
        drop(lost);
        assert_eq!((neighbours.lengths(), memory.counts().free), ((0, 0), 64));
    }

    #[test]
    fn who_is_silent_is_asked_again_and_used_until_he_is_given_up() {
        let (memory, mut neighbours) = (FrameMemory::new(64, 2048).unwrap(), neighbours(1024));
        ask(&mut neighbours, &memory, 0, 1);
        neighbours.heard(0, ip(1), MAC, true, &mut Vec::new());
        let asks = |neighbours: &mut Neighbours, now| match neighbours.resolve(now, ip(1), frame(&memory)) {
            Resolved::There(MAC, _, asks) => Some(asks),
            _ => None,
        };
        assert_eq!(asks(&mut neighbours, FRESH - 1), Some(false));
        for second in 0..3 {
            assert_eq!(asks(&mut neighbours, FRESH + second * AGAIN), Some(true));
            assert_eq!(asks(&mut neighbours, FRESH + second * AGAIN + 1), Some(false));
        }
        assert_eq!(asks(&mut neighbours, FRESH + 4 * AGAIN), None);
        assert_eq!(neighbours.lengths(), (0, 1));
    }

    /// The link address that packets for the first neighbour go to, and whether he is asked as well.
    fn where_to(neighbours: &mut Neighbours, memory: &FrameMemory, now: u64) -> (Mac, bool) {
        match neighbours.resolve(now, ip(1), frame(memory)) {
            Resolved::There(mac, _, asks) => (mac, asks),
            Resolved::Waits(..) => panic!("known"),
        }
    }

    const OTHER: Mac = Mac([2, 0, 0, 0, 0, 66]);

    fn known() -> (FrameMemory, Neighbours) {
        let (memory, mut neighbours) = (FrameMemory::new(64, 2048).unwrap(), neighbours(1024));
        ask(&mut neighbours, &memory, 0, 1);
        neighbours.heard(0, ip(1), MAC, true, &mut Vec::new());
        (memory, neighbours)
    }

    /// RFC 826 merges what it hears; here the one who is known has a moment to object.
    #[test]
    fn an_address_that_moves_is_followed_once_its_owner_is_silent() {
        for answers in [false, true] {
            for since in [AGAIN, FRESH - 1, FRESH + 5] {
                let (memory, mut neighbours) = known();
                let mut heard = |now, mac| neighbours.heard(now, ip(1), mac, answers, &mut Vec::new());
                assert_eq!(heard(since, Mac([0xff; 6])), None, "no group has an address");
                assert_eq!(heard(since, OTHER), Some(MAC), "the owner is asked");
                assert_eq!(heard(since + 1, OTHER), None, "once");
                assert_eq!(where_to(&mut neighbours, &memory, since + SILENCE - 1).0, MAC);
                assert_eq!(where_to(&mut neighbours, &memory, since + SILENCE), (OTHER, true), "the new one is asked as well");
            }
        }
    }

    #[test]
    fn an_owner_who_answers_keeps_his_address() {
        let (memory, mut neighbours) = known();
        for second in 1..50 {
            let now = second * AGAIN;
            assert_eq!(neighbours.heard(now, ip(1), OTHER, true, &mut Vec::new()), Some(MAC));
            assert_eq!(neighbours.heard(now + 9, ip(1), MAC, true, &mut Vec::new()), None);
            assert_eq!(where_to(&mut neighbours, &memory, now + AGAIN - 1), (MAC, false));
        }
    }

    #[test]
    fn an_answer_to_a_question_is_believed_at_once() {
        let (memory, mut neighbours) = known();
        assert_eq!(where_to(&mut neighbours, &memory, FRESH), (MAC, true));
        assert_eq!(neighbours.heard(FRESH + 1, ip(1), OTHER, true, &mut Vec::new()), None);
        assert_eq!(where_to(&mut neighbours, &memory, FRESH + 2), (OTHER, false));
    }
}
