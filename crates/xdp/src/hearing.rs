//! What a port hears beside its frames: words to all of the link, which wait here for the next receive.

use crate::link::Watch;
use crate::words::Words;
use corelane_seam::{Frame, FrameMemory};
use rustix::event::epoll;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Words that wait to be handed over, at the most.
const HEARD_MAX: usize = 64;

/// The words of one port, if it hears any.
#[derive(Debug)]
pub struct Hearing {
    /// The socket, and what becomes readable when that or the interface has news: an epoll descriptor does when one of its own is.
    words: Option<(Words, OwnedFd)>,
    heard: VecDeque<Frame>,
    /// Words that there was no frame for.
    lost: u64,
}

impl Hearing {
    /// Hears words beside the news of an interface.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(watch: &Watch, words: Option<Words>) -> io::Result<Self> {
        let with_news = |words: Words| {
            let both = epoll::create(epoll::CreateFlags::CLOEXEC)?;
            epoll::add(&both, watch, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
            epoll::add(&both, &words, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?;
            io::Result::Ok((words, both))
        };
        Ok(Self { words: words.map(with_news).transpose()?, heard: VecDeque::new(), lost: 0 })
    }

    /// What becomes readable when there are words, or news; none without words.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.words.as_ref().map(|(_, both)| both.as_fd())
    }

    /// Takes in what was said, into frames of this memory.
    pub fn hear(&mut self, memory: &FrameMemory) {
        let Some((words, _)) = &self.words else { return };
        loop {
            let frame = if self.heard.len() < HEARD_MAX { memory.frame() } else { None };
            let word = match frame {
                Some(frame) => words.take(frame),
                // What there is no frame for is taken all the same, so that the next one is news.
                None if words.skip() => {
                    self.lost += 1;
                    continue;
                }
                None => None,
            };
            let Some(word) = word else { break };
            self.heard.push_back(word);
        }
        assert!(self.heard.len() <= HEARD_MAX, "words that wait are bounded");
    }

    /// Whether some wait to be handed over.
    pub fn has_heard(&self) -> bool {
        !self.heard.is_empty()
    }

    /// Moves what was heard behind the frames in `into`, at most so many.
    pub fn hand_over(&mut self, now: u64, at_most: usize, into: &mut Vec<Frame>) {
        for mut word in self.heard.drain(..at_most.min(self.heard.len())) {
            word.facts.time = now;
            into.push(word);
        }
    }

    /// Words that there was no frame for.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}
