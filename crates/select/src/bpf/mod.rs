//! The kernel's virtual machine: its maps and programs (bpf(2)).
//!
//! A descriptor of a map or program is closed on exec, and means something in the descriptor table only in which it was made
//! or that was copied from it: make maps before lanes take tables of their own ([`corelane_os::runner::own_descriptors`]).

pub mod assembly;
mod counts;
mod generation;
mod hash;
mod link;
mod sockets;
mod told;
mod tracepoint;

use crate::errors::Error;
use assembly::Instruction;
use corelane_os::cpus;
use corelane_os::errno::{self, checked};
use corelane_os::kernel_files::text;
use corelane_seam::{Fault, Reason};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

pub use counts::Counts;
pub use generation::Generation;
pub use hash::{Hash, HashKind};
pub use link::{XdpLink, XdpMode};
pub use told::Told;
pub use tracepoint::Tracepoint;

/// Commands of bpf(2).
#[derive(Clone, Copy)]
#[repr(i32)]
enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    ProgramLoad = 5,
    ProgramAttach = 8,
    ProgramRun = 10,
    ObjectInfo = 15,
    TracepointOpen = 17,
    LinkCreate = 28,
    LinkUpdate = 29,
    EnableStats = 32,
}

/// Bytes of the verifier's words that are kept: its last ones (kernel 6.4), or its first.
const LOG_BYTES: usize = 64 << 10;
/// How often a program is loaded again after an interruption.
const INTERRUPTED_MAX: usize = 16;
/// Bytes of a name, with the zero at its end.
const NAME_BYTES: usize = 16;
const CPUS_POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// A kind of map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MapKind {
    /// Values by number.
    Array = 2,
    /// Values by number and CPU.
    PerCpuArray = 6,
    /// Interfaces by number, to each of which a program redirects packets: their indexes, 4 bytes each (`BPF_MAP_TYPE_DEVMAP`). One that is gone is out of it.
    Devices = 14,
    /// Connections by number, each of which may have a program that decides on what it receives (`BPF_MAP_TYPE_SOCKMAP`). One that closes is out of it. What is written are
    /// descriptors, 4 bytes each.
    Connections = 15,
    /// AF_XDP sockets by number, as their queues have (`BPF_MAP_TYPE_XSKMAP`). A socket that closes is out of it.
    XdpSockets = 17,
    /// Sockets of one group by number (SO_REUSEPORT, socket(7)). A lookup brings the socket's cookie (SO_COOKIE).
    SocketArray = 20,
}

/// An array in the kernel, whose keys are the numbers from 0.
#[derive(Debug)]
pub struct Map {
    descriptor: OwnedFd,
    kind: MapKind,
    value_bytes: usize,
    /// Bytes of what a look-up brings.
    found_bytes: usize,
}

impl MapKind {
    fn found_bytes(self, value_bytes: usize) -> usize {
        match self {
            Self::PerCpuArray => value_bytes.next_multiple_of(8) * cpus_possible().len(),
            _ => value_bytes,
        }
    }
}

#[derive(Default)]
#[repr(C)]
struct CreateMap {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    most_entries: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; NAME_BYTES],
}

