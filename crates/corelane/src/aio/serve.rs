//! The service that tasks make: it spawns them, brings them what comes, and does what they ask.

use super::connection::Connection;
use super::error::Error;
use super::lane::{GONE, Lane};
use super::link::Link;
use super::shared::{Begin, Errand, Shared};
use super::waits::Done;
use corelane_lane::{Silence, Unheard, fenced};
use corelane_seam::slab::Key;
use corelane_seam::{Address, Fault, Instant, Outcome};
use corelane_svc::{Asking, Call, Cx, Ending, Input, Lost, Next, Origin, Output, Peer, Silent, StreamService, Talk};
use corelane_watch::{Declaration, OwnCounter, ServiceCounter};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;

/// The alarm for those that sleep.
const SLEEPS: u64 = 0;

type Boxed = Pin<Box<dyn Future<Output = ()>>>;
type Main<T> = Box<dyn FnOnce(Lane<T>) -> Boxed>;
type Answer<T> = Box<dyn Fn(Lane<T>, <T as Talk>::Question, Call<T>) -> Boxed>;
type Hear<T> = Box<dyn Fn(Lane<T>, Origin, <T as Talk>::Message) -> Boxed>;

/// The counter of a service that counts nothing of its own.
#[derive(Clone, Copy, Debug)]
pub enum NoCounter {}

impl OwnCounter for NoCounter {
    const DECLARED: &'static [Declaration] = &[];
    const FIRST: usize = 0;

    fn index(self) -> usize {
        match self {}
    }
}

/// A service whose connections are tasks'. Made by [`each`] and [`main`]. `T` is what it says ([`Talk`]), `C` what it counts of its own
/// ([`Serve::counting`]).
pub struct Serve<T: Talk = Silent, C: OwnCounter = NoCounter> {
    main: Option<Main<T>>,
    answer: Option<Answer<T>>,
    hear: Option<Hear<T>>,
    counts: PhantomData<C>,
    /// None until the lane turns: a lane may be told to drain, or to end, before it does.
    lane: Option<Lane<T>>,
    is_draining: bool,
    /// The waits for answers to questions, by [`Asking::index`].
    asked: Vec<Option<Key>>,
    /// Questions for which there was no room.
    unasked: VecDeque<(Key, usize, T::Question)>,
    /// Calls for which no helper thread was free.
    waiting: VecDeque<(Key, Begin<T>)>,
    touched: Vec<Rc<Link>>,
    errands: Vec<Errand<T>>,
}

/// A service of an `async fn` that is called once on each lane: it accepts connections, opens some, spawns tasks. Where it returns, connections that nobody
/// takes are closed.
///
/// ```
/// use corelane::aio::{self, Lane};
///
/// let serve = aio::main(async |lane: Lane| {
///     loop {
///         let connection = lane.accept().await;
///         println!("{}", connection.peer().address);
///     }
/// });
/// # let _: aio::Serve = serve;
/// ```
pub fn main<T: Talk, R>(start: impl AsyncFnOnce(Lane<T>) -> R + 'static) -> Serve<T> {
    let main = move |lane: Lane<T>| -> Boxed {
        Box::pin(async move {
            drop(start(lane.clone()).await);
            lane.refuse_all();
        })
    };
    Serve::new(Box::new(main))
}

/// A service of an `async fn` that is called for each connection that was accepted, in a task of its own. Its result is dropped, and the connection
/// with it unless it was given to somebody else; if it panics, its connection is broken off.
pub fn each<T: Talk, R>(handle: impl AsyncFn(Lane<T>, Connection) -> R + 'static) -> Serve<T> {
    let handle = Rc::new(handle);
    main(async move |lane: Lane<T>| {
        loop {
            let connection = lane.accept().await;
            let (handle, own) = (handle.clone(), lane.clone());
            let task = async move {
                let guard = connection.guard();
                drop(handle(own, connection).await);
                guard.finish();
            };
            // Refused (`tasks_max_hits`), it is dropped before it has begun, and its connection closed.
            let _ = lane.spawn(task);
        }
    })
}

impl<T: Talk, C: OwnCounter> Serve<T, C> {
    fn new(main: Main<T>) -> Self {
        Self {
            main: Some(main),
            answer: None,
            hear: None,
            counts: PhantomData,
            lane: None,
            is_draining: false,
            asked: Vec::new(),
            unasked: VecDeque::new(),
            waiting: VecDeque::new(),
            touched: Vec::new(),
            errands: Vec::new(),
        }
    }

