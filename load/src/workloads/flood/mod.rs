//! A flood of equal datagrams: byte i of each is i modulo 256, so they bear no number, and one that comes back is told by its bytes alone.

use super::WorkloadEntry;
use crate::datagram_engine::DatagramEngine;
use crate::error::Error;
use crate::place::Scheme;
use crate::plan::{Mode, Plan};
use crate::workload::DatagramWorkload;
use corelane::service::{DATAGRAM_BYTES_MAX, TRAIN_DATAGRAMS_MAX};

/// A flood over UDP. It is not among [`ALL`](super::ALL), because only [`Mode::Flood`] makes one.
pub const ENTRY: WorkloadEntry = WorkloadEntry::plain(
    ("flood", "equal datagrams, as many as the system takes, whether they are answered or not"),
    &[Scheme::UDP],
    check,
    |lanes, ends| {
        let flood = |size| Flood { size, train: TRAIN_DATAGRAMS_MAX };
        lanes.client_datagrams(move |lane| DatagramEngine::new(ends.course(lane), flood(ends.plan().size)))
    },
);

/// Sizes that a datagram can have, in a flood.
///
/// # Errors
/// Another size, or another mode.
pub fn check(plan: &Plan) -> Result<(), Error> {
    if !(1..=DATAGRAM_BYTES_MAX).contains(&plan.size) {
        let why = format!("a datagram of {} bytes: from 1 to {DATAGRAM_BYTES_MAX} are possible", plan.size);
        return Err(Error::Setting { name: "size", why });
    }
    if plan.mode != Mode::Flood {
        return Err(Error::Setting { name: "mode", why: "these datagrams bear no number: they can only flood".to_owned() });
    }
    Ok(())
}

static BYTES: [u8; DATAGRAM_BYTES_MAX] = make();

const fn make() -> [u8; DATAGRAM_BYTES_MAX] {
    let mut bytes = [0; DATAGRAM_BYTES_MAX];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = (at % 256) as u8;
        at += 1;
    }
    bytes
}

/// Datagrams of `size` bytes each.
pub struct Flood {
    pub(crate) size: usize,
    /// Datagrams of a burst.
    pub(crate) train: usize,
}

impl DatagramWorkload for Flood {
    type Socket = ();

    fn socket(&mut self, _number: u64, _salt: u64) {}

    fn train_datagrams(&self) -> usize {
        self.train
    }

    fn request_bytes(&self) -> usize {
        self.size
    }

    fn request(&mut self, _socket: &mut (), _number: u64, request: &mut [u8]) {
        request.copy_from_slice(&BYTES[..self.size]);
    }

    fn answer(&mut self, _socket: &mut (), datagram: &[u8]) -> Option<u64> {
        (datagram == &BYTES[..self.size]).then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_i_is_i_modulo_256_and_nothing_else_is_an_answer() {
        let mut flood = Flood { size: 1_000, train: 1 };
        let mut datagram = [0xff; 1_000];
        flood.request(&mut (), 7, &mut datagram);
        assert!(datagram.iter().enumerate().all(|(i, &byte)| usize::from(byte) == i % 256));
        assert!(flood.answer(&mut (), &datagram).is_some());
        assert!(flood.answer(&mut (), &datagram[..999]).is_none());
        datagram[512] = 1;
        assert!(flood.answer(&mut (), &datagram).is_none());
    }
}
