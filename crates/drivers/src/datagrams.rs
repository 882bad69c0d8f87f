//! Moving batches of datagrams: recvmmsg(2) into pieces of one lease, sendmmsg(2) of trains.

use crate::addresses::{Names, RawAddress};
use crate::control::Control;
use corelane_os::errno::{self, uninterrupted};
use corelane_seam::{
    Address, BATCH_MAX, DATAGRAM_V6_BYTES_MAX, DatagramOutcome, Datagrams, Fault, Lease, Outcome, Reason, TRAIN_DATAGRAMS_MAX,
    Train, Trains, datagram_bytes_max,
};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Bytes of the piece of a lease that one datagram or train is given: no UDP payload, and no train, is larger.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// Datagrams from which a train is left to the kernel to take apart (UDP_SEGMENT). Shorter ones go singly in the same call: taking
/// them apart again for a receiver that wants them singly cost more than it saved (trains of three, loopback: 6 % of an echo).
pub(crate) const SEGMENT_MIN: usize = 6;
/// Datagrams that every kernel with UDP_SEGMENT takes in one message; from 6.9 it takes [`TRAIN_DATAGRAMS_MAX`].
pub(crate) const SEGMENTS_OLD_MAX: usize = 64;
/// Parts of datagrams that one call sends at the most.
const VECTORS_MAX: usize = 1024;
/// How many errors of earlier datagrams one receive passes over.
const PASSED_OVER_MAX: usize = 64;

/// What receiving needs to know of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SocketKind {
    /// It has one peer (connect(2)).
    pub(crate) connected: bool,
    /// It is a Unix socket, whose peers may send more than bytes.
    pub(crate) is_unix: bool,
}

/// What the calls need beside the payload: addresses, control messages, headers. One serves all sockets of a driver.
pub(crate) struct DatagramCalls {
    headers: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
    addresses: Vec<RawAddress>,
    unix_names: Names,
    controls: Vec<Control>,
    /// Of each message to be sent: how many datagrams it holds, and its number of vectors.
    messages: Vec<(u32, u32)>,
}

impl DatagramCalls {
    pub(crate) fn new() -> Self {
        // SAFETY: a zeroed header is one that names nothing.
        let empty: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Self {
            headers: vec![empty; BATCH_MAX],
            vectors: Vec::with_capacity(VECTORS_MAX),
            addresses: vec![RawAddress::empty(); BATCH_MAX],
            unix_names: Names::default(),
            controls: vec![Control::new(); BATCH_MAX],
            messages: Vec::with_capacity(BATCH_MAX),
        }
    }

    /// Receives into pieces of `lease` as many as are there and fit, and names them in `batch`; returns how many, and
    /// whether the pieces were all used. Without any, the lease is given back. From a `connected` socket what the network
    /// said of an earlier datagram is a fault, which keeps nothing from the next receive.
    pub(crate) fn receive(
        &mut self,
        socket: BorrowedFd,
        kind: SocketKind,
        mut lease: Lease,
        batch: &mut Datagrams,
    ) -> Result<(usize, bool), Fault> {
        assert!(lease.is_empty() && lease.capacity() >= PIECE_BYTES);
        let pieces = (lease.capacity() / PIECE_BYTES).min(BATCH_MAX);
        let found = match self.receive_pieces(socket, kind, &mut lease, pieces) {
            Ok(found) => found,
            Err(number) if errno::would_block(number) => return Ok((0, false)),
            Err(number) => return Err(errno::fault(number)),
        };
        assert!(found >= 1 && found <= pieces);
        let last = self.headers[found - 1].msg_len as usize;
        lease.advance((found - 1) * PIECE_BYTES + last);
        batch.fill(lease.share());
        for piece in 0..found {
            self.note_arrival(piece, batch);
        }
        Ok((found, found == pieces))
    }

