//! The servers that requests are sent on to, and which is next.

use corelane::service::{Address, Instant};
use std::time::Duration;

/// How long one is left out that could not be connected to.
const LEFT_OUT: Duration = Duration::from_secs(5);

struct Place {
    address: Address,
    /// As Host names it where the client does not.
    name: String,
    left_out_until: Option<Instant>,
}

/// Servers, each by its number.
pub(super) struct Places {
    list: Vec<Place>,
    next: usize,
}

impl Places {
    pub fn new(to: &[Address]) -> Self {
        let name = |address: &Address| address.inet().map_or_else(|| "localhost".to_owned(), |inet| inet.to_string());
        let place = |address: &Address| Place { address: address.clone(), name: name(address), left_out_until: None };
        Self { list: to.iter().map(place).collect(), next: 0 }
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn address(&self, place: usize) -> Address {
        self.list[place].address.clone()
    }

    pub fn name(&self, place: usize) -> &str {
        &self.list[place].name
    }

    /// The next one that is there; none if all are left out.
    pub fn choose(&mut self, now: Instant) -> Option<usize> {
        let count = self.list.len();
        let is_there = |place: &usize| self.list[*place].left_out_until.is_none_or(|until| until <= now);
        let place = (self.next..self.next + count).map(|place| place % count).find(is_there)?;
        self.next = (place + 1) % count;
        Some(place)
    }

    /// It could not be connected to.
    pub fn note_unreachable(&mut self, place: usize, now: Instant) {
        self.list[place].left_out_until = Some(now + LEFT_OUT);
    }

    /// It was.
    pub fn note_reached(&mut self, place: usize) {
        self.list[place].left_out_until = None;
    }
}
