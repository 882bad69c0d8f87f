//! The translation of a lane: which packets are translated, into what, and which belong to another lane.

use crate::forwards::Forwards;
use crate::packet::{self, AddressAndPort, Packet, Parts, Unfit};
use crate::pool::{Grant, Pool, Wish};
use crate::rewrite::{Side, follow_quoted, set_address, set_end};
use crate::secret::Secret;
use crate::session::{Class, Heading, Key, Session};
use crate::sessions::{Bound, Sessions};
use crate::settings::{Error, Forward, Settings};
use corelane_rss::{FlowHasher, FlowId, Protocol, Tuple};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Sessions and seconds that are looked at with a packet, at most: as many as can come with one, and some more.
const STEPS_EACH: usize = 4;

/// Packets that are looked at before the first of them is translated, at most.
const AHEAD: usize = 64;

/// From so many sessions on packets are looked at ahead: fewer, with what finds them, lie in a processor's own cache.
const MANY: usize = 4096;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on as it is now.
    Translated,
    /// It is nobody's: it is as it was. What is for an external address may be for the gateway itself.
    Untouched,
    /// It is for that lane, whose [`Nat::incoming`] is to see it as it is now.
    Elsewhere(usize),
    /// It is to be dropped.
    Refused(Cause),
}

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A length contradicts itself, or a header is cut short.
    Malformed,
    /// It is a part of a datagram, without ports. What is to be translated is put together before.
    Fragment,
    /// Its protocol has no ports, and nothing in their place.
    Protocol,
    /// There are as many sessions as may be ([`Settings::sessions`]).
    Sessions,
    /// The inside address has as many sessions as one may have ([`Settings::sessions_each`]).
    Source,
    /// No port was found that is free.
    Ports,
    /// It opens a connection to the external port of an inside host that has not sent there: who sends so is not answered, for the host may be about to (RFC 5382, REQ-4).
    Unasked,
}

/// What has happened, since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Packets that were translated.
    pub translated: u64,
    /// Packets of other lanes.
    pub elsewhere: u64,
    /// Sessions that began, that have ended, and those of them whose answers do not come to this lane by their hash.
    pub begun: u64,
    /// See [`Counts::begun`].
    pub ended: u64,
    /// See [`Counts::begun`].
    pub away: u64,
    /// Packets that were refused because of what they are, or because they open a connection that nobody inside has asked for.
    pub refused_unfit: u64,
    /// Packets that were refused because there were as many sessions as may be.
    pub refused_sessions: u64,
    /// Packets that were refused because an inside address had its share.
    pub refused_source: u64,
    /// Packets that were refused because no port was free.
    pub refused_ports: u64,
}

/// What was found of a packet before its turn came.
#[derive(Clone, Copy, Debug)]
struct Looked {
    read: Result<Packet, Unfit>,
    number: Option<u32>,
}

/// Where an external end leads.
enum Leads {
    /// To that end inside.
    To(AddressAndPort),
    /// To that lane, whose port it is.
    Elsewhere(usize),
    /// To an inside host that has not sent there, or not yet.
    Unasked,
    /// Nowhere: it is the gateway's own.
    Nowhere,
}

impl Looked {
    const fn parts(&self) -> Option<&Parts> {
        match &self.read {
            Ok(Packet::Flow(parts)) => Some(parts),
            _ => None,
        }
    }
}

/// The translation of a lane.
#[derive(Debug)]
pub struct Nat {
    settings: Settings,
    hasher: Arc<FlowHasher>,
    sessions: Sessions,
    pool: Pool,
    forwards: Forwards,
    counts: Counts,
}

