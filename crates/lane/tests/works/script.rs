//! A work that does what its test says, and ends with the drain of all lanes.

use corelane_lane::{Budget, Channels, Kit, Mesh, Work};
use corelane_seam::{Completion, Driver, Handle};

/// A call of the work.
pub enum Call {
    Completed(Completion),
    Serve,
    Expired(Handle),
    Message(u64),
    Flush,
}

/// What a call is made with.
pub struct Scene<'a> {
    pub kit: &'a mut Kit,
    pub mesh: &'a mut Option<Mesh<u64>>,
}

pub struct Script<F> {
    plays: F,
    mesh: Option<Mesh<u64>>,
    is_over: bool,
}

/// A budget of one of each.
pub const ONE: Budget = Budget { completions: 1, other: 1 };

impl<F: FnMut(Scene<'_>, Call) + 'static> Script<F> {
    pub fn new(plays: F) -> Self {
        Self { plays, mesh: None, is_over: false }
    }

    pub fn with(self, mesh: Mesh<u64>) -> Self {
        Self { mesh: Some(mesh), ..self }
    }

    fn play(&mut self, kit: &mut Kit, call: Call) {
        (self.plays)(Scene { kit, mesh: &mut self.mesh }, call);
    }
}

impl<F: FnMut(Scene<'_>, Call) + 'static> Work for Script<F> {
    fn name(&self) -> &'static str {
        "script"
    }

    fn meshes(&mut self, each: &mut dyn FnMut(&mut dyn Channels)) {
        if let Some(mesh) = &mut self.mesh {
            each(mesh);
        }
    }

    fn complete(&mut self, kit: &mut Kit, completion: Completion) {
        self.play(kit, Call::Completed(completion));
    }

    fn serve(&mut self, kit: &mut Kit) {
        self.play(kit, Call::Serve);
    }

    fn expired(&mut self, kit: &mut Kit, handle: Handle) {
        self.play(kit, Call::Expired(handle));
    }

    fn take_messages(&mut self, kit: &mut Kit, at_most: usize) -> usize {
        let mut messages = Vec::new();
        let taken = self.mesh.as_mut().map_or(0, |mesh| mesh.take(at_most, |_, message| messages.extend(message)));
        messages.into_iter().for_each(|message| self.play(kit, Call::Message(message)));
        taken
    }

    fn flush(&mut self, kit: &mut Kit) {
        self.play(kit, Call::Flush);
    }

    fn has_work(&self) -> bool {
        false
    }

    fn has_ended(&self) -> bool {
        self.is_over
    }

    fn drain(&mut self, _: &mut Kit, _: &mut dyn Driver) {}

    fn all_are_quiet(&mut self, _: &mut Kit) {
        self.is_over = true;
    }
}
