//! A running process at its control socket, where others ask and tell it things. Without the feature `control`, `without::asked` stands in its place.

mod operated;

use crate::admin::control;
use crate::admin::control_client::ControlError;
pub(crate) use crate::admin::control_socket::ControlSocket;
use crate::lanes::changes;
use crate::lanes::frames::Placing;
use crate::lanes::live_gateway::LiveGateway;
use crate::lanes::live_services::LiveServices;
use crate::lanes::receiving::UserFraction;
use crate::lanes::take_over::Giver;
use corelane_steer::Steered;
use std::path::Path;
use std::sync::Arc;

/// Opens the socket beside the page. Packets follow the table as sockets do.
pub(crate) fn open(
    page: &Path,
    giver: Giver,
    steered: Arc<Steered>,
    (packets, gateway): (Option<Arc<Placing>>, Option<LiveGateway>),
    receiving: Option<UserFraction>,
    services: LiveServices,
) -> Result<Option<ControlSocket>, ControlError> {
    let (giver, mut table) = (Arc::new(giver), steered.table());
    let answering = giver.clone();
    let answer = move |request: &str| {
        if control::is_of_packets(request) {
            return answering.unless_giving(true, || changes::change(packets.as_deref(), receiving.as_ref(), request));
        }
        if control::is_of_gateway(request) {
            let none = || Err("this process is no gateway: start one with `serve gateway=CONFIG.toml`".to_owned());
            return answering.unless_giving(true, || gateway.as_ref().map_or_else(none, |gateway| gateway.answer(request)));
        }
        if let Some(words) = control::of_services(request) {
            return answering.unless_giving(true, || operated::ask(&services, words));
        }
        let answer = answering.unless_giving(control::changes(request), || control::answer(&*steered, request));
        let now = steered.table();
        packets.iter().filter(|_| now != table).for_each(|placing| placing.follow(&now));
        table = now;
        answer
    };
    ControlSocket::open(page, answer, move |stream, asked| giver.serve(stream, asked)).map(Some)
}