impl Nat {
    /// The translation with those settings; `hasher` is that of the flows that come in, `random` gives real randomness, of which a secret is made.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(settings: &Settings, hasher: Arc<FlowHasher>, random: impl FnMut() -> u64) -> Result<Self, Error> {
        settings.check()?;
        Ok(Self {
            sessions: Sessions::new(settings, Secret::new(random)),
            pool: Pool::new(settings),
            forwards: Forwards::new(&settings.forwards)?,
            settings: settings.clone(),
            hasher,
            counts: Counts::default(),
        })
    }

    /// Other forwards from now on, all at once. A session on a port that now leads inside is cut off.
    ///
    /// # Errors
    /// What is wrong with them; then those before stay.
    pub fn set_forwards(&mut self, forwards: &[Forward]) -> Result<(), Error> {
        self.settings.check_forwards(forwards)?;
        self.forwards = Forwards::new(forwards)?;
        Ok(())
    }

    /// Whether inside hosts appear with that address.
    #[must_use]
    pub fn is_external(&self, address: Ipv4Addr) -> bool {
        self.pool.number_of(address).is_some()
    }

    /// How many sessions there are.
    #[must_use]
    pub const fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// How many external ports are given out.
    #[must_use]
    pub fn ports(&self) -> usize {
        self.pool.taken()
    }

    /// What has happened.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes of memory that sessions take when there are as many as may be. Of what is not used yet the system has not given any.
    #[must_use]
    pub const fn memory_bytes(&self) -> usize {
        self.sessions.bytes()
    }

    /// Translates the source of a packet that leaves by an external interface, its IP header in front. `now` is in nanoseconds of a clock that does not go back;
    /// `is_home` says of a flow that comes in whether this lane gets it. What an inside host sends to an external address comes back inside (RFC 4787, REQ-9).
    pub fn outgoing(&mut self, now: u64, packet: &mut [u8], is_home: impl Fn(FlowId) -> bool) -> Verdict {
        self.outgoing_front(now, packet, 0, is_home)
    }

    /// The same of a packet of which `front` has the headers, and up to `missing` bytes more lie elsewhere.
    pub fn outgoing_front(&mut self, now: u64, front: &mut [u8], missing: usize, is_home: impl Fn(FlowId) -> bool) -> Verdict {
        let looked = Looked { read: Packet::read(front, missing), number: None };
        self.packet_out(seconds(now), front, &looked, is_home)
    }

    /// Translates the destination of a packet that has come by an external interface, its IP header in front. `now` as for [`Nat::outgoing`].
    pub fn incoming(&mut self, now: u64, packet: &mut [u8]) -> Verdict {
        self.incoming_front(now, packet, 0)
    }

    /// The same of a packet of which `front` has the headers, and up to `missing` bytes more lie elsewhere.
    pub fn incoming_front(&mut self, now: u64, front: &mut [u8], missing: usize) -> Verdict {
        let looked = Looked { read: Packet::read(front, missing), number: None };
        self.packet_in(seconds(now), front, &looked)
    }

    /// The same as [`Nat::outgoing`] for each of these packets in their order; `done` is told of each by its place. With many sessions it costs half: what is
    /// needed of memory for one packet comes while others are looked at.
    pub fn outgoing_all(
        &mut self,
        now: u64,
        packets: &mut [&mut [u8]],
        is_home: impl Fn(FlowId) -> bool,
        mut done: impl FnMut(usize, Verdict),
    ) {
        let now = seconds(now);
        for (chunk, first) in packets.chunks_mut(AHEAD).zip((0..).step_by(AHEAD)) {
            let looked = self.look_at(chunk, |_, parts| Some(out_key(parts)));
            for ((packet, looked), place) in chunk.iter_mut().zip(&looked).zip(first..) {
                done(place, self.packet_out(now, packet, looked, &is_home));
            }
        }
    }

    /// The same as [`Nat::incoming`], likewise.
    pub fn incoming_all(&mut self, now: u64, packets: &mut [&mut [u8]], mut done: impl FnMut(usize, Verdict)) {
        let now = seconds(now);
        for (chunk, first) in packets.chunks_mut(AHEAD).zip((0..).step_by(AHEAD)) {
            let looked = self.look_at(chunk, Self::in_key);
            for ((packet, looked), place) in chunk.iter_mut().zip(&looked).zip(first..) {
                done(place, self.packet_in(now, packet, looked));
            }
        }
    }

    /// The flow that the packet was an answer to that an error is about. Cards place errors by other ends than their flow's; the lane that has its session is that of this flow, be
    /// the error from outside or from inside. None of what is no error.
    #[must_use]
    pub fn flow_of_error(&self, front: &[u8], missing: usize) -> Option<FlowId> {
        let Ok(Packet::Error { inner, .. }) = Packet::read(front, missing) else { return None };
        let end = |(address, port): AddressAndPort| SocketAddr::new(address.into(), port);
        let flow = Tuple::new(end(inner.destination), end(inner.source), Protocol(inner.class.protocol())).ok()?;
        self.hasher.tuple(&flow).map(|hashed| hashed.flow)
    }

    /// Has what packets need of memory in the cache before the first of them is translated, for who translates one after the other. Each is the front of a packet of
    /// either way, its IP header first; of more than 64 only the first are looked at. Nothing changes, and what is no packet is passed over. Among few sessions,
    /// which the cache holds, nobody looks.
    pub fn look_ahead<'p>(&self, fronts: impl IntoIterator<Item = &'p [u8]>) {
        if self.sessions.len() < MANY {
            return;
        }
        let (mut hashes, mut many) = ([0; AHEAD], 0);
        let keys = fronts.into_iter().filter_map(|front| self.key_of(front));
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = self.sessions.hash(&key);
            self.sessions.fetch_entry(*hash);
            many += 1;
        }
        hashes[..many].iter().for_each(|hash| self.sessions.fetch_session(*hash));
    }

    /// The key of a packet's session: a packet that is for an external address comes from outside, as far as can be told without an interface.
    fn key_of(&self, front: &[u8]) -> Option<Key> {
        match Packet::read(front, usize::from(u16::MAX)) {
            Ok(Packet::Flow(parts)) => Some(self.in_key(&parts).unwrap_or_else(|| out_key(&parts))),
            _ => None,
        }
    }

    /// Reads packets, then looks for their sessions.
    fn look_at(&self, packets: &[&mut [u8]], key: impl Fn(&Self, &Parts) -> Option<Key>) -> [Looked; AHEAD] {
        let mut all = [Looked { read: Err(Unfit::Malformed), number: None }; AHEAD];
        let mut hashes = [0; AHEAD];
        for ((looked, hash), packet) in all.iter_mut().zip(&mut hashes).zip(packets) {
            looked.read = Packet::read(packet, 0);
            let key = looked.parts().and_then(|parts| key(self, parts));
            *hash = key.map_or(0, |key| self.sessions.hash(&key));
            self.sessions.fetch_entry(*hash);
        }
        hashes.iter().take(packets.len()).for_each(|hash| self.sessions.fetch_session(*hash));
        for (looked, hash) in all.iter_mut().zip(hashes) {
            let key = looked.parts().and_then(|parts| key(self, parts));
            looked.number = key.and_then(|key| self.sessions.find_hashed(&key, hash));
        }
        all
    }

    #[inline]
    fn packet_out(&mut self, now: u32, packet: &mut [u8], looked: &Looked, is_home: impl Fn(FlowId) -> bool) -> Verdict {
        self.expire_some(now, STEPS_EACH);
        let verdict = match &looked.read {
            Ok(Packet::Flow(parts)) => self.flow_out(now, packet, (parts, looked.number), is_home),
            Ok(Packet::Error { message_at, inner, .. }) => self.error_out(now, packet, *message_at, inner),
            // It may be for the gateway itself.
            Err(_) if packet::destination(packet).is_some_and(|to| self.is_external(to)) => Verdict::Untouched,
            Err(unfit) => Verdict::Refused((*unfit).into()),
        };
        self.count(verdict)
    }

    #[inline]
    fn packet_in(&mut self, now: u32, packet: &mut [u8], looked: &Looked) -> Verdict {
        self.expire_some(now, STEPS_EACH);
        let verdict = match &looked.read {
            Ok(Packet::Flow(parts)) => self.flow_in(now, packet, (parts, looked.number)),
            Ok(Packet::Error { destination, message_at, inner }) => {
                self.error_in(now, packet, (*destination, *message_at), inner)
            }
            // It may be for the gateway itself.
            Err(_) => Verdict::Untouched,
        };
        self.count(verdict)
    }

    /// Ends sessions whose time is over, in `steps` steps at most. Packets do so as well, a few at a time; a lane without packets calls this once a second.
    pub fn expire(&mut self, now: u64, steps: usize) {
        self.expire_some(seconds(now), steps);
    }

    fn expire_some(&mut self, now: u32, steps: usize) {
        if self.sessions.is_due(now) {
            let Self { sessions, pool, counts, .. } = self;
            sessions.expire(now, steps, |session| end(session, pool, counts));
        }
    }

    fn flow_out(
        &mut self,
        now: u32,
        packet: &mut [u8],
        (parts, number): (&Parts, Option<u32>),
        is_home: impl Fn(FlowId) -> bool,
    ) -> Verdict {
        let is_hairpin = self.pool.number_of(parts.destination.0).is_some();
        if self.pool.number_of(parts.source.0).is_some() || is_hairpin && !self.may_lead(parts) {
            return Verdict::Untouched;
        }
        let source = match self.forwards.outside(parts.class, parts.source) {
            Some(external) => Ok(external),
            // Nobody inside has asked.
            None if parts.is_reply => return Verdict::Untouched,
            None => self.session_out(now, parts, number, is_home),
        };
        let source = match source {
            Ok(source) => source,
            Err(cause) => return Verdict::Refused(cause),
        };
        // Before anything is changed: what leads nowhere stays as it was.
        let led = is_hairpin.then(|| self.leads(now, &Parts { source, ..*parts }, None));
        let verdict = match led {
            None | Some(Leads::To(_)) => Verdict::Translated,
            Some(Leads::Elsewhere(lane)) => Verdict::Elsewhere(lane),
            Some(Leads::Unasked) => return Verdict::Refused(Cause::Unasked),
            Some(Leads::Nowhere) => return Verdict::Untouched,
        };
        set_end(packet, parts, Side::Source, source);
        if let Some(Leads::To(inside)) = led {
            set_end(packet, parts, Side::Destination, inside);
        }
        verdict
    }

    /// Whether an external end may lead inside: a forward is there, or a session has its port, or another lane knows. If not it is the gateway's own, and nobody takes a
    /// session for it.
    fn may_lead(&self, parts: &Parts) -> bool {
        let (class, destination) = (parts.class, parts.destination);
        let is_port = || match self.pool.owner(destination.1) {
            Some(lane) if lane == self.settings.lane.0 => self.pool.is_given(class, destination),
            owner => owner.is_some(),
        };
        class != Class::Echo && (is_port() || self.forwards.inside(class, destination).is_some())
    }

    /// The external end of the session that an outgoing packet belongs to, which begins with it if there is none.
    fn session_out(
        &mut self,
        now: u32,
        parts: &Parts,
        looked: Option<u32>,
        is_home: impl Fn(FlowId) -> bool,
    ) -> Result<AddressAndPort, Cause> {
        let key = out_key(parts);
        let number = match self.session(looked, &key, now) {
            Some(number) => number,
            None => self.begin(now, &key, is_home)?,
        };
        self.sessions.note(number, Heading::Out, parts.flags, now);
        let Session { external, port, .. } = *self.sessions.get(number);
        Ok((self.pool.external(external), port))
    }

    /// The session of a key: that which was found before, if it still is; else it is looked for again.
    fn session(&self, looked: Option<u32>, key: &Key, now: u32) -> Option<u32> {
        let is_live = |number: &u32| self.sessions.is_of(*number, key, now);
        looked.filter(is_live).or_else(|| self.sessions.find(key).filter(is_live))
    }

    fn begin(&mut self, now: u32, key: &Key, is_home: impl Fn(FlowId) -> bool) -> Result<u32, Cause> {
        let Self { sessions, pool, forwards, hasher, counts, .. } = self;
        // One that is there all the same has ended, and nobody has looked at it yet.
        if let Some(session) = sessions.take_ended(key) {
            end(&session, pool, counts);
        }
        sessions.check_room(key.local).map_err(|bound| match bound {
            Bound::All => Cause::Sessions,
            Bound::Each => Cause::Source,
        })?;
        let (class, inside, inside_port) = (key.class, key.local, key.local_port);
        let remote = Ipv4Addr::from_bits(key.remote);
        let wish = Wish { class, inside, inside_port, remote, remote_port: key.remote_port, chance: sessions.chance(key) };
        let is_free = |external: Ipv4Addr, port: u16| forwards.is_empty() || forwards.inside(class, (external, port)).is_none();
        let grant = pool.take(&wish, hasher, is_home, is_free).ok_or(Cause::Ports)?;
        let Grant { external, port, is_home } = grant;
        counts.begun += 1;
        counts.away += u64::from(!is_home);
        Ok(sessions.insert(Session::new(key, (external, port), now)))
    }

    /// What an answer is found by, if it is for an external address.
    fn in_key(&self, parts: &Parts) -> Option<Key> {
        let external = self.pool.number_of(parts.destination.0)?;
        Some(key(Heading::In, parts.class, (external.into(), parts.destination.1), parts.source))
    }

    fn flow_in(&mut self, now: u32, packet: &mut [u8], (parts, looked): (&Parts, Option<u32>)) -> Verdict {
        match self.leads(now, parts, looked) {
            Leads::To(inside) => {
                set_end(packet, parts, Side::Destination, inside);
                Verdict::Translated
            }
            Leads::Elsewhere(lane) => Verdict::Elsewhere(lane),
            Leads::Unasked => Verdict::Refused(Cause::Unasked),
            Leads::Nowhere => Verdict::Untouched,
        }
    }

    /// Where the destination of a packet leads, which its session notes.
    fn leads(&mut self, now: u32, parts: &Parts, looked: Option<u32>) -> Leads {
        let Some(key) = self.in_key(parts) else { return Leads::Nowhere };
        if let Some(inside) = self.forwards.inside(parts.class, parts.destination) {
            return Leads::To(inside);
        }
        if parts.class == Class::Echo && !parts.is_reply {
            return Leads::Nowhere;
        }
        let Some(number) = self.session(looked, &key, now) else {
            let opens = parts.class == Class::Tcp && parts.flags.opens();
            return match self.of_other_lane(parts.destination.1) {
                Some(lane) => Leads::Elsewhere(lane),
                None if opens && self.pool.is_given(parts.class, parts.destination) => Leads::Unasked,
                None => Leads::Nowhere,
            };
        };
        self.sessions.note(number, Heading::In, parts.flags, now);
        let session = self.sessions.get(number);
        Leads::To((Ipv4Addr::from_bits(session.inside), session.inside_port))
    }

    /// The lane whose external port that is, if it is another: no session of it is here.
    fn of_other_lane(&self, port: u16) -> Option<usize> {
        self.pool.owner(port).filter(|lane| *lane != self.settings.lane.0)
    }

    /// An error from outside about a packet that was sent: its quoted source is an external end. It keeps no session alive (RFC 5508, REQ-3 to REQ-5).
    fn error_in(&mut self, now: u32, packet: &mut [u8], (destination, message_at): (Ipv4Addr, u16), inner: &Parts) -> Verdict {
        let external = self.pool.number_of(inner.source.0).filter(|_| inner.source.0 == destination);
        let Some(external) = external else { return Verdict::Untouched };
        let inside = self.forwards.inside(inner.class, inner.source).or_else(|| {
            let key = key(Heading::In, inner.class, (external.into(), inner.source.1), inner.destination);
            let session = self.sessions.get(self.session(None, &key, now)?);
            Some((Ipv4Addr::from_bits(session.inside), session.inside_port))
        });
        let Some(inside) = inside else {
            return self.of_other_lane(inner.source.1).map_or(Verdict::Untouched, Verdict::Elsewhere);
        };
        let change = set_end(packet, inner, Side::Source, inside);
        follow_quoted(packet, message_at, change);
        set_address(packet, 0, Side::Destination, inside.0);
        Verdict::Translated
    }

    /// An error from inside about a packet that was passed in: its quoted destination is an inside end.
    fn error_out(&mut self, now: u32, packet: &mut [u8], message_at: u16, inner: &Parts) -> Verdict {
        let external = self.forwards.outside(inner.class, inner.destination).or_else(|| {
            let inside = (inner.destination.0.to_bits(), inner.destination.1);
            let session = self.sessions.get(self.session(None, &key(Heading::Out, inner.class, inside, inner.source), now)?);
            Some((self.pool.external(session.external), session.port))
        });
        let Some(external) = external else { return Verdict::Untouched };
        let change = set_end(packet, inner, Side::Destination, external);
        follow_quoted(packet, message_at, change);
        set_address(packet, 0, Side::Source, external.0);
        Verdict::Translated
    }

    fn count(&mut self, verdict: Verdict) -> Verdict {
        let counts = &mut self.counts;
        match verdict {
            Verdict::Translated => counts.translated += 1,
            Verdict::Untouched => {}
            Verdict::Elsewhere(_) => counts.elsewhere += 1,
            Verdict::Refused(Cause::Sessions) => counts.refused_sessions += 1,
            Verdict::Refused(Cause::Source) => counts.refused_source += 1,
            Verdict::Refused(Cause::Ports) => counts.refused_ports += 1,
            Verdict::Refused(_) => counts.refused_unfit += 1,
        }
        verdict
    }
}

