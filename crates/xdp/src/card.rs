//! What a card says of a packet beside its bytes, as far as the interface's program can ask: the VLAN tag that it has taken out, and the hash by which it
//! has chosen the queue (`Documentation/networking/xdp-rx-metadata.rst`; Linux 6.8, and drivers that can).
//!
//! ```text
//! program: a tag? -> the kernel's    a hash of the fields of a flow? -> [hash, types | MARK] in front of the packet -> the socket copies both
//! port:    each frame that is lent has no mark -> a packet with one has a hash
//! ```
//!
//! A hash of which the card does not say that it is of addresses is left where it is. Veth is not even asked: it would have one of the kernel's own computed, which
//! is of no use to find a bucket.
//! Time stamps are not asked for: a card's are those of its own clock, which nothing here relates to the lane's, and each would cost a call.

use crate::btf;
use crate::errors::Error;
use crate::link::Interface;
use crate::socket::HEADROOM;
use corelane_os::errno::{self, checked};
use corelane_os::netlink::generic::{Family, ask, attributes};
use corelane_os::netlink::word;
use corelane_rss::{FlowId, HashType};
use corelane_seam::{Frame, FrameHash};
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// Bytes in front of a packet: the hash, and what it is of with the mark.
pub const NOTE_BYTES: usize = 8;
/// In the second word: there is a hash.
pub const MARK: u32 = 1 << 30;

/// What a hash is of (`enum xdp_rss_hash_type`).
mod of {
    pub const V4: u32 = 1 << 0;
    pub const V6: u32 = 1 << 1;
    pub const EXTENDED: u32 = 1 << 2;
    pub const PORTS: u32 = 1 << 3;
    pub const TCP: u32 = 1 << 4;
    pub const UDP: u32 = 1 << 5;
}

/// Functions of the kernel that tell a program of its packet, and hashes of which it tells the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Functions {
    pub vlan_tag: u32,
    pub hash: u32,
    /// One of these bits says that the hash is of use; none if none is.
    pub types: u32,
}

/// The kernel's family of messages on network devices, what it is asked, and what it tells (`linux/netdev.h`).
const DEVICE_GET: u8 = 1;
const INTERFACE: u16 = 1;
const METADATA: u16 = 5;
/// `NETDEV_XDP_RX_METADATA_VLAN_TAG`.
const TELLS_TAG: u8 = 1 << 2;

/// The functions, if the interface's driver tells of tags and the kernel has them.
pub fn functions(interface: &Interface) -> Option<Functions> {
    if !tells_tags(interface.link.interface).unwrap_or(false) {
        return None;
    }
    let description = std::fs::read(btf::KERNEL).ok()?;
    let names = ["bpf_xdp_metadata_rx_vlan_tag", "bpf_xdp_metadata_rx_hash"];
    let [vlan_tag, hash] = btf::functions(&description, names)?;
    Some(Functions { vlan_tag, hash, types: if interface.is_veth { 0 } else { of::V4 | of::V6 } })
}

fn tells_tags(interface: u32) -> io::Result<bool> {
    let request = Family::find(c"netdev")?.one(DEVICE_GET).attribute(INTERFACE, &interface.to_ne_bytes());
    let bodies = ask(request)?;
    let Some(body) = bodies.first() else { return Ok(false) };
    let told = attributes(body)?.get(METADATA).and_then(|bytes| bytes.first_chunk().copied()).map(u64::from_ne_bytes);
    Ok(told.is_some_and(|told| told & u64::from(TELLS_TAG) != 0))
}

/// Whether the interface takes VLAN tags out of packets (`ethtool -k`, rx-vlan-offload).
///
/// # Errors
/// What the system says.
pub fn takes_tags_out(name: &str) -> io::Result<bool> {
    // `ETHTOOL_GFLAGS` and `ETH_FLAG_RXVLAN`.
    const GET_FLAGS: u32 = 0x25;
    const TAKES_OUT: u32 = 1 << 8;
    let [_, flags] = ethtool(name, [GET_FLAGS, 0])?;
    Ok(flags & TAKES_OUT != 0)
}

/// The queues that an interface has by now, which may be fewer than were made for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Queues that it receives by.
    pub receiving: u32,
    /// Queues that it sends by.
    pub sending: u32,
    /// Whether ethtool(8) changes both together.
    pub are_combined: bool,
}

