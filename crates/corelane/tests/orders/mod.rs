//! A service that carries out orders of one byte.

use corelane::{Cx, Input, Next, Output, Peer, Silent, StreamService};

/// Answers each byte with what the function makes of it; what that does meanwhile is the test's affair.
pub struct Orders<F>(pub F);

impl<F: FnMut(u8) -> u8 + 'static> StreamService for Orders<F> {
    type Talk = Silent;
    type Session = ();

    fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}

    fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), input: &mut Input, output: &mut Output) -> Next {
        let order = input.contiguous(1).unwrap()[0];
        input.skip(1);
        output.write(&[(self.0)(order)]).unwrap();
        Next::Continue
    }
}
