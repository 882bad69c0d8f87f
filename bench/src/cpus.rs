//! Which CPU is whose.

/// The CPU that servers run on; the generator has [`GENERATOR_CPU`] to itself.
pub const SERVER_CPU: usize = 0;

/// The CPU of the generator.
pub const GENERATOR_CPU: usize = 1;
