//! What the system does not send of what programs redirect: nobody is told but who looks on at it (`xdp:xdp_devmap_xmit`, `xdp:xdp_redirect_err`).
//!
//! A frame that is redirected is put into the bulk of its interface, and the bulk is sent after the program's turn. What the driver does not take then is dropped, of which the
//! first tracepoint tells. A frame that is too long, or whose interface is down, does not come into a bulk: the second tells.

use super::maps::FAST_PORTS_MAX;
use super::maps::call::MAP_LOOKUP;
use crate::btf;
use crate::errors::Error;
use corelane_seam::Fault;
use corelane_select::bpf::assembly::{Alu, Assembler, Instruction, Label, Register, When, Width};
use corelane_select::bpf::{Hash, HashKind, Program, Tracepoint};
use std::os::fd::{AsFd, BorrowedFd};

use Register::{R0, R1, R2, R6, R7, R10};

/// Interfaces that are looked at, twice.
const ENTRIES: usize = 2 * FAST_PORTS_MAX;
/// Beside the indexes of interfaces: places of ports, where a frame came into no bulk.
const BY_PLACE: u32 = 1 << 31;

/// Those who look on.
#[derive(Debug)]
pub struct Drops {
    counts: Hash,
    _looking: [Tracepoint; 2],
}

impl Drops {
    /// Looks on from now on. `devices` is the number of the map by which programs redirect.
    ///
    /// # Errors
    /// [`Error::Program`] without CAP_PERFMON; [`Error::Absent`] where the kernel does not describe itself.
    pub fn watch(devices: u32) -> Result<Self, Error> {
        let absent = Error::Absent {
            what: "a description of the tracepoints of XDP",
            remedy: "use a kernel with CONFIG_DEBUG_INFO_BTF; what is lost at redirects is not counted",
        };
        let described = std::fs::read(btf::KERNEL).ok();
        let found = described.as_deref().and_then(|bytes| {
            let traces = btf::traces(bytes, ["btf_trace_xdp_devmap_xmit", "btf_trace_xdp_redirect_err"])?;
            Some((traces, btf::member(bytes, "net_device", "ifindex")?))
        });
        let Some(([sent, refused], index)) = found else { return Err(absent) };
        let index = i16::try_from(index).map_err(|_| absent)?;
        let counts = Hash::new(HashKind::PerCpu, (size_of::<u32>(), size_of::<u64>()), ENTRIES, "corelane_drops")?;
        let look = |instructions: &[Instruction], name, number| -> Result<Tracepoint, Error> {
            let program = Program::load_tracing(instructions, name, number)?;
            Tracepoint::attach(&program).map_err(|fault| Error::of("BPF_RAW_TRACEPOINT_OPEN", fault.number, ""))
        };
        let _looking = [
            look(&of_bulks(counts.as_fd(), index), "corelane_sent", sent)?,
            look(&of_frames(counts.as_fd(), devices), "corelane_lost", refused)?,
        ];
        Ok(Self { counts, _looking })
    }

    /// Counts those of this interface from now on, which is that of the port at this place.
    ///
    /// # Errors
    /// What the system says.
    pub fn watch_also(&self, device: u32, place: u16) -> Result<(), Fault> {
        for key in [device, BY_PLACE | u32::from(place)] {
            self.counts.update(&key.to_ne_bytes(), &0_u64.to_ne_bytes())?;
        }
        Ok(())
    }

    /// How many those were of an interface, which is that of the port at this place.
    ///
    /// # Errors
    /// What the system says.
    pub fn of(&self, device: u32, place: Option<u16>) -> Result<u64, Error> {
        let keys = [Some(device), place.map(|place| BY_PLACE | u32::from(place))];
        let mut sum = 0_u64;
        for key in keys.into_iter().flatten() {
            let found = self.counts.lookup(&key.to_ne_bytes());
            let found = found.map_err(|fault| Error::of("BPF_MAP_LOOKUP_ELEM", fault.number, ""))?;
            sum += found.unwrap_or_default().as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).sum::<u64>();
        }
        Ok(sum)
    }
}

/// A bulk was sent: from which interface, by which, how many frames of it, and how many not.
fn of_bulks(counts: BorrowedFd<'_>, index: i16) -> Vec<Instruction> {
    let mut a = Assembler::new();
    let done = a.label();
    a.alu(Alu::Move, R6, R1);
    a.load(Width::Eight, R7, R6, 24);
    low_half(&mut a, R7);
    a.branch(When::Equal, R7, 0, done);
    a.load(Width::Eight, R2, R6, 8);
    a.load(Width::Four, R1, R2, index);
    add(&mut a, counts, done);
    a.finish()
}

/// A frame came into no bulk: interface, program, where to, why, and of the map its kind, number, and the place in it.
fn of_frames(counts: BorrowedFd<'_>, devices: u32) -> Vec<Instruction> {
    let mut a = Assembler::new();
    let done = a.label();
    a.load(Width::Eight, R7, R1, 40);
    low_half(&mut a, R7);
    a.wide(R2, devices.into());
    a.branch(When::NotEqual, R7, R2, done);
    a.load(Width::Eight, R1, R1, 48);
    low_half(&mut a, R1);
    a.wide(R2, BY_PLACE.into());
    a.alu(Alu::Or, R1, R2);
    a.alu(Alu::Move, R7, 1);
    add(&mut a, counts, done);
    a.finish()
}

fn low_half(a: &mut Assembler, register: Register) {
    a.alu(Alu::ShiftLeft, register, 32);
    a.alu(Alu::ShiftRight, register, 32);
}

/// Adds R7 to the count of R1, if it is looked at, and ends.
fn add(a: &mut Assembler, counts: BorrowedFd<'_>, done: Label) {
    a.store(Width::Four, R10, -4, R1);
    a.map(R1, counts);
    a.alu(Alu::Move, R2, R10);
    a.alu(Alu::Add, R2, -4);
    a.call(MAP_LOOKUP);
    a.branch(When::Equal, R0, 0, done);
    a.load(Width::Eight, R1, R0, 0);
    a.alu(Alu::Add, R1, R7);
    a.store(Width::Eight, R0, 0, R1);
    a.place(done);
    a.alu(Alu::Move, R0, 0);
    a.exit();
}
