//! Programs for the ends of a wire: what they do to a packet is the whole service, or no service at all.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;

use anyhow::{Context, Result, bail};
use corelane_select::bpf::assembly::{Alu, Assembler, Label, Register, When, Width};
use corelane_select::bpf::{Map, MapKind, Program, ProgramKind, XdpLink, XdpMode};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;

use Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10};

/// The service's port.
pub const PORT: u16 = 60_007;

/// What an XDP program answers (`enum xdp_action`).
pub const DROP: i32 = 1;
pub const PASS: i32 = 2;
pub const TX: i32 = 3;

/// Functions of the kernel (bpf-helpers(7)).
pub const MAP_LOOKUP: i32 = 1;
const NOW: i32 = 5;
pub const RANDOM: i32 = 7;
const REDIRECT: i32 = 23;

pub const CONTEXT_DATA: i16 = 0;
pub const CONTEXT_DATA_END: i16 = 4;

/// Where things stand in a frame with an IPv4 header without options.
mod at {
    pub const SOURCE_MAC: i16 = 6;
    pub const ETHER_TYPE: i16 = 12;
    pub const VERSION_LENGTH: i16 = 14;
    pub const PROTOCOL: i16 = 23;
    pub const SOURCE: i16 = 26;
    pub const DESTINATION: i16 = 30;
    pub const SOURCE_PORT: i16 = 34;
    pub const DESTINATION_PORT: i16 = 36;
    pub const PAYLOAD: i16 = 42;
}

/// Flows of a flood: a power of two.
const FLOWS: i32 = 8;
/// The first source port of a flood; its low bits are the flow's.
const FLOOD_PORT: u16 = 40_000;

/// Leaves every packet to the kernel.
pub fn pass() -> Result<Program> {
    let mut a = Assembler::new();
    a.alu(Alu::Move, R0, PASS);
    a.exit();
    load(a, "bench_pass")
}

/// Sends datagrams to the service back to who sent them, on the way that they came: the least that an echo can cost.
pub fn echo() -> Result<Program> {
    let mut a = Assembler::new();
    let other = a.label();
    datagram(&mut a, at::DESTINATION_PORT, other);
    // Addresses and ports change places: no sum changes by that.
    for (left, right, width, words) in [
        (0, at::SOURCE_MAC, Width::Two, 3),
        (at::SOURCE, at::DESTINATION, Width::Four, 1),
        (at::SOURCE_PORT, at::DESTINATION_PORT, Width::Two, 1),
    ] {
        for word in 0..words {
            a.load(width, R4, R2, left + 2 * word);
            a.load(width, R5, R2, right + 2 * word);
            a.store(width, R2, left + 2 * word, R5);
            a.store(width, R2, right + 2 * word, R4);
        }
    }
    a.alu(Alu::Move, R0, TX);
    a.exit();
    a.place(other);
    a.alu(Alu::Move, R0, PASS);
    a.exit();
    load(a, "bench_echo")
}

/// Counts the service's answers, and lets nobody see them.
pub struct Counting {
    /// The program.
    pub program: Program,
    map: Map,
}

impl Counting {
    /// A program that has counted nothing.
    pub fn new() -> Result<Self> {
        let map = Map::new(MapKind::Array, 8, 1, "bench_count")?;
        let mut a = Assembler::new();
        let (other, absent) = (a.label(), a.label());
        datagram(&mut a, at::SOURCE_PORT, other);
        look_up(&mut a, &map, absent);
        // One thread receives there.
        a.load(Width::Eight, R1, R0, 0);
        a.alu(Alu::Add, R1, 1);
        a.store(Width::Eight, R0, 0, R1);
        a.place(absent);
        a.alu(Alu::Move, R0, DROP);
        a.exit();
        a.place(other);
        a.alu(Alu::Move, R0, PASS);
        a.exit();
        Ok(Self { program: load(a, "bench_count")?, map })
    }

    /// Answers so far.
    pub fn answers(&self) -> Result<u64> {
        let value = self.map.lookup(0).map_err(|fault| anyhow::anyhow!("reading the count: {fault:?}"))?;
        Ok(u64::from_ne_bytes(value.try_into().ok().context("the count has 8 bytes")?))
    }
}

/// Bytes of a frame's number.
const NUMBER_BYTES: i16 = 8;

/// Puts frames on the wire of an interface, so many a second.
pub struct Flood {
    program: Program,
    map: Map,
}

