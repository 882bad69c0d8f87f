//! Each rule in order, with its questions made numbers and its jumps made places beforehand.

use crate::language::Action;
use crate::lowered::Lowered;
use crate::order::Order;
use crate::passing::Passing;
use crate::verdict::Verdict;

/// An order made ready.
#[derive(Clone, Debug)]
pub struct Steps {
    pub lowered: Lowered,
    /// Where packets go on behind each rule that matched; none where it ends.
    pub after: Vec<Option<u32>>,
    /// Whether a packet that comes to the rule is looked for among the states.
    pub asks: Vec<bool>,
    /// All rules.
    all: Vec<u32>,
    is_check: Vec<bool>,
}

impl Steps {
    /// Tables of at most so many keys are asked as the addresses that they have.
    pub fn new(order: &Order, spelt_out_max: usize) -> Self {
        let indices = 0..order.rules.len();
        let after = indices.clone().map(|index| order.after(index).map(|next| next as u32)).collect();
        let is_check = order.rules.iter().map(|numbered| numbered.rule.action == Action::CheckState).collect();
        let asks = indices.clone().map(|index| order.asks_states(index)).collect();
        Self {
            lowered: Lowered::new(order, spelt_out_max),
            after,
            asks,
            all: indices.map(|index| index as u32).collect(),
            is_check,
        }
    }

    /// What becomes of the packet.
    pub fn run(&self, passing: &mut Passing<'_>) -> Verdict {
        self.run_from(passing, 0, false)
    }

    /// From the rule at an index on, where the states have been asked or not.
    pub fn run_from(&self, passing: &mut Passing<'_>, from: usize, has_asked: bool) -> Verdict {
        self.run_list(passing, &self.all[from..], has_asked)
    }

    /// Of these rules alone, which are in order and end. A packet whose state another rule made goes on behind that one, among all rules.
    pub fn run_list<'a>(&'a self, passing: &mut Passing<'_>, mut list: &'a [u32], mut has_asked: bool) -> Verdict {
        loop {
            let index = list[0] as usize;
            passing.visits += 1;
            let mut acting = None;
            if self.asks[index] && !has_asked {
                has_asked = true;
                acting = passing.probe();
                if acting.is_some() {
                    list = &self.all;
                }
            }
            if acting.is_none() && self.meets(index, passing) {
                if !passing.install(index) {
                    return passing.refused(index);
                }
                acting = Some(index);
            }
            let Some(acting) = acting else {
                list = &list[1..];
                continue;
            };
            passing.hit(acting);
            match self.after[acting] {
                Some(next) => list = &list[list.partition_point(|index| *index < next)..],
                None => return passing.end(acting),
            }
        }
    }

    fn meets(&self, index: usize, passing: &Passing<'_>) -> bool {
        !self.is_check[index] && self.lowered.questions[index].are_met(passing.facts, &self.lowered.tables)
    }
}
