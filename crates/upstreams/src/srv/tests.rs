//! A name server that says the truth, or lies, or says nothing.

use super::*;
use simple_dns::ResourceRecord;
use simple_dns::rdata::{CNAME, SRV};
use std::io;
use std::net::TcpListener;
use std::thread::{JoinHandle, spawn};

/// A record as a server has it: name, priority, weight, port and host, or the name that it stands for.
enum Has {
    Srv(&'static str, u16, u16, u16, &'static str),
    Alias(&'static str, &'static str),
}

/// An answer to a question.
fn answer(question: &[u8], has: &[Has], flags: PacketFlag) -> Vec<u8> {
    let asked = Packet::parse(question).unwrap();
    let mut reply = Packet::new_reply(asked.id());
    reply.set_flags(flags);
    reply.questions = asked.questions.clone();
    for one in has {
        let (name, rdata) = match one {
            Has::Srv(name, priority, weight, port, host) => {
                let target = Name::new(host).unwrap();
                (name, RData::SRV(SRV { priority: *priority, weight: *weight, port: *port, target }))
            }
            Has::Alias(name, other) => (name, RData::CNAME(CNAME(Name::new(other).unwrap()))),
        };
        reply.answers.push(ResourceRecord::new(Name::new(name).unwrap(), CLASS::IN, 7, rdata));
    }
    reply.build_bytes_vec().unwrap()
}

/// What a server says to a question.
type Says = fn(&[u8]) -> Vec<u8>;

/// A port of UDP, and the same of TCP: one that somebody else has there already is no use.
fn both() -> io::Result<(UdpSocket, TcpListener)> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let listener = TcpListener::bind(socket.local_addr()?)?;
    Ok((socket, listener))
}

/// Answers one question by UDP with these datagrams, and one by TCP with these bytes if there are some.
fn server(datagrams: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static, stream: Option<Says>) -> (SocketAddr, JoinHandle<()>) {
    let (socket, listener) = std::iter::repeat_with(both).take(100).find_map(Result::ok).unwrap();
    let at = socket.local_addr().unwrap();
    let listener = stream.map(|_| listener);
    let body = move || {
        let mut bytes = [0; 512];
        let (read, from) = socket.recv_from(&mut bytes).unwrap();
        datagrams(&bytes[..read]).into_iter().for_each(|datagram| assert!(socket.send_to(&datagram, from).is_ok()));
        let Some((listener, stream)) = listener.zip(stream) else { return };
        let (mut client, _) = listener.accept().unwrap();
        let mut asked = vec![0; read + 2];
        client.read_exact(&mut asked).unwrap();
        assert_eq!(asked[2..], bytes[..read], "the same question");
        // A client may have seen enough before the end.
        let _ = client.write_all(&stream(&asked[2..]));
    };
    (at, spawn(body))
}

/// A busy machine may take longer than the product waits, which one test alone shows.
fn ask(name: &str, server: Option<SocketAddr>) -> Result<(Vec<Record>, Duration), String> {
    const LONG: Duration = Duration::from_secs(60);
    ask_within(name, server, LONG, LONG)
}

