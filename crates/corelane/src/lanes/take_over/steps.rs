//! The steps of a take-over, for each side: what has happened goes in, what is to be done comes out. Neither side has a socket or a clock here.
//!
//! | step | new process | old process | who may fail here, and who serves then |
//! | --- | --- | --- | --- |
//! | 1 | asks | offers what it has | either, or the old one refuses: the old one serves, or nobody did |
//! | 2 | starts its lanes, gives up its rights | waits, 60 s at the most | the new one: the old one serves; the old one: the new one serves |
//! | 3 | says `ready`, waits for `agreed` | says `agreed`, and waits again, 60 s at the most | as in step 2 |
//! | 4 | prints, tells its supervisor | waits | as in step 2: a full disk under standard output ends the new one, and the old one serves |
//! | 5 | says `serving` | takes it from its socket while the new one lives | **the point of no return**, below |
//! | 6 | waits for `released` | its lanes leave their sockets, then says `released` | whichever dies, the new one's death is that of any process that serves |
//!
//! From step 2 on both accept from the same sockets; behind step 6 the new process alone does.
//!
//! **The point of no return** is when `serving` lies in the old process's socket. The old process refuses only once it has closed its socket for reading and found
//! nothing there (`Old::hear` of [`OldEvent::Late`]). So what the new one could say is heard, and what it could not say is no word. After a `serving` that could be
//! said, the old process leaves, or it has died, or it finds that the new one has. No clock decides which of them serves.
//!
//! A new process of version 1 knows neither `agreed` nor `serving`, and is released by `ready`. An old one of version 1 releases at `ready`: it hears that behind step 4.

/// Since which version `ready` asks, and `serving` releases.
pub(crate) const ASKS_SINCE: u32 = 2;

/// The other side's words, as far as they count here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Word {
    /// The new process could serve.
    Ready,
    /// The old one waits until it does.
    Agreed,
    /// It does.
    Serving,
    /// The old one does not any more.
    Released,
    /// It is not to be.
    Refused,
    /// Something else.
    Other,
}

/// The old process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Old {
    stage: OldStage,
    /// The new one says `serving` behind `agreed`.
    asks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OldStage {
    Offering,
    /// For `ready`.
    Waiting,
    /// For `serving`.
    Agreed,
    Left,
    Stays,
}

/// An event of the old process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OldEvent {
    /// All that it has was offered.
    Offered,
    /// The new one says something.
    Hears(Word),
    /// The new one has gone, or cannot be understood.
    Gone,
    /// The new one has said nothing for as long as it may, and can say nothing any more.
    Late,
}

/// The old process's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OldStep {
    /// Wait for a word.
    Wait,
    /// Say `agreed`, and wait for a word.
    Agree,
    /// Leave, if the new one lives; else stay.
    Leave,
    /// Refuse, and serve on.
    Stay,
}

impl Old {
    /// One that is asked by a process of that version.
    pub(crate) fn asked_by(version: u32) -> Self {
        Self { stage: OldStage::Offering, asks: version >= ASKS_SINCE }
    }

    /// Takes note of what has happened.
    pub(crate) fn hear(&mut self, event: OldEvent) -> OldStep {
        use OldStage::{Agreed, Left, Offering, Stays, Waiting};
        assert!(!matches!(self.stage, Left | Stays), "what is decided is over: {self:?}");
        let (stage, step) = match (self.stage, event) {
            (Offering, OldEvent::Offered) => (Waiting, OldStep::Wait),
            (Waiting, OldEvent::Hears(Word::Ready)) if self.asks => (Agreed, OldStep::Agree),
            (Waiting, OldEvent::Hears(Word::Ready)) | (Agreed, OldEvent::Hears(Word::Serving)) => (Left, OldStep::Leave),
            _ => (Stays, OldStep::Stay),
        };
        self.stage = stage;
        step
    }
}

