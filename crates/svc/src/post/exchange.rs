//! Where the services of one program on all its lanes find each other, and where the world outside finds them.

use crate::post::remote::{Outer, Remote};
use crate::post::room::{Door, WakeOutside};
use crate::post::{Ends, Post};
use crate::words::talk::Talk;
use corelane_lane::{Bursts, Control, Mesh, Tell};
use corelane_seam::parcel::Parcel;
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ends of one service.
struct Line<T: Talk> {
    /// By lane; each is taken once.
    ends: Vec<Option<Ends<T>>>,
    tell: Tell<Outer<T>>,
    /// By lane, for those outside.
    doors: Vec<Door>,
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

/// The ends of the channels by which parcels go home, by lane; each is taken once. None are made where no service lends.
type Homeward = Vec<Option<Mesh<Parcel>>>;

/// Made for all lanes of a program before they begin. Each lane's services take their ends of the channels from it, by their number.
#[derive(Clone)]
pub struct Exchange {
    control: Arc<Control>,
    capacity: usize,
    wake: WakeOutside,
    /// By service: its line, of its own type; none if nobody has asked for it.
    lines: Arc<Mutex<Lines>>,
    homeward: Arc<Mutex<Homeward>>,
}

impl Exchange {
    /// For the lanes of `control`; a channel holds up to `capacity` messages. A wait for an answer outside is woken by `wake`.
    pub fn new(control: &Arc<Control>, capacity: usize, wake: WakeOutside) -> Self {
        Self { control: control.clone(), capacity, wake, lines: Arc::default(), homeward: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        // A line is made in one step.
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_homeward(&self) -> MutexGuard<'_, Homeward> {
        // Those of all lanes are made in one step.
        self.homeward.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ends of lane `lane` of the channels by which parcels go home.
    ///
    /// # Panics
    /// If they were taken before.
    pub(crate) fn homeward(&self, lane: usize) -> Mesh<Parcel> {
        let mut homeward = self.lock_homeward();
        if homeward.is_empty() {
            homeward.extend(Mesh::between(&self.control, self.capacity).into_iter().map(Some));
        }
        assert!(homeward.len() == self.control.lanes(), "each lane has its ends");
        // reason: said in the documentation.
        homeward[lane].take().expect("a lane takes its ends once")
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
        Some(Remote::new(line.tell.clone(), line.doors.iter().cloned().collect(), asks_max, self.wake.clone()))
    }

    /// Lane `lane` has all its services. A message to another service there is told that nobody hears it.
    pub(crate) fn close(&self, lane: usize) {
        self.lock().iter_mut().flatten().for_each(|line| line.close(lane));
        if let Some(ends) = self.lock_homeward().get_mut(lane) {
            *ends = None;
        }
    }

    fn with_line<T: Talk, R>(&self, service: u16, take: impl FnOnce(&mut Line<T>) -> R) -> R {
        let (mut lines, place) = (self.lock(), usize::from(service));
        if lines.len() <= place {
            lines.resize_with(place + 1, || None);
        }
        let line = lines[place].get_or_insert_with(|| Box::new(Line::<T>::new(&self.control, self.capacity, &self.wake)));
        // reason: said in the documentation.
        take(line.any().downcast_mut().expect("all lanes have the same services, in the same order"))
    }
}

impl<T: Talk> Line<T> {
    fn new(control: &Arc<Control>, capacity: usize, wake: &WakeOutside) -> Self {
        let (tell, ears) = control.words();
        let meshes = Mesh::between(control, capacity);
        assert!(meshes.len() == ears.len() && ears.len() == control.lanes(), "each lane hears its own, and those outside");
        let doors = Door::of_lanes(control.lanes(), wake);
        let ends = meshes.into_iter().zip(ears).zip(doors.iter().cloned());
        let ends = ends.map(|((mesh, ear), door)| Some(Ends { mesh, ear, door, capacity })).collect();
        Self { ends, tell, doors }
    }
}
