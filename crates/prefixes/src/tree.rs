//! Where nodes and values lie.

use crate::blocks::Blocks;
use crate::node::Node;

/// The nodes below the root, and the values of all.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub nodes: Blocks<Node, 512>,
    pub values: Blocks<u32, 2048>,
}

impl Tree {
    pub const fn new() -> Self {
        Self { nodes: Blocks::new(), values: Blocks::new() }
    }

    /// Bytes of memory that are held.
    pub const fn bytes(&self) -> usize {
        self.nodes.bytes() + self.values.bytes()
    }

    /// The value of a prefix of a node.
    #[inline]
    pub fn value(&self, node: &Node, place: u32) -> u32 {
        match node.prefixes.is_power_of_two() {
            true => node.values_at,
            false => *self.values.get(node.values_at + node.value_rank(place)),
        }
    }

    /// The node below another, where its path goes on.
    #[inline]
    pub fn below(&self, node: &Node, six: usize) -> &Node {
        self.nodes.get(node.nodes_at + node.node_rank(six))
    }
}
