//! Programs at interfaces.

use super::{ATTACH_XDP, Command, ObjectInfo, Program, call};
use corelane_os::errno;
use corelane_seam::Fault;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How an interface runs a program (`XDP_FLAGS_DRV_MODE`, `XDP_FLAGS_SKB_MODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum XdpMode {
    /// Its driver does, before the kernel makes anything of a packet.
    Native = 1 << 2,
    /// The kernel does, on every interface.
    Generic = 1 << 1,
}

/// A program's place at an interface. The kernel takes it away when this is dropped, and when the process ends, however it does.
#[derive(Debug)]
pub struct XdpLink {
    descriptor: OwnedFd,
}

/// The head of `struct bpf_link_info`, as far as it is of use.
#[derive(Default)]
#[repr(C)]
struct LinkInfo {
    kind: u32,
    id: u32,
    program: u32,
    unused: u32,
    /// The interface that has the program; 0 once somebody has taken it off, and once the interface is gone.
    interface: u32,
    unused_too: u32,
}

#[repr(C)]
struct CreateLink {
    program: u32,
    interface: u32,
    attach_to: u32,
    flags: u32,
}

#[repr(C)]
struct UpdateLink {
    link: u32,
    program: u32,
    flags: u32,
    /// The program that it must have now, if that is asked for.
    former: u32,
}

impl XdpLink {
    /// Gives the program to the interface of this index (kernel 5.9). Needs CAP_NET_ADMIN and CAP_BPF.
    ///
    /// # Errors
    /// `Busy` with EBUSY if the interface has a program, `Unsupported` with EOPNOTSUPP if its driver runs none, and what else the system says.
    pub fn attach(program: &Program, interface: u32, mode: XdpMode) -> Result<Self, Fault> {
        let program = program.descriptor.as_raw_fd().unsigned_abs();
        let attribute = CreateLink { program, interface, attach_to: ATTACH_XDP, flags: mode as u32 };
        // SAFETY: the attribute is that of the command, and holds no pointers.
        let number = unsafe { call(Command::LinkCreate, &attribute) }.map_err(errno::fault)?;
        // SAFETY: the call has just made this descriptor, and nobody else knows it.
        Ok(Self { descriptor: unsafe { OwnedFd::from_raw_fd(number as i32) } })
    }

    /// Has the interface run another program from the next packet on, of the same kind (`BPF_LINK_UPDATE`): each packet is seen by one of the two, and none by neither.
    ///
    /// # Errors
    /// What the system says; `Other` with ENOLINK if somebody has taken the program off, or the interface is gone.
    pub fn update(&self, program: &Program) -> Result<(), Fault> {
        let attribute = UpdateLink {
            link: self.descriptor.as_raw_fd().unsigned_abs(),
            program: program.descriptor.as_raw_fd().unsigned_abs(),
            flags: 0,
            former: 0,
        };
        // SAFETY: the attribute is that of the command, and holds no pointers.
        unsafe { call(Command::LinkUpdate, &attribute) }.map(drop).map_err(errno::fault)
    }

    /// Whether the interface still has the program: whoever may do so can take it off (`bpftool link detach`), which nobody is told of.
    ///
    /// # Errors
    /// What the system says.
    pub fn is_attached(&self) -> Result<bool, Fault> {
        let mut info = LinkInfo::default();
        let attribute = ObjectInfo {
            descriptor: self.descriptor.as_raw_fd().unsigned_abs(),
            bytes: size_of::<LinkInfo>() as u32,
            info: std::ptr::from_mut(&mut info).expose_provenance() as u64,
        };
        // SAFETY: the attribute is that of the command, and names so many writable bytes, of which any values are good.
        unsafe { call(Command::ObjectInfo, &attribute) }.map_err(errno::fault)?;
        Ok(info.interface != 0)
    }
}
