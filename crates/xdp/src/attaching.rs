//! The program of an interface, and how it comes there.

use crate::card::Functions;
use crate::errors::Error;
use crate::holder;
use crate::link::{Interface, TAG_BYTES};
use crate::ours::{self, Ours};
use crate::socket::HEADROOM;
use corelane_seam::{FRAME_BYTES_LEAST, Fault, Reason};
use corelane_select::bpf::{Map, Program, ProgramKind, XdpLink, XdpMode};
use std::os::fd::AsFd;

/// A program at its interface.
pub struct Attached {
    pub link: XdpLink,
    pub mode: XdpMode,
    /// It is given packets that lie in several pieces.
    pub has_pieces: bool,
    /// The card tells it of tags.
    pub tells: bool,
    /// It notes the card's hash in front of a packet.
    pub notes: bool,
}

/// Attaches the program that tells us most: one that asks the driver for tags and hashes by `functions`, if the driver runs it, and else one that reads the
/// packet's bytes only.
///
/// # Errors
/// [`Error::ProgramThere`], [`Error::Program`], and what [`Error::of`] has.
pub fn attach_best(ours: &Ours, sockets: &Map, interface: &Interface, functions: Option<&Functions>) -> Result<Attached, Error> {
    if functions.is_some()
        && let Ok((program, has_pieces)) = load(ours, sockets, interface, functions)
        && let Ok(link) = XdpLink::attach(&program, interface.link.interface, XdpMode::Native)
    {
        let notes = functions.is_some_and(|functions| functions.types != 0);
        return Ok(Attached { link, mode: XdpMode::Native, has_pieces, tells: true, notes });
    }
    let (program, has_pieces) = load(ours, sockets, interface, None)?;
    let (link, mode) = attach(&program, interface)?;
    Ok(Attached { link, mode, has_pieces, tells: false, notes: false })
}

/// The program; and whether it is given packets in several pieces, which it is where frames may be too short for one.
fn load(ours: &Ours, sockets: &Map, interface: &Interface, functions: Option<&Functions>) -> Result<(Program, bool), Error> {
    const NAME: &str = "corelane_ours";
    let instructions = ours::program(ours, sockets.as_fd(), functions);
    let load = |kind| match functions {
        Some(_) => Program::load_for(kind, &instructions, NAME, interface.link.interface),
        None => Program::load(kind, &instructions, NAME),
    };
    if interface.frame_bytes_max() + TAG_BYTES > FRAME_BYTES_LEAST - HEADROOM
        && let Ok(program) = load(ProgramKind::XdpPieces)
    {
        return Ok((program, true));
    }
    Ok((load(ProgramKind::Xdp)?, false))
}

fn attach(program: &Program, interface: &Interface) -> Result<(XdpLink, XdpMode), Error> {
    let index = interface.link.interface;
    let refused = |fault: Fault| match fault.number {
        libc::EBUSY | libc::EEXIST => there(interface),
        number => Error::of("BPF_LINK_CREATE", number, &interface.name),
    };
    match XdpLink::attach(program, index, XdpMode::Native) {
        Ok(link) => Ok((link, XdpMode::Native)),
        // A driver that runs programs may not run them as the interface is set up now, such as with fewer queues than the other end has.
        Err(fault) if fault.reason == Reason::Unsupported || [libc::EINVAL, libc::ENOSPC].contains(&fault.number) => {
            let link = XdpLink::attach(program, index, XdpMode::Generic).map_err(refused)?;
            Ok((link, XdpMode::Generic))
        }
        Err(fault) => Err(refused(fault)),
    }
}

/// The interface has a program: whose, as far as that is to be seen.
fn there(interface: &Interface) -> Error {
    // What it has now, and not before we tried.
    let found = Interface::find(&interface.name).unwrap_or_else(|_| interface.clone());
    let mode = found.program_mode.unwrap_or("xdp");
    Error::ProgramThere { name: found.name, holder: found.program.and_then(holder::of_program).map(Into::into), mode }
}
