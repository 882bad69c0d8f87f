//! A program as a service manager starts it. It serves at the sockets of a socket unit, shows what it counts at `/metrics`, says when it is ready, and drains at
//! SIGTERM. Each line is answered with its length.
use corelane::lanes::{self, Signals};
use corelane::service::{Declaration, OwnCounter};
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Silent, StreamService, counters};
use corelane_metrics::{Listen, Metrics};
use sd_notify::NotifyState;
use std::error::Error;

counters! {
    /// What the service counts.
    pub enum Heard {
        Lines "lines_heard" Counter "lines" "Lines that were answered.";
    }
}

/// Says how long lines are.
pub struct Lengths;

impl StreamService for Lengths {
    type Talk = Silent;
    type Session = ();

    const COUNTERS: &'static [Declaration] = Heard::DECLARED;

    fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}

    fn receive(&mut self, cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while output.ask_room()
            && let Some(end) = input.position(b'\n')
        {
            if writeln!(output, "{}", end + 1).is_err() {
                break;
            }
            input.skip(end + 1);
            cx.count_requests(1);
            cx.count(Heard::Lines, 1);
        }
        Next::Continue
    }
}

/// Serves until it is told to end.
pub fn serve(place: &str, listen: &Listen) -> Result<(), Box<dyn Error>> {
    // Both come first: before other files are open, and before there are threads.
    let handed = lanes::take_handed()?;
    let signals = Signals::block()?;
    let lanes = Lanes::per_core().sockets(handed).listens_also(listen.addresses()).serve(place, |_lane| Lengths)?;
    let mut running = lanes.start()?;
    let _metrics = Metrics::beside(&mut running, listen)?;
    running.announce(|_running| sd_notify::notify(&[NotifyState::Ready]).map_err(Box::<dyn Error>::from))?;
    running.run_until_told(signals)?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let listen = Listen { metrics: Some("127.0.0.1:9100".parse()?), ..Listen::default() };
    serve("tcp://0.0.0.0:7007", &listen)
}
