//! Memory of the lane that a service lends to itself on other lanes, and what others have lent to it.

use crate::service::cx::Cx;
use crate::words::talk::Talk;
use corelane_seam::parcel::{Guests, Parcel, ParcelRefused};
use corelane_seam::{Lease, Shared};
use corelane_watch::ServiceCounter;

impl<T: Talk> Cx<'_, T> {
    /// Makes a parcel of shared bytes for lane `to`, to be put into a message, a question or an answer to it: the bytes are read and sent there without a copy
    /// ([`Cx::guests`]). They stay here as well, and may be dropped here meanwhile: their block is in use until the parcel is home again, and charged to
    /// whoever pays for it now.
    ///
    /// A parcel goes home when its last [`Guest`](corelane_seam::parcel::Guest) is dropped, or it itself, wherever that is. The lane that has it gives it back by a channel;
    /// what is dropped by nobody's lane (a message that was lost with its lane) is found in this lane's next turn. For who asks from outside of the
    /// lanes, copy instead: a lane that sleeps does not see what is dropped there.
    ///
    /// A service lends whose talk says so, for the lanes then have channels for the way home: [`Lends`](crate::Lends).
    ///
    /// ```compile_fail,E0080
    /// # mod corelane { pub use corelane_seam::Shared; pub use corelane_svc::{Asks, Cx}; }
    /// # use corelane::{Asks, Cx, Shared};
    /// fn lend(cx: &mut Cx<'_, Asks<(), ()>>, value: &Shared) {
    ///     let _ = cx.lend(value, 0); // with Lends<Asks<(), ()>> it is compiled
    /// }
    /// # fn main() { let _: fn(&mut Cx<'_, Asks<(), ()>>, &Shared) = lend; }
    /// ```
    ///
    /// # Errors
    /// [`ParcelRefused::TooMuch`] if an eighth of the lane's memory, or as many parcels as may be, are with other lanes (`parcels_refused`);
    /// [`ParcelRefused::Overdue`] if that lane has kept an earlier one for longer than it may (`parcels_overdue_hits`). Then copy the bytes.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn lend(&mut self, bytes: &Shared, to: usize) -> Result<Parcel, ParcelRefused> {
        let sent = bytes.parcel(self.lends_to(to), self.now());
        self.count_lent(sent.as_ref().err().copied());
        sent
    }

    /// [`Cx::lend`] of a lease, which nobody else can reach: so whoever has its parcel may write what it holds, too
    /// ([`Parcel::bytes_mut`]).
    ///
    /// # Errors
    /// The lease, and as [`Cx::lend`].
    ///
    /// # Panics
    /// As [`Cx::lend`].
    pub fn lend_lease(&mut self, lease: Lease, to: usize) -> Result<Parcel, (Lease, ParcelRefused)> {
        let sent = lease.parcel(self.lends_to(to), self.now());
        self.count_lent(sent.as_ref().err().map(|(_, refused)| *refused));
        sent
    }

    /// Where parcels of other lanes, which have come in a message, a question or an answer, are taken in: what
    /// [`admit`](Guests::admit) returns is read, cloned, sliced, and pushed into an output as the lane's own bytes are.
    pub fn guests(&self) -> &Guests {
        &self.kit.guests
    }

    fn lends_to(&self, to: usize) -> usize {
        const { assert!(T::HAS_PARCELS, "only a service whose talk says so lends: type Talk = Lends<..>, or HAS_PARCELS") };
        assert!(to < self.lanes(), "lane {to} is lent something, of {} lanes", self.lanes());
        to
    }

    fn count_lent(&mut self, refused: Option<ParcelRefused>) {
        self.count(
            match refused {
                None => ServiceCounter::ParcelsSent,
                Some(ParcelRefused::Overdue) => ServiceCounter::ParcelsOverdueHits,
                Some(_) => ServiceCounter::ParcelsRefused,
            },
            1,
        );
    }
}
