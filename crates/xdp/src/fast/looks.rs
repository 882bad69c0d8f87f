//! Which packets the rules leave to the lane: those that a line, a state, an answer to the sender, a large table or a list of rules decides, and what comes behind.
//!
//! A program looks before it counts anything, so that such a packet is counted by the lane alone. Of the tree a look needs only what tells these packets from others.

use corelane_rules::{Direction, Field, Node, NodeId, Tree};
use std::collections::BTreeMap;

/// What a look comes to from a node on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Goal {
    /// The packet is the lane's.
    Lane,
    /// It is the program's, which counts it.
    Program,
    /// It goes on, and there is more to look at on its way out.
    Out,
    /// This node decides.
    Node(NodeId),
}

/// Looks at packets of one direction: the goal of each node.
#[derive(Clone, Debug)]
pub struct Look {
    goals: Vec<Goal>,
    root: NodeId,
}

/// Of both directions.
#[derive(Clone, Debug)]
pub struct Looks {
    inward: Look,
    outward: Look,
}

impl Looks {
    /// For a tree, of each of whose rules `needs_lane` says whether packets that match it need a lane, and `goes_on` whether packets that it ends go on.
    pub fn new(tree: &Tree, needs_lane: &[bool], goes_on: &[bool]) -> Self {
        let end = |rule: u32, allowed: Goal| match rule as usize {
            rule if needs_lane[rule] => Goal::Lane,
            rule if goes_on[rule] => allowed,
            _ => Goal::Program,
        };
        let needs_lane = |rules: &[u32]| rules.iter().any(|rule| needs_lane[*rule as usize]);
        let outward = Look::new(tree, Direction::Out, needs_lane, |rule| end(rule, Goal::Program));
        let allowed = match outward.first() {
            Goal::Node(_) => Goal::Out,
            goal => goal,
        };
        let inward = Look::new(tree, Direction::In, needs_lane, |rule| end(rule, allowed));
        Self { inward, outward }
    }

    /// Of one direction.
    pub const fn of(&self, direction: Direction) -> &Look {
        match direction {
            Direction::In => &self.inward,
            Direction::Out => &self.outward,
        }
    }
}

impl Look {
    fn new(tree: &Tree, direction: Direction, needs_lane: impl Fn(&[u32]) -> bool, end: impl Fn(u32) -> Goal) -> Self {
        let mut goals: Vec<Goal> = Vec::with_capacity(tree.nodes.len());
        // Nodes that ask the same and come to the same are one, by the first of them.
        let mut known = BTreeMap::new();
        for (at, node) in tree.nodes.iter().enumerate() {
            // Each node stands behind all that it leads to.
            let goal = match *node {
                Node::Split { field, bound, below, other } => {
                    let (below, other) = (goals[below as usize], goals[other as usize]);
                    match known_of(field, direction) {
                        Some(number) if number < bound => below,
                        Some(_) => other,
                        None if matches!(field, Field::Table(..)) => Goal::Lane,
                        None if below == other => below,
                        None => *known.entry((field, bound, below, other)).or_insert(Goal::Node(at as NodeId)),
                    }
                }
                Node::Hits { first, count, .. } if needs_lane(tree.listed(first, count)) => Goal::Lane,
                Node::Hits { next, .. } => goals[next as usize],
                Node::End { rule } => end(rule),
                Node::Ask { .. } | Node::Install { .. } | Node::List { .. } => Goal::Lane,
            };
            goals.push(goal);
        }
        Self { goals, root: tree.root }
    }

    /// From the root on.
    pub fn first(&self) -> Goal {
        self.from(self.root)
    }

    /// From a node on.
    pub fn from(&self, node: NodeId) -> Goal {
        self.goals[node as usize]
    }
}

/// What each packet of a program has in a field.
pub const fn known_of(field: Field, direction: Direction) -> Option<u128> {
    match (field, direction) {
        (Field::Direction | Field::Transmit, Direction::In) | (Field::Later, _) => Some(0),
        (Field::Direction, Direction::Out) => Some(1),
        _ => None,
    }
}
