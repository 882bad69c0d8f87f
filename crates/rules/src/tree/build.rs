//! Makes the tree: a packet's possible numbers are narrowed node by node until each rule that is left is decided.

use super::{Node, NodeId, Reason, Tree};
use crate::language::{Action, Log};
use crate::limits::Limits;
use crate::lowered::{Field, Wanted};
use crate::order::Order;
use crate::skipto::Steps;
use std::collections::BTreeMap;

/// Nodes on one way at the most: it bounds the stack while the tree is made, too.
const DEPTH_MAX: usize = 192;
/// Questions of one rule at the most: their states are bits of a word.
const QUESTIONS_MAX: usize = 64;

/// The tree of an order.
pub fn build(order: &Order, steps: &Steps, limits: &Limits) -> Tree {
    let mut builder = Builder {
        order,
        steps,
        limits,
        tree: Tree::default(),
        known: BTreeMap::new(),
        made: BTreeMap::new(),
        ways: BTreeMap::new(),
        finds: None,
        listed: BTreeMap::new(),
        looks: 0,
        depth: 0,
    };
    let items = builder.items_from(0);
    builder.tree.root = match builder.too_many_questions() {
        false => builder.node(items, false),
        true => builder.list(&items, false, Reason::Questions),
    };
    builder.tree
}

/// A rule that is left, and which of its questions are open: a bit each, in the order of its clauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    rule: u32,
    open: u64,
    /// It does not match, and stays because it asks for states.
    is_no: bool,
}

/// Where packets go on: what is left to decide, and what is known of the fields that it asks for.
type Way = (Vec<Item>, Vec<(Field, u128, u128)>, bool);

struct Builder<'a> {
    order: &'a Order,
    steps: &'a Steps,
    limits: &'a Limits,
    tree: Tree,
    /// The lowest and the highest number that a packet can still have in a field.
    known: BTreeMap<Field, (u128, u128)>,
    /// Nodes by what they are.
    made: BTreeMap<Node, NodeId>,
    /// Nodes by what is decided from them on.
    ways: BTreeMap<Way, NodeId>,
    /// Where the nodes for each rule's states are listed.
    finds: Option<u32>,
    /// Lists by what is in them.
    listed: BTreeMap<Vec<u32>, u32>,
    looks: usize,
    depth: usize,
}

/// What is left of some rules, once what is known has been put in.
#[derive(Default)]
struct Left {
    /// Rules that match, and that a packet certainly comes to.
    hits: Vec<u32>,
    /// Rules that may match, and those that do but that a packet may not come to.
    items: Vec<Item>,
    /// What comes, if nothing stands before it.
    next: Option<Next>,
}

#[derive(Clone, Copy)]
enum Next {
    End(u32),
    Ask(u32),
    Install(u32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
    Open,
}

impl Builder<'_> {
    fn too_many_questions(&self) -> bool {
        let count = |clauses: &[Vec<Wanted>]| clauses.iter().map(Vec::len).sum::<usize>();
        self.steps.lowered.questions.iter().any(|questions| count(&questions.clauses) > QUESTIONS_MAX)
    }

    /// All rules from an index on, with all their questions.
    fn items_from(&self, index: usize) -> Vec<Item> {
        let all = |rule: usize| {
            let count: usize = self.steps.lowered.questions[rule].clauses.iter().map(Vec::len).sum();
            Item { rule: rule as u32, open: if count >= QUESTIONS_MAX { u64::MAX } else { (1 << count) - 1 }, is_no: false }
        };
        (index..self.order.rules.len()).map(all).collect()
    }

    /// The node at which packets go on that have these rules before them.
    fn node(&mut self, items: Vec<Item>, has_asked: bool) -> NodeId {
        let left = self.left(&items, has_asked);
        self.looks += items.len();
        let next = match left.next {
            Some(next) if left.items.is_empty() => self.next(next, has_asked, &items),
            _ => self.undecided(left.items, has_asked),
        };
        self.hits(&left.hits, next)
    }

    fn next(&mut self, next: Next, has_asked: bool, items: &[Item]) -> NodeId {
        let from = |rule: u32| items.iter().copied().filter(|item| item.rule >= rule).collect::<Vec<_>>();
        match next {
            Next::End(rule) => self.add(Node::End { rule }),
            Next::Ask(rule) => {
                assert!(!has_asked, "the states are asked once");
                let without = self.node(from(rule), true);
                let found = self.finds();
                self.add(Node::Ask { without, found })
            }
            Next::Install(rule) if self.depth >= DEPTH_MAX => self.list(&from(rule), has_asked, Reason::Depth(DEPTH_MAX)),
            Next::Install(rule) => {
                self.depth += 1;
                let next = self.acting(rule, &from(rule + 1));
                self.depth -= 1;
                self.add(Node::Install { rule, next })
            }
        }
    }

