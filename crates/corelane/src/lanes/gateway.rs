//! A gateway of lanes, as a program describes it ([`Lanes::gateway`](crate::Lanes::gateway)): its ports with their networks, its routes, and its rules.

pub use crate::lanes::frames::{At, Gateway, NoGateway, Port};
pub use corelane_isr::polling::{Change as PollingChange, ChangeError as PollingChangeError};
pub use corelane_nat as nat;
pub use corelane_rules as rules;
pub use corelane_stack::{Advertised, InterfaceSettings, MssClamp, NatSettings, Network, NoTags, ReversePath, Route, Tags};
