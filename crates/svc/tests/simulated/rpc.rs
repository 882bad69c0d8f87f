//! A program in the manner of ONC RPC: records with a length, answers in any order, from wherever they come.

use crate::echo::pattern;
use crate::for_seeds;
use crate::rig::Talker;
use crate::rig::{Family, Rig, RigPlan, patient};
use corelane_lane::Unheard;
use corelane_seam::Chain;
use corelane_sim::{Faults, Random, Report, World};
use corelane_svc::{Hold, Input, Next, Order, Origin, Output, Peer, StreamService, Ticket};
use corelane_watch::{LaneCounter, ServiceCounter as C};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

/// A record: length of what follows, number of the call, how it is to be answered, payload.
const HEAD: usize = 9;

/// How a call is answered.
pub const IN_THE_CALL: u8 = 0;
pub const WITHOUT_TICKET: u8 = 1;
const BY_TIMER: u8 = 2;
const BY_MESSAGE: u8 = 3;
const BY_ANOTHER_LANE: u8 = 4;
const BY_HELPER: u8 = 5;
const WAYS: u64 = 6;

#[derive(Default)]
pub struct Program {
    calls: BTreeMap<u64, (Ticket, Vec<u8>)>,
    next: u64,
}

/// What goes to another lane and comes back.
pub struct Errand {
    home: usize,
    call: u64,
    is_done: bool,
}

/// A call that a connection is told to answer itself.
pub struct Own(u64);

/// What programs say.
pub enum Talk {}

impl corelane_svc::Talk for Talk {
    type Message = Errand;
    type Question = Infallible;
    type Answer = Infallible;
    type Notice = Own;
}

type Cx<'a> = corelane_svc::Cx<'a, Talk>;

/// The answer to a call, in the memory that its ticket keeps.
fn chain_of(cx: &Cx<'_>, ticket: &mut Ticket, record: &[u8]) -> Chain {
    let mut writer = cx.answer_writer(ticket);
    writer.put(record).and_then(|()| writer.finish()).expect("memory is kept for it")
}

impl Program {
    fn answer(&mut self, cx: &mut Cx<'_>, call: u64) {
        let (mut ticket, record) = self.calls.remove(&call).unwrap();
        let answer = chain_of(cx, &mut ticket, &record);
        cx.answer_chain(ticket, answer);
    }

    fn call(&mut self, cx: &mut Cx<'_>, output: &mut Output, mut ticket: Ticket, record: Vec<u8>) {
        let way = record[8];
        if way == IN_THE_CALL {
            let answer = chain_of(cx, &mut ticket, &record);
            return output.answer(ticket, answer).map_err(drop).unwrap();
        }
        self.next += 1;
        let call = self.next;
        self.calls.insert(call, (ticket, record));
        match way {
            BY_TIMER => drop(cx.start_timer(Duration::from_millis(call % 7), call).unwrap()),
            BY_MESSAGE => cx.notify(cx.id(), Own(call)),
            BY_HELPER => cx.offload(|| 7u8, call),
            BY_ANOTHER_LANE => self.send(cx, (cx.lane() + 1) % cx.lanes(), Errand { home: cx.lane(), call, is_done: false }),
            _ => panic!("no such way: {way}"),
        }
    }

    /// Sends an errand on its way; where the channel is full it is done at once, or given back by the next message.
    fn send(&mut self, cx: &mut Cx<'_>, lane: usize, errand: Errand) {
        if let Err(Unheard { word: errand, .. }) = cx.send(lane, errand) {
            match errand.home == cx.lane() {
                true => self.answer(cx, errand.call),
                false => panic!("the way back is full: the channel must hold all calls in flight"),
            }
        }
    }
}

