//! The ready list: interests that may be active, by place, each once, in the order in which they became so. Everything is O(1), also
//! taking one out of the middle.

use std::collections::TryReserveError;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    queued: bool,
}

/// A list of places.
pub struct Ready {
    links: Vec<Link>,
    first: u32,
    last: u32,
    length: usize,
}

impl Ready {
    pub fn new() -> Self {
        Self { links: Vec::new(), first: NONE, last: NONE, length: 0 }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Room for `places` places, so that [`Ready::push`] allocates nothing.
    pub fn try_reserve(&mut self, places: usize) -> Result<(), TryReserveError> {
        self.links.try_reserve(places.saturating_sub(self.links.len()))
    }

    /// Puts a place at the tail, unless it is on the list.
    pub fn push(&mut self, place: u32) {
        assert!(place != NONE, "fewer places than numbers");
        let at = place as usize;
        if self.links.len() <= at {
            self.links.resize(at + 1, Link { before: NONE, after: NONE, queued: false });
        }
        if self.links[at].queued {
            return;
        }
        self.links[at] = Link { before: self.last, after: NONE, queued: true };
        match self.last {
            NONE => self.first = place,
            last => self.links[last as usize].after = place,
        }
        self.last = place;
        self.length += 1;
    }

    /// Takes a place off the list, if it is on it.
    pub fn remove(&mut self, place: u32) {
        let at = place as usize;
        let Some(link) = self.links.get(at).copied().filter(|link| link.queued) else { return };
        match link.before {
            NONE => self.first = link.after,
            before => self.links[before as usize].after = link.after,
        }
        match link.after {
            NONE => self.last = link.before,
            after => self.links[after as usize].before = link.before,
        }
        self.links[at].queued = false;
        assert!(self.length > 0, "what is taken off was on the list");
        self.length -= 1;
    }

    /// Takes the first.
    pub fn pop(&mut self) -> Option<u32> {
        let place = (self.first != NONE).then_some(self.first)?;
        self.remove(place);
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn each_place_is_on_the_list_once_and_in_order() {
        let mut seed = 7_u64;
        let (mut ready, mut model) = (Ready::new(), VecDeque::new());
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = (seed >> 33) as u32 % 12;
            match (seed >> 60) % 3 {
                0 => {
                    ready.push(place);
                    if !model.contains(&place) {
                        model.push_back(place);
                    }
                }
                1 => {
                    ready.remove(place);
                    model.retain(|&other| other != place);
                }
                _ => assert_eq!(ready.pop(), model.pop_front()),
            }
            assert_eq!((ready.len(), ready.is_empty()), (model.len(), model.is_empty()));
        }
    }
}
