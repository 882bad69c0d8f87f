//! Datagrams that may go round for ever: between two services each of which answers whatever it gets, one datagram is enough, and its sender can be forged.
//!
//! ```text
//! from a port whose service answers anything, or from our own --> no answer
//! the same bytes from the same peer, over [`AGAIN_MAX`] times a minute --> no answer for the rest of it, so what went round is gone
//! ```
//!
//! What inetd(8) does with its own services' ports, and a bound for the ports that nobody knows.

use corelane::{Address, Instant};
use std::hash::{Hash, Hasher};

/// Ports of services that answer any datagram: echo, daytime, qotd, chargen, time (RFC 862, 867, 865, 864, 868).
const ANSWERING: [u16; 5] = [7, 13, 17, 19, 37];

/// How often in a minute one peer is sent the same bytes.
pub(crate) const AGAIN_MAX: u32 = 1_000;

/// What is remembered at once: who takes another's place has come more often.
const PLACES: usize = 1_024;

const MINUTE: u64 = 60_000_000_000;

/// Bytes of a datagram by which it is known, at its front and at its end.
const KNOWN_BY: usize = 32;

/// What has come again and again, for whoever answers everybody.
pub(crate) struct Loops {
    places: Vec<Place>,
}

#[derive(Clone, Copy, Default)]
struct Place {
    /// The peer and the bytes.
    key: u64,
    minute: u64,
    count: u32,
}

impl Loops {
    pub fn new() -> Self {
        Self { places: vec![Place::default(); PLACES] }
    }

    /// Whether so many datagrams of one peer, of which this is the first, have come too often to be the peer's own.
    pub fn are_one(&mut self, now: Instant, peer: &Address, datagrams: usize, first: &[u8]) -> bool {
        let (minute, datagrams) = (now.nanoseconds() / MINUTE + 1, u32::try_from(datagrams).unwrap_or(u32::MAX));
        let key = key(peer, first);
        let place = &mut self.places[key as usize % PLACES];
        if place.minute != minute {
            *place = Place { key, minute, count: 0 };
        }
        if place.key == key {
            place.count = place.count.saturating_add(datagrams);
            return place.count > AGAIN_MAX;
        }
        // The place is for whoever comes most often; the others take it away from each other.
        place.count = place.count.saturating_sub(datagrams);
        if place.count == 0 {
            *place = Place { key, minute, count: datagrams };
        }
        false
    }
}

/// Whether a service that answers anything may be at this port, ours at `own` among them; 0 stands for none.
pub(crate) fn answers_anything(port: u16, own: u16) -> bool {
    ANSWERING.contains(&port) || (own != 0 && port == own)
}

/// A datagram's bytes at both ends, its length, and who sent it.
fn key(peer: &Address, datagram: &[u8]) -> u64 {
    let mut hasher = Mixed(0);
    peer.hash(&mut hasher);
    datagram.len().hash(&mut hasher);
    hasher.write(&datagram[..datagram.len().min(KNOWN_BY)]);
    hasher.write(&datagram[datagram.len().saturating_sub(KNOWN_BY)..]);
    hasher.finish()
}

/// Words multiplied into one another. Who finds two peers and contents that are one here has forged a sender, and could as well have forged the one.
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(size_of::<u64>()) {
            let word = word.iter().fold(word.len() as u64, |all, &byte| all << 8 | u64::from(byte));
            self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Address {
        text.parse().unwrap()
    }

    fn second(second: u64) -> Instant {
        Instant::from_nanoseconds(second * 1_000_000_000)
    }

    #[test]
    fn what_comes_again_and_again_is_left_alone_until_the_next_minute() {
        let (mut loops, one) = (Loops::new(), peer("192.0.2.1:4000"));
        assert!((0..AGAIN_MAX).all(|_| !loops.are_one(second(0), &one, 1, b"round and round")));
        assert!(loops.are_one(second(1), &one, 1, b"round and round"));
        for (other, bytes) in
            [("192.0.2.1:4001", &b"round and round"[..]), ("192.0.2.2:4000", b"round and round"), ("192.0.2.1:4000", b"round")]
        {
            assert!(!loops.are_one(second(1), &peer(other), 1, bytes), "{other}");
        }
        assert!(loops.are_one(second(59), &one, 1, b"round and round"));
        assert!(!loops.are_one(second(60), &one, 1, b"round and round"));
        assert!(loops.are_one(second(61), &one, AGAIN_MAX as usize, b"round and round"), "a train is as many as it holds");
    }

    #[test]
    fn several_that_go_round_at_once_end_all() {
        let (mut loops, one) = (Loops::new(), peer("192.0.2.1:4000"));
        let ended = |number: u32, loops: &mut Loops| (0..).position(|_| loops.are_one(second(0), &one, 1, &number.to_be_bytes()));
        assert!((0..100).all(|number| ended(number, &mut loops).is_some()));
    }

    #[test]
    fn who_sends_something_else_each_time_is_always_answered() {
        let (mut loops, one) = (Loops::new(), peer("[2001:db8::1]:4000"));
        for number in 0..200_000_u32 {
            assert!(!loops.are_one(second(0), &one, 1, &number.to_be_bytes()), "{number}");
        }
    }

    #[test]
    fn ports_that_answer_anything_are_known() {
        assert!([7, 13, 17, 19, 37].into_iter().all(|port| answers_anything(port, 0)));
        assert!(answers_anything(60_007, 60_007) && !answers_anything(60_007, 60_008) && !answers_anything(0, 0));
    }
}
