//! The life of connections as far as it reaches beyond them: the calls into their services, their pairs, their endings.
//!
//! Each event of a connection changes that alone (`connection`), and hands back what concerns more. What follows from it is done here, and calls of a service are made
//! here, because one can end the connection, and its end is a call again.

use crate::connection::deadlines::Limit;
use crate::connection::delivery::Kept;
use crate::connection::events::{Calling, For};
use crate::connection::flush::Reach;
use crate::connection::found::Found;
use crate::connection::machine::Phase;
use crate::connection::passage::{Broken, Follows};
use crate::service::face::{Callback, StreamFace};
use crate::services::served::Served;
use crate::table::LaneTable;
use crate::table::notices::{Note, Notice};
use crate::words::class;
use crate::words::names::{ConnectionId, Ending, Order, Peer};
use crate::words::ticket::Name;
use crate::words::transform::Side;
use corelane_lane::Kit;
use corelane_rss::Protocol;
use corelane_seam::{Address, Chain, Fault, Handle, Level, Op, Reason, Record, Socket};
use corelane_watch::ServiceCounter;
use std::sync::Arc;

/// Notices worked off in one turn: what they cause themselves waits for the next one.
const NOTICES_PER_TURN: usize = 4096;

impl Served {
    /// A receive has ended with a fault, which the connection knows of.
    pub(crate) fn receive_failed(&mut self, kit: &mut Kit, index: u32, fault: Fault) {
        match fault.reason {
            // Stopped, or for want of memory: then what is there is still to be received.
            Reason::Cancelled | Reason::NoMemory => self.table.there(index).mark_dirty(),
            _ => self.end_by_fault(kit, index, fault),
        }
    }

    /// Calls the service for every connection that has something for it.
    pub(crate) fn serve_ready(&mut self, kit: &mut Kit) {
        for _ in 0..self.table.agenda.count_ready() {
            let index = self.table.agenda.next_ready();
            self.serve_one(kit, index);
        }
    }

    fn serve_one(&mut self, kit: &mut Kit, index: u32) {
        // It may have gone since it was marked, and another that was not have its place.
        let Some(mut found) = self.table.at(index) else { return };
        if !found.take_ready() {
            return;
        }
        if found.connection.is_to_pass() {
            if found.put_off() {
                return;
            }
            if let Some(follows) = found.pass_input(kit) {
                self.follow(kit, index, follows);
                found = self.table.there(index);
            }
        }
        if let Some(calling) = found.begin_receive(kit) {
            self.call_service(kit, calling, Callback::Receive);
        }
    }

    /// Calls into the service with the connection's input and output, and does what it wants next.
    pub(crate) fn call(&mut self, kit: &mut Kit, index: u32, call: Callback) {
        let calling = self.table.there(index).begin_call(kit);
        self.call_service(kit, calling, call);
    }

    fn call_service(&mut self, kit: &mut Kit, mut calling: Calling, call: Callback) {
        let id = calling.about.id;
        // Only a notice to one without a session may be left to drop.
        let Some(session) = calling.session else { return self.drop_call(kit, calling, &call) };
        let what = match call {
            Callback::Receive => For::Input,
            Callback::Drained => For::Drained,
            _ => For::Other,
        };
        let (about, input, output) = calling.parts();
        let (next, met) = self.fenced_call(kit, about, |face, cx| face.call(cx, session, call, input, output));
        if let Some(ending) = self.table.there(id.index).end_call(kit, calling, what, met, next) {
            self.end(kit, id.index, ending);
        }
    }

    /// The connection was given up before it was open, or has ended.
    fn drop_call(&mut self, kit: &mut Kit, calling: Calling, call: &Callback) {
        let (id, service) = (calling.about.id, calling.about.service);
        self.table.there(id.index).put_back(calling);
        if let Callback::Message = call {
            self.service_call(kit, service, |face, _| face.drop_notice());
        }
    }

