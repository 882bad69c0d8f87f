//! The post of one service on one lane: what it said and nobody has heard yet, what it will hear, and the questions that wait.

pub(crate) mod call;
pub(crate) mod exchange;
pub(crate) mod remote;
pub(crate) mod room;

use crate::post::call::{Asker, Call, Duties};
use crate::post::remote::Outer;
use crate::post::room::Door;
use crate::words::names::ConnectionId;
use crate::words::talk::{Asking, Lost, Origin, Talk};
use corelane_lane::{Bursts, Channels, Ear, Fenced, Kit, Mesh, Silence, Unheard};
use corelane_seam::ordered::OrderedSet;
use corelane_seam::slab::Slab;
use corelane_watch::LaneCounter;
use std::any::Any;
use std::collections::VecDeque;
use std::rc::Rc;

/// The ends that lead from a service on one lane to the others, and to it from outside.
pub(crate) struct Ends<T: Talk> {
    pub(crate) mesh: Mesh<Letter<T>>,
    pub(crate) ear: Ear<Outer<T>>,
    /// Where those outside wait for room.
    pub(crate) door: Door,
    /// Messages that a channel holds.
    pub(crate) capacity: usize,
}

impl<T: Talk> Drop for Ends<T> {
    fn drop(&mut self) {
        self.ear.close();
        self.door.tell_of_room();
    }
}

/// A letter between lanes.
pub(crate) enum Letter<T: Talk> {
    Message(T::Message),
    Question(Asking, T::Question),
    Answer(Asking, T::Answer),
    /// There is no answer.
    Lost(Asking, Lost),
}

/// A letter that is here and was not told to the service yet.
enum Arrived<T: Talk> {
    Letter(usize, Letter<T>),
    Outside(Outer<T>),
    Room(usize),
}

/// The next news for the service.
pub(crate) enum News<T: Talk> {
    Message(Origin, T::Message),
    Question(Origin, T::Question, Call<T>),
    Reply(Asking, Result<T::Answer, Lost>),
    Room(usize),
}

/// The post of a service on a lane.
pub(crate) struct Post<T: Talk> {
    /// None for a service that is alone, or says nothing.
    ends: Option<Ends<T>>,
    arrived: VecDeque<Arrived<T>>,
    /// How many of those are letters to this lane itself; they are bounded as a channel bounds them.
    own: usize,
    own_max: usize,
    /// Replies for which their channel had no room, in order.
    unsent: VecDeque<(usize, Letter<T>)>,
    /// News for connections of this lane, in the order of the lane's notices.
    notices: VecDeque<T::Notice>,
    /// The questions that wait, each with the lane that was asked.
    asks: Slab<usize>,
    duties: Rc<Duties>,
    /// Lanes to which a question was refused because too many wait.
    asks_refused: Vec<usize>,
    own_refused: bool,
    /// Connections whose services were refused something, and wait for room.
    waiting: OrderedSet<ConnectionId>,
    /// Counts the drops of what the service, or another, has said that panicked here.
    bursts: Bursts,
    /// The service is ending: nothing is said any more.
    is_over: bool,
}

/// Messages to its own lane that may wait, where there are no channels that say how many.
const OWN_MAX: usize = 1024;

impl<T: Talk> Post<T> {
    /// A post of which `ends` lead to those on other lanes, if there are any.
    pub(crate) fn new(ends: Option<Ends<T>>, bursts: Bursts) -> Self {
        Self {
            bursts,
            own_max: ends.as_ref().map_or(OWN_MAX, |ends| ends.capacity),
            ends,
            arrived: VecDeque::new(),
            own: 0,
            unsent: VecDeque::new(),
            notices: VecDeque::new(),
            asks: Slab::new(),
            duties: Rc::default(),
            asks_refused: Vec::new(),
            own_refused: false,
            waiting: OrderedSet::default(),
            is_over: false,
        }
    }

    /// Says something to a lane, which may be this one.
    pub(crate) fn send(&mut self, kit: &Kit, to: usize, letter: Letter<T>) -> Result<(), Unheard<Letter<T>>> {
        if to == kit.lane() {
            return self.keep(kit, letter);
        }
        let refuse = |word, why| {
            kit.row.add(LaneCounter::MessagesRefused, 1);
            Err(Unheard { word, why })
        };
        // A service that is alone has nobody to say it to.
        let Some(Ends { mesh, .. }) = &mut self.ends else { return refuse(letter, Silence::Gone) };
        // Replies that wait go first.
        if self.unsent.iter().any(|(lane, _)| *lane == to) {
            return refuse(letter, Silence::Full);
        }
        let sent = mesh.send(kit, to, letter);
        if sent.as_ref().is_err_and(|unheard| unheard.why == Silence::Full) {
            mesh.want_room(to);
        }
        sent
    }

