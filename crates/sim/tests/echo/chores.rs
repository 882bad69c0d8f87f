//! What a lane does beside the network: a file, an offloaded call, a poll, and cancelled operations.

use super::service::{CHORE, Found};
use corelane_seam::{
    Arena, Driver, File, FileOp, FileOutcome, Handle, Interest, OffloadWork, Op, OpenOptions, Outcome, StreamOp, StreamOptions,
    StreamOutcome,
};
use corelane_sim::{SimDriver, World};

const CONTENT: &[u8] = b"what is written is read again";
const FILE: u32 = 0;
const CLOSE_FILE: u32 = 1;
const OFFLOAD: u32 = 2;
const POLL: u32 = 3;
const CANCELLED_POLL: u32 = 4;
const CANCELLED_CONNECT: u32 = 5;
const CLOSE_SOCKET: u32 = 6;

pub struct Chores {
    world: World,
    /// Descriptors that are polled, until all is done.
    polled: Vec<i32>,
    file: Option<File>,
    left: u32,
}

impl Chores {
    pub fn new(world: &World, driver: &mut SimDriver, arena: &Arena) -> Self {
        assert!(arena.has(CONTENT.len()));
        let read = Interest { read: true, write: false };
        let lane = driver.lane();
        let polled @ [ready, idle] = [(); 2].map(|()| world.open_foreign(lane).unwrap());
        world.set_ready(lane, ready, read);
        let path = format!("lane-{}", driver.lane()).into();
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true);
        let to = "127.0.0.1:7".parse().unwrap();
        let ops = [
            (FILE, Op::File(FileOp::Open { beneath: None, path, options })),
            (OFFLOAD, Op::Offload(OffloadWork(Box::new(|| Box::new(6 * 7))))),
            (POLL, Op::Poll { descriptor: ready, interest: read }),
            (CANCELLED_POLL, Op::Poll { descriptor: idle, interest: read }),
            (CANCELLED_CONNECT, Op::Stream(StreamOp::Connect { to, from: None, options: StreamOptions::default() })),
        ];
        let left = ops.len() as u32;
        ops.into_iter().for_each(|(index, op)| driver.push(handle(index), op));
        for index in [CANCELLED_POLL, CANCELLED_CONNECT] {
            driver.push(handle(15), Op::Cancel { target: handle(index) });
        }
        Self { world: world.clone(), polled: polled.to_vec(), file: None, left }
    }

    pub fn are_done(&self) -> bool {
        self.left == 0
    }

    pub fn react(&mut self, driver: &mut SimDriver, arena: &Arena, from: Handle, outcome: Outcome) -> Found<()> {
        match (from.index(), outcome) {
            (FILE, outcome) => return self.file_event(driver, arena, outcome),
            (OFFLOAD, Outcome::Offloaded(result)) if result.0.downcast_ref() == Some(&42) => {}
            (POLL, Outcome::Ready { interest: Interest { read: true, write: false } }) => {}
            (CANCELLED_POLL | CANCELLED_CONNECT, Outcome::Failed(_)) => {}
            // The connection was open before the cancelling took effect.
            (CANCELLED_CONNECT, Outcome::Stream(StreamOutcome::Connected { socket, .. })) => {
                driver.push(handle(CLOSE_SOCKET), Op::Close { socket, reset: true });
                return Ok(());
            }
            (CLOSE_SOCKET, Outcome::Closed) | (CLOSE_FILE, Outcome::File(FileOutcome::Done)) => {}
            (index, outcome) => return Err(format!("chore {index} ended as {outcome:?}")),
        }
        self.done(driver.lane(), "a chore ended twice")
    }

    fn done(&mut self, lane: usize, twice: &str) -> Found<()> {
        self.left = self.left.checked_sub(1).ok_or(twice)?;
        if self.left == 0 {
            self.polled.drain(..).for_each(|descriptor| self.world.close_foreign(lane, descriptor));
        }
        Ok(())
    }

    /// The file is opened, written, brought to the disk, read, and closed; a fault cuts that short.
    fn file_event(&mut self, driver: &mut SimDriver, arena: &Arena, outcome: Outcome) -> Found<()> {
        if let Outcome::File(FileOutcome::Opened { file, .. }) = outcome {
            self.file = Some(file.clone());
            let bytes = arena.copy_of(CONTENT).ok_or("no memory")?.share();
            driver.push(handle(FILE), Op::File(FileOp::Write { file, offset: 0, bytes }));
            return Ok(());
        }
        let Some(file) = self.file.clone() else {
            return self.done(driver.lane(), "the opening failed twice");
        };
        let op = match outcome {
            Outcome::File(FileOutcome::Written { bytes }) if bytes == CONTENT.len() => {
                Op::File(FileOp::Sync { file: file.clone() })
            }
            Outcome::File(FileOutcome::Done) => {
                let lease = arena.lease(CONTENT.len()).ok_or("no memory")?;
                Op::File(FileOp::Read { file: file.clone(), offset: 0, lease, until: CONTENT.len() })
            }
            Outcome::File(FileOutcome::Filled { lease, fault: None }) if lease.is_empty() || !CONTENT.starts_with(&lease) => {
                return Err(format!("the file reads as {:?}", &lease[..]));
            }
            Outcome::File(FileOutcome::Filled { .. }) | Outcome::Failed(_) => {
                driver.push(handle(CLOSE_FILE), Op::File(FileOp::Close { file: file.clone() }));
                return Ok(());
            }
            other => return Err(format!("work on a file ended as {other:?}")),
        };
        driver.push(handle(FILE), op);
        Ok(())
    }
}

fn handle(index: u32) -> Handle {
    Handle::new(CHORE, index, 0)
}
