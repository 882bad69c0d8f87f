//! Each rule in order, as it is written: the execution that the others are compared with.

use crate::language::Action;
use crate::matching::matches;
use crate::passing::Passing;
use crate::verdict::Verdict;

/// What becomes of the packet.
pub fn run(passing: &mut Passing<'_>) -> Verdict {
    let order = passing.order;
    let (mut at, mut has_asked) = (0, false);
    loop {
        passing.visits += 1;
        let rule = &order.rules[at].rule;
        // The states are asked once, at the first rule that has to do with them, whether it matches or not.
        let maker = if order.asks_states(at) && !has_asked {
            has_asked = true;
            passing.probe()
        } else {
            None
        };
        let acting = match maker {
            Some(maker) => maker,
            None if rule.action == Action::CheckState || !matches(&rule.body, passing.facts, &order.names) => {
                at += 1;
                continue;
            }
            None if !passing.install(at) => return passing.refused(at),
            None => at,
        };
        passing.hit(acting);
        match order.after(acting) {
            Some(next) => at = next,
            None => return passing.end(acting),
        }
    }
}
