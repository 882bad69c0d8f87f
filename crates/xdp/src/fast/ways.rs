//! Ways as programs look them up: what stands where in keys and values.
//!
//! A key says by which port, queue and tags a packet comes, from where, and to where. So the ways of a queue are its lane's alone: lanes share no line of them, and a flow,
//! which always comes by one queue, changes from its lane to the program at one moment.
//!
//! A map that is full gives a place to another way at once, while a program may still read it. So a value says by the mixture of its key whose it is, and the program
//! compares that after it has copied the rest: the kernel writes a value from its front.

use corelane_seam::{LearntWay, LinkSide, VlanTag};
use std::net::IpAddr;

/// Bytes of a key: tags, port and queue, source, destination.
pub const KEY_BYTES: [usize; 2] = [16, 40];
/// Bytes of a value.
pub const VALUE_BYTES: usize = 56;

/// An odd number by which the words of a key are mixed.
pub const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// What stands where in a value, in bytes; the mixture of the key is in front.
pub mod at {
    pub const UNTIL: i16 = 8;
    pub const GENERATION: i16 = 16;
    pub const COMES_BY: i16 = 20;
    pub const LEAVES_BY: i16 = 22;
    /// The link's header without the type behind it: addresses, outer tag, inner tag.
    pub const HEAD: i16 = 24;
    pub const PLACE: i16 = 44;
    pub const MTU: i16 = 46;
    /// Whose frames they are that come.
    pub const STATION: i16 = 48;
    pub const TAG_BYTES: i16 = 54;
    pub const OPENING: i16 = 55;
}

/// The first tag of one, and the outer one of two.
pub const VLAN: u16 = 0x8100;
pub const SERVICE_VLAN: u16 = 0x88a8;
const NUMBER: u16 = 0xfff;
/// Behind the numbers of tags: how many there are.
pub const ONE_TAG: u32 = 1 << 24;
pub const TWO_TAGS: u32 = 2 << 24;

/// A way for a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Vec<u8>,
    pub value: [u8; VALUE_BYTES],
}

/// What else is known of it than what a lane tells.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// The port's place, and its queue.
    pub place: u16,
    pub queue: u16,
    pub generation: u32,
    /// The place of the port that it leaves by, and the bytes of the longest frame there, a tag aside.
    pub leaves_by: u16,
    pub frame_bytes_max: usize,
}

/// The way as a program looks it up; none if the program does not know such tags, or no packet goes it.
pub fn entry(way: &LearntWay, beside: Beside) -> Option<Entry> {
    let tags = key_of(way.comes)?;
    let mut key = tags.to_ne_bytes().to_vec();
    key.extend((u32::from(beside.place) << 16 | u32::from(beside.queue)).to_ne_bytes());
    match (way.source, way.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => key.extend([source.octets(), destination.octets()].concat()),
        (IpAddr::V6(source), IpAddr::V6(destination)) => key.extend([source.octets(), destination.octets()].concat()),
        _ => return None,
    }
    key_of(way.leaves)?;
    let tag_bytes = 4 * way.leaves.tags.iter().flatten().count();
    // The kernel takes a frame to be sent that has one tag more than its interface's longest packet.
    let longest = (beside.frame_bytes_max + 4).checked_sub(14 + tag_bytes)?;
    let mtu = longest.min(way.mtu.into()) as u16;
    let mut value = [0; VALUE_BYTES];
    let mut put = |at: i16, bytes: &[u8]| value[at as usize..][..bytes.len()].copy_from_slice(bytes);
    put(0, &mixture(&key).to_ne_bytes());
    put(at::UNTIL, &way.until.to_ne_bytes());
    put(at::GENERATION, &beside.generation.to_ne_bytes());
    put(at::COMES_BY, &way.comes.interface.to_ne_bytes());
    put(at::LEAVES_BY, &way.leaves.interface.to_ne_bytes());
    put(at::HEAD, &[way.leaves.destination, way.leaves_from].concat());
    for (index, tag) in way.leaves.tags.iter().flatten().enumerate() {
        put(at::HEAD + 12 + 4 * index as i16, &[tag.protocol.to_be_bytes(), tag.control.to_be_bytes()].concat());
    }
    put(at::PLACE, &beside.leaves_by.to_ne_bytes());
    put(at::MTU, &mtu.to_ne_bytes());
    put(at::STATION, &way.comes.destination);
    put(at::TAG_BYTES, &[tag_bytes as u8]);
    put(at::OPENING, &[way.hands_over_opening.into()]);
    Some(Entry { key, value })
}

/// The number that programs make of tags; none of those that they leave to lanes.
fn key_of(side: LinkSide) -> Option<u32> {
    let number = |tag: VlanTag| u32::from(tag.control & NUMBER);
    match side.tags {
        [None, None] => Some(0),
        [Some(tag), None] if tag.protocol == VLAN => Some(ONE_TAG | number(tag)),
        [Some(outer), Some(inner)] if (outer.protocol, inner.protocol) == (SERVICE_VLAN, VLAN) => {
            Some(TWO_TAGS | number(outer) << 12 | number(inner))
        }
        _ => None,
    }
}

/// The mixture of a key, as programs compute it.
pub fn mixture(key: &[u8]) -> u64 {
    let mut words = key.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
    let first = words.next().unwrap_or(0);
    words.fold(first, |mixed, word| mixed.wrapping_mul(MIXER).wrapping_add(word))
}

/// A number for a value's key and generation together.
pub fn named(value: &[u8; VALUE_BYTES]) -> u64 {
    let (words, _) = value.as_chunks::<8>();
    let generation = u64::from_ne_bytes(words[at::GENERATION as usize / 8]) & u64::from(u32::MAX);
    u64::from_ne_bytes(words[0]).wrapping_add(generation.wrapping_mul(MIXER))
}

/// Until when a value's way holds.
pub fn until(value: &[u8; VALUE_BYTES]) -> u64 {
    u64::from_ne_bytes(value.as_chunks::<8>().0[at::UNTIL as usize / 8])
}
