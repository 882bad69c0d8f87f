//! What rules make of a packet, in words.

use crate::facts::{Facts, Transport};
use crate::language::{Action, Clause, Literal, Test};
use crate::matching::holds;
use crate::order::Order;
use crate::verdict::RuleId;

/// A line for each rule that the packet comes to, and one for the verdict. `maker` made the state of its flow, if it has one.
pub fn lines(order: &Order, facts: &Facts, maker: Option<RuleId>) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut at, mut has_asked) = (0, false);
    loop {
        let numbered = &order.rules[at];
        let mut acting = None;
        let mut why = String::new();
        if order.asks_states(at) && !has_asked {
            has_asked = true;
            acting = maker.and_then(|id| order.index_of(id));
            why = match acting {
                Some(maker) => format!("the flow has a state, which rule {} made", order.rules[maker].number),
                None => "the flow has no state; ".to_owned(),
            };
        }
        if acting.is_none() {
            let failed = numbered.rule.body.clauses().find(|clause| !clause.iter().any(|one| holds(one, facts, &order.names)));
            match failed {
                _ if numbered.rule.action == Action::CheckState => why += "goes on",
                Some(clause) => why += &failure(clause, order, facts),
                None => {
                    acting = Some(at);
                    why += "matches";
                }
            }
        }
        lines.push(format!("{:05} {}: {why}", numbered.number, numbered.rule));
        let Some(acting) = acting else {
            at += 1;
            continue;
        };
        match order.after(acting) {
            Some(next) => at = next,
            None => {
                lines.push(format!("verdict: {} by rule {}", order.rules[acting].rule.action, order.rules[acting].number));
                return lines;
            }
        }
    }
}

/// Why a clause is not met: what the packet has where the clause asks first.
fn failure(clause: &Clause, order: &Order, facts: &Facts) -> String {
    let asked: Vec<String> = clause.iter().map(question).collect();
    let found = clause.first().map_or(String::new(), |literal| found(&literal.test, order, facts));
    format!("no, it is not {}: {found}", asked.join(" or "))
}

fn question(literal: &Literal) -> String {
    format!("{}{}", if literal.not { "not " } else { "" }, literal.test)
}

fn found(test: &Test, order: &Order, facts: &Facts) -> String {
    let link = |interface| order.names.link(interface).unwrap_or("none");
    match test {
        Test::Family(_) => format!("it is {:?}", facts.family),
        Test::Protocol(_) => format!("its protocol is {}", facts.protocol),
        Test::Source(_) => format!("it comes from {}{}", facts.source, ours(facts.source_is_ours)),
        Test::Destination(_) => format!("it goes to {}{}", facts.destination, ours(facts.destination_is_ours)),
        Test::Direction(_) => format!("it goes {}", format!("{:?}", facts.direction).to_lowercase()),
        Test::Via(_) => format!("it goes via {}", link(facts.via())),
        Test::Receive(_) => format!("it was received by {}", link(facts.receive)),
        Test::Transmit(_) => format!("it leaves by {}", link(facts.transmit)),
        Test::Fragment => format!("it is {:?}", facts.part).to_lowercase(),
        Test::Lengths(_) => format!("it has {} bytes", facts.length),
        Test::SourcePorts(_)
        | Test::DestinationPorts(_)
        | Test::TcpFlags { .. }
        | Test::Established
        | Test::Setup
        | Test::IcmpTypes(_)
        | Test::Icmp6Types(_) => match facts.transport {
            Transport::None => "nothing is known of its transport".to_owned(),
            Transport::Ports(source, destination) => format!("its ports are {source} and {destination}"),
            Transport::Tcp(source, destination, flags) => {
                format!("its ports are {source} and {destination}, its control bits {flags:#04x}")
            }
            Transport::Icmp(kind) => format!("its type is {kind}"),
        },
    }
}

fn ours(is_ours: bool) -> &'static str {
    if is_ours { ", which is ours" } else { "" }
}
