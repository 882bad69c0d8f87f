//! Ports: what is under way on them stands in a [`PortTable`](corelane_seam::PortTable); here is when each of them is attended to.
//!
//! ```text
//! Open -> a copy of the port's descriptor is watched, and one of what tells other news
//! edge -> may receive, has room -> attend -> completions        asked, its time has come, it has more -> attend
//! Close -> all released -> the copies are closed -> the port ends, which may take some time -> it is dropped -> Closed
//! ```
//!
//! The source may hold a descriptor open for as long as it watches it, so the port is dropped behind that: only then is the interface done
//! with its memory.

use super::endpoint::EndpointKind;
use super::opened::{Closing, Ports, Watched};
use super::source::ReadinessSource;
use super::state::ReadinessDriver;
use corelane_os::{clock, errno};
use corelane_seam::slab::Key;
use corelane_seam::{Attention, Completion, Fault, FrameOp, Handle, Outcome, Port, PortEnd, PortId, Wait};
use std::os::fd::BorrowedFd;

impl<S: ReadinessSource> ReadinessDriver<S> {
    /// Starts what was asked of a port; [`ReadinessDriver::serve_ports`] tells how it went.
    pub(super) fn perform_on_port(&mut self, handle: Handle, op: FrameOp) -> Option<Outcome> {
        let op = match op {
            FrameOp::Open(port) => return self.open_port(handle, port).err().map(Outcome::Failed),
            op => op,
        };
        let Ports { table, ended, .. } = &mut self.ports;
        table.begin(clock::now(), handle.work(), handle, op, ended);
        None
    }

    fn open_port(&mut self, handle: Handle, port: Box<dyn Port>) -> Result<(), Fault> {
        let frames = self.watch_port(port.descriptor(), EndpointKind::Port)?;
        let news = self.watch_port(port.news(), EndpointKind::PortNews);
        let news = news.inspect_err(|_| frames.into_iter().for_each(|key| self.unwatch_port(key)))?;
        let id = self.ports.table.take_up(handle.work(), handle, port, &mut self.ports.ended);
        let keys = [frames, news].into_iter().flatten();
        for key in keys {
            self.ports.of_endpoint.insert(key, id);
        }
        let former = self.ports.watched.insert(id, Watched { frames, news, due: Attention::default() });
        assert!(former.is_none(), "a port is opened once");
        Ok(())
    }

    fn watch_port(&mut self, descriptor: Option<BorrowedFd<'_>>, kind: EndpointKind) -> Result<Option<Key>, Fault> {
        let Some(descriptor) = descriptor else { return Ok(None) };
        let copy = rustix::io::fcntl_dupfd_cloexec(descriptor, 0).map_err(errno::fault_of)?;
        self.enter(copy, kind).map(Some)
    }

    fn unwatch_port(&mut self, key: Key) {
        let endpoint = self.endpoints.remove_at(key.index);
        assert!(matches!(endpoint.kind, EndpointKind::Port | EndpointKind::PortNews), "only a port's endpoints go with it");
        self.ports.of_endpoint.remove(key);
        self.release(key, endpoint);
    }

    /// Takes in an edge of a port's descriptor.
    pub(super) fn note_port(&mut self, key: Key, noted: Attention) {
        self.ports.note(key, noted);
        if noted.send && !self.ports.table.awaits_room(self.ports.of(key)) {
            self.await_no_room(key);
        }
    }

    /// Takes in that there is other news of a port. They end a wait: who has the port looks at what it is by now, though nothing has completed.
    pub(super) fn note_news(&mut self, key: Key) {
        // reason: an endpoint of a port goes with the port.
        let port = self.ports.table.port_mut(self.ports.of(key)).expect("a port's endpoint goes with it");
        port.take_news();
        self.ports.has_news = true;
        self.ports.note(key, Attention { receive: true, send: true });
    }

    /// Attends to the ports that have a reason, and tells how it went.
    #[inline]
    pub(super) fn serve_ports(&mut self, completions: &mut Vec<Completion>) {
        // Most lanes have none.
        if !self.ports.is_idle() {
            self.serve_open_ports(completions);
        }
    }

    #[inline(never)]
    fn serve_open_ports(&mut self, completions: &mut Vec<Completion>) {
        let now = clock::now();
        let mut open = std::mem::take(&mut self.ports.open);
        open.extend(self.ports.table.ids());
        for port in open.drain(..) {
            self.attend_port(now, port);
            self.begin_close(port);
        }
        self.ports.open = open;
        for PortEnd { asked, outcome, released, .. } in self.ports.ended.drain(..) {
            completions.push(Completion { released, ..Completion::last(asked, outcome) });
        }
        self.end_port_closes(completions);
    }

    fn attend_port(&mut self, now: u64, port: PortId) {
        let Ports { table, watched, ended, .. } = &mut self.ports;
        // reason: both tables have the same ports.
        let watched = watched.get_mut(port).expect("an open port is watched");
        let is_time = table.port(port).and_then(Port::wakes_at).is_some_and(|time| time <= now);
        let receive = table.is_receiving(port) && (watched.due.receive || is_time || table.can_receive(port));
        let attention = Attention { receive, send: watched.due.send || is_time };
        // What came while nobody received is still to be looked at.
        watched.due = Attention { receive: watched.due.receive && !receive, send: false };
        table.attend(now, port, attention, ended);
        let Some(frames) = watched.frames.filter(|_| table.awaits_room(port)) else { return };
        if self.await_room(frames).is_err() {
            // What cannot be waited for is asked for again and again.
            self.ports.note(frames, Attention { receive: false, send: true });
        }
    }

    /// Has the source let go of a port that is closed and released.
    fn begin_close(&mut self, id: PortId) {
        // Asked of every port in every turn: most are open, or something of theirs is under way.
        let Some((asked, port)) = self.ports.table.take_closed(id) else { return };
        // reason: both tables have the same ports.
        let watched = self.ports.watched.remove(id).expect("an open port is watched");
        let keys: Vec<Key> = [watched.frames, watched.news].into_iter().flatten().collect();
        keys.iter().for_each(|&key| self.unwatch_port(key));
        self.ports.closing.push(Closing { copies: keys.iter().map(|key| key.bits()).collect(), asked, port });
    }

    fn end_port_closes(&mut self, completions: &mut Vec<Completion>) {
        if self.ports.closing.is_empty() {
            return;
        }
        self.counters.calls_work += self.source.flush();
        let (source, now) = (&self.source, clock::now());
        let is_closed =
            |closing: &mut Closing| !closing.copies.iter().any(|&data| source.is_closing(data)) && closing.port.end(now);
        for Closing { asked, port, .. } in self.ports.closing.extract_if(.., is_closed) {
            drop(port);
            completions.push(Completion::last(asked, Outcome::Closed));
        }
    }

    /// How long a look for events may last where ports want to be asked again.
    pub(super) fn wait_with_ports(&self, wait: Wait) -> Wait {
        if self.ports.is_idle() {
            return wait;
        }
        match (wait, self.ports.wakes_at()) {
            _ if self.ports.have_more() => Wait::No,
            (Wait::Until(until), Some(time)) => Wait::Until(until.min(time)),
            (Wait::Forever, Some(time)) => Wait::Until(time),
            (wait, _) => wait,
        }
    }
}
