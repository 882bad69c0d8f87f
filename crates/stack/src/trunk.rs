//! A trunk: what a port's interfaces have in common, of which each is a VLAN of it, and one has the frames without tags.

mod arrivals;
mod condition;
mod tags;

pub use tags::{NoTags, Tags};

use crate::draft::Draft;
use crate::packet::{Packet, Spare};
use arrivals::Arrivals;
use condition::Condition;
use corelane_seam::{Code, Frame, FrameMemory, Level, Lost, Offload, PortFacts, PortKind, PortState, Record};
use corelane_wire::packet::ethernet::Mac;
use std::cell::Cell;
use std::rc::Rc;
use tags::Vlans;

/// The codes of docs/messages.md, where a test of the facade looks for them.
const PORT_DOWN: Code = Code::new("CL-0026");
const QUEUES_UNSERVED: Code = Code::new("CL-0028");

/// What a port is to its interfaces, as of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The link address of all of them.
    pub mac: Mac,
    /// Bytes of the longest packet that the link carries, with its link-layer header and without tags; and of the longest that lies in as many frames as the port takes.
    pub link_bytes: usize,
    pub packet_bytes: usize,
    /// Packets can leave.
    pub leaves: bool,
}

/// The trunk of a port.
#[derive(Debug)]
pub(crate) struct Trunk {
    name: Box<str>,
    /// Its port's frames, and how many of them wait for neighbours of all its interfaces.
    memory: FrameMemory,
    waiting: Rc<Cell<usize>>,
    line: Line,
    is_line_new: bool,
    pieces_max: usize,
    kind: PortKind,
    leaves_sums: bool,
    /// The interface of the system, and where its fast path is told of ways.
    device: u32,
    offload: Option<Rc<dyn Offload>>,
    /// The numbers of its interfaces, the first of which has the frames without tags.
    interfaces: Vec<usize>,
    vlans: Vlans,
    condition: Condition,
    arrivals: Arrivals,
    /// Frames to be sent.
    outgoing: Vec<Frame>,
}

impl Trunk {
    /// Of a port that says these facts, and has that memory; the first lane tells the operator of it.
    pub fn new(name: &str, is_first: bool, facts: &PortFacts, memory: FrameMemory) -> Self {
        Self {
            name: name.into(),
            line: line(facts, &memory, facts.pieces_max, false),
            is_line_new: false,
            pieces_max: facts.pieces_max,
            kind: facts.kind,
            leaves_sums: facts.leaves_sums,
            device: facts.link.interface,
            offload: None,
            interfaces: Vec::new(),
            vlans: Vlans::default(),
            condition: Condition::new(is_first),
            arrivals: Arrivals::new(facts.pieces_max),
            outgoing: Vec::new(),
            waiting: Rc::default(),
            memory,
        }
    }

    /// Names one of its interfaces: the first is that without tags.
    pub fn add(&mut self, tags: Tags, interface: usize) {
        assert!(self.interfaces.is_empty() == (tags == Tags::None), "the interface without tags is named first, and once");
        self.interfaces.push(interface);
        self.vlans.add(tags, interface);
    }

    /// Its port has a fast path, which is told so of ways; or none.
    pub fn set_offload(&mut self, offload: Option<Rc<dyn Offload>>) {
        self.offload = offload;
    }

    /// Where its port's fast path is told of ways.
    pub fn offload(&self) -> Option<&dyn Offload> {
        self.offload.as_deref()
    }

    /// The interface of the system that its port is of.
    pub const fn device(&self) -> u32 {
        self.device
    }

    /// The numbers of its interfaces.
    pub fn interfaces(&self) -> &[usize] {
        &self.interfaces
    }

    /// The interface of frames with these tags; none if no VLAN of the port has them.
    pub fn interface_of(&self, tags: Tags) -> Option<usize> {
        if tags == Tags::None { Some(self.interfaces[0]) } else { self.vlans.find(tags) }
    }

    /// What it is to its interfaces.
    pub const fn line(&self) -> Line {
        self.line
    }

    /// The same, if it has changed since this was asked last.
    pub fn take_new_line(&mut self) -> Option<Line> {
        std::mem::take(&mut self.is_line_new).then_some(self.line)
    }

    /// Its port's frames.
    pub const fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    /// How many of them wait for neighbours.
    pub const fn waiting(&self) -> &Rc<Cell<usize>> {
        &self.waiting
    }

    /// Frames that a packet may lie in.
    pub const fn pieces_max(&self) -> usize {
        self.pieces_max
    }

    /// How its packets come.
    pub const fn kind(&self) -> PortKind {
        self.kind
    }

    /// Whether senders on the same machine may leave checksums out.
    pub const fn leaves_sums(&self) -> bool {
        self.leaves_sums
    }

    /// What was lost at the port.
    pub const fn lost(&self) -> &Lost {
        &self.condition.lost
    }

    /// Whether packets can come and go.
    pub const fn state(&self) -> PortState {
        self.condition.state
    }

