//! What services say to themselves on other lanes.

use corelane_lane::{Kit, fenced};
use std::any::Any;

/// What a service says to itself on another lane.
pub struct Message {
    /// The service: its number, in the order in which services were added.
    pub(crate) service: u16,
    pub(crate) value: Box<dyn Any + Send>,
}

/// Drops a message for a service that this lane has not, and says so.
pub(crate) fn foreign(kit: &mut Kit, from: usize, message: Message) {
    let (lane, service) = (kit.lane(), message.service);
    let panic = fenced(|| drop(message)).err().map_or(String::new(), |words| format!("; it panicked as it was dropped: {words}"));
    kit.report_kind(
        "messages to no service",
        &format!(
            "lane {lane}: a message from lane {from} was for service {service}, which is not here: give all lanes the same{panic}"
        ),
    );
}
