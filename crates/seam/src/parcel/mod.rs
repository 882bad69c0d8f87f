//! Parcels: lane memory on its way to another lane.
//!
//! A lane makes a parcel of a lease, of shared bytes, or of a frame, and gives it away in a message of any kind. The lane where it arrives
//! [admits](Guests::admit) it: from then on it is a [`Guest`] there, which is read, sliced and sent as the lane's own memory is
//! ([`Segment::Guest`](crate::Segment::Guest), [`Frame::arrived`](crate::Frame::arrived)). With the last clone of the guest the parcel is
//! put aside ([`Guests::take_homeward`]), and a channel brings it to its home, which [takes it](ParcelHome::take_home).
//!
//! ```text
//! home: Lease | Shared | Frame --parcel(to, now)--> Parcel --message--> admit -> Guest -> chain, port
//!         ^                                                                        | last clone dropped
//!         +-------- ParcelHome::take_home <--channel-- Parcel <-- take_homeward ---------+
//!         +-------- ParcelHome::find_lost <--stack---- Parcel dropped anywhere else
//! ```
//!
//! * **Nothing is copied and nothing is counted by two lanes.** The home keeps what the parcel lies in from being used again; clones of a
//!   guest are counted on the lane that has them. On the way both lanes write to channels only.
//! * **Who may write.** A parcel of a lease or a frame is [exclusive](Parcel::bytes_mut): nobody else can reach the bytes, so whoever has it
//!   may write. One of shared bytes is read only, there and at home.
//! * **A parcel is charged at home**, to whoever paid before. At most an eighth of a region is abroad at once, and a bounded number of
//!   parcels; what is more is refused. A lane that keeps a parcel for longer than it may gets no other until it has given that one back
//!   ([`AbroadLimits`]).
//! * **A home that ends first** leaves its memory to the last of its parcels. A lane that breaks drops its guests as any other value; one
//!   that has ended without sending them home, or a message that nobody took, drops parcels, which then come home over the stack.
//!
//! Its use by works, as signatures:
//!
//! ```text
//! packet path   fn dispatch(&mut self, kit, frame: Frame)            // frame.parcel(lane, now) -> FrameParcel in a message, batches of them
//!               fn message(&mut self, kit, from, frames: Batch)      // Frame::arrived(&kit.guests, parcel): handled and sent as an own frame
//! services      cx.lend(&value, from), cx.lend_lease(lease, to)      // parcel(to, now), counted: in a message, a question or an answer; a value stays
//!                                                                    // where it is kept, and may be evicted there while it is abroad
//!               output.push(cx.guests().admit(value))                // sent from where it lies; home when the driver releases it
//! sets          home.copy_of(&guest)                                 // what is to stay is copied: parcels are for passing through
//! ```
//!
//! Holds a marked cell: a parcel reads and writes its home's bytes through a pointer.
#![allow(unsafe_code)]

mod abroad;
mod guests;
mod home;

pub(crate) use abroad::Abroad;
pub use guests::{Guest, Guests};
pub(crate) use home::Return;

use crate::instant::Instant;
use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::rc::Rc;
use std::time::Duration;

/// How much of a region, and for how long, other lanes may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbroadLimits {
    /// See the function of this name.
    pub parcels_max: usize,
    /// See the function of this name.
    pub overdue: Duration,
}

impl AbroadLimits {
    /// The part of a region that may be abroad at once: an eighth.
    pub const PART: usize = 8;
    /// The most parcels that may be away at once, whatever is set: 1,048,576.
    pub const PARCELS_MOST: usize = home::SLOTS_MAX;

    /// Parcels that may be away at once, 1 to 1,048,576. Default 4,096.
    pub fn parcels_max(mut self, parcels: usize) -> Self {
        self.parcels_max = parcels;
        self
    }

    /// How long a parcel may be away until it is overdue: its lane is given no other until it has come home. Default 10 s.
    pub fn overdue(mut self, after: Duration) -> Self {
        self.overdue = after;
        self
    }
}

impl Default for AbroadLimits {
    fn default() -> Self {
        Self { parcels_max: 4096, overdue: Duration::from_secs(10) }
    }
}

/// The counts of a region's memory abroad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbroadCounts {
    /// Parcels that are away.
    pub parcels: usize,
    /// Bytes of memory that they keep, by whole blocks and frames.
    pub bytes: usize,
    /// How many of them have been away for too long.
    pub overdue: usize,
    /// Parcels sent since the beginning.
    pub sent: u64,
    /// Parcels that were refused.
    pub refused: u64,
    /// Parcels that were dropped where no lane was, and came home over the stack.
    pub found: u64,
}