#[repr(C)]
struct Element {
    map: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl Map {
    /// A map of this kind and size that another process made.
    pub(crate) fn inherited(kind: MapKind, value_bytes: usize, descriptor: OwnedFd) -> Self {
        Self { descriptor, kind, value_bytes, found_bytes: kind.found_bytes(value_bytes) }
    }

    /// An array of `entries` values of so many bytes, all zero. The name, of at most 15 letters, digits, `_` and `.`, is for
    /// those who look (`bpftool map`).
    ///
    /// # Errors
    /// [`Error::BpfForbidden`], [`Error::BpfAbsent`], [`Error::Refused`].
    ///
    /// # Panics
    /// If the name is longer.
    pub fn new(kind: MapKind, value_bytes: usize, entries: usize, name: &str) -> Result<Self, Error> {
        Self::with_flags(kind, value_bytes, entries, name, 0)
    }

    fn with_flags(kind: MapKind, value_bytes: usize, entries: usize, name: &str, flags: u32) -> Result<Self, Error> {
        assert!(value_bytes > 0 && entries > 0, "a map holds something");
        let attribute = CreateMap {
            kind: kind as u32,
            key_bytes: size_of::<u32>() as u32,
            value_bytes: value_bytes as u32,
            most_entries: entries as u32,
            flags,
            name: named(name),
            ..CreateMap::default()
        };
        Ok(Self { descriptor: create(&attribute)?, kind, value_bytes, found_bytes: kind.found_bytes(value_bytes) })
    }

    /// Writes one value.
    ///
    /// # Errors
    /// What the system says; `Other` with E2BIG for a key outside.
    ///
    /// # Panics
    /// If the value has not the map's size, or the map has values by CPU.
    pub fn update(&self, key: usize, value: &[u8]) -> Result<(), Fault> {
        assert!(value.len() == self.value_bytes && self.kind != MapKind::PerCpuArray);
        self.element(Command::MapUpdate, key, value.as_ptr().expose_provenance() as u64)
    }

    /// Reads one value; with values by CPU those of all possible CPUs, each filled up to 8 bytes.
    ///
    /// # Errors
    /// What the system says; `NotFound` for a key outside, or without a socket.
    pub fn lookup(&self, key: usize) -> Result<Vec<u8>, Fault> {
        let mut value = vec![0; self.found_bytes];
        assert!(!value.is_empty(), "the kernel writes a value there");
        self.element(Command::MapLookup, key, value.as_mut_ptr().expose_provenance() as u64)?;
        Ok(value)
    }

    /// Takes one value out; arrays of plain values refuse.
    ///
    /// # Errors
    /// What the system says; `NotFound` where there is none.
    pub fn delete(&self, key: usize) -> Result<(), Fault> {
        self.element(Command::MapDelete, key, 0)
    }

    /// The number by which the kernel knows it (`bpftool map`).
    ///
    /// # Errors
    /// What the system says.
    pub fn id(&self) -> Result<u32, Fault> {
        let mut info = [0_u32; 2];
        let attribute = ObjectInfo {
            descriptor: self.descriptor.as_raw_fd().unsigned_abs(),
            bytes: size_of_val(&info) as u32,
            info: info.as_mut_ptr().expose_provenance() as u64,
        };
        // SAFETY: the attribute is that of the command, and names so many writable bytes, of which any values are good.
        unsafe { call(Command::ObjectInfo, &attribute) }.map_err(errno::fault)?;
        Ok(info[1])
    }

    fn element(&self, command: Command, key: usize, value: u64) -> Result<(), Fault> {
        let key = u32::try_from(key).map_err(|_| Fault::of(Reason::NotFound))?;
        // SAFETY: the key is 4 readable bytes, and the value, where the command has one, memory of the caller as large as the map's values, writable for a lookup.
        unsafe { element(&self.descriptor, command, &key.to_ne_bytes(), value) }
    }
}

/// # Safety
/// The key is as long as the map's, and the value, where the command has one, is memory as large as a look-up brings or an update takes, writable for a look-up.
unsafe fn element(map: &OwnedFd, command: Command, key: &[u8], value: u64) -> Result<(), Fault> {
    let map = map.as_raw_fd().unsigned_abs();
    let attribute = Element { map, key: key.as_ptr().expose_provenance() as u64, value, flags: 0 };
    // SAFETY: the attribute is that of the command; for what it names the caller answers.
    unsafe { call(command, &attribute) }.map(drop).map_err(errno::fault)
}

/// Makes a map.
fn create(attribute: &CreateMap) -> Result<OwnedFd, Error> {
    // SAFETY: the attribute is that of the command, and holds no pointers.
    let number = unsafe { call(Command::MapCreate, attribute) }.map_err(|number| refused("BPF_MAP_CREATE", number))?;
    // SAFETY: the call has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(number as i32) })
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The CPUs that this machine may ever have, lowest first: the order of values by CPU (the kernel's cputopology). The system is asked once, as the first map with such values is made: no lane opens
/// a file for them.
#[must_use]
pub fn cpus_possible() -> &'static [usize] {
    static POSSIBLE: OnceLock<Vec<usize>> = OnceLock::new();
    POSSIBLE.get_or_init(|| {
        // A kernel that can load programs tells; were it not so, the lookup would not be believed.
        text(CPUS_POSSIBLE).ok().and_then(|list| cpus::parse_list(list.trim()).ok()).unwrap_or_else(|| (0..8_192).collect())
    })
}

/// A kind of program and where it is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramKind {
    /// Chooses the socket of a group for a packet, and for a connection whose socket closes (`BPF_PROG_TYPE_SK_REUSEPORT`
    /// with `BPF_SK_REUSEPORT_SELECT_OR_MIGRATE`, kernel 5.14).
    SelectSocket,
    /// Looks at each packet that a socket, or a queue of a tap, is given (`BPF_PROG_TYPE_SOCKET_FILTER`).
    Filter,
    /// Decides on each packet as it comes from the card (`BPF_PROG_TYPE_XDP`).
    Xdp,
    /// The same, also on one that lies in several pieces of memory, of which it sees the first (`BPF_F_XDP_HAS_FRAGS`, kernel 5.18).
    XdpPieces,
    /// Decides on what a connection has received before anybody reads it (`BPF_PROG_TYPE_SK_SKB` with `BPF_SK_SKB_STREAM_VERDICT`): see [`Program::decide_for`].
    StreamVerdict,
    /// Looks on at what the kernel traces, and may read what it is told of (`BPF_PROG_TYPE_TRACING` with `BPF_TRACE_RAW_TP`).
    Tracing,
}

impl ProgramKind {
    fn numbers(self) -> (u32, u32) {
        match self {
            Self::SelectSocket => (21, 40),
            Self::Filter => (1, 0),
            Self::Xdp | Self::XdpPieces => (6, ATTACH_XDP),
            Self::StreamVerdict => (14, ATTACH_STREAM_VERDICT),
            Self::Tracing => (26, 23),
        }
    }

