//! What a cache with items of any length asks of the facade, written out before there is one: each key has a home lane, a value is a chain of leases that were filled
//! where they stay, and what is asked for elsewhere is lent.
//!
//! ```text
//! set at the key's lane      Fill a lease, and the next -> Chain, kept as it is
//! set elsewhere              the same there -> Put(parcels) -> copied once at home: a parcel is lent, and its block stays its home's
//! get at the key's lane      the chain's views go into the output
//! get elsewhere              Get(key) -> Found(parcels) -> guests in the answer, in the place that its ticket keeps
//! ```

use corelane::service::{Asking, Asks, Call, Chain, Hold, Lease, Lends, Lost, Order, Origin, Parcel, Segment, Shared, Ticket};
use corelane::testing::{Faults, MS, Nobody, Peer as Client, Rig, RigPlan, World, patient};
use corelane::{Cx, Input, Next, Output, Peer, StreamService};
use std::collections::BTreeMap;

/// Bytes of a piece of a value: what one lease holds, and one fill brings.
const PIECE_BYTES: usize = 1 << 20;

type Key = usize;

/// What one lane asks another, of a key that is at home there.
enum Question {
    Get(Key),
    Put(Key, Vec<Parcel>),
}

enum Answer {
    Found(Vec<Parcel>),
    Stored,
    /// There is none, or no memory for it.
    None,
}

type Talk = Lends<Asks<Question, Answer>>;

/// A value that is on its way in.
struct Filling {
    key: Key,
    left: usize,
    value: Chain,
}

#[derive(Default)]
struct Session {
    filling: Option<Filling>,
}

#[derive(Default)]
struct Cache {
    values: BTreeMap<Key, Chain>,
    waiting: BTreeMap<Asking, Ticket>,
}

/// The pieces of a value that is in leases.
fn pieces(value: &Chain) -> impl Iterator<Item = &Shared> {
    value.segments().filter_map(|segment| match segment {
        Segment::Shared(piece) => Some(piece),
        _ => None,
    })
}

impl Cache {
    /// The next piece goes from the socket to where it stays.
    fn fill(cx: &mut Cx<'_, Talk>, left: usize) -> Option<Next> {
        let until = left.min(PIECE_BYTES);
        let lease = cx.lease(until).ok()?;
        Some(Next::Fill { lease, until })
    }

    fn filled(&mut self, cx: &mut Cx<'_, Talk>, session: &mut Session, lease: Lease, output: &mut Output) -> Next {
        let mut filling = session.filling.take().unwrap();
        filling.left -= lease.len();
        filling.value.push(lease.share());
        if filling.left > 0 {
            let next = Self::fill(cx, filling.left);
            session.filling = Some(filling);
            return next.unwrap_or(Next::Wait);
        }
        self.store(cx, filling.key, filling.value, output);
        Next::Continue
    }

    /// Keeps a value at its key's home; there it is kept without a copy.
    fn store(&mut self, cx: &mut Cx<'_, Talk>, key: Key, value: Chain, output: &mut Output) {
        let home = key % cx.lanes();
        if home == cx.lane() {
            self.values.insert(key, value);
            return output.push(&b"stored\n"[..]);
        }
        let lent: Result<Vec<_>, _> = pieces(&value).map(|piece| cx.lend(piece, home)).collect();
        match lent {
            Ok(parcels) => self.ask(cx, home, Question::Put(key, parcels), output),
            Err(_) => output.push(&b"none\n"[..]),
        }
    }

    fn get(&mut self, cx: &mut Cx<'_, Talk>, key: Key, output: &mut Output) {
        let home = key % cx.lanes();
        if home != cx.lane() {
            return self.ask(cx, home, Question::Get(key), output);
        }
        match self.values.get(&key) {
            Some(value) => output.append(&mut value.clone()),
            None => output.push(&b"none\n"[..]),
        }
    }

    fn ask(&mut self, cx: &mut Cx<'_, Talk>, home: usize, question: Question, output: &mut Output) {
        match cx.ask(home, question) {
            Ok(asking) => drop(self.waiting.insert(asking, output.hold(Hold::new(Order::Kept)).unwrap())),
            Err(_) => output.push(&b"none\n"[..]),
        }
    }

