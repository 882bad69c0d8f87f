//! A turn ends at once in which completions came and nothing came of them: whatever a work did as it noted them is something.

use crate::rig::{MS, Rig, at, client, settings};
use corelane_lane::{Channels, Control, Kit, Mesh, Order, Work, Works};
use corelane_seam::{Completion, Driver, Handle, Listen, Outcome, Socket, StreamOp, StreamOptions, StreamOutcome};
use corelane_sim::{Faults, World};
use std::cell::Cell;
use std::rc::Rc;

/// What it does as it notes that a connection was accepted.
#[derive(Clone, Copy)]
enum Act {
    /// Sends a message to the other lane.
    Sends,
    /// Submits a receive.
    Submits,
    /// Sets the lane's alarm to now.
    SetsAlarm,
}

/// Says of nothing that has completed that it is news.
struct Hushed {
    act: Act,
    listener: Option<Socket>,
    mesh: Mesh<u8>,
    /// Something came of it.
    heard: Rc<Cell<bool>>,
}

impl Work for Hushed {
    fn name(&self) -> &'static str {
        "hushed"
    }

    fn meshes(&mut self, each: &mut dyn FnMut(&mut dyn Channels)) {
        each(&mut self.mesh);
    }

    fn complete(&mut self, kit: &mut Kit, completion: Completion) {
        match completion.outcome {
            Outcome::Stream(StreamOutcome::Accepted { socket, .. }) => match self.act {
                Act::Sends => self.mesh.send(kit, 1, 1).unwrap(),
                Act::Submits => kit.submit(Handle::new(1, 0, 0), StreamOp::Receive { socket }),
                Act::SetsAlarm => kit.alarm = kit.now(),
            },
            Outcome::Stream(StreamOutcome::Received(_)) => self.heard.set(true),
            _ => {}
        }
    }

    fn serve(&mut self, kit: &mut Kit) {
        if let Some(listener) = self.listener.take() {
            kit.submit(Handle::new(0, 0, 0), StreamOp::Accept { listener });
        }
        if kit.alarm <= kit.now() {
            kit.alarm = u64::MAX;
            self.heard.set(true);
        }
    }

    fn take_messages(&mut self, _: &mut Kit, at_most: usize) -> usize {
        let heard = &self.heard;
        self.mesh.take(at_most, |_, message| heard.set(heard.get() || message.is_some()))
    }

    fn flush(&mut self, _: &mut Kit) {}

    fn has_work(&self) -> bool {
        false
    }

    fn has_news(&self) -> bool {
        false
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn drain(&mut self, _: &mut Kit, _: &mut dyn Driver) {}
}

fn comes_of_it(act: Act) {
    let (control, heard) = (Control::new(2), Rc::new(Cell::new(false)));
    let mut meshes = Mesh::between(&control, 4);
    let mut rig = Rig::new(World::new(1, Faults::none()), control, settings(), |lane, driver| {
        let listen =
            || Listen { address: at(7).into(), backlog: 4, share_port: false, v6_only: false, stream: StreamOptions::default() };
        let listener = (lane == 0).then(|| driver.listen(&listen()).unwrap());
        Works::of(Hushed { act, listener, mesh: meshes.remove(0), heard: heard.clone() })
    });
    rig.pass(MS);
    let peer = rig.world.connect(client(1), at(7)).unwrap();
    rig.pass(MS);
    assert_eq!(peer.send(b"?"), 1);
    rig.until(|| heard.get());
    rig.until_ended(Order::Stop);
}

#[test]
fn a_message_that_was_sent_is_made_visible() {
    comes_of_it(Act::Sends);
}

#[test]
fn what_was_submitted_is_handed_to_the_driver() {
    comes_of_it(Act::Submits);
}

#[test]
fn an_alarm_that_was_set_is_heard() {
    comes_of_it(Act::SetsAlarm);
}
