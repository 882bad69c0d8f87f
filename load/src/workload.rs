//! What a protocol adds to the engine: how a request is written, and how answers are told apart and checked.

use crate::course::Course;
use crate::flights::{Flight, Flights, Known};
use crate::kinds::Kind;
use corelane::{Input, Output};

/// A protocol over connections. One value serves a lane; it is told apart from other runs by nothing but what it is made with.
pub trait Workload: Sized + 'static {
    /// What the protocol keeps for each connection.
    type Connection: 'static;

    /// A connection was opened, the `number`th place of all (the same number again when a lost one is opened anew).
    fn connection(&mut self, number: u64) -> Self::Connection;

    /// Writes `count` requests, the first of which has the number `first` on this connection. Answers false if the lane's
    /// memory did not suffice: then nothing may have been written.
    #[must_use]
    fn request(&mut self, connection: &mut Self::Connection, first: u64, count: usize, output: &mut Output) -> bool;

    /// Takes what has arrived and reports every answer that is complete.
    ///
    /// # Errors
    /// Why nothing more on this connection can be trusted; it is broken off, and its requests fail with this kind.
    fn receive(&mut self, connection: &mut Self::Connection, input: &mut Input, answers: &mut Answers<'_>) -> Result<(), Kind>;
}

/// A protocol over datagrams: every request and every answer is one datagram, and says itself which one it is.
pub trait DatagramWorkload: Sized + 'static {
    /// What the protocol keeps for each socket.
    type Socket: 'static;

    /// A socket was opened, the `number`th place of all. `salt` differs from run to run.
    fn socket(&mut self, number: u64, salt: u64) -> Self::Socket;

    /// The length of every request, in bytes.
    fn request_bytes(&self) -> usize;

    /// Writes the request with the number `number` into `request`, which has that length.
    fn request(&mut self, socket: &mut Self::Socket, number: u64, request: &mut [u8]);

    /// The number of the request that `datagram` answers, if every byte of it is right.
    fn answer(&mut self, socket: &mut Self::Socket, datagram: &[u8]) -> Option<u64>;
}

/// Where a workload reports answers.
pub struct Answers<'a> {
    pub(crate) flights: &'a mut Flights,
    pub(crate) course: &'a mut Course,
    pub(crate) now: u64,
    pub(crate) taken: usize,
}

impl Answers<'_> {
    /// The `count` oldest requests are answered.
    ///
    /// # Errors
    /// [`Kind::Mismatch`] if not so many had been asked.
    pub fn next(&mut self, count: usize) -> Result<(), Kind> {
        let mut left = count;
        while left > 0 {
            let first = self.flights.pop().ok_or(Kind::Mismatch)?;
            let mut alike = 1;
            while alike < left && self.flights.oldest() == Some(first) {
                self.flights.pop();
                alike += 1;
            }
            self.answered(first, alike);
            left -= alike;
        }
        Ok(())
    }

    /// The `count` requests from the number `first` on are answered. An answer to one that was answered before is counted as a duplicate, one
    /// that comes after the answer to a later request as reordered. Answers how many of them were never made.
    pub fn numbered(&mut self, first: u64, count: usize) -> usize {
        let (mut number, end, mut unasked) = (first, first + count as u64, 0);
        while number < end {
            match self.flights.take(number) {
                Known::Flight { flight, is_late } => {
                    let alike = 1 + self.flights.take_alike(number, flight, (end - number - 1) as usize);
                    if is_late {
                        self.course.note(Kind::Reordered, alike as u64, flight.intended, self.now);
                    }
                    self.answered(flight, alike);
                    number += alike as u64 - 1;
                }
                Known::Before => self.course.note(Kind::Duplicate, 1, self.now, self.now),
                Known::Never => unasked += 1,
            }
            number += 1;
        }
        unasked
    }

    fn answered(&mut self, flight: Flight, count: usize) {
        self.taken += count;
        self.course.answered(flight, self.now, count as u64);
    }
}
