//! Files that are sent by their paths ([`StreamOp::SendFile`]), in steps that each driver has already. So all drivers do the same, and none of them waits for a disk.
//!
//! ```text
//! open --> sync, where asked --> warm --> send --> warm --> send .. --> the end is told, and the file is closed
//!    \--- refused, failed, the connection closed: the end is told at once, and what is open by then is closed behind it
//! ```

use crate::chain::{Chain, FilePart};
use crate::error::{Fault, Reason};
use crate::handle::{File, Handle, Socket};
use crate::operation::{Completion, FileOp, FileOutcome, Op, OpenOptions, Outcome, StreamOp, StreamOutcome};
use crate::ordered::Ordered;
use crate::slab::{Key, Slab};
use std::path::PathBuf;

/// Bytes of a file that are brought and sent at once: while they leave, others are served.
const WINDOW_BYTES: u64 = 1 << 20;

/// The class of the handles of steps, with the work of nobody: no lane makes such, and the stack has the one behind it.
const STEPS: u8 = Handle::CLASSES - 2;

/// The files of a driver that are sent by their paths. `A` is who asked for it, as the driver knows that.
#[doc(hidden)] // A driver has it, and no program.
pub struct FileSends<A> {
    sends: Slab<FileSend<A>>,
    /// Those whose end was not told yet.
    of: Ordered<Key, Key>,
}

struct FileSend<A> {
    /// None once the end was told.
    asker: Option<A>,
    socket: Socket,
    sync: bool,
    /// None before it is open, and once it is being closed.
    file: Option<File>,
    sent: u64,
    length: u64,
}

/// The consequences of a step's end.
#[doc(hidden)]
pub struct FileStep<A> {
    /// The end of the whole operation, to be told to who asked.
    pub told: Option<(A, Socket, StreamOutcome)>,
    /// The next step.
    pub next: Option<(Handle, Op)>,
}

impl<A> Default for FileSends<A> {
    fn default() -> Self {
        Self { sends: Slab::new(), of: Ordered::default() }
    }
}

impl<A> FileSends<A> {
    /// Whether there is none, not even one whose file is still to be closed.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    /// Whether a file is being sent to this connection.
    pub fn is_of(&self, socket: Socket) -> bool {
        self.of.contains(socket.into())
    }

    /// Whether a handle is that of a step.
    #[inline]
    pub fn is_step(handle: Handle) -> bool {
        handle.work() == Handle::NOBODY.work() && handle.class() == STEPS
    }

    /// Begins one; returns its first step.
    ///
    /// # Panics
    /// If a file is being sent to that connection.
    pub fn begin(&mut self, asker: A, socket: Socket, (beneath, path): (Option<File>, PathBuf), sync: bool) -> (Handle, FileOp) {
        let send = FileSend { asker: Some(asker), socket, sync, file: None, sent: 0, length: 0 };
        let key = self.sends.insert(send);
        let other = self.of.insert(socket.into(), key);
        assert!(other.is_none(), "a connection has at most one send under way");
        let open = FileOp::Open { beneath, path, options: OpenOptions::new().read(true) };
        (Handle::new(STEPS, key.index, key.generation), open)
    }

