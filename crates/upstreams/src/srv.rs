//! SRV records (RFC 2782), asked for by UDP, and by TCP where the answer is cut. For helper threads: it waits, for [`PATIENCE`] at the most.
//!
//! Nothing of an answer is believed before it is that of the question: it comes from the server that was asked, with the same number, name and type. All of it is bounded.

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{Error, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How long all servers together are waited for.
const PATIENCE: Duration = Duration::from_secs(6);

/// How long one is waited for.
const PATIENCE_FOR_ONE: Duration = Duration::from_secs(2);

/// The longest answer by UDP: there are 512 bytes at the most where nothing else was agreed on.
const DATAGRAM_BYTES_MAX: usize = 4 << 10;

/// When the question is sent again to one that has not answered: datagrams are lost.
const AGAIN: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

/// The most servers that are asked, as of any resolver.
const SERVERS_MAX: usize = 3;

/// The most bytes of the file that names them.
const RESOLVERS_BYTES_MAX: u64 = 64 << 10;

/// The most names that stand for one another in an answer.
const ALIASES_MAX: usize = 8;

/// For how long an answer is good, at the least and at the most.
const TTL: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(300));

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    /// Those of the least number that can be had are used. Behind [`ask`] it is its rank among all of the name, from 0 on: beside others the best of a name stand as those that have no priority.
    pub priority: u16,
    /// Its part beside others of the same priority.
    pub weight: u16,
    /// Where it is.
    pub host: String,
    /// At which port.
    pub port: u16,
}

/// The records of a name, and for how long they are good.
///
/// # Errors
/// Why there are none.
pub fn ask(name: &str, server: Option<SocketAddr>) -> Result<(Vec<Record>, Duration), String> {
    ask_within(name, server, PATIENCE, PATIENCE_FOR_ONE)
}

/// The same with this patience for all servers together, and for one.
fn ask_within(
    name: &str,
    server: Option<SocketAddr>,
    patience: Duration,
    for_one: Duration,
) -> Result<(Vec<Record>, Duration), String> {
    let servers = server.map_or_else(of_system, |server| vec![server]);
    let (due, mut why) = (Instant::now() + patience, "no name server is known: see /etc/resolv.conf".to_owned());
    for server in servers {
        let until = due.min(Instant::now() + for_one);
        match ask_one(name, server, until) {
            Ok(Said::Records(records, ttl)) => return Ok((records, ttl)),
            Ok(Said::Nothing(words)) => return Err(words),
            Err(error) => why = format!("name server {server}: {}", words(&error)),
        }
    }
    Err(why)
}

/// What a server has said for good.
enum Said {
    Records(Vec<Record>, Duration),
    /// There is no such thing, or nothing is to be had there.
    Nothing(String),
}

fn words(error: &Error) -> String {
    if is_late(error) { format!("it has not answered within {PATIENCE_FOR_ONE:?}") } else { error.to_string() }
}

/// The name servers of the system (resolv.conf(5)).
fn of_system() -> Vec<SocketAddr> {
    let mut text = String::new();
    let read = File::open("/etc/resolv.conf").and_then(|file| file.take(RESOLVERS_BYTES_MAX).read_to_string(&mut text));
    match read.map(|_| servers(&text)).unwrap_or_default() {
        // As the system's own resolver does.
        none if none.is_empty() => vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53)],
        servers => servers,
    }
}

/// The name servers of such a file: each stands behind its word, and words of whoever wrote that behind `#` or `;`.
fn servers(text: &str) -> Vec<SocketAddr> {
    let server = |line: &str| {
        let words = line.split(['#', ';']).next()?.strip_prefix("nameserver")?;
        words.starts_with([' ', '\t']).then(|| words.split_whitespace().next()?.parse::<IpAddr>().ok())?
    };
    text.lines().filter_map(server).take(SERVERS_MAX).map(|ip| SocketAddr::new(ip, 53)).collect()
}

fn ask_one(name: &str, server: SocketAddr, until: Instant) -> Result<Said, Error> {
    // A new socket has a port of the kernel's choice: nobody who does not see the question guesses both numbers.
    let (number, begun) = (RandomState::new().hash_one(until) as u16, Instant::now());
    let question = question(name, number)?;
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.send(&question)?;
    let mut again = AGAIN.iter().map(|after| begun + *after);
    let mut next = again.next();
    let mut bytes = [0; DATAGRAM_BYTES_MAX];
    loop {
        let wait = next.map_or(until, |next| next.min(until));
        let received = left(wait).and_then(|left| {
            socket.set_read_timeout(Some(left))?;
            socket.recv(&mut bytes)
        });
        let read = match received {
            Err(error) if is_late(&error) && wait < until => {
                socket.send(&question)?;
                next = again.next();
                continue;
            }
            received => received?,
        };
        // More has come than an answer may have.
        if read == DATAGRAM_BYTES_MAX {
            continue;
        }
        // What is no answer to this question is passed over: somebody else may have sent it.
        match understood(name, number, &bytes[..read]) {
            Some(Ok(said)) => return Ok(said),
            Some(Err(Faulty::Cut)) => return ask_by_stream(name, server, &question, until),
            Some(Err(Faulty::Refused(words))) => return Err(Error::other(words)),
            None => {}
        }
    }
}

