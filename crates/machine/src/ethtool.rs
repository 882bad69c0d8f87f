//! What a network card is set to: queues, rings, receive side scaling (the kernel's ethtool-netlink; where its kernel or driver has
//! no message for something, `SIOCETHTOOL` of netdevice(7)).

use corelane_os::netlink::generic::{Family, ask, attributes};
use corelane_os::netlink::{Attributes, word};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::fmt;
use std::io;
use std::os::fd::AsRawFd;

/// Messages of ethtool, whose first attribute holds the interface's name.
const RINGS_GET: u8 = 15;
const CHANNELS_GET: u8 = 17;
const RSS_GET: u8 = 38;
const HEADER: u16 = 1;
const HEADER_NAME: u16 = 2;
/// Commands of `SIOCETHTOOL`.
const GET_DRIVER: u32 = 0x3;
const GET_FIELDS: u32 = 0x29;
const GET_RSS: u32 = 0x46;
const SIOCETHTOOL: libc::c_ulong = 0x8946;
/// Words of `struct ethtool_rxfh` before the table.
const RSS_WORDS: usize = 6;
/// More than any card has: entries of a table, bytes of a key.
const TABLE_ENTRIES_MAX: usize = 1 << 16;
const KEY_BYTES_MAX: usize = 1 << 12;

/// How many queues an interface has, and how many its driver could make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels {
    /// Interrupts for receive queues alone.
    pub rx: u32,
    /// The most of them.
    pub rx_max: u32,
    /// For transmit queues alone.
    pub tx: u32,
    /// The most of them.
    pub tx_max: u32,
    /// For a receive and a transmit queue together.
    pub combined: u32,
    /// The most of them.
    pub combined_max: u32,
}

/// Packets that each queue holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rings {
    /// Of each receive queue.
    pub rx: u32,
    /// The most.
    pub rx_max: u32,
    /// Of each transmit queue.
    pub tx: u32,
    /// The most.
    pub tx_max: u32,
}

/// A card's receive side scaling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rss {
    /// The hash function; none if the driver does not tell.
    pub function: Option<HashFunction>,
    /// Its key, as long as the card's is; empty if the driver does not tell.
    pub key: Vec<u8>,
    /// The receive queue of each bucket; empty if the driver does not tell.
    pub table: Vec<u32>,
    /// Which fields of each kind of flow are hashed, for those kinds that the driver tells of.
    pub fields: Vec<(FlowKind, Fields)>,
}

/// A hash function of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashFunction {
    /// The one of receive side scaling.
    Toeplitz,
    /// Exclusive or.
    Xor,
    /// CRC-32.
    Crc32,
    /// Another one, by the kernel's number.
    Other(u32),
}

impl fmt::Display for HashFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Toeplitz => f.write_str("toeplitz"),
            Self::Xor => f.write_str("xor"),
            Self::Crc32 => f.write_str("crc32"),
            Self::Other(bits) => write!(f, "function {bits:#x}"),
        }
    }
}

/// A kind of flow for which the hashed fields can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowKind {
    /// TCP over IPv4.
    TcpV4,
    /// UDP over IPv4.
    UdpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over IPv6.
    UdpV6,
}

impl FlowKind {
    /// Each with its number in messages (`ETHTOOL_A_FLOW_*`) and in `SIOCETHTOOL` (`*_FLOW`).
    const ALL: [(Self, u16, u32); 4] =
        [(Self::TcpV4, 4, 0x1), (Self::UdpV4, 6, 0x2), (Self::TcpV6, 5, 0x5), (Self::UdpV6, 7, 0x6)];
}

impl fmt::Display for FlowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TcpV4 => "tcp4",
            Self::UdpV4 => "udp4",
            Self::TcpV6 => "tcp6",
            Self::UdpV6 => "udp6",
        })
    }
}

/// Which fields of a flow are hashed: the kernel's bits `RXH_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields(pub u32);

impl Fields {
    const ADDRESSES: u32 = 1 << 4 | 1 << 5;
    const PORTS: u32 = 1 << 6 | 1 << 7;

    /// Whether both addresses are.
    pub fn has_addresses(self) -> bool {
        self.0 & Self::ADDRESSES == Self::ADDRESSES
    }

    /// Whether both ports are.
    pub fn has_ports(self) -> bool {
        self.0 & Self::PORTS == Self::PORTS
    }
}

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("nothing"),
            bits if bits == Self::ADDRESSES => f.write_str("addresses"),
            bits if bits == Self::ADDRESSES | Self::PORTS => f.write_str("addresses+ports"),
            bits => write!(f, "fields {bits:#x}"),
        }
    }
}

