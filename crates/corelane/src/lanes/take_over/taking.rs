//! The new process: takes what a running one has, starts on it, and says so.

use super::giving::{Request, in_force};
use super::message::{Message, Talk, VERSION, transport, understands};
use super::steps::{New, NewEvent, NewStep, Word};
use crate::admin::control_client::{SUFFIX, connect};
use crate::error::Error;
use crate::lanes::builder::{Lanes, PATIENCE};
use crate::lanes::keepsake;
use crate::lanes::others::LISTENERS_MAX;
use crate::lanes::place::Names;
use corelane_os::handed::facts;
use corelane_os::named::NamedSocket;
use corelane_os::{local, report};
use corelane_rss::{FlowHasher, Transport};
use corelane_seam::{Address, Level, Record, Unix};
use corelane_steer::{Handed, HandedGroup, HandedMaps, HandedProgram, Steering};
use corelane_svc::TransportAddress;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

/// All that a running process has handed over. Dropped before [`Taken::decide`], it leaves the other process as it was.
pub(crate) struct Taken {
    stream: UnixStream,
    /// The process that is taken over from.
    process: u32,
    version: u32,
    lanes: usize,
    /// Until it is used.
    steering: Option<Handed>,
    sockets: Vec<LaneSocket>,
    shared: Vec<SharedSocket>,
    listeners: Vec<(SocketAddr, OwnedFd)>,
    keepsakes: Vec<(String, Vec<u8>)>,
}

/// A socket of one lane.
struct LaneSocket {
    lane: usize,
    at: TransportAddress,
    socket: OwnedFd,
}

/// A socket that all lanes share.
struct SharedSocket {
    transport: Transport,
    address: Address,
    outlives: bool,
    socket: OwnedFd,
}

fn refused(why: impl Into<String>) -> Error {
    Error::Setting { name: "take-over", why: why.into() }
}

fn lost(error: io::Error) -> Error {
    refused(match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => "no process answers there: start without --take-over".to_owned(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "the running process ended in the middle, or does not know this: look at its log, or restart without --take-over"
                .to_owned()
        }
        ErrorKind::InvalidData => {
            "what the running process says cannot be read: is it of another version? restart without --take-over".to_owned()
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!(
                "the running process says nothing for {PATIENCE:?}: does it hang? see what `corelane stat` says, or restart without --take-over"
            )
        }
        _ => format!("the running process cannot be asked: {error}"),
    })
}

impl Lanes {
    /// Takes over from the process of this user whose page is at `page` ([`Running::page`](crate::lanes::Running::page)): its listeners and
    /// datagram sockets, its lanes, table and key, and its keepsakes. When all lanes serve, that process drains and ends; if they do not come
    /// to that, it serves on. With the feature `take-over`.
    pub fn take_over(mut self, page: impl Into<PathBuf>) -> Self {
        self.take_over = Some(page.into());
        self
    }
}

impl Taken {
    /// Asks the process whose page is at `page`.
    ///
    /// # Errors
    /// Its refusal, or what is wrong with it.
    pub(crate) fn from(page: &Path) -> Result<Self, Error> {
        let stream = connect(&page.with_extension(SUFFIX), PATIENCE).map_err(lost)?;
        if !local::is_ours(&stream) {
            return Err(refused("the control socket is another user's: name a process of this user"));
        }
        stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
        let request = Request { version: VERSION, process: std::process::id() };
        let request = serde_json::to_string(&request).map_err(|error| refused(error.to_string()))?;
        (&stream).write_all(format!("take-over {request}\n").as_bytes()).map_err(lost)?;
        Self::hear(stream)
    }

    fn hear(stream: UnixStream) -> Result<Self, Error> {
        let own = stream.try_clone().map_err(lost)?;
        let mut talk = Talk::new(&own);
        let mut taken = Self::offered(stream, talk.hear().map_err(lost)?.0)?;
        while taken.hears(talk.hear().map_err(lost)?)? {}
        taken.check()?;
        Ok(taken)
    }