    /// Has the service count in counters of its own, which [`counters!`](crate::counters) makes: by [`Lane::later`], whose [`Cx::count`] takes them.
    /// They stand in the page and in `corelane stat` beside those of all services.
    ///
    /// ```
    /// use corelane::aio::{self, Connection, Lane};
    ///
    /// corelane::counters! {
    ///     /// What the shop counts.
    ///     pub enum Sold {
    ///         Apples "apples_sold" Counter "apples" "Apples that were paid for.";
    ///     }
    /// }
    ///
    /// let serve = aio::each(async |lane: Lane, connection: Connection| {
    ///     lane.later(|cx| cx.count(Sold::Apples, 3));
    ///     connection.write(b"three apples\n").await
    /// });
    /// let serve = serve.counting::<Sold>();
    /// ```
    pub fn counting<D: OwnCounter>(self) -> Serve<T, D> {
        const { assert!(D::FIRST == 0, "these stand behind the counters of another service: declare them without `behind`") };
        // reason: a lane has a service once it is built whole.
        let main = self.main.expect("what counts is said before the service is started");
        Serve { answer: self.answer, hear: self.hear, ..Serve::new(main) }
    }

    /// Has this hear the messages that are sent to the service on this lane: from any lane, this one too ([`Cx::send`]), or from outside
    /// ([`Remote::send`](crate::service::Remote::send)). Each message is a task, and they begin in the order in which messages come; a drain does not wait
    /// for them. Without this, and at the lane's bound of tasks (`tasks_max`), messages are dropped and counted (`messages_dropped`); without this the
    /// lane says so as well.
    ///
    /// ```
    /// use corelane::aio::{self, Connection, Lane};
    /// use corelane::service::{Origin, Says};
    /// use std::{cell::Cell, rc::Rc};
    ///
    /// // The price is the lane's own: a message brings another, and each connection is told the last one.
    /// let price = Rc::new(Cell::new(0_u32));
    /// let told = price.clone();
    /// let serve = aio::each(async move |_lane: Lane<Says<u32>>, connection: Connection| {
    ///     connection.write(format!("{}\n", told.get()).as_bytes()).await
    /// });
    /// let serve = serve.hearing(async move |_lane, _from: Origin, new| price.set(new));
    /// # let _: aio::Serve<Says<u32>> = serve;
    /// ```
    pub fn hearing(mut self, hear: impl AsyncFn(Lane<T>, Origin, T::Message) + 'static) -> Self {
        let hear = Rc::new(hear);
        self.hear = Some(Box::new(move |lane, from, message| {
            let hear = hear.clone();
            Box::pin(async move { hear(lane, from, message).await })
        }));
        self
    }

    /// Has this answer what the service is asked, on this lane: by [`Lane::ask`] on any lane, or from outside
    /// ([`Remote::ask`](crate::service::Remote::ask)). Each question is a task. Without this, and where it panics, who asks is told that there is no answer
    /// ([`Lost::Dropped`]).
    pub fn answering(mut self, answer: impl AsyncFn(Lane<T>, T::Question) -> T::Answer + 'static) -> Self {
        let answer = Rc::new(answer);
        self.answer = Some(Box::new(move |lane, question, call| {
            let answer = answer.clone();
            Box::pin(async move {
                let reply = answer(lane.clone(), question).await;
                lane.shared.ask(Errand::Reply(call, reply));
            })
        }));
        self
    }

    fn lane(&self) -> &Lane<T> {
        // reason: the first call of all.
        self.lane.as_ref().expect("a service is started before anything else")
    }

    /// A connection is open, and waits to be taken.
    fn hand_out(cx: &mut Cx<'_, T>, link: &Rc<Link>, peer: &Peer) -> Connection {
        link.opened(cx.id(), peer, cx.arena().payer());
        Connection::new(link.clone())
    }

    fn done(&self, cx: &mut Cx<'_, T>, key: Key, done: Done<T>) {
        self.lane().shared.settle(cx, key, done);
    }

    fn run_errand(&mut self, cx: &mut Cx<'_, T>, errand: Errand<T>) {
        // The task that asked may have been dropped since.
        if errand.awaited().is_some_and(|key| !self.lane().shared.waits.borrow().has(key)) {
            return;
        }
        match errand {
            Errand::Offload(key, begin) => {
                let shared = self.lane().shared.clone();
                shared.forget_unawaited(&mut self.waiting, |(key, _)| *key);
                self.waiting.push_back((key, begin));
            }
            Errand::Begin(key, begin) => self.begin(cx, key, begin),
            Errand::Ask(key, lane, question) => self.ask(cx, key, lane, question),
            Errand::Reply(call, answer) => cx.reply(call, answer),
            Errand::Connect(key, link, to) => self.connect(cx, key, link, to),
            Errand::Do(call) => {
                let burst = fenced(|| call(cx)).is_err();
                cx.count(ServiceCounter::Panics, burst.into());
            }
        }
    }

