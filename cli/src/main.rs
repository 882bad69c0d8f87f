//! Placeholder of the program, filled in by the commits that follow.

fn main() {}