fn ask_by_stream(name: &str, server: SocketAddr, question: &[u8], until: Instant) -> Result<Said, Error> {
    let mut stream = TcpStream::connect_timeout(&server, left(until)?)?;
    stream.set_write_timeout(Some(left(until)?))?;
    // reason: a question has a name, and that 255 bytes.
    let length = u16::try_from(question.len()).expect("a question is short").to_be_bytes();
    stream.write_all(&[&length, question].concat())?;
    let mut length = [0; 2];
    read_whole(&mut stream, &mut length, until)?;
    let mut bytes = vec![0; u16::from_be_bytes(length).into()];
    read_whole(&mut stream, &mut bytes, until)?;
    match understood(name, u16::from_be_bytes([question[0], question[1]]), &bytes) {
        Some(Ok(said)) => Ok(said),
        Some(Err(Faulty::Refused(words))) => Err(Error::other(words)),
        Some(Err(Faulty::Cut)) | None => Err(Error::other("its answer cannot be read")),
    }
}

/// Whether an error says that nothing has come in time.
fn is_late(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Reads all of it until then, however slowly it comes.
fn read_whole(stream: &mut TcpStream, mut bytes: &mut [u8], until: Instant) -> Result<(), Error> {
    while !bytes.is_empty() {
        stream.set_read_timeout(Some(left(until)?))?;
        match stream.read(bytes)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => bytes = &mut bytes[read..],
        }
    }
    Ok(())
}

/// The time that is left.
fn left(until: Instant) -> Result<Duration, Error> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn question(name: &str, number: u16) -> Result<Vec<u8>, Error> {
    let mut packet = Packet::new_query(number);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(|error| Error::other(error.to_string()))?;
    packet.questions.push(Question::new(name, QTYPE::TYPE(TYPE::SRV), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().map_err(|error| Error::other(error.to_string()))
}

/// What is wrong with an answer.
enum Faulty {
    /// The rest of it is to be had by TCP.
    Cut,
    /// The server cannot, or does not, answer.
    Refused(String),
}

/// What an answer says; none if it is none to this question.
fn understood(name: &str, number: u16, bytes: &[u8]) -> Option<Result<Said, Faulty>> {
    let packet = Packet::parse(bytes).ok()?;
    let asked = packet.questions.first()?;
    let is_same = packet.id() == number
        && packet.has_flags(PacketFlag::RESPONSE)
        && packet.questions.len() == 1
        && asked.qtype == QTYPE::TYPE(TYPE::SRV)
        && same(&asked.qname.to_string(), name);
    if !is_same {
        return None;
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return Some(Err(Faulty::Cut));
    }
    Some(match packet.rcode() {
        RCODE::NoError => records(name, &packet),
        RCODE::NameError => Ok(Said::Nothing("there is no such name".to_owned())),
        code => Err(Faulty::Refused(format!("it answers {code:?}"))),
    })
}

fn same(one: &str, other: &str) -> bool {
    one.trim_end_matches('.').eq_ignore_ascii_case(other.trim_end_matches('.'))
}

/// The records of the name, or of the name that it stands for.
fn records(name: &str, packet: &Packet<'_>) -> Result<Said, Faulty> {
    let (mut name, mut ttl) = (name.to_owned(), u32::MAX);
    for _ in 0..=ALIASES_MAX {
        let of_name = packet.answers.iter().filter(|answer| same(&answer.name.to_string(), &name));
        let (mut found, mut alias) = (Vec::new(), None);
        for answer in of_name {
            match &answer.rdata {
                RData::SRV(srv) => {
                    ttl = ttl.min(answer.ttl);
                    let host = srv.target.to_string().trim_end_matches('.').to_ascii_lowercase();
                    found.push(Record { priority: srv.priority, weight: srv.weight, host, port: srv.port });
                }
                RData::CNAME(other) => {
                    ttl = ttl.min(answer.ttl);
                    alias = Some(other.0.to_string());
                }
                _ => {}
            }
        }
        match (found.is_empty(), alias) {
            (false, _) => return Ok(chosen(found, ttl)),
            (true, Some(alias)) => name = alias,
            (true, None) => return Ok(Said::Nothing("it has no SRV records".to_owned())),
        }
    }
    Err(Faulty::Refused(format!("more than {ALIASES_MAX} names stand for one another")))
}

/// Whether it may name a host: a label has any bytes, and others would mean something else to those who read upstreams.
fn is_host(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// Numbers the priorities of what is sorted by them.
fn rank(found: &mut [Record]) {
    let mut known = BTreeSet::new();
    for record in found {
        known.insert(record.priority);
        // No more are listed than have numbers.
        record.priority = (known.len() - 1) as u16;
    }
}

/// As many as there may be, the best first.
fn chosen(mut found: Vec<Record>, ttl: u32) -> Said {
    // A single record with the root for its host says that the service is decidedly not there (RFC 2782).
    found.retain(|record| is_host(&record.host) && record.port != 0);
    found.sort();
    let mut known = BTreeSet::new();
    found.retain(|record| known.insert((record.host.clone(), record.port)));
    found.truncate(crate::source::LISTED_MAX);
    if found.is_empty() {
        return Said::Nothing("its records say that the service is not there".to_owned());
    }
    // Weights go up to 256 here: greater ones are made smaller alike.
    let most = found.iter().map(|record| record.weight).max().unwrap_or(0).max(crate::targets::WEIGHT_MAX);
    for record in &mut found {
        let weight = u32::from(record.weight) * u32::from(crate::targets::WEIGHT_MAX) / u32::from(most);
        record.weight = (weight as u16).max(1);
    }
    rank(&mut found);
    Said::Records(found, Duration::from_secs(ttl.into()).clamp(TTL.0, TTL.1))
}

#[cfg(test)]
mod tests;
