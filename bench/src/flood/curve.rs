//! The livelock curve as a plot.

use anyhow::Result;

use super::Curves;

/// Writes it.
pub fn write(_curves: &Curves) -> Result<()> {
    Ok(())
}