    /// Works off what connections were told by others, by timers, and by tickets.
    #[inline]
    pub(crate) fn serve_notices(&mut self, kit: &mut Kit) {
        for _ in 0..NOTICES_PER_TURN.min(self.table.notices.len()) {
            let note = self.table.notices.take_next();
            self.serve_notice(kit, note);
        }
    }

    // Apart, so that a turn without notices pays only for the check.
    #[inline(never)]
    fn serve_notice(&mut self, kit: &mut Kit, Note { to: id, from, notice }: Note) {
        if let Notice::Answer { ticket, answer } = notice {
            return self.table.serve_answer(kit.now(), id, from, ticket, answer);
        }
        let LaneTable { connections, services, agenda, .. } = &mut self.table;
        let found = Found::named(connections, services, agenda, id);
        let is_foreign = found.as_ref().is_some_and(|found| found.connection.service() != from);
        services[from as usize].row.add(ServiceCounter::NoticesRefused, is_foreign.into());
        let own = found.filter(|_| !is_foreign);
        // Whoever breaks off may do so until the end.
        let is_heard = |found: &Found<'_>| found.connection.machine().takes_notices() || matches!(notice, Notice::Abort);
        let Some(mut found) = own.filter(is_heard) else { return self.lose_notice(kit, from, is_foreign, notice) };
        match notice {
            Notice::Message => {
                let calling = found.begin_call(kit);
                self.call_service(kit, calling, Callback::Message);
            }
            Notice::Timer(token) => {
                let calling = found.begin_call(kit);
                self.call_service(kit, calling, Callback::Timer(token));
            }
            Notice::Resume => found.resume(kit),
            Notice::Finish => found.say_no_more(),
            Notice::Close => self.end(kit, id.index, Ending::Completed),
            Notice::Abort => self.end(kit, id.index, Ending::Aborted),
            Notice::Answer { .. } => unreachable!("an answer reaches connections of other services, too"),
        }
    }

    /// The connection that was to be told is gone, or hears no more, or is another service's.
    fn lose_notice(&mut self, kit: &mut Kit, from: u16, is_foreign: bool, notice: Notice) {
        if let Notice::Message = notice {
            self.table.count(from, ServiceCounter::NoticesLate, (!is_foreign).into());
            self.service_call(kit, from, |face, _| face.drop_notice());
        }
    }

    /// Counts tickets that were dropped, and ends connections that would wait for them for ever.
    pub(crate) fn settle_lost_tickets(&mut self, kit: &mut Kit) {
        let Some(lost) = self.table.agenda.take_lost() else { return };
        for (id, ticket) in lost {
            let Some(mut found) = self.table.found(id).filter(|found| found.connection.machine().takes_notices()) else {
                continue;
            };
            if found.forget_void(ticket) {
                continue;
            }
            found.count(ServiceCounter::TicketsDropped, 1);
            match ticket.order {
                Order::Kept => self.end(kit, id.index, Ending::Aborted),
                Order::Any => drop(found.answered(kit.now(), ticket, Chain::new())),
            }
        }
    }

    /// Gives a newly opened connection its transform, if its service has one; otherwise the service gets the connection at once.
    pub(crate) fn begin(&mut self, kit: &mut Kit, index: u32) {
        let mut found = self.table.there(index);
        let side = if found.connection.machine().is_outgoing() { Side::Client } else { Side::Server };
        let (about, peer) = (found.begin_about(), found.connection.ends().clone());
        match self.fenced_call(kit, &about, |face, _| face.transform(side, &peer)).0 {
            None => self.end(kit, index, Ending::Aborted),
            Some(None) => self.hand_over(kit, index),
            Some(Some(transform)) => {
                self.table.there(index).begin_handshake(kit, transform);
                self.table.agenda.parking().look_for_parked(kit);
            }
        }
    }