    /// An error that came by ICMP concerns a datagram sent earlier, is reported once, and must not keep us from what has
    /// arrived. Only with one peer is it known whose it was.
    fn receive_pieces(&mut self, socket: BorrowedFd, kind: SocketKind, lease: &mut Lease, pieces: usize) -> Result<usize, i32> {
        let mut passed_over = if kind.connected { PASSED_OVER_MAX } else { 0 };
        loop {
            self.prepare_pieces(lease, pieces, kind.is_unix);
            let (headers, count) = (self.headers.as_mut_ptr(), pieces as u32);
            // SAFETY: each of the `count` headers names one piece of the lease, which is exclusively ours, and one address
            // and control of the same number; all of them outlive the call.
            let found = uninterrupted(|| unsafe {
                libc::recvmmsg(socket.as_raw_fd(), headers, count, libc::MSG_DONTWAIT, std::ptr::null_mut()) as isize
            });
            match found {
                Err(number) if errno::is_from_network(number) && passed_over < PASSED_OVER_MAX => passed_over += 1,
                found => return found,
            }
        }
    }

    fn prepare_pieces(&mut self, lease: &mut Lease, pieces: usize, is_unix: bool) {
        self.vectors.clear();
        let room = lease.spare()[..pieces * PIECE_BYTES].chunks_exact_mut(PIECE_BYTES);
        self.vectors.extend(room.map(|piece| libc::iovec { iov_base: piece.as_mut_ptr().cast(), iov_len: PIECE_BYTES }));
        assert!(self.vectors.len() == pieces && pieces <= BATCH_MAX);
        for index in 0..pieces {
            let header = &mut self.headers[index].msg_hdr;
            header.msg_name = self.addresses[index].as_mut_ptr().cast();
            header.msg_namelen = RawAddress::BYTES;
            header.msg_iov = &mut self.vectors[index];
            header.msg_iovlen = 1;
            (header.msg_control, header.msg_controllen) = self.controls[index].place();
            if is_unix {
                // Descriptors that a peer sends along find no room behind its credentials, and are closed.
                header.msg_controllen = Control::CREDENTIALS_BYTES;
            }
            header.msg_flags = 0;
        }
    }

