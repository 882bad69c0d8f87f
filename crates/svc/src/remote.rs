//! How the world outside of the lanes speaks to a service: from any thread, and from any runtime's tasks.

use crate::talk::{Lost, Talk};
use corelane_lane::{Silence, Tell, Unheard};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What is said to a service from outside.
pub(crate) enum Outer<T: Talk> {
    Message(T::Message),
    Question(T::Question, Asked<T::Answer>),
}

/// Where an answer is waited for.
struct Awaited<A> {
    state: Mutex<State<A>>,
    settled: Condvar,
}

enum State<A> {
    /// Who polled last is woken.
    Waiting(Option<Waker>),
    Settled(Result<A, Lost>),
    Taken,
}

impl<A> Awaited<A> {
    fn lock(&self) -> MutexGuard<'_, State<A>> {
        // Nothing is changed in two steps.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, outcome: Result<A, Lost>) {
        let before = std::mem::replace(&mut *self.lock(), State::Settled(outcome));
        self.settled.notify_all();
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The lane's end of a question from outside. Dropped, who asked is told that there is no answer.
pub(crate) struct Asked<A> {
    /// None once it is settled.
    awaited: Option<Arc<Awaited<A>>>,
    waiting: Arc<[AtomicU32]>,
    lane: usize,
    /// It is with the service: a drop is the service's.
    is_taken: bool,
}

impl<A> Asked<A> {
    pub(crate) fn settle(mut self, outcome: Result<A, Lost>) {
        if let Some(awaited) = self.awaited.take() {
            awaited.settle(outcome);
        }
    }

    /// The service has it from now on.
    pub(crate) fn taken(mut self) -> Self {
        self.is_taken = true;
        self
    }
}

impl<A> Drop for Asked<A> {
    fn drop(&mut self) {
        self.waiting[self.lane].fetch_sub(1, Ordering::Relaxed);
        if let Some(awaited) = self.awaited.take() {
            awaited.settle(Err(if self.is_taken { Lost::Dropped } else { Lost::Gone }));
        }
    }
}

/// Speaks to one service on all lanes of a program, from anywhere outside of these. Clones speak to the same.
///
/// What is said by one thread is heard by a lane in order. A message that was taken is heard, unless its lane breaks or is stopped.
pub struct Remote<T: Talk> {
    tell: Tell<Outer<T>>,
    /// Questions that wait, by lane.
    waiting: Arc<[AtomicU32]>,
    asks_max: u32,
}

impl<T: Talk> Clone for Remote<T> {
    fn clone(&self) -> Self {
        Self { tell: self.tell.clone(), waiting: self.waiting.clone(), asks_max: self.asks_max }
    }
}

impl<T: Talk> Remote<T> {
    pub(crate) fn new(tell: Tell<Outer<T>>, waiting: Arc<[AtomicU32]>, asks_max: u32) -> Self {
        Self { tell, waiting, asks_max }
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.waiting.len()
    }

    /// Sends a message to the service on a lane, where `lane_message` is called.
    ///
    /// # Errors
    /// The message comes back if [`WORDS_MAX`](corelane_lane::WORDS_MAX) wait there already, or nobody is there.
    pub fn send(&self, lane: usize, message: T::Message) -> Result<(), Unheard<T::Message>> {
        self.tell.tell(lane, Outer::Message(message)).map_err(|unheard| match unheard.word {
            Outer::Message(word) => Unheard { word, why: unheard.why },
            Outer::Question(..) => unreachable!("what is refused comes back"),
        })
    }

    /// Asks the service on a lane, where `asked` is called. The answer is waited for by awaiting the reply, on any runtime, or by
    /// [`Reply::wait`].
    ///
    /// # Errors
    /// The question comes back as a message does, or if as many as the service's limit `asks_max` wait already.
    pub fn ask(&self, lane: usize, question: T::Question) -> Result<Reply<T::Answer>, Unheard<T::Question>> {
        let Some(waiting) = self.waiting.get(lane) else { return Err(Unheard { word: question, why: Silence::Gone }) };
        if waiting.fetch_add(1, Ordering::Relaxed) >= self.asks_max {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(Unheard { word: question, why: Silence::Full });
        }
        let awaited = Arc::new(Awaited { state: Mutex::new(State::Waiting(None)), settled: Condvar::new() });
        let asked = Asked { awaited: Some(awaited.clone()), waiting: self.waiting.clone(), lane, is_taken: false };
        match self.tell.tell(lane, Outer::Question(question, asked)) {
            Ok(()) => Ok(Reply { awaited }),
            Err(Unheard { word: Outer::Question(word, _), why }) => Err(Unheard { word, why }),
            Err(_) => unreachable!("what is refused comes back"),
        }
    }
}

/// The reply to a question that was asked from outside of the lanes: a future, which may be awaited on any runtime or waited for.
/// Dropped, the answer is not waited for.
#[must_use = "a reply comes to who awaits it"]
pub struct Reply<A> {
    awaited: Arc<Awaited<A>>,
}

impl<A> Reply<A> {
    /// Blocks the thread until the reply is there. Not for a lane's own thread.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn wait(self) -> Result<A, Lost> {
        let state = self.awaited.lock();
        let waits = |state: &mut State<A>| matches!(state, State::Waiting(_));
        let mut state = self.awaited.settled.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        take(&mut state)
    }
}

impl<A> Future for Reply<A> {
    type Output = Result<A, Lost>;

    /// # Panics
    /// If it was ready before.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.awaited.lock();
        if let State::Waiting(waker) = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
            return Poll::Pending;
        }
        Poll::Ready(take(&mut state))
    }
}

impl<A> fmt::Debug for Reply<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

fn take<A>(state: &mut State<A>) -> Result<A, Lost> {
    match std::mem::replace(state, State::Taken) {
        State::Settled(outcome) => outcome,
        _ => panic!("a reply is taken once"),
    }
}
