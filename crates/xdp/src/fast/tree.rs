//! A tree of rules as instructions.
//!
//! It is written once for each direction: what all packets of a direction have alike is not asked. Each node stands before those that it leads to, so that all jumps go forward.
//! Before both stands what tells the packets that are the lane's, where there are such.

use super::counters::{COUNTER_BYTES, NOTES_BYTES};
use super::looks::{Goal, Look, Looks, known_of};
use super::maps::{INSTRUCTIONS_MAX, OWN_MAX};
use super::notes::{self, COUNTERS, LENGTH, NOW};
use super::unfit::Unfit;
use corelane_rules::language::{Action, Log, Rule};
use corelane_rules::{Address, Direction, Field, Node, NodeId, RuleSet, Tree};
use corelane_select::bpf::assembly::{Alu, Assembler, Label, Register, When, Width};
use std::net::IpAddr;

use Register::{R1, R2, R3};

/// A set of rules that a program can carry out.
#[derive(Clone, Debug)]
pub struct Fitting<'a> {
    tree: &'a Tree,
    looks: Looks,
    /// Of each rule its place among the counters, and whether packets that it ends go on.
    rules: Vec<(usize, bool)>,
    own: &'a [IpAddr],
}

/// The tree and which packets it leaves to the lane, if a program can do something with it.
///
/// # Errors
/// Why not.
pub fn fit<'a>(set: &'a RuleSet, own: &[IpAddr]) -> Result<(&'a Tree, Looks), Unfit> {
    let tree = set.tree().ok_or(Unfit::NoTree)?;
    if own.len() > OWN_MAX {
        return Err(Unfit::Own(own.len()));
    }
    // Each node takes some instructions, so that far more nodes than that need not be written to know.
    if tree.nodes.len() > INSTRUCTIONS_MAX {
        return Err(Unfit::Instructions(tree.nodes.len()));
    }
    let of_rules = |is: fn(&Rule) -> bool| set.rules().map(|(_, _, rule)| is(rule)).collect::<Vec<bool>>();
    let looks = Looks::new(tree, &of_rules(|rule| needs(rule).is_some()), &of_rules(goes_on));
    match looks.of(Direction::In).first() {
        Goal::Lane => Err(all_lanes(set, tree)),
        _ => Ok((tree, looks)),
    }
}

/// Why a packet that matches the rule is a lane's, by the rule's number.
fn needs(rule: &Rule) -> Option<fn(u16) -> Unfit> {
    match rule.action {
        _ if rule.log != Log::No => Some(Unfit::Logs),
        _ if rule.keep.is_some() => Some(Unfit::States),
        Action::CheckState => Some(Unfit::States),
        Action::Reject(_) => Some(Unfit::Rejects),
        Action::Count | Action::Allow | Action::Deny | Action::Skipto(_) => None,
    }
}

/// Whether packets that the rule ends go on.
const fn goes_on(rule: &Rule) -> bool {
    matches!(rule.action, Action::Allow)
}

/// Why all packets are a lane's.
fn all_lanes(set: &RuleSet, tree: &Tree) -> Unfit {
    let mut rules = set.rules().filter_map(|(_, number, rule)| Some(needs(rule)?(number)));
    match tree.reason {
        Some(_) => Unfit::Lists(tree.to_string()),
        None => rules.next().unwrap_or(Unfit::Tables),
    }
}

