//! Rules as one graph of decisions: a packet answers only the questions that still matter.
//!
//! A node asks whether one number of the packet is below a bound. What the answers have decided is not asked again, so that of many rules that differ in a
//! field each packet asks the logarithm. Rules that match are counted on the way, as soon as it is sure that the packet comes to them. So different ways
//! that still have the same to decide go on at the same node.

mod build;

use crate::lowered::Field;
use crate::passing::Passing;
use crate::skipto::Steps;
use crate::verdict::Verdict;
use std::fmt;

pub(crate) use build::build;

/// A node's place in the tree.
pub type NodeId = u32;

/// What a packet does at a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// Goes one of two ways.
    Split {
        /// By this number of the packet.
        field: Field,
        /// What it is compared with.
        bound: u128,
        /// Where it goes on if its number is less.
        below: NodeId,
        /// Where it goes on if not.
        other: NodeId,
    },
    /// Has matched these rules, and goes on.
    Hits {
        /// Where they are listed.
        first: u32,
        /// How many.
        count: u32,
        /// Where it goes on.
        next: NodeId,
    },
    /// Is looked for among the states.
    Ask {
        /// Where it goes on if it has none.
        without: NodeId,
        /// The first of as many lists' numbers as there are rules: where it goes on if that rule made it.
        found: u32,
    },
    /// Has a state made by the rule, or is dropped.
    Install {
        /// The rule.
        rule: u32,
        /// Where it goes on if it has a state then.
        next: NodeId,
    },
    /// Has matched the rule, which ends.
    End {
        /// The rule.
        rule: u32,
    },
    /// Is shown these rules one after the other.
    List {
        /// Where they are listed.
        first: u32,
        /// How many.
        count: u32,
        /// Whether the states have been asked.
        has_asked: bool,
    },
}

/// Why a part of the rules is read one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There would be more nodes than there may be.
    Nodes(usize),
    /// Making it would take too long.
    Looks(usize),
    /// Some way would be longer than there may be.
    Depth(usize),
    /// A rule has too many questions.
    Questions,
}

/// A compiled order.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// Each node stands behind all that it leads to.
    pub nodes: Vec<Node>,
    /// What nodes list: rules by their place in the order, or nodes.
    pub lists: Vec<u32>,
    /// Where packets begin.
    pub root: NodeId,
    /// Why parts are lists.
    pub reason: Option<Reason>,
}

impl Tree {
    /// What becomes of the packet.
    pub(crate) fn run(&self, steps: &Steps, passing: &mut Passing<'_>) -> Verdict {
        let mut at = self.root;
        loop {
            passing.visits += 1;
            match self.nodes[at as usize] {
                Node::Split { field, bound, below, other } => {
                    at = if field.of(passing.facts, &steps.lowered.tables) < bound { below } else { other };
                }
                Node::Hits { first, count, next } => {
                    for rule in self.listed(first, count) {
                        passing.hit(*rule as usize);
                    }
                    at = next;
                }
                Node::Ask { without, found } => match passing.probe() {
                    Some(maker) => at = self.lists[found as usize + maker],
                    None => at = without,
                },
                Node::Install { rule, next } => {
                    if !passing.install(rule as usize) {
                        return passing.refused(rule as usize);
                    }
                    at = next;
                }
                Node::End { rule } => {
                    passing.hit(rule as usize);
                    return passing.end(rule as usize);
                }
                Node::List { first, count, has_asked } => {
                    return steps.run_list(passing, self.listed(first, count), has_asked);
                }
            }
        }
    }

    /// A list of the nodes.
    #[must_use]
    pub fn listed(&self, first: u32, count: u32) -> &[u32] {
        &self.lists[first as usize..][..count as usize]
    }

    /// How many nodes the longest way has, those of lists not counted.
    #[must_use]
    pub fn depth(&self) -> usize {
        let mut depths = vec![0; self.nodes.len()];
        // A node comes behind all that it leads to.
        for (at, node) in self.nodes.iter().enumerate() {
            let of = |id: NodeId| depths[id as usize];
            depths[at] = 1 + match *node {
                Node::Split { below, other, .. } => of(below).max(of(other)),
                Node::Hits { next, .. } | Node::Install { next, .. } => of(next),
                Node::Ask { without, .. } => of(without),
                Node::End { .. } | Node::List { .. } => 0,
            };
        }
        depths.get(self.root as usize).copied().unwrap_or(0)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(most) => write!(f, "more than {most} nodes would be needed, because rules overlap in several fields"),
            Self::Looks(most) => write!(f, "making more of it would take more than {most} looks at rules"),
            Self::Depth(most) => write!(f, "a packet would come to more than {most} nodes"),
            Self::Questions => f.write_str("a rule has more than 64 questions"),
        }
    }
}

/// What became of the rules, in words.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the tree has {} nodes, and a packet comes to {} at the most", self.nodes.len(), self.depth())?;
        let lists = self.nodes.iter().filter_map(|node| match node {
            Node::List { count, .. } => Some(*count),
            _ => None,
        });
        let (count, longest) = lists.fold((0, 0), |(lists, longest), count| (lists + 1, count.max(longest)));
        match &self.reason {
            None => Ok(()),
            Some(reason) => write!(
                f,
                "; in {count} places it ends with a list, of {longest} rules at the most, that is read one after the other: {reason}"
            ),
        }
    }
}
