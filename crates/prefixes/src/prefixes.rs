//! The table.

use crate::groups::{Entries, Groups, SHARED};
use crate::node::{Node, ROOT_DEPTH, SHORTCUT_DEPTH, STRIDE, place};
use crate::tree::Tree;
use crate::{Address, Error, Iter, Prefix};

/// Prefixes of a table at most, unless another bound is set: twice what the Internet has.
pub const PREFIXES_MAX: usize = 2_000_000;

/// Nodes from the root down, at most: of IPv6.
const LEVELS_MAX: usize = 1 + 128_usize.div_ceil(6);

/// Names the root, which lies in the table itself.
const ROOT: u32 = u32::MAX;

/// Nodes that shortcuts may lead to.
const SHORTCUTS: usize = 1 << SHORTCUT_DEPTH;

/// Leads to no node.
const NOWHERE: u32 = u32::MAX;

/// With so many prefixes there are shortcuts, 32 KiB of them, and groups.
const MANY: usize = 4096;

/// Values of prefixes, and the longest prefix of an address among them. See the crate's head for what each operation costs.
#[derive(Clone, Debug)]
pub struct Prefixes<A: Address> {
    root: Node,
    tree: Tree,
    /// The node at [`SHORTCUT_DEPTH`] for each beginning of an address; empty while prefixes are few.
    shortcuts: Vec<u32>,
    /// Of IPv6, while prefixes are many: what is found without a walk.
    groups: Option<Box<Groups>>,
    length: usize,
    most: usize,
    family: std::marker::PhantomData<A>,
}

/// The longest prefix so far: a node with some that an address begins with.
struct Best<'a> {
    node: &'a Node,
    covering: u64,
}

