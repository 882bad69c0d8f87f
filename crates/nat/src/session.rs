//! One session: a flow between an inside host and another, and the external port that stands for it.

use crate::secret::Words;
use crate::settings::Timeouts;

/// Leads to no session.
pub(crate) const NONE: u32 = u32::MAX;

/// What has ports, or identifiers in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Udp,
    Tcp,
    Echo,
}

impl Class {
    pub const COUNT: usize = 3;

    /// The number of the protocol.
    pub const fn protocol(self) -> u8 {
        match self {
            Self::Udp => 17,
            Self::Tcp => 6,
            Self::Echo => 1,
        }
    }
}

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heading {
    /// From an inside host.
    Out,
    /// To one.
    In,
}

/// What a packet is found by. `local` is the inside host, or the number of the external address; of an echo, `local_port` is its identifier, and there is no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub way: Heading,
    pub class: Class,
    pub local: u32,
    pub local_port: u16,
    pub remote: u32,
    pub remote_port: u16,
}

impl Key {
    pub const fn words(&self) -> Words {
        let ports = (self.local_port as u32) << 16 | self.remote_port as u32;
        [self.local, self.remote, ports, (self.class as u32) << 1 | self.way as u32]
    }
}

/// A segment's flags that matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(pub u8);

impl Flags {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const ACK: u8 = 16;

    const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    /// Whether a segment with these opens a connection.
    pub const fn opens(self) -> bool {
        self.has(Self::SYN) && !self.has(Self::ACK) && !self.has(Self::RST)
    }
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Phase(u8);

impl Phase {
    /// Something came back.
    const ANSWERED: u8 = 1;
    const ESTABLISHED: u8 = 2;
    /// Each side has finished.
    const FIN_OUT: u8 = 4;
    const FIN_IN: u8 = 8;
    /// One side has reset it.
    const RESET: u8 = 16;
    const FINS: u8 = Self::FIN_OUT | Self::FIN_IN;

    const fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }

    const fn is_closed(self) -> bool {
        self.has(Self::FINS) || self.has(Self::RESET)
    }

    const fn is_established(self) -> bool {
        self.has(Self::ESTABLISHED) && !self.is_closed()
    }

    /// After a segment. A reset that the inside host does not believe, for it goes on, changes nothing for long: anybody may have sent it.
    const fn after(self, way: Heading, flags: Flags) -> Self {
        let (fin, is_out) = (flags.has(Flags::FIN), matches!(way, Heading::Out));
        if flags.has(Flags::RST) {
            return Self(self.0 | Self::RESET);
        }
        if is_out && flags.has(Flags::SYN) && self.is_closed() {
            // The same ports again.
            return Self(0);
        }
        let mut bits = self.0;
        match way {
            Heading::Out if fin => bits |= Self::FIN_OUT,
            Heading::In if fin => bits |= Self::FIN_IN | Self::ANSWERED,
            Heading::In => bits |= Self::ANSWERED,
            Heading::Out if flags.has(Flags::ACK) && !flags.has(Flags::SYN) => {
                bits &= !Self::RESET;
                bits |= if self.has(Self::ANSWERED) { Self::ESTABLISHED } else { 0 };
            }
            Heading::Out => {}
        }
        Self(bits)
    }
}

/// A session, half a cache line: what each packet reads and writes, and its place in the wheel.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Session {
    pub inside: u32,
    pub remote: u32,
    pub inside_port: u16,
    pub remote_port: u16,
    /// The external port, and the number of the external address.
    pub port: u16,
    pub external: u8,
    /// The class, and above it the phase.
    kind: u8,
    /// The second of its last packet.
    pub used: u32,
    /// The second at which it is looked at next, and those that are looked at with it.
    pub due: u32,
    pub next: u32,
    pub before: u32,
}

impl Session {
    /// No class and no phase is all ones.
    const ENDED: u8 = u8::MAX;

    /// A new session of that flow, with that external address and port.
    pub const fn new(key: &Key, (external, port): (u8, u16), now: u32) -> Self {
        let Key { class, local, local_port, remote, remote_port, .. } = *key;
        Self {
            inside: local,
            remote,
            inside_port: local_port,
            remote_port,
            port,
            external,
            kind: class as u8,
            used: now,
            due: 0,
            next: NONE,
            before: NONE,
        }
    }

