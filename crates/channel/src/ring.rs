//! A ring of packets with one producer and one consumer, who never write the same cache line.
//!
//! ```text
//! word 0   "CORECHAN", version, slots, words of a slot      written once, before anybody else sees it
//! word 16  packets put, packets dropped, whether it ended   written by the producer
//! word 32  packets taken, whether it sleeps                 written by the consumer
//! word 48  slots: a length in bytes, then the packet        written by the producer, before it is counted as put
//! ```
//!
//! Indices count packets since the beginning and wrap; a slot is an index modulo their number, a power of two. A consumer that finds nothing announces that
//! it sleeps, and looks once more; a producer shows what it has put, and looks whether a sleep is announced. A fence between the two steps on both sides
//! sees to it that one of them sees the other.

use crate::memory::{AtomicU64, File, HandedMemory, Ordering, fence};
use std::ops::RangeInclusive;
#[cfg(not(loom))]
use std::os::unix::net::UnixStream;
#[cfg(not(loom))]
use std::sync::Weak;
use std::{error, fmt, io};

/// The fewest and the most packets in a ring.
pub const PACKETS: RangeInclusive<usize> = 2..=1 << 14;
/// Bytes of the longest packet: what fits a slot of 2,048 bytes beside its length.
pub const PACKET_BYTES_MAX: usize = (SLOT_WORDS - 1) * 8;

/// Words of a cache line and of the one beside it, which processors fetch together.
const LINE_WORDS: usize = 16;
const SLOT_WORDS: usize = 256;
const MAGIC: u64 = u64::from_ne_bytes(*b"CORECHAN");
const VERSION: u64 = 1;

const HEADER: usize = 0;
const PUT: usize = LINE_WORDS;
const DROPPED: usize = PUT + 1;
const ENDED: usize = PUT + 2;
const TAKEN: usize = 2 * LINE_WORDS;
const ASLEEP: usize = TAKEN + 1;
const FIRST_SLOT: usize = 3 * LINE_WORDS;

const _: () = assert!(ENDED < TAKEN && ASLEEP < FIRST_SLOT, "what one side writes ends before what the other does begins");
const _: () = assert!(
    SLOT_WORDS.is_multiple_of(LINE_WORDS) && PACKET_BYTES_MAX.is_multiple_of(8),
    "slots share no line, and hold whole words"
);
const _: () =
    assert!(PACKETS.start().is_power_of_two() && PACKETS.end().is_power_of_two(), "an index finds its slot by its low bits");

/// The memory of a ring makes no sense: the other process has written over it, or it is no ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the memory is no ring of packets, or the other process has written over it: take the channel anew")
    }
}

impl error::Error for Broken {}

/// An empty ring for `slots` packets, rounded up to a power of two within [`PACKETS`], in memory of its own, and the file to be handed over.
///
/// # Errors
/// The system's: no memory, too many descriptors.
pub fn ring(slots: usize) -> io::Result<(HandedMemory, File)> {
    let slots = slots.clamp(*PACKETS.start(), *PACKETS.end()).next_power_of_two();
    let (memory, file) = HandedMemory::new(FIRST_SLOT + slots * SLOT_WORDS)?;
    for (word, value) in [MAGIC, VERSION, slots as u64, SLOT_WORDS as u64].into_iter().enumerate() {
        memory.words()[HEADER + word].store(value, Ordering::Relaxed);
    }
    Ok((memory, file))
}

/// Slots of a ring, if it is one.
fn slots_of(words: &[AtomicU64]) -> Result<usize, Broken> {
    let header = words.get(..FIRST_SLOT).ok_or(Broken)?;
    let of = |word: usize| header[HEADER + word].load(Ordering::Relaxed);
    let slots = usize::try_from(of(2)).ok().filter(|slots| slots.is_power_of_two() && PACKETS.contains(slots)).ok_or(Broken)?;
    let is_ring = [of(0), of(1), of(3)] == [MAGIC, VERSION, SLOT_WORDS as u64] && words.len() >= FIRST_SLOT + slots * SLOT_WORDS;
    is_ring.then_some(slots).ok_or(Broken)
}

/// Words of the slot that an index is of.
fn slot(words: &[AtomicU64], slots: usize, index: u64) -> &[AtomicU64] {
    assert!(slots.is_power_of_two(), "the other process cannot change how many there are: the number was read once");
    let first = FIRST_SLOT + (index as usize & (slots - 1)) * SLOT_WORDS;
    &words[first..first + SLOT_WORDS]
}

/// The end that puts packets in; it lives on one lane.
#[derive(Debug)]
pub struct Producer {
    memory: HandedMemory,
    slots: usize,
    put: u64,
    shown: u64,
    /// As last read from the consumer.
    taken: u64,
    dropped: u64,
}