impl From<Unfit> for Cause {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::Malformed => Self::Malformed,
            Unfit::Fragment => Self::Fragment,
            Unfit::Protocol => Self::Protocol,
        }
    }
}

/// Seconds of a clock in nanoseconds: 136 years of them.
const fn seconds(nanoseconds: u64) -> u32 {
    (nanoseconds / 1_000_000_000) as u32
}

fn key(way: Heading, class: Class, (local, local_port): (u32, u16), (remote, remote_port): AddressAndPort) -> Key {
    Key { way, class, local, local_port, remote: remote.to_bits(), remote_port }
}

/// What a packet that leaves is found by.
fn out_key(parts: &Parts) -> Key {
    key(Heading::Out, parts.class, (parts.source.0.to_bits(), parts.source.1), parts.destination)
}

/// A session has ended: its port is free.
fn end(session: &Session, pool: &mut Pool, counts: &mut Counts) {
    pool.give(session.class(), (session.inside, session.inside_port), session.external, session.port);
    counts.ended += 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_rss::HashTypes;

    const INSIDE: AddressAndPort = (Ipv4Addr::new(10, 0, 0, 5), 4000);
    const REMOTE: AddressAndPort = (Ipv4Addr::new(198, 51, 100, 1), 53);

    fn nat() -> Nat {
        let hasher = Arc::new(FlowHasher::new(&corelane_rss::Key::MICROSOFT, HashTypes::ALL));
        let mut random = corelane_seam::Random::new(1);
        Nat::new(&Settings::new(Ipv4Addr::new(192, 0, 2, 1)), hasher, || random.bits()).unwrap()
    }

    /// Said to have data, which lies elsewhere.
    fn datagram(from: AddressAndPort, to: AddressAndPort) -> [u8; 28] {
        let mut bytes = [0; 28];
        (bytes[0], bytes[2], bytes[8], bytes[9], bytes[24]) = (0x45, 1, 64, 17, 1);
        bytes[12..16].copy_from_slice(&from.0.octets());
        bytes[16..20].copy_from_slice(&to.0.octets());
        bytes[20..22].copy_from_slice(&from.1.to_be_bytes());
        bytes[22..24].copy_from_slice(&to.1.to_be_bytes());
        bytes
    }

    fn end_at(bytes: &[u8]) -> AddressAndPort {
        (Ipv4Addr::new(bytes[12], bytes[13], bytes[14], bytes[15]), u16::from_be_bytes([bytes[20], bytes[21]]))
    }

    #[test]
    fn ahead_a_packet_is_looked_for_by_the_key_of_its_session() {
        let mut nat = nat();
        let question = datagram(INSIDE, REMOTE);
        let mut sent = question;
        assert_eq!(nat.outgoing_front(0, &mut sent, 228, |_| true), Verdict::Translated);
        let answer = datagram(REMOTE, end_at(&sent));
        let found = |nat: &Nat, packet: &[u8]| nat.key_of(packet).map(|key| (key.way, nat.sessions.find(&key)));
        assert_eq!(found(&nat, &question), Some((Heading::Out, Some(0))));
        assert_eq!(found(&nat, &answer), Some((Heading::In, Some(0))));
        assert_eq!(found(&nat, &datagram(REMOTE, INSIDE)), Some((Heading::Out, None)), "another flow");
        assert_eq!(found(&nat, &question[..27]), None, "its ports are cut off");
        assert_eq!(found(&nat, &[0; 28]), None);
    }

    /// More than are looked at together, with as many sessions as are needed for a look; and none at all.
    #[test]
    fn any_number_of_packets_may_come_ahead() {
        let mut nat = nat();
        let questions: Vec<[u8; 28]> =
            (0..MANY as u32).map(|number| datagram((Ipv4Addr::from_bits(0x0a00_0000 + number), 4000), REMOTE)).collect();
        for question in &questions {
            assert_eq!(nat.outgoing_front(0, &mut { *question }, 228, |_| true), Verdict::Translated);
        }
        nat.look_ahead(questions.iter().map(<[u8; 28]>::as_slice));
        nat.look_ahead(questions[..1].iter().map(<[u8; 28]>::as_slice));
        nat.look_ahead([]);
    }
}