impl StreamService for Program {
    type Talk = Talk;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while !input.is_empty() {
            if input.len() < 4 {
                return Next::Need(4 - input.len());
            }
            let Some(head) = input.contiguous(4) else { break };
            let bytes = 4 + u32::from_be_bytes(head.try_into().unwrap()) as usize;
            if input.len() < bytes {
                return Next::Need(bytes - input.len());
            }
            let Some(record) = input.contiguous(bytes).map(<[u8]>::to_vec) else { break };
            if record[8] == WITHOUT_TICKET {
                if !output.ask_room() || output.write(&record).is_err() {
                    break;
                }
            } else {
                let Ok(ticket) = output.hold(Hold::new(Order::Any).reserve(bytes)) else { break };
                self.call(cx, output, ticket, record);
            }
            input.skip(bytes);
            cx.count_requests(1);
        }
        Next::Continue
    }

    fn timer(&mut self, cx: &mut Cx<'_>, _session: &mut (), output: &mut Output, token: u64) -> Next {
        let (mut ticket, record) = self.calls.remove(&token).unwrap();
        let answer = chain_of(cx, &mut ticket, &record);
        output.answer(ticket, answer).map_err(drop).unwrap();
        Next::Continue
    }

    fn message(&mut self, cx: &mut Cx<'_>, _session: &mut (), _output: &mut Output, Own(call): Own) -> Next {
        self.answer(cx, call);
        Next::Continue
    }

    fn completed(&mut self, cx: &mut Cx<'_>, token: u64, _outcome: corelane_seam::Outcome) {
        self.answer(cx, token);
    }

    fn lane_message(&mut self, cx: &mut Cx<'_>, _from: Origin, mut errand: Errand) {
        if errand.is_done {
            return self.answer(cx, errand.call);
        }
        errand.is_done = true;
        self.send(cx, errand.home, errand);
    }
}

fn records(seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    let record = |number: u32| {
        let most = if random.below(10) == 0 { 20_000 } else { 200 };
        let payload = pattern(seed ^ u64::from(number), random.below(most) as usize);
        let mut record = ((HEAD - 4 + payload.len()) as u32).to_be_bytes().to_vec();
        record.extend(number.to_be_bytes());
        record.push(random.below(WAYS) as u8);
        record.extend(payload);
        record
    };
    (0..40).map(record).collect()
}

/// Cuts what came into records; what is left over was cut off.
fn cut(mut bytes: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut records = Vec::new();
    while let Some(head) = bytes.first_chunk::<4>() {
        let length = 4 + u32::from_be_bytes(*head) as usize;
        let Some((record, rest)) = bytes.split_at_checked(length) else { break };
        records.push(record);
        bytes = rest;
    }
    (records, bytes)
}

fn judge(calls: &[Vec<u8>], talker: &Talker) {
    let (mut answers, rest) = cut(&talker.got);
    answers.sort_unstable_by_key(|answer| answer[4..8].to_vec());
    let numbers: Vec<&[u8]> = answers.iter().map(|answer| &answer[4..8]).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "a call was answered twice");
    for answer in &answers {
        let number = u32::from_be_bytes(answer[4..8].try_into().unwrap()) as usize;
        assert_eq!(calls[number], *answer, "a wrong answer");
    }
    assert!(!talker.is_complete() || (answers.len() == calls.len() && rest.is_empty()), "an answer is missing");
}

pub fn run(seed: u64, faults: Faults, lanes: usize) -> Report {
    let world = World::new(seed, faults);
    let limits = patient().requests_in_flight_max(10);
    let mut rig =
        Rig::serving(&world, &RigPlan::lanes(lanes).memory(32 << 20).family(Family::of(seed)), limits, |_| Program::default());
    let calls: Vec<_> = (0..8).map(|number| records(seed * 100 + number)).collect();
    let talker = |number: usize| Talker::new(rig.connect(number), seed, calls[number].concat());
    let mut talkers: Vec<Talker> = (0..8).map(talker).collect();
    assert!(rig.play(&mut talkers), "clients wait for ever");
    rig.close(&mut talkers);
    for (talker, calls) in talkers.iter().zip(&calls) {
        judge(calls, talker);
        assert!(talker.is_complete() || faults != Faults::none());
    }
    assert_eq!((rig.count(C::TicketsDropped), rig.count(C::Panics)), (0, 0));
    if faults == Faults::none() {
        assert_eq!((rig.count(C::Requests), rig.count(C::AnswersLate)), (8 * 40, 0));
        let (sent, received) = (rig.lane_count(LaneCounter::MessagesSent), rig.lane_count(LaneCounter::MessagesReceived));
        assert!(sent == received && (sent > 0) == (lanes > 1));
    }
    world.report()
}

#[test]
fn calls_are_answered_in_any_order() {
    for_seeds(60, |seed| {
        run(seed, Faults::none(), 1 + seed as usize % 3);
    });
}

#[test]
fn calls_are_answered_under_every_fault() {
    for_seeds(100, |seed| {
        run(seed, Faults::all(seed), 1 + seed as usize % 3);
    });
}
