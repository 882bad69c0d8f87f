//! What a server is loaded with, and how the generator is told so.

use std::time::Duration;

use serde::{Serialize, Serializer};

/// The microseconds of a spin that no pause of a server outlasts.
pub const SPIN_US: u64 = 1_000_000;

/// What a server is loaded with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// What it is asked for.
    pub asks: Asks,
    /// How the requests travel.
    pub transport: Carrier,
    /// Bytes of one request as it travels; of an answer's content for [`Asks::Get`].
    pub bytes: usize,
    /// Connections, or sockets for datagrams.
    pub connections: usize,
    /// Requests in flight on each.
    pub depth: usize,
    /// Never sleep: then no answer waits for this side's CPU to wake.
    pub spin: bool,
}

/// What a server is asked for; the generator checks every answer in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Asks {
    /// To give back the bytes of the request.
    Echo,
    /// To answer procedure 0 of NFS version 3 (RFC 1813).
    Null(Split),
    /// To answer GET over HTTP/1.1 with so many bytes as [`Load::bytes`] says (RFC 9112).
    Get(Page),
}

/// Bytes of a fixed reply.
pub const REPLY_BYTES: usize = 8;
/// Bytes of hyper's hello.
pub const HELLO_BYTES: usize = 13;

/// What GET asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Page {
    /// A file, on connections that stay.
    File,
    /// A file, on a connection for each request.
    FileAnew,
    /// The same [`REPLY_BYTES`] each time.
    Reply,
    /// hyper's hello, [`HELLO_BYTES`] each time.
    Hello,
}

/// How records of calls are taken apart on their way (RFC 5531 section 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Not at all.
    Whole,
    /// Each into so many fragments.
    Fragments(usize),
    /// The stream of records into bytes, each with a send of its own.
    Bytes,
}

/// How requests travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// A stream; several requests may leave in one write.
    Tcp,
    /// The same behind TLS 1.3, each handshake a full one.
    Tls,
    /// Datagrams that the kernel sends one by one.
    UdpSingles,
    /// Datagrams in trains, as long as the depth allows, each one send with `UDP_SEGMENT`.
    UdpTrains,
}

/// How long things go on.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timing {
    /// Before the window; nothing of it counts.
    #[serde(serialize_with = "as_seconds")]
    pub warm_up: Duration,
    /// What is measured.
    #[serde(serialize_with = "as_seconds")]
    pub window: Duration,
}

fn as_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

impl Load {
    /// The name of the generator's workload.
    pub fn workload(&self) -> &'static str {
        match (self.asks, self.transport) {
            (Asks::Null(_), _) => "rpc",
            (Asks::Get(_), _) => "http",
            (Asks::Echo, Carrier::Tcp | Carrier::Tls) => "echo",
            (Asks::Echo, _) => "udp",
        }
    }

    /// The generator's options for it.
    pub fn options(&self) -> Vec<String> {
        let [bytes, connections, depth] = [self.bytes, self.connections, self.depth].map(|number| number.to_string());
        let mut options = match self.asks {
            Asks::Echo => words(["--size", &bytes]),
            Asks::Null(Split::Whole) => Vec::new(),
            Asks::Get(page) => page.options(&bytes),
            Asks::Null(Split::Fragments(count)) => words(["--split", &count.to_string()]),
            Asks::Null(Split::Bytes) => words(["--split", "bytes"]),
        };
        options.extend(words(["--connections", &connections, "--depth", &depth]));
        match self.transport {
            Carrier::UdpSingles => options.push("--singles".to_owned()),
            Carrier::Tls => options.extend(words(["--trust-anybody", "--no-resumption"])),
            Carrier::Tcp | Carrier::UdpTrains => {}
        }
        if self.spin {
            options.extend(words(["--spin", &format!("{SPIN_US}us")]));
        }
        options
    }
}

impl Asks {
    /// The service of Corelane that answers.
    pub fn service(self) -> &'static str {
        match self {
            Asks::Echo => "echo",
            Asks::Null(_) => "rpc",
            Asks::Get(_) => "http",
        }
    }
}

impl Page {
    fn options(self, bytes: &str) -> Vec<String> {
        let path = match self {
            Page::Reply => "/reply".to_owned(),
            Page::Hello => "/".to_owned(),
            Page::File | Page::FileAnew => format!("/{bytes}"),
        };
        let mut options = words(["--path", &path, "--expect", bytes]);
        if self == Page::FileAnew {
            options.extend(words(["--requests-per-connection", "1"]));
        }
        options
    }
}

impl Carrier {
    /// What stands before a server's address.
    pub fn protocol(self) -> &'static str {
        match self {
            Carrier::Tcp => "tcp",
            Carrier::Tls => "tls",
            Carrier::UdpSingles | Carrier::UdpTrains => "udp",
        }
    }
}

impl Timing {
    /// The generator's options for it.
    pub fn options(&self) -> Vec<String> {
        let [warm_up, window] = [self.warm_up, self.window].map(|length| format!("{}us", length.as_micros()));
        words(["--warmup", &warm_up, "--duration", &window])
    }
}

/// Owned words of a command line.
pub fn words<const N: usize>(all: [&str; N]) -> Vec<String> {
    all.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_told_to_the_generator() {
        let load = Load { asks: Asks::Echo, transport: Carrier::UdpSingles, bytes: 510, connections: 8, depth: 32, spin: true };
        let told = "--size 510 --connections 8 --depth 32 --singles --spin 1000000us";
        assert_eq!((load.workload(), load.options().join(" ").as_str()), ("udp", told));
        let load = Load { transport: Carrier::Tcp, spin: false, ..load };
        assert_eq!((load.workload(), load.options().join(" ").as_str()), ("echo", "--size 510 --connections 8 --depth 32"));
        let told = |split| Load { asks: Asks::Null(split), ..load }.options().join(" ");
        assert_eq!(told(Split::Whole), "--connections 8 --depth 32");
        assert_eq!(told(Split::Fragments(3)), "--split 3 --connections 8 --depth 32");
        assert_eq!(told(Split::Bytes), "--split bytes --connections 8 --depth 32");
        assert_eq!(Load { asks: Asks::Null(Split::Whole), ..load }.workload(), "rpc");
        let get = |page| Load { asks: Asks::Get(page), ..load }.options().join(" ");
        assert_eq!(get(Page::Reply), "--path /reply --expect 510 --connections 8 --depth 32");
        assert_eq!(get(Page::FileAnew), "--path /510 --expect 510 --requests-per-connection 1 --connections 8 --depth 32");
        let secure = Load { asks: Asks::Get(Page::File), transport: Carrier::Tls, ..load }.options().join(" ");
        assert_eq!(secure, "--path /510 --expect 510 --connections 8 --depth 32 --trust-anybody --no-resumption");
        let timing = Timing { warm_up: Duration::from_millis(200), window: Duration::from_secs_f64(0.3) };
        assert_eq!(timing.options().join(" "), "--warmup 200000us --duration 300000us");
    }
}
