//! All that the tasks of a service on one lane share, and what they have asked of it.

use super::acceptors::Acceptors;
use super::connection::Connection;
use super::link::{Link, Touched};
use super::sleeps::Sleeps;
use super::waits::{Done, Waits};
use corelane_lane::tasks::Spawner;
use corelane_seam::parcel::Guests;
use corelane_seam::slab::Key;
use corelane_seam::{Address, Arena};
use corelane_svc::{Call, Cx, Limits, Talk};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Begins an operation of the service, with a token.
pub(super) type Begin<T> = Box<dyn FnOnce(&mut Cx<'_, T>, u64)>;

/// Something else done with the lane as the service sees it.
pub(super) type Do<T> = Box<dyn FnOnce(&mut Cx<'_, T>)>;

/// A task's wish to the service: it is done before the turn is flushed.
pub(super) enum Errand<T: Talk> {
    /// Begin an operation.
    Begin(Key, Begin<T>),
    /// Offload a call, when there is room for one.
    Offload(Key, Begin<T>),
    /// Ask a lane.
    Ask(Key, usize, T::Question),
    /// Reply to who has asked.
    Reply(Call<T>, T::Answer),
    /// Open a connection.
    Connect(Key, Rc<Link>, Address),
    /// Anything else.
    Do(Do<T>),
}

impl<T: Talk> Errand<T> {
    /// The wait for what comes of it.
    pub(super) fn awaited(&self) -> Option<Key> {
        match self {
            Self::Begin(key, _) | Self::Offload(key, _) | Self::Ask(key, ..) | Self::Connect(key, ..) => Some(*key),
            Self::Reply(..) | Self::Do(_) => None,
        }
    }
}

/// The most that may stay in a list though nobody waits for it, however few wait.
const FORGOTTEN_MAX: usize = 64;

/// The state that the tasks of a service share on one lane.
pub(super) struct Shared<T: Talk> {
    pub(super) lane: usize,
    pub(super) lanes: usize,
    pub(super) arena: Arena,
    pub(super) guests: Guests,
    pub(super) limits: Limits,
    pub(super) touched: Rc<Touched>,
    pub(super) spawner: Spawner,
    pub(super) errands: RefCell<Vec<Errand<T>>>,
    pub(super) waits: RefCell<Waits<T>>,
    pub(super) sleeps: RefCell<Sleeps>,
    pub(super) accepted: RefCell<VecDeque<Connection>>,
    pub(super) acceptors: RefCell<Acceptors>,
    pub(super) is_draining: Cell<bool>,
    /// Nobody accepts any more.
    pub(super) is_over: Cell<bool>,
}

impl<T: Talk> Shared<T> {
    pub(super) fn new(cx: &mut Cx<'_, T>) -> Self {
        Self {
            lane: cx.lane(),
            lanes: cx.lanes(),
            arena: cx.arena().clone(),
            guests: cx.guests().clone(),
            limits: *cx.limits(),
            touched: Rc::new(Touched::new(cx.nudge())),
            spawner: cx.spawner(),
            errands: RefCell::default(),
            waits: RefCell::default(),
            sleeps: RefCell::new(Sleeps::new()),
            accepted: RefCell::default(),
            acceptors: RefCell::default(),
            is_draining: Cell::new(false),
            is_over: Cell::new(false),
        }
    }

    /// A connection that is not there yet.
    pub(super) fn link(&self) -> Rc<Link> {
        Link::new(&self.touched, &self.arena, &self.limits)
    }

    /// Has the service do something before the turn is flushed.
    pub(super) fn ask(&self, errand: Errand<T>) {
        self.errands.borrow_mut().push(errand);
        self.touched.nudge();
    }

    /// Forgets those of a list whose askers have been dropped, before that are more than those who still wait: so the list is as long as the tasks
    /// are many, however often they ask and give up.
    pub(super) fn forget_unawaited<E>(&self, list: &mut VecDeque<E>, key: impl Fn(&E) -> Key) {
        let waits = self.waits.borrow();
        if list.len() <= 2 * waits.len() + FORGOTTEN_MAX {
            return;
        }
        let (awaited, forgotten) = std::mem::take(list).into_iter().partition(|entry| waits.has(key(entry)));
        *list = awaited;
        assert!(list.len() <= waits.len(), "who waits stands in a list once");
        // Their wishes are the users', and the drop of one may use this lane.
        drop(waits);
        drop::<VecDeque<E>>(forgotten);
    }

    /// The thing that a task has waited for is here. It is dropped where the task waits no more.
    pub(super) fn settle(&self, cx: &mut Cx<'_, T>, key: Key, done: Done<T>) {
        let settled = self.waits.borrow_mut().settle(key, done);
        match settled {
            Ok(waker) => waker.iter().for_each(|waker| cx.wake(waker)),
            Err(unwanted) => drop(unwanted),
        }
    }
}
