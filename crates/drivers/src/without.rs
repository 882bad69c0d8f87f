//! Empty forms of what features bring, under the same names: so whoever uses a part is written once, whether the part is there or not.

pub(crate) mod uring;
