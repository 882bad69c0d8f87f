//! The part of a port's program that is the fast path.

use super::headers::Headers;
use super::maps::{INSTRUCTIONS_MAX, Maps};
use super::notes::CONTEXT;
use super::passage;
use super::tree::Fitting;
use super::unfit::Unfit;
use corelane_rules::Direction;
use corelane_select::bpf::assembly::{Assembler, Label, Register};

/// A set of rules for a port's program.
#[derive(Clone, Copy, Debug)]
pub struct FastPart<'a> {
    pub maps: Maps<'a>,
    pub rules: &'a Fitting<'a>,
    /// The port's place.
    pub place: u16,
    pub leaves_sums: bool,
}

impl FastPart<'_> {
    /// Writes it, behind which nothing is reached: packets are redirected, dropped, or go to `lane` as they came.
    ///
    /// # Errors
    /// [`Unfit::Instructions`].
    pub fn write(&self, a: &mut Assembler, lane: Label) -> Result<(), Unfit> {
        assert!(CONTEXT as u8 == Register::R6 as u8, "where the port's program has its packet");
        let (deny, out, leave) = (a.label(), a.label(), a.label());
        Headers { a, lane, place: self.place, leaves_sums: self.leaves_sums }.write(self.maps.counters);
        passage::find(a, &self.maps, lane);
        if self.rules.asks_own() {
            self.rules.write_own(a);
        }
        self.rules.write_looks(a, lane);
        passage::fit_tags(a, lane);
        self.rules.write(a, Direction::In, out, deny);
        a.place(out);
        self.rules.write(a, Direction::Out, leave, deny);
        a.place(leave);
        passage::leave(a, &self.maps);
        a.place(deny);
        passage::deny(a, &self.maps);
        match a.len() {
            count if count > INSTRUCTIONS_MAX => Err(Unfit::Instructions(count)),
            _ => Ok(()),
        }
    }
}
