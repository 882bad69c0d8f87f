#![no_main]

#[path = "../../tests/reassembly/steps.rs"]
mod steps;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| steps::run(bytes));
