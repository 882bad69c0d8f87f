//! How the world outside of the lanes speaks to a service: from any thread, and from any runtime's tasks.

use crate::post::room::{Door, Room, WakeOutside};
use crate::words::talk::{Lost, Talk};
use corelane_lane::{Silence, Tell, Unheard};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A letter to a service from outside.
pub(crate) enum Outer<T: Talk> {
    Message(T::Message),
    Question(T::Question, AnswerDue<T::Answer>),
}

/// Where an answer is waited for.
struct Awaited<A> {
    state: Mutex<AnswerState<A>>,
    settled: Condvar,
    wake: WakeOutside,
}

enum AnswerState<A> {
    /// The last that polled is woken.
    Waiting(Option<Waker>),
    Settled(Result<A, Lost>),
    Taken,
}

impl<A> Awaited<A> {
    fn lock(&self) -> MutexGuard<'_, AnswerState<A>> {
        // Nothing is changed in two steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, outcome: Result<A, Lost>) {
        let before = std::mem::replace(&mut *self.lock(), AnswerState::Settled(outcome));
        assert!(matches!(before, AnswerState::Waiting(_)), "a question has one outcome");
        self.settled.notify_all();
        if let AnswerState::Waiting(Some(waker)) = before {
            (self.wake)(waker);
        }
    }
}

/// The lane's end of a question from outside. Dropped, who asked is told that there is no answer.
pub(crate) struct AnswerDue<A> {
    /// None once it is settled.
    awaited: Option<Arc<Awaited<A>>>,
    door: Door,
    /// It is with the service: a drop is the service's.
    is_taken: bool,
}

impl<A> AnswerDue<A> {
    pub(crate) fn settle(mut self, outcome: Result<A, Lost>) {
        // reason: only this takes it, and takes the question with it.
        self.awaited.take().expect("a question is settled once").settle(outcome);
    }

    /// The service has it from now on.
    pub(crate) fn taken(mut self) -> Self {
        assert!(!self.is_taken && self.awaited.is_some(), "a service gets a question once, and with nobody's answer");
        self.is_taken = true;
        self
    }
}

impl<A> Drop for AnswerDue<A> {
    fn drop(&mut self) {
        self.door.leave();
        if let Some(awaited) = self.awaited.take() {
            awaited.settle(Err(if self.is_taken { Lost::Dropped } else { Lost::Gone }));
        }
    }
}

/// Speaks to one service on all lanes of a program, from anywhere outside of these. Clones speak to the same.
///
/// A lane hears what one thread says in order. A message that was taken is heard, unless its lane breaks or is stopped.
pub struct Remote<T: Talk> {
    tell: Tell<Outer<T>>,
    /// By lane.
    doors: Arc<[Door]>,
    asks_max: u32,
    wake: WakeOutside,
}

impl<T: Talk> Clone for Remote<T> {
    fn clone(&self) -> Self {
        Self { tell: self.tell.clone(), doors: self.doors.clone(), asks_max: self.asks_max, wake: self.wake.clone() }
    }
}

impl<T: Talk> Remote<T> {
    pub(crate) fn new(tell: Tell<Outer<T>>, doors: Arc<[Door]>, asks_max: u32, wake: WakeOutside) -> Self {
        Self { tell, doors, asks_max, wake }
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.doors.len()
    }

    /// Sends a message to the service on a lane, where `lane_message` is called.
    ///
    /// # Errors
    /// The message comes back if [`WORDS_MAX`](corelane_lane::WORDS_MAX) wait there already ([`Remote::room`]), or nobody is there. One that is taken by a service
    /// that hears none is dropped there and counted (`messages_dropped`).
    pub fn send(&self, lane: usize, message: T::Message) -> Result<(), Unheard<T::Message>> {
        self.tell.tell(lane, Outer::Message(message)).map_err(|unheard| match unheard.word {
            Outer::Message(word) => Unheard { word, why: unheard.why },
            Outer::Question(..) => unreachable!("what is refused comes back"),
        })
    }

