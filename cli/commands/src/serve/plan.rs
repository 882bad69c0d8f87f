//! `corelane serve --plan`: which lanes there would be, where, and what stands in the way.

use crate::wrap::wrapped;
use corelane::admin::machine::{Interface, cpu_list};
use corelane::admin::{LanePlan, Topology, Warning};
use serde_json::{Value, json};
use std::fmt::Write;

/// The whole plan, in lines of at most 80 characters.
pub fn text(topology: &Topology, plan: &LanePlan) -> String {
    let mut words = String::from("lane   CPU  core  node  receive queues\n");
    for (lane, planned) in plan.lanes.iter().enumerate() {
        let (cpu, queues) = (planned.cpu, cpu_list(&planned.queues));
        let queues = if queues.is_empty() { "-".to_owned() } else { queues };
        // Writing to a string does not fail.
        let _ = writeln!(words, "{lane:>4}  {:>4}  {:>4}  {:>4}  {queues}", cpu.number, cpu.first_sibling, cpu.node);
    }
    words.push_str(&wrapped("interface: ", &interface(topology, plan)));
    words + &warnings(plan)
}

/// What stands in the way, and the remedies.
pub fn warnings(plan: &LanePlan) -> String {
    let lines = |warning: &Warning| wrapped("warning: ", &warning.what()) + &wrapped("  remedy: ", &warning.remedy());
    plan.warnings.iter().map(lines).collect()
}

/// What is known of the interface, in one line.
pub fn interface(topology: &Topology, plan: &LanePlan) -> String {
    let Some(interface) = &topology.interface else { return "none but loopback".to_owned() };
    let driver = interface.driver.as_deref().map_or(String::new(), |driver| format!(" ({driver})"));
    let node = interface.node.map_or(String::new(), |node| format!(" on node {node}"));
    let queues = interface.rx_queues();
    let name = if queues == 1 { "receive queue" } else { "receive queues" };
    let known: usize = plan.lanes.iter().map(|lane| lane.queues.len()).sum();
    let at_lanes = if known > 0 { format!(", {known} on CPUs of lanes") } else { String::new() };
    format!("{}{driver}{node}, {queues} {name}{at_lanes}, {}", interface.link.name, hash(interface))
}

fn hash(interface: &Interface) -> String {
    match interface.rss.as_ref() {
        Some(rss) => format!("receive side scaling with {} buckets", rss.table.len()),
        None => "no receive side scaling".to_owned(),
    }
}

/// The whole plan for programs.
pub fn object(topology: &Topology, plan: &LanePlan) -> Value {
    let lanes = plan.lanes.iter().enumerate().map(|(lane, planned)| {
        json!({
            "lane": lane,
            "cpu": planned.cpu.number,
            "core": planned.cpu.first_sibling,
            "node": planned.cpu.node,
            "queues": planned.queues,
        })
    });
    let warnings =
        plan.warnings.iter().map(|warning| json!({ "name": warning.name(), "what": warning.what(), "remedy": warning.remedy() }));
    let interface = topology.interface.as_ref().map(|interface| {
        json!({
            "name": interface.link.name,
            "driver": interface.driver,
            "node": interface.node,
            "rx_queues": interface.rx_queues(),
            "buckets": interface.rss.as_ref().map(|rss| rss.table.len()),
        })
    });
    json!({
        "lanes": lanes.collect::<Vec<_>>(),
        "allowed_cpus": topology.cpus.iter().map(|cpu| cpu.number).collect::<Vec<_>>(),
        "paid_cpus": topology.paid_cpus,
        "interface": interface,
        "warnings": warnings.collect::<Vec<_>>(),
    })
}
