//! Datagram sockets at work: a batch in, trains out.

use crate::port::Port;
use crate::services::Services;
use crate::table::class;
use corelane_lane::Kit;
use corelane_seam::{Arrival, Completion, Datagrams, Handle, Op, Outcome, Reason, Segment, Socket, Trains};
use corelane_watch::ServiceCounter;
use std::net::{IpAddr, SocketAddr};

/// What a datagram service sends back. Replies to one peer leave as trains, even when the requests came singly.
#[derive(Default)]
pub struct Replies {
    trains: Trains,
    refused: usize,
    bytes: usize,
    /// Those of them that lie where they arrived.
    forwarded: usize,
}

impl Replies {
    /// Sends an arrival back as it came, without copying.
    pub fn echo(&mut self, batch: &Datagrams, arrival: &Arrival) {
        let payload = batch.share(arrival);
        self.forwarded += payload.len();
        self.reply(arrival, payload, arrival.datagram_bytes as usize);
    }

    /// Answers an arrival from the address that was asked: datagrams of `datagram_bytes`, the last perhaps shorter.
    /// More than 64 datagrams, or one of over 65,507 bytes, are refused and counted (`datagrams_refused`).
    pub fn reply(&mut self, arrival: &Arrival, payload: impl Into<Segment>, datagram_bytes: usize) {
        self.add(arrival.peer, arrival.asked, arrival.interface, payload.into(), datagram_bytes);
    }

    /// Sends one datagram to anybody; `source` is one of this machine's addresses, or none for the socket's own.
    pub fn send(&mut self, peer: SocketAddr, source: Option<IpAddr>, payload: impl Into<Segment>) {
        let payload = payload.into();
        let bytes = payload.len();
        self.add(peer, source, 0, payload, bytes);
    }

    fn add(&mut self, peer: SocketAddr, source: Option<IpAddr>, interface: u32, payload: Segment, datagram_bytes: usize) {
        let bytes = payload.len();
        match self.trains.add(peer, source, interface, payload, datagram_bytes) {
            true => self.bytes += bytes,
            false => self.refused += 1,
        }
    }
}

/// One datagram socket of the lane.
pub(crate) struct DatagramSocket {
    socket: Option<Socket>,
    service: u16,
    /// The storage for arrivals; away while a receive is under way.
    batch: Option<Datagrams>,
    arrived: bool,
    replies: Replies,
    /// The storage of the trains that were sent; away while a send is under way.
    spare: Option<Trains>,
    drain_rounds: u32,
    draining: bool,
    /// The last receive was stopped although there was something: the next one waits for memory.
    waits_for_memory: bool,
    closing: bool,
}

/// Batches that a drain still takes from one socket: what was readable when it began fits in the kernel's buffer.
const DRAIN_ROUNDS: u32 = 64;

impl DatagramSocket {
    pub(crate) fn new(socket: Socket, service: u16) -> Self {
        Self {
            socket: Some(socket),
            service,
            batch: Some(Datagrams::new()),
            arrived: false,
            replies: Replies::default(),
            spare: Some(Trains::new()),
            drain_rounds: 0,
            draining: false,
            waits_for_memory: false,
            closing: false,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.socket.is_none()
    }
}

impl Services {
    pub(crate) fn datagrams_completed(&mut self, kit: &mut Kit, completion: Completion) {
        let index = completion.handle.index();
        let Some(entry) = self.datagrams.get_mut(index as usize) else { return };
        let service = entry.service;
        match completion.outcome {
            Outcome::Arrived { batch, fault } => {
                let ended = fault.is_some_and(|fault| fault.reason != Reason::NoMemory) && batch.is_empty();
                entry.arrived = !batch.is_empty();
                entry.waits_for_memory = fault.is_some_and(|fault| fault.reason == Reason::NoMemory);
                entry.drain_rounds += u32::from(entry.draining);
                let over = entry.draining && (ended || entry.drain_rounds > DRAIN_ROUNDS);
                entry.batch = Some(batch);
                if entry.arrived {
                    self.serve_datagrams(kit, index);
                }
                if over {
                    self.datagrams[index as usize].closing = true;
                }
            }
            Outcome::Departed { trains, datagrams, refused, calls, .. } => {
                entry.spare = Some(trains);
                self.table.count(service, ServiceCounter::DatagramsOut, datagrams as usize);
                self.table.count(service, ServiceCounter::DatagramSends, calls as usize);
                if refused > 0 {
                    self.table.count(service, ServiceCounter::DatagramsRefused, refused as usize);
                }
            }
            Outcome::Closed => entry.socket = None,
            _ => {}
        }
    }