    /// The service gets a connection that is open.
    fn hand_over(&mut self, kit: &mut Kit, index: u32) {
        if !self.table.connections.has_session(index) {
            return self.open_session(kit, index);
        }
        let pair = self.table.there(index).connection.pair();
        self.adopt_session(kit, index);
        self.call(kit, index, Callback::Connected);
        self.table.there(index).mark_dirty();
        if let Some(mut other) = pair.and_then(|pair| self.table.found(pair)) {
            other.mark_dirty();
        }
    }

    fn open_session(&mut self, kit: &mut Kit, index: u32) {
        let mut found = self.table.there(index);
        let (about, peer) = (found.begin_about(), found.connection.ends().clone());
        let session = self.fenced_call(kit, &about, |face: &mut dyn StreamFace, cx| face.open(cx, &peer)).0;
        self.begin_session(kit, index, session);
        if self.table.is_handed_over() {
            self.tell_handed_over(kit, index);
        }
    }

    fn adopt_session(&mut self, kit: &mut Kit, index: u32) {
        // A panic of its service may have ended it, and dropped that, before.
        let Some(session) = self.table.connections.take_session(index) else { return };
        let session = self.connection_call(kit, index, |face, _| face.adopt(session)).flatten();
        self.begin_session(kit, index, session);
    }

    /// Gives a connection its session; without one, or after a panic, it ends.
    fn begin_session(&mut self, kit: &mut Kit, index: u32, session: Option<u32>) {
        self.table.there(index).connection.place_session(session);
        if session.is_none() {
            self.end(kit, index, Ending::Aborted);
        }
    }

    /// Tells the service of a connection that was accepted that another process serves in its place; one in its handshake is told when it opens.
    pub(crate) fn tell_handed_over(&mut self, kit: &mut Kit, index: u32) {
        let found = self.table.there(index);
        let machine = found.connection.machine();
        if machine.is_outgoing() || !machine.serves_input() || found.connection.session().is_none() {
            return;
        }
        self.call(kit, index, Callback::HandedOver);
        self.table.there(index).mark_dirty();
    }

    /// Does what follows from passing a connection's input.
    fn follow(&mut self, kit: &mut Kit, index: u32, follows: Follows) {
        match follows {
            Follows::Opens => self.hand_over(kit, index),
            Follows::Leaves(pair) => self.table.there(pair.index).mark_dirty(),
            Follows::Breaks(broken) => drop(self.break_off(kit, index, broken)),
        }
    }

    /// Ends a connection whose bytes pass no more; returns whether something of it still leaves.
    fn break_off(&mut self, kit: &mut Kit, index: u32, broken: Broken) -> bool {
        match broken {
            Broken::Refused(pair) => {
                if let Some(pair) = pair {
                    self.leave_pair(kit, index, pair, Ending::Aborted);
                }
                return true;
            }
            Broken::Panicked(words) => {
                let about = self.table.there(index).begin_about();
                self.table.report_panic_of(kit, &about, &words);
                self.end(kit, index, Ending::Aborted);
            }
            Broken::File(fault) => self.end_by_fault(kit, index, fault),
        }
        false
    }

    /// Ends a connection. `Completed` and `Closing` let the output leave first; the others end it now.
    pub(crate) fn end(&mut self, kit: &mut Kit, index: u32, ending: Ending) {
        let mut found = self.table.there(index);
        let machine = found.connection.machine();
        match machine.phase() {
            Phase::Ended => {}
            Phase::Opening => self.close_now(kit, index, ending),
            _ if machine.is_gentle(ending) => found.close_behind(kit, ending),
            _ => self.close_now(kit, index, ending),
        }
    }

    /// Tells the service, and submits the close; the entry is free when that has completed. Nothing if it has ended.
    pub(crate) fn close_now(&mut self, kit: &mut Kit, index: u32, ending: Ending) {
        // The service gets the session of a connection that it was opening only now, to be told of the end.
        self.adopt_session(kit, index);
        let mut found = self.table.there(index);
        if found.connection.machine().has_ended() {
            return;
        }
        let (session, pair) = found.end(kit, ending);
        if let Some(session) = session {
            self.connection_call(kit, index, |face, cx| face.closed(cx, session, ending));
        }
        self.table.end_timers(kit, index);
        self.table.there(index).drop_box();
        if let Some(pair) = pair {
            self.leave_pair(kit, index, pair, ending);
        }
    }