    fn flags(self) -> u32 {
        if self == Self::XdpPieces { HAS_PIECES } else { 0 }
    }
}

/// `BPF_XDP`.
const ATTACH_XDP: u32 = 37;
/// `BPF_SK_SKB_STREAM_VERDICT`.
const ATTACH_STREAM_VERDICT: u32 = 5;
/// `BPF_F_XDP_HAS_FRAGS`.
const HAS_PIECES: u32 = 1 << 5;
/// `BPF_F_XDP_DEV_BOUND_ONLY`.
const OF_ONE_INTERFACE: u32 = 1 << 6;

/// A program in the kernel, checked and translated.
#[derive(Debug)]
pub struct Program {
    descriptor: OwnedFd,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct LoadProgram {
    kind: u32,
    count: u32,
    instructions: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; NAME_BYTES],
    interface: u32,
    attach_to: u32,
    descriptions: [u32; 9],
    /// What of the kernel's description it is attached to.
    described: u32,
}

/// What a program has cost, counted while somebody has [`RunStatistics`] on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// How often it ran.
    pub count: u64,
    /// Nanoseconds in all, the two readings of the clock around each run included.
    pub nanoseconds: u64,
}

/// The head of `struct bpf_prog_info`, as far as it is of use.
#[derive(Default)]
#[repr(C)]
struct Info {
    kind: u32,
    id: u32,
    unused: [u64; 23],
    run_nanoseconds: u64,
    run_count: u64,
}

#[repr(C)]
struct ObjectInfo {
    descriptor: u32,
    bytes: u32,
    info: u64,
}