    fn offered(stream: UnixStream, offer: Message) -> Result<Self, Error> {
        let (version, process, lanes, steering) = match offer {
            Message::Offer { version, process, lanes, steering, key, hash_types, table } => {
                let wrong = || refused(format!("how process {process} steers cannot be read: restart without --take-over"));
                let hasher = FlowHasher::new(&key.parse().map_err(|_| wrong())?, hash_types.parse().map_err(|_| wrong())?);
                let in_force = in_force(&steering).ok_or_else(wrong)?;
                let table: corelane_rss::Table = table.parse().map_err(|_| wrong())?;
                let steering = Handed { in_force, hasher, table, lanes, maps: None, groups: Vec::new() };
                (version, process, lanes, steering)
            }
            Message::Refused { why } => return Err(refused(why)),
            _ => return Err(lost(ErrorKind::InvalidData.into())),
        };
        if !understands(version) {
            return Err(refused(format!(
                "process {process} speaks version {version} of this, and this one {VERSION}: restart without --take-over"
            )));
        }
        let (sockets, shared, listeners, keepsakes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { stream, process, version, lanes, steering: Some(steering), sockets, shared, listeners, keepsakes })
    }

    /// Takes a message; returns whether more are to come.
    fn hears(&mut self, (message, with): (Message, Vec<OwnedFd>)) -> Result<bool, Error> {
        let wrong = || lost(ErrorKind::InvalidData.into());
        // reason: it is used only when all has been heard.
        let steering = self.steering.as_mut().expect("nothing is used before all is heard");
        match message {
            Message::Maps if steering.maps.is_none() => {
                let [table, counts] = with.try_into().map_err(|_| wrong())?;
                steering.maps = Some(HandedMaps { table, counts });
            }
            Message::Group { transport: word, address, members } => {
                let at = TransportAddress { transport: transport(&word).ok_or_else(wrong)?, address };
                if steering.groups.iter().any(|group| group.at == at) {
                    return Err(wrong());
                }
                let mut with = with.into_iter();
                let program = match (with.next(), with.next()) {
                    (Some(program), Some(sockets)) => Some(HandedProgram { program, sockets }),
                    (None, _) => None,
                    _ => return Err(wrong()),
                };
                steering.groups.push(HandedGroup { at, members, program });
            }
            Message::Socket { transport: word, address, lane } => {
                let at = TransportAddress { transport: transport(&word).ok_or_else(wrong)?, address };
                let [socket] = with.try_into().map_err(|_| wrong())?;
                self.sockets.push(LaneSocket { lane, at, socket });
            }
            Message::Shared { transport: word, address, outlives } => {
                let (transport, address) = transport(&word).zip(address.address()).ok_or_else(wrong)?;
                if self.shared.iter().any(|shared| shared.transport == transport && shared.address == address) {
                    return Err(wrong());
                }
                let [socket] = with.try_into().map_err(|_| wrong())?;
                self.shared.push(SharedSocket { transport, address, outlives, socket });
            }
            Message::Listener { address } if self.listeners.len() < LISTENERS_MAX => {
                let [socket] = with.try_into().map_err(|_| wrong())?;
                self.listeners.push((address, socket));
            }
            Message::Keepsake { name, bytes } => self.keepsakes.push((name, bytes)),
            Message::Complete => return Ok(false),
            Message::Refused { why } => return Err(refused(why)),
            _ => return Err(wrong()),
        }
        Ok(true)
    }

    /// Each place has the socket of each lane, and each socket is what it is called.
    fn check(&self) -> Result<(), Error> {
        let mut lanes_at: BTreeMap<(bool, SocketAddr), BTreeSet<usize>> = BTreeMap::new();
        let is_new = |LaneSocket { lane, at, socket }: &LaneSocket| {
            let is_it =
                facts(socket.as_fd()).is_ok_and(|(transport, address)| transport == at.transport && address == at.address);
            is_it && *lane < self.lanes && lanes_at.entry((at.transport == Transport::Tcp, at.address)).or_default().insert(*lane)
        };
        let listens = |(at, socket): &(SocketAddr, OwnedFd)| {
            facts(socket.as_fd()).is_ok_and(|(transport, address)| transport == Transport::Tcp && address == *at)
        };
        if self.listeners.iter().all(listens)
            && self.sockets.iter().all(is_new)
            && lanes_at.values().all(|lanes| lanes.len() == self.lanes)
        {
            return Ok(());
        }
        let process = self.process;
        Err(refused(format!("process {process} hands over what are not the sockets of its lanes: restart without --take-over")))
    }

