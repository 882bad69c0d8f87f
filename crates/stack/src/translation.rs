//! The owner of what translates addresses, and which interfaces are outside.

use crate::settings::{Error, NatSettings, Settings};
use corelane_nat::{Counts, Nat};

/// The translation of a lane.
#[derive(Debug)]
pub(crate) struct Translation {
    nat: Nat,
}

impl Translation {
    /// As the settings want it; none if they want none.
    pub fn new(settings: &Settings) -> Result<Option<Self>, Error> {
        let Some(NatSettings { interfaces, settings: of_nat }) = &settings.nat else { return Ok(None) };
        if let Some(interface) = interfaces.iter().copied().find(|one| *one >= settings.interfaces.len()) {
            return Err(Error::NoInterface { interface });
        }
        let (lane, lanes) = settings.lane;
        let words = words_of(settings.secret);
        let nat = Nat::new(&of_nat.clone().for_lane(lane, lanes), settings.hasher.clone(), words);
        nat.map(|nat| Some(Self { nat })).map_err(|why| Error::Nat { why })
    }

    /// What was translated.
    pub const fn counts(&self) -> Counts {
        self.nat.counts()
    }

    /// Sessions, and external ports that are given out.
    pub fn in_use(&self) -> (usize, usize) {
        (self.nat.sessions(), self.nat.ports())
    }
}

/// Words from a secret, of which none tells another to who does not know the secret's half (Steele, Lea, Flood: "Fast splittable pseudorandom number
/// generators", 2014).
fn words_of(secret: u128) -> impl FnMut() -> u64 {
    let (mut state, step) = (secret as u64, (secret >> 64) as u64 | 1);
    move || {
        state = state.wrapping_add(step);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
