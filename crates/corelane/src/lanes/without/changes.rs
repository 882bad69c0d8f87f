//! No lane has packets of which something could be changed.

use crate::lanes::frames::Placing;
use crate::lanes::receiving::UserFraction;

pub(crate) fn change(_: Option<&Placing>, _: Option<&UserFraction>, _: &str) -> Result<String, String> {
    Err("no lane of this process has packets: its program was built without the feature \"packets\" of corelane".to_owned())
}
