use super::*;
use crate::buddy::LEASE_BYTES_MAX;
use crate::chain::{Chain, Segment};
use crate::lease::Arena;
use proptest::prelude::*;
use std::thread;

const MIB: usize = 1 << 20;
const OVERDUE: u64 = 1_000;

fn at(nanoseconds: u64) -> Instant {
    Instant::from_nanoseconds(nanoseconds)
}

struct Side {
    arena: Arena,
    post: ParcelHome,
    guests: Guests,
}

fn lane(number: u16, parcels_max: usize) -> Side {
    let (arena, post) = (Arena::new(8 * MIB).unwrap(), ParcelHome::default());
    arena.open_abroad(number, AbroadLimits::default().parcels_max(parcels_max).overdue(Duration::from_nanos(OVERDUE)), &post);
    Side { arena, post, guests: Guests::default() }
}

/// Brings home what `from` is done with.
fn bring_home(from: &Guests, to: &ParcelHome) -> usize {
    let mut parcels = Vec::new();
    from.take_homeward(&mut parcels);
    let count = parcels.len();
    parcels.into_iter().for_each(|parcel| to.take_home(parcel));
    count
}

#[test]
fn a_lease_travels_is_written_there_and_comes_home() {
    let home = lane(3, 8);
    let parcel = home.arena.copy_of(b"from home").unwrap().parcel(1, at(0)).unwrap();
    assert_eq!((home.arena.used(), home.post.counts(at(0)).parcels), (256, 1));
    let parcel = thread::spawn(|| {
        let (guests, mut there) = (Guests::default(), parcel);
        there.bytes_mut().unwrap()[..4].copy_from_slice(b"back");
        let guest = guests.admit(there);
        assert_eq!((&*guest, guest.home()), (&b"back home"[..], 3));
        drop(guest);
        let mut homeward = Vec::new();
        guests.take_homeward(&mut homeward);
        homeward.pop().unwrap()
    });
    home.post.take_home(parcel.join().unwrap());
    let counts = home.post.counts(at(0));
    assert_eq!((home.arena.used(), counts.parcels, counts.bytes, counts.sent), (0, 0, 0, 1));
}

#[test]
fn shared_bytes_stay_at_home_while_they_are_abroad_and_are_written_by_nobody() {
    let (home, away) = (lane(0, 8), lane(1, 8));
    let value = home.arena.copy_of(b"a value").unwrap().share();
    let mut parcels: Vec<_> = (0..2).map(|_| value.slice(2..7).parcel(1, at(0)).unwrap()).collect();
    assert!(parcels[0].bytes_mut().is_none() && !value.is_only());
    let guests: Vec<_> = parcels.drain(..).map(|parcel| away.guests.admit(parcel)).collect();
    drop(value);
    assert_eq!((&*guests[0], &*guests[1], home.arena.used()), (&b"value"[..], &b"value"[..], 256));
    drop(guests);
    assert_eq!((bring_home(&away.guests, &home.post), home.arena.used()), (2, 0));
}

#[test]
fn an_eighth_of_the_region_is_abroad_at_the_most() {
    let home = lane(0, 64);
    let leases: Vec<_> = (0..5).map(|_| home.arena.lease(MIB / 4).unwrap()).collect();
    let mut sent: Vec<_> = leases.into_iter().map(|lease| lease.parcel(1, at(0))).collect();
    let (lease, refused) = sent.pop().unwrap().unwrap_err();
    assert_eq!((refused, lease.capacity(), home.post.counts(at(0)).bytes), (ParcelRefused::TooMuch, MIB / 4, MIB));
    drop(sent.pop());
    home.post.find_lost();
    assert!(lease.parcel(1, at(0)).is_ok(), "what has come home makes room");
}

#[test]
fn more_parcels_than_may_be_away_are_refused() {
    let home = lane(0, 2);
    let value = home.arena.copy_of(b"x").unwrap().share();
    let sent: Vec<_> = (0..3).map(|_| value.parcel(1, at(0))).collect();
    assert_eq!(sent[2].as_ref().unwrap_err(), &ParcelRefused::TooMuch);
    assert_eq!((home.post.counts(at(0)).parcels, home.post.counts(at(0)).refused), (2, 1));
    let closed = Arena::new(1).unwrap().copy_of(b"x").unwrap().parcel(1, at(0)).unwrap_err();
    assert_eq!(closed.1, ParcelRefused::Closed);
}

#[test]
fn who_keeps_a_parcel_too_long_gets_no_other_until_it_is_back() {
    let (home, away) = (lane(0, 8), lane(1, 8));
    let value = home.arena.copy_of(b"x").unwrap().share();
    let first = away.guests.admit(value.parcel(1, at(10)).unwrap());
    let second = away.guests.admit(value.parcel(1, at(20)).unwrap());
    assert!(value.parcel(1, at(10 + OVERDUE)).is_ok());
    assert_eq!(value.parcel(1, at(11 + OVERDUE)).unwrap_err(), ParcelRefused::Overdue);
    assert!(value.parcel(2, at(11 + OVERDUE)).is_ok(), "another lane is not to blame");
    home.post.find_lost();
    let counts = home.post.counts(at(11 + OVERDUE));
    assert_eq!((counts.overdue, counts.parcels, counts.refused, counts.found), (1, 2, 1, 2));
    drop(first);
    bring_home(&away.guests, &home.post);
    assert!(value.parcel(1, at(20 + OVERDUE)).is_ok());
    drop(second);
}

