//! Empty forms of what features bring, under the same names: so whoever uses a part is written once, whether the part is there or not.
//!
//! A type without a value stands for what such a program never has. No function of it can be called, and little is compiled of any.

#[cfg(not(feature = "control"))]
pub(crate) mod asked;
#[cfg(all(feature = "control", not(feature = "packets")))]
pub(crate) mod changes;
#[cfg(not(feature = "packets"))]
pub(crate) mod frames;
#[cfg(not(feature = "packets"))]
pub(crate) mod live_gateway;
#[cfg(not(feature = "packets"))]
pub(crate) mod receiving;
#[cfg(not(feature = "profile"))]
pub(crate) mod stalls;
#[cfg(not(feature = "take-over"))]
pub(crate) mod take_over;
#[cfg(any(test, not(feature = "uring")))]
#[cfg_attr(feature = "uring", allow(dead_code))] // tests try what is chosen without it
pub(crate) mod uring;

#[cfg(any(not(feature = "profile"), not(feature = "take-over")))]
use crate::error::Error;

/// That a setting needs a feature which this program was built without.
#[cfg(any(not(feature = "profile"), not(feature = "take-over")))]
fn lacking(name: &'static str, feature: &str) -> Error {
    Error::Setting { name, why: format!("this program was built without it: build it with the feature {feature:?} of corelane") }
}