    /// Ends the one of a connection that is closed: who asked, and what to tell. The step under way ends by itself; it may have ended already, among what the driver has not told yet.
    pub fn cancel<'a>(&mut self, socket: Socket, untold: impl IntoIterator<Item = &'a Completion>) -> Option<(A, StreamOutcome)> {
        let key = self.of.remove(socket.into())?;
        let step = Handle::new(STEPS, key.index, key.generation);
        let send = self.sends.at_mut(key.index);
        let mut fault = Some(Fault::CANCELLED);
        for completion in untold.into_iter().filter(|completion| completion.handle == step) {
            if let Outcome::Stream(StreamOutcome::Sent { bytes, fault: broken, .. }) = &completion.outcome {
                send.sent += *bytes as u64;
                let is_whole = broken.is_none() && send.due() == 0;
                fault = if is_whole { None } else { broken.or(fault) };
            }
        }
        let asker = send.asker.take();
        assert!(asker.is_some(), "who is in the table was not told yet");
        asker.map(|asker| (asker, send.outcome(fault)))
    }

    /// Takes the end of a step.
    pub fn take(&mut self, handle: Handle, outcome: Outcome) -> FileStep<A> {
        let index = handle.index();
        let send = self.sends.at_mut(index);
        assert!(Self::is_step(handle));
        let told = match send.asker.take() {
            Some(asker) => {
                let fault = match send.go_on(outcome) {
                    Ok(Some(op)) => {
                        send.asker = Some(asker);
                        return FileStep { told: None, next: Some((handle, op)) };
                    }
                    Ok(None) => None,
                    Err(fault) => Some(fault),
                };
                self.of.remove(send.socket.into());
                Some((asker, send.socket, send.outcome(fault)))
            }
            // It was told with all that had left: only a file that has been opened since is to be closed, and one that was closed is done with.
            None => {
                if let Outcome::File(FileOutcome::Opened { file, .. }) = outcome {
                    send.file = Some(file);
                }
                None
            }
        };
        let Some(file) = send.file.take() else {
            self.sends.remove_at(index);
            return FileStep { told, next: None };
        };
        FileStep { told, next: Some((handle, FileOp::Close { file }.into())) }
    }
}

impl FileSends<Handle> {
    /// Takes the ends of steps out of `completions`, from the place `first` on. Ends of whole operations take their places; `pushed` gets the next steps.
    pub fn take_all(&mut self, first: usize, completions: &mut Vec<Completion>, pushed: &mut Vec<(Handle, Op)>) {
        let mut at = first;
        while at < completions.len() {
            if !Self::is_step(completions[at].handle) {
                at += 1;
                continue;
            }
            let completion = completions.remove(at);
            // Memory that a step has lent is not used again.
            if matches!(completion.outcome, Outcome::Released) {
                continue;
            }
            let FileStep { told, next } = self.take(completion.handle, completion.outcome);
            if let Some((handle, _, outcome)) = told {
                completions.insert(at, Completion::last(handle, outcome.into()));
            }
            pushed.extend(next);
        }
    }
}

impl<A> FileSend<A> {
    /// The step behind one that ended so; none behind the last. Or why it cannot go on.
    fn go_on(&mut self, outcome: Outcome) -> Result<Option<Op>, Fault> {
        let socket = self.socket;
        match outcome {
            Outcome::File(FileOutcome::Opened { file, facts }) => {
                self.length = facts.length;
                self.file = Some(file.clone());
                match (facts.is_far, self.sync) {
                    (true, _) => Err(Fault::of(Reason::Unsupported)),
                    (false, true) => Ok(Some(FileOp::Sync { file }.into())),
                    (false, false) => Ok(self.window()),
                }
            }
            Outcome::File(FileOutcome::Done) => Ok(self.window()),
            Outcome::File(FileOutcome::Warm { bytes, .. }) => Ok(self.part(bytes)),
            Outcome::Stream(StreamOutcome::Sent { bytes, rest, fault }) => {
                self.sent += bytes as u64;
                match fault {
                    Some(fault) => Err(fault),
                    None if rest.is_empty() => Ok(self.window()),
                    None => Ok(Some(StreamOp::Send { socket, chain: rest }.into())),
                }
            }
            Outcome::Failed(fault) => Err(fault),
            other => unreachable!("no step brings {other:?}"),
        }
    }

    /// Bytes that are to be brought and sent next.
    fn due(&self) -> u64 {
        assert!(self.sent <= self.length, "no more is sent than the file held");
        WINDOW_BYTES.min(self.length - self.sent)
    }

    fn window(&self) -> Option<Op> {
        let (file, length) = (self.file.clone()?, self.due());
        (length > 0).then(|| FileOp::Warm { file, offset: self.sent, length }.into())
    }

