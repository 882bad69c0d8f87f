//! A lane waits at an event queue: `watching DIRECTORY` prints what is new in it.
use corelane::aio::{self, Lane};
use corelane::service::{Interest, Outcome};
use corelane::{Lanes, Result};
use corelane_event::{Change, Event, Events, Happened, notes};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// Calls `tell` with the name of each new entry of `directory`, from within the lane.
pub async fn watch(lane: &Lane, directory: &File, mut tell: impl FnMut(OsString)) -> io::Result<()> {
    let queue = Events::new()?;
    queue.change(&Change::changed(directory.as_fd(), notes::NAMES))?;
    let mut events = [Event::BLANK; 4];
    loop {
        queue.next(&mut events, async |queue| readable(lane, queue).await).await?;
        let (names, _lost) = queue.names(directory.as_raw_fd(), usize::MAX)?;
        let new = names.into_iter().filter(|named| named.what == Happened::Created);
        new.for_each(|named| tell(named.name));
    }
}

/// Waits until a descriptor is readable, while the lane serves others.
async fn readable(lane: &Lane, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let (number, interest) = (descriptor.as_raw_fd(), Interest { read: true, write: false });
    match lane.operation(move |cx, token| cx.poll(number, interest, token)).await {
        Outcome::Failed(fault) => Err(io::Error::other(fault.to_string())),
        _ => Ok(()),
    }
}

fn main() -> Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let start = move |_| {
        let directory = directory.clone();
        aio::main(async move |lane: Lane| -> io::Result<()> {
            watch(&lane, &File::open(directory)?, |name| println!("{}", name.display())).await
        })
    };
    Lanes::per_core().lanes(1).client(start).named("watching").run()
}