/// Who can be asked: the kernel's family "ethtool", where it has one (since 5.6).
pub struct Ethtool {
    family: Option<Family>,
}

impl Ethtool {
    /// Finds out what the kernel has.
    pub fn find() -> Self {
        Self { family: Family::find(c"ethtool").ok() }
    }

    /// How many queues; none if the driver has no such setting.
    ///
    /// # Errors
    /// `NotFound` if there is no such interface; what else the kernel says.
    pub fn channels(&self, interface: &str) -> io::Result<Option<Channels>> {
        self.ask(CHANNELS_GET, interface)?.map(|body| channels(&body)).transpose()
    }

    /// How long the queues; none if the driver has no such setting.
    ///
    /// # Errors
    /// As [`Ethtool::channels`].
    pub fn rings(&self, interface: &str) -> io::Result<Option<Rings>> {
        self.ask(RINGS_GET, interface)?.map(|body| rings(&body)).transpose()
    }

    /// Receive side scaling; none if the driver has none.
    ///
    /// # Errors
    /// As [`Ethtool::channels`].
    pub fn rss(&self, interface: &str) -> io::Result<Option<Rss>> {
        let told = match self.ask(RSS_GET, interface)? {
            Some(body) => Some(rss(&body)?),
            None => rss_by_call(interface)?, // kernels before 6.2 have no message for it
        };
        let with_fields = |mut rss: Rss| {
            if rss.fields.is_empty() {
                rss.fields = fields_by_call(interface); // as those before 6.17
            }
            rss
        };
        Ok(told.map(with_fields).filter(|rss| !rss.table.is_empty() || !rss.key.is_empty()))
    }

    /// The answer; none if the kernel or the driver has none.
    fn ask(&self, command: u8, interface: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(family) = self.family else { return Ok(None) };
        let name = name_of(interface)?;
        let request = family.one(command).nested(HEADER, &[(HEADER_NAME, &name)]);
        let bodies = none_if_unsupported(ask(request))?;
        Ok(bodies.and_then(|bodies| bodies.into_iter().next()))
    }
}

/// The driver of an interface, by its own name; none if it does not tell, as loopback.
///
/// # Errors
/// `NotFound` if there is no such interface; what else the kernel says.
pub fn driver(interface: &str) -> io::Result<Option<String>> {
    // `struct ethtool_drvinfo` is 196 bytes: the command, then 32 of the name.
    let mut words = [0; 49];
    words[0] = GET_DRIVER;
    let answer = none_if_unsupported(call(interface, &mut words))?;
    Ok(answer.map(|()| text_of(&words[1..9])).filter(|name| !name.is_empty()))
}