    fn note_arrival(&mut self, piece: usize, batch: &mut Datagrams) {
        let header = &self.headers[piece];
        let bytes = header.msg_len as usize;
        if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
            // Over a Unix socket it may be longer than any of UDP. A part of it is not what was sent.
            return;
        }
        // What has no peer of a family that we know cannot be answered.
        assert!(header.msg_len as usize <= PIECE_BYTES, "the kernel writes within a piece");
        let Some(peer) = self.addresses[piece].decode(header.msg_hdr.msg_namelen, &mut self.unix_names) else { return };
        let beside = self.controls[piece].read(header.msg_hdr.msg_controllen);
        let peer = match (peer, beside.user) {
            (Address::Unix(unix), Some(user)) => unix.of_user(user).into(),
            (peer, _) => peer,
        };
        let start = piece * PIECE_BYTES;
        batch.add(start..start + bytes, peer, beside.asked, beside.size.unwrap_or(bytes).min(bytes));
    }

    /// Sends on from where `departure` stands; false if the socket is full and must be waited for. Up to `together` datagrams
    /// of a train go as one message (UDP_SEGMENT).
    pub(crate) fn send(&mut self, socket: BorrowedFd, departure: &mut Departure, together: usize) -> bool {
        assert!((1..=TRAIN_DATAGRAMS_MAX).contains(&together));
        loop {
            self.prepare_messages(departure, together);
            if self.messages.is_empty() {
                assert!(departure.is_done());
                return true;
            }
            departure.calls += 1;
            match self.send_messages(socket) {
                Ok(taken) if taken == 0 || taken > self.messages.len() => {
                    unreachable!("sendmmsg takes some messages, or fails")
                }
                Ok(taken) => self.messages[..taken].iter().for_each(|message| departure.sent(message.0)),
                Err(number) if errno::would_block(number) && departure.may_wait() => return false,
                Err(number) => departure.refuse(number, self.messages[0].0),
            }
        }
    }

    /// One call; returns how many messages it took.
    fn send_messages(&mut self, socket: BorrowedFd) -> Result<usize, i32> {
        let first = &self.headers[0].msg_hdr;
        if let ([_], [part]) = (&self.messages[..], &self.vectors[..])
            && first.msg_controllen == 0
        {
            return send_one(socket, part, (first.msg_name, first.msg_namelen));
        }
        let (headers, count) = (self.headers.as_mut_ptr(), self.messages.len() as u32);
        // SAFETY: each of the `count` headers names vectors of memory that the trains keep, and an address and control of
        // the same number; all of them outlive the call, which only reads them.
        uninterrupted(|| unsafe { libc::sendmmsg(socket.as_raw_fd(), headers, count, libc::MSG_NOSIGNAL) as isize })
    }

    /// Prepares the messages that come next.
    fn prepare_messages(&mut self, departure: &mut Departure, together: usize) {
        self.messages.clear();
        self.vectors.clear();
        departure.refuse_files();
        let Departure { trains, at, connected, .. } = departure;
        for (index, train) in trains.trains().iter().enumerate().skip(at.train) {
            let here = if index == at.train { *at } else { Position::default() };
            let together = if here.singly { 1 } else { together_of(train, together) };
            if has_file(trains, train) || !self.prepare_train(trains, train, here.datagram, together) {
                break;
            }
        }
        self.point_headers(*connected);
    }

    /// Prepares the messages of one train from `datagram` on, with up to `together` datagrams each; false when the call is full.
    fn prepare_train(&mut self, trains: &Trains, train: &Train, datagram: usize, together: usize) -> bool {
        assert!(train.parts() <= TRAIN_DATAGRAMS_MAX && datagram < train.datagrams());
        let size = train.datagram_bytes as usize;
        let mut parts = Parts { rest: trains.segments(train).filter_map(|segment| segment.bytes()), part: &[] };
        parts.skip(datagram * size);
        for at in (datagram..train.datagrams()).step_by(together) {
            if self.messages.len() == BATCH_MAX || self.vectors.len() + train.parts() > VECTORS_MAX {
                return false;
            }
            let first = self.vectors.len();
            let datagrams = together.min(train.datagrams() - at);
            let mut left = datagrams * size;
            while let Some(piece) = parts.take(left) {
                self.vectors.push(libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
                left -= piece.len();
            }
            self.prepare_message(train, datagrams, first);
        }
        true
    }

    fn prepare_message(&mut self, train: &Train, datagrams: usize, first_vector: usize) {
        let index = self.messages.len();
        assert!(index < BATCH_MAX && datagrams <= TRAIN_DATAGRAMS_MAX);
        assert!(train.datagram_bytes as usize <= DATAGRAM_V6_BYTES_MAX, "a train has datagrams that fit");
        let size = if datagrams > 1 { train.datagram_bytes as u16 } else { 0 };
        // The kernel refuses an address of no bytes.
        let name_bytes = self.addresses[index].write(&train.peer).unwrap_or(0);
        let control = &mut self.controls[index];
        let control_bytes = control.write(size, train.source, train.interface, train.peer.is_ipv4());
        let header = &mut self.headers[index].msg_hdr;
        header.msg_namelen = name_bytes;
        header.msg_control = control.place().0;
        header.msg_controllen = control_bytes;
        header.msg_flags = 0;
        self.messages.push((datagrams as u32, (self.vectors.len() - first_vector) as u32));
    }

    /// Lets the headers point to addresses and vectors, when none of these moves any more. A connected socket needs no
    /// address, and looks for no route then.
    fn point_headers(&mut self, connected: bool) {
        let vectors_named: usize = self.messages.iter().map(|message| message.1 as usize).sum();
        assert!(vectors_named == self.vectors.len() && vectors_named <= VECTORS_MAX);
        let mut vectors = self.vectors.as_mut_ptr();
        for (index, &(_, count)) in self.messages.iter().enumerate() {
            let header = &mut self.headers[index].msg_hdr;
            match connected {
                true => (header.msg_name, header.msg_namelen) = (std::ptr::null_mut(), 0),
                false => header.msg_name = self.addresses[index].as_mut_ptr().cast(),
            }
            header.msg_iov = vectors;
            header.msg_iovlen = count as usize;
            // SAFETY: the counts add up to the number of vectors, so this stays within them, or one behind the last.
            vectors = unsafe { vectors.add(count as usize) };
        }
    }
}