    /// Asks the service on a lane, where `asked` is called. Await the reply, on any runtime, or block on
    /// [`RemoteReply::wait`].
    ///
    /// # Errors
    /// The question comes back as a message does, and also if `asks_max` questions, the service's limit, wait already.
    pub fn ask(&self, lane: usize, question: T::Question) -> Result<RemoteReply<T::Answer>, Unheard<T::Question>> {
        let Some(door) = self.doors.get(lane) else { return Err(Unheard { word: question, why: Silence::Gone }) };
        if !door.enter(self.asks_max) {
            return Err(Unheard { word: question, why: Silence::Full });
        }
        let state = Mutex::new(AnswerState::Waiting(None));
        let awaited = Arc::new(Awaited { state, settled: Condvar::new(), wake: self.wake.clone() });
        let asked = AnswerDue { awaited: Some(awaited.clone()), door: door.clone(), is_taken: false };
        match self.tell.tell(lane, Outer::Question(question, asked)) {
            Ok(()) => Ok(RemoteReply { awaited }),
            Err(Unheard { word: Outer::Question(word, _), why }) => Err(Unheard { word, why }),
            Err(_) => unreachable!("what is refused comes back"),
        }
    }

    /// Waits until the service on a lane takes messages and questions again, or nobody is there any more. Others may speak first, so what is said then can be refused again:
    ///
    /// ```
    /// # mod corelane { pub mod service { pub use corelane_lane::{Silence, Unheard}; pub use corelane_svc::{Remote, Says}; } }
    /// use corelane::service::{Remote, Says, Silence, Unheard};
    ///
    /// async fn send(remote: &Remote<Says<String>>, lane: usize, mut line: String) -> Result<(), Unheard<String>> {
    ///     loop {
    ///         match remote.send(lane, line) {
    ///             Err(Unheard { word, why: Silence::Full }) => line = word,
    ///             outcome => return outcome,
    ///         }
    ///         remote.room(lane).await;
    ///     }
    /// }
    /// ```
    pub fn room(&self, lane: usize) -> Room {
        let (remote, door) = (self.clone(), self.doors.get(lane).cloned());
        Room::new(door, move || {
            let may_ask = remote.doors.get(lane).is_none_or(|door| door.asks() < remote.asks_max);
            remote.tell.is_over(lane) || may_ask && remote.tell.has_room(lane)
        })
    }
}

/// The reply to a question from outside the lanes: a future, to be awaited on any runtime, or to block on.
/// Dropping it gives up the answer.
#[must_use = "a reply comes to who awaits it"]
pub struct RemoteReply<A> {
    awaited: Arc<Awaited<A>>,
}

impl<A> RemoteReply<A> {
    /// Blocks the thread until the reply is there. Not for a lane's own thread.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn wait(self) -> Result<A, Lost> {
        let state = self.awaited.lock();
        let waits = |state: &mut AnswerState<A>| matches!(state, AnswerState::Waiting(_));
        let mut state = self.awaited.settled.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        take(&mut state)
    }
}

impl<A> Future for RemoteReply<A> {
    type Output = Result<A, Lost>;

    /// # Panics
    /// If it was ready before.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.awaited.lock();
        if let AnswerState::Waiting(waker) = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        Poll::Ready(take(&mut state))
    }
}

impl<A> fmt::Debug for RemoteReply<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RemoteReply")
    }
}