impl Channels {
    /// What of ethtool(8) gives an interface so many.
    pub fn remedy(&self, name: &str, queues: usize) -> String {
        match self.are_combined {
            true => format!("ethtool -L {name} combined {queues}"),
            false => format!("ethtool -L {name} rx {queues} tx {queues}"),
        }
    }
}

/// The queues that the interface has by now (`ethtool -l`); none if its driver does not say.
///
/// # Errors
/// What the system says.
pub fn channels(name: &str) -> io::Result<Option<Channels>> {
    // `ETHTOOL_GCHANNELS`, and `struct ethtool_channels`: the request, four bounds, then what is in force.
    const GET_CHANNELS: u32 = 0x3c;
    match ethtool(name, [GET_CHANNELS, 0, 0, 0, 0, 0, 0, 0, 0]) {
        Ok([_, _, _, _, combined_most, receiving, sending, _other, combined]) => Ok(Some(Channels {
            receiving: receiving.saturating_add(combined),
            sending: sending.saturating_add(combined),
            are_combined: combined_most > 0,
        })),
        Err(error) if errno::of(&error) == libc::EOPNOTSUPP => Ok(None),
        Err(error) => Err(error),
    }
}

/// The queues that an interface receives by now; those that it was made with if its driver does not say.
pub fn queues_now(interface: &Interface) -> u32 {
    channels(&interface.name).ok().flatten().map_or(interface.queues, |channels| channels.receiving)
}

/// Drivers of interfaces to which a sender on this machine may leave checksums: wires between two ends of one machine, and those to virtual machines.
const LEAVING: [&str; 8] = ["bridge", "ipvlan", "macvlan", "netkit", "tun", "veth", "vif", "virtio_net"];

/// Whether what comes by the interface may have its checksum left to a card that there is not: nothing but the bytes tells then, where the kernel gives packets
/// to AF_XDP.
pub fn leaves_sums(name: &str) -> bool {
    // An interface that cannot be asked is taken for a card, whose packets have theirs.
    driver(name).is_ok_and(|driver| LEAVING.contains(&driver.as_str()))
}

/// The interface's driver (`ethtool -i`).
fn driver(name: &str) -> io::Result<String> {
    // `ETHTOOL_GDRVINFO`, and `struct ethtool_drvinfo`: the request, then the driver's name in 32 bytes.
    const GET_DRIVER: u32 = 3;
    const NAME_WORDS: usize = 8;
    let mut words = [0; 49];
    words[0] = GET_DRIVER;
    let answer = ethtool(name, words)?;
    let bytes = answer[1..=NAME_WORDS].iter().flat_map(|word| word.to_ne_bytes());
    let driver = bytes.take_while(|byte| *byte != 0).collect();
    String::from_utf8(driver).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Looks whether each of so many lanes can have a queue of the interface to receive and to send by.
///
/// # Errors
/// [`Error::NoQueue`], [`Error::NoSendQueue`].
pub fn check_queues(interface: &Interface, queues: usize) -> Result<(), Error> {
    let Interface { name, queues: made, send_queues: made_to_send, .. } = interface;
    let (made, made_to_send) = (*made, *made_to_send);
    let told = channels(name).ok().flatten();
    let has = told.unwrap_or(Channels { receiving: made, sending: made_to_send, are_combined: true });
    // Those that it was made with may be had, the others not.
    let remedy = || (queues <= made.min(made_to_send) as usize && told.is_some()).then(|| has.remedy(name, queues).into());
    if queues > has.receiving as usize {
        return Err(Error::NoQueue { name: name.clone(), queue: queues as u32 - 1, remedy: remedy() });
    }
    if queues > has.sending as usize {
        return Err(Error::NoSendQueue { name: name.clone(), got: has.sending, needed: queues, remedy: remedy() });
    }
    Ok(())
}

/// Looks whether the interface receives by more queues than so many lanes have. One whose driver does not say has as many.
///
/// # Errors
/// [`Error::QueuesUnserved`].
pub fn refuse_unserved(name: &str, lanes: usize) -> Result<(), Error> {
    match channels(name).ok().flatten().filter(|has| has.receiving as usize > lanes) {
        None => Ok(()),
        Some(has) => {
            let remedy = has.remedy(name, lanes).into();
            Err(Error::QueuesUnserved { name: name.into(), have: has.receiving, lanes, remedy })
        }
    }
}

/// Asks the interface's driver (`SIOCETHTOOL`): a request begins with its number, and the answer lies in its place.
fn ethtool<const WORDS: usize>(name: &str, mut words: [u32; WORDS]) -> io::Result<[u32; WORDS]> {
    const ETHTOOL: u64 = 0x8946;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: the structure is plain numbers and a pointer, for which zeros are good.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    assert!(name.len() < request.ifr_name.len(), "the name was checked");
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request takes a `struct ifreq`, which names the structure of that request, all of whose words are there: both stay for the call.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), ETHTOOL as _, &raw mut request) };
    checked(asked as isize).map_err(io::Error::from_raw_os_error)?;
    Ok(words)
}