fn text_of(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn channels(body: &[u8]) -> io::Result<Channels> {
    let attributes = attributes(body)?;
    let number = |kind| attributes.number(kind).unwrap_or(0);
    Ok(Channels {
        rx: number(6),
        rx_max: number(2),
        tx: number(7),
        tx_max: number(3),
        combined: number(9),
        combined_max: number(5),
    })
}

fn rings(body: &[u8]) -> io::Result<Rings> {
    let attributes = attributes(body)?;
    let number = |kind| attributes.number(kind).unwrap_or(0);
    Ok(Rings { rx: number(6), rx_max: number(2), tx: number(9), tx_max: number(5) })
}

fn rss(body: &[u8]) -> io::Result<Rss> {
    let attributes = attributes(body)?;
    let table = attributes.get(4).unwrap_or_default();
    let fields = attributes.get(8).map(Attributes::of).transpose()?;
    Ok(Rss {
        function: attributes.number(3).and_then(function),
        key: attributes.get(5).unwrap_or_default().to_vec(),
        table: table.as_chunks().0.iter().map(|entry| u32::from_ne_bytes(*entry)).collect(),
        fields: fields.map(|fields| fields_told(&fields)).unwrap_or_default(),
    })
}

fn fields_told(told: &Attributes<'_>) -> Vec<(FlowKind, Fields)> {
    let of = |(kind, number, _): (FlowKind, u16, u32)| {
        let value = told.get(number)?;
        // The kernel sends 32 bits, or 64 for a number that needs them; the lower half is what has a meaning.
        let low = if value.len() == 8 && cfg!(target_endian = "big") { 4 } else { 0 };
        Some((kind, Fields(word(value, low)?)))
    };
    FlowKind::ALL.into_iter().filter_map(of).collect()
}

fn function(bits: u32) -> Option<HashFunction> {
    match bits {
        0 => None,
        1 => Some(HashFunction::Toeplitz),
        2 => Some(HashFunction::Xor),
        4 => Some(HashFunction::Crc32),
        _ => Some(HashFunction::Other(bits)),
    }
}

/// Asks for the sizes, then for as much.
fn rss_by_call(interface: &str) -> io::Result<Option<Rss>> {
    let mut head = [0; RSS_WORDS];
    head[0] = GET_RSS;
    if none_if_unsupported(call(interface, &mut head))?.is_none() {
        return Ok(None);
    }
    assert!(head[0] == GET_RSS, "the kernel leaves the command as it is");
    let (entries, key_bytes) = (head[2] as usize, head[3] as usize);
    if entries > TABLE_ENTRIES_MAX || key_bytes > KEY_BYTES_MAX {
        let words =
            format!("{interface}: its driver tells of {entries} entries and a key of {key_bytes} bytes: update the driver");
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    let mut words = vec![0; RSS_WORDS + entries + key_bytes.div_ceil(4)];
    (words[0], words[2], words[3]) = (GET_RSS, entries as u32, key_bytes as u32);
    call(interface, &mut words)?;
    Ok(Some(rss_of_words(&words, entries, key_bytes)))
}

/// Reads `struct ethtool_rxfh`: the function's bits are the first byte of the fifth word, the key follows the table.
fn rss_of_words(words: &[u32], entries: usize, key_bytes: usize) -> Rss {
    assert!(words.len() == RSS_WORDS + entries + key_bytes.div_ceil(4), "there is room for as much as was asked for");
    let (table, key) = words[RSS_WORDS..].split_at(entries);
    Rss {
        function: function(u32::from(words[4].to_ne_bytes()[0])),
        key: key.iter().flat_map(|word| word.to_ne_bytes()).take(key_bytes).collect(),
        table: table.to_vec(),
        fields: Vec::new(),
    }
}

/// What is hashed of each kind of flow, as far as the driver tells.
fn fields_by_call(interface: &str) -> Vec<(FlowKind, Fields)> {
    let of = |(kind, _, number): (FlowKind, u16, u32)| {
        let mut words = [GET_FIELDS, number, 0, 0]; // the answer is 64 bits wide
        call(interface, &mut words).ok()?;
        Some((kind, Fields(if cfg!(target_endian = "big") { words[3] } else { words[2] })))
    };
    FlowKind::ALL.into_iter().filter_map(of).collect()
}

/// An interface's name with the zero byte that ends it.
fn name_of(interface: &str) -> io::Result<Vec<u8>> {
    if interface.is_empty() || interface.len() >= libc::IFNAMSIZ || interface.contains('\0') {
        let words = format!("{interface:?} is no name of an interface: use 1 to {} bytes", libc::IFNAMSIZ - 1);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    }
    Ok([interface.as_bytes(), &[0]].concat())
}

/// `SIOCETHTOOL` with a structure of 32-bit words, the first of which is the command.
fn call(interface: &str, words: &mut [u32]) -> io::Result<()> {
    assert!(words.first().is_some_and(|command| *command != 0), "the first word says what is asked");
    let name = name_of(interface)?;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: all members are plain numbers and pointers, for which zeroes are values.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    assert!(name.len() <= request.ifr_name.len() && name.last() == Some(&0), "a name fits, with the zero that ends it");
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request is a structure of the call's kind, its data are the whole of the structure that the command reads and writes.
    match unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// None where the kernel or the driver has no such thing; an error says `NotFound` for an interface that is not there.
fn none_if_unsupported<T>(answer: io::Result<T>) -> io::Result<Option<T>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EOPNOTSUPP) => Ok(None),
            Some(libc::ENODEV) => Err(io::Error::new(io::ErrorKind::NotFound, "there is no such interface")),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::netlink::generic::HEAD_BYTES;

    /// The body of an answer: command, then attributes.
    fn body(attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let bytes = attributes.iter().flat_map(|(kind, value)| {
            let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend_from_slice(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            bytes
        });
        [0, 1, 0, 0].into_iter().chain(bytes).collect()
    }

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn queues_and_rings_are_read() {
        let number = |number: u32| number.to_ne_bytes();
        let told = body(&[(1, &[]), (5, &number(8)), (9, &number(4)), (8, &number(1)), (4, &number(1))]);
        assert_eq!(channels(&told).unwrap(), Channels { combined: 4, combined_max: 8, ..Channels::default() });
        let told = body(&[(2, &number(4096)), (5, &number(2048)), (6, &number(512)), (9, &number(256))]);
        assert_eq!(rings(&told).unwrap(), Rings { rx: 512, rx_max: 4096, tx: 256, tx_max: 2048 });
    }

    #[test]
    fn scaling_is_read_with_and_without_fields() {
        let key: Vec<u8> = (1..=40).collect();
        let table = numbers(&[0, 1, 2, 3, 0, 1, 2, 3]);
        let (ports, addresses) = (numbers(&[0xf0]), 0x30_u64.to_ne_bytes());
        let fields = &body(&[(4, &ports), (6, &addresses), (2, &ports)])[HEAD_BYTES..];
        let told = rss(&body(&[(3, &numbers(&[1])), (4, &table), (5, &key), (8 | 0x8000, fields)])).unwrap();
        assert_eq!((told.function, told.key, told.table.len()), (Some(HashFunction::Toeplitz), key, 8));
        assert_eq!(told.table[..5], [0, 1, 2, 3, 0]);
        assert_eq!(told.fields, [(FlowKind::TcpV4, Fields(0xf0)), (FlowKind::UdpV4, Fields(0x30))]);
        let bare = rss(&body(&[(1, &[])])).unwrap();
        assert_eq!(bare, Rss { function: None, key: Vec::new(), table: Vec::new(), fields: Vec::new() });
    }

    #[test]
    fn answers_that_are_cut_are_refused_and_never_panic() {
        let whole = body(&[(3, &numbers(&[1])), (4, &numbers(&[0, 1, 2])), (5, &[7; 13]), (8, &body(&[(4, &[1, 2])])[4..])]);
        for end in 0..whole.len() {
            let (rss, channels, rings) = (rss(&whole[..end]), channels(&whole[..end]), rings(&whole[..end]));
            assert!(end >= HEAD_BYTES || rss.is_err() && channels.is_err() && rings.is_err());
        }
        assert!(rss(&whole).unwrap().fields.is_empty(), "a number of two bytes is none");
    }

    #[test]
    fn the_words_of_the_call_are_read() {
        let words = [GET_RSS, 0, 3, 6, u32::from_ne_bytes([2, 0, 0, 0]), 0, 5, 6, 7, u32::from_ne_bytes(*b"abcd"), 0];
        let told = rss_of_words(&words, 3, 6);
        assert_eq!((told.function, &told.table[..], &told.key[..]), (Some(HashFunction::Xor), &[5, 6, 7][..], &b"abcd\0\0"[..]));
    }

    #[test]
    fn functions_and_fields_have_names() {
        let names: Vec<String> = [1, 2, 4, 8].into_iter().filter_map(function).map(|function| function.to_string()).collect();
        assert_eq!(names, ["toeplitz", "xor", "crc32", "function 0x8"]);
        assert_eq!(function(0), None);
        let names: Vec<String> = [0, 0x30, 0xf0, 0x2].into_iter().map(|bits| Fields(bits).to_string()).collect();
        assert_eq!(names, ["nothing", "addresses", "addresses+ports", "fields 0x2"]);
        assert!(Fields(0xf0).has_ports() && Fields(0x30).has_addresses() && !Fields(0x70).has_ports());
    }

    #[test]
    fn loopback_has_none_of_it() {
        let ethtool = Ethtool::find();
        assert_eq!(ethtool.channels("lo").unwrap(), None);
        assert_eq!(ethtool.rings("lo").unwrap(), None);
        assert_eq!(ethtool.rss("lo").unwrap(), None);
        assert_eq!(rss_by_call("lo").unwrap(), None);
        assert!(fields_by_call("lo").is_empty());
    }

    #[test]
    fn interfaces_that_are_not_there_and_bad_names_are_refused() {
        assert_eq!(driver("no-such-one").unwrap_err().kind(), io::ErrorKind::NotFound);
        for name in ["", "a-name-of-sixteen", "a\0b"] {
            assert_eq!(driver(name).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        let ethtool = Ethtool::find();
        if ethtool.family.is_some() {
            assert_eq!(ethtool.channels("no-such-one").unwrap_err().kind(), io::ErrorKind::NotFound);
        }
    }
}