    fn begin(&self, cx: &mut Cx<'_, T>, key: Key, begin: Begin<T>) {
        if fenced(|| begin(cx, key.bits())).is_err() {
            cx.count(ServiceCounter::Panics, 1);
            self.done(cx, key, Done::Outcome(Outcome::Failed(Fault::CANCELLED)));
        }
    }

    /// Begins the calls that wait for a helper thread, as far as there is room; it is nudged when there is more.
    fn begin_waiting(&mut self, cx: &mut Cx<'_, T>) {
        while let Some((key, begin)) = self.waiting.pop_front() {
            // A task that was dropped meanwhile needs no helper.
            if !self.lane().shared.waits.borrow().has(key) {
                continue;
            }
            if !cx.ask_offload() {
                return self.waiting.push_front((key, begin));
            }
            self.begin(cx, key, begin);
        }
    }

    fn connect(&mut self, cx: &mut Cx<'_, T>, key: Key, link: Rc<Link>, to: Address) {
        match cx.connect(to, link.clone()) {
            Ok(id) => link.begins_to_open(id, key),
            Err(error) => self.done(cx, key, Done::Connected(Err(Error::Refused(error)))),
        }
    }

    fn ask(&mut self, cx: &mut Cx<'_, T>, key: Key, lane: usize, question: T::Question) {
        match cx.ask(lane, question) {
            Ok(asking) => {
                let index = asking.index();
                self.asked.resize(self.asked.len().max(index + 1), None);
                let before = self.asked[index].replace(key);
                assert!(before.is_none(), "a question's number is its own");
            }
            Err(Unheard { word, why: Silence::Full }) => {
                let shared = self.lane().shared.clone();
                shared.forget_unawaited(&mut self.unasked, |(key, ..)| *key);
                self.unasked.push_back((key, lane, word));
            }
            Err(_) => self.done(cx, key, Done::Replied(Err(GONE))),
        }
    }

    /// There may be room for what was refused.
    fn ask_again(&mut self) {
        let shared = self.lane().shared.clone();
        let errands = self.unasked.drain(..).map(|(key, lane, question)| Errand::Ask(key, lane, question));
        shared.errands.borrow_mut().extend(errands);
        shared.touched.nudge();
    }

    fn settle_touched(&mut self, cx: &mut Cx<'_, T>) {
        let mut touched = std::mem::take(&mut self.touched);
        self.lane().shared.touched.swap(&mut touched);
        for link in touched.drain(..) {
            link.settle(cx);
        }
        self.touched = touched;
    }

    fn run_errands(&mut self, cx: &mut Cx<'_, T>) {
        // Mostly connections were touched, and nothing else was asked.
        if self.lane().shared.errands.borrow().is_empty() {
            return;
        }
        let mut errands = std::mem::take(&mut self.errands);
        std::mem::swap(&mut errands, &mut *self.lane().shared.errands.borrow_mut());
        for errand in errands.drain(..) {
            self.run_errand(cx, errand);
        }
        self.errands = errands;
    }

    fn arm(&self, cx: &mut Cx<'_, T>) {
        let mut sleeps = self.lane().shared.sleeps.borrow_mut();
        // Refused at a bound of no alarms at all: then nobody ever wakes, which `alarms_max` excludes.
        if let Some(at) = sleeps.to_arm()
            && cx.start_alarm(Instant::from_nanoseconds(at), SLEEPS).is_ok()
        {
            sleeps.arm(at);
        }
    }
}

impl<T: Talk> Lane<T> {
    /// Nobody accepts any more.
    fn refuse_all(&self) {
        self.shared.is_over.set(true);
        let refused = std::mem::take(&mut *self.shared.accepted.borrow_mut());
        drop(refused);
    }
}

impl<T: Talk, C: OwnCounter> StreamService for Serve<T, C> {
    type Talk = T;
    #[doc(hidden)] // It is made and used by this module alone.
    type Session = Rc<Link>;

    const COUNTERS: &'static [Declaration] = C::DECLARED;

    fn started(&mut self, cx: &mut Cx<'_, T>) {
        let lane = Lane { shared: Rc::new(Shared::new(cx)) };
        lane.shared.is_draining.set(self.is_draining);
        self.lane = Some(lane.clone());
        // reason: a service is started once.
        let main = self.main.take().expect("what is to be run is there until it is");
        // At the bound of tasks nothing is served: connections are closed.
        if cx.spawn(main(lane.clone())).is_err() {
            lane.refuse_all();
        }
    }

