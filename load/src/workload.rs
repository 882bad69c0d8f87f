//! What a protocol adds to the engine: how a request is written, and how answers are told apart and checked.

use crate::course::Course;
use crate::flights::{Flight, Flights, Known};
use crate::kinds::Kind;
use corelane::service::TRAIN_DATAGRAMS_MAX;
use corelane::{Input, Output};

/// A protocol over connections. One value serves a lane; it is told apart from other runs by nothing but what it is made with.
pub trait Workload: Sized + 'static {
    /// What the protocol keeps for each connection.
    type Connection: 'static;

    /// A connection was opened, the `number`th place of all (the same number again when a lost one is opened anew).
    fn connection(&mut self, number: u64) -> Self::Connection;

    /// A connection follows one of the same place that has ended in order, `before`: what waited there for its answer is asked again first.
    fn connection_after(&mut self, number: u64, _before: Self::Connection) -> Self::Connection {
        self.connection(number)
    }

    /// Writes `count` requests, the first of which has the number `first` on this connection. Returns how many it has written: fewer
    /// if the lane's memory did not suffice; the others are asked for again.
    #[must_use]
    fn request(&mut self, connection: &mut Self::Connection, first: u64, count: usize, output: &mut Output) -> usize;

    /// Writes what [`Workload::request`] has held back, if it does that: called when all output has left
    /// ([`Output::notify_drained`]), and after bytes have arrived.
    fn go_on(&mut self, _connection: &mut Self::Connection, _output: &mut Output) {}

    /// Whether the peer may end a connection on which nothing is waited for: then another one is opened, and nothing has failed.
    fn may_end(&self, _connection: &Self::Connection) -> bool {
        false
    }

    /// Takes what has arrived and reports every answer that is complete. Called also when the peer has finished
    /// ([`Input::is_finished`]), perhaps without bytes.
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

    /// Datagrams that go as one train at the most, where trains are made. A flood goes in bursts of so many.
    fn train_datagrams(&self) -> usize {
        TRAIN_DATAGRAMS_MAX
    }

    /// The length of every request, in bytes.
    fn request_bytes(&self) -> usize;

    /// Writes the request with the number `number` into `request`, which has that length.
    fn request(&mut self, socket: &mut Self::Socket, number: u64, request: &mut [u8]);

    /// The number of the request that `datagram` answers, if every byte of it is right.
    fn answer(&mut self, socket: &mut Self::Socket, datagram: &[u8]) -> Option<u64>;

    /// The number of the request that failed, as `datagram`, which is no right answer, says; and how.
    fn refusal(&mut self, _socket: &mut Self::Socket, _datagram: &[u8]) -> Option<(u64, Kind)> {
        None
    }
}

/// Where a workload reports answers.
pub struct Answers<'a> {
    flights: &'a mut Flights,
    course: &'a mut Course,
    now: u64,
    taken: usize,
    /// Requests with numbers one behind the other that were reported and are not taken yet: the first one, and how many.
    run: (u64, u64),
    /// Requests sent together that were answered one by one and are not recorded yet.
    alike: Option<(Flight, usize)>,
    is_last: bool,
}

/// What the answers of one call have come to.
pub(crate) struct Taken {
    /// Requests that are answered, or have failed as their answers say.
    pub(crate) count: usize,
    /// No more answers will come on this connection.
    pub(crate) is_last: bool,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(flights: &'a mut Flights, course: &'a mut Course, now: u64) -> Self {
        Self { flights, course, now, taken: 0, run: (0, 0), alike: None, is_last: false }
    }

    pub(crate) fn end(mut self) -> Taken {
        self.take_run();
        self.record_alike();
        Taken { count: self.taken, is_last: self.is_last }
    }

    /// Whether any request waits for its answer.
    pub fn are_due(&self) -> bool {
        !self.flights.is_empty()
    }

    /// The oldest request is answered, or has failed as its answer says. `counted`: by their places, what the workload
    /// [counts](crate::workloads::WorkloadEntry::counts) of the answer.
    ///
    /// # Errors
    /// [`Kind::Mismatch`] if none waits.
    pub fn oldest(&mut self, outcome: Result<(), Kind>, counted: &[(usize, u64)]) -> Result<(), Kind> {
        let flight = self.flights.pop().ok_or(Kind::Mismatch)?;
        self.course.count(flight, outcome, self.now, counted);
        match outcome {
            Ok(()) => self.answered_alone(flight),
            Err(kind) => {
                self.taken += 1;
                self.course.failed_as_answered(kind, flight, self.now);
            }
        }
        Ok(())
    }

    /// So many whole pieces came that nobody had asked for. `counted`: as of [`Answers::oldest`].
    pub fn arrived(&mut self, pieces: u64, counted: &[(usize, u64)]) {
        self.course.arrived(pieces, counted, self.now);
    }

    /// The peer has said that no more answers come on this connection: it is closed, and what waits is asked again on the next one.
    pub fn end_connection(&mut self) {
        self.is_last = true;
    }

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

    /// The request with this number is answered. An answer to one that was answered before is counted as a duplicate, one that comes after
    /// the answer to a later request as reordered.
    ///
    /// # Errors
    /// [`Kind::Mismatch`] if no such request was made.
    pub fn numbered(&mut self, number: u64) -> Result<(), Kind> {
        if number >= self.flights.next_number() {
            return Err(Kind::Mismatch);
        }
        // What was sent together is mostly answered together, and then taken and recorded at once.
        if number != self.run.0 + self.run.1 {
            self.take_run();
            self.run.0 = number;
        }
        self.run.1 += 1;
        Ok(())
    }

    fn take_run(&mut self) {
        let (mut number, count) = std::mem::take(&mut self.run);
        let end = number + count;
        while number < end {
            number += match self.flights.take(number) {
                Known::Flight { flight, is_late } => {
                    let alike = 1 + self.flights.take_alike(number, flight, (end - number - 1) as usize);
                    if is_late {
                        self.course.note(Kind::Reordered, alike as u64, flight.intended, self.now);
                    }
                    self.answered(flight, alike);
                    alike as u64
                }
                Known::Before | Known::Never => {
                    self.course.note(Kind::Duplicate, 1, self.now, self.now);
                    1
                }
            };
        }
    }

    /// The request with this number has failed, as its answer says. One that was answered before is counted as a duplicate.
    ///
    /// # Errors
    /// [`Kind::Mismatch`] if no such request was made.
    pub fn refused(&mut self, number: u64, kind: Kind) -> Result<(), Kind> {
        self.take_run();
        match self.flights.take(number) {
            Known::Flight { flight, .. } => {
                self.taken += 1;
                self.course.failed_as_answered(kind, flight, self.now);
                Ok(())
            }
            Known::Before => {
                self.course.note(Kind::Duplicate, 1, self.now, self.now);
                Ok(())
            }
            Known::Never => Err(Kind::Mismatch),
        }
    }

    /// What was sent together and is answered together is recorded at once.
    fn answered_alone(&mut self, flight: Flight) {
        match &mut self.alike {
            Some((first, count)) if *first == flight => *count += 1,
            _ => {
                self.record_alike();
                self.alike = Some((flight, 1));
            }
        }
    }

    fn record_alike(&mut self) {
        if let Some((flight, count)) = self.alike.take() {
            self.answered(flight, count);
        }
    }

    fn answered(&mut self, flight: Flight, count: usize) {
        self.taken += count;
        self.course.answered(flight, self.now, count as u64);
    }
}
