//! A toy service: what a connection says it hears again.

use crate::guard::Guard;
use corelane_lane::{Kit, Work};
use corelane_seam::{Chain, Completion, Driver, Handle, Listen, Op, Outcome, Socket, StreamOp, StreamOptions, StreamOutcome};
use std::net::SocketAddr;

const LISTENER: u8 = 0;
/// The same classes as others use: they are this work's own.
const CONNECTION: u8 = 31;

pub struct Streams {
    guard: Guard,
    listener: Option<Socket>,
    accepting: bool,
    connections: Vec<Option<Connection>>,
    draining: bool,
}

struct Connection {
    socket: Socket,
    under_way: u32,
    closing: bool,
}

impl Streams {
    pub fn new(guard: Guard, driver: &mut dyn Driver, at: SocketAddr) -> Self {
        let stream = StreamOptions::default();
        let listener =
            driver.listen(&Listen { address: at.into(), backlog: 64, share_port: true, v6_only: false, stream }).unwrap();
        Self { guard, listener: Some(listener), accepting: false, connections: Vec::new(), draining: false }
    }

    fn submit(&mut self, kit: &mut Kit, index: usize, op: impl Into<Op>) {
        self.connections[index].as_mut().unwrap().under_way += 1;
        kit.submit(Handle::new(CONNECTION, index as u32, 0), op);
    }

    fn close(&mut self, kit: &mut Kit, index: usize) {
        let Some(connection) = self.connections[index].as_mut().filter(|connection| !connection.closing) else { return };
        connection.closing = true;
        let op = Op::Close { socket: connection.socket, reset: false };
        self.submit(kit, index, op);
    }

    fn accepted(&mut self, kit: &mut Kit, socket: Socket) {
        let index = self.connections.iter().position(Option::is_none).unwrap_or(self.connections.len());
        if index == self.connections.len() {
            self.connections.push(None);
        }
        self.connections[index] = Some(Connection { socket, under_way: 0, closing: false });
        self.submit(kit, index, StreamOp::Receive { socket });
        if self.draining {
            self.close(kit, index);
        }
    }

    fn listener_completed(&mut self, kit: &mut Kit, completion: Completion) {
        self.accepting = completion.more;
        match completion.outcome {
            Outcome::Stream(StreamOutcome::Accepted { socket, .. }) => self.accepted(kit, socket),
            Outcome::Closed => self.listener = None,
            _ => {}
        }
    }

    fn connection_completed(&mut self, kit: &mut Kit, index: usize, outcome: Outcome) {
        let connection = self.connections[index].as_mut().unwrap();
        let (socket, closing) = (connection.socket, connection.closing);
        connection.under_way -= 1;
        match outcome {
            Outcome::Stream(StreamOutcome::Received(bytes)) if !closing => {
                bytes.charge(kit.payer());
                let mut chain = Chain::new();
                chain.push(bytes);
                self.submit(kit, index, StreamOp::Send { socket, chain });
            }
            Outcome::Stream(StreamOutcome::Sent { rest, fault: None, .. }) if !closing => {
                let op = if rest.is_empty() {
                    Op::Stream(StreamOp::Receive { socket })
                } else {
                    Op::Stream(StreamOp::Send { socket, chain: rest })
                };
                self.submit(kit, index, op);
            }
            Outcome::Closed => {
                let gone = self.connections[index].take().unwrap();
                assert_eq!(gone.under_way, 0, "a close comes last");
            }
            _ => self.close(kit, index),
        }
    }
}

impl Work for Streams {
    fn name(&self) -> &'static str {
        "streams"
    }

    fn complete(&mut self, kit: &mut Kit, completion: Completion) {
        self.guard.completed();
        match completion.handle.class() {
            LISTENER => self.listener_completed(kit, completion),
            CONNECTION if matches!(completion.outcome, Outcome::Released) => {}
            CONNECTION => self.connection_completed(kit, completion.handle.index() as usize, completion.outcome),
            class => panic!("not of the streams: {class} {:?}", completion.outcome),
        }
    }

    fn serve(&mut self, kit: &mut Kit) {
        self.guard.serves(kit);
        if let Some(listener) = self.listener.filter(|_| !self.accepting && !self.draining) {
            self.accepting = true;
            kit.submit(Handle::new(LISTENER, 0, 0), StreamOp::Accept { listener });
        }
    }

    fn flush(&mut self, kit: &mut Kit) {
        self.guard.flushes(kit);
    }

    fn has_work(&self) -> bool {
        false
    }

    fn has_ended(&self) -> bool {
        self.draining && self.listener.is_none() && self.connections.iter().all(Option::is_none)
    }

    fn drain(&mut self, kit: &mut Kit, _driver: &mut dyn Driver) {
        self.draining = true;
        if let Some(socket) = self.listener {
            kit.submit(Handle::new(LISTENER, 0, 0), Op::Close { socket, reset: false });
        }
        (0..self.connections.len()).for_each(|index| self.close(kit, index));
    }

    fn is_quiet(&self, _kit: &mut Kit) -> bool {
        self.has_ended()
    }
}