    /// One of a pair has ended: the other ends with it, or goes on alone after an end of stream.
    fn leave_pair(&mut self, kit: &mut Kit, index: u32, pair: ConnectionId, ending: Ending) {
        let own = self.table.there(index).id;
        // While the service was told, it may have ended, or been coupled with another.
        if self.table.found(pair).is_some_and(|mut other| other.lose_pair(own, ending)) {
            self.end(kit, pair.index, Ending::Closing);
        }
    }

    /// An outgoing connection is open.
    pub(crate) fn opened(&mut self, kit: &mut Kit, index: u32, socket: Socket, peer: Address, local: Address) {
        let flow = self.table.flow(&peer, &local, Protocol::TCP);
        let ends = Peer { address: peer, local: Arc::new(local), flow, learned: None };
        let mut found = self.table.there(index);
        let service = found.connection.service();
        if found.opened(kit, socket, ends) {
            self.table.count_home(service, flow, kit.lane());
            self.begin(kit, index);
            self.table.there(index).mark_dirty();
        }
    }

    /// Ends a connection whose socket failed; its service may ask why.
    pub(crate) fn end_by_fault(&mut self, kit: &mut Kit, index: u32, fault: Fault) {
        self.table.set_fault(Some(fault));
        self.end(kit, index, Ending::Error);
        self.table.set_fault(None);
    }

    /// A connection's timer has come.
    pub(crate) fn deadline_came(&mut self, kit: &mut Kit, handle: Handle) {
        let id = ConnectionId { index: handle.index(), generation: handle.generation() };
        // It may have gone in the turn in which the timer came.
        if let Some(limit) = self.table.found(id).and_then(|mut found| found.timer_came(kit)) {
            self.limit_passed(kit, id.index, limit);
        }
    }

    fn limit_passed(&mut self, kit: &mut Kit, index: u32, limit: Limit) {
        let (counter, ending) = match limit {
            Limit::Connect => return self.table.opening_timed_out(kit, index),
            Limit::Ticket => return self.ticket_expired(kit, index),
            // The system knows what the peer has taken.
            Limit::Send | Limit::Linger => return self.table.there(index).ask_of_delivery(),
            Limit::Handshake => (ServiceCounter::HandshakeLimitHits, Ending::Aborted),
            Limit::Idle if self.looks_first(kit, index) => return,
            Limit::Idle => (ServiceCounter::IdleLimitHits, Ending::Closing),
            Limit::Read => (ServiceCounter::ReadLimitHits, Ending::Aborted),
            Limit::Rate => (ServiceCounter::ReceiveRateMinHits, Ending::Aborted),
            Limit::Answer => (ServiceCounter::AnswerLimitHits, Ending::Aborted),
            Limit::Drain => (ServiceCounter::DrainDeadlineHits, Ending::Closing),
        };
        let found = self.table.there(index);
        found.count(counter, 1);
        let service = found.connection.service();
        match limit {
            Limit::Read | Limit::Rate => self.end_overdue(kit, index),
            _ => self.end(kit, index, ending),
        }
        if limit == Limit::Answer {
            self.table.tell_of_unanswered(kit, service);
        }
        self.table.there(index).set_deadline(kit);
    }

    /// Whether the system is asked first what it has passed on by itself.
    fn looks_first(&mut self, kit: &mut Kit, index: u32) -> bool {
        let pair = self.table.there(index).connection.pair();
        let other = pair.and_then(|pair| self.table.found(pair)).and_then(|other| other.connection.socket());
        self.table.there(index).looks_first(kit, other)
    }

