//! What a program that serves may still do: which files it may open, and which calls it may make, on every thread.
//!
//! ```text
//! one thread  --paths::restrict--> landlock(7): inherited by all threads that are started later
//! all threads --calls::restrict--> seccomp(2): given to every thread at once (SECCOMP_FILTER_FLAG_TSYNC)
//! a ring      --by its driver----> restricted before it is enabled: seccomp does not see what a ring does, landlock does
//! ```
//!
//! What is not allowed fails with EPERM, or EACCES; nobody is killed. Nothing of it can be taken back.

pub mod calls;
pub mod paths;
