//! Which packets leave, and what they are like then.