    /// A copy of what another lane has lent, in this lane's memory.
    fn copied(cx: &mut Cx<'_, Talk>, parcels: Vec<Parcel>) -> Option<Chain> {
        let mut value = Chain::new();
        for parcel in parcels {
            let guest = cx.guests().admit(parcel);
            let mut lease = cx.lease(guest.len()).ok()?;
            lease.append(&guest);
            value.push(lease.share());
        }
        Some(value)
    }
}

impl StreamService for Cache {
    type Talk = Talk;
    type Session = Session;

    fn open(&mut self, _: &mut Cx<'_, Talk>, _: &Peer) -> Session {
        Session::default()
    }

    fn receive(&mut self, cx: &mut Cx<'_, Talk>, session: &mut Session, input: &mut Input, output: &mut Output) -> Next {
        if let Some(lease) = input.filled() {
            return self.filled(cx, session, lease, output);
        }
        if let Some(Filling { left, .. }) = session.filling {
            return Self::fill(cx, left).unwrap_or(Next::Wait);
        }
        let Some(end) = input.position(b'\n') else { return Next::Continue };
        let line = String::from_utf8(input.contiguous(end + 1).unwrap().to_vec()).unwrap();
        input.skip(end + 1);
        let words: Vec<usize> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        match words[..] {
            [key, left] => {
                session.filling = Some(Filling { key, left, value: Chain::new() });
                Self::fill(cx, left).unwrap_or(Next::Wait)
            }
            _ => {
                self.get(cx, words[0], output);
                Next::Continue
            }
        }
    }

    fn asked(&mut self, cx: &mut Cx<'_, Talk>, from: Origin, question: Question, call: Call<Talk>) {
        let Origin::Lane(from) = from else { panic!("nobody asks from outside") };
        let answer = match question {
            Question::Get(key) => self.values.get(&key).map_or(Answer::None, |value| {
                let lent: Result<Vec<_>, _> = pieces(value).map(|piece| cx.lend(piece, from)).collect();
                lent.map_or(Answer::None, Answer::Found)
            }),
            Question::Put(key, parcels) => Self::copied(cx, parcels).map_or(Answer::None, |value| {
                self.values.insert(key, value);
                Answer::Stored
            }),
        };
        cx.reply(call, answer);
    }

    fn replied(&mut self, cx: &mut Cx<'_, Talk>, asking: Asking, outcome: Result<Answer, Lost>) {
        let Some(ticket) = self.waiting.remove(&asking) else { return };
        let mut answer = Chain::new();
        match outcome {
            Ok(Answer::Found(parcels)) => parcels.into_iter().for_each(|parcel| answer.push(cx.guests().admit(parcel))),
            Ok(Answer::Stored) => answer.push(&b"stored\n"[..]),
            Ok(Answer::None) | Err(_) => answer.push(&b"none\n"[..]),
        }
        cx.answer_chain(ticket, answer);
    }
}

/// Says all, and hears so many bytes.
fn exchange(rig: &mut Rig, client: &Client, mut stream: &[u8], bytes: usize) -> Vec<u8> {
    let mut heard = Vec::new();
    while heard.len() < bytes {
        stream = &stream[client.send(stream)..];
        rig.wait(MS);
        heard.extend(client.read(usize::MAX));
    }
    heard
}

#[test]
fn a_value_longer_than_a_fill_is_kept_as_a_chain_and_lent_to_the_lane_that_is_asked() {
    let plan = RigPlan::lanes(2).memory(64 << 20);
    let mut rig = Rig::serving(&World::new(1, Faults::none()), &plan, patient().output_high(8 << 20), |_| Cache::default());
    let client = rig.connect(0);
    rig.wait(MS);
    let value: Vec<u8> = (0..PIECE_BYTES * 5 / 2).map(|at| ((at * 7) >> 3) as u8).collect();
    // One of them is at home where the client is, and one is not.
    for key in [0, 1] {
        let set = [format!("{key} {}\n", value.len()).as_bytes(), &value].concat();
        assert_eq!(exchange(&mut rig, &client, &set, 7), b"stored\n");
    }
    for key in [0, 1] {
        assert!(exchange(&mut rig, &client, format!("{key}\n").as_bytes(), value.len()) == value, "the value of {key}");
    }
    assert_eq!(exchange(&mut rig, &client, b"7\n", 5), b"none\n");
    client.close();
    rig.close(&mut Nobody);
}
