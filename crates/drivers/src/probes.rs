//! Which features of the kernel a driver may use: each one is tried out, not looked up.

use crate::datagrams::{DatagramCalls, Departure, PIECE_BYTES, SEGMENT_MIN, SEGMENTS_OLD_MAX, SocketKind};
use crate::opening;
use corelane_os::lane_memory::LaneMemory;
use corelane_os::sockets::{self, readable};
use corelane_seam::{Bind, DatagramOutcome, Datagrams, Fault, Outcome, Reason, Segment, TRAIN_DATAGRAMS_MAX, Trains};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

/// Features of the kernel that a driver may use, where there is another way. A driver that is made by itself tries each feature that is allowed, and goes
/// without those that fail. The drivers of all lanes use those that it found: a try takes sockets, and has the kernel change its own code on all CPUs (UDP_GRO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Receive datagrams of one peer in trains (UDP_GRO, udp(7)); otherwise each is received by itself.
    pub udp_gro: bool,
    /// Send trains of datagrams as one (UDP_SEGMENT, udp(7)); otherwise each is sent by itself.
    pub udp_segment: bool,
    /// Send trains of more than 64 datagrams as one (kernel 6.9); otherwise in pieces of 64.
    pub udp_segment_long: bool,
    /// Wait for nanoseconds (epoll_pwait2(2)); otherwise for whole milliseconds, rounded up.
    pub epoll_pwait2: bool,
    /// Wait in a ring without being shown as waiting for a disk (`IORING_ENTER_NO_IOWAIT` of io_uring_enter(2), kernel
    /// 6.15); otherwise an idle lane on io_uring is counted as iowait (/proc/stat, proc(5)).
    pub uring_no_iowait: bool,
    /// Have the system resolve names beneath a directory at once (openat2(2)); otherwise component by component, in a call or more for each.
    pub openat2: bool,
}

impl Default for Probes {
    /// Allows everything.
    fn default() -> Self {
        Self {
            udp_gro: true,
            udp_segment: true,
            udp_segment_long: true,
            epoll_pwait2: true,
            uring_no_iowait: true,
            openat2: true,
        }
    }
}

impl Probes {
    /// Tries what is allowed of datagrams and files; what a driver has for itself stays as it is.
    pub(crate) fn with_common_tried(self) -> Self {
        Self {
            udp_gro: self.udp_gro && udp_gro().is_ok(),
            udp_segment: self.udp_segment && udp_segment().is_ok(),
            udp_segment_long: self.udp_segment && self.udp_segment_long && udp_segment_long().is_ok(),
            openat2: self.openat2 && opening::has_openat2(),
            ..self
        }
    }

    /// Datagrams of a train that one message may carry.
    pub(crate) fn together(&self) -> usize {
        match self.udp_segment {
            true if self.udp_segment_long => TRAIN_DATAGRAMS_MAX,
            true => SEGMENTS_OLD_MAX,
            false => 1,
        }
    }
}

/// Receives a short train of datagrams over the loopback interface.
///
/// # Errors
/// Why it does not work; `Unsupported` if the train came in pieces.
fn udp_gro() -> Result<(), Fault> {
    match exchange(SEGMENT_MIN, true)?.arrivals {
        1 => Ok(()),
        _ => Err(Fault::of(Reason::Unsupported)),
    }
}

/// Sends a short train of datagrams over the loopback interface.
///
/// # Errors
/// Why it does not work; `Unsupported` if the kernel refused the train.
fn udp_segment() -> Result<(), Fault> {
    match exchange(SEGMENT_MIN, false)? {
        Exchange { calls: 1, arrivals: SEGMENT_MIN } => Ok(()),
        _ => Err(Fault::of(Reason::Unsupported)),
    }
}

/// Sends the longest train of datagrams over the loopback interface.
///
/// # Errors
/// Why it does not work; `Unsupported` if the kernel refused the train.
fn udp_segment_long() -> Result<(), Fault> {
    match exchange(TRAIN_DATAGRAMS_MAX, false)? {
        Exchange { calls: 1, .. } => Ok(()),
        _ => Err(Fault::of(Reason::Unsupported)),
    }
}

struct Exchange {
    calls: u32,
    arrivals: usize,
}

/// Sends a train of `count` datagrams as one from a socket to itself.
fn exchange(count: usize, trains: bool) -> Result<Exchange, Fault> {
    /// Bytes of each datagram.
    const SIZE: usize = 8;
    assert!((SEGMENT_MIN..=TRAIN_DATAGRAMS_MAX).contains(&count));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into();
    let bind = Bind { address, peer: None, share_port: false, v6_only: false, receive_buffer_bytes: 0, send_buffer_bytes: 0 };
    let socket = sockets::bind(&bind, trains)?;
    let itself = sockets::local_address(socket.as_fd())?;
    // Nobody else's datagrams come here then.
    sockets::connect(socket.as_fd(), &itself)?;
    let mut calls = DatagramCalls::new();
    let mut train = Trains::new();
    assert!(train.add(&itself, None, 0, Segment::Static(&[7; SIZE * TRAIN_DATAGRAMS_MAX][..SIZE * count]), SIZE));
    let mut departure = Departure::new(train, false);
    calls.send(socket.as_fd(), &mut departure, count);
    match departure.end() {
        Outcome::Datagram(DatagramOutcome::Departed { datagrams, calls: used, .. }) if datagrams as usize == count => {
            Ok(Exchange { calls: used, arrivals: receive_train(socket.as_fd(), count, &mut calls)? })
        }
        _ => Err(Fault::of(Reason::Unsupported)),
    }
}

/// Receives the train; returns in how many arrivals it came.
fn receive_train(socket: BorrowedFd, count: usize, calls: &mut DatagramCalls) -> Result<usize, Fault> {
    let arena = LaneMemory::arena(1).map_err(|_| Fault::of(Reason::NoMemory))?;
    let (mut arrivals, mut datagrams) = (0, 0);
    while datagrams < count {
        readable(socket)?;
        let lease = arena.lease(2 * PIECE_BYTES).ok_or(Fault::of(Reason::NoMemory))?;
        let mut batch = Datagrams::new();
        calls.receive(socket, SocketKind::default(), lease, &mut batch)?;
        arrivals += batch.arrivals().len();
        datagrams += batch.arrivals().iter().map(|arrival| arrival.datagrams()).sum::<usize>();
    }
    Ok(arrivals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_all() {
        assert_eq!([udp_gro(), udp_segment(), udp_segment_long()], [Ok(()); 3]);
    }

    #[test]
    fn what_is_not_allowed_is_not_found() {
        let none = Probes {
            udp_gro: false,
            udp_segment: false,
            udp_segment_long: false,
            epoll_pwait2: false,
            uring_no_iowait: false,
            openat2: false,
        };
        assert_eq!((none.with_common_tried(), none.together()), (none, 1));
        let old = Probes { udp_segment: true, ..none };
        assert_eq!((old.with_common_tried().together(), Probes { udp_segment_long: true, ..old }.together()), (64, 128));
    }
}
