//! One node: all prefixes of six lengths under one path, and the paths that go on below (Eatherton, Varghese, Dittia: "Tree Bitmap", 2004).

use crate::Address;
use crate::blocks::Item;

/// Where the root stands: so that what an address's first bit leads to begins at that bit, and lengths of 24 and of 48 bits are the last of their nodes'.
pub(crate) const ROOT_DEPTH: i16 = -5;

/// Depth at which the shortcuts lead.
pub(crate) const SHORTCUT_DEPTH: i16 = 13;

/// Bits of an address that a node looks at.
pub(crate) const STRIDE: i16 = 6;

/// The six prefixes of a node that an address may begin with, by its first five bits there, as bits of [`Node::prefixes`].
const COVERING: [u64; 32] = {
    let mut covering = [0; 32];
    let mut five = 0;
    while five < 32 {
        let mut length = 0;
        while length < 6 {
            covering[five] |= 1 << place(five << 1, length);
            length += 1;
        }
        five += 1;
    }
    covering
};

/// Where a prefix of `length` bits, 0 to 5, stands in [`Node::prefixes`]: as in a heap, a bit behind the place itself leads to the two that are longer by one.
pub(crate) const fn place(six: usize, length: u32) -> u32 {
    1 << length | (six >> (6 - length)) as u32
}

/// Strides that a node may stand below where it hangs.
const SKIPPED_MAX: i16 = 5;

/// A node. It looks at six bits of an address from `depth` on; whether the bits before those that led to it are its own is said by `path`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(crate) struct Node {
    /// Which prefixes there are: bit [`place`], 1 to 63.
    pub prefixes: u64,
    /// Which of the 64 paths go on.
    pub children: u64,
    /// Where the values of the prefixes lie, by their places; of one prefix, its value.
    pub values_at: u32,
    /// Where the nodes below lie, by their paths.
    pub nodes_at: u32,
    /// The bits right before `depth` that no node above looks at, six for each stride that was skipped.
    path: u32,
    /// Bits of an address before those that it looks at; -5 of the root.
    depth: i8,
    skipped: u8,
}

impl Node {
    pub const ROOT: Self =
        Self { prefixes: 0, children: 0, values_at: 0, nodes_at: 0, path: 0, depth: ROOT_DEPTH as i8, skipped: 0 };

    /// An empty node on the way of an address, at `wanted` or as near as can be, to hang from one at `from`. What leads to the shortcuts is whole.
    pub fn on_way<A: Address>(address: A, from: i16, wanted: i16) -> Self {
        let most = if from < SHORTCUT_DEPTH { 0 } else { SKIPPED_MAX };
        let skipped = ((wanted - from) / STRIDE - 1).min(most);
        Self { depth: (from + STRIDE) as i8, ..Self::ROOT }.deeper(address, skipped)
    }

    /// The same node so many strides deeper on the way of an address.
    fn deeper<A: Address>(self, address: A, strides: i16) -> Self {
        let depth = self.depth() + strides * STRIDE;
        let skipped = self.skipped + strides as u8;
        Self { depth: depth as i8, skipped, path: address.before(depth) & mask(skipped), ..self }
    }

    pub const fn depth(&self) -> i16 {
        self.depth as i16
    }

    /// The address, and the bits that were skipped, which were 0.
    pub fn with_skipped<A: Address>(&self, address: A) -> A {
        (0..i16::from(self.skipped)).fold(address, |address, back| {
            address.with_six(self.depth() - (back + 1) * STRIDE, (self.path >> (back * STRIDE) & 63) as usize)
        })
    }

    /// Whether the bits that were skipped are those of an address.
    #[inline]
    pub fn is_on_way<A: Address>(&self, address: A) -> bool {
        self.skipped == 0 || (address.before(self.depth()) ^ self.path) & mask(self.skipped) == 0
    }

