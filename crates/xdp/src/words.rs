//! Words to all stations of a link: who has an address now, and which groups are listened for. The program at the interface leaves them to the kernel, which
//! needs them as much as we do, and a packet cannot be handed to two; so a packet socket beside it hears what the kernel is given of them.
//!
//! ```text
//! ARP whose sender speaks of himself (RFC 5227)   advertisements to all nodes (RFC 4861, 7.2.6)   queries for listeners (RFC 3810)
//! program: not to an address of ours -> kernel -> filter of the socket -> Words -> the port of the first queue, as frames
//! ```
//!
//! What asks for an address of ours, or claims it, is ours alone: the program hands that over itself.

use crate::errors::Error;
use crate::layout::{ARP, HOP_BY_HOP, ICMPV6, IPV6, LISTENER_QUERY, NEIGHBOUR_ADVERTISEMENT, VLAN_NUMBER, at};
use crate::link::Interface;
use crate::packet;
use corelane_os::sockets::attach_filter;
use corelane_seam::Frame;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// All nodes (RFC 4291, section 2.7.1), in words of the network.
const ALL_NODES: [u32; 4] = [0xff02_0000, 0, 0, 1];
/// The tag beside a packet's bytes, where the kernel puts one; 0 without one (`SKF_AD_OFF` and `SKF_AD_VLAN_TAG`).
const TAG: u32 = (-0x1000_i32 + 44).cast_unsigned();
/// Where the filter goes on to take a packet, and to leave it.
const TAKE: usize = usize::MAX;
const LEAVE: usize = usize::MAX - 1;

/// A socket that hears them.
#[derive(Debug)]
pub struct Words {
    socket: OwnedFd,
}

impl Words {
    /// Hears those of an interface from now on.
    ///
    /// # Errors
    /// [`Error::Forbidden`] without CAP_NET_RAW, and what else [`Error::of`] has.
    pub fn hear(interface: &Interface) -> Result<Self, Error> {
        let refused = |call| move |number| Error::of(call, number, &interface.name);
        let socket = packet::create().map_err(refused("socket AF_PACKET"))?;
        let attached = attach_filter(socket.as_fd(), libc::SO_ATTACH_FILTER, &mut filter());
        attached.map_err(|fault| Error::of("SO_ATTACH_FILTER", fault.number, &interface.name))?;
        packet::bind(&socket, interface.link.interface).map_err(refused("bind AF_PACKET"))?;
        Ok(Self { socket })
    }

    /// Moves the next one into a frame; none if there is none. One that does not fit is left out: no word is so long.
    pub fn take(&self, mut frame: Frame) -> Option<Frame> {
        loop {
            frame.set_length(frame.room());
            let room = frame.len();
            match recv(&self.socket, &mut frame[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok((_, bytes)) if bytes <= room => {
                    frame.set_length(bytes);
                    return Some(frame);
                }
                Ok(_) | Err(Errno::INTR) => {}
                // What is wrong with the interface is told otherwise.
                Err(_) => return None,
            }
        }
    }

    /// Takes the next one and drops it; false if there is none.
    pub fn skip(&self) -> bool {
        loop {
            match recv(&self.socket, &mut [0_u8; 1][..], RecvFlags::DONTWAIT) {
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

impl AsFd for Words {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An instruction: its code and operand, and where it goes on if what it asks is so, and if not.
type FilterStep = (u32, u32, usize, usize);
/// The instruction behind this one.
const NEXT: usize = 0;

fn filter() -> Vec<libc::sock_filter> {
    use libc::{BPF_ABS, BPF_ALU, BPF_AND, BPF_B, BPF_H, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_MISC, BPF_TAX, BPF_W, BPF_X};
    const V6: usize = 9;
    const QUERY: usize = 22;
    let load = |size, place: i16| (BPF_LD | BPF_ABS | size, u32::from(place.unsigned_abs()), NEXT, NEXT);
    let is = |value: u32, then, otherwise| (BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise);
    let mut steps: Vec<FilterStep> = vec![
        (BPF_LD | BPF_ABS | BPF_H, TAG, NEXT, NEXT),
        (BPF_ALU | BPF_AND | BPF_K, VLAN_NUMBER.into(), NEXT, NEXT),
        is(0, NEXT, LEAVE),
        load(BPF_H, at::ETHER_TYPE),
        is(ARP.into(), NEXT, V6),
        load(BPF_W, at::ARP_SENDER),
        (BPF_MISC | BPF_TAX, 0, NEXT, NEXT),
        load(BPF_W, at::ARP_TARGET),
        (BPF_JMP | BPF_JEQ | BPF_X, 0, TAKE, LEAVE),
    ];
    assert_eq!(steps.len(), V6, "what is no ARP goes on here");
    steps.extend([
        is(IPV6.into(), NEXT, LEAVE),
        load(BPF_B, at::V6_NEXT),
        is(ICMPV6.into(), NEXT, QUERY),
        load(BPF_B, at::V6_END),
        is(NEIGHBOUR_ADVERTISEMENT.into(), NEXT, LEAVE),
    ]);
    for (number, word) in (0_i16..).zip(ALL_NODES) {
        steps.push(load(BPF_W, at::V6_DESTINATION + 4 * number));
        steps.push(is(word, if number == 3 { TAKE } else { NEXT }, LEAVE));
    }
    assert_eq!(steps.len(), QUERY, "what is no message behind the header goes on here");
    steps.extend([
        is(HOP_BY_HOP.into(), NEXT, LEAVE),
        load(BPF_B, at::V6_END),
        is(ICMPV6.into(), NEXT, LEAVE),
        load(BPF_B, at::V6_OPTIONS_END),
        is(LISTENER_QUERY.into(), TAKE, LEAVE),
    ]);
    assembled(&steps)
}

/// The instructions, behind which two end the program.
fn assembled(steps: &[FilterStep]) -> Vec<libc::sock_filter> {
    let instruction = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let distance = |from: usize, to: usize| {
        let to = match to {
            NEXT => from + 1,
            LEAVE => steps.len(),
            TAKE => steps.len() + 1,
            to => to,
        };
        assert!(to > from && to - from <= 256, "a filter goes forward");
        (to - from - 1) as u8
    };
    let step = |(from, &(code, operand, then, otherwise)): (usize, &FilterStep)| {
        instruction(code, distance(from, then), distance(from, otherwise), operand)
    };
    let ends = [0, u32::MAX].map(|bytes| instruction(libc::BPF_RET | libc::BPF_K, 0, 0, bytes));
    steps.iter().enumerate().map(step).chain(ends).collect()
}
