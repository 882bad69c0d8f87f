//! VLAN tags (IEEE 802.1Q, 802.1ad): which interface of a port a frame's tags name, and how they are put into frames that leave.
//!
//! The table has a place for each number, so a look-up reads one place for a tag. A port with VLANs of one tag has 8 KiB for it, and 8 KiB more for the outer
//! tags of stacked ones and for each of them.

use corelane_seam::{Frame, VlanTag};
use corelane_wire::packet::{EtherType, Link};

/// Numbers that a tag can name, reserved ones among them.
const NUMBERS: usize = 1 << 12;
/// The bits of a tag that name its VLAN.
const NUMBER: u16 = 0xfff;
/// The greatest number that a VLAN can have: 0 is none, and 4,095 is reserved (IEEE 802.1Q, table 9-2).
const NUMBER_MAX: u16 = 4094;
/// Bytes of the two addresses in front of a tag, and of a tag with its type.
const ADDRESSES_BYTES: usize = 12;
const TAG_BYTES: usize = 4;

/// The VLAN tags of an interface's frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tags {
    /// Its frames have none, or one that says a priority alone.
    #[default]
    None,
    /// One of IEEE 802.1Q with that number, 1 to 4,094.
    One(u16),
    /// An outer one of IEEE 802.1ad and an inner one of IEEE 802.1Q (QinQ), each with a number from 1 to 4,094.
    Two(u16, u16),
}

impl Tags {
    /// Whether there can be VLANs of these numbers.
    #[must_use]
    pub fn are_valid(self) -> bool {
        let is_valid = |number: u16| (1..=NUMBER_MAX).contains(&number);
        match self {
            Self::None => true,
            Self::One(number) => is_valid(number),
            Self::Two(outer, inner) => is_valid(outer) && is_valid(inner),
        }
    }

    /// Bytes of them in a frame.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::One(_) => TAG_BYTES,
            Self::Two(..) => 2 * TAG_BYTES,
        }
    }

    /// As frames have them, the outer one first.
    pub(crate) fn as_seen(self) -> [Option<VlanTag>; 2] {
        let tag = |kind: EtherType, control| Some(VlanTag { protocol: kind.number(), control });
        match self {
            Self::None => [None, None],
            Self::One(number) => [tag(EtherType::VLAN, number), None],
            Self::Two(outer, inner) => [tag(EtherType::SERVICE_VLAN, outer), tag(EtherType::VLAN, inner)],
        }
    }

    /// The tags of a frame: those in its bytes, behind the one that the card has taken out. None where no interface can have them: three tags and more, or types in another
    /// order.
    pub(crate) fn of(link: &Link, taken_out: Option<VlanTag>) -> Option<Self> {
        let in_bytes = [Some((link.header.protocol, link.outer)), link.outer.map(|outer| (outer.protocol, link.inner))];
        let mut tags = [(EtherType::VLAN.number(), 0); 2];
        let mut count = 0;
        let beside = taken_out.map(|tag| (tag.protocol, tag.control));
        let inside = in_bytes.into_iter().flatten().take(link.tags).filter_map(|(kind, tag)| Some((kind.number(), tag?.control)));
        for tag in beside.into_iter().chain(inside) {
            *tags.get_mut(count)? = tag;
            count += 1;
        }
        if count != link.tags + usize::from(taken_out.is_some()) {
            return None;
        }
        let (vlan, service) = (EtherType::VLAN.number(), EtherType::SERVICE_VLAN.number());
        match (count, tags.map(|(kind, control)| (kind, control & NUMBER))) {
            (0, _) => Some(Self::None),
            (1, [(kind, 0), _]) if kind == vlan => Some(Self::None),
            (1, [(kind, number), _]) if kind == vlan => Some(Self::One(number)),
            (2, [(first, outer), (second, inner)]) if (first, second) == (service, vlan) => Some(Self::Two(outer, inner)),
            _ => None,
        }
    }

    /// Puts them into a frame, behind its addresses.
    ///
    /// # Panics
    /// If there is no room in front of the frame.
    pub(crate) fn put_into(self, frame: &mut Frame) {
        let tag = |kind: EtherType, number: u16| {
            let ([a, b], [c, d]) = (kind.number().to_be_bytes(), number.to_be_bytes());
            [a, b, c, d]
        };
        let tags = match self {
            Self::None => return,
            Self::One(number) => [[0; TAG_BYTES], tag(EtherType::VLAN, number)],
            Self::Two(outer, inner) => [tag(EtherType::SERVICE_VLAN, outer), tag(EtherType::VLAN, inner)],
        };
        let length = self.bytes();
        let bytes = &tags.as_flattened()[2 * TAG_BYTES - length..];
        frame.prepend(bytes);
        frame.copy_within(length..length + ADDRESSES_BYTES, 0);
        frame[ADDRESSES_BYTES..ADDRESSES_BYTES + length].copy_from_slice(bytes);
    }
}

/// The numbers, the outer one first: `10`, `100.10`; `none` where there are no tags.
impl std::fmt::Display for Tags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::One(number) => write!(f, "{number}"),
            Self::Two(outer, inner) => write!(f, "{outer}.{inner}"),
        }
    }
}

/// A text that names no VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTags;

impl std::fmt::Display for NoTags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a VLAN has a number from 1 to 4094, or two, as in 10 or 100.10")
    }
}

impl std::error::Error for NoTags {}

/// One number of a VLAN or two, as they are shown.
impl std::str::FromStr for Tags {
    type Err = NoTags;