    /// Says something to this lane itself.
    fn keep(&mut self, kit: &Kit, letter: Letter<T>) -> Result<(), Unheard<Letter<T>>> {
        if self.own >= self.own_max {
            self.own_refused = true;
            kit.row.add(LaneCounter::MessagesRefused, 1);
            return Err(Unheard { word: letter, why: Silence::Full });
        }
        self.own += 1;
        assert!(self.own <= self.own_max, "what the lane says to itself is bounded");
        self.arrived.push_back(Arrived::Letter(kit.lane(), letter));
        Ok(())
    }

    /// Whether the service is ending.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Asks a lane; `most` questions may wait at once.
    pub(crate) fn ask(
        &mut self,
        kit: &Kit,
        to: usize,
        question: T::Question,
        most: u32,
    ) -> Result<Asking, (Unheard<T::Question>, bool)> {
        if self.asks.len() >= most as usize {
            if !self.asks_refused.contains(&to) {
                self.asks_refused.push(to);
            }
            return Err((Unheard { word: question, why: Silence::Full }, true));
        }
        assert!(!self.is_over, "nobody asks who is ending");
        let asking = Asking::from(self.asks.insert(to));
        match self.send(kit, to, Letter::Question(asking, question)) {
            Ok(()) => Ok(asking),
            Err(Unheard { word: Letter::Question(_, word), why }) => {
                let asked = self.asks.remove(asking.into());
                assert!(asked == Some(to), "a question that was refused waits for nothing");
                Err((Unheard { word, why }, false))
            }
            Err(_) => unreachable!("what is refused comes back"),
        }
    }

    /// The connection's service was refused something: it is called again when there is room.
    pub(crate) fn await_room(&mut self, connection: ConnectionId) {
        self.waiting.insert(connection, ());
    }

    /// Those who wait for room.
    pub(crate) fn take_waiting(&mut self) -> OrderedSet<ConnectionId> {
        std::mem::take(&mut self.waiting)
    }

    /// Replies to a call.
    pub(crate) fn reply(&mut self, kit: &Kit, call: Call<T>, answer: T::Answer) {
        match call.settle() {
            Asker::Lane(lane, asking) => self.send_back(kit, lane, Letter::Answer(asking, answer)),
            Asker::Outside(asked) => asked.settle(Ok(answer)),
        }
    }

    /// Sends the outcome of a question; it waits if the channel has no room. No more can wait than others may ask.
    fn send_back(&mut self, kit: &Kit, to: usize, letter: Letter<T>) {
        if to == kit.lane() {
            return self.arrived.push_back(Arrived::Letter(to, letter));
        }
        match self.send(kit, to, letter) {
            Err(Unheard { word, why: Silence::Full }) => self.unsent.push_back((to, word)),
            // Nobody is there to hear it.
            Err(Unheard { word, .. }) => self.discard(word),
            Ok(()) => {}
        }
    }

    /// Tells those who asked of calls that were dropped; returns how many there were.
    pub(crate) fn settle_dropped(&mut self, kit: &Kit) -> usize {
        let mut count = 0;
        while let Some(asker) = self.duties.take_dropped() {
            count += 1;
            if let Some((lane, asking)) = asker {
                self.send_back(kit, lane, Letter::Lost(asking, Lost::Dropped));
            }
        }
        count
    }

    /// Takes what has come from other lanes, at most so many of each, and sends what waits; returns how many were taken.
    pub(crate) fn gather(&mut self, kit: &Kit, at_most: usize) -> usize {
        let Some(Ends { mesh, .. }) = &mut self.ends else { return 0 };
        let (arrived, mut parted) = (&mut self.arrived, None::<Vec<usize>>);
        let taken = mesh.take(at_most, |lane, letter| match letter {
            Some(letter) => arrived.push_back(Arrived::Letter(lane, letter)),
            None => parted.get_or_insert_default().push(lane),
        });
        parted.into_iter().flatten().for_each(|lane| self.part(lane));
        self.find_room(kit);
        taken
    }

