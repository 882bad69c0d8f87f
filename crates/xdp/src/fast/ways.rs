//! Ways as programs look them up: what stands where in keys and values.
//!
//! A way has two halves, each with a map of its own. One is of the source: whose packets may come by a port and tags. The other is of the destination: how packets leave. So there
//! are as many entries as hosts, and not as many as pairs of them.
//!
//! Keys begin with the port and the queue. So the halves of a queue are its lane's alone: lanes share no line of them, and a flow, which always comes by one queue, changes from
//! its lane to the program at one moment.
//!
//! A map that is full gives a place to another at once, while a program may still read it. So a value says by the mixture of its key whose it is, and the program
//! compares that after it has copied the rest: the kernel writes a value from its front.

use corelane_seam::{LearntWay, LinkSide, VlanTag};
use std::net::IpAddr;

/// Bytes of a key, of IPv4 and of IPv6: tags or [`TOWARDS`], port and queue, address.
pub const KEY_BYTES: [usize; 2] = [12, 24];
/// Bytes of a value, of a source and of a destination.
pub const VALUE_BYTES: [usize; 2] = [32, 48];

/// An odd number by which the words of a key are mixed.
pub const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// What stands where in a value, in bytes; the mixture of the key is in front.
pub mod at {
    pub const UNTIL: i16 = 8;
    pub const GENERATION: i16 = 16;
    pub const INTERFACE: i16 = 20;
    pub const OPENING: i16 = 22;
    /// Of a destination: bytes of the tags that are in its header.
    pub const TAG_BYTES: i16 = 23;
    /// Of a source: whose frames they are that come.
    pub const STATION: i16 = 24;
    /// Of a destination: the link's header without the type behind it, which is addresses, outer tag, inner tag.
    pub const HEAD: i16 = 24;
    pub const PLACE: i16 = 44;
    pub const MTU: i16 = 46;
}

/// The first tag of one, and the outer one of two.
pub const VLAN: u16 = 0x8100;
pub const SERVICE_VLAN: u16 = 0x88a8;
const NUMBER: u16 = 0xfff;
/// Behind the numbers of tags: how many there are.
pub const ONE_TAG: u32 = 1 << 24;
pub const TWO_TAGS: u32 = 2 << 24;
/// What stands there in the key of a destination.
pub const TOWARDS: u32 = 3 << 24;

/// Which half of a way, by its place among maps, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    Source,
    Destination,
}

/// A half for its map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub half: Half,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
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

/// The halves of the way as programs look them up; none if programs do not know such tags, or no packet goes it.
pub fn entries(way: &LearntWay, beside: Beside) -> Option<[Entry; 2]> {
    let tags = key_of(way.comes)?;
    key_of(way.leaves)?;
    if way.source.is_ipv4() != way.destination.is_ipv4() {
        return None;
    }
    let tag_bytes = 4 * way.leaves.tags.iter().flatten().count();
    // The kernel takes a frame to be sent that has one tag more than its interface's longest packet.
    let longest = (beside.frame_bytes_max + 4).checked_sub(14 + tag_bytes)?;
    let mut source = entry(Half::Source, (tags, way.source), way, beside);
    put(&mut source.value, at::STATION, &way.comes.destination);
    let mut destination = entry(Half::Destination, (TOWARDS, way.destination), way, beside);
    let value = &mut destination.value;
    put(value, at::TAG_BYTES, &[tag_bytes as u8]);
    put(value, at::HEAD, &[way.leaves.destination, way.leaves_from].concat());
    for (index, tag) in way.leaves.tags.iter().flatten().enumerate() {
        put(value, at::HEAD + 12 + 4 * index as i16, &[tag.protocol.to_be_bytes(), tag.control.to_be_bytes()].concat());
    }
    put(value, at::PLACE, &beside.leaves_by.to_ne_bytes());
    put(value, at::MTU, &(longest.min(way.mtu.into()) as u16).to_ne_bytes());
    Some([source, destination])
}

/// What both halves have alike.
fn entry(half: Half, (front, address): (u32, IpAddr), way: &LearntWay, beside: Beside) -> Entry {
    let mut key = front.to_ne_bytes().to_vec();
    key.extend((u32::from(beside.place) << 16 | u32::from(beside.queue)).to_ne_bytes());
    match address {
        IpAddr::V4(address) => key.extend(address.octets()),
        IpAddr::V6(address) => key.extend(address.octets()),
    }
    let mut value = vec![0; VALUE_BYTES[half as usize]];
    let side = [way.comes, way.leaves][half as usize];
    put(&mut value, 0, &mixture(&key).to_ne_bytes());
    put(&mut value, at::UNTIL, &way.until.to_ne_bytes());
    put(&mut value, at::GENERATION, &beside.generation.to_ne_bytes());
    put(&mut value, at::INTERFACE, &side.interface.to_ne_bytes());
    put(&mut value, at::OPENING, &[side.hands_over_opening.into()]);
    Entry { half, key, value }
}

fn put(value: &mut [u8], at: i16, bytes: &[u8]) {
    value[at as usize..][..bytes.len()].copy_from_slice(bytes);
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

/// The mixture of a key, as programs compute it: of its words of 8 bytes, and the last of 4.
pub fn mixture(key: &[u8]) -> u64 {
    let (words, rest) = key.as_chunks::<8>();
    let last = rest.first_chunk::<4>().map(|rest| u32::from_ne_bytes(*rest).into());
    let mut words = words.iter().map(|word| u64::from_ne_bytes(*word)).chain(last);
    let first = words.next().unwrap_or(0);
    words.fold(first, |mixed, word| mixed.wrapping_mul(MIXER).wrapping_add(word))
}

/// A number for a value's key and generation together.
pub fn named(value: &[u8]) -> u64 {
    let generation = word(value, at::GENERATION) & u64::from(u32::MAX);
    word(value, 0).wrapping_add(generation.wrapping_mul(MIXER))
}

/// Until when a value's half holds.
pub fn until(value: &[u8]) -> u64 {
    word(value, at::UNTIL)
}

fn word(value: &[u8], at: i16) -> u64 {
    value[at as usize..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word))
}