    /// One that has ended, and the next of those.
    pub const fn ended(next: u32) -> Self {
        let nobody = Key { way: Heading::Out, class: Class::Udp, local: 0, local_port: 0, remote: 0, remote_port: 0 };
        Self { next, kind: Self::ENDED, ..Self::new(&nobody, (0, 0), 0) }
    }

    pub const fn is_live(&self) -> bool {
        self.kind != Self::ENDED
    }

    pub const fn class(&self) -> Class {
        match self.kind & 3 {
            0 => Class::Udp,
            1 => Class::Tcp,
            _ => Class::Echo,
        }
    }

    /// What packets of that way are found by.
    pub const fn key(&self, way: Heading) -> Key {
        let (local, local_port) = match way {
            Heading::Out => (self.inside, self.inside_port),
            Heading::In => (self.external as u32, self.port),
        };
        let Self { remote, remote_port, .. } = *self;
        Key { way, class: self.class(), local, local_port, remote, remote_port }
    }

    /// Notes a packet; says whether the session ends earlier than it would have.
    #[inline]
    pub const fn note(&mut self, way: Heading, flags: Flags, now: u32) -> bool {
        if self.used != now {
            // A line that is only read need not be written back.
            self.used = now;
        }
        if !matches!(self.class(), Class::Tcp) {
            return false;
        }
        let before = Phase(self.kind >> 2);
        let after = before.after(way, flags);
        self.kind = self.kind & 3 | after.0 << 2;
        before.is_established() && !after.is_established()
    }

    /// The second at which it ends without another packet.
    pub const fn end(&self, timeouts: &Timeouts) -> u32 {
        let timeout = match self.class() {
            Class::Udp => timeouts.udp,
            Class::Echo => timeouts.echo,
            Class::Tcp if Phase(self.kind >> 2).is_established() => timeouts.established,
            Class::Tcp => timeouts.transitory,
        };
        // The last packet may have come at the end of its second.
        self.used.saturating_add(timeout + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(segments: &[(Heading, u8)]) -> Phase {
        segments.iter().fold(Phase::default(), |phase, (way, flags)| phase.after(*way, Flags(*flags)))
    }

    const SYN: (Heading, u8) = (Heading::Out, Flags::SYN);
    const SYN_ACK: (Heading, u8) = (Heading::In, Flags::SYN | Flags::ACK);
    const ACK: (Heading, u8) = (Heading::Out, Flags::ACK);
    const FIN: (Heading, u8) = (Heading::Out, Flags::FIN | Flags::ACK);
    const FIN_BACK: (Heading, u8) = (Heading::In, Flags::FIN | Flags::ACK);
    const RST_BACK: (Heading, u8) = (Heading::In, Flags::RST);

    #[test]
    fn a_connection_is_established_when_both_have_said_so_and_until_both_have_finished() {
        assert!(!phase(&[SYN]).is_established() && !phase(&[SYN, SYN_ACK]).is_established());
        assert!(!phase(&[SYN, ACK]).is_established(), "nothing has come back");
        assert!(phase(&[SYN, SYN_ACK, ACK]).is_established());
        assert!(phase(&[SYN, SYN_ACK, ACK, FIN]).is_established(), "the other side may go on for long");
        assert!(phase(&[SYN, SYN_ACK, ACK, FIN_BACK, ACK]).is_established());
        for closed in [[FIN, FIN_BACK, ACK], [FIN_BACK, FIN, (Heading::In, Flags::ACK)]] {
            assert!(!phase(&[&[SYN, SYN_ACK, ACK][..], &closed].concat()).is_established());
        }
        assert!(phase(&[SYN, SYN_ACK, ACK, FIN, FIN_BACK, ACK, SYN, SYN_ACK, ACK]).is_established(), "the same ports again");
    }

    #[test]
    fn a_reset_counts_unless_the_inside_host_goes_on() {
        let closed = [SYN, SYN_ACK, ACK, RST_BACK];
        assert!(!phase(&closed).is_established());
        assert!(!phase(&[&closed[..], &[(Heading::In, Flags::ACK)]].concat()).is_established(), "that is of who has sent it");
        assert!(phase(&[&closed[..], &[ACK]].concat()).is_established());
        assert!(!phase(&[SYN, SYN_ACK, ACK, (Heading::Out, Flags::RST)]).is_established());
    }

    #[test]
    fn a_session_is_half_a_cache_line() {
        assert_eq!(size_of::<Session>(), 32);
    }
}
