//! The work that brings parcels home: other lanes' parcels that this lane is done with, and its own that come back.

use crate::kit::Kit;
use crate::mesh::{Channels, Mesh};
use crate::work::Work;
use corelane_seam::parcel::{Parcel, ParcelHome};
use corelane_seam::{Completion, Driver};

/// Brings parcels home by its channels. Each lane that sends or gets parcels has one, behind all works that do so; then parcels that they are done with
/// leave in the same turn.
///
/// A parcel that finds its channel full waits here for a later turn; one whose home has ended goes home by itself.
pub struct Homing {
    mesh: Mesh<Parcel>,
    post: ParcelHome,
    leaving: Vec<Parcel>,
}

impl Homing {
    /// For a lane whose regions are open to others by `post`, with its ends of the channels.
    pub fn new(post: ParcelHome, mesh: Mesh<Parcel>) -> Self {
        Self { mesh, post, leaving: Vec::new() }
    }

    fn bring_home(&mut self, kit: &mut Kit) {
        kit.guests.take_homeward(&mut self.leaving);
        let mut index = 0;
        while index < self.leaving.len() {
            let parcel = self.leaving.swap_remove(index);
            let home = parcel.home();
            assert!(home < kit.lanes(), "a parcel's home is a lane of the program");
            if home == kit.lane() {
                self.post.take_home(parcel);
            } else if self.mesh.is_closed(home) {
                // Its lane has ended: it goes home by itself.
                drop(parcel);
            } else if let Err(refused) = self.mesh.send(kit, home, parcel) {
                self.leaving.push(refused.word);
                let last = self.leaving.len() - 1;
                self.leaving.swap(index, last);
                index += 1;
            }
        }
    }
}

impl Work for Homing {
    fn name(&self) -> &'static str {
        "homing"
    }

    fn keeps_lane(&self) -> bool {
        false
    }

    fn meshes(&mut self, each: &mut dyn FnMut(&mut dyn Channels)) {
        each(&mut self.mesh);
    }

    fn complete(&mut self, _kit: &mut Kit, _completion: Completion) {
        unreachable!("nothing is asked of the driver");
    }

    fn serve(&mut self, _kit: &mut Kit) {
        self.post.find_lost();
    }

    fn take_messages(&mut self, _kit: &mut Kit, at_most: usize) -> usize {
        let Self { mesh, post, .. } = self;
        mesh.take(at_most, |_, parcel| parcel.into_iter().for_each(|parcel| post.take_home(parcel)))
    }

    fn flush(&mut self, kit: &mut Kit) {
        self.bring_home(kit);
    }

    fn has_work(&self) -> bool {
        !self.leaving.is_empty()
    }

    fn has_news(&self) -> bool {
        false
    }

    fn has_ended(&self) -> bool {
        // It ends with the lane: until then other works may finish with a parcel.
        false
    }

    fn drain(&mut self, _kit: &mut Kit, _driver: &mut dyn Driver) {}
}
