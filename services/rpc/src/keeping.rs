//! Keeps rpcbind knowing of what is served. One that was started anew has forgotten all, so it is asked now and then, and told once more.
//!
//! ```text
//! every 10 s: GETPORT of one entry --known: rest--> --unknown: SET of all, and a line for the operator--> --no answer: rest-->
//! ```
//!
//! The port mapper's procedure is asked, because it alone names the transport that is meant; it knows IPv4. What is served at IPv6 alone is told again each
//! time, without a word: rpcbind takes what it knows already for done.

use crate::client::CallError;
use crate::errand::{Script, begin};
use crate::telling::{Deed, PORT_MAPPER, Registered, RegistrationError, Telling, Words, head, protocol};
use corelane::admin::messages::Degraded;
use corelane::admin::reports::{self, Level, Record};
use corelane::lanes::Running;
use corelane_wire::rpc::CallHead;
use corelane_wire::rpcbind::PortRequest;
use corelane_wire::xdr::{Encode, Reader, Writer};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// How long rpcbind may know nothing of what is served.
const EVERY: Duration = Duration::from_secs(10);

/// Who keeps it knowing, on a lane of its own, until this is dropped.
pub(crate) struct Keeper {
    running: Running,
    told: Receiver<()>,
}

impl Keeper {
    /// Begins; these were told already if `is_told`.
    ///
    /// # Errors
    /// What the system says of a lane.
    pub fn begin(entries: &[Registered], rpcbind: SocketAddr, is_told: bool) -> Result<Self, corelane::Error> {
        let (tell, told) = channel();
        let keeping = Keeping { entries: entries.to_vec(), step: KeepingStep::Rest, is_told, is_refused: false, tell };
        Ok(Self { running: begin(keeping, rpcbind, None)?, told })
    }

    /// Ends; returns whether it has told rpcbind of them.
    pub fn end(self) -> bool {
        drop(self.running);
        self.told.try_recv().is_ok()
    }
}

/// One look after the other, as a script that does not end.
#[derive(Clone)]
struct Keeping {
    entries: Vec<Registered>,
    step: KeepingStep,
    /// They were told once: who does not know them has forgotten them.
    is_told: bool,
    /// It is said once that they belong to somebody else.
    is_refused: bool,
    tell: Sender<()>,
}

#[derive(Clone)]
enum KeepingStep {
    Ask(Registered),
    Tell(Telling),
    Rest,
}

impl Keeping {
    /// Takes the port that rpcbind says; 0 stands for none.
    fn asked(&mut self, results: Result<&[u8], CallError>) -> KeepingStep {
        match results.map(|bytes| Reader::new(bytes).u32()) {
            Ok(Ok(0)) => KeepingStep::Tell(Telling::new(Deed::Set, self.entries.clone())),
            // It knows, or is not there now: it is asked again.
            _ => KeepingStep::Rest,
        }
    }

    fn told(&mut self, telling: Telling) -> KeepingStep {
        if !telling.is_over() {
            return KeepingStep::Tell(telling);
        }
        match telling.failure() {
            // Nobody is there yet, as before.
            Some(RegistrationError::Call { .. }) => {}
            Some(why) if !std::mem::replace(&mut self.is_refused, true) => {
                Degraded::NotRegistered.say(format_args!("not registered again: {why}"));
            }
            Some(_) => {}
            None => self.say(telling.count()),
        }
        KeepingStep::Rest
    }

    fn say(&mut self, count: usize) {
        self.is_refused = false;
        if !self.is_told {
            // Whoever ends meanwhile needs no word.
            let _ = self.tell.send(());
        }
        let knows_silently = self.is_told && self.v4().is_none();
        let why = if self.is_told {
            "rpcbind had forgotten what is served, as one does that was started anew"
        } else {
            "rpcbind is there now"
        };
        if !knows_silently {
            reports::line(Record::new(Level::Warn, format!("{why}: it knows of {count} entries again")).of_program());
        }
        self.is_told = true;
    }

    fn v4(&self) -> Option<&Registered> {
        self.entries.iter().find(|entry| entry.address.is_ipv4())
    }
}

impl Script for Keeping {
    type Arguments = Arguments;

    fn next(&self) -> Option<(CallHead<'static>, Arguments)> {
        match &self.step {
            KeepingStep::Ask(entry) => Some((head(PORT_MAPPER, where_is(*entry).procedure()), Arguments::Ask(*entry))),
            KeepingStep::Tell(telling) => telling.next().map(|(head, words)| (head, Arguments::Tell(words))),
            KeepingStep::Rest => None,
        }
    }

    fn answer(&mut self, results: Result<&[u8], CallError>) {
        self.step = match std::mem::replace(&mut self.step, KeepingStep::Rest) {
            KeepingStep::Ask(_) => self.asked(results),
            KeepingStep::Tell(mut telling) => {
                telling.answer(results);
                self.told(telling)
            }
            KeepingStep::Rest => KeepingStep::Rest,
        };
    }

    fn pause(&self) -> Option<Duration> {
        Some(EVERY)
    }

    fn again(&mut self) {
        self.step = match self.v4() {
            Some(entry) => KeepingStep::Ask(*entry),
            None => KeepingStep::Tell(Telling::new(Deed::Set, self.entries.clone())),
        };
    }
}

/// Asks the port mapper for an entry's port.
fn where_is(Registered { program, version, transport, .. }: Registered) -> PortRequest {
    PortRequest::GetPort { program, version, protocol: protocol(transport) }
}

/// The arguments of one call.
enum Arguments {
    Ask(Registered),
    Tell(Words),
}

impl Encode for Arguments {
    fn encode(&self, to: &mut Writer<'_>) -> Result<(), corelane_wire::Error> {
        match self {
            Self::Ask(entry) => where_is(*entry).encode(to),
            Self::Tell(words) => words.encode(to),
        }
    }
}
