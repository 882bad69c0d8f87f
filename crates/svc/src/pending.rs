//! What services have under way beside their connections: operations and files, timers, alarms, nudges.

pub(crate) mod alarms;
pub(crate) mod nudge;
pub(crate) mod requests;
pub(crate) mod timers;
