//! Which of a socket's sends the kernel has read, of those that it reads from where they lie.

use std::collections::VecDeque;

/// Calls by their number: the first is 0, and numbers count modulo 2^32. The kernel tells of ranges of them, in any order.
#[derive(Default)]
pub(crate) struct Notices {
    /// The number that the next call gets.
    next: u32,
    /// All before this one are read.
    read: u32,
    /// Those behind it that are read, as a bit each, beginning with `read`.
    ahead: VecDeque<bool>,
}

impl Notices {
    /// A call has sent something; returns its number.
    pub(crate) fn take(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    /// The number of the last call.
    pub(crate) fn last(&self) -> u32 {
        self.next.wrapping_sub(1)
    }

    /// The calls from `first` to `last` are read. What was never sent is passed over.
    pub(crate) fn note(&mut self, first: u32, last: u32) {
        let (sent, begin, end) = (self.under_way(), self.place(first), self.place(last));
        if begin > end || end >= sent {
            return;
        }
        if self.ahead.len() <= end as usize {
            self.ahead.resize(end as usize + 1, false);
        }
        (begin..=end).for_each(|place| self.ahead[place as usize] = true);
        while self.ahead.front() == Some(&true) {
            self.ahead.pop_front();
            self.read = self.read.wrapping_add(1);
        }
        assert!(self.ahead.len() <= self.under_way() as usize, "nothing is read that was not sent");
    }

    /// Whether this call and all before it are read.
    pub(crate) fn has_read(&self, number: u32) -> bool {
        self.place(number) >= self.under_way()
    }

    /// How many calls are from the first unread one to the last.
    fn under_way(&self) -> u32 {
        self.next.wrapping_sub(self.read)
    }

    /// How far a call is from the first unread one; what is read is far beyond all.
    fn place(&self, number: u32) -> u32 {
        number.wrapping_sub(self.read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls from a number on, of which none is read.
    fn begun(first: u32, calls: u32) -> Notices {
        let mut notices = Notices { next: first, read: first, ahead: VecDeque::new() };
        (0..calls).for_each(|place| assert_eq!(notices.take(), first.wrapping_add(place)));
        notices
    }

    #[test]
    fn ranges_come_in_any_order_and_a_call_is_read_with_all_before_it() {
        for first in [0, 7, u32::MAX - 3] {
            let at = |place: u32| first.wrapping_add(place);
            let mut notices = begun(first, 8);
            notices.note(at(2), at(3));
            assert!((0..8).all(|place| !notices.has_read(at(place))), "what lies before is not read");
            notices.note(at(5), at(5));
            notices.note(at(0), at(1));
            assert_eq!((0..8).filter(|&place| notices.has_read(at(place))).collect::<Vec<_>>(), [0, 1, 2, 3]);
            notices.note(at(4), at(4));
            notices.note(at(6), at(7));
            assert!((0..8).all(|place| notices.has_read(at(place))));
            assert_eq!(notices.take(), at(8));
            assert!(!notices.has_read(at(8)) && notices.has_read(at(7)));
        }
    }

    #[test]
    fn what_was_never_sent_is_passed_over() {
        let mut notices = begun(10, 2);
        for (first, last) in [(12, 12), (11, 12), (9, 10), (11, 10), (0, u32::MAX)] {
            notices.note(first, last);
            assert!(!notices.has_read(10) && !notices.has_read(11), "{first} to {last}");
        }
        notices.note(10, 11);
        notices.note(10, 11);
        assert!(notices.has_read(11) && notices.under_way() == 0);
    }
}
