//! What a stack counts.

use crate::tunnels::{Tunnel, TunnelCounts};
use corelane_seam::Lost;

/// Why a packet that arrived went no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Drop {
    /// A header is cut short, contradicts itself, or is of no format that there is.
    Malformed,
    /// A checksum is wrong.
    Checksum,
    /// It is for somebody else: another station, or another address.
    NotOurs,
    /// It lies in more frames than a packet may, or is a fragment whose headers do not fit in front of each, or a tunnel carries it and no frame holds it.
    Pieces,
    /// Its protocol has nobody here.
    Protocol,
    /// No socket has its port.
    Port,
    /// The socket's queue was full.
    Full,
    /// The queue of its protocol on the lane was full.
    Queue,
    /// Its memory may not go to the lane of its bucket, or the channel there was full.
    Crossing,
    /// It had no neighbour in time. Of one in several frames each is counted.
    Neighbour,
    /// No frame was free to answer it, or to put what it carries together.
    Frames,
    /// It came in more tunnels than are opened.
    Nest,
    /// The ring of its channel was full, or it was too long for one.
    Channel,
    /// No interface of its port has its VLAN tags.
    Vlan,
    /// It was to be forwarded, from or to an address that no host has, or from one of ours.
    Martian,
    /// It was to be forwarded, and no route leads back to its sender by where it came.
    ReversePath,
    /// It was to be forwarded, and no route leads to where it is for.
    NoRoute,
    /// It had passed as many routers as it may.
    Hops,
    /// It was longer than the link that it was to leave by carries, and may not be cut.
    TooBig,
    /// It was to be forwarded by a route of its sender's.
    SourceRoute,
    /// Rules have kept it back, or one of our own.
    Judged,
    /// It was to be forwarded, and too many frames waited for the port that it was to leave by.
    Outgoing,
    /// Its addresses were to be translated, and could not be: it is of no flow, of no kind that can be, or a bound was met.
    Translation,
    /// A message of DHCP that may not be relayed: from a client it names a relay already (IPv4), has passed too many, or is a server's; from a server it is for no client of ours, or
    /// comes from none; or it is too long.
    Relay,
    /// More messages of DHCP came than are relayed.
    RelayLimited,
}

impl Drop {
    /// How many there are.
    pub const COUNT: usize = 25;
}

/// What was counted since the stack was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketCounts {
    /// Frames that arrived.
    pub frames_in: u64,
    /// Frames that were handed to the port.
    pub frames_out: u64,
    /// Datagrams that reached UDP: those that were damaged, had no socket ([`Drop::Port`]), found its queue full ([`Drop::Full`]), were given to it
    /// (`datagrams_in`), or went on to its lane (`strays`); each is one of these.
    pub datagrams_arrived: u64,
    /// Datagrams whose header or checksum was wrong.
    pub datagrams_damaged: u64,
    /// Datagrams that sockets were given.
    pub datagrams_in: u64,
    /// Datagrams that sockets have sent.
    pub datagrams_out: u64,
    /// Fragments that were made of longer datagrams.
    pub fragments_out: u64,
    /// Questions for neighbours that were answered.
    pub questions_answered: u64,
    /// Questions for neighbours that were asked.
    pub questions_asked: u64,
    /// Questions for neighbours that the limit kept back.
    pub questions_limited: u64,
    /// Echo requests that were answered.
    pub echoes: u64,
    /// ICMP errors that were sent.
    pub errors_out: u64,
    /// ICMP errors and echo replies that the limit kept back.
    pub errors_limited: u64,
    /// Frames of others that claimed an address of ours.
    pub conflicts: u64,
    /// Questions whether somebody else has an address of ours.
    pub probes_sent: u64,
    /// Announcements that we have one.
    pub announcements_sent: u64,
    /// Reports of groups that are listened for.
    pub reports_sent: u64,
    /// Packets that went to the lane of their bucket.
    pub crossed: u64,
    /// Datagrams that came to another lane than their socket's, and were brought there.
    pub strays: u64,
    /// Packets that were put into channels.
    pub channelled: u64,
    /// Words of routers that a way is narrower than the interface, which were believed.
    pub ways_narrowed: u64,
    /// Packets whose checksum a sender on the same machine had left to its card, which were taken.
    pub sums_left: u64,
    /// Packets that were forwarded.
    pub forwarded: u64,
    /// Requests of DHCP clients that were passed on to a server at least. Those that rules keep back are among [`Drop::Judged`], once for each server.
    pub relay_requests: u64,
    /// Answers of DHCP servers that were passed on to clients; those that rules keep back are among [`Drop::Judged`].
    pub relay_replies: u64,
    /// How often the interface was found down.
    pub downs: u64,
    pub(crate) tunnels: [TunnelCounts; Tunnel::ALL.len()],
    drops: [u64; Drop::COUNT],
}

