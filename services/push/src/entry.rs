//! The service as it declares itself.

use crate::discard::Discard;
use crate::push::{Push, SIZE_DEFAULT, SIZE_MAX};
use corelane::service::entry::choice::{BYTES, Choice, Number, OneOf, Text};
use corelane::service::entry::{Asked, Entry, Scheme};
use corelane::{Lanes, Result};

/// Where it is served unless said otherwise.
pub const DEFAULT_PORT: u16 = 1_667;

const SIZE: Number = Number::new("size", BYTES, "bytes that are sent at once").between(1, SIZE_MAX as u64, SIZE_DEFAULT as u64);

const FILE: Text = Text::new("file", "FILE", named, "send this file, over and over, in place of memory").reading();

const MEMORY: OneOf = OneOf::new(
    "memory",
    "KIND",
    &["auto", "lane", "sealed"],
    "where the bytes lie: the lane's own memory, or a sealed file, whose pages the receiver may be given; auto seals what is sent in pieces of 32 KiB and more",
);

/// From this size on a piece leaves without a copy from sealed memory; shorter ones cost less to copy, and drivers do.
const SEALED_SIZE_LEAST: usize = 32 << 10;

/// Push over connections; datagrams are dropped.
pub static ENTRY: Entry = Entry::new(
    "push",
    "sends to each client without end, and drops datagrams",
    &[
        Scheme::connections::<Push>("tcp", DEFAULT_PORT, connections).options(&[
            Choice::Number(SIZE),
            Choice::OneOf(MEMORY),
            Choice::Text(FILE),
        ]),
        Scheme::datagrams::<Discard>("udp", DEFAULT_PORT, datagrams),
    ],
);

fn named(path: &str) -> std::result::Result<(), String> {
    if path.is_empty() { Err("names no file: write file=PATH".to_owned()) } else { Ok(()) }
}

fn connections(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    let (url, size) = (asked.url().to_string(), asked.chosen().number(&SIZE) as usize);
    if let Some(path) = asked.chosen().text(&FILE).map(str::to_owned) {
        if asked.chosen().has(MEMORY.name) {
            return Err(asked.refuse(MEMORY.name, "a file is sent in place of memory: leave one of them out"));
        }
        return lanes.serve(&url, move |_lane| Push::file(size, path.clone().into()));
    }
    let sealed = match asked.chosen().one_of(&MEMORY) {
        "auto" => size >= SEALED_SIZE_LEAST,
        kind => kind == "sealed",
    };
    lanes.serve(&url, move |_lane| if sealed { Push::sealed(size) } else { Push::memory(size) })
}

fn datagrams(lanes: Lanes, asked: &Asked) -> Result<Lanes> {
    lanes.serve_datagrams(&asked.url().to_string(), |_lane| Discard)
}
