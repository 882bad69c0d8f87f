//! What the network namespace of the calling thread counts and is set to (network_namespaces(7)).

use corelane_os::kernel_files::{lacking, text};
use std::io;
use std::ops::RangeInclusive;

// The calling thread's own view: /proc/net is that of the process's first thread.
const SNMP: &str = "/proc/thread-self/net/snmp";
const SNMP6: &str = "/proc/thread-self/net/snmp6";
const NETSTAT: &str = "/proc/thread-self/net/netstat";
const LOCAL_PORTS: &str = "/proc/sys/net/ipv4/ip_local_port_range";
const RESERVED_PORTS: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";

/// Losses that a namespace has counted since it was made, of all its sockets (proc_net(5), the kernel's snmp_counter).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounters {
    /// UDP over IPv4.
    pub udp4: UdpErrors,
    /// UDP over IPv6; all zero where the kernel has no IPv6.
    pub udp6: UdpErrors,
    /// Segments that TCP sent again, over IPv4 and IPv6 (RetransSegs).
    pub tcp_retransmitted_segments: u64,
    /// Connections that were ready to be accepted and found the listener's queue full (ListenOverflows).
    pub tcp_listen_overflows: u64,
    /// Connections that a listener dropped for whatever reason, the overflows among them (ListenDrops).
    pub tcp_listen_drops: u64,
}

/// Datagrams that were lost in this machine, by one version of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpErrors {
    /// Arrived and were not delivered: no room, bad checksum, no memory (InErrors).
    pub receive_errors: u64,
    /// Those of the receive errors that found the socket's receive buffer full (RcvbufErrors).
    pub receive_buffer_errors: u64,
    /// Were not sent because the send buffer or the queue behind it was full (SndbufErrors).
    pub send_buffer_errors: u64,
}

/// What the namespace of the calling thread has counted so far.
///
/// # Errors
/// A file cannot be read, or lacks a counter, in words.
pub fn network_counters() -> io::Result<NetworkCounters> {
    let (snmp, netstat) = (text(SNMP)?, text(NETSTAT)?);
    let snmp6 = text(SNMP6).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(String::new()),
        _ => Err(error),
    })?;
    let tcp = |name| in_table(&netstat, "TcpExt:", name).ok_or_else(|| lacking(NETSTAT, name));
    Ok(NetworkCounters {
        udp4: udp4(&snmp).ok_or_else(|| lacking(SNMP, "the counters of Udp:"))?,
        udp6: udp6(&snmp6).ok_or_else(|| lacking(SNMP6, "numbers after Udp6InErrors, Udp6RcvbufErrors, Udp6SndbufErrors"))?,
        tcp_retransmitted_segments: in_table(&snmp, "Tcp:", "RetransSegs").ok_or_else(|| lacking(SNMP, "RetransSegs"))?,
        tcp_listen_overflows: tcp("ListenOverflows")?,
        tcp_listen_drops: tcp("ListenDrops")?,
    })
}

/// The ports that sockets get which do not ask for one, first and last (ip(7), `ip_local_port_range`).
///
/// So many sockets of one local address can be connected to one place at most.
///
/// # Errors
/// The file cannot be read, or does not hold two ports.
pub fn local_ports() -> io::Result<RangeInclusive<u16>> {
    ports(&text(LOCAL_PORTS)?).ok_or_else(|| lacking(LOCAL_PORTS, "two ports, the lower one first"))
}

fn ports(range: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = range.trim().split_once(char::is_whitespace)?;
    let ports = first.parse().ok()?..=last.trim().parse().ok()?;
    (!ports.is_empty()).then_some(ports)
}

/// The ports that may be chosen for connections: [`local_ports`] without those that the machine's owner keeps for other uses
/// (`ip_local_reserved_ports`), in order. Where nobody can say which those are, none is kept.
///
/// # Errors
/// As for [`local_ports`].
pub fn ports_to_choose() -> io::Result<Vec<RangeInclusive<u16>>> {
    let reserved = text(RESERVED_PORTS).unwrap_or_default();
    Ok(without(local_ports()?, &reserved))
}

/// A range of ports without a list of ports and ranges such as `8080,9148-9150`, in which the kernel keeps the order.
fn without(range: RangeInclusive<u16>, reserved: &str) -> Vec<RangeInclusive<u16>> {
    let (mut free, mut from, last) = (Vec::new(), u32::from(*range.start()), u32::from(*range.end()));
    for part in reserved.trim().split(',') {
        let (first, end) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(end)) = (first.parse::<u16>(), end.parse::<u16>()) else { continue };
        free.push(from..=u32::from(first).saturating_sub(1).min(last));
        from = from.max(u32::from(end) + 1);
    }
    free.push(from..=last);
    let free = free.into_iter().filter(|part| !part.is_empty());
    let free: Vec<_> = free.map(|part| *part.start() as u16..=*part.end() as u16).collect();
    assert!(free.iter().all(|part| range.contains(part.start()) && range.contains(part.end())), "what is left was there");
    assert!(free.is_sorted_by(|one, next| one.end() < next.start()), "no port is named twice");
    free
}

fn udp4(snmp: &str) -> Option<UdpErrors> {
    udp_errors(|name| in_table(snmp, "Udp:", name))
}

fn udp6(snmp6: &str) -> Option<UdpErrors> {
    if snmp6.is_empty() {
        return Some(UdpErrors::default());
    }
    udp_errors(|name| in_list(snmp6, "Udp6", name))
}

