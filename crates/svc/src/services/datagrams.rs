//! Datagram sockets at work: what the driver brings, and the calls into their services.

use crate::datagrams::replies::Replies;
use crate::datagrams::sockets::{Bound, DatagramSocket, datagram_socket};
use crate::places::TransportAddress;
use crate::services::Services;
use crate::services::served::Served;
use crate::table::LaneTable;
use crate::words::error::Error;
use crate::words::names::SocketId;
use corelane_lane::Kit;
use corelane_rss::Transport;
use corelane_seam::{Address, Completion, DatagramOutcome, Datagrams, Driver, Fault, Outcome, Socket, Trains};
use corelane_watch::LaneCounter;

impl Services {
    /// Makes the socket of a place that has none; returns its address.
    pub(crate) fn open_bound(&mut self, driver: &mut dyn Driver, index: usize) -> Result<Address, Error> {
        let Bound { ref address, service, sharing, .. } = self.served.table.sockets.bound()[index];
        let bind = datagram_socket(address.clone(), None, sharing);
        let at = TransportAddress::of(Transport::Udp, address);
        let failed = |fault| Error::Listen { address: bind.address.clone(), fault };
        let socket = self.steering.open_socket(driver, at, |driver| driver.bind(&bind).map_err(failed))?;
        let local = driver.local_address(socket).map_err(failed)?;
        let LaneTable { sockets, services, .. } = &mut self.served.table;
        let waiting_max = services[service as usize].limits.datagrams_waiting_max;
        let id = sockets.admit(services, DatagramSocket::served(service, socket, local.clone(), waiting_max));
        sockets.bound()[index].socket = Some(id);
        Ok(local)
    }

    pub(crate) fn datagrams_completed(&mut self, kit: &mut Kit, completion: Completion) {
        let id = SocketId { index: completion.handle.index(), generation: completion.handle.generation() };
        let known = match completion.outcome {
            Outcome::Datagram(DatagramOutcome::Arrived { batch, fault }) => self.arrived(kit, id, batch, fault),
            Outcome::Datagram(DatagramOutcome::Departed { trains, datagrams, refused, calls, fault }) => {
                self.served.departed(kit, id, (trains, datagrams, refused, calls), (fault, completion.released))
            }
            Outcome::Datagram(DatagramOutcome::Bound { socket, local }) => {
                self.served.socket_opened(kit, id, Ok((socket, local)))
            }
            Outcome::Failed(fault) => self.served.socket_opened(kit, id, Err(fault)),
            Outcome::Closed => self.datagrams_closed(id),
            Outcome::Released => self.served.datagrams_released(kit, id),
            other => unreachable!("no operation of a datagram socket ends so: {other:?}"),
        };
        if known.is_none() {
            kit.row.add(LaneCounter::CompletionsStale, 1);
        }
    }

    /// A batch is handed to the service once, all of it together. None if the name is void.
    fn arrived(&mut self, kit: &mut Kit, id: SocketId, mut batch: Datagrams, fault: Option<Fault>) -> Option<()> {
        let LaneTable { sockets, services, flows, .. } = &mut self.served.table;
        let mut found = sockets.found(services, id)?;
        let (service, is_served) = (found.service(), found.is_served());
        found.take_out_strange(&mut batch);
        if let Some(mut replies) = found.arrived(kit, flows.as_ref(), &batch, fault) {
            if is_served {
                self.steering.note_selection(kit);
            }
            self.served.socket_call(kit, service, id, |face, cx| face.receive(cx, &batch, &mut replies));
            found = self.served.table.socket(id);
            found.served(&batch, replies);
        }
        batch.clear();
        found.keep_batch(batch);
        if let Some(fault) = found.news(fault) {
            self.served.socket_call(kit, service, id, |face, cx| face.fault(cx, id, fault));
        }
        Some(())
    }

    /// A socket is closed: its place is free. None if the name is void.
    fn datagrams_closed(&mut self, id: SocketId) -> Option<()> {
        let LaneTable { sockets, services, .. } = &mut self.served.table;
        sockets.found(services, id)?;
        sockets.dismiss(services, id);
        if let Some(address) = sockets.unbind(id) {
            let at = TransportAddress::of(Transport::Udp, &address);
            self.steering.place_closed(at, self.served.table.is_served());
        }
        Some(())
    }
}

impl Served {
    /// Tells the service, unless it has closed the socket meanwhile. None if the name is void.
    fn socket_opened(&mut self, kit: &mut Kit, id: SocketId, outcome: Result<(Socket, Address), Fault>) -> Option<()> {
        let is_draining = self.table.is_draining();
        let LaneTable { sockets, services, flows, .. } = &mut self.table;
        let mut found = sockets.found(services, id)?;
        let service = found.service();
        found.mark();
        let has_failed = outcome.is_err();
        if found.opened(outcome.clone().ok(), flows.as_ref(), is_draining) {
            let outcome = outcome.map(|(_, local)| local);
            self.socket_call(kit, service, id, |face, cx| face.opened(cx, id, outcome));
        }
        if has_failed {
            self.table.sockets.dismiss(&mut self.table.services, id);
        }
        Some(())
    }

    /// A send has ended, having sent and been refused so many datagrams in so many calls. None if the name is void.
    fn departed(
        &mut self,
        kit: &mut Kit,
        id: SocketId,
        (trains, datagrams, refused, calls): (Trains, u32, u32, u32),
        (fault, is_released): (Option<Fault>, bool),
    ) -> Option<()> {
        let mut found = self.table.sockets.found(&self.table.services, id)?;
        let service = found.service();
        found.departed(trains, datagrams, refused, calls, is_released);
        if let Some(fault) = found.news(fault) {
            self.socket_call(kit, service, id, |face, cx| face.fault(cx, id, fault));
            found = self.table.socket(id);
        }
        match found.take_if_all_left() {
            Some(replies) => self.go_on_sending(kit, (service, id), replies),
            None => found.mark_unless_at_rest(),
        }
        Some(())
    }

    /// The memory of a send that ended before is released. None if the name is void.
    fn datagrams_released(&mut self, kit: &mut Kit, id: SocketId) -> Option<()> {
        let mut found = self.table.sockets.found(&self.table.services, id)?;
        if found.released() {
            match found.take_if_all_left() {
                Some(replies) => {
                    let service = found.service();
                    self.go_on_sending(kit, (service, id), replies);
                }
                None => found.mark_unless_at_rest(),
            }
        }
        Some(())
    }

    /// All has left, and more may wait: the service goes on sending.
    fn go_on_sending(&mut self, kit: &mut Kit, (service, id): (u16, SocketId), mut replies: Replies) {
        self.socket_call(kit, service, id, |face, cx| face.sent(cx, id, &mut replies));
        let mut found = self.table.socket(id);
        found.put_back(replies);
        found.mark_unless_at_rest();
    }
}
