//! The interrupts of a network card: which queue each is for, where it is delivered, how often it came (proc_interrupts(5), the
//! kernel's irq-affinity and its ABI of `msi_irqs`).

use corelane_os::cpus::parse_list;
use corelane_os::kernel_files::{numbered, text};
use std::io;

const INTERRUPTS: &str = "/proc/interrupts";

/// One interrupt of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number.
    pub number: u32,
    /// Its name, which the driver chose.
    pub name: String,
    /// What it is for, as far as its name tells.
    pub queue: Option<Queue>,
    /// How often it came, on all CPUs together.
    pub fired: u64,
    /// The CPUs where it is delivered: usually one; several while the kernel has not chosen. Empty where it does not tell.
    pub cpus: Vec<usize>,
    /// The CPUs where it may be. Empty where the kernel does not tell.
    pub allowed: Vec<usize>,
}

/// The queue of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Its number.
    pub number: usize,
    /// Whether it receives; an interrupt may be for a queue of each kind.
    pub receives: bool,
    /// Whether it transmits.
    pub transmits: bool,
}

/// The interrupts of an interface: those of its device, or, where the device has none of its own, those that bear its name.
///
/// # Errors
/// The list cannot be read.
pub fn of_interface(interface: &str) -> io::Result<Vec<Interrupt>> {
    let mut found = parse(&text(INTERRUPTS)?);
    let of_device = of_device(interface);
    if of_device.is_empty() {
        found.retain(|interrupt| bears(&interrupt.name, interface));
    } else {
        found.retain(|interrupt| of_device.contains(&(interrupt.number as usize)));
    }
    for interrupt in &mut found {
        let list = |file| list(&format!("/proc/irq/{}/{file}", interrupt.number));
        interrupt.allowed = list("smp_affinity_list");
        interrupt.cpus = delivered(&list("effective_affinity_list"), &interrupt.allowed);
    }
    Ok(found)
}

/// Those of the device, or, as with virtio, of the device that it is on.
fn of_device(interface: &str) -> Vec<usize> {
    let own = numbered(&format!("/sys/class/net/{interface}/device/msi_irqs"), "");
    if own.is_empty() { numbered(&format!("/sys/class/net/{interface}/device/../msi_irqs"), "") } else { own }
}

/// Where it is delivered. An interrupt whose set was changed moves with its next delivery: until then the kernel tells of the CPU
/// that it leaves.
fn delivered(effective: &[usize], allowed: &[usize]) -> Vec<usize> {
    let stay: Vec<usize> = effective.iter().copied().filter(|cpu| allowed.contains(cpu)).collect();
    let delivered = if stay.is_empty() { allowed.to_vec() } else { stay };
    assert!(delivered.iter().all(|cpu| allowed.contains(cpu)), "an interrupt is delivered where it may be");
    delivered
}

fn list(path: &str) -> Vec<usize> {
    text(path).ok().and_then(|text| parse_list(text.trim()).ok()).unwrap_or_default()
}

/// Whether one of the words of the name is the interface's.
fn bears(name: &str, interface: &str) -> bool {
    name.split(|part: char| !part.is_ascii_alphanumeric() && part != '_').any(|word| word == interface)
}

/// Reads /proc/interrupts: a column of counts for each CPU that is online, then the chip, and last the names. Lines that are
/// none are passed over.
fn parse(text: &str) -> Vec<Interrupt> {
    let cpus = text.lines().next().map_or(0, |header| header.split_whitespace().count());
    text.lines().skip(1).filter_map(|line| interrupt(line, cpus)).collect()
}

fn interrupt(line: &str, cpus: usize) -> Option<Interrupt> {
    let mut words = line.split_whitespace();
    let number = words.next()?.strip_suffix(':')?.parse().ok()?;
    let mut fired = 0_u64;
    for _ in 0..cpus {
        fired = fired.saturating_add(words.next()?.parse().ok()?);
    }
    let name = name(&words.collect::<Vec<_>>())?;
    Some(Interrupt { number, queue: queue_of(&name), name, fired, cpus: Vec::new(), allowed: Vec::new() })
}

/// The names are the last word and those before it that end with a comma.
fn name(words: &[&str]) -> Option<String> {
    let (last, before) = words.split_last()?;
    let shared = before.iter().rev().take_while(|word| word.ends_with(',')).count();
    assert!(shared <= before.len(), "names are words of the line");
    let names = [&before[before.len() - shared..], &[*last]].concat();
    (!before.is_empty()).then(|| names.join(" "))
}