impl PacketCounts {
    /// Packets that were dropped for that reason.
    #[must_use]
    pub const fn of(&self, drop: Drop) -> u64 {
        self.drops[drop as usize]
    }

    /// What was counted of that kind of tunnel.
    #[must_use]
    pub const fn of_tunnel(&self, tunnel: Tunnel) -> TunnelCounts {
        self.tunnels[tunnel as usize]
    }

    /// Packets that were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// Whether each datagram that arrived is accounted for.
    #[must_use]
    pub const fn datagrams_add_up(&self) -> bool {
        let lost = self.datagrams_damaged + self.of(Drop::Port) + self.of(Drop::Full);
        self.datagrams_arrived == lost + self.datagrams_in + self.strays
    }

    const fn drop_many(&mut self, drop: Drop, packets: u64) {
        self.drops[drop as usize] += packets;
    }
}

/// What went no further at one interface. Each packet that was dropped is one of these, once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Packets that rules kept back: that came by it, or that the stack itself was to send by it.
    pub refused: u64,
    /// Packets that came by it damaged: malformed, or with a wrong checksum.
    pub errors: u64,
    /// Frames that came by it and were for nobody here: another station, another address, or VLAN tags of no interface.
    pub not_ours: u64,
    /// Packets that came by it and went no further for any other reason.
    pub drops: u64,
    /// Packets that were to leave by it and did not: nobody answered for their neighbour, no frame was free for what the stack itself has to say, or the port did not take them.
    pub unsent: u64,
}

impl Losses {
    /// All of them.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.refused + self.errors + self.not_ours + self.drops + self.unsent
    }

    /// Those of packets that came, for that reason.
    const fn of(&mut self, drop: Drop) -> &mut u64 {
        match drop {
            Drop::Judged => &mut self.refused,
            Drop::Malformed | Drop::Checksum => &mut self.errors,
            Drop::NotOurs | Drop::Vlan => &mut self.not_ours,
            _ => &mut self.drops,
        }
    }

    /// With what its port has lost by itself.
    pub(crate) const fn with_port(self, port: &Lost) -> Self {
        let Self { errors, drops, unsent, .. } = self;
        let drops = drops + port.no_frame + port.ring_full;
        Self { errors: errors + port.too_long, drops, unsent: unsent + port.send_lost, ..self }
    }
}

/// What is counted, and whether that was since it was last written into the page.
#[derive(Debug)]
pub(crate) struct Tally {
    counts: PacketCounts,
    /// By the numbers of the interfaces.
    losses: Box<[Losses]>,
    /// The interface that what is looked at now has come to.
    at: usize,
    is_untold: bool,
}

impl Tally {
    /// Of so many interfaces. Nothing was counted, and the page does not say so yet.
    pub fn new(interfaces: usize) -> Self {
        Self { counts: PacketCounts::default(), losses: vec![Losses::default(); interfaces].into(), at: 0, is_untold: true }
    }

    /// What is looked at from now on has come to that interface.
    pub const fn look_at(&mut self, interface: usize) {
        self.at = interface;
    }

    /// The interface that what is looked at now has come to.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// What is looked at now goes no further.
    pub fn drop(&mut self, why: Drop) {
        self.drop_at(self.at, why);
    }

    /// A packet that came by an interface goes no further.
    pub fn drop_at(&mut self, interface: usize, why: Drop) {
        self.drop_many(why, 1);
        *self.losses[interface].of(why) += 1;
    }

    /// Packets that were to leave by an interface do not.
    pub fn unsent_at(&mut self, interface: usize, why: Drop, packets: u64) {
        self.drop_many(why, packets);
        self.losses[interface].unsent += packets;
    }

    /// What went no further at each interface.
    pub fn losses(&self) -> &[Losses] {
        assert!(self.losses.iter().map(Losses::all).sum::<u64>() == self.counts.dropped(), "each loss is of one interface");
        &self.losses
    }

    /// Something changed that the page says beside the counts.
    pub const fn note(&mut self) {
        self.is_untold = true;
    }

    /// Whether the page lacks something.
    pub const fn is_untold(&self) -> bool {
        self.is_untold
    }

    /// The page is being written; whether it lacked something.
    pub const fn take_untold(&mut self) -> bool {
        std::mem::replace(&mut self.is_untold, false)
    }
}

impl std::ops::Deref for Tally {
    type Target = PacketCounts;
    fn deref(&self) -> &PacketCounts {
        &self.counts
    }
}

/// Whoever counts has the page written.
impl std::ops::DerefMut for Tally {
    fn deref_mut(&mut self) -> &mut PacketCounts {
        self.is_untold = true;
        &mut self.counts
    }
}

const _: () = assert!(Drop::RelayLimited as usize + 1 == Drop::COUNT, "each reason has its count");