    fn open(&mut self, cx: &mut Cx<'_, T>, peer: &Peer) -> Rc<Link> {
        let shared = self.lane().shared.clone();
        let link = shared.link();
        let connection = Self::hand_out(cx, &link, peer);
        if !shared.is_over.get() {
            shared.accepted.borrow_mut().push_back(connection);
            let acceptor = shared.acceptors.borrow_mut().next();
            acceptor.iter().for_each(|waker| cx.wake(waker));
        }
        link
    }

    fn receive(&mut self, cx: &mut Cx<'_, T>, link: &mut Rc<Link>, input: &mut Input, _output: &mut Output) -> Next {
        link.take_in(cx, input)
    }

    fn connected(&mut self, cx: &mut Cx<'_, T>, link: &mut Rc<Link>, _output: &mut Output) -> Next {
        // reason: somebody had it opened, and is told once.
        let key = link.take_opener().expect("a connection opens that was to be opened");
        // reason: a connection that opens is there.
        let peer = cx.peer(cx.id()).expect("a connection that opens has two ends");
        let connection = Self::hand_out(cx, link, &peer);
        self.done(cx, key, Done::Connected(Ok(connection)));
        Next::Continue
    }

    fn drained(&mut self, cx: &mut Cx<'_, T>, link: &mut Rc<Link>, output: &mut Output) -> Next {
        link.drained(cx, output);
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx<'_, T>, link: Rc<Link>, ending: Ending) {
        let fault = cx.fault().unwrap_or(Fault::CANCELLED);
        link.closed(cx, ending);
        if let Some(key) = link.take_opener() {
            self.done(cx, key, Done::Connected(Err(Error::Failed(fault))));
        }
    }

    fn completed(&mut self, cx: &mut Cx<'_, T>, token: u64, outcome: Outcome) {
        self.done(cx, Key::from_bits(token), Done::Outcome(outcome));
        self.begin_waiting(cx);
    }

    fn lane_message(&mut self, cx: &mut Cx<'_, T>, from: Origin, message: T::Message) {
        let Some(hear) = &self.hear else { return cx.drop_message(message) };
        let refused = cx.spawn(hear(self.lane().clone(), from, message)).is_err();
        cx.count(ServiceCounter::MessagesDropped, refused.into());
    }

    fn asked(&mut self, cx: &mut Cx<'_, T>, _from: Origin, question: T::Question, call: Call<T>) {
        if let Some(answer) = &self.answer {
            // Refused, it is dropped, and who asked is told.
            let _ = cx.spawn(answer(self.lane().clone(), question, call));
        }
    }

    fn replied(&mut self, cx: &mut Cx<'_, T>, asking: Asking, outcome: Result<T::Answer, Lost>) {
        // reason: each question has its place until its one outcome.
        let key = self.asked[asking.index()].take().expect("somebody waits for each answer");
        self.done(cx, key, Done::Replied(outcome));
        if !self.unasked.is_empty() {
            self.ask_again();
        }
    }

    fn room(&mut self, _cx: &mut Cx<'_, T>, _lane: usize) {
        self.ask_again();
    }

    /// Bytes that its task has written before still reach the peer.
    fn overdue(&mut self, _cx: &mut Cx<'_, T>, _link: &mut Rc<Link>, _input: &mut Input, _output: &mut Output) -> Next {
        Next::Close
    }

    fn draining(&mut self, cx: &mut Cx<'_, T>, link: &mut Rc<Link>, _output: &mut Output) {
        link.drains(cx);
    }

    fn handed_over(&mut self, cx: &mut Cx<'_, T>, link: &mut Rc<Link>, _output: &mut Output) {
        link.handed_over(cx);
    }

    fn drain_began(&mut self, cx: &mut Cx<'_, T>) {
        self.is_draining = true;
        let Some(Lane { shared }) = &self.lane else { return };
        shared.is_draining.set(true);
        let waiting = shared.waits.borrow().of_drain();
        waiting.into_iter().for_each(|key| self.done(cx, key, Done::Drain));
    }

    fn ends_itself(&self, link: &Rc<Link>) -> bool {
        link.outlives_drain()
    }

    fn alarm(&mut self, cx: &mut Cx<'_, T>, _token: u64) {
        let now = cx.now().nanoseconds();
        self.lane().shared.sleeps.borrow_mut().come(now, |waker| cx.wake(waker));
        self.arm(cx);
    }

    fn nudged(&mut self, cx: &mut Cx<'_, T>) {
        self.settle_touched(cx);
        self.run_errands(cx);
        self.begin_waiting(cx);
        self.arm(cx);
    }

    fn ending(&mut self, _cx: &mut Cx<'_, T>) {
        let Some(lane) = &self.lane else { return };
        let undone = std::mem::take(&mut *lane.shared.errands.borrow_mut());
        drop(undone);
        lane.refuse_all();
    }
}
