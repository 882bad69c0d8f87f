#![no_main]

#[path = "../text.rs"]
mod text;

libfuzzer_sys::fuzz_target!(|data: &[u8]| text::target(data));