impl Program {
    /// A program that another process loaded.
    pub(crate) fn inherited(descriptor: OwnedFd) -> Self {
        Self { descriptor }
    }

    /// Loads a program. It calls no function that the kernel keeps for programs under the GPL. The name is as in [`Map::new`].
    ///
    /// # Errors
    /// [`Error::BpfForbidden`], [`Error::BpfAbsent`]; [`Error::BpfVerifier`] with the verifier's words.
    ///
    /// # Panics
    /// If the name is too long.
    pub fn load(kind: ProgramKind, instructions: &[Instruction], name: &str) -> Result<Self, Error> {
        Self::load_with(kind, instructions, name, None, 0)
    }

    /// Loads an XDP program for the interface of this index alone, whose driver's functions it calls ([`assembly::Assembler::call_kernel`]; Linux 6.3). The
    /// kernel gives such functions to programs that are under the GPL as well, so this one is, beside our licence.
    ///
    /// # Errors
    /// As [`Program::load`], which say so of a driver without such functions, too.
    ///
    /// # Panics
    /// If the name is too long, or the program is of another kind.
    pub fn load_for(kind: ProgramKind, instructions: &[Instruction], name: &str, interface: u32) -> Result<Self, Error> {
        assert!(matches!(kind, ProgramKind::Xdp | ProgramKind::XdpPieces), "only these are an interface's");
        Self::load_with(kind, instructions, name, Some(interface), 0)
    }

    /// Loads a program that looks on at what the kernel traces, which has this number in the kernel's description (`btf_trace_*`; kernel 5.5). Needs CAP_PERFMON as well.
    ///
    /// # Errors
    /// As [`Program::load`].
    ///
    /// # Panics
    /// If the name is too long.
    pub fn load_tracing(instructions: &[Instruction], name: &str, described: u32) -> Result<Self, Error> {
        Self::load_with(ProgramKind::Tracing, instructions, name, None, described)
    }

    fn load_with(
        kind: ProgramKind,
        instructions: &[Instruction],
        name: &str,
        interface: Option<u32>,
        described: u32,
    ) -> Result<Self, Error> {
        assert!(!instructions.is_empty(), "a program has an instruction that ends it");
        let (number, attach_to) = kind.numbers();
        let attribute = LoadProgram {
            kind: number,
            count: instructions.len() as u32,
            instructions: instructions.as_ptr().expose_provenance() as u64,
            licence: if interface.is_some() || described != 0 { c"Dual MIT/GPL" } else { c"MIT" }.as_ptr().expose_provenance()
                as u64,
            log_level: 0,
            log_bytes: 0,
            log: 0,
            kernel_version: 0,
            flags: kind.flags() | if interface.is_some() { OF_ONE_INTERFACE } else { 0 },
            name: named(name),
            interface: interface.unwrap_or(0),
            attach_to,
            descriptions: [0; 9],
            described,
        };
        let loaded = Self::load_once(&attribute);
        loaded.or_else(|number| Self::load_aloud(attribute, number))
    }

    /// The verifier gives way to whatever the kernel has to do on this thread (EAGAIN), a signal or the end of a ring.
    fn load_once(attribute: &LoadProgram) -> Result<Self, i32> {
        for _ in 0..INTERRUPTED_MAX {
            // SAFETY: the attribute is that of the command, and names so many instructions, a string, and so many writable bytes
            // for a log, if one is asked for.
            match unsafe { call(Command::ProgramLoad, attribute) } {
                // SAFETY: the call has just made this descriptor, and nobody else knows it.
                Ok(number) => return Ok(Self { descriptor: unsafe { OwnedFd::from_raw_fd(number as i32) } }),
                Err(libc::EAGAIN) => {}
                Err(number) => return Err(number),
            }
        }
        Err(libc::EAGAIN)
    }

