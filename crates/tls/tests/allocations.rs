//! What rustls allocates for a record once a connection is warm: counted by an allocator around the system's, for the whole process, whose
//! client is rustls as well and so pays the same.
#![allow(missing_docs, clippy::unwrap_used)]

#[allow(dead_code, reason = "this program takes some of what the others do")]
#[path = "tls/authority.rs"]
mod authority;

use authority::Authority;
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use corelane_tls::Server;
use corelane_tls::rustls::crypto::ring;
use corelane_tls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const REQUESTS: usize = 2_000;
const BYTES: usize = 4 << 10;
/// Of one side: what it seals, and what it has opened.
const PER_ECHO: usize = 2;

struct Echo;

impl StreamService for Echo {
    type Talk = Silent;
    type Session = ();
    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}
    fn receive(&mut self, _: &mut Cx<'_>, (): &mut (), input: &mut Input, output: &mut Output) -> Next {
        output.forward(input.take_all());
        Next::Continue
    }
}

#[test]
fn a_record_is_allocated_once_each_way() {
    let authority = Authority::new("allocations");
    let lanes = Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", |_| Echo).unwrap();
    let running = Server::new([authority.sign("first", &["one.test"], |_| {})]).before(lanes).unwrap().start().unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(authority.issuer.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_safe_default_protocol_versions();
    let config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    let tls = ClientConnection::new(Arc::new(config), "one.test".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(tls, TcpStream::connect(running.address()).unwrap());
    let mut echo = |count: usize| {
        let (said, mut heard) = ([7; BYTES], [0; BYTES]);
        for _ in 0..count {
            stream.write_all(&said).unwrap();
            stream.read_exact(&mut heard).unwrap();
            assert_eq!(said, heard);
        }
    };
    echo(100);
    let region = Region::new(GLOBAL);
    echo(REQUESTS);
    let allocations = region.change().allocations;
    println!("{allocations} allocations for {REQUESTS} echoes, both sides");
    // An answer may come in two records now and then.
    assert!(allocations <= 2 * PER_ECHO * REQUESTS + REQUESTS / 10, "{allocations}");
    drop(stream);
    running.drain();
    running.wait().unwrap();
}
