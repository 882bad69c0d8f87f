#![no_main]

#[path = "../../tests/wire/parsers.rs"]
#[allow(dead_code)] // each target runs one of the parsers
mod parsers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| parsers::dhcpv6(bytes));
