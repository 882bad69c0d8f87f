//! Words: what somebody outside the lanes tells one work of a lane, rarely; each work has a type for them.

use crate::control::Control;
use corelane_seam::Bell;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::vec::Drain;

/// Words that may wait for one work before its lane takes them.
pub const WORDS_MAX: usize = 1024;

/// What a lane was told and has not heard yet.
struct WaitingWords<T> {
    words: Vec<T>,
    /// The work, or its lane, is gone and hears no more.
    is_over: bool,
}

struct Board<T> {
    control: Arc<Control>,
    lanes: Vec<Mutex<WaitingWords<T>>>,
}

impl<T> Board<T> {
    fn lock(&self, lane: usize) -> MutexGuard<'_, WaitingWords<T>> {
        // What a panic left behind is whole: nothing is changed in two steps.
        self.lanes[lane].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Speaks to one work on all lanes of a program, from any thread.
pub struct Tell<T>(Arc<Board<T>>);

/// Hears what one work is told on one lane. Once it is dropped, speakers learn that nobody hears; waiting words are dropped, so
/// nobody waits for an answer to them.
pub struct Ear<T> {
    line: Arc<Board<T>>,
    lane: usize,
    /// Storage for what is taken.
    taken: Vec<T>,
}

/// A word, or a message, that nobody will hear.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Unheard<T> {
    /// The word.
    pub word: T,
    /// Why.
    pub why: Silence,
}

/// Why a word is not heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// There is no such lane, or it has ended, or the work has left it.
    Gone,
    /// As many words wait there as may.
    Full,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => {
                "nobody hears there: the lane has ended, or has no such service any more; say it to another lane, or give up"
            }
            Self::Full => "as much waits there as may: whoever hears it is slower than who speaks; wait for room, or say less",
        })
    }
}

impl Error for Silence {}

impl<T> fmt::Display for Unheard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl<T> Error for Unheard<T> {}

impl<T> fmt::Debug for Unheard<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unheard").field("why", &self.why).finish_non_exhaustive()
    }
}

impl<T> Clone for Tell<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Control {
    /// A line to one work of each lane: who speaks, and who hears, by the lane's number.
    pub fn words<T>(self: &Arc<Self>) -> (Tell<T>, Vec<Ear<T>>) {
        let told = || Mutex::new(WaitingWords { words: Vec::new(), is_over: false });
        let line = Arc::new(Board { control: self.clone(), lanes: (0..self.lanes()).map(|_| told()).collect() });
        let ears = (0..self.lanes()).map(|lane| Ear { line: line.clone(), lane, taken: Vec::new() }).collect();
        (Tell(line), ears)
    }
}

impl<T> Tell<T> {
    /// Tells the work on lane `lane` something, which it hears in its next turn ([`Work::hear`](crate::Work::hear)).
    ///
    /// # Errors
    /// The word comes back, and is counted on its lane (`words_refused`), if nobody will hear it.
    pub fn tell(&self, lane: usize, word: T) -> Result<(), Unheard<T>> {
        let Some(place) = self.0.lanes.get(lane) else { return Err(Unheard { word, why: Silence::Gone }) };
        let mut told = place.lock().unwrap_or_else(PoisonError::into_inner);
        let why = match told.words.len() {
            _ if told.is_over => Silence::Gone,
            WORDS_MAX.. => Silence::Full,
            _ => {
                told.words.push(word);
                drop(told);
                self.0.control.speak(lane);
                return Ok(());
            }
        };
        drop(told);
        self.0.control.refuse_word(lane);
        Err(Unheard { word, why })
    }
}

impl<T> Tell<T> {
    /// Whether the work on lane `lane` will never take a word any more; whoever speaks to it is told so.
    pub fn is_over(&self, lane: usize) -> bool {
        self.0.lanes.get(lane).is_none_or(|_| self.0.lock(lane).is_over)
    }

    /// Whether so few words wait for the work on lane `lane` that it would take one more, if it takes any.
    pub fn has_room(&self, lane: usize) -> bool {
        self.0.lanes.get(lane).is_none_or(|_| self.0.lock(lane).words.len() < WORDS_MAX)
    }
}

impl<T> Tell<T> {
    /// The doorbell of lane `lane`, to wake it without a word.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn bell(&self, lane: usize) -> Arc<dyn Bell> {
        self.0.control.bell(lane).clone()
    }
}

impl<T> Ear<T> {
    /// Speaks to the same work, on any lane.
    pub fn line(&self) -> Tell<T> {
        Tell(self.line.clone())
    }

    /// All that was said and not heard yet, in order.
    pub fn take(&mut self) -> Drain<'_, T> {
        debug_assert!(self.taken.is_empty(), "a drain leaves nothing");
        std::mem::swap(&mut self.line.lock(self.lane).words, &mut self.taken);
        self.taken.drain(..)
    }

    /// From now on nothing more can be said; what was said can still be taken.
    pub fn close(&mut self) {
        self.line.lock(self.lane).is_over = true;
    }
}

impl<T> Drop for Ear<T> {
    fn drop(&mut self) {
        let mut told = self.line.lock(self.lane);
        assert!(told.words.len() <= WORDS_MAX, "words that nobody hears are bounded");
        told.is_over = true;
        let unheard = std::mem::take(&mut told.words);
        drop(told);
        // Outside of the lock: a word may answer as it is dropped.
        drop(unheard);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn words_are_heard_in_order_until_the_ear_is_gone() {
        let control = Control::new(2);
        let (tell, mut ears) = control.words::<Arc<i32>>();
        (0..3).for_each(|number| tell.tell(1, Arc::new(number)).unwrap());
        assert!(control.has_words(1) && !control.has_words(0));
        control.hear(1);
        let heard: Vec<i32> = ears[1].take().map(|word| *word).collect();
        assert_eq!((heard, control.has_words(1)), (vec![0, 1, 2], false));
        let word = Arc::new(7);
        tell.tell(0, word.clone()).unwrap();
        ears.remove(0);
        assert_eq!(Arc::strong_count(&word), 1, "a work that is gone keeps no word");
        let unheard = tell.tell(0, word).unwrap_err();
        assert_eq!((*unheard.word, unheard.why, control.words_refused(0)), (7, Silence::Gone, 1), "and gives it back");
        assert_eq!(tell.tell(2, Arc::new(8)).unwrap_err().why, Silence::Gone, "there is no such lane");
    }

    #[test]
    fn a_lane_that_does_not_turn_hears_so_many_words_and_the_rest_come_back() {
        let control = Control::new(1);
        let (tell, mut ears) = control.words();
        (0..WORDS_MAX).for_each(|number| tell.tell(0, number).unwrap());
        let unheard = tell.tell(0, WORDS_MAX).unwrap_err();
        assert_eq!((unheard.word, unheard.why, control.words_refused(0)), (WORDS_MAX, Silence::Full, 1));
        assert!(!tell.has_room(0) && tell.has_room(1), "who speaks to no lane is told at once");
        assert!(unheard.to_string().contains("wait for room"));
        assert_eq!(ears[0].take().len(), WORDS_MAX);
        assert!(tell.has_room(0));
        tell.tell(0, 1).unwrap();
    }

    #[test]
    fn one_work_does_not_hear_what_another_is_told() {
        let control = Control::new(1);
        let ((one, mut hears_one), (_two, mut hears_two)) = (control.words::<u8>(), control.words::<u8>());
        one.tell(0, 1).unwrap();
        assert_eq!((hears_two[0].take().collect(), hears_one[0].take().collect()), (vec![], vec![1]));
    }
}
