//! The doorbell: how one lane, or a helper thread, wakes a lane that sleeps in its driver.

/// Wakes a lane that sleeps in its driver.
pub trait Bell: Send + Sync {
    /// Wakes the lane; cheap when it is awake; never blocks.
    fn ring(&self);
}
