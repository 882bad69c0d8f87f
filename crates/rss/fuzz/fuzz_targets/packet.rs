#![no_main]

#[path = "../packet.rs"]
mod packet;

libfuzzer_sys::fuzz_target!(|data: &[u8]| packet::target(data));
