//! What is said between lanes at the edges: where replies wait for room, and where a lane has no such service.

use crate::rig::{MS, Nobody, Rig, RigPlan, patient};
use corelane_lane::Silence;
use corelane_sim::{Faults, World};
use corelane_svc::{Asking, Call, Cx, Input, Lost, Next, Origin, Output, Peer, StreamService};
use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

/// Questions that lane 1 asks lane 0.
const QUESTIONS: usize = 30;

enum Talk {}

impl corelane_svc::Talk for Talk {
    type Message = ();
    type Question = ();
    type Answer = ();
    type Notice = Infallible;
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Book {
    /// Replies that came, and why others did not.
    replies: usize,
    lost: Vec<Lost>,
    /// How often lane 0 was told of room.
    rooms: usize,
    /// Messages that lane 1 heard.
    messages: usize,
}

/// Lane 1 asks; lane 0 replies to all at once, and has a message for lane 1.
#[derive(Default)]
struct Clerk {
    calls: Vec<Call<Talk>>,
    left: usize,
    book: Rc<RefCell<Book>>,
}

impl Clerk {
    fn new(lane: usize, book: &Rc<RefCell<Book>>) -> Self {
        Self { calls: Vec::new(), left: lane * QUESTIONS, book: book.clone() }
    }

    fn ask(&mut self, cx: &mut Cx<'_, Talk>) {
        while self.left > 0 {
            match cx.ask(0, ()) {
                Err(unheard) if unheard.why == Silence::Full => return,
                outcome => self.book.borrow_mut().lost.extend(outcome.err().map(|_| Lost::Gone)),
            }
            self.left -= 1;
        }
    }
}

impl StreamService for Clerk {
    type Talk = Talk;
    type Session = ();

    fn started(&mut self, cx: &mut Cx<'_, Talk>) {
        self.ask(cx);
    }

    fn open(&mut self, _: &mut Cx<'_, Talk>, _: &Peer) {}

    fn receive(&mut self, _: &mut Cx<'_, Talk>, (): &mut (), _: &mut Input, _: &mut Output) -> Next {
        Next::Close
    }

    fn asked(&mut self, cx: &mut Cx<'_, Talk>, _: Origin, (): (), call: Call<Talk>) {
        self.calls.push(call);
        if self.calls.len() == QUESTIONS {
            self.calls.drain(..).for_each(|call| cx.reply(call, ()));
            assert_eq!(cx.send(1, ()).unwrap_err().why, Silence::Full, "replies that wait go first");
        }
    }

    fn replied(&mut self, _: &mut Cx<'_, Talk>, _: Asking, outcome: Result<(), Lost>) {
        let mut book = self.book.borrow_mut();
        book.replies += usize::from(outcome.is_ok());
        book.lost.extend(outcome.err());
    }

    fn room(&mut self, cx: &mut Cx<'_, Talk>, lane: usize) {
        if cx.lane() == 0 {
            self.book.borrow_mut().rooms += 1;
            let _ = cx.send(lane, ());
        }
        self.ask(cx);
    }

    fn lane_message(&mut self, _: &mut Cx<'_, Talk>, _: Origin, (): ()) {
        self.book.borrow_mut().messages += 1;
    }
}

/// Two lanes with channels for three messages.
fn clerks(book: &Rc<RefCell<Book>>) -> Rig {
    let mut plan = RigPlan::lanes(2);
    plan.settings.channel_messages = 3;
    Rig::new(&World::new(1, Faults::none()), &plan, |roster| roster.client(patient(), Clerk::new(roster.lane(), book)))
}

#[test]
fn who_was_refused_room_is_told_of_it_when_the_replies_that_wait_have_gone() {
    let book = Rc::<RefCell<Book>>::default();
    let mut rig = clerks(&book);
    rig.wait(5 * MS);
    let Book { replies, rooms, messages, .. } = *book.borrow();
    assert_eq!((replies, messages), (QUESTIONS, 1));
    assert!(rooms <= 2, "it was told of room {rooms} times while replies waited");
    rig.close(&mut Nobody);
}

/// Again and again nothing is on its way between the lanes, and one waits for more.
#[test]
fn a_drain_waits_for_replies_that_wait_for_room() {
    let book = Rc::<RefCell<Book>>::default();
    let mut rig = clerks(&book);
    rig.close(&mut Nobody);
    assert_eq!((book.borrow().replies, &book.borrow().lost[..]), (QUESTIONS, &[][..]));
}

#[test]
fn a_lane_without_the_service_has_gone_for_those_on_other_lanes() {
    let (world, book) = (World::new(1, Faults::none()), Rc::<RefCell<Book>>::default());
    let mut rig = Rig::new(&world, &RigPlan::lanes(2), |roster| match roster.lane() {
        0 => roster.tune(|_| {}),
        lane => roster.client(patient(), Clerk::new(lane, &book)),
    });
    rig.wait(5 * MS);
    assert_eq!(*book.borrow(), Book { lost: vec![Lost::Gone; QUESTIONS], ..Book::default() });
    let remote = rig.exchange.remote::<Talk>(0, 1).unwrap();
    assert_eq!(remote.send(0, ()).unwrap_err().why, Silence::Gone);
    rig.close(&mut Nobody);
}