    /// The node at which a packet goes on that the rule has matched, with these rules behind it; the states have been asked.
    fn acting(&mut self, rule: u32, behind: &[Item]) -> NodeId {
        match self.steps.after[rule as usize] {
            None => self.add(Node::End { rule }),
            Some(after) => {
                let rest = behind.iter().copied().filter(|item| item.rule >= after).collect();
                let next = self.node(rest, true);
                self.hits(&[rule], next)
            }
        }
    }

    /// The list of nodes for packets whose state is there, by the rule that made it. What is known of such a packet may differ by the way that it
    /// came, so that nothing is taken as known.
    fn finds(&mut self) -> u32 {
        if let Some(finds) = self.finds {
            return finds;
        }
        let known = std::mem::take(&mut self.known);
        let nodes: Vec<NodeId> = (0..self.order.rules.len())
            .map(|rule| match self.order.rules[rule].rule.keep {
                Some(_) => self.acting(rule as u32, &self.items_from(rule + 1)),
                None => 0,
            })
            .collect();
        self.known = known;
        let first = self.tree.lists.len() as u32;
        self.tree.lists.extend(nodes);
        self.finds = Some(first);
        first
    }

    /// Puts in what is known.
    fn left(&self, items: &[Item], has_asked: bool) -> Left {
        let mut left = Left::default();
        // The first rule that is not jumped over, and whether a rule that is left may end, jump or ask.
        let (mut from, mut may_turn, mut may_jump) = (0, false, false);
        for item in items {
            if item.rule < from {
                continue;
            }
            let index = item.rule as usize;
            let numbered = &self.order.rules[index];
            let asks = self.steps.asks[index];
            let after = self.steps.after[index];
            let jumps = after.is_some_and(|after| after > item.rule + 1);
            let (answer, open) = self.answer(*item);
            if asks && !has_asked {
                if left.items.is_empty() {
                    left.next = Some(Next::Ask(item.rule));
                    return left;
                }
                left.items.push(Item { open, is_no: answer == Answer::No, ..*item });
                (may_turn, may_jump) = (true, may_jump || jumps);
                continue;
            }
            let is_check = numbered.rule.action == Action::CheckState;
            if answer == Answer::No || is_check {
                continue;
            }
            let is_logged = numbered.rule.log != Log::No;
            let waits = answer == Answer::Open || may_turn || (asks || is_logged) && !left.items.is_empty();
            if answer == Answer::Yes && !waits {
                if asks {
                    left.next = Some(Next::Install(item.rule));
                    return left;
                }
                match after {
                    Some(after) => {
                        left.hits.push(item.rule);
                        from = after;
                        continue;
                    }
                    None if left.items.is_empty() => {
                        left.next = Some(Next::End(item.rule));
                        return left;
                    }
                    None => {}
                }
            }
            left.items.push(Item { open, ..*item });
            if answer == Answer::Yes && after.is_none() && !may_jump {
                // Nothing behind it is come to.
                return left;
            }
            may_jump |= jumps;
            may_turn |= after.is_none() || jumps || asks;
        }
        left
    }

    /// Whether a rule matches, as far as is known, and its questions that are open then.
    fn answer(&self, item: Item) -> (Answer, u64) {
        let questions = &self.steps.lowered.questions[item.rule as usize];
        if item.is_no || questions.is_never {
            return (Answer::No, 0);
        }
        let (mut open, mut bit) = (item.open, 0);
        for clause in &questions.clauses {
            let all = (u64::MAX >> (64 - clause.len())) << bit;
            for (at, wanted) in clause.iter().enumerate() {
                let one = 1 << (bit + at);
                if open & one == 0 {
                    continue;
                }
                match self.is_wanted(wanted) {
                    Some(true) => open &= !all,
                    Some(false) if open & all == one => return (Answer::No, 0),
                    Some(false) => open &= !one,
                    None => {}
                }
            }
            bit += clause.len();
        }
        (if open == 0 { Answer::Yes } else { Answer::Open }, open)
    }

    fn is_wanted(&self, (field, ranges): &Wanted) -> Option<bool> {
        let (first, last) = self.span(*field);
        ranges.all_or_none(first, last)
    }

    fn span(&self, field: Field) -> (u128, u128) {
        self.known.get(&field).copied().unwrap_or((0, field.last()))
    }

