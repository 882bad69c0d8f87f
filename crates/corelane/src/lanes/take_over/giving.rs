//! The old process: gives what it has, and drains when the new one serves.

use super::message::{Message, Talk, VERSION, WrittenAddress, understands, word};
use super::steps::{Old, OldEvent, OldStep, Word};
use crate::admin::control_client::SUFFIX;
use crate::lanes::ending::Lives;
use crate::lanes::keepsake::{self, Keepsake};
use crate::lanes::others::Others;
use crate::lanes::place::{Names, Place};
use corelane_os::named::NamedSocket;
use corelane_os::{local, passing, report, sockets};
use corelane_seam::{Level, Record};
use corelane_steer::{GroupShown, InForce, Steered};
use corelane_svc::TransportAddress;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// For how long connections that were accepted last are served as ever, before the drain: their first requests are on their way.
const GRACE: Duration = Duration::from_secs(1);

/// The new process's request, behind its first word.
#[derive(Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) version: u32,
    pub(crate) process: u32,
}

/// Where a take-over stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody takes over.
    Serving,
    /// This process does.
    Giving { to: u32 },
    /// This process has.
    Given { to: u32 },
}

/// Gives to another process what this one serves with.
pub(crate) struct Giver {
    pub(crate) steered: Arc<Steered>,
    pub(crate) places: Vec<Place>,
    pub(crate) names: Names,
    pub(crate) others: Others,
    pub(crate) keepsakes: Vec<Keepsake>,
    pub(crate) passage: Arc<Passage>,
    pub(crate) lives: Lives,
    /// The control socket's path, by which this process is found.
    pub(crate) path: PathBuf,
    /// How long the new process may take from one word to the next.
    pub(crate) patience: Duration,
    state: Mutex<State>,
}

/// From the lanes' tables of descriptors to the process's: made before the lanes are.
pub(crate) struct Passage {
    lanes: OwnedFd,
    process: OwnedFd,
}

impl Passage {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let (lanes, process) = passing::pair()?;
        Ok(Arc::new(Self { lanes, process }))
    }

    /// The next socket that has arrived, if there is one.
    fn next(&self) -> io::Result<Option<OwnedFd>> {
        match passing::receive(self.process.as_fd(), &mut [0]) {
            Ok((bytes, mut with)) => {
                assert!((bytes, with.len()) == (1, 1), "lanes send their sockets one by one");
                Ok(with.pop())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            // The system leaves out what the table has no room for.
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(io::Error::other(
                "the process has as many descriptors open as it may: raise its limit (ulimit -n), or restart without --take-over",
            )),
            Err(error) => Err(error),
        }
    }
}

/// Why it is not to be, in words for the other process.
type Refused = String;