    fn from_str(text: &str) -> Result<Self, NoTags> {
        let number = |text: &str| text.parse().map_err(|_| NoTags);
        let tags = match text.split_once('.') {
            None => Self::One(number(text)?),
            Some((outer, inner)) => Self::Two(number(outer)?, number(inner)?),
        };
        if tags.are_valid() { Ok(tags) } else { Err(NoTags) }
    }
}

/// For each number the one more than what it names; 0 for nothing.
#[derive(Debug)]
struct Numbers(Box<[u16]>);

impl Default for Numbers {
    fn default() -> Self {
        Self(vec![0; NUMBERS].into())
    }
}

impl Numbers {
    fn find(&self, number: u16) -> Option<usize> {
        self.0[usize::from(number & NUMBER)].checked_sub(1).map(usize::from)
    }

    fn set(&mut self, number: u16, to: usize) {
        // reason: there are at most `INTERFACES_MAX` interfaces, and as many outer tags.
        self.0[usize::from(number & NUMBER)] = u16::try_from(to + 1).expect("the number of an interface fits");
    }
}

/// Which interface the tags of a port's frames name.
#[derive(Debug, Default)]
pub(crate) struct Vlans {
    single: Option<Numbers>,
    /// Of stacked tags the outer one names one of the tables of inner ones.
    outer: Option<Numbers>,
    inner: Vec<Numbers>,
}

impl Vlans {
    /// The interface of these tags; none if they are nobody's.
    pub fn find(&self, tags: Tags) -> Option<usize> {
        match tags {
            Tags::None => None,
            Tags::One(number) => self.single.as_ref()?.find(number),
            Tags::Two(outer, inner) => self.inner[self.outer.as_ref()?.find(outer)?].find(inner),
        }
    }

    /// Names an interface by its tags.
    pub fn add(&mut self, tags: Tags, interface: usize) {
        match tags {
            Tags::None => {}
            Tags::One(number) => self.single.get_or_insert_default().set(number, interface),
            Tags::Two(outer, inner) => {
                let tables = self.outer.get_or_insert_default();
                let place = tables.find(outer).unwrap_or(self.inner.len());
                if place == self.inner.len() {
                    tables.set(outer, place);
                    self.inner.push(Numbers::default());
                }
                self.inner[place].set(inner, interface);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::FrameMemory;
    use corelane_wire::packet::Packet;

    fn frame(tags: &[(u16, u16)]) -> Vec<u8> {
        let mut bytes = [[1; 6], [2; 6]].concat();
        tags.iter().for_each(|(kind, control)| bytes.extend([kind.to_be_bytes(), control.to_be_bytes()].concat()));
        bytes.extend([0x12, 0x34, 5, 6]);
        bytes
    }

    fn tags_of(tags: &[(u16, u16)], taken_out: Option<(u16, u16)>) -> Option<Tags> {
        let taken_out = taken_out.map(|(protocol, control)| VlanTag { protocol, control });
        Tags::of(&Packet::of_frame(&frame(tags)).unwrap().link.unwrap(), taken_out)
    }

    #[test]
    fn tags_are_read_in_the_order_of_the_standards_alone() {
        let (vlan, service) = (0x8100, 0x88a8);
        for (tags, read) in [
            (&[][..], Some(Tags::None)),
            (&[(vlan, 0xe000)], Some(Tags::None)),
            (&[(vlan, 0xa007)], Some(Tags::One(7))),
            (&[(service, 9), (vlan, 0x3007)], Some(Tags::Two(9, 7))),
            (&[(service, 9)], None),
            (&[(vlan, 9), (vlan, 7)], None),
            (&[(vlan, 9), (service, 7)], None),
            (&[(service, 9), (service, 7)], None),
            (&[(service, 9), (vlan, 7), (vlan, 7)], None),
        ] {
            assert_eq!(tags_of(tags, None), read, "{tags:?}");
            // The card may have taken the first out.
            if let Some((first, rest)) = tags.split_first() {
                assert_eq!(tags_of(rest, Some(*first)), read, "{tags:?}");
            }
        }
    }

    #[test]
    fn tags_that_are_put_in_are_read_again() {
        let memory = FrameMemory::new(1, 2048).unwrap();
        for tags in [Tags::None, Tags::One(1), Tags::One(4094), Tags::Two(1, 4094), Tags::Two(300, 2)] {
            assert!(tags.are_valid());
            let mut written = memory.frame().unwrap();
            written.append(&frame(&[]));
            tags.put_into(&mut written);
            let walked = Packet::of_frame(&written).unwrap();
            assert_eq!(Tags::of(&walked.link.unwrap(), None), Some(tags));
            assert_eq!((written.len(), &written[..12]), (16 + tags.bytes(), &frame(&[])[..12]));
            assert_eq!(written[12 + tags.bytes()..], frame(&[])[12..]);
        }
        for none in [Tags::One(0), Tags::One(4095), Tags::Two(0, 1), Tags::Two(1, 0), Tags::Two(4095, 1), Tags::Two(1, 5000)] {
            assert!(!none.are_valid(), "{none}");
        }
    }

    #[test]
    fn each_vlan_has_its_interface_and_others_none() {
        let mut vlans = Vlans::default();
        let all: Vec<_> = (1..=400).map(Tags::One).chain((1..=400).map(|number| Tags::Two(7 + number % 3, number))).collect();
        all.iter().enumerate().for_each(|(number, tags)| vlans.add(*tags, number));
        assert!(all.iter().enumerate().all(|(number, tags)| vlans.find(*tags) == Some(number)));
        for nobody in [Tags::None, Tags::One(401), Tags::One(0), Tags::Two(7, 1), Tags::Two(1, 7), Tags::Two(10, 3)] {
            assert_eq!(vlans.find(nobody), None, "{nobody}");
        }
        assert!(Vlans::default().find(Tags::Two(1, 1)).is_none());
    }
}
