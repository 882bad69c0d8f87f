//! A service's talk with itself, as its calls see it.

use crate::post::call::Call;
use crate::post::{Letter, News};
use crate::service::cx::Cx;
use crate::table::notices::Notice;
use crate::words::names::ConnectionId;
use crate::words::talk::{Asking, Talk};
use corelane_lane::{Silence, Unheard};
use corelane_seam::Level;
use corelane_watch::ServiceCounter;

impl<T: Talk> Cx<'_, T> {
    /// Sends a message to this service on a lane, where [`lane_message`](crate::StreamService::lane_message) is called in the next turn:
    /// in order and once, unless that lane ends first. The lane may be this one; then the call comes in this turn or the next one.
    ///
    /// # Errors
    /// The message comes back, and is counted (`messages_refused`), if the channel is full or nobody is there. When a full channel
    /// has room again, [`room`](crate::StreamService::room) is called; and if this call is for a connection, so is its
    /// [`receive`](crate::StreamService::receive): leave the request in its input.
    pub fn send(&mut self, lane: usize, message: T::Message) -> Result<(), Unheard<T::Message>> {
        let sent = match self.post.is_over() {
            true => Err(Unheard { word: Letter::Message(message), why: Silence::Gone }),
            false => self.post.send(self.kit, lane, Letter::Message(message)),
        };
        sent.map_err(|unheard| match unheard {
            Unheard { word: Letter::Message(word), why } => self.refused(Unheard { word, why }),
            _ => unreachable!("what is refused comes back"),
        })
    }

    /// Asks this service on a lane, which may be this one. [`asked`](crate::StreamService::asked) is called there, and later
    /// [`replied`](crate::StreamService::replied) here with the outcome, once for each question that was taken.
    ///
    /// # Errors
    /// As [`Cx::send`]; and in the same way if too many questions wait ([`Limits::asks_max`](crate::Limits::asks_max), counted in
    /// `asks_max_hits`).
    pub fn ask(&mut self, lane: usize, question: T::Question) -> Result<Asking, Unheard<T::Question>> {
        if self.post.is_over() {
            return Err(Unheard { word: question, why: Silence::Gone });
        }
        let most = self.limits().asks_max;
        match self.post.ask(self.kit, lane, question, most) {
            Ok(asking) => {
                self.count(ServiceCounter::Asks, 1);
                Ok(asking)
            }
            Err((unheard, is_at_bound)) => {
                self.count(ServiceCounter::AsksMaxHits, is_at_bound.into());
                Err(self.refused(unheard))
            }
        }
    }

    /// Drops a message that this service does not hear: counted (`messages_dropped`), and told to the operator, at most once a second. By default
    /// [`lane_message`](crate::StreamService::lane_message) does this with each.
    pub fn drop_message(&mut self, message: T::Message) {
        self.count(ServiceCounter::MessagesDropped, 1);
        self.report_kind(
            "messages that nobody hears",
            Level::Warn,
            "it was sent a message and hears none, so that is dropped: remedy: have it hear them (lane_message, or Serve::hearing), or send none; all are counted in messages_dropped",
        );
        drop(message);
    }

    /// Something was refused in this call: if it is for a connection, that waits for room.
    fn refused<M>(&mut self, unheard: Unheard<M>) -> Unheard<M> {
        if let Some(connection) = self.current.filter(|_| unheard.why == Silence::Full) {
            self.post.await_room(connection);
            self.met.full_channel = true;
        }
        unheard
    }

    /// Replies to a question. If the asker has gone, nothing happens.
    pub fn reply(&mut self, call: Call<T>, answer: T::Answer) {
        self.post.reply(self.kit, call, answer);
    }

    /// Calls [`StreamService::message`](crate::StreamService::message) for a connection of this service on this lane, once this call has
    /// returned; the connection may be the one that this call is for. If it has ended, the notice is lost and counted (`notices_late`). Bytes that `message` writes leave
    /// behind the answers that the connection holds with [`Order::Kept`](crate::Order::Kept).
    pub fn notify(&mut self, id: ConnectionId, notice: T::Notice) {
        self.post.push_notice(notice);
        self.tell(id, Notice::Message);
    }

    /// The news for the connection of this call.
    pub(crate) fn take_notice(&mut self) -> T::Notice {
        self.post.take_notice()
    }

    /// There is room again for what the service was refused: it is called again with what the inputs of those connections hold.
    pub(crate) fn resume_waiting(&mut self) {
        for connection in self.post.take_waiting().keys() {
            self.tell(connection, Notice::Resume);
        }
    }

    /// The next news for the service.
    pub(crate) fn next_told(&mut self) -> Option<News<T>> {
        self.post.next(self.lane())
    }
}
