//! The `corelane` program: [`corelane_commands`] alone, which is compiled for size. The code of all lanes is joined and optimised as this crate is compiled, which is for speed.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    corelane_commands::main()
}
