//! What a program and a lane tell each other of a direction.

/// What the program counts of a direction, and nobody else writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counted {
    /// Bytes that went on to the other connection.
    pub redirected: u64,
    /// Bytes that went to the lane, which passes them on.
    pub passed: u64,
    /// How often the lane was told that there are some.
    pub rung: u64,
    /// How many pieces the redirected bytes were in.
    pub pieces: u64,
}

/// What a lane says of a direction to the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Say {
    /// Of the bytes that went to the lane, so many were given to the other connection. Only if they are all of them does the program redirect.
    pub done: u64,
    /// So many bytes it may redirect in all.
    pub until: u64,
    /// So many of its calls were heard.
    pub heard: u64,
}