impl Giver {
    pub(crate) fn new(
        steered: Arc<Steered>,
        places: Vec<Place>,
        (names, others): (Names, Others),
        keepsakes: Vec<Keepsake>,
        passage: Arc<Passage>,
        lives: Lives,
        (page, patience): (&Path, Duration),
    ) -> Self {
        let path = page.with_extension(SUFFIX);
        Self { steered, places, names, others, keepsakes, passage, lives, path, patience, state: Mutex::new(State::Serving) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state that a panic left behind is whole: it is one word.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes from one state to the next: nobody else has changed it meanwhile.
    fn turn(&self, from: State, to: State) {
        let before = std::mem::replace(&mut *self.state(), to);
        assert!(before == from, "{before:?} becomes {to:?}, not {from:?}");
    }

    /// Carries out a request of the control socket. Nothing is changed while somebody takes over, or after.
    pub(crate) fn unless_giving(&self, changes: bool, answer: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
        let state = self.state();
        match *state {
            State::Giving { to } if changes => Err(format!("process {to} is taking over: ask it when it serves")),
            State::Given { to } if changes => Err(format!("process {to} has taken over: ask it")),
            _ => answer(),
        }
    }

    /// Serves a process that asks to take over.
    pub(crate) fn serve(&self, stream: &UnixStream, request: &str) {
        let talk = Talk::new(stream);
        let refuse = |why: Refused| {
            report::line(Record::new(Level::Warn, format!("not taken over: {why}")).of_program());
            // Whom this is for may be who has gone.
            let _ = talk.say(Message::Refused { why }, &[]);
        };
        match self.begin(request) {
            Err(why) => refuse(why),
            Ok(Request { process: to, version }) => match self.give(stream, version) {
                Ok(()) => self.release(stream, to),
                Err(why) => {
                    self.turn(State::Giving { to }, State::Serving);
                    refuse(why);
                }
            },
        }
    }

    fn begin(&self, request: &str) -> Result<Request, Refused> {
        let Ok(asked @ Request { version, process }) = serde_json::from_str(request) else {
            return Err("what was asked is no take-over: is the other process a corelane server?".to_owned());
        };
        if !understands(version) {
            return Err(format!(
                "the new process speaks version {version} of this, and the running one {VERSION}: restart without --take-over"
            ));
        }
        let mut state = self.state();
        if let State::Giving { to } | State::Given { to } = *state {
            return Err(format!("process {to} is taking over already: wait for it"));
        }
        if let Some(lane) = self.steered.present().iter().position(|present| !present) {
            return Err(format!("lane {lane} has left: have it come back first (corelane rss table --enter {lane})"));
        }
        *state = State::Giving { to: process };
        Ok(asked)
    }

    /// Goes step by step with a new process of that version. Whether it serves, and this one is to leave, is decided when this returns.
    fn give(&self, stream: &UnixStream, version: u32) -> Result<(), Refused> {
        let (mut old, mut talk, mut why) = (Old::asked_by(version), Talk::new(stream), String::new());
        let mut event = match self.say_all(stream, &talk) {
            Ok(()) => OldEvent::Offered,
            Err(refused) => {
                why = refused;
                OldEvent::Gone
            }
        };
        loop {
            match old.hear(event) {
                OldStep::Stay => return Err(why),
                OldStep::Leave if local::has_gone(stream) => return Err("the new process ended as it began to serve".to_owned()),
                OldStep::Leave => return Ok(()),
                // If that is not heard, nor is anything said behind it.
                OldStep::Agree => drop(talk.say(Message::Agreed, &[])),
                OldStep::Wait => {}
            }
            (event, why) = heard(&mut talk, stream, self.patience);
        }
    }

    /// Says all that there is.
    fn say_all(&self, stream: &UnixStream, talk: &Talk<'_>) -> Result<(), Refused> {
        let patience = Some(self.patience);
        let bounds = stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience));
        bounds.map_err(lost)?;
        talk.say(self.offer(), &[]).map_err(lost)?;
        self.say_selection(talk).map_err(lost)?;
        for lane in 0..self.steered.present().len() {
            self.say_sockets(talk, lane)?;
        }
        self.say_shared(talk).map_err(lost)?;
        self.others.each(|address, socket| talk.say(Message::Listener { address }, &[socket])).map_err(lost)?;
        for Keepsake { give, .. } in &self.keepsakes {
            let (name, bytes) = give();
            assert!(bytes.len() <= keepsake::BYTES_MAX, "a keepsake is small");
            talk.say(Message::Keepsake { name, bytes }, &[]).map_err(lost)?;
        }
        talk.say(Message::Complete, &[]).map_err(lost)
    }

    fn offer(&self) -> Message {
        let hasher = self.steered.hasher();
        Message::Offer {
            version: VERSION,
            process: std::process::id(),
            lanes: self.steered.present().len(),
            steering: self.steered.in_force().to_string(),
            key: hasher.toeplitz().key().to_string(),
            hash_types: hasher.types().to_string(),
            table: self.steered.table().to_string(),
        }
    }

    fn say_selection(&self, talk: &Talk<'_>) -> io::Result<()> {
        if let Some(maps) = self.steered.maps() {
            talk.say(Message::Maps, &maps)?;
        }
        for GroupShown { at, members, program } in self.steered.groups() {
            let group = Message::Group { transport: word(at.transport), address: at.address, members };
            talk.say(group, program.as_ref().map_or(&[][..], |program| program))?;
        }
        Ok(())
    }