impl Producer {
    /// The producer of a ring that was just made: there is one.
    ///
    /// # Errors
    /// [`Broken`] for memory that is no ring.
    pub fn new(memory: HandedMemory) -> Result<Self, Broken> {
        let slots = slots_of(memory.words())?;
        Ok(Self { memory, slots, put: 0, shown: 0, taken: 0, dropped: 0 })
    }

    /// Puts a packet in, which lies in pieces; false if it was dropped, for want of room or because it is longer than [`PACKET_BYTES_MAX`]. Nobody sees
    /// it before [`Producer::publish`].
    pub fn put<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]> + Clone) -> bool {
        let length: usize = pieces.clone().map(<[u8]>::len).sum();
        let fits = length <= PACKET_BYTES_MAX && self.find_room();
        if fits {
            let slot = slot(self.memory.words(), self.slots, self.put);
            slot[0].store(length as u64, Ordering::Relaxed);
            write(&slot[1..], pieces);
            self.put = self.put.wrapping_add(1);
            assert!(self.put.wrapping_sub(self.taken) <= self.slots as u64, "nothing is written over before it was taken");
        } else {
            self.dropped += 1;
            self.memory.words()[DROPPED].store(self.dropped, Ordering::Relaxed);
        }
        fits
    }

    /// Looks for room. What the consumer says is believed only where it can be: else there is no room.
    fn find_room(&mut self) -> bool {
        let used = |taken: u64| self.put.wrapping_sub(taken);
        if used(self.taken) >= self.slots as u64 {
            // Acquire: the consumer has copied what was in the slots that it gives back.
            let taken = self.memory.words()[TAKEN].load(Ordering::Acquire);
            if used(taken) <= self.slots as u64 && used(taken) <= used(self.taken) {
                self.taken = taken;
            }
        }
        used(self.taken) < self.slots as u64
    }

    /// Shows what was put in, and wakes a consumer that sleeps. It never waits.
    pub fn publish(&mut self) {
        if self.show() {
            self.wake();
        }
    }

    /// Shows it; whether somebody sleeps.
    fn show(&mut self) -> bool {
        if self.shown == self.put {
            return false;
        }
        let unseen = self.put.wrapping_sub(self.shown);
        assert!(unseen <= self.slots as u64, "{unseen} packets in {} slots", self.slots);
        self.shown = self.put;
        let words = self.memory.words();
        // Release: who sees the number sees the packets.
        words[PUT].store(self.put, Ordering::Release);
        fence(Ordering::SeqCst);
        words[ASLEEP].load(Ordering::Relaxed) != 0
    }

    #[cfg(not(loom))]
    fn wake(&self) {
        corelane_os::shared::wake(&self.memory.words()[PUT], 1);
    }

    #[cfg(loom)]
    fn wake(&self) {}

    /// Packets dropped since the beginning.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.show();
        self.memory.words()[ENDED].store(1, Ordering::Release);
        self.wake();
    }
}

/// Writes pieces, one behind the other, into words.
fn write<'a>(words: &[AtomicU64], pieces: impl Iterator<Item = &'a [u8]>) {
    let (mut word, mut filled, mut at) = ([0; 8], 0, 0);
    for mut piece in pieces {
        while !piece.is_empty() {
            let some = piece.len().min(8 - filled);
            word[filled..filled + some].copy_from_slice(&piece[..some]);
            (filled, piece) = (filled + some, &piece[some..]);
            if filled == 8 {
                words[at].store(u64::from_ne_bytes(word), Ordering::Relaxed);
                (filled, at) = (0, at + 1);
            }
        }
    }
    if filled > 0 {
        words[at].store(u64::from_ne_bytes(word), Ordering::Relaxed);
    }
}

/// The end that takes packets out, in a process and a thread of its own.
#[derive(Debug)]
pub struct Consumer {
    memory: HandedMemory,
    slots: usize,
    taken: u64,
    /// The connection, which ends with the producer's process, however that ends; and whether it has.
    #[cfg(not(loom))]
    connection: Weak<UnixStream>,
    is_gone: bool,
}

impl Consumer {
    /// The consumer of a ring: there is one.
    ///
    /// # Errors
    /// [`Broken`] for memory that is no ring.
    #[doc(hidden)] // Whoever takes packets is given one.
    pub fn new(memory: HandedMemory) -> Result<Self, Broken> {
        let slots = slots_of(memory.words())?;
        let taken = memory.words()[TAKEN].load(Ordering::Relaxed);
        Ok(Self {
            memory,
            slots,
            taken,
            #[cfg(not(loom))]
            connection: Weak::new(),
            is_gone: false,
        })
    }

    /// The same, whose producer is at the other end of that connection.
    #[cfg(not(loom))]
    pub(crate) fn with_connection(self, connection: Weak<UnixStream>) -> Self {
        Self { connection, ..self }
    }

