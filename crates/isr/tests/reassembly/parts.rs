//! Datagrams, cut into fragments as a router would, and memory that says when it is dropped.

use corelane_isr::reassembly::Memory;
use corelane_seam::Instant;
use corelane_wire::Error;
use corelane_wire::packet::checksum::Addresses;
use corelane_wire::packet::{IpProtocol, Options, Traffic, fragment, ipv4, ipv6, udp};
use corelane_wire::xdr::Writer;
use std::cell::Cell;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

/// A packet in memory of its own.
#[derive(Debug)]
pub struct Owned {
    bytes: Vec<u8>,
    start: usize,
    held: usize,
    alive: Rc<Cell<usize>>,
}

impl Owned {
    /// `packet` in memory of `held` bytes; `alive` counts those that are not dropped.
    pub fn new(packet: &[u8], held: usize, alive: &Rc<Cell<usize>>) -> Self {
        alive.set(alive.get() + 1);
        Self { bytes: packet.to_vec(), start: 0, held, alive: alive.clone() }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

impl Memory for Owned {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    fn skip(&mut self, bytes: usize) {
        assert!(bytes <= self.bytes().len());
        self.start += bytes;
    }

    fn truncate(&mut self, length: usize) {
        assert!(length <= self.bytes().len());
        self.bytes.truncate(self.start + length);
    }

    fn held(&self) -> usize {
        self.held
    }
}

/// So many seconds after the clock's beginning.
pub fn seconds(seconds: u64) -> Instant {
    Instant::from_nanoseconds(seconds * 1_000_000_000)
}

/// `behind` with what `emit` writes in front of it.
pub fn in_front(behind: &[u8], emit: impl FnOnce(&mut Writer<'_>) -> Result<(), Error>) -> Vec<u8> {
    let mut memory = [0; 256];
    let mut writer = Writer::new(&mut memory);
    emit(&mut writer).unwrap();
    [writer.written(), behind].concat()
}

pub const V4: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 2)];
pub const V6: [Ipv6Addr; 2] = [Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2)];

pub fn v4_header(identification: u16, protocol: IpProtocol) -> ipv4::Header {
    ipv4::Header {
        traffic: Traffic(0),
        identification,
        fragment: ipv4::Fragment::default(),
        hops: 64,
        protocol,
        source: V4[0],
        destination: V4[1],
        options: Options::NONE,
    }
}

pub fn v6_header(next: IpProtocol) -> ipv6::Header {
    let (source, destination) = (V6[0], V6[1]);
    ipv6::Header { traffic: Traffic(0), label: ipv6::Label::default(), next, hops: 64, source, destination }
}

/// The bytes from `start` to `end` of `data` as a fragment; others follow if `more`.
pub fn v4_part(header: ipv4::Header, data: &[u8], start: usize, end: usize, more: bool) -> Vec<u8> {
    let offset = ipv4::Offset::new(start).unwrap();
    let header = ipv4::Header { fragment: ipv4::Fragment { offset, more, keep_whole: false }, ..header };
    in_front(&data[start..end], |to| header.emit(end - start, to))
}

/// As [`v4_part`], of IPv6.
pub fn v6_part(identification: u32, next: IpProtocol, data: &[u8], start: usize, end: usize, more: bool) -> Vec<u8> {
    let header = fragment::Header { next, offset: ipv4::Offset::new(start).unwrap(), more, identification };
    let behind = in_front(&data[start..end], |to| header.emit(to));
    in_front(&behind, |to| v6_header(IpProtocol::FRAGMENT).emit(behind.len(), to))
}

/// Whether a packet is of IPv6, for tests of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsV6(pub bool);

/// Both.
pub const BOTH: [IsV6; 2] = [IsV6(false), IsV6(true)];

impl IsV6 {
    pub fn part(self, identification: u16, data: &[u8], start: usize, end: usize, more: bool) -> Vec<u8> {
        match self.0 {
            false => v4_part(v4_header(identification, IpProtocol::UDP), data, start, end, more),
            true => v6_part(identification.into(), IpProtocol::UDP, data, start, end, more),
        }
    }

    /// All of `data`, cut at `most` bytes.
    pub fn parts(self, identification: u16, data: &[u8], most: usize) -> Vec<Vec<u8>> {
        let starts = (0..data.len()).step_by(most);
        starts
            .map(|start| self.part(identification, data, start, data.len().min(start + most), start + most < data.len()))
            .collect()
    }

    /// The packet that `data` is of, whole.
    pub fn whole(self, identification: u16, data: &[u8]) -> Vec<u8> {
        match self.0 {
            false => in_front(data, |to| v4_header(identification, IpProtocol::UDP).emit(data.len(), to)),
            true => in_front(data, |to| v6_header(IpProtocol::UDP).emit(data.len(), to)),
        }
    }

    /// A datagram with `length` bytes of data behind its header.
    pub fn datagram(self, length: usize) -> Vec<u8> {
        let addresses = match self.0 {
            false => Addresses::V4 { source: V4[0], destination: V4[1] },
            true => Addresses::V6 { source: V6[0], destination: V6[1] },
        };
        let data: Vec<u8> = (0..length).map(|at| (at * 7 + at / 256) as u8).collect();
        in_front(&data, |to| udp::Header { source: 7, destination: 9 }.emit(&addresses, &data, to))
    }
}