    /// Has a lane send its sockets from its table to the process's, and passes them on.
    fn say_sockets(&self, talk: &Talk<'_>, lane: usize) -> Result<(), Refused> {
        let cannot = |error: io::Error| format!("lane {lane}'s sockets cannot be taken: {error}");
        // Of an earlier attempt.
        while self.passage.next().map_err(cannot)?.is_some() {}
        let shown: Arc<Mutex<Vec<TransportAddress>>> = Arc::default();
        let (told, passage, shared) = (shown.clone(), self.passage.clone(), self.shared_addresses());
        let visit = move |at: TransportAddress, socket: std::os::fd::BorrowedFd<'_>| {
            if shared.contains(&at) {
                return Ok(());
            }
            let why = |error: io::Error| error.to_string().into();
            let failed = |error| corelane_svc::Error::Steering { address: at.address, why: why(error), is_shared: false };
            passing::send(passage.lanes.as_fd(), &[0], &[socket]).map_err(failed)?;
            told.lock().unwrap_or_else(PoisonError::into_inner).push(at);
            Ok(())
        };
        self.steered.show(lane, Box::new(visit)).map_err(|error| error.to_string())?;
        let shown = std::mem::take(&mut *shown.lock().unwrap_or_else(PoisonError::into_inner));
        for at in shown {
            // reason: it was sent before its address was shown, and nobody else receives here.
            let socket = self.passage.next().map_err(cannot)?.expect("a socket that is shown has arrived");
            let message = Message::Socket { transport: word(at.transport), address: at.address, lane };
            talk.say(message, &[socket.as_fd()]).map_err(|error| format!("the new process has gone: {error}"))?;
        }
        Ok(())
    }

    fn shared_addresses(&self) -> Vec<TransportAddress> {
        let shared = self.places.iter().filter(|place| place.named.is_some());
        shared.filter_map(|place| Some(TransportAddress { transport: place.transport, address: place.address.inet()? })).collect()
    }

    fn say_shared(&self, talk: &Talk<'_>) -> io::Result<()> {
        for place in &self.places {
            let Some(number) = place.named else { continue };
            // reason: what has no such address was refused when it was claimed.
            let address = WrittenAddress::of(&place.address).expect("a service is served at an address that can be written");
            let socket = sockets::duplicate(number).map_err(|fault| io::Error::from_raw_os_error(fault.number))?;
            let shared = Message::Shared { transport: word(place.transport), address, outlives: place.outlives };
            talk.say(shared, &[socket.as_fd()])?;
        }
        Ok(())
    }

    /// The new process serves: this one does not any more, and drains when what it accepted last has had time to ask.
    fn release(&self, stream: &UnixStream, to: u32) {
        self.turn(State::Giving { to }, State::Given { to });
        // A search for a process to ask finds the new one alone; and the next take-over, too.
        let _ = std::fs::remove_file(&self.path);
        self.names.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(NamedSocket::leave_behind);
        if let Err(error) = self.steered.hand_over() {
            // Its sockets go with the drain.
            report::line(Record::new(Level::Info, format!("process {to} has taken over, but: {error}")).of_program());
        }
        self.others.leave();
        // It serves, whether it hears this or not.
        let _ = Talk::new(stream).say(Message::Released, &[]);
        let words = format!("process {to} has taken over: what is open here is finished");
        report::line(Record::new(Level::Info, words).of_program());
        sleep(GRACE);
        self.lives.taken_over();
    }
}

fn lost(error: io::Error) -> Refused {
    format!("the new process has gone, or does not listen: {error}")
}

/// The new process's next word, and the fault if it is not the one that is waited for. A process that is late can say nothing any more, so that both know it: what it had said
/// before that is heard.
fn heard(talk: &mut Talk<'_>, stream: &UnixStream, patience: Duration) -> (OldEvent, Refused) {
    let mut is_late = false;
    let said = talk.hear().or_else(|error| {
        is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
        if !is_late {
            return Err(error);
        }
        stream.shutdown(Shutdown::Read)?;
        talk.hear().map_err(|_| error)
    });
    match said {
        Ok((Message::Ready, _)) => (OldEvent::Hears(Word::Ready), String::new()),
        Ok((Message::Serving, _)) => (OldEvent::Hears(Word::Serving), String::new()),
        Ok((Message::Refused { why }, _)) => (OldEvent::Hears(Word::Refused), why),
        Ok((other, _)) => {
            let why = "the new process says what is not to be said now";
            (OldEvent::Hears(Word::Other), format!("{why} ({other:?}): is it a corelane of a neighbouring release?"))
        }
        Err(_) if is_late => (OldEvent::Late, format!("the new process took longer than {patience:?} for its next step")),
        Err(error) => (OldEvent::Gone, lost(error)),
    }
}

/// Whether flows are steered in a way that another process can be asked for by this word.
pub(crate) fn in_force(word: &str) -> Option<InForce> {
    word.parse().ok()
}

