//! A toy control: it hears words and answers, and no lane lives for it.

use corelane_lane::{Ear, Kit, Work};
use corelane_seam::{Completion, Driver};
use std::sync::mpsc::Sender;

/// Asks a lane how many words it has heard before.
pub struct Question(pub Sender<u64>);

pub struct Administration {
    ear: Ear<Question>,
    heard: u64,
}

impl Administration {
    pub fn new(ear: Ear<Question>) -> Self {
        Self { ear, heard: 0 }
    }
}

impl Work for Administration {
    fn name(&self) -> &'static str {
        "administration"
    }

    fn keeps_lane(&self) -> bool {
        false
    }

    fn complete(&mut self, _: &mut Kit, completion: Completion) {
        panic!("control has nothing under way: {completion:?}");
    }

    fn serve(&mut self, kit: &mut Kit) {
        assert_eq!(kit.alarm, u64::MAX, "it has no alarm, whatever others have");
    }

    fn hear(&mut self, _: &mut Kit, _: &mut dyn Driver) {
        let Self { ear, heard } = self;
        for Question(asker) in ear.take() {
            asker.send(*heard).unwrap();
            *heard += 1;
        }
    }

    fn flush(&mut self, _: &mut Kit) {}

    fn has_work(&self) -> bool {
        false
    }

    fn has_ended(&self) -> bool {
        false
    }

    fn drain(&mut self, _: &mut Kit, _: &mut dyn Driver) {}
}
