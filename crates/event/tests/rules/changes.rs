use super::{change, ident, queue};
use corelane_event::{Change, Filter, Flags, notes};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

const ENOENT: i32 = 2;
const EBADF: i32 = 9;
const EINVAL: i32 = 22;

#[test]
fn what_cannot_be_is_refused_by_its_number() {
    let queue = queue();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let number = ident(&ours);
    assert_eq!(queue.refused(change(number, Filter::Read, Flags::ADD | Flags::ENABLE | Flags::DISABLE)), EINVAL);
    assert_eq!(queue.refused(Change::delete(number, Filter::Read)), ENOENT);
    assert_eq!(queue.refused(Change::enable(7, Filter::User)), ENOENT);
    assert_eq!(queue.refused(Change::add(999_999, Filter::Read)), EBADF);
    assert_eq!(queue.refused(Change::add(u64::MAX, Filter::Write)), EBADF);
    assert_eq!(queue.refused(Change::delete(999_999, Filter::Read)), EBADF);
    assert_eq!(queue.refused(Change::add(queue.descriptor() as u64, Filter::Read)), EINVAL);
    assert_eq!(queue.refused(Change::add(number, Filter::Vnode)), EINVAL);
    assert_eq!(queue.refused(Change::add(number, Filter::ProcessDescriptor)), EINVAL);
    assert_eq!(queue.registered(), 0);
}

#[test]
fn one_interest_an_ident_and_filter() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()).cookie(1));
    queue.ok(Change::readable(ours.as_fd()).cookie(2));
    queue.ok(Change::writable(ours.as_fd()).cookie(3));
    assert_eq!(queue.registered(), 2);
    theirs.write_all(b"abc").unwrap();
    let mut told: Vec<_> = queue.next().iter().map(|event| (event.filter, event.cookie)).collect();
    told.sort();
    assert_eq!(told, [(Filter::Write, 3), (Filter::Read, 2)]);
    queue.ok(Change::delete(ident(&ours), Filter::Write));
    queue.ok(Change::delete(ident(&ours), Filter::Read));
    assert_eq!((queue.registered(), queue.now().len()), (0, 0));
}

#[test]
fn a_change_without_add_keeps_what_was_asked_for_and_takes_the_cookie() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()).from_bytes(3).cookie(1));
    queue.ok(Change::disable(ident(&ours), Filter::Read).cookie(5));
    theirs.write_all(b"abc").unwrap();
    assert!(queue.now().is_empty());
    queue.ok(Change::enable(ident(&ours), Filter::Read).cookie(6));
    let event = queue.one();
    assert_eq!((event.data, event.cookie), (3, 6));
}

#[test]
fn a_disabled_interest_hears_and_does_not_tell() {
    let queue = queue();
    queue.ok(Change::user(9));
    queue.ok(Change::disable(9, Filter::User));
    queue.ok(Change::trigger(9));
    assert!(queue.now().is_empty());
    queue.ok(Change::enable(9, Filter::User));
    assert_eq!(queue.one().ident, 9);
    assert!(queue.now().is_empty());
}

#[test]
fn added_disabled_it_is_told_once_enabled() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"abc").unwrap();
    queue.ok(change(ident(&ours), Filter::Read, Flags::ADD | Flags::DISABLE));
    assert!(queue.now().is_empty());
    queue.ok(Change::enable(ident(&ours), Filter::Read));
    assert_eq!(queue.one().data, 3);
}

#[test]
fn added_again_it_is_enabled_unless_disabled_is_asked_for() {
    let queue = queue();
    queue.ok(Change::user(9));
    queue.ok(Change::disable(9, Filter::User));
    queue.ok(Change::trigger(9));
    queue.ok(change(9, Filter::User, Flags::ADD | Flags::DISABLE));
    assert!(queue.now().is_empty());
    queue.ok(Change::add(9, Filter::User));
    assert_eq!(queue.now().len(), 1);
}

#[test]
fn dispatched_it_is_told_once_until_enabled() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"abc").unwrap();
    queue.ok(Change::readable(ours.as_fd()).dispatched());
    assert_eq!(queue.one().flags, Flags::DISPATCH);
    assert!(queue.now().is_empty());
    theirs.write_all(b"de").unwrap();
    assert!(queue.now().is_empty());
    queue.ok(Change::enable(ident(&ours), Filter::Read));
    assert_eq!(queue.one().data, 5);
    assert_eq!(queue.registered(), 1);
}

#[test]
fn once_is_once() {
    let queue = queue();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.write_all(b"abc").unwrap();
    queue.ok(Change::readable(ours.as_fd()).once());
    assert_eq!(queue.one().flags, Flags::ONESHOT);
    assert_eq!((queue.registered(), queue.now().len()), (0, 0));
    assert_eq!(queue.refused(Change::delete(ident(&ours), Filter::Read)), ENOENT);
}

#[test]
fn forced_it_is_told_whatever_is_true() {
    let queue = queue();
    let (ours, _theirs) = UnixStream::pair().unwrap();
    queue.ok(Change::readable(ours.as_fd()));
    assert!(queue.now().is_empty());
    queue.ok(change(ident(&ours), Filter::Read, Flags::FORCEONESHOT));
    assert_eq!((queue.one().data, queue.registered()), (0, 0));
}

#[test]
fn dropped_it_is_not_told_at_all() {
    let queue = queue();
    queue.ok(change(1, Filter::User, Flags::ADD | Flags::DROP));
    queue.ok(Change::trigger(1));
    assert!(queue.now().is_empty());
}

#[test]
fn user_events_keep_the_programs_bits() {
    let queue = queue();
    queue.ok(Change { notes: notes::COPY | 0xf0, ..Change::user(1) }.cookie(4));
    queue.ok(Change { notes: notes::OR | 0x0f | notes::TRIGGER, data: 77, ..Change::trigger(1) }.cookie(4));
    let event = queue.one();
    assert_eq!((event.notes, event.data, event.cookie, event.flags), (0xff, 77, 4, Flags::CLEAR));
    assert!(queue.now().is_empty());
    queue.ok(Change { notes: notes::AND | 0x3c | notes::TRIGGER, ..Change::trigger(1) });
    assert_eq!(queue.one().notes, 0x3c);
}

#[test]
fn a_user_event_without_clear_is_told_again_until_it_is_cleared() {
    let queue = queue();
    queue.ok(Change::add(1, Filter::User));
    queue.ok(Change::trigger(1));
    for _ in 0..3 {
        assert_eq!(queue.one().ident, 1);
    }
    queue.ok(change(1, Filter::User, Flags::CLEAR));
    assert!(queue.now().is_empty());
}

#[test]
fn posted_completions_are_told_to_who_is_interested() {
    let queue = queue();
    assert_eq!(queue.post(5, Filter::Aio, 0, 0).unwrap_err().number, ENOENT);
    queue.ok(Change::add(5, Filter::Aio).cookie(8));
    queue.post(5, Filter::Aio, 0, 512).unwrap();
    let event = queue.one();
    assert_eq!((event.filter, event.data, event.cookie), (Filter::Aio, 512, 8));
    queue.ok(Change::user(5));
    assert_eq!(queue.post(5, Filter::User, 0, 0).unwrap_err().number, EINVAL);
}
