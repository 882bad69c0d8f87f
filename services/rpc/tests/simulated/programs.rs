//! Programs that tests call: one that answers later, in every way, and one whose calls must not be carried out twice.

use corelane::Cx;
use corelane::service::{Origin, Outcome, Says, Segment, Talk, Unheard};
use corelane_rpc::{Answered, Call, Held, Program, Unanswered};
use corelane_wire::Error;
use corelane_wire::rpc::{self, AuthStatus, Denial, Owed, Refusal, Reply, Verdict};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub const SLOW: rpc::Program = rpc::Program { number: 0x2000_0100, low: 2, high: 3 };
/// Answers its argument later, from a helper thread's completion.
pub const BY_HELPER: u32 = 1;
/// The same by way of another lane.
pub const BY_ANOTHER_LANE: u32 = 2;
/// The same with an opaque argument of any length, as a lease.
pub const WITH_DATA: u32 = 3;
/// Is held and never answered.
pub const NEVER: u32 = 4;
/// Is held as long as its connection is there, and never answered.
pub const STAYS: u32 = 8;
/// Panics.
pub const PANIC: u32 = 5;
/// The service fails.
pub const FAILS: u32 = 6;

/// Denies the call with the `auth_stat` of its argument.
pub const DENIES: u32 = 7;

/// What is to be answered later.
enum Answer {
    Number(u32),
    Data(Segment),
}

#[derive(Default)]
pub struct Slow {
    held: BTreeMap<u32, (Held, Answer)>,
    next: u32,
}

/// What goes to another lane and comes back.
pub struct Errand {
    home: usize,
    call: u32,
    is_done: bool,
}

/// What [`Slow`] says to itself.
pub type Errands = Says<Errand>;

impl Slow {
    fn keep(&mut self, held: Held, answer: Answer) -> u32 {
        self.next += 1;
        self.held.insert(self.next, (held, answer));
        self.next
    }

    fn answer(&mut self, cx: &mut Cx<'_, Errands>, call: u32) {
        match self.held.remove(&call).unwrap() {
            (held, Answer::Number(number)) => held.answer(cx, &number),
            (held, Answer::Data(data)) => held.answer_with_data(cx, &(data.len() as u32), data),
        }
    }

    /// Sends an errand on its way; where the channel is full, or there is no other lane, it is done at once.
    fn send(&mut self, cx: &mut Cx<'_, Errands>, lane: usize, errand: Errand) {
        if let Err(Unheard { word: errand, .. }) = cx.send(lane, errand) {
            assert_eq!(errand.home, cx.lane(), "the channel holds all calls in flight");
            self.answer(cx, errand.call);
        }
    }
}

impl Program<Errands> for Slow {
    const PROGRAM: rpc::Program = SLOW;

    fn call(&mut self, cx: &mut Cx<'_, Errands>, call: Call<'_>) -> Result<Answered, Unanswered> {
        let procedure = call.procedure();
        if procedure == PANIC {
            panic!("as it was asked to");
        }
        if procedure == FAILS {
            return Err(call.system_error());
        }
        if procedure == DENIES {
            return Err(denied(&call, call.arguments()?));
        }
        let answer = match procedure {
            WITH_DATA => {
                let data: corelane_wire::xdr::Opaque<'_, { 1 << 20 }> = call.arguments()?;
                Answer::Data(call.keep(data.bytes()).unwrap().into())
            }
            BY_HELPER | BY_ANOTHER_LANE | NEVER | STAYS => Answer::Number(call.arguments()?),
            _ => return Err(call.procedure_unavailable()),
        };
        let (held, answered) = call.hold(cx)?;
        let number = self.keep(held, answer);
        match procedure {
            BY_ANOTHER_LANE => {
                let errand = Errand { home: cx.lane(), call: number, is_done: false };
                self.send(cx, (cx.lane() + 1) % cx.lanes(), errand);
            }
            NEVER => drop(self.held.remove(&number)),
            STAYS => {}
            _ => cx.offload(|| (), Self::token(number)),
        }
        Ok(answered)
    }

    fn completed(&mut self, cx: &mut Cx<'_, Errands>, token: u32, _outcome: Outcome) {
        self.answer(cx, token);
    }

    fn lane_message(&mut self, cx: &mut Cx<'_, Errands>, _: Origin, mut errand: Errand) -> Result<(), Errand> {
        if errand.is_done {
            self.answer(cx, errand.call);
        } else {
            errand.is_done = true;
            let home = errand.home;
            self.send(cx, home, errand);
        }
        Ok(())
    }
}

/// A refusal of the program's own.
fn denied(call: &Call<'_>, status: AuthStatus) -> Unanswered {
    let verdict = Verdict::Denied(Denial::Authentication(status));
    Refusal { error: Error::Service, owed: Owed::Answer(Reply { xid: call.xid(), verdict }) }.into()
}

pub const ONCE: rpc::Program = rpc::Program { number: 0x2000_0101, low: 1, high: 1 };
/// Adds its argument, and answers with the sum.
pub const ADD: u32 = 1;
/// The same, answered later.
pub const ADD_LATER: u32 = 2;
/// The same, with an answer that is too long to be kept.
pub const ADD_AT_LENGTH: u32 = 3;
/// The same as the one that is answered later, but adds before it is held.
pub const HOLD_AFTER: u32 = 4;

/// How often each number was added.
pub type Added = Rc<RefCell<BTreeMap<u32, u32>>>;

pub struct Once {
    added: Added,
    held: BTreeMap<u32, Held>,
}

impl Once {
    pub fn new(added: &Added) -> Self {
        Self { added: added.clone(), held: BTreeMap::new() }
    }
}

impl<T: Talk> Program<T> for Once {
    const PROGRAM: rpc::Program = ONCE;

    fn call(&mut self, cx: &mut Cx<'_, T>, call: Call<'_>) -> Result<Answered, Unanswered> {
        let (procedure, number): (u32, u32) = (call.procedure(), call.arguments()?);
        let add = || *self.added.borrow_mut().entry(number).and_modify(|times| *times += 1).or_insert(1);
        match procedure {
            ADD => {
                let times = add();
                Ok(call.answer(cx, &(number, times)))
            }
            ADD_AT_LENGTH => {
                add();
                Ok(call.answer(cx, &[7; 2000]))
            }
            ADD_LATER => {
                let (held, answered) = call.hold(cx)?;
                add();
                self.held.insert(number, held);
                cx.offload(|| (), <Self as Program<T>>::token(number));
                Ok(answered)
            }
            HOLD_AFTER => {
                add();
                let (held, answered) = call.hold(cx)?;
                self.held.insert(number, held);
                cx.offload(|| (), <Self as Program<T>>::token(number));
                Ok(answered)
            }
            _ => Err(call.procedure_unavailable()),
        }
    }

    fn is_once_only(&self, _version: u32, _procedure: u32) -> bool {
        true
    }

    fn completed(&mut self, cx: &mut Cx<'_, T>, token: u32, _outcome: Outcome) {
        if let Some(held) = self.held.remove(&token) {
            let times = self.added.borrow()[&token];
            held.answer(cx, &(token, times));
        }
    }
}