    /// The settings of this process, with what the other one decides.
    ///
    /// # Errors
    /// What cannot be as it is set.
    pub(crate) fn fit(&self, lanes: &Lanes) -> Result<Lanes, Error> {
        let mut lanes = lanes.clone();
        let count = self.lanes;
        if lanes.lanes.is_some_and(|asked| asked != count) {
            return Err(refused(format!(
                "process {} has {count} lanes, which are handed over one by one: leave out --lanes, or restart without --take-over",
                self.process
            )));
        }
        let there = self.steering.as_ref().map(|steering| steering.in_force);
        let asked = match lanes.steering.steering {
            Steering::Auto => None,
            Steering::Program => Some(corelane_steer::InForce::Program),
            Steering::Classic => Some(corelane_steer::InForce::Classic),
            Steering::Kernel => Some(corelane_steer::InForce::Kernel),
        };
        match (asked, there) {
            (Some(asked), Some(there)) if asked != there && there != corelane_steer::InForce::Nothing => Err(refused(format!(
                "process {} steers by {there}, which goes on: leave out --steering, or restart without --take-over",
                self.process
            ))),
            _ => {
                lanes.lanes = Some(count);
                keepsake::hand_out(&lanes.keepsakes, self.keepsakes.clone());
                Ok(lanes)
            }
        }
    }

    /// Whether each lane has a socket there.
    pub(crate) fn has(&self, transport: Transport, address: &Address) -> bool {
        let is_there = |socket: &LaneSocket| socket.at.transport == transport && address.inet() == Some(socket.at.address);
        self.sockets.iter().any(is_there)
    }

    /// Whether lanes share a socket there.
    pub(crate) fn has_shared(&self, transport: Transport, address: &Address) -> bool {
        self.shared.iter().any(|shared| shared.transport == transport && shared.address == *address)
    }

    /// The socket that all lanes share there, if they do; and whether it outlives this process.
    pub(crate) fn shared(&mut self, transport: Transport, address: &Address) -> Option<(NamedSocket, bool)> {
        let place = self.shared.iter().position(|shared| shared.transport == transport && shared.address == *address)?;
        let SharedSocket { socket, outlives, .. } = self.shared.remove(place);
        Some((NamedSocket::inherited(socket), outlives))
    }

    /// The process that is taken over from.
    pub(crate) fn process(&self) -> u32 {
        self.process
    }

    /// How it steers, once.
    pub(crate) fn take_steering(&mut self) -> Option<Handed> {
        self.steering.take()
    }

    /// The numbers of all sockets of lanes in this process's table, each with its lane and address.
    pub(crate) fn numbers(&self) -> Vec<(usize, Address, i32)> {
        self.sockets.iter().map(|socket| (socket.lane, socket.at.address.into(), socket.socket.as_raw_fd())).collect()
    }

    /// Those that are no service's.
    pub(crate) fn take_listeners(&mut self) -> Vec<(SocketAddr, OwnedFd)> {
        std::mem::take(&mut self.listeners)
    }

