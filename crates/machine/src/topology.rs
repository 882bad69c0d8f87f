//! Where each CPU is: its memory node and its core (the kernel's cputopology and numastat files).

use corelane_os::cpus::parse_list;
use corelane_os::kernel_files::{lacking, numbered, text};
use std::collections::HashMap;
use std::io;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// One CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number, as affinity has it. There may be holes.
    pub number: usize,
    /// The number of its memory node; 0 where the kernel tells of none.
    pub node: usize,
    /// The lowest number among the CPUs that share its core ("siblings"), its own included.
    pub first_sibling: usize,
}

/// All CPUs that are switched on, lowest number first. Where the kernel does not tell of nodes or cores (a container without
/// /sys/devices), all are on node 0 and each has a core of its own.
///
/// # Errors
/// The list of CPUs cannot be read.
pub fn online() -> io::Result<Vec<Cpu>> {
    let path = format!("{CPUS}/online");
    let numbers = parse_list(text(&path)?.trim()).map_err(|_| lacking(&path, "a list of CPUs such as 0-3,8"))?;
    assert!(numbers.is_sorted_by(|one, next| one < next), "each CPU once, lowest first");
    let nodes = nodes();
    Ok(numbers
        .into_iter()
        .map(|number| Cpu { number, node: *nodes.get(&number).unwrap_or(&0), first_sibling: first_sibling(number) })
        .collect())
}

/// The node of each CPU.
fn nodes() -> HashMap<usize, usize> {
    let lists = numbered(NODES, "node").into_iter().filter_map(|node| {
        let list = text(&format!("{NODES}/node{node}/cpulist")).ok()?;
        Some((node, parse_list(list.trim()).ok()?)) // a node without CPUs has an empty list
    });
    lists.flat_map(|(node, cpus)| cpus.into_iter().map(move |cpu| (cpu, node))).collect()
}

fn first_sibling(number: usize) -> usize {
    let siblings = text(&format!("{CPUS}/cpu{number}/topology/thread_siblings_list")).ok();
    siblings.and_then(|list| parse_list(list.trim()).ok()?.first().copied()).unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_allowed_cpu_is_online_and_its_core_is_among_them() {
        let online = online().unwrap();
        let numbers: Vec<usize> = online.iter().map(|cpu| cpu.number).collect();
        assert!(numbers.is_sorted());
        for cpu in corelane_os::cpus::allowed().unwrap() {
            assert!(numbers.contains(&cpu), "{cpu}");
        }
        for cpu in &online {
            assert!(cpu.first_sibling <= cpu.number);
        }
    }

    #[test]
    fn a_cpu_of_which_nothing_is_told_has_a_core_of_its_own() {
        assert_eq!(first_sibling(999_999), 999_999);
    }
}
