//! Selectors, and the groups of sockets that they select among.

use crate::bpf::{Map, MapKind, Program, ProgramKind, Runs};
use crate::classic;
use crate::counts::{Counts, LaneCounts};
use crate::errors::Error;
use crate::holders::{Holder, holders};
use crate::program::{self, COUNTS_BYTES, Maps};
use corelane_os::{options, sockets};
use corelane_rss::{Bucket, Buckets, FlowHasher, HashTypes, Key, MOST_LANES, Table, Transport};
use corelane_seam::{Address, Bind, Fault, Reason};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By which kind of program sockets are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Means {
    /// With maps: needs CAP_BPF.
    Program,
    /// Of the classic kind (SO_ATTACH_REUSEPORT_CBPF): needs nothing, counts nothing, and a new table takes effect at a
    /// group's next [`Group::refresh`].
    Classic,
}

/// One key, one set of hash types and one table, for all groups of sockets.
///
/// Make it, and the groups, before lanes take descriptor tables of their own ([`corelane_os::runner::own_descriptors`]): a lane finds
/// the maps in its copy of the table.
#[derive(Debug)]
pub struct Selector {
    shared: Arc<SteeredGroup>,
}

#[derive(Debug)]
struct SteeredGroup {
    hasher: FlowHasher,
    lanes: usize,
    table: Mutex<Table>,
    /// None where the program is of the classic kind.
    maps: Option<SharedMaps>,
}

#[derive(Debug)]
struct SharedMaps {
    table: Map,
    counts: Map,
}

impl Selector {
    /// A selector for lanes 0 to `lanes` - 1, at most 256.
    ///
    /// # Errors
    /// [`Error::LaneRange`] for a table with other lanes; with [`Means::Program`] the errors of [`Map::new`].
    pub fn new(means: Means, hasher: &FlowHasher, table: &Table, lanes: usize) -> Result<Self, Error> {
        if lanes > MOST_LANES {
            return Err(Error::LaneRange { got: lanes - 1, most: MOST_LANES - 1 });
        }
        check_lanes(table, lanes)?;
        let maps = match means {
            Means::Program => Some(SharedMaps::new(table, lanes)?),
            Means::Classic => None,
        };
        Ok(Self { shared: Arc::new(SteeredGroup { hasher: hasher.clone(), lanes, table: Mutex::new(table.clone()), maps }) })
    }

    /// The selector of another process of ours, which has attached what it selects by: nothing is loaded, and nothing changes in the kernel.
    ///
    /// # Errors
    /// [`Error::LaneRange`] as [`Selector::new`]; [`Error::Refused`] if what was handed over are no maps.
    pub fn inherit(hasher: &FlowHasher, table: &Table, lanes: usize, maps: Option<HandedMaps>) -> Result<Self, Error> {
        if lanes > MOST_LANES {
            return Err(Error::LaneRange { got: lanes - 1, most: MOST_LANES - 1 });
        }
        check_lanes(table, lanes)?;
        let maps = maps.map(SharedMaps::inherited).transpose()?;
        Ok(Self { shared: Arc::new(SteeredGroup { hasher: hasher.clone(), lanes, table: Mutex::new(table.clone()), maps }) })
    }

    /// Its maps, for another process of ours; none with [`Means::Classic`].
    #[must_use]
    pub fn maps(&self) -> Option<[BorrowedFd<'_>; 2]> {
        self.shared.maps.as_ref().map(|maps| [maps.table.as_fd(), maps.counts.as_fd()])
    }

    /// The group of one address whose sockets another process hands over, in the order of the kernel's list, each with its lane and cookie. It is attached
    /// already, so lanes that enter with these sockets change nothing.
    ///
    /// # Errors
    /// [`Error::LaneRange`], [`Error::LaneJoined`] for members that cannot be.
    pub fn inherit_group(
        &self,
        transport: Transport,
        members: &[(usize, u64)],
        program: Option<HandedProgram>,
    ) -> Result<Group, Error> {
        let mut known: Vec<Member> = Vec::new();
        for &(lane, cookie) in members {
            check_lane(lane, self.shared.lanes)?;
            if known.iter().any(|member| member.lane == lane) {
                return Err(Error::LaneJoined { lane });
            }
            known.push(Member { lane, cookie, is_awaited: true });
        }
        let program = program.map(GroupProgram::inherited);
        if program.is_some() != self.shared.maps.is_some() {
            return Err(Error::Refused { call: "BPF_OBJ_GET_INFO_BY_FD", fault: Fault::of(Reason::NotFound) });
        }
        Ok(Group { shared: self.shared.clone(), transport, members: Mutex::new(known), program })
    }