/// The new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct New {
    stage: NewStage,
    /// The old one says `agreed` behind `ready`.
    asks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NewStage {
    Starting,
    /// For `agreed`.
    Asking,
    /// Tells whoever started it; `alone` where the old one has died.
    Announcing {
        alone: bool,
    },
    /// For `released`.
    Serving,
    Alone,
    Ends,
}

/// An event of the new process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewEvent {
    /// Its lanes serve, and nothing of the start can fail any more but to say so.
    Started,
    /// The one that started it was told.
    Announced,
    /// The start has failed, or nobody could be told.
    Failed,
    /// The old one says something.
    Hears(Word),
    /// The old one has gone without a word.
    Gone,
    /// The old one says nothing.
    Late,
}

/// The new process's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewStep {
    /// Say this, and wait for a word.
    Say(Word),
    /// Tell whoever started it.
    Announce,
    /// Wait for another word.
    Wait,
    /// Serve. The socket stays open where the old one has not said that it has left: a closed one would mean that this process has died.
    Serve,
    /// End: the old one serves.
    End,
}

impl New {
    /// One that asks a process of that version.
    pub(crate) fn asking(version: u32) -> Self {
        Self { stage: NewStage::Starting, asks: version >= ASKS_SINCE }
    }

    /// Takes note of what has happened.
    pub(crate) fn hear(&mut self, event: NewEvent) -> NewStep {
        use NewStage::{Alone, Announcing, Asking, Ends, Serving, Starting};
        assert!(!matches!(self.stage, Alone | Ends), "what is decided is over: {self:?}");
        let (stage, step) = match (self.stage, event) {
            (_, NewEvent::Failed | NewEvent::Hears(Word::Refused)) => (Ends, NewStep::End),
            (Starting, NewEvent::Started) if self.asks => (Asking, NewStep::Say(Word::Ready)),
            (Starting, NewEvent::Started) | (Asking, NewEvent::Hears(Word::Agreed)) => {
                (Announcing { alone: false }, NewStep::Announce)
            }
            (Asking, NewEvent::Gone) => (Announcing { alone: true }, NewStep::Announce),
            // It has agreed to nothing: it goes on when it goes on.
            (Asking, NewEvent::Late) => (Ends, NewStep::End),
            (Announcing { alone: true }, NewEvent::Announced) => (Alone, NewStep::Serve),
            (Announcing { alone: false }, NewEvent::Announced) => {
                (Serving, NewStep::Say(if self.asks { Word::Serving } else { Word::Ready }))
            }
            (Serving, NewEvent::Hears(Word::Released) | NewEvent::Gone | NewEvent::Late) => (Alone, NewStep::Serve),
            (stage @ (Asking | Serving), NewEvent::Hears(_)) => (stage, NewStep::Wait),
            (stage, event) => unreachable!("{event:?} does not happen while {stage:?}"),
        };
        self.stage = stage;
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The place at which a process is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum At {
        /// Its own business: offering, starting, announcing.
        Work,
        /// A word of the other.
        Word,
        /// About to leave, in the old process.
        Leave,
        Over,
        Dead,
    }

    /// Both processes, and what lies in their sockets.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Both {
        old: Old,
        old_at: At,
        old_accepts: bool,
        to_old: Vec<Word>,
        /// The old one reads no more.
        is_shut: bool,
        new: New,
        new_at: At,
        new_accepts: bool,
        to_new: Vec<Word>,
        crashed: bool,
    }

    impl Both {
        fn of(old_version: u32, new_version: u32) -> Self {
            Self {
                old: Old::asked_by(new_version),
                old_at: At::Work,
                old_accepts: true,
                to_old: Vec::new(),
                is_shut: false,
                new: New::asking(old_version),
                new_at: At::Work,
                new_accepts: false,
                to_new: Vec::new(),
                crashed: false,
            }
        }