    /// What the peer has begun to send did not come in time: the service may say so to it.
    fn end_overdue(&mut self, kit: &mut Kit, index: u32) {
        if self.table.there(index).connection.machine().serves_input() {
            self.call(kit, index, Callback::Overdue);
        }
        // It goes on no more, whatever the service wants.
        let phase = self.table.there(index).connection.machine().phase();
        if matches!(phase, Phase::Handshake | Phase::Open) {
            self.end(kit, index, Ending::Aborted);
        }
    }

    /// A ticket of the connection has expired: its service decides what follows.
    fn ticket_expired(&mut self, kit: &mut Kit, index: u32) {
        let (ticket, token) = self.table.there(index).expire_ticket(kit.now());
        self.call(kit, index, Callback::Expired(ticket, token));
        // The call may have ended it.
        if let Some(mut found) = self.table.at(index) {
            found.set_deadline(kit);
        }
    }

    /// Flushes every connection that was touched this turn. What that touches itself is flushed in the next one.
    pub(crate) fn flush_dirty(&mut self, kit: &mut Kit) {
        for _ in 0..self.table.agenda.count_dirty() {
            let index = self.table.agenda.next_dirty();
            self.flush_one(kit, index);
        }
    }

    fn flush_one(&mut self, kit: &mut Kit, index: u32) {
        let LaneTable { connections, services, agenda, requests, .. } = &mut self.table;
        // It may have gone since it was marked, and another that was not have its place.
        let Some((mut found, mut others)) = Found::among(connections, services, agenda, index) else { return };
        if !found.take_dirty() {
            return;
        }
        if let Some(reach) = found.flush(kit, &mut others, requests) {
            self.reach_out(kit, index, reach);
        }
    }

    /// Does what reaches beyond a connection, until it rests.
    // Apart, because seldom a request has any of it.
    #[inline(never)]
    fn reach_out(&mut self, kit: &mut Kit, index: u32, first: Reach) {
        let mut next = Some(first);
        while let Some(reach) = next {
            next = match self.reach(kit, index, reach) {
                true => self.table.steps_of(kit, index),
                false => return self.table.there(index).come_to_rest(kit),
            };
        }
    }

    /// Does one such thing; true if the connection's state must be asked again.
    fn reach(&mut self, kit: &mut Kit, index: u32, reach: Reach) -> bool {
        match reach {
            Reach::Breaks(broken) => {
                let leaves = self.break_off(kit, index, broken);
                if leaves {
                    self.table.there(index).send(kit);
                }
                leaves
            }
            Reach::Calls(calling) => {
                self.call_service(kit, calling, Callback::Drained);
                true
            }
            Reach::Ends(ending) => {
                self.close_now(kit, index, ending);
                false
            }
            Reach::EndsWith(pair) => {
                self.end(kit, index, Ending::EndOfStream);
                self.end(kit, pair.index, Ending::EndOfStream);
                false
            }
            Reach::TakesLeaveOf(pair) => {
                self.take_leave_of_pair(kit, index, pair);
                false
            }
        }
    }

    /// The transform of the other of a pair says its last word before our side finishes.
    fn take_leave_of_pair(&mut self, kit: &mut Kit, index: u32, pair: ConnectionId) {
        let mut other = self.table.there(pair.index);
        let left = other.take_leave(kit);
        other.mark_dirty();
        match left {
            Ok(false) => {}
            Ok(true) => self.table.there(index).mark_dirty(),
            Err(broken) => {
                self.break_off(kit, pair.index, broken);
                self.table.there(index).mark_dirty();
            }
        }
    }

    /// Judges those of which the system was asked what their peers have not taken.
    pub(crate) fn judge_deliveries(&mut self, kit: &mut Kit) {
        while let Some((id, kept)) = self.table.agenda.next_answer() {
            // Where it does not tell, what it took counts as taken.
            let held = kept.unsent.unwrap_or(0);
            // It may have ended since.
            let Some(found) = self.table.found(id) else { continue };
            match found.connection.machine().phase() {
                Phase::Parting => self.judge_parting(kit, id.index, kept),
                Phase::Lingering => self.judge_lingering(kit, id.index, held),
                Phase::Ended => {}
                _ => self.judge_delivery(kit, id.index, held),
            }
        }
    }