    /// By which means it selects.
    #[must_use]
    pub fn means(&self) -> Means {
        if self.shared.maps.is_some() { Means::Program } else { Means::Classic }
    }

    /// The table that was last written.
    #[must_use]
    pub fn table(&self) -> Table {
        lock(&self.shared.table).clone()
    }

    /// Writes a new table, one map entry for each bucket that changes its lane. From then on what is new goes by it:
    /// connections that begin, datagrams to sockets without a peer. With [`Means::Classic`] that is so for each group after its
    /// [`Group::refresh`]. Any thread may call it.
    ///
    /// # Errors
    /// [`Error::LaneRange`] for lanes that there are not; [`Error::BucketCount`] for a table of another size;
    /// [`Error::Refused`], with the buckets before the failed one changed.
    pub fn rewrite(&self, table: &Table) -> Result<(), Error> {
        check_lanes(table, self.shared.lanes)?;
        let mut present = lock(&self.shared.table);
        let (got, expected) = (table.buckets().count(), present.buckets().count());
        if got != expected {
            return Err(Error::BucketCount { got, expected });
        }
        for bucket in table.buckets().all().filter(|bucket| table.lane(*bucket) != present.lane(*bucket)).collect::<Vec<_>>() {
            if let Some(maps) = &self.shared.maps {
                maps.point(bucket, table.lane(bucket))?;
            }
            let set = present.set(bucket, table.lane(bucket));
            assert!(set.is_ok(), "a bucket of a table of the same size, and a lane of it");
        }
        assert!(*present == *table, "what is written is what was asked for");
        Ok(())
    }

    /// What all groups have selected so far; none with [`Means::Classic`]. One system call a lane.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn counts(&self) -> Result<Option<Counts>, Error> {
        let Some(maps) = &self.shared.maps else { return Ok(None) };
        let read = |key| maps.counts.lookup(key).map_err(refused("BPF_MAP_LOOKUP_ELEM"));
        let lanes = (0..self.shared.lanes).map(|lane| read(lane).map(|bytes| LaneCounts::decode(&bytes)));
        let lanes = lanes.collect::<Result<_, _>>()?;
        Ok(Some(Counts { lanes, left: LaneCounts::decode(&read(self.shared.lanes)?) }))
    }

    /// The same for one lane: one system call.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::LaneRange`].
    pub fn lane_counts(&self, lane: usize) -> Result<Option<LaneCounts>, Error> {
        check_lane(lane, self.shared.lanes)?;
        let Some(maps) = &self.shared.maps else { return Ok(None) };
        let bytes = maps.counts.lookup(lane).map_err(refused("BPF_MAP_LOOKUP_ELEM"))?;
        Ok(Some(LaneCounts::decode(&bytes)))
    }

    /// The group of one address, whose sockets are still to come.
    ///
    /// # Errors
    /// With [`Means::Program`] those of [`Map::new`] and [`Program::load`]; else none.
    pub fn group(&self, transport: Transport) -> Result<Group, Error> {
        let shared = self.shared.clone();
        let program = shared.maps.as_ref().map(|maps| GroupProgram::new(&shared, maps, transport)).transpose()?;
        Ok(Group { shared, transport, members: Mutex::new(Vec::new()), program })
    }
}

/// The two maps of a [`Selector`] that another process hands over: table and counts.
#[derive(Debug)]
pub struct HandedMaps {
    /// Which lane serves each bucket.
    pub table: OwnedFd,
    /// What was selected.
    pub counts: OwnedFd,
}

/// The program of a [`Group`] that another process hands over, and the sockets that it selects among.
#[derive(Debug)]
pub struct HandedProgram {
    /// As it is attached.
    pub program: OwnedFd,
    /// The sockets, by lane.
    pub sockets: OwnedFd,
}

impl SharedMaps {
    fn inherited(HandedMaps { table, counts }: HandedMaps) -> Result<Self, Error> {
        let maps = Self {
            table: Map::inherited(MapKind::Array, size_of::<u32>(), table),
            counts: Map::inherited(MapKind::PerCpuArray, COUNTS_BYTES, counts),
        };
        for map in [&maps.table, &maps.counts] {
            map.lookup(0).map_err(refused("BPF_MAP_LOOKUP_ELEM"))?;
        }
        Ok(maps)
    }

    fn new(table: &Table, lanes: usize) -> Result<Self, Error> {
        let maps = Self {
            table: Map::new(MapKind::Array, size_of::<u32>(), table.buckets().count(), "corelane_table")?,
            counts: Map::new(MapKind::PerCpuArray, COUNTS_BYTES, lanes + 1, "corelane_counts")?,
        };
        table.buckets().all().try_for_each(|bucket| maps.point(bucket, table.lane(bucket)))?;
        Ok(maps)
    }

