//! The part of a server or a client that one lane has: a configuration of its own.

use crate::clock::Clock;
use crate::program::SharedServer;
use crate::session::{Current, Origin};
use crate::transform::Tls;
use corelane::service::{Passage, Progress, Transform, TransformError};
use rustls::server::ServerConnection;
use rustls::{Connection, ServerConfig};
use std::sync::Arc;

/// Makes the transforms of one lane for those whom it accepts; the configuration is made anew when the files have changed.
pub(crate) struct Accepts {
    program: Arc<SharedServer>,
    clock: Arc<Clock>,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
    generation: u64,
}

impl Accepts {
    pub(crate) fn new(program: Arc<SharedServer>) -> Self {
        let (clock, current) = (Arc::default(), Arc::default());
        let (config, generation) = program.configured(&clock, &current);
        Self { program, clock, current, config, generation }
    }

    /// TLS for a connection that was accepted.
    pub(crate) fn accept(&mut self) -> Box<dyn Transform> {
        if self.program.generation() != self.generation {
            (self.config, self.generation) = self.program.configured(&self.clock, &self.current);
        }
        // reason: it fails only for a configuration without room for a record, and this has the usual room.
        let connection = ServerConnection::new(self.config.clone()).expect("a configuration that was built serves");
        let tls = Tls::new(Connection::Server(connection)).plain_answer(self.program.plain_answer());
        let handshake = Some(Box::new(Handshake { current: self.current.clone(), origin: Origin::default() }));
        Box::new(OnLane { tls, clock: self.clock.clone(), handshake })
    }
}

/// TLS on a lane whose clock goes with its turns.
pub(crate) struct OnLane {
    pub(crate) tls: Tls,
    pub(crate) clock: Arc<Clock>,
    /// Of a server, until it is over: tickets are made and opened in it alone.
    pub(crate) handshake: Option<Box<Handshake>>,
}

/// Whose session a handshake begins, or goes on with.
pub(crate) struct Handshake {
    current: Arc<Current>,
    origin: Origin,
}

impl Transform for OnLane {
    fn pass(&mut self, passage: &mut Passage<'_>) -> Result<Progress, TransformError> {
        self.clock.set(passage.now, passage.time_of_day);
        let Some(Handshake { current, origin }) = self.handshake.as_deref_mut() else { return self.tls.pass(passage) };
        current.swap(origin);
        let passed = self.tls.pass(passage);
        current.swap(origin);
        if self.tls.is_open() {
            self.handshake = None;
        }
        passed
    }

    /// Its clock is the lane's, which the other lane does not set. So it gets one of its own, which nobody asks behind the handshake.
    fn pack(self: Box<Self>) -> Result<Box<dyn Transform + Send>, Box<dyn Transform>> {
        match *self {
            Self { tls, handshake: None, .. } if tls.rests() => {
                Ok(Box::new(Self { tls, clock: Arc::default(), handshake: None }))
            }
            stays => Err(Box::new(stays)),
        }
    }
}
