//! The examples, each asked by a client of the standard library.
#![allow(missing_docs, clippy::unwrap_used)]

#[allow(dead_code)] // its main
#[path = "../examples/files.rs"]
mod files;
#[allow(dead_code)] // its main
#[path = "../examples/held.rs"]
mod held;
#[allow(dead_code)] // its main
#[path = "../examples/later.rs"]
mod later;
#[allow(dead_code)] // its main
#[path = "../examples/proxy.rs"]
mod proxy;
#[allow(dead_code)] // its main
#[path = "../examples/shop.rs"]
mod shop;

use corelane::lanes::Running;
use corelane::{Lanes, StreamService};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

/// After this a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn served<S: StreamService>(build: impl Fn(usize) -> S + Send + Sync + 'static) -> Running {
    Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", build).unwrap().start().unwrap()
}

fn connected(running: &Running) -> TcpStream {
    let stream = TcpStream::connect(running.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// All that comes after `text`, whose end is the end.
fn asked(running: &Running, text: &[u8]) -> Vec<u8> {
    let mut stream = connected(running);
    stream.write_all(text).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    answer
}

/// A directory of its own, which ends with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("corelane-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn held_answers_keep_their_order() {
    let running = served(|_| held::Squares::default());
    let numbers: Vec<u64> = (0..500).map(|number| number * 7_919).collect();
    let lines: String = numbers.iter().map(|number| format!("{number}\n")).collect();
    let squares: String = numbers.iter().map(|number| format!("{}\n", number * number)).collect();
    assert_eq!(String::from_utf8(asked(&running, lines.as_bytes())).unwrap(), squares);
}

#[test]
fn files_are_sent_as_they_are_and_nothing_else_is() {
    let directory = Directory::new("files");
    let content: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(directory.0.join("numbers"), &content).unwrap();
    std::fs::write(directory.0.join("nothing"), []).unwrap();
    let path = directory.0.clone();
    let running = served(move |_| files::Files::new(&path));
    let answer = asked(&running, b"nothing\nnumbers\nnone\n../secret\n/etc/passwd\n.\n");
    let mut expected = b"0\n1200000\n".to_vec();
    expected.extend(&content);
    expected.extend(b"no\nno\nno\nno\n");
    assert!(answer == expected, "{} bytes, not {}", answer.len(), expected.len());
}

#[test]
fn no_name_leads_out_of_the_directory_of_the_files() {
    let around = Directory::new("files-around");
    let served_alone = around.0.join("served");
    std::fs::create_dir_all(served_alone.join("below")).unwrap();
    std::fs::write(around.0.join("secret"), "secret").unwrap();
    std::fs::write(served_alone.join("below/known"), "known").unwrap();
    symlink("below/known", served_alone.join("inside")).unwrap();
    symlink("../secret", served_alone.join("leaves")).unwrap();
    symlink(around.0.join("secret"), served_alone.join("leaves-from-the-root")).unwrap();
    symlink("..", served_alone.join("below/up")).unwrap();
    let running = served(move |_| files::Files::new(&served_alone));
    let known = b"below/known\ninside\nbelow/../inside\nbelow/up/inside\n";
    assert_eq!(asked(&running, known), b"5\nknown5\nknown5\nknown5\nknown");
    let out = b"/../\n/../secret\n../secret\nbelow/../../secret\nbelow/up/../secret\nleaves\nleaves-from-the-root\n\n";
    assert_eq!(asked(&running, out), b"no\n".repeat(8));
}

#[test]
fn a_proxy_passes_everything_on_and_ends_where_nobody_is() {
    let behind = served(|_| held::Squares::default());
    let to = behind.address().clone();
    let running = served(move |_| proxy::Proxy::new(to.clone()));
    assert_eq!(asked(&running, b"2\n3\n"), b"4\n9\n");
    drop(behind);
    let mut stream = connected(&running);
    let _ = stream.write_all(b"2\n");
    assert!(!matches!(stream.read(&mut [0; 1]), Ok(1..)), "nobody answers");
}

#[test]
fn datagrams_are_answered_when_they_were_to_be_and_before_a_drain_ends() {
    let lanes = Lanes::per_core().lanes(1).serve_datagrams("udp://127.0.0.1:0", |_| later::Later::default());
    let running = lanes.unwrap().start().unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(running.address()).unwrap();
    let answer = || {
        let mut bytes = [0; 16];
        let length = client.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    for text in ["40", "no number", "0", "20"] {
        client.send(text.as_bytes()).unwrap();
    }
    assert_eq!([answer(), answer(), answer()], ["0", "20", "40"]);
    client.send(b"300").unwrap();
    // Whoever was answered at once came behind it.
    client.send(b"0").unwrap();
    assert_eq!(answer(), "0");
    running.drain();
    running.wait().unwrap();
    assert_eq!(answer(), "300", "a drain waits for what is owed");
}

#[test]
fn a_shop_counts_what_it_sells() {
    let running = served(|_| shop::Shop::new(3, 10));
    let mut stream = connected(&running);
    let mut answers = BufReader::new(stream.try_clone().unwrap()).lines();
    stream.write_all(b"4\n").unwrap();
    assert_eq!(answers.next().unwrap().unwrap(), "12");
    let reader = corelane::admin::watch::Reader::of(running.counters()).unwrap();
    assert_eq!(reader.snapshot(0).services[0].values.own("apples_sold"), Some(4));
}