    /// Lane `lane` is gone: what was asked there has no answer.
    fn part(&mut self, lane: usize) {
        let unsent = std::mem::take(&mut self.unsent);
        let (late, others) = unsent.into_iter().partition::<VecDeque<_>, _>(|(to, _)| *to == lane);
        self.unsent = others;
        late.into_iter().for_each(|(_, letter)| self.discard(letter));
        assert!(self.unsent.iter().all(|(to, _)| *to != lane), "nothing waits to be sent to who is gone");
        self.lose(|asked| asked == lane, Lost::Gone);
    }

    /// Drops a letter, which holds users' values: a panic ends here, and is counted.
    fn discard(&self, letter: Letter<T>) {
        drop(Fenced::counted(letter, &self.bursts));
    }

    /// Ends the questions to some lanes without answers.
    fn lose(&mut self, is_lost: impl Fn(usize) -> bool, why: Lost) {
        let lost = self.asks.iter().filter(|(_, lane)| is_lost(**lane));
        self.arrived.extend(lost.map(|(asking, &lane)| Arrived::Letter(lane, Letter::Lost(asking.into(), why))));
    }

    /// Sends replies where there is room again, and has the service told of it.
    fn find_room(&mut self, kit: &Kit) {
        while let Some(Ends { mesh, .. }) = &mut self.ends
            && let Some(lane) = mesh.take_room()
        {
            let unsent = std::mem::take(&mut self.unsent);
            let (due, others) = unsent.into_iter().partition::<VecDeque<_>, _>(|(to, _)| *to == lane);
            self.unsent = others;
            due.into_iter().for_each(|(to, letter)| self.send_back(kit, to, letter));
            if !self.unsent.iter().any(|(to, _)| *to == lane) {
                self.arrived.push_back(Arrived::Room(lane));
            }
        }
    }

    /// Takes what was said outside of the lanes.
    pub(crate) fn listen(&mut self) {
        if let Some(Ends { ear, door, .. }) = &mut self.ends {
            self.arrived.extend(ear.take().map(Arrived::Outside));
            door.tell_of_room();
        }
    }

    /// How much there is to tell.
    pub(crate) fn arrived(&self) -> usize {
        self.arrived.len()
    }

    /// The next news for the service on lane `here`; a question that it asked is over with its outcome.
    pub(crate) fn next(&mut self, here: usize) -> Option<News<T>> {
        loop {
            return Some(match self.arrived.pop_front()? {
                Arrived::Letter(lane, letter) => match self.open(lane == here, lane, letter) {
                    Some(told) => told,
                    None => continue,
                },
                Arrived::Outside(Outer::Message(message)) => News::Message(Origin::Outside, message),
                Arrived::Outside(Outer::Question(question, asked)) => {
                    News::Question(Origin::Outside, question, Call::new(Asker::Outside(asked.taken()), &self.duties))
                }
                Arrived::Room(lane) => News::Room(lane),
            });
        }
    }

    fn open(&mut self, is_own: bool, from: usize, letter: Letter<T>) -> Option<News<T>> {
        match letter {
            Letter::Message(message) => {
                if is_own {
                    self.take_own(from);
                }
                Some(News::Message(Origin::Lane(from), message))
            }
            Letter::Question(asking, question) => {
                if is_own {
                    self.take_own(from);
                }
                let call = Call::new(Asker::Lane(from, asking), &self.duties);
                Some(News::Question(Origin::Lane(from), question, call))
            }
            Letter::Answer(asking, answer) => self.close(asking).then_some(News::Reply(asking, Ok(answer))),
            Letter::Lost(asking, why) => self.close(asking).then_some(News::Reply(asking, Err(why))),
        }
    }

    /// A message of this lane to itself leaves room for another.
    fn take_own(&mut self, from: usize) {
        assert!(self.own > 0, "what the lane has said to itself was counted");
        self.own -= 1;
        if std::mem::take(&mut self.own_refused) {
            self.arrived.push_back(Arrived::Room(from));
        }
    }

    /// Ends a question; returns whether it waited.
    fn close(&mut self, asking: Asking) -> bool {
        let waits = self.asks.remove(asking.into()).is_some();
        if waits {
            self.arrived.extend(self.asks_refused.drain(..).map(Arrived::Room));
        }
        waits
    }

