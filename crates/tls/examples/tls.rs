//! The echo service behind TLS: `tls CERTIFICATES KEY`, both PEM. It says first by which name and protocol it was asked for; what stands between it and
//! the socket it does not know.
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use corelane_tls::{Pem, Server};

/// Says by which name and protocol it was asked for, then what it is told.
pub struct Echo;

impl StreamService for Echo {
    type Talk = Silent;
    /// What it says first, as long as it has not.
    type Session = Option<String>;

    fn open(&mut self, _cx: &mut Cx, peer: &Peer) -> Option<String> {
        let learned = peer.learned.as_deref()?;
        let protocol = learned.protocol.as_deref().map(String::from_utf8_lossy);
        let name = learned.server_name.as_deref().unwrap_or("nobody");
        Some(format!("{name} by {}\n", protocol.as_deref().unwrap_or("no protocol")))
    }

    fn receive(&mut self, _cx: &mut Cx, greeting: &mut Option<String>, input: &mut Input, output: &mut Output) -> Next {
        if let Some(text) = greeting.take()
            && output.write(text.as_bytes()).is_err()
        {
            return Next::Abort;
        }
        output.forward(input.take_all());
        Next::Continue
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(certificates), Some(key)) = (arguments.next(), arguments.next()) else {
        return Err("usage: tls CERTIFICATES KEY (PEM files)".into());
    };
    let server = Server::new([Pem::new(certificates, key)]).protocols(&[b"echo/1"]);
    server.before(Lanes::per_core().serve("tcp://127.0.0.1:60443", |_lane| Echo)?)?.run()?;
    Ok(())
}