        fn old_hears(mut self, event: OldEvent) -> Self {
            match self.old.hear(event) {
                OldStep::Wait => self.old_at = At::Word,
                OldStep::Agree => {
                    self.old_at = At::Word;
                    if self.new_at == At::Dead || self.new_at == At::Over {
                        return self.old_hears(OldEvent::Gone);
                    }
                    self.to_new.push(Word::Agreed);
                }
                OldStep::Leave => self.old_at = At::Leave,
                OldStep::Stay => {
                    self.old_at = At::Over;
                    self.to_new.push(Word::Refused);
                }
            }
            self
        }

        /// Leaves for the one that lives, and stays for the other.
        fn leaves(mut self) -> Self {
            if self.new_at != At::Dead && self.new_at != At::Over {
                self.old_accepts = false;
                self.to_new.push(Word::Released);
            }
            self.old_at = At::Over;
            self
        }

        fn new_hears(mut self, event: NewEvent) -> Self {
            self.new_accepts |= event == NewEvent::Started;
            match self.new.hear(event) {
                NewStep::Say(word) => {
                    self.new_at = At::Word;
                    if matches!(self.old_at, At::Dead | At::Over) || self.is_shut {
                        return self.new_reads_rest();
                    }
                    self.to_old.push(word);
                }
                NewStep::Announce => self.new_at = At::Work,
                NewStep::Wait => {}
                // The socket of one that serves stays open: it is not over for the old one.
                NewStep::Serve => self.new_at = At::Word,
                NewStep::End => (self.new_at, self.new_accepts) = (At::Over, false),
            }
            self
        }

        /// Its words go nowhere: it reads what was said before.
        fn new_reads_rest(mut self) -> Self {
            match self.to_new.is_empty() {
                true => self.new_hears(NewEvent::Gone),
                false => {
                    let word = self.to_new.remove(0);
                    let next = self.new_hears(NewEvent::Hears(word));
                    if next.new_waits() && (matches!(next.old_at, At::Dead | At::Over) || next.is_shut) && next.to_new.is_empty()
                    {
                        return next.new_hears(NewEvent::Gone);
                    }
                    next
                }
            }
        }

        fn new_waits(&self) -> bool {
            self.new_at == At::Word && !matches!(self.new.stage, NewStage::Alone | NewStage::Ends)
        }

        /// All that may happen next.
        fn next(&self) -> Vec<Self> {
            let mut all = Vec::new();
            let (old_lives, new_lives) = (self.old_at != At::Dead, self.new_at != At::Dead);
            if old_lives {
                let dies = Self { old_at: At::Dead, old_accepts: false, to_old: Vec::new(), crashed: true, ..self.clone() };
                all.push(dies);
            }
            if new_lives {
                let dies = Self { new_at: At::Dead, new_accepts: false, to_new: Vec::new(), crashed: true, ..self.clone() };
                all.push(dies);
            }
            let new_is_gone = matches!(self.new_at, At::Dead | At::Over);
            match self.old_at {
                At::Work => all.extend([OldEvent::Offered, OldEvent::Gone].map(|event| self.clone().old_hears(event))),
                At::Word if !self.to_old.is_empty() => {
                    let mut next = self.clone();
                    let word = next.to_old.remove(0);
                    all.push(next.old_hears(OldEvent::Hears(word)));
                }
                At::Word if new_is_gone => all.push(self.clone().old_hears(OldEvent::Gone)),
                At::Word => all.push(Self { is_shut: true, ..self.clone() }.old_hears(OldEvent::Late)),
                At::Leave => all.push(self.clone().leaves()),
                At::Over | At::Dead => {}
            }
            match self.new_at {
                // All that was offered must have come.
                At::Work if self.new.stage == NewStage::Starting && self.old.stage == OldStage::Offering => {}
                At::Work if self.new.stage == NewStage::Starting => {
                    all.extend([NewEvent::Started, NewEvent::Failed].map(|event| self.clone().new_hears(event)));
                }
                At::Work => all.extend([NewEvent::Announced, NewEvent::Failed].map(|event| self.clone().new_hears(event))),
                At::Word if self.new_waits() && !self.to_new.is_empty() => {
                    let mut next = self.clone();
                    let word = next.to_new.remove(0);
                    all.push(next.new_hears(NewEvent::Hears(word)));
                }
                At::Word if self.new_waits() && matches!(self.old_at, At::Dead | At::Over) => {
                    all.push(self.clone().new_hears(NewEvent::Gone));
                }
                At::Word if self.new_waits() => all.push(self.clone().new_hears(NewEvent::Late)),
                _ => {}
            }
            all
        }