    /// Adds news for a connection: together with a notice of the lane's, and taken with it.
    pub(crate) fn push_notice(&mut self, notice: T::Notice) {
        self.notices.push_back(notice);
    }

    /// The news for the connection that is told next.
    pub(crate) fn take_notice(&mut self) -> T::Notice {
        // reason: the lane's notices and these are queued together and taken together.
        self.notices.pop_front().expect("each notice has its words")
    }
}

/// A post, whatever is said.
pub(crate) trait Mail {
    /// [`Post::gather`].
    fn gather(&mut self, kit: &Kit, at_most: usize) -> usize;
    /// [`Post::listen`].
    fn listen(&mut self);
    /// [`Post::arrived`].
    fn arrived(&self) -> usize;
    /// [`Post::settle_dropped`].
    fn settle_dropped(&mut self, kit: &Kit) -> usize;
    /// Whether something is to be done in any case.
    fn has_work(&self) -> bool;
    /// Whether nothing is under way, owed or waited for.
    fn is_quiet(&self) -> bool;
    /// From now on nothing comes from outside and nothing is said, and open questions have no answer. The letters here now are the last.
    fn close(&mut self);
    fn channels(&mut self) -> Option<&mut dyn Channels>;
    /// Everything that users gave and nobody has heard, what waits in the channels from other lanes included.
    fn take_all(&mut self) -> Vec<Box<dyn Any>>;
}

impl<T: Talk> Mail for Post<T> {
    fn gather(&mut self, kit: &Kit, at_most: usize) -> usize {
        Post::gather(self, kit, at_most)
    }

    fn listen(&mut self) {
        Post::listen(self);
    }

    fn arrived(&self) -> usize {
        Post::arrived(self)
    }

    fn settle_dropped(&mut self, kit: &Kit) -> usize {
        Post::settle_dropped(self, kit)
    }

    fn has_work(&self) -> bool {
        !self.arrived.is_empty() || self.duties.has_dropped()
    }

    fn is_quiet(&self) -> bool {
        // A reply that waits for room keeps the lane busy that asked for it.
        let says_nothing = self.arrived.is_empty() && !self.duties.has_dropped();
        says_nothing && self.asks.is_empty() && !self.duties.owe_any()
    }

    fn close(&mut self) {
        assert!(!self.is_over, "a service ends once");
        if let Some(Ends { ear, .. }) = &mut self.ends {
            ear.close();
        }
        self.listen();
        self.is_over = true;
        self.lose(|_| true, Lost::Ending);
    }

    fn channels(&mut self) -> Option<&mut dyn Channels> {
        self.ends.as_mut().map(|ends| &mut ends.mesh as &mut dyn Channels)
    }

    fn take_all(&mut self) -> Vec<Box<dyn Any>> {
        if let Some(Ends { mesh, .. }) = &mut self.ends {
            let arrived = &mut self.arrived;
            mesh.take(usize::MAX, |lane, letter| arrived.extend(letter.map(|letter| Arrived::Letter(lane, letter))));
        }
        let arrived = self.arrived.drain(..).map(|arrived| Box::new(arrived) as Box<dyn Any>);
        let unsent = self.unsent.drain(..).map(|unsent| Box::new(unsent) as Box<dyn Any>);
        let notices = self.notices.drain(..).map(|notice| Box::new(notice) as Box<dyn Any>);
        arrived.chain(unsent).chain(notices).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::talk::Says;
    use corelane_lane::Control;

    #[test]
    fn what_was_said_from_outside_before_the_end_is_heard_and_nothing_is_said_after_it() {
        let control = Control::new(1);
        let (tell, mut ears) = control.words();
        let (mesh, ear) = (Mesh::between(&control, 1).remove(0), ears.remove(0));
        let wake: crate::post::room::WakeOutside = std::sync::Arc::new(std::task::Waker::wake);
        let door = Door::of_lanes(1, &wake).remove(0);
        let mut post: Post<Says<u8>> = Post::new(Some(Ends { mesh, ear, door, capacity: 1 }), Bursts::default());
        assert!(tell.tell(0, Outer::Message(1)).is_ok());
        Mail::close(&mut post);
        assert!(matches!(post.next(0), Some(News::Message(Origin::Outside, 1))));
        assert_eq!(tell.tell(0, Outer::Message(2)).map_err(|unheard| unheard.why), Err(Silence::Gone));
    }
}