#[cfg(test)]
#[path = "../../../tests/process/mod.rs"]
mod process;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::control_client::{SUFFIX, connect};
    use crate::lanes::builder::PATIENCE;
    use crate::lanes::{Lanes, Running};
    use crate::{Cx, Input, Next, Output, Peer, Silent, StreamService};
    use corelane_os::runner::own_descriptors;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// The machines say what follows from that (`steps`).
    #[test]
    fn what_was_said_in_time_is_heard_and_who_is_late_can_say_nothing_more() {
        let (old, new) = UnixStream::pair().unwrap();
        old.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let (mut talk, says) = (Talk::new(&old), Talk::new(&new));
        says.say(Message::Ready, &[]).unwrap();
        assert_eq!(heard(&mut talk, &old, PATIENCE).0, OldEvent::Hears(Word::Ready));
        let (event, why) = heard(&mut talk, &old, PATIENCE);
        assert!(event == OldEvent::Late && why.contains("took longer than"), "{event:?} {why}");
        assert_eq!(says.say(Message::Serving, &[]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        // The other way round: it was in the socket before nobody read any more.
        let (old, new) = UnixStream::pair().unwrap();
        Talk::new(&new).say(Message::Serving, &[]).unwrap();
        old.shutdown(Shutdown::Read).unwrap();
        assert_eq!(heard(&mut Talk::new(&old), &old, PATIENCE).0, OldEvent::Hears(Word::Serving));
        drop(new);
        assert_eq!(heard(&mut Talk::new(&old), &old, PATIENCE).0, OldEvent::Gone);
    }

    struct Echo;

    impl StreamService for Echo {
        type Talk = Silent;
        type Session = ();
        fn open(&mut self, _: &mut Cx<'_>, _: &Peer) {}
        fn receive(&mut self, _: &mut Cx<'_>, _: &mut (), input: &mut Input, output: &mut Output) -> Next {
            output.forward(input.take_all());
            Next::Continue
        }
    }

    fn is_answered(running: &Running) -> bool {
        let mut stream = TcpStream::connect(running.address()).unwrap();
        stream.write_all(b"?").unwrap();
        stream.read_exact(&mut [0]).is_ok()
    }

    /// A new process that asks, and says no more than that.
    fn asks(running: &Running, says: &[Message]) -> UnixStream {
        let page = running.page().unwrap();
        // By itself the other one would say nothing before a minute is over.
        let mut stream = connect(&page.with_extension(SUFFIX), PATIENCE / 2).unwrap();
        stream.set_read_timeout(Some(PATIENCE / 2)).unwrap();
        let request = serde_json::to_string(&Request { version: VERSION, process: std::process::id() }).unwrap();
        stream.write_all(format!("take-over {request}\n").as_bytes()).unwrap();
        // The other one may be out of patience before this is said.
        says.iter().for_each(|message| drop(Talk::new(&stream).say(message.clone(), &[])));
        stream
    }

    /// The last that it is told.
    fn last_word(stream: &UnixStream) -> Message {
        let (mut talk, mut last) = (Talk::new(stream), Message::Complete);
        while let Ok((message, _)) = talk.hear() {
            last = message;
        }
        last
    }

    #[test]
    fn the_old_process_serves_on_where_the_new_one_takes_too_long_for_a_step() {
        if process::is_parent(
            "lanes::take_over::giving::tests::the_old_process_serves_on_where_the_new_one_takes_too_long_for_a_step",
        ) {
            return;
        }
        let mut lanes = Lanes::per_core().lanes(1).serve("tcp://127.0.0.1:0", |_| Echo).unwrap();
        lanes.patience = Duration::from_millis(20);
        let running = lanes.start().unwrap();
        // For its lanes, and for telling whoever started it. The second begins where the first has left nothing behind.
        for says in [&[][..], &[Message::Ready]] {
            let stream = asks(&running, says);
            let Message::Refused { why } = last_word(&stream) else { panic!("the old process goes on") };
            assert!(why.contains("took longer than 20ms"), "{why}");
            assert!(is_answered(&running), "behind {says:?}");
        }
    }

    /// On a thread with a table of its own, which is filled.
    #[test]
    fn a_full_table_is_told_and_is_not_taken_for_nothing_to_come() {
        let filled = std::thread::spawn(|| {
            own_descriptors().unwrap();
            let passage = Passage::new().unwrap();
            assert!(passage.next().unwrap().is_none(), "nothing was sent");
            let null = File::open("/dev/null").unwrap();
            let send = || passing::send(passage.lanes.as_fd(), &[0], &[null.as_fd()]).unwrap();
            send();
            send();
            assert!(passage.next().unwrap().is_some());
            let all: Vec<File> = std::iter::from_fn(|| null.try_clone().ok()).collect();
            let why = passage.next().unwrap_err().to_string();
            assert!(why.contains("descriptors") && why.contains("ulimit -n"), "{why}");
            drop(all);
            send();
            assert!(passage.next().unwrap().is_some(), "there is room again");
        });
        filled.join().unwrap();
    }
}
