//! A directory that a lane watches while it makes a file there, and one that it stops to watch.

use super::service::{Found, WATCHING};
use corelane_seam::{Driver, File, FileOp, FileOutcome, Handle, Op, OpenOptions, Outcome};
use corelane_sim::{SimDriver, World};

const OPEN: u32 = 0;
const MAKE: u32 = 1;
const WATCH: u32 = 2;
const LEFT: u32 = 3;
const CLOSE: u32 = 4;

pub struct Watching {
    directory: Option<File>,
    /// What has begun and not ended.
    under_way: u32,
    was_made: bool,
}

impl Watching {
    pub fn new(world: &World, driver: &mut SimDriver) -> Self {
        let path = format!("watched-{}", driver.lane());
        world.make_directory(&path);
        let options = OpenOptions::new().read(true).directory(true);
        driver.push(handle(OPEN), FileOp::Open { beneath: None, path: path.into(), options }.into());
        Self { directory: None, under_way: 1, was_made: false }
    }

    pub fn is_done(&self) -> bool {
        self.under_way == 0
    }

    pub fn react(&mut self, driver: &mut SimDriver, from: Handle, outcome: Outcome, more: bool) -> Found<()> {
        if more {
            return self.watched(driver, from.index(), &outcome);
        }
        self.under_way = self.under_way.checked_sub(1).ok_or("a watch ended twice")?;
        match (from.index(), outcome) {
            (OPEN, Outcome::File(FileOutcome::Opened { file, .. })) => {
                for index in [WATCH, LEFT] {
                    self.push(driver, index, FileOp::Watch { directory: file.clone() });
                }
                self.directory = Some(file);
            }
            (MAKE, Outcome::File(FileOutcome::Opened { file, .. })) => {
                self.was_made = true;
                self.push(driver, CLOSE, FileOp::Close { file });
            }
            // Nobody is told of what was not made.
            (MAKE, Outcome::Failed(_)) => driver.push(handle(15), Op::Cancel { target: handle(WATCH) }),
            (OPEN | WATCH, Outcome::Failed(_)) | (LEFT, Outcome::Failed(_) | Outcome::File(FileOutcome::Changed)) => {}
            (WATCH, Outcome::File(FileOutcome::Changed)) if self.was_made || self.under_way > 0 => {}
            (CLOSE, Outcome::File(FileOutcome::Done)) => {}
            (index, outcome) => return Err(format!("step {index} of watching ended as {outcome:?}")),
        }
        if self.under_way == 0
            && let Some(file) = self.directory.take()
        {
            self.push(driver, CLOSE, FileOp::Close { file });
        }
        Ok(())
    }

    fn watched(&mut self, driver: &mut SimDriver, index: u32, outcome: &Outcome) -> Found<()> {
        match (index, outcome, &self.directory) {
            (WATCH, Outcome::File(FileOutcome::Watched), Some(directory)) => {
                let options = OpenOptions::new().read(true).write(true).create(true);
                let beneath = Some(directory.clone());
                self.push(driver, MAKE, FileOp::Open { beneath, path: "file".into(), options });
            }
            (LEFT, Outcome::File(FileOutcome::Watched), _) => driver.push(handle(15), Op::Cancel { target: handle(LEFT) }),
            _ => return Err(format!("step {index} of watching went on as {outcome:?}")),
        }
        Ok(())
    }

    fn push(&mut self, driver: &mut SimDriver, index: u32, op: FileOp) {
        self.under_way += 1;
        driver.push(handle(index), op.into());
    }
}

fn handle(index: u32) -> Handle {
    Handle::new(WATCHING, index, 0)
}
