//! Connections behind TLS that move between lanes.

use crate::tls::authority::Authority;
use crate::tls::server::end;
use corelane::lanes::Running;
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService};
use corelane_tls::Server;
use std::any::Any;
use std::io::{Read, Write};
use std::sync::mpsc::channel;

/// Answers each line with its lane, and then the line.
struct Lines;

impl StreamService for Lines {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx<'_>, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx<'_>, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while let Some(end) = input.position(b'\n') {
            output.write(&[b'0' + cx.lane() as u8]).unwrap();
            output.forward(input.take(end + 1));
        }
        Next::Continue
    }

    fn pack(&mut self, _cx: &mut Cx<'_>, _session: ()) -> Result<Box<dyn Any + Send>, ()> {
        Ok(Box::new(()))
    }

    fn unpack(&mut self, _cx: &mut Cx<'_>, packed: Box<dyn Any + Send>) -> Result<(), Box<dyn Any + Send>> {
        packed.downcast().map(|_: Box<()>| ())
    }
}

/// Sends its connections from a lane to the other; returns how many have stayed.
fn move_away(running: &Running, from: usize) -> usize {
    let (told, stays) = channel();
    running.moves().idle((from, 1 - from), |_| true, move |_, why| told.send(why).unwrap()).unwrap();
    stays.try_iter().count()
}

#[test]
fn a_session_of_tls_goes_on_where_its_connection_goes() {
    let authority = Authority::new("moving");
    let lanes = Lanes::per_core().lanes(2).serve("tcp://127.0.0.1:0", |_| Lines).unwrap();
    let server = Server::new([authority.sign("first", &["one.test"], |_| {})]);
    let running = server.before(lanes).unwrap().start().unwrap();
    let mut stream = authority.client().connect(&running, "one.test");
    let mut ask = |bytes: usize| {
        // Several records, both ways.
        let line = [&vec![b'x'; bytes][..], b"\n"].concat();
        stream.write_all(&line).unwrap();
        let mut answer = vec![0; line.len() + 1];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[1..], line);
        usize::from(answer[0] - b'0')
    };
    let mut lane = ask(1);
    for round in 0..10 {
        // It may have tickets to send still, or an answer that has just left.
        while move_away(&running, lane) > 0 {}
        lane = 1 - lane;
        assert_eq!(ask(1 + round * 9_000), lane);
    }
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the last lane takes leave");
    end(running);
}