/// Sends one message of one part: the kernel takes it at less cost without headers. The bare system call, as for streams.
fn send_one(socket: BorrowedFd, part: &libc::iovec, (name, name_bytes): (*mut libc::c_void, u32)) -> Result<usize, i32> {
    // SAFETY: `part` names memory that the train keeps, and `name`, if it is not null, so many bytes; the call only reads them.
    let call = || unsafe {
        let (number, flags) = (socket.as_raw_fd(), libc::MSG_NOSIGNAL);
        libc::syscall(libc::SYS_sendto, number, part.iov_base, part.iov_len, flags, name, name_bytes) as isize
    };
    uninterrupted(call).map(|_| 1)
}

/// Walks over the parts of a train.
struct Parts<'a, I> {
    rest: I,
    part: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a [u8]>> Parts<'a, I> {
    /// Up to `most` bytes that lie together; none for no bytes, and at the end.
    fn take(&mut self, most: usize) -> Option<&'a [u8]> {
        while most > 0 && self.part.is_empty() {
            self.part = self.rest.next()?;
        }
        let (piece, part) = self.part.split_at(most.min(self.part.len()));
        self.part = part;
        (most > 0).then_some(piece)
    }

    fn skip(&mut self, bytes: usize) {
        let mut left = bytes;
        while let Some(piece) = self.take(left) {
            left -= piece.len();
        }
    }
}

/// Datagrams of a train that one message carries, if the kernel takes up to `most`.
fn together_of(train: &Train, most: usize) -> usize {
    if train.peer.unix().is_some() {
        // Nobody takes it apart there.
        return 1;
    }
    let fit = datagram_bytes_max(&train.peer) / train.datagram_bytes.max(1) as usize;
    let together = most.min(fit).min(train.datagrams());
    if together < SEGMENT_MIN { 1 } else { together }
}

fn has_file(trains: &Trains, train: &Train) -> bool {
    trains.segments(train).any(|segment| segment.bytes().is_none())
}

/// Where a departure stands.
#[derive(Clone, Copy, Default)]
struct Position {
    train: usize,
    /// Of that train.
    datagram: usize,
    /// The system would not take that train as one message.
    singly: bool,
    /// An error that may have been another datagram's was met here.
    retried: bool,
}

/// A batch of trains on its way out.
pub(crate) struct Departure {
    trains: Trains,
    /// The socket has one peer, to whom all goes.
    connected: bool,
    at: Position,
    taken: u32,
    refused: u32,
    calls: u32,
    /// The last error that was no matter of form.
    fault: Option<Fault>,
}

impl Departure {
    pub(crate) fn new(trains: Trains, connected: bool) -> Self {
        Self { trains, connected, at: Position::default(), taken: 0, refused: 0, calls: 0, fault: None }
    }

    /// System calls used so far.
    pub(crate) fn calls(&self) -> u32 {
        self.calls
    }

    /// What came of it; what has not left is lost.
    pub(crate) fn end(mut self) -> Outcome {
        while !self.is_done() {
            self.fault = Some(Fault::CANCELLED);
            self.lose(1);
        }
        self.trains.clear();
        let Self { trains, taken, refused, calls, fault, .. } = self;
        Outcome::Datagram(DatagramOutcome::Departed { trains, datagrams: taken, refused, calls, fault })
    }

    fn is_done(&self) -> bool {
        self.at.train == self.trains.trains().len()
    }

    /// Whether it is told when there is room for what comes next. To a Unix socket that was not connected to it is not: a peer who does not
    /// receive would hold up all others, so what has no room there is lost.
    fn may_wait(&self) -> bool {
        self.connected || self.trains.trains().get(self.at.train).is_none_or(|train| train.peer.unix().is_none())
    }

    fn sent(&mut self, datagrams: u32) {
        self.taken += datagrams;
        self.advance(datagrams);
    }

    fn lose(&mut self, datagrams: u32) {
        self.refused += datagrams;
        self.advance(datagrams);
    }

    fn advance(&mut self, datagrams: u32) {
        let Position { train, datagram, singly, .. } = self.at;
        let datagram = datagram + datagrams as usize;
        let all = self.trains.trains()[train].datagrams();
        assert!(datagrams > 0 && datagram <= all, "a departure goes on, train by train");
        self.at = match datagram == all {
            true => Position { train: train + 1, ..Position::default() },
            false => Position { train, datagram, singly, retried: false },
        };
    }

