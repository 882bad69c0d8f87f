//! Nobody asks a running process anything: it has no control socket.

use crate::error::Error;
use crate::lanes::frames::Placing;
use crate::lanes::live_gateway::LiveGateway;
use crate::lanes::live_services::LiveServices;
use crate::lanes::receiving::UserFraction;
use crate::lanes::take_over::Giver;
use corelane_steer::Steered;
use std::path::Path;
use std::sync::Arc;

pub(crate) enum ControlSocket {}

pub(crate) fn open(
    _: &Path,
    _: Giver,
    _: Arc<Steered>,
    _: (Option<Arc<Placing>>, Option<LiveGateway>),
    _: Option<UserFraction>,
    _: LiveServices,
) -> Result<Option<ControlSocket>, Error> {
    Ok(None)
}