    fn point(&self, bucket: Bucket, lane: usize) -> Result<(), Error> {
        self.table.update(bucket.index(), &(lane as u32).to_ne_bytes()).map_err(refused("BPF_MAP_UPDATE_ELEM"))
    }
}

/// The sockets that share one address, at most one of each lane, and the program that selects among them.
///
/// To be dropped where it was made, or on a lane. The kernel's part stays as long as one of the sockets does.
#[derive(Debug)]
pub struct Group {
    shared: Arc<SteeredGroup>,
    transport: Transport,
    /// In the order of the kernel's own list of the group, which answers of a classic program are indices of.
    members: Mutex<Vec<Member>>,
    program: Option<GroupProgram>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    lane: usize,
    cookie: u64,
    /// Another process handed it over, and its lane has not entered yet.
    is_awaited: bool,
}

#[derive(Debug)]
struct GroupProgram {
    program: Program,
    sockets: Map,
}

impl GroupProgram {
    fn inherited(HandedProgram { program, sockets }: HandedProgram) -> Self {
        Self { program: Program::inherited(program), sockets: Map::inherited(MapKind::SocketArray, size_of::<u64>(), sockets) }
    }

    fn new(shared: &SteeredGroup, maps: &SharedMaps, transport: Transport) -> Result<Self, Error> {
        let sockets = Map::new(MapKind::SocketArray, size_of::<u64>(), shared.lanes, "corelane_lanes")?;
        let buckets = lock(&shared.table).buckets();
        let maps = Maps { table: maps.table.as_fd(), sockets: sockets.as_fd(), counts: maps.counts.as_fd(), lanes: shared.lanes };
        let instructions = program::program(&shared.hasher, buckets, transport.into(), maps);
        Ok(Self { program: Program::load(ProgramKind::SelectSocket, &instructions, "corelane_select")?, sockets })
    }
}

impl Group {
    /// The place of a lane. It holds off all others until it is dropped, so that sockets enter one after the other: open the
    /// lane's socket, then [`Joining::register`] it. On the lane's own thread.
    ///
    /// # Errors
    /// [`Error::LaneRange`]; [`Error::LaneJoined`] if the lane has a socket here.
    pub fn entry(&self, lane: usize) -> Result<Joining<'_>, Error> {
        check_lane(lane, self.shared.lanes)?;
        let members = lock(&self.members);
        if members.iter().any(|member| member.lane == lane && !member.is_awaited) {
            return Err(Error::LaneJoined { lane });
        }
        Ok(Joining { group: self, lane, members })
    }

    /// Attaches the program once more, with the present table: what puts a new table into force with [`Means::Classic`].
    /// `member` is any socket of the group, so this runs on the lane that has it.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::ProgramLength`] with [`Means::Classic`].
    pub fn refresh(&self, member: BorrowedFd) -> Result<(), Error> {
        self.attach(member, &lock(&self.members))
    }

    /// Forgets a lane's socket, which was closed, or never will be used again. Where lanes leave, first give their buckets to
    /// others, then close the socket, then call this, and with [`Means::Classic`] then refresh: the kernel puts the last
    /// socket of the group into the place that became free, and until then leaves that one's flows to its own hash.
    pub fn leave(&self, lane: usize) {
        let mut members = lock(&self.members);
        if let Some(place) = members.iter().position(|member| member.lane == lane) {
            members.swap_remove(place);
            assert!(members.iter().all(|member| member.lane != lane), "a lane has one place in a group");
            // The kernel takes a closed socket out by itself.
            let _ = self.program.as_ref().map(|program| program.sockets.delete(lane));
        }
    }

    /// Its sockets in the order of the kernel's list, each with its lane and cookie: for another process of ours.
    #[must_use]
    pub fn members(&self) -> Vec<(usize, u64)> {
        lock(&self.members).iter().map(|member| (member.lane, member.cookie)).collect()
    }

    /// Its program and the map of its sockets, for another process of ours; none with [`Means::Classic`].
    #[must_use]
    pub fn program(&self) -> Option<[BorrowedFd<'_>; 2]> {
        self.program.as_ref().map(|program| [program.program.as_fd(), program.sockets.as_fd()])
    }

    /// Sockets at the address of `member` that are not of this group: others take part in what arrives there, and may put
    /// a program of theirs in the place of ours. The kernel does not tell a group's program, but without sockets of
    /// others there can be none of theirs.
    ///
    /// # Errors
    /// [`Error::Refused`]; where the kernel keeps no list, `Unsupported` or `NotFound`.
    pub fn strangers(&self, member: BorrowedFd) -> Result<Vec<Holder>, Error> {
        let address = own_address(member)?;
        let mut found = holders(self.transport, address).map_err(refused("NETLINK_SOCK_DIAG"))?;
        let members = lock(&self.members);
        found.retain(|holder| members.iter().all(|member| member.cookie != holder.cookie));
        Ok(found)
    }

    /// How often the program ran, while somebody counts ([`crate::bpf::RunStatistics`]); none with [`Means::Classic`].
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn runs(&self) -> Result<Option<Runs>, Error> {
        let runs = self.program.as_ref().map(|program| program.program.runs());
        runs.transpose().map_err(refused("BPF_OBJ_GET_INFO_BY_FD"))
    }

    fn attach(&self, member: BorrowedFd, members: &[Member]) -> Result<(), Error> {
        if let Some(GroupProgram { program, .. }) = &self.program {
            let number = program.as_fd().as_raw_fd().to_ne_bytes();
            let answer = options::set_bytes(member, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_EBPF, &number);
            return answer.map_err(unfit("SO_ATTACH_REUSEPORT_EBPF"));
        }
        let order: Vec<usize> = members.iter().map(|member| member.lane).collect();
        let table = lock(&self.shared.table);
        let mut program = classic::program(&self.shared.hasher, &table, self.transport.into(), &order)?;
        sockets::attach_filter(member, libc::SO_ATTACH_REUSEPORT_CBPF, &mut program).map_err(unfit("SO_ATTACH_REUSEPORT_CBPF"))
    }
}