impl<A: Address> Prefixes<A> {
    /// A table of at most [`PREFIXES_MAX`] prefixes.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_bound(PREFIXES_MAX)
    }

    /// A table of at most `most` prefixes. Memory is taken as they come.
    #[must_use]
    pub const fn with_bound(most: usize) -> Self {
        Self {
            root: Node::ROOT,
            tree: Tree::new(),
            shortcuts: Vec::new(),
            groups: None,
            length: 0,
            most,
            family: std::marker::PhantomData,
        }
    }

    /// How many prefixes there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// How many there may be.
    #[must_use]
    pub const fn bound(&self) -> usize {
        self.most
    }

    /// Bytes of memory that the table holds. What a removed prefix has used is kept for others.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        let groups = match &self.groups {
            Some(groups) => size_of::<Groups>() + groups.bytes(),
            None => 0,
        };
        size_of::<Self>() + self.tree.bytes() + self.shortcuts.capacity() * size_of::<u32>() + groups
    }

    /// The longest prefix that an address begins with: its length and its value.
    #[must_use]
    #[inline]
    pub fn find(&self, address: A) -> Option<(u8, u32)> {
        if let Some(groups) = &self.groups
            && let Some(found) = groups.find(address.group())
        {
            return Some(found);
        }
        self.walk(address)
    }

    /// The same by the tree alone.
    fn walk(&self, address: A) -> Option<(u8, u32)> {
        let best = match self.shortcuts.get(address.first_13()) {
            Some(&NOWHERE) | None => None,
            Some(&shortcut) => self.best(address, self.tree.nodes.get(shortcut)),
        };
        let Best { node, covering } = best.or_else(|| self.best(address, &self.root))?;
        let longest = covering.ilog2();
        Some(((node.depth() + longest.ilog2() as i16) as u8, self.tree.value(node, longest)))
    }

    /// The value of exactly that prefix.
    #[must_use]
    pub fn get(&self, prefix: &Prefix<A>) -> Option<u32> {
        let (depth, place) = home(prefix);
        let node = self.node(self.path(prefix.address(), depth)?.last());
        node.has_prefix(place).then(|| self.tree.value(node, place))
    }

    /// All prefixes with their values, in order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, A> {
        Iter::new(&self.tree, self.root)
    }

    /// Gives a prefix a value; says which it had.
    ///
    /// # Errors
    /// [`Error::Full`] for a new one where there are as many as may be.
    pub fn insert(&mut self, prefix: Prefix<A>, value: u32) -> Result<Option<u32>, Error> {
        if self.length >= self.most && self.get(&prefix).is_none() {
            return Err(Error::Full { most: self.most });
        }
        let (depth, place) = home(&prefix);
        let at = self.reach(prefix.address(), depth);
        let node = *self.node(at);
        if node.has_prefix(place) {
            let before = self.tree.value(&node, place);
            match node.prefixes.is_power_of_two() {
                true => self.node_mut(at).values_at = value,
                false => *self.tree.values.get_mut(node.values_at + node.value_rank(place)) = value,
            }
            self.renew_group(&prefix);
            return Ok(Some(before));
        }
        let rank = node.value_rank(place) as usize;
        let values_at = match node.prefixes.count_ones() as usize {
            0 => value,
            1 => {
                let alone = self.tree.values.insert(0, 0, 0, node.values_at);
                self.tree.values.insert(alone, 1, rank, value)
            }
            many => self.tree.values.insert(node.values_at, many, rank, value),
        };
        self.node_mut(at).toggle_prefix(place, values_at);
        self.length += 1;
        if self.length == MANY {
            self.make_shortcuts();
            self.make_groups();
        } else {
            self.renew_group(&prefix);
        }
        Ok(None)
    }

    /// Takes a prefix out; says which value it had.
    pub fn remove(&mut self, prefix: &Prefix<A>) -> Option<u32> {
        let (depth, place) = home(prefix);
        let path = self.path(prefix.address(), depth)?;
        let at = path.last();
        let node = *self.node(at);
        if !node.has_prefix(place) {
            return None;
        }
        let (value, rank) = (self.tree.value(&node, place), node.value_rank(place) as usize);
        let values_at = match node.prefixes.count_ones() as usize {
            1 => 0,
            2 => {
                let alone = self.tree.values.remove(node.values_at, 2, rank);
                let left = *self.tree.values.get(alone);
                self.tree.values.remove(alone, 1, 0);
                left
            }
            many => self.tree.values.remove(node.values_at, many, rank),
        };
        self.node_mut(at).toggle_prefix(place, values_at);
        self.length -= 1;
        self.prune(prefix.address(), &path);
        if self.length == MANY / 4 {
            self.shortcuts = Vec::new();
            self.groups = None;
        }
        self.renew_group(prefix);
        Some(value)
    }

    /// The longest prefix from a node downwards.
    #[inline]
    fn best<'a>(&'a self, address: A, mut node: &'a Node) -> Option<Best<'a>> {
        let mut best = None;
        while node.is_on_way(address) {
            let six = address.six_at(node.depth());
            let covering = node.covering(six);
            if covering != 0 {
                best = Some(Best { node, covering });
            }
            if !node.has_child(six) {
                break;
            }
            node = self.tree.below(node, six);
        }
        best
    }

    /// The nodes from the root to that at a depth, if it is there.
    fn path(&self, address: A, to: i16) -> Option<Path> {
        let mut path = Path { nodes: [ROOT; LEVELS_MAX], length: 1 };
        loop {
            let node = self.node(path.last());
            if node.depth() >= to || !node.is_on_way(address) {
                return (node.depth() == to && node.is_on_way(address)).then_some(path);
            }
            let six = address.six_at(node.depth());
            if !node.has_child(six) {
                return None;
            }
            path.push(node.nodes_at + node.node_rank(six));
        }
    }

    /// The node at a depth on the way of an address, made if it is not there.
    fn reach(&mut self, address: A, to: i16) -> u32 {
        let mut at = ROOT;
        loop {
            if let Some(parts_at) = self.node(at).parts_at(address, to) {
                let (above, below, six) = self.node(at).parted(parts_at);
                let nodes_at = self.tree.nodes.insert(0, 0, 0, below);
                *self.node_mut(at) = above;
                self.node_mut(at).toggle_child(six, nodes_at);
            }
            let node = *self.node(at);
            if node.depth() == to {
                return at;
            }
            assert!(node.depth() < to, "a node that lies too deep was parted");
            let six = address.six_at(node.depth());
            if !node.has_child(six) {
                self.add_child(at, six, Node::on_way(address, node.depth(), to));
                self.note_moved(address, node.depth());
            }
            let node = self.node(at);
            at = node.nodes_at + node.node_rank(six);
        }
    }

    fn node(&self, at: u32) -> &Node {
        if at == ROOT { &self.root } else { self.tree.nodes.get(at) }
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        if at == ROOT { &mut self.root } else { self.tree.nodes.get_mut(at) }
    }

    fn add_child(&mut self, at: u32, six: usize, child: Node) {
        let node = *self.node(at);
        let (length, rank) = (node.children.count_ones() as usize, node.node_rank(six) as usize);
        let nodes_at = self.tree.nodes.insert(node.nodes_at, length, rank, child);
        self.node_mut(at).toggle_child(six, nodes_at);
    }

    /// Takes out the nodes at the end of a path that hold nothing any more, and that at its end then which only leads on.
    fn prune(&mut self, address: A, path: &Path) {
        let mut last = path.last();
        for pair in path.nodes[..path.length].windows(2).rev() {
            if !self.node(pair[1]).is_empty() {
                break;
            }
            let node = *self.node(pair[0]);
            let six = address.six_at(node.depth());
            let (length, rank) = (node.children.count_ones() as usize, node.node_rank(six) as usize);
            let nodes_at = self.tree.nodes.remove(node.nodes_at, length, rank);
            last = pair[0];
            self.node_mut(last).toggle_child(six, nodes_at);
            self.note_moved(address, node.depth());
        }
        let node = *self.node(last);
        if node.is_way()
            && let Some(joined) = node.joined(*self.tree.nodes.get(node.nodes_at))
        {
            self.tree.nodes.remove(node.nodes_at, 1, 0);
            *self.node_mut(last) = joined;
        }
    }

    /// The nodes below one at `depth` have moved.
    fn note_moved(&mut self, address: A, depth: i16) {
        if depth != SHORTCUT_DEPTH - STRIDE || self.shortcuts.is_empty() {
            return;
        }
        // reason: what has moved hangs from there.
        let at = self.path(address, depth).expect("the node is on its path").last();
        let node = *self.node(at);
        self.fill_shortcuts(address.first_13() & !63, &node);
    }

    /// Notes where the nodes below one are whose beginning has 64 shortcuts from `first` on.
    fn fill_shortcuts(&mut self, first: usize, node: &Node) {
        for (six, shortcut) in self.shortcuts[first..first + 64].iter_mut().enumerate() {
            *shortcut = if node.has_child(six) { node.nodes_at + node.node_rank(six) } else { NOWHERE };
        }
    }

    /// Groups of all prefixes, which are [`MANY`].
    fn make_groups(&mut self) {
        if !A::IS_GROUPED {
            return;
        }
        self.groups = Some(Box::new(Groups::new()));
        let prefixes: Vec<_> = self.iter().map(|(prefix, _)| prefix).collect();
        prefixes.iter().for_each(|prefix| self.renew_group(prefix));
    }

    /// Its group has what the tree has.
    fn renew_group(&mut self, prefix: &Prefix<A>) {
        if prefix.length() < SHARED {
            return;
        }
        let Some(mut groups) = self.groups.take() else { return };
        let mut entries = Entries::new();
        let is_whole = self.gather(&self.root, A::zero(), prefix.address().cut(SHARED), &mut entries);
        if !is_whole {
            entries.clear();
        }
        groups.put(prefix.address().group().0, &mut entries);
        self.groups = Some(groups);
    }

    /// Gathers the prefixes of a group from a node downwards; says whether they are few and short enough for one.
    fn gather(&self, node: &Node, way: A, group: A, entries: &mut Entries) -> bool {
        let depth = node.depth();
        let mut places = if depth + STRIDE > SHARED.into() { node.prefixes } else { 0 };
        while places != 0 {
            let place = places.trailing_zeros();
            places &= places - 1;
            let length = (depth + place.ilog2() as i16) as u8;
            let address = way.with_six(depth, (place as usize) << (6 - place.ilog2()) & 63);
            let is_here = length >= SHARED && address.cut(SHARED) == group;
            if is_here && !entries.add(length, address.group().1, || self.tree.value(node, place)) {
                return false;
            }
        }
        let mut goes_on = |six: usize| {
            let below = self.tree.below(node, six);
            let way = below.with_skipped(way.with_six(depth, six));
            way.cut(SHARED) != group.cut(below.depth().min(SHARED.into()) as u8) || self.gather(below, way, group, entries)
        };
        if depth + STRIDE <= SHARED.into() {
            let six = group.six_at(depth);
            return !node.has_child(six) || goes_on(six);
        }
        (0..64).filter(|six| node.has_child(*six)).all(goes_on)
    }

    fn make_shortcuts(&mut self) {
        self.shortcuts = vec![NOWHERE; SHORTCUTS];
        for first in (0..SHORTCUTS).step_by(64) {
            let address = A::zero().with_six(1, first >> 6 & 63).with_six(ROOT_DEPTH, first >> 12);
            if let Some(path) = self.path(address, SHORTCUT_DEPTH - STRIDE) {
                let node = *self.node(path.last());
                self.fill_shortcuts(first, &node);
            }
        }
    }
}

