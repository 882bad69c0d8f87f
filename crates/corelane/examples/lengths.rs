//! Says of each line how long it is: a line when its end has come, however it comes. Its test runs it on simulated lanes, whose network takes lines
//! apart, loses connections and more, as a seed has it.
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Result, Silent, StreamService};

/// Says how long lines are.
pub struct Lengths;

impl StreamService for Lengths {
    type Talk = Silent;
    type Session = ();

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
        }
        Next::Continue
    }
}

fn main() -> Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:7007", |_lane| Lengths)?.run()
}

#[cfg(test)]
mod tests {
    use super::Lengths;
    use corelane::testing::{Failure, Faults, simulate};

    #[test]
    fn every_line_has_its_length() -> Result<(), Failure> {
        let summary = simulate(200, Faults::all, |scene| {
            scene.serve(7, |_lane| Lengths);
            for _ in 0..5 {
                scene.connect(7).say("one\nthree\n").hear("4\n6\n");
            }
        })?;
        println!("{summary}");
        Ok(())
    }
}
