//! What the suite needs of each kind of driver.

use corelane_seam::{Arena, Driver, FrameMemory, Port, Tuning, Unix};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// One of the two drivers of a rig.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    Server,
    Client,
}

pub const SIDES: [Side; 2] = [Side::Server, Side::Client];

/// Two drivers of one kind, each with its own arena, that reach each other.
pub trait Rig: Sized {
    /// The cases that this kind of driver cannot run, each with the reason.
    const CANNOT: &'static [(&'static str, &'static str)];

    /// Whether its drivers tell the bytes that have come at a socket of datagrams.
    const TELLS_OF_DATAGRAMS: bool = false;

    /// Two drivers with `memory` bytes each.
    fn new(tuning: Tuning, memory: usize) -> Self;

    fn driver(&mut self, side: Side) -> &mut dyn Driver;

    fn arena(&self, side: Side) -> &Arena;

    /// An address of that side, with port 0.
    fn address(&self, side: Side) -> SocketAddr;

    /// An IPv6 address of that side, with port 0.
    fn address_v6(&self, side: Side) -> SocketAddr;

    /// Another IPv4 address of the server, with port 0.
    fn other_address(&self) -> SocketAddr;

    /// An IPv4 address of the server, with port 0, for what is to be nobody's once it is closed.
    fn lonely(&self) -> SocketAddr {
        self.address(Side::Server)
    }

    /// A path in a directory where files can be made; the same for the same name.
    fn path(&self, name: &str) -> PathBuf;

    /// Makes a directory at [`Rig::path`] of `name`.
    fn make_directory(&self, name: &str);

    /// Makes a symbolic link at [`Rig::path`] of `name`.
    fn make_link(&self, name: &str, to: &Path);

    /// Gives what is at [`Rig::path`] of `from` another name.
    fn rename(&self, from: &str, to: &str);

    /// Makes a file at [`Rig::path`] of `name` that nobody may open: before the drivers work on files.
    fn make_forbidden(&mut self, name: &str);

    /// From now on the disk fails, or is well again.
    fn break_disk(&mut self, is_broken: bool);

    /// A directory with a magic link (proc(5)), and the link's name there; it leads to a file.
    fn magic_link(&self) -> (PathBuf, &'static str);

    /// The user whose processes both are.
    fn user(&self) -> u32;

    /// Takes a Unix name for a listener of that side, as is done before lanes are made; a stale one, too.
    fn take(&mut self, side: Side, name: &Unix);

    /// Removes a Unix name that was left.
    fn remove(&mut self, name: &Unix);

    /// A port for each side, server first, which receive into these and are joined by a wire that carries nothing else, packets of up to `mtu` bytes
    /// behind the link's header.
    ///
    /// # Errors
    /// Why this machine has none.
    fn ports(&mut self, memory: [FrameMemory; 2], mtu: usize) -> Result<[Box<dyn Port>; 2], String>;

    /// Lets time pass after a round in which nothing happened. Both drivers have been given a little time to wait,
    /// which is all that real ones need.
    fn pass(&mut self) {}
}