impl<'a, A: Address> IntoIterator for &'a Prefixes<A> {
    type Item = (Prefix<A>, u32);
    type IntoIter = Iter<'a, A>;

    fn into_iter(self) -> Iter<'a, A> {
        self.iter()
    }
}

impl<A: Address> Default for Prefixes<A> {
    fn default() -> Self {
        Self::new()
    }
}

/// Nodes from the root downwards.
struct Path {
    nodes: [u32; LEVELS_MAX],
    length: usize,
}

impl Path {
    fn push(&mut self, node: u32) {
        self.nodes[self.length] = node;
        self.length += 1;
    }

    fn last(&self) -> u32 {
        self.nodes[self.length - 1]
    }
}

/// Depth of the node that has a prefix, and its place there.
fn home<A: Address>(prefix: &Prefix<A>) -> (i16, u32) {
    let length = i16::from(prefix.length());
    let depth = (length + 5) / STRIDE * STRIDE + ROOT_DEPTH;
    (depth, place(prefix.address().six_at(depth), (length - depth) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_seam::Random;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// Chunks that a table has and another has not, and all of them.
    fn own_chunks<A: Address>(table: &Prefixes<A>, other: &Prefixes<A>) -> usize {
        let Tree { nodes, values } = &table.tree;
        let groups = table.groups.as_ref().zip(other.groups.as_ref());
        nodes.own_chunks(&other.tree.nodes)
            + values.own_chunks(&other.tree.values)
            + groups.map_or(0, |(groups, other)| groups.own_chunks(other))
    }

    /// A copy that is changed takes up a few chunks of its own, however large the table is; the table stays as it was.
    fn changed_copies<A: Address>(mut address: impl FnMut(&mut Random) -> Prefix<A>) {
        let mut random = Random::new(11);
        let mut table = Prefixes::<A>::new();
        for number in 0..50_000 {
            table.insert(address(&mut random), number).unwrap();
        }
        let all = own_chunks(&table, &Prefixes::new());
        let before: Vec<_> = table.iter().collect();
        let (mut most, mut copy) = (0, table.clone());
        assert_eq!(own_chunks(&copy, &table), 0);
        for number in 0..500 {
            let (prefix, one) = (address(&mut random), copy.clone());
            match copy.remove(&prefix) {
                Some(_) => assert_eq!((one.get(&prefix).is_some(), copy.get(&prefix)), (true, None)),
                None => assert_eq!((copy.insert(prefix, number), one.get(&prefix)), (Ok(None), None)),
            }
            most = most.max(own_chunks(&copy, &one));
        }
        assert!(most <= 16 && all > 8 * most, "{most} of {all}");
        assert_eq!(table.iter().collect::<Vec<_>>(), before);
    }

    #[test]
    fn a_copy_that_changes_has_few_chunks_of_its_own() {
        changed_copies(|random| {
            Prefix::around(Ipv4Addr::from_bits(random.below(1 << 32) as u32), 17 + random.below(16) as u8).unwrap()
        });
        changed_copies(|random| {
            let high = 0x2000_0000 | random.below(1 << 29) as u128;
            Prefix::around(Ipv6Addr::from_bits(high << 96 | (random.below(1 << 24) as u128) << 72), 33 + random.below(24) as u8)
                .unwrap()
        });
    }
}
