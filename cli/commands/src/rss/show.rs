//! `corelane rss show`: what a network card does with flows, and what running processes do.

use crate::print::print;
use crate::stat;
use crate::wrap::{fit, wrapped};
use anyhow::{Context, Result, bail};
use corelane::admin::machine::{Channels, Ethtool, Interface, Interrupt, Link, Queue, Rings, Rss, cpu_list, interfaces};
use corelane::admin::watch::Description;
use serde_json::{Value, json};
use std::fmt::Write;

/// Shows the key, table, queues, interrupts and CPUs of network interfaces
///
/// Where no interface is named it shows all, and how running processes steer their flows.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only this one, such as eth0
    interface: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Prints what the kernel tells.
pub fn run(arguments: &Arguments) -> Result<()> {
    let interfaces = read(arguments.interface.as_deref())?;
    let running = if arguments.interface.is_none() { stat::readers(None) } else { Vec::new() };
    let running: Vec<&Description> = running.iter().map(|reader| reader.description()).collect();
    if arguments.json {
        let interfaces: Vec<Value> = interfaces.iter().map(object).collect();
        let processes: Vec<Value> = running.iter().map(|process| process_object(process)).collect();
        return print(json!({ "interfaces": interfaces, "processes": processes }));
    }
    let mut words = String::new();
    for interface in &interfaces {
        write_interface(&mut words, interface)?;
    }
    for process in running {
        write_process(&mut words, process)?;
    }
    print(words.trim_end())
}

fn read(wanted: Option<&str>) -> Result<Vec<Interface>> {
    let links = interfaces().context("asking for the network interfaces")?;
    let meant: Vec<&Link> = links.iter().filter(|link| wanted.is_none_or(|name| link.name == name)).collect();
    if let (Some(name), true) = (wanted, meant.is_empty()) {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        bail!("there is no interface {name:?}: there are {}", names.join(", "));
    }
    let ethtool = Ethtool::find();
    let read = |link: &Link| Interface::read(link, &ethtool).with_context(|| format!("asking for {}", link.name));
    meant.into_iter().map(read).collect()
}

fn write_interface(words: &mut String, interface: &Interface) -> Result<()> {
    let Interface { link, driver, node, channels, rings, rss, .. } = interface;
    let driver = driver.as_deref().map_or(String::new(), |driver| format!(" ({driver})"));
    let node = node.map_or(String::new(), |node| format!(", node {node}"));
    writeln!(words, "{}{driver}: {}{node}", link.name, if link.up { "up" } else { "down" })?;
    let addresses: Vec<String> = link.addresses.iter().map(ToString::to_string).collect();
    words.push_str(&wrapped("  addresses   ", if addresses.is_empty() { "none".into() } else { addresses.join(", ") }.as_str()));
    words.push_str(&wrapped("  queues      ", &queues(interface, channels.as_ref(), rings.as_ref())));
    match rss {
        Some(rss) => write_rss(words, rss)?,
        None => words.push_str("  hash        none: its driver has no receive side scaling\n"),
    }
    write_interrupts(words, &interface.interrupts)?;
    write_masks(words, "  sent on     ", "queue", &interface.rps_cpus);
    write_masks(words, "  sent from   ", "queue", &interface.xps_cpus);
    words.push('\n');
    Ok(())
}

fn queues(interface: &Interface, channels: Option<&Channels>, rings: Option<&Rings>) -> String {
    let mut words = format!("{} receive, {} transmit", interface.rx_queues(), interface.xps_cpus.len());
    if let Some(channels) = channels {
        let kinds = [
            ("combined", channels.combined, channels.combined_max),
            ("receive", channels.rx, channels.rx_max),
            ("transmit", channels.tx, channels.tx_max),
        ];
        let set = kinds.iter().filter(|(_, _, most)| *most > 0).map(|(kind, now, most)| format!("{now} of {most} {kind}"));
        words += &format!("; set to {}", set.collect::<Vec<_>>().join(", "));
    }
    if let Some(rings) = rings {
        let (rx, tx) = (format!("{} of {}", rings.rx, rings.rx_max), format!("{} of {}", rings.tx, rings.tx_max));
        words += &format!("; packets in a ring: {rx} receive, {tx} transmit");
    }
    words
}

fn write_rss(words: &mut String, rss: &Rss) -> Result<()> {
    let function = rss.function.map_or("not told".to_owned(), |function| function.to_string());
    writeln!(words, "  hash        {function}")?;
    if !rss.fields.is_empty() {
        let fields: Vec<String> = rss.fields.iter().map(|(kind, fields)| format!("{kind} {fields}")).collect();
        words.push_str(&wrapped("  fields      ", &fields.join(", ")));
    }
    for (line, bytes) in rss.key.chunks(20).enumerate() {
        let label = if line == 0 { "key" } else { "" };
        writeln!(words, "  {label:<10}  {}", hex(bytes))?;
    }
    write_table(words, &rss.table)
}