    /// Asks the verifier again, for its words. Without any it never came to look.
    fn load_aloud(mut attribute: LoadProgram, number: i32) -> Result<Self, Error> {
        let mut log = vec![0_u8; LOG_BYTES];
        (attribute.log_level, attribute.log_bytes) = (1, LOG_BYTES as u32);
        attribute.log = log.as_mut_ptr().expose_provenance() as u64;
        Self::load_once(&attribute).map_err(|_| {
            let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
            let log = String::from_utf8_lossy(&log[..end]).trim().to_owned();
            if log.is_empty() { refused("BPF_PROG_LOAD", number) } else { Error::BpfVerifier { number, log: log.into() } }
        })
    }

    /// The number by which the kernel knows it (`bpftool prog`).
    ///
    /// # Errors
    /// What the system says.
    pub fn id(&self) -> Result<u32, Fault> {
        self.info().map(|info| info.id)
    }

    /// How often it ran and how long.
    ///
    /// # Errors
    /// What the system says.
    pub fn runs(&self) -> Result<Runs, Fault> {
        self.info().map(|info| Runs { count: info.run_count, nanoseconds: info.run_nanoseconds })
    }

    fn info(&self) -> Result<Info, Fault> {
        let mut info = Info::default();
        let attribute = ObjectInfo {
            descriptor: self.descriptor.as_raw_fd().unsigned_abs(),
            bytes: size_of::<Info>() as u32,
            info: std::ptr::from_mut(&mut info).expose_provenance() as u64,
        };
        // SAFETY: the attribute is that of the command, and names so many writable bytes, of which any values are good.
        unsafe { call(Command::ObjectInfo, &attribute) }.map_err(errno::fault)?;
        Ok(info)
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// `struct bpf_attr`, as BPF_PROG_RUN reads it. What is behind the last field must be zero, so nothing here is padding.
#[derive(Default)]
#[repr(C)]
struct RunProgram {
    program: u32,
    returned: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: u64,
    data_out: u64,
    times: u32,
    took: u32,
    context_bytes_in: u32,
    context_bytes_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    unused: u32,
}

impl Program {
    /// Lets an XDP program see `times` frames with these bytes, and does with each what the program says: one that it redirects goes to that
    /// interface of the thread's network namespace as from a card (`BPF_F_TEST_XDP_LIVE_FRAMES`, kernel 5.18). Bytes that the program changes
    /// may be so in later frames. Needs CAP_NET_ADMIN and CAP_BPF.
    ///
    /// # Errors
    /// What the system says; `Other` with EINVAL for a kernel without it, and for a frame longer than a page takes.
    pub fn emit(&self, frame: &[u8], times: u32) -> Result<(), Fault> {
        const LIVE_FRAMES: u32 = 1 << 1;
        assert!(times > 0, "the kernel takes no times for once");
        let attribute = RunProgram {
            program: self.descriptor.as_raw_fd().unsigned_abs(),
            bytes_in: frame.len() as u32,
            data_in: frame.as_ptr().expose_provenance() as u64,
            times,
            flags: LIVE_FRAMES,
            ..RunProgram::default()
        };
        // SAFETY: the attribute is that of the command, and names so many readable bytes; with this flag nothing is written back.
        unsafe { call(Command::ProgramRun, &attribute) }.map(drop).map_err(errno::fault)
    }
}

/// Bytes that a program may put in front of a frame.
const HEAD_BYTES: usize = 64;

impl Program {
    /// Lets an XDP program see one frame with these bytes, of 14 at least, and does nothing with it: what the program answers (`BPF_PROG_TEST_RUN`, kernel 4.12).
    ///
    /// # Errors
    /// What the system says.
    pub fn answer(&self, frame: &[u8]) -> Result<u32, Fault> {
        self.answer_and_change(frame).map(|(answer, _)| answer)
    }

    /// The same, and what the program leaves of the frame.
    ///
    /// # Errors
    /// What the system says.
    pub fn answer_and_change(&self, frame: &[u8]) -> Result<(u32, Vec<u8>), Fault> {
        let mut changed = vec![0; frame.len() + HEAD_BYTES];
        let mut attribute = RunProgram {
            program: self.descriptor.as_raw_fd().unsigned_abs(),
            bytes_in: frame.len() as u32,
            bytes_out: changed.len() as u32,
            data_in: frame.as_ptr().expose_provenance() as u64,
            data_out: changed.as_mut_ptr().expose_provenance() as u64,
            times: 1,
            ..RunProgram::default()
        };
        let written = std::ptr::from_mut(&mut attribute);
        // SAFETY: the attribute is that of the command, and names so many readable bytes and so many writable ones; the kernel writes its answer into the attribute.
        unsafe { call(Command::ProgramRun, &*written) }.map_err(errno::fault)?;
        // SAFETY: the attribute lives here, and the kernel has written it through this pointer.
        let RunProgram { returned, bytes_out, .. } = unsafe { written.read() };
        changed.truncate(bytes_out as usize);
        Ok((returned, changed))
    }
}

/// Keeps the counting of runs switched on, for all programs of the machine, as long as it lives (`BPF_ENABLE_STATS`, kernel
/// 5.8). Needs CAP_SYS_ADMIN. A program then takes two readings of the clock longer.
#[derive(Debug)]
pub struct RunStatistics {
    _descriptor: OwnedFd,
}

impl RunStatistics {
    /// Switches it on.
    ///
    /// # Errors
    /// `Permission` without CAP_SYS_ADMIN.
    pub fn enable() -> Result<Self, Fault> {
        const RUN_TIME: u32 = 0;
        // SAFETY: the attribute is that of the command: the kind of statistics.
        let number = unsafe { call(Command::EnableStats, &RUN_TIME) }.map_err(errno::fault)?;
        // SAFETY: the call has just made this descriptor, and nobody else knows it.
        Ok(Self { _descriptor: unsafe { OwnedFd::from_raw_fd(number as i32) } })
    }
}

/// Makes an array, writes to it and reads it back.
///
/// # Errors
/// Why that does not work: see [`Map::new`].
pub fn probe() -> Result<(), Error> {
    let map = Map::new(MapKind::Array, 4, 2, "corelane_probe")?;
    let written = map.update(1, b"lane").and_then(|()| map.lookup(1));
    match written.map_err(|fault| Error::Refused { call: "BPF_MAP_UPDATE_ELEM", fault })?.as_slice() {
        b"lane" => Ok(()),
        _ => Err(Error::Refused { call: "BPF_MAP_LOOKUP_ELEM", fault: Fault::of(Reason::Other) }),
    }
}

/// # Safety
/// `attribute` is what `command` takes, and the memory that it names is there.
unsafe fn call<T>(command: Command, attribute: &T) -> Result<usize, i32> {
    let bytes = size_of::<T>();
    // SAFETY: the attribute has so many readable bytes; for the rest the caller answers.
    checked(unsafe { libc::syscall(libc::SYS_bpf, command as i32, std::ptr::from_ref(attribute), bytes) } as isize)
}

fn named(name: &str) -> [u8; NAME_BYTES] {
    assert!(name.len() < NAME_BYTES, "a zero follows the name");
    let mut bytes = [0; NAME_BYTES];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes
}

/// What a failed command means.
fn refused(call: &'static str, number: i32) -> Error {
    match number {
        libc::EPERM | libc::EACCES => Error::BpfForbidden { call },
        libc::ENOSYS | libc::EINVAL => Error::BpfAbsent { call },
        number => Error::Refused { call, fault: errno::fault(number) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assembly::{Alu, Assembler, Register};

    /// False, and says so, where this process may not use bpf(2).
    fn may(test: &str) -> bool {
        match probe() {
            Ok(()) => true,
            Err(error) => {
                corelane_os::testing::skip(test, &error.to_string());
                false
            }
        }
    }

    #[test]
    fn values_are_kept_and_keys_are_checked() {
        if !may("values_are_kept_and_keys_are_checked") {
            return;
        }
        let map = Map::new(MapKind::Array, 4, 3, "corelane_test").unwrap();
        map.update(2, &7_u32.to_ne_bytes()).unwrap();
        assert_eq!(map.lookup(2).unwrap(), 7_u32.to_ne_bytes());
        assert_eq!(map.lookup(0).unwrap(), [0; 4]);
        assert_eq!(map.update(3, &[0; 4]).unwrap_err().number, libc::E2BIG);
        assert_eq!(map.lookup(3).unwrap_err().reason, Reason::NotFound);
        assert_eq!(map.lookup(usize::MAX).unwrap_err().reason, Reason::NotFound);
        let by_cpu = Map::new(MapKind::PerCpuArray, 12, 1, "corelane_test").unwrap();
        assert_eq!(by_cpu.lookup(0).unwrap().len(), 16 * cpus_possible().len());
        assert!(std::ptr::eq(cpus_possible(), cpus_possible()), "the system is asked once");
        // SAFETY: the call takes no memory.
        let flags = unsafe { libc::fcntl(map.as_fd().as_raw_fd(), libc::F_GETFD) };
        assert_eq!(flags, libc::FD_CLOEXEC);
    }

    #[test]
    fn a_program_that_the_verifier_refuses_brings_its_words() {
        if !may("a_program_that_the_verifier_refuses_brings_its_words") {
            return;
        }
        let mut broken = Assembler::new();
        broken.load(assembly::Width::Four, Register::R0, Register::R7, 0);
        broken.exit();
        let error = Program::load(ProgramKind::SelectSocket, &broken.finish(), "corelane_broken").unwrap_err();
        assert!(matches!(error, Error::BpfVerifier { number: libc::EACCES, .. }), "{error:?}");
        assert!(error.to_string().contains("R7 !read_ok"), "{error}");
    }

    /// Frames that a program is let see run it as often as is said.
    #[test]
    fn frames_are_emitted_as_often_as_is_said() {
        const NAME: &str = "frames_are_emitted_as_often_as_is_said";
        if !may(NAME) {
            return;
        }
        let map = Map::new(MapKind::Array, 8, 1, "corelane_emit").unwrap();
        let mut a = Assembler::new();
        a.map(Register::R1, map.as_fd());
        a.store(assembly::Width::Four, Register::R10, -4, 0);
        a.alu(Alu::Move, Register::R2, Register::R10);
        a.alu(Alu::Add, Register::R2, -4);
        a.call(1);
        let end = a.label();
        a.branch(assembly::When::Equal, Register::R0, 0, end);
        a.load(assembly::Width::Eight, Register::R1, Register::R0, 0);
        a.alu(Alu::Add, Register::R1, 1);
        a.store(assembly::Width::Eight, Register::R0, 0, Register::R1);
        a.place(end);
        // XDP_DROP
        a.alu(Alu::Move, Register::R0, 1);
        a.exit();
        let program = Program::load(ProgramKind::Xdp, &a.finish(), "corelane_emit").unwrap();
        match program.emit(&[0; 60], 100) {
            Ok(()) => assert_eq!(map.lookup(0).unwrap(), 100_u64.to_ne_bytes()),
            Err(fault) => corelane_os::testing::skip(NAME, &format!("this kernel emits no frames: {fault:?}")),
        }
    }

    #[test]
    fn a_program_has_a_number_and_runs_that_are_counted() {
        if !may("a_program_has_a_number_and_runs_that_are_counted") {
            return;
        }
        let mut empty = Assembler::new();
        empty.alu(Alu::Move, Register::R0, 1);
        empty.exit();
        let program = Program::load(ProgramKind::SelectSocket, &empty.finish(), "corelane_empty").unwrap();
        assert_ne!(program.id().unwrap(), 0);
        assert_eq!(program.runs().unwrap(), Runs::default());
    }
}