    /// Bytes that were brought leave. Of a file that has become shorter all is sent that was promised: that fails behind its end.
    fn part(&self, bytes: u64) -> Option<Op> {
        let length = if bytes == 0 { self.due() } else { bytes.min(self.due()) };
        let mut chain = Chain::new();
        chain.push(FilePart { file: self.file.clone()?, offset: self.sent, length });
        Some(StreamOp::Send { socket: self.socket, chain }.into())
    }

    fn outcome(&self, fault: Option<Fault>) -> StreamOutcome {
        StreamOutcome::FileSent { bytes: self.sent, length: self.length, fault }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::FileFacts;
    use std::time::Duration;

    const ASKER: Handle = Handle::new(1, 2, 3);
    const SOCKET: Socket = Socket { index: 4, generation: 5 };
    const BROKEN: Fault = Fault { reason: Reason::Other, number: 5 };

    struct Case {
        sends: FileSends<Handle>,
        step: Handle,
        op: Option<Op>,
        told: Vec<StreamOutcome>,
    }

    impl Case {
        fn new(sync: bool) -> Self {
            let mut sends = FileSends::default();
            let (step, op) = sends.begin(ASKER, SOCKET, (None, "file".into()), sync);
            assert!(sends.is_of(SOCKET) && FileSends::<Handle>::is_step(step) && !FileSends::<Handle>::is_step(ASKER));
            Self { sends, step, op: Some(op.into()), told: Vec::new() }
        }

        /// The step under way ends so.
        fn end(&mut self, outcome: impl Into<Outcome>) -> &mut Self {
            let (mut completions, mut pushed) = (vec![Completion::last(self.step, outcome.into())], Vec::new());
            self.sends.take_all(0, &mut completions, &mut pushed);
            for completion in completions {
                assert_eq!(completion.handle, ASKER);
                let Outcome::Stream(outcome) = completion.outcome else { panic!("{:?}", completion.outcome) };
                self.told.push(outcome);
            }
            self.op = pushed.pop().map(|(step, op)| {
                assert_eq!((step, pushed.len()), (self.step, 0));
                op
            });
            self
        }

        fn open(&mut self, length: u64, is_far: bool) -> &mut Self {
            assert!(matches!(self.op, Some(Op::File(FileOp::Open { beneath: None, .. }))), "{:?}", self.op);
            let facts = FileFacts::of_file(length, Duration::ZERO).far(is_far);
            self.end(FileOutcome::Opened { file: File::new(7, 7), facts })
        }

        fn warm(&mut self, at: u64, asked: u64, bytes: u64) -> &mut Self {
            let Some(Op::File(FileOp::Warm { offset, length, .. })) = self.op else { panic!("{:?}", self.op) };
            assert_eq!((offset, length), (at, asked));
            self.end(FileOutcome::Warm { bytes, was_cold: false, length, modified: Duration::ZERO })
        }

        /// So many of the bytes asked for are taken.
        fn send(&mut self, at: u64, asked: u64, bytes: usize, fault: Option<Fault>) -> &mut Self {
            let Some(Op::Stream(StreamOp::Send { socket: SOCKET, mut chain })) = self.op.take() else { panic!("no send") };
            let part = chain.segments().next().cloned();
            assert!(
                matches!(part, Some(crate::Segment::File(FilePart { offset, length, .. })) if (offset, length) == (at, asked))
            );
            chain.skip(bytes);
            self.end(StreamOutcome::Sent { bytes, rest: chain, fault })
        }

        /// It has been told so, and the file is closed behind it.
        fn ended(&mut self, bytes: u64, length: u64, fault: Option<Fault>) {
            let told = std::mem::take(&mut self.told);
            let [StreamOutcome::FileSent { bytes: sent, length: of, fault: why }] = told[..] else { panic!("{told:?}") };
            assert_eq!((sent, of, why), (bytes, length, fault));
            assert!(!self.sends.is_of(SOCKET));
            if let Some(op) = self.op.take() {
                assert!(matches!(op, Op::File(FileOp::Close { .. })), "{op:?}");
                assert!(!self.sends.is_empty());
                self.end(FileOutcome::Done);
            }
            assert!(self.sends.is_empty() && self.op.is_none() && self.told.is_empty(), "nothing is left, and it ends once");
        }
    }

    #[test]
    fn a_file_leaves_window_by_window() {
        let mut case = Case::new(false);
        case.open(WINDOW_BYTES + 10, false).warm(0, WINDOW_BYTES, WINDOW_BYTES);
        case.send(0, WINDOW_BYTES, 5, None).send(5, WINDOW_BYTES - 5, WINDOW_BYTES as usize - 5, None);
        case.warm(WINDOW_BYTES, 10, 4).send(WINDOW_BYTES, 4, 4, None).warm(WINDOW_BYTES + 4, 6, 6);
        case.send(WINDOW_BYTES + 4, 6, 6, None).ended(WINDOW_BYTES + 10, WINDOW_BYTES + 10, None);
    }

    #[test]
    fn what_is_asked_for_is_brought_to_the_disk_before_a_byte_leaves() {
        let mut case = Case::new(true);
        case.open(3, false);
        assert!(matches!(case.op, Some(Op::File(FileOp::Sync { .. }))));
        case.end(FileOutcome::Done).warm(0, 3, 3).send(0, 3, 3, None).ended(3, 3, None);
        let mut case = Case::new(true);
        case.open(3, false).end(Outcome::Failed(BROKEN)).ended(0, 3, Some(BROKEN));
    }

    #[test]
    fn an_empty_file_is_sent_at_once() {
        Case::new(false).open(0, false).ended(0, 0, None);
    }

    #[test]
    fn whatever_fails_ends_it_with_what_was_sent() {
        Case::new(false).end(Outcome::Failed(BROKEN)).ended(0, 0, Some(BROKEN));
        Case::new(false).open(9, true).ended(0, 9, Some(Fault::of(Reason::Unsupported)));
        Case::new(false).open(9, false).end(Outcome::Failed(BROKEN)).ended(0, 9, Some(BROKEN));
        Case::new(false).open(9, false).warm(0, 9, 9).send(0, 9, 2, Some(BROKEN)).ended(2, 9, Some(BROKEN));
    }

    #[test]
    fn of_a_file_that_became_shorter_all_is_sent_that_was_promised() {
        let mut case = Case::new(false);
        case.open(9, false).warm(0, 9, 0).send(0, 9, 0, Some(BROKEN)).ended(0, 9, Some(BROKEN));
    }

    #[test]
    fn a_close_ends_it_at_once_wherever_it_is() {
        let mut case = Case::new(false);
        let told = |case: &mut Case| {
            let (asker, outcome) = case.sends.cancel(SOCKET, []).unwrap();
            assert!(asker == ASKER && case.sends.cancel(SOCKET, []).is_none());
            case.told.push(outcome);
        };
        told(&mut case);
        case.open(9, false).ended(0, 0, Some(Fault::CANCELLED));
        let mut case = Case::new(false);
        told(&mut case);
        case.end(Outcome::Failed(BROKEN)).ended(0, 0, Some(Fault::CANCELLED));
        let mut case = Case::new(false);
        case.open(9, false);
        told(&mut case);
        case.warm(0, 9, 9).ended(0, 9, Some(Fault::CANCELLED));
        let mut case = Case::new(false);
        case.open(9, false).warm(0, 9, 9).send(0, 9, 4, None);
        told(&mut case);
        case.send(4, 5, 0, Some(Fault::CANCELLED)).ended(4, 9, Some(Fault::CANCELLED));
    }

    /// What has left in the turn of the close counts, and a file that has left whole by then was sent.
    #[test]
    fn a_close_tells_of_what_has_left_by_then() {
        for (sent, fault) in [(0, Some(Fault::CANCELLED)), (5, Some(Fault::CANCELLED)), (9, None)] {
            let mut case = Case::new(false);
            case.open(9, false).warm(0, 9, 9);
            let ended =
                |handle, bytes| Completion::last(handle, StreamOutcome::Sent { bytes, rest: Chain::new(), fault: None }.into());
            let others = [ended(ASKER, 1), Completion::last(case.step, Outcome::Released)];
            let mine = ended(case.step, sent);
            let (_, outcome) = case.sends.cancel(SOCKET, others.iter().chain([&mine])).unwrap();
            case.told.push(outcome);
            case.send(0, 9, sent, None).ended(sent as u64, 9, fault);
        }
    }

    /// A peer that breaks off in the turn of the close ends it with that, and with what had left.
    #[test]
    fn a_close_tells_of_what_broke_before_it() {
        for bytes in [0, 4, 9] {
            let mut case = Case::new(false);
            case.open(9, false).warm(0, 9, 9);
            let broken = StreamOutcome::Sent { bytes, rest: Chain::new(), fault: Some(BROKEN) };
            let untold = [Completion::last(case.step, broken.into())];
            let (_, outcome) = case.sends.cancel(SOCKET, &untold).unwrap();
            case.told.push(outcome);
            case.send(0, 9, bytes, Some(BROKEN)).ended(bytes as u64, 9, Some(BROKEN));
        }
    }

    /// More may be brought than was asked for, as whole pages are.
    #[test]
    fn no_more_is_sent_than_the_window() {
        let mut case = Case::new(false);
        case.open(WINDOW_BYTES + 10, false).warm(0, WINDOW_BYTES, WINDOW_BYTES + 4096);
        case.send(0, WINDOW_BYTES, WINDOW_BYTES as usize, None).warm(WINDOW_BYTES, 10, 4096);
        case.send(WINDOW_BYTES, 10, 10, None).ended(WINDOW_BYTES + 10, WINDOW_BYTES + 10, None);
    }

    /// Another connection's send begins while the last step of one that was closed is under way: each ends by its own steps.
    #[test]
    fn a_step_that_is_late_is_of_no_other_send() {
        let mut case = Case::new(false);
        let (_, outcome) = case.sends.cancel(SOCKET, []).unwrap();
        assert!(matches!(outcome, StreamOutcome::FileSent { bytes: 0, fault: Some(Fault::CANCELLED), .. }));
        let next = Socket { index: 4, generation: 6 };
        let (step, op) = case.sends.begin(ASKER, next, (None, "other".into()), false);
        assert!(step != case.step && case.sends.is_of(next) && !case.sends.is_of(SOCKET));
        // The late one is told to nobody, and its file is closed.
        case.open(9, false);
        assert!(case.told.is_empty() && matches!(case.op, Some(Op::File(FileOp::Close { .. }))), "{:?}", case.op);
        case.end(FileOutcome::Done);
        assert!(case.op.is_none() && case.sends.is_of(next));
        (case.step, case.op) = (step, Some(op.into()));
        case.open(0, false);
        assert!(matches!(case.told[..], [StreamOutcome::FileSent { bytes: 0, length: 0, fault: None }]), "{:?}", case.told);
        case.end(FileOutcome::Done);
        assert!(case.sends.is_empty());
    }

    #[test]
    fn what_is_no_step_stays_in_its_place() {
        let mut case = Case::new(false);
        let other = || Completion::failed(ASKER, BROKEN);
        let released = Completion::last(case.step, Outcome::Released);
        let mut completions =
            vec![Completion::failed(case.step, BROKEN), other(), Completion::failed(case.step, BROKEN), released, other()];
        case.sends.take_all(2, &mut completions, &mut Vec::new());
        let handles: Vec<_> = completions.iter().map(|completion| completion.handle).collect();
        assert_eq!(handles, [case.step, ASKER, ASKER, ASKER]);
        assert!(matches!(completions[2].outcome, Outcome::Stream(StreamOutcome::FileSent { .. })));
    }
}
