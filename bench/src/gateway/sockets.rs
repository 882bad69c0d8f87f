//! Users who send by sockets of the kernel: each call wakes who receives, so that more of a gateway's cost is the kernel's.

use std::io::IoSlice;
use std::net::{SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, sendmmsg};
use nix::unistd::gettid;

use super::houses::{self, FRAME_BYTES};
use crate::packet::flood::{Emitted, thread_cpu_ns, yields};
use crate::packet::programs::PORT;
use crate::packet::wire::{End, Wire};

/// Datagrams of one call.
const BATCH: usize = 64;
/// Bytes of a frame that are no user's.
const HEADS: usize = 42;

/// A user of each house, and whom he sends to.
pub struct Sockets {
    users: Vec<(UdpSocket, Vec<Option<SockaddrIn>>)>,
}

impl Sockets {
    /// At the near end of the wire.
    pub fn new(wire: &Wire) -> Result<Self> {
        let near = End::Near.interface();
        let gateway = wire.mac(End::Far)?.map(|byte| format!("{byte:02x}")).join(":");
        let first = |house| houses::users(house).next().context("a house has users");
        let addresses = houses::all().map(|house| Ok(format!("addr add {}/32 dev {near}", first(house)?)));
        let mut lines = addresses.collect::<Result<Vec<_>>>()?;
        lines.push(format!("neigh replace 10.9.0.254 lladdr {gateway} dev {near} nud permanent"));
        lines.push(format!("route add {} via 10.9.0.254 dev {near}", houses::CAMPUS));
        wire.ip(End::Near, &lines)?;
        let users = wire.inside(End::Near, || houses::all().map(|house| user(house, first(house)?)).collect())?;
        Ok(Self { users })
    }

    /// Sends as long as is said, as much as can be; everything else on this thread's CPU comes before it.
    pub fn emit(&self, wire: &Wire, goes_on: impl Fn() -> bool + Sync) -> Result<Emitted> {
        let payload = [0x5a; FRAME_BYTES - HEADS];
        wire.inside(End::Near, || {
            yields(gettid().as_raw().unsigned_abs())?;
            let slices = [[IoSlice::new(&payload)]; BATCH];
            let mut heads = MultiHeaders::preallocate(BATCH, None);
            let mut frames = 0;
            for (socket, to) in self.users.iter().cycle() {
                if !goes_on() {
                    break;
                }
                let sent = sendmmsg(socket.as_raw_fd(), &mut heads, &slices, to, [], MsgFlags::empty());
                frames += sent.context("sending datagrams")?.count() as u64;
            }
            Ok(Emitted { frames, cpu_ns: thread_cpu_ns()? })
        })
    }
}

/// The first user of a house, who sends to users of other houses in turn.
fn user(house: u8, address: std::net::Ipv4Addr) -> Result<(UdpSocket, Vec<Option<SockaddrIn>>)> {
    let socket = UdpSocket::bind((address, 0)).with_context(|| format!("a socket at {address}"))?;
    let others = houses::all().filter(|&other| other != house);
    // Neither all of the first users, whose addresses are this end's own, nor always the same.
    let to = others.cycle().zip(0_u8..).map(|(other, turn)| houses::users(other).nth(1 + usize::from(turn) % 31));
    let to = to.take(BATCH).map(|user| user.map(|user| SockaddrIn::from(SocketAddrV4::new(user, PORT))));
    Ok((socket, to.collect()))
}
