//! The echo service: sends back every byte, without copying it, on one lane per core.
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Result, Silent, StreamService};

struct Echo;

impl StreamService for Echo {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _cx: &mut Cx, _peer: &Peer) {}

    fn receive(&mut self, _cx: &mut Cx, _session: &mut (), input: &mut Input, output: &mut Output) -> Next {
        output.forward(input.take_all());
        Next::Continue
    }
}

fn main() -> Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:60007", |_lane| Echo)?.run()
}

#[cfg(test)]
mod tests {
    use super::Echo;
    use corelane::testing::{Failure, Faults, simulate};

    #[test]
    fn every_byte_comes_back() -> Result<(), Failure> {
        let summary = simulate(200, Faults::all, |scene| {
            scene.serve(7, |_lane| Echo);
            for _ in 0..5 {
                scene.connect(7).say("hello\n").hear("hello\n");
            }
        })?;
        println!("{summary}");
        Ok(())
    }
}