    /// Copies the next packet to the front of `into`, and gives its slot back. Bytes of it; none if there is nothing now.
    ///
    /// # Errors
    /// [`Broken`].
    ///
    /// # Panics
    /// If `into` is shorter than [`PACKET_BYTES_MAX`].
    pub fn take(&mut self, into: &mut [u8]) -> Result<Option<usize>, Broken> {
        assert!(into.len() >= PACKET_BYTES_MAX, "any packet has room");
        let words = self.memory.words();
        // Acquire: with the number come the packets.
        let waiting = words[PUT].load(Ordering::Acquire).wrapping_sub(self.taken);
        if waiting == 0 {
            return Ok(None);
        }
        let slot = slot(words, self.slots, self.taken);
        let length = slot[0].load(Ordering::Relaxed) as usize;
        if waiting > self.slots as u64 || length > PACKET_BYTES_MAX {
            return Err(Broken);
        }
        for (word, bytes) in slot[1..].iter().zip(into[..length].chunks_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..bytes.len()]);
        }
        self.taken = self.taken.wrapping_add(1);
        // Release: the slot is read before it is given back.
        words[TAKEN].store(self.taken, Ordering::Release);
        Ok(Some(length))
    }

    /// Whether the producer has ended; one that was killed, as far as this has waited or [looked](Consumer::look) since. Packets that it had put in before can still be taken.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.is_gone || self.memory.words()[ENDED].load(Ordering::Acquire) != 0
    }

    /// Packets that were dropped for want of room, or because they were too long.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.memory.words()[DROPPED].load(Ordering::Relaxed)
    }

    /// Looks whether the producer's process is there still, for a consumer that never waits: [`Consumer::wait`] looks by itself.
    #[cfg(not(loom))]
    pub fn look(&mut self) {
        self.is_gone |= self.connection.upgrade().is_some_and(|connection| corelane_os::local::has_gone(&connection));
    }

    /// Sleeps until there is a packet, the producer ends, a signal comes, or `timeout` is over. Without one it sleeps a second at the most, because an end that
    /// comes just before the sleep changes no number of packets, and one by kill(2) nothing at all: ask and wait again.
    #[cfg(not(loom))]
    pub fn wait(&mut self, timeout: Option<std::time::Duration>) {
        if self.announce_sleep() && !self.has_ended() {
            let most = timeout.unwrap_or(std::time::Duration::from_secs(1));
            corelane_os::shared::sleep(&self.memory.words()[PUT], self.taken as u32, Some(most));
            self.look();
        }
        self.memory.words()[ASLEEP].store(0, Ordering::Relaxed);
    }

    /// Announces a sleep; whether there is still nothing.
    fn announce_sleep(&self) -> bool {
        let words = self.memory.words();
        words[ASLEEP].store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        words[PUT].load(Ordering::Relaxed) == self.taken
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    fn ends(slots: usize) -> (HandedMemory, Producer, Consumer) {
        let (memory, _) = ring(slots).unwrap();
        (memory.clone(), Producer::new(memory.clone()).unwrap(), Consumer::new(memory).unwrap())
    }

    fn all(consumer: &mut Consumer) -> Vec<Vec<u8>> {
        let mut bytes = [0; PACKET_BYTES_MAX];
        let mut taken = Vec::new();
        while let Some(length) = consumer.take(&mut bytes).unwrap() {
            taken.push(bytes[..length].to_vec());
        }
        taken
    }

    /// Row C-01: every word that one side writes is at least a pair of lines away from those of the other.
    #[test]
    fn c_01_producer_and_consumer_write_no_line_in_common() {
        let words_of = |memory: &HandedMemory| memory.words().iter().map(|word| word.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let written = |before: &[u64], after: &[u64]| -> Vec<usize> {
            (0..before.len()).filter(|word| before[*word] != after[*word]).map(|word| word / LINE_WORDS).collect()
        };
        let (memory, mut producer, mut consumer) = ends(4);
        let (mut by_producer, mut by_consumer) = (Vec::new(), Vec::new());
        for round in 0..20_u8 {
            let before = words_of(&memory);
            for packet in 0..5 {
                producer.put([&[round + 1, packet + 1][..], &vec![0xff; 1000 + usize::from(round) * 20]].into_iter());
            }
            producer.publish();
            let between = words_of(&memory);
            consumer.announce_sleep();
            assert_eq!(all(&mut consumer).len(), 4);
            by_producer.extend(written(&before, &between));
            by_consumer.extend(written(&between, &words_of(&memory)));
        }
        drop(producer);
        assert!(by_producer.len() > 100 && by_consumer.len() > 20);
        assert!(by_consumer.iter().all(|line| !by_producer.contains(line)), "{by_consumer:?}");
        assert_eq!([PUT, TAKEN, FIRST_SLOT].map(|word| word % LINE_WORDS), [0; 3]);
    }

    #[test]
    fn packets_of_any_length_and_in_any_pieces_come_whole_and_in_order() {
        let (_, mut producer, mut consumer) = ends(8);
        let bytes: Vec<u8> = (0..PACKET_BYTES_MAX).map(|byte| byte as u8).collect();
        for round in 0..300 {
            let length = (round * 37) % (PACKET_BYTES_MAX + 1);
            assert!(producer.put(bytes[..length].chunks(1 + round % 19)));
            assert!(consumer.take(&mut [0; PACKET_BYTES_MAX]).unwrap().is_none(), "nobody sees it yet");
            producer.publish();
            assert_eq!(all(&mut consumer), [&bytes[..length]], "{round}");
        }
    }

    #[test]
    fn a_full_ring_and_a_long_packet_drop_and_count() {
        let (_, mut producer, mut consumer) = ends(4);
        let put: Vec<bool> = (0..6_u8).map(|packet| producer.put([&[packet][..]].into_iter())).collect();
        assert_eq!(put, [true, true, true, true, false, false]);
        assert!(!producer.put([&[0; PACKET_BYTES_MAX + 1][..]].into_iter()));
        producer.publish();
        assert_eq!((all(&mut consumer).len(), producer.dropped(), consumer.dropped()), (4, 3, 3));
        assert!(producer.put([&[7][..]].into_iter()), "what was taken has room again");
    }

    #[test]
    fn whatever_the_other_side_writes_nothing_is_believed() {
        for word in 0..FIRST_SLOT + SLOT_WORDS {
            for lie in [0, 1, 3, 1 << 31, u64::MAX] {
                let (memory, mut producer, mut consumer) = ends(2);
                producer.put([&[1; 9][..]].into_iter());
                producer.publish();
                memory.words()[word].store(lie, Ordering::Relaxed);
                for _ in 0..5 {
                    producer.put([&[2; 9][..]].into_iter());
                    producer.publish();
                    let taken = consumer.take(&mut [0; PACKET_BYTES_MAX]);
                    assert!(
                        matches!(taken, Ok(None) | Err(Broken)) || taken.is_ok_and(|length| length <= Some(PACKET_BYTES_MAX))
                    );
                }
                let _ = (Producer::new(memory.clone()), Consumer::new(memory));
            }
        }
        assert!(Consumer::new(HandedMemory::new(1).unwrap().0).is_err());
    }

    #[test]
    fn a_consumer_that_sleeps_is_woken_by_packets_and_by_the_end() {
        let (_, mut producer, mut consumer) = ends(4);
        let taker = std::thread::spawn(move || {
            let mut taken = 0;
            loop {
                taken += all(&mut consumer).len();
                if consumer.has_ended() {
                    return taken + all(&mut consumer).len();
                }
                consumer.wait(None);
            }
        });
        let mut put = 0;
        while put < 2000 {
            put += usize::from(producer.put([&[9; 64][..]].into_iter()));
            producer.publish();
        }
        drop(producer);
        assert_eq!(taker.join().unwrap(), 2000);
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_tests {
    use super::*;
    use loom::thread;

    fn ends() -> (Producer, Consumer) {
        let (memory, ()) = ring(2).unwrap();
        (Producer::new(memory.clone()).unwrap(), Consumer::new(memory).unwrap())
    }

    #[test]
    fn loom_packets_come_whole_and_in_order_and_slots_are_used_again() {
        loom::model(|| {
            let (mut producer, mut consumer) = ends();
            let putter = thread::spawn(move || {
                let put: Vec<u8> = (1..=3)
                    .filter(|packet| {
                        let is_put = producer.put([&[*packet; 9][..]].into_iter());
                        producer.show();
                        is_put
                    })
                    .collect();
                (producer, put)
            });
            let (mut bytes, mut taken) = (vec![0; PACKET_BYTES_MAX], Vec::new());
            for _ in 0..2 {
                if let Some(length) = consumer.take(&mut bytes).unwrap() {
                    assert!(length == 9 && bytes[..9].iter().all(|byte| *byte == bytes[0]), "a whole packet");
                    taken.push(bytes[0]);
                }
            }
            let (_producer, put) = putter.join().unwrap();
            while consumer.take(&mut bytes).unwrap().is_some() {
                taken.push(bytes[0]);
            }
            assert_eq!(taken, put);
        });
    }

    #[test]
    fn loom_nobody_sleeps_on_a_packet() {
        loom::model(|| {
            let (mut producer, consumer) = ends();
            let putter = thread::spawn(move || {
                producer.put([&[1; 9][..]].into_iter());
                (producer.show(), producer)
            });
            let sleeps = consumer.announce_sleep();
            let (wakes, _producer) = putter.join().unwrap();
            assert!(!sleeps || wakes, "who sleeps is woken");
        });
    }
}