        fn check(&self) {
            assert!(self.crashed || self.old_accepts || self.new_accepts, "nobody accepts, and nobody has died: {self:?}");
        }

        /// Nothing more happens by itself: who lives serves, and one alone.
        fn check_end(&self) {
            let (old_lives, new_lives) = (self.old_at != At::Dead, self.new_at != At::Dead);
            assert!(!(self.old_accepts && self.new_accepts), "both serve for ever: {self:?}");
            let left = self.old.stage == OldStage::Left && !self.old_accepts;
            if old_lives && !new_lives && !left {
                assert!(self.old_accepts, "the new process died before the old one left, which does not serve: {self:?}");
            }
            if new_lives && !old_lives && self.new.stage != NewStage::Ends {
                assert!(self.new_accepts || self.new.stage == NewStage::Starting, "who is left does not serve: {self:?}");
            }
            if old_lives && new_lives {
                assert!(self.old_accepts != self.new_accepts, "one of two that live serves: {self:?}");
            }
        }
    }

    /// All states that can be reached from the beginning.
    fn explored(old_version: u32, new_version: u32) -> BTreeSet<Both> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![Both::of(old_version, new_version)]);
        while let Some(both) = open.pop() {
            if !seen.insert(both.clone()) {
                continue;
            }
            both.check();
            open.extend(both.next());
        }
        seen
    }

    /// Whether only deaths may follow.
    fn is_at_rest(both: &Both) -> bool {
        let deaths = usize::from(both.old_at != At::Dead) + usize::from(both.new_at != At::Dead);
        both.next().len() == deaths
    }

    /// Each side may die, fail or be late at each step, in any order.
    #[test]
    fn whoever_dies_or_is_late_at_any_step_one_alone_serves_in_the_end() {
        let seen = explored(ASKS_SINCE, ASKS_SINCE);
        let ends: Vec<&Both> = seen.iter().filter(|both| is_at_rest(both)).collect();
        ends.iter().for_each(|both| both.check_end());
        let reached = |what: &dyn Fn(&&&Both) -> bool| ends.iter().filter(what).count();
        assert!(reached(&|both| both.new_accepts && !both.crashed) > 0, "it can be taken over");
        assert!(reached(&|both| both.old_accepts && !both.crashed && both.is_shut) > 0, "and can be too late");
        assert!(reached(&|both| both.new_accepts && both.old_at == At::Dead) > 0, "the old one can die");
        assert!(reached(&|both| both.old_accepts && both.new_at == At::Dead) > 0, "the new one can");
    }

    /// With a process of the release before, a take-over comes to the same end if nobody dies or is late.
    #[test]
    fn the_release_before_is_taken_over_from_and_takes_over() {
        for (old_version, new_version) in [(ASKS_SINCE - 1, ASKS_SINCE), (ASKS_SINCE, ASKS_SINCE - 1)] {
            let mut old = Old::asked_by(new_version.min(old_version));
            let mut new = New::asking(old_version.min(new_version));
            assert_eq!(old.hear(OldEvent::Offered), OldStep::Wait);
            assert_eq!(new.hear(NewEvent::Started), NewStep::Announce);
            assert_eq!(new.hear(NewEvent::Announced), NewStep::Say(Word::Ready));
            assert_eq!(old.hear(OldEvent::Hears(Word::Ready)), OldStep::Leave);
            assert_eq!(new.hear(NewEvent::Hears(Word::Released)), NewStep::Serve);
        }
    }
}
