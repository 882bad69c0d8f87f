//! EVFILT_USER.

use libc::ENOENT;

use crate::numbers::*;
use crate::rig::*;
use crate::{Case, case};

pub const CASES: &[Case] = &[
    case("nothing is told before the trigger", "Q-20", |q| {
        q.add(1, USER);
        q.silent();
    }),
    case("the trigger activates", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD), trigger(1)]);
        let event = q.wait();
        assert_eq!((event.ident, event.filter), (1, USER));
    }),
    case("registered and triggered in one change", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD).notes(NOTE_TRIGGER)]);
        assert_eq!(q.wait().ident, 1);
    }),
    case("without CLEAR a trigger stays", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD), trigger(1)]);
        for _ in 0..3 {
            assert_eq!(q.wait().ident, 1);
        }
    }),
    case("with CLEAR a trigger is told once", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR), trigger(1)]);
        assert_eq!(q.wait().ident, 1);
        q.silent();
    }),
    case("with CLEAR each trigger is told", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR)]);
        for _ in 0..5 {
            q.set(&[trigger(1)]);
            assert_eq!(q.wait().ident, 1);
            q.silent();
        }
    }),
    case("triggers before they are told are one", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR), trigger(1), trigger(1), trigger(1)]);
        assert_eq!(q.now().len(), 1);
        q.silent();
    }),
    case("CLEAR in a later change resets a trigger", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD), trigger(1)]);
        assert_eq!(q.wait().ident, 1);
        q.set(&[ev(1, USER, CLEAR)]);
        q.silent();
    }),
    case("FFCOPY replaces the caller's flags", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD).notes(0x00f0), ev(1, USER, 0).notes(NOTE_FFCOPY | NOTE_TRIGGER | 0x0abc)]);
        assert_eq!(q.wait().fflags & NOTE_FFLAGSMASK, 0x0abc);
    }),
    case("FFOR adds the caller's flags", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD).notes(NOTE_FFCOPY | 0x00f0), ev(1, USER, 0).notes(NOTE_FFOR | NOTE_TRIGGER | 0x000f)]);
        assert_eq!(q.wait().fflags & NOTE_FFLAGSMASK, 0x00ff);
    }),
    case("FFAND keeps the common flags", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD).notes(NOTE_FFCOPY | 0x00ff), ev(1, USER, 0).notes(NOTE_FFAND | NOTE_TRIGGER | 0x0f0f)]);
        assert_eq!(q.wait().fflags & NOTE_FFLAGSMASK, 0x000f);
    }),
    case("FFNOP leaves the caller's flags", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD).notes(NOTE_FFCOPY | 0x00ff), ev(1, USER, 0).notes(NOTE_TRIGGER | 0x0f00)]);
        assert_eq!(q.wait().fflags & NOTE_FFLAGSMASK, 0x00ff);
    }),
    case("flags change without a trigger", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD), ev(1, USER, 0).notes(NOTE_FFCOPY | 0x12)]);
        q.silent();
        q.set(&[trigger(1)]);
        assert_eq!(q.wait().fflags & NOTE_FFLAGSMASK, 0x12);
    }),
    case("all 24 bits are the caller's", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD), ev(1, USER, 0).notes(NOTE_FFCOPY | NOTE_TRIGGER | NOTE_FFLAGSMASK)]);
        assert_eq!(q.wait().fflags & NOTE_FFLAGSMASK, NOTE_FFLAGSMASK);
    }),
    case("the told flags carry no control bits", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD), ev(1, USER, 0).notes(NOTE_FFOR | NOTE_TRIGGER | 0x1)]);
        assert_eq!(q.wait().fflags & NOTE_FFCTRLMASK, 0);
    }),
    case("the trigger itself is not told", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD), ev(1, USER, 0).notes(NOTE_FFCOPY | NOTE_TRIGGER | 0x3)]);
        assert_eq!(q.wait().fflags, 0x3);
    }),
    case("CLEAR forgets the trigger, not the caller's flags", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR), ev(1, USER, 0).notes(NOTE_FFCOPY | NOTE_TRIGGER | 0x7)]);
        assert_eq!(q.wait().fflags, 0x7);
        q.silent();
        q.set(&[trigger(1)]);
        assert_eq!(q.wait().fflags, 0x7);
    }),
    case("the value of the trigger is told", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR), trigger(1).data(77)]);
        assert_eq!(q.wait().data, 77);
    }),
    case("the value of the last trigger is told", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR), trigger(1).data(1), trigger(1).data(-2)]);
        assert_eq!(q.wait().data, -2);
    }),
    case("DISABLE holds a trigger back", "Q-07", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR), ev(1, USER, DISABLE), trigger(1)]);
        q.silent();
        q.set(&[ev(1, USER, ENABLE)]);
        assert_eq!(q.wait().ident, 1);
        q.silent();
    }),
    case("DISPATCH of a trigger waits for ENABLE", "Q-08", |q| {
        q.set(&[ev(1, USER, ADD | CLEAR | DISPATCH), trigger(1)]);
        q.wait();
        q.set(&[trigger(1)]);
        q.silent();
        q.set(&[ev(1, USER, ENABLE)]);
        assert_eq!(q.wait().ident, 1);
    }),
    case("ONESHOT ends with its trigger", "Q-08", |q| {
        q.set(&[ev(1, USER, ADD | ONESHOT), trigger(1)]);
        q.wait();
        assert_eq!(q.change(trigger(1)), Err(ENOENT));
    }),
    case("a deleted trigger is silent", "Q-20", |q| {
        q.set(&[ev(1, USER, ADD), trigger(1), ev(1, USER, DELETE)]);
        q.silent();
        q.set(&[ev(1, USER, ADD)]);
        q.silent();
    }),
    case("idents differ in all their bits", "Q-01", |q| {
        let high = 1 | 1 << 40;
        q.set(&[ev(1, USER, ADD | CLEAR), ev(high, USER, ADD | CLEAR), trigger(high)]);
        assert_eq!(q.wait().ident, high);
        q.silent();
    }),
    case("an ident may be a descriptor's number", "Q-01", |q| {
        let (read, write) = pipe();
        q.set(&[ev(id(&read), USER, ADD | CLEAR), ev(id(&read), READ, ADD), trigger(id(&read))]);
        assert_eq!(q.now().len(), 1);
        put(&write, b"a");
        assert_eq!(q.wait().filter, READ);
    }),
    case("closing a descriptor of its number leaves it", "Q-01", |q| {
        let (read, _write) = pipe();
        let ident = id(&read);
        q.set(&[ev(ident, USER, ADD | CLEAR)]);
        drop(read);
        q.set(&[trigger(ident)]);
        assert_eq!(q.wait().ident, ident);
    }),
    case("triggers are told in their order", "Q-02", |q| {
        for ident in 0..10 {
            q.add(ident, USER);
        }
        for ident in [3, 1, 4, 5, 9, 2, 6] {
            q.set(&[trigger(ident)]);
        }
        let told: Vec<_> = q.now().iter().map(|event| event.ident).collect();
        assert_eq!(told, [3, 1, 4, 5, 9, 2, 6]);
    }),
];

fn trigger(ident: usize) -> corelane_kqueue::Kevent {
    ev(ident, USER, 0).notes(NOTE_TRIGGER)
}
