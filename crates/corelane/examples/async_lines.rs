//! `async fn` with the state of a lane: each line is answered with its number among all lines that the lane has had.
use corelane::aio::{self, Connection, Lane, Serve};
use corelane::{Lanes, Result};
use std::cell::Cell;
use std::rc::Rc;

/// Waits for a whole line, and returns its length. None if the stream has ended before.
async fn line(connection: &Connection) -> aio::Result<Option<usize>> {
    let mut there = 0;
    while connection.fill(there + 1).await? {
        let (end, length) = connection.input(|input| (input.position(b'\n'), input.len()));
        if let Some(end) = end {
            return Ok(Some(end + 1));
        }
        there = length;
    }
    Ok(None)
}

/// Answers each line with its number.
async fn number(lines: &Cell<u64>, connection: &Connection) -> aio::Result<()> {
    while let Some(length) = line(connection).await? {
        connection.input(|input| input.skip(length));
        connection.count_requests(1);
        lines.set(lines.get() + 1);
        connection.write(format!("{}\n", lines.get()).as_bytes()).await?;
    }
    Ok(())
}

/// The service of one lane.
pub fn numbers() -> Serve {
    let lines = Rc::new(Cell::new(0));
    aio::each(async move |_lane: Lane, connection: Connection| number(&lines, &connection).await)
}

fn main() -> Result<()> {
    Lanes::per_core().serve("tcp://127.0.0.1:7007", |_lane| numbers())?.run()
}