    /// Ends those that were broken off while nothing of theirs was under way.
    pub(crate) fn end_broken(&mut self, kit: &mut Kit) {
        while let Some((id, why)) = self.table.agenda.next_broken() {
            // It may have gone since.
            if self.table.found(id).is_some() {
                self.end_by_fault(kit, id.index, why);
            }
        }
    }

    fn judge_delivery(&mut self, kit: &mut Kit, index: u32, held: usize) {
        let mut found = self.table.there(index);
        if found.judge_delivery(kit.now(), held) {
            found.set_deadline(kit);
            return found.time_deafness(kit);
        }
        found.count(ServiceCounter::SendLimitHits, 1);
        self.table.set_fault(Some(Fault::of(Reason::TimedOut)));
        self.end(kit, index, Ending::Aborted);
        self.table.set_fault(None);
    }

    fn judge_parting(&mut self, kit: &mut Kit, index: u32, kept: Kept) {
        let mut found = self.table.there(index);
        if !kept.is_nothing() {
            return found.linger(kit);
        }
        // reason: what parts has its ending.
        let ending = found.connection.machine().ending().expect("what parts has its ending");
        self.close_now(kit, index, ending);
    }

    fn judge_lingering(&mut self, kit: &mut Kit, index: u32, held: usize) {
        let mut found = self.table.there(index);
        if found.judge_lingering(kit, held) {
            return found.set_deadline(kit);
        }
        found.count(ServiceCounter::LingerLimitHits, 1);
        // reason: what lingers has its ending.
        let ending = found.connection.machine().ending().expect("what lingers has its ending");
        self.close_now(kit, index, ending);
    }
}

impl LaneTable {
    /// An answer to a held request. It may come from whoever has the ticket; nothing else reaches the connections of other services.
    fn serve_answer(&mut self, now: u64, id: ConnectionId, from: u16, ticket: Name, answer: Chain) {
        let found = self.found(id).filter(|found| found.connection.machine().takes_notices());
        let is_in_time = found.is_some_and(|mut found| found.answered(now, ticket, answer));
        self.count(from, ServiceCounter::AnswersLate, (!is_in_time).into());
    }

    /// A service that never answers what it holds is at fault: reported once.
    fn tell_of_unanswered(&mut self, kit: &mut Kit, service: u16) {
        let state = &mut self.services[service as usize];
        if std::mem::replace(&mut state.told_of_unanswered, true) {
            return;
        }
        let (lane, limit, service) = (kit.lane(), state.limits.answer_limit.as_millis(), state.shown(service));
        let words = format!(
            "lane {lane}, {service}: a held request had no answer within {limit} ms (answer_limit), and its connection is ended; others are counted in answer_limit_hits"
        );
        kit.report(Record::new(Level::Warn, words).naming_lane(lane));
    }

    /// The connect is cancelled; its completion, whichever it is, frees the entry.
    fn opening_timed_out(&mut self, kit: &mut Kit, index: u32) {
        assert!(self.connections.there(index).machine().phase() == Phase::Opening, "only what is being opened is given up so");
        let target = self.connections.handle(class::CONNECTION, index);
        kit.submit(target, Op::Cancel { target });
    }

    /// Takes the steps of a connection that reached beyond itself.
    fn steps_of(&mut self, kit: &mut Kit, index: u32) -> Option<Reach> {
        let LaneTable { connections, services, agenda, .. } = self;
        let found = Found::among(connections, services, agenda, index);
        // reason: it has its entry until its socket is closed.
        let (mut found, mut others) = found.expect("a connection is there until its socket is closed");
        found.take_steps(kit, &mut others)
    }
}