/// The kernel's packets begin where those begin that are written here.
const _: () = assert!(Frame::HEADROOM == HEADROOM);

/// Takes the mark away where one may have been, in a free frame.
pub fn clear(frame: &mut Frame) {
    frame.prepend(&[0; size_of::<u32>()]);
    frame.skip(size_of::<u32>());
    assert!(frame.headroom() == HEADROOM, "it is where it was");
}

/// The hash that the program has put there, if it has.
pub fn hash(note: &[u8]) -> Option<FrameHash> {
    let types = word(note, 4).filter(|types| types & MARK != 0)?;
    Some(FrameHash { flow: FlowId(word(note, 0)?), hash_type: hash_type(types)? })
}

fn hash_type(types: u32) -> Option<HashType> {
    let has = |bits: u32| types & bits == bits;
    let of_transport = [of::PORTS | of::TCP, of::PORTS | of::UDP].map(has);
    if types & of::PORTS != 0 && !of_transport.contains(&true) {
        return None;
    }
    let (is_v4, is_extended) = (has(of::V4), has(of::EXTENDED));
    Some(match (is_v4, is_extended, of_transport) {
        (true, _, [true, _]) => HashType::Tcp4,
        (true, _, [_, true]) => HashType::Udp4,
        (true, ..) => HashType::Ipv4,
        _ if !has(of::V6) => return None,
        (_, false, [true, _]) => HashType::Tcp6,
        (_, false, [_, true]) => HashType::Udp6,
        (_, false, _) => HashType::Ipv6,
        (_, true, [true, _]) => HashType::Tcp6Ex,
        (_, true, [_, true]) => HashType::Udp6Ex,
        (_, true, _) => HashType::Ipv6Ex,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::FrameMemory;

    /// The numbers are those of the kernel's `enum xdp_rss_hash_type`.
    #[test]
    fn a_hash_is_of_what_the_card_says() {
        let of = |types: u32| hash(&[7_u32.to_ne_bytes(), (MARK | types).to_ne_bytes()].concat()).map(|hash| hash.hash_type);
        use HashType::*;
        let known = [
            (1, Ipv4),
            (2, Ipv6),
            (6, Ipv6Ex),
            (0x19, Tcp4),
            (0x29, Udp4),
            (0x1a, Tcp6),
            (0x2a, Udp6),
            (0x1e, Tcp6Ex),
            (0x2e, Udp6Ex),
        ];
        for (types, hash_type) in known {
            assert_eq!(of(types), Some(hash_type), "{types:#x}");
        }
        // Nothing; ports of nobody knows what, as veth says; ports of SCTP.
        assert_eq!([0, 8, 0x49].map(of), [None; 3]);
    }

    #[test]
    fn without_a_mark_there_is_no_hash() {
        let memory = FrameMemory::new(1, 2048).unwrap();
        let mut frame = memory.frame().unwrap();
        frame.prepend(&[7_u32.to_ne_bytes(), (MARK | 1).to_ne_bytes()].concat());
        assert_eq!(hash(&frame), Some(FrameHash { flow: FlowId(7), hash_type: HashType::Ipv4 }));
        frame.skip(NOTE_BYTES);
        clear(&mut frame);
        assert_eq!((frame.len(), frame.headroom()), (0, Frame::HEADROOM));
        let (index, start) = memory.lend(frame).unwrap();
        let note = memory.take_back(index, start - NOTE_BYTES, NOTE_BYTES).unwrap();
        assert_eq!(hash(&note), None);
    }

    #[test]
    fn what_is_no_wire_within_the_machine_leaves_no_sums() {
        assert!(!leaves_sums("lo") && !leaves_sums("nobody0"));
    }

    #[test]
    fn loopback_takes_no_tags_out() {
        assert!(!takes_tags_out("lo").unwrap());
        let nobody = takes_tags_out("nobody0").unwrap_err();
        assert_eq!(errno::of(&nobody), libc::ENODEV);
    }
}
