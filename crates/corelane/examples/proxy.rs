//! A proxy: passes what it is told on to `127.0.0.1:7008` and back, without a copy. Who reads slowly slows down who writes fast, and an end passes
//! through.
use corelane::service::{Address, ConnectionId, Ending};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Result, Silent, StreamService};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7008);

/// Passes everything on to one place.
pub struct Proxy {
    to: Address,
}

impl Proxy {
    /// A proxy to this place.
    pub fn new(to: impl Into<Address>) -> Self {
        Self { to: to.into() }
    }
}

/// One end of a pair, which knows the other.
pub enum End {
    /// A client, and its way to the server, if there is one yet.
    Client(Option<ConnectionId>),
    /// The way to the server for this client.
    Server(ConnectionId),
}

impl StreamService for Proxy {
    type Talk = Silent;
    type Session = End;

    fn open(&mut self, cx: &mut Cx, _peer: &Peer) -> End {
        let client = cx.id();
        let server = cx.connect(self.to.clone(), End::Server(client)).ok();
        match server {
            Some(server) => cx.pair(client, server),
            None => cx.abort(client),
        }
        End::Client(server)
    }

    fn receive(&mut self, cx: &mut Cx, session: &mut End, input: &mut Input, _output: &mut Output) -> Next {
        let (End::Client(Some(other)) | End::Server(other)) = *session else { return Next::Abort };
        match cx.connection(other) {
            Some(output) => output.forward(input.take_all()),
            None if input.is_finished() => {}
            None => return Next::Abort,
        }
        Next::Continue
    }

    fn closed(&mut self, cx: &mut Cx, session: End, ending: Ending) {
        // A server that cannot be reached takes its client with it.
        if let (End::Server(client), Ending::Error) = (session, ending) {
            cx.abort(client);
        }
    }
}

fn main() -> Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:7007", |_lane| Proxy::new(SERVER))?.run()
}
