//! A toy packet path: frames arrive in batches, wait in a workstream, and those of another lane go there as messages.

use crate::guard::Guard;
use corelane_lane::{Channels, Kit, Mesh, Unheard, Work};
use corelane_seam::{Bind, Completion, DatagramOp, DatagramOutcome, Datagrams, Driver, Handle, Op, Outcome, Payer, Socket};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

const RECEIVE: u8 = 31;
const CLOSE: u8 = 0;
/// Frames that one turn dispatches: the rest is deferred.
const DISPATCHED: usize = 3;

/// A frame on its way to its lane. The number is the sender's own, for each lane it sends to.
pub struct Frame {
    number: u64,
    flow: u32,
}

/// What all lanes of a run have seen.
#[derive(Default)]
pub struct Account {
    pub arrived: u64,
    pub handled: u64,
    pub sent: u64,
    pub received: u64,
    pub came_back: u64,
    /// Those that came once all lanes were quiet, and were there still at the end.
    pub left: u64,
}

pub struct Packets {
    guard: Guard,
    mesh: Mesh<Frame>,
    account: Rc<RefCell<Account>>,
    socket: Socket,
    batch: Option<Datagrams>,
    stream: VecDeque<u32>,
    sent: Vec<u64>,
    received: Vec<u64>,
    closing: bool,
    closed: bool,
}

impl Packets {
    pub fn new(
        guard: Guard,
        mesh: Mesh<Frame>,
        account: &Rc<RefCell<Account>>,
        driver: &mut dyn Driver,
        at: SocketAddr,
        lanes: usize,
    ) -> Self {
        let bind = Bind {
            address: at.into(),
            peer: None,
            share_port: false,
            v6_only: false,
            receive_buffer_bytes: 0,
            send_buffer_bytes: 0,
        };
        Self {
            guard,
            mesh,
            account: account.clone(),
            socket: driver.bind(&bind).unwrap(),
            batch: Some(Datagrams::new()),
            stream: VecDeque::new(),
            sent: vec![0; lanes],
            received: vec![0; lanes],
            closing: false,
            closed: false,
        }
    }

    fn receive(&mut self, kit: &mut Kit) {
        if let Some(into) = self.batch.take().filter(|_| !self.closing) {
            kit.submit(Handle::new(RECEIVE, 7, 7), DatagramOp::Receive { socket: self.socket, into });
        }
    }

    /// Handles a frame, or sends it to its lane; false if it has to wait.
    fn dispatch(&mut self, kit: &Kit, flow: u32) -> bool {
        let mut account = self.account.borrow_mut();
        let home = flow as usize % kit.lanes();
        if home == kit.lane() {
            account.handled += 1;
            return true;
        }
        match self.mesh.send(kit, home, Frame { number: self.sent[home], flow }) {
            Ok(()) => {
                (self.sent[home], account.sent) = (self.sent[home] + 1, account.sent + 1);
                true
            }
            Err(Unheard { word: frame, .. }) => {
                assert_eq!((frame.number, frame.flow), (self.sent[home], flow), "what is refused comes back");
                account.came_back += 1;
                // Nobody may be there any more: then it is lost, as a frame may be.
                account.came_back.is_multiple_of(4)
            }
        }
    }
}

impl Packets {
    fn received(&mut self, kit: &Kit, from: usize, frame: Frame) {
        self.guard.received(kit.lanes());
        assert_eq!(frame.number, self.received[from], "messages come in order and once");
        assert_eq!(frame.flow as usize % kit.lanes(), kit.lane());
        self.received[from] += 1;
        let mut account = self.account.borrow_mut();
        (account.received, account.handled) = (account.received + 1, account.handled + 1);
    }
}

impl Work for Packets {
    fn name(&self) -> &'static str {
        "packets"
    }

    fn meshes(&mut self, each: &mut dyn FnMut(&mut dyn Channels)) {
        each(&mut self.mesh);
    }

    fn complete(&mut self, kit: &mut Kit, completion: Completion) {
        self.guard.completed();
        match (completion.handle.class(), completion.outcome) {
            (RECEIVE, Outcome::Datagram(DatagramOutcome::Arrived { batch, .. })) => {
                batch.charge(kit.payer());
                assert!(batch.is_empty() || kit.arena.held(kit.payer()) > 0, "a work pays for what it keeps");
                let flows = batch.arrivals().iter().map(|arrival| u32::from(batch.payload(arrival)[0]));
                self.stream.extend(flows);
                self.account.borrow_mut().arrived += batch.arrivals().len() as u64;
                self.batch = Some(batch);
            }
            (CLOSE, Outcome::Closed) => self.closed = true,
            (class, outcome) => panic!("not of the packets: {class} {outcome:?}"),
        }
    }

    fn serve(&mut self, kit: &mut Kit) {
        self.guard.serves(kit);
        assert!(kit.payer() != Payer::LANE && kit.arena.payer() == kit.payer(), "a work pays for itself");
        for _ in 0..DISPATCHED {
            let Some(flow) = self.stream.front().copied() else { break };
            if !self.dispatch(kit, flow) {
                break;
            }
            self.stream.pop_front();
        }
    }

    fn take_messages(&mut self, kit: &mut Kit, at_most: usize) -> usize {
        let mut frames = Vec::new();
        let taken = self.mesh.take(at_most, |from, frame| frames.extend(frame.map(|frame| (from, frame))));
        frames.into_iter().for_each(|(from, frame)| self.received(kit, from, frame));
        taken
    }

    fn flush(&mut self, kit: &mut Kit) {
        self.guard.flushes(kit);
        self.receive(kit);
    }

    fn has_work(&self) -> bool {
        !self.stream.is_empty()
    }

    fn has_ended(&self) -> bool {
        self.closed
    }

    fn drain(&mut self, kit: &mut Kit, _driver: &mut dyn Driver) {
        self.guard.rests(kit);
    }

    fn all_are_quiet(&mut self, kit: &mut Kit) {
        self.guard.rests(kit);
        self.closing = true;
        kit.submit(Handle::new(CLOSE, 0, 0), Op::Close { socket: self.socket, reset: false });
    }

    fn end(&mut self, _kit: &mut Kit) {
        assert!(self.stream.is_empty() || self.closing, "what has come is handled while its lane serves");
        self.account.borrow_mut().left += self.stream.len() as u64;
    }
}