fn udp_errors(counter: impl Fn(&str) -> Option<u64>) -> Option<UdpErrors> {
    Some(UdpErrors {
        receive_errors: counter("InErrors")?,
        receive_buffer_errors: counter("RcvbufErrors")?,
        send_buffer_errors: counter("SndbufErrors")?,
    })
}

/// A counter where each group has a line of names and then a line of numbers.
fn in_table(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let names = lines.next()?.split_whitespace();
    let mut named = names.zip(lines.next()?.split_whitespace());
    named.find(|(column, _)| *column == name)?.1.parse().ok()
}

/// A counter where each has a line of its own.
fn in_list(text: &str, group: &str, name: &str) -> Option<u64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(group)?.split_once(char::is_whitespace));
    lines.into_iter().find(|(counter, _)| *counter == name)?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::sockets;
    use corelane_os::testing::listening;
    use corelane_seam::StreamOptions;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    const TABLE: &str = "Tcp: MaxConn RetransSegs InErrs\nTcp: -1 7 8\n\
                         Udp: InDatagrams InErrors RcvbufErrors SndbufErrors New\nUdp: 1 22 3 4 5\n\
                         UdpLite: InErrors RcvbufErrors SndbufErrors\nUdpLite: 9 9 9\n";

    #[test]
    fn counters_are_found_by_name_in_their_group() {
        let errors = UdpErrors { receive_errors: 22, receive_buffer_errors: 3, send_buffer_errors: 4 };
        assert_eq!(udp4(TABLE), Some(errors));
        assert_eq!(in_table(TABLE, "Tcp:", "RetransSegs"), Some(7));
        assert_eq!(in_table(TABLE, "Tcp:", "MaxConn"), None, "not a count");
        assert_eq!(in_table(TABLE, "Tcp:", "ListenDrops"), None);
        let list = "Ip6InReceives 1\nUdp6InErrors   \t22\nUdp6RcvbufErrors 3\nUdp6SndbufErrors 4\nUdpLite6InErrors 9\n";
        assert_eq!(udp6(list), Some(errors));
        assert_eq!(udp6(""), Some(UdpErrors::default()));
    }

    #[test]
    fn garbage_has_no_counters() {
        for garbage in ["", "Udp:", "Udp: InErrors", "Udp: InErrors\nUdp:", "Udp: InErrors\nUdp: x\n", "\u{0}\n\n"] {
            assert_eq!(in_table(garbage, "Udp:", "InErrors"), None, "{garbage:?}");
        }
        for garbage in ["Udp6InErrors", "Udp6InErrors x", "Udp6", "\n"] {
            assert_eq!(udp6(garbage), None, "{garbage:?}");
        }
    }

    #[test]
    fn a_port_range_has_two_ports_in_order() {
        assert_eq!(ports("32768\t60999\n"), Some(32_768..=60_999));
        assert_eq!(ports("7 7"), Some(7..=7));
        for garbage in ["", "1", "1 x", "9 8", "1 70000", "-1 5"] {
            assert_eq!(ports(garbage), None, "{garbage:?}");
        }
        assert!(local_ports().unwrap().contains(&UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()));
    }

    #[test]
    fn reserved_ports_are_left_out() {
        let free = |reserved| without(100..=200, reserved);
        assert_eq!(free("\n"), [100..=200]);
        assert_eq!(free("150\n"), [100..=149, 151..=200]);
        assert_eq!(free("50,90-110,150-160,199-300,60000\n"), [111..=149, 161..=198]);
        assert_eq!(free("1-65535"), []);
        assert_eq!(without(1..=65_535, "0,65535"), [1..=65_534]);
        let whole: usize = ports_to_choose().unwrap().into_iter().map(Iterator::count).sum();
        assert!(whole > 0 && whole <= local_ports().unwrap().count());
    }

    #[test]
    fn a_full_receive_buffer_is_counted() {
        for (address, errors) in [("127.0.0.1:0", (|c| c.udp4) as fn(NetworkCounters) -> UdpErrors), ("[::1]:0", |c| c.udp6)] {
            let Ok(receiver) = UdpSocket::bind(address) else { continue };
            let sender = UdpSocket::bind(address).unwrap();
            let before = errors(network_counters().unwrap());
            // More than the default receive buffer holds, and than the kernel lets an administrator's default hold.
            let sends = (0..100_000).take_while(|_| {
                sender.send_to(&[0; 8_192], receiver.local_addr().unwrap()).unwrap();
                errors(network_counters().unwrap()).receive_buffer_errors == before.receive_buffer_errors
            });
            assert!(sends.count() < 100_000, "{address}");
            assert!(errors(network_counters().unwrap()).receive_errors > before.receive_errors);
        }
    }

    #[test]
    fn a_full_queue_of_a_listener_is_counted() {
        let before = network_counters().unwrap();
        let (_listener, address) = listening("127.0.0.1:0", StreamOptions::default());
        let client = |_| {
            let client = sockets::connecting(&address, None, &StreamOptions::default()).unwrap();
            sockets::connect(client.as_fd(), &address).unwrap();
            client
        };
        let clients: Vec<_> = (0..64).map(client).collect();
        let after = network_counters().unwrap();
        assert!(after.tcp_listen_overflows > before.tcp_listen_overflows, "{} clients and 8 places", clients.len());
        assert!(after.tcp_listen_drops > before.tcp_listen_drops);
    }
}
