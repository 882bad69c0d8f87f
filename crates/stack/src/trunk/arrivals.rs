//! How the frames of a port become packets: one may lie in several, which come one after the other in a batch.

use crate::counts::Drop;
use crate::packet::{Packet, Spare};
use corelane_seam::Frame;

/// The packet that is on its way in.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// Frames that a packet may lie in.
    pieces_max: usize,
    /// The packet of which not all frames have come out of their batch; and whether these are too many already.
    begun: Option<Packet>,
    is_spilt: bool,
    /// When the last packet came, and each a little later than the one before it: so datagrams that ran in another order are told apart.
    came: u64,
}

impl Arrivals {
    pub const fn new(pieces_max: usize) -> Self {
        Self { pieces_max, begun: None, is_spilt: false, came: 0 }
    }

    /// A frame of the port's: a packet, if it is the last of one; or why one goes no further.
    pub fn join(&mut self, now: u64, interface: usize, frame: Frame, spare: &mut Spare) -> Result<Option<Packet>, Drop> {
        let continues = frame.facts.continues;
        let packet = match self.begun.take() {
            Some(mut packet) => {
                // What is too long is dropped with its end, so that no part of it is taken for a packet.
                self.is_spilt |= packet.rest.len() + 1 >= self.pieces_max;
                packet.rest.extend(Some(frame).filter(|_| !self.is_spilt));
                packet
            }
            None => {
                let told = if frame.facts.time > 0 { frame.facts.time.min(now) } else { now };
                self.came = told.max(self.came + 1);
                spare.take(frame, interface, self.came)
            }
        };
        if continues {
            self.begun = Some(packet);
            return Ok(None);
        }
        if std::mem::take(&mut self.is_spilt) {
            spare.put(packet);
            return Err(Drop::Pieces);
        }
        Ok(Some(packet))
    }

    /// Whether a packet lacks frames.
    pub const fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// A batch has ended, and a packet does not go on in the next: whether one was cut short, and is dropped.
    pub fn end_batch(&mut self, spare: &mut Spare) -> bool {
        let Some(packet) = self.begun.take() else { return false };
        self.is_spilt = false;
        spare.put(packet);
        true
    }
}
