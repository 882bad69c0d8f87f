//! The service as it declares itself.

use crate::discard::Discard;
use crate::push::{Push, SIZE_DEFAULT, SIZE_MAX};
use corelane::service::entry::choice::{BYTES, Choice, Number, Text};
use corelane::service::entry::{Asked, Entry, Scheme};
use corelane::{Lanes, Result};

/// Where it is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 1_667;

const SIZE: Number = Number::new("size", BYTES, "bytes that are sent at once").between(1, SIZE_MAX as u64, SIZE_DEFAULT as u64);

const FILE: Text = Text::new("file", "FILE", named, "send this file, over and over, in place of memory").reading();

/// Push over connections; datagrams are dropped.
pub static ENTRY: Entry = Entry::new(
    "push",
    "sends to each client without end, and drops datagrams",
    &[
        Scheme::connections::<Push>("tcp", DEFAULT_PORT, connections).options(&[Choice::Number(SIZE), Choice::Text(FILE)]),
        Scheme::datagrams::<Discard>("udp", DEFAULT_PORT, datagrams),
    ],
);

fn named(path: &str) -> std::result::Result<(), String> {
    if path.is_empty() { Err("names no file: write file=PATH".to_owned()) } else { Ok(()) }
}

fn connections(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let (url, size) = (asked.url().to_string(), asked.chosen().number(&SIZE) as usize);
    match asked.chosen().text(&FILE).map(str::to_owned) {
        Some(path) => lanes.serve(&url, move |_lane| Push::file(size, path.clone().into())),
        None => lanes.serve(&url, move |_lane| Push::memory(size)),
    }
}

fn datagrams(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    lanes.serve_datagrams(&asked.url().to_string(), |_lane| Discard)
}