impl<'a> Fitting<'a> {
    /// The set that has been found to fit, each of whose rules has its place among the counters.
    pub fn new(set: &RuleSet, (tree, looks): (&'a Tree, Looks), own: &'a [IpAddr], places: &[usize]) -> Self {
        assert!(set.rules().len() == places.len(), "a place for each rule");
        let rules = set.rules().zip(places).map(|((_, _, rule), at)| (*at, goes_on(rule))).collect();
        Self { tree, looks, rules, own }
    }

    /// Whether the rules ask for addresses of ours.
    pub fn asks_own(&self) -> bool {
        let asks = |node: &Node| match node {
            Node::Split { field, .. } => {
                matches!(field, Field::SourceIsOurs | Field::DestinationIsOurs | Field::SourceIsOurs6 | Field::DestinationIsOurs6)
            }
            _ => false,
        };
        self.tree.nodes.iter().any(asks)
    }

    /// Writes what compares both addresses of a packet with our own.
    pub fn write_own(&self, a: &mut Assembler) {
        for (address, is_ours) in [(notes::SOURCE, notes::SOURCE_IS_OURS), (notes::DESTINATION, notes::DESTINATION_IS_OURS)] {
            let (ours, done) = (a.label(), a.label());
            a.load(Width::Eight, R1, COUNTERS, address);
            a.load(Width::Eight, R2, COUNTERS, address + notes::LOW);
            for own in self.own {
                let number = Address::from(*own).number();
                let other = a.label();
                a.wide(R3, (number >> 64) as u64);
                a.branch(When::NotEqual, R1, R3, other);
                a.wide(R3, number as u64);
                a.branch(When::Equal, R2, R3, ours);
                a.place(other);
            }
            a.store(Width::Eight, COUNTERS, is_ours, 0);
            a.jump(done);
            a.place(ours);
            a.store(Width::Eight, COUNTERS, is_ours, 1);
            a.place(done);
        }
    }

    /// Writes what sends the packets that need the lane there, before anything is counted, and goes on behind it with all others.
    pub fn write_looks(&self, a: &mut Assembler, lane: Label) {
        let (inward, outward) = (self.looks.of(Direction::In), self.looks.of(Direction::Out));
        if inward.first() == Goal::Program {
            return;
        }
        let (out, program) = (a.label(), a.label());
        lead_to(a, &[out, program]);
        self.writer(a, Direction::In, [lane, program]).look(inward, [lane, program, out]);
        a.place(out);
        self.writer(a, Direction::Out, [lane, program]).look(outward, [lane, program, out]);
        a.place(program);
    }

    /// Writes the rules for packets of one direction: those that go on go to `allow`.
    pub fn write(&self, a: &mut Assembler, direction: Direction, allow: Label, deny: Label) {
        lead_to(a, &[allow, deny]);
        self.writer(a, direction, [deny, allow]).tree(self.looks.of(direction));
    }

    fn writer<'b>(&'b self, a: &'b mut Assembler, direction: Direction, exits: [Label; 2]) -> Writer<'b> {
        Writer { a, fitting: self, direction, exits, labels: vec![None; self.tree.nodes.len()] }
    }
}

/// The kernel takes no program with instructions that nothing leads to, as the labels' may be: this leads to them, and is never gone.
fn lead_to(a: &mut Assembler, labels: &[Label]) {
    a.alu(Alu::Move, R1, 0);
    labels.iter().for_each(|label| a.branch(When::NotEqual, R1, 0, *label));
}

struct Writer<'a> {
    a: &'a mut Assembler,
    fitting: &'a Fitting<'a>,
    direction: Direction,
    /// Where packets go that a rule ends: those that it drops, and those that go on.
    exits: [Label; 2],
    /// Where the nodes that packets come to begin.
    labels: Vec<Option<Label>>,
}