#[test]
fn what_is_dropped_on_its_way_is_found() {
    let home = lane(0, 8);
    let parcels: Vec<_> = (0..3).map(|_| home.arena.copy_of(b"lost").unwrap().parcel(1, at(0)).unwrap()).collect();
    thread::spawn(move || drop(parcels)).join().unwrap();
    assert_eq!(home.arena.used(), 768);
    home.post.find_lost();
    assert_eq!((home.arena.used(), home.post.counts(at(0)).found), (0, 3));
}

#[test]
fn memory_outlives_its_lane_until_the_last_parcel_is_gone() {
    let (home, away) = (lane(0, 8), lane(1, 8));
    let parcels = [1u8, 2].map(|byte| home.arena.copy_of(&[byte; 5_000]).unwrap().parcel(1, at(0)).unwrap());
    let guests = parcels.map(|parcel| away.guests.admit(parcel));
    drop(home);
    for (guest, byte) in guests.iter().zip([1, 2]) {
        assert_eq!(**guest, [byte; 5_000]);
    }
    drop(guests);
    assert_eq!(bring_home(&away.guests, &away.post), 2, "another lane's parcels go the other way");
    assert!(away.guests.is_empty());
}

#[test]
fn a_guest_is_written_by_its_only_view() {
    let (home, away) = (lane(0, 8), lane(1, 8));
    let mut guest = away.guests.admit(home.arena.copy_of(b"abcdef").unwrap().parcel(1, at(0)).unwrap());
    guest.skip(1);
    guest.truncate(4);
    guest.bytes_mut().unwrap()[0] = b'B';
    let part = guest.slice(2..4);
    assert!(guest.bytes_mut().is_none(), "somebody else reads it");
    assert_eq!((&*guest, &*part), (&b"Bcde"[..], &b"de"[..]));
    drop(part);
    assert!(guest.bytes_mut().is_some());
}

#[test]
fn a_chain_is_made_of_guests_as_of_own_memory() {
    let (home, away) = (lane(0, 8), lane(1, 8));
    let mut chain = Chain::new();
    chain.push(Segment::Static(b"<"));
    chain.push(away.guests.admit(home.arena.copy_of(b"a guest").unwrap().parcel(1, at(0)).unwrap()));
    let mut front = Chain::new();
    chain.move_to(3, &mut front);
    let mut bytes = [0; 8];
    assert_eq!((front.copy_to(&mut bytes), chain.copy_to(&mut bytes[3..]), &bytes), (3, 5, b"<a guest"));
    assert_eq!((chain.charged(), away.guests.len()), (0, 1), "the home is charged for it");
    drop((chain, front));
    assert_eq!(bring_home(&away.guests, &home.post), 1);
}

proptest! {
    /// Three lanes send each other parcels and drop them anywhere: bytes are what they were, and all of it comes home.
    #[test]
    fn nothing_is_lost_between_lanes(steps in prop::collection::vec((0usize..3, 0usize..3, any::<u8>()), 1..300)) {
        let lanes = [0, 1, 2].map(|number| lane(number, 16));
        let mut guests: Vec<(u8, Guest)> = Vec::new();
        for (time, (from, to, choice)) in steps.into_iter().enumerate() {
            match choice % 4 {
                0 | 1 => {
                    let lease = lanes[from].arena.copy_of(&[choice; 300]).unwrap();
                    let parcel = if choice % 2 == 0 { lease.parcel(to, at(time as u64)).ok() } else { lease.share().parcel(to, at(time as u64)).ok() };
                    let Some(parcel) = parcel else { continue };
                    if choice % 8 != 0 {
                        guests.push((choice, lanes[to].guests.admit(parcel)));
                    }
                }
                2 if !guests.is_empty() => drop(guests.swap_remove(choice as usize % guests.len())),
                _ => {
                    let mut homeward = Vec::new();
                    lanes[from].guests.take_homeward(&mut homeward);
                    homeward.into_iter().for_each(|parcel| lanes[parcel.home()].post.take_home(parcel));
                    lanes[to].post.find_lost();
                }
            }
            prop_assert!(guests.iter().all(|(byte, guest)| **guest == [*byte; 300]));
            for lane in &lanes {
                let counts = lane.post.counts(at(0));
                prop_assert_eq!(lane.arena.used(), counts.bytes);
                prop_assert!(counts.bytes <= MIB && counts.parcels <= 16);
            }
        }
        guests.clear();
        for lane in &lanes {
            let mut homeward = Vec::new();
            lane.guests.take_homeward(&mut homeward);
            homeward.into_iter().for_each(|parcel| lanes[parcel.home()].post.take_home(parcel));
        }
        for lane in &lanes {
            lane.post.find_lost();
            prop_assert_eq!((lane.arena.used(), lane.post.counts(at(0)).parcels), (0, 0));
            prop_assert!(lane.arena.lease(LEASE_BYTES_MAX).is_some());
        }
    }
}
