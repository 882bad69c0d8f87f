//! The driver on epoll(7): readiness, and plain calls that move as much as they can.

pub(crate) mod poller;