    /// Hands a batch to the service, once, all of it together.
    fn serve_datagrams(&mut self, kit: &mut Kit, index: u32) {
        let entry = &mut self.datagrams[index as usize];
        let (service, batch) = (entry.service, entry.batch.take());
        let mut replies = std::mem::take(&mut entry.replies);
        let Some(mut batch) = batch else { return };
        entry.arrived = false;
        self.count_arrivals(service, &batch);
        self.service_call(kit, service, |port, cx| {
            if let Port::Datagram(port) = port {
                port.receive(cx, &batch, &mut replies);
            }
        });
        batch.clear();
        let entry = &mut self.datagrams[index as usize];
        (entry.batch, entry.replies) = (Some(batch), replies);
    }

    fn count_arrivals(&mut self, service: u16, batch: &Datagrams) {
        let (mut datagrams, mut trains, mut bytes) = (0, 0, 0);
        for arrival in batch.arrivals() {
            let count = arrival.datagrams();
            datagrams += count;
            trains += 1;
            bytes += arrival.bytes();
        }
        self.table.count(service, ServiceCounter::DatagramReceives, 1);
        self.table.count(service, ServiceCounter::DatagramsIn, datagrams);
        self.table.count(service, ServiceCounter::TrainsIn, trains);
        self.table.count(service, ServiceCounter::BytesIn, bytes);
    }

    /// Sends what the services answered, and receives again wherever that has left.
    pub(crate) fn flush_datagrams(&mut self, kit: &mut Kit) {
        for index in 0..self.datagrams.len() as u32 {
            self.send_datagrams(kit, index);
            self.receive_datagrams(kit, index);
        }
    }

    fn send_datagrams(&mut self, kit: &mut Kit, index: u32) {
        let entry = &mut self.datagrams[index as usize];
        let Some(socket) = entry.socket.filter(|_| !entry.replies.trains.is_empty()) else { return };
        let Some(spare) = entry.spare.take() else { return };
        let trains = std::mem::replace(&mut entry.replies.trains, spare);
        let (service, bytes) = (entry.service, std::mem::take(&mut entry.replies.bytes));
        let refused = std::mem::take(&mut entry.replies.refused);
        let forwarded = std::mem::take(&mut entry.replies.forwarded);
        let count = trains.trains().len();
        self.table.count(service, ServiceCounter::TrainsOut, count);
        self.table.count(service, ServiceCounter::BytesOut, bytes);
        self.table.count(service, ServiceCounter::BytesForwarded, forwarded);
        self.table.count(service, ServiceCounter::DatagramsRefused, refused);
        kit.submit(Handle::new(class::DATAGRAMS, index, 0), Op::SendDatagrams { socket, trains });
    }

    /// Receives unless answers still wait for an earlier send: so a slow path pushes back, and answers stay bounded.
    fn receive_datagrams(&mut self, kit: &mut Kit, index: u32) {
        let entry = &mut self.datagrams[index as usize];
        let Some(socket) = entry.socket else { return };
        let handle = Handle::new(class::DATAGRAMS, index, 0);
        let waiting = !entry.replies.trains.is_empty();
        if entry.closing {
            if !waiting && entry.spare.is_some() && entry.batch.take().is_some() {
                kit.submit(handle, Op::Close { socket, reset: false });
            }
            return;
        }
        if waiting {
            return;
        }
        if let Some(into) = entry.batch.take() {
            kit.submit(handle, Op::ReceiveDatagrams { socket, into });
            if entry.draining && !entry.waits_for_memory {
                kit.submit(handle, Op::StopReceive { socket });
            }
        }
    }

    /// From now on each receive takes only what is there; the first that finds nothing is the last.
    pub(crate) fn drain_datagrams(&mut self, kit: &mut Kit) {
        for (index, entry) in self.datagrams.iter_mut().enumerate() {
            entry.draining = true;
            if let Some(socket) = entry.socket.filter(|_| entry.batch.is_none()) {
                kit.submit(Handle::new(class::DATAGRAMS, index as u32, 0), Op::StopReceive { socket });
            }
        }
    }
}
