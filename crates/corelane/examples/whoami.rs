//! A service at a Unix socket: tells whoever asks which user the kernel says that they are.
//! Run with a path or `@NAME`: `cargo run -p corelane --example whoami -- /tmp/whoami.sock`, and ask with `socat - UNIX-CONNECT:/tmp/whoami.sock`.
use corelane::{Cx, Input, Lanes, Next, Output, Peer, Result, Silent, StreamService};

/// Answers each line with the user id of who sent it.
pub struct WhoAmI;

impl StreamService for WhoAmI {
    type Talk = Silent;
    type Session = Option<u32>;

    fn open(&mut self, _cx: &mut Cx, peer: &Peer) -> Option<u32> {
        // Of the process that connected, as the kernel vouches for it (unix(7), SO_PEERCRED). None over TCP.
        peer.address.unix().and_then(|unix| unix.user)
    }

    fn receive(&mut self, cx: &mut Cx, user: &mut Option<u32>, input: &mut Input, output: &mut Output) -> Next {
        let answer = user.map_or("nobody knows\n".to_owned(), |user| format!("user {user}\n"));
        while let Some(end) = input.position(b'\n') {
            // What finds no room stays in the input, and is offered again.
            if output.write(answer.as_bytes()).is_err() {
                break;
            }
            input.skip(end + 1);
            cx.count_requests(1);
        }
        Next::Continue
    }
}

/// Serves it at a name, for this user's group and itself.
pub fn lanes(name: &str) -> Result<Lanes> {
    Lanes::per_core().serve(&format!("unix:{name}?mode=0660"), |_lane| WhoAmI)
}

fn main() -> Result<()> {
    let name = std::env::args().nth(1).unwrap_or("@corelane-whoami".to_owned());
    lanes(&name)?.run()
}