/// What its program keeps: nanoseconds from frame to frame (0: as fast as it can), when the next one is due, and how many have gone.
mod pace {
    pub const BYTES: usize = 24;
    pub const INTERVAL: i16 = 0;
    pub const DUE: i16 = 8;
    pub const SENT: i16 = 16;
}

/// Who is later than so many nanoseconds does not catch up: the kernel takes some 20 ms to begin a call.
const LATE: i32 = 1_000_000;

impl Flood {
    /// Out of this interface. Each frame gets a source port of one of the flows, and its number as its first bytes for the service: the same bytes time after time look like a loop of
    /// echoes, and are not answered. A frame that is not due is dropped before the wire sees it.
    pub fn new(interface: u32) -> Result<Self> {
        Self::of(interface, at::PAYLOAD + NUMBER_BYTES, |a| {
            a.store(Width::Eight, R7, at::PAYLOAD, R1);
            a.call(RANDOM);
            a.alu(Alu::And, R0, FLOWS - 1);
            a.alu(Alu::Or, R0, i32::from(FLOOD_PORT));
            a.to_big_endian_16(R0);
            a.store(Width::Two, R7, at::SOURCE_PORT, R0);
        })
    }

    /// Out of this interface, frames of so many bytes at least, each of which `change` makes another one: it finds the frame in R7 and its number in R1, and
    /// keeps R6 and R7.
    pub fn of(interface: u32, bytes: i16, change: impl FnOnce(&mut Assembler)) -> Result<Self> {
        let map = Map::new(MapKind::Array, pace::BYTES, 1, "bench_pace")?;
        let mut a = Assembler::new();
        let [drop, goes, on_time] = [a.label(), a.label(), a.label()];
        a.load(Width::Four, R7, R1, CONTEXT_DATA);
        a.load(Width::Four, R8, R1, CONTEXT_DATA_END);
        a.alu(Alu::Move, R4, R7);
        a.alu(Alu::Add, R4, i32::from(bytes));
        a.branch(When::Greater, R4, R8, drop);
        look_up(&mut a, &map, drop);
        a.alu(Alu::Move, R6, R0);
        a.load(Width::Eight, R9, R6, pace::INTERVAL);
        a.branch(When::Equal, R9, 0, goes);
        a.call(NOW);
        a.load(Width::Eight, R1, R6, pace::DUE);
        a.branch(When::Greater, R1, R0, drop);
        a.alu(Alu::Move, R2, R1);
        a.alu(Alu::Add, R2, LATE);
        a.branch(When::Greater, R2, R0, on_time);
        a.alu(Alu::Move, R1, R0);
        a.place(on_time);
        a.alu(Alu::Add, R1, R9);
        a.store(Width::Eight, R6, pace::DUE, R1);
        a.place(goes);
        a.load(Width::Eight, R1, R6, pace::SENT);
        a.alu(Alu::Add, R1, 1);
        a.store(Width::Eight, R6, pace::SENT, R1);
        change(&mut a);
        redirect(&mut a, interface);
        a.place(drop);
        a.alu(Alu::Move, R0, DROP);
        a.exit();
        Ok(Self { program: load(a, "bench_flood")?, map })
    }

    /// Begins anew: so many a second, or as many as can be, and none has gone.
    pub fn begin(&self, rate: Option<f64>) -> Result<()> {
        let interval = rate.map_or(0, |rate| (1e9 / rate) as u64);
        let pace = [interval, 0, 0].map(u64::to_ne_bytes).concat();
        self.map.update(0, &pace).map_err(|fault| anyhow::anyhow!("writing the pace: {fault:?}"))
    }

    /// Gives the program to the loopback interface of this thread's network namespace, where nothing goes on. With a program that no interface has, each call of [`Flood::emit`] takes the
    /// kernel 20 to 40 ms to begin and to end, and the flood pauses for as long. None where loopback has another one: then it pauses.
    pub fn held(&self) -> Option<XdpLink> {
        let loopback = if_nametoindex("lo").ok()?;
        XdpLink::attach(&self.program, loopback, XdpMode::Generic).ok()
    }

    /// Has the program see a frame so many times; a signal, such as one that stops this process for a while, ends that early.
    pub fn emit(&self, frame: &[u8], times: u32) -> Result<()> {
        match self.program.emit(frame, times) {
            Err(fault) if fault.number != Errno::EINTR as i32 => bail!("frames of a program (Linux 5.18): {fault:?}"),
            _ => Ok(()),
        }
    }

