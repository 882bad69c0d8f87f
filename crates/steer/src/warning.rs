//! What stands in the way of lanes that share nothing, and the remedy.

use corelane_machine::ethtool::FlowKind;
use corelane_machine::interfaces::cpu_list;
use std::fmt;

/// Something about a plan that its user should know. The service runs all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// Several lanes have to share a CPU.
    MoreLanesThanCpus {
        /// Lanes.
        lanes: usize,
        /// CPUs that can be used, or are paid for.
        cpus: usize,
    },
    /// Some lanes have no receive queue of their own.
    FewerQueuesThanLanes {
        /// The interface.
        interface: String,
        /// Its receive queues.
        queues: usize,
        /// How many it can be given.
        queues_max: usize,
        /// What its driver calls them: "combined" or "rx".
        setting: &'static str,
        /// Lanes.
        lanes: usize,
    },
    /// The card's table has fewer entries than there are queues for lanes: some queues get no packet.
    FewerEntriesThanQueues {
        /// The interface.
        interface: String,
        /// Entries of its table.
        entries: usize,
        /// Receive queues.
        queues: usize,
    },
    /// The card does not look at ports, so that all flows from one client come to one queue.
    AddressesOnly {
        /// The interface.
        interface: String,
        /// For which flows.
        flows: Vec<FlowKind>,
    },
    /// The kernel sends packets on to other CPUs by a hash of its own (RPS).
    PacketsSentOn {
        /// The interface.
        interface: String,
        /// From which receive queues.
        queues: Vec<usize>,
        /// To which CPUs.
        cpus: Vec<usize>,
    },
    /// Packets come in on CPUs where no lane is.
    InterruptsElsewhere {
        /// The interface.
        interface: String,
        /// The interrupts of its receive queues.
        interrupts: Vec<u32>,
        /// Where they are delivered.
        cpus: Vec<usize>,
    },
}

impl Warning {
    /// A name for programs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::MoreLanesThanCpus { .. } => "more_lanes_than_cpus",
            Self::FewerQueuesThanLanes { .. } => "fewer_queues_than_lanes",
            Self::FewerEntriesThanQueues { .. } => "fewer_entries_than_queues",
            Self::AddressesOnly { .. } => "addresses_only",
            Self::PacketsSentOn { .. } => "packets_sent_on",
            Self::InterruptsElsewhere { .. } => "interrupts_elsewhere",
        }
    }

    /// What is so, in words.
    pub fn what(&self) -> String {
        match self {
            Self::MoreLanesThanCpus { lanes, cpus } => {
                format!("{} for {}: some share one", count(*lanes, "lane"), count(*cpus, "CPU"))
            }
            Self::FewerQueuesThanLanes { interface, queues, lanes, .. } => format!(
                "{interface} has {} for {}: packets of some lanes come in on another's CPU",
                count(*queues, "receive queue"),
                count(*lanes, "lane")
            ),
            Self::FewerEntriesThanQueues { interface, entries, queues } => format!(
                "the table of {interface} has {entries} entries for {}: some get no packet",
                count(*queues, "receive queue")
            ),
            Self::AddressesOnly { interface, flows } => {
                format!("{interface} hashes addresses only, of {}: all flows between two hosts come to one queue", words(flows))
            }
            Self::PacketsSentOn { interface, queues, cpus } => format!(
                "{interface} has packets of queue {} sent on to CPU {} by another hash than the lanes'",
                cpu_list(queues),
                cpu_list(cpus)
            ),
            Self::InterruptsElsewhere { interface, cpus, .. } => {
                format!("{interface} has interrupts on CPU {}, where no lane is", cpu_list(cpus))
            }
        }
    }

    /// What can be done about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::MoreLanesThanCpus { cpus, .. } => format!("--lanes {cpus}, or more CPUs for this process"),
            Self::FewerQueuesThanLanes { interface, queues, queues_max, setting, lanes } if queues_max > queues => {
                format!("ethtool -L {interface} {setting} {}", lanes.min(queues_max))
            }
            Self::FewerQueuesThanLanes { queues, .. } => format!("an interface with more queues, or --lanes {queues}"),
            Self::FewerEntriesThanQueues { interface, entries, .. } => format!("ethtool -L {interface} combined {entries}"),
            Self::AddressesOnly { interface, flows } => {
                let all: Vec<String> =
                    flows.iter().map(|flow| format!("ethtool -N {interface} rx-flow-hash {flow} sdfn")).collect();
                all.join("; ")
            }
            Self::PacketsSentOn { interface, queues, .. } => match queues[..] {
                [queue] => format!("echo 0 > /sys/class/net/{interface}/queues/rx-{queue}/rps_cpus"),
                _ => format!("echo 0 into rps_cpus of these queues in /sys/class/net/{interface}/queues"),
            },
            Self::InterruptsElsewhere { interrupts, .. } => {
                let first = interrupts.first().copied().unwrap_or_default();
                format!("--cpus with these, or move interrupt {first} and the others in /proc/irq/{first}/smp_affinity_list")
            }
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; remedy: {}", self.what(), self.remedy())
    }
}

fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn words(flows: &[FlowKind]) -> String {
    flows.iter().map(FlowKind::to_string).collect::<Vec<_>>().join(" and ")
}