fn take<A>(state: &mut AnswerState<A>) -> Result<A, Lost> {
    match std::mem::replace(state, AnswerState::Taken) {
        AnswerState::Settled(outcome) => outcome,
        _ => panic!("a reply is taken once"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::talk::Asks;
    use corelane_lane::{Control, Ear};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    type Talk = Asks<u8, u8>;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One lane, and who speaks to it.
    fn remote(asks_max: u32) -> (Remote<Talk>, Ear<Outer<Talk>>) {
        let (tell, mut ears) = Control::new(1).words();
        let wake: WakeOutside = Arc::new(Waker::wake);
        (Remote::new(tell, Door::of_lanes(1, &wake).into(), asks_max, wake), ears.remove(0))
    }

    fn heard(ear: &mut Ear<Outer<Talk>>) -> AnswerDue<u8> {
        match ear.take().next() {
            Some(Outer::Question(1, asked)) => asked.taken(),
            _ => panic!("a question was asked"),
        }
    }

    #[test]
    fn who_polled_last_is_woken_once() {
        let (remote, mut ear) = remote(1);
        let (mut reply, wakers) = (remote.ask(0, 1).unwrap(), [Arc::new(Woken::default()), Arc::new(Woken::default())]);
        for woken in &wakers {
            let waker = Waker::from(woken.clone());
            assert!(Pin::new(&mut reply).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        heard(&mut ear).settle(Ok(7));
        assert_eq!(wakers.map(|woken| woken.0.load(Ordering::Relaxed)), [0, 1]);
        assert_eq!(Pin::new(&mut reply).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(Ok(7)));
    }

    /// In some of the rounds the thread waits before the answer is there, in others it comes too late for that.
    #[test]
    fn a_thread_that_waits_goes_on() {
        for _ in 0..200 {
            let (remote, mut ear) = remote(1);
            let reply = remote.ask(0, 1).unwrap();
            let waits = std::thread::spawn(|| reply.wait());
            std::thread::yield_now();
            heard(&mut ear).settle(Ok(7));
            assert_eq!(waits.join().unwrap(), Ok(7));
        }
    }

    #[test]
    fn as_many_questions_wait_as_may() {
        let (remote, mut ear) = remote(2);
        let (first, second) = (remote.ask(0, 1).unwrap(), remote.ask(0, 2).unwrap());
        for _ in 0..2 {
            let refused = remote.ask(0, 3).map(drop).unwrap_err();
            assert_eq!((refused.word, refused.why), (3, Silence::Full));
        }
        // One is dropped by its service, and the other with the lane.
        drop(heard(&mut ear));
        drop(ear);
        assert_eq!((first.wait(), second.wait()), (Err(Lost::Dropped), Err(Lost::Gone)));
        assert_eq!(remote.doors[0].asks(), 0);
        assert_eq!(remote.ask(0, 3).map(drop).unwrap_err().why, Silence::Gone);
    }

    fn polled(room: &mut Room, woken: &Arc<Woken>) -> bool {
        let waker = Waker::from(woken.clone());
        Pin::new(room).poll(&mut Context::from_waker(&waker)).is_ready()
    }

    #[test]
    fn who_waits_for_room_is_woken_when_a_question_has_its_outcome_or_nobody_hears() {
        let (remote, mut ear) = remote(1);
        assert!(polled(&mut remote.room(0), &Arc::default()) && polled(&mut remote.room(1), &Arc::default()));
        let (reply, woken) = (remote.ask(0, 1).unwrap(), Arc::<Woken>::default());
        let mut room = remote.room(0);
        for _ in 0..3 {
            assert!(!polled(&mut room, &woken), "one question waits, and no more may");
        }
        let given_up = Arc::<Woken>::default();
        let mut other = remote.room(0);
        assert!(!polled(&mut other, &given_up));
        drop(other);
        heard(&mut ear).settle(Ok(7));
        assert_eq!((woken.0.load(Ordering::Relaxed), given_up.0.load(Ordering::Relaxed)), (1, 0));
        assert!(polled(&mut room, &woken));
        assert_eq!(reply.wait(), Ok(7));
        let reply = remote.ask(0, 1).unwrap();
        let mut room = remote.room(0);
        assert!(!polled(&mut room, &woken));
        drop(ear);
        assert!(woken.0.load(Ordering::Relaxed) == 2 && polled(&mut room, &woken), "nobody hears there any more");
        assert_eq!(reply.wait(), Err(Lost::Gone));
    }
}