/// What drivers call them: `eth0-TxRx-3`, `eth0-rx-0`, `virtio2-input.1`, `mlx5_comp3@pci:0000:01:00.0`, `ens5-Tx-Rx-2`, `eth0-q0-rx`.
/// A name that speaks of no queue, such as `virtio2-config`, has none.
fn queue_of(name: &str) -> Option<Queue> {
    let name = name.split('@').next()?.to_ascii_lowercase();
    let (device, rest) = name.split_once(['-', '_'])?;
    let has = |words: &[&str]| words.iter().any(|word| rest.contains(word));
    let (mut receives, mut transmits) = (has(&["rx", "input"]), has(&["tx", "output"]));
    if !receives && !transmits {
        // The interrupt of a queue pair: nothing but its number, or "comp" for completions.
        let pair = rest.trim_start_matches("comp").bytes().all(|byte| byte.is_ascii_digit());
        (receives, transmits) = (pair && !device.is_empty(), pair && !device.is_empty());
    }
    let digits = |byte: char| !byte.is_ascii_digit();
    let number = rest.rsplit(digits).find(|part| !part.is_empty())?.parse().ok()?;
    (receives || transmits).then_some(Queue { number, receives, transmits })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "            CPU0       CPU2       CPU3
   8:          0          0          1   IO-APIC   8-edge      rtc0
  16:         40          2          0   IO-APIC  16-fasteoi   ehci_hcd:usb1, eth9, snd
  38:          0      17680          5  PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0
  39:      12674          0          0  PCI-MSIX-0000:00:03.0   2-edge      virtio2-output.0
  26:          0          0          1   PCI-MSI 67633153-edge      virtio0-input.3
  45:          7          0          0     GICv3  45 Level     eth1-TxRx-12
 NMI:          1          2          3   Non-maskable interrupts
 ERR:          0
";

    #[test]
    fn the_list_is_read_with_holes_among_the_cpus() {
        let found = parse(SAMPLE);
        let names: Vec<&str> = found.iter().map(|interrupt| interrupt.name.as_str()).collect();
        let expected =
            ["rtc0", "ehci_hcd:usb1, eth9, snd", "virtio2-input.0", "virtio2-output.0", "virtio0-input.3", "eth1-TxRx-12"];
        assert_eq!(names, expected);
        assert_eq!((found[2].number, found[2].fired), (38, 17685));
        assert_eq!(found[3].queue, Some(Queue { number: 0, receives: false, transmits: true }));
        assert_eq!(found[4].queue, Some(Queue { number: 3, receives: true, transmits: false }));
        assert_eq!(found[5].queue, Some(Queue { number: 12, receives: true, transmits: true }));
        assert!(found[..2].iter().all(|interrupt| interrupt.queue.is_none()), "{found:?}");
    }

    #[test]
    fn what_is_no_list_of_interrupts_is_passed_over() {
        for text in
            ["", "CPU0", "CPU0\n1:", "CPU0\n1: x chip name", "CPU0\n1: 2", "CPU0\n1: 2 name", "CPU0\nx: 2 chip name", "\n1: 2"]
        {
            assert_eq!(parse(text), [], "{text:?}");
        }
        let most = format!("CPU0 CPU1\n1: {0} {0} chip 1-edge name", u64::MAX);
        assert_eq!(parse(&most)[0].fired, u64::MAX);
    }

    #[test]
    fn names_tell_the_queue() {
        let both = |number| Some(Queue { number, receives: true, transmits: true });
        let receives = |number| Some(Queue { number, receives: true, transmits: false });
        let names = [
            ("eth0-TxRx-3", both(3)),
            ("i40e-ens1f0-TxRx-7", both(7)),
            ("ens5-Tx-Rx-2", both(2)),
            ("mlx5_comp11@pci:0000:01:00.0", both(11)),
            ("enp3s0-15", both(15)),
            ("eth0-rx-1", receives(1)),
            ("virtio2-input.1", receives(1)),
            ("eth0-q4-rx", receives(4)),
            ("mlx5_async0@pci:0000:01:00.0", None),
            ("virtio2-config", None),
            ("ena-mgmnt@pci:0000:00:05.0", None),
            ("eth0", None),
            ("eth0-rx", None),
            ("eth0-rx-99999999999999999999999", None),
            ("", None),
        ];
        for (name, expected) in names {
            assert_eq!(queue_of(name), expected, "{name}");
        }
    }

    #[test]
    fn an_interrupt_that_is_to_move_is_not_where_it_was() {
        assert_eq!(delivered(&[4], &[4, 5]), [4]);
        assert_eq!(delivered(&[4], &[2, 3]), [2, 3]);
        assert_eq!(delivered(&[], &[0, 1]), [0, 1], "kernels without the file");
        assert!(delivered(&[1], &[]).is_empty());
    }

    #[test]
    fn an_interface_is_a_word_of_the_name() {
        assert!(bears("eth0-q0-rx", "eth0") && bears("usb1, eth0, snd", "eth0"));
        assert!(!bears("eth01-rx", "eth0") && !bears("veth0", "eth0"));
    }

    #[test]
    fn this_machine_has_a_list_and_loopback_is_not_in_it() {
        assert_eq!(of_interface("lo").unwrap(), []);
        let all = parse(&text(INTERRUPTS).unwrap());
        assert!(all.iter().all(|interrupt| !interrupt.name.is_empty()));
    }
}