    /// The node for rules of which the first is not decided.
    fn undecided(&mut self, items: Vec<Item>, has_asked: bool) -> NodeId {
        assert!(!items.is_empty(), "the last rule matches everything and ends");
        let mut fields: Vec<Field> = items.iter().flat_map(|item| self.open_questions(item)).map(|(field, _)| *field).collect();
        fields.sort_unstable();
        fields.dedup();
        let spans: Vec<(Field, u128, u128)> =
            fields.iter().map(|field| (*field, self.span(*field).0, self.span(*field).1)).collect();
        let way = (items, spans, has_asked);
        if let Some(node) = self.ways.get(&way) {
            return *node;
        }
        let items = &way.0;
        let reason = if self.tree.nodes.len() >= self.limits.nodes {
            Some(Reason::Nodes(self.limits.nodes))
        } else if self.looks >= self.limits.looks {
            Some(Reason::Looks(self.limits.looks))
        } else if self.depth >= DEPTH_MAX {
            Some(Reason::Depth(DEPTH_MAX))
        } else {
            None
        };
        let node = match reason {
            Some(reason) => self.list(items, has_asked, reason),
            None => self.split(items, has_asked),
        };
        self.ways.insert(way, node);
        node
    }

    fn split(&mut self, items: &[Item], has_asked: bool) -> NodeId {
        let (field, bound) = self.cut(items);
        let (first, last) = self.span(field);
        assert!(first < bound && bound <= last, "a split leaves something on both sides");
        let before = self.known.get(&field).copied();
        self.depth += 1;
        self.known.insert(field, (first, bound - 1));
        let below = self.node(items.to_vec(), has_asked);
        self.known.insert(field, (bound, last));
        let other = self.node(items.to_vec(), has_asked);
        self.depth -= 1;
        match before {
            Some(before) => self.known.insert(field, before),
            None => self.known.remove(&field),
        };
        if below == other { below } else { self.add(Node::Split { field, bound, below, other }) }
    }

    /// A field of the first open rule, and the bound in the middle of all that rules want there. The field is the one that most rules ask for, and
    /// among such the one with the fewest bounds: so one field is done with before the next, and ways meet again. A table is asked last, because to find a key takes the longest, and
    /// programs of the kernel have none.
    fn cut(&mut self, items: &[Item]) -> (Field, u128) {
        let first = items.iter().find(|item| item.open != 0);
        assert!(first.is_some(), "a rule that is decided does not wait alone");
        let candidates = first.into_iter().flat_map(|item| self.open_questions(item)).map(|(field, _)| *field);
        let candidates: Vec<Field> = candidates.collect();
        let mut best: Option<(bool, usize, Vec<u128>, Field)> = None;
        for field in candidates {
            let (low, high) = self.span(field);
            let (mut rules, mut bounds) = (0, Vec::new());
            for item in items {
                let asked = self.open_questions(item).filter(|(asked, _)| *asked == field);
                let mut asks = false;
                for (_, ranges) in asked {
                    asks = true;
                    let ends = ranges.pairs().iter().flat_map(|(first, last)| [Some(*first), last.checked_add(1)]);
                    bounds.extend(ends.flatten().filter(|bound| low < *bound && *bound <= high));
                }
                rules += usize::from(asks);
            }
            self.looks += bounds.len();
            bounds.sort_unstable();
            bounds.dedup();
            let is_other = !matches!(field, Field::Table(..));
            let is_better = best
                .as_ref()
                .is_none_or(|(other, most, fewest, _)| (is_other, rules, fewest.len()) > (*other, *most, bounds.len()));
            if is_better {
                best = Some((is_other, rules, bounds, field));
            }
        }
        assert!(best.as_ref().is_some_and(|(_, _, bounds, _)| !bounds.is_empty()), "an open question has a bound");
        best.map_or((Field::Direction, 1), |(_, _, bounds, field)| (field, bounds[bounds.len() / 2]))
    }

    fn open_questions(&self, item: &Item) -> impl Iterator<Item = &Wanted> {
        let open = item.open;
        let all = self.steps.lowered.questions[item.rule as usize].clauses.iter().flatten();
        all.enumerate().filter(move |(at, _)| open >> at & 1 == 1).map(|(_, wanted)| wanted)
    }

    fn list(&mut self, items: &[Item], has_asked: bool, reason: Reason) -> NodeId {
        self.tree.reason.get_or_insert(reason);
        let rules: Vec<u32> = items.iter().map(|item| item.rule).collect();
        let first = self.listed(&rules);
        self.add(Node::List { first, count: rules.len() as u32, has_asked })
    }

    fn hits(&mut self, rules: &[u32], next: NodeId) -> NodeId {
        if rules.is_empty() {
            return next;
        }
        let first = self.listed(rules);
        self.add(Node::Hits { first, count: rules.len() as u32, next })
    }

    /// Where these rules are listed.
    fn listed(&mut self, rules: &[u32]) -> u32 {
        if let Some(first) = self.listed.get(rules) {
            return *first;
        }
        let first = self.tree.lists.len() as u32;
        self.tree.lists.extend(rules);
        self.listed.insert(rules.to_vec(), first);
        first
    }

    fn add(&mut self, node: Node) -> NodeId {
        if let Some(known) = self.made.get(&node) {
            return *known;
        }
        let id = self.tree.nodes.len() as NodeId;
        self.tree.nodes.push(node.clone());
        self.made.insert(node, id);
        id
    }
}