/// A lane's turn to enter a group.
#[derive(Debug)]
pub struct Joining<'a> {
    group: &'a Group,
    lane: usize,
    members: MutexGuard<'a, Vec<Member>>,
}

impl Joining<'_> {
    /// Takes the lane's socket into the group: it listens, or is bound, with its port shared; and its flows find it from now
    /// on. Those of lanes without a socket are left to the kernel's own hash. On an error close the socket before the entry
    /// is dropped.
    ///
    /// # Errors
    /// [`Error::GroupShared`] if somebody else's sockets are at its address; [`Error::SocketUnfit`];
    /// [`Error::ProgramLength`] with [`Means::Classic`]; [`Error::Refused`].
    pub fn register(&mut self, socket: BorrowedFd) -> Result<(), Error> {
        self.join(socket, |entry| entry.alone(socket).and_then(|()| entry.admit(socket)))
    }

    /// [`Joining::register`] where others have sockets at the address, for good or until they end: their part is taken over, for our
    /// program takes the place of theirs. Not with [`Means::Classic`], whose answers count the sockets of others too.
    ///
    /// # Errors
    /// As for [`Joining::register`], without [`Error::GroupShared`].
    pub fn register_beside(&mut self, socket: BorrowedFd) -> Result<(), Error> {
        self.join(socket, |entry| entry.admit(socket))
    }

    fn join(&mut self, socket: BorrowedFd, enter: impl FnOnce(&Self) -> Result<(), Error>) -> Result<(), Error> {
        let cookie = sockets::cookie(socket).map_err(refused("SO_COOKIE"))?;
        if let Some(awaited) = self.members.iter_mut().find(|member| member.lane == self.lane) {
            assert!(awaited.is_awaited, "a lane enters once");
            let is_it = std::mem::replace(&mut awaited.is_awaited, awaited.cookie != cookie);
            assert!(is_it, "it was awaited until now");
            return if awaited.cookie == cookie { Ok(()) } else { Err(strange()) };
        }
        self.members.push(Member { lane: self.lane, cookie, is_awaited: false });
        assert!(self.members.len() <= self.group.shared.lanes, "a group has a place for each lane");
        let registered = enter(self);
        if registered.is_err() {
            self.members.pop();
        }
        registered
    }

    fn alone(&self, socket: BorrowedFd) -> Result<(), Error> {
        let address = own_address(socket)?;
        if address.port() == 0 {
            return Err(strange());
        }
        // Where the kernel keeps no list nobody can tell, and the port was asked for without sharing before.
        let found = holders(self.group.transport, address).unwrap_or_default();
        let stranger = found.iter().find(|holder| self.members.iter().all(|member| member.cookie != holder.cookie));
        stranger.map_or(Ok(()), |stranger| Err(Error::GroupShared { address, user: stranger.user }))
    }

    fn admit(&self, socket: BorrowedFd) -> Result<(), Error> {
        if let Some(GroupProgram { sockets, .. }) = &self.group.program {
            let number = u64::from(socket.as_raw_fd().unsigned_abs());
            sockets.update(self.lane, &number.to_ne_bytes()).map_err(unfit("BPF_MAP_UPDATE_ELEM"))?;
        }
        self.group.attach(socket, &self.members).inspect_err(|_| {
            let _ = self.group.program.as_ref().map(|program| program.sockets.delete(self.lane));
        })
    }
}

