//! Echo over datagrams (RFC 862): each has a number, and what follows it tells where it belongs.

use super::Entry;
use crate::datagram_engine::DatagramEngine;
use crate::error::Error;
use crate::pattern;
use crate::plan::{Mode, Plan};
use crate::workload::DatagramWorkload;
use corelane::{DATAGRAM_BYTES_MAX, Transport};

/// Bytes of the number, big endian, at the front of a datagram.
const NUMBER: usize = 8;

/// Datagrams of one socket, and sockets, whose patterns start so far apart that bytes of another one are wrong bytes.
const STRIDE: u64 = 17;
const SOCKET_STRIDE: u64 = 1_013;

/// Echo over UDP.
pub const ENTRY: Entry = Entry {
    name: "udp",
    about: "datagrams that come back as they went, with loss, duplicates and order",
    transport: Transport::Udp,
    default_port: super::echo::DEFAULT_PORT,
    check,
    client: |lanes, ends| lanes.client_datagrams(move |lane| DatagramEngine::new(ends.course(lane), Udp::new(ends.plan().size))),
};

fn check(plan: &Plan) -> Result<(), Error> {
    if !(NUMBER..=DATAGRAM_BYTES_MAX).contains(&plan.size) {
        let why = format!("a datagram of {} bytes: from {NUMBER} (its number) to {DATAGRAM_BYTES_MAX} are possible", plan.size);
        return Err(Error::Setting { name: "size", why });
    }
    if matches!(plan.mode, Mode::Connections { .. }) {
        return Err(Error::Setting { name: "connection-rate", why: "datagrams have no connections: use --rate".to_owned() });
    }
    Ok(())
}

/// Datagrams of `size` bytes each.
pub struct Udp {
    size: usize,
}

impl Udp {
    /// Echo with datagrams of `size` bytes: from 8 to the longest that there are.
    pub fn new(size: usize) -> Self {
        Self { size }
    }
}

/// One socket: where its patterns start.
pub struct Base(u64);

impl Base {
    fn of(&self, number: u64) -> u64 {
        self.0.wrapping_add(number.wrapping_mul(STRIDE))
    }
}

impl DatagramWorkload for Udp {
    type Socket = Base;

    fn socket(&mut self, number: u64, salt: u64) -> Base {
        Base(number.wrapping_mul(SOCKET_STRIDE).wrapping_add(salt))
    }

    fn request_bytes(&self) -> usize {
        self.size
    }

    fn request(&mut self, base: &mut Base, number: u64, request: &mut [u8]) {
        let (head, rest) = request.split_at_mut(NUMBER);
        head.copy_from_slice(&number.to_be_bytes());
        rest.copy_from_slice(pattern::piece(base.of(number), rest.len()));
    }

    fn answer(&mut self, base: &mut Base, datagram: &[u8]) -> Option<u64> {
        let (head, rest) = datagram.split_first_chunk::<NUMBER>()?;
        let number = u64::from_be_bytes(*head);
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
}
