//! A lane that takes packets in by itself, of which none is the lane's: the port's program forwards or drops them all.

use crate::afxdp::defer_for_a_minute;
use crate::fast::{FAR, OURS, SECOND, far, frame, near, rules, tags, way, wires};
use crate::node::memory;
use crate::wire::on_network;
use corelane_os::clock;
use corelane_os::testing::skip;
use corelane_rules::language::command;
use corelane_rules::{Execution, Interface as Number};
use corelane_seam::{LearntWay, Port};
use corelane_xdp::{FastPath, Ours, ports_for};
use std::sync::Arc;

/// Packets of one burst: many, and fewer than a port takes in at once.
const BURST: u16 = 60;
/// Nanoseconds after which a port that found nothing looks again.
const LATER: u64 = 1_000_000;

/// A port by itself, with a clock of the test's.
struct Alone {
    port: Box<dyn Port>,
    now: u64,
}

impl Alone {
    /// A lane's turn, so long after the last one. Nothing comes to the lane.
    fn turn(&mut self, later: u64) {
        self.now += later;
        self.port.released(self.now);
        let mut frames = Vec::new();
        self.port.receive(self.now, 64, &mut frames).unwrap();
        assert!(frames.is_empty(), "{} frames came to the lane", frames.len());
    }

    /// Turns until the kernel receives again, because nothing came.
    fn rest(&mut self) {
        (0..20).for_each(|_| self.turn(LATER));
    }

    /// Has the program forward what goes this way.
    fn teach(&mut self, way: &LearntWay) {
        let offload = self.port.offload().unwrap();
        let end = clock::now() + 20 * SECOND;
        // The far end is looked at by another thread before it is taken.
        while !offload.learn(self.now, &LearntWay { until: clock::now() + way.until, ..*way }) {
            assert!(clock::now() < end, "the way is not taken");
            std::thread::yield_now();
            self.now = clock::now();
            self.turn(0);
        }
        self.turn(LATER);
    }
}

/// A port on `near0` that takes packets in by itself; none where the kernel lets nobody do that.
fn alone(test: &str, fast: &Arc<FastPath>) -> Option<Alone> {
    let mut choice = ports_for("near0", &Ours::All, 1).unwrap();
    choice.poll();
    if let Some(why) = choice.lost.first() {
        skip(test, &why.to_string());
        return None;
    }
    choice.offload(fast).unwrap();
    let port = choice.queues.remove(0).port(memory(), 128).unwrap();
    Some(Alone { port, now: clock::now() })
}

/// A burst of so many.
fn burst(count: u16) -> Vec<Vec<u8>> {
    (0..count).map(|number| frame([OURS[0], FAR[0]], tags(0, 0), 64, number)).collect()
}

/// The port's own count says whether packets come in numbers, and the lane takes them in then: what waits goes on with its next look, where the kernel would do nothing for a minute.
#[test]
fn a_port_whose_program_has_all_packets_takes_them_in_by_itself_while_they_come_in_numbers() {
    const NAME: &str = "polled::a_port_whose_program_has_all_packets_takes_them_in_by_itself_while_they_come_in_numbers";
    on_network(NAME, || {
        wires();
        let fast = FastPath::new().unwrap();
        let Some(mut lane) = alone(NAME, &fast) else { return };
        let (_other, _) = near("near1", &fast);
        let [mut sender, mut receiver] = ["far0", "far1"].map(far);
        let mut rules = rules();
        fast.put(&rules.compile(Execution::Tree), &[]).unwrap();
        lane.teach(&way((1, 0), (2, 0), 100 * SECOND));
        lane.rest();
        let went_on = |count| (0..count).map(|number| frame([FAR[1], OURS[1]], tags(0, 0), 63, number)).collect::<Vec<_>>();
        // Few are the kernel's to receive: they go on, and no look is due.
        sender.send(&burst(10)).unwrap();
        assert_eq!(receiver.packets(10), went_on(10));
        lane.turn(LATER);
        assert!(!lane.port.has_more(), "the kernel receives few");
        for bursts in 0.. {
            assert!(bursts < 200, "so many are not enough");
            sender.send(&burst(BURST)).unwrap();
            lane.turn(0);
            assert_eq!(receiver.packets(BURST.into()), went_on(BURST));
            if lane.port.has_more() {
                break;
            }
        }
        defer_for_a_minute("near0");
        // The kernel receives once more, or the lane does: with that the minute begins.
        sender.send(&burst(10)).unwrap();
        lane.turn(0);
        assert_eq!(receiver.packets(10), went_on(10));
        lane.turn(0);
        sender.send(&burst(10)).unwrap();
        assert!(receiver.waiting().is_empty(), "the kernel leaves them to the lane");
        lane.turn(LATER);
        assert_eq!(receiver.packets(10), went_on(10));
        let denied = || fast.traffic(Number(1)).unwrap().denied;
        rules.apply(command("add 1 deny udp from any to any in", 1).unwrap()).unwrap();
        fast.put(&rules.compile(Execution::Tree), &[]).unwrap();
        sender.send(&burst(10)).unwrap();
        assert_eq!(denied(), 0, "the kernel leaves those to the lane as well that it drops");
        lane.turn(LATER);
        assert_eq!(denied(), 10);
        lane.rest();
        // The kernel receives again.
        sender.send(&burst(10)).unwrap();
        let end = clock::now() + 20 * SECOND;
        while denied() < 20 {
            assert!(clock::now() < end, "{} are dropped", denied());
            std::thread::yield_now();
        }
    });
}
