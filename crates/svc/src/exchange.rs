//! Where the services of one program on all its lanes find each other, and where the world outside finds them.

use crate::post::{Ends, Post};
use crate::remote::{Outer, Remote, WakeOutside};
use crate::talk::Talk;
use corelane_lane::{Bursts, Control, Mesh, Tell};
use std::any::Any;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ends of one service.
struct Line<T: Talk> {
    /// By lane; each is taken once.
    ends: Vec<Option<Ends<T>>>,
    tell: Tell<Outer<T>>,
    /// Questions from outside that wait, by lane.
    waiting: Arc<[AtomicU32]>,
}

/// A line, whatever is said on it.
trait AnyLine: Send {
    /// The lane has taken all that it takes.
    fn close(&mut self, lane: usize);
    fn any(&mut self) -> &mut dyn Any;
}

impl<T: Talk> AnyLine for Line<T> {
    fn close(&mut self, lane: usize) {
        self.ends[lane] = None;
    }

    fn any(&mut self) -> &mut dyn Any {
        self
    }
}

type Lines = Vec<Option<Box<dyn AnyLine>>>;

/// Made for all lanes of a program before they begin. Each lane's services take their ends of the channels from it, by their number.
#[derive(Clone)]
pub struct Exchange {
    control: Arc<Control>,
    capacity: usize,
    wake: WakeOutside,
    /// By service: its line, of its own type; none if nobody has asked for it.
    lines: Arc<Mutex<Lines>>,
}

impl Exchange {
    /// For the lanes of `control`; a channel holds up to `capacity` messages. Whoever awaits an answer outside is woken by `wake`.
    pub fn new(control: &Arc<Control>, capacity: usize, wake: WakeOutside) -> Self {
        Self { control: control.clone(), capacity, wake, lines: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        // A line is made in one step.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The post of service `service` on lane `lane`; `bursts` counts the drops of what is said that panic there.
    ///
    /// # Panics
    /// If it was taken before, or the lanes do not have the same services.
    pub(crate) fn post<T: Talk>(&self, service: u16, lane: usize, bursts: Bursts) -> Post<T> {
        if !T::HAS_CHANNELS {
            return Post::new(None, bursts);
        }
        let ends = self.with_line(service, |line: &mut Line<T>| line.ends[lane].take());
        // reason: said in the documentation.
        Post::new(Some(ends.expect("a lane has each of its services once")), bursts)
    }

    /// Speaks to service `service` from outside of the lanes; as many questions as `asks_max` may wait on each lane. None if the service does
    /// not talk so.
    pub fn remote<T: Talk>(&self, service: u16, asks_max: u32) -> Option<Remote<T>> {
        let mut lines = self.lock();
        let line = lines.get_mut(usize::from(service))?.as_mut()?.any().downcast_mut::<Line<T>>()?;
        Some(Remote::new(line.tell.clone(), line.waiting.clone(), asks_max, self.wake.clone()))
    }

    /// Lane `lane` has all its services. Whoever speaks to another service there learns that nobody hears.
    pub(crate) fn close(&self, lane: usize) {
        self.lock().iter_mut().flatten().for_each(|line| line.close(lane));
    }

    fn with_line<T: Talk, R>(&self, service: u16, take: impl FnOnce(&mut Line<T>) -> R) -> R {
        let (mut lines, place) = (self.lock(), usize::from(service));
        if lines.len() <= place {
            lines.resize_with(place + 1, || None);
        }
        let line = lines[place].get_or_insert_with(|| Box::new(Line::<T>::new(&self.control, self.capacity)));
        // reason: said in the documentation.
        take(line.any().downcast_mut().expect("all lanes have the same services, in the same order"))
    }
}

impl<T: Talk> Line<T> {
    fn new(control: &Arc<Control>, capacity: usize) -> Self {
        let (tell, ears) = control.words();
        let meshes = Mesh::between(control, capacity);
        assert!(meshes.len() == ears.len() && ears.len() == control.lanes(), "each lane hears its own, and those outside");
        let ends = meshes.into_iter().zip(ears);
        let ends = ends.map(|(mesh, ear)| Some(Ends { mesh, ear, capacity })).collect();
        Self { ends, tell, waiting: (0..control.lanes()).map(|_| AtomicU32::new(0)).collect() }
    }
}