    /// Nothing of the start can fail any more but to say so: goes step by step until it is decided which process serves. `announce` is called, once, when the
    /// other one waits for this one alone. If this process is to serve, the other one has left its sockets then, and their names are ours.
    ///
    /// # Errors
    /// The other one serves on: what `announce` says, or why the other one refuses.
    pub(crate) fn decide<E: From<Error>>(&self, announce: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        assert!(self.steering.is_none(), "who serves has taken what was handed over into use");
        let (mut new, mut talk) = (New::asking(self.version), Talk::new(&self.stream));
        let (mut announce, mut event, mut why) = (Some(announce), NewEvent::Started, None);
        loop {
            match new.hear(event) {
                NewStep::Announce => {
                    // reason: the machine has it done once.
                    let announce = announce.take().expect("whoever started this process is told once");
                    announce().inspect_err(|_| assert!(new.hear(NewEvent::Failed) == NewStep::End))?;
                    event = NewEvent::Announced;
                    continue;
                }
                // A word that cannot be said shows in what is heard behind it.
                NewStep::Say(Word::Serving) => drop(talk.say(Message::Serving, &[])),
                NewStep::Say(_) => drop(talk.say(Message::Ready, &[])),
                NewStep::Wait => {}
                NewStep::Serve => break,
                NewStep::End => return Err(why.unwrap_or_else(|| refused("the running process serves on")).into()),
            }
            (event, why) = heard(&mut talk);
        }
        if let Some(why) = why {
            let words = format!("process {} has not said that it has left: {why}", self.process);
            report::line(Record::new(Level::Warn, words).of_program());
        }
        Ok(())
    }

    /// This process serves alone: the names of sockets are ours, and what is not used is closed. The stream stays open as long as this is kept: by its end the
    /// other process would know that this one has died.
    pub(crate) fn own(&mut self, names: &Names, unix: &[Unix]) {
        self.sockets.clear();
        self.shared.clear();
        self.listeners.clear();
        let mut names = names.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter_mut().for_each(|name| name.own(unix));
    }
}

/// The old process's next word, and the fault where it says nothing.
fn heard(talk: &mut Talk<'_>) -> (NewEvent, Option<Error>) {
    match talk.hear() {
        Ok((Message::Agreed, _)) => (NewEvent::Hears(Word::Agreed), None),
        Ok((Message::Released, _)) => (NewEvent::Hears(Word::Released), None),
        Ok((Message::Refused { why }, _)) => (NewEvent::Hears(Word::Refused), Some(refused(why))),
        Ok(_) => (NewEvent::Hears(Word::Other), None),
        Err(error) => {
            let event = match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => NewEvent::Late,
                // A process that says so lives, and has agreed to nothing that could be understood.
                ErrorKind::InvalidData => NewEvent::Hears(Word::Refused),
                _ => NewEvent::Gone,
            };
            (event, Some(lost(error)))
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // Lanes have copies of it in their tables.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::take_over::message::{WrittenAddress, word};
    use corelane_rss::{Buckets, HashTypes, Key, Table};

    fn taken() -> Taken {
        let (stream, _) = UnixStream::pair().unwrap();
        let offer = Message::Offer {
            version: VERSION,
            process: 7,
            lanes: 1,
            steering: corelane_steer::InForce::Kernel.to_string(),
            key: Key::MICROSOFT.to_string(),
            hash_types: HashTypes::ALL.to_string(),
            table: Table::even(Buckets::DEFAULT, 1).unwrap().to_string(),
        };
        Taken::offered(stream, offer).unwrap()
    }

    fn sockets<const N: usize>() -> Vec<OwnedFd> {
        (0..N).map(|_| UnixStream::pair().unwrap().0.into()).collect()
    }

    #[test]
    fn what_is_handed_over_once_is_not_handed_over_twice() {
        let at: SocketAddr = "127.0.0.1:7".parse().unwrap();
        let transport = word(Transport::Tcp);
        let shared = || Message::Shared {
            transport: transport.clone(),
            address: WrittenAddress::of(&at.into()).unwrap(),
            outlives: false,
        };
        let group = || Message::Group { transport: transport.clone(), address: at, members: Vec::new() };
        let mut taken = taken();
        for (first, again) in [
            ((Message::Maps, sockets::<2>()), (Message::Maps, sockets::<2>())),
            ((group(), Vec::new()), (group(), Vec::new())),
            ((shared(), sockets::<1>()), (shared(), sockets::<1>())),
        ] {
            assert!(taken.hears(first).unwrap());
            let why = taken.hears(again).unwrap_err().to_string();
            assert!(why.contains("cannot be read"), "{why}");
        }
        assert!(!taken.hears((Message::Complete, Vec::new())).unwrap());
        assert!(taken.shared(Transport::Tcp, &at.into()).is_some() && taken.shared(Transport::Tcp, &at.into()).is_none());
    }
}