/// Why memory may not travel. Copy it instead, or let the other lane wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParcelRefused {
    /// An eighth of the region is abroad already, or as many parcels as may be.
    TooMuch,
    /// The other lane has kept an earlier parcel for longer than it may.
    Overdue,
    /// The region is not open to other lanes: see [`Arena::open_abroad`](crate::Arena::open_abroad).
    Closed,
}

impl fmt::Display for ParcelRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooMuch => {
                "as much of this lane's memory is with other lanes as may be: copy it, or try again when some has come home"
            }
            Self::Overdue => {
                "the other lane has not given back what it was lent long ago: copy it, and see what holds that lane up"
            }
            Self::Closed => "this memory is not open to other lanes: open it when the lane is made",
        })
    }
}

impl std::error::Error for ParcelRefused {}

/// Bytes of one lane's memory on their way to another, and the right to read them; see the [module](self).
///
/// It may be sent to any thread, kept, and dropped anywhere: its memory lives until then.
pub struct Parcel {
    right: Return,
    at: NonNull<u8>,
    length: u32,
    exclusive: bool,
}

// SAFETY: the bytes stay where they are until the right is used up or dropped; nobody writes them but, if `exclusive`, who has the parcel.
unsafe impl Send for Parcel {}

impl Parcel {
    /// The bytes at `at`, which the home keeps from being used until `right` is redeemed; and from being read, if `exclusive`.
    pub(crate) fn new(right: Return, at: NonNull<u8>, length: usize, exclusive: bool) -> Self {
        // reason: the largest block has 4 MiB.
        let length = u32::try_from(length).expect("a block's length fits");
        Self { right, at, length, exclusive }
    }

    /// The lane that is its home.
    pub fn home(&self) -> usize {
        self.right.lane() as usize
    }

    /// The bytes, to be written, if nobody else can reach them: those of a lease or a frame.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        // SAFETY: the home has given up the bytes until the parcel is back, and the parcel is borrowed exclusively.
        self.exclusive.then(|| unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.length as usize) })
    }

    fn into_right(self) -> Return {
        self.right
    }
}

impl Deref for Parcel {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the home keeps the bytes as they are until the parcel is back.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.length as usize) }
    }
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parcel({} bytes of lane {})", self.length, self.home())
    }
}

/// A region of a lane that may have parcels abroad.
pub(crate) trait Homeland {
    /// Takes what is its own, and gives back the right to what is not.
    fn come_home(&self, right: Return) -> Result<(), Return>;
    /// Takes in what was dropped where no lane was.
    fn find_lost(&self);
    /// The counts of its memory abroad.
    fn counts(&self, now: Instant) -> AbroadCounts;
}

/// Where the parcels of one lane come home to, whichever of its regions they are of. Cloning gives another name of the same.
#[derive(Clone, Default)]
pub struct ParcelHome(Rc<RefCell<Vec<Rc<dyn Homeland>>>>);

impl ParcelHome {
    /// Takes a region up.
    pub(crate) fn serve(&self, region: Rc<dyn Homeland>) {
        self.0.borrow_mut().push(region);
    }

    /// A parcel is back.
    pub fn take_home(&self, parcel: Parcel) {
        let mut right = parcel.into_right();
        for region in self.0.borrow().iter() {
            match region.come_home(right) {
                Ok(()) => return,
                Err(other) => right = other,
            }
        }
        // Of no region of this lane: it goes the other way.
        drop(right);
    }

    /// Takes in what was dropped where no lane was: to be called now and then, such as once a turn.
    pub fn find_lost(&self) {
        self.0.borrow().iter().for_each(|region| region.find_lost());
    }

    /// The counts of all regions' memory abroad, at the time `now`.
    pub fn counts(&self, now: Instant) -> AbroadCounts {
        self.0.borrow().iter().map(|region| region.counts(now)).fold(AbroadCounts::default(), |sum, one| AbroadCounts {
            parcels: sum.parcels + one.parcels,
            bytes: sum.bytes + one.bytes,
            overdue: sum.overdue + one.overdue,
            sent: sum.sent + one.sent,
            refused: sum.refused + one.refused,
            found: sum.found + one.found,
        })
    }
}

impl fmt::Debug for ParcelHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParcelHome({} regions)", self.0.borrow().len())
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