/// As many queues in a line as fit: a power of two.
fn write_table(words: &mut String, table: &[u32]) -> Result<()> {
    let (in_line, width) = if table.iter().all(|queue| *queue < 100) { (16, 3) } else { (8, 6) };
    for (line, queues) in table.chunks(in_line).enumerate() {
        let label = if line == 0 { "table" } else { "" };
        let queues: String = queues.iter().map(|queue| format!("{queue:>width$}")).collect();
        writeln!(words, "  {label:<10}  {:>5}:{queues}", line * in_line)?;
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

fn write_interrupts(words: &mut String, interrupts: &[Interrupt]) -> Result<()> {
    if interrupts.is_empty() {
        words.push_str("  interrupts  none of its own\n");
        return Ok(());
    }
    writeln!(words, "  interrupts  {:<9} {:>6}  {:<8} {:<8} {:>12}  name", "queue", "number", "on CPU", "allowed", "fired")?;
    for interrupt in interrupts {
        let (on, allowed) = (fit(&cpu_list(&interrupt.cpus), 8), fit(&cpu_list(&interrupt.allowed), 8));
        let queue = interrupt.queue.map_or("-".to_owned(), kind);
        let (number, fired, name) = (interrupt.number, interrupt.fired, fit(&interrupt.name, 16));
        writeln!(words, "              {queue:<9} {number:>6}  {on:<8} {allowed:<8} {fired:>12}  {name}")?;
    }
    Ok(())
}

fn kind(queue: Queue) -> String {
    let kinds = match (queue.receives, queue.transmits) {
        (true, true) => "rx+tx",
        (true, false) => "rx",
        (false, _) => "tx",
    };
    format!("{kinds} {}", queue.number)
}

/// The queues that have a set of CPUs.
fn write_masks(words: &mut String, first: &str, what: &str, masks: &[Vec<usize>]) {
    let set = masks.iter().enumerate().filter(|(_, cpus)| !cpus.is_empty());
    let set: Vec<String> = set.map(|(queue, cpus)| format!("{what} {queue}: CPU {}", cpu_list(cpus))).collect();
    if !set.is_empty() {
        words.push_str(&wrapped(first, &set.join("; ")));
    }
}

/// What steers the flows of a process's listeners, as its page says.
fn write_process(words: &mut String, process: &Description) -> Result<()> {
    writeln!(words, "process {}: {}", process.process.pid, steering(process))?;
    for service in process.services.iter().filter(|service| !service.url.is_empty()) {
        words.push_str(&wrapped(&format!("  {:<10}  ", service.name), &service.url));
    }
    words.push('\n');
    Ok(())
}

/// The modes of all lanes, each once: usually there is one.
fn steering(process: &Description) -> String {
    let mut modes: Vec<&str> = process.lanes.iter().map(|lane| lane.steering.as_str()).collect();
    modes.dedup();
    match process.lanes.len() {
        1 => "1 lane, which has all flows".to_owned(),
        lanes => format!("{lanes} lanes, steered by {}", modes.join(", ")),
    }
}

fn process_object(process: &Description) -> Value {
    let services: Vec<Value> =
        process.services.iter().map(|service| json!({ "name": service.name, "url": service.url })).collect();
    let lanes: Vec<Value> = process.lanes.iter().map(|lane| json!({ "cpu": lane.cpu, "steering": lane.steering })).collect();
    json!({ "pid": process.process.pid, "services": services, "lanes": lanes })
}

fn object(interface: &Interface) -> Value {
    let rings =
        interface.rings.map(|rings| json!({ "rx": rings.rx, "rx_max": rings.rx_max, "tx": rings.tx, "tx_max": rings.tx_max }));
    json!({
        "name": interface.link.name,
        "index": interface.link.index,
        "up": interface.link.up,
        "addresses": interface.link.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "driver": interface.driver,
        "node": interface.node,
        "rx_queues": interface.rx_queues(),
        "tx_queues": interface.xps_cpus.len(),
        "rps_cpus": interface.rps_cpus,
        "xps_cpus": interface.xps_cpus,
        "channels": interface.channels.map(channels_object),
        "rings": rings,
        "rss": interface.rss.as_ref().map(rss_object),
        "interrupts": interface.interrupts.iter().map(interrupt_object).collect::<Vec<_>>(),
    })
}

fn channels_object(channels: Channels) -> Value {
    json!({
        "rx": channels.rx,
        "rx_max": channels.rx_max,
        "tx": channels.tx,
        "tx_max": channels.tx_max,
        "combined": channels.combined,
        "combined_max": channels.combined_max,
    })
}

fn rss_object(rss: &Rss) -> Value {
    let fields = rss.fields.iter().map(|(kind, fields)| (kind.to_string(), json!(fields.to_string())));
    json!({
        "function": rss.function.map(|function| function.to_string()),
        "key": hex(&rss.key),
        "table": rss.table,
        "fields": fields.collect::<serde_json::Map<_, _>>(),
    })
}

fn interrupt_object(interrupt: &Interrupt) -> Value {
    let queue =
        interrupt.queue.map(|queue| json!({ "number": queue.number, "receives": queue.receives, "transmits": queue.transmits }));
    json!({
        "number": interrupt.number,
        "name": interrupt.name,
        "queue": queue,
        "cpus": interrupt.cpus,
        "allowed": interrupt.allowed,
        "fired": interrupt.fired,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane::admin::machine::{Fields, FlowKind, HashFunction};

    /// A card with as much to show as any.
    fn card() -> Interface {
        let interrupt = |number: u32| Interrupt {
            number,
            name: format!("i40e-enp134s0f0np0-TxRx-{number}"),
            queue: Some(Queue { number: number as usize, receives: true, transmits: true }),
            fired: u64::from(number) * 1_000_000_007,
            cpus: vec![number as usize],
            allowed: (0..128).step_by(2).collect(),
        };
        Interface {
            link: Link {
                name: "enp134s0f0np0xx".to_owned(),
                up: true,
                addresses: (0..9).map(|host| format!("2001:db8:1234:5678:9abc:def0:1234:{host}").parse().unwrap()).collect(),
                ..Link::default()
            },
            driver: Some("i40e".to_owned()),
            node: Some(1),
            device: true,
            rps_cpus: (0..64).map(|queue| if queue % 2 == 0 { vec![queue, 100] } else { Vec::new() }).collect(),
            xps_cpus: (0..64).map(|queue| vec![queue]).collect(),
            channels: Some(Channels { combined: 64, combined_max: 128, ..Channels::default() }),
            rings: Some(Rings { rx: 512, rx_max: 4096, tx: 512, tx_max: 4096 }),
            rss: Some(Rss {
                function: Some(HashFunction::Toeplitz),
                key: (0..52).collect(),
                table: (0..512).map(|bucket| bucket % 64).collect(),
                fields: vec![(FlowKind::TcpV4, Fields(0xf0)), (FlowKind::UdpV4, Fields(0x30)), (FlowKind::UdpV6, Fields(0x32))],
            }),
            interrupts: (0..64).map(interrupt).collect(),
        }
    }

    #[test]
    fn everything_is_shown_in_lines_of_eighty() {
        let mut words = String::new();
        write_interface(&mut words, &card()).unwrap();
        for line in words.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for part in [
            "enp134s0f0np0xx (i40e): up, node 1\n",
            "64 of 128 combined",
            "512 of 4096 receive",
            "  hash        toeplitz\n",
            "tcp4 addresses+ports, udp4 addresses, udp6 fields 0x32",
            "  key         00:01:02",
            "\n              14:15:16",
            "  table           0:  0  1",
            "\n                496: 48 49",
            "              rx+tx 63      63  63       0,2,4,6…",
            "queue 2: CPU 2,100",
        ] {
            assert!(words.contains(part), "{part:?} is not in\n{words}");
        }
    }

    #[test]
    fn what_an_interface_has_not_is_said() {
        let bare = Interface { link: Link { name: "lo".to_owned(), ..Link::default() }, ..Interface::default() };
        let mut words = String::new();
        write_interface(&mut words, &bare).unwrap();
        let expected = "lo: down\n  addresses   none\n  queues      0 receive, 0 transmit\n  hash        none: its driver has no receive \
                        side scaling\n  interrupts  none of its own\n\n";
        assert_eq!(words, expected);
    }

    #[test]
    fn json_has_all_of_it() {
        let object = object(&card());
        assert_eq!((&object["rss"]["table"][65], &object["rss"]["fields"]["udp4"]), (&json!(1), &json!("addresses")));
        assert_eq!((&object["rps_cpus"][2], &object["channels"]["combined_max"]), (&json!([2, 100]), &json!(128)));
        assert_eq!(object["interrupts"][3]["queue"], json!({ "number": 3, "receives": true, "transmits": true }));
        assert!(object["rss"]["key"].as_str().is_some_and(|key| key.starts_with("00:01:") && key.len() == 52 * 3 - 1));
    }
}
