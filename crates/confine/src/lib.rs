//! A program that serves gives up to be root, the files that it does not need, and the calls that it never makes.
//!
//! ```text
//! root        --user::User-------> another user, on every thread, with no way back
//! one thread  --paths::restrict--> landlock(7): inherited by all threads that are started later
//! all threads --calls::restrict--> seccomp(2): given to every thread at once (SECCOMP_FILTER_FLAG_TSYNC)
//! a ring      --by its driver----> restricted before it is enabled: seccomp does not see what a ring does, landlock does
//! ```
//!
//! What is not allowed fails with EPERM, or EACCES; nobody is killed. Nothing of it can be taken back.
#![forbid(unsafe_code)]

pub mod calls;
pub mod paths;
pub mod user;
