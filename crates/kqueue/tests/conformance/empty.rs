//! EVFILT_EMPTY.

use crate::numbers::*;
use crate::rig::*;
use crate::{Case, case};

pub const CASES: &[Case] = &[
    case("a connection that has written nothing is empty", "Q-15", |q| {
        let (one, _other) = tcp();
        q.add(id(&one), EMPTY);
        assert_eq!(q.wait().data, 0);
    }),
    case("a local socket that has written nothing is empty", "Q-15", |q| {
        let (one, _other) = local();
        q.add(id(&one), EMPTY);
        assert_eq!(q.wait().data, 0);
    }),
    case("a local socket whose peer has not read is not empty", "Q-15", |q| {
        let (one, _other) = local();
        put(&one, b"abc");
        q.add(id(&one), EMPTY);
        q.silent();
    }),
    case("a local socket is empty once its peer has read", "Q-15", |q| {
        let (one, other) = local();
        put(&one, b"abc");
        q.add(id(&one), EMPTY);
        q.silent();
        drain(&other);
        assert_eq!(q.wait().data, 0);
    }),
    case("a TCP connection whose peer takes nothing is not empty", "Q-15", |q| {
        let (one, _other) = tcp();
        fill(&one);
        q.add(id(&one), EMPTY);
        q.silent();
    }),
    case("a TCP connection is empty once all has left", "Q-15", |q| {
        let (one, other) = tcp();
        let mut left = fill(&one);
        q.add(id(&one), EMPTY);
        q.silent();
        let peer = Queue::new();
        peer.add(id(&other), READ);
        while left > 0 {
            peer.wait();
            left -= drain(&other);
        }
        assert_eq!(q.wait().data, 0);
    }),
    case("CLEAR tells once that it is empty", "Q-15", |q| {
        let (one, _other) = local();
        q.set(&[ev(id(&one), EMPTY, ADD | CLEAR)]);
        q.wait();
        q.silent();
    }),
    case("ONESHOT tells once that it is empty", "Q-15", |q| {
        let (one, _other) = local();
        q.set(&[ev(id(&one), EMPTY, ADD | ONESHOT)]);
        q.wait();
        q.silent();
        assert_eq!(q.change(ev(id(&one), EMPTY, DELETE)), Err(libc::ENOENT));
    }),
    case("a listener is always empty", "Q-15", |q| {
        let listener = listener();
        q.add(id(&listener), EMPTY);
        assert_eq!(q.wait().ident, id(&listener));
    }),
    case("EMPTY, WRITE and READ of one socket are three interests", "Q-01", |q| {
        let (one, other) = local();
        for filter in [READ, WRITE, EMPTY] {
            q.add(id(&one), filter);
        }
        put(&other, b"a");
        let mut filters: Vec<_> = q.now().iter().map(|event| event.filter).collect();
        filters.sort_unstable();
        assert_eq!(filters, [EMPTY, WRITE, READ]);
    }),
    case("what is no socket is refused", "Q-15", |q| {
        let (_read, write) = pipe();
        assert!(q.change(ev(id(&write), EMPTY, ADD)).is_err());
    }),
];
