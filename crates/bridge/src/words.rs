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
    /// The place in the stream at which the next piece begins, as TCP numbers it, if one has come.
    pub next: u32,
    /// 1 from the first piece on.
    pub is_placed: u32,
    /// 1 once the end has come: TCP counts it like a byte.
    pub ends: u32,
    /// 1 once a piece was not what it should be: from that on nothing is redirected, and what passes may be wrong.
    pub is_spoiled: u32,
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
    /// In so many pieces it may redirect in all.
    pub until_pieces: u64,
}
