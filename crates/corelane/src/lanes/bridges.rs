//! Whether the kernel can be had to pass on bytes of pairs ([`Cx::bridge`](crate::Cx::bridge)).

use crate::admin::messages::Degraded;
use crate::lanes::builder::Lanes;
use corelane_seam::{Record, Tuning};

impl Lanes {
    /// A service asks for bridges ([`Cx::bridge`](crate::Cx::bridge)): each lane makes one, for [`DriverSettings::BRIDGED_PAIRS`](crate::lanes::DriverSettings::BRIDGED_PAIRS) pairs unless the settings of its driver say how many. That
    /// takes CAP_BPF and CAP_NET_ADMIN. Without them the lanes pass all bytes on themselves, and a note says so.
    pub fn bridging(mut self) -> Self {
        self.bridges = true;
        self
    }
}

/// The settings of drivers, with as many pairs as are to be bridged.
pub(crate) fn settings(lanes: &Lanes) -> Tuning {
    let settings = lanes.driver_settings;
    match settings.bridged_pairs_max {
        _ if !lanes.bridges => settings.bridged_pairs_max(0),
        0 => settings.bridged_pairs_max(Tuning::BRIDGED_PAIRS),
        _ => settings,
    }
}

/// Tries it, where a service asks for it. Returns what lanes do without.
pub(crate) fn note(lanes: &Lanes) -> Option<Record> {
    let why = lanes.bridges.then(corelane_drivers::probe_bridge)?.err()?;
    Some(Degraded::NoBridge.note(format_args!(
        "the kernel passes on no bytes by itself, and lanes pass on all: {why}; it takes CAP_BPF and CAP_NET_ADMIN, and Linux 6.16"
    )))
}