impl Writer<'_> {
    /// Writes the nodes that tell a lane's packets from others.
    fn look(&mut self, look: &Look, [lane, program, out]: [Label; 3]) {
        let label_of = |writer: &mut Self, goal| match goal {
            Goal::Lane => lane,
            Goal::Program => program,
            Goal::Out => out,
            Goal::Node(node) => writer.label_of(node),
        };
        let first = label_of(self, look.first());
        self.a.jump(first);
        for at in (0..self.labels.len()).rev() {
            let (Some(label), Node::Split { field, bound, below, other }) = (self.labels[at], &self.fitting.tree.nodes[at])
            else {
                continue;
            };
            self.a.place(label);
            let [below, other] = [below, other].map(|node| label_of(self, look.from(*node)));
            self.split(*field, *bound, below, other);
        }
    }

    /// Writes the nodes that packets come to that are not a lane's, by this look.
    fn tree(&mut self, look: &Look) {
        let tree = self.fitting.tree;
        let is_lanes = |node: NodeId| look.from(node) == Goal::Lane;
        if is_lanes(tree.root) {
            return self.a.jump(self.exits[0]);
        }
        let root = self.label_of(tree.root);
        self.a.jump(root);
        for at in (0..tree.nodes.len()).rev() {
            // What nobody has asked for a label of leads nowhere that packets come from.
            let Some(label) = self.labels[at] else { continue };
            self.a.place(label);
            match tree.nodes[at] {
                Node::Split { field, bound, below, other } => {
                    let goes_below = match known_of(field, self.direction) {
                        Some(number) => Some(number < bound),
                        None if is_lanes(other) => Some(true),
                        None => is_lanes(below).then_some(false),
                    };
                    if let Some(goes_below) = goes_below {
                        let next = self.label_of(if goes_below { below } else { other });
                        self.a.jump(next);
                    } else {
                        let (below, other) = (self.label_of(below), self.label_of(other));
                        self.split(field, bound, below, other);
                    }
                }
                Node::Hits { first, count, next } => {
                    tree.listed(first, count).iter().for_each(|rule| self.count(*rule));
                    let next = self.label_of(next);
                    self.a.jump(next);
                }
                Node::End { rule } => self.end(rule),
                // The goal of such a node is the lane.
                Node::Ask { .. } | Node::Install { .. } | Node::List { .. } => self.a.jump(self.exits[0]),
            }
        }
    }

    fn label_of(&mut self, node: NodeId) -> Label {
        *self.labels[node as usize].get_or_insert_with(|| self.a.label())
    }

    fn end(&mut self, rule: u32) {
        self.count(rule);
        let exit = self.exits[usize::from(self.fitting.rules[rule as usize].1)];
        self.a.jump(exit);
    }

    /// Counts the packet for a rule.
    fn count(&mut self, rule: u32) {
        let at = (NOTES_BYTES + COUNTER_BYTES * self.fitting.rules[rule as usize].0) as i16;
        self.a.load(Width::Eight, R1, COUNTERS, at);
        self.a.alu(Alu::Add, R1, 1);
        self.a.store(Width::Eight, COUNTERS, at, R1);
        self.a.load(Width::Eight, R1, COUNTERS, at + 8);
        self.a.alu(Alu::Add, R1, LENGTH);
        self.a.store(Width::Eight, COUNTERS, at + 8, R1);
        self.a.store(Width::Eight, COUNTERS, at + 16, NOW);
    }

    fn split(&mut self, field: Field, bound: u128, below: Label, other: Label) {
        let at = match field {
            Field::Flags(set, clear) => return self.flags(set | clear, When::Equal, set, below, other),
            Field::Established => return self.flags(0x14, When::NotEqual, 0, below, other),
            Field::Source => return self.address(notes::SOURCE, bound, below, other),
            Field::Destination => return self.address(notes::DESTINATION, bound, below, other),
            Field::SourceIsOurs6 => return self.own6(notes::SOURCE_IS_OURS, notes::SOURCE, below, other),
            Field::DestinationIsOurs6 => return self.own6(notes::DESTINATION_IS_OURS, notes::DESTINATION, below, other),
            // The answer is known, or the packet the lane's.
            Field::Direction | Field::Later | Field::Table(..) => return self.a.jump(self.exits[0]),
            Field::Family => notes::FAMILY,
            Field::Receive => notes::RECEIVE,
            Field::Transmit => notes::TRANSMIT,
            Field::Via if self.direction == Direction::In => notes::RECEIVE,
            Field::Via => notes::TRANSMIT,
            Field::Protocol => notes::PROTOCOL,
            Field::SourceIsOurs => notes::SOURCE_IS_OURS,
            Field::DestinationIsOurs => notes::DESTINATION_IS_OURS,
            Field::SourcePort => notes::SOURCE_PORT,
            Field::DestinationPort => notes::DESTINATION_PORT,
            Field::IcmpType => notes::ICMP,
            Field::Icmp6Type => notes::ICMP6,
            Field::Length => return self.compare(LENGTH, bound as u64, below, other),
        };
        self.a.load(Width::Eight, R1, COUNTERS, at);
        self.compare(R1, bound as u64, below, other);
    }

    /// Goes below if the register is less than the bound.
    fn compare(&mut self, register: Register, bound: u64, below: Label, other: Label) {
        match i32::try_from(bound) {
            Ok(bound) => self.a.branch(When::Less, register, bound, below),
            Err(_) => {
                self.a.wide(R2, bound);
                self.a.branch(When::Less, register, R2, below);
            }
        }
        self.a.jump(other);
    }

    fn address(&mut self, at: i16, bound: u128, below: Label, other: Label) {
        let (high, low) = ((bound >> 64) as u64, bound as u64);
        self.a.load(Width::Eight, R1, COUNTERS, at);
        if high == 0 {
            self.a.branch(When::NotEqual, R1, 0, other);
        } else {
            self.a.wide(R2, high);
            self.a.branch(When::Less, R1, R2, below);
            if low == 0 {
                return self.a.jump(other);
            }
            self.a.branch(When::Greater, R1, R2, other);
        }
        self.a.load(Width::Eight, R1, COUNTERS, at + notes::LOW);
        self.compare(R1, low, below, other);
    }

    /// Goes to the other side if TCP's control bits under the mask compare so.
    fn flags(&mut self, mask: u8, when: When, number: u8, below: Label, other: Label) {
        self.a.load(Width::Eight, R1, COUNTERS, notes::FLAGS);
        self.a.branch(When::Greater, R1, 255, below);
        self.a.alu(Alu::And, R1, i32::from(mask));
        self.a.branch(when, R1, i32::from(number), other);
        self.a.jump(below);
    }

    /// Goes to the other side if the address is ours and not IPv4's.
    fn own6(&mut self, is_ours: i16, address: i16, below: Label, other: Label) {
        self.a.load(Width::Eight, R1, COUNTERS, is_ours);
        self.a.branch(When::Equal, R1, 0, below);
        self.a.load(Width::Eight, R1, COUNTERS, address);
        self.a.branch(When::NotEqual, R1, 0, other);
        self.a.load(Width::Eight, R1, COUNTERS, address + notes::LOW);
        self.a.alu(Alu::ShiftRight, R1, 32);
        self.a.branch(When::Equal, R1, 0xffff, below);
        self.a.jump(other);
    }
}
