//! The requests in flight on one connection.

use std::collections::VecDeque;

/// A request that was sent and is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// When it was to be sent, in nanoseconds of the lane's clock.
    pub intended: u64,
    /// When it was sent.
    pub sent: u64,
}

/// Marks a request that was answered before older ones.
const ANSWERED: Flight = Flight { intended: u64::MAX, sent: u64::MAX };

/// How a numbered answer stands to the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It answers this one.
    Flight {
        /// The request.
        flight: Flight,
        /// One that was sent later has been answered before.
        is_late: bool,
    },
    /// It answers one that was answered, or given up, before.
    Before,
    /// Nothing with this number was ever sent.
    Never,
}

/// Requests in the order in which they were sent, numbered from 0. Answers come in that order or by number.
#[derive(Debug, Default)]
pub struct Flights {
    flights: VecDeque<Flight>,
    /// The number of the first of them.
    first: u64,
    /// Of these, those that wait for their answer.
    waiting: usize,
    /// One more than the highest number answered.
    answered_to: u64,
}

impl Flights {
    /// Notes a request as sent, under [`Flights::next_number`].
    pub fn push(&mut self, flight: Flight) {
        assert!(flight != ANSWERED, "no clock shows the time that marks what is answered");
        self.flights.push_back(flight);
        self.waiting += 1;
    }

    /// How many wait for their answer.
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Whether any was taken off: answered, or given up.
    pub fn had_one(&self) -> bool {
        self.answered_to > 0
    }

    /// The number of the next request to be sent.
    pub fn next_number(&self) -> u64 {
        self.first + self.flights.len() as u64
    }

    /// The oldest that waits.
    pub fn oldest(&self) -> Option<Flight> {
        self.flights.front().copied()
    }

    /// Takes the oldest: its answer has come, or it is given up.
    pub fn pop(&mut self) -> Option<Flight> {
        let flight = self.flights.pop_front()?;
        assert!(flight != ANSWERED && self.waiting > 0, "the oldest of those kept still waits");
        self.first += 1;
        self.waiting -= 1;
        self.answered_to = self.answered_to.max(self.first);
        self.drop_answered();
        Some(flight)
    }

    /// Takes the one with this number.
    pub fn take(&mut self, number: u64) -> Known {
        let Some(index) = number.checked_sub(self.first) else { return Known::Before };
        let Some(entry) = self.flights.get_mut(index as usize) else { return Known::Never };
        let flight = std::mem::replace(entry, ANSWERED);
        if flight == ANSWERED {
            return Known::Before;
        }
        assert!(self.waiting > 0, "whoever is answered has waited");
        self.waiting -= 1;
        let is_late = number < self.answered_to;
        self.answered_to = self.answered_to.max(number + 1);
        self.drop_answered();
        Known::Flight { flight, is_late }
    }

    /// Takes the requests right behind number `taken` that are equal to `flight`, which means that they were sent at the same time: at most `most` of them,
    /// and none while an older request waits. Returns how many it took.
    pub fn take_alike(&mut self, taken: u64, flight: Flight, most: usize) -> usize {
        if self.first != taken + 1 {
            return 0;
        }
        let alike = self.flights.iter().take(most).take_while(|&&next| next == flight).count();
        assert!(alike <= self.waiting && (alike == 0 || flight != ANSWERED), "those alike have all waited");
        self.flights.drain(..alike);
        self.first += alike as u64;
        self.waiting -= alike;
        self.answered_to = self.answered_to.max(self.first);
        self.drop_answered();
        alike
    }

    fn drop_answered(&mut self) {
        while self.flights.front() == Some(&ANSWERED) {
            self.flights.pop_front();
            self.first += 1;
        }
        assert!(self.waiting <= self.flights.len(), "whoever waits is kept");
        assert!((self.waiting == 0) == self.flights.is_empty(), "the first of those kept waits");
        assert!(self.answered_to <= self.next_number(), "what is answered was sent");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(at: u64) -> Flight {
        Flight { intended: at, sent: at }
    }

    #[test]
    fn answers_in_order_take_the_oldest() {
        let mut flights = Flights::default();
        flights.push(flight(1));
        flights.push(flight(2));
        assert_eq!(flights.pop(), Some(flight(1)));
        assert_eq!((flights.len(), flights.oldest(), flights.next_number()), (1, Some(flight(2)), 2));
        assert_eq!([flights.pop(), flights.pop()], [Some(flight(2)), None]);
    }

    #[test]
    fn numbered_answers_know_what_is_late_double_and_unasked() {
        let mut flights = Flights::default();
        (0..4).for_each(|at| flights.push(flight(at)));
        let on_time = |at| Known::Flight { flight: flight(at), is_late: false };
        assert_eq!(flights.take(2), on_time(2));
        assert_eq!(flights.take(2), Known::Before);
        assert_eq!(flights.take(0), Known::Flight { flight: flight(0), is_late: true });
        assert_eq!(flights.oldest(), Some(flight(1)));
        assert_eq!(flights.pop(), Some(flight(1)));
        // The one in the middle went with it.
        assert_eq!((flights.len(), flights.oldest()), (1, Some(flight(3))));
        assert_eq!(flights.take(3), on_time(3));
        assert_eq!([flights.take(1), flights.take(4)], [Known::Before, Known::Never]);
    }

    #[test]
    fn those_sent_together_are_taken_together_unless_something_older_waits() {
        let mut flights = Flights::default();
        (0..6).for_each(|number| flights.push(flight(number / 4)));
        let on_time = |at| Known::Flight { flight: flight(at), is_late: false };
        assert_eq!((flights.take(1), flights.take_alike(1, flight(0), 9)), (on_time(0), 0));
        assert_eq!(flights.take(0), Known::Flight { flight: flight(0), is_late: true });
        // What was answered before the one that held it up went with that one.
        assert_eq!((flights.take(2), flights.take_alike(2, flight(0), 9)), (on_time(0), 1));
        assert_eq!((flights.take(4), flights.take_alike(4, flight(1), 0), flights.len()), (on_time(1), 0, 1));
        assert_eq!((flights.take_alike(4, flight(1), 1), flights.next_number()), (1, 6));
        assert_eq!(flights.take(5), Known::Before);
    }
}
