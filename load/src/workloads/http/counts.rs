//! What is counted of answers.

/// All that is; a status class has its first digit less one as its place.
pub const COUNTS: &[&str] = &[
    "status_1xx",
    "status_2xx",
    "status_3xx",
    "status_4xx",
    "status_5xx",
    "redirects",
    "head_bytes",
    "content_bytes",
    "trailer_bytes",
];

// The places of the others in `COUNTS`.
pub const REDIRECTS: usize = 5;
pub const HEAD_BYTES: usize = 6;
pub const CONTENT_BYTES: usize = 7;
pub const TRAILER_BYTES: usize = 8;