/// Takes the program away from the group that this socket is in, whoever attached it: the kernel's own hash selects again, among
/// all of them. False if there was none.
///
/// # Errors
/// [`Error::Refused`].
pub fn detach(member: BorrowedFd) -> Result<bool, Error> {
    match options::set_bytes(member, libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, &[0; 4]) {
        Ok(()) => Ok(true),
        Err(Fault { number: libc::ENOENT, .. }) => Ok(false),
        Err(fault) => Err(Error::Refused { call: "SO_DETACH_REUSEPORT_BPF", fault }),
    }
}

/// Tells what is the socket's fault.
fn unfit(call: &'static str) -> impl Fn(Fault) -> Error {
    move |fault| match fault.number {
        libc::EINVAL | libc::EBUSY | libc::EOPNOTSUPP => Error::SocketUnfit { fault },
        _ => Error::Refused { call, fault },
    }
}

/// Has two datagram sockets of the loopback interface share a port, and sends to each of them by rewriting the table.
///
/// # Errors
/// Why that does not work: see [`Selector::new`], [`Selector::group`], [`Joining::register`].
pub fn probe(means: Means) -> Result<(), Error> {
    let hasher = FlowHasher::new(&Key::MICROSOFT, HashTypes::ALL);
    // Two weights, one of them above zero, are a table.
    let table = |lane| Table::weighted(Buckets::DEFAULT, &[u32::from(lane == 0), u32::from(lane == 1)]).map_err(|_| unanswered());
    let selector = Selector::new(means, &hasher, &table(0)?, 2)?;
    let group = selector.group(Transport::Udp)?;
    let mut address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut lanes = Vec::new();
    for lane in 0..2 {
        let mut entry = group.entry(lane)?;
        let socket = sockets::bind(&probing(address, None), false).map_err(refused("bind"))?;
        entry.register(socket.as_fd())?;
        address = own_address(socket.as_fd())?;
        lanes.push(socket);
    }
    let sender = sockets::bind(&probing((Ipv4Addr::LOCALHOST, 0).into(), Some(address)), false).map_err(refused("bind"))?;
    for (lane, socket) in lanes.iter().enumerate() {
        selector.rewrite(&table(lane)?)?;
        group.refresh(socket.as_fd())?;
        sockets::send_byte(sender.as_fd()).map_err(refused("send"))?;
        sockets::readable(socket.as_fd()).map_err(|_| unanswered())?;
    }
    Ok(())
}

/// The address of a socket to which flows come.
fn own_address(socket: BorrowedFd) -> Result<SocketAddr, Error> {
    let address = sockets::local_address(socket).map_err(refused("getsockname"))?;
    address.inet().ok_or(Error::SocketUnfit { fault: Fault { reason: Reason::Unsupported, number: libc::EAFNOSUPPORT } })
}

/// It is not one that can enter.
fn strange() -> Error {
    Error::SocketUnfit { fault: Fault { reason: Reason::Other, number: libc::EINVAL } }
}

fn unanswered() -> Error {
    Error::Refused { call: "SO_ATTACH_REUSEPORT_BPF", fault: Fault::of(Reason::Unsupported) }
}

fn probing(address: SocketAddr, peer: Option<SocketAddr>) -> Bind {
    let share_port = peer.is_none();
    let (address, peer) = (address.into(), peer.map(Address::Ip));
    Bind { address, peer, share_port, v6_only: false, receive_buffer_bytes: 0, send_buffer_bytes: 0 }
}

fn check_lane(lane: usize, lanes: usize) -> Result<(), Error> {
    if lane < lanes { Ok(()) } else { Err(Error::LaneRange { got: lane, most: lanes.saturating_sub(1) }) }
}

fn check_lanes(table: &Table, lanes: usize) -> Result<(), Error> {
    match table.owners().find(|lane| *lane >= lanes) {
        Some(got) => Err(Error::LaneRange { got, most: lanes.saturating_sub(1) }),
        None => Ok(()),
    }
}

fn refused(call: &'static str) -> impl Fn(Fault) -> Error {
    move |fault| Error::Refused { call, fault }
}

/// What a panic left behind is whole: nothing is changed in two steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