fn found(answers: impl Fn(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Result<Vec<Record>, String> {
    let (at, server) = server(answers, None);
    let found = ask("_http._tcp.a.test", Some(at)).map(|(records, ttl)| {
        assert_eq!(ttl, Duration::from_secs(7));
        records
    });
    server.join().unwrap();
    found
}

const NAME: &str = "_http._tcp.a.test";

fn record(priority: u16, weight: u16, host: &str, port: u16) -> Record {
    Record { priority, weight, host: host.to_owned(), port }
}

#[test]
fn records_are_found_by_priority_and_weight() {
    let has = |question: &[u8]| {
        let all = [
            Has::Srv(NAME, 20, 0, 82, "c.test"),
            Has::Srv("_HTTP._tcp.A.test", 10, 1_024, 81, "B.test"),
            Has::Srv(NAME, 10, 256, 80, "a.test"),
            Has::Srv("other.test", 1, 1, 1, "evil.test"),
        ];
        vec![answer(question, &all, PacketFlag::RESPONSE)]
    };
    // Priorities are ranks, so that the best ones stand beside upstreams without any.
    let expected = [record(0, 64, "a.test", 80), record(0, 256, "b.test", 81), record(1, 1, "c.test", 82)];
    assert_eq!(found(has), Ok(expected.to_vec()));
    let aliased = |question: &[u8]| {
        vec![answer(question, &[Has::Alias(NAME, "b.test"), Has::Srv("b.test", 0, 0, 1, "c.test")], PacketFlag::RESPONSE)]
    };
    assert_eq!(found(aliased), Ok(vec![record(0, 1, "c.test", 1)]));
}

#[test]
fn lies_are_passed_over_and_the_truth_behind_them_counts() {
    let lies = |question: &[u8]| {
        let truth = answer(question, &[Has::Srv(NAME, 0, 0, 1, "truth.test")], PacketFlag::RESPONSE);
        let lie = answer(question, &[Has::Srv(NAME, 0, 0, 1, "lie.test")], PacketFlag::RESPONSE);
        let mut wrong_number = lie.clone();
        wrong_number[0] ^= 1;
        let mut no_answer = lie.clone();
        no_answer[2] &= 0x7f;
        let other_name = answer(
            &super::question("b.test", u16::from_be_bytes([question[0], question[1]])).unwrap(),
            &[],
            PacketFlag::RESPONSE,
        );
        // A name that points to itself, and one to the end of all bytes.
        let looped = [&lie[..12], &[0xc0, 12, 0, 33, 0, 1]].concat();
        let far = [&lie[..12], &[0xff, 0xff, 0, 33, 0, 1]].concat();
        // Longer than is read at once.
        let long = [&lie[..], &vec![0; 60_000][..]].concat();
        let cut = (1..lie.len()).step_by(7).map(|length| lie[..length].to_vec());
        [wrong_number, no_answer, other_name, looped, far, long].into_iter().chain(cut).chain([truth]).collect()
    };
    assert_eq!(found(lies), Ok(vec![record(0, 1, "truth.test", 1)]));
}

#[test]
fn what_is_not_there_is_told() {
    for (has, said) in [
        (vec![], "it has no SRV records"),
        (vec![Has::Srv(NAME, 0, 0, 0, ".")], "the service is not there"),
        (vec![Has::Alias(NAME, "b.test"), Has::Alias("b.test", NAME)], "more than 8 names stand for one another"),
    ] {
        let why = found(move |question| vec![answer(question, &has, PacketFlag::RESPONSE)]).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
    let refused = |code: u8| {
        move |question: &[u8]| {
            let mut answer = answer(question, &[], PacketFlag::RESPONSE);
            answer[3] = answer[3] & 0xf0 | code;
            vec![answer]
        }
    };
    assert!(found(refused(3)).unwrap_err().contains("there is no such name"));
    assert!(found(refused(2)).unwrap_err().contains("it answers ServerFailure"));
}

#[test]
fn one_that_never_answers_is_given_up() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert!(super::ask(NAME, silent.local_addr().ok()).unwrap_err().contains("it has not answered within 2s"));
    assert!(super::ask(NAME, Some(([127, 0, 0, 1], 1).into())).unwrap_err().contains("refused"), "a port at which nobody is");
}

#[test]
fn a_question_that_was_lost_is_sent_again() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let lossy = spawn(move || {
        let mut bytes = [0; 512];
        let asked = [(); 3].map(|()| {
            let (read, from) = socket.recv_from(&mut bytes).unwrap();
            (bytes[..read].to_vec(), from)
        });
        assert!(asked.iter().all(|one| *one == asked[0]), "the same question from the same port");
        let truth = answer(&asked[2].0, &[Has::Srv(NAME, 7, 0, 1, "a.test")], PacketFlag::RESPONSE);
        socket.send_to(&truth, asked[2].1).unwrap();
    });
    assert_eq!(ask(NAME, Some(at)).map(|(records, _)| records), Ok(vec![record(0, 1, "a.test", 1)]));
    lossy.join().unwrap();
}

#[test]
fn servers_are_read_as_resolvers_read_them() {
    let text = "# nameserver 10.0.0.9\nsearch a.test\nnameserver 10.0.0.1 # of the house\nnameserver\t::1; of this host\n\
                nameserver10.0.0.8\n nameserver 10.0.0.7\nnameserver a.test\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n";
    let expected = ["10.0.0.1:53", "[::1]:53", "10.0.0.3:53"].map(|text| text.parse::<SocketAddr>().unwrap());
    assert_eq!(servers(text), expected);
}

#[test]
fn a_long_answer_comes_by_stream() {
    let cut = |question: &[u8]| vec![answer(question, &[], PacketFlag::RESPONSE | PacketFlag::TRUNCATION)];
    const HOSTS: [&str; 3] = ["a.test", "b.test", "c.test"];
    let longest: Says = |question| {
        // As many as 65,535 bytes have room for, of which no more are kept than there may be.
        let all: Vec<Has> = (1..=1_300).map(|port| Has::Srv(NAME, 0, 0, port, HOSTS[usize::from(port) % 3])).collect();
        let mut bytes = answer(question, &all, PacketFlag::RESPONSE);
        assert!((50_000..=65_535).contains(&bytes.len()), "{} bytes", bytes.len());
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        bytes.splice(0..0, length);
        bytes
    };
    let (at, task) = server(cut, Some(longest));
    assert_eq!(ask(NAME, Some(at)).unwrap().0.len(), crate::source::LISTED_MAX);
    task.join().unwrap();
    // Zeros, as many as the length can say; and an end before the length is reached.
    let zeros: Says = |_| [vec![0xff; 2], vec![0; 65_535]].concat();
    let short: Says = |question| [&[0xff, 0xff][..], question].concat();
    let cut_again: Says = |question| {
        let bytes = answer(question, &[], PacketFlag::RESPONSE | PacketFlag::TRUNCATION);
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], &bytes].concat()
    };
    for (wrong, said) in [(zeros, "cannot be read"), (short, "end"), (cut_again, "cannot be read")] {
        let (at, task) = server(cut, Some(wrong));
        let why = ask(NAME, Some(at)).unwrap_err();
        assert!(why.contains(said), "{why}");
        task.join().unwrap();
    }
}
