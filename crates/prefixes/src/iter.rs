//! All prefixes of a table, in order.

use crate::node::Node;
use crate::tree::Tree;
use crate::{Address, Prefix};

/// Places of a node's prefixes (1 to 63) and paths (64 to 127) in their order: each before those within it.
const ORDER: [u8; 127] = {
    let mut order = [1; 127];
    let mut at = 1;
    while at < order.len() {
        let before = order[at - 1];
        order[at] = if before < 64 {
            before << 1
        } else {
            // Up while it was the second of two, and then to the second.
            let mut up = before;
            while up & 1 == 1 {
                up >>= 1;
            }
            up | 1
        };
        at += 1;
    }
    order
};

/// A node on the way, and how much of it has been looked at.
#[derive(Clone, Copy, Debug)]
struct Visit<A> {
    node: Node,
    path: A,
    next: usize,
}

/// The prefixes of a table with their values, as [`Prefix`] orders them. The table cannot change meanwhile.
#[derive(Clone, Debug)]
pub struct Iter<'a, A: Address> {
    tree: &'a Tree,
    /// From the root down: as many as an address has sixes of bits, at most.
    visits: Vec<Visit<A>>,
}

impl<'a, A: Address> Iter<'a, A> {
    pub(crate) fn new(tree: &'a Tree, root: Node) -> Self {
        Self { tree, visits: vec![Visit { node: root, path: A::zero(), next: 0 }] }
    }
}

impl<A: Address> Iterator for Iter<'_, A> {
    type Item = (Prefix<A>, u32);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let visit = self.visits.last_mut()?;
            let Some(&place) = ORDER.get(visit.next) else {
                self.visits.pop();
                continue;
            };
            visit.next += 1;
            let Visit { node, path, .. } = *visit;
            let depth = node.depth();
            let (place, length) = (u32::from(place), place.ilog2());
            let six = ((place - (1 << length)) as usize) << (6 - length);
            if length < 6 && node.has_prefix(place) {
                let value = self.tree.value(&node, place);
                return Some((Prefix::of_table(path.with_six(depth, six), (depth + length as i16) as u8), value));
            }
            if length == 6 && node.has_child(six) {
                let below = *self.tree.below(&node, six);
                self.visits.push(Visit { node: below, path: below.with_skipped(path.with_six(depth, six)), next: 0 });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_comes_once_and_before_those_within_it() {
        let at = |place: u8| ORDER.iter().position(|other| *other == place).unwrap();
        assert!((1..128).all(|place| ORDER.iter().filter(|other| **other == place).count() == 1));
        assert!((2..128).all(|place| at(place) > at(place >> 1)));
        assert!((1..64).all(|place| at(2 * place) < at(2 * place + 1)));
    }
}