    /// How many have gone, those among them for which the wire had no room.
    pub fn sent(&self) -> Result<u64> {
        let value = self.map.lookup(0).map_err(|fault| anyhow::anyhow!("reading the pace: {fault:?}"))?;
        let sent = value.get(pace::SENT as usize..).and_then(|sent| sent.try_into().ok()).context("the pace has 24 bytes")?;
        Ok(u64::from_ne_bytes(sent))
    }
}

/// Ends with the frame on its way out of an interface.
pub fn redirect(a: &mut Assembler, interface: u32) {
    a.alu(Alu::Move, R1, interface.cast_signed());
    a.alu(Alu::Move, R2, 0);
    a.call(REDIRECT);
    a.exit();
}

/// A frame of a flood, with so many bytes for the service; its datagram has no checksum, since its source port varies (RFC 768).
pub fn frame(macs: [[u8; 6]; 2], addresses: [Ipv4Addr; 2], bytes: usize) -> Vec<u8> {
    let [from, to] = macs;
    let length = |more: usize| ((bytes + more) as u16).to_be_bytes();
    let mut header = [0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    header[2..4].copy_from_slice(&length(28));
    header[12..16].copy_from_slice(&addresses[0].octets());
    header[16..20].copy_from_slice(&addresses[1].octets());
    let sum: u32 = header.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = [to, from].concat();
    frame.extend([0x08, 0x00]);
    frame.extend(header);
    frame.extend(FLOOD_PORT.to_be_bytes());
    frame.extend(PORT.to_be_bytes());
    frame.extend(length(8));
    frame.extend([0, 0]);
    frame.resize(frame.len() + bytes, 0x5a);
    frame
}

/// Has a frame of a flood go to another port.
pub fn set_port(frame: &mut [u8], port: u16) {
    let place = at::DESTINATION_PORT as usize;
    frame[place..place + 2].copy_from_slice(&port.to_be_bytes());
}

/// Goes on with a datagram of IPv4 without options whose port at `place` is the service's, its start in R2; else to `other`.
fn datagram(a: &mut Assembler, place: i16, other: Label) {
    a.load(Width::Four, R2, R1, CONTEXT_DATA);
    a.load(Width::Four, R3, R1, CONTEXT_DATA_END);
    a.alu(Alu::Move, R4, R2);
    a.alu(Alu::Add, R4, i32::from(at::PAYLOAD));
    a.branch(When::Greater, R4, R3, other);
    for (width, at, value) in [
        (Width::Two, at::ETHER_TYPE, i32::from(0x0800_u16.to_be())),
        (Width::One, at::VERSION_LENGTH, 0x45),
        (Width::One, at::PROTOCOL, 17),
        (Width::Two, place, i32::from(PORT.to_be())),
    ] {
        a.load(width, R4, R2, at);
        a.branch(When::NotEqual, R4, value, other);
    }
}

/// The only entry of a map in R0; where it is absent, to `absent`.
fn look_up(a: &mut Assembler, map: &Map, absent: Label) {
    a.store(Width::Four, R10, -4, 0);
    a.map(R1, map.as_fd());
    a.alu(Alu::Move, R2, R10);
    a.alu(Alu::Add, R2, -4);
    a.call(MAP_LOOKUP);
    a.branch(When::Equal, R0, 0, absent);
}

/// Loads an XDP program.
pub fn load(a: Assembler, name: &str) -> Result<Program> {
    Program::load(ProgramKind::Xdp, &a.finish(), name).map_err(|error| anyhow::anyhow!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_a_flood_has_whole_headers() {
        let addresses = [Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2)];
        let frame = frame([[2; 6], [3; 6]], addresses, 64);
        assert_eq!(frame.len(), 42 + 64);
        assert_eq!((&frame[..6], &frame[6..12]), (&[3; 6][..], &[2; 6][..]));
        let words = frame[14..34].as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "RFC 1071: the sum over the header with its checksum");
        assert_eq!(frame[16..18], 92_u16.to_be_bytes());
        assert_eq!(frame[36..38], PORT.to_be_bytes());
        assert_eq!(frame[38..40], 72_u16.to_be_bytes());
    }

    #[test]
    fn the_kernel_takes_all_programs() {
        if let Err(error) = corelane_select::bpf::probe() {
            return corelane_os::testing::skip("bench::packet::the_kernel_takes_all_programs", &error.to_string());
        }
        pass().expect("pass");
        echo().expect("echo");
        let flood = Flood::new(1).expect("flood");
        flood.begin(Some(1e3)).expect("a pace");
        assert_eq!(flood.sent().expect("a count"), 0);
        assert_eq!(Counting::new().expect("counting").answers().expect("a count"), 0);
    }
}