    /// A frame of an interface's: the packet, if it is the last of one.
    ///
    /// # Errors
    /// Why the packet goes no further.
    pub fn join(
        &mut self,
        now: u64,
        interface: usize,
        frame: Frame,
        spare: &mut Spare,
    ) -> Result<Option<Packet>, crate::counts::Drop> {
        self.arrivals.join(now, interface, frame, spare)
    }

    /// Whether a packet lacks frames.
    pub const fn has_begun(&self) -> bool {
        self.arrivals.has_begun()
    }

    /// A batch has ended, and a packet does not go on in the next: whether one was cut short, and is dropped.
    pub fn end_batch(&mut self, spare: &mut Spare) -> bool {
        self.arrivals.end_batch(spare)
    }

    /// Sends a packet of an interface with these tags, in as many frames as it lies in, to a station of the link; returns how many these are.
    pub fn put_out(&mut self, mac: Mac, tags: Tags, packet: impl ExactSizeIterator<Item = Frame>) -> u64 {
        let (frames, first) = (packet.len() as u64, self.outgoing.len());
        self.outgoing.extend(packet);
        if let Some(frame) = self.outgoing.get_mut(first) {
            frame[..6].copy_from_slice(&mac.0);
            tags.put_into(frame);
        }
        frames
    }

    /// Sends packets that waited, each of which says to which station; returns how many frames these are.
    pub fn put_out_all(&mut self, tags: Tags, frames: &mut Vec<Frame>) -> u64 {
        let count = frames.len() as u64;
        if tags != Tags::None {
            Frame::packets_mut(frames).for_each(|packet| tags.put_into(&mut packet[0]));
        }
        self.outgoing.append(frames);
        count
    }

    /// Frames that wait to be handed to the port.
    pub fn outgoing(&self) -> usize {
        self.outgoing.len()
    }

    /// Frames to be sent, for which other storage is given.
    pub fn take_outgoing(&mut self, storage: Vec<Frame>) -> Vec<Frame> {
        assert!(storage.is_empty(), "storage is given empty");
        std::mem::replace(&mut self.outgoing, storage)
    }

    /// Frames to be sent are free again: nothing leaves any more.
    pub fn drop_outgoing(&mut self) {
        self.outgoing.clear();
    }

    /// Notes what was lost at the port.
    pub fn note_lost(&mut self, lost: Lost) {
        if self.condition.lost != lost {
            self.condition.lost = lost;
            self.condition.is_new = true;
        }
    }

    /// Notes what the port says of itself by now.
    pub fn note_facts(&mut self, facts: &PortFacts) {
        if self.line.mac.0 != facts.link.mac || self.line.link_bytes != facts.frame_bytes_max {
            self.set_line(line(facts, &self.memory, self.pieces_max, self.line.leaves));
        }
    }

    fn set_line(&mut self, line: Line) {
        self.is_line_new |= self.line != line;
        self.condition.is_new |= self.line != line;
        if self.line != line {
            self.offload.iter().for_each(|offload| offload.unlearn());
        }
        self.line = line;
    }

    /// Notes whether packets can come and go, as errors say it.
    pub fn note_errors(&mut self, state: PortState) {
        self.condition.of_errors = state;
        self.note_state();
    }

    /// The same, as the port says it, which is open or not.
    pub fn note_port(&mut self, state: PortState, is_open: bool) {
        (self.condition.of_port, self.condition.is_open) = (state, is_open);
        self.note_state();
    }

    /// Takes both together: an error is believed first. One that is gone does not come back.
    fn note_state(&mut self) {
        let Condition { of_errors, of_port, state: before, .. } = self.condition;
        let state = if of_errors == PortState::Up { of_port } else { of_errors };
        if before != state && before != PortState::Gone {
            self.condition.state = state;
            self.condition.is_new = true;
        }
        let leaves = self.condition.is_open && matches!(self.condition.state, PortState::Up | PortState::Unserved);
        if self.line.leaves != leaves {
            self.set_line(Line { leaves, ..self.line });
        }
    }

    /// Whether the page is to say something else of it.
    pub fn takes_news(&mut self) -> bool {
        std::mem::take(&mut self.condition.is_new)
    }

    /// What the operator is to hear of the port, if that has changed since this was asked last.
    pub fn take_record(&mut self) -> Option<Record> {
        let state = self.condition.state;
        let (before, interface) = (std::mem::replace(&mut self.condition.told, state), &self.name);
        let code = match state {
            // The first lane says it for all.
            _ if state == before || !self.condition.is_first => return None,
            PortState::Up => return Some(Record::new(Level::Warn, format!("interface {interface} is up again"))),
            PortState::Unserved => QUEUES_UNSERVED,
            _ => PORT_DOWN,
        };
        let words = format!("interface {interface} is {}: {}", state.word(), state.remedy().replace("INTERFACE", interface));
        Some(Record::new(Level::Warn, words).with_code(code))
    }
}

fn line(facts: &PortFacts, memory: &FrameMemory, pieces_max: usize, leaves: bool) -> Line {
    let packet_bytes = facts.frame_bytes_max.min(Draft::bytes_max(memory, pieces_max));
    Line { mac: Mac(facts.link.mac), link_bytes: facts.frame_bytes_max, packet_bytes, leaves }
}