    /// The next message, of so many datagrams, was refused: a train is tried again singly (udp(7): its datagrams are over
    /// the path's MTU, or the device cannot split it), an error that ICMP brought for an earlier datagram is passed
    /// over once, and otherwise the message is lost.
    fn refuse(&mut self, number: i32, datagrams: u32) {
        let too_long = matches!(number, libc::EINVAL | libc::EMSGSIZE | libc::EIO | libc::EOPNOTSUPP);
        if datagrams > 1 && too_long {
            self.at.singly = true;
            return;
        }
        self.fault = Some(errno::fault(number));
        if errno::is_from_network(number) && !self.at.retried {
            self.at.retried = true;
        } else {
            self.lose(datagrams);
        }
    }

    /// No datagram can be made of a file.
    fn refuse_files(&mut self) {
        while let Some(train) = self.trains.trains().get(self.at.train) {
            if !has_file(&self.trains, train) {
                break;
            }
            self.fault = Some(Fault::of(Reason::Unsupported));
            self.lose(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_os::sockets;
    use corelane_os::testing::wait_for;
    use corelane_seam::{Address, Arena, Bind, FilePart, Segment};
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::{AsFd, OwnedFd};

    const ALL: usize = TRAIN_DATAGRAMS_MAX;

    fn bound(address: &str, trains: bool) -> (OwnedFd, Address) {
        let address = address.parse().unwrap();
        let bytes = 4 << 20;
        let bind = Bind {
            address,
            peer: None,
            share_port: false,
            v6_only: false,
            receive_buffer_bytes: bytes,
            send_buffer_bytes: bytes,
        };
        let socket = sockets::bind(&bind, trains).unwrap();
        let local = sockets::local_address(socket.as_fd()).unwrap();
        (socket, local)
    }

    fn depart(from: BorrowedFd, trains: Trains, together: usize) -> (u32, u32, u32) {
        let mut departure = Departure::new(trains, false);
        while !DatagramCalls::new().send(from, &mut departure, together) {
            wait_for(from, libc::POLLOUT);
        }
        match departure.end() {
            Outcome::Datagram(DatagramOutcome::Departed { datagrams, refused, calls, .. }) => (datagrams, refused, calls),
            other => panic!("{other:?}"),
        }
    }

    /// Receives until `count` datagrams have come: their bytes, and in how many arrivals.
    fn arrive(to: BorrowedFd, count: usize) -> (Vec<Vec<u8>>, usize) {
        let arena = Arena::new(1).unwrap();
        let (mut all, mut arrivals) = (Vec::new(), 0);
        while all.len() < count {
            wait_for(to, libc::POLLIN);
            let mut batch = Datagrams::new();
            let lease = arena.lease(4 * PIECE_BYTES).unwrap();
            let (found, _) = DatagramCalls::new().receive(to, SocketKind::default(), lease, &mut batch).unwrap();
            arrivals += found;
            for arrival in batch.arrivals() {
                let payload = batch.payload(arrival);
                match arrival.datagrams() {
                    1 => all.push(payload.to_vec()),
                    _ => all.extend(payload.chunks(arrival.datagram_bytes as usize).map(<[u8]>::to_vec)),
                }
            }
        }
        (all, arrivals)
    }

    /// 10 datagrams of 100 bytes, in parts of 300 bytes, and one of 50.
    fn train_to(peer: &Address) -> (Trains, Vec<Vec<u8>>) {
        let bytes: Vec<u8> = (0..1050).map(|number| (number % 251) as u8).collect();
        let bytes: &'static [u8] = Box::leak(bytes.into_boxed_slice());
        let mut trains = Trains::new();
        for part in bytes.chunks(300) {
            assert!(trains.add(peer, None, 0, Segment::Static(part), 100));
        }
        assert_eq!(trains.trains().len(), 1);
        (trains, bytes.chunks(100).map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn a_train_travels_whole_or_singly() {
        for (segment, together) in [(true, true), (true, false), (false, true), (false, false)] {
            let ((from, _), (to, address)) = (bound("127.0.0.1:0", false), bound("127.0.0.1:0", together));
            let (trains, expected) = train_to(&address);
            assert_eq!(depart(from.as_fd(), trains, if segment { ALL } else { 1 }), (11, 0, 1));
            let (found, arrivals) = arrive(to.as_fd(), 11);
            assert_eq!(found, expected);
            assert_eq!(arrivals == 1, segment && together, "{segment} {together}");
        }
    }

    #[test]
    fn what_the_kernel_refuses_as_a_train_goes_singly() {
        let ((from, _), (to, address)) = (bound("[::1]:0", false), bound("[::1]:0", true));
        let mut trains = Trains::new();
        // Three datagrams, but more bytes than one message may have.
        assert!(trains.add(&address, None, 0, Segment::Static(&[3; 90_000]), 30_000));
        assert_eq!(depart(from.as_fd(), trains, ALL), (3, 0, 1));
        assert!(arrive(to.as_fd(), 3).0.iter().all(|datagram| datagram.len() == 30_000));
        // Without checksums the kernel splits no train, and says so with EINVAL.
        let ((from, _), (to, address)) = (bound("127.0.0.1:0", false), bound("127.0.0.1:0", true));
        corelane_os::testing::set(&from, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1);
        let (trains, expected) = train_to(&address);
        assert_eq!(depart(from.as_fd(), trains, ALL), (11, 0, 2));
        assert_eq!(arrive(to.as_fd(), 11).0, expected);
    }

    /// Where the kernel takes fewer datagrams at once, or fewer bytes, a train leaves in pieces.
    #[test]
    fn a_long_train_leaves_in_pieces() {
        let ((from, _), (to, address)) = (bound("127.0.0.1:0", false), bound("127.0.0.1:0", true));
        for (count, size, together, pieces) in
            [(128, 100, ALL, 1), (128, 100, 64, 2), (65, 100, 64, 2), (100, 1000, ALL, 2), (20, 12_000, ALL, 20)]
        {
            let bytes: &'static [u8] = Box::leak((0..=255).cycle().take(count * size).collect::<Vec<u8>>().into_boxed_slice());
            let mut trains = Trains::new();
            assert!(trains.add(&address, None, 0, Segment::Static(bytes), size));
            assert_eq!(depart(from.as_fd(), trains, together), (count as u32, 0, 1));
            let (found, arrivals) = arrive(to.as_fd(), count);
            assert_eq!((found.concat() == bytes, arrivals), (true, pieces), "{count} of {size}");
        }
    }

    /// What was refused as one is not offered as one again, however many calls its datagrams take; the next train is.
    #[test]
    fn a_refused_train_stays_apart() {
        let ((from, _), (to, address)) = (bound("127.0.0.1:0", false), bound("127.0.0.1:0", false));
        corelane_os::testing::set(&from, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1);
        let mut trains = Trains::new();
        assert!(trains.add(&address, None, 0, Segment::Static(&[1; 12_800]), 100));
        assert_eq!(depart(from.as_fd(), trains, ALL), (128, 0, 3));
        assert_eq!(arrive(to.as_fd(), 128).0.concat(), [1; 12_800]);
    }

    #[test]
    fn many_trains_take_several_calls_and_files_are_refused() {
        let ((from, _), (to, address)) = (bound("127.0.0.1:0", false), bound("127.0.0.1:0", false));
        let mut trains = Trains::new();
        let file = corelane_seam::File::new(0, 0);
        for number in 0..150u32 {
            let part = FilePart { file: file.clone(), offset: 0, length: 71 };
            let payload = if number == 70 { part.into() } else { Segment::Static(&[1; 200][..1 + number as usize]) };
            assert!(trains.add(&address, None, 0, payload, 1000));
        }
        assert_eq!(trains.trains().len(), 150);
        let (taken, refused, _) = depart(from.as_fd(), trains, ALL);
        assert_eq!((taken, refused), (149, 1));
        let mut sizes: Vec<_> = arrive(to.as_fd(), 149).0.iter().map(Vec::len).collect();
        sizes.dedup();
        assert_eq!(sizes.len(), 149);
    }

    /// Without trains one call sends so many messages that the second train is cut.
    #[test]
    fn a_train_goes_on_where_the_last_call_ended() {
        let ((from, _), (to, address)) = (bound("127.0.0.1:0", false), bound("127.0.0.1:0", false));
        let bytes: &'static [u8] = Box::leak((0..=255).cycle().take(8000).collect::<Vec<u8>>().into_boxed_slice());
        let mut trains = Trains::new();
        for (interface, half) in bytes.chunks(4000).enumerate() {
            // On the loopback interface the two differ in the train only.
            assert!(trains.add(&address, None, interface as u32, Segment::Static(half), 100));
        }
        assert_eq!(trains.trains().len(), 2);
        assert_eq!(depart(from.as_fd(), trains, 1), (80, 0, 2));
        assert_eq!(arrive(to.as_fd(), 80).0.concat(), bytes);
    }

    #[test]
    fn empty_and_largest_datagrams_pass() {
        for (home, largest) in [("127.0.0.1:0", 65_507), ("[::1]:0", 65_527)] {
            let ((from, _), (to, address)) = (bound(home, false), bound(home, true));
            let mut trains = Trains::new();
            for bytes in [0, largest, 0] {
                assert!(trains.add(&address, None, 0, Segment::Static(&[9; 65_527][..bytes]), bytes));
            }
            assert_eq!(depart(from.as_fd(), trains, ALL), (3, 0, 1));
            let sizes: Vec<_> = arrive(to.as_fd(), 3).0.iter().map(Vec::len).collect();
            assert_eq!(sizes, [0, largest, 0]);
        }
    }

    #[test]
    fn the_asked_address_is_known_and_answers_leave_from_it() {
        let cases = [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "127.0.0.3"), ("[::]:0", "::1")];
        for (wildcard, asked) in cases {
            let asked: IpAddr = asked.parse().unwrap();
            let home = if asked.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
            let ((server, local), (client, _)) = (bound(wildcard, true), bound(home, false));
            let to = Address::Ip(SocketAddr::new(asked, local.port()));
            let mut trains = Trains::new();
            assert!(trains.add(&to, None, 0, Segment::Static(b"ask"), 3));
            depart(client.as_fd(), trains, ALL);
            wait_for(server.as_fd(), libc::POLLIN);
            let (arena, mut batch) = (Arena::new(1).unwrap(), Datagrams::new());
            let lease = arena.lease(PIECE_BYTES).unwrap();
            assert_eq!(DatagramCalls::new().receive(server.as_fd(), SocketKind::default(), lease, &mut batch), Ok((1, true)));
            let arrival = batch.arrivals()[0].clone();
            assert_eq!((arrival.asked, arrival.peer.is_ipv4()), (Some(asked), asked.is_ipv4()));
            assert!(arrival.interface > 0);
            let mut answer = Trains::new();
            assert!(answer.add(&arrival.peer, arrival.asked, 0, batch.share(&arrival), 3));
            depart(server.as_fd(), answer, ALL);
            wait_for(client.as_fd(), libc::POLLIN);
            let lease = arena.lease(PIECE_BYTES).unwrap();
            DatagramCalls::new().receive(client.as_fd(), SocketKind::default(), lease, &mut batch).unwrap();
            assert_eq!(batch.arrivals()[0].peer, to);
        }
    }

    /// Linux reports ICMP errors on such a socket only when asked (IP_RECVERR, ip(7)), so the test asks.
    #[test]
    fn an_error_of_an_earlier_datagram_stops_nothing() {
        let ((server, address), (client, back)) = (bound("127.0.0.1:0", false), bound("127.0.0.1:0", false));
        let (closed, nobody) = bound("127.0.0.1:0", false);
        drop(closed);
        corelane_os::testing::set(&client, libc::IPPROTO_IP, libc::IP_RECVERR, 1);
        let send = |from: &OwnedFd, to| {
            let mut trains = Trains::new();
            assert!(trains.add(&to, None, 0, Segment::Static(b"x"), 1));
            depart(from.as_fd(), trains, ALL)
        };
        assert_eq!(send(&client, nobody.clone()), (1, 0, 1));
        wait_for(client.as_fd(), libc::POLLERR);
        assert_eq!(send(&client, address), (1, 0, 2), "the pending error is passed over");
        assert_eq!(arrive(server.as_fd(), 1).0, [b"x"]);
        assert_eq!(send(&client, nobody.clone()), (1, 0, 1));
        send(&server, back);
        wait_for(client.as_fd(), libc::POLLERR | libc::POLLIN);
        assert_eq!(arrive(client.as_fd(), 1).0, [b"x"]);
    }

    #[test]
    fn nothing_there_gives_the_memory_back() {
        let (socket, _) = bound("127.0.0.1:0", false);
        let arena = Arena::new(1).unwrap();
        let mut batch = Datagrams::new();
        let lease = arena.lease(PIECE_BYTES).unwrap();
        assert_eq!(DatagramCalls::new().receive(socket.as_fd(), SocketKind::default(), lease, &mut batch), Ok((0, false)));
        assert!(batch.is_empty() && arena.used() == 0);
    }

    #[test]
    fn what_has_not_left_at_the_end_is_lost() {
        let (trains, _) = train_to(&"127.0.0.1:9".parse().unwrap());
        let outcome = Departure::new(trains, false).end();
        assert!(matches!(outcome, Outcome::Datagram(DatagramOutcome::Departed { datagrams: 0, refused: 11, calls: 0, .. })));
    }

    /// Both ends over Unix sockets: who sent it is known by name and user, and what else is sent along is not taken.
    #[test]
    fn over_a_unix_socket_the_sender_is_known_and_descriptors_are_not_taken() {
        let name = |end: &str| -> Address { format!("unix:@corelane-datagrams-{}-{end}", std::process::id()).parse().unwrap() };
        let (server, client) = (name("server"), name("client"));
        let bind = |address: &Address| {
            let bind = Bind {
                address: address.clone(),
                peer: None,
                share_port: false,
                v6_only: false,
                receive_buffer_bytes: 0,
                send_buffer_bytes: 0,
            };
            sockets::bind(&bind, true).unwrap()
        };
        let (to, from) = (bind(&server), bind(&client));
        let (read, mut write) = std::io::pipe().unwrap();
        send_with_descriptor(&from, &server, read.as_fd());
        drop(read);
        let arena = Arena::new(1 << 20).unwrap();
        let mut batch = Datagrams::new();
        let lease = arena.lease(PIECE_BYTES).unwrap();
        assert_eq!(
            DatagramCalls::new().receive(to.as_fd(), SocketKind { connected: false, is_unix: true }, lease, &mut batch),
            Ok((1, true))
        );
        let arrival = &batch.arrivals()[0];
        assert_eq!(batch.payload(arrival), b"take this");
        let unix = arrival.peer.unix().unwrap();
        assert_eq!((unix.name(), unix.user), (client.unix().unwrap().name(), Some(rustix::process::getuid().as_raw())));
        assert!(std::io::Write::write_all(&mut write, b"x").is_err(), "a descriptor was taken from a peer");
        // Each by itself, though they are a train; and the kernel keeps few for one who does not receive.
        let most: usize = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").unwrap().trim().parse().unwrap();
        let mut trains = Trains::new();
        (0..most + 50).for_each(|_| assert!(trains.add(&server, None, 0, Segment::Static(&[7; 600]), 100)));
        let mut departure = Departure::new(trains, false);
        assert!(DatagramCalls::new().send(from.as_fd(), &mut departure, 64), "nobody waits for who does not receive");
        let Outcome::Datagram(DatagramOutcome::Departed { datagrams, refused, fault, .. }) = departure.end() else {
            unreachable!()
        };
        assert!(datagrams as usize >= most && refused > 200, "{datagrams} and {refused}");
        assert_eq!(fault.map(|fault| fault.reason), Some(Reason::Busy));
    }

    /// Sends a datagram with a descriptor beside it (SCM_RIGHTS, unix(7)).
    fn send_with_descriptor(from: &OwnedFd, to: &Address, descriptor: BorrowedFd) {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, sendmsg_addr};
        let to = SocketAddrUnix::new_abstract_name(&to.unix().unwrap().name()[1..]).unwrap();
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let descriptors = [descriptor];
        assert!(beside.push(SendAncillaryMessage::ScmRights(&descriptors)));
        let parts = [std::io::IoSlice::new(b"take this")];
        assert_eq!(sendmsg_addr(from, &to, &parts, &mut beside, SendFlags::empty()), Ok(9));
    }
}
