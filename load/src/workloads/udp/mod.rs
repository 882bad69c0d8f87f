//! Echo over datagrams (RFC 862): each has a number, and what follows it tells where it belongs.
//!
//! A datagram of fewer than 8 bytes bears as many low bytes of its number as it has. Which request it answers is then known only
//! while fewer are in flight than half of those bytes can tell apart; an answer that comes later than that is taken for another's.

use super::WorkloadEntry;
use crate::datagram_engine::DatagramEngine;
use crate::error::Error;
use crate::pattern;
use crate::place::Scheme;
use crate::plan::{Mode, Plan};
use crate::workload::DatagramWorkload;
use corelane::service::DATAGRAM_BYTES_MAX;

/// Bytes of the number, big endian, at the front of a datagram.
const NUMBER: usize = 8;

/// Datagrams of one socket, and sockets, whose patterns start so far apart that bytes of another one are wrong bytes.
const STRIDE: u64 = 17;
const SOCKET_STRIDE: u64 = 1_013;

/// Echo over UDP.
pub const ENTRY: WorkloadEntry = WorkloadEntry::plain(
    ("udp", "datagrams that come back as they went, with loss, duplicates and order"),
    &[Scheme::UDP],
    check,
    |lanes, ends| lanes.client_datagrams(move |lane| DatagramEngine::new(ends.course(lane), Udp::new(ends.plan().size))),
);

fn check(plan: &Plan) -> Result<(), Error> {
    if !(1..=DATAGRAM_BYTES_MAX).contains(&plan.size) {
        let why = format!("a datagram of {} bytes: from 1 to {DATAGRAM_BYTES_MAX} are possible", plan.size);
        return Err(Error::Setting { name: "size", why });
    }
    let most = mask(plan.size) / 2 + 1;
    if u64::from(plan.depth) > most {
        let why = format!(
            "datagrams of {} bytes cannot be told apart with {} in flight: have at most {most} in flight, or use datagrams of {NUMBER} bytes or more",
            plan.size, plan.depth
        );
        return Err(Error::Setting { name: "size", why });
    }
    if matches!(plan.mode, Mode::Connections { .. }) {
        return Err(Error::Setting { name: "connection-rate", why: "datagrams have no connections: use --rate".to_owned() });
    }
    Ok(())
}

/// What a datagram of `size` bytes bears of its number.
fn mask(size: usize) -> u64 {
    u64::MAX >> (64 - 8 * size.min(NUMBER))
}

/// Datagrams of `size` bytes each.
pub struct Udp {
    size: usize,
}

impl Udp {
    /// Echo with datagrams of `size` bytes: from 1 to the longest that there are.
    pub fn new(size: usize) -> Self {
        Self { size }
    }
}

/// One socket: where its patterns start, and the number of the last request.
pub struct Base {
    start: u64,
    last: u64,
}

impl Base {
    fn of(&self, number: u64) -> u64 {
        self.start.wrapping_add(number.wrapping_mul(STRIDE))
    }

    /// The greatest number up to the last one that ends in these bits.
    fn whole(&self, bits: u64, mask: u64) -> Option<u64> {
        self.last.checked_sub(self.last.wrapping_sub(bits) & mask)
    }
}

impl DatagramWorkload for Udp {
    type Socket = Base;

    fn socket(&mut self, number: u64, salt: u64) -> Base {
        Base { start: number.wrapping_mul(SOCKET_STRIDE).wrapping_add(salt), last: 0 }
    }

    fn request_bytes(&self) -> usize {
        self.size
    }

    fn request(&mut self, base: &mut Base, number: u64, request: &mut [u8]) {
        base.last = number;
        let (head, rest) = request.split_at_mut(self.size.min(NUMBER));
        head.copy_from_slice(&number.to_be_bytes()[NUMBER - head.len()..]);
        rest.copy_from_slice(pattern::piece(base.of(number), rest.len()));
    }

    fn answer(&mut self, base: &mut Base, datagram: &[u8]) -> Option<u64> {
        let (head, rest) = datagram.split_at_checked(self.size.min(NUMBER))?;
        let bits = head.iter().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
        let number = base.whole(bits, mask(self.size))?;
        (datagram.len() == self.size && pattern::matches(base.of(number), rest)).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_datagram_that_was_sent_is_an_answer() {
        let mut udp = Udp { size: 100 };
        let (mut base, mut other) = (udp.socket(3, 7), udp.socket(4, 7));
        let mut datagram = [0; 100];
        udp.request(&mut base, 5, &mut datagram);
        assert_eq!(udp.answer(&mut base, &datagram), Some(5));
        assert_eq!(udp.answer(&mut other, &datagram), None);
        assert_eq!(udp.answer(&mut base, &datagram[..99]), None);
        assert_eq!(udp.answer(&mut base, &[]), None);
        for byte in 0..100 {
            let mut wrong = datagram;
            wrong[byte] ^= 4;
            assert_eq!(udp.answer(&mut base, &wrong), None, "byte {byte}");
        }
    }

    #[test]
    fn short_datagrams_bear_what_they_can_of_their_number() {
        for size in 1..8 {
            let mut udp = Udp { size };
            let mut base = udp.socket(0, 7);
            let all = mask(size) + 1;
            let mut sent = vec![0; size];
            for number in [0, 1, all - 1, all, all + 5, 3 * all + 2] {
                udp.request(&mut base, number, &mut sent);
                assert_eq!(udp.answer(&mut base, &sent), Some(number), "{size} bytes");
            }
            udp.request(&mut base, 4 * all, &mut vec![0; size]);
            assert_eq!(udp.answer(&mut base, &sent), Some(3 * all + 2), "one that was sent before");
            assert_eq!(udp.answer(&mut base, &vec![0; size + 1]), None);
        }
        let mut udp = Udp { size: 1 };
        let mut base = udp.socket(0, 7);
        assert_eq!(udp.answer(&mut base, &[9]), None, "nothing with this number was sent");
    }
}
