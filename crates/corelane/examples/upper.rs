//! Sends back what it gets, in capitals: a service that changes bytes, and so writes new ones.
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Result, Silent, StreamService};

struct Upper;

impl StreamService for Upper {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}

    fn receive(&mut self, _cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        while output.ask_room() && !input.is_empty() {
            let upper = input.first().to_ascii_uppercase();
            if output.write(&upper).is_err() {
                break;
            }
            input.skip(upper.len());
        }
        Next::Continue
    }
}

fn main() -> Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:7007", |_lane| Upper)?.run()
}

#[cfg(test)]
mod tests {
    use super::Upper;
    use corelane::testing::{Failure, Faults, simulate};

    #[test]
    fn every_byte_comes_back_as_a_capital() -> Result<(), Failure> {
        let summary = simulate(200, Faults::all, |scene| {
            scene.serve(7, |_lane| Upper);
            for _ in 0..5 {
                scene.connect(7).say("hello, 7\n").hear("HELLO, 7\n");
            }
        })?;
        println!("{summary}");
        Ok(())
    }
}