    /// Where the node would have to be parted for a prefix whose node is at `wanted`: the first depth at which the ways part, or that. None if the way to it
    /// leads through here.
    pub fn parts_at<A: Address>(&self, address: A, wanted: i16) -> Option<i16> {
        if self.skipped == 0 {
            return None;
        }
        let differing = (address.before(self.depth()) ^ self.path) & mask(self.skipped);
        let alike = match differing {
            0 => i16::from(self.skipped),
            // Of the bits that were skipped, whole strides in front are alike.
            _ => i16::from(self.skipped) - 1 - (differing.ilog2() as i16) / STRIDE,
        };
        let at = (self.depth() - (i16::from(self.skipped) - alike) * STRIDE).min(wanted);
        (at < self.depth()).then_some(at)
    }

    /// A node at `depth`, among the strides that this one skips, and the path by which this one, which then skips fewer, goes on from there.
    pub fn parted(self, depth: i16) -> (Self, Self, usize) {
        let behind = (self.depth() - depth) / STRIDE;
        let skipped = self.skipped - behind as u8;
        let six = self.path >> ((behind - 1) * STRIDE) & 63;
        let path = self.path >> (behind * STRIDE);
        let above = Self { depth: depth as i8, skipped, path, ..Self::ROOT };
        let skipped = behind as u8 - 1;
        (above, Self { skipped, path: self.path & mask(skipped), ..self }, six as usize)
    }

    /// The only node below one that has nothing else, hung in its place; none where it would skip too many strides, or shortcuts lead to the one above.
    pub fn joined(&self, below: Self) -> Option<Self> {
        let skipped = self.skipped + 1 + below.skipped;
        if self.depth() <= SHORTCUT_DEPTH || i16::from(skipped) > SKIPPED_MAX {
            return None;
        }
        let six = self.children.trailing_zeros();
        let own = u32::from(below.skipped) * STRIDE as u32;
        let path = (self.path << STRIDE | six) << own | below.path;
        Some(Self { skipped, path, ..below })
    }

    /// The prefixes here that an address begins with whose next six bits are these.
    pub const fn covering(&self, six: usize) -> u64 {
        self.prefixes & COVERING[six >> 1]
    }

    pub const fn has_prefix(&self, place: u32) -> bool {
        self.prefixes >> place & 1 == 1
    }

    pub const fn has_child(&self, six: usize) -> bool {
        self.children >> six & 1 == 1
    }

    /// How many values lie before that of a place.
    pub const fn value_rank(&self, place: u32) -> u32 {
        (self.prefixes & ((1 << place) - 1)).count_ones()
    }

    /// How many nodes lie before that of a path.
    pub const fn node_rank(&self, six: usize) -> u32 {
        (self.children & ((1 << six) - 1)).count_ones()
    }

    /// A prefix comes or goes, and the values lie there.
    pub const fn toggle_prefix(&mut self, place: u32, values_at: u32) {
        self.prefixes ^= 1 << place;
        self.values_at = values_at;
    }

    /// A path comes or goes, and the nodes below lie there.
    pub const fn toggle_child(&mut self, six: usize, nodes_at: u32) {
        self.children ^= 1 << six;
        self.nodes_at = nodes_at;
    }

    pub const fn is_empty(&self) -> bool {
        self.prefixes == 0 && self.children == 0
    }

    /// Whether nothing is here but one path that goes on.
    pub const fn is_way(&self) -> bool {
        self.prefixes == 0 && self.children.is_power_of_two()
    }
}

/// The bits of so many strides.
const fn mask(strides: u8) -> u32 {
    (1 << (strides as u32 * STRIDE as u32)) - 1
}

impl Item for Node {
    const EMPTY: Self = Self::ROOT;

    fn of_link(link: u32) -> Self {
        Self { nodes_at: link, ..Self::ROOT }
    }

    fn link(self) -> u32 {
        self.nodes_at
    }
}

impl Item for u32 {
    const EMPTY: Self = 0;

    fn of_link(link: u32) -> Self {
        link
    }

    fn link(self) -> u32 {
        self
    }
}
