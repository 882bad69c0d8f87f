//! The cost of a packet at each gateway: rounds, their table, and what comes of the bars.

use anyhow::{Result, ensure};

use super::cells::{Cell, LANE_BY_FLAT, TREE_BY_FLAT, TREE_BY_SKIPTO, XDP_BY};
use super::contenders::{Asked, Gateway, Rules};
use super::running::{Passed, Running};
use crate::interrupt::Interrupt;
use crate::rounds::{Extent, Rounds, Verdict, divided};
use crate::stage::Stage;
use crate::tables::{self, number};
use corelane_load::stats::median;

/// All that one cell showed.
pub type CellRounds = Rounds<Gateway, Passed>;

/// Measures one cell: each of these gateways on a wire of its own, started anew for each round.
///
/// # Errors
/// When a gateway does not start or forward, or a signal asks for the end.
pub fn run(cell: &Cell, who: Vec<Gateway>, stage: &Stage, extent: Extent, interrupt: &Interrupt) -> Result<CellRounds> {
    Rounds::take(cell.name, who.clone(), extent.rounds, interrupt, |place| {
        let asked = Asked { gateway: who[place], is_tagged: cell.is_tagged, beside: None };
        let running = Running::start(asked, &stage.corelane)?;
        let passed = running.saturated(cell.by, extent.timing.warm_up, extent.timing.window)?;
        ensure!(passed.forwarded_per_s > 0.0, "nothing was forwarded of {:.0} packets a second", passed.offered_per_s);
        Ok(passed)
    })
}

/// The bars that can be judged with what was measured.
pub fn judge(found: &CellRounds) -> Vec<Verdict> {
    let cost = |of, by, bar| found.judge(of, by, "CPU per packet", Passed::cpu_us, bar);
    let polls = Gateway::Polling;
    let rules = |of: Rules, by: Rules, bar| {
        let added = |rules: Rules| {
            let [with, without] = [polls(rules), polls(Rules::No)].map(|who| found.values(who, Passed::cpu_us));
            Some(with?.iter().zip(without?).map(|(with, without)| with - without).collect::<Vec<_>>())
        };
        let what = format!("{} / {}, what rules add to a packet", polls(of), polls(by));
        Verdict::of_rounds(found.cell, what, &divided(&added(of)?, &added(by)?), bar)
    };
    let xdp = XDP_BY.into_iter().map(|(by, bar)| cost(Gateway::Lane(Rules::Xdp), by, bar));
    let lanes = [
        cost(polls(Rules::Tree), Gateway::Flat, LANE_BY_FLAT),
        rules(Rules::Tree, Rules::Flat, TREE_BY_FLAT),
        rules(Rules::Tree, Rules::Skipto, TREE_BY_SKIPTO),
    ];
    xdp.chain(lanes).flatten().collect()
}

/// Words about the columns, which do not explain themselves.
pub const NOTE: &str = "CPU us: the gateway's process, the kernel's thread that receives for it, and ksoftirqd of its CPU, by packet that came to its user; users: what a packet costs \
who offers it, on the other CPU, and no part of it\n";

/// The medians over the rounds of one cell.
pub fn table(found: &CellRounds) -> String {
    tables::of_rounds(found, "gateway", |_, who| {
        let middle = |of: fn(&Passed) -> f64, digits| number(found.median(who, of), digits);
        let ratios = found.ratios(who, Gateway::Flat, Passed::cpu_us);
        vec![
            ("CPU us", middle(Passed::cpu_us, 3)),
            ("process", middle(|one| one.server_us, 3)),
            ("receiver", middle(|one| one.receiver_us, 3)),
            ("ksoftirqd", middle(|one| one.softirq_us, 3)),
            ("of flat", number(ratios.and_then(|ratios| median(&ratios)), 3)),
            ("offered/s", middle(|one| one.offered_per_s, 0)),
            ("forwarded/s", middle(|one| one.forwarded_per_s, 0)),
            ("wrong", middle(|one| one.wrong as f64, 0)),
            ("users us", middle(|one| one.emitter_us, 3)),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bars::Word;

    fn found(parts: &[(Gateway, f64)]) -> CellRounds {
        let passed = |us: f64| Passed { server_us: us / 2.0, receiver_us: us / 2.0, ..Passed::default() };
        let round: Vec<_> = parts.iter().map(|&(_, us)| passed(us)).collect();
        let who = parts.iter().map(|&(who, _)| who).collect();
        Rounds { cell: "gateway-510", who, rounds: vec![round; 5] }
    }

    #[test]
    fn what_rules_add_is_judged_without_what_a_packet_costs_anyhow() {
        let parts = [(Rules::No, 1.0), (Rules::Flat, 3.0), (Rules::Skipto, 1.5), (Rules::Tree, 1.25)];
        let lanes: Vec<_> = parts.iter().map(|&(rules, us)| (Gateway::Polling(rules), us)).collect();
        let words = |verdicts: &[Verdict]| verdicts.iter().map(|one| (one.value, one.word)).collect::<Vec<_>>();
        assert_eq!(words(&judge(&found(&lanes))), [(0.125, Word::Met), (0.5, Word::Missed)]);
        let beside = judge(&found(&[&lanes[..], &[(Gateway::Flat, 2.5)]].concat()));
        assert_eq!((beside.len(), beside[0].value, beside[0].word), (3, 0.5, Word::Met));
        let xdp = [(Gateway::Lane(Rules::Xdp), 0.25), (Gateway::Flat, 5.0), (Gateway::ByMap, 0.5), (Gateway::Redirect, 0.2)];
        assert_eq!(words(&judge(&found(&xdp))), [(0.05, Word::Met), (0.5, Word::Missed), (1.25, Word::Met)]);
    }

    #[test]
    fn a_table_has_a_row_a_gateway_with_its_ratio() {
        let lines = table(&found(&[(Gateway::Flat, 4.0), (Gateway::Redirect, 1.0)]));
        let row: Vec<_> = lines.lines().nth(3).expect("a row").split_whitespace().collect();
        assert_eq!(row[..7], ["XDP", "redirect", "1.000", "0.500", "0.500", "0.000", "0.250"]);
    }
}
